//! Configurations: our own strict format, and Litestream's.
//!
//! Text becomes a tree with lines (`document`), is read key by key (`fields`) by one of two readers (`native`,
//! `litestream`), and comes out as one [`Config`] that can't hold nonsense. Nothing here opens a database or a vault;
//! the only files read are those that `…-file` keys name.

mod directory;
mod document;
mod error;
mod expand;
mod fields;
mod lightningstream;
mod lightningstream_storage;
mod litestream;
mod litestream_replica;
mod lmdb;
mod native;
mod pattern;
mod place;
mod registering;
mod report;
mod s3;
mod server;
mod services;
mod size;
mod upkeep;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_postgres::Source;
use seawall_sqlite::Upkeep;
use seawall_vault::{Environment, VaultUrl};
use serde::Serialize;

pub use directory::{DirectoryConfig, StateRoot};
pub use error::{ConfigError, Problem};
pub use lightningstream::{LightningConfig, LmdbConfig};
pub use lmdb::EnvironmentConfig;
pub use native::LEASE;
pub use pattern::Pattern;
pub use place::read_place;
pub use registering::Registering;
pub use report::{DatabaseReport, DirectoryReport, Report};
pub use services::{HeartbeatConfig, Hidden, McpConfig, SOCKET, Services, SocketConfig};
pub use size::parse_size;

use self::document::{Node, Value};
use self::error::Location;
use crate::child::ExecCommand;
use crate::logging::{Level, LogFormat};

/// How often every database is looked at even if no event came, unless the configuration says otherwise.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How long a graceful stop may take unless the configuration says otherwise.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Which of the two formats a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `seawall.yml`.
    Seawall,
    /// `litestream.yml`, recognised by its top-level `dbs`.
    Litestream,
}

/// A configuration, understood.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it came from.
    pub file: PathBuf,
    /// The format of the file.
    pub format: Format,
    /// The databases, in the order of the file. Names, paths and places are distinct.
    pub databases: Vec<DatabaseConfig>,
    /// The folders of databases, in the order of the file. Folders and places are distinct.
    pub directories: Vec<DirectoryConfig>,
    /// What a database gets that is registered later.
    pub registering: Registering,
    /// What the process offers beside protection.
    pub services: Services,
    /// How long a graceful stop may take.
    pub shutdown_timeout: Duration,
    /// How often every database is looked at even if no event came; `None` is the default.
    pub sweep_interval: Option<Duration>,
    /// At most this many bytes a second are written to all vaults together.
    pub upload_limit: Option<u64>,
    /// The level of the log; `None` leaves it to the command.
    pub log_level: Option<Level>,
    /// The shape of the log; `None` leaves it to the command.
    pub log_format: Option<LogFormat>,
    /// The program to run under protection.
    pub exec: Option<ExecCommand>,
    /// What was accepted and yet deserves a look.
    pub warnings: Vec<Warning>,
}

/// Something accepted that deserves a look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The line, from 1.
    pub line: usize,
    /// What about it.
    pub text: String,
}

/// One database to protect. `None` is the engine's own default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// Its name.
    pub name: String,
    /// Its file, absolute; of a server's database its URL without a password, which no other has either.
    pub path: PathBuf,
    /// The place of its objects.
    pub vault: VaultUrl,
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
    /// How long shipping at a graceful stop may take for this database.
    pub shutdown_timeout: Option<Duration>,
    /// Restore it when its file is missing.
    pub restore_if_missing: bool,
    /// For an LMDB environment, how it is kept in step; a SQLite database has none.
    pub lmdb: Option<Arc<EnvironmentConfig>>,
    /// For a server's database or a whole server, where it is and when it is backed up.
    pub server: Option<Arc<Source>>,
    /// Protect it in turns with other processes; for how long a turn lasts without a sign of life.
    pub lease: Option<Duration>,
    /// What becomes of objects that are in the vault. Databases with the same settings share one.
    pub upkeep: Arc<Upkeep>,
    /// The line it begins on.
    pub line: usize,
}

/// What a configuration may refer to: handed in, because libraries don't read it.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Environment variables.
    pub environment: &'a Environment,
    /// Where relative paths begin in a `litestream.yml`; in our own format they begin where the file is.
    pub directory: &'a Path,
    /// The process's id, which `$PID` stands for in a `litestream.yml`.
    pub pid: u32,
}

impl DatabaseConfig {
    /// A database with the engine's own defaults, as a command line names it.
    pub fn new(name: String, path: PathBuf, vault: VaultUrl) -> Self {
        Self {
            name,
            path,
            vault,
            line: 0,
            state_dir: None,
            sync_interval: None,
            busy_timeout: None,
            checkpoint_pages: None,
            wal_limit: None,
            shutdown_timeout: None,
            restore_if_missing: false,
            lmdb: None,
            server: None,
            lease: None,
            upkeep: Arc::default(),
        }
    }

