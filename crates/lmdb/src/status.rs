//! The status of a session, for status pages, health checks and metrics.

use std::collections::BTreeMap;

use seawall_core::Failure;
use seawall_vault::Trouble;

use crate::Stamp;
use crate::environment::{DbiStat, EnvInfo};
use crate::schema::flags::Flags;
use crate::session::before;
use crate::snapshot::Codec;

/// The status of one environment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionStatus {
    /// Its name.
    pub database: String,
    /// When the session began.
    pub began: Stamp,
    /// Which steps of the start are done.
    pub start: Start,
    /// The session's current request to the vault.
    pub doing: Option<Doing>,
    /// Listing the vault.
    pub listing: Tried,
    /// Reading snapshots.
    pub loading: Tried,
    /// Snapshots that could not be read, by instance.
    pub loading_failed: BTreeMap<String, u64>,
    /// Writing snapshots.
    pub storing: Tried,
    /// Steps that work on the environment itself.
    pub local: Tried,
    /// How often another data file replaced the session's file.
    pub replaced: u64,
    /// When the vault was last listed.
    pub listed: Option<Stamp>,
    /// Snapshots in the vault, and their bytes.
    pub in_vault: (u64, u64),
    /// The time and the compression of the last merged snapshot, by instance.
    pub received: BTreeMap<String, (Stamp, Codec)>,
    /// The last snapshot that was sent: when, and its bytes.
    pub sent: Option<(Stamp, u64)>,
    /// How the last sent snapshot was compressed.
    pub sent_as: Codec,
    /// If zstd is configured: instances that may not be able to read it, so that gzip is used.
    pub old_peers: Vec<String>,
    /// Damaged snapshots that were left out, with the cause.
    pub damaged: BTreeMap<String, String>,
    /// Deletion of old snapshots.
    pub cleaning: Cleaning,
    /// Why old snapshots weren't deleted, when that failed last, and how often in a row.
    pub undeleted: Option<(Failure, Stamp, u64)>,
    /// Sweeps of old deletions.
    pub sweeping: Sweeping,
    /// The environment at the last look.
    pub environment: Option<EnvStatus>,
    /// Rounds that began, and the last round that was completed.
    pub rounds: (u64, u64),
    /// The last failure, when, and how often, until the next complete success.
    pub failure: Option<(Failure, Stamp, u64)>,
    /// Errors with which the session goes on, by code: what, since when, how often.
    pub alarms: BTreeMap<&'static str, (Failure, Stamp, u64)>,
    /// How often our newest snapshot was lost from the vault.
    pub lost: u64,
    /// Since when a change waits to be sent.
    pub waiting: Option<Stamp>,
    /// Why the session ended, if it has.
    pub ended: Option<String>,
}

/// A kind of request to the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// List the snapshots.
    Listing,
    /// Read a snapshot.
    Loading,
    /// Write a snapshot.
    Storing,
}

impl SessionStatus {
    /// The same status, with the failed attempts of requests that the vault still retries. Otherwise an unreachable
    /// store would be reported only after the last retry.
    #[must_use]
    pub fn with_trouble(mut self, trouble: Option<&Trouble>, now: Stamp) -> Self {
        let (Some(trouble), Some(doing)) = (trouble, self.doing) else { return self };
        let tried = match doing {
            Doing::Listing => &mut self.listing,
            Doing::Loading => &mut self.loading,
            Doing::Storing => &mut self.storing,
        };
        let since = before(now, trouble.lasts);
        tried.since = Some(tried.since.map_or(since, |earlier| earlier.min(since)));
        let cause =
            || trouble.error.as_ref().map_or_else(|| "no answer from the store".to_owned(), ToString::to_string);
        tried.error.get_or_insert_with(cause);
        self
    }

    /// The last time when something worked again after a failure.
    pub fn recovered(&self) -> Option<Stamp> {
        [&self.listing, &self.loading, &self.storing, &self.local].into_iter().filter_map(|tried| tried.recovered).max()
    }
}

/// The steps of the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    /// The vault was listed.
    pub listed: bool,
    /// Every instance that existed at the start is merged.
    pub merged: bool,
    /// A snapshot was sent, if there was anything to send.
    pub stored: bool,
}

impl Start {
    /// Whether the start is complete.
    pub fn is_over(self) -> bool {
        self.listed && self.merged && self.stored
    }
}

/// Counters of an operation that is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tried {
    /// How often it was attempted.
    pub calls: u64,
    /// Bytes that it transferred.
    pub bytes: u64,
    /// How often it failed.
    pub failures: u64,
    /// When the present series of failures began.
    pub since: Option<Stamp>,
    /// The last error, while it fails.
    pub error: Option<String>,
    /// When it last worked again after a failure.
    pub recovered: Option<Stamp>,
}

impl Tried {
    /// Counts a success.
    pub(crate) fn worked(&mut self, now: Stamp) {
        self.calls += 1;
        if self.since.take().is_some() {
            self.recovered = Some(now);
        }
        self.error = None;
    }

    /// Counts a failure; the series began at `since`.
    pub fn failed(&mut self, since: Stamp, error: String) {
        self.calls += 1;
        self.failures += 1;
        self.since.get_or_insert(since);
        self.error = Some(error);
    }
}

/// Counters of deleting snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaning {
    /// How often the session looked for snapshots to delete.
    pub looks: u64,
    /// How often deleting failed.
    pub failures: u64,
    /// Snapshots that were deleted because of a newer one.
    pub newer: u64,
    /// Snapshots that were deleted because their instance is gone.
    pub gone: u64,
}

/// Counters of sweeping deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweeping {
    /// Deletions that were swept.
    pub forgotten: u64,
    /// Versions at the last sweep, and deletions among them.
    pub last: Option<(u64, u64)>,
    /// Sweeps, and their total time in nanoseconds.
    pub sweeps: (u64, u64),
}

/// An environment, without its data.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvStatus {
    /// Map, transactions, readers.
    pub info: EnvInfo,
    /// Bytes of the data file.
    pub file_bytes: u64,
    /// Its DBIs, shadows among them: name, flags, pages.
    pub dbis: Vec<(String, Flags, DbiStat)>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_still_tried_again_counts_from_its_first_attempt() {
        let now = Stamp(100_000_000_000);
        let trouble = Trouble { lasts: Duration::from_secs(7), error: None };
        let storing = SessionStatus { doing: Some(Doing::Storing), ..SessionStatus::default() };
        let told = storing.clone().with_trouble(Some(&trouble), now);
        assert_eq!(told.storing.since, Some(Stamp(93_000_000_000)));
        assert_eq!(told.storing.error.as_deref(), Some("no answer from the store"));
        assert_eq!((told.listing.since, told.loading.since), (None, None));
        assert_eq!(storing.clone().with_trouble(None, now), storing);
        let mut failed = storing.clone();
        failed.storing.failed(Stamp(90_000_000_000), "503".to_owned());
        assert_eq!(failed.clone().with_trouble(Some(&trouble), now).storing, failed.storing, "it fails for longer");
        failed.storing.worked(Stamp(95_000_000_000));
        assert_eq!((failed.storing.since, failed.recovered()), (None, Some(Stamp(95_000_000_000))));
        let resting = SessionStatus::default();
        assert_eq!(resting.clone().with_trouble(Some(&trouble), now), resting, "nothing waits for the vault");
    }
}
