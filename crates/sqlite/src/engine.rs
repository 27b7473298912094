//! One protected SQLite database, or one vault to restore from: the crate's implementation of [`Engine`].

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use seawall_core::{
    Activity, Description, Engine, Failure, Figures, FollowRequest, Followed, Kind, LastError, Maintained, Moment,
    Phase, Point, Progress, RestoreRequest, Restored, Shutdown, Status, StrongVerification, Timeline, Verification,
    When,
};
use seawall_vault::Vault;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::error::Error;
use crate::hold::KeptFiles;
use crate::identity::Lineage;
use crate::lock::{self, Locks};
use crate::maintain::Maintenance;
use crate::probe::Probe;
use crate::prove::{self, Strength};
use crate::seal;
use crate::session::{BACKOFF, Patience, Session};
use crate::ship::blocking;
use crate::source::{is_there, resolved};
use crate::state::{Facts, Position, Record, sizes};
use crate::watch::{Glance, Subscription};
use crate::{Admission, Options, World, follow, marks, read_state, restore, target, timeline};

/// How long to let a burst of writes settle before looking: a commit is several writes.
const SETTLE: Duration = Duration::from_millis(2);

/// How often to look whether there is that much, while something is waiting to be shipped.
const GLANCE: Duration = Duration::from_millis(50);

/// How often a database that is there and was not is tried once more when everything ends.
const LAST_TRIES: u32 = 5;

/// How long to wait before a lost database is opened again: doubled from the first to the last.
const REOPEN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// One SQLite database and its place in a vault.
///
/// Made without a path it can restore, show the timeline and verify, but not protect.
#[derive(Debug)]
pub struct Sqlite {
    vault: Vault,
    options: Options,
    world: World,
    kept: Arc<Mutex<KeptFiles>>,
    /// The locks of the protection that is running.
    locks: Arc<Mutex<Option<Locks>>>,
    told: Mutex<Told>,
    /// Whether the state record on the disk is older than what is told.
    unsaved: Arc<AtomicBool>,
    asked: Arc<Mutex<Asked>>,
    /// Someone asked to ship now, or the upkeep has something to tell.
    hurry: Arc<Notify>,
    activity: Arc<Activity>,
    maintenance: Arc<Maintenance>,
    probe: Probe,
}

/// Those who asked to ship now, and wait for the point.
type Asked = Vec<oneshot::Sender<Point>>;

/// What is told about the protection.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    position: Option<Position>,
    lineage: Option<Lineage>,
}

#[derive(Debug, Default)]
struct Told {
    known: Known,
    error: Option<LastError>,
    /// What went wrong in the vault's upkeep, as it was told.
    upkeep: Option<LastError>,
    /// What was told last, with the sizes of the database and its WAL then.
    phase: Option<Phase>,
    sizes: (Option<u64>, Option<u64>),
}

/// A failure counted with the last one, if that was of the same kind.
pub(crate) fn once_more(last: Option<&LastError>, failure: &Failure, at: Moment) -> LastError {
    let count = last.filter(|last| last.code == failure.code).map_or(0, |last| last.count);
    LastError {
        code: failure.code.to_owned(),
        message: failure.to_string(),
        next: failure.next.clone(),
        at,
        count: count + 1,
    }
}

/// Frames that are in the WAL and not published, at a place in the WAL as it was written last.
#[derive(Debug, Default)]
struct Unpublished {
    place: Option<(Option<Position>, Option<SystemTime>)>,
    attempts: u32,
}

impl Unpublished {
    /// When to look again, if `place` is the one that was looked at before; a new one is looked at soon.
    fn look_again(&mut self, place: (Option<Position>, Option<SystemTime>)) -> Option<Duration> {
        if self.place != Some(place) {
            *self = Self { place: Some(place), attempts: 0 };
        }
        look_again(self.attempts)
    }
}

/// When to look again at frames that are in the WAL and not published, after `attempts` in vain.
///
/// The last thing that a commit does is to publish its frames in shared memory, which raises no event, and before it comes
/// a sync that takes as long as the disk likes. Frames of a killed writer are never published: those wait for the sweep.
fn look_again(attempts: u32) -> Option<Duration> {
    (attempts < 40).then(|| Duration::from_millis(5 << attempts.min(8)).min(Duration::from_secs(1)))
}

