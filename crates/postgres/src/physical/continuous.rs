//! A cluster that is protected continuously, as an engine: its log is received all the time, bases are made by a schedule, and
//! retention follows each base.
//!
//! The log comes first: a base is made when the stream runs, so that nothing of what the base needs is missing. After a hole in
//! the log a base is made at once, because no earlier one restores what is behind the hole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use seawall_archive::log::{self, Lsn};
use seawall_archive::{RetentionPolicy, Schedule, retry_after};
use seawall_core::{
    Activity, Clock, Description, Engine, Failure, Figures, Files, Gauge, History, Hole, Kind, LastError, Moment,
    Phase, Point, Progress, Protect, Prove, Shutdown, Status,
};
use seawall_vault::Vault;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::base::{self, Made};
use super::history::{self, Newest};
use super::kept::{Kept, may_not_delete};
use super::prove::ClusterProver;
use super::receive::{Receiver, Standing};
use crate::client::Target;
use crate::{Limits, NAMES, World};

/// The longest sleep: a clock that was set is noticed after this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// The source of a protected cluster: what makes its bases, and knows how far its log goes.
#[async_trait]
pub trait ClusterSource: Send + Sync {
    /// Its URL without a password.
    fn url(&self) -> String;

    /// Makes a base, and lets it count.
    async fn base(&self, vault: &Vault, progress: Arc<dyn Progress>) -> Result<Made, Failure>;

    /// How far the server's log is durable there.
    async fn flushed(&self) -> Result<Lsn, Failure>;
}

/// A server whose cluster is protected.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where it is.
    pub target: Target,
    /// How much of the machine a base may use.
    pub limits: Limits,
    /// The clock, the environment and random numbers.
    pub world: World,
}

#[async_trait]
impl ClusterSource for Server {
    fn url(&self) -> String {
        self.target.to_string()
    }

    async fn base(&self, vault: &Vault, progress: Arc<dyn Progress>) -> Result<Made, Failure> {
        Ok(base::back_up(&self.target, vault, &self.limits, &self.world, progress).await?)
    }

    async fn flushed(&self) -> Result<Lsn, Failure> {
        let mut connection = base::connect(&self.target).await?;
        let row = connection.one(FLUSHED).await?;
        let lsn = row.text(0).parse::<Lsn>().map_err(|()| connection.confused("a position in the log that is none"))?;
        connection.close().await;
        Ok(lsn)
    }
}

/// How far a server's log is durable there; a standby has what it received or replayed.
const FLUSHED: &str = "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() \
    THEN COALESCE(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn()) \
    ELSE pg_catalog.pg_current_wal_flush_lsn() END";

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

