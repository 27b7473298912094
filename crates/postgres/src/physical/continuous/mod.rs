//! A cluster that is protected continuously, as an engine: its log is received all the time, bases are made by a schedule, and
//! retention follows each base.
//!
//! The log comes first: a base is made when the stream runs, so that nothing of what the base needs is missing. After a hole in
//! the log a base is made at once, because no earlier one restores what is behind the hole.

mod look;
mod source;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use seawall_archive::log::{self, Lsn};
use seawall_archive::{RetentionPolicy, Schedule, retry_after, retry_at};
use seawall_core::{
    Activity, Clock, Description, Engine, Failure, Figures, Files, Gauge, History, Hole, Kind, LastError, Moment,
    Point, Progress, Protect, Prove, Shutdown, Status,
};
use seawall_vault::Vault;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::base::{self, Made};
use super::history::{self, Newest};
use super::judge::{Judged, State, judge};
use super::kept::{Kept, may_not_delete};
use super::plan::Plan;
use super::prove::ClusterProver;
use super::receive::{Receiver, Seams, Standing};
use crate::NAMES;

pub use self::source::{ClusterSource, Heard, Server};

/// A cluster with its vault.
pub struct Continuous {
    name: String,
    source: Arc<dyn ClusterSource>,
    /// What receives the log; `None` where the server pushes it.
    receiver: Option<Receiver>,
    schedule: Schedule,
    kept: Kept,
    clock: Arc<dyn Clock>,
    state: watch::Sender<State>,
    activity: Activity,
    gauge: Arc<Gauge>,
    told_sealed: AtomicBool,
    told_denied: AtomicBool,
}

impl std::fmt::Debug for Continuous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Continuous")
            .field("name", &self.name)
            .field("source", &self.source.url())
            .finish_non_exhaustive()
    }
}

/// What a cluster is protected with.
pub struct Parts {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub source: Arc<dyn ClusterSource>,
    /// What receives its log; `None` where the server pushes it.
    pub receiver: Option<Receiver>,
    /// When bases are made.
    pub schedule: Schedule,
    /// Where they go.
    pub vault: Vault,
    /// What may be deleted.
    pub policy: RetentionPolicy,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What proves it.
    pub prover: ClusterProver,
}

impl Continuous {
    /// A cluster of these parts.
    pub fn new(parts: Parts) -> Self {
        let Parts { name, source, receiver, schedule, vault, policy, clock, prover } = parts;
        Self {
            name,
            source,
            receiver,
            schedule,
            kept: Kept::new(vault, Some(policy), Arc::clone(&clock), prover),
            clock,
            state: watch::Sender::new(State::default()),
            activity: Activity::default(),
            gauge: Arc::default(),
            told_sealed: AtomicBool::new(false),
            told_denied: AtomicBool::new(false),
        }
    }

    /// Its vault.
    pub fn vault(&self) -> &Vault {
        self.kept.vault()
    }

    /// Makes a base now.
    ///
    /// # Errors
    /// See [`super::base::back_up`].
    pub async fn base(&self, progress: Arc<dyn Progress>) -> Result<Made, Failure> {
        let (vault, started) = (self.kept.vault(), Instant::now());
        let made = async {
            // Manifests are created with create-only writes, so the vault is asked first how it handles them.
            if vault.needs_probe() {
                vault.probe().await?;
            }
            self.source.base(vault, progress).await
        };
        let made = made.await;
        match &made {
            Ok(made) => self.activity.bases.done(made.manifest.totals.stored, started.elapsed()),
            Err(_) => self.activity.bases.failed(),
        }
        made
    }

    /// Receives the log until a stop is asked for. A failure that needs a person is told, and tried again all the same: the
    /// person may act on the server.
    async fn receive(&self, receiver: &Receiver, shutdown: &Shutdown) {
        // That something streams is no sign that the vault takes it.
        let durable = || receiver.standing().borrow().durable;
        let (mut failures, mut before) = (0_u32, durable());
        while let Err(failure) = receiver.run(shutdown).await {
            if durable() > before {
                failures = 0;
            }
            failures = failures.saturating_add(1);
            before = durable();
            let now = self.clock.now();
            tracing::error!(
                database = self.name,
                code = failure.code,
                next = failure.next,
                "the log isn't received: {failure}"
            );
            self.state.send_modify(|state| state.log = Some(LastError::again(state.log.as_ref(), &failure, now)));
            if !receiver.pause(failures, false, shutdown).await {
                return;
            }
        }
    }