impl Sqlite {
    /// A database (`options.path`) and the vault prefix that is its own. Does no I/O.
    pub fn new(vault: Vault, options: Options, world: World) -> Self {
        let (activity, hurry) = (Arc::<Activity>::default(), Arc::<Notify>::default());
        Self {
            maintenance: Arc::new(Maintenance::new(&vault, &options, &world, activity.clone(), hurry.clone())),
            vault,
            options,
            world,
            kept: Arc::default(),
            locks: Arc::default(),
            told: Mutex::default(),
            unsaved: Arc::default(),
            asked: Arc::default(),
            hurry,
            activity,
            probe: Probe::default(),
        }
    }

    /// Lets a test in.
    #[cfg(all(feature = "testing", debug_assertions))]
    #[doc(hidden)]
    #[must_use]
    pub fn with_intruder(self, intruder: Arc<dyn crate::probe::Intruder>) -> Self {
        Self { probe: Probe::new(intruder), ..self }
    }

    pub(crate) fn probe(&self) -> Probe {
        self.probe.clone()
    }

    /// Where what is done is counted.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    pub(crate) fn maintenance(&self) -> &Arc<Maintenance> {
        &self.maintenance
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.world.admission
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn now(&self) -> Moment {
        self.world.clock.now()
    }

    pub(crate) fn random(&self) -> u64 {
        (self.world.random)()
    }

    pub(crate) fn name(&self) -> String {
        self.options.display_name(&self.vault)
    }

    pub(crate) fn kept_files(&self) -> Arc<Mutex<KeptFiles>> {
        self.kept.clone()
    }

    /// The database file behind all symbolic links, and the state directory.
    pub(crate) fn place(&self) -> Result<(PathBuf, PathBuf), Error> {
        match (&self.options.path, self.options.state_dir()) {
            (Some(path), Some(state_dir)) => Ok((resolved(path), state_dir)),
            _ => Err(Error::NoSource { vault: self.vault.url().to_owned() }),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // Two plain values, whole between any two statements.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything up to `position` is durable: what went wrong before is over.
    pub(crate) fn arrived(&self, position: Position, lineage: Lineage) {
        let mut told = self.told();
        told.known = Known { position: Some(position), lineage: Some(lineage) };
        told.error = None;
    }

    /// Notes what the protection does, for `status`, and writes the state record.
    pub(crate) async fn tell(&self, phase: Phase, error: Option<&Error>, lineage: Lineage) {
        if let Some(error) = error {
            self.note(error);
        }
        let Ok((source, state_dir)) = self.place() else { return };
        let upkeep = self.maintenance.failure();
        let record = {
            let mut told = self.told();
            told.phase = Some(phase);
            told.upkeep = upkeep;
            Record::new(Facts {
                name: &self.name(),
                source: &source,
                vault: self.vault.url(),
                lineage: told.known.lineage.unwrap_or(lineage),
                phase,
                error: told.error.clone().or_else(|| told.upkeep.clone()),
                at: self.now(),
                position: told.known.position,
            })
        };
        let (locks, probe) = (self.locks.clone(), self.probe());
        let save = move || {
            record.save(&state_dir, &probe)?;
            // The state directory may have been deleted under us, and the lock in it.
            match &mut *locks.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(locks) => locks.renew(&state_dir),
                None => Ok(()),
            }
        };
        let done = blocking(move || Ok((sizes(&source), save()))).await;
        let saved = done.and_then(|(sizes, saved)| {
            self.told().sizes = sizes;
            saved
        });
        self.unsaved.store(saved.is_err(), Ordering::Relaxed);
        if let Err(error) = saved {
            tracing::warn!(database = %self.name(), %error, "the state record could not be written");
        }
    }

    fn note(&self, error: &Error) {
        let failure = error.failure();
        let at = self.now();
        let mut told = self.told();
        let error = once_more(told.error.as_ref(), &failure, at);
        if error.count == 1 {
            tracing::error!(database = %self.name(), code = failure.code, next = %failure.next, "{failure}");
        }
        told.error = Some(error);
    }

    /// Whether the state record could not be written the last time.
    pub(crate) fn unsaved(&self) -> &Arc<AtomicBool> {
        &self.unsaved
    }

    /// Whether the upkeep has failed, or goes well again, since the record was written.
    pub(crate) fn upkeep_has_news(&self) -> bool {
        self.maintenance.failure() != self.told().upkeep
    }

    /// The status of a protection for which nothing waits, from memory alone; `None` where it must be looked at.
    fn resting(&self) -> Option<Status> {
        if !self.figures().idle || self.locks.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return None;
        }
        let told = self.told();
        let phase = told.phase.filter(|phase| *phase == Phase::Protecting)?;
        Some(Status {
            name: self.name(),
            engine: "sqlite".to_owned(),
            source: self.place().ok()?.0.display().to_string(),
            vault: self.vault.url().to_owned(),
            phase,
            protected: Some(told.known.position?.point()),
            lag_bytes: 0,
            lag_ms: 0,
            source_bytes: told.sizes.0,
            log_bytes: told.sizes.1,
            error: told.error.clone().or_else(|| told.upkeep.clone()),
            at: self.now(),
        })
    }

