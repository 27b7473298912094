//! The content of a database as one hash: schema and rows, independent of the pages.

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest, Sha256};

/// Opens a database to look at it, also one that others have open: this connection's close leaves the WAL alone.
pub fn open(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).unwrap_or_else(|e| panic!("open {}: {e}", path.display()));
    db.busy_timeout(crate::wait::SOON).unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    db
}

/// Runs SQLite's own full check.
///
/// # Panics
/// When it complains.
pub fn check_integrity(db: &Connection, path: &Path) {
    let answer: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap_or_else(|e| panic!("integrity_check of {}: {e}", path.display()));
    assert_eq!(answer, "ok", "integrity_check of {}", path.display());
}

/// The content of a database that passed SQLite's integrity check: settings, schema, and all rows in order.
pub fn of(path: &Path) -> String {
    whole(path, &[])
}

/// The same, without the tables that Litestream makes for itself: for databases that it had in its hands.
pub fn without_litestream_tables(path: &Path) -> String {
    whole(path, &["_litestream_seq", "_litestream_lock"])
}

/// The content of a file.
pub fn of_file(path: &Path) -> String {
    let mut file = std::fs::File::open(path).unwrap_or_else(|e| panic!("open {}: {e}", path.display()));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer).unwrap();
        if n == 0 {
            return hex(hash);
        }
        hash.update(&buffer[..n]);
    }
}

fn whole(path: &Path, without: &[&str]) -> String {
    let db = open(path);
    check_integrity(&db, path);
    let mut hash = Sha256::new();
    for setting in ["page_size", "encoding", "user_version", "application_id"] {
        let value: rusqlite::types::Value = db.query_row(&format!("PRAGMA {setting}"), [], |row| row.get(0)).unwrap();
        hash.update(format!("{setting}={value:?}\n"));
    }
    let mut tables = Vec::new();
    let mut schema = db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").unwrap();
    let mut entries = schema.query([]).unwrap();
    while let Some(entry) = entries.next().unwrap() {
        let (kind, name): (String, String) = (entry.get(0).unwrap(), entry.get(1).unwrap());
        let (table, sql): (String, Option<String>) = (entry.get(2).unwrap(), entry.get(3).unwrap());
        if without.contains(&table.as_str()) {
            continue;
        }
        hash.update(format!("{kind} {name} {table} {sql:?}\n"));
        if kind == "table" {
            tables.push(name);
        }
    }
    for table in tables {
        add_rows(&db, &table, &mut hash);
    }
    hex(hash)
}

fn add_rows(db: &Connection, table: &str, hash: &mut Sha256) {
    let table = table.replace('"', "\"\"");
    let with_rowid = format!("SELECT rowid, * FROM \"{table}\" NOT INDEXED ORDER BY rowid");
    let without = format!("SELECT * FROM \"{table}\" NOT INDEXED");
    let mut statement = db.prepare(&with_rowid).or_else(|_| db.prepare(&without)).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        for column in 0..columns {
            match row.get_ref(column).unwrap() {
                ValueRef::Null => hash.update([0]),
                ValueRef::Integer(n) => {
                    hash.update([1]);
                    hash.update(n.to_le_bytes());
                }
                ValueRef::Real(n) => {
                    hash.update([2]);
                    hash.update(n.to_bits().to_le_bytes());
                }
                ValueRef::Text(bytes) => add_bytes(hash, 3, bytes),
                ValueRef::Blob(bytes) => add_bytes(hash, 4, bytes),
            }
        }
    }
}

fn add_bytes(hash: &mut Sha256, kind: u8, bytes: &[u8]) {
    hash.update([kind]);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
