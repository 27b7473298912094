//! Writes the vault of a SQLite database that has had many commits and no merge: a base, and one object for each commit.
//!
//! ```text
//! cargo run --release -p seawall-benches --example many_objects -- /dev/shm/many/app 1000000
//! ```
//!
//! The database has 250 pages. Each commit writes one of them, a second after the one before it; the last one is of now. An object has some
//! 200 bytes. The folder is a vault of `seawall` and a file replica of Litestream.

#![allow(clippy::disallowed_methods, reason = "a program of the benchmarks meets the file system and the clock")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use rusqlite::Connection;
use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid};

const PAGES: usize = 250;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(objects)) = (arguments.next(), arguments.next()) else {
        return Err("usage: many_objects FOLDER OBJECTS".into());
    };
    let (folder, objects): (&Path, u64) = (folder.as_ref(), objects.parse()?);
    let database = database()?;
    let size = PageSize::new(4096).ok_or("4096 is a page size")?;
    let commit = u32::try_from(database.len() / size.bytes())?;
    let now = i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis())?;
    let pages: Vec<&[u8]> = database.chunks(size.bytes()).collect();
    for level in ["ltx/9", "ltx/0"] {
        fs::create_dir_all(folder.join(level))?;
    }
    for txid in 1..=objects {
        let behind = i64::try_from(objects - txid)? * 1000;
        let header = Header { timestamp_ms: now - behind, ..Header::new(size, commit, Txid(txid), Txid(txid)) };
        let mut file = Vec::new();
        let mut encoder = Encoder::new(header, &mut file)?;
        let level = if txid == 1 { 9 } else { 0 };
        let written =
            if txid == 1 { 0..pages.len() } else { (txid as usize % pages.len())..(txid as usize % pages.len() + 1) };
        for page in written {
            encoder.push(PageNo(u32::try_from(page + 1)?), pages[page], &mut file)?;
        }
        encoder.finish(Checksum::NONE, &mut file)?;
        fs::write(folder.join(format!("ltx/{level}/{txid:016x}-{txid:016x}.ltx")), file)?;
    }
    println!("{objects} objects of a database of {commit} pages");
    Ok(())
}

/// The bytes of a database.
fn database() -> Result<Vec<u8>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("app.db");
    let connection = Connection::open(&file)?;
    connection.execute_batch(
        "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)",
    )?;
    let mut insert = connection.prepare("INSERT INTO t (v) VALUES (zeroblob(3500))")?;
    for _ in 0..PAGES {
        insert.execute([])?;
    }
    drop(insert);
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(fs::read(file)?)
}
