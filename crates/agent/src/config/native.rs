//! Our own format, `seawall.yml`. Strict: whatever isn't known is an error.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_engines::alarms::Limits;
use seawall_engines::proofs::Proving;
use seawall_engines::sqlite::Upkeep;
use seawall_engines::{Encryption, Hooks, Said, Subject};
use seawall_vault::{Environment, VaultUrl};

use super::directory::FolderKeys;
use super::document::Node;
use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::place::{self, Precedence};
use super::vaults::{self, Listed};
use super::{
    Config, DatabaseConfig, DirectoryConfig, EngineConfig, Format, Pattern, Registering, SHUTDOWN_TIMEOUT, StateRoot,
    absolute, is_name, services, upkeep,
};
use crate::process::child::ExecCommand;

/// Reads the tree of a `seawall.yml`; relative paths begin at `here`.
pub(crate) fn read(tree: Node, file: &Path, here: &Path, environment: &Environment) -> Result<Config, Location> {
    let mut top = Fields::new("the top level", tree)?;
    let vault = top.text("vault")?;
    let settings = place::Settings::take_native(&mut top, here)?;
    let shutdown_timeout = top.positive_duration("shutdown-timeout")?.map_or(SHUTDOWN_TIMEOUT, |at| at.value);
    let sweep_interval = top.positive_duration("sweep-interval")?.map(|at| at.value);
    let upload_limit = top.size("upload-limit")?.map(|at| at.value);
    let exec = top.text("exec")?.map(|at| exec_command(&at)).transpose()?;
    let services = services::read_native(&mut top, here)?;
    let services = services::Services { notify: seawall_notify::read(&mut top, here)?, ..services };
    let (mut log_level, mut log_format) = (None, None);
    if let Some(mut logging) = top.section("logging")? {
        log_level = logging.parsed("level", "trace, debug, info, warn or error", |text| text.parse().ok())?;
        log_format = logging.parsed("type", "text, json or pretty", |text| text.parse().ok())?;
        logging.finish()?;
    }
    let encryption = Encryption::take(&mut top, here)?;
    let lease = read_lease(&mut top, None)?;
    let upkeep = Arc::new(upkeep::read_native(&mut top, &Upkeep::default())?);
    let hooks = Arc::new(Hooks::take(&mut top, &Hooks::default())?);
    let alarms = Arc::new(Limits::take(&mut top, &Limits::default())?);
    let prove = Proving::take(&mut top, "", here)?.flatten().map(Arc::new);
    let vaults = vaults::take(&mut top, here, &upkeep)?;
    if let (Some(At { line, .. }), Some(_)) = (&vault, &vaults) {
        return Err(Problem::Contradiction("vault and vaults are both given".to_owned()).at(*line));
    }
    let list = top.list("databases")?;
    let missing = top.missing("databases");
    top.finish()?;

    let for_all = ForAll { upkeep: &upkeep, lease, limits: &alarms, hooks: &hooks, prove: prove.as_ref() };
    let (mut databases, mut directories) = (Vec::new(), Vec::new());
    for node in list.ok_or(missing)?.value {
        let (folder, database) =
            read_database(node, here, (vault.as_ref(), vaults.as_deref()), &settings, &for_all, environment)?;
        let encryption = database.encryption.or_else(|| encryption.clone());
        let database = DatabaseConfig { encryption, shutdown_timeout: Some(shutdown_timeout), ..database };
        match folder {
            None => databases.push(database),
            Some(keys) => directories.push(folder_of(keys, database, here)?),
        }
    }
    let registering = Registering {
        vault: vault.map(|at| at.value),
        vaults: vaults.unwrap_or_default(),
        encryption,
        settings: (settings, Precedence::Url),
        upkeep,
        lease,
        hooks,
        alarms,
        prove,
        ..Registering::plain(here, shutdown_timeout)
    };
    Ok(Config {
        file: file.to_owned(),
        format: Format::Seawall,
        databases,
        directories,
        registering,
        services,
        shutdown_timeout,
        sweep_interval,
        upload_limit,
        log_level: log_level.map(|at| at.value),
        log_format: log_format.map(|at| at.value),
        exec,
        warnings: Vec::new(),
    })
}

