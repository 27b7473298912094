//! LMDB as an engine: how the agent and the commands see an environment that is kept in step.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use seawall_core::{
    Checked, Contents, Description, Digests, Engine, Failure, Figures, Files, History, IntegrityCheck, Kind, LastError,
    Level, Locks, Maintain, Moment, Panicked, Phase, Pins, Point, Progress, ProofRequest, Protect, Prove,
    RestoreRequest, Restored, Rewritten, Rollback, Shutdown, Standby, Status, StrongVerification, Timeline,
    Verification, When, Work, blocking,
};
use seawall_vault::{ObjectKey, Vault};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::Stamp;
use crate::environment::EnvOptions;
use crate::error::Error;
use crate::local::state;
use crate::local::{Author, Local, Settings, data_file, written};
use crate::peers::latest::{Listed, newest, snapshots};
use crate::peers::listing;
use crate::restore;
use crate::restore::plan;
use crate::restore::prove;
use crate::restore::rehearsal;
use crate::session::{NanoClock, Session, SyncOptions, before};
use crate::snapshot::{GENERATION, SnapshotName};
use crate::status::SessionStatus;

/// An environment as the configuration describes it.
#[derive(Debug, Clone)]
pub struct LmdbOptions {
    /// Its folder, or with `no_subdir` its file.
    pub path: PathBuf,
    /// How it is opened.
    pub env: EnvOptions,
    /// What its DBIs look like, and how it takes part.
    pub settings: Settings,
    /// How it is kept in step, and under which name.
    pub sync: SyncOptions,
}

/// An environment with its vault, or only the snapshots in a vault.
pub struct Lmdb {
    vault: Vault,
    /// The database, as in names.
    name: String,
    options: Option<LmdbOptions>,
    clock: NanoClock,
    now: Mutex<Now>,
}

/// What happens in this process.
#[derive(Clone, Default)]
enum Now {
    #[default]
    Nothing,
    /// A session can't begin yet.
    Waiting(Failure),
    Running(Running),
}

/// A session that runs.
#[derive(Clone)]
struct Running {
    status: watch::Receiver<SessionStatus>,
    hurry: Arc<Notify>,
}

impl Lmdb {
    /// An environment to keep in step and to restore.
    pub fn new(vault: Vault, options: LmdbOptions, clock: NanoClock) -> Self {
        let name = options.sync.author.database.clone();
        Self { vault, name, options: Some(options), clock, now: Mutex::default() }
    }

    /// The snapshots of a database, to look at.
    pub fn of_vault(vault: Vault, name: String, clock: NanoClock) -> Self {
        Self { vault, name, options: None, clock, now: Mutex::default() }
    }

