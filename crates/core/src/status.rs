//! The one status type. `--json`, tables, the dashboard, the control socket and metrics all render it.

use serde::{Deserialize, Serialize};

use crate::{Alarm, Description, Failure, Hole, Moment, Point, Proof, Requests, Underway};

/// What a database's protection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Phase {
    /// No process protects the database now.
    Stopped,
    /// A process has started and is finding where the history ends.
    Starting,
    /// The database does not exist yet; protection begins as soon as it does.
    Waiting,
    /// A complete copy is being made; changes after the last point are protected once the copy is done.
    Base,
    /// Changes are shipped as they are committed.
    Protecting,
    /// The last attempt failed and is being retried; see the last error.
    Failing,
    /// Protection has stopped until a person acts; see the last error.
    Halted,
}

impl Phase {
    /// The phase's name in tables and metrics; the same as in JSON.
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

/// The last error.
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

impl LastError {
    /// A failure that happened once.
    pub fn new(failure: &Failure, at: Moment) -> Self {
        Self {
            code: failure.code.to_owned(),
            message: format!("{}: {}", failure.object, failure.cause),
            next: failure.next.clone(),
            at,
            count: 1,
        }
    }

    /// A failure that adds to the count of the last error, if both are of the same kind.
    pub fn again(last: Option<&Self>, failure: &Failure, at: Moment) -> Self {
        let before = last.filter(|last| last.code == failure.code).map_or(0, |last| last.count);
        Self { count: before + 1, ..Self::new(failure, at) }
    }
}

/// What a vault lacks whose locks were to be renewed, and weren't.
pub const RENEWED_LOCKS: &str = "renewed-locks";

/// Something that a vault can't do, and what isn't offered there because of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The missing ability: `create-only`, `compare-and-swap`, `stamps`, or [`RENEWED_LOCKS`].
    pub lacks: String,
    /// What isn't offered, or what to do instead.
    pub effect: String,
}

/// One vault of a database that has several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VaultStatus {
    /// Its URL, without secrets.
    pub url: String,
    /// Whether it holds everything that the database's protection reports as protected.
    pub in_step: bool,
    /// Whether it is the one that is read, and that decides about two writers.
    pub leads: bool,
    /// Since when it is behind: everything up to then is in it.
    pub behind_since: Option<Moment>,
    /// For how long it has been behind, in milliseconds; 0 while it is in step.
    pub lag_ms: u64,
    /// When it was found last that it lacks what it held before: it was emptied, or set back to an earlier state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_back: Option<Moment>,
    /// The last object that was written to it by this process.
    #[serde(default)]
    pub last_object: Option<String>,
    /// When that was.
    #[serde(default)]
    pub last_written: Option<Moment>,
    /// How many objects this vault lacks; `None` while that isn't known. A vault in step lacks the objects that no key of
    /// the host opened when it caught up.
    #[serde(default)]
    pub objects_left: Option<u64>,
    /// Bytes of these objects.
    #[serde(default)]
    pub bytes_left: Option<u64>,
    /// What keeps it behind.
    #[serde(default)]
    pub error: Option<LastError>,
    /// Requests to it since the process began.
    #[serde(default)]
    pub requests: Requests,
    /// What it can't do, as far as this process knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
}

/// The state of one database's protection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The database's name.
    pub name: String,
    /// The engine: `sqlite`.
    pub engine: String,
    /// The database's source: a path or URL.
    pub source: String,
    /// The URL of its vault, without secrets.
    pub vault: String,
    /// Each vault, if it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vaults: Vec<VaultStatus>,
    /// What the vault can't do, as far as it is known; of several vaults, what one of them can't do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// What the protection is doing.
    pub phase: Phase,
    /// Everything up to this point is durable in the vault (I1). `None` before the first base.
    pub protected: Option<Point>,
    /// Bytes of changes that are not in the vault yet.
    pub lag_bytes: u64,
    /// How long the oldest of these changes has been waiting, in milliseconds; 0 when there are none.
    pub lag_ms: u64,
    /// Size of the database; `None` where it can't be measured from here.
    #[serde(default)]
    pub source_bytes: Option<u64>,
    /// Size of the database's own log, for SQLite its WAL file; `None` where it can't be measured from here.
    #[serde(default)]
    pub log_bytes: Option<u64>,
    /// When a check last read everything that the newest state needs back from the vault and found every checksum
    /// right; `None` if no such check is recorded.
    #[serde(default)]
    pub content_read_at: Option<Moment>,
    /// When this process last saw in the vault what the status says of it, and what a restore of the newest state needs; of the time after that it
    /// knows only what it wrote itself. `None` before the first look, and where no process runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault_seen_at: Option<Moment>,
    /// The newest proof that is known here; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The newest hole that this machine's protection left in the history; `None` if it left none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hole: Option<Hole>,
    /// When the credentials of a vault end, the first of several; `None` if they don't end, or nothing tells when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_end: Option<Moment>,
    /// What a person should know, most severe first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
    /// Until when a person has silenced the database's alarms; `None` if nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced_until: Option<Moment>,
    /// The progress of the complete copy or backup that is being made; `None` if there is none, or if its progress is
    /// unknown.
    #[serde(default)]
    pub progress: Option<Underway>,
    /// The last error; `None` again after the next success.
    pub error: Option<LastError>,
    /// The last error of merging and deleting in the vault; `None` again after the next success, and where that isn't known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<LastError>,
    /// When this status was taken.
    pub at: Moment,
}

impl Status {
    /// A status that says what the database is and what its protection is doing, and nothing else: no point is
    /// protected, no change waits, no size is known, and there is no error.
    pub fn new(database: Description, phase: Phase, at: Moment) -> Self {
        Self {
            name: database.name,
            engine: database.engine.to_owned(),
            source: database.source.unwrap_or_default(),
            vault: database.vault,
            vaults: Vec::new(),
            limits: Vec::new(),
            phase,
            protected: None,
            lag_bytes: 0,
            lag_ms: 0,
            source_bytes: None,
            log_bytes: None,
            content_read_at: None,
            vault_seen_at: None,
            proof: None,
            hole: None,
            credentials_end: None,
            alarms: Vec::new(),
            silenced_until: None,
            progress: None,
            error: None,
            upkeep: None,
            at,
        }
    }
}
