//! The settings of one database, and the edges through which time, randomness and events enter.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Clock, SystemClock, Thinning};
use seawall_vault::Vault;

use crate::{Admission, Handles, Turns, Watcher};

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
    /// How long a graceful stop may take to ship all commits.
    pub shutdown_timeout: Duration,
    /// How many threads of the runtime's blocking pool one base or restore may use.
    pub jobs: usize,
    /// What becomes of objects that are in the vault.
    pub upkeep: Arc<Upkeep>,
}

/// What becomes of objects that are in the vault: merged, and deleted in the end. Databases with the same settings share
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upkeep {
    /// Levels 1, 2, … (at most 8), and how often each is made from the level below.
    pub levels: Vec<LevelPolicy>,
    /// How often a base is made of what changed; `None` for never.
    pub base_interval: Option<Duration>,
    /// The rules for deletion.
    pub retention: Retention,
    /// Whether every merged object is looked for in a listing of its level, which must have no gap.
    pub verify_compaction: bool,
    /// How often all levels are listed and compared with the known objects, also of an idle database; `None` for never.
    pub validation_interval: Option<Duration>,
    /// While changes are uploaded: the shortest time between two checks for the objects of a newest restore; `None` for
    /// never.
    pub sight_interval: Option<Duration>,
}

/// One level of merged objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelPolicy {
    /// The span of changes that becomes one object. Not zero.
    pub interval: Duration,
    /// How long objects stay once a higher level holds the same; `None` for as long as the window reaches.
    pub keep: Option<Duration>,
}

/// The rules for deletion: which objects may go, and which must stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Whether anything is deleted; otherwise the bucket's own rules do it.
    pub enabled: bool,
    /// How long objects of level 0 stay after level 1 covers them; `None` without limit.
    pub l0: Option<Duration>,
    /// Level 0 is looked through at most this often.
    pub check_interval: Duration,
    /// Every point of this long ago can be restored, to the precision of its level; `None` for all points.
    pub window: Option<Duration>,
    /// At least this many bases stay.
    pub minimum: u32,
    /// The newest base of each of this many hours that have one.
    pub hourly: u32,
    /// Of this many days.
    pub daily: u32,
    /// Of this many weeks, from Monday on.
    pub weekly: u32,
    /// Of this many months.
    pub monthly: u32,
    /// Of this many years.
    pub yearly: u32,
    /// How long an object outlives its need, so that a restore that was planned before finds it.
    pub grace: Duration,
}

impl Retention {
    /// How many complete copies stay, whatever their age.
    pub fn thinning(&self) -> Thinning {
        let Self { minimum, hourly, daily, weekly, monthly, yearly, .. } = *self;
        Thinning { minimum, hourly, daily, weekly, monthly, yearly }
    }
}

impl Default for Upkeep {
    fn default() -> Self {
        let level = |interval| LevelPolicy { interval: Duration::from_secs(interval), keep: None };
        Self {
            levels: vec![level(30), level(300), level(3600)],
            base_interval: Some(Duration::from_secs(24 * 3600)),
            retention: Retention::default(),
            verify_compaction: false,
            validation_interval: Some(Duration::from_secs(24 * 3600)),
            sight_interval: Some(Duration::from_secs(600)),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            enabled: true,
            l0: Some(Duration::from_secs(300)),
            check_interval: Duration::from_secs(60),
            window: Some(Duration::from_secs(7 * 24 * 3600)),
            minimum: 1,
            hourly: 0,
            daily: 0,
            weekly: 0,
            monthly: 0,
            yearly: 0,
            grace: Duration::from_secs(15 * 60),
        }
    }
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
            upkeep: Arc::default(),
        }
    }
}

impl Options {
    /// The database's displayed name: its name, otherwise its path, otherwise its vault.
    pub(crate) fn display_name(&self, vault: &Vault) -> String {
        match &self.path {
            Some(path) if self.name.is_empty() => path.display().to_string(),
            None if self.name.is_empty() => vault.url().to_owned(),
            _ => self.name.clone(),
        }
    }

    /// The state directory: the configured one, or `.<file>-seawall` beside the database.
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
    /// The right to merge and delete, which the databases of a process share.
    pub turns: Turns,
    /// Tells of changed files; without one the database is polled every `sync_interval`.
    pub watcher: Option<Watcher>,
    /// How much may be done at a time; the databases of a process share one.
    pub admission: Admission,
    /// The handles on files, which two engines of one database share.
    pub handles: Handles,
}

impl World {
    /// The machine's own clock and randomness, with `watcher` and `admission`.
    pub fn real(watcher: Option<Watcher>, admission: Admission) -> Self {
        let (clock, random) = (Arc::new(SystemClock), Arc::new(system_random));
        Self { clock, random, turns: Turns::default(), watcher, admission, handles: Handles::default() }
    }
}

/// A random number from the system.
pub(crate) fn system_random() -> u64 {
    let mut bytes = [0; 8];
    // Without the system's randomness, a number from the clock is unique enough to be safe: two writers with equal
    // lineages still differ in their objects' bytes.
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
