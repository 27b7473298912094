//! The unfinished database of a restore: who owns it, who may connect to it, and whether it is whole.
//!
//! Every role can predict its name and see it. So a restore continues in it only if it belongs to the restoring role or to a
//! superuser: only these could have written what the restore trusts. It keeps that owner until it gets its final name, and no
//! other plain role may connect to it. It is whole if its comment says so. Only the owner can write a comment, and the restore
//! writes this one in the transaction that ends the journal. The final name, the owner, the grants and the comment of the set
//! come together, in one transaction if possible ([`crate::catalog::properties::last`]).

use seawall_archive::names::unfinished;

use crate::catalog::globals;
use crate::catalog::notes::{self, CLOSED_COLUMN};
use crate::catalog::rights::is_superuser;
use crate::client::{Connection, Target};
use crate::detail::SetDetail;
use crate::quote::{ident, literal};
use crate::restore::Place;
use crate::restore::scope::Scope;
use crate::restore::server;
use crate::restore::set::Set;
use crate::{Error, preflight};

/// A database as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct There {
    pub(crate) name: String,
    owner: String,
    /// Whether it belongs to the role that restores, or to a superuser.
    is_trusted: bool,
    comment: Option<String>,
    is_closed: bool,
    /// Whether only superusers may connect to it.
    is_for_superusers: bool,
    /// An interrupted `DROP DATABASE` left it invalid.
    is_invalid: bool,
}

impl There {
    /// Its unfinished name, if it is whole.
    pub(crate) fn whole(&self) -> Option<&str> {
        self.comment.as_deref().filter(|_| self.is_trusted)?.strip_prefix(notes::WHOLE)
    }

    /// The same, but only while the database is closed to other roles: an opened one is in use.
    pub(crate) fn whole_and_closed(&self) -> Option<&str> {
        self.whole().filter(|_| self.is_closed)
    }

    /// Refuses a database that another role made or could have changed.
    fn is_ours(&self) -> Result<(), Error> {
        if self.is_trusted {
            return Ok(());
        }
        let name = ident(&self.name);
        Err(Error::Refused {
            code: "postgres.not-ours",
            object: format!("database {}", self.name),
            cause: format!(
                "it has the name of this restore's unfinished database, and belongs to {}, who can have put anything into it",
                ident(&self.owner)
            ),
            next: format!("DROP DATABASE {name}; and start the same again (or go on as {})", ident(&self.owner)),
        })
    }
}

/// The refusal for a role that may not connect, because a superuser's restore is in the database.
fn begun_by(there: &There, target: &Target) -> Error {
    let (name, owner) = (ident(&there.name), ident(&there.owner));
    Error::Refused {
        code: "postgres.other-role",
        object: format!("database {}", there.name),
        cause: format!(
            "the superuser {owner} has begun this restore in it, and until it is done no other role than a superuser may connect"
        ),
        next: format!(
            "start the same again as {owner}; or have {owner} give it up: DROP DATABASE {name}; and start the same again as {}",
            ident(&target.user)
        ),
    }
}

/// If a database refuses the session because a superuser's restore is in it, an error that says whose restore it is.
pub(crate) async fn explain(target: &Target, error: Error) -> Error {
    if error.sqlstate() != Some("53300") {
        return error;
    }
    let look = async {
        let mut connection = globals::connect(target).await?;
        let there = look(&mut connection, target, &[&target.database]).await?;
        connection.close().await;
        Ok::<_, Error>(there)
    };
    match look.await.unwrap_or_default().first() {
        Some(there) if there.is_for_superusers && there.comment.as_deref().is_some_and(notes::is_note) => {
            begun_by(there, target)
        }
        _ => error,
    }
}

/// The databases of these names, the longest name first.
pub(crate) async fn look(connection: &mut Connection, target: &Target, names: &[&str]) -> Result<Vec<There>, Error> {
    let names: Vec<String> = names.iter().map(|name| literal(name)).collect();
    look_for(connection, target, &names.join(", ")).await
}

