//! Litestream's format, `litestream.yml`, taken as it is.
//!
//! A key that Litestream knows either works here, or asks for something that holds here anyway, or is an error that
//! says that this version doesn't do it. A key that Litestream doesn't know either is a warning, because Litestream
//! itself passes over it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_engines::sqlite::Upkeep;
use seawall_vault::Environment;

use super::directory::FolderKeys;
use super::document::{Node, Value};
use super::error::{Location, Problem};
use super::fields::{At, Fields, parse_bool};
use super::litestream_replica as replica;
use super::native::exec_command;
use super::{
    BesideConfig, Config, DatabaseConfig, DirectoryConfig, EngineConfig, Format, Registering, SHUTDOWN_TIMEOUT,
    SqliteConfig, StateRoot, Surroundings, Warning, absolute, services, upkeep,
};

/// Reads the tree of a `litestream.yml`.
pub(crate) fn read(tree: Node, file: &Path, surroundings: &Surroundings<'_>) -> Result<Config, Location> {
    let mut warnings = Vec::new();
    let mut top = Fields::new("the top level", tree)?;
    let exec = top.text("exec")?.map(|at| exec_command(&at)).transpose()?;
    let (log_level, log_format) = logging(&mut top, &mut warnings)?;
    let shutdown_timeout = top.duration("shutdown-timeout")?.map(|at| at.value).filter(|span| !span.is_zero());
    let shutdown_timeout = shutdown_timeout.unwrap_or(SHUTDOWN_TIMEOUT);
    let sync_timeout = top.positive_duration("shutdown-sync-timeout")?.map(|at| at.value);
    top.positive_duration("shutdown-sync-interval")?;
    let token = surroundings.environment.get("SEAWALL_MCP_TOKEN");
    let services = services::read_litestream(&mut top, surroundings.directory, token)?;
    let upkeep = Arc::new(upkeep::read_litestream(&mut top)?);
    let defaults = replica::Defaults::read(&mut top)?;
    let list = top.list("dbs")?.map_or(Vec::new(), |at| at.value);
    warn_unknown(top, &mut warnings);

    let (mut databases, mut directories) = (Vec::new(), Vec::new());
    let sync_timeout = sync_timeout.unwrap_or(shutdown_timeout);
    for node in list {
        let context = Context { surroundings: *surroundings, defaults: &defaults, upkeep: &upkeep };
        let item = read_item(node, &context, &mut warnings)?;
        let database = DatabaseConfig { shutdown_timeout: Some(sync_timeout), ..item.database };
        match item.folder {
            None => databases.push(database),
            Some((keys, state)) => directories.push(folder_of(keys, state, database, &mut warnings)?),
        }
    }
    Ok(Config {
        file: file.to_owned(),
        format: Format::Litestream,
        databases,
        directories,
        registering: Registering { upkeep, ..defaults.registering(surroundings, sync_timeout) },
        services,
        shutdown_timeout,
        sweep_interval: None,
        upload_limit: None,
        log_level,
        log_format,
        exec,
        warnings,
    })
}

struct Context<'a> {
    surroundings: Surroundings<'a>,
    defaults: &'a replica::Defaults,
    upkeep: &'a Arc<Upkeep>,
}

/// An item of `dbs`: a database, or a folder with what every database in it gets.
struct Item {
    folder: Option<(FolderKeys, Option<StateRoot>)>,
    database: DatabaseConfig,
}

