//! Resolves `VAULT|NAME|PATH` on a command line.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use seawall_agent::config::{Config, DatabaseConfig, read_place};
use seawall_agent::{Choice, Keep, Opener, Operation, VaultUrl, is_there, read_when};
use seawall_core::{Clock as _, Engine, Failure, Kind, Moment, SystemClock, When};
use seawall_vault::Vault;

use crate::arguments::{ConfigArguments, PastArguments};
use crate::configuration;
use crate::edge::{Edge, usage};

/// A vault, or a database of the configuration.
#[derive(Debug, Clone)]
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

    /// The same, with the vault as it was stored at the moment that was asked for.
    pub(crate) fn past(self, arguments: &PastArguments) -> Result<Self, Failure> {
        let Some(at) = past(arguments)? else { return Ok(self) };
        Ok(match self {
            Self::Vault(vault) => Self::Vault(vault.as_stored_at(at)?),
            Self::Database(database) => {
                let vault = database.vault.as_stored_at(at)?;
                Self::Database(Box::new(DatabaseConfig { vault, ..*database }))
            }
        })
    }

    /// Does the work between the programs that the configuration has for it; `target` is where a restore goes to. For a vault alone nothing
    /// else runs.
    pub(crate) async fn around<T>(
        &self,
        operation: Operation,
        target: String,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match self {
            Self::Vault(_) => work.await,
            Self::Database(database) => database.hooks.around(operation, &database.about(target), work).await,
        }
    }

    /// Refuses a vault that is a folder and isn't there, to restore from. A database of the configuration may not have been backed up
    /// yet.
    pub(crate) fn there(self) -> Result<Self, Failure> {
        match &self {
            Self::Vault(vault) => is_there(vault).map(|()| self),
            Self::Database(_) => Ok(self),
        }
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

    /// The vault to restore from: of several the one whose newest point that `when` allows is the newest. Says which one, and
    /// which could not be looked at.
    pub(crate) async fn newest(self, opener: &Opener, when: &When) -> Result<(Self, String), Failure> {
        let Self::Database(database) = self else { return Ok((self, String::new())) };
        if database.beside.is_empty() {
            return Ok((Self::Database(database), String::new()));
        }
        let choice = opener.newest(&database, when).await?;
        Ok((Self::Database(Box::new(choice.database.clone())), told(&choice)))
    }

    /// Does work with the vault that [`Source::newest`] finds, and with the next one if that vault can't be read.
    pub(crate) async fn with_newest<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        opener: &Opener,
        when: &When,
        work: impl Fn(Self) -> F,
    ) -> Result<(String, T), Failure> {
        match self {
            Self::Database(database) if !database.beside.is_empty() => {
                let one = |database| work(Self::Database(Box::new(database)));
                let (choice, done) = opener.with_newest(database, when, one).await?;
                Ok((told(&choice), done))
            }
            Self::Database(_) | Self::Vault(_) => Ok((String::new(), work(self.clone()).await?)),
        }
    }

    /// It with each of its vaults alone.
    pub(crate) fn each(&self) -> Vec<Self> {
        match self {
            Self::Vault(vault) => vec![Self::Vault(vault.clone())],
            Self::Database(database) => database.each().into_iter().map(|one| Self::Database(Box::new(one))).collect(),
        }
    }

    /// Opens it, with its vault.
    pub(crate) async fn open_with_vault(&self, opener: &Opener) -> Result<(Vault, Arc<dyn Engine>), Failure> {
        match self {
            Self::Vault(vault) => opener.vault_and_engine(vault).await,
            Self::Database(database) => opener.database_and_vault(database).await,
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

/// The moment as of which the vault is read, if one was asked for.
pub(crate) fn past(arguments: &PastArguments) -> Result<Option<Moment>, Failure> {
    let Some(text) = &arguments.as_stored_at else { return Ok(None) };
    let now = SystemClock.now();
    let flag = "--as-stored-at";
    match When::parse(text, now) {
        Ok(When::Moment(at)) if at <= now => Ok(Some(at)),
        Ok(When::Moment(at)) => {
            let next = "give a moment before the attack";
            Err(usage("usage.when", flag, &format!("{at} is in the future"), next))
        }
        Ok(_) => {
            let next = "give RFC 3339 or a relative time; --at chooses the point";
            Err(usage("usage.when", flag, &format!("`{text}` is no moment of the store's clock"), next))
        }
        Err(error) => Err(usage("usage.when", flag, &error.to_string(), "give RFC 3339, or such as '2 days ago'")),
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

/// Which of several vaults was taken, and which were passed over.
pub(crate) fn told(choice: &Choice) -> String {
    let away = choice.away.iter().map(|failure| format!("{}: passed over: {}\n", failure.object, failure.cause));
    let doubt = choice
        .unconfirmed
        .then(|| "nothing confirms that this is the database's history: no other vault could be compared\n".to_owned());
    away.chain([format!("from {}\n", choice.database.vault)]).chain(doubt).collect()
}

#[cfg(test)]
mod tests {
    use seawall_agent::Environment;

    use super::*;

    #[test]
    fn moments_of_the_store() {
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Ok(Some(Moment::from_millis(1000)))),
            ("latest", Err("usage.when")),
            ("00000000000000af", Err("usage.when")),
            ("2999-01-01T00:00:00Z", Err("usage.when")),
            ("yesterday", Err("usage.when")),
        ] {
            let found = past(&PastArguments { as_stored_at: Some(text.to_owned()) });
            assert_eq!(found.map_err(|failure| failure.code), expected, "{text}");
        }
        assert_eq!(past(&PastArguments::default()).expect("nothing was asked for"), None);
        assert!(past(&PastArguments { as_stored_at: Some("2 days ago".into()) }).expect("a moment").is_some());
    }

    #[test]
    fn a_folder_to_restore_from_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = |path: std::path::PathBuf| Source::Vault(VaultUrl::File(path)).there().map(drop);
        let missing = vault(folder.path().join("missing")).map_err(|failure| (failure.kind, failure.code));
        assert_eq!((vault(folder.path().to_owned()), missing), (Ok(()), Err((Kind::Refused, "vault.missing"))));
        let bucket = Source::Vault(VaultUrl::parse("s3://bucket/x").expect("a place"));
        assert!(bucket.there().is_ok());
    }

    #[test]
    fn what_a_text_stands_for() {
        let edge = Edge {
            environment: Environment::default(),
            directory: "/data".into(),
            hostname: String::new(),
            terminal: false,
            has_screen: false,
            identity: None,
            progress: None,
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
