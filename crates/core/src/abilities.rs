//! The traits through which the agent and the commands know a database engine.
//!
//! Every engine has [`Engine`] and [`History`]. The other abilities are optional: an engine returns `None` for an
//! ability that it doesn't have, so that the type says what the engine can do.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Checked, Contents, Description, Failure, Figures, FollowRequest, Followed, Locks, Maintained, Moment, Point,
    Progress, ProofRequest, RestoreRequest, Restored, Rewritten, Shutdown, Status, StrongVerification, Timeline,
    Verification, When,
};

/// One protected database, or one vault prefix to restore from.
///
/// Each engine implements this trait once. [`Engine`] and [`History`] hold what every engine can do. A method returns
/// an optional ability, or `None` if the engine doesn't have it. Every method bounds its waits (I7). Dropping the
/// future of a method at any await leaves what a crash would leave.
#[async_trait]
pub trait Engine: Send + Sync {
    /// What this is, for people. Does no I/O.
    fn describe(&self) -> Description;

    /// The state of the protection, from memory and the local state record; no request to the vault.
    async fn status(&self) -> Result<Status, Failure>;

    /// The status as far as the engine knows it without looking at the database. It is cheap enough to be polled for
    /// many databases. The engine may look at a database that is known to have unshipped changes.
    async fn known_status(&self) -> Result<Status, Failure> {
        self.status().await
    }

    /// What the engine did since the process began. Answers at once, from memory.
    fn figures(&self) -> Figures {
        Figures::default()
    }

    /// The protection of the database; `None` for a vault alone.
    fn protection(&self) -> Option<&dyn Protect>;

    /// The points that can be restored, and checks of them.
    fn history(&self) -> &dyn History;

    /// Restores to a file or a folder.
    fn files(&self) -> Option<&dyn Files>;

    /// Proofs; `None` if the engine can't restore by itself.
    fn proofs(&self) -> Option<&dyn Prove> {
        None
    }
}

/// Restores into a place that is thrown away, and checks what came of it.
#[async_trait]
pub trait Prove: Send + Sync {
    /// Restores the point that `request` names into its scratch folder and checks it to the level that it asks for. What
    /// is wrong with the vault's objects is a fault in the answer.
    ///
    /// # Errors
    /// If the proof couldn't be made: the vault can't be reached, there is nothing to restore, or the disk is full. That
    /// says nothing about the objects.
    async fn prove(&self, request: &ProofRequest, progress: Arc<dyn Progress>) -> Result<Checked, Failure>;
}

/// Protects a database.
#[async_trait]
pub trait Protect: Send + Sync {
    /// Protects the database until `shutdown`. Returns `Ok` after a graceful stop that shipped everything. Returns a
    /// failure only if a person has to act before protection can continue. The engine retries every other failure
    /// itself and reports it by [`Engine::status`].
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure>;

    /// Ships everything committed before the call and returns the point that holds it.
    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure>;

    /// Asks a running protection to ship now instead of when the next object is due. Returns the point that holds
    /// everything that was committed before the call. The caller bounds how long to wait.
    async fn sync(&self) -> Result<Point, Failure>;

    /// Records in the vault what the database holds now, so that a proof of the returned point can compare what it restores with the
    /// source. Ships what is committed first. Needs a running protection. `None` for an engine that has nothing of the kind.
    async fn record_content(&self) -> Result<Option<Point>, Failure> {
        Ok(None)
    }

    /// Has a running protection that waits after a failure try again at once: a person may have mended the cause. Engines whose waits are
    /// short do nothing.
    fn hurry(&self) {}
}

/// The points that can be restored, and checks of them.
#[async_trait]
pub trait History: Send + Sync {
    /// Everything that can be restored.
    async fn timeline(&self) -> Result<Timeline, Failure>;

    /// What the point holds that `when` names, as far as its objects tell it without a restore.
    async fn contents(&self, when: &When) -> Result<Contents, Failure>;

    /// Reads everything back and checks every checksum and the chain.
    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure>;

    /// Until when the store keeps the objects of the newest point locked; `None` for a store without locks and versions.
    async fn locks(&self) -> Result<Option<Locks>, Failure> {
        Ok(None)
    }

    /// Renews the locks of the objects of the newest point, so that each lasts as long as the settings of the place ask.
    /// Returns when the first lock ends; `None` if the settings don't ask.
    async fn renew_locks(&self) -> Result<Option<Moment>, Failure> {
        Ok(None)
    }

    /// Compares objects with digests; `None` if the engine keeps no digests.
    fn digests(&self) -> Option<&dyn Digests>;

    /// Merges and deletes objects; `None` if every object stays as it is and every point is complete.
    fn maintenance(&self) -> Option<&dyn Maintain>;

    /// Pins points; `None` if points can't be pinned.
    fn pins(&self) -> Option<&dyn Pins>;
}

/// Compares objects with digests.
#[async_trait]
pub trait Digests: Send + Sync {
    /// As [`History::verify`], and compares the bytes of each object with the digest that was kept beside it when it was
    /// written.
    async fn verify_strong(&self, progress: Arc<dyn Progress>) -> Result<StrongVerification, Failure>;
}

/// Merges and deletes objects.
#[async_trait]
pub trait Maintain: Send + Sync {
    /// Merges and deletes the objects that are due by the database's own settings. With `dry_run` the engine only
    /// reports what it would do.
    async fn maintain(&self, dry_run: bool) -> Result<Maintained, Failure>;

    /// Makes a complete copy of the newest point from the objects in the vault, unless that point has a complete copy
    /// already.
    async fn complete(&self) -> Result<Maintained, Failure>;
}

/// Pins points.
#[async_trait]
pub trait Pins: Send + Sync {
    /// Pins the point that `when` names, so that retention never deletes it; or removes the pin. Returns the point's
    /// position.
    async fn pin(&self, when: &When, pinned: bool) -> Result<String, Failure>;
}

/// Restores to a file or a folder.
#[async_trait]
pub trait Files: Send + Sync {
    /// Waits until it is this process's turn to restore the database and to protect it. An engine that takes no turns with other
    /// processes returns at once.
    ///
    /// # Errors
    /// When the vault doesn't tell whose turn it is.
    async fn turn(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Restores into a new file, verified before it appears.
    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure>;

    /// Rolls back all databases that share the vault; `None` if the engine's databases share nothing.
    fn rollback(&self) -> Option<&dyn Rollback>;

    /// Keeps a file at the newest point; `None` if the engine can't follow.
    fn standby(&self) -> Option<&dyn Standby>;
}

/// Rolls back all databases that share a vault.
#[async_trait]
pub trait Rollback: Send + Sync {
    /// Restores a state whose values win over everything in the vault, so that all databases that share the vault go
    /// back to this state. With `dry_run` the engine only reports what would change.
    async fn restore_as_new(
        &self,
        request: &RestoreRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<(Restored, Vec<Rewritten>), Failure>;
}

/// Keeps a file at the newest point.
#[async_trait]
pub trait Standby: Send + Sync {
    /// Keeps a file at the newest point of the vault until `shutdown`, while readers use the file. Every state that a
    /// reader can see is a point. Returns `Ok` after a graceful stop. Returns a failure only if a person has to act
    /// before following can continue.
    async fn follow(
        &self,
        request: &FollowRequest,
        shutdown: &Shutdown,
        progress: Arc<dyn Progress>,
    ) -> Result<Followed, Failure>;
}
