//! The commands of `seawall lmdb` under the name `lightningstream`, as Markdown and for shells.

use clap::Subcommand as _;
use serde_json::json;

use super::LmdbCommand;
use crate::output::Output;

const NAME: &str = "lightningstream";

/// `seawall lmdb`, by the other name.
fn command() -> clap::Command {
    LmdbCommand::augment_subcommands(clap::Command::new(NAME)).about("Keep LMDB environments in step between servers")
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
    fn every_command_is_in_the_docs_and_the_completions() {
        let (docs, script) = (docs().text, completion(clap_complete::Shell::Bash).text);
        for command in ["sync", "receive", "snapshots", "dump", "stats", "drop-shadow", "migrate-timestamps"] {
            assert!(docs.contains(&format!("## lightningstream {command}\n")), "{command}: {docs}");
            assert!(script.contains(command), "{command}");
        }
        assert!(docs.contains("## lightningstream snapshots dump\n") && script.contains("lightningstream"));
    }
}