    /// Takes up what an earlier run knew, so that the status is right before the first success.
    fn remember(&self, record: Option<Record>) {
        if let Some((facts, position)) = record.and_then(|record| record.remembered(self.vault.url())) {
            self.told().known = Known { position: Some(position), lineage: Some(facts.lineage) };
        }
    }

    async fn take_locks(&self) -> Result<LockGuard, Error> {
        let (path, state_dir) = self.place()?;
        let vault = self.vault.url().to_owned();
        let (locks, record) = blocking(move || {
            lock::private_dir(&state_dir)?;
            Ok((Locks::take(&path, &state_dir, &vault)?, Record::load(&state_dir)?))
        })
        .await?;
        self.remember(record);
        *self.locks.lock().unwrap_or_else(PoisonError::into_inner) = Some(locks);
        Ok(LockGuard { locks: self.locks.clone(), asked: self.asked.clone() })
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn protect(&self, shutdown: &Shutdown) -> Result<(), Error> {
        let _locks = self.take_locks().await?;
        let _upkeep = self.maintenance.in_background();
        let (path, _) = self.place()?;
        let subscription = self.world.watcher.as_ref().map(|watcher| watcher.subscribe(&path));
        let mut backoff = REOPEN.0;
        let (mut last_word, mut last_tries) = (Lineage::new(1), 0);
        // What an earlier process recorded last is not true any more.
        self.tell(Phase::Starting, None, last_word).await;
        loop {
            let since = Instant::now();
            // Handed on by value a future takes its room twice.
            let session = Box::pin(self.session(shutdown, subscription.as_ref(), &mut last_word));
            let ended = self.in_time(shutdown, session).await;
            let error = match ended {
                Ok(()) => {
                    self.tell(Phase::Stopped, None, last_word).await;
                    return Ok(());
                }
                Err(error) => error,
            };
            if error.is_absent() && shutdown.requested() && last_tries < LAST_TRIES && is_there(&path) {
                // It came back while it was looked for: what is in it is to be shipped before the end.
                last_tries += 1;
                sleep(SETTLE).await;
                continue;
            }
            if error.is_absent() && shutdown.requested() {
                self.tell(Phase::Stopped, None, last_word).await;
                return Ok(());
            }
            if error.is_final() || shutdown.requested() {
                self.tell(Phase::Halted, Some(&error), last_word).await;
                return Err(error);
            }
            if error.is_absent() {
                self.tell(Phase::Waiting, None, last_word).await;
                tracing::info!(database = %self.name(), "waiting for the database to be created");
                self.wait(shutdown, subscription.as_ref(), None).await;
                continue;
            }
            self.tell(Phase::Failing, Some(&error), last_word).await;
            if since.elapsed() > REOPEN.1 {
                backoff = REOPEN.0;
            }
            self.wait_for(shutdown, backoff).await;
            if matches!(error, Error::GaveUp { .. }) {
                // The WAL is pinned again only once the vault answers.
                while !shutdown.requested() && crate::survey::list(&self.vault).await.is_err() {
                    self.wait_for(shutdown, REOPEN.1).await;
                }
            }
            backoff = (backoff * 2).min(REOPEN.1);
        }
    }

    /// Bounds work from the moment at which a graceful stop is requested, whatever it was doing then (I7).
    async fn in_time(&self, shutdown: &Shutdown, work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        let late = async {
            shutdown.graceful().await;
            sleep(self.options.shutdown_timeout).await;
        };
        tokio::select! {
            done = work => done,
            () = late => Err(Error::Interrupted),
        }
    }

    async fn wait_for(&self, shutdown: &Shutdown, duration: Duration) {
        tokio::select! {
            () = sleep(duration) => {}
            () = shutdown.graceful() => {}
        }
    }

    /// Waits for a hint, for the sweep (if `glance` finds something), for the next poll, or for the end.
    async fn wait(&self, shutdown: &Shutdown, subscription: Option<&Subscription>, glance: Option<Glance>) {
        let polled = subscription.is_none_or(|subscription| !subscription.has_events());
        let changed = async {
            match (subscription, glance) {
                (Some(subscription), Some(glance)) => subscription.changed_unless_idle(glance).await,
                (Some(subscription), None) => subscription.changed().await,
                (None, _) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = sleep(self.options.sync_interval), if polled => {}
            () = self.hurry.notified() => {}
            () = shutdown.graceful() => {}
        }
    }

    async fn session(
        &self,
        shutdown: &Shutdown,
        subscription: Option<&Subscription>,
        last_word: &mut Lineage,
    ) -> Result<(), Error> {
        // What is large goes into boxes that are gone while nothing happens: thousands wait here.
        let mut session = Box::pin(Session::open(self, shutdown, Patience::Protecting)).await?;
        *last_word = session.lineage();
        let (mut unpublished, mut backoff) = (Unpublished::default(), BACKOFF.0);
        let mut done = Box::pin(session.drain()).await;
        loop {
            match done {
                Ok(()) if shutdown.requested() => match Box::pin(session.drain()).await {
                    Ok(()) => return Ok(()),
                    failed => done = failed,
                },
                Ok(()) => {
                    backoff = BACKOFF.0;
                    done = self.next_change(shutdown, subscription, &mut session, &mut unpublished).await;
                }
                Err(error) => {
                    Box::pin(session.endure(error, &mut backoff)).await?;
                    done = Box::pin(session.recover()).await;
                }
            }
        }
    }

    /// Waits for a change, or for whatever else there is to do, and does it.
    async fn next_change(
        &self,
        shutdown: &Shutdown,
        subscription: Option<&Subscription>,
        session: &mut Session<'_>,
        unpublished: &mut Unpublished,
    ) -> Result<(), Error> {
        let wait = self.wait(shutdown, subscription, Some(session.glance()));
        let (behind, written) = session.glimpse().await?;
        match unpublished.look_again((session.position(), written)) {
            Some(soon) if behind => {
                unpublished.attempts += 1;
                // In time or out of time: either way it is looked at now.
                let _elapsed = timeout(soon, wait).await;
            }
            _ => {
                session.rest();
                wait.await;
            }
        }
        let behind = session.is_behind(0).await?;
        self.activity.set_behind(behind);
        if behind && self.asked().is_empty() {
            self.wait_until_due(shutdown, session).await?;
        } else if !behind
            && self.asked().is_empty()
            && !session.look_is_due()
            && Box::pin(session.is_as_it_was()).await?
        {
            self.activity.skip();
            Box::pin(session.keep_record()).await;
            return Ok(());
        }
        let asked = std::mem::take(&mut *self.asked());
        Box::pin(session.drain()).await?;
        Box::pin(session.keep_record()).await;
        self.activity.set_behind(false);
        for (asked, point) in asked.into_iter().zip(std::iter::repeat(session.point())) {
            // Whoever asked may not wait any more.
            let _gone = point.map(|point| asked.send(point));
        }
        Ok(())
    }

    /// Lets commits collect until the next object is due, or there is much to ship.
    async fn wait_until_due(&self, shutdown: &Shutdown, session: &Session<'_>) -> Result<(), Error> {
        let now = Instant::now();
        let due = session.next_due().unwrap_or(now).max(now + SETTLE);
        // A fast writer would let the WAL grow without bound in a long interval.
        let much = seal::busy(self.options.wal_limit);
        while Instant::now() < due && !shutdown.requested() {
            tokio::select! {
                () = sleep_until(due.min(Instant::now() + GLANCE)) => {}
                () = self.hurry.notified() => return Ok(()),
                () = shutdown.graceful() => {}
            }
            session.step_inside().await;
            if session.is_behind(much).await? {
                break;
            }
        }
        Ok(())
    }

    fn not_running(&self) -> Failure {
        Failure::new(
            Kind::Unavailable,
            "sqlite.not-running",
            self.name(),
            "the protection isn't running, or was interrupted while it shipped",
            "start it, or ask again; `seawall status` says what is wrong",
        )
    }

    async fn take_one_point(&self, shutdown: &Shutdown) -> Result<Point, Error> {
        let _locks = self.take_locks().await?;
        let mut session = Session::open(self, shutdown, Patience::Once).await?;
        session.drain().await?;
        self.tell(Phase::Stopped, None, session.lineage()).await;
        // The point is durable: what is due besides must not make it a failure.
        if self.maintenance.work_and_note().await.is_err() {
            self.tell(Phase::Stopped, None, session.lineage()).await;
        }
        session.point().ok_or_else(|| Error::Internal("a point was shipped and not kept".to_owned()))
    }

    /// Runs work until it ends or until everything has to stop at once.
    async fn unless_aborted<T>(
        shutdown: &Shutdown,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            done = work => done.map_err(Failure::from),
            () = shutdown.immediate() => Err(Error::Interrupted.into()),
        }
    }
}

/// Lets the locks go when the protection ends in any way, and whoever still waits for a point.
struct LockGuard {
    locks: Arc<Mutex<Option<Locks>>>,
    asked: Arc<Mutex<Asked>>,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

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
        told.await.map_err(|_| self.not_running())
    }