    /// The name of its engine.
    pub fn engine(&self) -> &'static str {
        match (&self.lmdb, &self.server) {
            (Some(_), _) => "lmdb",
            (_, Some(_)) => "postgres",
            _ => "sqlite",
        }
    }

    /// The file that is there if the database is.
    pub fn data_file(&self) -> PathBuf {
        match &self.lmdb {
            Some(lmdb) if !lmdb.options.no_subdir => self.path.join("data.mdb"),
            _ => self.path.clone(),
        }
    }

    /// What no other database may have: its place, or for an environment, whose vault others share, its names there.
    pub fn place(&self) -> String {
        match &self.lmdb {
            Some(_) => format!("{} {}__", self.vault, self.name),
            None => self.vault.to_string(),
        }
    }
}

impl Config {
    /// Reads a configuration from its text. Without `expand` a `$` is taken as it is.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(file: &Path, text: &str, surroundings: &Surroundings<'_>, expand: bool) -> Result<Self, ConfigError> {
        Self::read(file, text, surroundings, expand).map_err(|location| ConfigError::new(file, location))
    }

    fn read(file: &Path, text: &str, surroundings: &Surroundings<'_>, expand: bool) -> Result<Self, Location> {
        let Surroundings { environment, directory, pid } = *surroundings;
        let raw = document::parse(text);
        // A `$` can make the text of a litestream.yml no YAML before it is expanded.
        let is_litestream = match &raw {
            Ok(tree) => has_key(tree, "dbs"),
            Err(_) => text.lines().any(|line| line.starts_with("dbs:")),
        };
        let mut config = if is_litestream {
            let tree = if expand { document::parse(&expand::expand_text(text, environment, pid))? } else { raw? };
            litestream::read(tree, file, surroundings)?
        } else {
            let tree = if expand { expand::expand_values(raw?, environment)? } else { raw? };
            let here = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            native::read(tree, file, &absolute(here, directory), environment)?
        };
        check_distinct(&config.databases, &config.directories)?;
        config.warnings.sort_by_key(|warning| warning.line);
        Ok(config)
    }

    /// The database that `text` names: by its name, else by its path, relative to `directory`.
    ///
    /// A database of a folder is found too, whether its file exists or not.
    pub fn find(&self, text: &str, directory: &Path) -> Option<DatabaseConfig> {
        let path = if text.contains("://") { PathBuf::from(text) } else { absolute(Path::new(text), directory) };
        let by_name = self.databases.iter().find(|database| database.name == text);
        let listed = by_name.or_else(|| self.databases.iter().find(|database| database.path == path));
        listed.cloned().or_else(|| self.directories.iter().find_map(|folder| folder.find(text, directory)))
    }
}

fn has_key(tree: &Node, key: &str) -> bool {
    matches!(&tree.value, Value::Map(entries) if entries.iter().any(|entry| entry.key == key))
}

/// Two databases must share neither name, file, place nor state folder: they would mix.
fn check_distinct(databases: &[DatabaseConfig], directories: &[DirectoryConfig]) -> Result<(), Location> {
    let mut seen = BTreeMap::new();
    for database in databases.iter().chain(directories.iter().map(|folder| &folder.template)) {
        let claims = [
            Some(format!("the name \"{}\"", database.name)),
            Some(format!("the database {}", database.path.display())),
            Some(format!("the place {}", database.place())),
            database.state_dir.as_ref().map(|dir| format!("the state folder {}", dir.display())),
        ];
        for what in claims.into_iter().flatten() {
            if let Some(first) = seen.insert(what.clone(), database.line) {
                return Err(Problem::Duplicate { what, first }.at(database.line));
            }
        }
    }
    Ok(())
}

/// `path` from the root, dots resolved by name (links are not followed).
pub fn absolute(path: &Path, directory: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Whether `name` can stand for a database in places, logs and metrics.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_from_the_root() {
        for (path, expected) in [
            ("app.db", "/srv/app.db"),
            ("./app.db", "/srv/app.db"),
            ("../data//app.db", "/data/app.db"),
            ("/data/./x/../app.db", "/data/app.db"),
            ("/../app.db", "/app.db"),
        ] {
            assert_eq!(absolute(Path::new(path), Path::new("/srv")), Path::new(expected), "{path}");
        }
    }

    proptest::proptest! {
        /// Whatever stands in a file, there is an answer, and an error has a line that the file has.
        #[test]
        fn any_text_has_an_answer(text in "(dbs:|databases:|vault: |path: |  - |replica: |\\$\\{?A\\}?|[a-z:{}\\[\\]&*<#'\"\\\\|>%@\n\t -]){0,60}") {
            let environment = Environment::empty();
            let surroundings = Surroundings { environment: &environment, directory: Path::new("/"), pid: 1 };
            if let Err(error) = Config::parse(Path::new("/c.yml"), &text, &surroundings, true) {
                proptest::prop_assert!((1..=text.lines().count() + 1).contains(&error.line), "{error}");
            }
        }
    }

    #[test]
    fn names() {
        for name in ["app", "app.v2", "a-b_c", "büro"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".hidden", "a/b", "a b", "..", "a?b", &"x".repeat(129)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
