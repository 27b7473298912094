//! The `lmdb` section of a database in a `seawall.yml`: an LMDB environment, and how it is kept in step.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Clock as _, Engine, Failure, Status, SystemClock};
use seawall_lmdb::snapshot::{Codec, SnapshotName};
use seawall_lmdb::{
    Author, Cleaner, EnvOptions, Flags, Lmdb, LmdbOptions, Marker, Pace, Retention, Schema, Settings, Sweep,
    SyncOptions, author, data_file, system_clock,
};
pub use seawall_lmdb::{Orphans, Why};

use seawall_config::document::{Node, Value};
use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};
use seawall_sqlite::Upkeep;
use seawall_vault::{ObjectKey, Vault};

use crate::alarms::Place;
use crate::database::{DatabaseConfig, Said};
use crate::open::Opener;
use crate::sqlite::SqliteConfig;

/// How an environment is kept in step. `None` is the engine's own default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LmdbConfig {
    /// The folder, or the file of one without; absolute.
    pub path: PathBuf,
    /// Who we are in names; `None` is the host's name.
    pub instance: Option<String>,
    /// How it is opened.
    pub options: EnvOptions,
    /// The format of its DBIs.
    pub schema: Schema,
    /// How long the write lock is held.
    pub pace: Pace,
    /// Merge only.
    pub receive_only: bool,
    /// Send only.
    pub send_only: bool,
    /// How often the environment is looked at.
    pub poll: Option<Duration>,
    /// How often the vault is listed.
    pub list: Option<Duration>,
    /// How long to wait after something failed.
    pub retry: Option<Duration>,
    /// A snapshot is sent after this time even if nothing changed; zero is never.
    pub force: Option<Duration>,
    /// Forgetting old deletions.
    pub sweep: Option<Sweep>,
    /// Deletion of snapshots that are no longer needed.
    pub clean: Option<Retention>,
    /// Whether the update marker is written and read.
    pub marker: bool,
    /// How snapshots are compressed.
    pub codec: Codec,
}

impl LmdbConfig {
    /// Where the host's own keys for its vault are.
    pub(crate) fn keys(&self) -> PathBuf {
        let mut path = self.data_file().into_os_string();
        path.push("-seawall-keys");
        path.into()
    }

    /// Where the facts of its alarms are: beside the data file, as its record is.
    pub(crate) fn place_here(&self) -> Place {
        Place::beside_data(&self.data_file())
    }

    /// The file that holds the data.
    pub fn data_file(&self) -> PathBuf {
        data_file(&self.path, self.options.no_subdir)
    }
}

/// A deletion whose key isn't known is accepted until only one hundredth (1/`TAKEN`) of its retention is left, so that
/// a swept key doesn't come back.
const TAKEN: u32 = 100;

