//! Keeps one environment in step with the others of its vault: look, merge, send, wait.
//!
//! This file is the loop; [`work`] holds the steps. Each environment has one future, which does one piece of work at a
//! time, so its memory is that of one snapshot in transit. A failure is reported and retried; only a stop ends the
//! loop. A crash at any point leaves whole snapshots in the vault and merged versions in the environment. The next
//! process begins by looking at everything.

mod hints;
mod rest;
mod sight;
mod stay;
mod upkeep;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, Panicked, Shutdown};
use seawall_host::{Heard, Watcher};
use seawall_vault::Vault;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use self::hints::Hints;
use self::sight::Own;
use self::upkeep::DueTimes;
use crate::Stamp;
use crate::environment::Env;
use crate::error::Error;
use crate::local::standing::Standing;
use crate::local::{Author, Local};
use crate::peers::known::Known;
use crate::peers::latest::Listed;
use crate::peers::marker::Marker;
use crate::peers::retention::Retention;
use crate::snapshot::Codec;
use crate::status::{Doing, SessionStatus};

/// How an environment is kept in step.
#[derive(Debug, Clone)]
pub struct SyncOptions {
    /// The author of our snapshots.
    pub author: Author,
    /// Merge only, and send nothing.
    pub receive_only: bool,
    /// End once everything that existed at the start is merged, and our own changes are sent.
    pub only_once: bool,
    /// How often to look at the environment if commits raise no events; also the least time between two snapshots.
    pub poll: Duration,
    /// How often to list the vault if new objects raise no events.
    pub list: Duration,
    /// Events of commits, and of objects in a folder. Without them the session polls everything at its interval.
    pub watcher: Option<Watcher>,
    /// How long to wait after a failure.
    pub retry: Duration,
    /// Send a snapshot after this time even if nothing changed.
    pub force: Option<Duration>,
    /// Sweep old deletions.
    pub sweep: Option<Sweep>,
    /// Delete snapshots that are no longer needed.
    pub clean: Option<Retention>,
    /// Write and read the update marker.
    pub marker: Option<Marker>,
    /// How snapshots are compressed. Zstd is used only while every other instance is known to run Seawall.
    pub codec: Codec,
}

/// Settings of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// How long a deletion is kept.
    pub retention: Duration,
    /// How often the environment is swept.
    pub interval: Duration,
    /// When the first sweep runs.
    pub first: Duration,
    /// Deletions of unknown keys that are older than this aren't taken from others. It is a little less than the
    /// retention, so that swept deletions don't come back.
    pub taken: Duration,
}

impl SyncOptions {
    /// The usual options.
    pub fn new(author: Author) -> Self {
        Self {
            author,
            receive_only: false,
            only_once: false,
            poll: Duration::from_secs(1),
            list: Duration::from_secs(1),
            watcher: None,
            retry: Duration::from_secs(5),
            force: Some(Duration::from_secs(4 * 3600)),
            sweep: None,
            clean: None,
            marker: None,
            codec: Codec::Gzip,
        }
    }
}

/// Returns the time in nanoseconds.
pub type NanoClock = Arc<dyn Fn() -> Stamp + Send + Sync>;

/// The machine's wall clock.
pub fn system_clock() -> NanoClock {
    Arc::new(|| {
        #[expect(clippy::disallowed_methods, reason = "this is the edge where wall time enters")]
        let now = std::time::SystemTime::now();
        let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Stamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    })
}

/// What a session has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Snapshots that were merged.
    pub loaded: u64,
    /// Snapshots that were sent.
    pub sent: u64,
    /// Old deletions that were swept.
    pub swept: u64,
    /// Damaged snapshots, with the cause.
    pub damaged: BTreeMap<String, String>,
}

