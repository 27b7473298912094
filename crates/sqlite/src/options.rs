//! What can be set for one database, and the edges through which the world enters.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Clock, SystemClock};

use crate::{Admission, Watcher};

/// Settings of one database.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, for people.
    pub name: String,
    /// The database file; `None` for a handle on a vault alone, which can restore but not protect.
    pub path: Option<PathBuf>,
    /// Where the state record, the lock and the spool are; by default `.<file>-seawall` beside the database.
    pub state_dir: Option<PathBuf>,
    /// At most one object is made in this time, except for the first after silence, which is made at once.
    pub sync_interval: Duration,
    /// How long to wait for a lock that the application holds.
    pub busy_timeout: Duration,
    /// The WAL is checkpointed once it holds this many pages.
    pub checkpoint_pages: u32,
    /// While the vault is away, changes stay in the WAL up to this many bytes; past it protection is given up
    /// until the vault is back, never the application (I4).
    pub wal_limit: u64,
    /// How long a graceful stop may take to ship what is committed.
    pub shutdown_timeout: Duration,
    /// How many threads of the runtime's blocking pool one base or restore may use.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: String::new(),
            path: None,
            state_dir: None,
            sync_interval: Duration::from_secs(1),
            busy_timeout: Duration::from_secs(1),
            checkpoint_pages: 1000,
            wal_limit: 1 << 30,
            shutdown_timeout: Duration::from_secs(30),
            jobs: 2,
        }
    }
}

impl Options {
    /// The state directory: the one that is set, or `.<file>-seawall` beside the database.
    pub fn state_dir(&self) -> Option<PathBuf> {
        self.state_dir.clone().or_else(|| self.path.as_deref().map(crate::default_state_dir))
    }
}

/// Time, randomness and events: the edges that a simulation replaces.
#[derive(Clone)]
pub struct World {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives random numbers for lineages and nonces.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Tells of changed files; without one the database is polled every `sync_interval`.
    pub watcher: Option<Watcher>,
    /// How much may be done at a time; the databases of a process share one.
    pub admission: Admission,
}

impl World {
    /// The machine's own clock and randomness, with `watcher` and `admission`.
    pub fn real(watcher: Option<Watcher>, admission: Admission) -> Self {
        Self { clock: Arc::new(SystemClock), random: Arc::new(system_random), watcher, admission }
    }
}

/// A random number from the system.
pub(crate) fn system_random() -> u64 {
    let mut bytes = [0; 8];
    // Without the system's randomness a number from the clock is still unique enough to be safe: two writers with
    // equal lineages are told apart by their objects' bytes.
    #[expect(clippy::disallowed_methods, reason = "this is the edge where randomness enters")]
    let filled = getrandom::fill(&mut bytes);
    match filled {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => SystemClock.now().as_millis().unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("clock", &self.clock).field("watcher", &self.watcher).finish_non_exhaustive()
    }
}
