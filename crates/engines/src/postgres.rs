//! A database of a server, or a whole server, in a `seawall.yml`: `url`, `schedule` and how it is backed up.

use std::path::Path;
use std::sync::Arc;

use seawall_archive::server::Limits;
use seawall_archive::{Codec, RetentionPolicy, Schedule, Scheduled, World};
use seawall_core::{Failure, SystemClock};
use seawall_postgres::{CopyFormat, DumpOptions, Format, Source, Target};
use seawall_sqlite::Upkeep;
use seawall_vault::{Environment, Vault};

use crate::database::{DatabaseConfig, Said};
use crate::open::Opener;
use crate::server::{self, BackupRequest, usage};
use crate::sets;
use crate::sqlite::SqliteConfig;

use seawall_config::document::Value;
use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};
use seawall_config::{absolute, place};

/// Reads a `url`.
pub(crate) fn target(At { line, value }: &At<String>, environment: &Environment) -> Result<Target, Location> {
    Target::parse(value, environment).map_err(|error| place::problem(Failure::from(error)).at(*line))
}

/// A server's database, or a whole server, and the retention of its backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresConfig {
    /// Where it is.
    pub target: Target,
    /// When it is backed up.
    pub schedule: Schedule,
    /// How it is backed up.
    pub options: DumpOptions,
    /// Which backups may go.
    pub retention: RetentionPolicy,
}

/// Refuses settings that a server's database can't have. Retention is all that it shares with files.
pub(crate) fn check(files: &SqliteConfig, common: &Upkeep, said: Said, lmdb: bool) -> Result<(), Problem> {
    let upkeep = Upkeep { retention: common.retention.clone(), ..Upkeep::clone(&files.upkeep) };
    let others = [
        ("restore-if-missing", said.restore_if_missing),
        ("lease", said.lease),
        ("l0-retention", files.upkeep.retention.l0 != common.retention.l0),
        ("settings of levels, snapshots and validation", upkeep != *common),
    ];
    let keys = [("lmdb", lmdb)].into_iter().chain(files.keys()).chain(others);
    match keys.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(Problem::Contradiction(format!("{key}: of no use for a database of a server"))),
        None => Ok(()),
    }
}

/// Reads everything else; files are relative to `here`.
pub(crate) fn read(
    fields: &mut Fields,
    target: Target,
    name: &str,
    here: &Path,
    upkeep: &Upkeep,
) -> Result<PostgresConfig, Location> {
    let missing = fields.missing("schedule");
    let At { line, value } = fields.text("schedule")?.ok_or(missing)?;
    let schedule = Schedule::parse(&value, name).map_err(|cause| {
        let expected = "takes a cron expression, such as \"0 3 * * *\", with a time zone behind it if it isn't UTC";
        Problem::Value { key: "schedule".into(), expected: expected.into(), found: format!("\"{value}\": {cause}") }
            .at(line)
    })?;
    let mut options = DumpOptions { limits: Limits { jobs: 1, ..Limits::default() }, ..DumpOptions::default() };
    let mut target = target;
    if let Some(mut backup) = fields.section("backup")? {
        if let Some(at) = backup.parsed("jobs", "a whole number from 1 to 64", |text| {
            text.parse().ok().filter(|jobs| (1..=64).contains(jobs))
        })? {
            options.limits.jobs = at.value;
        }
        if let Some(at) = backup.size("memory")? {
            options.limits.memory = at.value;
        }
        options.limits.bindir = backup.text("pg-bindir")?.map(|at| absolute(Path::new(&at.value), here));
        let format = |text: &str| text.parse::<Format>().ok();
        if let Some(At { line, value }) = backup.parsed("format", "native, custom, directory or plain", format)? {
            if value != Format::Native && target.database.is_empty() {
                let cause = "format: pg_dump's own formats are of one database, and url names a whole server";
                return Err(Problem::Contradiction(cause.to_owned()).at(line));
            }
            options.format = value;
        }
        let copy = |text: &str| text.parse::<CopyFormat>().ok();
        if let Some(At { line, value }) = backup.parsed("copy", "text or binary", copy)? {
            if value != CopyFormat::Text && options.format != Format::Native {
                let cause = "copy: of the native format, and format asks for what pg_dump writes".to_owned();
                return Err(Problem::Contradiction(cause).at(line));
            }
            options.copy = value;
        }
        let codec = |text: &str| text.parse::<Codec>().ok();
        if let Some(at) =
            backup.parsed("compression", "zstd, zstd:1 to zstd:19, gzip, gzip:1 to gzip:12, lz4 or none", codec)?
        {
            options.codec = at.value;
        }
        if let Some(At { line, value }) = backup.text("passfile")? {
            if target.has_password() {
                let cause = "passfile: the password is known from url or PGPASSWORD already".to_owned();
                return Err(Problem::Contradiction(cause).at(line));
            }
            target = target.with_password_file(absolute(Path::new(&value), here));
        }
        let whole = target.database.is_empty();
        if let Some(At { line, value }) = backup.flag("role-passwords")? {
            only_of_a_server("role-passwords", whole, line)?;
            options.role_passwords = value;
        }
        if let Some(At { line, value }) = backup.list("exclude-databases")? {
            only_of_a_server("exclude-databases", whole, line)?;
            options.excluded = value
                .into_iter()
                .map(|node| match node.value {
                    Value::Text(name) => Ok(name),
                    other => {
                        let (key, expected) = ("exclude-databases".to_owned(), "takes names of databases".to_owned());
                        Err(Problem::Value { key, expected, found: other.shape().into() }.at(node.line))
                    }
                })
                .collect::<Result<_, _>>()?;
        }
        backup.finish()?;
    }
    Ok(PostgresConfig { target, schedule, options, retention: sets::policy(&upkeep.retention) })
}

