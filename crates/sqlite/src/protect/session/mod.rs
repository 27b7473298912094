//! One stretch of protecting a database: from opening it to losing or leaving it.
//!
//! A session finds where the history ends, takes a base where it can't be continued, and then ships what is committed.
//! While the vault is away it keeps the WAL pinned and repeats what it was doing; past the bound it gives up (I4). It
//! may end at any await: everything that matters is in the vault, the WAL or the spool.
//!
//! This file has the session itself: opening it, one round of work (`drain`), and what it does after an error. `locate` finds its
//! place in the history, and `base` takes a base. `deliver` ships captures, and `empty` empties the WAL. `glance` finds out whether
//! there is anything to do, `revisit` looks at the vault again, and `report` tells the status.

mod base;
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
use crate::seal;
use crate::ship::blocking;
use crate::source::Source;
use crate::spool::Spool;
use crate::state::Position;

/// How long to wait before looking again at a WAL that a writer is restarting.
const RELOOK: Duration = Duration::from_millis(20);

/// How often to check what a slow vault does to the WAL.
const GROWTH_CHECK: Duration = Duration::from_secs(1);

/// How often in a row the size of the WAL may be unknown before the work that makes it grow is given up.
const UNSEEN: u32 = 30;

/// How long to wait before repeating what failed: doubled from the first to the last.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// How long a session repeats what a vault refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the WAL grows past its limit.
    Protecting,
    /// Not at all: the first failure is the answer.
    Once,
}

/// Whether to look at the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looking {
    /// If it is time; what was lost of the past is only told.
    WhenDue,
    /// In any case, because somebody is about to be told that everything is there; anything that was lost is an error.
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
    /// The place at which the WAL was emptied last, or as far as its readers allow: before another commit it is of no use.
    emptied: Option<WalPosition>,
    /// Until when it is not tried to empty the WAL, because the disk was in the way.
    emptying_put_off: Option<Instant>,
    /// Until when the higher price isn't asked of writers again.
    urgency_put_off: Option<Instant>,
    /// How much may be left to capture under the barrier, as the disk has shown.
    bounds: seal::Bounds,
    last_shipped: Option<Instant>,
    last_look: Instant,
    /// Whether the file has other names, through which somebody may write what can't be seen from here.
    several: bool,
    /// Whether the WAL is being emptied, or a base taken: what fails then is proved anew by another session.
    between: bool,
}

impl Drop for Session<'_> {
    /// Leaves the hold to an engine that takes over, so that nothing happens to the WAL between the two.
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
        let named = database.options().path.clone();
        let open = move || {
            let source = Source::open(&path, busy, &mut kept.lock().unwrap_or_else(PoisonError::into_inner), probe)?;
            Ok(source.named(named))
        };
        // What a predecessor left must not hold the WAL for longer than it takes to open it.
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

    /// Ends once the WAL has grown by its limit since this was called: what ships it is not fast enough (I4).
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
                    // What ships it may fare better.
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

    /// Lets go what isn't needed until something happens.
    pub(crate) fn rest(&self) {
        // Whoever has it works with it.
        if let Ok(mut source) = self.source.try_lock() {
            source.rest();
        }
    }

    /// Keeps what holds the WAL from costing its writers anything, see [`Source::step_inside`].
    pub(crate) async fn step_inside(&self) {
        // What holds the WAL now goes on holding it.
        if let Err(error) = self.on_source(Source::step_inside).await {
            tracing::debug!(database = %self.database.name(), "the hold stays where it is: {error}");
        }
    }

    /// Ships everything that is committed at this moment, and empties the WAL where it has grown.
    pub(crate) async fn drain(&mut self) -> Result<(), Error> {
        self.last_look = Instant::now();
        let growth = self.wal_outgrown();
        let work = async {
            if let Some(copier) = self.copy_ahead().await {
                self.between = true;
                let emptied = self.empty_busy_wal(copier).await?;
                self.between = false;
                // Where writers pause just then, what they left is put in order.
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

    /// The same after a failure: once it goes well that is told, even if there was nothing to ship.
    pub(crate) async fn recover(&mut self) -> Result<(), Error> {
        self.drain().await?;
        self.look_at_vault(Looking::WhenDue).await?;
        match self.position {
            Some(position) => self.arrive(position).await,
            None => Ok(()),
        }
    }

    /// Stays, and with it the hold on the WAL, after an error that the machine may get over by itself (`is_passing`): waits
    /// before another attempt. Without the hold the application's next checkpoint would make a hole of a passing shortage.
    ///
    /// # Errors
    /// The error itself, where it is no such one, something was half done, or nobody has known for a minute how large the WAL is;
    /// that protection was given up, once the WAL has grown past its limit (I4).
    pub(crate) async fn endure(&mut self, error: Error, backoff: &mut Backoff) -> Result<(), Error> {
        if self.between || !(error.is_passing() || error.is_away()) {
            return Err(error);
        }
        let limit = self.database.options().wal_limit;
        let captured = self.position.and_then(|position| position.wal).map_or(0, |wal| wal.offset);
        match self.on_source(Source::wal_size).await {
            // The file may be larger than what is live in it.
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

    fn author(&self) -> Author {
        Author { stamp: self.stamp, now: self.database.moment() }
    }

    async fn on_source<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Source) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let source = self.source.clone();
        // A poisoned source is as good as any other: every use of it proves its place anew.
        blocking(move || work(&mut source.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    /// After a failure: waits and returns `Ok` where it makes sense to repeat, the failure otherwise.
    async fn wait_after(&mut self, error: Error, backoff: &mut Backoff) -> Result<(), Error> {
        match error {
            // The WAL is another one now, and can't become yet another: look again soon.
            Error::Restarted => {
                sleep(RELOOK).await;
                return Ok(());
            }
            // What a first attempt can't find isn't away: it was never there.
            Error::Vault(seawall_vault::Error::Missing { .. }) if self.database.is_new() => return Err(error),
            Error::Vault(seawall_vault::Error::Replaced { .. }) => return Err(error),
            Error::Vault(_) if self.patience == Patience::Protecting => {}
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
