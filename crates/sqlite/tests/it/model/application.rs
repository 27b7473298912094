//! The application of the model: everything that applications do to a database, and a record of every state of it.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::ffi::SQLITE_IOERR_DELETE_NOENT;
use rusqlite::{Connection, FileControl};

use super::history::{Records, State};
use crate::world::rows_of;

const SCHEMA: &str = "
    BEGIN IMMEDIATE;
    CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);
    CREATE INDEX t_v ON t(substr(v, 1, 8));
    CREATE TABLE state(one INTEGER PRIMARY KEY CHECK (one = 1), n INTEGER NOT NULL);
    INSERT INTO state VALUES (1, 0);
    COMMIT;";

const MODES: [&str; 4] = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"];

/// Where the WAL ended after a commit.
struct Mark {
    state: State,
    end: u64,
    header: Vec<u8>,
    file: u64,
}

/// The application, with one connection.
pub(crate) struct Application {
    path: PathBuf,
    rng: fastrand::Rng,
    connection: Option<Connection>,
    /// A second connection that reads.
    reader: Option<Connection>,
    records: Records,
    marks: Vec<Mark>,
    /// Whether the file system tells times so coarsely that all commits seem to be of one moment.
    coarse_times: bool,
}

impl Application {
    pub(crate) fn new(path: &Path, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut app = Self {
            path: path.to_owned(),
            coarse_times: rng.bool(),
            rng,
            connection: None,
            reader: None,
            records: Records::default(),
            marks: Vec::new(),
        };
        app.create(path);
        app.open();
        app.commit(Duration::ZERO, 1..4);
        app
    }

