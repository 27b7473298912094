//! Lightning Stream's format, `lightningstream.yaml`, as strict as there: an unknown key is an error.
//!
//! A key either works here, or is checked because what it asks for holds anyway, or is an error that says that this
//! version doesn't do it (docs/configuration.md). Environment variables are expanded before the text is read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_engines::alarms::Place;
use seawall_lmdb::snapshot::{Codec, SnapshotName};
use seawall_lmdb::{EnvOptions, Flags, Marker, Pace, Retention, Schema, Sweep, data_file};
use seawall_vault::VaultUrl;

use super::document::{self, Node, Value};
use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::lightningstream_storage::{Storage, storage};
use super::services::{Unnamed, address};
use super::{ConfigError, Surroundings, absolute, expand};
use crate::in_step::{HealthRules, Patience};
use crate::process::logging::{Level, LogFormat};

/// The days that deletions are kept for, where the sweeper is on and nothing else is said.
const RETENTION_DAYS: f64 = 370.0;

/// A `lightningstream.yaml`, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LightningConfig {
    /// The environments, in the order of the file.
    pub databases: Vec<LmdbConfig>,
    /// Where the snapshots are.
    pub vault: VaultUrl,
    /// The instance; `None` is the host's name.
    pub instance: Option<String>,
    /// End after one round.
    pub only_once: bool,
    /// How often an environment is looked at.
    pub poll: Duration,
    /// How often the vault is listed.
    pub list: Duration,
    /// How long to wait after a failure.
    pub retry: Duration,
    /// Send a snapshot after this time even if nothing changed.
    pub force: Option<Duration>,
    /// Forgetting old deletions, if that is on.
    pub sweep: Option<Sweep>,
    /// How snapshots that are no longer needed are deleted, if they are.
    pub clean: Option<Retention>,
    /// The update marker, if it is used.
    pub marker: Option<Marker>,
    /// How snapshots are compressed.
    pub codec: Codec,
    /// Where the status page, the health check and the metrics are served.
    pub http: Option<SocketAddr>,
    /// How health is judged.
    pub health: HealthRules,
    /// The level of the log; `None` leaves it to the command.
    pub log_level: Option<Level>,
    /// The shape of the log; `None` leaves it to the command.
    pub log_format: Option<LogFormat>,
}

/// One environment to keep in step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LmdbConfig {
    /// Its name in snapshots.
    pub name: String,
    /// Its folder, or with `no_subdir` its file.
    pub path: PathBuf,
    /// How it is opened.
    pub options: EnvOptions,
    /// What its DBIs look like.
    pub schema: Schema,
    /// How long the write lock is held.
    pub pace: Pace,
}

impl LmdbConfig {
    /// The file beside the data file that notes in which folder the vault is, as that of a database of a `seawall.yml` does.
    pub fn vault_notes(&self) -> Option<PathBuf> {
        Place::beside_data(&data_file(&self.path, self.options.no_subdir)).vault_notes()
    }
}

impl LightningConfig {
    /// Reads a configuration from its text.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(file: &Path, text: &str, surroundings: &Surroundings<'_>) -> Result<Self, ConfigError> {
        let expanded = expand::expand_text(text, surroundings.environment, surroundings.pid);
        let tree = document::parse(&expanded);
        tree.and_then(|tree| read(tree, surroundings)).map_err(|location| ConfigError::new(file, location))
    }
}