/// Reads the section.
pub(crate) fn read(mut fields: Fields, path: PathBuf) -> Result<LmdbConfig, Location> {
    let default = EnvOptions::default();
    let native = fields.flag("schema-tracks-changes")?.is_some_and(|at| at.value);
    let dupsort_hack = fields.flag("dupsort-hack")?;
    if let Some(At { line, value: true }) = dupsort_hack
        && native
    {
        let cause = "dupsort-hack needs shadows, and schema-tracks-changes does without them".to_owned();
        return Err(Problem::Contradiction(cause).at(line));
    }
    let mask = |text: &str| u32::from_str_radix(text.trim_start_matches("0o"), 8).ok().filter(|mask| *mask <= 0o777);
    let expected = "permissions in octal, such as 0775";
    let receive_only = fields.flag("receive-only")?.is_some_and(|at| at.value);
    let send_only = fields.flag("send-only")?;
    if let Some(At { line, value: true }) = send_only
        && receive_only
    {
        let cause = "send-only and receive-only: together they leave nothing to do".to_owned();
        return Err(Problem::Contradiction(cause).at(line));
    }
    let config = LmdbConfig {
        path,
        instance: fields.text("instance")?.map(|at| at.value).filter(|name| !name.is_empty()),
        options: EnvOptions {
            no_subdir: fields.flag("no-subdir")?.is_some_and(|at| at.value),
            create: fields.flag("create")?.is_some_and(|at| at.value),
            dir_mask: fields.parsed("dir-mask", expected, mask)?.map_or(default.dir_mask, |at| at.value),
            file_mask: fields.parsed("file-mask", expected, mask)?.map(|at| at.value),
            map_size: fields.size("map-size")?.map(|at| at.value),
            max_dbs: fields.count("max-dbs")?.map_or(default.max_dbs, |at| at.value),
            largest_map: fields.size("max-map-size")?.map(|at| at.value),
        },
        schema: Schema {
            native,
            dupsort_hack: dupsort_hack.is_some_and(|at| at.value),
            padding: false,
            create_flags: fields.take("create-flags").map(create_flags).transpose()?.unwrap_or_default(),
        },
        pace: Pace { whole: fields.flag("one-transaction")?.is_some_and(|at| at.value), ..Pace::default() },
        receive_only,
        send_only: send_only.is_some_and(|at| at.value),
        poll: fields.positive_duration("poll-interval")?.map(|at| at.value),
        list: fields.positive_duration("list-interval")?.map(|at| at.value),
        retry: fields.positive_duration("retry-interval")?.map(|at| at.value),
        force: fields
            .parsed("snapshot-interval", "a time with its unit, such as 4h, or 0 for never", |text| match text {
                "0" => Some(Duration::ZERO),
                text => seawall_core::parse_duration(text),
            })?
            .map(|at| at.value),
        sweep: fields.positive_duration("keep-deletions")?.map(|at| sweep(at.value)),
        clean: fields.section("cleanup")?.map(cleanup).transpose()?,
        marker: fields.flag("update-marker")?.is_some_and(|at| at.value),
        codec: fields.parsed("compression", "gzip or zstd", Codec::from_text)?.map(|at| at.value).unwrap_or_default(),
    };
    fields.finish()?;
    Ok(config)
}

/// Refuses settings that an environment can't have.
pub(crate) fn check(name: &str, files: &SqliteConfig, common: &Arc<Upkeep>, said: Said) -> Result<(), Problem> {
    if !SnapshotName::is_word(name) {
        let expected =
            "is a name without dots or two underscores in a row, because snapshots are named by it".to_owned();
        return Err(Problem::Value { key: "name".into(), expected, found: format!("\"{name}\"") });
    }
    let others = [("lease", said.lease), ("settings of levels, snapshots and retention", files.upkeep != *common)];
    let keys = [("dir", said.dir)].into_iter().chain(files.keys()).chain(others);
    match keys.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => {
            let cause = format!("{key}: of no use for an LMDB environment; its settings are in its lmdb section");
            Err(Problem::Contradiction(cause))
        }
        None => Ok(()),
    }
}

fn sweep(retention: Duration) -> Sweep {
    let interval = Duration::from_secs(6 * 3600).min(retention);
    let first = Duration::from_secs(600).min(retention);
    Sweep { retention, interval, first, taken: retention - retention / TAKEN }
}

fn cleanup(mut fields: Fields) -> Result<Retention, Location> {
    let rules = Retention {
        interval: fields.positive_duration("interval")?.map_or(Duration::from_secs(300), |at| at.value),
        keep: fields.duration("must-keep")?.map_or(Duration::from_secs(600), |at| at.value),
        gone: fields.positive_duration("gone-after")?.map_or(Duration::from_secs(168 * 3600), |at| at.value),
    };
    fields.finish()?;
    Ok(rules)
}

