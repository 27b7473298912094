//! `seawall vault`: the commands about a place itself.

mod init;
pub(super) mod probe;
mod rekey;

use seawall_core::Failure;

use crate::arguments::VaultCommand;
use crate::edge::Edge;
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(command: &VaultCommand, edge: &Edge, json: bool) -> Result<Output, Failure> {
    match command {
        VaultCommand::Init(arguments) => init::run(arguments, edge),
        VaultCommand::Probe(arguments) => probe::run(arguments, edge),
        VaultCommand::Rekey(arguments) => rekey::run(arguments, edge, json),
    }
}