fn read(tree: Node, surroundings: &Surroundings<'_>) -> Result<LightningConfig, Location> {
    let mut top = Fields::new("the top level", tree)?;
    let instance = top.text("instance")?.map(|at| at.value).filter(|name| !name.is_empty());
    let poll = interval(&mut top, "lmdb_poll_interval", Duration::from_secs(1))?;
    let list = interval(&mut top, "storage_poll_interval", Duration::from_secs(1))?;
    let retry = interval(&mut top, "storage_retry_interval", Duration::from_secs(5))?;
    let force = span(&mut top, "storage_force_snapshot_interval")?.unwrap_or(Duration::from_secs(4 * 3600));
    // Ours alone.
    let codec = top.parsed("snapshot_compression", "gzip or zstd", Codec::from_text)?.map(|at| at.value);
    let only_once = top.flag("only_once")?.is_some_and(|at| at.value);
    // What these ask for holds anyway: memory is bounded, a vault that is away is asked again for ever.
    for key in ["storage_retry_count", "memory_downloaded_snapshots", "memory_decompressed_snapshots"] {
        top.count(key)?;
    }
    top.flag("storage_retry_forever")?;
    let sweep = sweeper(top.section("sweeper")?)?;
    let (log_level, log_format) = logging(top.section("log")?)?;
    let missing = top.missing("storage");
    let Storage { vault, clean, marker } = storage(top.section("storage")?.ok_or(missing)?, surroundings)?;
    let (http, health) = (page(&mut top)?, health(top.section("health")?)?);
    // What these would log is in the metrics.
    span(&mut top, "lmdb_log_stats_interval")?;
    top.flag("lmdb_scrape_smaps")?;
    let missing = top.missing("lmdbs");
    let lmdbs = top.take("lmdbs").ok_or(missing)?;
    top.finish()?;
    let force = Some(force).filter(|force| !force.is_zero());
    let databases = databases(lmdbs, surroundings)?;
    Ok(LightningConfig {
        databases,
        vault,
        instance,
        only_once,
        poll,
        list,
        retry,
        force,
        sweep,
        clean,
        marker,
        codec: codec.unwrap_or_default(),
        http,
        health,
        log_level,
        log_format,
    })
}

/// A span of time as Go writes it; `0` needs no unit.
pub(super) fn span(fields: &mut Fields, key: &'static str) -> Result<Option<Duration>, Location> {
    let parse = |text: &str| if text == "0" { Some(Duration::ZERO) } else { seawall_core::parse_duration(text) };
    Ok(fields.parsed(key, "a time with its unit, such as 1s or 5m", parse)?.map(|at| at.value))
}

/// A span between two looks.
pub(super) fn interval(fields: &mut Fields, key: &'static str, default: Duration) -> Result<Duration, Location> {
    let least = |text: &str| seawall_core::parse_duration(text).filter(|span| *span >= Duration::from_millis(100));
    Ok(fields.parsed(key, "a time of at least 100ms", least)?.map_or(default, |at| at.value))
}

/// Where the status page is served.
fn page(top: &mut Fields) -> Result<Option<SocketAddr>, Location> {
    let Some(mut http) = top.section("http")? else { return Ok(None) };
    let at = address(&mut http, "address", Unnamed::Everyone)?;
    http.finish()?;
    Ok(at.map(|at| at.value))
}

fn health(fields: Option<Fields>) -> Result<HealthRules, Location> {
    let mut rules = HealthRules::default();
    let Some(mut fields) = fields else { return Ok(rules) };
    for (key, slot) in [
        ("storage_list", &mut rules.list),
        ("storage_load", &mut rules.load),
        ("storage_store", &mut rules.store),
        ("start", &mut rules.start),
    ] {
        let Some(mut section) = fields.section(key)? else { continue };
        // Judged whenever someone asks.
        span(&mut section, "interval")?;
        let usual = Patience::default();
        *slot = Patience {
            warn: span(&mut section, "warn_duration")?.unwrap_or(usual.warn),
            error: span(&mut section, "error_duration")?.unwrap_or(usual.error),
        };
        if key == "start" {
            rules.report_start = section.flag("report_healthz")?.is_some_and(|at| at.value);
            rules.start_in_metadata = section.flag("report_metadata")?.is_none_or(|at| at.value);
        }
        section.finish()?;
    }
    fields.finish()?;
    Ok(rules)
}

