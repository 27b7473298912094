//! A source of a server as an engine: backups by a schedule, retention behind each.
//!
//! Between two backups there is one timer, and once an hour a listing of the chain and a read of its newest link: what was backed up
//! may be gone. A backup that was missed, because no process ran or because it failed, is made as soon as it can be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use seawall_core::{
    Activity, Clock, Description, Engine, Failure, Figures, Files, Gauge, History, Kind, LastError, Moment, NoProgress,
    Phase, Point, Progress, Protect, RestoreRequest, Restored, Rollback, Shutdown, Standby, Status,
};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use crate::lost::{self, Look, Loss, Seen};
use crate::server::{BackUp, Dumped};
use crate::{Error, Schedule, SetId, Sets, point, retry_after, retry_at};

/// The longest sleep: a clock that was set, and a backup that is gone, are noticed after this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// A source that is backed up by a schedule, with its vault.
pub struct Scheduled {
    name: String,
    source: Arc<dyn BackUp>,
    schedule: Schedule,
    sets: Sets,
    clock: Arc<dyn Clock>,
    backups: AtomicU32,
    state: watch::Sender<State>,
    hurry: Notify,
    activity: Activity,
    /// Whether it was told that links can't be opened.
    told_sealed: AtomicBool,
    /// Whether it was told that the credentials may not delete.
    told_denied: AtomicBool,
    /// Where the backup is that is being made.
    gauge: Arc<Gauge>,
}

/// How the protection is.
#[derive(Debug, Clone, Default)]
struct State {
    /// `None` while no protection runs.
    phase: Option<Phase>,
    newest: Option<Point>,
    bytes: Option<u64>,
    error: Option<LastError>,
    /// The last error of retention.
    upkeep: Option<LastError>,
    /// When the vault was last asked for the newest link.
    seen_at: Option<Moment>,
    /// The newest link of the chain that this process knows of.
    link: Option<Seen>,
    /// The loss of links, until they are there again or [`is_over`].
    lost: Option<Loss>,
    /// Backups that were begun, and that came to an end of either kind.
    rounds: (u64, u64),
}

impl std::fmt::Debug for Scheduled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduled")
            .field("name", &self.name)
            .field("source", &self.source.url())
            .finish_non_exhaustive()
    }
}

impl Scheduled {
    /// A source that is called `name`, and where its sets are.
    pub fn new(name: String, source: Arc<dyn BackUp>, schedule: Schedule, sets: Sets, clock: Arc<dyn Clock>) -> Self {
        let (state, _) = watch::channel(State::default());
        let backups = AtomicU32::new(0);
        Self {
            name,
            source,
            schedule,
            sets,
            clock,
            backups,
            state,
            hurry: Notify::new(),
            activity: Activity::default(),
            told_sealed: AtomicBool::new(false),
            told_denied: AtomicBool::new(false),
            gauge: Arc::default(),
        }
    }

    /// One backup.
    ///
    /// # Errors
    /// See [`BackUp::back_up`].
    pub async fn backup(&self, progress: Arc<dyn Progress>) -> Result<Dumped, Failure> {
        let nth = self.backups.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let made = self.made(nth, progress).await;
        match &made {
            Ok(dumped) => self.activity.bases.done(dumped.manifest.totals.stored, started.elapsed()),
            Err(_) => self.activity.bases.failed(),
        }
        made
    }

    /// The chain is ordered by create-only writes, so the vault is asked first how it handles them.
    async fn made(&self, nth: u32, progress: Arc<dyn Progress>) -> Result<Dumped, Failure> {
        let vault = self.sets.vault();
        if vault.needs_probe() {
            vault.probe().await?;
        }
        self.source.back_up(vault, nth, progress).await
    }

    /// Backups and retention until a stop is asked for.
    async fn keep(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        let (mut failures, mut upkeep_at) = (0, Some(self.clock.now()));
        self.state.send_modify(|state| state.phase = Some(Phase::Starting));
        let mut due = self.first_due(&mut failures).await;
        loop {
            let now = self.clock.now();
            self.state.send_modify(|state| {
                state.phase = Some(if state.error.is_some() { Phase::Failing } else { Phase::Protecting });
            });
            let next = upkeep_at.map_or(due, |upkeep| upkeep.min(due));
            tokio::select! {
                biased;
                () = shutdown.graceful() => return Ok(()),
                () = self.hurry.notified() => due = self.clock.now(),
                () = sleep(next.since(now).min(LONGEST_SLEEP)), if next > now => {}
                () = std::future::ready(()), if next <= now => {}
            }
            // What is dropped here counts for nothing, and is deleted later.
            tokio::select! {
                biased;
                () = shutdown.graceful() => return Ok(()),
                () = async {
                    let told = self.state.borrow().newest.clone();
                    self.look(told.clone(), None).await;
                    let now = self.clock.now();
                    if due <= now {
                        due = self.round(&mut failures).await;
                        let made = self.state.borrow().newest.clone().filter(|_| failures == 0);
                        self.look(told, made.and_then(|made| made.position.parse().ok())).await;
                        upkeep_at = Some(self.clock.now());
                    } else if upkeep_at.is_some_and(|upkeep| upkeep <= now) {
                        upkeep_at = self.clean().await;
                    }
                } => {}
            }
        }
    }