/// The connection's own database, whose name may have letters that its encoding lacks.
pub(crate) async fn look_here(connection: &mut Connection, target: &Target) -> Result<Option<There>, Error> {
    Ok(look_for(connection, target, "pg_catalog.current_database()").await?.into_iter().next())
}

async fn look_for(connection: &mut Connection, target: &Target, names: &str) -> Result<Vec<There>, Error> {
    // On a server of a proof's own the databases are the plain role's, and no other role is there.
    let loader = target.keeper().map_or("NULL".to_owned(), |_| literal(&target.user));
    let sql = format!(
        "SELECT d.datname, r.rolname, r.rolsuper OR r.rolname = current_user OR r.rolname IS NOT DISTINCT FROM {loader}, \
         CASE WHEN pg_catalog.starts_with(pg_catalog.shobj_description(d.oid, 'pg_database'), 'Seawall: ') \
         THEN pg_catalog.shobj_description(d.oid, 'pg_database') END, \
         {CLOSED_COLUMN}, \
         d.datconnlimit = -2, d.datconnlimit = 0 AND r.rolsuper AND r.rolname <> current_user AND NOT (SELECT u.rolsuper FROM pg_catalog.pg_roles u \
         WHERE u.rolname = current_user) \
         FROM pg_catalog.pg_database d JOIN pg_catalog.pg_roles r ON r.oid = d.datdba \
         WHERE d.datname IN ({names}) ORDER BY pg_catalog.length(d.datname) DESC"
    );
    let there = |row: &crate::client::Row| There {
        name: row.text(0).to_owned(),
        owner: row.text(1).to_owned(),
        is_trusted: row.flag(2),
        comment: row.optional(3).map(str::to_owned),
        is_closed: row.flag(4),
        is_invalid: row.flag(5),
        is_for_superusers: row.flag(6),
    };
    Ok(connection.query(&sql).await?.iter().map(there).collect())
}

/// Makes a database that no other role may connect to, or takes the one of an earlier restore. Returns whether it is whole.
pub(crate) async fn make(
    connection: &mut Connection,
    name: &str,
    target: &Target,
    detail: &SetDetail,
) -> Result<bool, Error> {
    let mut there = look(connection, target, &[name]).await?;
    if let Some(left) = there.first().filter(|there| there.is_invalid) {
        left.is_ours()?;
        server::drop(connection, name).await?;
        there.clear();
    }
    if there.is_empty() {
        let create = preflight::create_database(name, target, detail, connection.version);
        match connection.execute(&format!("{create} ALLOW_CONNECTIONS false")).await {
            // The statement of an interrupted restore ended meanwhile, or another role was faster.
            Err(error) if matches!(error.sqlstate(), Some("42P04" | "23505")) => {}
            made => made.map_err(|error| error.about(format!("database {}", target.database)))?,
        }
        there = look(connection, target, &[name]).await?;
    }
    let Some(there) = there.first() else {
        return Err(Error::Internal("a database that was made isn't there".to_owned()));
    };
    there.is_ours()?;
    if there.is_for_superusers {
        return Err(begun_by(there, target));
    }
    if !there.is_closed {
        let superuser = is_superuser(connection).await?;
        let close = closing(name, superuser, target.keeper().is_some());
        connection.execute(&close).await.map_err(|error| error.about(format!("database {name}")))?;
    }
    Ok(there.whole() == Some(name))
}

