//! What a backup of another program hasn't, that a backup of Seawall has. Pure.

use crate::file::{Dump, Shape};
use crate::recognise::{Form, Maker, Said};

/// The servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Postgres,
    Mysql,
}

/// What decides.
#[derive(Debug, Clone, Copy)]
struct Facts {
    server: Server,
    /// Whether it is of a whole server.
    is_whole: bool,
    is_archive: bool,
    has_globals: bool,
    /// Whether dbbackup's own engine made it.
    is_native: bool,
    is_unmarked: bool,
    has_sum: bool,
    /// Whether the digest beside it covers only its beginning.
    has_early_sum: bool,
    is_said_to_be_encrypted: bool,
    is_incremental: bool,
}

/// What a backup lacks, a sentence for each: for a server of MySQL's kind if `mysql`; `has_globals` says whether a whole server's
/// backup has what belongs to no database.
pub fn lacks(dump: &Dump, mysql: bool, has_globals: bool) -> Vec<String> {
    let form = match &dump.shape {
        Shape::Single(single) => Some(&single.form),
        Shape::Tar(_) | Shape::Folder => None,
    };
    let sidecar = &dump.sidecar;
    of(Facts {
        server: if mysql { Server::Mysql } else { Server::Postgres },
        is_whole: form.is_none(),
        is_archive: form == Some(&Form::Archive),
        has_globals,
        is_native: sidecar.is_native(),
        is_unmarked: matches!(form, Some(Form::Script(Said { maker: Maker::Unknown, .. }))),
        has_sum: !sidecar.recorded.is_empty(),
        has_early_sum: sidecar.beginning(dump.size).is_some(),
        is_said_to_be_encrypted: sidecar.encrypted && !dump.is_encrypted(),
        is_incremental: sidecar.backup_type.as_deref() == Some("incremental"),
    })
}

fn of(facts: Facts) -> Vec<String> {
    let mut lacks = Vec::new();
    let mut lack = |is_so: bool, what: &str| {
        if is_so {
            lacks.push(what.to_owned());
        }
    };
    let Facts { server, is_whole, .. } = facts;
    let postgres = server == Server::Postgres;
    lack(postgres && !is_whole, "no roles, memberships or tablespaces: a backup of one database has none");
    lack(
        postgres && !is_whole && !facts.is_archive,
        "no encoding, locale, owner, settings or grants of the database itself: a script has none, and the new database gets the server's defaults",
    );
    lack(
        postgres && (is_whole || facts.is_archive),
        "no settings or grants of the databases themselves: they aren't restored with the objects",
    );
    lack(postgres && is_whole && !facts.has_globals, "no roles, memberships or tablespaces: it has no globals.sql");
    lack(!postgres && !is_whole, "no users or grants: a backup of one database has none");
    lack(!postgres, "no character set of the database itself: the new database gets the server's default");
    lack(
        !postgres && is_whole,
        "no users or grants that can be restored: its globals.sql is a copy of the source's system tables, which is bound to that server",
    );
    lack(is_whole, "no common moment: each database was read at a moment of its own");
    lack(true, "no log: only the moment of the backup can be restored");
    lack(
        facts.is_native && postgres,
        "dbbackup's own engine wrote it, which leaves out primary keys, unique and foreign keys, checks, indexes, triggers, types, \
         extensions, sequences' values, owners, grants and comments",
    );
    lack(
        facts.is_native && !postgres,
        "dbbackup's own engine wrote it, which leaves out routines, triggers, events and views",
    );
    lack(
        facts.is_unmarked,
        "no mark at its end: that it is whole is known only from the end of its compression, or from a checksum",
    );
    lack(!facts.has_sum, "no checksum: neither a .sha256 nor a .meta.json with one is beside it");
    lack(
        facts.has_early_sum,
        "no checksum of all of it: dbbackup's own engine took the checksum before the file was complete",
    );
    lack(
        facts.is_said_to_be_encrypted,
        "no encryption, although its metadata says that it is encrypted: everybody who has the file can read it",
    );
    lack(facts.is_incremental, "no base: its metadata says that it is incremental, and only what it holds is restored");
    lacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing() {
        let one = Facts {
            server: Server::Postgres,
            is_whole: false,
            is_archive: true,
            has_globals: false,
            is_native: false,
            is_unmarked: false,
            has_sum: true,
            has_early_sum: false,
            is_said_to_be_encrypted: false,
            is_incremental: false,
        };
        let script = Facts { is_archive: false, has_sum: false, ..one };
        let whole = Facts { is_whole: true, is_archive: false, ..one };
        let mysql = Facts { server: Server::Mysql, ..script };
        for (facts, expected) in [
            (one, &["no roles", "no settings", "no log"][..]),
            (script, &["no roles", "no encoding", "no log", "no checksum"]),
            (whole, &["no settings", "no roles, memberships or tablespaces: it has no", "no common moment", "no log"]),
            (Facts { has_globals: true, ..whole }, &["no settings", "no common moment", "no log"]),
            (mysql, &["no users", "no character set", "no log", "no checksum"]),
            (
                Facts { is_whole: true, ..mysql },
                &["no character set", "no users or grants that can", "no common moment", "no log", "no checksum"],
            ),
            (
                Facts { is_native: true, is_unmarked: true, has_early_sum: true, ..script },
                &[
                    "no roles",
                    "no encoding",
                    "no log",
                    "dbbackup's own",
                    "no mark",
                    "no checksum:",
                    "no checksum of all",
                ],
            ),
            (
                Facts { is_said_to_be_encrypted: true, is_incremental: true, ..one },
                &["no roles", "no settings", "no log", "no encryption", "no base"],
            ),
        ] {
            let found = of(facts);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (lack, begins) in found.iter().zip(expected) {
                assert!(lack.starts_with(begins), "{lack}: {begins}");
            }
        }
    }
}
