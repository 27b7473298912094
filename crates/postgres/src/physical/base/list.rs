//! Which files belong to a base? What PostgreSQL's documentation of the protocol says of base backups. Pure, but for the
//! question to the server.

use std::collections::BTreeSet;

use super::super::recover::{HANDED_OVER, UNFINISHED};
use super::pages::{Fork, RelationFile};
use crate::Error;
use crate::client::Connection;
use crate::quote::literal;

/// Folders whose content isn't of use after a crash: they stay, empty.
const EMPTY: [&str; 8] =
    ["pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans"];

/// Files at the top that belong to the running server, to another backup, or to the recovery of another.
const NOT_AT_THE_TOP: [&str; 12] = [
    "postmaster.pid",
    "postmaster.opts",
    "backup_label",
    "backup_label.old",
    "tablespace_map",
    "tablespace_map.old",
    "backup_manifest",
    "recovery.signal",
    "standby.signal",
    "postgresql.auto.conf.tmp",
    // What a restore left for a server that recovers: it may hold credentials.
    HANDED_OVER,
    UNFINISHED,
];

/// What is read last.
pub(crate) const CONTROL: &str = "global/pg_control";

/// A name in a folder, as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) is_folder: bool,
    /// Seconds since 1970.
    pub(crate) modified: u64,
}

/// What is done with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A file to read.
    File,
    /// A folder to look into.
    Folder,
    /// A folder that is kept without its content.
    EmptyFolder,
    /// It doesn't belong to a base.
    No,
}

/// Numbers of relations in a folder whose content a crash empties.
pub(crate) fn unlogged(listed: &[Listed]) -> BTreeSet<u32> {
    let init = |file: RelationFile| (file.fork == Fork::Init).then_some(file.number);
    listed.iter().filter_map(|one| RelationFile::parse(&one.name).and_then(init)).collect()
}

/// Whether a folder has files of relations.
pub(crate) fn has_relations(folder: &str) -> bool {
    let parts: Vec<&str> = folder.split('/').collect();
    matches!(parts[..], ["global"] | ["base", _] | ["pg_tblspc", _, _, _])
}

/// What is done with a name in a folder. `unlogged` are numbers of relations there, and `versioned` is the folder of this
/// cluster in a tablespace.
pub(crate) fn part(folder: &str, one: &Listed, unlogged: &BTreeSet<u32>, versioned: &str) -> Part {
    let name = one.name.as_str();
    if name.starts_with("pgsql_tmp") || name.starts_with("pg_internal.init") {
        return Part::No;
    }
    if folder.is_empty() && (NOT_AT_THE_TOP.contains(&name) || name == "current_logfiles.tmp") {
        return Part::No;
    }
    // A server's socket, which can't be read, and its lock. `unix_socket_directories` may name any folder.
    if !one.is_folder && name.starts_with(".s.PGSQL.") {
        return Part::No;
    }
    if has_relations(folder) && !one.is_folder {
        let is_unlogged = |file: RelationFile| file.fork != Fork::Init && unlogged.contains(&file.number);
        if is_temporary(name) || RelationFile::parse(name).is_some_and(is_unlogged) {
            return Part::No;
        }
    }
    let is_tablespace = folder.strip_prefix("pg_tblspc/").is_some_and(|oid| !oid.contains('/'));
    match one.is_folder {
        // Another version's server may keep its files beside ours.
        true if is_tablespace && name != versioned => Part::No,
        true if folder.is_empty() && EMPTY.contains(&name) => Part::EmptyFolder,
        true => Part::Folder,
        false if is_tablespace => Part::No,
        false if folder == "global" && name == "pg_control" => Part::No,
        false => Part::File,
    }
}

/// Whether it is a file of a temporary table: `t3_16384`, and its forks.
fn is_temporary(name: &str) -> bool {
    let Some((backend, relation)) = name.strip_prefix('t').and_then(|rest| rest.split_once('_')) else { return false };
    !backend.is_empty() && backend.bytes().all(|byte| byte.is_ascii_digit()) && RelationFile::parse(relation).is_some()
}

