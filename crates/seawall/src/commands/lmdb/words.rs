//! The commands of `seawall lmdb` under the name `lightningstream`, as Markdown and for shells.

use std::io::Write as _;

use clap::Subcommand as _;
use serde_json::json;

use super::original::Asks;
use crate::arguments::lmdb::LmdbCommand;
use crate::exit::Exit;
use crate::output::Output;

const NAME: &str = "lightningstream";

/// `seawall lmdb`, by the other name.
fn command() -> clap::Command {
    LmdbCommand::augment_subcommands(clap::Command::new(NAME)).about("Keep LMDB environments in step between servers")
}

/// Answers a question about the program itself, under the name that it was called by.
pub(crate) fn answer(asks: &Asks) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    let text = match asks {
        Asks::Version => format!("{version}\n"),
        Asks::NameAndVersion => format!("{NAME} version {version}\n"),
        Asks::Help(path) => {
            let mut found = command();
            found.build();
            for word in path {
                let Some(below) = found.find_subcommand(word).cloned() else { break };
                found = below;
            }
            found.render_long_help().to_string().replace("seawall lmdb ", "lightningstream ")
        }
    };
    if std::io::stdout().write_all(text.as_bytes()).is_ok() { Exit::Done } else { Exit::Failed }
}

/// Completions for a shell.
pub(super) fn completion(shell: clap_complete::Shell) -> Output {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), NAME, &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    let document = json!({ "shell": shell.to_string(), "script": text });
    Output::done(text, &document)
}

/// All commands with their options.
pub(super) fn docs() -> Output {
    let mut text = String::new();
    describe(&mut command(), NAME, &mut text);
    let document = json!({ "markdown": text });
    Output::done(text, &document)
}

fn describe(command: &mut clap::Command, path: &str, text: &mut String) {
    text.push_str(&format!("## {path}\n\n```\n{}```\n\n", command.render_long_help()));
    let hidden = |command: &clap::Command| command.is_hide_set() || command.get_name() == "help";
    for below in command.get_subcommands_mut().filter(|command| !hidden(command)) {
        let path = format!("{path} {}", below.get_name());
        describe(below, &path, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_the_program_as_it_was_called() {
        let mut command = command();
        command.build();
        let sync = command.find_subcommand_mut("sync").expect("a command");
        assert!(sync.render_long_help().to_string().contains("Usage: lightningstream sync"));
    }

    #[test]
    fn every_command_is_in_the_docs_and_the_completions() {
        let (docs, script) = (docs().text, completion(clap_complete::Shell::Bash).text);
        for command in ["sync", "receive", "snapshots", "dump", "stats", "drop-shadow", "migrate-timestamps"] {
            assert!(docs.contains(&format!("## lightningstream {command}\n")), "{command}: {docs}");
            assert!(script.contains(command), "{command}");
        }
        assert!(docs.contains("## lightningstream snapshots dump\n") && script.contains("lightningstream"));
    }
}
