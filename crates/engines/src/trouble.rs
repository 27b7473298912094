//! What an error in a status means for the process, whichever engine told it.

use seawall_core::LastError;

/// Errors with which captures go on, while the vault lacks something or another writer is in the way there.
const UNSAFE: [&str; 7] = [
    "lmdb.lost",
    "lmdb.two-writers",
    "sqlite.lost",
    "sqlite.mixed",
    "sqlite.stray",
    "vault.replaced",
    "vault.vanished",
];

/// Errors of a local disk without space. A full disk of a vault is `vault.full`.
const FULL: [&str; 2] = ["lmdb.disk-full", "sqlite.disk-full"];

/// Whether a database that is protected isn't as safe as it is meant to be.
pub fn leaves_unsafe(error: &LastError) -> bool {
    UNSAFE.contains(&error.code.as_str())
}

/// Whether the local disk is full.
pub fn is_full_disk(error: &LastError) -> bool {
    FULL.contains(&error.code.as_str())
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
        for code in UNSAFE.iter().chain(&FULL) {
            assert!(documented.contains(&format!("`{code}`")), "{code}");
        }
    }
}
