//! How an environment is kept in step.

use std::time::Duration;

use seawall_host::Watcher;

use crate::local::Author;
use crate::peers::marker::Marker;
use crate::peers::retention::Retention;
use crate::snapshot::Codec;

/// How an environment is kept in step.
#[derive(Debug, Clone)]
pub struct SyncOptions {
    /// The author of our snapshots.
    pub author: Author,
    /// Merge only, and send nothing.
    pub receive_only: bool,
    /// Send only, and read no object of the vault.
    pub send_only: bool,
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
            send_only: false,
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
