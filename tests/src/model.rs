//! The content of the writer's database after a number of commits: a pure function of a seed and that number.
//!
//! Commit `k` inserts row `k`, rewrites one earlier row, and counts itself in `progress`. So any restored database
//! names the commit that it claims to be, and every row can be checked against that claim. A lost, torn or doubled
//! commit shows as a difference.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::random::mix;

/// Creates the tables, before commit 1.
pub const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS rows(id INTEGER PRIMARY KEY, version INTEGER NOT NULL, content BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS progress(id INTEGER PRIMARY KEY CHECK (id = 1), commits INTEGER NOT NULL);
    INSERT OR IGNORE INTO progress VALUES (1, 0);";

/// The content of a row in the version that commit `version` gave it: 16 to 527 bytes that don't compress.
pub fn content(seed: u64, id: u64, version: u64) -> Vec<u8> {
    let mut state = mix(seed ^ mix(id) ^ version.rotate_left(40));
    let mut bytes = Vec::with_capacity(528);
    let length = 16 + (state % 512) as usize;
    while bytes.len() < length {
        state = mix(state);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The earlier row that a commit rewrites, or its own.
pub fn rewritten(seed: u64, commit: u64) -> u64 {
    1 + mix(seed.rotate_left(17) ^ commit) % commit
}

/// Makes the next commit, and returns its number.
pub fn commit(db: &mut Connection, seed: u64) -> rusqlite::Result<u64> {
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let number = 1 + commits(&tx)?;
    tx.prepare_cached("INSERT INTO rows VALUES (?1, ?1, ?2)")?
        .execute(params![number as i64, content(seed, number, number)])?;
    let old = rewritten(seed, number);
    tx.prepare_cached("UPDATE rows SET version = ?2, content = ?3 WHERE id = ?1")?.execute(params![
        old as i64,
        number as i64,
        content(seed, old, number)
    ])?;
    tx.prepare_cached("UPDATE progress SET commits = ?1")?.execute([number as i64])?;
    tx.commit()?;
    Ok(number)
}

/// How many commits a database claims to hold.
pub fn commits(db: &Connection) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT commits FROM progress")?.query_row([], |row| row.get::<_, i64>(0)).map(|n| n as u64)
}

/// Checks that a restored database is exactly the state after some number of commits, and returns that number.
/// A database from before the tables were made counts as 0.
///
/// # Panics
/// When a row is missing, too much or different, or SQLite's integrity check complains.
pub fn check(path: &Path, seed: u64) -> u64 {
    check_open(&crate::digest::open(path), path, seed)
}

/// The same for a database that is open: in a transaction, for one that changes.
///
/// # Panics
/// As [`check`].
pub fn check_open(db: &Connection, path: &Path, seed: u64) -> u64 {
    crate::digest::check_integrity(db, path);
    let made = db.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'progress'", [], |row| row.get(0));
    if made == Ok(0) {
        return 0;
    }
    let claimed = commits(db).expect("the writer's counter can be read");
    let mut versions: Vec<u64> = (0..=claimed).collect();
    for number in 1..=claimed {
        versions[rewritten(seed, number) as usize] = number;
    }
    let mut statement = db.prepare("SELECT id, version, content FROM rows ORDER BY id").unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut seen = 0;
    while let Some(row) = rows.next().unwrap() {
        let (id, version): (i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
        seen += 1;
        assert_eq!(id as u64, seen, "{}: claims {claimed} commits, but row {seen} is missing", path.display());
        assert!(seen <= claimed, "{}: claims {claimed} commits, but holds row {id}", path.display());
        let expected = versions[seen as usize];
        assert_eq!(version as u64, expected, "{}: claims {claimed} commits; row {id} is torn", path.display());
        let bytes: Vec<u8> = row.get(2).unwrap();
        assert!(bytes == content(seed, seen, expected), "{}: the content of row {id} is wrong", path.display());
    }
    assert_eq!(seen, claimed, "{}: claims {claimed} commits, but rows are missing", path.display());
    claimed
}
