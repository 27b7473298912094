//! Materialized views get their rows from their queries, when everything that those read is there.
//!
//! A query that worked when the view was filled may fail now: rows came that it can't take, or a foreign server can't be
//! reached from here. That keeps no restore from its end: the view stays WITH NO DATA, and is named.

use crate::Error;
use crate::build::passing;
use crate::catalog::records::Name;
use crate::client::Connection;
use crate::journal::Journal;
use crate::quote::qualified;

/// Refreshes those that the journal doesn't have, in their order. Returns those that can't be, and why.
pub(crate) async fn all(
    connection: &mut Connection,
    views: &[Name],
    journal: &Journal,
) -> Result<Vec<(String, String)>, Error> {
    let mut unfilled = Vec::new();
    for view in views {
        let name = qualified(&view.schema, &view.name);
        let step = format!("refresh {name}");
        if journal.has(&step) {
            continue;
        }
        let refresh = format!("BEGIN; REFRESH MATERIALIZED VIEW {name}; {}; COMMIT", journal.note(&step));
        let Err(error) = connection.execute(&refresh).await else { continue };
        if !is_the_views_own(&error) {
            return Err(error.about(name));
        }
        connection.execute("ROLLBACK").await?;
        unfilled.push((name, error.cause()));
    }
    Ok(unfilled)
}

/// Those that are there without rows, when an earlier run has done all that can be done.
pub(crate) async fn left(connection: &mut Connection, views: &[Name]) -> Result<Vec<(String, String)>, Error> {
    let empty = "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE c.relkind = 'm' AND NOT c.relispopulated";
    let empty = connection.query(empty).await?;
    let is_empty =
        |view: &&Name| empty.iter().any(|row| (row.text(0), row.text(1)) == (view.schema.as_str(), view.name.as_str()));
    let cause = "it couldn't be filled in the run that was interrupted";
    let told = |view: &Name| (qualified(&view.schema, &view.name), cause.to_owned());
    Ok(views.iter().filter(is_empty).map(told).collect())
}

/// Whether any view is there without rows.
pub(crate) async fn has_unfilled(connection: &mut Connection) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relkind = 'm' AND NOT c.relispopulated)";
    Ok(connection.one(sql).await?.flag(0))
}

/// Whether an error comes from the view's query and what that reads, so that the next try fails as well.
pub(crate) fn is_the_views_own(error: &Error) -> bool {
    error.sqlstate().is_some_and(|sqlstate| !passing::passes(sqlstate))
}