    /// What the database was until now.
    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("it is open")
    }

    /// Makes a database file with tables in it.
    fn create(&mut self, path: &Path) {
        let mut connection = Connection::open(path).expect("opened");
        let page_size = 512 << self.rng.u32(0..8);
        let auto_vacuum = self.rng.u8(0..3);
        let schema = format!("PRAGMA page_size={page_size}; PRAGMA auto_vacuum={auto_vacuum}; {SCHEMA}");
        while let Err(error) = connection.execute_batch(&schema) {
            // The engine is in the same process: when it closes the file, POSIX takes our locks away too, and its
            // connection may clear our journal. Without a journal the transaction is committed.
            assert_eq!(
                error.sqlite_error().map(|error| error.extended_code),
                Some(SQLITE_IOERR_DELETE_NOENT),
                "{error}"
            );
            connection = Connection::open(path).expect("opened");
            if connection.query_row("SELECT 1 FROM state", [], |_| Ok(())).is_ok() {
                break;
            }
        }
        if self.rng.bool() {
            connection.execute_batch("PRAGMA journal_mode=wal").expect("WAL mode");
        }
        self.records.add(0, rows_of(&connection));
    }

    fn open(&mut self) {
        let connection = Connection::open(&self.path).expect("opened");
        connection.execute_batch("PRAGMA synchronous=off; PRAGMA cache_size=20; PRAGMA cache_spill=10").expect("set");
        if self.rng.u8(0..10) > 0 {
            // It may be refused, by a reader of the engine.
            let _ = connection.query_row("PRAGMA journal_mode=wal", [], |_| Ok(()));
        }
        let limit = [-1, 0, 20_000][self.rng.usize(0..3)];
        let checkpoint = [1000, 0, 10][self.rng.usize(0..3)];
        let limits = format!("PRAGMA journal_size_limit={limit}; PRAGMA wal_autocheckpoint={checkpoint}");
        connection.execute_batch(&limits).expect("set");
        self.connection = Some(connection);
    }

    /// Does something at random; answers what, for the log. While `alone`, no engine has the database open.
    pub(crate) fn act(&mut self, alone: bool) -> String {
        match self.rng.u8(0..100) {
            0..48 => self.commit(Duration::from_millis(5), 0..12),
            48..52 => self.roll_back(),
            52..56 => self.begin(),
            56..68 => self.checkpoint(),
            68..72 => self.vacuum(),
            72..75 => self.incremental_vacuum(),
            75..79 => self.read(),
            79..84 => self.restart(),
            84..87 => self.leave_wal_mode(alone),
            87..90 => self.change_page_size(),
            90..93 => self.delete_and_create(),
            93..96 => self.replace_by_rename(),
            _ if alone => self.lose_power(),
            _ => self.commit(Duration::ZERO, 0..3),
        }
    }

    /// Commits something, whatever is open.
    pub(crate) fn commit_now(&mut self) {
        self.settle();
        self.commit(Duration::from_secs(10), 1..4);
    }

    /// Does something small while an engine is between two steps.
    pub(crate) fn interfere(&mut self) -> String {
        match self.rng.u8(0..10) {
            0..6 => self.commit(Duration::ZERO, 0..4),
            6..9 => self.checkpoint(),
            _ => self.roll_back(),
        }
    }

    /// One transaction with so many changes.
    fn commit(&mut self, patience: Duration, changes: Range<u32>) -> String {
        self.connection().busy_timeout(patience).expect("set");
        if self.connection().is_autocommit() && self.connection().execute_batch("BEGIN IMMEDIATE").is_err() {
            return "commit: busy".to_owned();
        }
        let changes = self.rng.u32(changes);
        (0..changes).for_each(|_| self.change());
        self.end()
    }

    fn change(&mut self) {
        let id = self.rng.u32(1..120);
        let bytes = match self.rng.u8(0..100) {
            0..2 => self.rng.u32(100_000..400_000),
            2..20 => self.rng.u32(1000..20_000),
            _ => self.rng.u32(0..400),
        };
        let mut noise = vec![0; bytes as usize];
        self.rng.fill(&mut noise);
        let kind = self.rng.u8(0..10);
        let db = self.connection();
        let done = match kind {
            0..2 => db.execute("DELETE FROM t WHERE id BETWEEN ?1 AND ?1 + 10", [id]),
            2..4 => db.execute("UPDATE t SET v = ?2 WHERE id = ?1", (id, noise)),
            _ => db.execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", (id, noise)),
        };
        done.expect("changed");
    }

    /// Ends a transaction with a new state.
    fn end(&mut self) -> String {
        let state = self.records.next();
        let db = self.connection();
        db.execute("UPDATE state SET n = ?1", [state as i64]).expect("counted");
        let record = rows_of(db);
        if let Err(error) = db.execute_batch("COMMIT") {
            db.execute_batch("ROLLBACK").expect("rolled back");
            return format!("commit: {error}");
        }
        self.records.add(state, record);
        if self.coarse_times
            && let Ok(wal) = OpenOptions::new().write(true).open(self.sidecar("-wal"))
        {
            wal.set_modified(SystemTime::UNIX_EPOCH).expect("set");
        }
        self.mark();
        format!("commit {state}")
    }

    /// Leaves a transaction open, for the next commit to finish.
    fn begin(&mut self) -> String {
        if !self.connection().is_autocommit() || self.connection().execute_batch("BEGIN IMMEDIATE").is_err() {
            return "begin: busy".to_owned();
        }
        self.change();
        "begin".to_owned()
    }

    /// Ends open transactions.
    pub(crate) fn settle(&mut self) {
        self.reader = None;
        self.end_open_transaction();
    }

    fn end_open_transaction(&mut self) {
        if !self.connection().is_autocommit() {
            self.end();
        }
    }

    /// A transaction larger than the cache, whose frames get into the WAL and are no commit.
    fn roll_back(&mut self) -> String {
        if self.connection().is_autocommit() && self.connection().execute_batch("BEGIN IMMEDIATE").is_err() {
            return "roll back: busy".to_owned();
        }
        (0..6).for_each(|_| self.change());
        self.connection().execute_batch("ROLLBACK").expect("rolled back");
        "roll back".to_owned()
    }

    fn checkpoint(&mut self) -> String {
        let mode = MODES[self.rng.usize(0..4)];
        let db = self.connection();
        db.busy_timeout(Duration::ZERO).expect("set");
        let done = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get::<_, i64>(0));
        format!("checkpoint {mode}: {done:?}")
    }

    fn vacuum(&mut self) -> String {
        self.end_open_transaction();
        let auto_vacuum = self.rng.u8(0..3);
        let done = self.connection().execute_batch(&format!("PRAGMA auto_vacuum={auto_vacuum}; VACUUM"));
        format!("vacuum: {done:?}")
    }

    fn incremental_vacuum(&mut self) -> String {
        format!("incremental vacuum: {:?}", self.connection().execute_batch("PRAGMA incremental_vacuum(7)"))
    }

    /// Begins or ends a long read.
    fn read(&mut self) -> String {
        if self.reader.take().is_some() {
            return "reader ends".to_owned();
        }
        let reader = Connection::open(&self.path).expect("opened");
        let begun = reader.execute_batch("BEGIN; SELECT count(*) FROM t");
        self.reader = begun.is_ok().then_some(reader);
        "reader begins".to_owned()
    }

    fn close(&mut self) {
        self.reader = None;
        if self.connection.is_some() {
            self.end_open_transaction();
        }
        self.connection = None;
    }

    /// Its last connection makes a checkpoint and deletes the WAL, if there is no engine.
    fn restart(&mut self) -> String {
        self.close();
        self.open();
        "restart".to_owned()
    }

    /// Commits with a rollback journal, if the engine lets it.
    fn leave_wal_mode(&mut self, alone: bool) -> String {
        self.reader = None;
        self.end_open_transaction();
        let left = self.connection().query_row("PRAGMA journal_mode=delete", [], |row| row.get::<_, String>(0));
        let commit = self.commit(Duration::ZERO, 0..5);
        if !alone || self.rng.bool() {
            let _ = self.connection().query_row("PRAGMA journal_mode=wal", [], |_| Ok(()));
        }
        format!("journal mode: {left:?}, {commit}")
    }

    fn change_page_size(&mut self) -> String {
        self.reader = None;
        self.end_open_transaction();
        let page_size = 512 << self.rng.u32(0..8);
        let db = self.connection();
        let done = db.execute_batch(&format!("PRAGMA journal_mode=delete; PRAGMA page_size={page_size}; VACUUM"));
        let _ = self.connection().query_row("PRAGMA journal_mode=wal", [], |_| Ok(()));
        format!("page size {page_size}: {done:?}")
    }

    fn delete_and_create(&mut self) -> String {
        self.close();
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let _may_be_absent = fs::remove_file(self.sidecar(suffix));
        }
        let path = self.path.clone();
        self.create(&path);
        self.open();
        format!("delete and create, {}", self.commit(Duration::ZERO, 1..5))
    }

    fn replace_by_rename(&mut self) -> String {
        self.end_open_transaction();
        let incoming = self.path.with_extension("incoming");
        let _may_be_absent = fs::remove_file(&incoming);
        // Another process may have the database open just then.
        if let Err(error) = self.connection().execute("VACUUM INTO ?1", [incoming.to_str().expect("text")]) {
            return format!("replace by rename: {error}");
        }
        self.close();
        for suffix in ["-wal", "-shm"] {
            let _may_be_absent = fs::remove_file(self.sidecar(suffix));
        }
        fs::rename(&incoming, &self.path).expect("renamed");
        self.open();
        format!("replace by rename, {}", self.commit(Duration::ZERO, 0..5))
    }

    /// The machine loses its power, and with it the commits in the WAL that weren't synced.
    fn lose_power(&mut self) -> String {
        let (file, header) = (self.file_hash(), self.wal_header());
        // A checkpoint syncs the WAL first, so nothing that was copied is lost.
        self.marks.retain(|mark| mark.file == file && Some(&mark.header) == header.as_ref());
        if self.marks.is_empty() {
            return "power: nothing to lose".to_owned();
        }
        let mark = self.marks.swap_remove(self.rng.usize(0..self.marks.len()));
        // Later commits never happened: others will be at these places.
        self.marks.retain(|other| other.end < mark.end);
        self.reader = None;
        let connection = self.connection.take().expect("it is open");
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("set");
        connection.file_control(Some("main"), FileControl::PersistWal(&mut 1)).expect("set");
        drop(connection);
        let _may_be_absent = fs::remove_file(self.sidecar("-shm"));
        let wal = OpenOptions::new().write(true).open(self.sidecar("-wal")).expect("opened");
        let length = wal.metadata().expect("there").len();
        if self.rng.bool() {
            wal.set_len(mark.end).expect("cut");
        } else {
            wal.write_all_at(&vec![0; (length - mark.end) as usize], mark.end).expect("never written");
        }
        self.open();
        self.records.go_back(mark.state);
        assert_eq!(&rows_of(self.connection()), self.records.present().1, "the model's own power cut");
        format!("power: back to {}", mark.state)
    }

    fn wal_header(&self) -> Option<Vec<u8>> {
        fs::read(self.sidecar("-wal")).ok().and_then(|wal| wal.get(..32).map(<[u8]>::to_vec))
    }

    /// Keeps in mind where the WAL ends now: the fifth number of its index counts frames.
    fn mark(&mut self) {
        if self.rng.u8(0..3) > 0 {
            return;
        }
        let (Some(header), Ok(index)) = (self.wal_header(), fs::read(self.sidecar("-shm"))) else { return };
        let frames = index.get(16..20).map_or(0, |word| u32::from_ne_bytes(word.try_into().expect("four")));
        let page_size = u32::from_be_bytes(header[8..12].try_into().expect("four"));
        if frames == 0 || index.get(32..40) != Some(&header[16..24]) {
            return;
        }
        let end = 32 + u64::from(frames) * (24 + u64::from(page_size));
        self.marks.push(Mark { state: self.records.present().0, end, header, file: self.file_hash() });
        if self.marks.len() > 4 {
            self.marks.remove(0);
        }
    }

    fn sidecar(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    fn file_hash(&self) -> u64 {
        seawall_ltx::crc64(&fs::read(&self.path).unwrap_or_default())
    }
}
