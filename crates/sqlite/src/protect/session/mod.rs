//! One stretch of protecting a database: from opening it to losing or leaving it.
//!
//! A session finds where the history ends, takes a base if it can't be continued, and then ships new commits. While the
//! vault is away, the session keeps the WAL pinned and retries. Past the bound it gives up (I4). It may end at any
//! await, because everything that matters is in the vault, the WAL or the spool.
//!
//! This file has the session itself: opening it, one round of work (`drain`), and the reaction to an error. `locate`
//! finds its place in the history, and `base` takes a base. `deliver` ships captures, and `empty` empties the WAL.
//! `content` shows the whole database for a proof. `glance` finds out whether there is work, `revisit` looks at the vault again, and `report` reports the status.

mod base;
mod content;
mod deliver;
mod empty;
mod glance;
mod locate;
mod report;
mod revisit;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall_core::{Backoff, Phase, Point, Shutdown};
use tokio::time::{Instant, sleep};

use crate::capture::Author;
use crate::database::Database;
use crate::error::Error;
use crate::identity::{Lineage, Nonce, Stamp, WalPosition};
use crate::jobs::blocking;
use crate::seal;
use crate::source::Source;
use crate::spool::Spool;
use crate::state::Position;

/// How long to wait before looking again at a WAL that a writer is restarting.
const RELOOK: Duration = Duration::from_millis(20);

/// How often to check how much the WAL grows while the vault is slow.
const GROWTH_CHECK: Duration = Duration::from_secs(1);

/// How often in a row the size of the WAL may be unknown before the work that makes it grow is given up.
const UNSEEN: u32 = 30;

/// The wait before a retry: doubled from the first to the longest.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// For how long a session retries a request that the vault refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the WAL grows past its limit.
    Protecting,
    /// No retry: the first failure is the answer.
    Once,
}

/// Whether to look at the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looking {
    /// If a look is due. Lost points of the past are only reported.
    WhenDue,
    /// In any case, because a caller will be told that everything is in the vault. Any loss is an error.
    Now,
}

/// An open database with a proved position.
pub(crate) struct Session<'a> {
    database: &'a Database,
    shutdown: &'a Shutdown,
    patience: Patience,
    stamp: Stamp,
    state_dir: PathBuf,
    spool: Spool,
    source: Arc<Mutex<Source>>,
    /// Everything up to here is captured and durable.
    position: Option<Position>,
    /// The place at which the WAL was last emptied, completely or as far as its readers allowed. Another attempt is
    /// useless before the next commit.
    emptied: Option<WalPosition>,
    /// Until when emptying the WAL is put off, because the disk was too slow.
    emptying_put_off: Option<Instant>,
    /// Until when the higher price isn't asked of writers again.
    urgency_put_off: Option<Instant>,
    /// How many bytes may be left to capture under the barrier, by the speed of the disk.
    bounds: seal::Bounds,
    last_shipped: Option<Instant>,
    last_look: Instant,
    /// The loss that was found when the session found its place in the vault.
    lost: Option<Error>,
    /// Whether a program may write commits that Seawall can't see: the file has other names, or its WAL was deleted.
    several: bool,
    /// Whether the WAL is being emptied, or a base taken. After a failure then, another session proves the place again.
    between: bool,
}

impl Drop for Session<'_> {
    /// Leaves the hold to an engine that takes over, so that the WAL can't be restarted between the two.
    fn drop(&mut self) {
        if self.shutdown.requested()
            && self.database.heir().has_successor()
            && let Ok(source) = self.source.try_lock()
            && let Some(grip) = source.held()
        {
            self.database.heir().leave(grip);
        }
    }
}

