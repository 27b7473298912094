//! Carries out the words of a command, in this process, by the library calls of that command.

use std::sync::Arc;

use clap::Parser as _;
use seawall_agent::Opener;
use seawall_core::{Failure, Kind, Progress, Restored};

use crate::arguments::{Arguments, Command};
use crate::commands::{prove, restore};
use crate::edge::Edge;
use crate::table;
use crate::ui::model::Verb;

/// Does it, and says what came of it.
pub(super) async fn carry(
    verb: Verb,
    words: &[String],
    opener: &Opener,
    edge: &Edge,
    progress: Arc<dyn Progress>,
) -> Result<Vec<String>, Failure> {
    match verb {
        Verb::Restore => {
            let (told, restored) = self::restore(words, opener, edge, progress).await?;
            let said = format!("{told}{}", restore::render(&restored));
            Ok(said.lines().map(str::to_owned).collect())
        }
        Verb::Prove => {
            let Command::Verify(arguments) = understood(words)? else { return Err(other(words)) };
            let found = crate::source::Source::find(&arguments.source, &arguments.config, edge)?;
            let made = prove::of_file(&arguments, found, opener, edge, progress).await?;
            let recorded = match &made.recorded {
                Ok(key) => format!("recorded as {key}"),
                Err(failure) => format!("it isn't recorded: {failure}"),
            };
            let line = prove::line(&made.proof);
            match seawall_agent::first_fault(&made.proof) {
                None => Ok(vec![line, recorded]),
                Some(fault) => Err(fault),
            }
        }
        Verb::Ship => Err(other(words)),
    }
}

/// Restores into a file, or says what would be done.
pub(super) async fn restore(
    words: &[String],
    opener: &Opener,
    edge: &Edge,
    progress: Arc<dyn Progress>,
) -> Result<(String, Restored), Failure> {
    let Command::Restore(arguments) = understood(words)? else { return Err(other(words)) };
    let (source, request) = restore::prepare(&arguments, edge)?;
    restore::restore(&source, &request, opener, progress).await
}

fn understood(words: &[String]) -> Result<Command, Failure> {
    match Arguments::try_parse_from(words) {
        Ok(arguments) => Ok(arguments.command),
        Err(error) => {
            let cause = error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let next = "type another moment or file";
            Err(Failure::new(Kind::Usage, "usage.arguments", table::count(words.len(), "word"), cause, next))
        }
    }
}

/// Words of another command: a defect.
fn other(words: &[String]) -> Failure {
    let (cause, next) = ("the words are those of another command", "report this: it is a defect");
    Failure::new(Kind::Internal, "command.internal", words.join(" "), cause, next)
}
