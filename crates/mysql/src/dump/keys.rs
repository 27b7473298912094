//! At which values of its primary key is a large table cut? Asks the server.

use crate::Error;
use crate::catalog::inventory::Table;
use crate::client::{Connection, quote};
use crate::dump::plan;

/// The bounds of each table's pieces, in the tables' order; none of a table that is read otherwise. The first and the last piece are
/// open, so it doesn't matter what is written meanwhile.
pub(crate) async fn bounds(connection: &mut Connection, tables: &[Table]) -> Result<Vec<Vec<String>>, Error> {
    let mut all = Vec::with_capacity(tables.len());
    for table in tables {
        let key = plan::key(table).filter(|key| plan::is_shared(table) && plan::is_integer(key) && !table.versioned);
        all.push(match key {
            Some(key) => of_integers(connection, table, &key.name).await?,
            None => Vec::new(),
        });
    }
    Ok(all)
}

async fn of_integers(connection: &mut Connection, table: &Table, key: &str) -> Result<Vec<String>, Error> {
    let key = quote::name(key);
    let sql = format!("SELECT MIN({key}), MAX({key}) FROM {} FORCE INDEX (`PRIMARY`)", table.sql());
    let row = connection.one(&sql).await.map_err(|error| error.about(table.name.to_string()))?;
    let value = |column| row.optional(column).and_then(|text| text.parse::<i128>().ok());
    Ok(value(0)
        .zip(value(1))
        .map(|(least, largest)| plan::integer_bounds(table.bytes, least, largest))
        .unwrap_or_default())
}
