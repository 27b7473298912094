//! A database, a vault and a clock for the tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use seawall_core::abilities::*;
use seawall_core::{
    Clock, Failure, Moment, NoProgress, Point, RestoreRequest, Restored, Shutdown, Steady, Verification, When,
};
use seawall_sqlite::{Handles, Options, Retention, Sqlite, Upkeep, Watcher, World};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{FileStore, Policy, Scheme, Store, Vault};
use tempfile::TempDir;

/// A clock that the test sets: how far it is, and how much time has passed. An engine asks it at any time, so both move at once.
#[derive(Debug)]
pub(crate) struct HandClock(Mutex<(i64, u64)>);

impl HandClock {
    fn both(&self) -> MutexGuard<'_, (i64, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn move_by(&self, wall: i64, passed: u64) {
        let mut both = self.both();
        *both = (both.0 + wall, both.1 + passed);
    }
}

impl Default for HandClock {
    fn default() -> Self {
        Self(Mutex::new((START, 1 << 40)))
    }
}

impl Clock for HandClock {
    fn now(&self) -> Moment {
        Moment::from_millis(self.both().0)
    }

    fn steady(&self) -> Steady {
        Steady { boot: 1, millis: self.both().1 }
    }
}

/// The scene of a test.
pub(crate) struct Scene {
    pub(crate) directory: TempDir,
    pub(crate) clock: Arc<HandClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) upkeep: Arc<Upkeep>,
    random: Arc<AtomicU64>,
}

pub(crate) const START: i64 = 1_800_000_000_000;

impl Scene {
    /// A folder as vault.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let store = Arc::new(FileStore::new(directory.path().join("vault")));
        Self::on(directory, store)
    }

    /// Any store as vault.
    pub(crate) fn on(directory: TempDir, store: Arc<dyn Store>) -> Self {
        Self::at(directory, Arc::default(), store)
    }

    /// Memory as vault, with the scene's own clock.
    pub(crate) fn in_memory() -> (Self, MemoryStore) {
        let clock = Arc::<HandClock>::default();
        let store = MemoryStore::with(Scheme::S3, clock.clone());
        let directory = tempfile::tempdir().expect("a folder");
        (Self::at(directory, clock, Arc::new(store.clone())), store)
    }

    /// Any store as vault, with a clock that others may share.
    pub(crate) fn at(directory: TempDir, clock: Arc<HandClock>, store: Arc<dyn Store>) -> Self {
        // At rest, so that a vault holds what the test has put there.
        let retention = Retention { enabled: false, ..Retention::default() };
        let upkeep = Arc::new(Upkeep { levels: Vec::new(), base_interval: None, retention, ..Upkeep::default() });
        Self { directory, clock, store, random: Arc::new(AtomicU64::new(1)), upkeep }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("app.db")
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path(".app.db-seawall")
    }

    /// Lets time pass.
    pub(crate) fn tick(&self, millis: i64) {
        self.clock.move_by(millis, millis.unsigned_abs());
    }

    /// Sets the clock, while no time passes.
    pub(crate) fn jump(&self, millis: i64) {
        self.clock.move_by(millis, 0);
    }

    /// What the clock says.
    pub(crate) fn clock_now(&self) -> Moment {
        self.clock.now()
    }

    pub(crate) fn vault(&self) -> Vault {
        Vault::new(self.store.clone(), Policy::default())
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            path: Some(self.database()),
            sync_interval: Duration::from_millis(10),
            checkpoint_pages: 50,
            upkeep: self.upkeep.clone(),
            ..Options::default()
        }
    }

    pub(crate) fn engine(&self) -> Sqlite {
        self.engine_with(self.options(), None)
    }

    pub(crate) fn watching(&self) -> Sqlite {
        let watcher = Watcher::start(Duration::from_millis(200)).expect("inotify");
        self.engine_with(self.options(), Some(watcher))
    }

    pub(crate) fn engine_with(&self, options: Options, watcher: Option<Watcher>) -> Sqlite {
        self.engine_on(self.vault(), options, watcher)
    }

    /// An engine with a vault of its own.
    pub(crate) fn engine_on(&self, vault: Vault, options: Options, watcher: Option<Watcher>) -> Sqlite {
        let random = self.random.clone();
        let random = Arc::new(move || {
            let n = random.fetch_add(1, Ordering::SeqCst);
            n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63
        });
        let (turns, admission) = (Default::default(), Default::default());
        Sqlite::new(
            vault,
            options,
            World { clock: self.clock.clone(), random, turns, watcher, admission, handles: Handles::default() },
        )
    }

    /// Takes a point with a fresh engine, as `--once` does.
    pub(crate) async fn point(&self) -> Point {
        self.tick(1000);
        self.engine().take_point(&Shutdown::new()).await.expect("a point")
    }

    pub(crate) async fn restore(&self, when: When) -> Result<Content, Failure> {
        let output = self.path(&format!("restored-{}.db", self.random.fetch_add(1, Ordering::SeqCst)));
        self.restore_to(&output, when).await?;
        Ok(content(&output))
    }

    pub(crate) async fn restore_to(&self, output: &Path, when: When) -> Result<Restored, Failure> {
        let request = RestoreRequest {
            output: output.to_owned(),
            when,
            force: false,
            dry_run: false,
            integrity: seawall_core::IntegrityCheck::Full,
        };
        let engine = self.engine_with(Options::default(), None);
        engine.restore(&request, Arc::new(NoProgress)).await
    }

    pub(crate) async fn verify(&self) -> Verification {
        self.engine().verify(Arc::new(NoProgress)).await.expect("a verification")
    }

    /// The application.
    pub(crate) fn app(&self) -> Connection {
        app(&self.database())
    }

    /// Names of the objects of a level, sorted.
    pub(crate) fn level(&self, level: u8) -> Vec<String> {
        names(&self.path("vault/ltx").join(level.to_string()))
    }
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

