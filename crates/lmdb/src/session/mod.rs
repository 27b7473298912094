//! Keeping one environment in step with the others of its vault: look, merge, send, wait.
//!
//! This file is the loop, [`work`] what it does. One future for each environment, and at most one piece of work at a time: its memory is that of one snapshot on its
//! way. What goes wrong with one snapshot or for a while is told and tried again; only a stop ends it. A crash at any
//! point leaves whole snapshots in the vault and merged versions in the environment: the next process begins by looking
//! at everything.

mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, Shutdown};
use seawall_vault::Vault;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::Stamp;
use crate::error::Error;
use crate::known::Known;
use crate::latest::Listed;
use crate::local::{Author, Local};
use crate::marker::Marker;
use crate::retention::Retention;
use crate::snapshot::Codec;
use crate::status::{SessionStatus, Tried};

/// How an environment is kept in step.
#[derive(Debug, Clone)]
pub struct SyncOptions {
    /// Who we are.
    pub author: Author,
    /// Merge only, and send nothing.
    pub receive_only: bool,
    /// End once everything that was there at the start is merged, and our own changes are sent.
    pub only_once: bool,
    /// How often the environment is looked at.
    pub poll: Duration,
    /// How often the vault is listed.
    pub list: Duration,
    /// How long to wait after something failed.
    pub retry: Duration,
    /// Send a snapshot after this time even if nothing changed.
    pub force: Option<Duration>,
    /// Forget old deletions.
    pub sweep: Option<Sweep>,
    /// Delete snapshots that nobody needs.
    pub clean: Option<Retention>,
    /// Write and read the update marker.
    pub marker: Option<Marker>,
    /// How snapshots are compressed. With zstd only while every other instance is known to be ours.
    pub codec: Codec,
}

/// Forgetting old deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// How long a deletion is kept.
    pub retention: Duration,
    /// How often the environment is swept.
    pub interval: Duration,
    /// When that is done for the first time.
    pub first: Duration,
    /// Deletions of unknown keys that are older than this aren't taken from others. A little less than the retention, so that
    /// what was swept doesn't come back.
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
            retry: Duration::from_secs(5),
            force: Some(Duration::from_secs(4 * 3600)),
            sweep: None,
            clean: None,
            marker: None,
            codec: Codec::Gzip,
        }
    }
}

/// Tells the time in nanoseconds.
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

/// What a session did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Snapshots that were merged.
    pub loaded: u64,
    /// Snapshots that were sent.
    pub sent: u64,
    /// Old deletions that were forgotten.
    pub swept: u64,
    /// Snapshots that were found damaged, with why.
    pub damaged: BTreeMap<String, String>,
}

/// One environment with its vault.
pub struct Session {
    /// `None` while a thread has it.
    local: Option<Local>,
    vault: Vault,
    options: SyncOptions,
    clock: NanoClock,
    report: Report,
    /// The last snapshot of each instance that was merged.
    merged: BTreeMap<String, Listed>,
    damaged: BTreeSet<String>,
    /// Snapshots of others that have our index.
    ours: BTreeSet<String>,
    /// How the last snapshot was compressed.
    sent_as: Codec,
    /// What needn't be read again.
    known: Known,
    /// Instances whose snapshots must be merged before the start is over.
    awaited: BTreeSet<String>,
    /// Whether a snapshot was taken that isn't in the vault.
    unsent: bool,
    /// The last listing: under which marker it was made, and when.
    listing: Listing,
    /// When each snapshot was seen first, for cleaning.
    seen: BTreeMap<String, Stamp>,
    /// For each instance the time of the last snapshot whose content is in one that we sent.
    incorporated: BTreeMap<String, Stamp>,
    status: watch::Sender<SessionStatus>,
    /// Rung to have it look at once.
    hurry: Arc<Notify>,
}

/// What the vault was like.
#[derive(Debug, Default)]
struct Listing {
    snapshots: Vec<Listed>,
    /// The update marker before it was listed.
    marker: Option<Vec<u8>>,
    at: Option<Instant>,
}

/// When something is done next.
struct Due {
    at: Instant,
    every: Duration,
}

