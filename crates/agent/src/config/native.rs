//! Our own format, `seawall.yml`. Strict: whatever isn't known is an error.

use std::path::Path;

use super::document::Node;
use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::place::Place;
use super::{Config, DatabaseConfig, Format, SHUTDOWN_TIMEOUT, absolute, is_name};
use crate::child::ExecCommand;
use crate::config::s3;

/// Reads the tree of a `seawall.yml`; relative paths begin at `here`.
pub(crate) fn read(tree: Node, file: &Path, here: &Path) -> Result<Config, Location> {
    let mut top = Fields::new("the top level", tree)?;
    let vault = top.text("vault")?.map(|At { line, value }| Place::from_text(&value, here, line));
    let s3 = top.section("s3")?.map(|section| s3::read_native(section, here)).transpose()?.unwrap_or_default();
    let shutdown_timeout = top.positive_duration("shutdown-timeout")?.map_or(SHUTDOWN_TIMEOUT, |at| at.value);
    let exec = top.text("exec")?.map(|at| exec_command(&at)).transpose()?;
    let (mut log_level, mut log_format) = (None, None);
    if let Some(mut logging) = top.section("logging")? {
        log_level = logging.parsed("level", "trace, debug, info, warn or error", |text| text.parse().ok())?;
        log_format = logging.parsed("type", "text or json", |text| text.parse().ok())?;
        logging.finish()?;
    }
    let list = top.list("databases")?;
    let missing = top.missing("databases");
    top.finish()?;

    let mut databases = Vec::new();
    for node in list.ok_or(missing)?.value {
        let mut database = read_database(node, here, vault.as_ref())?;
        if database.place.is_s3() {
            for (key, value) in &s3 {
                database.place.settings.entry(key).or_insert_with(|| value.clone());
            }
        }
        databases.push(database);
    }
    Ok(Config {
        file: file.to_owned(),
        format: Format::Seawall,
        databases,
        shutdown_timeout,
        log_level: log_level.map(|at| at.value),
        log_format: log_format.map(|at| at.value),
        exec,
        warnings: Vec::new(),
    })
}

fn read_database(node: Node, here: &Path, default: Option<&Place>) -> Result<DatabaseConfig, Location> {
    let mut fields = Fields::new("databases", node)?;
    let line = fields.line;
    let path = fields.text("path")?;
    let name = fields.parsed("name", "letters, digits, \".\", \"_\" and \"-\", not beginning with \".\"", |text| {
        is_name(text).then(|| text.to_owned())
    })?;
    let vault = fields.text("vault")?;
    let s3 = fields.take("s3");
    let (no_path, no_vault) = (fields.missing("path"), fields.missing("vault"));
    let mut database = DatabaseConfig {
        name: String::new(),
        path: absolute(Path::new(&path.as_ref().ok_or(no_path)?.value), here),
        place: Place::from_text("", here, line),
        state_dir: fields.text("state-dir")?.map(|at| absolute(Path::new(&at.value), here)),
        sync_interval: fields.positive_duration("sync-interval")?.map(|at| at.value),
        busy_timeout: fields.duration("busy-timeout")?.map(|at| at.value),
        checkpoint_pages: fields.count("checkpoint-pages")?.map(|at| at.value),
        wal_limit: fields.size("wal-limit")?.map(|at| at.value),
        sweep_interval: fields.positive_duration("sweep-interval")?.map(|at| at.value),
        shutdown_timeout: None,
        restore_if_missing: fields.flag("restore-if-missing")?.is_some_and(|at| at.value),
        line,
    };
    fields.finish()?;

    database.name = match name {
        Some(At { value, .. }) => value,
        None => name_of(&database.path).ok_or_else(|| {
            let found = format!("none could be made from {}", database.path.display());
            Problem::Value { key: "name".into(), expected: "a database needs a name".into(), found }.at(line)
        })?,
    };
    database.place = match (vault, default) {
        (Some(At { line, value }), _) => Place::from_text(&value, here, line),
        (None, Some(default)) => default.below(&database.name),
        (None, None) => return Err(no_vault),
    };
    if let Some(section) = s3 {
        let section = Fields::new("s3", section)?;
        if !database.place.is_s3() {
            return Err(Problem::Contradiction(format!("s3 settings for {}, which is no s3 vault", database.place))
                .at(section.line));
        }
        database.place.settings = s3::read_native(section, here)?;
    }
    Ok(database)
}

/// The name of a database that was given none: its file's, without the extension.
fn name_of(path: &Path) -> Option<String> {
    path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_name(stem)).map(str::to_owned)
}

/// Splits a command line.
pub(crate) fn exec_command(At { line, value }: &At<String>) -> Result<ExecCommand, Location> {
    ExecCommand::parse(value).map_err(|failure| {
        Problem::Value { key: "exec".into(), expected: failure.cause, found: format!("\"{value}\"") }.at(*line)
    })
}