    /// Looks whether the newest link is still in the vault. `told` is what was told to be protected, and `made` is the set of a
    /// backup that was made since the last look. What can't be read now, the next look tells.
    async fn look(&self, told: Option<Point>, made: Option<SetId>) {
        let (vault, known) = (self.sets.vault(), self.state.borrow().link);
        let Ok(Look { newest: link, gone }) = lost::look(vault, known, made).await else { return };
        let Some(gone) = gone else {
            let now = self.clock.now();
            self.state.send_modify(|state| state.seen_at = Some(now));
            return self.all_there(link).await;
        };
        // What is protected is what the vault has now.
        let Ok(newest) = self.sets.newest().await else { return };
        let vault = vault.url().to_owned();
        let position = gone.set.map(|set| set.to_string()).or(told.map(|point| point.position));
        let failure = Failure::from(Error::Lost { vault, known: gone.number, newest: position });
        tracing::error!(database = self.name, code = failure.code, next = failure.next, "{failure}");
        let error = LastError::new(&failure, self.clock.now());
        self.state.send_modify(|state| {
            (state.link, state.newest) = (link, newest.map(|(_, point)| point));
            state.lost = Some(Loss { error, gone });
        });
    }

    /// No link that was known is gone since the last look. Ends a loss that was told, if it is over.
    async fn all_there(&self, link: Option<Seen>) {
        self.state.send_modify(|state| state.link = link);
        let Some(Loss { error, gone }) = self.state.borrow().lost.clone() else { return };
        let now = self.clock.now();
        if lost::is_back(self.sets.vault(), &gone).await.unwrap_or(false) {
            tracing::info!(database = self.name, link = gone.number, "the links that were gone are there again");
            let newest = self.sets.newest().await.ok().flatten().map(|(_, point)| point);
            self.state.send_modify(|state| {
                state.newest = newest.or(state.newest.take());
                state.lost = None;
            });
        } else if is_over(&error, self.state.borrow().newest.as_ref(), now) {
            self.state.send_modify(|state| state.lost = None);
        }
    }

    /// When the first backup is due.
    async fn first_due(&self, failures: &mut u32) -> Moment {
        let now = self.clock.now();
        match self.sets.newest().await {
            Ok(newest) => {
                let newest = newest.map(|(_, point)| point);
                let due = self.schedule.due(newest.as_ref().map(|point| point.moment), now);
                self.state.send_modify(|state| state.newest = newest);
                due
            }
            Err(error) => self.failed(&error.into(), failures),
        }
    }

    /// One backup, and when the next one is due.
    async fn round(&self, failures: &mut u32) -> Moment {
        self.state.send_modify(|state| {
            state.rounds.0 += 1;
            // What is there protects while the next one is made.
            if state.newest.is_none() {
                state.phase = Some(Phase::Base);
            }
        });
        let operation = self.gauge.operation();
        let done = self.backup(Arc::clone(&self.gauge) as Arc<dyn Progress>).await;
        drop(operation);
        let due = match done {
            Ok(Dumped { manifest, left_out, duration_ms, .. }) => {
                *failures = 0;
                for left in left_out {
                    tracing::warn!(
                        database = self.name,
                        left,
                        "left out: a restore or a proof that isn't done is in it, or it is invalid"
                    );
                }
                let bytes = manifest.totals.stored;
                tracing::info!(database = self.name, set = %manifest.id, bytes, duration_ms, "backed up");
                let begun = manifest.id.moment();
                self.state.send_modify(|state| {
                    state.newest = Some(point(&manifest));
                    state.bytes = Some(manifest.totals.raw);
                    state.error = None;
                });
                self.schedule.due(Some(begun), self.clock.now())
            }
            Err(failure) => self.failed(&failure, failures),
        };
        self.state.send_modify(|state| state.rounds.1 = state.rounds.0);
        due
    }