    /// Looks, bases and retention until a stop is asked for.
    async fn keep(&self, shutdown: &Shutdown) {
        let mut standing = self.receiver.as_ref().map(Receiver::standing);
        let mut plan = Plan { ask_at: standing.is_some().then(Instant::now), ..Plan::new() };
        loop {
            let wait = plan.wait(&self.schedule, self.clock.now());
            let seams = self.state.borrow().seams.clone();
            tokio::select! {
                () = shutdown.graceful() => return,
                () = news(&mut standing, &seams, plan.has_streamed) => {}
                () = sleep(wait) => {}
            }
            // What is dropped here counts for nothing, and is deleted later.
            tokio::select! {
                biased;
                () = shutdown.graceful() => return,
                () = self.step(&mut plan) => {}
            }
        }
    }

    /// Does what is due: a look at the vault before a base, and a base before retention.
    async fn step(&self, plan: &mut Plan) {
        self.notice(plan);
        if plan.next_look() <= Instant::now() {
            self.see(plan).await;
        } else if plan.until_base(&self.schedule, self.clock.now()).is_zero() {
            self.round(plan).await;
        } else if plan.upkeep_at.is_some_and(|upkeep| upkeep <= self.clock.now()) {
            plan.upkeep_at = self.clean().await;
        }
    }

    /// How far the log is stored while it streams.
    fn durable(&self) -> Option<Lsn> {
        let standing = self.receiver.as_ref()?.standing();
        let standing = standing.borrow();
        standing.streaming.then_some(standing.durable)
    }

    /// Takes note of what the receiver tells. After a seam of the log nothing counts as protected until a look or a base answers it.
    fn notice(&self, plan: &mut Plan) {
        let Some(receiver) = &self.receiver else { return };
        let standing = receiver.standing();
        let (seams, streaming) = {
            let standing = standing.borrow();
            (standing.seams.clone(), standing.streaming)
        };
        if streaming && !plan.has_streamed {
            // Before that, another process may have taken over, with other rules of retention.
            (plan.has_streamed, plan.upkeep_at) = (true, Some(self.clock.now()));
        }
        let before = self.state.borrow().seams.clone();
        if before == seams {
            return;
        }
        // Behind a hole, no earlier base restores anything. While there was no slot, the server may have run with
        // wal_level=minimal, and no recovery crosses that.
        plan.is_forced |= before.hole != seams.hole || before.slots != seams.slots;
        (plan.look_at, plan.not_before, plan.made) = (Instant::now(), None, None);
        (plan.led, plan.is_doubted) = (None, false);
        plan.ask_at = Some(Instant::now());
        self.state.send_modify(|state| {
            state.seams = seams;
            if let Some(newest) = &mut state.newest {
                newest.is_cut_off = true;
            }
        });
    }

    /// One base, as soon as the log streams. Plans what comes after it.
    async fn round(&self, plan: &mut Plan) {
        if let Some(receiver) = &self.receiver {
            let mut standing = receiver.standing();
            // Without its log a base restores nothing. What keeps the log away is told as its own error.
            tokio::select! {
                _ = standing.wait_for(|standing| standing.streaming) => {}
                never = self.watch(plan) => match never {},
            }
            // This base is made behind every seam so far.
            self.notice(plan);
            if !plan.until_base(&self.schedule, self.clock.now()).is_zero() {
                // A look found meanwhile that none is needed.
                return;
            }
        }
        let operation = self.gauge.operation();
        // A base may take hours. A seam that is noted meanwhile is noticed behind it, and another base follows.
        let made = tokio::select! {
            made = self.base(Arc::clone(&self.gauge) as Arc<dyn Progress>) => made,
            never = self.watch(plan) => match never {},
        };
        drop(operation);
        let Made { manifest, duration_ms, .. } = match made {
            Ok(made) => made,
            Err(failure) => return self.failed(&failure, plan),
        };
        tracing::info!(database = self.name, base = %manifest.id, bytes = manifest.totals.stored, duration_ms, "a base was made");
        let damaged = damage(&manifest.damaged, self.source.url()).map(|failure| {
            tracing::error!(database = self.name, code = failure.code, next = failure.next, "{failure}");
            LastError::new(&failure, self.clock.now())
        });
        plan.made(manifest.id, manifest.stop, self.clock.now());
        self.state.send_modify(|state| {
            state.base = damaged;
            // Where the server pushes its log, only a look knows whether it comes.
            if self.receiver.is_some() {
                state.newest = Some(Newest {
                    id: manifest.id,
                    ended: manifest.ended,
                    timeline: manifest.timeline,
                    start: manifest.start,
                    stop: manifest.stop,
                    bytes: manifest.totals.bytes,
                    point: Point { position: manifest.stop.to_string(), moment: manifest.ended },
                    is_cut_off: false,
                });
            }
        });
    }

