//! An artefact: a database as one script of SQL, which the vendor's own client loads, today or in twenty years, with nothing of
//! Seawall: `zstd -d` decompresses it.
//!
//! Seawall writes the script itself, from the same snapshot and the same statements as a native set. The vendors' programs would
//! have to be installed in the right version, open a snapshot of their own, and `mariadb-dump` begins with a line that MySQL's
//! client refuses.
//!
//! A set with a script also has the schema as a native set has it, and says where in the script the rows of each table are. A
//! restore of ours makes everything from the schema, and takes only rows from the script, by a strict reader: it runs no SQL of
//! the script.
//!
//! The room: `script` (the SQL around the rows), `values` (lines as rows of INSERT, and back),
//! `client_reads` (does the client read a text as the server does?), `read` (rows out of a script).

pub(crate) mod client_reads;
pub(crate) mod read;
pub(crate) mod script;
pub(crate) mod values;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::client::Target;
use crate::detail::ColumnDetail;

/// The word for the format, as the command line and the manifest spell it.
pub(crate) const PLAIN: &str = "plain";

/// The rows of a table in a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    /// The table.
    pub(crate) table: String,
    /// Its storage engine.
    pub(crate) engine: String,
    /// The columns of its rows, in order.
    pub(crate) columns: Vec<ColumnDetail>,
    /// Whether rows that aren't valid any more are among them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) history: bool,
    /// Where its statements begin in the script, in bytes.
    pub(crate) start: u64,
    /// Where they end.
    pub(crate) end: u64,
    /// How many rows it has.
    pub(crate) rows: u64,
}

/// A script in a set.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// The item that it is.
    pub(crate) item: u32,
    /// Whether a MariaDB wrote the values.
    pub(crate) mariadb: bool,
    /// In the order of the script.
    pub(crate) sections: Vec<Section>,
}

impl Script {
    /// Whether the sections follow each other.
    pub(crate) fn is_in_order(&self, size: u64) -> bool {
        let mut end = 0;
        self.sections.iter().all(|section| {
            let follows = section.start >= end && section.end >= section.start && section.end <= size;
            end = section.end;
            follows
        })
    }
}

/// The refusal of a whole server: a script is of one database.
pub(crate) fn of_a_server(target: &Target) -> Error {
    Error::Refused {
        code: "mysql.vendor-format",
        object: target.to_string(),
        cause: "a script of SQL is of one database, and the URL names a whole server".to_owned(),
        next: "leave --format out, or back up each database by its name into a vault of its own".to_owned(),
    }
}

/// The refusal of a sample.
pub(crate) fn of_a_sample(target: &Target) -> Error {
    Error::Refused {
        code: "mysql.vendor-format",
        object: target.to_string(),
        cause: "a script of SQL has every row, and a sample is asked for".to_owned(),
        next: "leave --format out, or --sample".to_owned(),
    }
}
