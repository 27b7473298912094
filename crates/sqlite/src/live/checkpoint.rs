//! Copies the WAL into the database file ([`Copier`]), and keeps writers out meanwhile ([`Barrier`]).
//!
//! Each has a connection of its own, beside the hold of a [`Source`].
//!
//! [`Source`]: crate::source::Source

#![expect(clippy::disallowed_methods, reason = "this module waits for locks of SQLite's")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use seawall_core::Backoff;

use crate::connection::{connect, is_busy};
use crate::error::Error;
use crate::grip::{Grip, Hands};
use crate::probe::{Defect, Probe, Step};

/// How long to wait between two attempts at a lock of SQLite's.
const POLL: Duration = Duration::from_micros(100);

/// The longest wait between two questions whether another process's checkpoint is over. Its length depends on the disk.
const LONGEST_POLL: Duration = Duration::from_millis(1);

/// How long to wait for another checkpoint while writers wait for us.
const BRIEFLY: Duration = Duration::from_millis(50);

/// Copies the WAL into the database file, up to the present hold. It works without the [`Source`] that made it.
///
/// [`Source`]: crate::source::Source
pub(crate) struct Copier {
    path: PathBuf,
    connection: Connection,
    /// The old hold, which [`copy`](Self::copy) drops; `None` if it is the connection's own read transaction.
    grip: Option<Grip>,
    patience: Duration,
    probe: Probe,
    _hands: Arc<Hands>,
}

/// How much was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Everything that is in the WAL.
    All,
    /// Not everything, because of a reader.
    Part,
    /// Nothing by us: another process is copying.
    Busy,
}

impl Copier {
    /// A copier that releases `grip`, or the read transaction of `connection`.
    pub(crate) fn new(
        path: &Path,
        connection: Connection,
        grip: Option<Grip>,
        patience: Duration,
        probe: &Probe,
        hands: &Arc<Hands>,
    ) -> Self {
        let (path, probe, _hands) = (path.to_owned(), probe.clone(), hands.clone());
        Self { path, connection, grip, patience, probe, _hands }
    }

    /// Waits at most 50 ms for another process's checkpoint, which may itself be waiting for our barrier.
    pub(crate) fn briefly(self) -> Self {
        Self { patience: BRIEFLY, ..self }
    }

    /// Copies and syncs without delaying other processes.
    ///
    /// An application with SQLite's defaults tries to copy at every commit. As soon as the old lock is gone, it could copy all
    /// that the lock had prevented, while its user waits. So the statement is prepared before the lock is released.
    pub(crate) fn copy(mut self) -> Result<Copied, Error> {
        let grip = self.grip.take();
        let copy = || {
            let mut checkpoint = self.connection.prepare(&checkpoint("PASSIVE"))?;
            match grip {
                Some(grip) => drop(grip),
                None => self.connection.execute_batch("COMMIT")?,
            }
            self.probe.at(Step::LetGo);
            let (mut polls, mut waited) = (Backoff::new(POLL, LONGEST_POLL), Duration::ZERO);
            loop {
                let done = checkpoint.query_row([], Checkpointed::read)?;
                if !done.busy {
                    return Ok(if done.frames == done.copied { Copied::All } else { Copied::Part });
                }
                if waited >= self.patience {
                    return Ok(Copied::Busy);
                }
                let wait = polls.failed();
                std::thread::sleep(wait);
                waited += wait;
            }
        };
        copy().map_err(Error::sqlite(&self.path))
    }
}

/// The write lock, held without writing. Dropping it releases the lock.
pub(crate) struct Barrier {
    path: PathBuf,
    connection: Connection,
    probe: Probe,
    _hands: Arc<Hands>,
}

impl Barrier {
    /// Takes the lock; `None` when the application holds it for longer than `patience`.
    ///
    /// It asks every 100 µs. A writer that commits without a pause leaves the lock free for microseconds only, and SQLite's
    /// own busy handler waits up to 100 ms between two attempts.
    pub(crate) fn take(
        path: &Path,
        patience: Duration,
        probe: &Probe,
        hands: &Arc<Hands>,
    ) -> Result<Option<Self>, Error> {
        let connection = connect(path, Duration::ZERO)?;
        let begin =
            if probe.has(Defect::ForgetsTheBarrier) { "BEGIN; -- without a barrier" } else { "BEGIN IMMEDIATE" };
        let attempts = patience.as_micros() / POLL.as_micros();
        for _ in 0..=attempts {
            match connection.execute_batch(begin) {
                Ok(()) => {
                    let (path, probe, _hands) = (path.to_owned(), probe.clone(), hands.clone());
                    return Ok(Some(Self { path, connection, probe, _hands }));
                }
                Err(e) if is_busy(&e) => std::thread::sleep(POLL),
                Err(e) => return Err(Error::sqlite(path)(e)),
            }
        }
        Ok(None)
    }

    /// Releases the lock and cuts the WAL file, unless a transaction commits in between. Returns whether it did.
    pub(crate) fn cut(self) -> Result<bool, Error> {
        self.connection.execute_batch("ROLLBACK").map_err(Error::sqlite(&self.path))?;
        self.probe.at(Step::Cutting);
        self.connection.busy_timeout(Duration::ZERO).map_err(Error::sqlite(&self.path))?;
        match self.connection.query_row(&checkpoint("TRUNCATE"), [], Checkpointed::read) {
            Ok(done) => Ok(!done.busy),
            Err(e) if is_busy(&e) => Ok(false),
            Err(e) => Err(Error::sqlite(&self.path)(e)),
        }
    }
}

/// The answer of `PRAGMA wal_checkpoint`.
pub(crate) struct Checkpointed {
    busy: bool,
    frames: i64,
    copied: i64,
}

impl Checkpointed {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { busy: row.get::<_, i64>(0)? != 0, frames: row.get(1)?, copied: row.get(2)? })
    }
}

pub(crate) fn checkpoint(mode: &str) -> String {
    format!("PRAGMA wal_checkpoint({mode})")
}