    /// Tells that a base wasn't made, and plans to try again.
    fn failed(&self, failure: &Failure, plan: &mut Plan) {
        plan.failures = plan.failures.saturating_add(1);
        let (now, wait) = (self.clock.now(), retry_after(plan.failures));
        plan.not_before = Some(Instant::now() + wait);
        let again = now.after(wait);
        tracing::error!(database = self.name, code = failure.code, next = failure.next, %again, "no base was made: {failure}");
        let error = LastError { count: u64::from(plan.failures), ..LastError::new(failure, now) };
        self.state.send_modify(|state| state.base = Some(error));
    }

    /// Retention; returns when there is more to do. What fails is told, and tried again.
    async fn clean(&self) -> Option<Moment> {
        let pass = match self.kept.watched_upkeep().await {
            Ok(pass) => pass,
            Err(error) => {
                let failure = Failure::from(error);
                self.activity.deletions[0].failed();
                let now = self.clock.now();
                let error = LastError::again(self.state.borrow().upkeep.as_ref(), &failure, now);
                let again = retry_at(&error, now);
                tracing::error!(
                    database = self.name,
                    code = failure.code,
                    next = failure.next,
                    %again,
                    "nothing was deleted: {failure}"
                );
                self.state.send_modify(|state| state.upkeep = Some(error));
                return Some(again);
            }
        };
        self.state.send_modify(|state| state.upkeep = None);
        if pass.sealed > 0 && !self.told_sealed.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                database = self.name,
                bases = pass.sealed,
                next = "run `seawall maintain` on it with --identity, from time to time or once",
                "this host can't open the manifests of some bases, so retention deletes nothing"
            );
        }
        if let Some(cause) = pass.denied
            && !self.told_denied.swap(true, Ordering::Relaxed)
        {
            let failure = may_not_delete(self.kept.vault(), cause);
            tracing::warn!(database = self.name, code = failure.code, next = failure.next, "{failure}");
        }
        for gone in pass.done.retired.iter().chain(&pass.done.removed) {
            tracing::info!(
                database = self.name,
                object = gone.object.key,
                bytes = gone.object.bytes,
                "{}",
                gone.reason
            );
        }
        self.activity.deletions[0].done(pass.done.removed.iter().map(|gone| gone.object.bytes).sum(), Duration::ZERO);
        pass.next
    }

    fn status_from(&self, state: &State, standing: Option<&Standing>) -> Status {
        let now = self.clock.now();
        let Judged { phase, protected, lag_ms, lag_bytes, error } = judge(state, standing, now);
        Status {
            limits: self.kept.vault().limits(),
            protected,
            lag_ms,
            lag_bytes,
            vault_seen_at: state.seen_at,
            source_bytes: state.newest.as_ref().map(|newest| newest.bytes),
            credentials_end: self.kept.vault().credentials_end(),
            progress: self.gauge.now(),
            hole: state.seams.hole.as_ref().map(told),
            error,
            upkeep: state.upkeep.clone(),
            ..Status::new(self.describe(), phase, now)
        }
    }

    fn status_now(&self) -> Status {
        let standing = self.receiver.as_ref().map(|receiver| receiver.standing().borrow().clone());
        self.status_from(&self.state.borrow().clone(), standing.as_ref())
    }

    fn not_running(&self) -> Failure {
        let next = "start it with `seawall replicate`";
        Failure::new(Kind::Refused, NAMES.not_running, &self.name, "no running process receives its log", next)
    }
}

