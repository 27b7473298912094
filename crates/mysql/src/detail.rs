//! The MySQL part of a set's manifest and items. The types check values that come from a vault, and names are quoted
//! wherever they are used.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The `detail` of the manifest of one database's set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetDetail {
    /// The database.
    pub database: DatabaseDetail,
    /// The server it was read from.
    pub server: ServerFacts,
    /// How its rows were read, and where that is in the binary log.
    pub taken: Taken,
}

/// The `detail` of the manifest of a whole server's set; each database has a [`DatabaseDetail`] of its own in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerDetail {
    /// The databases that are in it.
    pub databases: Vec<String>,
    /// The server it was read from.
    pub server: ServerFacts,
    /// How its rows were read. One state of all databases, as one snapshot reaches over all of them.
    pub taken: Taken,
}

/// One database.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseDetail {
    /// Its name.
    pub name: String,
    /// Its character set, which new tables get.
    pub charset: String,
    /// Its collation, which new tables get.
    pub collation: String,
    /// Bytes of its tables' rows on the server, as the server estimates them.
    pub size: u64,
}

/// A server, as far as a restore depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerFacts {
    /// `mariadb` or `mysql`: the family that decides on statements and types.
    pub family: String,
    /// The version as a number: 80036 for 8.0.36, 101106 for 10.11.6.
    pub version: u32,
    /// The version in the server's words: `10.11.6-MariaDB-log`.
    pub version_text: String,
    /// The server's own identifier: `server_uuid` of MySQL, `server_uid` of MariaDB; of a Galera node, that of its cluster.
    pub identity: String,
    /// `lower_case_table_names`: 0 keeps names as they are, 1 and 2 compare them in lower case.
    pub lower_case_table_names: u8,
    /// Whether it was a node of a Galera cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub galera: bool,
}

/// How the rows of a set became one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// MariaDB's BACKUP STAGE held commits while all snapshots were opened.
    BackupStage,
    /// FLUSH TABLES WITH READ LOCK held writers while all snapshots were opened.
    GlobalLock,
    /// LOCK TABLES … READ held writers of all tables while all snapshots were opened.
    TableLocks,
    /// Nothing was locked: all snapshots were opened at the same position of the binary log.
    SamePosition,
    /// Nothing was locked: one snapshot, and one connection that read.
    OneSnapshot,
}

/// How rows were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// How they became one state.
    pub method: Method,
    /// How many snapshots of it read.
    pub snapshots: u32,
    /// Where the state is in the binary log; nothing where that isn't known exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Of a replica, how far it had followed its primaries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourcePosition>,
    /// Tables whose rows may be of a later moment, because their engine has no snapshots and they couldn't be locked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_consistent: Vec<TableName>,
    /// What else differs from the best way, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableName {
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.name)
    }
}

/// A place in a server's own binary log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The file of the binary log, and the offset in bytes behind the last transaction that is in the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binlog: Option<BinlogPlace>,
    /// The transactions that are in the set: MySQL's set of GTIDs, or MariaDB's last GTID of each domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtid: Option<String>,
}

/// A file of a binary log and an offset in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinlogPlace {
    /// The file's name.
    pub file: String,
    /// Bytes from its start.
    pub offset: u64,
}

/// How far a replica had followed one of its primaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePosition {
    /// The channel or connection; empty where there is but one.
    pub channel: String,
    /// The primary's host.
    pub host: String,
    /// The primary's port.
    pub port: u16,
    /// The place in the primary's binary log up to which everything is in the set.
    pub binlog: BinlogPlace,
}

/// The `detail` of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ItemDetail {
    /// [`crate::Schema`], as JSON.
    Schema,
    /// A table's rows, in the lines that `LOAD DATA … CHARACTER SET binary` reads by default.
    Table {
        /// Its name.
        name: String,
        /// Its storage engine.
        engine: String,
        /// The columns that the lines have, in order. A table whose columns are all generated has none, and each of its lines is `\N`.
        columns: Vec<ColumnDetail>,
        /// Whether the lines are also of rows that aren't valid any more, of a table with system versioning. Then the last two
        /// columns are those of the period.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        history: bool,
    },
    /// [`crate::Globals`], as JSON.
    Globals,
    /// [`DatabaseDetail`] of one of a server's databases, as JSON.
    Database,
    /// The database as a script of SQL.
    Script,
    /// Where the rows of each table are in the script, as JSON.
    Sections,
}

/// A column of a table's lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDetail {
    /// Its name.
    pub name: String,
    /// Its type without its length: `varchar`.
    pub r#type: String,
    /// The character set of its bytes; nothing where they are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<String>,
}

/// A statement in the server's words. It is text, or bytes where an object was made in another character set than UTF-8. As JSON
/// it is a text, or `{"hex": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sql(Vec<u8>);

/// How bytes are written that are no text.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Hex),
}

impl Sql {
    /// A statement.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text for people, and for looking names up.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Serialize for Sql {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let hex = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
                Hex { hex }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Sql {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(Self(text.into_bytes())),
            Written::Bytes(Hex { hex }) => {
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let byte = |pair: &[u8]| match pair {
                    [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
                    _ => None,
                };
                let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
                bytes.map(Self).ok_or_else(|| D::Error::custom("a statement in hex isn't hex"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_texts_or_bytes() {
        for (sql, json) in [
            (&b"CREATE TABLE `a`"[..], r#""CREATE TABLE `a`""#),
            ("é\n".as_bytes(), "\"é\\n\""),
            (b"SELECT '\xe9'", r#"{"hex":"53454c4543542027e927"}"#),
            (b"", r#""""#),
        ] {
            let sql = Sql::new(sql);
            assert_eq!(serde_json::to_string(&sql).expect("written"), json);
            assert_eq!(serde_json::from_str::<Sql>(json).expect("read"), sql);
        }
        for json in [r#"{"hex":"0"}"#, r#"{"hex":"zz"}"#, r#"{"hex":"é"}"#, r#"{"hex":"00","x":1}"#, "1", "null"] {
            assert!(serde_json::from_str::<Sql>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn details_are_read_back() {
        let detail = ItemDetail::Table {
            name: "t".into(),
            engine: "InnoDB".into(),
            columns: vec![ColumnDetail { name: "a".into(), r#type: "text".into(), charset: Some("latin1".into()) }],
            history: false,
        };
        let json = serde_json::to_value(&detail).expect("written");
        assert_eq!(
            json,
            serde_json::json!({"kind": "table", "name": "t", "engine": "InnoDB",
                "columns": [{"name": "a", "type": "text", "charset": "latin1"}]})
        );
        assert_eq!(serde_json::from_value::<ItemDetail>(json).expect("read"), detail);
    }
}
