//! `seawall doctor`: what is wrong or will be, each with what it means and the command that mends it.
//!
//! The command changes nothing, but for the few objects that it writes to each vault and deletes again. `host` looks at this
//! machine, `unit` at the unit of systemd, `protection` at what is known of the databases, `servers` at sources that are servers,
//! `vaults` at the stores, and `history` at what can be restored from them.

mod confined;
mod finding;
mod history;
mod host;
pub(super) mod places;
mod protection;
mod servers;
mod unit;
mod units;
mod vaults;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use seawall_agent::config::{Config, DatabaseConfig, EngineConfig};
use seawall_agent::{FOLDER, KnownProofs, VaultUrl, databases_in};
use seawall_core::{Clock as _, Failure, Kind, Moment, Phase, Status, SystemClock};
use seawall_host::folder_of;

use self::finding::Finding;
pub(super) use self::host::{Header, header};
use self::places::Away;
use self::protection::Held;
use crate::arguments::DoctorArguments;
use crate::edge::Edge;
use crate::output::{Output, to_json};
use crate::{configuration, runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &DoctorArguments, edge: &Edge) -> Result<Output, Failure> {
    let findings = match configuration::require(&arguments.socket.config, edge) {
        Ok(config) => {
            let (config, of_folders) = with_folders(config)?;
            let mut findings = examine(&config, arguments, edge)?;
            findings.extend(of_folders);
            findings
        }
        // Without a configuration there is nothing to look at.
        Err(failure) if failure.code == "config.none" => return Err(failure),
        Err(failure) => vec![Finding::wrong("configuration", failure.object, failure.cause, failure.next)],
    };
    let exit = finding::exit(&findings);
    Ok(Output { text: finding::text(&findings), failures: Vec::new(), json: to_json(&findings), exit })
}

/// The configuration with the databases that are in its folders now, and what is to be said of the folders.
fn with_folders(mut config: Config) -> Result<(Config, Vec<Finding>), Failure> {
    let mut findings = Vec::new();
    for directory in &config.directories {
        let (found, unprotected) = runtime::run(async { Ok(databases_in(directory).await) })?;
        findings.push(of_folder(&directory.dir, found.len()));
        findings.extend(unprotected.into_iter().map(of_unprotected));
        let is_new = |one: &DatabaseConfig| !config.databases.iter().any(|known| known.source() == one.source());
        let new: Vec<DatabaseConfig> = found.into_iter().filter(is_new).collect();
        config.databases.extend(new);
    }
    Ok((config, findings))
}

/// A folder of databases in which so many were found.
fn of_folder(folder: &Path, databases: usize) -> Finding {
    const CHECK: &str = "folder";
    let object = folder.display().to_string();
    #[expect(clippy::disallowed_methods, reason = "the command looks at the file system")]
    let read = std::fs::read_dir(folder);
    match (read, databases) {
        (Err(error), _) => {
            let meaning = format!("it can't be read, so nothing of it is protected: {error}");
            let next = format!("mount its disk if it isn't mounted, and see whose it is: ls -ld '{object}'");
            Finding::wrong(CHECK, object, meaning, next)
        }
        (Ok(_), 0) => {
            let meaning = "no database is in it, so nothing of it is protected";
            let next =
                "mount its disk if it isn't mounted (findmnt), or correct its path or pattern: seawall config check";
            Finding::warning(CHECK, object, meaning, next)
        }
        (Ok(_), databases) => {
            Finding::fine(CHECK, object, format!("{} found in it", table::count(databases, "database")))
        }
    }
}

/// Something in a folder of databases that can't be protected.
fn of_unprotected(failure: Failure) -> Finding {
    const CHECK: &str = "folder";
    let meaning = format!("{} ({})", failure.cause, failure.code);
    match failure.kind {
        // It may be no database.
        Kind::Denied => Finding::warning(CHECK, failure.object, meaning, failure.next),
        _ => Finding::wrong(CHECK, failure.object, format!("not protected: {meaning}"), failure.next),
    }
}

