//! What a vault keeps of a PostgreSQL cluster, its files and its log, as an engine: every operation that needs no server.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use seawall_archive::log::is_of_log;
use seawall_archive::{MaintenancePass, RetentionPolicy, SetId, pin, pins};
use seawall_core::{
    Clock, Contents, Description, Digests, Engine, Failure, Files, History, Kind, Maintain, Maintained, Phase, Pins,
    Progress, Protect, Prove, Status, SystemClock, Timeline, Verification, When,
};
use seawall_vault::{ObjectKey, Vault};

use super::base::{self, in_bases};
use super::clock::Watched;
use super::prove::ClusterProver;
use super::{history, maintain};
use crate::Error;

/// Whether an object belongs to a cluster whose vault this is.
pub fn is_name(key: &ObjectKey) -> bool {
    matches!(in_bases(key.as_str()), Some(("", ..))) || is_of_log(key)
}

/// The cluster of a vault, with what proves it. Without a policy nothing may be deleted.
pub fn of_vault(vault: Vault, policy: Option<RetentionPolicy>, prover: ClusterProver) -> Arc<dyn Engine> {
    Arc::new(Kept::new(vault, policy, Arc::new(SystemClock), prover))
}

/// A cluster's vault.
pub(super) struct Kept {
    vault: Vault,
    policy: Option<RetentionPolicy>,
    clock: Arc<dyn Clock>,
    watched: Mutex<Watched>,
    prover: ClusterProver,
}

impl Kept {
    /// What `vault` keeps.
    pub(super) fn new(
        vault: Vault,
        policy: Option<RetentionPolicy>,
        clock: Arc<dyn Clock>,
        prover: ClusterProver,
    ) -> Self {
        let watched = Mutex::new(Watched::new(clock.now(), clock.steady()));
        Self { vault, policy, clock, watched, prover }
    }

    /// What proves it.
    pub(super) fn prover(&self) -> &dyn Prove {
        &self.prover
    }

    /// The vault.
    pub(super) fn vault(&self) -> &Vault {
        &self.vault
    }

    /// What a process does by itself: [`Kept::upkeep`], but for a clock that was just set ahead. Then it looks again later.
    pub(super) async fn watched_upkeep(&self) -> Result<MaintenancePass, Error> {
        let (wall, steady) = (self.clock.now(), self.clock.steady());
        if self.watched.lock().unwrap_or_else(PoisonError::into_inner).is_believed(wall, steady) {
            return self.upkeep(false).await;
        }
        tracing::warn!(
            vault = self.vault.url(),
            next = "set the host's clock right; if it is right now, do nothing",
            "the clock was set ahead: retention deletes nothing until it stayed so for as long as the jump, and at most for a day"
        );
        Ok(MaintenancePass { next: Some(wall), ..MaintenancePass::default() }.later_than(wall))
    }

    /// Gives bases up, and deletes bases and log that are due.
    async fn upkeep(&self, dry_run: bool) -> Result<MaintenancePass, Error> {
        match &self.policy {
            Some(policy) => maintain::maintain(&self.vault, policy, self.clock.now(), dry_run).await,
            None => Ok(MaintenancePass::default()),
        }
    }
}

#[async_trait]
impl Engine for Kept {
    fn describe(&self) -> Description {
        let vault = self.vault.url().to_owned();
        Description { name: vault.clone(), engine: "postgres", source: None, vault }
    }

    async fn status(&self) -> Result<Status, Failure> {
        let timeline = self.timeline().await?;
        Ok(Status {
            limits: self.vault.limits(),
            protected: timeline.newest().cloned(),
            credentials_end: self.vault.credentials_end(),
            ..Status::new(self.describe(), Phase::Stopped, self.clock.now())
        })
    }

    fn protection(&self) -> Option<&dyn Protect> {
        None
    }

    fn history(&self) -> &dyn History {
        self
    }

    fn files(&self) -> Option<&dyn Files> {
        None
    }

    fn proofs(&self) -> Option<&dyn Prove> {
        Some(self.prover())
    }
}

#[async_trait]
impl History for Kept {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        let pins = pins(&self.vault).await?.iter().map(ToString::to_string).collect();
        Ok(Timeline { pins, ..history::timeline(&self.vault).await? })
    }

    async fn contents(&self, _when: &When) -> Result<Contents, Failure> {
        let cause = "what is in the files of a cluster is known only to a server";
        let next = "restore it with `seawall restore VAULT -o DIR --at …`, and look there";
        Err(Failure::new(Kind::Usage, "postgres.no-contents", self.vault.url(), cause, next))
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        Ok(history::verify(&self.vault, self.clock.now(), progress).await?)
    }

    fn digests(&self) -> Option<&dyn Digests> {
        None
    }

    fn maintenance(&self) -> Option<&dyn Maintain> {
        Some(self)
    }

    fn pins(&self) -> Option<&dyn Pins> {
        Some(self)
    }
}

#[async_trait]
impl Maintain for Kept {
    async fn maintain(&self, dry_run: bool) -> Result<Maintained, Failure> {
        let MaintenancePass { done, denied, sealed, .. } = self.upkeep(dry_run).await?;
        if sealed > 0 {
            let next = "name the owner's key with --identity";
            tracing::warn!(
                bases = sealed,
                next,
                "no key at hand opens the manifests of some bases: nothing is deleted"
            );
        }
        if let Some(failure) = denied.map(|cause| may_not_delete(&self.vault, cause)) {
            tracing::warn!(code = failure.code, next = %failure.next, "{failure}");
        }
        Ok(done)
    }

    /// Every base is complete.
    async fn complete(&self) -> Result<Maintained, Failure> {
        Ok(Maintained::default())
    }
}

/// What is told when the credentials may not delete.
pub(super) fn may_not_delete(vault: &Vault, cause: seawall_vault::Error) -> Failure {
    seawall_archive::Error::MayNotDelete { vault: vault.url().to_owned(), cause }.into()
}

#[async_trait]
impl Pins for Kept {
    /// Pins a base. Only the moment at which it ended is pinned: the log behind it goes when its time has come.
    async fn pin(&self, when: &When, pinned: bool) -> Result<String, Failure> {
        let bases: Vec<SetId> = base::list(&self.vault).await?.into_iter().map(|base| base.id).collect();
        let id = match when {
            When::Latest => bases.last().copied(),
            When::Position(position) => bases.iter().copied().find(|id| id.to_string() == *position),
            When::Moment(_) => None,
        };
        let id = id.ok_or_else(|| {
            let cause = "only a base can be pinned, and it has none of this name";
            let next = "name a base as `seawall timeline` shows it; a later base is made with `seawall backup`";
            Failure::new(Kind::Refused, "postgres.no-base", self.vault.url(), cause, next)
        })?;
        pin(&self.vault, id, pinned).await?;
        Ok(id.to_string())
    }
}
