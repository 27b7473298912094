//! A database of a server, or a whole server, in a `seawall.yml`: `url`, `schedule` and how it is backed up.

use std::path::Path;

use seawall_archive::{Codec, Schedule};
use seawall_core::Failure;
use seawall_postgres::{CopyFormat, DumpOptions, Format, Limits, Source, Target};
use seawall_vault::Environment;

use super::document::Value;
use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::{absolute, place};

/// Reads a `url`.
pub(crate) fn target(At { line, value }: &At<String>, environment: &Environment) -> Result<Target, Location> {
    Target::parse(value, environment).map_err(|error| place::problem(Failure::from(error)).at(*line))
}

/// Reads everything else; files are relative to `here`.
pub(crate) fn read(fields: &mut Fields, target: Target, name: &str, here: &Path) -> Result<Source, Location> {
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
    Ok(Source { target, schedule, options })
}

fn only_of_a_server(key: &str, whole: bool, line: usize) -> Result<(), Location> {
    if whole {
        return Ok(());
    }
    Err(Problem::Contradiction(format!("{key}: of a whole server, and url names a database")).at(line))
}
