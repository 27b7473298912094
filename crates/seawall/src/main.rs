//! The seawall binary: arguments -> one library call -> output.
//!
//! Each command turns its arguments into a validated request, makes one call, and gives back an [`output::Output`],
//! which is printed here, once, as text or as JSON. Everything the process takes from outside (environment, folder,
//! terminals, signals) enters through [`edge::Edge`].

mod arguments;
mod commands;
mod configuration;
mod edge;
mod exit;
mod output;
mod progress;
mod runtime;
mod source;
mod table;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use seawall_core::{Failure, Kind};

use crate::arguments::Arguments;
use crate::edge::Edge;
use crate::exit::Exit;

fn main() -> ExitCode {
    let edge = Edge::of_process();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error).into(),
    };
    let json = arguments.common.json;
    match commands::run(arguments, &edge) {
        Ok(output) => output.print(json).into(),
        Err(failure) => {
            output::print_failure(&failure, json);
            Exit::of(failure.kind).into()
        }
    }
}

/// Help and version are answers; anything else that clap says is wrong usage.
fn refuse(error: &clap::Error) -> Exit {
    let answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json");
    if json && !answer {
        let rendered = error.render().to_string();
        let cause = rendered.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let failure = Failure::new(Kind::Usage, "usage.arguments", "command line", cause, "see `seawall --help`");
        output::print_failure(&failure, true);
    } else if error.print().is_err() {
        return Exit::Failed;
    }
    if answer { Exit::Done } else { Exit::Usage }
}