/// One environment with its vault.
pub struct Session {
    /// The environment; `None` while a thread works on it.
    local: Option<Local>,
    vault: Vault,
    options: SyncOptions,
    clock: NanoClock,
    report: Report,
    /// The last merged snapshot of each instance.
    merged: BTreeMap<String, Listed>,
    damaged: BTreeSet<String>,
    /// Snapshots of other instances that have Seawall's index.
    ours: BTreeSet<String>,
    /// How the last snapshot was compressed.
    sent_as: Codec,
    /// Pieces that need not be read again.
    known: Known,
    /// Instances whose snapshots must be merged before the start is complete.
    awaited: BTreeSet<String>,
    /// Whether a snapshot was taken that isn't in the vault yet.
    unsent: bool,
    /// The last listing: the marker at that time, and when it was made.
    listing: Listing,
    /// When the vault was looked at last.
    listed: Option<Instant>,
    hints: Hints,
    /// What is known about the snapshots that the session sent.
    own: Own,
    /// Whether the session has looked at everything once since it opened the data file.
    started: bool,
    /// The last transaction after the last round, and when the session last looked for writers.
    rested: (u64, Option<Instant>),
    /// When the last snapshot was sent.
    sent_at: Option<Instant>,
    /// When a pending change may be sent.
    held_until: Option<Instant>,
    /// The last transaction that was reported, and when.
    told: Option<(u64, Instant)>,
    /// When each snapshot was first seen, for retention.
    seen: BTreeMap<String, Stamp>,
    /// For each instance the time of its last snapshot whose content is in a snapshot that we sent.
    incorporated: BTreeMap<String, Stamp>,
    status: watch::Sender<SessionStatus>,
    /// A caller notifies this to make the session look at once.
    hurry: Arc<Notify>,
}

/// The state of the vault at the last listing.
#[derive(Debug, Default)]
struct Listing {
    snapshots: Vec<Listed>,
    /// The update marker before the listing.
    marker: Option<Vec<u8>>,
    at: Option<Instant>,
    /// The folder's modification time before the listing.
    folder: Option<FolderTime>,
}

/// The modification time of a folder: seconds and nanoseconds.
type FolderTime = (i64, i64);

/// The reason for a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// An event reported a commit or an object.
    ByEvent,
    /// The interval has passed.
    ByTime,
    /// It is the first or the last round, or a caller asked for it.
    Asked,
}

impl Session {
    /// A session for an environment that is open.
    pub fn new(local: Local, vault: Vault, options: SyncOptions, clock: NanoClock) -> Self {
        let status = SessionStatus { database: options.author.database.clone(), began: clock(), ..Default::default() };
        Self {
            local: Some(local),
            vault,
            options,
            clock,
            report: Report::default(),
            merged: BTreeMap::new(),
            damaged: BTreeSet::new(),
            ours: BTreeSet::new(),
            sent_as: Codec::Gzip,
            known: Known::default(),
            awaited: BTreeSet::new(),
            unsent: false,
            listing: Listing::default(),
            listed: None,
            hints: Hints::default(),
            own: Own::default(),
            started: false,
            rested: (0, None),
            sent_at: None,
            held_until: None,
            told: None,
            seen: BTreeMap::new(),
            incorporated: BTreeMap::new(),
            status: watch::Sender::new(status),
            hurry: Arc::default(),
        }
    }

    /// A receiver of the session's status.
    pub fn watch(&self) -> watch::Receiver<SessionStatus> {
        self.status.subscribe()
    }

    /// A caller notifies this instead of waiting for the next look.
    pub(crate) fn hurry(&self) -> Arc<Notify> {
        Arc::clone(&self.hurry)
    }

