//! The foreign keys of tables: which rows does a row need?

use std::collections::BTreeMap;

use crate::Error;
use crate::catalog::inventory::Table;
use crate::client::{Connection, quote};
use crate::detail::TableName;

/// The columns of a foreign key: that of the referring table, and that of the other.
type Columns = Vec<(String, String)>;

/// A foreign key between two tables of a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Key {
    /// The table that refers, by its place.
    pub(super) from: usize,
    /// The table that is referred to.
    pub(super) to: usize,
    /// Its columns.
    pub(super) columns: Columns,
    /// An index of the other table that begins with its columns; none if none was found.
    pub(super) index: Option<String>,
}

impl Key {
    /// The condition that row `given` refers to row `needed`. The server compares the columns of a foreign key by
    /// their own types and collations, which are the same on both sides. A NULL refers to nothing.
    pub(super) fn condition(&self) -> String {
        let equal = |(from, to): &(String, String)| format!("needed.{} = given.{}", quote::name(to), quote::name(from));
        self.columns.iter().map(equal).collect::<Vec<_>>().join(" AND ")
    }
}

/// The foreign keys of some tables to others of them.
pub(super) async fn keys(connection: &mut Connection, tables: &[Table]) -> Result<Vec<Key>, Error> {
    let places: BTreeMap<&TableName, usize> =
        tables.iter().enumerate().map(|(place, table)| (&table.name, place)).collect();
    let mut databases: Vec<&str> = tables.iter().map(|table| table.name.database.as_str()).collect();
    databases.dedup();
    let mut keys = Vec::new();
    for database in databases {
        let indexes = indexes(connection, database).await?;
        let sql = format!(
            "SELECT table_schema, table_name, constraint_name, column_name, referenced_table_schema, referenced_table_name, \
             referenced_column_name FROM information_schema.key_column_usage \
             WHERE table_schema = {} AND referenced_table_name IS NOT NULL \
             ORDER BY table_name, constraint_name, ordinal_position",
            quote::text(database)
        );
        let mut found: BTreeMap<(TableName, String), (TableName, Columns)> = BTreeMap::new();
        for row in connection.query(&sql).await?.iter().filter(|row| row.text(0) == database) {
            let name = |at| TableName { database: row.text(at).to_owned(), name: row.text(at + 1).to_owned() };
            let (_, columns) = found.entry((name(0), row.text(2).to_owned())).or_insert_with(|| (name(4), Vec::new()));
            columns.push((row.text(3).to_owned(), row.text(6).to_owned()));
        }
        for ((from, _), (to, columns)) in found {
            let (Some(from), Some(place)) = (places.get(&from), places.get(&to)) else { continue };
            let wanted: Vec<&str> = columns.iter().map(|(_, to)| to.as_str()).collect();
            let fits = |(_, index): &(&(String, String), &Vec<String>)| {
                index.len() >= wanted.len() && index.iter().zip(&wanted).all(|(has, wants)| has == wants)
            };
            // Indexes of a table in another database aren't known here.
            let of_table = indexes.iter().filter(|((table, _), _)| to.database == database && *table == to.name);
            let index = of_table.into_iter().find(fits).map(|((_, name), _)| name.clone());
            keys.push(Key { from: *from, to: *place, columns, index });
        }
    }
    Ok(keys)
}

/// The columns of each index, by table and name.
async fn indexes(
    connection: &mut Connection,
    database: &str,
) -> Result<BTreeMap<(String, String), Vec<String>>, Error> {
    let sql = format!(
        "SELECT table_schema, table_name, index_name, column_name FROM information_schema.statistics \
         WHERE table_schema = {} ORDER BY table_name, index_name, seq_in_index",
        quote::text(database)
    );
    let mut indexes: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for row in connection.query(&sql).await?.iter().filter(|row| row.text(0) == database) {
        let of = (row.text(1).to_owned(), row.text(2).to_owned());
        indexes.entry(of).or_default().push(row.optional(3).unwrap_or_default().to_owned());
    }
    Ok(indexes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_by_all_columns_of_the_key() {
        let columns = vec![("a`".to_owned(), "b".to_owned()), ("c".to_owned(), "d".to_owned())];
        let key = Key { columns, ..Key::default() };
        assert_eq!(key.condition(), "needed.`b` = given.`a```  AND needed.`d` = given.`c`".replace("  ", " "));
    }
}
