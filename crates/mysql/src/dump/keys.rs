//! At which values of its primary key is a large table cut? Asks the server.

use crate::Error;
use crate::catalog::inventory::Table;
use crate::client::{Connection, Flavour, quote};
use crate::dump::cut::Cut;
use crate::dump::plan;
use crate::dump::scale::Scale;

/// The bounds of each table's pieces, in the tables' order; none of a table that is read otherwise. The first and the last piece are
/// open, so it doesn't matter what is written meanwhile.
pub(crate) async fn bounds(connection: &mut Connection, tables: &[Table]) -> Result<Vec<Vec<String>>, Error> {
    let mut all = Vec::with_capacity(tables.len());
    for table in tables {
        let key = plan::key(table).filter(|_| plan::is_shared(table) && !table.versioned);
        all.push(match key.and_then(|key| Some((key, Scale::of(key)?))) {
            Some((key, scale)) => of_key(connection, table, &key.name, &scale).await?,
            None => Vec::new(),
        });
    }
    Ok(all)
}

async fn of_key(connection: &mut Connection, table: &Table, key: &str, scale: &Scale) -> Result<Vec<String>, Error> {
    let of = table.sql();
    let about = |error: Error| error.about(table.name.to_string());
    let row = connection.one(&scale.question(key, &of)).await.map_err(about)?;
    let place = |column| row.optional(column).and_then(|told| scale.place(told));
    let Some((least, largest)) = place(0).zip(place(1)) else { return Ok(Vec::new()) };
    let mut cut = Cut::new(least, largest, plan::pieces(table.bytes));
    // MySQL tells the partitions in a column before the number of rows.
    let rows = if connection.flavour == Flavour::MariaDb { 8 } else { 9 };
    while let Some((first, last)) = cut.next() {
        let condition = scale.between(key, first, last);
        let sql = format!("EXPLAIN SELECT {} FROM {of} FORCE INDEX (`PRIMARY`) WHERE {condition}", quote::name(key));
        let row = connection.one(&sql).await.map_err(about)?;
        cut.count(row.number(rows));
    }
    let bounds: Vec<String> = cut.bounds().into_iter().map(|place| scale.value(place)).collect();
    // A collation may have an order of its own. Bounds that don't rise in it would lose rows.
    if let Some(question) = scale.do_rise(&bounds)
        && connection.one(&question).await.map_err(about)?.number(0) != 1
    {
        tracing::debug!(table = %table.name, "not cut: its keys have another order");
        return Ok(Vec::new());
    }
    Ok(bounds)
}
