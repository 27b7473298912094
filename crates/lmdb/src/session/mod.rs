//! Keeps one environment in step with the others of its vault: look, merge, send, wait.
//!
//! This file is the loop; [`work`] holds the steps, and [`attempt`] runs them. Each environment has one future, which
//! does one piece of work at a time, so its memory is that of one snapshot in transit. A failure is reported and
//! retried; only a stop ends the loop. A crash at any point leaves whole snapshots in the vault and merged versions in
//! the environment. The next process begins by looking at everything.

mod attempt;
mod hints;
mod options;
mod rest;
mod sight;
mod stay;
mod upkeep;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, Moment, Shutdown};
use seawall_host::Heard;
use seawall_vault::Vault;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use self::hints::Hints;
pub use self::options::{Sweep, SyncOptions};
use self::sight::Own;
use self::upkeep::DueTimes;
use crate::Stamp;
use crate::environment::Env;
use crate::error::Error;
use crate::local::Local;
use crate::local::standing::Standing;
use crate::peers::known::Known;
use crate::peers::latest::Listed;
use crate::snapshot::Codec;
use crate::status::SessionStatus;

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
    /// Whether the last deletion was refused.
    may_not_delete: bool,
    /// When the locks of snapshots end that the store keeps locked, as far as it was asked.
    locked: BTreeMap<String, Moment>,
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
            may_not_delete: false,
            locked: BTreeMap::new(),
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
            let cleaned = self.clean(*rules).await;
            self.cleaned(cleaned)?;
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
        // Without a listing it is unknown whether the snapshots that were sent are still there.
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
}

/// The moment `span` before another.
pub(crate) fn before(now: Stamp, span: Duration) -> Stamp {
    Stamp(now.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}