fn create_flags(node: Node) -> Result<BTreeMap<String, Flags>, Location> {
    let Value::Map(entries) = node.value else {
        let expected = "takes a mapping of DBIs to LMDB's flags".to_owned();
        let found = node.value.shape().into();
        return Err(Problem::Value { key: "create-flags".into(), expected, found }.at(node.line));
    };
    let flags = |value: &Value| if let Value::Text(text) = value { Flags::from_text(text) } else { None };
    let one = |entry: seawall_config::document::Entry| {
        let expected = "takes names of LMDB's flags".to_owned();
        let found = entry.node.value.shape().to_string();
        let wrong = Problem::Value { key: entry.key.clone(), expected, found };
        Ok((entry.key, flags(&entry.node.value).ok_or_else(|| wrong.at(entry.line))?))
    };
    entries.into_iter().map(one).collect()
}

/// The vault of environments is listed after this time, also if the update marker says that nothing changed.
const MARKER_FORCE: Duration = Duration::from_secs(300);

/// Opens an environment.
pub(crate) fn open(opener: &Opener, vault: Vault, database: &DatabaseConfig, config: &LmdbConfig) -> Arc<dyn Engine> {
    let instance = config.instance.as_deref().unwrap_or(&opener.hostname);
    let usual = SyncOptions::new(author(instance, &opener.hostname, &database.name));
    let prefix = database.vault.root();
    let marker = Marker { prefix, force: MARKER_FORCE };
    let sync = SyncOptions {
        receive_only: config.receive_only,
        send_only: config.send_only,
        poll: config.poll.unwrap_or(usual.poll),
        list: config.list.unwrap_or(usual.list),
        retry: config.retry.unwrap_or(usual.retry),
        force: config.force.map_or(usual.force, |force| Some(force).filter(|force| !force.is_zero())),
        sweep: config.sweep,
        // An instance that only receives doesn't change the vault.
        clean: config.clean.filter(|_| !config.receive_only),
        marker: config.marker.then_some(marker),
        codec: config.codec,
        watcher: opener.watcher.clone(),
        ..usual
    };
    let settings = Settings { pace: config.pace, jobs: opener.jobs, ..Settings::new(config.schema.clone()) };
    let options = LmdbOptions { path: config.path.clone(), env: config.options.clone(), settings, sync };
    Arc::new(Lmdb::new(vault, options, system_clock()))
}

impl Opener {
    /// Objects in the vault of an environment that no instance reads, or that its `cleanup` should have deleted.
    ///
    /// # Errors
    /// When the vault can't be listed, or can't be asked which objects it locks.
    pub async fn orphans_of_environment(
        &self,
        vault: &Vault,
        database: &DatabaseConfig,
        config: &LmdbConfig,
    ) -> Result<Vec<Orphans>, Failure> {
        let hostname = &self.hostname;
        let Author { instance, .. } = author(config.instance.as_deref().unwrap_or(hostname), hostname, &database.name);
        let rules = config.clean.filter(|_| !config.receive_only);
        let cleaner = rules.map(|rules| Cleaner { rules, instance: &instance, receives: !config.send_only });
        Ok(seawall_lmdb::orphans(vault, &database.name, cleaner, SystemClock.now()).await?)
    }
}

/// Opens the snapshots of one database alone.
pub(crate) fn of_vault(vault: Vault, name: String) -> Arc<dyn Engine> {
    Arc::new(Lmdb::of_vault(vault, name, system_clock()))
}

/// Opens the snapshots of a vault that holds those of one database.
pub(crate) async fn alone_in(vault: Vault) -> Result<Arc<dyn Engine>, Failure> {
    let name = Lmdb::alone_in(&vault).await?.unwrap_or_default();
    Ok(of_vault(vault, name))
}

/// The status from the record on this machine. Blocks.
pub(crate) fn recorded(config: &LmdbConfig) -> Result<Status, Failure> {
    seawall_lmdb::read_status(&config.data_file(), SystemClock.now())
}

/// Whether an object of this name is a snapshot.
pub(crate) fn is_name(key: &ObjectKey) -> bool {
    is_position(key.as_str())
}

/// Whether a text names a point: the name of a snapshot.
pub(crate) fn is_position(text: &str) -> bool {
    SnapshotName::parse(text).is_some()
}