/// Waits until the receiver tells of a seam that isn't known yet, or streams for the first time.
async fn news(standing: &mut Option<watch::Receiver<Standing>>, known: &Seams, has_streamed: bool) {
    let Some(standing) = standing else { return std::future::pending().await };
    let news = |standing: &Standing| standing.seams != *known || standing.streaming && !has_streamed;
    if standing.wait_for(news).await.is_err() {
        std::future::pending().await
    }
}

/// A hole of the log, as a status tells it.
fn told(hole: &log::Hole) -> Hole {
    let point = |lsn: Lsn| Point { position: lsn.to_string(), moment: hole.at };
    Hole { from: Some(point(hole.start)), to: point(hole.end), reason: hole.cause.clone(), restored: false }
}

/// What damaged pages mean.
fn damage(damaged: &[base::Damaged], object: String) -> Option<Failure> {
    let first = damaged.first()?;
    let pages: u64 = damaged.iter().map(|file| file.count).sum();
    let cause = format!(
        "{pages} pages of {} files have wrong checksums; the first is page {} of {}",
        damaged.len(),
        first.pages.first().copied().unwrap_or_default(),
        first.path
    );
    let next = "check the disk, find the relation with pg_filenode_relation, and restore it from an earlier base";
    Some(Failure::new(Kind::Corrupt, "postgres.damaged-pages", object, cause, next))
}

/// Nothing runs any more, however the protection ended.
struct Stopped<'a>(&'a Continuous);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.runs = false);
    }
}

#[async_trait]
impl Engine for Continuous {
    fn describe(&self) -> Description {
        Description {
            name: self.name.clone(),
            engine: NAMES.name,
            source: Some(self.source.url()),
            vault: self.kept.vault().url().to_owned(),
        }
    }

    fn figures(&self) -> Figures {
        self.activity.figures(self.kept.vault().counts())
    }

    async fn status(&self) -> Result<Status, Failure> {
        if self.state.borrow().runs {
            return Ok(self.status_now());
        }
        // There is no record on this machine: the vault knows.
        let vault = self.kept.vault();
        let newest = history::newest(vault).await?;
        let state = State { newest, ..self.state.borrow().clone() };
        Ok(self.status_from(&state, None))
    }

    async fn known_status(&self) -> Result<Status, Failure> {
        Ok(self.status_now())
    }

    fn protection(&self) -> Option<&dyn Protect> {
        Some(self)
    }

    fn history(&self) -> &dyn History {
        &self.kept
    }

    fn files(&self) -> Option<&dyn Files> {
        None
    }

    fn proofs(&self) -> Option<&dyn Prove> {
        Some(self.kept.prover())
    }
}