    fn figures(&self) -> Figures {
        self.activity.figures(self.vault.counts())
    }

    async fn status(&self) -> Result<Status, Failure> {
        let (_, state_dir) = self.place()?;
        let now = self.now();
        let read = tokio::task::spawn_blocking(move || read_state(&state_dir, now)).await;
        read.unwrap_or_else(|e| {
            let cause = format!("a job ended in a panic: {e}");
            Err(Failure::new(Kind::Internal, "sqlite.internal", self.name(), cause, "report this: it is a defect"))
        })
    }

    async fn known_status(&self) -> Result<Status, Failure> {
        match self.resting() {
            Some(status) => Ok(status),
            None => self.status().await,
        }
    }

    async fn timeline(&self) -> Result<Timeline, Failure> {
        Ok(timeline::timeline(&self.vault).await?)
    }

    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        let started = Instant::now();
        let restored = restore::restore(&self.vault, request, progress, self.options.jobs).await;
        let restored = restored.inspect_err(|_| self.activity.restores.failed())?;
        if !restored.dry_run {
            self.activity.restores.done(restored.bytes, started.elapsed());
        }
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Restored { duration_ms, ..restored })
    }

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

    async fn pin(&self, when: &When, pinned: bool) -> Result<String, Failure> {
        let point = match when {
            When::Position(text) if !pinned => text.parse().ok(),
            _ => target::find(&self.vault, when).await?.last().map(|file| file.max),
        };
        let point = point.ok_or_else(|| Error::NothingThere { vault: self.vault.url().to_owned() })?;
        match pinned {
            true => marks::pin(&self.vault, point).await?,
            false if marks::unpin(&self.vault, point).await? => {}
            false => return Err(Error::NotPinned { vault: self.vault.url().to_owned(), point }.into()),
        }
        Ok(point.to_string())
    }

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

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        Ok(self.prove(progress, Strength::Format).await?.verification)
    }

    async fn verify_strong(&self, progress: Arc<dyn Progress>) -> Result<StrongVerification, Failure> {
        self.prove(progress, Strength::Digests).await
    }
}

