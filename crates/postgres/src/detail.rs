//! The PostgreSQL part of a set's manifest and items. The types check values that come from a vault, and names are
//! quoted wherever they are used.

use serde::{Deserialize, Serialize};

use crate::catalog::pages;
use crate::catalog::records::Locale;
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

/// The `detail` of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ItemDetail {
    /// What `pg_dump --schema-only --format=custom` wrote.
    Schema,
    /// [`crate::After`], as JSON.
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
    /// [`crate::Needs`], as JSON.
    Needs,
    /// It belongs to another of the server's databases. Never written.
    #[serde(skip)]
    Elsewhere,
}