    /// The database whose snapshots a vault holds; `None` if it holds no snapshots.
    ///
    /// # Errors
    /// When the vault can't be listed, or holds several.
    pub async fn alone_in(vault: &Vault) -> Result<Option<String>, Failure> {
        let mut found = listing::databases(vault).await.map_err(Failure::from)?;
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(Error::SeveralDatabases { vault: vault.url().to_owned(), names: found.join(", ") }.into()),
        }
    }

    /// The newest snapshot of each instance.
    async fn newest_objects(&self) -> Result<Vec<ObjectKey>, Failure> {
        let newest = newest(&self.listed().await?, &BTreeSet::new());
        let keys = newest.values().map(|snapshot| ObjectKey::new(&snapshot.key));
        Ok(keys.collect::<Result<Vec<_>, _>>()?)
    }

    fn options(&self) -> Result<&LmdbOptions, Error> {
        self.options.as_ref().ok_or_else(|| Error::UnknownSchema { vault: self.vault.url().to_owned() })
    }

    fn data(options: &LmdbOptions) -> PathBuf {
        data_file(&options.path, options.env.no_subdir)
    }

    fn moment(&self) -> Moment {
        plan::moment((self.clock)())
    }

    fn now(&self) -> Now {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn running(&self) -> Option<Running> {
        if let Now::Running(running) = self.now() { Some(running) } else { None }
    }

    fn set(&self, now: Now) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Opens the environment, once it exists and no other process keeps it in step.
    async fn open(&self, options: &LmdbOptions, shutdown: &Shutdown) -> Result<Option<Local>, Failure> {
        let mut told = None;
        loop {
            let error = match open(options.clone()).await {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) => error,
            };
            // A process may start before its predecessor has ended.
            let is_anothers = matches!(error, Error::Locked { .. });
            let failure = Failure::from(error);
            if !is_anothers && !matches!(failure.kind, Kind::NotFound | Kind::Unavailable) {
                return Err(failure);
            }
            if told.replace(failure.code) != Some(failure.code) {
                tracing::warn!(database = self.name, code = failure.code, "waiting for the environment: {failure}");
            }
            self.set(Now::Waiting(failure.clone()));
            if !is_anothers {
                // Otherwise the record belongs to the other process.
                record(options, self.status_from(options, &SessionStatus::default(), Some(failure), None)).await;
            }
            tokio::select! {
                () = sleep(options.sync.retry) => {}
                () = shutdown.graceful() => return Ok(None),
            }
        }
    }

    async fn keep(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        let options = self.options()?;
        let _stopped = Stopped(self);
        let Some(local) = self.open(options, shutdown).await? else { return Ok(()) };
        let mut session = Session::new(local, self.vault.clone(), options.sync.clone(), Arc::clone(&self.clock));
        self.set(Now::Running(Running { status: session.watch(), hurry: session.hurry() }));
        let status = session.watch();
        tokio::select! {
            ended = session.run(shutdown) => ended?,
            () = self.keep_record(options, status) => {}
        }
        let last = session.watch().borrow().clone();
        record(options, Status { phase: Phase::Stopped, ..self.status_from(options, &last, None, None) }).await;
        Ok(())
    }

    /// Writes the record whenever something in it changed that is worth keeping. Never returns while the session lives.
    async fn keep_record(&self, options: &LmdbOptions, mut status: watch::Receiver<SessionStatus>) {
        let mut last = None;
        loop {
            let session = status.borrow_and_update().clone();
            let now = self.status_from(options, &session, None, self.written_late(options, &session).await);
            let error = now.error.as_ref().map(|error| error.code.clone());
            let upkeep = now.upkeep.as_ref().map(|error| (error.code.clone(), error.count));
            let lasting = (now.phase, now.protected.clone(), error, upkeep, now.lag_ms / LAG_STEP);
            if last.as_ref() != Some(&lasting) {
                record(options, now).await;
                last = Some(lasting);
            }
            // A request without an answer changes nothing in the session, and the status gets worse all the same.
            let waits = session.doing.is_some();
            tokio::select! {
                changed = status.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = sleep(TICK), if waits => {}
            }
        }
    }

    /// Since when commits may wait for a vault that doesn't answer: the session can't look at the environment meanwhile,
    /// but the data file's time tells that something was written.
    async fn written_late(&self, options: &LmdbOptions, session: &SessionStatus) -> Option<Stamp> {
        let trouble = self.vault.trouble().filter(|_| session.doing.is_some() && !options.sync.receive_only)?;
        let (data, since) = (Self::data(options), before((self.clock)(), trouble.lasts));
        let written = spawn_blocking(move || written(&data)).await.ok()?;
        (written > since).then_some(since)
    }

    /// The status of a session, or of a session that can't begin yet because of `waiting`. `late` is since when unseen
    /// commits may wait.
    fn status_from(
        &self,
        options: &LmdbOptions,
        session: &SessionStatus,
        waiting: Option<Failure>,
        late: Option<Stamp>,
    ) -> Status {
        let noted = |(failure, at, count): &(Failure, Stamp, u64)| told(failure, plan::moment(*at), *count);
        let error = session.failure.as_ref().map(noted).or_else(|| self.trouble(session));
        // With these, and where nothing can be deleted, captures go on.
        let alarm = || session.alarms.values().next().map(noted);
        let upkeep = session.undeleted.as_ref().map(noted);
        let phase = match &waiting {
            Some(failure) if failure.kind == Kind::NotFound => Phase::Waiting,
            Some(_) => Phase::Failing,
            None if session.ended.is_some() => Phase::Halted,
            None if error.is_some() => Phase::Failing,
            None if !session.start.is_over() => Phase::Starting,
            None => Phase::Protecting,
        };
        let oldest = [session.waiting, session.storing.since, late].into_iter().flatten().min();
        let unsent = oldest.map_or(0, |since| (self.clock)().0.saturating_sub(since.0) / 1_000_000);
        Status {
            protected: self.protected(options, session),
            lag_ms: unsent,
            vault_seen_at: session.listed.map(plan::moment),
            limits: self.vault.limits(),
            credentials_end: self.vault.credentials_end(),
            source_bytes: session.environment.as_ref().map(|environment| environment.file_bytes),
            error: error
                .or(waiting.map(|failure| told(&failure, self.moment(), 1)))
                .or_else(alarm)
                .or_else(|| upkeep.clone()),
            upkeep,
            ..Status::new(self.describe(), phase, self.moment())
        }
    }

    /// The vault request that the session has waited for too long: its attempts fail, or an attempt has no answer.
    fn trouble(&self, session: &SessionStatus) -> Option<LastError> {
        let trouble = self.vault.trouble().filter(|trouble| session.doing.is_some() && trouble.lasts >= PATIENCE)?;
        let silent = || seawall_vault::Error::Timeout { object: self.vault.url().to_owned(), after: trouble.lasts };
        let failure = Failure::from(trouble.error.clone().unwrap_or_else(silent));
        Some(told(&failure, plan::moment(before((self.clock)(), trouble.lasts)), 1))
    }

    /// The point up to which everything of this environment is in the vault.
    fn protected(&self, options: &LmdbOptions, session: &SessionStatus) -> Option<Point> {
        let author = &options.sync.author;
        let own = session.sent.map(|(stamp, _)| (author.instance.clone(), stamp, session.sent_as));
        // An instance that sent nothing has the state that it received from others.
        let others = || {
            let received = session.received.iter().map(|(instance, (stamp, codec))| (instance.clone(), *stamp, *codec));
            received.max_by_key(|(_, stamp, _)| *stamp)
        };
        let (instance, stamp, codec) = own.or_else(others)?;
        let (database, generation) = (self.name.clone(), GENERATION.to_owned());
        let name = SnapshotName { database, instance, stamp, generation, extra: Vec::new(), codec };
        Some(Point { position: name.to_string(), moment: plan::moment(stamp) })
    }

    async fn take(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        let options = self.options()?;
        let local = open(options.clone()).await?;
        let how = SyncOptions { only_once: true, ..options.sync.clone() };
        let mut session = Session::new(local, self.vault.clone(), how, Arc::clone(&self.clock));
        session.run(shutdown).await?;
        let last = session.watch().borrow().clone();
        let status = Status { phase: Phase::Stopped, ..self.status_from(options, &last, None, None) };
        let point = status.protected.clone();
        record(options, status).await;
        let path = options.path.clone();
        Ok(point.ok_or(Error::Empty { path })?)
    }

    async fn make(
        &self,
        request: &RestoreRequest,
        as_new: bool,
        progress: Arc<dyn Progress>,
    ) -> Result<(Restored, Vec<Rewritten>), Failure> {
        let started = Instant::now();
        let options = self.options()?;
        let (path, env, settings) = (options.path.as_path(), &options.env, &options.settings);
        let order = restore::Order { database: &self.name, path, env, settings, request };
        let clock = Arc::clone(&self.clock);
        let (restored, rewritten) = restore::restore(&self.vault, &order, as_new, clock, progress).await?;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok((Restored { duration_ms, ..restored }, rewritten))
    }

    async fn listed(&self) -> Result<Vec<crate::peers::latest::Listed>, Failure> {
        Ok(listing::of_database(&self.vault, &self.name).await?)
    }

    fn not_running(&self) -> Failure {
        let next = "start it with `seawall replicate`, or `seawall start`";
        Failure::new(Kind::Refused, "lmdb.not-running", self.name.clone(), "no running process keeps it in step", next)
    }
}