fn examine(config: &Config, arguments: &DoctorArguments, edge: &Edge) -> Result<Vec<Finding>, Failure> {
    let mut findings = of_configuration(config);
    findings.extend(host::readers(&config.file));
    let running = running(arguments, edge);
    let databases = running.as_ref().map_or(config.databases.len(), |running| running.statuses.len());
    let now = SystemClock.now();
    let Recorded { statuses: recorded, unrecorded, unread, held } = match &running {
        Err(failure) if is_absent(failure) => recorded(config, edge, now, !arguments.no_vaults)?,
        _ => Recorded::default(),
    };
    findings.extend(protection::of_process(config, running.as_ref().map_err(Clone::clone), held));
    let statuses = running.as_ref().map_or(&recorded, |running| &running.statuses);
    for status in statuses {
        findings.extend(protection::of_status(status, running.is_ok(), now));
    }
    findings.extend(unread);
    findings.extend(unrecorded.iter().map(|(name, failure)| protection::of_unrecorded(name, failure)));
    findings.extend(units::of_all(config, arguments.unit.as_deref(), edge));
    findings.extend(servers::of_all(config, edge)?);
    let paths: BTreeSet<PathBuf> = statuses
        .iter()
        .filter(|status| status.engine == "sqlite")
        .map(|status| PathBuf::from(&status.source))
        .collect();
    findings.extend(of_files(&config.databases, &paths));
    let largest = statuses.iter().filter_map(|status| status.source_bytes).max().unwrap_or(0);
    findings.extend(of_scratch(&config.databases, edge, largest));
    let read_back: BTreeSet<String> = statuses
        .iter()
        .filter(|status| status.content_read_at.is_some() || status.proof.is_some())
        .map(|status| status.name.clone())
        .collect();
    findings.extend(host::limits(databases as u64, running.as_ref().ok().map(|running| running.pid)));
    if !arguments.no_vaults {
        let mut away = Away::new();
        findings.extend(vaults::of_all(config, edge, &mut away)?);
        findings.extend(history::of_all(config, edge, (now, &read_back), &mut away)?);
    }
    Ok(findings)
}

/// What the records on this machine tell of databases that are files.
#[derive(Default)]
struct Recorded {
    statuses: Vec<Status>,
    /// Databases without a record that can be read, and why.
    unrecorded: Vec<(String, Failure)>,
    /// What can't be told of their proofs.
    unread: Vec<Finding>,
    held: Held,
}

/// The records of databases that are files, and which of these databases a process protects. Without such a process only `held` is
/// told: then one finding says it for all of them.
fn recorded(config: &Config, edge: &Edge, now: Moment, asks_vaults: bool) -> Result<Recorded, Failure> {
    let opener = edge.opener(1)?;
    let is_file =
        |database: &&DatabaseConfig| !matches!(database.engine, EngineConfig::Server(_) | EngineConfig::Cluster(_));
    let mut told = Recorded::default();
    let mut files: Vec<DatabaseConfig> = config.databases.iter().filter(is_file).cloned().collect();
    for database in &files {
        told.held.files += 1;
        match runtime::run(opener.recorded(database)) {
            Ok(status) => {
                told.held.held += usize::from(status.phase != Phase::Stopped);
                told.statuses.push(Status { name: database.name.clone(), proof: None, ..status });
            }
            Err(failure) if runtime::is_interrupted(&failure) => return Err(failure),
            Err(failure) => told.unrecorded.push((database.name.clone(), failure)),
        }
    }
    if told.held.held == 0 {
        return Ok(Recorded { held: told.held, ..Recorded::default() });
    }
    let is_recorded = |database: &DatabaseConfig| told.statuses.iter().any(|status| status.name == database.name);
    files.retain(is_recorded);
    let proved = match asks_vaults {
        true => super::status::proofs_of(&opener, &files)?,
        false => files.iter().map(|_| Ok(KnownProofs::default())).collect(),
    };
    for ((database, status), proved) in files.iter().zip(&mut told.statuses).zip(proved) {
        *status = super::status::judged_by_records(&opener, database, status.clone(), &proved, now);
        told.unread.extend(proved.into_iter().flat_map(|known| known.doubts).map(|doubt| {
            let next = format!(
                "see what is in the folder of its proofs, and prove it: seawall verify --restore '{}'",
                database.name
            );
            Finding::warning("proof", database.name.as_str(), doubt, next)
        }));
    }
    Ok(told)
}

