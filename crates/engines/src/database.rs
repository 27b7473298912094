//! A database of a configuration: the common settings, and the settings of its one engine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_config::{At, Fields, Location, Problem};
use seawall_sqlite::Upkeep;
use seawall_vault::{Environment, VaultUrl};

use crate::alarms::{Judged, Limits, Place};
use crate::backups::{self, ServerConfig};
use crate::clusters::{self, ClusterConfig};
use crate::encryption::{self, Encryption};
use crate::hooks::{About, Hooks};
use crate::lmdb::{self, LmdbConfig};
use crate::proofs::Proving;
use crate::server::ServerUrl;
use crate::several::BesideConfig;
use crate::sqlite::SqliteConfig;

/// One database to protect. `None` is the engine's own default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// Its name.
    pub name: String,
    /// The place of its objects; of several the first.
    pub vault: VaultUrl,
    /// The other places that hold the same.
    pub beside: Vec<BesideConfig>,
    /// For whom its objects are encrypted.
    pub encryption: Option<Encryption>,
    /// How long shipping at a graceful stop may take for this database.
    pub shutdown_timeout: Option<Duration>,
    /// Restore it when its file is missing.
    pub restore_if_missing: bool,
    /// Protect it in turns with other processes; for how long a turn lasts without a sign of life.
    pub lease: Option<Duration>,
    /// The programs that run around its backups, restores and proofs.
    pub hooks: Arc<Hooks>,
    /// Where its alarms begin, and how severe they are. Databases with the same limits share them.
    pub alarms: Arc<Limits>,
    /// When it is proved, and how; `None` if it isn't proved by itself.
    pub prove: Option<Arc<Proving>>,
    /// Its engine, with the settings that only that engine has.
    pub engine: EngineConfig,
    /// The line it begins on.
    pub line: usize,
}

/// The kinds of engines, each with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineConfig {
    /// A SQLite database file.
    Sqlite(SqliteConfig),
    /// An LMDB environment.
    Lmdb(Arc<LmdbConfig>),
    /// A database of a server, or a whole server.
    Server(Arc<ServerConfig>),
    /// A PostgreSQL cluster that is protected continuously.
    Cluster(Arc<ClusterConfig>),
}

/// The name of a source. No two databases of a process have the same source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceName {
    /// A file, or the folder of an environment; absolute.
    Path(PathBuf),
    /// A server's database or a whole server, without a password.
    Url(String),
}

impl SourceName {
    /// The path, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Url(_) => None,
        }
    }
}

impl From<&str> for SourceName {
    fn from(text: &str) -> Self {
        if text.contains("://") && !text.starts_with('/') {
            Self::Url(text.to_owned())
        } else {
            Self::Path(PathBuf::from(text))
        }
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(url),
        }
    }
}

impl DatabaseConfig {
    /// A SQLite database with the engine's own defaults, as a command line names it.
    pub fn new(name: String, path: PathBuf, vault: VaultUrl) -> Self {
        Self::of(name, vault, EngineConfig::Sqlite(SqliteConfig::new(path)))
    }

    /// A database of any kind, of which nothing else is said.
    pub fn of(name: String, vault: VaultUrl, engine: EngineConfig) -> Self {
        Self {
            name,
            vault,
            beside: Vec::new(),
            encryption: None,
            shutdown_timeout: None,
            restore_if_missing: false,
            lease: None,
            hooks: Arc::default(),
            alarms: Arc::default(),
            prove: None,
            engine,
            line: 0,
        }
    }

    /// Whether both are protected in the same way. Their lines in the file may differ, the limits of their alarms, and when they
    /// are proved.
    pub fn is_like(&self, other: &Self) -> bool {
        let Self {
            name,
            vault,
            beside,
            encryption,
            shutdown_timeout,
            restore_if_missing,
            lease,
            hooks,
            alarms: _,
            prove: _,
            engine,
            line: _,
        } = self;
        *name == other.name
            && *vault == other.vault
            && *beside == other.beside
            && *encryption == other.encryption
            && *shutdown_timeout == other.shutdown_timeout
            && *restore_if_missing == other.restore_if_missing
            && *lease == other.lease
            && *hooks == other.hooks
            && *engine == other.engine
    }

    /// The database with each of its vaults alone.
    pub fn each(&self) -> Vec<Self> {
        let urls = std::iter::once(&self.vault).chain(self.beside.iter().map(|beside| &beside.url));
        urls.map(|url| Self { vault: url.clone(), beside: Vec::new(), ..self.clone() }).collect()
    }