/// How the protection is.
#[derive(Debug, Clone, Default)]
struct State {
    /// Whether it runs.
    runs: bool,
    /// Whether the vault was looked at.
    looked: bool,
    /// The newest base, and what was known of the log when it was made or found.
    newest: Option<Newest>,
    /// Why the last base wasn't made.
    base: Option<LastError>,
    /// Why the log isn't received.
    log: Option<LastError>,
    /// The last error of retention.
    upkeep: Option<LastError>,
    /// The newest hole of the log that a base was made behind, or is about to be.
    hole: Option<log::Hole>,
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
        let mut failures = 0;
        while let Err(failure) = receiver.run(shutdown).await {
            failures += 1;
            let now = self.clock.now();
            tracing::error!(
                database = self.name,
                code = failure.code,
                next = failure.next,
                "the log isn't received: {failure}"
            );
            self.state.send_modify(|state| state.log = Some(LastError::again(state.log.as_ref(), &failure, now)));
            tokio::select! {
                () = shutdown.graceful() => return,
                () = sleep(retry_after(failures)) => {}
            }
        }
    }

    /// Bases and retention until a stop is asked for.
    async fn keep(&self, shutdown: &Shutdown) {
        let (mut failures, mut upkeep_at) = (0, Some(self.clock.now()));
        let mut due = self.first_due(&mut failures).await;
        let mut standing = self.receiver.as_ref().map(Receiver::standing);
        loop {
            let now = self.clock.now();
            let next = upkeep_at.map_or(due, |upkeep| upkeep.min(due));
            tokio::select! {
                () = shutdown.graceful() => return,
                hole = holed(&mut standing, self.state.borrow().hole.clone()) => {
                    self.state.send_modify(|state| state.hole = Some(hole));
                    due = self.clock.now();
                }
                () = sleep(next.since(now).min(LONGEST_SLEEP)), if next > now => {}
                () = std::future::ready(()), if next <= now => {}
            }
            // What is dropped here counts for nothing, and is deleted later.
            tokio::select! {
                biased;
                () = shutdown.graceful() => return,
                () = async {
                    if due <= self.clock.now() {
                        due = self.round(&mut failures).await;
                        upkeep_at = Some(self.clock.now());
                    } else if upkeep_at.is_some_and(|upkeep| upkeep <= self.clock.now()) {
                        upkeep_at = self.clean().await;
                    }
                } => {}
            }
        }
    }

    /// When the first base is due.
    async fn first_due(&self, failures: &mut u32) -> Moment {
        let now = self.clock.now();
        match history::newest(self.kept.vault()).await {
            Ok(newest) => {
                let last = newest.as_ref().filter(|newest| !newest.is_cut_off).map(|newest| newest.id.moment());
                self.state.send_modify(|state| (state.newest, state.looked) = (newest, true));
                self.schedule.due(last, now)
            }
            Err(error) => self.failed(&error.into(), failures),
        }
    }

    /// One base, as soon as the log streams, and when the next one is due.
    async fn round(&self, failures: &mut u32) -> Moment {
        if let Some(receiver) = &self.receiver {
            // Without its log a base restores nothing. What keeps the log away is told as its own error.
            let _ = receiver.standing().wait_for(|standing| standing.streaming).await;
        }
        let operation = self.gauge.operation();
        let made = self.base(Arc::clone(&self.gauge) as Arc<dyn Progress>).await;
        drop(operation);
        let Made { manifest, duration_ms, .. } = match made {
            Ok(made) => made,
            Err(failure) => return self.failed(&failure, failures),
        };
        *failures = 0;
        tracing::info!(database = self.name, base = %manifest.id, bytes = manifest.totals.stored, duration_ms, "a base was made");
        let damaged = damage(&manifest.damaged, self.source.url()).map(|failure| {
            tracing::error!(database = self.name, code = failure.code, next = failure.next, "{failure}");
            LastError::new(&failure, self.clock.now())
        });
        self.state.send_modify(|state| {
            state.base = damaged;
            state.looked = true;
            state.newest = Some(Newest {
                id: manifest.id,
                ended: manifest.ended,
                stop: manifest.stop,
                bytes: manifest.totals.bytes,
                point: Point { position: manifest.stop.to_string(), moment: manifest.ended },
                is_cut_off: false,
            });
        });
        self.schedule.due(Some(manifest.id.moment()), self.clock.now())
    }

    /// Tells that a base wasn't made; returns when to try again.
    fn failed(&self, failure: &Failure, failures: &mut u32) -> Moment {
        *failures = failures.saturating_add(1);
        let now = self.clock.now();
        let again = now.after(retry_after(*failures));
        tracing::error!(database = self.name, code = failure.code, next = failure.next, %again, "no base was made: {failure}");
        let error = LastError { count: u64::from(*failures), ..LastError::new(failure, now) };
        self.state.send_modify(|state| state.base = Some(error));
        again
    }

    /// Retention; returns when there is more to do. What fails is told, and waits for the next time.
    async fn clean(&self) -> Option<Moment> {
        let pass = match self.kept.watched_upkeep().await {
            Ok(pass) => pass,
            Err(error) => {
                let failure = Failure::from(error);
                self.activity.deletions[0].failed();
                let now = self.clock.now();
                tracing::error!(
                    database = self.name,
                    code = failure.code,
                    next = failure.next,
                    "nothing was deleted: {failure}"
                );
                self.state.send_modify(|state| {
                    state.upkeep = Some(LastError::again(state.upkeep.as_ref(), &failure, now));
                });
                return None;
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
            source_bytes: state.newest.as_ref().map(|newest| newest.bytes),
            credentials_end: self.kept.vault().credentials_end(),
            progress: self.gauge.now(),
            hole: state.hole.as_ref().map(told),
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

/// Waits until the receiver has recorded another hole of the log than the `known` one.
async fn holed(standing: &mut Option<watch::Receiver<Standing>>, known: Option<log::Hole>) -> log::Hole {
    let Some(standing) = standing else { return std::future::pending().await };
    let changed = standing.wait_for(|standing| standing.hole.is_some() && standing.hole != known).await;
    match changed.map(|standing| standing.hole.clone()) {
        Ok(Some(hole)) => hole,
        _ => std::future::pending().await,
    }
}

/// A hole of the log, as a status tells it.
fn told(hole: &log::Hole) -> Hole {
    let point = |lsn: Lsn| Point { position: lsn.to_string(), moment: hole.at };
    Hole { from: Some(point(hole.start)), to: point(hole.end), reason: hole.cause.clone() }
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

/// What the state means.
#[derive(Debug, PartialEq, Eq)]
struct Judged {
    phase: Phase,
    protected: Option<Point>,
    lag_ms: u64,
    lag_bytes: u64,
    error: Option<LastError>,
}

/// Judges how the protection stands. `standing` is the receiver's; there is none where the server pushes its log. Pure.
fn judge(state: &State, standing: Option<&Standing>, now: Moment) -> Judged {
    let streams = standing.is_none_or(|standing| standing.streaming);
    let of_session = standing.and_then(|standing| standing.failure.as_ref()).filter(|_| !streams);
    let log = state.log.clone().filter(|_| !streams).or_else(|| {
        let at = standing.and_then(|standing| standing.failed_at).unwrap_or(now);
        of_session.map(|failure| LastError::new(failure, at))
    });
    let unbounded = standing.and_then(|standing| standing.warning.as_ref()).map(|failure| LastError::new(failure, now));
    let phase = match state {
        State { runs: false, .. } => Phase::Stopped,
        _ if log.is_some() => Phase::Failing,
        State { base: Some(error), .. } if error.code != "postgres.damaged-pages" => Phase::Failing,
        State { looked: false, .. } => Phase::Starting,
        State { newest: None, .. } => Phase::Base,
        _ if !streams => Phase::Starting,
        _ => Phase::Protecting,
    };
    let newest = state.newest.as_ref();
    // What the base needs must be there before anything is protected.
    let point = |newest: &Newest| {
        let streamed = standing.filter(|standing| standing.durable >= newest.stop && !newest.is_cut_off);
        let streamed = streamed.and_then(|standing| Some((standing.durable, standing.durable_at?)));
        streamed.map_or_else(
            || newest.point.clone(),
            |(lsn, at)| Point { position: lsn.to_string(), moment: at.max(newest.point.moment) },
        )
    };
    let protected = newest.map(point);
    let behind = |standing: &Standing| {
        let since = standing.durable_at.or_else(|| newest.map(|newest| newest.point.moment));
        let in_step = standing.streaming && standing.durable >= standing.server;
        let lag = since.filter(|_| !in_step && state.runs).map_or(Duration::ZERO, |since| now.since(since));
        (
            u64::try_from(lag.as_millis()).unwrap_or(u64::MAX),
            standing.server.byte().saturating_sub(standing.durable.byte()),
        )
    };
    let (lag_ms, lag_bytes) = standing.map_or((0, 0), behind);
    Judged {
        phase,
        protected,
        lag_ms,
        lag_bytes,
        error: log.or_else(|| state.base.clone()).or_else(|| state.upkeep.clone()).or(unbounded),
    }
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
        let newest = history::newest(self.kept.vault()).await?;
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
        let flushed = self.source.flushed().await?;
        let mut standing = receiver.standing();
        let reached = standing.wait_for(|standing| standing.streaming && standing.durable >= flushed).await;
        let reached = reached.map_err(|_| self.not_running())?.clone();
        let moment = reached.durable_at.unwrap_or_else(|| self.clock.now());
        Ok(Point { position: reached.durable.to_string(), moment })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use seawall_archive::log::TimelineId;

    use super::*;

    /// A hole may be recorded while a base is made, or before the first look at the receiver.
    #[tokio::test]
    async fn each_hole_is_noticed_once_whenever_it_is_recorded() {
        let hole = |end: u64| log::Hole {
            timeline: TimelineId::new(1).expect("one"),
            start: Lsn::new(0),
            end: Lsn::new(end),
            at: Moment::from_millis(0),
            cause: "removed".into(),
        };
        let sender = watch::Sender::new(Standing { hole: Some(hole(1)), ..Standing::default() });
        let mut standing = Some(sender.subscribe());
        assert_eq!(holed(&mut standing, None).now_or_never(), Some(hole(1)));
        assert_eq!(holed(&mut standing, Some(hole(1))).now_or_never(), None);
        sender.send_modify(|standing| standing.hole = Some(hole(2)));
        assert_eq!(holed(&mut standing, Some(hole(1))).now_or_never(), Some(hole(2)));
        assert_eq!(holed(&mut None, None).now_or_never(), None);
    }
}