impl Sqlite {
    async fn prove(&self, progress: Arc<dyn Progress>, strength: Strength) -> Result<StrongVerification, Failure> {
        let started = Instant::now();
        let verified = prove::verify(&self.vault, self.now(), progress, self.options.jobs, strength).await;
        let verified = verified.inspect_err(|_| self.activity.verifications.failed())?;
        self.activity.verifications.done(verified.verification.bytes, started.elapsed());
        Ok(verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside the files of a database and its configuration this is what it takes while nothing happens.
    #[test]
    fn a_protection_is_small() {
        let vault = Vault::new(Arc::new(seawall_vault::memory::MemoryStore::default()), Default::default());
        let engine = Sqlite::new(vault, Options::default(), World::real(None, Admission::default()));
        let (shutdown, mut lineage) = (Shutdown::new(), Lineage::new(1));
        let task = size_of_val(&engine.protect(&shutdown));
        let session = size_of_val(&engine.session(&shutdown, None, &mut lineage));
        assert!(task + session <= 3072 && size_of::<Sqlite>() <= 1024, "{task} {session} {}", size_of::<Sqlite>());
    }

    #[test]
    fn unpublished_frames_are_looked_at_soon_and_not_for_ever() {
        let waits: Vec<_> = (0..).map_while(look_again).collect();
        assert_eq!(waits[0], Duration::from_millis(5));
        assert!(waits.is_sorted() && waits.iter().all(|wait| *wait <= Duration::from_secs(1)));
        let total: Duration = waits.iter().sum();
        assert!((30..60).contains(&total.as_secs()), "{total:?}");
    }
}
