//! The schema of a database: each object's statement in the server's own words, and the session in which it means the same.
//!
//! SHOW CREATE loses nothing that the server knows of an object. Statements are read as bytes: the body of a routine is in the
//! character set of the session that made it, and a conversion would change its literals. Statements name objects of their own
//! database without it, so that the schema can be restored into a database of another name.
//!
//! The room: `read` (asks the server), `order` (which view needs which?), `objects` (what is told of them), `words`, `table` and
//! `program` (statements in parts); `script` and `meant` (a script of another program: where do its statements end, and what does each
//! do?).

pub(crate) mod meant;
pub(crate) mod objects;
pub(crate) mod order;
pub(crate) mod program;
pub(crate) mod read;
pub(crate) mod script;
pub(crate) mod table;
pub(crate) mod words;

use serde::{Deserialize, Serialize};

use crate::client::quote;
use crate::detail::Sql;

/// The objects of a database, in an order in which they can be made: sequences and tables, routines, views, triggers, events. Tables
/// have their foreign keys in their statements, and those may refer to each other in circles.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// SHOW CREATE DATABASE: character set, collation, encryption, comment.
    pub database: Sql,
    /// MariaDB's sequences, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<SequenceStatement>,
    /// Tables of every engine, by name.
    pub tables: Vec<TableStatement>,
    /// Packages, functions and procedures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routines: Vec<StoredObject>,
    /// Views, each behind those that it selects from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<StoredObject>,
    /// Triggers; those of one table, moment and event in the order in which they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<StoredObject>,
    /// Events, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<StoredObject>,
}

/// A sequence and its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceStatement {
    /// Its name.
    pub name: String,
    /// SHOW CREATE SEQUENCE.
    pub statement: Sql,
    /// The next value that it gives out. Values that were cached for sessions count as given out.
    pub next: i64,
    /// How often it has begun anew.
    pub round: u64,
}

/// A table's definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableStatement {
    /// Its name.
    pub name: String,
    /// Its storage engine.
    pub engine: String,
    /// SHOW CREATE TABLE, with the next value of AUTO_INCREMENT.
    pub statement: Sql,
    /// What the planner was told to gather of it: gathered anew behind a restore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statistics: Vec<Statistics>,
}

/// Numbers for the planner that a server gathers by a statement alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Statistics {
    /// MySQL's histogram of a column.
    Histogram {
        /// The column.
        column: String,
        /// With so many buckets.
        buckets: u32,
    },
    /// MariaDB's tables of statistics.
    Persistent {
        /// The size of its histograms, in bytes; 0 for none.
        size: u32,
        /// Their type; empty for none.
        r#type: String,
    },
}

impl Statistics {
    /// The statement by which a server of the same family gathers them. `table` is a quoted name.
    pub(crate) fn gathered(&self, table: &str) -> String {
        match self {
            Self::Histogram { column, buckets } => format!(
                "ANALYZE NO_WRITE_TO_BINLOG TABLE {table} UPDATE HISTOGRAM ON {} WITH {buckets} BUCKETS",
                quote::name(column)
            ),
            Self::Persistent { size, r#type } => {
                let kind = match r#type.is_empty() {
                    true => String::new(),
                    false => format!(", histogram_type = {}", quote::text(r#type)),
                };
                format!(
                    "SET STATEMENT histogram_size = {size}{kind} FOR ANALYZE NO_WRITE_TO_BINLOG TABLE {table} PERSISTENT FOR ALL"
                )
            }
        }
    }
}

/// Which kind of object is stored as a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoredKind {
    /// A package of MariaDB's Oracle mode.
    Package,
    /// The body of such a package.
    PackageBody,
    /// A function.
    Function,
    /// A procedure.
    Procedure,
    /// A view.
    View,
    /// A trigger.
    Trigger,
    /// An event.
    Event,
}

/// An object that the server keeps as a statement, and the session in which the statement means the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredObject {
    /// Its kind.
    pub kind: StoredKind,
    /// Its name.
    pub name: String,
    /// SHOW CREATE of it, in the character set of `character_set_client`.
    pub statement: Sql,
    /// Whose rights it uses: `user@host`, or a role.
    pub definer: String,
    /// The `sql_mode`; views have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql_mode: Option<String>,
    /// The character set of the statement.
    pub character_set_client: String,
    /// The collation of its literals.
    pub collation_connection: String,
    /// The database's collation when it was made: that of its variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_collation: Option<String>,
    /// The time zone of an event's times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// A trigger's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// A view's views: they must be there before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Why a view can't be used on the source either; it may be refused again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}
