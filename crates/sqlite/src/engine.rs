//! One protected SQLite database, or one vault to restore from: the crate's implementation of [`Engine`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use seawall_core::{
    Activity, Backoff, Description, Digests, Engine, Failure, Figures, Files, FollowRequest, Followed, History, Kind,
    Maintain, Maintained, Moment, Panicked, Phase, Pins, Point, Progress, Protect, RestoreRequest, Restored, Rollback,
    Shutdown, Standby, Status, StrongVerification, Timeline, Verification, When,
};
use seawall_host::{Glance, Subscription, links_on};
use seawall_ltx::Txid;
use seawall_vault::Vault;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::clock::BelievedClock;
use crate::error::{Error, SEVERAL_NAMES};
use crate::files::{is_there, leads_to, resolved};
use crate::hold::KeptFiles;
use crate::identity::Lineage;
use crate::known::Maintenance;
use crate::lock::{self, Locks};
use crate::probe::Probe;
use crate::prove::{self, Strength};
use crate::read_back::ReadBack;
use crate::seal;
use crate::session::{BACKOFF, Looking, Patience, Session};
use crate::ship::blocking;
use crate::state::{Facts, Position, Record, StoredClock, sizes};
use crate::told::{Known, Told, once_more};
use crate::{Admission, Options, World, follow, marks, read_state, restore, target, timeline};

/// How long to let a burst of writes settle before looking: a commit is several writes.
const SETTLE: Duration = Duration::from_millis(2);

/// How often to look whether there is that much, while something is waiting to be shipped.
const GLANCE: Duration = Duration::from_millis(50);

/// How often a database that is there and was not is tried once more when everything ends.
const LAST_TRIES: u32 = 5;

/// How long to wait before a lost database is opened again: doubled from the first to the last.
const REOPEN: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// One SQLite database and its place in a vault.
///
/// Made without a path it can restore, show the timeline and verify, but not protect.
#[derive(Debug)]
pub struct Sqlite {
    vault: Vault,
    options: Options,
    world: World,
    kept: Arc<Mutex<KeptFiles>>,
    /// Where the database and its state directory were found when the present stretch of protection began.
    placed: Mutex<Option<(PathBuf, PathBuf)>>,
    /// The locks of the protection that is running.
    locks: Arc<Mutex<Option<Locks>>>,
    told: Mutex<Told>,
    clock: Arc<BelievedClock>,
    /// Whether the state record on the disk is older than what is told.
    unsaved: Arc<AtomicBool>,
    asked: Arc<Mutex<Asked>>,
    /// Someone asked to ship now, or the upkeep has something to tell.
    hurry: Arc<Notify>,
    activity: Arc<Activity>,
    maintenance: Arc<Maintenance>,
    read_back: Arc<ReadBack>,
    probe: Probe,
}

