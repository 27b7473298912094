//! The one status type. `--json`, tables, the dashboard, the control socket and metrics all render this.

use serde::{Deserialize, Serialize};

use crate::{Moment, Point};

/// What a database's protection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Phase {
    /// No process protects it now.
    Stopped,
    /// A process has begun and is finding where the history ends.
    Starting,
    /// The database does not exist yet; it is protected as soon as it does.
    Waiting,
    /// A complete copy is being taken; nothing after the last point is protected until it is done.
    Base,
    /// Changes are shipped as they come.
    Protecting,
    /// The last attempt failed and is being repeated; see the last error.
    Failing,
    /// Protection was given up until someone acts; see the last error.
    Halted,
}

impl Phase {
    /// Its name, in people's tables and in metrics; the same as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Waiting => "waiting",
            Self::Base => "base",
            Self::Protecting => "protecting",
            Self::Failing => "failing",
            Self::Halted => "halted",
        }
    }
}

/// The last thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// The stable code of the failure.
    pub code: String,
    /// What happened, with the object.
    pub message: String,
    /// The next thing to do.
    pub next: String,
    /// When it happened last.
    pub at: Moment,
    /// How often it happened since the last success.
    pub count: u64,
}

/// The state of one database's protection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The database's name.
    pub name: String,
    /// The engine: `sqlite`.
    pub engine: String,
    /// What is protected: a path or URL.
    pub source: String,
    /// Where: a URL without secrets.
    pub vault: String,
    /// What the protection is doing.
    pub phase: Phase,
    /// Everything up to this point is durable in the vault (I1). `None` before the first base.
    pub protected: Option<Point>,
    /// Bytes of changes that are not in the vault yet.
    pub lag_bytes: u64,
    /// How long the oldest of them has been waiting, in milliseconds; 0 when there are none.
    pub lag_ms: u64,
    /// Size of the database; `None` where it can't be told from here.
    #[serde(default)]
    pub source_bytes: Option<u64>,
    /// Size of the database's own log, for SQLite its WAL file; `None` where it can't be told from here.
    #[serde(default)]
    pub log_bytes: Option<u64>,
    /// What went wrong last, until it goes well again.
    pub error: Option<LastError>,
    /// When this status was taken.
    pub at: Moment,
}
