//! Databases that SQLite made: checksums, encoding with the WAL.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use seawall_ltx::file::{EncodeOptions, FileError, Work, checksum, decode, encode, page_checksums, verify};
use seawall_ltx::{Checksum, PageNo, Rolling, page_checksum};
use tempfile::TempDir;

const OPTIONS: EncodeOptions = EncodeOptions { timestamp_ms: 1_700_000_000_000, no_checksum: false };

fn jobs(count: usize) -> Work<'static> {
    Work::new().with_jobs(NonZeroUsize::new(count).unwrap())
}

/// A database with some hundred rows.
fn database(path: &Path, page_size: u32, rows: u32) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "page_size", page_size).unwrap();
    connection.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, content BLOB)").unwrap();
    fill(&connection, rows);
    connection
}

fn fill(connection: &Connection, rows: u32) {
    let transaction = connection.unchecked_transaction().unwrap();
    let mut insert = connection.prepare("INSERT INTO t(content) VALUES (randomblob(?1))").unwrap();
    for row in 0..rows {
        insert.execute([row % 700]).unwrap();
    }
    drop(insert);
    transaction.commit().unwrap();
}

fn naive(bytes: &[u8], page_size: usize) -> (Checksum, Vec<Checksum>) {
    let mut sum = Rolling::new();
    let pages: Vec<Checksum> =
        bytes.chunks(page_size).zip(1..).map(|(page, number)| page_checksum(PageNo(number), page)).collect();
    pages.iter().for_each(|page| sum.toggle(*page));
    (sum.checksum(), pages)
}

#[test]
fn checksums_of_every_page_size_on_any_number_of_threads() {
    let folder = TempDir::new().unwrap();
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let path = folder.path().join(format!("{page_size}.db"));
        drop(database(&path, page_size, 3000));
        let bytes = fs::read(&path).unwrap();
        let (whole, pages) = naive(&bytes, page_size as usize);
        for count in [1, 2, 5] {
            let found = checksum(&path, false, jobs(count)).unwrap();
            assert_eq!((found.checksum, found.pages as usize), (whole, pages.len()), "{page_size} {count}");
            let mut each = Vec::new();
            page_checksums(&path, jobs(count), |page, sum| each.push((page, sum))).unwrap();
            assert_eq!(each, (1..).map(PageNo).zip(pages.iter().copied()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_is_no_database_has_no_checksum() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, "").unwrap();
    assert_eq!(checksum(&path, false, jobs(1)).unwrap().checksum, Checksum::EMPTY);
    drop(database(&folder.path().join("a.db"), 512, 10));
    let good = fs::read(folder.path().join("a.db")).unwrap();
    let mut no_size = good.clone();
    no_size[16..18].fill(0);
    for bad in [&good[..50], &good[..700], &no_size, &[7; 4096]] {
        fs::write(&path, bad).unwrap();
        let error = checksum(&path, false, jobs(2)).unwrap_err();
        assert!(matches!(error, FileError::Database { .. }), "{error}");
        assert!(encode(&path, &folder.path().join("o.ltx"), OPTIONS, jobs(2)).is_err());
    }
}

/// Encodes a live database and gives back what the file decodes to.
fn there_and_back(path: &Path, folder: &Path) -> PathBuf {
    let (ltx, back) = (folder.join("x.ltx"), folder.join("back.db"));
    let encoded = encode(path, &ltx, OPTIONS, jobs(2)).unwrap();
    assert_eq!(verify(&ltx, jobs(2)).unwrap(), encoded);
    let sum = checksum(path, true, jobs(2)).unwrap();
    assert_eq!(encoded.summary.trailer.post_apply, sum.checksum);
    decode(&ltx, &back, jobs(2)).unwrap();
    back
}

#[test]
fn what_is_in_the_wal_is_in_the_snapshot() {
    for page_size in [512, 4096, 65536] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.db");
        let connection = database(&path, page_size, 200);
        connection.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
        connection.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        fill(&connection, 2000);
        connection.execute_batch("DELETE FROM t WHERE id % 7 = 3").unwrap();
        // A transaction that isn't committed doesn't count, even where its frames are in the WAL.
        connection.execute_batch("PRAGMA cache_size=2; BEGIN; UPDATE t SET content = randomblob(300)").unwrap();
        let other = Connection::open(&path).unwrap();
        let rows: u32 = other.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        drop(other);
        assert_ne!(rows, 200);
        let back = there_and_back(&path, folder.path());
        connection.execute_batch("ROLLBACK").unwrap();
        let read = Connection::open(&back).unwrap();
        let found: u32 = read.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        let check: String = read.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((found, check.as_str()), (rows, "ok"));
        drop(read);
        // A shrink that only the WAL knows of.
        connection.execute_batch("DELETE FROM t WHERE id > 20; VACUUM").unwrap();
        let back = there_and_back(&path, folder.path());
        drop(connection);
        assert!(fs::read(&back).unwrap() == fs::read(&path).unwrap(), "the checkpointed database differs");
    }
}

#[test]
fn the_output_is_replaced_only_by_a_whole_file() {
    let folder = TempDir::new().unwrap();
    let (path, output) = (folder.path().join("a.db"), folder.path().join("a.ltx"));
    drop(database(&path, 512, 100));
    fs::write(&output, "before").unwrap();
    fs::hard_link(&path, folder.path().join("link.db")).unwrap();
    std::os::unix::fs::symlink(&path, folder.path().join("soft.db")).unwrap();
    for same in ["a.db", "link.db", "soft.db"] {
        let error = encode(&path, &folder.path().join(same), OPTIONS, jobs(1)).unwrap_err();
        assert!(matches!(error, FileError::SameFile { .. }), "{error}");
    }
    let good = fs::read(&path).unwrap();
    fs::write(&path, &good[..good.len() - 512]).unwrap();
    assert!(encode(&path, &output, OPTIONS, jobs(2)).is_err());
    assert_eq!(fs::read(&output).unwrap(), b"before");
    fs::write(&path, &good).unwrap();
    encode(&path, &output, OPTIONS, jobs(2)).unwrap();
    verify(&output, jobs(1)).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left behind");
}

#[test]
fn a_database_in_the_middle_of_a_transaction_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.db");
    drop(database(&path, 512, 100));
    fs::write(folder.path().join("a.db-journal"), [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0]).unwrap();
    let error = encode(&path, &folder.path().join("o.ltx"), OPTIONS, jobs(1)).unwrap_err();
    assert!(matches!(error, FileError::Beside { .. }), "{error}");
}