fn read_item(node: Node, context: &Context<'_>, warnings: &mut Vec<Warning>) -> Result<Item, Location> {
    let mut fields = Fields::new("dbs", node)?;
    let line = fields.line;
    let mut own = Upkeep::clone(context.upkeep);
    upkeep::read_litestream_snapshot(&mut fields, &mut own)?;
    let no_path = fields.missing("path");
    let path = fields.text("path")?;
    let folder = FolderKeys::read(&mut fields, path.as_ref())?;
    let path = path.as_ref().or(folder.as_ref().map(|keys| &keys.dir)).ok_or(no_path)?;
    let path = database_path(&path.value, context);
    let folder_of = |at: At<String>| {
        let folder = expand_home(&at.value, context.surroundings.environment);
        At { line: at.line, value: absolute(&folder, context.surroundings.directory) }
    };
    let meta = fields.text("meta-path")?.map(folder_of);
    let meta_dir = fields.text("meta-dir")?.map(folder_of);
    let (state_dir, folder) = match (folder, meta, meta_dir) {
        (_, Some(_), Some(At { line, .. })) => {
            return Err(Problem::Contradiction("meta-path and meta-dir are both given".into()).at(line));
        }
        (None, _, Some(At { line, .. })) => {
            return Err(Problem::Contradiction("meta-dir belongs to a folder, which dir names".into()).at(line));
        }
        (None, meta, None) => (meta.map(|at| at.value.join("seawall")), None),
        (Some(keys), Some(meta), None) => (None, Some((keys, Some(StateRoot::MetaPath(meta.value))))),
        (Some(keys), None, dir) => (None, Some((keys, dir.map(|at| StateRoot::MetaDir(at.value))))),
    };
    fields.positive_duration("monitor-interval")?;
    if let Some(At { line, value }) = fields.duration("checkpoint-interval")?
        && !value.is_zero()
    {
        let text = "checkpoint-interval: checkpoints follow the size of the WAL alone, not the time".to_owned();
        warnings.push(Warning { line, text });
    }
    let busy_timeout = fields.duration("busy-timeout")?.map(|at| at.value);
    let checkpoint_pages = fields.count("min-checkpoint-page-count")?.map(|at| at.value);
    if let Some(At { line, .. }) =
        fields.parsed("truncate-page-n", "a whole number", |text| text.parse::<u32>().ok())?
    {
        let text = "truncate-page-n: a WAL that grew is cut without it, whenever nothing waits in it".to_owned();
        warnings.push(Warning { line, text });
    }
    fields.parsed("max-sync-wal-bytes", "a whole number", |text| text.parse::<u64>().ok())?;
    let restore_if_missing = fields.flag("restore-if-db-not-exists")?.is_some_and(|at| at.value);
    let missing = fields.missing("replica");
    let mut replicas = replicas(&mut fields)?.into_iter();
    warn_unknown(fields, warnings);
    let mut read = |node| replica::read(node, context.defaults, &context.surroundings, warnings);
    let first = replicas.next().ok_or(missing)?;
    let replica = read(first)?;
    let beside = replicas.map(|node| Ok(BesideConfig { url: read(node)?.vault, retention: None }));
    let beside = beside.collect::<Result<_, _>>()?;
    let files = SqliteConfig {
        state_dir,
        sync_interval: replica.sync_interval,
        busy_timeout,
        checkpoint_pages,
        upkeep: if own == **context.upkeep { context.upkeep.clone() } else { Arc::new(own) },
        ..SqliteConfig::new(absolute(&path, context.surroundings.directory))
    };
    let database = DatabaseConfig {
        beside,
        restore_if_missing,
        line,
        ..DatabaseConfig::of(path.display().to_string(), replica.vault, EngineConfig::Sqlite(files))
    };
    Ok(Item { folder, database })
}

/// A folder of databases from what an item says of all of them.
fn folder_of(
    keys: FolderKeys,
    state: Option<StateRoot>,
    template: DatabaseConfig,
    warnings: &mut Vec<Warning>,
) -> Result<DirectoryConfig, Location> {
    let line = template.line;
    let Some(pattern) = keys.pattern else {
        return Err(Problem::Missing { key: "pattern", section: "dbs".into() }.at(line));
    };
    if template.restore_if_missing {
        let text = "restore-if-db-not-exists: it has no effect for a folder, in Litestream neither".to_owned();
        warnings.push(Warning { line, text });
    }
    Ok(DirectoryConfig {
        dir: template.path().map(Path::to_owned).unwrap_or_default(),
        pattern,
        recursive: keys.recursive,
        watch: keys.watch.unwrap_or(false),
        prefix: None,
        state,
        template: DatabaseConfig { restore_if_missing: false, ..template },
    })
}