/// How long attempts may fail, or one may wait for its answer, before the status says so.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// How often the status is looked at anew while a request has no answer.
const TICK: std::time::Duration = std::time::Duration::from_secs(1);

/// The record is written anew when the lag grew by so many milliseconds.
const LAG_STEP: u64 = 5000;

/// The fault that a failure tells of the snapshots, or of what was restored from them. Any other failure says nothing.
fn fault(failure: Failure) -> Result<seawall_core::Fault, Failure> {
    if failure.kind == Kind::Corrupt { Ok(failure.into()) } else { Err(failure) }
}

/// The size of a file; 0 if there is none. Blocks.
fn file_bytes(path: &Path) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the size of the live environment is asked of the file system")]
    std::fs::metadata(path).map_or(0, |found| found.len())
}

/// The engine's name.
const ENGINE: &str = "lmdb";

/// Marks that nothing runs any more, however the session ended.
struct Stopped<'a>(&'a Lmdb);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.set(Now::Nothing);
    }
}

/// Opens an environment under the lock that excludes other Seawall processes.
async fn open(options: LmdbOptions) -> Result<Local, Error> {
    blocking(move || Local::open_alone(&options.path, &options.env, options.settings)).await
}

/// Writes the record. No decision depends on it.
async fn record(options: &LmdbOptions, status: Status) {
    let data = Lmdb::data(options);
    let written = blocking(move || state::write(&data, &status)).await;
    if let Err(error) = written {
        tracing::debug!(%error, "the status could not be written down");
    }
}

