//! Are names still those of tables? A view in a table's place is its owner's code, and would run with the rights of who
//! restores. What a name means is looked at behind a lock, which keeps it so until the transaction ends.

use std::collections::BTreeSet;

use crate::Error;
use crate::catalog::rights::shown;
use crate::client::Connection;
use crate::quote::{literal, qualified};

/// Locks tables in the transaction at hand, against sessions that would put something else in their places.
///
/// # Errors
/// When one of them isn't there, or is no table.
pub(crate) async fn hold<'a>(
    connection: &mut Connection,
    tables: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), Error> {
    let names: BTreeSet<(&str, &str)> = tables.collect();
    if names.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = names.iter().map(|(schema, name)| format!("ONLY {}", qualified(schema, name))).collect();
    connection.execute(&format!("LOCK TABLE {} IN ACCESS SHARE MODE", all.join(", "))).await?;
    let wanted: Vec<String> =
        names.iter().map(|(schema, name)| format!("({}, {})", literal(schema), literal(name))).collect();
    let sql = format!(
        "SELECT w.schema || '.' || w.name FROM (VALUES {}) w(schema, name) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = w.schema AND c.relname = w.name AND c.relkind IN ('r', 'p')) ORDER BY 1",
        wanted.join(", ")
    );
    let rows = connection.query(&sql).await?;
    let others: Vec<String> = rows.iter().map(|row| row.text(0).to_owned()).collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(Error::Refused {
        code: "postgres.not-ready",
        object: shown(&others),
        cause: "it was a table when the restore began, and is none now".to_owned(),
        next: "put the table back in its place, and start again".to_owned(),
    })
}