    /// What hooks are told of an operation on it; a restore also has a target.
    pub fn about(&self, target: String) -> About {
        let (source, vault) = (self.source().to_string(), self.vault.to_string());
        About { database: self.name.clone(), source, vault, target }
    }

    /// The source.
    pub fn source(&self) -> SourceName {
        match &self.engine {
            EngineConfig::Sqlite(sqlite) => SourceName::Path(sqlite.path.clone()),
            EngineConfig::Lmdb(lmdb) => SourceName::Path(lmdb.path.clone()),
            EngineConfig::Server(server) => SourceName::Url(server.source.url()),
            EngineConfig::Cluster(cluster) => SourceName::Url(cluster.target.to_string()),
        }
    }

    /// The file or folder that a restore makes when nothing else is named; a server's database has none.
    pub fn path(&self) -> Option<&Path> {
        match &self.engine {
            EngineConfig::Sqlite(sqlite) => Some(&sqlite.path),
            EngineConfig::Lmdb(lmdb) => Some(&lmdb.path),
            EngineConfig::Server(_) | EngineConfig::Cluster(_) => None,
        }
    }

    /// The file that is there if the database is.
    pub fn data_file(&self) -> Option<PathBuf> {
        match &self.engine {
            EngineConfig::Sqlite(sqlite) => Some(sqlite.path.clone()),
            EngineConfig::Lmdb(lmdb) => Some(lmdb.data_file()),
            EngineConfig::Server(_) | EngineConfig::Cluster(_) => None,
        }
    }

    /// Where this host keeps its own keys for the database's vault.
    pub(crate) fn keys(&self, environment: &Environment) -> Option<PathBuf> {
        match &self.engine {
            EngineConfig::Sqlite(sqlite) => Some(sqlite.state_dir().join("keys")),
            EngineConfig::Lmdb(lmdb) => Some(lmdb.keys()),
            EngineConfig::Server(_) | EngineConfig::Cluster(_) => encryption::keys_of(&self.vault, environment),
        }
    }

    /// Where the facts of its alarms are on this machine.
    pub fn place_here(&self, environment: &Environment) -> Place {
        match &self.engine {
            EngineConfig::Sqlite(sqlite) => Place::in_folder(sqlite.state_dir()),
            EngineConfig::Lmdb(lmdb) => lmdb.place_here(),
            EngineConfig::Server(_) | EngineConfig::Cluster(_) => {
                Place { state: None, silence: encryption::silence_of(&self.vault, environment) }
            }
        }
    }

    /// What alarms depend on beside the facts.
    pub fn judged(&self) -> Judged<'_> {
        Judged { is_scheduled: matches!(self.engine, EngineConfig::Server(_)), limits: &self.alarms }
    }

    /// Its settings, if it is a SQLite database.
    pub fn sqlite(&self) -> Option<&SqliteConfig> {
        if let EngineConfig::Sqlite(sqlite) = &self.engine { Some(sqlite) } else { None }
    }

    /// How much of the machine one backup may use, if the database is on a server.
    pub fn server_limits(&self) -> Option<&seawall_archive::server::Limits> {
        match &self.engine {
            EngineConfig::Server(server) => Some(server.source.limits()),
            EngineConfig::Cluster(cluster) => Some(&cluster.limits),
            EngineConfig::Sqlite(_) | EngineConfig::Lmdb(_) => None,
        }
    }

    /// The part that no other database may share: its place. Environments share a vault, so for them it is their names
    /// there.
    pub fn place(&self) -> String {
        match &self.engine {
            EngineConfig::Lmdb(_) => format!("{} {}__", self.vault, self.name),
            EngineConfig::Sqlite(_) | EngineConfig::Server(_) | EngineConfig::Cluster(_) => self.vault.to_string(),
        }
    }

    /// The threads for blocking work that the protection of this database adds to the threads of the process.
    pub fn threads(&self) -> Threads {
        match &self.engine {
            EngineConfig::Sqlite(_) => Threads { own: 0, shared: 0 },
            // One while a snapshot arrives, and one for a folder as vault.
            EngineConfig::Lmdb(_) => Threads { own: 2, shared: 0 },
            // A backup compresses with as many threads as it has jobs. Backups of several servers share the largest
            // number.
            EngineConfig::Server(server) => Threads { own: 0, shared: 4 * server.source.limits().jobs },
            // The log is compressed all the time, beside the bases.
            EngineConfig::Cluster(cluster) => Threads { own: 1, shared: 4 * cluster.limits.jobs },
        }
    }

    /// Applies options of the command line that are meant for every database, if this engine has them.
    pub fn ask(&mut self, restore_if_missing: bool, lease: Option<Duration>) {
        self.restore_if_missing |= restore_if_missing && self.path().is_some();
        self.lease = self.lease.or(lease.filter(|_| self.engine.takes_turns()));
    }
}

