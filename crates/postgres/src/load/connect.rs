//! The sessions of a restore.

use crate::Error;
use crate::client::{Connection, Target, TextEncoding};
use crate::schema::replica;

/// The advisory lock that every session of a restore shares.
pub(crate) const UNDER_WAY: u32 = 0x5ea_a11;

/// A role may be set to write as a replica does, which passes triggers over; setting that needs a right, even to what it is. And a
/// server may keep sessions from views, which materialized ones are filled from.
const AS_USUAL: &str = "SELECT pg_catalog.set_config(name, CASE name WHEN 'session_replication_role' THEN 'origin' ELSE '' END, false) \
                        FROM pg_catalog.pg_settings WHERE name = 'session_replication_role' AND setting <> 'origin' \
                        OR name = 'restrict_nonsystem_relation_kind' AND setting <> ''";

/// A connection that is set to write what a set holds.
pub(crate) async fn connect(target: &Target, encoding: &str) -> Result<Connection, Error> {
    let mut connection = Connection::open(target).await?;
    // Rows have moments with their offset from UTC. A CHECK may look at the day, and means that of the server's zone.
    connection
        .execute(&format!(
            "SELECT pg_catalog.pg_advisory_lock_shared({UNDER_WAY}); \
             SET lock_timeout = 0; SET synchronous_commit = off; SET check_function_bodies = off; \
             RESET timezone; {AS_USUAL}"
        ))
        .await?;
    connection.speak(TextEncoding::of(encoding).ok_or_else(|| unknown_encoding(encoding))?).await?;
    replica::without_those_of_extensions(&mut connection).await?;
    Ok(connection)
}

/// What is wrong with a set whose texts have an encoding that no database has.
pub(crate) fn unknown_encoding(encoding: &str) -> Error {
    Error::Internal(format!("texts in the encoding {encoding}"))
}