/// Those who asked to ship now, and wait for the point.
type Asked = Vec<oneshot::Sender<Result<Point, Failure>>>;

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
        let read_back = Arc::new(ReadBack::new(options.state_dir(), vault.url().to_owned()));
        let maintenance = Maintenance::new(&vault, &options, &world, activity.clone(), hurry.clone());
        Self {
            maintenance: Arc::new(maintenance.noting(read_back.clone())),
            read_back,
            clock: Arc::new(BelievedClock::new(world.clock.clone(), options.display_name(&vault))),
            vault,
            options,
            world,
            kept: Arc::default(),
            placed: Mutex::default(),
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

    pub(crate) fn read_back(&self) -> &Arc<ReadBack> {
        &self.read_back
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
        self.clock.wall()
    }

    pub(crate) fn clock(&self) -> &Arc<BelievedClock> {
        &self.clock
    }

    /// The moment of what is captured now.
    pub(crate) fn moment(&self) -> Moment {
        let now = self.clock.ask();
        self.told().began = Some(self.clock.steady());
        now.moment
    }

    /// Whether something is wrong with the clock that isn't told, or is told and over.
    pub(crate) fn clock_has_news(&self) -> bool {
        let newest = self.told().known.position.map(|position| position.moment);
        self.clock.fault(newest).is_some() != self.clock_fault_is_told()
    }

    pub(crate) fn clock_fault_is_told(&self) -> bool {
        self.told().clock.is_some()
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

    fn placed(&self) -> MutexGuard<'_, Option<(PathBuf, PathBuf)>> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database file behind all symbolic links, and the state directory: while it is protected, as they were when that began.
    pub(crate) fn place(&self) -> Result<(PathBuf, PathBuf), Error> {
        match self.placed().clone() {
            Some(placed) => Ok(placed),
            None => self.place_now(),
        }
    }

    fn place_now(&self) -> Result<(PathBuf, PathBuf), Error> {
        match (&self.options.path, self.options.state_dir()) {
            (Some(path), Some(state_dir)) => Ok((resolved(path), state_dir)),
            _ => Err(Error::NoSource { vault: self.vault.url().to_owned() }),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // Two plain values, whole between any two statements.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything up to `position` is durable: what went wrong before is over, unless it is `still` so.
    pub(crate) fn arrived(&self, position: Position, lineage: Lineage, still: bool) {
        let mut told = self.told();
        told.known = Known { position: Some(position), lineage: Some(lineage), captured: told.began };
        told.error = told.error.take().filter(|_| still);
    }

    /// The error that an absence of the database is, where it was protected before.
    fn of_the_lost(&self, error: Error) -> Error {
        let known = self.told().known.position.is_some();
        match error {
            // A database never becomes an empty file by itself.
            Error::Empty { path } if known => Error::Cut { path },
            error => error,
        }
    }

    /// Whether links lead from the database's name to another file than `path` now.
    async fn leads_elsewhere(&self, path: &Path) -> bool {
        let (Some(named), path) = (self.options.path.clone(), path.to_owned()) else { return false };
        blocking(move || Ok(leads_to(&named).is_some_and(|now| now != path))).await.unwrap_or(false)
    }

    /// Notes what the protection does, for `status`, and writes the state record.
    pub(crate) async fn tell(&self, phase: Phase, error: Option<&Error>, lineage: Lineage) {
        if let Some(error) = error {
            self.note(error);
        }
        let Ok((source, state_dir)) = self.place() else { return };
        let upkeep = self.maintenance.failure();
        let newest = self.told().known.position.map(|position| position.moment);
        let clock = self.clock.fault(newest).map(|what| Error::Clock { database: self.name(), what });
        let belief = self.clock.belief();
        let record = {
            let at = self.now();
            let mut told = self.told();
            told.phase = Some(phase);
            told.upkeep = upkeep;
            told.clock = clock.map(|error| once_more(told.clock.as_ref(), &error.failure(), at));
            Record::new(Facts {
                name: &self.name(),
                source: &source,
                vault: self.vault.url(),
                lineage: told.known.lineage.unwrap_or(lineage),
                phase,
                error: told.worst(),
                at,
                position: told.known.position,
                clock: belief.map(|belief| StoredClock { belief, captured: told.known.captured }),
            })
        };
        let (locks, probe, read_back) = (self.locks.clone(), self.probe(), self.read_back.clone());
        let save = move || {
            read_back.refresh();
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

    /// The status that was told last, from memory: for when the record can't be read.
    fn told_status(&self) -> Option<Status> {
        let (told, source) = (self.told(), self.options.path.as_ref()?);
        Some(self.status_of(&told, told.phase?, source))
    }

    /// The status of a protection that has nothing pending, from memory alone; `None` where it must be looked at.
    fn resting(&self) -> Option<Status> {
        if !self.figures().idle || self.locks.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return None;
        }
        let told = self.told();
        let phase = told.phase.filter(|phase| *phase == Phase::Protecting)?;
        told.known.position?;
        Some(self.status_of(&told, phase, &self.place().ok()?.0))
    }

    /// The status that memory gives a protection in this phase.
    fn status_of(&self, told: &Told, phase: Phase, source: &Path) -> Status {
        Status {
            name: self.name(),
            engine: "sqlite".to_owned(),
            source: source.display().to_string(),
            vault: self.vault.url().to_owned(),
            phase,
            protected: told.known.position.map(|position| position.point()),
            lag_bytes: 0,
            lag_ms: 0,
            source_bytes: told.sizes.0,
            log_bytes: told.sizes.1,
            content_read_at: self.read_back.at(),
            progress: None,
            error: told.worst(),
            at: self.now(),
        }
    }

    /// Takes up what an earlier run knew, so that the status is right before the first success.
    fn remember(&self, record: Option<Record>) {
        let clock = record.as_ref().and_then(Record::clock);
        self.clock.begin(clock.map(|clock| clock.belief));
        let mut told = self.told();
        let known = told.known.position.map(|position| position.txid);
        if let Some((facts, position)) = record.and_then(|record| record.remembered(self.vault.url()))
            && known.is_none_or(|known| known < position.txid)
        {
            let captured = clock.and_then(|clock| clock.captured);
            told.known = Known { position: Some(position), lineage: Some(facts.lineage), captured };
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
        let mut backoff = REOPEN;
        loop {
            match Box::pin(self.protect_here(shutdown)).await {
                Ok(Ended::Stopped) => return Ok(()),
                Ok(Ended::Elsewhere) => tracing::warn!(database = %self.name(), "links lead to another file now"),
                // What others of the process need as well was let go, the locks among it. They aren't to come back all at once.
                Err(error) if error.is_shortage() && !shutdown.requested() => {
                    Box::pin(self.tell(Phase::Failing, Some(&error), Lineage::new(1))).await;
                    let share = (self.random() >> 40) as u32;
                    let pause = backoff.failed().mul_f64(f64::from(share) / f64::from(1 << 24));
                    Box::pin(self.wait_for(shutdown, pause)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Protects the file to which the database's name leads now, for as long as it leads there.
    async fn protect_here(&self, shutdown: &Shutdown) -> Result<Ended, Error> {
        let _placed = Placed::settle(self)?;
        let _locks = self.take_locks().await?;
        let _upkeep = self.maintenance.in_background();
        let (path, _) = self.place()?;
        let links = self.options.path.clone().map_or_else(Vec::new, |named| links_on(&named));
        let subscription = self.world.watcher.as_ref().map(|watcher| watcher.subscribe_with(&path, &links));
        let mut backoff = REOPEN;
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
                    return Ok(Ended::Stopped);
                }
                Err(error) => self.of_the_lost(error),
            };
            if !error.is_final() && self.leads_elsewhere(&path).await {
                self.tell(Phase::Failing, Some(&error), last_word).await;
                return Ok(Ended::Elsewhere);
            }
            if error.is_shortage() && !shutdown.requested() {
                return Err(error);
            }
            if error.is_absent() && shutdown.requested() && last_tries < LAST_TRIES && is_there(&path) {
                // It came back while it was looked for: what is in it is to be shipped before the end.
                last_tries += 1;
                sleep(SETTLE).await;
                continue;
            }
            let lost = self.told().known.position.is_some();
            if error.is_absent() && shutdown.requested() && !lost {
                self.tell(Phase::Stopped, None, last_word).await;
                return Ok(Ended::Stopped);
            }
            let hopeless = matches!(error, Error::Vault(seawall_vault::Error::Missing { .. })) && self.is_new();
            if error.is_final() || hopeless || shutdown.requested() {
                self.tell(Phase::Halted, Some(&error), last_word).await;
                return Err(error);
            }
            if error.is_absent() {
                self.tell(Phase::Waiting, lost.then_some(&error), last_word).await;
                tracing::info!(database = %self.name(), "waiting for the database to be created");
                self.wait(shutdown, subscription.as_ref(), None).await;
                continue;
            }
            self.tell(Phase::Failing, Some(&error), last_word).await;
            if since.elapsed() > REOPEN.longest() {
                backoff.worked();
            }
            self.wait_for(shutdown, backoff.failed()).await;
            if matches!(error, Error::GaveUp { .. }) {
                // The WAL is pinned again only once the vault answers.
                while !shutdown.requested() && !self.vault_answers().await {
                    self.wait_for(shutdown, REOPEN.longest()).await;
                }
            }
        }
    }

    async fn vault_answers(&self) -> bool {
        self.vault.enter().await.is_ok() && crate::survey::list(&self.vault).await.is_ok()
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
        let (mut unpublished, mut backoff) = (Unpublished::default(), BACKOFF);
        let mut done = Box::pin(session.drain()).await;
        loop {
            match done {
                Ok(()) if shutdown.requested() => match Box::pin(session.drain()).await {
                    Ok(()) => {
                        Box::pin(session.claim()).await?;
                        return Box::pin(session.look_at_the_end()).await;
                    }
                    failed => done = failed,
                },
                Ok(()) => {
                    backoff.worked();
                    done = self.next_change(shutdown, subscription, &mut session, &mut unpublished).await;
                }
                Err(error) => {
                    self.refuse(&error);
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
        let (behind, written) = Box::pin(session.glimpse()).await?;
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
        Box::pin(session.check_vault()).await?;
        let behind = Box::pin(session.is_behind(0)).await?;
        self.activity.set_behind(behind);
        if behind && self.asked().is_empty() {
            Box::pin(self.wait_until_due(shutdown, session)).await?;
        } else if !behind
            && self.asked().is_empty()
            && !session.look_is_due()
            && Box::pin(session.is_as_it_was()).await?
        {
            self.activity.skip();
            Box::pin(session.look_at_vault(Looking::WhenDue)).await?;
            Box::pin(session.keep_record()).await;
            return Ok(());
        }
        // Those who come meanwhile may have committed since: they are answered the next time.
        let asked = self.asked().len();
        Box::pin(session.drain()).await?;
        self.activity.set_behind(false);
        if let Err(error) = session.claim().await {
            // Those who asked are told why.
            self.refuse(&error);
            return Ok(());
        }
        // A client that asked may not wait any more.
        let waits = self.asked().iter().take(asked).any(|asked| !asked.is_closed());
        let looking = if waits { Looking::Now } else { Looking::WhenDue };
        match Box::pin(session.look_at_vault(looking)).await {
            // The newest state is in the vault: that is no reason to let go of the WAL.
            Err(error @ (Error::Stray { .. } | Error::Lost { newest: false, .. })) => {
                self.refuse(&error);
                Box::pin(session.keep_record()).await;
                return Ok(());
            }
            looked => looked?,
        }
        Box::pin(session.keep_record()).await;
        let asked: Vec<_> = {
            let mut all = self.asked();
            let asked = asked.min(all.len());
            all.drain(..asked).collect()
        };
        for (asked, point) in asked.into_iter().zip(std::iter::repeat(session.point())) {
            let _gone = point.map(|point| asked.send(Ok(point)));
        }
        Ok(())
    }

    /// Tells those who wait for a point why there is none.
    fn refuse(&self, error: &Error) {
        for asked in std::mem::take(&mut *self.asked()) {
            let _gone = asked.send(Err(error.failure()));
        }
    }

    /// Whether nothing of this database was ever in its vault, as far as is known here.
    pub(crate) fn is_new(&self) -> bool {
        self.told().known.position.is_none()
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

    /// The error that the file has other names, if that was told last.
    fn several_names(&self) -> Option<Error> {
        let told = self.told().error.as_ref().is_some_and(|error| error.code == SEVERAL_NAMES);
        let (path, _) = self.place().ok().filter(|_| told)?;
        Some(Error::SeveralNames { path, what: "the file has other names".to_owned() })
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
        session.claim().await?;
        self.tell(Phase::Stopped, None, session.lineage()).await;
        if let Err(error) = session.record_doubts().await {
            tracing::warn!(database = %self.name(), "the doubt about moments could not be recorded: {error}");
        }
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

/// How a stretch of protection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It was asked to, and everything is shipped.
    Stopped,
    /// The database's name leads to another file.
    Elsewhere,
}

/// Keeps the place of the database as it is, while a stretch of protection lasts.
struct Placed<'a>(&'a Sqlite);

impl<'a> Placed<'a> {
    fn settle(engine: &'a Sqlite) -> Result<Self, Error> {
        let place = engine.place_now()?;
        *engine.placed() = Some(place);
        Ok(Self(engine))
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        self.0.placed().take();
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