/// Threads for blocking work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Threads {
    /// For this database alone.
    pub own: usize,
    /// Threads that all databases of this kind share: the largest number that any of them asks for.
    pub shared: usize,
}

/// The subject of a list item, from the keys that only one kind of engine has.
#[derive(Debug)]
pub enum Subject {
    /// A SQLite database.
    File(PathBuf),
    /// An LMDB environment, with its section.
    Environment(PathBuf, Fields),
    /// A server.
    Server(ServerUrl),
}

/// What else a list item says of a database, for a kind that can't have it.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    /// It is a folder of databases.
    pub dir: bool,
    /// It is restored when it is missing.
    pub restore_if_missing: bool,
    /// It takes turns.
    pub lease: bool,
}

impl Subject {
    /// Takes the keys that name the subject: `url` and `lmdb`, beside the `path` that was read. Relative paths begin at
    /// `here`.
    ///
    /// # Errors
    /// When the keys contradict each other, or none of them is there.
    pub fn take(
        fields: &mut Fields,
        path: Option<&At<String>>,
        here: &Path,
        environment: &Environment,
    ) -> Result<Self, Location> {
        let url = fields.text("url")?;
        let target = url.map(|at| backups::target(&at, environment)).transpose()?;
        match (path, target) {
            (Some(at), None) => {
                let path = seawall_config::absolute(Path::new(&at.value), here);
                Ok(match fields.section("lmdb")? {
                    Some(section) => Self::Environment(path, section),
                    None => Self::File(path),
                })
            }
            (None, Some(target)) => Ok(Self::Server(target)),
            (Some(at), Some(_)) => {
                let cause = "url and path: a database is on a server or in a file".to_owned();
                Err(Problem::Contradiction(cause).at(at.line))
            }
            (None, None) => Err(fields.missing("path")),
        }
    }

    /// The source.
    pub fn source(&self) -> SourceName {
        match self {
            Self::File(path) | Self::Environment(path, _) => SourceName::Path(path.clone()),
            Self::Server(target) => SourceName::Url(target.to_string()),
        }
    }

    /// The default name of a database, if it is a valid name: the file's name without its extension, the name of a
    /// folder of databases, or the database's name on its server.
    pub fn own_name(&self, is_folder: bool) -> Option<&str> {
        match self {
            Self::Server(url) => Some(url.database()).filter(|name| !name.is_empty()),
            Self::File(path) | Self::Environment(path, _) if is_folder => path.file_name()?.to_str(),
            Self::File(path) | Self::Environment(path, _) => path.file_stem()?.to_str(),
        }
    }

    /// Whether such databases can take turns.
    pub fn takes_turns(&self) -> bool {
        // Environments are kept in step by several at a time, and a second backup does no harm.
        matches!(self, Self::File(_))
    }
}

impl EngineConfig {
    /// The name of the engine.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Lmdb(_) => "lmdb",
            Self::Server(server) => server.source.name(),
            Self::Cluster(_) => seawall_postgres::NAMES.name,
        }
    }

    /// Whether such databases can take turns.
    pub fn takes_turns(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// Reads the item's settings for this kind of engine. Settings of levels and retention that the item doesn't have
    /// come from `common`.
    ///
    /// # Errors
    /// When a value is invalid, or a key has no effect for this kind. An option that does nothing would be worse than
    /// none.
    pub fn read(
        fields: &mut Fields,
        subject: Subject,
        name: &str,
        here: &Path,
        common: &Arc<Upkeep>,
        said: Said,
    ) -> Result<Self, Location> {
        let path = subject.source().path().map(Path::to_owned).unwrap_or_default();
        let line = fields.line;
        let files = SqliteConfig::read(fields, path, here, common)?;
        Ok(match subject {
            Subject::File(_) => Self::Sqlite(files),
            Subject::Environment(path, section) => {
                lmdb::check(name, &files, common, said).map_err(|problem| problem.at(line))?;
                Self::Lmdb(Arc::new(lmdb::read(section, path)?))
            }
            Subject::Server(url) => {
                let lmdb = fields.section("lmdb")?.is_some();
                let engine = match fields.section("continuous")? {
                    Some(section) => {
                        Self::Cluster(Arc::new(clusters::read(fields, section, url, name, here, &files.upkeep)?))
                    }
                    None => Self::Server(Arc::new(backups::read(fields, url, name, here, &files.upkeep)?)),
                };
                backups::check(&files, common, said, lmdb).map_err(|problem| problem.at(line))?;
                engine
            }
        })
    }
}
