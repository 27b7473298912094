//! Connections of the SQLite that is linked here, for databases that may be hostile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection as Sqlite, OpenFlags};
use seawall_core::{Failure, Kind, Moment};
use seawall_sqlite::{Snapshot, View, longest_value};
use tokio::runtime::Handle;

use crate::api::Api;
use crate::connection::{Connection, Trouble};
use crate::live::Live;
use crate::vfs::{Open, register};

/// The name of the file system, for this library alone.
const NAME: &str = "seawall-view";

/// Databases that SQLite is about to open, by their names.
static WAITING: OnceLock<Mutex<HashMap<String, Connection>>> = OnceLock::new();
static REGISTERED: OnceLock<Result<(), i32>> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Bytes of memory that SQLite may take for queries: for what it sorts and joins, and for values.
const MOST_MEMORY: i64 = 512 << 20;

struct Waiting;

impl Open for Waiting {
    fn open(&self, name: &str, _parameter: &dyn Fn(&str) -> Option<String>) -> Result<Connection, Failure> {
        waiting().lock().unwrap_or_else(PoisonError::into_inner).remove(name).ok_or_else(|| {
            let next = "name no other database: a view is opened alone";
            Failure::new(Kind::Refused, "view.other-database", name, "it is no database of this view", next)
        })
    }

    fn failed(&self, failure: &Failure) {
        tracing::debug!(code = failure.code, "{failure}");
    }
}

fn waiting() -> &'static Mutex<HashMap<String, Connection>> {
    WAITING.get_or_init(Mutex::default)
}

/// A point of a view that is open.
#[derive(Debug)]
pub struct Opened {
    sqlite: Sqlite,
    trouble: Trouble,
}

impl Opened {
    /// The connection.
    pub fn sqlite(&self) -> &Sqlite {
        &self.sqlite
    }

    /// Why a read of the vault failed, if one did: SQLite says no more than that.
    pub fn trouble(&self) -> Option<Failure> {
        self.trouble.last()
    }
}

/// Opens one point of a view for queries. Its schema may be hostile: nothing that it defines runs with more rights than a
/// query, no other file is opened but SQLite's own temporary ones, and nothing is written. `runtime` makes the requests, and the thread
/// that uses the connection must not be one of its own workers.
///
/// # Errors
/// SQLite's, as when the first page is no database, with the failure of the vault behind it, if there was one.
pub fn open(
    view: &View,
    snapshot: &Arc<Snapshot>,
    runtime: &Handle,
) -> Result<Opened, Box<(rusqlite::Error, Option<Failure>)>> {
    if let Err(code) = REGISTERED.get_or_init(|| register(Api::linked(), NAME, Box::new(Waiting))) {
        return Err(Box::new((rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(*code), None), None)));
    }
    let live = Live::new(view.clone(), runtime.clone(), Duration::MAX);
    let connection = Connection::at(live, snapshot.clone(), Moment::default);
    let trouble = connection.trouble_to_come();
    let name = format!("view-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    waiting().lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), connection);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Sqlite::open_with_flags_and_vfs(&name, flags, NAME);
    waiting().lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
    // SQLite reads the first page when it opens a database, so the vault may have failed already.
    let hardened = opened.and_then(|sqlite| {
        harden(&sqlite, u64::from(snapshot.pages()) * u64::from(snapshot.page_size()))?;
        Ok(sqlite)
    });
    match hardened {
        Ok(sqlite) => Ok(Opened { sqlite, trouble }),
        Err(error) => Err(Box::new((error, trouble.last()))),
    }
}

/// Takes every right from a connection that a query of a database of `bytes` bytes doesn't need.
fn harden(connection: &Sqlite, bytes: u64) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest_value(bytes))?;
    // Of a hostile view: no file of any size in the folder for temporary files, and no more memory than this.
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "hard_heap_limit", MOST_MEMORY)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cell_size_check", true)
}