/// The statements that let the role that restores into a database, and no other plain role. The limit is no superuser's, and
/// leaves no grants behind.
fn closing(name: &str, superuser: bool, is_alone: bool) -> String {
    let name = ident(name);
    match (superuser, is_alone) {
        (_, true) => format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"),
        (true, false) => format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true CONNECTION LIMIT 0"),
        (false, false) => {
            format!("REVOKE CONNECT ON DATABASE {name} FROM PUBLIC; ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        }
    }
}

/// Whether everybody may connect to a database.
pub(crate) async fn is_open(connection: &mut Connection, database: &str) -> Result<bool, Error> {
    let sql = format!(
        "SELECT pg_catalog.has_database_privilege('public', oid, 'CONNECT') FROM pg_catalog.pg_database WHERE datname = {}",
        literal(database)
    );
    Ok(connection.query(&sql).await?.first().is_none_or(|row| row.flag(0)))
}

/// Finds or makes the database to restore into.
pub(crate) async fn find(set: &Set, target: &Target, new: bool, what: &Scope<'_>) -> Result<Place, Error> {
    if !new {
        return Ok(Place { target: target.clone(), rename: None, is_whole: false });
    }
    let mut name = what.unfinished_name(set, &target.database);
    let before = unfinished::before(&what.title(set), &target.database);
    let mut connection = globals::connect(target).await?;
    // An older version of Seawall may have made it under its own name.
    if let Some(there) = look(&mut connection, target, &[&name, &before]).await?.first() {
        name.clone_from(&there.name);
    }
    may_drop_replaced(&mut connection, target, &name, &target.database).await?;
    let is_whole = make(&mut connection, &name, target, &set.detail).await?;
    connection.close().await;
    Ok(Place { target: target.with_database(&name), rename: Some(target.database.clone()), is_whole })
}

/// Refuses if a database was put aside for the one that was made as `made`, and no note says that it may be dropped: it may be
/// the only whole one.
pub(crate) async fn may_drop_replaced(
    connection: &mut Connection,
    target: &Target,
    made: &str,
    name: &str,
) -> Result<(), Error> {
    let aside = notes::replaced(made);
    let there = look(connection, target, &[&aside, name]).await?;
    let Some(old) = there.iter().find(|there| there.name == aside) else { return Ok(()) };
    if old.is_invalid || old.comment.as_deref().and_then(|comment| comment.strip_prefix(notes::REPLACED)) == Some(made)
    {
        return Ok(());
    }
    let (old, new) = (ident(&aside), ident(name));
    let given = there.iter().find(|there| there.name == name);
    let drop = given.map_or(String::new(), |_| format!("DROP DATABASE {new}; "));
    let as_whom = given.filter(|there| !there.is_trusted).map_or(String::new(), |there| {
        format!(" if {} still restores into it, repeat that restore as that role;", ident(&there.owner))
    });
    Err(Error::Refused {
        code: "postgres.not-undone",
        object: format!("database {aside}"),
        cause: format!("an earlier restore put it aside for {name}, and nothing says that {name} was whole afterwards"),
        next: format!(
            "look into both;{as_whom} to have the old one back: {drop}ALTER DATABASE {old} RENAME TO {new}; or, if {name} is whole: \
             DROP DATABASE {old}; then start again"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_counts_as_whole_only_where_its_owner_is_trusted_to_say_so() {
        let made = unfinished::name("set 1", "shop");
        let says = format!("{}{made}", notes::WHOLE);
        for (is_trusted, comment, whole, ours) in [
            (true, Some(says.as_str()), Some(made.as_str()), true),
            (false, Some(&says), None, false),
            (true, None, None, true),
            (true, Some("the shop"), None, true),
            (false, None, None, false),
        ] {
            let there = There {
                name: made.clone(),
                owner: "eve".into(),
                is_trusted,
                comment: comment.map(str::to_owned),
                is_closed: true,
                is_invalid: false,
                is_for_superusers: false,
            };
            assert_eq!((there.whole(), there.is_ours().is_ok()), (whole, ours), "{there:?}");
            assert_eq!(there.whole_and_closed(), whole);
            assert_eq!(There { is_closed: false, ..there }.whole_and_closed(), None);
        }
    }

    #[test]
    fn nobody_else_gets_into_a_database_that_is_made() {
        assert_eq!(closing("x", true, false), "ALTER DATABASE \"x\" ALLOW_CONNECTIONS true CONNECTION LIMIT 0");
        assert_eq!(
            closing("x", false, false),
            "REVOKE CONNECT ON DATABASE \"x\" FROM PUBLIC; ALTER DATABASE \"x\" ALLOW_CONNECTIONS true"
        );
        assert_eq!(closing("x", true, true), "ALTER DATABASE \"x\" ALLOW_CONNECTIONS true");
    }
}
