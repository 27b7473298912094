//! Which rows contradict a foreign key? Asked after rows were loaded into tables that had their keys already, with the checks off.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::client::quote::{name, qualified, text};
use crate::client::{Connection, Row};

/// The server's number for a row that refers to none.
const NO_PARENT: u16 = 1452;

/// A view refuses any hint about an index. This one changes nothing for a table.
const HINT: &str = "USE INDEX FOR ORDER BY ()";

/// A foreign key of a table that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    /// The table that refers.
    table: String,
    /// The database and the table that it refers to.
    to: (String, String),
    /// Its columns, each with the column that it refers to.
    columns: Vec<(String, String)>,
}

impl Key {
    /// The question for a row of `database` that refers to none. The server compares columns as the key does, because both sides
    /// have the same type and collation. A NULL refers to nothing.
    fn question(&self, database: &str) -> String {
        let each = |part: &dyn Fn(&(String, String)) -> String| {
            self.columns.iter().map(part).collect::<Vec<_>>().join(" AND ")
        };
        let refers = each(&|(from, _)| format!("f.{} IS NOT NULL", name(from)));
        let fits = each(&|(from, to)| format!("p.{} = f.{}", name(to), name(from)));
        let (from, to) = (qualified(database, &self.table), qualified(&self.to.0, &self.to.1));
        format!(
            "SELECT 1 FROM {from} AS f {HINT} WHERE {refers} AND NOT EXISTS (SELECT 1 FROM {to} AS p {HINT} WHERE {fits}) LIMIT 1"
        )
    }
}

/// Refuses when a row of `tables` contradicts a foreign key, by the key's name. The rows stay, as does the journal, so that the
/// same restore goes on when the row that is missing is there.
pub(crate) async fn check(connection: &mut Connection, database: &str, tables: &BTreeSet<&str>) -> Result<(), Error> {
    let sql = format!(
        "SELECT table_name, constraint_name, column_name, referenced_table_schema, referenced_table_name, referenced_column_name \
         FROM information_schema.key_column_usage WHERE table_schema = {} AND referenced_table_name IS NOT NULL \
         ORDER BY table_name, constraint_name, ordinal_position",
        text(database)
    );
    for (constraint, key) in keys(&connection.query(&sql).await?, tables) {
        let about = format!("foreign key {constraint} of {database}.{}", key.table);
        let tables = [(database, key.table.as_str()), (key.to.0.as_str(), key.to.1.as_str())];
        for (schema, table) in tables {
            are_tables(connection, schema, table, &about).await?;
        }
        let found = connection.query(&key.question(database)).await.map_err(|error| error.about(&*about))?;
        if !found.is_empty() {
            // What the server itself would have said, had it been asked.
            let message = "a row refers to one that isn't there".to_owned();
            let error = crate::ServerError { number: NO_PARENT, state: "23000".to_owned(), message };
            return Err(Error::Server { object: about, error });
        }
    }
    Ok(())
}

/// The foreign keys of some tables, by table and name.
fn keys(rows: &[Row], tables: &BTreeSet<&str>) -> Vec<(String, Key)> {
    let mut keys: BTreeMap<(String, String), Key> = BTreeMap::new();
    for row in rows.iter().filter(|row| tables.contains(row.text(0))) {
        let key = keys.entry((row.text(0).to_owned(), row.text(1).to_owned())).or_insert_with(|| Key {
            table: row.text(0).to_owned(),
            to: (row.text(3).to_owned(), row.text(4).to_owned()),
            columns: Vec::new(),
        });
        key.columns.push((row.text(2).to_owned(), row.text(5).to_owned()));
    }
    keys.into_iter().map(|((_, constraint), key)| (constraint, key)).collect()
}

/// Insists that a name is that of a table: a view in its place would run functions with our rights.
async fn are_tables(connection: &mut Connection, schema: &str, table: &str, about: &str) -> Result<(), Error> {
    let sql = format!(
        "SELECT table_type FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
        text(schema),
        text(table)
    );
    let kinds = connection.query(&sql).await?;
    if kinds.iter().any(|row| row.text(0) == "VIEW") {
        return Err(Error::Refused {
            code: "mysql.not-ready",
            object: about.to_owned(),
            cause: format!("{schema}.{table} is no table any more"),
            next: "look who changes the database, then start again".to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_finds_rows_that_refer_to_none() {
        let key = Key {
            table: "c`".into(),
            to: ("other".into(), "p".into()),
            columns: vec![("a".into(), "x".into()), ("b".into(), "y".into())],
        };
        assert_eq!(
            key.question("d"),
            "SELECT 1 FROM `d`.`c``` AS f USE INDEX FOR ORDER BY () WHERE f.`a` IS NOT NULL AND f.`b` IS NOT NULL \
             AND NOT EXISTS (SELECT 1 FROM `other`.`p` AS p USE INDEX FOR ORDER BY () WHERE p.`x` = f.`a` AND p.`y` = f.`b`) LIMIT 1"
        );
    }
}