pub(crate) fn app(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("opened");
    connection.busy_timeout(Duration::from_secs(10)).expect("set");
    connection.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=normal").expect("WAL mode");
    connection
}

/// Every table's rows, as text: what a user calls the content.
pub(crate) type Content = BTreeMap<String, Vec<String>>;

/// The content of a database file.
pub(crate) fn content(path: &Path) -> Content {
    let connection = Connection::open(path).expect("opened");
    content_of(&connection)
}

/// The content of a database that passes SQLite's integrity check.
pub(crate) fn content_of(connection: &Connection) -> Content {
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(check, "ok");
    rows_of(connection)
}

/// The same, unchecked.
pub(crate) fn rows_of(connection: &Connection) -> Content {
    let mut tables =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name").expect("SQL");
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).expect("tables").collect::<Result<_, _>>().expect("names");
    let rows = |table: &String| {
        let mut rows = connection.prepare(&format!("SELECT * FROM \"{table}\" ORDER BY rowid")).expect("SQL");
        let columns = rows.column_count();
        let text = |row: &rusqlite::Row<'_>| {
            (0..columns).map(|i| row.get_ref(i).map(value_text)).collect::<Result<Vec<_>, _>>().map(|v| v.join("|"))
        };
        rows.query_map([], text).expect("rows").collect::<Result<Vec<String>, _>>().expect("values")
    };
    tables.iter().map(|table| (table.clone(), rows(table))).collect()
}

/// A value for comparisons: long blobs by their hash.
fn value_text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Blob(bytes) => format!("{} bytes {:016x}", bytes.len(), seawall_ltx::crc64(bytes)),
        other => format!("{other:?}"),
    }
}

pub(crate) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v BLOB);";

pub(crate) fn insert(connection: &Connection, rows: u32, bytes: u32) {
    connection.execute_batch("BEGIN").expect("begun");
    for _ in 0..rows {
        connection.execute("INSERT INTO t(v) VALUES(randomblob(?))", [bytes]).expect("inserted");
    }
    connection.execute_batch("COMMIT").expect("committed");
}

/// As [`insert`], beside an engine that runs on the thread of this test. The engine lets go of a lock on that thread, so a
/// writer that waited on it would wait for itself.
pub(crate) async fn insert_beside(connection: &Connection, rows: u32, bytes: u32) {
    connection.busy_timeout(Duration::ZERO).expect("set");
    until("the write lock", async || match connection.execute_batch("BEGIN IMMEDIATE") {
        Ok(()) => true,
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => false,
        Err(e) => panic!("begun: {e}"),
    })
    .await;
    for _ in 0..rows {
        connection.execute("INSERT INTO t(v) VALUES(randomblob(?))", [bytes]).expect("inserted");
    }
    connection.execute_batch("COMMIT").expect("committed");
    connection.busy_timeout(Duration::from_secs(10)).expect("set");
}

/// Waits until `holds`, with a deadline.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(in_time.is_ok(), "waited in vain until {what}");
}
