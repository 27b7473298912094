//! What tells of the databases, and does what is asked for: a running process, or a vault.
//!
//! - `process`: the control socket, asked once a second;
//! - `vault`: the catalogue of a prefix, read when a person asks;
//! - `plan`: what a restore, backup or proof would do;
//! - `work`: carries it out;
//! - `desk`: a thread of its own for all of this, so that no vault and no process keeps the screen waiting.

mod desk;
mod plan;
mod process;
mod vault;
mod work;

pub(super) use self::desk::Desk;
use self::process::Process;
use self::vault::Prefix;
use super::model::Kind;
use crate::arguments::UiArguments;
use crate::edge::Edge;
use seawall_core::Failure;

/// Where the databases are.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Process(Process),
    Vault(Prefix),
}

impl Source {
    /// The one that the command line means.
    pub(super) fn find(arguments: &UiArguments, edge: &Edge) -> Result<Self, Failure> {
        match &arguments.vault {
            Some(text) => Ok(Self::Vault(Prefix::new(crate::server::place(text, edge)?))),
            None => Ok(Self::Process(Process::new(crate::commands::agent::socket(&arguments.socket, edge)?))),
        }
    }

    /// What it is.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Process(_) => Kind::Process,
            Self::Vault(_) => Kind::Vault,
        }
    }

    /// Its name for people.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Process(process) => process.socket().display().to_string(),
            Self::Vault(prefix) => prefix.url().to_string(),
        }
    }
}
