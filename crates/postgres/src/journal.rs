//! Which steps of a restore are done: a table in the target, written in the transaction of each step, so that a restore
//! that was interrupted anywhere goes on, and does each step exactly once.
//!
//! A server that crashes empties its unlogged tables, whatever the journal says of them. So it has an unlogged table
//! itself, with a row: where that is gone, so are the rows of others.

use std::collections::BTreeSet;

use crate::Error;
use crate::client::quote::literal;
use crate::client::{Connection, Target};

/// The schema that holds the journal while a restore is under way.
pub(crate) const SCHEMA: &str = "seawall_restore";

/// The steps that are done.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    done: BTreeSet<String>,
    /// Whether the server crashed since it was begun, and emptied what is unlogged.
    crashed: bool,
}

/// Unlogged tables of users.
const UNLOGGED: &str = "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                        WHERE c.relpersistence = 'u' AND c.relkind = 'r' AND n.nspname <> ";

/// Whether a crash of the server would have emptied tables.
pub(crate) async fn has_unlogged_tables(connection: &mut Connection) -> Result<bool, Error> {
    let unlogged = format!("{UNLOGGED}{})", literal(SCHEMA));
    Ok(connection.one(&unlogged).await?.flag(0))
}

impl Journal {
    /// The journal of a restore of this title: begun, or found. `None` when there is another one's.
    pub(crate) async fn open(connection: &mut Connection, title: &str) -> Result<Option<Self>, Error> {
        let there = format!("SELECT 1 FROM pg_namespace WHERE nspname = {}", literal(SCHEMA));
        if connection.query(&there).await?.is_empty() {
            connection
                .execute(&format!(
                    "BEGIN; CREATE SCHEMA {SCHEMA}; CREATE TABLE {SCHEMA}.journal (step text PRIMARY KEY); \
                     INSERT INTO {SCHEMA}.journal VALUES ({}); CREATE UNLOGGED TABLE {SCHEMA}.uncrashed (since text); \
                     INSERT INTO {SCHEMA}.uncrashed VALUES ('the beginning'); COMMIT",
                    literal(title)
                ))
                .await?;
            return Ok(Some(Self::default()));
        }
        let steps = connection.query(&format!("SELECT step FROM {SCHEMA}.journal")).await?;
        let done: BTreeSet<String> = steps.iter().map(|row| row.text(0).to_owned()).collect();
        let crashed = connection.query(&format!("SELECT since FROM {SCHEMA}.uncrashed")).await?.is_empty();
        Ok(done.contains(title).then_some(Self { done, crashed }))
    }

    /// Whether tables may have lost rows that were loaded: nothing can be gone on with.
    pub(crate) async fn has_lost_rows(&self, connection: &mut Connection) -> Result<bool, Error> {
        Ok(self.crashed && self.is_resumed() && has_unlogged_tables(connection).await?)
    }

    /// Whether an earlier run has done anything.
    pub(crate) fn is_resumed(&self) -> bool {
        self.done.len() > 1
    }

    /// Whether a step is done.
    pub(crate) fn has(&self, step: &str) -> bool {
        self.done.contains(step)
    }

    /// The statement that notes a step, to be run in its transaction.
    pub(crate) fn note(step: &str) -> String {
        format!("INSERT INTO {SCHEMA}.journal VALUES ({})", literal(step))
    }

    /// Removes the journal: the restore is done.
    pub(crate) async fn remove(connection: &mut Connection) -> Result<(), Error> {
        connection.execute(&format!("DROP SCHEMA {SCHEMA} CASCADE")).await
    }
}

/// Whether a database is one that a restore makes and hasn't done yet: it has the name that such a one has, and the journal.
pub(crate) async fn is_unfinished(target: &Target) -> Result<bool, Error> {
    if !is_name_of_ours(&target.database) {
        return Ok(false);
    }
    let mut connection = Connection::open(target).await?;
    let journal = format!("SELECT 1 FROM pg_namespace WHERE nspname = {}", literal(SCHEMA));
    let is_one = !connection.query(&journal).await?.is_empty();
    connection.close().await;
    Ok(is_one)
}

/// Whether a name is one that [`crate::restore::What::unfinished_name`] makes.
fn is_name_of_ours(name: &str) -> bool {
    let digest = name.strip_prefix("seawall-");
    digest.is_some_and(|digest| {
        digest.len() == 16 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_is_not_done() {
        for (name, is_one) in [
            ("seawall-0123456789abcdef", true),
            ("seawall-0123456789abcdeF", false),
            ("seawall-0123456789abcde", false),
            ("seawall_0123456789abcdef", false),
            ("replaced-by-seawall-0123456789abcdef", false),
            ("seawall-", false),
        ] {
            assert_eq!(is_name_of_ours(name), is_one, "{name}");
        }
    }
}
