//! What `pg_dump` itself makes of a database, kept as it is: for who wants to restore with PostgreSQL's own tools, today
//! or in twenty years, and needs nothing of ours for it but `zstd -d`.
//!
//! It sees our snapshot, which stands behind the locks, so that no TRUNCATE in between reads as no rows. It is read from
//! a pipe, and compressed here alone. What `pg_dump` leaves out and a new database needs is kept beside it.

use seawall_archive::{Content, SetWriter};

use crate::base::{Seen, file, json, written};
use crate::client::{Connection, Target, keepalives};
use crate::detail::ItemDetail;
use crate::inventory;
use crate::tools::Tool;
use crate::{Error, Format};

/// Takes the artefact of the state that `connection` holds.
pub(crate) async fn write(
    writer: &SetWriter,
    pg_dump: &Tool,
    seen: Seen<'_>,
    connection: &mut Connection,
    format: Format,
) -> Result<(), Error> {
    let needs = inventory::needs(connection).await?;
    let item = writer.item(name(format), Content::Artefact, json(&ItemDetail::Artefact)?);
    let dumped = written(writer, item, pg_dump.start(seen.target, &arguments(seen, format))?);
    let beside = file(writer, "needs.json", &ItemDetail::Needs, &needs);
    tokio::try_join!(dumped, beside)?;
    Ok(())
}

/// What the artefact is called among the items of its set.
fn name(format: Format) -> &'static str {
    if format == Format::Plain { "database.sql" } else { "database.dump" }
}

/// How `pg_dump` is asked. Nothing is compressed twice.
fn arguments(seen: Seen<'_>, format: Format) -> Vec<String> {
    let always = ["--compress=0", "--no-password", "--lock-wait-timeout=3s"];
    let mut arguments: Vec<String> = always.map(str::to_owned).into();
    arguments.push(format!("--format={}", format.name()));
    arguments.push(keepalives());
    arguments.push(format!("--encoding={}", seen.encoding));
    arguments.push(format!("--snapshot={}", seen.snapshot));
    arguments
}

/// `pg_dump` knows one database.
pub(crate) fn of_a_server(target: &Target, format: Format) -> Error {
    Error::Refused {
        code: "postgres.vendor-format",
        object: target.to_string(),
        cause: format!("pg_dump's format {} is of one database, and the URL names a whole server", format.name()),
        next: "leave --format out, or back up each database by its name into a vault of its own".to_owned(),
    }
}
