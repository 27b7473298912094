//! Resolves `VAULT|NAME|PATH` on a command line.

use std::path::Path;
use std::sync::Arc;

use seawall_agent::config::{Config, DatabaseConfig, read_place};
use seawall_agent::{Keep, Opener, VaultUrl, read_when};
use seawall_core::{Clock as _, Engine, Failure, Kind, SystemClock, When};

use crate::arguments::ConfigArguments;
use crate::configuration;
use crate::edge::Edge;

/// A vault, or a database of the configuration.
#[derive(Debug)]
pub(crate) enum Source {
    /// A vault alone.
    Vault(VaultUrl),
    /// A database with its vault.
    Database(Box<DatabaseConfig>),
}

impl Source {
    /// Resolves `text`. A URL or an existing folder is a vault. Anything else is looked up in the configuration by name
    /// and by path. For a vault, the configuration is read only if the user named it.
    pub(crate) fn find(text: &str, arguments: &ConfigArguments, edge: &Edge) -> Result<Self, Failure> {
        let is_folder = edge.absolute(Path::new(text)).is_dir();
        let is_vault = text.contains("://") || is_folder;
        if is_vault && arguments.config.is_none() {
            return Ok(Self::Vault(read_place(text, &edge.directory)?));
        }
        let config = configuration::load(arguments, edge)?;
        decide(text, is_vault, config.as_ref(), edge)
    }

    /// Where its objects are.
    pub(crate) fn vault(&self) -> &VaultUrl {
        match self {
            Self::Vault(vault) => vault,
            Self::Database(database) => &database.vault,
        }
    }

    /// Opens its vault alone, to merge and delete in.
    pub(crate) async fn open_to_maintain(&self, opener: &Opener, keep: &Keep) -> Result<Arc<dyn Engine>, Failure> {
        match self {
            Self::Vault(vault) => opener.vault_to_maintain(vault, keep).await,
            Self::Database(database) => opener.database_to_maintain(database, keep).await,
        }
    }

    /// Opens it.
    pub(crate) async fn open(&self, opener: &Opener) -> Result<Arc<dyn Engine>, Failure> {
        match self {
            Self::Vault(vault) => opener.vault(vault).await,
            Self::Database(database) => opener.database(database).await,
        }
    }
}

/// The point that `--at` means.
pub(crate) fn when(text: &str) -> Result<When, Failure> {
    read_when(text, SystemClock.now())
}

fn decide(text: &str, is_vault: bool, config: Option<&Config>, edge: &Edge) -> Result<Source, Failure> {
    if let Some(database) = config.and_then(|config| config.find(text, &edge.directory)) {
        return Ok(Source::Database(Box::new(database)));
    }
    if is_vault {
        return Ok(Source::Vault(read_place(text, &edge.directory)?));
    }
    let (cause, next) = match config {
        Some(config) => {
            let names: Vec<_> = config.databases.iter().map(|database| database.name.as_str()).collect();
            let cause = format!("no vault, and no database of {}", config.file.display());
            (cause, format!("name a folder, a URL or one of: {}", names.join(", ")))
        }
        None => (
            "no vault, and there is no configuration to look it up in".to_owned(),
            "name a folder or a URL, or a configuration with --config".to_owned(),
        ),
    };
    Err(Failure::new(Kind::NotFound, "command.unknown-source", text, cause, next))
}

#[cfg(test)]
mod tests {
    use seawall_agent::Environment;

    use super::*;

    #[test]
    fn what_a_text_stands_for() {
        let edge = Edge {
            environment: Environment::default(),
            directory: "/data".into(),
            hostname: String::new(),
            terminal: false,
            identity: None,
        };
        let yaml = "vault: s3://bucket\ndatabases:\n  - { name: app, path: /data/app.db }\n";
        let config = Config::parse(Path::new("/c.yml"), yaml, &edge.surroundings(), true);
        let config = config.expect("a configuration");
        for (text, is_vault, with_config, expected) in [
            ("app", false, true, "database"),
            ("app.db", false, true, "database"),
            ("/data/app.db", false, true, "database"),
            ("./app.db", false, true, "database"),
            ("./vault", true, true, "vault"),
            ("s3://bucket/x", true, true, "vault"),
            ("s3://bucket/x", true, false, "vault"),
            ("other", false, true, "command.unknown-source"),
            ("app", false, false, "command.unknown-source"),
        ] {
            let found = match decide(text, is_vault, with_config.then_some(&config), &edge) {
                Ok(Source::Vault(_)) => "vault",
                Ok(Source::Database(_)) => "database",
                Err(failure) => failure.code,
            };
            assert_eq!(found, expected, "{text}");
        }
    }
}
