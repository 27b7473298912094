//! What a set records of a database, beside its schema and its rows.

use serde::{Deserialize, Serialize};

use crate::catalog::grants::Grant;
use crate::catalog::properties::Properties;

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
