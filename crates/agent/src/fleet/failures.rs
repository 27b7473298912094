//! Why a database is refused, can't be found, or can't be asked yet.

use seawall_core::{Failure, Kind};

use crate::config::SourceName;

/// The code of [`duplicate`].
pub(crate) const DUPLICATE: &str = "agent.duplicate";

/// The database `of` would share `what` with the database `name`.
pub(crate) fn duplicate(what: &str, name: &str, of: &SourceName) -> Failure {
    Failure::new(
        Kind::Conflict,
        DUPLICATE,
        of.to_string(),
        format!("{what} is already that of {name}"),
        "give each database a file, a name and a place of its own",
    )
}

/// The code of [`unknown`].
pub(crate) const UNKNOWN: &str = "agent.unknown-database";

/// There is no such member.
pub(crate) fn unknown(what: &str) -> Failure {
    Failure::new(
        Kind::NotFound,
        UNKNOWN,
        what,
        "the running process doesn't protect this database",
        "see `seawall list` for those that it does",
    )
}

/// A member can't be started, stopped or asked yet.
pub(crate) fn starting(name: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "agent.starting",
        name,
        "it is being opened, or restored from its vault",
        "see `seawall status`, and ask again",
    )
}

pub(crate) fn stopping(name: &str) -> Failure {
    Failure::new(Kind::Unavailable, "agent.stopping", name, "the process is ending", "ask again when it runs again")
}
