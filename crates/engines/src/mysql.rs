//! MySQL and MariaDB: what only their backups can be asked for, in a `seawall.yml` and on a command line.

use std::path::Path;

use seawall_core::Failure;
use seawall_mysql::{DumpOptions, Format, Target};

use crate::backups::Common;
use crate::server::{self, BackupRequest, usage};

use seawall_config::absolute;
use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};

/// Reads the keys of a `backup` section that only MySQL has; files are relative to `here`. Returns the target with its password
/// file, and all options.
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
    if let Some(At { line, value }) = backup.parsed("format", "native or plain", |text| text.parse::<Format>().ok())? {
        if value != Format::Native && whole {
            let cause = "format: a script of SQL is of one database, and url names a whole server";
            return Err(Problem::Contradiction(cause.to_owned()).at(line));
        }
        options.format = value;
    }
    if let Some(at) = backup.duration("lock-wait")? {
        options.lock_wait = at.value;
    }
    if let Some(At { line, value }) = backup.text("password-file")? {
        if target.has_password() {
            let cause = "password-file: the password is known from url, an option file or MYSQL_PWD already".to_owned();
            return Err(Problem::Contradiction(cause).at(line));
        }
        target = target.with_password_file(absolute(Path::new(&value), here));
    }
    Ok((target, options))
}

/// How a command line asks for a backup of `target`.
///
/// # Errors
/// Settings that MySQL doesn't have, that can't be read, or that contradict each other.
pub(crate) fn requested(target: &Target, request: BackupRequest) -> Result<DumpOptions, Failure> {
    let BackupRequest { limits, format, sample, copy, compression, excluded, role_passwords } = request;
    let others = [("--copy", copy.is_some()), ("--role-passwords", role_passwords)];
    if let Some((option, _)) = others.iter().find(|(_, is_set)| *is_set) {
        let cause = format!("{option} is for PostgreSQL, and this is a server of MySQL or MariaDB");
        return Err(usage("usage.arguments", &target.to_string(), &cause, "leave it out"));
    }
    if !target.database.is_empty() && !excluded.is_empty() {
        let cause = "--exclude-database is of a whole server's backup, and a database is named";
        let next = "end the URL behind the slash, or leave it out";
        return Err(usage("usage.arguments", &target.to_string(), cause, next));
    }
    let codec = compression.as_deref().map(server::codec).transpose()?.unwrap_or_default();
    let format = format.as_deref().map_or(Ok(Format::default()), read_format)?;
    let sample = sample.as_deref().map(server::sample).transpose()?;
    if sample.is_some() && format != Format::Native {
        let cause = "--sample is of the native format, and a script of SQL has every row";
        return Err(usage("usage.arguments", &target.to_string(), cause, "leave one of them out"));
    }
    Ok(DumpOptions { limits, format, sample, codec, excluded, ..DumpOptions::default() })
}

fn read_format(text: &str) -> Result<Format, Failure> {
    let next = "give native or plain";
    text.parse().map_err(|cause: String| usage("usage.format", "--format", &cause, next))
}
