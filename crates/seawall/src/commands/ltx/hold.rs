//! A read lock on a database. While it is held, the content that a reader sees doesn't change.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, FileControl, OpenFlags};
use seawall_core::{Failure, Kind};
use seawall_ltx::file::FileError;

use super::failure;

/// How long to wait for a writer that keeps readers out.
const BUSY: Duration = Duration::from_secs(10);

/// A read transaction.
#[derive(Debug)]
pub(super) struct Hold(#[expect(dead_code, reason = "held for what its drop does")] Connection);

impl Hold {
    /// Takes the lock if the file is a database. Otherwise returns `None`, and the reader reports the error.
    pub(super) fn take(path: &Path) -> Result<Option<Self>, Failure> {
        let mut magic = [0; 16];
        let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic));
        if read.is_err() || &magic != b"SQLite format 3\0" {
            return Ok(None);
        }
        let opened = begin(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
        // Where nothing can be written, a reader may still be let in.
        let held = opened.or_else(|first| begin(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|_| first));
        held.map(|connection| Some(Self(connection))).map_err(|error| {
            let what = match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => Some("SQLite says that it is no database"),
                Some(ErrorCode::DatabaseCorrupt) => Some("SQLite says that it is damaged"),
                _ => None,
            };
            if let Some(what) = what {
                return failure::plain(&FileError::Database { path: path.to_owned(), what });
            }
            Failure::new(
                Kind::Unavailable,
                "ltx.no-lock",
                path.display().to_string(),
                format!("no read lock can be had: {error}"),
                "try again, or add --no-lock if no process writes to it",
            )
        })
    }
}

/// A connection that leaves no trace, in a transaction that really reads.
fn begin(path: &Path, mode: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.file_control(Some("main"), FileControl::PersistWal(&mut 1))?;
    connection.execute_batch("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1")?;
    Ok(connection)
}