#[async_trait]
impl Protect for Continuous {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        self.state.send_modify(|state| state.runs = true);
        let _stopped = Stopped(self);
        match &self.receiver {
            // What came until the stop is stored before this ends.
            Some(receiver) => drop(tokio::join!(self.receive(receiver, shutdown), self.keep(shutdown))),
            None => self.keep(shutdown).await,
        }
        Ok(())
    }

    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        let interrupted = || {
            let cause = "stopped before the base was whole; nothing of it counts";
            Failure::new(Kind::Interrupted, NAMES.interrupted, &self.name, cause, "start it again")
        };
        tokio::select! {
            biased;
            () = shutdown.graceful() => Err(interrupted()),
            made = self.base(Arc::new(seawall_core::NoProgress)) => {
                let manifest = made?.manifest;
                Ok(Point { position: manifest.id.to_string(), moment: manifest.ended })
            }
        }
    }

    async fn sync(&self) -> Result<Point, Failure> {
        let Some(receiver) = self.receiver.as_ref().filter(|_| self.state.borrow().runs) else {
            return Err(self.not_running());
        };
        receiver.hurry();
        let flushed = self.source.flushed().await?;
        let mut standing = receiver.standing();
        let reached = standing.wait_for(|standing| standing.streaming && standing.durable >= flushed).await;
        let reached = reached.map_err(|_| self.not_running())?.clone();
        let moment = reached.durable_at.unwrap_or_else(|| self.clock.now());
        Ok(Point { position: reached.durable.to_string(), moment })
    }

    fn hurry(&self) {
        if let Some(receiver) = &self.receiver {
            receiver.hurry();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize};

    use bytes::Bytes;
    use futures::FutureExt as _;
    use seawall_archive::log::{Cluster, Log, SegmentName, SegmentSize, SystemId, TimelineId};
    use seawall_archive::write_document;
    use seawall_core::{Phase, Steady, SystemClock, Thinning};
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::{Environment, Policy, Prefix, Scheme};

    use super::super::base::layout;
    use super::super::base::manifest::tests::sample;
    use super::super::receive::Settings;
    use super::*;
    use crate::{Limits, World};

    const SIZE: u64 = 1 << 20;

    fn cluster() -> Cluster {
        Cluster { system: SystemId::new(7), segment_size: SegmentSize::new(1 << 20).expect("a size") }
    }

    /// The time of tokio's clock.
    #[derive(Debug, Clone, Copy)]
    struct Paused(Instant);

    impl Clock for Paused {
        fn now(&self) -> Moment {
            Moment::from_millis(1_790_000_000_000).after(self.0.elapsed())
        }

        fn steady(&self) -> Steady {
            SystemClock.steady()
        }
    }

    /// A server that pushes a segment with each base, unless it fails to.
    struct Pushing {
        clock: Paused,
        made: AtomicUsize,
        flushed: AtomicU64,
        fails: AtomicBool,
        /// How many hours a base takes.
        hours: AtomicU64,
    }

    #[async_trait]
    impl ClusterSource for Pushing {
        fn url(&self) -> String {
            "postgres://stub".into()
        }

        async fn base(&self, vault: &Vault, _: Arc<dyn Progress>) -> Result<Made, Failure> {
            sleep(Duration::from_secs(self.hours.load(Ordering::Relaxed) * 3600)).await;
            let start = self.flushed.fetch_add(SIZE, Ordering::Relaxed);
            let mut manifest = sample(self.clock.now().as_millis() / 1000, start + 0x28, start + 0x100);
            (manifest.packs, manifest.uses, manifest.index) = Default::default();
            manifest.damaged.clear();
            manifest.segment = SIZE;
            let key = layout::manifest(7, manifest.id)?;
            vault.create(&key, write_document(&manifest).map_err(crate::Error::from)?.into(), None).await?;
            if !self.fails.load(Ordering::Relaxed) {
                let name = SegmentName::of(TimelineId::new(1).expect("one"), Lsn::new(start), cluster().segment_size);
                Log::claim(vault, cluster()).await?.put_whole(name, Bytes::from_static(b"log")).await?;
            }
            self.made.fetch_add(1, Ordering::Relaxed);
            Ok(Made { manifest, before: None, duration_ms: 1 })
        }

        async fn heard(&self) -> Result<Option<Heard>, Failure> {
            Ok(None)
        }

        async fn left_slots(&self, _: Option<&str>) -> Result<Option<Failure>, Failure> {
            Ok(None)
        }

        async fn settings(&self) -> Result<Settings, Failure> {
            Ok(Settings::default())
        }

        async fn flushed(&self) -> Result<Lsn, Failure> {
            Ok(Lsn::new(self.flushed.load(Ordering::Relaxed)))
        }
    }

    /// Lets time pass, in steps of seconds.
    async fn pass(hours: u64) {
        for _ in 0..hours * 3600 {
            sleep(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bases_that_are_gone_and_log_that_does_not_come_are_noticed() {
        let clock = Paused(Instant::now());
        let store = MemoryStore::with(Scheme::File, Arc::new(clock));
        let vault = Vault::new(Arc::new(store), Policy::default());
        Log::claim(&vault, cluster()).await.expect("its vault");
        let source = Arc::new(Pushing {
            clock,
            made: AtomicUsize::new(0),
            flushed: AtomicU64::new(3 * SIZE),
            fails: AtomicBool::new(false),
            hours: AtomicU64::new(0),
        });
        let world = World::real(Environment::empty());
        let policy =
            RetentionPolicy { enabled: false, window: None, thinning: Thinning::default(), grace: Duration::ZERO };
        let continuous = Arc::new(Continuous::new(Parts {
            name: "shop".into(),
            source: Arc::clone(&source) as Arc<dyn ClusterSource>,
            receiver: None,
            schedule: Schedule::parse("0 2 1 1 *", "a").expect("a schedule"),
            vault: vault.clone(),
            policy,
            clock: Arc::new(clock),
            prover: ClusterProver::new(vault.clone(), Limits::default(), world),
        }));
        let shutdown = Shutdown::new();
        let running = tokio::spawn({
            let (continuous, shutdown) = (Arc::clone(&continuous), shutdown.clone());
            async move { continuous.run(&shutdown).await }
        });
        let stands = || {
            let status = continuous.status_now();
            let code = status.error.map(|error| error.code).unwrap_or_default();
            (source.made.load(Ordering::Relaxed), status.phase, code, status.lag_bytes)
        };
        let well = |made: usize| (made, Phase::Protecting, String::new(), 0);
        let remove_bases = async || {
            let entries = vault.list(&Prefix::new("physical/7/bases/").expect("a prefix"), None).await.expect("listed");
            let keys: Vec<_> = entries.into_iter().map(|entry| entry.key).collect();
            vault.delete(&keys).await.expect("deleted");
        };
        pass(3).await;
        assert_eq!(stands(), well(1));
        // Bases are deleted behind it.
        remove_bases().await;
        pass(2).await;
        assert_eq!(stands(), well(2));
        // What isn't pushed is told, and nothing else is wrong.
        source.flushed.fetch_add(2 * SIZE + 7, Ordering::Relaxed);
        pass(2).await;
        assert_eq!(stands(), (2, Phase::Protecting, String::new(), 2 * SIZE));
        assert!(continuous.status_now().lag_ms > 3_600_000);
        // The log of the next base doesn't come: one base is made, and that is told until it does.
        remove_bases().await;
        source.fails.store(true, Ordering::Relaxed);
        let start = Lsn::new(source.flushed.load(Ordering::Relaxed)).segment_start(cluster().segment_size);
        pass(30).await;
        assert_eq!(stands(), (3, Phase::Failing, "postgres.no-log".to_owned(), 0));
        let name = SegmentName::of(TimelineId::new(1).expect("one"), start, cluster().segment_size);
        let log = Log::claim(&vault, cluster()).await.expect("its log");
        log.put_whole(name, Bytes::from_static(b"log")).await.expect("stored");
        pass(1).await;
        assert_eq!(stands(), well(3));
        // A base takes long, and the looks go on meanwhile: they find a base that another process made, and what isn't pushed.
        source.hours.store(10, Ordering::Relaxed);
        source.fails.store(false, Ordering::Relaxed);
        remove_bases().await;
        pass(3).await;
        assert_eq!(stands(), (3, Phase::Base, String::new(), 0));
        source.hours.store(0, Ordering::Relaxed);
        source.base(&vault, Arc::new(seawall_core::NoProgress)).await.expect("a base");
        pass(2).await;
        assert_eq!(stands(), well(4));
        source.flushed.fetch_add(2 * SIZE, Ordering::Relaxed);
        pass(2).await;
        assert_eq!(stands(), (4, Phase::Protecting, String::new(), 2 * SIZE));
        pass(6).await;
        assert_eq!(source.made.load(Ordering::Relaxed), 5);
        shutdown.begin();
        running.await.expect("no panic").expect("it ends");
    }

    /// A seam may be noted while a base is made, or before the first look at the receiver.
    #[tokio::test]
    async fn each_seam_is_noticed_once_whenever_it_is_noted() {
        let hole = |end: u64| log::Hole {
            timeline: TimelineId::new(1).expect("one"),
            start: Lsn::new(0),
            end: Lsn::new(end),
            at: Moment::from_millis(0),
            cause: "removed".into(),
        };
        let seams = |end: u64| Seams { hole: Some(hole(end)), ..Seams::default() };
        let sender = watch::Sender::new(Standing { seams: seams(1), ..Standing::default() });
        let mut standing = Some(sender.subscribe());
        assert_eq!(news(&mut standing, &Seams::default(), false).now_or_never(), Some(()));
        assert_eq!(news(&mut standing, &seams(1), false).now_or_never(), None);
        sender.send_modify(|standing| standing.seams = seams(2));
        assert_eq!(news(&mut standing, &seams(1), false).now_or_never(), Some(()));
        sender.send_modify(|standing| standing.seams.breaks = 1);
        assert_eq!(news(&mut standing, &seams(2), false).now_or_never(), Some(()));
        let known = sender.borrow().seams.clone();
        sender.send_modify(|standing| standing.streaming = true);
        assert_eq!(news(&mut standing, &known, false).now_or_never(), Some(()));
        assert_eq!(news(&mut standing, &known, true).now_or_never(), None);
        assert_eq!(news(&mut None, &Seams::default(), false).now_or_never(), None);
    }
}
