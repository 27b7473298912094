//! The PostgreSQL part of a set's manifest and items. The types check values that come from a vault, and names are
//! quoted wherever they are used.

use serde::{Deserialize, Serialize};

use crate::catalog::grants::Grant;
use crate::catalog::pages;
use crate::catalog::properties::Properties;
use crate::client::TextEncoding;

/// The `detail` of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetDetail {
    /// The database's name.
    pub database: String,
    /// The server's version as a number: 150018.
    pub server_version: u32,
    /// The cluster's own identifier.
    pub system_identifier: String,
    /// Where the snapshot is in the WAL.
    pub lsn: String,
    /// Whether the server was a standby.
    pub standby: bool,
    /// The encoding of the rows and of the schema. That of the database; `UTF8` of sets that older versions made.
    pub encoding: String,
    /// The major version of the `pg_dump` that wrote the schema.
    pub pg_dump: u32,
    /// How the database was created.
    pub locale: Locale,
    /// Bytes of its tables and indexes on the server.
    pub size: u64,
    /// Extensions that it needs, by name.
    pub extensions: Vec<String>,
    /// The server's block size, where it isn't 8192: a page of a large object has a fourth of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u64>,
}

impl SetDetail {
    /// The encoding of its texts; none if no database has such a one.
    pub(crate) fn text_encoding(&self) -> Option<TextEncoding> {
        TextEncoding::of(&self.encoding)
    }

    /// Bytes of a page of large objects; 0 where no server has such.
    pub(crate) fn page(&self) -> u64 {
        pages::of_a_set(self.block_size).unwrap_or_default()
    }
}

/// The `detail` of the manifest of a whole server's set; each database has a [`SetDetail`] of its own in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerDetail {
    /// The server's version as a number: 150018.
    pub server_version: u32,
    /// The cluster's own identifier.
    pub system_identifier: String,
    /// Whether the server was a standby.
    pub standby: bool,
    /// The databases that are in it.
    pub databases: Vec<String>,
}

/// The properties that are fixed when a database is created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locale {
    /// The encoding.
    pub encoding: String,
    /// `LC_COLLATE`.
    pub collate: String,
    /// `LC_CTYPE`.
    pub ctype: String,
    /// `c` (libc), `i` (ICU) or `b` (builtin).
    pub provider: String,
    /// The locale of ICU or of the builtin provider.
    pub locale: Option<String>,
    /// ICU's additional rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// The tablespace, where it isn't the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tablespace: Option<String>,
}

/// The `detail` of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ItemDetail {
    /// What `pg_dump --schema-only --format=custom` wrote.
    Schema,
    /// [`After`], as JSON.
    After,
    /// A table's rows, as COPY writes them.
    Table {
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
        /// The columns that the rows have, in order.
        columns: Vec<String>,
        /// Where the rows are in binary, the form of each column; else they are text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        binary: Vec<String>,
    },
    /// Large objects, as rows of `oid`, `page number`, `page`, in that order.
    LargeObjects,
    /// [`crate::Globals`], as JSON.
    Globals,
    /// [`SetDetail`] of one of a server's databases, as JSON.
    Database,
    /// What `pg_dump` wrote of the whole database, in the format that the manifest names.
    Artefact,
    /// [`Needs`], as JSON.
    Needs,
    /// It belongs to another of the server's databases. Never written.
    #[serde(skip)]
    Elsewhere,
}

/// The record beside an artefact of `pg_dump`: its dependencies, and the properties that it leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Roles that own something, or may do something.
    pub roles: Vec<String>,
    /// Tablespaces that something is in.
    pub tablespaces: Vec<String>,
    /// What belongs to the database itself.
    pub properties: Properties,
    /// The settings on which the texts of values depend, with their values in `pg_dump`'s session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(String, String)>,
}

/// The parts that are restored after the rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The values of sequences.
    pub sequences: Vec<Sequence>,
    /// Materialized views that hold rows, in the order in which they can be refreshed.
    pub refresh: Vec<Name>,
    /// Large objects, without their content.
    pub large_objects: Vec<LargeObject>,
    /// What belongs to the database itself.
    pub properties: Properties,
}

/// A name in a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Name {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
}

/// The value of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its last value, or the next one when it wasn't called.
    pub last: i64,
    /// Whether that value was given out.
    pub called: bool,
}

/// A large object, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LargeObject {
    /// Its number.
    pub oid: u32,
    /// Its owner.
    pub owner: String,
    /// Who may do what; `None` when nothing was ever granted.
    pub grants: Option<Vec<Grant>>,
    /// Its comment.
    pub comment: Option<String>,
    /// Its security labels: provider and label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
}
