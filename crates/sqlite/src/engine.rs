//! One protected SQLite database, or one vault to restore from: the crate's implementation of [`Engine`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use seawall_core::{
    Checked, Contents, Description, Digests, Engine, Failure, Figures, Files, FollowRequest, Followed, History, Kind,
    Locks, Maintain, Maintained, Moment, Panicked, Pins, Point, Progress, ProofRequest, Protect, Prove, RestoreRequest,
    Restored, Rollback, Shutdown, Standby, Status, StrongVerification, Timeline, Verification, When,
};
use seawall_ltx::Txid;
use seawall_vault::{ObjectKey, Vault};
use tokio::time::Instant;

use crate::database::Database;
use crate::error::Error;
use crate::heads::Heads;
use crate::jobs::blocking;
use crate::layout::Layout;
use crate::prove::{self, Strength};
use crate::run::unless_aborted;
use crate::state::Record;
use crate::{
    Options, World, contents, default_state_dir, follow, marks, plan, read_state, rehearsal, restore, restored, survey,
    target, timeline,
};

/// One SQLite database and its place in a vault.
///
/// Made without a path it can restore, show the timeline and verify, but not protect.
#[derive(Debug)]
pub struct Sqlite {
    database: Database,
}

impl Sqlite {
    /// A database (`options.path`) and the vault prefix that is its own. Does no I/O.
    pub fn new(vault: Vault, options: Options, world: World) -> Self {
        Self { database: Database::new(vault, options, world) }
    }

    /// Lets a test in.
    #[cfg(all(feature = "testing", debug_assertions))]
    #[doc(hidden)]
    #[must_use]
    pub fn with_intruder(self, intruder: Arc<dyn crate::probe::Intruder>) -> Self {
        Self { database: self.database.with_intruder(intruder) }
    }
}

#[async_trait]
impl Engine for Sqlite {
    fn describe(&self) -> Description {
        let database = &self.database;
        Description {
            name: database.name(),
            engine: "sqlite",
            source: database.options().path.as_ref().map(|path| path.display().to_string()),
            vault: database.vault().url().to_owned(),
        }
    }

    fn figures(&self) -> Figures {
        self.database.figures()
    }

    async fn status(&self) -> Result<Status, Failure> {
        let database = &self.database;
        let (_, state_dir) = database.place()?;
        let clock = database.world().clock.clone();
        let read = tokio::task::spawn_blocking(move || read_state(&state_dir, &*clock)).await;
        if let (Ok(Err(_)), true, Some(told)) =
            (&read, database.unsaved().load(Ordering::Relaxed), database.told_status())
        {
            return Ok(told);
        }
        let recorded = read.unwrap_or_else(|e| {
            let cause = Panicked::from(e).to_string();
            Err(Failure::new(Kind::Internal, "sqlite.internal", database.name(), cause, "report this: it is a defect"))
        })?;
        Ok(Status { progress: database.gauge().now(), ..recorded })
    }

    async fn known_status(&self) -> Result<Status, Failure> {
        match self.database.resting() {
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

    fn proofs(&self) -> Option<&dyn Prove> {
        Some(self)
    }
}

#[async_trait]
impl Prove for Sqlite {
    async fn prove(&self, request: &ProofRequest, progress: Arc<dyn Progress>) -> Result<Checked, Failure> {
        let database = &self.database;
        let setting = rehearsal::Setting {
            vault: database.vault(),
            recorded: self.recorded().await?,
            now: database.now(),
            jobs: database.options().jobs,
            progress,
        };
        let checked = setting.prove(request).await?;
        if checked.faults.is_empty() && request.when == When::Latest {
            self.note_reading().await;
        }
        Ok(checked)
    }
}

#[async_trait]
impl Protect for Sqlite {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        let ended = unless_aborted(shutdown, Box::pin(self.database.protect(shutdown))).await;
        self.database.heir().let_go();
        ended
    }

    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        unless_aborted(shutdown, self.database.take_one_point(shutdown)).await
    }

    async fn sync(&self) -> Result<Point, Failure> {
        self.database.sync().await
    }

    async fn record_content(&self) -> Result<Option<Point>, Failure> {
        self.database.record_content().await.map(Some)
    }
}

#[async_trait]
impl History for Sqlite {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        Ok(timeline::timeline(self.database.vault(), self.database.now()).await?)
    }

    async fn contents(&self, when: &When) -> Result<Contents, Failure> {
        let database = &self.database;
        Ok(contents::contents(database.vault(), when, self.recorded().await?, database.now()).await?)
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        Ok(self.prove(progress, Strength::Format).await?.verification)
    }

    async fn locks(&self) -> Result<Option<Locks>, Failure> {
        let vault = self.database.vault();
        if !vault.protection().await?.is_some() {
            return Ok(None);
        }
        Ok(vault.locks(&self.newest_objects().await?, self.database.now()).await?)
    }

    async fn renew_locks(&self) -> Result<Option<Moment>, Failure> {
        let vault = self.database.vault();
        if !vault.renews().await? {
            return Ok(None);
        }
        Ok(vault.renew(&self.newest_objects().await?, self.database.now()).await?)
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
            return Ok(self.database.maintenance().rehearse().await?);
        }
        self.database.maintenance().list_anew().await?;
        Ok(self.database.maintenance().work_and_note().await?)
    }

    async fn complete(&self) -> Result<Maintained, Failure> {
        Ok(self.database.maintenance().complete().await?)
    }
}