fn sweeper(fields: Option<Fields>) -> Result<Option<Sweep>, Location> {
    let Some(mut fields) = fields else { return Ok(None) };
    let enabled = fields.flag("enabled")?.is_some_and(|at| at.value);
    let days = fields.parsed("retention_days", "a number of days above zero", |text| {
        text.parse::<f64>().ok().filter(|days| days.is_finite() && *days > 0.0 && *days < 1e5)
    })?;
    let retention = Duration::from_secs_f64(days.map_or(RETENTION_DAYS, |at| at.value) * 86_400.0);
    let interval = span(&mut fields, "interval")?.unwrap_or(Duration::from_secs(6 * 3600));
    let first = span(&mut fields, "first_interval")?.unwrap_or(Duration::from_secs(600));
    let cutoff = span(&mut fields, "retention_load_cutoff_duration")?.filter(|span| !span.is_zero());
    // The lock is held for 50 ms at a time anyway.
    span(&mut fields, "lock_duration")?;
    span(&mut fields, "release_duration")?;
    fields.finish()?;
    let cutoff = cutoff.unwrap_or(retention / 100).min(retention / 4 * 3);
    Ok(enabled.then_some(Sweep { retention, interval, first, taken: retention - cutoff }))
}

fn logging(fields: Option<Fields>) -> Result<(Option<Level>, Option<LogFormat>), Location> {
    let Some(mut fields) = fields else { return Ok((None, None)) };
    let level = fields.parsed("level", "debug, info, warning or error", |text| match text {
        "warning" => Some(Level::Warn),
        "fatal" => Some(Level::Error),
        text => text.parse().ok(),
    })?;
    let format = fields.parsed("format", "human, logfmt or json", |text| match text {
        "human" | "logfmt" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    })?;
    fields.parsed("timestamp", "short, disable or full", |text| {
        matches!(text, "short" | "disable" | "full").then_some(())
    })?;
    fields.finish()?;
    Ok((level.map(|at| at.value), format.map(|at| at.value)))
}

fn databases(node: Node, surroundings: &Surroundings<'_>) -> Result<Vec<LmdbConfig>, Location> {
    let Node { line, value: Value::Map(entries) } = node else {
        let expected = "a mapping of names to environments".to_owned();
        return Err(Problem::Value { key: "lmdbs".into(), expected, found: node.value.shape().into() }.at(node.line));
    };
    if entries.is_empty() {
        return Err(Problem::Missing { key: "path", section: "lmdbs".into() }.at(line));
    }
    let mut paths = BTreeMap::new();
    let mut databases = Vec::with_capacity(entries.len());
    for entry in entries {
        if !SnapshotName::is_word(&entry.key) {
            let expected = "is a name without dots, slashes or two underscores in a row".to_owned();
            return Err(
                Problem::Value { key: "lmdbs".into(), expected, found: format!("\"{}\"", entry.key) }.at(entry.line)
            );
        }
        let database = database(entry.key, entry.node, surroundings)?;
        if let Some(first) = paths.insert(database.path.clone(), entry.line) {
            let what = format!("the environment {}", database.path.display());
            return Err(Problem::Duplicate { what, first }.at(entry.line));
        }
        databases.push(database);
    }
    Ok(databases)
}

fn database(name: String, node: Node, surroundings: &Surroundings<'_>) -> Result<LmdbConfig, Location> {
    let mut fields = Fields::new(format!("lmdbs.{name}"), node)?;
    let missing = fields.missing("path");
    let path = fields.text("path")?.ok_or(missing)?.value;
    let native = fields.flag("schema_tracks_changes")?.is_some_and(|at| at.value);
    let dupsort_hack = fields.flag("dupsort_hack")?;
    let padding = fields.flag("header_extra_padding_block")?.is_some_and(|at| at.value);
    if let Some(At { line, value: true }) = dupsort_hack
        && native
    {
        let cause = "dupsort_hack needs shadows, and schema_tracks_changes does without them".to_owned();
        return Err(Problem::Contradiction(cause).at(line));
    }
    // Ours alone.
    let whole = fields.flag("one_transaction")?.is_some_and(|at| at.value);
    let options = match fields.section("options")? {
        Some(options) => env_options(options)?,
        None => EnvOptions::default(),
    };
    let create_flags = fields.take("dbi_options").map(create_flags).transpose()?.unwrap_or_default();
    fields.finish()?;
    let dupsort_hack = dupsort_hack.is_some_and(|at| at.value);
    let schema = Schema { native, dupsort_hack, padding, create_flags };
    let pace = Pace { whole, ..Pace::default() };
    Ok(LmdbConfig { name, path: absolute(Path::new(&path), surroundings.directory), options, schema, pace })
}