impl Due {
    /// Whether it is time; then the next time is set, `spread` being a number that differs between instances.
    fn now(&mut self, spread: u64) -> bool {
        if Instant::now() < self.at {
            return false;
        }
        // A fifth more or less, so that instances don't come together.
        let part = u32::try_from(800 + spread % 401).unwrap_or(1000);
        self.at = Instant::now() + self.every * part / 1000;
        true
    }
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
            seen: BTreeMap::new(),
            incorporated: BTreeMap::new(),
            status: watch::Sender::new(status),
            hurry: Arc::default(),
        }
    }

    /// How it is doing, as it goes on.
    pub fn watch(&self) -> watch::Receiver<SessionStatus> {
        self.status.subscribe()
    }

    /// Rung by whoever doesn't want to wait for the next look.
    pub(crate) fn hurry(&self) -> Arc<Notify> {
        Arc::clone(&self.hurry)
    }

    /// What was done so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The environment, while nothing is under way.
    pub fn local(&self) -> Option<&Local> {
        self.local.as_ref()
    }

    /// Keeps the environment in step until `shutdown`, or once. A graceful stop sends what is committed.
    ///
    /// # Errors
    /// With `only_once` what went wrong; else a defect, or an environment that may not take part any more.
    pub async fn run(&mut self, shutdown: &Shutdown) -> Result<(), Failure> {
        let ended = self.run_to_end(shutdown).await;
        if let Err(failure) = &ended {
            self.status.send_modify(|status| status.ended = Some(failure.cause.clone()));
        }
        ended
    }

    async fn run_to_end(&mut self, shutdown: &Shutdown) -> Result<(), Failure> {
        while self.attempt(shutdown, Self::start).await?.is_none() {
            if shutdown.requested() {
                return Ok(());
            }
        }
        let begun = Instant::now();
        let due = |first: Duration, every: Duration| Due { at: begun + first, every };
        let (mut sent, mut noted) = (begun, due(Duration::ZERO, Duration::from_secs(600)));
        let mut sweep = self.options.sweep.map(|sweep| (sweep, due(sweep.first, sweep.interval)));
        let mut clean = self.options.clean.map(|rules| (rules, due(rules.interval, rules.interval)));
        loop {
            self.status.send_modify(|status| status.rounds.0 += 1);
            if self.listing.at.is_none_or(|at| at.elapsed() >= self.options.list) {
                self.attempt(shutdown, Self::look).await?;
            }
            let loaded = self.attempt(shutdown, Self::merge).await?;
            let forced = self.options.force.is_some_and(|force| sent.elapsed() >= force);
            let before = self.report.sent;
            let round = self.attempt(shutdown, async |session: &mut Self| session.send_if_needed(forced).await).await?;
            if self.report.sent > before {
                sent = Instant::now();
            }
            let spread = (self.clock)().0 >> 10;
            if let Some((sweep, due)) = &mut sweep
                && due.now(spread)
            {
                let retention = sweep.retention;
                self.attempt(shutdown, async |session: &mut Self| session.sweep(retention).await).await?;
            }
            if let Some((rules, due)) = &mut clean
                && due.now(spread)
            {
                let rules = *rules;
                self.attempt(shutdown, async |session: &mut Self| session.clean(rules).await).await?;
            }
            let done = loaded.is_some() && round.is_some() && self.awaited.is_empty();
            let last = shutdown.requested() || self.options.only_once && done;
            if done && (noted.now(spread) || last) {
                self.attempt(shutdown, Self::note).await?;
            }
            self.tell(done).await;
            if done {
                self.status.send_modify(|status| {
                    status.rounds.1 = status.rounds.0;
                    status.failure = None;
                });
            }
            if last {
                return Ok(());
            }
            tokio::select! {
                () = sleep(self.options.poll) => {}
                () = self.hurry.notified() => {}
                // Once more round, so that what is committed is sent.
                () = shutdown.graceful() => {}
            }
        }
    }

    /// Does something. A failure is told and waited after; with `only_once` it is the end.
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

    /// Records how something that is tried again and again went.
    fn record<T>(&self, of: impl Fn(&mut SessionStatus) -> &mut Tried, bytes: u64, result: &Result<T, Error>) {
        let now = (self.clock)();
        self.status.send_modify(|status| match result {
            Ok(_) => of(status).worked(bytes),
            Err(error @ Error::Vault(_)) => of(status).failed(now, error.to_string()),
            // Not for want of the vault.
            Err(_) => {}
        });
    }

    /// Does something with the environment on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Local) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let mut local = self.take()?;
        let done = spawn_blocking(move || {
            let result = work(&mut local);
            (local, result)
        });
        let (local, result) =
            done.await.map_err(|error| Error::Internal(format!("a job ended in a panic: {error}")))?;
        self.local = Some(local);
        result
    }
}

/// The moment `span` before another.
fn before(now: Stamp, span: Duration) -> Stamp {
    Stamp(now.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}
