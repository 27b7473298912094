//! What did an earlier run tell that the server refused, when that run has done all but give the database its name? Its journal
//! is gone by then, so the server is asked again: what only says something of an object (grants, comments, security labels) is
//! tried in a transaction that is rolled back, so that event triggers, which are live by now, leave nothing either.

use crate::Error;
use crate::client::Connection;
use crate::client::tried::{Refused, Statement, is_about_the_statement};
use crate::load::large_objects;
use crate::preflight::grantors;
use crate::restore::scope::Scope;
use crate::restore::set::Set;
use crate::schema::replica;
use crate::schema::toc::Entry;

impl Set {
    /// What the server refuses of what only says something of an object.
    pub(crate) async fn refused_of_what_is_said(
        &self,
        connection: &mut Connection,
        what: &Scope<'_>,
        superuser: bool,
    ) -> Result<Vec<Refused>, Error> {
        let mut refused = Vec::new();
        // Event triggers are live by now, and what they take of a sequence isn't given back.
        let unseen = replica::may(connection).await?;
        connection.execute("BEGIN").await?;
        if unseen {
            connection.execute("SET LOCAL session_replication_role = replica").await?;
        }
        let groups = self.groups(what, superuser);
        for group in groups.iter().filter(|group| !group.owned) {
            let script = self.statements(|entry| group.ids.contains(&entry.id), superuser);
            if let Some(cause) = tried(connection, &script, &group.what).await?
                && !self.is_said_already(connection, group).await?
            {
                refused.push((group.what.clone(), cause));
            }
        }
        if what.options.owners {
            let is_tried = |entry: &Entry| groups.iter().any(|group| group.ids.contains(&entry.id));
            let script = self.statements(|entry| entry.is_grant() && what.has(entry) && !is_tried(entry), superuser);
            // They went well: what the server passed over is a notice.
            refused.extend(tried(connection, &script, "grants").await?.map(|cause| ("grants".to_owned(), cause)));
        }
        if what.chosen.is_none() {
            for Statement { sql, gives } in large_objects::labels(&self.after.large_objects) {
                refused.extend(tried(connection, sql.as_bytes(), &gives).await?.map(|cause| (gives, cause)));
            }
        }
        connection.execute("ROLLBACK").await?;
        Ok(refused)
    }

    /// The statements of some entries, as the role runs them.
    fn statements(&self, wanted: impl Fn(&Entry) -> bool, superuser: bool) -> Vec<u8> {
        let entries = self.schema.entries.iter().filter(|entry| wanted(entry));
        let script: String = entries.map(|entry| format!("{}\n", entry.statement)).collect();
        if superuser { script.into_bytes() } else { grantors::by_set_role(script.into_bytes()) }
    }
}

/// Runs statements and takes them back; why the server refuses them or passes over some, if it does.
async fn tried(connection: &mut Connection, script: &[u8], about: &str) -> Result<Option<String>, Error> {
    if script.is_empty() {
        return Ok(None);
    }
    connection.execute("SAVEPOINT tried").await?;
    connection.not_granted = None;
    let script = std::str::from_utf8(script).map_err(|_| Error::Internal("a script that isn't text".to_owned()))?;
    let ran = connection.execute(script).await;
    let passed_over = connection.not_granted.take();
    connection.execute("ROLLBACK TO SAVEPOINT tried").await?;
    match ran {
        Ok(()) => Ok(passed_over),
        Err(error) if is_about_the_statement(&error) => Ok(Some(error.cause())),
        Err(error) => Err(error.about(about)),
    }
}