/// Asks for the names in a folder; one that vanishes meanwhile isn't there. A folder that is gone is empty.
pub(crate) async fn list(connection: &mut Connection, folder: &str) -> Result<Vec<Listed>, Error> {
    let (place, within) = match folder {
        "" => (literal("."), String::new()),
        folder => (literal(folder), literal(&format!("{folder}/")) + " || "),
    };
    let sql = format!(
        "SELECT d, s.size, s.isdir, pg_catalog.date_part('epoch', s.modification)::pg_catalog.int8 \
         FROM pg_catalog.pg_ls_dir({place}, true, false) AS l (d), \
         LATERAL pg_catalog.pg_stat_file({within} d, true) s WHERE s.size IS NOT NULL"
    );
    let rows = connection.query(&sql).await?;
    let mut listed: Vec<Listed> = rows
        .iter()
        .map(|row| Listed {
            name: row.text(0).to_owned(),
            bytes: row.number(1),
            is_folder: row.flag(2),
            modified: row.number(3),
        })
        .collect();
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_base() {
        let unlogged = BTreeSet::from([16400]);
        for (folder, name, is_folder, expected) in [
            ("", "PG_VERSION", false, Part::File),
            ("", "postmaster.pid", false, Part::No),
            ("", "standby.signal", false, Part::No),
            ("", "postgresql.auto.conf", false, Part::File),
            ("", ".s.PGSQL.5432", false, Part::No),
            ("run", ".s.PGSQL.5432", false, Part::No),
            ("run", ".s.PGSQL.5432.lock", false, Part::No),
            ("run", ".s.other", false, Part::File),
            ("", "pg_wal", true, Part::EmptyFolder),
            ("", "pg_replslot", true, Part::EmptyFolder),
            ("", "pg_xact", true, Part::Folder),
            ("", "base", true, Part::Folder),
            ("", "pg_tblspc", true, Part::Folder),
            ("base", "pgsql_tmp", true, Part::No),
            ("base/5", "pgsql_tmp12.3", false, Part::No),
            ("base/5", "16384", false, Part::File),
            ("base/5", "16384_fsm", false, Part::File),
            ("base/5", "pg_internal.init", false, Part::No),
            ("base/5", "pg_internal.init.123", false, Part::No),
            ("base/5", "pg_filenode.map", false, Part::File),
            ("base/5", "16400", false, Part::No),
            ("base/5", "16400.1", false, Part::No),
            ("base/5", "16400_vm", false, Part::No),
            ("base/5", "16400_init", false, Part::File),
            ("base/5", "t3_16401", false, Part::No),
            ("base/5", "t3_16401_fsm.1", false, Part::No),
            ("pg_xact", "t3_16401", false, Part::File),
            ("pg_tblspc", "16500", true, Part::Folder),
            ("pg_tblspc/16500", "PG_15_1", true, Part::Folder),
            ("pg_tblspc/16500", "PG_14_9", true, Part::No),
            ("pg_tblspc/16500", "stray", false, Part::No),
            ("pg_tblspc/16500/PG_15_1/5", "16400", false, Part::No),
            ("global", "pg_control", false, Part::No),
            ("global", "1262", false, Part::File),
        ] {
            let one = Listed { name: name.into(), bytes: 1, is_folder, modified: 0 };
            assert_eq!(part(folder, &one, &unlogged, "PG_15_1"), expected, "{folder}/{name}");
        }
    }

    #[test]
    fn unlogged_relations_are_known_by_what_they_begin_with() {
        let one = |name: &str| Listed { name: name.into(), bytes: 0, is_folder: false, modified: 0 };
        let listed = ["16384", "16400_init", "16400", "x_init"].map(one);
        assert_eq!(unlogged(&listed), BTreeSet::from([16400]));
    }
}
