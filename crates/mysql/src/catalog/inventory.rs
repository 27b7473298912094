//! The databases of a server, and the tables of one.

use std::collections::BTreeMap;

use crate::Error;
use crate::catalog::columns::{Column, Generated};
use crate::catalog::engines::{Rows, rows_of};
use crate::client::{Connection, Row, quote};
use crate::detail::{DatabaseDetail, TableName};

/// The most bytes that a table is said to have: the server's estimate decides in how many pieces it is read.
const MOST_BYTES: u64 = 1 << 44;

/// Databases that belong to the server itself.
const SYSTEM: [&str; 5] = ["information_schema", "mysql", "performance_schema", "sys", "ndbinfo"];

/// Whether a database belongs to the server itself. No other can have such a name, in letters of either case.
pub(crate) fn is_system(name: &str) -> bool {
    SYSTEM.iter().any(|system| system.eq_ignore_ascii_case(name))
}

/// What `information_schema` calls a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Base,
    /// With system versioning.
    Versioned,
    Sequence,
    View,
    /// A kind that this version doesn't know.
    Unknown,
}

impl Kind {
    pub(crate) fn of(text: &str) -> Self {
        match text {
            "BASE TABLE" => Self::Base,
            "SYSTEM VERSIONED" => Self::Versioned,
            "SEQUENCE" => Self::Sequence,
            "VIEW" => Self::View,
            _ => Self::Unknown,
        }
    }
}

/// A table with rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    pub(crate) name: TableName,
    pub(crate) versioned: bool,
    pub(crate) engine: String,
    /// Bytes of its rows, as the server estimates them.
    pub(crate) bytes: u64,
    /// All of them, in order.
    pub(crate) columns: Vec<Column>,
    /// The columns of its primary key, in order. None if the key isn't of whole values.
    pub(crate) primary: Vec<String>,
    /// Its partitions, if it has some; without subpartitions.
    pub(crate) partitions: Vec<String>,
}

/// How much of a table with system versioning is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum History {
    /// It has no such.
    None,
    /// The rows that were valid once come along, and when they were.
    Kept,
    /// It has, and only the rows that are valid now are read.
    Lost,
}

impl Table {
    /// What is known of its rows.
    pub(crate) fn rows(&self) -> Rows {
        rows_of(&self.engine)
    }

    /// What becomes of its history on a server that can or can't take it back. A period that counts transactions means nothing on
    /// another server.
    pub(crate) fn history(&self, takes_back: bool) -> History {
        let counts = self.columns.iter().any(|column| {
            matches!(column.generated, Generated::RowStart | Generated::RowEnd) && column.r#type == "bigint"
        });
        match (self.versioned, takes_back && !counts) {
            (false, _) => History::None,
            (true, true) => History::Kept,
            (true, false) => History::Lost,
        }
    }

    /// The names of its period's columns. Where they weren't declared, the server calls them so.
    pub(crate) fn period(&self) -> [Column; 2] {
        let of = |generated, default: &str| {
            let declared = self.columns.iter().find(|column| column.generated == generated).cloned();
            declared.unwrap_or_else(|| Column {
                name: default.to_owned(),
                r#type: "timestamp".to_owned(),
                full_type: "timestamp(6)".to_owned(),
                charset: None,
                collation: None,
                generated,
            })
        };
        [of(Generated::RowStart, "row_start"), of(Generated::RowEnd, "row_end")]
    }

    /// The columns that are read, in order.
    pub(crate) fn read(&self, history: History) -> Vec<Column> {
        let mut columns: Vec<Column> =
            self.columns.iter().filter(|column| column.generated == Generated::No).cloned().collect();
        if history == History::Kept {
            columns.extend(self.period());
        }
        columns
    }

    /// In a statement.
    pub(crate) fn sql(&self) -> String {
        quote::qualified(&self.name.database, &self.name.name)
    }
}

/// The databases that the account sees, without the server's own, by name.
pub(crate) async fn databases(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let rows = connection.query("SELECT schema_name FROM information_schema.schemata ORDER BY schema_name").await?;
    let mut names: Vec<String> = rows.iter().map(|row| row.text(0).to_owned()).collect();
    names.retain(|name| !is_system(name));
    Ok(names)
}

/// One database, by its exact name.
pub(crate) async fn database(connection: &mut Connection, name: &str) -> Result<Option<DatabaseDetail>, Error> {
    let sql = "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata \
               WHERE schema_name = ";
    let rows = connection.query(&format!("{sql}{}", quote::text(name))).await?;
    let row = rows.iter().find(|row| row.text(0) == name).or(rows.first());
    Ok(row.map(|row| DatabaseDetail {
        name: row.text(0).to_owned(),
        charset: row.text(1).to_owned(),
        collation: row.text(2).to_owned(),
        size: 0,
    }))
}

