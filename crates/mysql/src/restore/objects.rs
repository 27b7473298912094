//! Views, routines, triggers and events: each is made in the session in which it means the same as in the source.

use crate::Error;
use crate::client::quote::{name, qualified, text};
use crate::client::tried::is_about_the_statement;
use crate::client::{Connection, Flavour};
use crate::schema::objects::{shown, word};
use crate::schema::program::{Status, program};
use crate::schema::{StoredKind, StoredObject};
use crate::set::definers::Definers;

/// The mode in which our own statements are run. A table never gets another engine than its statement names.
const OURS: &str = "NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION";

/// Puts the session back in which our own statements mean what they should. A change of a table may copy its rows, and a date
/// that can't be is copied as it is.
pub(crate) const AS_OURS: &str = "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES', SESSION time_zone = '+00:00'";

/// Why an event isn't there although the server has taken it.
pub(crate) const EXPIRED: &str =
    "its last moment has passed, and a server drops such an event at once (ON COMPLETION NOT PRESERVE)";

/// Modes that MySQL 8.0 doesn't know any more, and that change no object: NO_AUTO_CREATE_USER is about GRANT, and the others are
/// about how objects are told, or names of several modes that stand beside them.
pub(crate) const GONE: [&str; 11] = [
    "NO_AUTO_CREATE_USER",
    "NO_FIELD_OPTIONS",
    "NO_KEY_OPTIONS",
    "NO_TABLE_OPTIONS",
    "DB2",
    "MAXDB",
    "MSSQL",
    "MYSQL323",
    "MYSQL40",
    "ORACLE",
    "POSTGRESQL",
];

/// The modes of an object that a server knows. Pure.
fn modes(mode: &str, mariadb: bool, version: u32) -> String {
    let is_known = |one: &&str| mariadb || version < 80_000 || !GONE.contains(one);
    mode.split(',').filter(is_known).collect::<Vec<_>>().join(",")
}

/// The database in which objects are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home<'a> {
    pub(crate) database: &'a str,
    /// The collation of the database, which it has again in the end.
    pub(crate) collation: &'a str,
    pub(crate) definers: &'a Definers,
    pub(crate) status: Status,
}

/// The statement that sets up the session of an object.
fn session(object: &StoredObject, mariadb: bool, version: u32) -> String {
    let mode = modes(object.sql_mode.as_deref().unwrap_or(OURS), mariadb, version);
    let zone = object.time_zone.as_deref().unwrap_or("+00:00");
    // The character set of the statement's bytes comes last: this statement itself is one of ours.
    format!(
        "SET SESSION sql_mode = {}, SESSION time_zone = {}, SESSION collation_connection = {}, SESSION character_set_client = {}",
        text(&mode),
        text(zone),
        text(&object.collation_connection),
        text(&object.character_set_client)
    )
}

/// Makes an object.
pub(crate) async fn make(connection: &mut Connection, home: Home<'_>, object: &StoredObject) -> Result<(), Error> {
    let about = shown(object, home.database);
    let made = program(object.statement.bytes(), object.kind, &home.definers.of(&object.definer), home.status);
    let made = made.ok_or_else(|| Error::Different {
        object: about.clone(),
        cause: "the set has a statement for it that makes something else".to_owned(),
    })?;
    connection.execute(&format!("USE {}", name(home.database))).await?;
    // Variables of a routine have the collation that the database had when the routine was made.
    let other = object.database_collation.as_deref().filter(|collation| *collation != home.collation);
    if let Some(collation) = other {
        connection.execute(&format!("ALTER DATABASE {} COLLATE {}", name(home.database), text(collation))).await?;
    }
    let done = async {
        let mariadb = connection.flavour == Flavour::MariaDb;
        connection.execute(&session(object, mariadb, connection.version)).await?;
        connection.execute_bytes(&made.sql).await?;
        // A routine says nothing where it has the rights of its definer.
        if home.definers.are_stripped() && matches!(object.kind, StoredKind::Function | StoredKind::Procedure) {
            let routine = format!("{} {}", word(object.kind), qualified(home.database, &object.name));
            connection.execute("SET NAMES utf8mb4").await?;
            connection.execute(&format!("ALTER {routine} SQL SECURITY INVOKER")).await?;
        }
        Ok(())
    };
    let done: Result<(), Error> = done.await;
    if let Err(error) = &done
        && error.server().is_none()
    {
        return done;
    }
    connection.execute("SET NAMES utf8mb4").await?;
    connection.execute(AS_OURS).await?;
    if other.is_some() {
        let sql = format!("ALTER DATABASE {} COLLATE {}", name(home.database), text(home.collation));
        connection.execute(&sql).await?;
    }
    done.map_err(|error| error.about(about))
}

