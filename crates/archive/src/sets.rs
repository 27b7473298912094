//! The sets of a vault as an engine: every operation that needs no server.

use std::sync::Arc;

use async_trait::async_trait;
use seawall_core::{
    Clock, Contents, Description, Digests, Engine, Failure, Files, History, IntegrityCheck, Kind, Locks, Maintain,
    Maintained, Moment, Phase, Pins, Point, Progress, Protect, RestoreRequest, Restored, Rollback, Standby, Status,
    StrongVerification, Timeline, Verification, When,
};
use seawall_vault::{ObjectKey, Prefix, Vault};

use crate::{
    Catalog, Error, MaintenancePass, Opens, RetentionPolicy, contents, export, layout, maintain, pin, pins, point,
    prove, timeline,
};

/// The sets of one vault.
#[derive(Debug, Clone)]
pub struct Sets {
    vault: Vault,
    /// The retention policy; without it nothing may be deleted.
    policy: Option<RetentionPolicy>,
    clock: Arc<dyn Clock>,
    nonce: u64,
    jobs: usize,
    /// What engines know of their sets.
    opens: Vec<Arc<dyn Opens>>,
}

impl Sets {
    /// The sets of `vault`, with `jobs` chunks read at once.
    pub fn new(vault: Vault, policy: Option<RetentionPolicy>, clock: Arc<dyn Clock>, nonce: u64, jobs: usize) -> Self {
        Self { vault, policy, clock, nonce, jobs, opens: Vec::new() }
    }

    /// The same, where `verify` also opens the sets of these engines as their restores do.
    #[must_use]
    pub fn opened_by(self, opens: Vec<Arc<dyn Opens>>) -> Self {
        Self { opens, ..self }
    }

    /// The vault of the sets.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Retires and deletes the sets that are due.
    pub async fn upkeep(&self, dry_run: bool) -> Result<MaintenancePass, Error> {
        match &self.policy {
            Some(policy) => maintain(&self.vault, policy, self.clock.now(), self.nonce, dry_run).await,
            None => Ok(MaintenancePass::default()),
        }
    }

    /// The newest set's engine and point.
    pub async fn newest(&self) -> Result<Option<(String, Point)>, Error> {
        let catalog = Catalog::read(&self.vault).await?;
        Ok(catalog.sets().last().map(|(_, manifest)| (manifest.engine.clone(), point(manifest))))
    }

    /// Writes the artefact of the requested set to a file; `None` when that set doesn't hold a vendor's artefact.
    pub async fn export(
        &self,
        request: &RestoreRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<Option<Restored>, Failure> {
        let catalog = Catalog::read(&self.vault).await?;
        let manifest = catalog.find(&request.when)?;
        if manifest.artefact.is_none() {
            return Ok(None);
        }
        if request.integrity != IntegrityCheck::None {
            let cause = "--integrity checks database files, and this set holds what the vendor's tool wrote";
            let next = "leave --integrity out: every chunk is compared with its BLAKE3 anyway";
            return Err(Failure::new(Kind::Usage, "archive.no-integrity", manifest.id.to_string(), cause, next));
        }
        Ok(Some(export::export(&self.vault, manifest, request, progress).await?))
    }

    fn only_a_vault(&self, what: &str) -> Failure {
        let cause = format!("a vault of a server's backups can't be {what}");
        let next =
            "restore it into a server with `seawall restore VAULT --to URL`; back up by the server's URL or name";
        Failure::new(Kind::Usage, "archive.only-sets", self.vault.url(), cause, next)
    }
}

#[async_trait]
impl Engine for Sets {
    fn describe(&self) -> Description {
        let vault = self.vault.url().to_owned();
        Description { name: vault.clone(), engine: "sets", source: None, vault }
    }