    /// Tells a failure; returns when to try again.
    fn failed(&self, failure: &Failure, failures: &mut u32) -> Moment {
        *failures = failures.saturating_add(1);
        let (now, wait) = (self.clock.now(), retry_after(*failures));
        let again = now.after(wait);
        tracing::error!(database = self.name, code = failure.code, next = failure.next, %again, "not backed up: {failure}");
        let error = LastError { count: u64::from(*failures), ..LastError::new(failure, now) };
        self.state.send_modify(|state| state.error = Some(error.clone()));
        again
    }

    /// Retention; returns when there is more to do. What fails is told, and tried again.
    async fn clean(&self) -> Option<Moment> {
        match self.sets.upkeep(false).await {
            Ok(upkeep) => {
                self.state.send_modify(|state| state.upkeep = None);
                if upkeep.sealed > 0 && !self.told_sealed.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        database = self.name,
                        links = upkeep.sealed,
                        next = "run `seawall maintain` on it with --identity, from time to time or once",
                        "another host wrote some of the chain's links, or this host lost its keys: retention leaves their sets alone"
                    );
                }
                if let Some(cause) = upkeep.denied
                    && !self.told_denied.swap(true, Ordering::Relaxed)
                {
                    let vault = self.sets.vault().url().to_owned();
                    let failure = Failure::from(Error::MayNotDelete { vault, cause });
                    tracing::warn!(database = self.name, code = failure.code, next = failure.next, "{failure}");
                }
                for gone in upkeep.done.retired.iter().chain(&upkeep.done.removed) {
                    tracing::info!(database = self.name, object = gone.object.key, "{}", gone.reason);
                }
                self.activity.deletions[0]
                    .done(upkeep.done.removed.iter().map(|gone| gone.object.bytes).sum(), Duration::ZERO);
                upkeep.next
            }
            Err(error) => {
                let failure = Failure::from(error);
                self.activity.deletions[0].failed();
                let now = self.clock.now();
                let error = LastError::again(self.state.borrow().upkeep.as_ref(), &failure, now);
                let again = retry_at(&error, now);
                self.state.send_modify(|state| state.upkeep = Some(error));
                tracing::error!(
                    database = self.name,
                    code = failure.code,
                    next = failure.next,
                    %again,
                    "nothing was deleted: {failure}"
                );
                Some(again)
            }
        }
    }

    fn status_from(&self, state: &State) -> Status {
        let now = self.clock.now();
        // What changed since the last backup is unknown; late is a backup that should have been made.
        let clock = state.newest.as_ref().and_then(|newest| of_clock(newest, now));
        let missed = state.newest.as_ref().and_then(|newest| self.schedule.after(newest.moment));
        let late = missed.map_or(Duration::ZERO, |missed| now.since(missed));
        Status {
            limits: self.sets.vault().limits(),
            protected: state.newest.clone(),
            lag_ms: u64::try_from(late.as_millis()).unwrap_or(u64::MAX),
            vault_seen_at: state.seen_at,
            source_bytes: state.bytes,
            credentials_end: self.sets.vault().credentials_end(),
            progress: self.gauge.now(),
            error: state
                .error
                .clone()
                .or_else(|| state.lost.clone().map(|lost| lost.error))
                .or(clock)
                .or_else(|| state.upkeep.clone()),
            upkeep: state.upkeep.clone(),
            ..Status::new(self.describe(), state.phase.unwrap_or(Phase::Stopped), now)
        }
    }

    fn not_running(&self) -> Failure {
        let next = "start it with `seawall replicate`, or back up now with `seawall backup`";
        Failure::new(
            Kind::Refused,
            self.source.engine().not_running,
            &self.name,
            "no running process backs it up by its schedule",
            next,
        )
    }
}

/// How far a point may be ahead of this machine's clock.
const AHEAD: Duration = Duration::from_secs(15 * 60);

/// The error of a newest point that is of the future: until that moment comes, the point hides that backups are late.
fn of_clock(newest: &Point, now: Moment) -> Option<LastError> {
    let Point { position, moment } = newest;
    let cause = format!(
        "the newest backup says that it was made at {moment}, which is later than this machine's clock: one of the two clocks was or is wrong"
    );
    let next = "set the clock (timedatectl set-ntp true), then make a backup: `seawall backup`";
    let failure = Failure::new(Kind::Refused, "archive.clock", position, cause, next);
    (*moment > now.after(AHEAD)).then(|| LastError::new(&failure, now))
}

/// Whether a loss needn't be told any more: it was told for an hour, and a backup was made since.
fn is_over(lost: &LastError, newest: Option<&Point>, now: Moment) -> bool {
    now.since(lost.at) >= LONGEST_SLEEP && newest.is_some_and(|newest| newest.moment > lost.at)
}

