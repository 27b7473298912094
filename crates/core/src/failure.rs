//! The one form in which an error reaches a person or a program.
//!
//! Inside a crate errors are small typed enums. At the crate's border they become a [`Failure`]. The binary prints the
//! failure once and derives the exit code from its [`Kind`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a failure: what the caller bases its decision on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The command, the configuration or an argument is wrong. Nothing was tried.
    Usage,
    /// The named thing does not exist.
    NotFound,
    /// The request would destroy or contradict something and was refused (an existing target, a hole).
    Refused,
    /// Another writer owns this database or vault prefix (I9).
    Conflict,
    /// Bytes aren't valid: a checksum, a chain or a format is wrong.
    Corrupt,
    /// Credentials or permissions do not allow it.
    Denied,
    /// A store or a file system is away, slow or full; trying again later can succeed.
    Unavailable,
    /// The user or the system asked us to stop.
    Interrupted,
    /// A defect in Seawall.
    Internal,
}

impl Kind {
    /// Whether the same may succeed later although nobody acted. A running process tries such a failure again.
    pub fn may_pass(self) -> bool {
        self == Self::Unavailable
    }
}

/// What happened to which object, why, and the next thing to do, with a code that never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The decision for the caller.
    pub kind: Kind,
    /// Stable identifier, `area.problem`; listed in `docs/errors.md`.
    pub code: &'static str,
    /// The object that the failure is about: a path, a URL without secrets, a key, a configuration line.
    pub object: String,
    /// What happened, in one sentence without a full stop.
    pub cause: String,
    /// The next thing to do, in one sentence without a full stop.
    pub next: String,
}

impl Failure {
    /// Builds a failure; see the fields for what each part says.
    pub fn new(
        kind: Kind,
        code: &'static str,
        object: impl Into<String>,
        cause: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { kind, code, object: object.into(), cause: cause.into(), next: next.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.object, self.cause, self.code)
    }
}

impl std::error::Error for Failure {}
