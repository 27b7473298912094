//! The one trait through which the agent and the commands know a database engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::{Failure, Figures, Kind, Moment, Point, Progress, Shutdown, Status, Timeline, When};

/// What a database is, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The database's name in the configuration, or its path.
    pub name: String,
    /// The engine: `sqlite`.
    pub engine: &'static str,
    /// What is protected; `None` for a handle on a vault alone.
    pub source: Option<String>,
    /// Where its objects are, without secrets.
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

/// What to follow, and with which file.
#[derive(Debug, Clone)]
pub struct FollowRequest {
    /// The file to make and to keep up: made like a restored one, or one that an earlier call made.
    pub output: PathBuf,
    /// Replace an existing file that can't be kept up from where it is.
    pub force: bool,
    /// Additional checks by the database engine when the file is made.
    pub integrity: IntegrityCheck,
    /// How often to look for something new where no event tells of it.
    pub interval: Duration,
    /// Write the position beside the file as well, as `<file>-txid`: where Litestream has it.
    pub position_file: bool,
}

/// What following came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Followed {
    /// The point that the file is at.
    pub point: Point,
    /// The file.
    pub output: PathBuf,
    /// How often it was changed.
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
    /// The newest point that was proved readable; `None` when there is none.
    pub newest: Option<Point>,
    /// Objects read.
    pub objects: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Everything that is wrong; empty when all is well.
    pub findings: Vec<Finding>,
}

/// An object that was made of others, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MadeObject {
    /// The object; in a dry run its size is the sum of its parts.
    #[serde(flatten)]
    pub object: PlannedObject,
    /// How many objects went in.
    pub inputs: u64,
}

/// An object that was deleted or retired, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemovedObject {
    /// The object.
    #[serde(flatten)]
    pub object: PlannedObject,
    /// Why, in one sentence without a full stop.
    pub reason: &'static str,
}

/// What the upkeep of a vault did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Maintained {
    /// Whether nothing was done because only the plan was asked for.
    pub dry_run: bool,
    /// Objects that were merged from others, in order.
    pub made: Vec<MadeObject>,
    /// What was set down as not kept any more: it is deleted later, and nothing can be restored from it now.
    pub retired: Vec<RemovedObject>,
    /// Objects that were deleted, in order.
    pub removed: Vec<RemovedObject>,
}

/// What reading everything back and comparing digests showed. An object whose bytes are others is a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StrongVerification {
    /// As without digests.
    #[serde(flatten)]
    pub verification: Verification,
    /// Objects whose bytes were compared with a digest.
    pub compared: u64,
    /// Objects beside which none was kept: what they are is known by their checksums alone.
    pub without_digest: Vec<String>,
}

/// One protected database, or one vault prefix to restore from.
///
/// Implemented once by each engine. Every method bounds its waits (I7), and dropping its future at any await
/// leaves what a crash would leave.
#[async_trait]
pub trait Engine: Send + Sync {
    /// What this is, for people. Does no I/O.
    fn describe(&self) -> Description;

    /// Protects the database until `shutdown`. Returns `Ok` after a graceful stop that shipped everything, and a
    /// failure only where going on makes no sense without someone acting; what can be retried is retried inside
    /// and told by [`Engine::status`].
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure>;

    /// Ships everything committed before the call and returns the point that holds it.
    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure>;

    /// Asks a running protection to ship now, without waiting until the next object is due. Returns the point that
    /// holds everything that was committed before the call; how long that may take is for the caller to bound.
    async fn sync(&self) -> Result<Point, Failure> {
        let cause = "this engine ships by itself and can't be asked to";
        Err(Failure::new(Kind::Refused, "agent.no-sync", self.describe().name, cause, "wait; see `seawall status`"))
    }

    /// What was done since the process began. From memory, at once.
    fn figures(&self) -> Figures {
        Figures::default()
    }

    /// The state of the protection, from memory and the local state record; no request to the vault.
    async fn status(&self) -> Result<Status, Failure>;

    /// The status as far as it is known without looking: for whoever asks again and again, for many databases. What is
    /// known to wait may be looked at.
    async fn known_status(&self) -> Result<Status, Failure> {
        self.status().await
    }

    /// All that can be restored.
    async fn timeline(&self) -> Result<Timeline, Failure>;

    /// Restores into a new file, verified before it appears.
    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure>;

    /// Merges and deletes what is due, by the database's own settings; with `dry_run` only says what would be done. An
    /// engine whose objects stay as they are has nothing to do.
    async fn maintain(&self, dry_run: bool) -> Result<Maintained, Failure> {
        Ok(Maintained { dry_run, ..Maintained::default() })
    }

    /// Makes a complete copy of the newest point in the vault, from what is there, if there is none of it yet. An engine
    /// whose every point is complete has nothing to do.
    async fn complete(&self) -> Result<Maintained, Failure> {
        Ok(Maintained::default())
    }

    /// Pins the point that `when` leads to, so that it is never deleted, or takes its pin away. Returns the point's
    /// position.
    async fn pin(&self, when: &When, pinned: bool) -> Result<String, Failure> {
        let (_, _) = (when, pinned);
        let cause = "this engine deletes nothing, so that no point needs a pin";
        Err(Failure::new(Kind::Refused, "agent.no-pins", self.describe().name, cause, "nothing: its points stay"))
    }

    /// Keeps a file at the newest point of the vault until `shutdown`, while others read it. Every state that a reader
    /// can see is a point. Returns `Ok` after a graceful stop, and a failure only where going on makes no sense without
    /// someone acting. An engine that can't do it says so.
    async fn follow(
        &self,
        request: &FollowRequest,
        _shutdown: &Shutdown,
        _progress: Arc<dyn Progress>,
    ) -> Result<Followed, Failure> {
        let (engine, output) = (self.describe().engine, request.output.display().to_string());
        let cause = format!("{engine} databases can't be followed");
        Err(Failure::new(Kind::Usage, "engine.no-follow", output, cause, "restore it, again and again if need be"))
    }

    /// Reads everything back and checks every checksum and the chain.
    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure>;

    /// As [`Engine::verify`], and compares the bytes of each object with the digest that was kept beside it when it was
    /// written.
    async fn verify_strong(&self, progress: Arc<dyn Progress>) -> Result<StrongVerification, Failure> {
        drop(progress);
        let cause = "this engine keeps no digests of its objects";
        Err(Failure::new(Kind::Refused, "agent.no-digests", self.describe().name, cause, "verify without --strong"))
    }
}
