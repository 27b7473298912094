//! The client, for this crate's integration tests.

pub use crate::client::{Connection, Done, Filled, LOCAL_FILE, LoadIn, Purpose, Row, Rows, quote, tried};

use crate::Error;
use crate::catalog::inventory;
use crate::dump::plan;

/// The statements that read each table of a database, as if each had so many bytes.
pub async fn pieces(
    connection: &mut Connection,
    database: &str,
    bytes: u64,
) -> Result<Vec<(String, Vec<String>)>, Error> {
    let mut tables = inventory::tables(connection, database).await?;
    tables.iter_mut().for_each(|table| table.bytes = bytes);
    let bounds = crate::dump::keys::bounds(connection, &tables).await?;
    let mut all: Vec<(String, Vec<String>)> =
        tables.iter().map(|table| (table.name.name.clone(), Vec::new())).collect();
    for work in plan::work(&tables, &bounds, &[]) {
        if let (Some(table), Some((_, statements))) = (tables.get(work.table), all.get_mut(work.table)) {
            let mariadb = connection.flavour == crate::Flavour::MariaDb;
            statements.push(plan::select(table, inventory::History::None, &work.part, mariadb));
        }
    }
    Ok(all)
}