/// Nothing runs any more, however the protection ended.
struct Stopped<'a>(&'a Scheduled);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| {
            state.phase = None;
            state.rounds.1 = state.rounds.0;
        });
    }
}

#[async_trait]
impl Engine for Scheduled {
    fn describe(&self) -> Description {
        Description {
            name: self.name.clone(),
            engine: self.source.engine().name,
            source: Some(self.source.url()),
            vault: self.sets.vault().url().to_owned(),
        }
    }

    fn figures(&self) -> Figures {
        self.activity.figures(self.sets.vault().counts())
    }

    async fn status(&self) -> Result<Status, Failure> {
        let state = self.state.borrow().clone();
        if state.phase.is_some() {
            return Ok(self.status_from(&state));
        }
        // There is no record on this machine: the vault knows.
        let newest = self.sets.newest().await?.map(|(_, point)| point);
        Ok(self.status_from(&State { newest, ..state }))
    }

    async fn known_status(&self) -> Result<Status, Failure> {
        Ok(self.status_from(&self.state.borrow().clone()))
    }

    fn protection(&self) -> Option<&dyn Protect> {
        Some(self)
    }

    fn history(&self) -> &dyn History {
        &self.sets
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(self)
    }
}

#[async_trait]
impl Protect for Scheduled {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        let _stopped = Stopped(self);
        self.keep(shutdown).await
    }

    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        let interrupted = || {
            let cause = "stopped before the backup was whole; nothing of it counts";
            Failure::new(Kind::Interrupted, self.source.engine().interrupted, &self.name, cause, "start it again")
        };
        tokio::select! {
            biased;
            () = shutdown.graceful() => Err(interrupted()),
            dumped = self.backup(Arc::new(NoProgress)) => Ok(point(&dumped?.manifest)),
        }
    }

    async fn sync(&self) -> Result<Point, Failure> {
        let mut state = self.state.subscribe();
        let begun = {
            let state = state.borrow();
            if state.phase.is_none() {
                return Err(self.not_running());
            }
            state.rounds.0
        };
        self.hurry.notify_one();
        let over = state.wait_for(|state| state.rounds.1 > begun || state.phase.is_none()).await;
        let state = over.map_err(|_| self.not_running())?.clone();
        match (state.error, state.newest) {
            (None, Some(newest)) if state.rounds.1 > begun => Ok(newest),
            (Some(error), _) => {
                let Some((object, cause)) = error.message.split_once(": ") else { return Err(self.not_running()) };
                Err(Failure::new(
                    Kind::Unavailable,
                    self.source.engine().not_backed_up,
                    object,
                    format!("{}: {cause}", error.code),
                    error.next,
                ))
            }
            _ => Err(self.not_running()),
        }
    }
}

#[async_trait]
impl Files for Scheduled {
    async fn restore(&self, request: &RestoreRequest, progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        let restored = self.sets.export(request, progress).await?;
        restored.ok_or_else(|| {
            let cause = "a server's database isn't restored into a file, but where pg_dump's own format was kept";
            let next = format!("seawall restore {} --to {}", self.name, self.source.engine().url);
            Failure::new(Kind::Usage, self.source.engine().no_file, &self.name, cause, next)
        })
    }

    fn rollback(&self) -> Option<&dyn Rollback> {
        None
    }

    fn standby(&self) -> Option<&dyn Standby> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_newest_point_is_of_the_future() {
        let at = |seconds: i64| Moment::from_millis(seconds * 1000);
        for (moment, expected) in [(0, None), (100, None), (1000, None), (1001, Some("archive.clock"))] {
            let told = of_clock(&Point { position: "set".into(), moment: at(moment) }, at(100));
            assert_eq!(told.as_ref().map(|told| told.code.as_str()), expected, "{moment}");
        }
    }

    #[test]
    fn when_a_loss_is_over() {
        let at = |seconds: i64| Moment::from_millis(seconds * 1000);
        let failure = Failure::new(Kind::Corrupt, "archive.lost", "v", "c", "n");
        let lost = LastError::new(&failure, at(100));
        let point = |seconds| Point { position: "set".into(), moment: at(seconds) };
        for (newest, now, expected) in [
            (None, 9000, false),
            (Some(point(99)), 9000, false),
            (Some(point(101)), 101, false),
            (Some(point(101)), 3699, false),
            (Some(point(101)), 3700, true),
        ] {
            assert_eq!(is_over(&lost, newest.as_ref(), at(now)), expected, "{newest:?} {now}");
        }
    }
}
