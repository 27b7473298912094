//! `litestream replicate`: the same process as `seawall replicate`.

use std::path::PathBuf;

use seawall_agent::Also;
use seawall_agent::config::{as_litestream, read_place};

use super::flags::{self, Flag, Flags};
use super::{Answer, Stop, config};
use crate::arguments::{Common, ConfigArguments, EncryptionArguments, ReplicateArguments};
use crate::commands;
use crate::edge::Edge;
use crate::exit::Exit;

const FLAGS: [Flag; 8] = [
    flags::value("config"),
    flags::value("exec"),
    flags::switch("once"),
    flags::switch("force-snapshot"),
    flags::switch("enforce-retention"),
    flags::value("log-level"),
    flags::switch("no-expand-env"),
    flags::switch("restore-if-db-not-exists"),
];

/// Runs the command until it ends.
pub(super) fn run(arguments: &[String], edge: &Edge) -> Answer {
    let flags = flags::parse(&FLAGS, arguments)?;
    let also = Also { complete: flags.is_set("force-snapshot"), maintain: flags.is_set("enforce-retention") };
    let (arguments, common) = read(flags, edge)?;
    let output = commands::replicate::run_with(&arguments, also, &common, edge)?;
    match output.exit {
        Exit::Done => Ok(String::new()),
        Exit::Child(code) => Err(Stop::error(format!("exit status {code}"))),
        _ => Err(match output.failures.into_iter().next() {
            Some(failure) => failure.into(),
            None => Stop::error("stopped before everything was replicated"),
        }),
    }
}

fn read(flags: Flags, edge: &Edge) -> Result<(ReplicateArguments, Common), Stop> {
    for flag in ["force-snapshot", "enforce-retention"] {
        if flags.is_set(flag) && !flags.is_set("once") {
            return Err(Stop::error(format!("cannot specify -{flag} flag without -once")));
        }
    }
    if flags.is_set("once") && flags.get("exec").is_some() {
        return Err(Stop::error("cannot specify -once flag with -exec"));
    }
    let (source, vault) = match flags.arguments.as_slice() {
        [] => (None, None),
        [source] => return Err(Stop::error(format!("must specify at least one replica URL for {source}"))),
        [source, vault] => {
            as_litestream(read_place(vault, &edge.directory)?)?;
            (Some(config::path(source, edge)), Some(vault.clone()))
        }
        _ => return Err(Stop::error("multiple replicas on a single database are no longer supported")),
    };
    let file: Option<PathBuf> = source.is_none().then(|| config::file(&flags, edge));
    if let Some(file) = file.as_ref().filter(|file| !file.exists()) {
        return Err(Stop::error(format!("config file not found: {}", file.display())));
    }
    let log_level = flags.get("log-level").and_then(|level| level.to_ascii_lowercase().parse().ok());
    let arguments = ReplicateArguments {
        encryption: EncryptionArguments::default(),
        source,
        vault,
        config: ConfigArguments { config: file, no_expand_env: flags.is_set("no-expand-env") },
        once: flags.is_set("once"),
        exec: flags.get("exec").map(str::to_owned),
        restore_if_missing: flags.is_set("restore-if-db-not-exists"),
        lease: false,
        pattern: None,
        recursive: false,
        socket: None,
        web: None,
    };
    Ok((
        arguments,
        Common {
            json: false,
            log_level,
            log_type: None,
            identity: None,
            progress: None,
            log_timeless: false,
            as_original: false,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_and_what_is_taken() {
        let edge = Edge {
            environment: Default::default(),
            directory: "/srv".into(),
            hostname: String::new(),
            terminal: false,
            has_screen: false,
            identity: None,
            progress: None,
        };
        let read = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            read(flags::parse(&FLAGS, &arguments)?, &edge).map(|(arguments, _)| arguments)
        };
        assert!(read("-once -force-snapshot -enforce-retention a.db s3://bucket/x").is_ok_and(|taken| taken.once));
        let taken = read("-restore-if-db-not-exists -exec true a.db s3://bucket/x").expect("taken");
        assert_eq!(taken.source, Some("/srv/a.db".into()));
        assert!(taken.restore_if_missing && taken.exec.as_deref() == Some("true"));
        for (line, part) in [
            ("a.db", "at least one replica URL"),
            ("a b c", "multiple replicas"),
            ("-force-snapshot a s3://b/x", "without -once"),
            ("-once -exec x a s3://b/x", "-once flag with -exec"),
            ("-config /nowhere.yml", "config file not found: /nowhere.yml"),
        ] {
            let Err(Stop::Error { message, .. }) = read(line) else { panic!("{line} was taken") };
            assert!(message.contains(part), "{line}: {message}");
        }
    }
}