impl<'a> Session<'a> {
    /// Opens the database and finds its place in the history.
    pub(crate) async fn open(
        database: &'a Database,
        shutdown: &'a Shutdown,
        patience: Patience,
    ) -> Result<Session<'a>, Error> {
        let (path, state_dir) = database.place()?;
        let (busy, kept) = (database.options().busy_timeout, database.kept_files());
        let probe = database.probe();
        let (named, untouched) = (database.options().path.clone(), database.heir().untouched().clone());
        let open = move || {
            let source = Source::open(&path, busy, &mut kept.lock().unwrap_or_else(PoisonError::into_inner), probe)?;
            Ok(source.named(named).knowing(untouched))
        };
        // A hold that a predecessor left must not pin the WAL for longer than opening takes.
        let source = blocking(open).await.inspect_err(|_| database.heir().let_go())?;
        database.heir().take_over();
        let stamp = Stamp { lineage: Lineage::new(database.random()), nonce: Nonce::new(database.random()) };
        let mut session = Self {
            database,
            shutdown,
            patience,
            stamp,
            spool: Spool::new(&state_dir, database.probe()),
            state_dir,
            source: Arc::new(Mutex::new(source)),
            position: None,
            emptied: None,
            emptying_put_off: None,
            urgency_put_off: None,
            bounds: seal::Bounds::default(),
            last_shipped: None,
            last_look: Instant::now(),
            lost: None,
            several: false,
            between: false,
        };
        let growth = session.wal_outgrown();
        tokio::select! {
            located = session.locate_patiently() => located?,
            outgrown = growth => return Err(outgrown),
        }
        Ok(session)
    }

    async fn locate_patiently(&mut self) -> Result<(), Error> {
        let mut backoff = BACKOFF;
        loop {
            match self.locate().await {
                Ok(()) => return Ok(()),
                Err(error) => self.wait_after(error, &mut backoff).await?,
            }
        }
    }

    /// Ends when the WAL has grown by its limit since this was called: shipping is too slow (I4).
    fn wal_outgrown(&self) -> impl Future<Output = Error> + use<> {
        let (source, limit) = (self.source.clone(), self.database.options().wal_limit);
        let path = self.database.place().map(|(path, _)| path).unwrap_or_default();
        let size = move || {
            let source = source.clone();
            blocking(move || source.lock().unwrap_or_else(PoisonError::into_inner).wal_size())
        };
        async move {
            let (mut first, mut unseen) = (None, 0);
            loop {
                match size().await {
                    Ok(now) if now > first.get_or_insert(now).saturating_add(limit) => {
                        return Error::GaveUp { path, limit };
                    }
                    Ok(_) => unseen = 0,
                    // Shipping may work although the size can't be read.
                    Err(error) if error.is_passing() && unseen < UNSEEN => unseen += 1,
                    Err(error) => return error,
                }
                sleep(GROWTH_CHECK).await;
            }
        }
    }

    /// The lineage of the history that the session writes.
    pub(crate) fn lineage(&self) -> Lineage {
        self.stamp.lineage
    }

    /// The last point that is durable in the vault.
    pub(crate) fn point(&self) -> Option<Point> {
        self.position.map(|position| position.point())
    }

    /// The last place that is durable.
    pub(crate) fn position(&self) -> Option<Position> {
        self.position
    }

    /// When the next object may be made: a `sync_interval` after the last one.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.last_shipped.map(|last| last + self.database.options().sync_interval)
    }

    /// Frees memory that isn't needed until the next change.
    pub(crate) fn rest(&self) {
        // If another task has the source, it is in use.
        if let Ok(mut source) = self.source.try_lock() {
            source.rest();
        }
    }

    /// Keeps the hold on the WAL from costing writers anything, see [`Source::step_inside`].
    pub(crate) async fn step_inside(&self) {
        // On failure the present hold stays.
        if let Err(error) = self.on_source(Source::step_inside).await {
            tracing::debug!(database = %self.database.name(), "the hold stays where it is: {error}");
        }
    }

    /// Ships all present commits, and empties the WAL if it has grown.
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        self.last_look = Instant::now();
        let growth = self.wal_outgrown();
        let work = async {
            if let Some(copier) = self.copy_ahead().await {
                self.between = true;
                let emptied = self.empty_busy_wal(copier).await?;
                self.between = false;
                // If writers pause just then, their last commits are shipped too.
                if emptied && self.is_behind(0).await? {
                    return Ok(());
                }
            }
            self.ship_all().await?;
            self.between = true;
            self.empty_wal().await?;
            self.between = false;
            Ok(())
        };
        tokio::select! {
            done = work => done,
            outgrown = growth => Err(outgrown),
        }
    }

    /// The same after a failure. Success is reported, even if there was nothing to ship.
    pub(crate) async fn recover(&mut self) -> Result<(), Error> {
        self.drain().await?;
        self.look_at_vault(Looking::WhenDue).await?;
        match self.position {
            Some(position) => self.arrive(position).await,
            None => Ok(()),
        }
    }

    /// Waits before another attempt, after an error that may pass by itself (`is_passing`). The session stays, and with
    /// it the hold on the WAL. Without the hold, a passing shortage plus the application's next checkpoint would make a
    /// hole.
    ///
    /// # Errors
    /// The error itself, if it isn't passing, if the session was in the middle of a step, or if the WAL's size has been
    /// unknown for a minute. The error that protection was given up, once the WAL has grown past its limit (I4).
    pub(crate) async fn endure(&mut self, error: Error, backoff: &mut Backoff) -> Result<(), Error> {
        if self.between || !(error.is_passing() || error.is_away()) {
            return Err(error);
        }
        let limit = self.database.options().wal_limit;
        let captured = self.position.and_then(|position| position.wal).map_or(0, |wal| wal.offset);
        match self.on_source(Source::wal_size).await {
            // The file may be larger than its live content.
            Ok(size) if size.saturating_sub(captured) > limit && self.is_behind(limit).await.unwrap_or(true) => {
                let (path, _) = self.database.place()?;
                return Err(Error::GaveUp { path, limit });
            }
            Err(_) if backoff.is_exhausted() => return Err(error),
            Ok(_) | Err(_) => {}
        }
        self.pause_after(&error, backoff).await;
        Ok(())
    }

    /// Takes the loss that was found when the session found its place in the vault, if it isn't reported yet.
    pub(crate) fn take_lost(&mut self) -> Option<Error> {
        self.lost.take()
    }

    fn author(&self) -> Author {
        Author { stamp: self.stamp, now: self.database.moment() }
    }

    async fn on_source<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Source) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let source = self.source.clone();
        // A poisoned source can still be used: every use of it proves its place again.
        blocking(move || work(&mut source.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    /// Waits after a failure, and returns `Ok` if the work should be repeated. Otherwise returns the failure.
    async fn wait_after(&mut self, error: Error, backoff: &mut Backoff) -> Result<(), Error> {
        match error {
            // The WAL is another generation now and can't be restarted again: look again soon.
            Error::Restarted => {
                sleep(RELOOK).await;
                return Ok(());
            }
            // A bucket or folder that the first attempt doesn't find isn't away: it never existed.
            Error::Vault(seawall_vault::Error::Missing { .. }) if self.database.is_new() => return Err(error),
            Error::Vault(seawall_vault::Error::Replaced { .. }) => return Err(error),
            Error::Vault(_) | Error::MayNotList { .. } if self.patience == Patience::Protecting => {}
            _ => return Err(error),
        }
        self.pause_after(&error, backoff).await;
        Ok(())
    }

    async fn pause_after(&self, error: &Error, backoff: &mut Backoff) {
        self.database.activity().captures.failed();
        self.tell(Phase::Failing, Some(error)).await;
        let wait = jittered(backoff.failed(), self.database.random());
        tokio::select! {
            () = sleep(wait) => {}
            () = self.shutdown.graceful(), if !self.shutdown.requested() => {}
        }
    }
}

/// Between half of and the whole `wait`.
fn jittered(wait: Duration, random: u64) -> Duration {
    let share = (random >> 40) as u32;
    wait / 2 + (wait / 2).mul_f64(f64::from(share) / f64::from(1 << 24))
}