/// The tables of a database that have rows of their own, with everything that reading them needs, by name.
pub(crate) async fn tables(connection: &mut Connection, database: &str) -> Result<Vec<Table>, Error> {
    let of = quote::text(database);
    let sql = format!(
        "SELECT table_schema, table_name, table_type, engine, data_length FROM information_schema.tables \
         WHERE table_schema = {of} ORDER BY table_name"
    );
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for row in connection.query(&sql).await?.iter().filter(|row| row.text(0) == database) {
        let kind = Kind::of(row.text(2));
        if !matches!(kind, Kind::Base | Kind::Versioned) {
            if kind == Kind::Unknown {
                return Err(unknown_kind(row));
            }
            continue;
        }
        let name = row.text(1).to_owned();
        let table = Table {
            name: TableName { database: database.to_owned(), name: name.clone() },
            versioned: kind == Kind::Versioned,
            engine: row.text(3).to_owned(),
            bytes: row.number(4).min(MOST_BYTES),
            ..Table::default()
        };
        tables.insert(name, table);
    }
    let sql = format!(
        "SELECT table_schema, table_name, column_name, data_type, column_type, character_set_name, extra, \
         generation_expression, collation_name FROM information_schema.columns WHERE table_schema = {of} ORDER BY table_name, ordinal_position"
    );
    for row in connection.query(&sql).await?.iter().filter(|row| row.text(0) == database) {
        if let Some(table) = tables.get_mut(row.text(1)) {
            table.columns.push(Column {
                name: row.text(2).to_owned(),
                r#type: row.text(3).to_ascii_lowercase(),
                full_type: row.text(4).to_owned(),
                charset: row.optional(5).map(str::to_owned),
                collation: row.optional(8).map(str::to_owned),
                generated: Generated::of(row.text(6), row.text(7)),
            });
        }
    }
    let sql = format!(
        "SELECT table_schema, table_name, column_name, sub_part FROM information_schema.statistics \
         WHERE table_schema = {of} AND index_name = 'PRIMARY' ORDER BY table_name, seq_in_index"
    );
    let mut partial = Vec::new();
    for row in connection.query(&sql).await?.iter().filter(|row| row.text(0) == database) {
        if let Some(table) = tables.get_mut(row.text(1)) {
            table.primary.push(row.text(2).to_owned());
            if row.optional(3).is_some() {
                partial.push(row.text(1).to_owned());
            }
        }
    }
    for name in partial {
        if let Some(table) = tables.get_mut(&name) {
            table.primary.clear();
        }
    }
    let sql = format!(
        "SELECT table_schema, table_name, partition_name FROM information_schema.partitions WHERE table_schema = {of} \
         AND partition_name IS NOT NULL ORDER BY table_name, partition_ordinal_position, subpartition_ordinal_position"
    );
    for row in connection.query(&sql).await?.iter().filter(|row| row.text(0) == database) {
        if let Some(table) = tables.get_mut(row.text(1)) {
            let name = row.text(2).to_owned();
            if table.partitions.last() != Some(&name) {
                table.partitions.push(name);
            }
        }
    }
    Ok(tables.into_values().collect())
}

/// A table of a kind that may have rows that we don't know how to read.
fn unknown_kind(row: &Row) -> Error {
    Error::Refused {
        code: "mysql.unsupported",
        object: format!("{}.{}", row.text(0), row.text(1)),
        cause: format!("it is a {:?}, a kind of table that this version doesn't know", row.text(2)),
        next: "use the server's own tool for this database, and report this".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_tables() {
        for (text, kind) in [
            ("BASE TABLE", Kind::Base),
            ("SYSTEM VERSIONED", Kind::Versioned),
            ("SEQUENCE", Kind::Sequence),
            ("VIEW", Kind::View),
            ("SYSTEM VIEW", Kind::Unknown),
            ("", Kind::Unknown),
        ] {
            assert_eq!(Kind::of(text), kind, "{text}");
        }
        assert!(is_system("mysql") && is_system("Information_Schema") && !is_system("shop"));
    }

    #[test]
    fn generated_columns_arent_read_and_periods_are_where_they_can_be_restored() {
        let column = |name: &str, r#type: &str, generated| Column {
            name: name.into(),
            r#type: r#type.into(),
            generated,
            ..Column::default()
        };
        let columns = vec![column("a", "int", Generated::No), column("b", "int", Generated::FromRow)];
        let names = |table: &Table, takes_back| {
            let read = table.read(table.history(takes_back));
            read.into_iter().map(|column| column.name).collect::<Vec<_>>()
        };
        let plain = Table { columns: columns.clone(), ..Table::default() };
        assert_eq!((names(&plain, true), plain.history(true)), (vec!["a".to_owned()], History::None));
        let implicit = Table { versioned: true, ..plain };
        assert_eq!(names(&implicit, true), ["a", "row_start", "row_end"]);
        assert_eq!((names(&implicit, false), implicit.history(false)), (vec!["a".to_owned()], History::Lost));
        let declared = |r#type| {
            let mut columns = columns.clone();
            columns.insert(0, column("since", r#type, Generated::RowStart));
            columns.push(column("until", r#type, Generated::RowEnd));
            Table { versioned: true, columns, ..Table::default() }
        };
        assert_eq!(names(&declared("timestamp"), true), ["a", "since", "until"]);
        assert_eq!(declared("bigint").history(true), History::Lost);
    }
}