/// What the top says of every database that doesn't say it itself.
struct ForAll<'a> {
    upkeep: &'a Arc<Upkeep>,
    lease: Option<Duration>,
    limits: &'a Arc<Limits>,
    hooks: &'a Arc<Hooks>,
    prove: Option<&'a Arc<Proving>>,
}

fn read_database(
    node: Node,
    here: &Path,
    (default, defaults): (Option<&At<String>>, Option<&[Listed]>),
    settings: &place::Settings,
    &ForAll { upkeep: common, lease, limits, hooks, prove }: &ForAll<'_>,
    environment: &Environment,
) -> Result<(Option<FolderKeys>, DatabaseConfig), Location> {
    let mut fields = Fields::new("databases", node)?;
    let line = fields.line;
    let path = fields.text("path")?;
    let folder = FolderKeys::read(&mut fields, path.as_ref())?;
    let name = fields.parsed("name", "letters, digits, \".\", \"_\" and \"-\", not beginning with \".\"", |text| {
        is_name(text).then(|| text.to_owned())
    })?;
    let vault = fields.text("vault")?;
    let vaults = vaults::take(&mut fields, here, common)?;
    let encryption = Encryption::take(&mut fields, here)?;
    let own = place::sections(&mut fields)?;
    let path = path.or_else(|| folder.as_ref().map(|keys| keys.dir.clone()));
    let subject = Subject::take(&mut fields, path.as_ref(), here, environment)?;
    let name = match name {
        Some(At { value, .. }) => value,
        None => {
            let own = subject.own_name(folder.is_some()).filter(|name| is_name(name)).map(str::to_owned);
            own.ok_or_else(|| {
                let found = format!("none could be made from {}", subject.source());
                Problem::Value { key: "name".into(), expected: "a database needs a name".into(), found }.at(line)
            })?
        }
    };
    let one = |vault: &At<String>| read_vault(vault, own, settings, here).map(|url| (url, Vec::new()));
    let missing = fields.missing("vault");
    let (vault, beside) = match (vault, vaults, default, defaults) {
        (Some(At { line, .. }), Some(_), ..) => {
            return Err(Problem::Contradiction("vault and vaults are both given".to_owned()).at(line));
        }
        (Some(own), None, ..) => one(&own)?,
        (None, Some(listed), ..) => vaults::places(&listed, None, settings, here)?.ok_or(missing)?,
        (None, None, Some(At { line, value }), _) => one(&At { line: *line, value: place::below(value, &name) })?,
        (None, None, None, Some(listed)) => vaults::places(listed, Some(&name), settings, here)?.ok_or(missing)?,
        (None, None, None, None) => return Err(missing),
    };
    let restore_if_missing = fields.flag("restore-if-missing")?.is_some_and(|at| at.value);
    let lease = read_lease(&mut fields, lease.filter(|_| subject.takes_turns()))?;
    let own = Limits::take(&mut fields, limits)?;
    let alarms = if own == **limits { Arc::clone(limits) } else { Arc::new(own) };
    let own = Proving::take(&mut fields, &name, here)?;
    let is_fresh = matches!(&own, Some(Some(proving)) if proving.fresh.is_some());
    let own_keys = own.as_ref().and_then(Option::as_ref).and_then(Proving::not_of_servers);
    let prove = own.map_or_else(|| prove.cloned(), |own| own.map(Arc::new));
    let said = Said { dir: folder.is_some(), restore_if_missing, lease: lease.is_some() };
    let hooks = Arc::new(Hooks::take(&mut fields, hooks)?);
    let engine = EngineConfig::read(&mut fields, subject, &name, here, common, said)?;
    fields.finish()?;
    if matches!(engine, EngineConfig::Lmdb(_)) && !beside.is_empty() {
        let cause =
            "vaults: environments are kept in step through one vault that all of them share; name it with vault";
        return Err(Problem::Contradiction(cause.to_owned()).at(line));
    }
    if matches!(engine, EngineConfig::Cluster(_)) {
        if !beside.is_empty() {
            let cause = "vaults: not for a cluster that is protected continuously yet";
            return Err(Problem::Contradiction(cause.to_owned()).at(line));
        }
        if is_fresh {
            let cause = "prove.fresh: each proof of a cluster reads all that its restore needs";
            return Err(Problem::Contradiction(cause.to_owned()).at(line));
        }
    }
    if let (EngineConfig::Server(_), Some(key)) = (&engine, own_keys) {
        let cause =
            format!("{key}: a set of a server is proved on a server of its own, in TMPDIR, and all of it is compared");
        return Err(Problem::Contradiction(cause).at(line));
    }
    let database = DatabaseConfig {
        beside,
        encryption,
        restore_if_missing,
        lease,
        hooks,
        alarms,
        prove,
        line,
        ..DatabaseConfig::of(name, vault, engine)
    };
    Ok((folder, database))
}