    async fn status(&self) -> Result<Status, Failure> {
        let newest = self.newest().await?;
        Ok(Status {
            engine: newest.as_ref().map_or_else(|| "sets".to_owned(), |(engine, _)| engine.clone()),
            limits: self.vault.limits(),
            protected: newest.map(|(_, point)| point),
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
        Some(self)
    }
}

#[async_trait]
impl History for Sets {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        let catalog = Catalog::read(&self.vault).await?;
        let pins = pins(&self.vault).await?.iter().map(ToString::to_string).collect();
        Ok(Timeline { pins, ..timeline(&catalog) })
    }

    async fn contents(&self, when: &When) -> Result<Contents, Failure> {
        Ok(contents::contents(&self.vault, when).await?)
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        let verified = prove::verify_with(&self.vault, self.clock.now(), progress, self.jobs, &self.opens).await?;
        if verified.objects == 0 && verified.findings.is_empty() {
            Catalog::read(&self.vault).await?.check_begun().await?;
        }
        Ok(verified)
    }

    async fn locks(&self) -> Result<Option<Locks>, Failure> {
        if !self.vault.protection().await?.is_some() {
            return Ok(None);
        }
        Ok(self.vault.locks(&newest_objects(&self.vault).await?, self.clock.now()).await?)
    }

    async fn renew_locks(&self) -> Result<Option<Moment>, Failure> {
        if !self.vault.renews().await? {
            return Ok(None);
        }
        Ok(self.vault.renew(&newest_objects(&self.vault).await?, self.clock.now()).await?)
    }

    fn digests(&self) -> Option<&dyn Digests> {
        Some(self)
    }

    fn maintenance(&self) -> Option<&dyn Maintain> {
        Some(self)
    }

    fn pins(&self) -> Option<&dyn Pins> {
        Some(self)
    }
}

#[async_trait]
impl Digests for Sets {
    /// A set's chunks are always compared with their BLAKE3, so this asks for nothing more.
    async fn verify_strong(&self, progress: Arc<dyn Progress>) -> Result<StrongVerification, Failure> {
        let verification = self.verify(progress).await?;
        let compared = verification.objects;
        Ok(StrongVerification { verification, compared, without_digest: Vec::new() })
    }
}

/// The objects of the newest set, with its link.
async fn newest_objects(vault: &Vault) -> Result<Vec<ObjectKey>, Error> {
    let catalog = Catalog::read(vault).await?;
    let Some((found, manifest)) = catalog.sets().last().copied() else { return Ok(Vec::new()) };
    let prefix = Prefix::new(format!("sets/{}/", manifest.id))?;
    let mut keys: Vec<_> = vault.list(&prefix, None).await?.into_iter().map(|entry| entry.key).collect();
    keys.push(layout::link(found.link.number)?);
    Ok(keys)
}

#[async_trait]
impl Maintain for Sets {
    async fn maintain(&self, dry_run: bool) -> Result<Maintained, Failure> {
        let MaintenancePass { done, denied, .. } = self.upkeep(dry_run).await?;
        if let Some(cause) = denied {
            let failure = Failure::from(Error::MayNotDelete { vault: self.vault.url().to_owned(), cause });
            tracing::warn!(code = failure.code, next = %failure.next, "{failure}");
        }
        Ok(done)
    }

    /// Every set is complete.
    async fn complete(&self) -> Result<Maintained, Failure> {
        Ok(Maintained::default())
    }
}

#[async_trait]
impl Pins for Sets {
    async fn pin(&self, when: &When, pinned: bool) -> Result<String, Failure> {
        let catalog = Catalog::read(&self.vault).await?;
        let id = catalog.find(when)?.id;
        pin(&self.vault, id, pinned).await?;
        Ok(id.to_string())
    }
}

#[async_trait]
impl Files for Sets {
    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        let restored = self.export(request, progress).await?;
        restored.ok_or_else(|| self.only_a_vault("restored into a file"))
    }

    fn rollback(&self) -> Option<&dyn Rollback> {
        None
    }

    fn standby(&self) -> Option<&dyn Standby> {
        None
    }
}