    /// What was done so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Works on the environments of two sessions, and ends the other session.
    pub(crate) async fn beside<T: Send + 'static>(
        &mut self,
        mut other: Self,
        work: impl FnOnce(&Env, &Env) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let other = other.take()?;
        self.blocking(move |local| work(local.env(), other.env())).await
    }

    /// The environment, while no work is under way.
    pub fn local(&self) -> Option<&Local> {
        self.local.as_ref()
    }

    /// Keeps the environment in step until `shutdown`, or once. A graceful stop sends the committed changes.
    ///
    /// # Errors
    /// With `only_once` any failure. Otherwise a defect, or an environment that may not take part any more.
    pub async fn run(&mut self, shutdown: &Shutdown) -> Result<(), Failure> {
        let ended = self.run_to_end(shutdown).await;
        if let Err(failure) = &ended {
            self.status.send_modify(|status| status.ended = Some(failure.cause.clone()));
        }
        ended
    }

    async fn run_to_end(&mut self, shutdown: &Shutdown) -> Result<(), Failure> {
        if !self.options.only_once
            && let Some(local) = &self.local
        {
            let (watcher, vault) = (self.options.watcher.as_ref(), self.vault.folder());
            self.hints = Hints::new(watcher, local.data(), vault.as_deref());
        }
        let mut upkeep = DueTimes::new(&self.options);
        let mut woken = Woken::Asked;
        loop {
            // A task that waits for a round sees its number. The beginning of a round needs no message.
            self.status.send_if_modified(|status| {
                status.rounds.0 += 1;
                false
            });
            // A stop that is requested during a round may come after a commit that the round didn't see.
            let stopping = shutdown.requested();
            let urgent = self.options.only_once || woken == Woken::Asked || stopping;
            let done = self.round(shutdown, &mut upkeep, woken, urgent).await?;
            if stopping {
                return self.farewell(done).await;
            }
            if self.options.only_once && done {
                return Ok(());
            }
            woken = self.rest(&upkeep, shutdown).await;
        }
    }

    /// Looks at everything once and does all due work; returns whether all of it was done.
    async fn round(
        &mut self,
        shutdown: &Shutdown,
        upkeep: &mut DueTimes,
        woken: Woken,
        urgent: bool,
    ) -> Result<bool, Failure> {
        let stays = async |session: &mut Self| session.stay(woken).await;
        if self.attempt(shutdown, stays).await?.is_none() {
            return Ok(false);
        }
        if !self.started {
            if self.attempt(shutdown, Self::start).await?.is_none() {
                return Ok(false);
            }
            (self.started, upkeep.sent) = (true, Instant::now());
        }
        // A task that asks for a round wants the vault's present state, not the state at the last listing.
        let listing_due = urgent || rest::is_listing_due(&self.facts(upkeep));
        let looked = match self.hints.objects() {
            Some(Heard::Names(names)) if !listing_due => {
                names.is_empty()
                    || self.attempt(shutdown, async |session: &mut Self| session.hear(names).await).await?.is_some()
            }
            None if !listing_due => true,
            _ => self.attempt(shutdown, async |session: &mut Self| session.look(urgent).await).await?.is_some(),
        };
        let loaded = self.attempt(shutdown, Self::merge).await?;
        let forced = self.options.force.is_some_and(|force| upkeep.sent.elapsed() >= force);
        let before = self.report.sent;
        let sending = async |session: &mut Self| session.send_if_needed(forced, urgent).await;
        let round = self.attempt(shutdown, sending).await?;
        if self.report.sent > before {
            upkeep.sent = Instant::now();
        }
        let spread = (self.clock)().0 >> 10;
        if let Some((sweep, due)) = &mut upkeep.sweep
            && due.now(spread)
        {
            let retention = sweep.retention;
            self.attempt(shutdown, async |session: &mut Self| session.sweep(retention).await).await?;
        }
        if let Some((rules, due)) = &mut upkeep.clean
            && due.now(spread)
        {
            let rules = *rules;
            self.attempt(shutdown, async |session: &mut Self| session.clean(rules).await).await?;
        }
        let done = looked && loaded.is_some() && round.is_some() && self.awaited.is_empty();
        let last = shutdown.requested() || self.options.only_once && done;
        if done && (upkeep.noted.now(spread) || last) {
            self.attempt(shutdown, Self::note).await?;
        }
        self.tell(done, last).await;
        if done {
            self.status.send_modify(|status| {
                status.rounds.1 = status.rounds.0;
                status.failure = None;
            });
        }
        Ok(done)
    }

    /// The last step of a graceful stop: whether all committed changes are in the vault.
    ///
    /// # Errors
    /// The failure that keeps a change from the vault.
    async fn farewell(&mut self, done: bool) -> Result<(), Failure> {
        if let Some(rival) = self.rival() {
            return Err(rival);
        }
        if done && self.listed.is_some() {
            return Ok(());
        }
        let look = self.blocking(Local::look).await?;
        // Without a listing nobody knows whether what was sent is still there.
        let unknown = !self.started || self.listed.is_none();
        let waits = !self.options.receive_only && (self.unsent || look.pending || look.coming || unknown);
        let cause = self.status.borrow().failure.as_ref().map(|(failure, _, _)| failure.clone());
        match cause {
            Some(failure) if waits || look.standing != Standing::Same => Err(failure),
            _ => Ok(()),
        }
    }

    /// The facts from which the next look is computed.
    fn facts(&self, upkeep: &DueTimes) -> rest::Facts {
        let force = self.options.force.filter(|_| !self.options.receive_only).map(|force| upkeep.sent + force);
        let sweep = upkeep.sweep.as_ref().map(|(_, due)| due.at);
        let noted = sweep.map(|_| upkeep.noted.at);
        let due = [force, sweep, noted, upkeep.clean.as_ref().map(|(_, due)| due.at)];
        rest::Facts {
            hears_commits: self.hints.tells_of_commits(),
            hears_objects: self.hints.tells_of_objects(),
            poll: self.options.poll,
            list: self.options.list,
            looked: Instant::now(),
            listed: self.listed,
            held_until: self.held_until,
            due: due.into_iter().flatten().min(),
        }
    }

    /// Waits until a look is due.
    async fn rest(&self, upkeep: &DueTimes, shutdown: &Shutdown) -> Woken {
        let until = rest::next_look(&self.facts(upkeep));
        tokio::select! {
            () = sleep_until(until) => Woken::ByTime,
            () = self.hints.next() => Woken::ByEvent,
            () = self.hurry.notified() => Woken::Asked,
            // One more round, which sends the committed changes.
            () = shutdown.graceful() => Woken::Asked,
        }
    }

    /// Runs a step. A failure is reported and followed by a wait; with `only_once` the failure ends the session.
    async fn attempt<T>(
        &mut self,
        shutdown: &Shutdown,
        action: impl AsyncFnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Failure> {
        let failure = match action(self).await {
            Ok(value) => return Ok(Some(value)),
            Err(error @ (Error::Internal(_) | Error::TooLongAway { .. })) => return Err(error.into()),
            Err(error) => error,
        };
        if !matches!(failure, Error::Vault(_)) {
            let now = (self.clock)();
            self.status.send_modify(|status| status.local.failed(now, failure.to_string()));
        }
        let failure = Failure::from(failure);
        let now = (self.clock)();
        self.status.send_modify(|status| {
            let count = status.failure.as_ref().map_or(0, |(_, _, count)| *count);
            status.failure = Some((failure.clone(), now, count + 1));
        });
        if self.options.only_once {
            return Err(failure);
        }
        let Failure { code, object, cause, next, .. } = &failure;
        tracing::warn!(database = self.options.author.database, code, object, cause, next, "trying again");
        tokio::select! {
            () = sleep(self.options.retry) => {}
            () = shutdown.graceful() => {}
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Local, Error> {
        self.local.take().ok_or_else(|| Error::Internal("an earlier job has not given the environment back".to_owned()))
    }

    /// Sends a request to the vault, and records the result.
    async fn asking<T>(
        &mut self,
        doing: Doing,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.status.send_modify(|status| status.doing = Some(doing));
        let result = work(self).await;
        let now = (self.clock)();
        // A failure's duration counts from the first attempt that failed.
        let since = self.vault.trouble().map_or(now, |trouble| before(now, trouble.lasts));
        self.status.send_modify(|status| {
            status.doing = None;
            let tried = match doing {
                Doing::Listing => &mut status.listing,
                Doing::Loading => &mut status.loading,
                Doing::Storing => &mut status.storing,
            };
            match &result {
                Ok(_) => tried.worked(now),
                Err(error @ Error::Vault(_)) => tried.failed(since, error.to_string()),
                // The vault isn't the cause.
                Err(_) => {}
            }
        });
        result
    }

    /// Runs work on the environment on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Local) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let mut local = self.take()?;
        let done = spawn_blocking(move || {
            let result = work(&mut local);
            (local, result)
        });
        let (local, result) = done.await.map_err(Panicked::from)?;
        self.local = Some(local);
        result
    }
}

/// The moment `span` before another.
pub(crate) fn before(now: Stamp, span: Duration) -> Stamp {
    Stamp(now.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}