fn env_options(mut fields: Fields) -> Result<EnvOptions, Location> {
    let default = EnvOptions::default();
    let mask = |text: &str| u32::from_str_radix(text.trim_start_matches("0o"), 8).ok().filter(|mask| *mask <= 0o777);
    let expected = "permissions in octal, such as 0775";
    let options = EnvOptions {
        no_subdir: fields.flag("no_subdir")?.is_some_and(|at| at.value),
        create: fields.flag("create")?.is_some_and(|at| at.value),
        dir_mask: fields.parsed("dir_mask", expected, mask)?.map_or(default.dir_mask, |at| at.value),
        file_mask: fields.parsed("file_mask", expected, mask)?.map(|at| at.value),
        map_size: fields.parsed("map_size", "a size such as 1GB", size)?.map(|at| at.value),
        max_dbs: fields.count("max_dbs")?.map_or(default.max_dbs, |at| at.value),
        // Ours alone.
        largest_map: fields.parsed("max_map_size", "a size such as 8GB", size)?.map(|at| at.value),
    };
    fields.finish()?;
    Ok(options)
}

/// A size as Lightning Stream means it: every unit counts in 1024.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|size| *size > 0)
}

fn create_flags(node: Node) -> Result<BTreeMap<String, Flags>, Location> {
    let Value::Map(entries) = node.value else {
        let expected = "a mapping of DBIs to their options".to_owned();
        let found = node.value.shape().into();
        return Err(Problem::Value { key: "dbi_options".into(), expected, found }.at(node.line));
    };
    let mut all = BTreeMap::new();
    for entry in entries {
        let mut fields = Fields::new(format!("dbi_options.{}", entry.key), entry.node)?;
        let flags = fields.parsed("override_create_flags", "names of LMDB's flags", Flags::from_text)?;
        fields.finish()?;
        all.extend(flags.map(|at| (entry.key, at.value)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use seawall_vault::Environment;

    use super::*;

    const LEAST: &str = "storage:\n  type: fs\n  options:\n    root_path: ${STORE}\nlmdbs:\n  main:\n    path: data\n";

    fn parse(text: &str) -> Result<LightningConfig, ConfigError> {
        let environment: Environment = [("STORE".to_owned(), "/store".to_owned())].into_iter().collect();
        let surroundings = Surroundings { environment: &environment, directory: Path::new("/srv"), pid: 7 };
        LightningConfig::parse(Path::new("lightningstream.yaml"), text, &surroundings)
    }

    #[test]
    fn the_least_and_its_defaults() {
        let config = parse(LEAST).expect("a configuration");
        assert_eq!(config.vault, VaultUrl::File("/store".into()));
        let [main] = &config.databases[..] else { panic!("{config:?}") };
        assert_eq!((main.name.as_str(), main.path.as_path()), ("main", Path::new("/srv/data")));
        assert_eq!((main.options.clone(), main.schema.native), (EnvOptions::default(), false));
        assert_eq!((config.poll, config.force), (Duration::from_secs(1), Some(Duration::from_secs(14_400))));
        assert!(config.sweep.is_none() && !config.only_once);
    }

    #[test]
    fn everything_that_is_set_is_kept() {
        let text = "instance: ns1\nsnapshot_compression: zstd\nlmdb_poll_interval: 100ms\nstorage_poll_interval: 2s\nstorage_force_snapshot_interval: 0\n\
            sweeper:\n  enabled: true\n  retention_days: 10\nlog:\n  level: warning\n  format: json\n\
            storage:\n  type: s3\n  options:\n    access_key: a\n    secret_key: s\n    bucket: b\n    global_prefix: x/\n    \
            endpoint_url: http://127.0.0.1:9000\n    use_update_marker: true\n  \
            cleanup:\n    enabled: true\n    must_keep_interval: 1h\nhttp:\n  address: ':8500'\nhealth:\n  \
            storage_list:\n    warn_duration: 10s\n  start:\n    report_healthz: true\nlmdbs:\n  shard:\n    path: /d/x.mdb\n    dupsort_hack: true\n    one_transaction: true\n    options:\n      \
            no_subdir: true\n      create: true\n      map_size: 8GB\n      max_map_size: 16GB\n      max_dbs: 9\n      file_mask: 0600\n    \
            dbi_options:\n      d:\n        override_create_flags: MDB_DUPSORT|MDB_INTEGERKEY\n";
        let config = parse(text).expect("a configuration");
        assert_eq!(
            (config.instance.as_deref(), config.poll, config.force),
            (Some("ns1"), Duration::from_millis(100), None)
        );
        assert_eq!(config.codec, Codec::Zstd);
        let sweep = config.sweep.expect("a sweeper");
        assert_eq!(sweep.retention, Duration::from_secs(864_000));
        assert_eq!(sweep.taken, Duration::from_secs(855_360));
        let VaultUrl::S3(s3) = &config.vault else { panic!("{:?}", config.vault) };
        assert_eq!((s3.bucket.as_str(), s3.prefix.as_deref(), s3.force_path_style), ("b", Some("x/"), Some(true)));
        assert_eq!(s3.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        let marker = config.marker.expect("a marker");
        assert_eq!((marker.prefix.as_str(), marker.force), ("x/", Duration::from_secs(300)));
        let clean = config.clean.expect("a cleaner");
        assert_eq!((clean.interval, clean.keep), (Duration::from_secs(300), Duration::from_secs(3600)));
        assert_eq!(config.http.map(|address| address.port()), Some(8500));
        let ten = Patience { warn: Duration::from_secs(10), ..Patience::default() };
        assert_eq!(config.health, HealthRules { list: ten, report_start: true, ..HealthRules::default() });
        let database = &config.databases[0];
        assert_eq!((database.options.map_size, database.options.max_dbs), (Some(8 << 30), 9));
        assert_eq!((database.options.largest_map, database.pace.whole), (Some(16 << 30), true));
        assert_eq!((database.options.file_mask, database.options.no_subdir), (Some(0o600), true));
        assert_eq!(database.schema.create_flags["d"], Flags::from_text("12").expect("flags"));
    }

    #[test]
    fn what_is_refused() {
        for (text, code, line) in [
            (format!("{LEAST}    pth: x\n"), "config.unknown-key", 8),
            (format!("{LEAST}  a.b:\n    path: y\n"), "config.value", 8),
            (format!("{LEAST}  other:\n    path: ./data\n"), "config.duplicate", 8),
            (format!("{LEAST}    schema_tracks_changes: true\n    dupsort_hack: true\n"), "config.contradiction", 9),
            (format!("{LEAST}http:\n  address: ':x'\n"), "config.value", 9),
            (format!("{LEAST}health:\n  start:\n    wait: 1s\n"), "config.unknown-key", 10),
            (format!("{LEAST}lmdb_poll_interval: 1ms\n"), "config.value", 8),
            ("lmdbs:\n  main:\n    path: data\n".to_owned(), "config.missing-key", 1),
        ] {
            let error = parse(&text).expect_err(&text);
            let failure = seawall_core::Failure::from(error.clone());
            assert_eq!((failure.code, error.line), (code, line), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_count_in_1024() {
        for (text, bytes) in
            [("1GB", Some(1 << 30)), ("64MB", Some(64 << 20)), ("10KiB", Some(10 << 10)), ("5", Some(5))]
        {
            assert_eq!(size(text), bytes, "{text}");
        }
        assert_eq!((size("0"), size("1XB"), size("GB")), (None, None, None));
    }
}