/// Drops an object, if it is there.
async fn drop_it(connection: &mut Connection, database: &str, object: &StoredObject) -> Result<(), Error> {
    // Only the Oracle mode knows packages.
    let is_package = matches!(object.kind, StoredKind::Package | StoredKind::PackageBody);
    if is_package {
        connection.execute("SET SESSION sql_mode = 'ORACLE'").await?;
    }
    let sql = format!("DROP {} IF EXISTS {}", word(object.kind), qualified(database, &object.name));
    let dropped = connection.execute(&sql).await.map(drop).map_err(|error| error.about(shown(object, database)));
    if is_package {
        connection.execute(AS_OURS).await?;
    }
    dropped
}

/// Finds out whether the server takes routines, triggers and events, while nothing that was there is changed yet. Triggers and
/// events are gone again behind it: a table with triggers can't move into another database, and nothing may run.
pub(crate) async fn rehearse(
    connection: &mut Connection,
    home: Home<'_>,
    objects: &[&StoredObject],
) -> Result<Vec<(String, String)>, Error> {
    let mut refused = Vec::new();
    let home = Home { status: Status::Disabled, ..home };
    for object in objects {
        drop_it(connection, home.database, object).await?;
        match make(connection, home, object).await {
            Ok(()) if matches!(object.kind, StoredKind::Trigger | StoredKind::Event) => {
                drop_it(connection, home.database, object).await?;
            }
            Ok(()) => {}
            Err(error) if is_about_the_statement(&error) => {
                refused.push((shown(object, home.database), error.cause()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// Makes objects that aren't there yet, and tells those that the server refuses. A view may select from one that comes later
/// in the list, so that what is refused is tried again while others get made.
pub(crate) async fn make_all(
    connection: &mut Connection,
    objects: &[(Home<'_>, &StoredObject)],
) -> Result<Vec<(String, String)>, Error> {
    let mut waiting: Vec<(Home<'_>, &StoredObject)> = objects.to_vec();
    let mut expired = Vec::new();
    loop {
        let (mut refused, mut again) = (Vec::new(), Vec::new());
        for (home, object) in &waiting {
            if is_there(connection, home.database, object).await? {
                continue;
            }
            match make(connection, *home, object).await {
                Ok(()) if object.kind == StoredKind::Event && !is_there(connection, home.database, object).await? => {
                    expired.push((shown(object, home.database), EXPIRED.to_owned()));
                }
                Ok(()) => {}
                Err(error) if is_about_the_statement(&error) => {
                    refused.push((shown(object, home.database), error.cause()));
                    again.push((*home, *object));
                }
                Err(error) => return Err(error),
            }
        }
        if again.is_empty() || again.len() == waiting.len() {
            refused.append(&mut expired);
            return Ok(refused);
        }
        waiting = again;
    }
}

/// Whether an object is there: the same restore has made it.
async fn is_there(connection: &mut Connection, database: &str, object: &StoredObject) -> Result<bool, Error> {
    let (table, of, column, more) = match object.kind {
        StoredKind::View => ("tables", "table_schema", "table_name", " AND table_type = 'VIEW'".to_owned()),
        StoredKind::Trigger => ("triggers", "trigger_schema", "trigger_name", String::new()),
        StoredKind::Event => ("events", "event_schema", "event_name", String::new()),
        kind => ("routines", "routine_schema", "routine_name", format!(" AND routine_type = {}", text(word(kind)))),
    };
    let sql = format!(
        "SELECT 1 FROM information_schema.{table} WHERE {of} = {} AND {column} = {}{more}",
        text(database),
        text(&object.name)
    );
    Ok(!connection.query(&sql).await?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_a_server_does_not_know_any_more_are_left_out() {
        let old = "ONLY_FULL_GROUP_BY,ANSI_QUOTES,NO_AUTO_CREATE_USER,ORACLE";
        for (mariadb, version, expected) in
            [(true, 101_106, old), (false, 50_744, old), (false, 80_036, "ONLY_FULL_GROUP_BY,ANSI_QUOTES")]
        {
            assert_eq!(modes(old, mariadb, version), expected);
        }
        assert_eq!(modes("", false, 90_000), "");
    }
}