/// What the running process answers.
struct Running {
    version: String,
    pid: u32,
    statuses: Vec<Status>,
}

fn running(arguments: &DoctorArguments, edge: &Edge) -> Result<Running, Failure> {
    let control = super::agent::control(&arguments.socket, edge)?;
    runtime::run(async {
        let info = control.info().await?;
        let (mut statuses, _) = control.status().await?;
        // Folders have a finding of their own.
        statuses.retain(|status| status.engine != FOLDER);
        Ok(Running { version: info.version, pid: info.pid, statuses })
    })
}

fn of_configuration(config: &Config) -> Vec<Finding> {
    let file = config.file.display().to_string();
    let warnings = config.warnings.iter().map(|warning| {
        let next =
            format!("correct line {}, and look at it again: seawall config check --config '{file}'", warning.line);
        Finding::warning("configuration", format!("{file}:{}", warning.line), &warning.text, next)
    });
    let mut found: Vec<Finding> = warnings.collect();
    if found.is_empty() {
        found.push(Finding::fine("configuration", file, "it is understood, without a warning"));
    }
    found
}

/// The folders in which proofs of a schedule restore databases.
fn of_scratch(databases: &[DatabaseConfig], edge: &Edge, largest: u64) -> Vec<Finding> {
    let usual = || seawall_host::scratch_place(edge.environment.get("TMPDIR").map(Path::new));
    let folder = |database: &DatabaseConfig| {
        let proving = database.prove.as_ref().filter(|proving| proving.here)?;
        Some(proving.scratch.clone().unwrap_or_else(usual))
    };
    let folders: BTreeSet<PathBuf> = databases.iter().filter_map(folder).collect();
    folders.iter().flat_map(|folder| host::scratch(folder, largest)).collect()
}

/// The files of the databases, and the folders that they are in.
fn of_files(databases: &[DatabaseConfig], running: &BTreeSet<PathBuf>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut sqlite, mut folders, mut states) = (running.clone(), BTreeSet::new(), BTreeSet::new());
    for database in databases {
        match &database.engine {
            EngineConfig::Sqlite(config) => {
                sqlite.insert(config.path.clone());
                states.insert(config.state_dir());
            }
            EngineConfig::Lmdb(_) | EngineConfig::Server(_) | EngineConfig::Cluster(_) => {
                let source = database.source();
                if let Some(path) = source.path() {
                    findings.push(host::exists(path));
                    folders.insert(folder_of(path).to_owned());
                }
            }
        }
    }
    findings.extend(sqlite.iter().map(|path| host::sqlite(path)));
    folders.extend(sqlite.iter().map(|path| folder_of(path).to_owned()));
    let vaults = databases.iter().flat_map(|database| database.each()).filter_map(|one| match one.vault {
        VaultUrl::File(folder) if folder.is_dir() => Some(folder),
        _ => None,
    });
    folders.extend(vaults);
    findings.extend(states.iter().filter_map(|folder| host::state(folder)));
    findings.extend(folders.iter().filter_map(|folder| host::space(folder)));
    let places: Vec<PathBuf> = folders.into_iter().chain(states).collect();
    #[expect(clippy::disallowed_methods, reason = "the times of files are those of the system's clock")]
    let now = std::time::SystemTime::now();
    findings.extend(host::leftovers(&places, now));
    findings
}

/// Whether a failure says that no process answers.
fn is_absent(failure: &Failure) -> bool {
    failure.code == "agent.no-process" || failure.kind == Kind::NotFound
}