fn told(failure: &Failure, at: Moment, count: u64) -> LastError {
    LastError { count, ..LastError::new(failure, at) }
}

async fn unless_aborted<T>(shutdown: &Shutdown, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        // Dropped before the end, this leaves what a crash would leave.
        () = shutdown.immediate() => Err(Error::Interrupted.into()),
    }
}

#[async_trait]
impl Engine for Lmdb {
    fn describe(&self) -> Description {
        Description {
            name: self.name.clone(),
            engine: ENGINE,
            source: self.options.as_ref().map(|options| options.path.display().to_string()),
            vault: self.vault.url().to_owned(),
        }
    }

    fn figures(&self) -> Figures {
        let requests = self.vault.counts();
        let storing = self.running().map(|running| running.status.borrow().storing.clone()).unwrap_or_default();
        let done = storing.calls.saturating_sub(storing.failures);
        let captures = Work { done, failed: storing.failures, bytes: storing.bytes, micros: 0 };
        Figures { captures, requests, ..Figures::default() }
    }

    async fn status(&self) -> Result<Status, Failure> {
        let options = self.options()?;
        match self.now() {
            Now::Running(running) => {
                let session = running.status.borrow().clone();
                let late = self.written_late(options, &session).await;
                return Ok(self.status_from(options, &session, None, late));
            }
            Now::Waiting(failure) => {
                return Ok(self.status_from(options, &SessionStatus::default(), Some(failure), None));
            }
            Now::Nothing => {}
        }
        let (data, now) = (Self::data(options), self.moment());
        let read = spawn_blocking(move || state::read(&data, now)).await;
        read.map_err(|panic| Error::from(Panicked::from(panic)))?
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
impl Prove for Lmdb {
    async fn prove(&self, request: &ProofRequest, progress: Arc<dyn Progress>) -> Result<Checked, Failure> {
        let options = self.options()?;
        let before = self.vault.counts().bytes_down;
        let mut checked = Checked::default();
        self.rehearse(options, request, progress, &mut checked).await?;
        checked.read_bytes = self.vault.counts().bytes_down.saturating_sub(before);
        Ok(checked)
    }
}

impl Lmdb {
    /// Restores and checks. The restore comes first and is timed alone, so that its time is the time of a recovery.
    async fn rehearse(
        &self,
        options: &LmdbOptions,
        request: &ProofRequest,
        progress: Arc<dyn Progress>,
        checked: &mut Checked,
    ) -> Result<(), Failure> {
        // Older than every reading that follows.
        let fingerprints = listing::fingerprints(&self.vault, &self.name).await?;
        let mut wanted: Vec<_> =
            newest(&plan::until(&self.listed().await?, &request.when), &BTreeSet::new()).into_values().collect();
        let (vault, database) = (self.vault.url().to_owned(), self.name.clone());
        let point = plan::newest_point(&wanted).ok_or(Error::NothingThere { vault, database })?;
        checked.point = Some(point);
        checked.objects = wanted.len() as u64;
        let compressed: u64 = wanted.iter().map(|snapshot| snapshot.bytes).sum();
        let (data, scratch) = (Self::data(options), request.scratch.clone());
        let (live, free) = spawn_blocking(move || (file_bytes(&data), seawall_host::free_space(&scratch)))
            .await
            .map_err(|panic| Error::from(Panicked::from(panic)))?;
        // Snapshots don't say how large the environment is that they make.
        request.admit(free, live.max(compressed.saturating_mul(3)))?;
        let order = RestoreRequest {
            output: request.scratch.join("restored"),
            when: request.when.clone(),
            force: false,
            dry_run: false,
            integrity: IntegrityCheck::None,
        };
        let mut merged = Vec::new();
        match self.make(&order, false, Arc::clone(&progress)).await {
            Ok((restored, _)) => {
                // A newer snapshot may have come since, and the restore passes over a damaged one: then it is only in `wanted`.
                merged = snapshots(&self.name, restored.objects.iter().map(|one| (one.key.as_str(), one.bytes)));
                wanted.extend(merged.iter().filter(|one| !wanted.contains(one)).cloned().collect::<Vec<_>>());
                checked.objects = merged.len() as u64;
                checked.restore_ms = restored.duration_ms;
                checked.restored_bytes = restored.bytes;
                checked.point = Some(restored.point);
            }
            // A damaged snapshot is named below. If it is missing, another instance deleted it since the listing.
            Err(failure) => checked.fault(fault(failure)?),
        }
        // The restore passes over a damaged snapshot, and over pieces that an earlier one gave it. So only what was merged can be fresh, and
        // of several snapshots only where their content is read for the comparison below.
        let is_read = merged.len() == 1 || request.level == Level::Content;
        let is_fresh = |one: &Listed| {
            let number = fingerprints.get(&(one.key.clone(), one.bytes));
            is_read && merged.contains(one) && number.is_some_and(|number| request.fresh.contains(number))
        };
        let (fresh, due): (Vec<_>, Vec<_>) = wanted.into_iter().partition(is_fresh);
        checked.fresh_bytes = fresh.iter().map(|snapshot| snapshot.bytes).sum();
        let strong = match prove::verify_strong(&self.vault, &due, self.moment(), &*progress).await {
            Ok(strong) => strong,
            Err(error) => {
                checked.fault(fault(error.into())?);
                return Ok(());
            }
        };
        let is_sound = |snapshot: &&Listed| {
            !strong.verification.findings.iter().any(|finding| finding.object == snapshot.key)
                && !strong.without_digest.contains(&snapshot.key)
        };
        let number = |one: &Listed| fingerprints.get(&(one.key.clone(), one.bytes)).copied();
        checked.compared.extend(due.iter().filter(is_sound).filter_map(number));
        for finding in strong.verification.findings {
            let object = self.vault.object(&ObjectKey::new(&finding.object)?);
            checked.fault(seawall_core::Fault { code: finding.code.to_owned(), object, cause: finding.cause });
        }
        if !strong.without_digest.is_empty() {
            let count = strong.without_digest.len();
            checked.doubts.push(format!(
                "{count} of the snapshots have no digests, so that only their own checksums were checked"
            ));
        }
        if checked.restored_bytes == 0 || !checked.faults.is_empty() {
            return Ok(());
        }
        if request.level >= Level::Engine {
            let (path, env) = (order.output.clone(), options.env.clone());
            // The walk may take long: it ends if the proof is given up.
            let ending = rehearsal::EndOnDrop::default();
            let ended = ending.ended();
            match blocking(move || rehearsal::walk(&path, &env, &ended)).await {
                Ok(faults) => faults.into_iter().for_each(|fault| checked.fault(fault)),
                Err(error) => checked.fault(fault(error.into())?),
            }
        }
        if request.level >= Level::Content {
            let schema = &options.settings.schema;
            match rehearsal::compare(&self.vault, &merged, &order.output, &options.env, schema).await {
                Ok(compared) => {
                    // A doubt says what couldn't be compared.
                    if !compared.doubts.is_empty() {
                        checked.reachable = Level::Engine;
                    }
                    checked.faults.extend(compared.faults);
                    checked.doubts.extend(compared.doubts);
                }
                Err(error) => checked.fault(fault(error.into())?),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Protect for Lmdb {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        unless_aborted(shutdown, self.keep(shutdown)).await
    }

    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        unless_aborted(shutdown, self.take(shutdown)).await
    }

    async fn sync(&self) -> Result<Point, Failure> {
        let options = self.options()?;
        let Running { mut status, hurry } = self.running().ok_or_else(|| self.not_running())?;
        let begun = status.borrow().rounds.0;
        hurry.notify_one();
        let over = status.wait_for(|status| status.rounds.1 > begun || status.ended.is_some()).await;
        let session = over.map_err(|_| self.not_running())?.clone();
        if session.ended.is_some() {
            return Err(self.not_running());
        }
        // A restore may take the other writer's snapshot.
        if let Some((failure, _, _)) = session.alarms.get("lmdb.two-writers") {
            return Err(failure.clone());
        }
        let path = options.path.clone();
        Ok(self.protected(options, &session).ok_or(Error::Empty { path })?)
    }
}

#[async_trait]
impl History for Lmdb {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        let (listed, misdated) = listing::with_misdated(&self.vault, &self.name).await?;
        let doubts = plan::of_misdated(&misdated).into_iter().collect();
        Ok(Timeline { doubts, ..plan::timeline(&listed) })
    }

    async fn contents(&self, when: &When) -> Result<Contents, Failure> {
        Ok(restore::contents::contents(&self.vault, &self.name, &self.listed().await?, when).await?)
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        Ok(prove::verify(&self.vault, &self.listed().await?, self.moment(), &*progress).await?)
    }

    async fn locks(&self) -> Result<Option<Locks>, Failure> {
        if !self.vault.protection().await?.is_some() {
            return Ok(None);
        }
        Ok(self.vault.locks(&self.newest_objects().await?, self.moment()).await?)
    }

    async fn renew_locks(&self) -> Result<Option<Moment>, Failure> {
        if !self.vault.renews().await? {
            return Ok(None);
        }
        Ok(self.vault.renew(&self.newest_objects().await?, self.moment()).await?)
    }

    fn digests(&self) -> Option<&dyn Digests> {
        Some(self)
    }

    fn maintenance(&self) -> Option<&dyn Maintain> {
        None
    }

    fn pins(&self) -> Option<&dyn Pins> {
        None
    }
}

#[async_trait]
impl Digests for Lmdb {
    async fn verify_strong(&self, progress: Arc<dyn Progress>) -> Result<StrongVerification, Failure> {
        Ok(prove::verify_strong(&self.vault, &self.listed().await?, self.moment(), &*progress).await?)
    }
}

#[async_trait]
impl Files for Lmdb {
    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        self.make(request, false, progress).await.map(|(restored, _)| restored)
    }

    fn rollback(&self) -> Option<&dyn Rollback> {
        Some(self)
    }

    fn standby(&self) -> Option<&dyn Standby> {
        None
    }
}

#[async_trait]
impl Rollback for Lmdb {
    async fn restore_as_new(
        &self,
        request: &RestoreRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<(Restored, Vec<Rewritten>), Failure> {
        self.make(request, true, progress).await
    }
}

/// The status of the environment whose data is in the file `data`, from its record on this machine. Blocks.
///
/// # Errors
/// If no status was recorded, or the record can't be read.
pub fn read_status(data: &Path, now: Moment) -> Result<Status, Failure> {
    state::read(data, now)
}

/// The author of an instance's snapshots. The instance's name is cleaned, because snapshot names hold only letters,
/// digits and `-`.
pub fn author(instance: &str, hostname: &str, database: &str) -> Author {
    Author {
        instance: SnapshotName::clean_instance(instance),
        hostname: hostname.to_owned(),
        database: database.to_owned(),
    }
}
