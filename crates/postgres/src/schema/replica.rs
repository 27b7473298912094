//! Work that no trigger is to see. `session_replication_role = replica` turns off foreign keys, triggers and event
//! triggers, but for those that are set to fire ALWAYS or on a REPLICA. Superusers may set it, and roles that it is granted to.

use crate::Error;
use crate::client::Connection;
use crate::schema::guard;

/// The setting that event triggers have of their own since version 17.
const EVENT_TRIGGERS: &str = "event_triggers = off";

/// Whether the role may turn triggers off.
pub(crate) async fn may(connection: &mut Connection) -> Result<bool, Error> {
    may_set(connection, "session_replication_role = replica").await
}

async fn may_set(connection: &mut Connection, setting: &str) -> Result<bool, Error> {
    let set = connection.execute(&format!("BEGIN; SET LOCAL {setting}")).await;
    connection.execute("ROLLBACK").await?;
    match set {
        Ok(()) => Ok(true),
        Err(error) if error.sqlstate() == Some("42501") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether all event triggers of a database are those of its extensions; NULL where there are none.
const OF_EXTENSIONS: &str = "SELECT pg_catalog.bool_and(EXISTS (SELECT FROM pg_catalog.pg_depend d \
     WHERE d.classid = 'pg_catalog.pg_event_trigger'::pg_catalog.regclass AND d.objid = t.oid AND d.deptype = 'e')) \
     FROM pg_catalog.pg_event_trigger t";

/// Turns event triggers off for a session, where they are all extensions' and the role may. Such a one looks after
/// objects that its extension's rows name, and refuses every statement while some of them aren't made yet.
pub(crate) async fn without_those_of_extensions(connection: &mut Connection) -> Result<(), Error> {
    if !connection.one(OF_EXTENSIONS).await?.flag(0) {
        return Ok(());
    }
    let newer = connection.version >= 170_000;
    let setting = if newer { EVENT_TRIGGERS } else { "session_replication_role = replica" };
    let set = format!("SET {setting}");
    guard::set_beside(connection, &set).await?;
    if may_set(connection, setting).await? {
        connection.execute(&set).await?;
    }
    Ok(())
}

/// Runs statements of ours in one transaction, without event triggers where the role may turn them off.
pub(crate) async fn unseen(connection: &mut Connection, statements: &str) -> Result<(), Error> {
    unseen_script(connection, statements.as_bytes()).await
}

/// Runs a script of ours, whose bytes have the encoding that it says itself.
pub(crate) async fn unseen_script(connection: &mut Connection, script: &[u8]) -> Result<(), Error> {
    let mut all = b"BEGIN;\n".to_vec();
    if may(connection).await? {
        all.extend_from_slice(b"SET LOCAL session_replication_role = replica;\n");
    }
    if connection.version >= 170_000 && may_set(connection, EVENT_TRIGGERS).await? {
        all.extend_from_slice(format!("SET LOCAL {EVENT_TRIGGERS};\n").as_bytes());
    }
    all.extend_from_slice(script);
    all.extend_from_slice(b"\n;\nCOMMIT");
    match connection.run(&all).await? {
        None => Ok(()),
        Some(_) => Err(Error::Internal("a script of ours asks for rows".to_owned())),
    }
}
