//! What a database gets that is registered while the process runs: the defaults of the configuration, so that it is
//! protected as if it had been listed there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, Kind};
use seawall_engines::alarms::Limits;
use seawall_engines::proofs::Proving;
use seawall_engines::sqlite::Upkeep;
use seawall_engines::{Encryption, Hooks};
use seawall_vault::VaultUrl;

use super::place::{self, Precedence};
use super::vaults::{self, Listed};
use super::{DatabaseConfig, EngineConfig, SqliteConfig, absolute, is_name};

/// The defaults of a configuration.
#[derive(Clone)]
pub struct Registering {
    /// The place of databases that name none; the name goes below it.
    pub(crate) vault: Option<String>,
    /// The places of databases that name none, if there are several.
    pub(crate) vaults: Vec<Listed>,
    /// For whom vaults are encrypted.
    pub(crate) encryption: Option<Encryption>,
    /// Settings of vaults, and who wins where a URL speaks of the same.
    pub(crate) settings: (place::Settings, Precedence),
    /// Settings that count where nothing else says anything.
    pub(crate) fallback: place::Settings,
    /// Where relative folders begin.
    pub(crate) directory: PathBuf,
    pub(crate) sync_interval: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    /// The programs that run around operations.
    pub(crate) hooks: Arc<Hooks>,
    /// Merging and keeping.
    pub(crate) upkeep: Arc<Upkeep>,
    /// Where alarms begin.
    pub(crate) alarms: Arc<Limits>,
    /// When databases are proved, and how.
    pub(crate) prove: Option<Arc<Proving>>,
    pub(crate) shutdown_timeout: Duration,
}

impl fmt::Debug for Registering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings hold secrets.
        f.debug_struct("Registering").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Registering {
    /// Without a configuration: the engines' own defaults.
    pub fn plain(directory: &Path, shutdown_timeout: Duration) -> Self {
        Self {
            vault: None,
            vaults: Vec::new(),
            encryption: None,
            settings: (place::Settings::default(), Precedence::Url),
            fallback: place::Settings::default(),
            directory: directory.to_owned(),
            sync_interval: None,
            lease: None,
            hooks: Arc::default(),
            upkeep: Arc::default(),
            alarms: Arc::default(),
            prove: None,
            shutdown_timeout,
        }
    }

    /// Encrypts the vaults of databases that are registered.
    pub fn encrypt(&mut self, encryption: Encryption) {
        self.encryption = Some(encryption);
    }

    /// The configuration of a database that is registered with its path, which must be absolute, and a place unless
    /// there is a default one.
    ///
    /// # Errors
    /// When path, name or place can't be used.
    pub fn database(&self, path: &Path, vault: Option<&str>, name: Option<&str>) -> Result<DatabaseConfig, Failure> {
        let object = path.display().to_string();
        let wrong = |cause: &str, next: &str| Failure::new(Kind::Usage, "agent.register", object.clone(), cause, next);
        if !path.is_absolute() || path.file_name().is_none() {
            return Err(wrong("this is no absolute path of a database", "give the whole path of the file"));
        }
        if name.is_some_and(|name| !is_name(name)) {
            let next = "use letters, digits, \".\", \"_\" and \"-\", not beginning with \".\"";
            return Err(wrong("the name can't be a database's", next));
        }
        let path = absolute(path, &self.directory);
        let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_name(stem));
        let named = || name.or(stem).ok_or_else(|| wrong("no name can be made from it", "give it a name"));
        let ((place, beside), name) = match (vault, &self.vault) {
            (Some(vault), _) => {
                let name = name.map_or_else(|| path.display().to_string(), str::to_owned);
                ((self.place(vault)?, Vec::new()), name)
            }
            (None, Some(default)) => {
                let name = named()?;
                ((self.place(&place::below(default, name))?, Vec::new()), name.to_owned())
            }
            (None, None) if self.vaults.is_empty() => return Err(wrong("no place is named for it", "give a vault")),
            (None, None) => {
                let name = named()?;
                let places = vaults::places(&self.vaults, Some(name), &self.settings.0, &self.directory);
                let places = places.map_err(|problem| wrong(&problem.problem.to_string(), "mend vaults"))?;
                (places.ok_or_else(|| wrong("no place is named for it", "give a vault"))?, name.to_owned())
            }
        };
        let files = SqliteConfig {
            sync_interval: self.sync_interval,
            upkeep: Arc::clone(&self.upkeep),
            ..SqliteConfig::new(path)
        };
        Ok(DatabaseConfig {
            beside,
            encryption: self.encryption.clone(),
            lease: self.lease,
            hooks: Arc::clone(&self.hooks),
            alarms: Arc::clone(&self.alarms),
            prove: self.prove.clone(),
            shutdown_timeout: Some(self.shutdown_timeout),
            ..DatabaseConfig::of(name, place, EngineConfig::Sqlite(files))
        })
    }

    fn place(&self, text: &str) -> Result<VaultUrl, Failure> {
        let (settings, precedence) = &self.settings;
        let url = place::read_place(text, &self.directory)?;
        let url = place::with_settings(url, settings, *precedence)?;
        place::with_settings(url, &self.fallback, Precedence::Url)
    }
}

#[cfg(test)]
mod tests {
    use seawall_vault::Scheme;

    use super::*;

    #[test]
    fn a_registered_database_gets_the_defaults() {
        let plain = Registering::plain(Path::new("/srv"), Duration::from_secs(9));
        let defaults = Registering {
            vault: Some("s3://bucket/all".into()),
            settings: (
                place::Settings::of(Scheme::S3, place::Keys::from([("region", "eu".to_owned())])),
                Precedence::Url,
            ),
            sync_interval: Some(Duration::from_secs(5)),
            ..plain.clone()
        };
        let database = defaults.database(Path::new("/data/app.db"), None, None).expect("a database");
        assert_eq!((database.name.as_str(), database.vault.to_string().as_str()), ("app", "s3://bucket/all/app"));
        assert_eq!(database.sqlite().and_then(|files| files.sync_interval), Some(Duration::from_secs(5)));
        assert_eq!(database.shutdown_timeout, Some(Duration::from_secs(9)));
        let own = defaults.database(Path::new("/data/app.db"), Some("./v"), Some("orders")).expect("a database");
        assert_eq!((own.name.as_str(), own.vault.to_string().as_str()), ("orders", "file:///srv/v"));
        let own = plain.database(Path::new("/data/./app.db"), Some("/v"), None).expect("a database");
        assert_eq!((own.name.as_str(), own.path()), ("/data/app.db", Some(Path::new("/data/app.db"))));
        for (path, vault, name) in [
            ("app.db", Some("/v"), None),
            ("/", Some("/v"), None),
            ("/a.db", None, None),
            ("/a.db", Some("/v"), Some("a/b")),
            ("/a.db", Some("gopher://x"), None),
        ] {
            assert!(plain.database(Path::new(path), vault, name).is_err(), "{path} {vault:?} {name:?}");
        }
    }
}