#[async_trait]
impl Pins for Sqlite {
    async fn pin(&self, when: &When, pinned: bool) -> Result<String, Failure> {
        let database = &self.database;
        let point = match when {
            When::Position(text) if !pinned => text.parse().ok(),
            _ => target::find(&Heads::of(database.vault()), when, database.now()).await?.last().map(|file| file.max),
        };
        let point = point.ok_or_else(|| Error::NothingThere { vault: database.vault().url().to_owned() })?;
        match pinned {
            true => marks::pin(database.vault(), point).await?,
            false if marks::unpin(database.vault(), point).await? => {}
            false => return Err(Error::NotPinned { vault: database.vault().url().to_owned(), point }.into()),
        }
        Ok(point.to_string())
    }
}

#[async_trait]
impl Files for Sqlite {
    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        let database = &self.database;
        let started = Instant::now();
        let (recorded, now) = (self.recorded().await?, database.now());
        let restored =
            restore::restore(database.vault(), request, recorded, now, progress, database.options().jobs).await;
        // A plan isn't counted, whatever comes of it: the page of a running process makes many.
        let counts = !request.dry_run;
        let restored = restored.inspect_err(|_| {
            if counts {
                database.activity().restores.failed();
            }
        })?;
        if counts {
            database.activity().restores.done(restored.bytes, started.elapsed());
            self.note_restore(restored.output.clone()).await;
            // An older point needs only a part of the newest point's objects.
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
        let database = &self.database;
        let setting = follow::Setting {
            vault: database.vault(),
            world: database.world(),
            jobs: database.options().jobs,
            request,
            shutdown,
            progress,
        };
        Ok(follow::follow(setting).await?)
    }
}

impl Sqlite {
    /// The acknowledged position of this database, from its state record; `None` if no database is named, or the record
    /// has nothing about this vault.
    async fn recorded(&self) -> Result<Option<Txid>, Error> {
        let database = &self.database;
        let (Some(_), Some(state_dir)) = (&database.options().path, database.options().state_dir()) else {
            return Ok(None);
        };
        let record = blocking(move || Record::load(&state_dir)).await?;
        Ok(record.and_then(|record| record.remembered(database.vault().url())).map(|(facts, _)| facts.txid))
    }

    /// The objects that a restore of the newest point reads. With a gap there is no such plan, and all objects count.
    async fn newest_objects(&self) -> Result<Vec<ObjectKey>, Error> {
        let vault = self.database.vault();
        let files = survey::list(vault).await?;
        let newest = plan::latest(&files).map_or_else(|_gap| files.clone(), Option::unwrap_or_default);
        Ok(newest.iter().map(|file| file.key(Layout::of(vault))).collect())
    }

    async fn prove(&self, progress: Arc<dyn Progress>, strength: Strength) -> Result<StrongVerification, Failure> {
        let database = &self.database;
        let started = Instant::now();
        // Read before the vault is listed, so that positions acknowledged meanwhile don't count as missing.
        let recorded = self.recorded().await?;
        let verified =
            prove::verify(database.vault(), database.now(), progress, database.options().jobs, strength, recorded)
                .await;
        let verified = verified.inspect_err(|_| database.activity().verifications.failed())?;
        database.activity().verifications.done(verified.verification.bytes, started.elapsed());
        if verified.verification.findings.is_empty() {
            self.note_reading().await;
        }
        Ok(verified)
    }

    /// Notes that a restore made this file, so that the next base can say why it is needed. A file that no process protects, and that
    /// isn't this database's own, has no state directory, and gets none.
    async fn note_restore(&self, output: PathBuf) {
        let database = &self.database;
        let own = database.place().ok().filter(|(path, _)| *path == output).map(|(_, state_dir)| state_dir);
        let noted = blocking(move || {
            let (state_dir, is_own) = own.map_or_else(|| (default_state_dir(&output), false), |own| (own, true));
            match is_own || state_dir.is_dir() {
                true => restored::note(&state_dir, &output),
                false => Ok(()),
            }
        });
        if let Err(error) = noted.await {
            tracing::debug!(database = %database.name(), "that it was restored is not noted: {error}");
        }
    }

    /// Notes that everything was read back just now.
    async fn note_reading(&self) {
        let database = &self.database;
        let (read_back, now) = (database.read_back().clone(), database.now());
        if let Err(error) = blocking(move || read_back.note(now)).await {
            tracing::debug!(database = %database.name(), "when the content was read is not noted: {error}");
        }
    }
}