/// The replicas: one under `replica`, or one or several in `replicas`. Litestream itself takes one.
fn replicas(fields: &mut Fields) -> Result<Vec<Node>, Location> {
    let missing = fields.missing("replica");
    let one = fields.take("replica");
    let several = fields.list("replicas")?;
    match (one, several) {
        (Some(node), None) => Ok(vec![node]),
        (Some(_), Some(At { line, .. })) => {
            Err(Problem::Contradiction("replica and replicas are both given".into()).at(line))
        }
        (None, Some(At { value, .. })) if !value.is_empty() => Ok(value),
        (None, _) => Err(missing),
    }
}

fn logging(
    top: &mut Fields,
    warnings: &mut Vec<Warning>,
) -> Result<(Option<crate::Level>, Option<crate::LogFormat>), Location> {
    let Some(mut logging) = top.section("logging")? else { return Ok((None, None)) };
    let level = logging.parsed("level", "trace, debug, info, warn or error", |text| text.parse().ok())?;
    let format = match logging.text("type")? {
        Some(At { line, value }) => Some(value.parse().map_err(|found: String| {
            Problem::Value { key: "type".into(), expected: "takes text, json or pretty".into(), found }.at(line)
        })?),
        None => None,
    };
    if let Some(At { line, value: false }) = logging.flag("stderr")? {
        let text = "logging.stderr: the log goes to standard error, always".to_owned();
        warnings.push(Warning { line, text });
    }
    refuse_unless_false(&mut logging, "source", "the log doesn't name source lines")?;
    warn_unknown(logging, warnings);
    Ok((level.map(|at| at.value), format))
}

/// Refuses a key that has any value at all.
pub(crate) fn refuse(fields: &mut Fields, key: &'static str, reason: &str) -> Result<(), Location> {
    match fields.take(key) {
        Some(Node { value: Value::Text(text), .. }) if text.is_empty() => Ok(()),
        Some(node) => Err(unsupported(key, reason).at(node.line)),
        None => Ok(()),
    }
}

/// Refuses a key that is `true`.
pub(crate) fn refuse_unless_false(fields: &mut Fields, key: &'static str, reason: &str) -> Result<(), Location> {
    match fields.parsed(key, "true or false", parse_bool)? {
        Some(At { line, value: true }) => Err(unsupported(key, reason).at(line)),
        _ => Ok(()),
    }
}

pub(crate) fn unsupported(key: &str, reason: &str) -> Problem {
    Problem::Unsupported { key: key.into(), reason: reason.into() }
}

/// Litestream passes over what it doesn't know; here that is at least said.
pub(crate) fn warn_unknown(fields: Fields, warnings: &mut Vec<Warning>) {
    for Location { line, problem } in fields.unknown() {
        let hint = match &problem {
            Problem::UnknownKey { nearest: Some(nearest), .. } => format!("; did you mean \"{nearest}\"?"),
            _ => String::new(),
        };
        warnings.push(Warning { line, text: format!("{problem}: it has no effect, in Litestream neither{hint}") });
    }
}

fn database_path(text: &str, context: &Context<'_>) -> PathBuf {
    let plain = text.strip_prefix("sqlite3://").or_else(|| text.strip_prefix("sqlite://")).unwrap_or(text);
    absolute(&expand_home(plain, context.surroundings.environment), context.surroundings.directory)
}

/// `~` at the beginning is the user's home folder.
pub(crate) fn expand_home(text: &str, environment: &Environment) -> PathBuf {
    match (text.strip_prefix('~'), environment.get("HOME")) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => PathBuf::from(format!("{home}{rest}")),
        _ => PathBuf::from(text),
    }
}

#[cfg(test)]
#[path = "litestream_tests.rs"]
mod tests;
