//! Short-lived connections to a protected database, for what only SQLite can do.
//!
//! All calls block. Nothing of ours outlives a connection: no table, and no pragma except WAL mode itself (I10).

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags};

use crate::error::Error;
use crate::files::read_up_to;

/// A connection that leaves no trace: it never checkpoints by itself (at commit, because it never commits), and keeps the
/// WAL file at its last close. How little memory it needs is decided where SQLite is compiled (`.cargo/config.toml`).
pub(crate) fn connect(path: &Path, busy_timeout: Duration) -> Result<Connection, Error> {
    let open = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(0);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.file_control(Some("main"), FileControl::PersistWal(&mut 1))?;
        Ok(connection)
    };
    open().map_err(Error::sqlite(path))
}

/// Begins a read transaction that really reads: from now on no other process can restart or cut the WAL.
pub(crate) fn pin(path: &Path, connection: &Connection) -> Result<(), Error> {
    // A SELECT would read the whole schema into memory first, and hundreds of databases have one each.
    let begin = || {
        connection.execute_batch("BEGIN")?;
        connection.query_row("PRAGMA schema_version", [], |_| Ok(()))
    };
    begin().map_err(Error::sqlite(path))
}

/// Ends the read transaction.
pub(crate) fn unpin(path: &Path, connection: &Connection) -> Result<(), Error> {
    connection.execute_batch("COMMIT").map_err(Error::sqlite(path))
}

/// Puts a database into WAL mode if bytes 18 and 19 of its header say another mode. It uses a connection of its own and closes
/// it, because the question for the mode reads the schema into memory.
pub(crate) fn enter_wal_mode(path: &Path, file: &File, busy_timeout: Duration) -> Result<(), Error> {
    let mut versions = [0; 2];
    read_up_to(file, &mut versions, 18).map_err(Error::io(path))?;
    if versions == [2, 2] {
        return Ok(());
    }
    let connection = connect(path, busy_timeout)?;
    let mode = connection.query_row("PRAGMA journal_mode=wal", [], |row| row.get::<_, String>(0));
    if mode.map_err(Error::sqlite(path))?.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    Err(Error::NotADatabase { path: path.to_owned(), what: "the database can't be put into WAL mode" })
}

/// Whether another connection holds a lock.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
