//! Counters of what an engine did, incremented where the work happens.
//!
//! An engine holds one [`Activity`] and adds to it. A reader takes [`Figures`], which are plain numbers. Counting costs
//! a few atomic additions and never waits. The numbers only grow while the process lives. They are for people; no
//! decision reads them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How many levels a vault can have.
pub const LEVELS: usize = 10;

/// One kind of work: how often it succeeded, how often it failed, how many bytes it handled and how long it took.
#[derive(Debug, Default)]
pub struct Tally {
    done: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    micros: AtomicU64,
}

impl Tally {
    /// Counts one success: the work read or made `bytes` in `took`.
    pub fn done(&self, bytes: u64, took: Duration) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts one failed attempt.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers so far.
    pub fn figures(&self) -> Work {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Work {
            done: read(&self.done),
            failed: read(&self.failed),
            bytes: read(&self.bytes),
            micros: read(&self.micros),
        }
    }
}

/// The numbers of one kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Work {
    /// How often the work succeeded.
    pub done: u64,
    /// How often an attempt failed.
    pub failed: u64,
    /// Bytes that the work read or made.
    pub bytes: u64,
    /// Time that the work took, in microseconds.
    pub micros: u64,
}

/// What one database's engine did since the process began.
#[derive(Debug, Default)]
pub struct Activity {
    /// Changes that were shipped; one for each object of the log.
    pub captures: Tally,
    /// Complete copies.
    pub bases: Tally,
    /// Checkpoints of the database's own log, for SQLite its WAL.
    pub checkpoints: Tally,
    /// Merges of objects, by the level of the result.
    pub compactions: [Tally; LEVELS],
    /// Objects that retention deleted, by level.
    pub deletions: [Tally; LEVELS],
    /// Restores into a file or another place.
    pub restores: Tally,
    /// Checks that read a vault, or a level of it, back.
    pub verifications: Tally,
    skipped: AtomicU64,
    behind: AtomicBool,
}

impl Activity {
    /// Counts a look at the database that found nothing new, so that no object was made.
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
        self.behind.store(false, Ordering::Relaxed);
    }

    /// Notes whether the database has changes that aren't in the vault yet, as far as the engine knows.
    pub fn set_behind(&self, behind: bool) {
        self.behind.store(behind, Ordering::Relaxed);
    }

    /// The numbers so far. `requests` are the counts of the database's vault.
    pub fn figures(&self, requests: Requests) -> Figures {
        Figures {
            captures: self.captures.figures(),
            bases: self.bases.figures(),
            checkpoints: self.checkpoints.figures(),
            compactions: self.compactions.each_ref().map(Tally::figures),
            deletions: self.deletions.each_ref().map(Tally::figures),
            restores: self.restores.figures(),
            verifications: self.verifications.figures(),
            skipped: self.skipped.load(Ordering::Relaxed),
            idle: !self.behind.load(Ordering::Relaxed),
            requests,
        }
    }
}

/// Requests to a store, counted by attempt, and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Requests {
    /// Whole objects written.
    pub put: u64,
    /// Calls of streamed uploads: one to begin, one per part, one to complete.
    pub upload: u64,
    /// Reads of objects and ranges.
    pub get: u64,
    /// Questions about one object.
    pub head: u64,
    /// Pages listed.
    pub list: u64,
    /// Batches deleted.
    pub delete: u64,
    /// How many of all these were retries.
    pub retries: u64,
    /// How many of all these failed; refusals don't count.
    pub failures: u64,
    /// Bytes handed to the store.
    pub bytes_up: u64,
    /// Bytes received from the store.
    pub bytes_down: u64,
}

impl Requests {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            put: self.put + other.put,
            upload: self.upload + other.upload,
            get: self.get + other.get,
            head: self.head + other.head,
            list: self.list + other.list,
            delete: self.delete + other.delete,
            retries: self.retries + other.retries,
            failures: self.failures + other.failures,
            bytes_up: self.bytes_up + other.bytes_up,
            bytes_down: self.bytes_down + other.bytes_down,
        }
    }
}

/// What an engine did, as plain numbers; see [`Activity`] for what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// See [`Activity::captures`].
    pub captures: Work,
    /// See [`Activity::bases`].
    pub bases: Work,
    /// See [`Activity::checkpoints`].
    pub checkpoints: Work,
    /// See [`Activity::compactions`]; the index is the level.
    pub compactions: [Work; LEVELS],
    /// See [`Activity::deletions`]; the index is the level.
    pub deletions: [Work; LEVELS],
    /// See [`Activity::restores`].
    pub restores: Work,
    /// See [`Activity::verifications`].
    pub verifications: Work,
    /// Looks that found nothing new.
    pub skipped: u64,
    /// Whether no change waits to be shipped, as far as the engine knows without looking.
    pub idle: bool,
    /// Requests to the database's vault.
    pub requests: Requests,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_comes_out_as_figures() {
        let activity = Activity::default();
        activity.captures.done(10, Duration::from_micros(5));
        activity.captures.done(20, Duration::from_micros(7));
        activity.captures.failed();
        activity.compactions[3].done(7, Duration::from_millis(1));
        activity.set_behind(true);
        let figures = activity.figures(Requests { put: 4, ..Requests::default() });
        assert_eq!(figures.captures, Work { done: 2, failed: 1, bytes: 30, micros: 12 });
        assert_eq!(figures.compactions[3], Work { done: 1, failed: 0, bytes: 7, micros: 1000 });
        assert_eq!((figures.compactions[2], figures.skipped, figures.idle), (Work::default(), 0, false));
        assert_eq!(figures.requests.put, 4);
        activity.skip();
        let figures = activity.figures(Requests::default());
        assert_eq!((figures.skipped, figures.idle), (1, true));
    }
}
