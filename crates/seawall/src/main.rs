//! The seawall binary: arguments -> one library call -> output.
//!
//! Each command turns its arguments into a validated request, makes one call, and returns an [`output::Output`]. It is
//! printed here, once, as text or as JSON. All inputs from outside (environment, folder, terminals, signals) enter
//! through [`edge::Edge`].

mod allocator;
mod arguments;
mod codes;
mod commands;
mod configuration;
mod edge;
mod exit;
mod litestream;
mod output;
mod progress;
mod prompt;
mod runtime;
mod server;
mod source;
mod table;
mod ui;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use seawall_core::{Failure, Kind};

use crate::arguments::Arguments;
use crate::commands::lmdb::{itself, original, words};
use crate::edge::Edge;
use crate::exit::Exit;

fn main() -> ExitCode {
    let mut edge = Edge::of_process();
    let mut words = std::env::args_os();
    if litestream::is_called(words.next().as_deref()) {
        return litestream::main(words, &edge);
    }
    let (mut timeless, mut faithful) = (false, false);
    let words = match original::is_called(std::env::args_os().next().as_deref()) {
        false => commands::ltx::doubled(std::env::args_os()),
        true => match as_original(words, &edge) {
            Ok(Ok(original)) if original.asks.is_some() => {
                return original.asks.map_or(Exit::Failed, |asks| words::answer(&asks)).into();
            }
            Ok(Ok(original)) => {
                (timeless, faithful) = (original.timeless, true);
                original.words
            }
            Ok(Err(code)) => return code,
            Err(failure) => {
                output::print_failure(&failure, false);
                return Exit::of(failure.kind).as_original().into();
            }
        },
    };
    let fetches = commands::wal::is_fetch(std::env::args_os());
    let of_command = |exit: Exit| if fetches { exit.as_restore_command() } else { of_program(exit, faithful) };
    let mut arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => return of_command(refuse(&error)).into(),
    };
    arguments.common.log_timeless |= timeless;
    arguments.common.as_original |= faithful;
    edge.identity.clone_from(&arguments.common.identity);
    edge.progress = arguments.common.progress;
    let json = arguments.common.json;
    let exit = match commands::run(arguments, &edge) {
        Ok(output) => output.print(json),
        Err(failure) => {
            output::print_failure(&failure, json);
            Exit::of(failure.kind)
        }
    };
    of_command(exit).into()
}

/// The exit code of the program that was called.
fn of_program(exit: Exit, faithful: bool) -> Exit {
    if faithful { exit.as_original() } else { exit }
}

/// Lightning Stream's command line. An exit code if another process did the work.
fn as_original(
    words: impl Iterator<Item = std::ffi::OsString>,
    edge: &Edge,
) -> Result<Result<original::Original, ExitCode>, Failure> {
    let original = original::Original::understand(words)?;
    Ok(itself::prepare(&original, edge)?.map_or(Ok(original), Err))
}

/// Help and version are answers; anything else that the parser says is wrong usage.
fn refuse(error: &clap::Error) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match error.print() {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                output::print_failure(&output::unprinted(&error, Exit::Failed), false);
                Exit::Failed
            }
            _ => Exit::Done,
        };
    }
    let text = error.render().to_string();
    if std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json") {
        let paragraph = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        let cause = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let failure = Failure::new(Kind::Usage, "usage.arguments", "command line", cause, "see `seawall --help`");
        output::print_failure(&failure, true);
    } else {
        output::complain(&in_our_shape(&text));
    }
    Exit::Usage
}

/// The parser's own message, with its tips, in the shape that all errors have.
fn in_our_shape(text: &str) -> String {
    match text.strip_prefix("error: ") {
        Some(rest) => format!("error[usage.arguments]: {rest}")
            .replace("For more information, try '--help'.", "next: correct the command; '--help' explains it"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_usage_looks_like_any_error() {
        let error = Arguments::try_parse_from(["seawall", "restore", "v", "--forse"]).expect_err("wrong usage");
        let text = in_our_shape(&error.render().to_string());
        assert!(text.starts_with("error[usage.arguments]: unexpected argument '--forse' found\n"), "{text}");
        assert!(text.contains("'--force'") && text.contains("\nnext: "), "{text}");
    }
}
