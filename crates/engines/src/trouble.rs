//! What an error in a status means, whichever engine told it. `alarms` is built of it.

use seawall_core::LastError;

/// Errors with which captures go on, while the vault lacks something or another writer is in the way there.
const UNSAFE: [&str; 12] = [
    "archive.lost",
    "lmdb.lost",
    "lmdb.two-writers",
    "postgres.damaged-pages",
    "postgres.not-synchronous",
    "postgres.standby-alone",
    "proof.beyond",
    "sqlite.lost",
    "sqlite.mixed",
    "sqlite.stray",
    "vault.replaced",
    "vault.vanished",
];

/// Errors of a local disk without space. A full disk of a vault is `vault.full`.
const FULL: [&str; 2] = ["lmdb.disk-full", "sqlite.disk-full"];

/// Errors of a clock that jumped, or that is behind the history.
const CLOCK: [&str; 2] = ["archive.clock", "sqlite.clock"];

/// The error of a chain of backups with a link that is missing or wrong.
const CHAIN: &str = "archive.alarm";

/// The error of a server that keeps its log for us without a bound.
const UNBOUNDED: &str = "postgres.slot-unbounded";

/// The error of a server whose commits wait for the vault.
const HOLDS: &str = "postgres.commits-wait";

/// The error of a process that waits for another process's lease.
const TURN: &str = "agent.lease-held";

/// Errors of a folder of databases: it holds none, or it isn't there; something in it can't be read, or a database in it can't be protected. Each
/// with whether databases are known to be unprotected.
const FOLDER: [(&str, bool); 4] = [
    ("agent.nothing-found", false),
    ("agent.folder-missing", true),
    ("agent.unread", false),
    ("agent.unprotected", true),
];

/// Whether not all of a folder of databases is protected, and whether databases are known that aren't.
pub(crate) fn is_of_folder(error: &LastError) -> Option<bool> {
    FOLDER.iter().find(|(code, _)| *code == error.code).map(|(_, is_certain)| *is_certain)
}

/// Whether a database that is protected isn't as safe as it is meant to be.
pub fn leaves_unsafe(error: &LastError) -> bool {
    UNSAFE.contains(&error.code.as_str())
}

/// Whether the local disk is full.
pub fn is_full_disk(error: &LastError) -> bool {
    FULL.contains(&error.code.as_str())
}

/// Whether the machine's clock is wrong.
pub(crate) fn is_of_clock(error: &LastError) -> bool {
    CLOCK.contains(&error.code.as_str())
}

/// Whether the chain of backups is broken.
pub(crate) fn breaks_chain(error: &LastError) -> bool {
    error.code == CHAIN
}

/// Whether a server's disk may be filled by the log that it keeps.
pub(crate) fn fills_servers_disk(error: &LastError) -> bool {
    error.code == UNBOUNDED
}

/// Whether the database's own commits wait, and with them the application.
pub(crate) fn holds_commits(error: &LastError) -> bool {
    error.code == HOLDS
}

/// Whether another process protects the database in its turn.
pub(crate) fn is_in_turn(error: &LastError) -> bool {
    error.code == TURN
}

#[cfg(test)]
mod tests {
    use seawall_core::{Failure, Kind, Moment};

    use super::*;

    #[test]
    fn what_errors_mean() {
        for (code, unsafe_, full) in [
            ("sqlite.lost", true, false),
            ("sqlite.stray", true, false),
            ("sqlite.damaged-wal", false, false),
            ("sqlite.disk-full", false, true),
            ("lmdb.lost", true, false),
            ("archive.lost", true, false),
            ("proof.beyond", true, false),
            ("lmdb.disk-full", false, true),
            ("vault.vanished", true, false),
            ("vault.full", false, false),
            ("vault.unavailable", false, false),
        ] {
            let error = LastError::new(&Failure::new(Kind::Unavailable, code, "o", "c", "n"), Moment::default());
            assert_eq!((leaves_unsafe(&error), is_full_disk(&error)), (unsafe_, full), "{code}");
        }
    }

    /// A code that an engine renames would otherwise be forgotten here.
    #[test]
    fn every_code_is_one_of_an_engine() {
        let documented = include_str!("../../../docs/errors.md");
        for code in UNSAFE
            .iter()
            .chain(&FULL)
            .chain(&CLOCK)
            .chain(FOLDER.map(|(code, _)| code).iter())
            .chain(&[CHAIN, HOLDS, TURN, UNBOUNDED])
        {
            assert!(documented.contains(&format!("`{code}`")), "{code}");
        }
    }
}
