//! Configurations: our own strict format, and Litestream's.
//!
//! Text becomes a tree with lines (`document`), is read key by key (`fields`) by one of two readers (`native`,
//! `litestream`), and comes out as one [`Config`] that can't hold nonsense. Nothing here opens a database or a vault;
//! the only files read are those that `…-file` keys name.

mod broken;
mod directory;
mod lightningstream;
mod lightningstream_storage;
mod litestream;
mod litestream_replica;
mod native;
mod registering;
mod report;
mod services;
mod vaults;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_vault::Environment;
use serde::Serialize;

pub use broken::socket_of;
pub use directory::{DirectoryConfig, StateRoot};
pub use lightningstream::{LightningConfig, LmdbConfig};
pub use native::LEASE;
pub use registering::Registering;
pub use report::{ChannelReport, DatabaseReport, DirectoryReport, Report};
pub use services::{HeartbeatConfig, Hidden, McpConfig, SOCKET, Services, SocketConfig};
pub use web::WebConfig;

pub use seawall_config::absolute;
pub use seawall_config::error::{ConfigError, Problem};
pub use seawall_config::expand::named as variables_of;
pub use seawall_config::pattern::Pattern;
pub use seawall_config::place::{as_litestream, read_place};
pub use seawall_config::size::parse_size;
use seawall_config::{document, error, expand, fields, is_name, kinds, pattern, place};
use seawall_engines::upkeep;
pub use seawall_engines::{BesideConfig, DatabaseConfig, EngineConfig, SourceName, sqlite::SqliteConfig};

use self::document::{Node, Value};
use self::error::Location;
use crate::process::child::ExecCommand;
use crate::process::logging::{Level, LogFormat};

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
            let here = seawall_host::folder_of(file);
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
        let source = match SourceName::from(text) {
            SourceName::Path(path) => SourceName::Path(absolute(&path, directory)),
            url => url,
        };
        let by_name = self.databases.iter().find(|database| database.name == text);
        let listed = by_name.or_else(|| self.databases.iter().find(|database| database.source() == source));
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
            Some(format!("the database {}", database.source())),
            Some(format!("the place {}", database.place())),
            database
                .sqlite()
                .and_then(|files| files.state_dir.as_ref())
                .map(|dir| format!("the state folder {}", dir.display())),
        ];
        let beside = database.beside.iter().map(|beside| format!("the place {}", beside.url));
        for what in claims.into_iter().flatten().chain(beside) {
            if let Some(first) = seen.insert(what.clone(), database.line) {
                return Err(Problem::Duplicate { what, first }.at(database.line));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
