//! `seawall wal`: the write-ahead log of a PostgreSQL cluster.

mod fetch;
mod list;
mod push;
mod receive;

use std::ffi::OsString;

use seawall_agent::{Encryption, Opener};
use seawall_core::Failure;
use seawall_vault::Vault;

use crate::arguments::{Common, ConfigArguments, WalCommand};
use crate::edge::Edge;
use crate::output::Output;
use crate::server;
use crate::source::Source;

/// Runs the command.
pub(crate) fn run(command: &WalCommand, common: &Common, edge: &Edge) -> Result<Output, Failure> {
    match command {
        WalCommand::Push(arguments) => push::run(arguments, edge),
        WalCommand::Fetch(arguments) => Ok(fetch::run(arguments, edge)),
        WalCommand::List(arguments) => list::run(arguments, edge),
        WalCommand::Receive(arguments) => receive::run(arguments, common, edge),
    }
}

/// Whether these words call `seawall wal fetch`, whose exit codes PostgreSQL takes for statements about its archive.
pub(crate) fn is_fetch(words: impl Iterator<Item = OsString>) -> bool {
    // Options may stand between them. A command that only looks alike loses nothing but the number of its exit code.
    let mut words = words.skip_while(|word| word != "wal");
    words.next().is_some() && words.any(|word| word == "fetch")
}

/// Opens the vault that `text` names, to write to for these recipients.
async fn open(
    text: &str,
    config: &ConfigArguments,
    encryption: Option<&Encryption>,
    opener: &Opener,
    edge: &Edge,
) -> Result<Vault, Failure> {
    // The first push makes the folder.
    let is_path = text.starts_with(['/', '.']);
    let source = match is_path || config.config.is_none() {
        true => Source::Vault(server::place(text, edge)?),
        false => Source::find(text, config, edge)?,
    };
    match (source, encryption) {
        (Source::Database(database), _) => Ok(opener.database_and_vault(&database).await?.0),
        (Source::Vault(url), None) => opener.vault_alone(&url).await,
        (Source::Vault(url), encryption) => opener.vault_to_fill(&url, encryption).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_exit_codes_are_statements() {
        for (line, fetches) in [
            ("seawall wal fetch", true),
            ("seawall --json wal fetch --valt x", true),
            ("seawall wal --identity /etc/owner.key fetch --valt x", true),
            ("seawall wal --json fetch", true),
            ("seawall fetch wal", false),
            ("seawall wal push", false),
            ("seawall verify fetch", false),
            ("", false),
        ] {
            assert_eq!(is_fetch(line.split(' ').map(OsString::from)), fetches, "{line}");
        }
    }
}
