//! The statement that takes the lines of a table, and the form in which each value gets into its column. Pure.
//!
//! The server takes the bytes of a line for what the column stores (`CHARACTER SET binary`), so that no conversion changes a
//! value. MySQL refuses that for JSON, which has a character set of its own.

use crate::client::LOCAL_FILE;
use crate::client::quote::{name, qualified};
use crate::detail::ColumnDetail;

/// The table that takes an item's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Into<'a> {
    pub(crate) database: &'a str,
    pub(crate) table: &'a str,
    pub(crate) columns: &'a [ColumnDetail],
    /// Whether the target is a MariaDB.
    pub(crate) mariadb: bool,
}

/// What a value goes through on its way into a column; `None` if it goes in as it is.
fn through(column: &ColumnDetail, mariadb: bool, value: &str) -> Option<String> {
    match column.r#type.as_str() {
        "json" if !mariadb => Some(format!("CONVERT({value} USING utf8mb4)")),
        _ => None,
    }
}

/// The types of places and shapes.
const SPATIAL: [&str; 9] = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
];

impl Into<'_> {
    /// Whether the server refuses these rows in a `LOAD DATA` that names columns: MySQL does where a shape may not be NULL (error
    /// 1364, seen in 8.0.15), and a statement without names would have to have all columns, also those that are generated.
    pub(crate) fn needs_insert(&self) -> bool {
        !self.mariadb && self.columns.iter().any(|column| SPATIAL.contains(&column.r#type.as_str()))
    }

    /// Whether a value goes through a function, whose result is no larger than the server's `max_allowed_packet`.
    pub(crate) fn converts(&self) -> bool {
        self.columns.iter().any(|column| through(column, self.mariadb, "").is_some())
    }

    /// `LOAD DATA` of lines.
    pub(crate) fn load(&self) -> String {
        let (mut columns, mut sets) = (Vec::new(), Vec::new());
        for (place, column) in self.columns.iter().enumerate() {
            let variable = format!("@seawall_{place}");
            match through(column, self.mariadb, &variable) {
                Some(value) => {
                    columns.push(variable);
                    sets.push(format!("{} = {value}", name(&column.name)));
                }
                None => columns.push(name(&column.name)),
            }
        }
        // All columns of the table are made by the server: a line stands for a row, and has no value.
        if columns.is_empty() {
            columns.push("@seawall_none".to_owned());
        }
        let sets = if sets.is_empty() { String::new() } else { format!(" SET {}", sets.join(", ")) };
        format!(
            "LOAD DATA LOCAL INFILE '{LOCAL_FILE}' INTO TABLE {} CHARACTER SET binary FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' \
             LINES TERMINATED BY '\\n' ({}){sets}",
            qualified(self.database, self.table),
            columns.join(", ")
        )
    }

    /// What an `INSERT` of the same rows begins with.
    pub(crate) fn insert(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|column| name(&column.name)).collect();
        format!("INSERT INTO {} ({}) VALUES ", qualified(self.database, self.table), columns.join(", "))
    }

    /// Appends a line as the values of a row of an `INSERT`. Such a statement is sent by a session whose texts are bytes. `None`:
    /// the line has another number of values.
    pub(crate) fn values(&self, line: &[u8], out: &mut Vec<u8>) -> Option<()> {
        out.push(b'(');
        if self.columns.is_empty() {
            out.push(b')');
            return Some(());
        }
        let mut fields = line.split(|byte| *byte == b'\t');
        for (place, column) in self.columns.iter().enumerate() {
            if place > 0 {
                out.extend_from_slice(b", ");
            }
            let field = fields.next()?;
            if field == b"\\N" {
                out.extend_from_slice(b"NULL");
                continue;
            }
            let around = through(column, self.mariadb, "\0");
            let (before, behind) = around.as_deref().and_then(|around| around.split_once('\0')).unwrap_or_default();
            out.extend_from_slice(before.as_bytes());
            out.push(b'\'');
            // What a line escapes, a text of a statement escapes in the same way. Only quotes are new.
            for byte in field {
                if *byte == b'\'' {
                    out.push(b'\'');
                }
                out.push(*byte);
            }
            out.push(b'\'');
            out.extend_from_slice(behind.as_bytes());
        }
        out.push(b')');
        fields.next().is_none().then_some(())
    }
}

