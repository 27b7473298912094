//! Copying the WAL into the database file, and keeping writers out: with connections of their own, beside the hold of a [`Source`].
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

/// The longest wait between two looks at whether somebody else's copying is over. It takes as long as the disk likes.
const LONGEST_POLL: Duration = Duration::from_millis(1);

/// How long to wait for another checkpoint while writers wait for us.
const BRIEFLY: Duration = Duration::from_millis(50);

/// Copies the WAL into the database file, up to where the next hold stands. Needs nothing of the [`Source`] that
/// made it.
///
/// [`Source`]: crate::source::Source
pub(crate) struct Copier {
    path: PathBuf,
    connection: Connection,
    /// What held the WAL until now, and still does; `None` where it is the connection's own read transaction.
    grip: Option<Grip>,
    patience: Duration,
    probe: Probe,
    _hands: Arc<Hands>,
}

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Everything that is in the WAL.
    All,
    /// Not everything, because of a reader.
    Part,
    /// Nothing by us: somebody else is copying.
    Busy,
}

impl Copier {
    /// A copier that lets `grip` go, or the read transaction of `connection`.
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

    /// Hardly waits for somebody else's checkpoint: that may itself be waiting for the barrier that stands.
    pub(crate) fn briefly(self) -> Self {
        Self { patience: BRIEFLY, ..self }
    }

    /// Copies and syncs without holding anybody up.
    ///
    /// An application with SQLite's defaults tries to copy at every commit, and would do at once, while its user waits, what
    /// the old lock had kept it from. So the statement is ready before that goes.
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

/// The write lock, held without writing. Dropping it lifts it.
pub(crate) struct Barrier {
    path: PathBuf,
    connection: Connection,
    probe: Probe,
    _hands: Arc<Hands>,
}

impl Barrier {
    /// Takes it; `None` when the application holds the lock for longer than `patience`.
    ///
    /// A writer that commits without a pause leaves the lock free for microseconds. SQLite's own waiting, up to 100 ms
    /// between attempts, would hardly ever meet one.
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

    /// Lifts the barrier and cuts the WAL file, if nothing was committed in between; answers whether it did.
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

/// What a checkpoint did.
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
