//! PostgreSQL: what only its backups can be asked for, in a `seawall.yml` and on a command line.

use std::path::Path;

use seawall_archive::Codec;
use seawall_core::Failure;
use seawall_postgres::{CopyFormat, DumpOptions, Format, Target};

use crate::backups::Common;
use crate::server::{self, BackupRequest, usage};

use seawall_config::absolute;
use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};

/// Reads the keys of a `backup` section that only PostgreSQL has; files are relative to `here`. Returns the target with its
/// password file, and all options.
pub(crate) fn read(
    backup: Option<&mut Fields>,
    target: Target,
    common: Common,
    here: &Path,
) -> Result<(Target, DumpOptions), Location> {
    let Common { limits, codec, schedule, excluded } = common;
    let mut options = DumpOptions { limits, codec, schedule, excluded, ..DumpOptions::default() };
    let mut target = target;
    let Some(backup) = backup else { return Ok((target, options)) };
    let whole = target.database.is_empty();
    options.limits.bindir = backup.text("pg-bindir")?.map(|at| absolute(Path::new(&at.value), here));
    let format = |text: &str| text.parse::<Format>().ok();
    if let Some(At { line, value }) = backup.parsed("format", "native, custom, directory or plain", format)? {
        if value != Format::Native && whole {
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
    if let Some(At { line, value }) = backup.text("passfile")? {
        if target.has_password() {
            let cause = "passfile: the password is known from url or PGPASSWORD already".to_owned();
            return Err(Problem::Contradiction(cause).at(line));
        }
        target = target.with_password_file(absolute(Path::new(&value), here));
    }
    if let Some(At { line, value }) = backup.flag("role-passwords")? {
        if !whole {
            let cause = "role-passwords: of a whole server, and url names a database".to_owned();
            return Err(Problem::Contradiction(cause).at(line));
        }
        options.role_passwords = value;
    }
    Ok((target, options))
}

/// How a command line asks for a backup of `target`.
///
/// # Errors
/// Settings that can't be read, or that contradict each other.
pub(crate) fn requested(target: &Target, request: BackupRequest) -> Result<DumpOptions, Failure> {
    let BackupRequest { limits, format, sample, copy, compression, excluded, role_passwords } = request;
    let options = DumpOptions {
        places: Vec::new(),
        limits,
        format: format.as_deref().map_or(Ok(Format::default()), read_format)?,
        sample: sample.as_deref().map(server::sample).transpose()?,
        copy: copy.as_deref().map_or(Ok(CopyFormat::default()), read_copy)?,
        codec: compression.as_deref().map_or(Ok(Codec::default()), server::codec)?,
        excluded,
        role_passwords,
        schedule: None,
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
