//! One protected SQLite database, or one vault to restore from: the crate's implementation of [`Engine`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use seawall_core::{
    Description, Digests, Engine, Failure, Figures, Files, FollowRequest, Followed, History, Kind, Maintain,
    Maintained, Panicked, Pins, Point, Progress, Protect, RestoreRequest, Restored, Rollback, Shutdown, Standby,
    Status, StrongVerification, Timeline, Verification, When,
};
use seawall_ltx::Txid;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use crate::database::Sqlite;
use crate::error::Error;
use crate::prove::{self, Strength};
use crate::ship::blocking;
use crate::state::Record;
use crate::{follow, marks, read_state, restore, target, timeline};

#[async_trait]
impl Engine for Sqlite {
    fn describe(&self) -> Description {
        Description {
            name: self.name(),
            engine: "sqlite",
            source: self.options.path.as_ref().map(|path| path.display().to_string()),
            vault: self.vault.url().to_owned(),
        }
    }

    fn figures(&self) -> Figures {
        self.activity.figures(self.vault.counts())
    }

    async fn status(&self) -> Result<Status, Failure> {
        let (_, state_dir) = self.place()?;
        let clock = self.world.clock.clone();
        let read = tokio::task::spawn_blocking(move || read_state(&state_dir, &*clock)).await;
        if let (Ok(Err(_)), true, Some(told)) = (&read, self.unsaved.load(Ordering::Relaxed), self.told_status()) {
            return Ok(told);
        }
        read.unwrap_or_else(|e| {
            let cause = Panicked::from(e).to_string();
            Err(Failure::new(Kind::Internal, "sqlite.internal", self.name(), cause, "report this: it is a defect"))
        })
    }

    async fn known_status(&self) -> Result<Status, Failure> {
        match self.resting() {
            Some(status) => Ok(status),
            None => self.status().await,
        }
    }

    fn protection(&self) -> Option<&dyn Protect> {
        Some(self)
    }

    fn history(&self) -> &dyn History {
        self
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(self)
    }
}

#[async_trait]
impl Protect for Sqlite {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        Self::unless_aborted(shutdown, Box::pin(self.protect(shutdown))).await
    }

    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        Self::unless_aborted(shutdown, self.take_one_point(shutdown)).await
    }

    async fn sync(&self) -> Result<Point, Failure> {
        let (tell, told) = oneshot::channel();
        {
            let running = self.locks.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            if !running {
                return Err(self.not_running());
            }
            self.asked().push(tell);
        }
        self.hurry.notify_one();
        told.await.unwrap_or_else(|_| match self.several_names() {
            Some(error) => Err(error.failure()),
            None => Err(self.not_running()),
        })
    }
}

#[async_trait]
impl History for Sqlite {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        Ok(timeline::timeline(&self.vault, self.now()).await?)
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        Ok(self.prove(progress, Strength::Format).await?.verification)
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
impl Digests for Sqlite {
    async fn verify_strong(&self, progress: Arc<dyn Progress>) -> Result<StrongVerification, Failure> {
        self.prove(progress, Strength::Digests).await
    }
}

#[async_trait]
impl Maintain for Sqlite {
    async fn maintain(&self, dry_run: bool) -> Result<Maintained, Failure> {
        if dry_run {
            return Ok(self.maintenance.rehearse().await?);
        }
        self.maintenance.list_anew().await?;
        Ok(self.maintenance.work_and_note().await?)
    }

    async fn complete(&self) -> Result<Maintained, Failure> {
        Ok(self.maintenance.complete().await?)
    }
}

#[async_trait]
impl Pins for Sqlite {
    async fn pin(&self, when: &When, pinned: bool) -> Result<String, Failure> {
        let point = match when {
            When::Position(text) if !pinned => text.parse().ok(),
            _ => target::find(&self.vault, when, self.now()).await?.last().map(|file| file.max),
        };
        let point = point.ok_or_else(|| Error::NothingThere { vault: self.vault.url().to_owned() })?;
        match pinned {
            true => marks::pin(&self.vault, point).await?,
            false if marks::unpin(&self.vault, point).await? => {}
            false => return Err(Error::NotPinned { vault: self.vault.url().to_owned(), point }.into()),
        }
        Ok(point.to_string())
    }
}

#[async_trait]
impl Files for Sqlite {
    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        let started = Instant::now();
        let (recorded, now) = (self.recorded().await?, self.now());
        let restored = restore::restore(&self.vault, request, recorded, now, progress, self.options.jobs).await;
        let restored = restored.inspect_err(|_| self.activity.restores.failed())?;
        if !restored.dry_run {
            self.activity.restores.done(restored.bytes, started.elapsed());
            // An older point needs only a part of what the newest one does.
            if request.when == When::Latest {
                self.note_reading().await;
            }
        }
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Restored { duration_ms, ..restored })
    }

    fn rollback(&self) -> Option<&dyn Rollback> {
        None
    }

    fn standby(&self) -> Option<&dyn Standby> {
        Some(self)
    }
}

#[async_trait]
impl Standby for Sqlite {
    async fn follow(
        &self,
        request: &FollowRequest,
        shutdown: &Shutdown,
        progress: Arc<dyn Progress>,
    ) -> Result<Followed, Failure> {
        let setting = follow::Setting {
            vault: &self.vault,
            world: &self.world,
            jobs: self.options.jobs,
            request,
            shutdown,
            progress,
        };
        Ok(follow::follow(setting).await?)
    }
}

impl Sqlite {
    /// Up to where this database was acknowledged, as its state record tells; `None` where no database is named, or nothing is
    /// recorded of this vault.
    async fn recorded(&self) -> Result<Option<Txid>, Error> {
        let (Some(_), Some(state_dir)) = (&self.options.path, self.options.state_dir()) else { return Ok(None) };
        let record = blocking(move || Record::load(&state_dir)).await?;
        Ok(record.and_then(|record| record.remembered(self.vault.url())).map(|(facts, _)| facts.txid))
    }

    async fn prove(&self, progress: Arc<dyn Progress>, strength: Strength) -> Result<StrongVerification, Failure> {
        let started = Instant::now();
        // Before the vault is listed: what is acknowledged meanwhile isn't missing.
        let recorded = self.recorded().await?;
        let verified = prove::verify(&self.vault, self.now(), progress, self.options.jobs, strength, recorded).await;
        let verified = verified.inspect_err(|_| self.activity.verifications.failed())?;
        self.activity.verifications.done(verified.verification.bytes, started.elapsed());
        if verified.verification.findings.is_empty() {
            self.note_reading().await;
        }
        Ok(verified)
    }

    /// Notes that everything was read back just now.
    async fn note_reading(&self) {
        let (read_back, now) = (self.read_back.clone(), self.now());
        if let Err(error) = blocking(move || read_back.note(now)).await {
            tracing::debug!(database = %self.name(), "when the content was read is not noted: {error}");
        }
    }
}
