//! A PostgreSQL cluster's files and log in a vault alone, as an engine.

use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::log::is_of_log;
use seawall_core::{
    Clock, Contents, Description, Digests, Engine, Failure, Files, History, Kind, Maintain, Phase, Pins, Progress,
    Protect, Status, SystemClock, Timeline, Verification, When,
};
use seawall_vault::{ObjectKey, Vault};

use super::base::in_bases;
use super::history;

/// Whether an object belongs to a cluster whose vault this is.
pub fn is_name(key: &ObjectKey) -> bool {
    matches!(in_bases(key.as_str()), Some(("", ..))) || is_of_log(key)
}

/// The cluster of a vault.
pub fn of_vault(vault: Vault) -> Arc<dyn Engine> {
    Arc::new(Cluster { vault, clock: Arc::new(SystemClock) })
}

/// A cluster's vault.
struct Cluster {
    vault: Vault,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Engine for Cluster {
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
}

#[async_trait]
impl History for Cluster {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        Ok(history::timeline(&self.vault).await?)
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
        None
    }

    fn pins(&self) -> Option<&dyn Pins> {
        None
    }
}
