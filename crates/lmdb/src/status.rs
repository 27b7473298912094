//! How a session is doing: what a status page, a health check and metrics show.

use std::collections::BTreeMap;

use seawall_core::Failure;

use crate::Stamp;
use crate::environment::{DbiStat, EnvInfo};
use crate::flags::Flags;
use crate::snapshot::Codec;

/// How one environment is doing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionStatus {
    /// Its name.
    pub database: String,
    /// When the session began.
    pub began: Stamp,
    /// What has to be done before the start is over.
    pub start: Start,
    /// Listing the vault.
    pub listing: Tried,
    /// Reading snapshots.
    pub loading: Tried,
    /// Snapshots that could not be read, by instance.
    pub loading_failed: BTreeMap<String, u64>,
    /// Writing snapshots.
    pub storing: Tried,
    /// Work on the environment itself.
    pub local: Tried,
    /// Snapshots in the vault, and their bytes.
    pub in_vault: (u64, u64),
    /// The time of the last snapshot that was merged, and how it was compressed, by instance.
    pub received: BTreeMap<String, (Stamp, Codec)>,
    /// The last snapshot that was sent: when, and its bytes.
    pub sent: Option<(Stamp, u64)>,
    /// How that was compressed.
    pub sent_as: Codec,
    /// Where zstd is asked for: instances that may not read it, so that it is gzip all the same.
    pub old_peers: Vec<String>,
    /// Snapshots that were left out, with what is wrong with them.
    pub damaged: BTreeMap<String, String>,
    /// Deleting snapshots.
    pub cleaning: Cleaning,
    /// Forgetting deletions.
    pub sweeping: Sweeping,
    /// The environment, as it was last looked at.
    pub environment: Option<EnvStatus>,
    /// Looks at everything that began, and the last of them that was done wholly.
    pub rounds: (u64, u64),
    /// What went wrong last, when, and how often, until all goes well again.
    pub failure: Option<(Failure, Stamp, u64)>,
    /// Why the session is over, if it is.
    pub ended: Option<String>,
}

/// What has to be done before the start is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    /// The vault was listed.
    pub listed: bool,
    /// Every instance that was there is merged.
    pub merged: bool,
    /// A snapshot was sent, where there was something to send.
    pub stored: bool,
}

impl Start {
    /// Whether the start is over.
    pub fn is_over(self) -> bool {
        self.listed && self.merged && self.stored
    }
}

/// Something that is tried again and again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tried {
    /// How often it was tried.
    pub calls: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// How often it failed.
    pub failures: u64,
    /// Since when it fails without a break.
    pub since: Option<Stamp>,
    /// The last error, for as long as it fails.
    pub error: Option<String>,
}

impl Tried {
    /// It worked.
    pub(crate) fn worked(&mut self, bytes: u64) {
        self.calls += 1;
        self.bytes += bytes;
        self.since = None;
        self.error = None;
    }

    /// It failed.
    pub fn failed(&mut self, now: Stamp, error: String) {
        self.calls += 1;
        self.failures += 1;
        self.since.get_or_insert(now);
        self.error = Some(error);
    }
}

/// Deleting snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaning {
    /// How often it was looked.
    pub looks: u64,
    /// How often deleting failed.
    pub failures: u64,
    /// Snapshots that went because of a newer one.
    pub newer: u64,
    /// Snapshots that went because their instance is gone.
    pub gone: u64,
}

/// Forgetting deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweeping {
    /// Deletions that were forgotten.
    pub forgotten: u64,
    /// Versions at the last sweep, and deletions among them.
    pub last: Option<(u64, u64)>,
    /// Sweeps, and their time together in nanoseconds.
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
