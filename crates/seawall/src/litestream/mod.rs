//! Run under the name `litestream`: Litestream's own command line, configuration, outputs and exit codes.
//!
//! Scripts that were written for Litestream keep working. No work is done here: each command turns its arguments into
//! the same library call as the corresponding `seawall` command, and prints the answer in Litestream's format
//! (v0.5.18). Output without a fixed format, such as the log, stays Seawall's.

mod config;
mod daemon;
mod databases;
mod flags;
mod ltx;
mod replicate;
mod reset;
mod restore;
mod status;
mod usage;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use seawall_agent::{Level, LogFormat, Times, start_logging};
use seawall_core::Failure;

use self::daemon::Command;
use crate::edge::Edge;
use crate::output::complain;

/// The version whose command line this is.
const VERSION: &str = "v0.5.18";

/// Whether the program was called by this name.
pub(crate) fn is_called(program: Option<&OsStr>) -> bool {
    program.map(Path::new).and_then(Path::file_name) == Some(OsStr::new("litestream"))
}

/// The output of a command that has done its work.
type Answer = Result<String, Stop>;

/// Why a command ends without having done its work.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    /// Help was asked for.
    Help,
    /// A flag is wrong; the usage is shown.
    Usage(String),
    /// Any other error, with a hint.
    Error { message: String, hint: Option<String> },
}

impl Stop {
    fn error(message: impl Into<String>) -> Self {
        Self::Error { message: message.into(), hint: None }
    }

    fn hinted(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Error { message: message.into(), hint: Some(hint.into()) }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        match failure.code {
            "sqlite.nothing-there" | "command.empty-vault" => Self::error("no matching backup files available"),
            _ => Self::hinted(format!("{}: {} [{}]", failure.object, failure.cause, failure.code), failure.next),
        }
    }
}

/// Runs the command line.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>, edge: &Edge) -> ExitCode {
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let Some((command, rest)) = arguments.split_first() else {
        return say(&usage::of("help"), ExitCode::FAILURE);
    };
    if command != "replicate" {
        start_logging(Level::Warn, LogFormat::Text, Times::Told);
    }
    match run(command, rest, edge) {
        Ok(text) => say(&text, ExitCode::SUCCESS),
        Err(Stop::Help) => say(&usage::of(command), ExitCode::SUCCESS),
        Err(Stop::Usage(message)) => {
            let told = say(&usage::of(command), ExitCode::FAILURE);
            complain(&format!("{message}\nError: {message}\n"));
            told
        }
        Err(Stop::Error { message, hint }) => {
            let hint = hint.map(|hint| format!("Try: {hint}\n")).unwrap_or_default();
            complain(&format!("Error: {message}\n{hint}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, arguments: &[String], edge: &Edge) -> Answer {
    match command {
        "databases" => databases::run(arguments, edge),
        "ltx" => ltx::run(arguments, edge),
        "wal" => {
            complain("Warning: 'wal' is an old name of 'ltx'\n");
            ltx::run(arguments, edge)
        }
        "info" => daemon::run(Command::Info, arguments, edge),
        "list" => daemon::run(Command::List, arguments, edge),
        "register" => daemon::run(Command::Register, arguments, edge),
        "replicate" => replicate::run(arguments, edge),
        "reset" => reset::run(arguments, edge),
        "restore" => restore::run(arguments, edge),
        "start" => daemon::run(Command::Start, arguments, edge),
        "status" => status::run(arguments, edge),
        "stop" => daemon::run(Command::Stop, arguments, edge),
        "sync" => daemon::run(Command::Sync, arguments, edge),
        "unregister" => daemon::run(Command::Unregister, arguments, edge),
        "version" => version(arguments),
        "help" | "-h" | "-help" | "--help" => Err(Stop::Help),
        other => Err(Stop::error(format!("litestream {other}: unknown command"))),
    }
}

fn version(arguments: &[String]) -> Answer {
    let flags = flags::parse(&[flags::switch("verbose")], arguments)?;
    Ok(match flags.is_set("verbose") {
        false => format!("{VERSION}\n"),
        true => format!(
            "Version:     {VERSION}\nSeawall:     {}\nOS/Arch:     {}/{}\n",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                other => other,
            }
        ),
    })
}

fn say(text: &str, code: ExitCode) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match printed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => code,
    }
}

/// A document as Litestream prints it.
fn json(document: &impl serde::Serialize) -> Answer {
    let text = serde_json::to_string_pretty(document).map_err(|error| Stop::error(error.to_string()))?;
    Ok(format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_name_it_is() {
        for (program, called) in [
            ("litestream", true),
            ("/usr/local/bin/litestream", true),
            ("seawall", false),
            ("/opt/litestream/seawall", false),
        ] {
            assert_eq!(is_called(Some(OsStr::new(program))), called, "{program}");
        }
        assert!(!is_called(None));
    }

    #[test]
    fn an_empty_vault_is_told_as_litestream_does() {
        let failure = |code| Failure::new(seawall_core::Kind::NotFound, code, "o", "c", "n");
        assert_eq!(Stop::from(failure("sqlite.nothing-there")), Stop::error("no matching backup files available"));
        assert_eq!(Stop::from(failure("test.code")), Stop::hinted("o: c [test.code]", "n"));
    }
}