/// Whether a warning of a load says nothing about a value that was changed. The value that an enumeration has when it got none
/// of its own is told as an empty text, and taken back with a warning.
pub(crate) fn is_harmless(level: &str, number: &str, message: &str, enumerations: &[&str]) -> bool {
    let names_an_enum = || enumerations.iter().any(|column| message.contains(&format!("'{column}'")));
    level == "Note" || (number == "1265" && names_an_enum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, r#type: &str) -> ColumnDetail {
        ColumnDetail { name: name.into(), r#type: r#type.into(), charset: None }
    }

    #[test]
    fn lines_go_into_columns_as_bytes() {
        let columns = [column("a`b", "int"), column("j", "json")];
        let into = Into { database: "d", table: "t", columns: &columns, mariadb: false };
        let load = into.load();
        assert!(load.starts_with("LOAD DATA LOCAL INFILE 'seawall' INTO TABLE `d`.`t` CHARACTER SET binary"), "{load}");
        assert!(load.ends_with("(`a``b`, @seawall_1) SET `j` = CONVERT(@seawall_1 USING utf8mb4)"), "{load}");
        let load = Into { mariadb: true, ..into.clone() }.load();
        assert!(load.ends_with("'\\n' (`a``b`, `j`)"), "{load}");
        let load = Into { columns: &[], ..into.clone() }.load();
        assert!(load.ends_with("(@seawall_none)"), "{load}");
    }

    #[test]
    fn shapes_go_into_mysql_by_insert() {
        let columns = [column("a", "int"), column("g", "point")];
        let into = Into { database: "d", table: "t", columns: &columns, mariadb: false };
        assert!(into.needs_insert() && !Into { mariadb: true, ..into.clone() }.needs_insert());
        assert!(!Into { columns: &columns[..1], ..into.clone() }.needs_insert());
        let json = [column("j", "json")];
        assert!(!into.converts() && Into { columns: &json, ..into.clone() }.converts());
        assert!(!Into { columns: &json, mariadb: true, ..into }.converts());
    }

    #[test]
    fn lines_become_values_of_an_insert() {
        let columns = [column("a", "blob"), column("j", "json")];
        let into = Into { database: "d", table: "t", columns: &columns, mariadb: false };
        let values = |line: &[u8]| {
            let mut out = Vec::new();
            into.values(line, &mut out).map(|()| out)
        };
        assert_eq!(into.insert(), "INSERT INTO `d`.`t` (`a`, `j`) VALUES ");
        for (line, expected) in [
            (&b"it's\\t\\\\\\0\xff\t\\N"[..], Some(&b"('it''s\\t\\\\\\0\xff', NULL)"[..])),
            (b"\t{}", Some(b"('', CONVERT('{}' USING utf8mb4))")),
            (b"one", None),
            (b"1\t2\t3", None),
        ] {
            assert_eq!(values(line).as_deref(), expected, "{line:?}");
        }
        let mut out = Vec::new();
        assert_eq!(Into { columns: &[], ..into }.values(b"\\N", &mut out), Some(()));
        assert_eq!(out, b"()");
    }

    #[test]
    fn a_changed_value_is_no_harm_only_in_an_enumeration() {
        for (level, number, message, harmless) in [
            ("Warning", "1265", "Data truncated for column 'e' at row 3", true),
            ("Warning", "1265", "Data truncated for column 'n' at row 3", false),
            ("Warning", "1366", "Incorrect integer value: 'x' for column 'n' at row 1", false),
            ("Note", "1051", "x", true),
        ] {
            assert_eq!(is_harmless(level, number, message, &["e"]), harmless, "{message}");
        }
    }
}