/// How long a lease lasts without being renewed unless something else is said.
pub const LEASE: Duration = Duration::from_secs(30);

/// And at least.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// Reads `lease`; where it isn't said it is as `common` has it.
fn read_lease(fields: &mut Fields, common: Option<Duration>) -> Result<Option<Duration>, Location> {
    let Some(mut section) = fields.section("lease")? else { return Ok(common) };
    let enabled = section.flag("enabled")?.is_none_or(|at| at.value);
    let long_enough = |text: &str| seawall_core::parse_duration(text).filter(|ttl| *ttl >= SHORTEST_LEASE);
    let ttl = section.parsed("ttl", "a time of at least 3s", long_enough)?;
    section.finish()?;
    Ok(enabled.then(|| ttl.map_or(common.unwrap_or(LEASE), |at| at.value)))
}

/// A folder of databases from what an item says of all of them.
fn folder_of(keys: FolderKeys, template: DatabaseConfig, here: &Path) -> Result<DirectoryConfig, Location> {
    if template.restore_if_missing {
        let cause = "restore-if-missing needs a path: what is missing in a folder can't be known".to_owned();
        return Err(Problem::Contradiction(cause).at(template.line));
    }
    let state = template.sqlite().and_then(|files| files.state_dir.clone());
    Ok(DirectoryConfig {
        dir: absolute(Path::new(&keys.dir.value), here),
        pattern: keys.pattern.unwrap_or_else(Pattern::any),
        recursive: keys.recursive,
        watch: keys.watch.unwrap_or(true),
        prefix: Some(template.name.clone()),
        state: state.map(StateRoot::Native),
        template,
    })
}

/// The place of one database: its own settings win over the URL's, and these over those for all.
fn read_vault(
    At { line, value }: &At<String>,
    sections: Vec<place::Section>,
    all: &place::Settings,
    here: &Path,
) -> Result<VaultUrl, Location> {
    let at_vault = |failure| place::problem(failure).at(*line);
    let mut url = place::read_place(value, here).map_err(at_vault)?;
    for section in sections {
        let (line, own) = section.for_place(&url, here)?;
        url =
            place::with_settings(url, &own, Precedence::Setting).map_err(|failure| place::problem(failure).at(line))?;
    }
    place::with_settings(url, all, Precedence::Url).map_err(at_vault)
}

/// Splits a command line, which is not shown when it is wrong: it may hold a secret (I13).
pub(crate) fn exec_command(At { line, value }: &At<String>) -> Result<ExecCommand, Location> {
    ExecCommand::parse(value).map_err(|failure| {
        let expected = "takes a program with its arguments, quoted as in a shell".to_owned();
        Problem::Value { key: "exec".into(), expected, found: failure.cause }.at(*line)
    })
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
