//! `litestream status`: the local state of the configuration's databases.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::{Path, PathBuf};

use seawall_agent::config::{DatabaseConfig, SqliteConfig};
use seawall_agent::read_status;
use seawall_ltx::{FileName, Txid};
use serde::Serialize;

use super::{Answer, config, flags, json};
use crate::edge::Edge;
use crate::table;

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    database: String,
    status: &'static str,
    local_txid: String,
    wal_size: String,
}

/// Runs the command.
pub(super) fn run(arguments: &[String], edge: &Edge) -> Answer {
    let known = [flags::value("config"), flags::switch("no-expand-env"), flags::switch("json")];
    let flags = flags::parse(&known, arguments)?;
    let config = config::load(&flags, edge)?;
    let only = flags.arguments.first().map(|text| config::path(text, edge));
    let asked = config
        .databases
        .iter()
        .filter_map(DatabaseConfig::sqlite)
        .filter(|files| only.as_ref().is_none_or(|only| files.path == *only));
    let rows: Vec<Row> = asked.map(row).collect();
    if flags.is_set("json") {
        return json(&rows);
    }
    let cells = |row: Row| vec![row.database, row.status.to_owned(), row.local_txid, row.wal_size];
    let heading = ["database", "status", "local txid", "wal size"];
    Ok(table::table(&heading, rows.into_iter().map(cells).collect(), &[]))
}

fn row(database: &SqliteConfig) -> Row {
    let name = database.path.display().to_string();
    let nothing = || "-".to_owned();
    if !database.path.exists() {
        return Row { database: name, status: "no database", local_txid: nothing(), wal_size: nothing() };
    }
    let wal_size = size(std::fs::metadata(beside(&database.path, "-wal")).map_or(0, |found| found.len()));
    match newest(database) {
        Some(txid) => Row { database: name, status: "ok", local_txid: txid.to_string(), wal_size },
        None => Row { database: name, status: "not initialized", local_txid: nothing(), wal_size },
    }
}

/// The newest transaction that this machine knows of: from our own record, or from what Litestream left.
fn newest(database: &SqliteConfig) -> Option<Txid> {
    let status = read_status(&database.path, database.state_dir.as_deref()).ok();
    let ours = status.and_then(|status| status.protected?.position.parse().ok());
    let names = std::fs::read_dir(litestream_folder(&database.path).join("0")).ok();
    let theirs = names.into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse().ok().map(|FileName { max, .. }| max)
    });
    theirs.chain(ours).max()
}

/// Where Litestream keeps its own copies of a database's LTX files.
pub(super) fn litestream_folder(database: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(database.file_name().unwrap_or_default());
    name.push("-litestream");
    database.with_file_name(name).join("ltx")
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A size in powers of 1000, with one decimal below ten.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let power = bytes.ilog10() / 3;
    let scaled = bytes as f64 / 1000_f64.powi(power.cast_signed());
    let rounded = (scaled * 10.0 + 0.5).floor() / 10.0;
    let unit = UNITS.get(power as usize).unwrap_or(&"EB");
    if rounded < 10.0 { format!("{rounded:.1} {unit}") } else { format!("{rounded:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (9, "9 B"),
            (82, "82 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (4152, "4.2 kB"),
            (16_512, "16 kB"),
            (82_854_982, "83 MB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn a_database_that_nobody_has_touched() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = |name: &str| SqliteConfig::new(folder.path().join(name));
        assert_eq!(row(&database("none.db")).status, "no database");
        std::fs::write(folder.path().join("a.db"), b"x").expect("written");
        let found = row(&database("a.db"));
        assert_eq!((found.status, found.local_txid.as_str(), found.wal_size.as_str()), ("not initialized", "-", "0 B"));
        let theirs = folder.path().join(".a.db-litestream/ltx/0");
        std::fs::create_dir_all(&theirs).expect("made");
        std::fs::write(theirs.join("0000000000000007-0000000000000007.ltx"), b"x").expect("written");
        let found = row(&database("a.db"));
        assert_eq!((found.status, found.local_txid.as_str()), ("ok", "0000000000000007"));
    }
}
