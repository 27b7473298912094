//! The configuration that Litestream would use, and the database or replica that an argument names.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use seawall_agent::VaultUrl;
use seawall_agent::config::{Config, ConfigError, DatabaseConfig, as_litestream, read_place};
use seawall_core::Failure;

use super::Stop;
use super::flags::Flags;
use crate::edge::Edge;

/// Where the configuration is looked for when none is named.
const DEFAULT: &str = "/etc/litestream.yml";

/// Reads the configuration.
pub(super) fn load(flags: &Flags, edge: &Edge) -> Result<Config, Stop> {
    let file = file(flags, edge);
    let text = std::fs::read_to_string(&file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Stop::error(format!("config file not found: {}", file.display())),
        _ => Stop::error(format!("open {}: {error}", file.display())),
    })?;
    let expand = !flags.is_set("no-expand-env");
    Config::parse(&file, &text, &edge.surroundings(), expand).map_err(|error: ConfigError| Failure::from(error).into())
}

/// The file that the configuration is in.
pub(super) fn file(flags: &Flags, edge: &Edge) -> PathBuf {
    let named = flags.get("config").or_else(|| edge.environment.get("LITESTREAM_CONFIG"));
    path(named.filter(|named| !named.is_empty()).unwrap_or(DEFAULT), edge)
}

/// A path as it is typed: from the home folder, or with the scheme of a database.
pub(super) fn path(text: &str, edge: &Edge) -> PathBuf {
    let plain = text.strip_prefix("sqlite3://").or_else(|| text.strip_prefix("sqlite://")).unwrap_or(text);
    match (plain.strip_prefix("~/"), edge.environment.get("HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => edge.absolute(Path::new(plain)),
    }
}

/// The thing that an argument names.
#[derive(Debug)]
pub(super) enum Named {
    /// A replica by its URL.
    Replica(VaultUrl),
    /// A database of the configuration.
    Database(Box<DatabaseConfig>),
}

impl Named {
    /// Finds it.
    pub(super) fn find(text: &str, flags: &Flags, edge: &Edge) -> Result<Self, Stop> {
        if is_url(text) {
            if flags.get("config").is_some() {
                return Err(Stop::error("cannot specify a replica URL and the -config flag"));
            }
            return Ok(Self::Replica(as_litestream(read_place(text, &edge.directory)?)?));
        }
        let path = path(text, edge);
        let config = load(flags, edge)?;
        let found = config.databases.into_iter().find(|database| database.path() == Some(&*path));
        let found = found.ok_or_else(|| Stop::error(format!("database not found in config: {}", path.display())))?;
        Ok(Self::Database(Box::new(found)))
    }

    /// Where its objects are.
    pub(super) fn vault(&self) -> &VaultUrl {
        match self {
            Self::Replica(vault) => vault,
            Self::Database(database) => &database.vault,
        }
    }
}

/// Whether an argument names a replica.
pub(super) fn is_url(text: &str) -> bool {
    text.contains("://") && !text.starts_with("sqlite://") && !text.starts_with("sqlite3://")
}

/// The type of a replica, in Litestream's word.
pub(super) fn kind(vault: &VaultUrl) -> String {
    vault.to_string().split("://").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use seawall_agent::Environment;

    use super::*;

    #[test]
    fn which_file_and_which_path() {
        let edge = |variables: &[(&str, &str)]| Edge {
            environment: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            directory: "/srv".into(),
            hostname: String::new(),
            terminal: false,
            has_screen: false,
            identity: None,
            progress: None,
        };
        let known = [super::super::flags::value("config")];
        let flags = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            super::super::flags::parse(&known, &arguments).expect("flags")
        };
        let variable = [("LITESTREAM_CONFIG", "/x.yml"), ("HOME", "/home/me")];
        assert_eq!(file(&flags(""), &edge(&[])), Path::new("/etc/litestream.yml"));
        assert_eq!(file(&flags(""), &edge(&variable)), Path::new("/x.yml"));
        assert_eq!(file(&flags("-config ~/y.yml"), &edge(&variable)), Path::new("/home/me/y.yml"));
        assert_eq!(path("sqlite:///data/a.db", &edge(&[])), Path::new("/data/a.db"));
        assert_eq!(path("a.db", &edge(&[])), Path::new("/srv/a.db"));
        assert!(is_url("s3://b/x") && !is_url("sqlite3:///a") && !is_url("/a"));
        let _nothing: Environment = edge(&[]).environment;
    }
}
