//! At which values of its primary key is a large table cut? Asks the server.

use crate::Error;
use crate::catalog::inventory::Table;
use crate::client::{Connection, Flavour, quote};
use crate::dump::cut::Cut;
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
    let (key, of) = (quote::name(key), table.sql());
    let about = |error: Error| error.about(table.name.to_string());
    let sql = format!("SELECT MIN({key}), MAX({key}) FROM {of} FORCE INDEX (`PRIMARY`)");
    let row = connection.one(&sql).await.map_err(about)?;
    let value = |column| row.optional(column).and_then(|text| text.parse::<i128>().ok());
    let Some((least, largest)) = value(0).zip(value(1)) else { return Ok(Vec::new()) };
    let mut cut = Cut::new(least, largest, plan::pieces(table.bytes));
    // MySQL tells the partitions in a column before the number of rows.
    let rows = if connection.flavour == Flavour::MariaDb { 8 } else { 9 };
    while let Some((first, last)) = cut.next() {
        let condition = format!("{key} >= {first} AND {key} <= {last}");
        let sql = format!("EXPLAIN SELECT {key} FROM {of} FORCE INDEX (`PRIMARY`) WHERE {condition}");
        let row = connection.one(&sql).await.map_err(about)?;
        cut.count(row.number(rows));
    }
    Ok(cut.bounds())
}
