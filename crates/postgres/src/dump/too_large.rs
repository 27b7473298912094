//! Which row can't be read? PostgreSQL makes none of more than 1 GiB, and in text a `bytea` takes two letters for each byte. It
//! says so with an internal error that names nothing, so the row is looked for when that happened.

use crate::catalog::inventory::Table;
use crate::client::{Connection, Target};
use crate::quote::{ident, literal};
use crate::{CopyFormat, Error};

/// Rows that are expected to be smaller are never the reason: escaping makes it twice as long at most.
const SUSPECT: u64 = 1 << 29;

/// What a failure to read a table comes from, if it is a row that is too large; else the failure itself.
pub(crate) async fn explain(target: &Target, table: &Table, error: Error) -> Error {
    if !matches!(error.sqlstate(), Some("XX000" | "54000")) {
        return error;
    }
    match largest(target, table).await {
        Ok(Some((place, bytes))) => refusal(table, &place, bytes),
        // The table may be gone, or the server: then the first error says more.
        Ok(None) | Err(_) => error,
    }
}

/// What is said of a row, and what helps.
fn refusal(table: &Table, place: &str, bytes: u64) -> Error {
    let (form, next) = match table.format() {
        CopyFormat::Text => (
            "as text",
            "give --copy binary, in which a bytea has half the size, or keep such values as large \
             objects or in pieces: pg_dump can't take them either",
        ),
        CopyFormat::Binary => {
            ("in binary", "keep such values as large objects or in pieces: pg_dump can't take them either")
        }
    };
    Error::Refused {
        code: "postgres.too-large",
        object: table.shown(),
        cause: format!(
            "the row at {place} takes at least {bytes} bytes {form}, and PostgreSQL makes none of more than 1 GiB"
        ),
        next: next.to_owned(),
    }
}

/// The place of the row that is largest when it is read, and how much that is, if it can be the reason. No value is read for it.
async fn largest(target: &Target, table: &Table) -> Result<Option<(String, u64)>, Error> {
    if table.evaluates {
        return Ok(None);
    }
    let mut connection = Connection::open(target).await?;
    let name = literal(&table.sql());
    let sql = format!(
        "SELECT attname, atttypid = 'pg_catalog.bytea'::pg_catalog.regtype FROM pg_catalog.pg_attribute \
         WHERE attrelid = {name}::pg_catalog.regclass AND attnum > 0 \
         AND NOT attisdropped AND atttypid \
         IN ('pg_catalog.bytea'::pg_catalog.regtype, 'pg_catalog.text'::pg_catalog.regtype, 'pg_catalog.varchar'::pg_catalog.regtype, 'pg_catalog.bpchar'::pg_catalog.regtype)"
    );
    let size = |row: &crate::client::Row| {
        let letters = if row.flag(1) && table.format() == CopyFormat::Text { 2 } else { 1 };
        format!("{letters} * coalesce(octet_length({}), 0)::bigint", ident(row.text(0)))
    };
    let sizes: Vec<String> = connection.query(&sql).await?.iter().map(size).collect();
    if sizes.is_empty() {
        return Ok(None);
    }
    let sql = format!(
        "SELECT ctid, size FROM (SELECT ctid, {} AS size FROM ONLY {}) AS rows ORDER BY size DESC LIMIT 1",
        sizes.join(" + "),
        table.sql()
    );
    let found = connection.query(&sql).await?;
    connection.close().await;
    Ok(found.first().map(|row| (row.text(0).to_owned(), row.number(1))).filter(|(_, bytes)| *bytes > SUSPECT))
}
