//! SQLite database files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_config::{Fields, Location, absolute};
use seawall_core::Engine;
pub use seawall_sqlite::{
    Beginning, HEADER, LtxObject, Retention, Unusable, Upkeep, default_state_dir, digest_of_object, is_protected,
    unusable,
};
use seawall_sqlite::{Options, Sqlite, World, is_of_database, was_protected};
use seawall_vault::{ObjectKey, Scheme, Vault};

use crate::database::DatabaseConfig;
use crate::open::Opener;
use crate::upkeep;

/// Settings that only SQLite databases have. `None` is the engine's own default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteConfig {
    /// The file, absolute.
    pub path: PathBuf,
    /// Where the state record and the spool live.
    pub state_dir: Option<PathBuf>,
    /// At most one object per this span while changes keep coming.
    pub sync_interval: Option<Duration>,
    /// How long to wait for locks that the application holds.
    pub busy_timeout: Option<Duration>,
    /// The WAL is checkpointed when it holds this many pages.
    pub checkpoint_pages: Option<u32>,
    /// While the vault is away, at most this many bytes of changes wait.
    pub wal_limit: Option<u64>,
    /// Levels and retention of objects in the vault. Databases with the same settings share one.
    pub upkeep: Arc<Upkeep>,
}

impl SqliteConfig {
    /// A file with the engine's own defaults.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            state_dir: None,
            sync_interval: None,
            busy_timeout: None,
            checkpoint_pages: None,
            wal_limit: None,
            upkeep: Arc::default(),
        }
    }

    /// Where the state record is.
    pub fn state_dir(&self) -> PathBuf {
        self.state_dir.clone().unwrap_or_else(|| default_state_dir(&self.path))
    }

    /// Whether a state record says that it was protected before. Blocks.
    pub fn was_protected(&self) -> bool {
        was_protected(&self.state_dir())
    }

    /// Reads the keys of an item; whatever it doesn't say of levels and retention is as in `common`.
    pub(crate) fn read(
        fields: &mut Fields,
        path: PathBuf,
        here: &Path,
        common: &Arc<Upkeep>,
    ) -> Result<Self, Location> {
        let own = upkeep::read_native(fields, common)?;
        Ok(Self {
            path,
            state_dir: fields.text("state-dir")?.map(|at| absolute(Path::new(&at.value), here)),
            sync_interval: fields.positive_duration("sync-interval")?.map(|at| at.value),
            busy_timeout: fields.duration("busy-timeout")?.map(|at| at.value),
            checkpoint_pages: fields.count("checkpoint-pages")?.map(|at| at.value),
            wal_limit: fields.size("wal-limit")?.map(|at| at.value),
            upkeep: if own == **common { Arc::clone(common) } else { Arc::new(own) },
        })
    }

    /// The keys that only a SQLite database can have, and whether each is set.
    pub(crate) fn keys(&self) -> [(&'static str, bool); 5] {
        [
            ("state-dir", self.state_dir.is_some()),
            ("sync-interval", self.sync_interval.is_some()),
            ("busy-timeout", self.busy_timeout.is_some()),
            ("checkpoint-pages", self.checkpoint_pages.is_some()),
            ("wal-limit", self.wal_limit.is_some()),
        ]
    }

    /// The engine's options for a database with these settings.
    pub(crate) fn options(&self, database: &DatabaseConfig, jobs: usize) -> Options {
        let defaults = Options::default();
        Options {
            name: database.name.clone(),
            path: Some(self.path.clone()),
            state_dir: self.state_dir.clone(),
            sync_interval: self.sync_interval.unwrap_or(defaults.sync_interval),
            busy_timeout: self.busy_timeout.unwrap_or(defaults.busy_timeout),
            checkpoint_pages: self.checkpoint_pages.unwrap_or(defaults.checkpoint_pages),
            wal_limit: self.wal_limit.unwrap_or(defaults.wal_limit),
            shutdown_timeout: database.shutdown_timeout.unwrap_or(defaults.shutdown_timeout),
            jobs,
            upkeep: Arc::clone(&self.upkeep),
        }
    }
}

/// Whether each scheduled base comes while a host without the owner's keys can still read the base before it.
pub(crate) fn bases_come_in_time(config: &SqliteConfig) -> bool {
    config.upkeep.base_interval.is_some_and(|interval| interval <= Duration::from_secs(48 * 3600))
}

/// Opens a database, or a vault alone where `options` name none.
pub(crate) fn open(opener: &Opener, vault: Vault, options: Options) -> Arc<dyn Engine> {
    let world = World::real(opener.watcher.clone(), opener.admission.clone());
    let world = World { turns: opener.turns.clone(), handles: opener.handles.clone(), ..world };
    Arc::new(Sqlite::new(vault, options, world))
}

/// Opens a vault alone.
pub(crate) fn of_vault(opener: &Opener, vault: Vault, upkeep: Arc<Upkeep>) -> Arc<dyn Engine> {
    open(opener, vault, Options { jobs: opener.jobs, upkeep, ..Options::default() })
}

/// Whether an object of this name belongs to the vault's own database, and not to one below it.
pub(crate) fn is_name(scheme: Scheme, key: &ObjectKey) -> bool {
    is_of_database(scheme, key)
}