fn only_of_a_server(key: &str, whole: bool, line: usize) -> Result<(), Location> {
    if whole {
        return Ok(());
    }
    Err(Problem::Contradiction(format!("{key}: of a whole server, and url names a database")).at(line))
}

/// How a command line asks for a backup of `target`.
///
/// # Errors
/// Settings that can't be read, or that contradict each other.
pub(crate) fn requested(target: &Target, request: BackupRequest) -> Result<DumpOptions, Failure> {
    let BackupRequest { limits, format, sample, copy, compression, excluded, role_passwords } = request;
    let options = DumpOptions {
        limits,
        format: format.as_deref().map_or(Ok(Format::default()), read_format)?,
        sample: sample.as_deref().map(server::sample).transpose()?,
        copy: copy.as_deref().map_or(Ok(CopyFormat::default()), read_copy)?,
        codec: compression.as_deref().map_or(Ok(Codec::default()), server::codec)?,
        excluded,
        role_passwords,
    };
    if !target.database.is_empty() && (options.role_passwords || !options.excluded.is_empty()) {
        let cause = "--role-passwords and --exclude-database are of a whole server's backup, and a database is named";
        let next = "end the URL behind the slash, or leave them out";
        return Err(usage("usage.arguments", &target.to_string(), cause, next));
    }
    if options.sample.is_some() && options.format != Format::Native {
        let cause = format!("--sample is of the native format, and --format {} has every row", options.format.name());
        return Err(usage("usage.arguments", &target.to_string(), &cause, "leave one of them out"));
    }
    if options.format != Format::Native && options.copy != CopyFormat::Text {
        let cause = "--copy is of the native format, and --format asks for what pg_dump writes";
        return Err(usage("usage.arguments", &target.to_string(), cause, "leave one of them out"));
    }
    Ok(options)
}

fn read_format(text: &str) -> Result<Format, Failure> {
    let next = "give native, custom, directory or plain";
    text.parse().map_err(|cause: String| usage("usage.format", "--format", &cause, next))
}

fn read_copy(text: &str) -> Result<CopyFormat, Failure> {
    text.parse().map_err(|cause: String| usage("usage.arguments", "--copy", &cause, "correct it"))
}

/// Opens a source with its vault.
pub(crate) fn open(opener: &Opener, vault: Vault, database: &DatabaseConfig, config: &PostgresConfig) -> Scheduled {
    let world = World::real(opener.environment.clone());
    let sets = sets::sets(opener, vault, Some(config.retention.clone()), world.nonce);
    let source = Source { target: config.target.clone(), options: config.options.clone(), world };
    let (schedule, clock) = (config.schedule.clone(), Arc::new(SystemClock));
    Scheduled::new(database.name.clone(), Arc::new(source), schedule, sets, clock)
}
