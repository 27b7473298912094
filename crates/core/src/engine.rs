//! Requests of the agent and the commands to a database engine, and its answers.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::{Moment, Point, When};

/// What a database is, as shown to people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The database's name in the configuration, or its path.
    pub name: String,
    /// The engine: `sqlite`.
    pub engine: &'static str,
    /// The database's source; `None` for a handle that has only a vault.
    pub source: Option<String>,
    /// The URL of its vault, without secrets.
    pub vault: String,
}

/// How thoroughly the database engine itself checks a restored database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntegrityCheck {
    /// Checksums of the vault's objects only.
    #[default]
    None,
    /// The engine's quick check as well.
    Quick,
    /// The engine's full check as well.
    Full,
}

/// What to restore, and to where.
#[derive(Debug, Clone)]
pub struct RestoreRequest {
    /// The file to make. It appears only when whole (I8).
    pub output: PathBuf,
    /// The moment to restore.
    pub when: When,
    /// Replace an existing target.
    pub force: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Additional checks by the database engine.
    pub integrity: IntegrityCheck,
}

/// What to follow, and which file to keep up to date.
#[derive(Debug, Clone)]
pub struct FollowRequest {
    /// The file to make and to keep up to date. If an earlier call made the file, following continues from it.
    pub output: PathBuf,
    /// Replace an existing file that following can't continue from.
    pub force: bool,
    /// Additional checks by the database engine when the file is made.
    pub integrity: IntegrityCheck,
    /// How often to poll the vault where no event announces a change.
    pub interval: Duration,
    /// Also write the position to `<file>-txid`, where Litestream keeps it.
    pub position_file: bool,
}

/// The result of following.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Followed {
    /// The point that the file has reached.
    pub point: Point,
    /// The file.
    pub output: PathBuf,
    /// How often following changed the file.
    pub steps: u64,
}

/// One object that a restore reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedObject {
    /// Its key below the vault's prefix.
    pub key: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What a restore did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The point that was reached.
    pub point: Point,
    /// The file that was made.
    pub output: PathBuf,
    /// Size of the restored database in bytes; 0 for a dry run.
    pub bytes: u64,
    /// The objects, oldest first.
    pub objects: Vec<PlannedObject>,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
    /// Whether nothing was written because only the plan was asked for.
    pub dry_run: bool,
    /// What couldn't be proved of these objects, each one sentence without a full stop: objects that may belong to this database but
    /// carry no name that says so.
    pub doubts: Vec<String>,
}

/// What restored values change in a state that other databases share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rewritten {
    /// The table: of an LMDB environment a DBI.
    pub table: String,
    /// Keys that get their older value back.
    pub restored: u64,
    /// Keys that are deleted, because the older state doesn't have them.
    pub deleted: u64,
    /// Keys that are as they were.
    pub unchanged: u64,
}

/// Something that is wrong in a vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable code.
    pub code: &'static str,
    /// The object's key.
    pub object: String,
    /// What is wrong with it.
    pub cause: String,
}

/// What reading everything back showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// When it ended.
    pub at: Moment,
    /// The newest point that the check proved readable; `None` when there is none.
    pub newest: Option<Point>,
    /// Objects read.
    pub objects: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Every problem that the check found; empty when all is well.
    pub findings: Vec<Finding>,
    /// Questions that the check can't answer, each one sentence without a full stop: objects that may belong to this
    /// database but carry no name that says so.
    pub doubts: Vec<String>,
}

/// Until when the store itself keeps the objects of the newest point as they are, whatever credentials somebody has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Locks {
    /// Whether the store keeps the earlier versions of an object; `None` if it doesn't say.
    pub versions: Option<bool>,
    /// How long each new object is locked, in seconds; `None` if new objects get no lock, or the store doesn't say.
    pub lock_s: Option<u64>,
    /// The kind of that lock, in the store's own word.
    pub mode: Option<String>,
    /// How many objects a restore of the newest point reads.
    pub objects: u64,
    /// How many of these objects are locked now.
    pub locked: u64,
    /// The end of the lock that ends first; `None` unless all of these objects are locked, and one of the locks has an end.
    pub until: Option<Moment>,
}

/// An object that was merged from others, or would be in a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MadeObject {
    /// The merged object; in a dry run its size is the sum of its parts.
    #[serde(flatten)]
    pub object: PlannedObject,
    /// How many objects went in.
    pub inputs: u64,
}

/// An object that was deleted or retired, or would be in a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemovedObject {
    /// The object.
    #[serde(flatten)]
    pub object: PlannedObject,
    /// Why, in one sentence without a full stop.
    pub reason: &'static str,
}

/// What maintenance of a vault did, or would do in a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Maintained {
    /// Whether nothing was done because only the plan was asked for.
    pub dry_run: bool,
    /// Objects that were merged from others, in order.
    pub made: Vec<MadeObject>,
    /// Objects that were retired: nothing can be restored from them any more, and a later maintenance deletes them.
    pub retired: Vec<RemovedObject>,
    /// Objects that were deleted, in order.
    pub removed: Vec<RemovedObject>,
}

/// The result of reading everything back and comparing digests. An object whose bytes don't match its digest is a
/// finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StrongVerification {
    /// The result of the check without digests.
    #[serde(flatten)]
    pub verification: Verification,
    /// Objects whose bytes were compared with a digest.
    pub compared: u64,
    /// Objects that have no digest beside them; their own checksums are the only check of their bytes.
    pub without_digest: Vec<String>,
}
