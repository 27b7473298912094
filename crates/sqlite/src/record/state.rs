//! The state record: what one database's protection knows, on the local disk.
//!
//! A small JSON file, replaced as a whole. It serves `seawall status` and makes a restart cheap. Losing it loses
//! nothing: the position is derived again from the vault's newest object and the WAL.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_core::{Clock, Description, Failure, Hole, LastError, Limit, Moment, Phase, Point, Status, Steady};
use seawall_ltx::{PageSize, Txid};
use serde::{Deserialize, Serialize};

use crate::continuity::Captured;
use crate::error::Error;
use crate::files::{FileIdentity, FileState, resolved, sidecar};
use crate::identity::{Lineage, Tag, WalPosition};
use crate::lock;
use crate::moments::{Belief, Reading};
use crate::probe::Probe;
use crate::read_back;
use crate::resume::Remembered;
use crate::untouched::Noted;
use crate::wal::{Chain, HEADER_SIZE, Salts, Scan, WalHeader};

/// Everything up to here is in the vault, or synced in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) txid: Txid,
    pub(crate) moment: Moment,
    pub(crate) page_size: PageSize,
    /// Size of the database in pages.
    pub(crate) commit: u32,
    pub(crate) wal: Option<WalPosition>,
    pub(crate) file: Option<FileIdentity>,
    /// See [`Captured::state`].
    pub(crate) state: Option<FileState>,
    /// See [`Captured::held`].
    pub(crate) held: bool,
    /// The tag of the point; `None` if no object has it.
    pub(crate) tag: Option<Tag>,
}

impl Position {
    /// The position as facts for [`crate::continuity::judge`].
    pub(crate) fn captured(&self) -> Captured {
        Captured { wal: self.wal, page_size: self.page_size.get(), file: self.file, state: self.state, held: self.held }
    }

    /// The position as a point.
    pub(crate) fn point(&self) -> Point {
        Point { position: self.txid.to_string(), moment: self.moment }
    }
}

/// The format of the file; see `docs/formats.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    format: u32,
    name: String,
    source: PathBuf,
    vault: String,
    lineage: Lineage,
    phase: Phase,
    error: Option<LastError>,
    at: Moment,
    position: Option<StoredPosition>,
    #[serde(default)]
    clock: Option<StoredClock>,
    #[serde(default)]
    file: Option<Noted>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    limits: Vec<Limit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hole: Option<Hole>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    credentials_end: Option<Moment>,
}

/// The belief about the clock, and when the position was captured by the steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredClock {
    pub(crate) belief: Belief,
    pub(crate) captured: Option<Steady>,
}

impl StoredClock {
    /// How long a change that came right after the position has been waiting.
    fn waited(&self, since: Moment, now: Reading) -> Duration {
        let by_moments = self.belief.moment(now).since(since);
        let by_time = self.captured.and_then(|captured| now.steady.since(captured));
        by_time.map_or(by_moments, |passed| passed.max(by_moments))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPosition {
    txid: u64,
    moment: Moment,
    page_size: u32,
    commit: u32,
    file: Option<FileIdentity>,
    state: Option<FileState>,
    wal: Option<StoredWal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct StoredWal {
    salts: (u32, u32),
    offset: u64,
    chain: Option<(u32, u32)>,
}

/// The content of a [`Record`].
pub(crate) struct Facts<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: &'a Path,
    pub(crate) vault: &'a str,
    pub(crate) lineage: Lineage,
    pub(crate) phase: Phase,
    pub(crate) error: Option<LastError>,
    pub(crate) at: Moment,
    /// Acknowledged by the vault.
    pub(crate) position: Option<Position>,
    /// What is believed of the clock.
    pub(crate) clock: Option<StoredClock>,
    /// What is known of the database file's metadata.
    pub(crate) file: Option<Noted>,
    /// What the vault can't do.
    pub(crate) limits: Vec<Limit>,
    /// The newest hole that a protection on this machine left in the history.
    pub(crate) hole: Option<Hole>,
    /// When the credentials of the vault end.
    pub(crate) credentials_end: Option<Moment>,
}

const FORMAT: u32 = 1;

impl Record {
    /// Builds a record.
    pub(crate) fn new(facts: Facts<'_>) -> Self {
        Self {
            format: FORMAT,
            name: facts.name.to_owned(),
            source: facts.source.to_owned(),
            vault: facts.vault.to_owned(),
            lineage: facts.lineage,
            phase: facts.phase,
            error: facts.error,
            at: facts.at,
            clock: facts.clock,
            file: facts.file,
            limits: facts.limits,
            hole: facts.hole,
            credentials_end: facts.credentials_end,
            position: facts.position.map(|position| StoredPosition {
                txid: position.txid.0,
                moment: position.moment,
                page_size: position.page_size.get(),
                commit: position.commit,
                file: position.file,
                state: position.state,
                wal: position.wal.map(|wal| StoredWal {
                    salts: (wal.salts.0, wal.salts.1),
                    offset: wal.offset,
                    chain: wal.chain.map(|chain| (chain.0, chain.1)),
                }),
            }),
        }
    }

    /// What was believed of the clock.
    pub(crate) fn clock(&self) -> Option<StoredClock> {
        self.clock
    }

    /// The newest hole, if the record is about `vault`.
    pub(crate) fn hole(&self, vault: &str) -> Option<Hole> {
        self.hole.clone().filter(|_| self.vault == vault)
    }

    /// What was known of the database file's metadata, if the record is about `vault`.
    pub(crate) fn file(&self, vault: &str) -> Option<Noted> {
        self.file.filter(|_| self.vault == vault)
    }

    /// The stored position. It is never `held`: no process holds the WAL between two runs.
    fn position(&self) -> Option<Position> {
        let stored = self.position?;
        Some(Position {
            txid: Txid(stored.txid),
            moment: stored.moment,
            page_size: PageSize::new(stored.page_size)?,
            commit: stored.commit,
            wal: stored.wal.map(|wal| WalPosition {
                salts: Salts(wal.salts.0, wal.salts.1),
                offset: wal.offset,
                chain: wal.chain.map(|(a, b)| Chain(a, b)),
            }),
            file: stored.file,
            state: stored.state,
            held: false,
            tag: None,
        })
    }

    /// What is remembered of the history in `vault`; nothing if the record speaks of another vault.
    pub(crate) fn remembered(&self, vault: &str) -> Option<(Remembered, Position)> {
        let position = self.position().filter(|_| self.vault == vault)?;
        Some((Remembered { txid: position.txid, lineage: self.lineage, wal: position.wal }, position))
    }

    /// Writes the record to a state directory: a new file renamed over the old one. Not synced, because losing it
    /// loses nothing. On a full disk the old file is written over, which needs no space: a record that tells of a
    /// protection that has ended is worse than one that a crash may tear.
    pub(crate) fn save(&self, state_dir: &Path, probe: &Probe) -> Result<(), Error> {
        let path = path(state_dir);
        lock::private_dir(state_dir)?;
        let bytes = serde_json::to_vec_pretty(self).map_err(|e| Error::Internal(e.to_string()))?;
        let replace = || -> io::Result<()> {
            let partial = path.with_extension("tmp");
            probe.write(&partial)?;
            lock::private_file(&partial)?.write_all(&bytes)?;
            fs::rename(&partial, &path)
        };
        let write_over = || -> io::Result<()> {
            let file = fs::OpenOptions::new().write(true).open(&path)?;
            file.write_all_at(&bytes, 0)?;
            file.set_len(bytes.len() as u64)
        };
        match replace() {
            Err(e) if e.kind() == io::ErrorKind::StorageFull => write_over().map_err(|_| Error::io(&path)(e)),
            done => done.map_err(Error::io(&path)),
        }
    }

    /// Whether a state directory holds a record.
    pub(crate) fn is_there(state_dir: &Path) -> bool {
        fs::exists(path(state_dir)).unwrap_or(true)
    }

    /// Reads the record of a state directory; `None` when there is none or it is damaged.
    pub(crate) fn load(state_dir: &Path) -> Result<Option<Self>, Error> {
        let path = path(state_dir);
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok().filter(|record: &Self| record.format == FORMAT)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(&path)(e)),
        }
    }

    /// The status by the record, with the lag by the present WAL.
    fn status(&self, state_dir: &Path, clock: &dyn Clock) -> Status {
        let now = Reading { wall: clock.now(), steady: clock.steady() };
        let position = self.position();
        let lag_bytes = position.map_or(0, |position| lag(&self.source, &position));
        let since = position.map_or(self.at, |position| position.moment);
        let waited = self.clock.map_or_else(|| now.wall.since(since), |clock| clock.waited(since, now));
        let database = Description {
            name: self.name.clone(),
            engine: "sqlite",
            source: Some(self.source.display().to_string()),
            vault: self.vault.clone(),
        };
        let phase = if lock::is_held(state_dir) { self.phase } else { Phase::Stopped };
        let (source_bytes, log_bytes) = sizes(&self.source);
        Status {
            limits: self.limits.clone(),
            protected: position.map(|position| position.point()),
            lag_bytes,
            lag_ms: if lag_bytes == 0 { 0 } else { u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) },
            source_bytes,
            log_bytes,
            content_read_at: read_back::load(state_dir, &self.vault),
            hole: self.hole.clone(),
            credentials_end: self.credentials_end,
            error: self.error.clone(),
            ..Status::new(database, phase, now.wall)
        }
    }
}

/// The sizes of a database and of its WAL file; `None` for a file that can't be asked.
pub(crate) fn sizes(database: &Path) -> (Option<u64>, Option<u64>) {
    (size(database), size(&sidecar(database, "-wal")))
}

fn size(file: &Path) -> Option<u64> {
    fs::metadata(file).ok().map(|found| found.len())
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("state.json")
}

/// The state directory that a database has if none is set: `.<file>-seawall` beside it. Reads symbolic links, so that
/// all names of a database lead to one.
pub fn default_state_dir(database: &Path) -> PathBuf {
    let database = resolved(database);
    let mut name = std::ffi::OsString::from(".");
    name.push(database.file_name().unwrap_or_default());
    name.push("-seawall");
    database.with_file_name(name)
}

/// Whether a state directory holds the record of a database that was protected: it has a point in a vault. A record that
/// can't be read now counts as one. Blocks.
pub fn was_protected(state_dir: &Path) -> bool {
    Record::load(state_dir).map_or(true, |record| record.is_some_and(|record| record.position.is_some()))
}

/// The status of a database from its state directory and its WAL, without any running process. Blocks.
///
/// # Errors
///
/// `sqlite.no-state` when nothing was recorded there.
pub fn read_state(state_dir: &Path, clock: &dyn Clock) -> Result<Status, Failure> {
    match Record::load(state_dir)? {
        Some(record) => Ok(record.status(state_dir, clock)),
        None => Err(Failure::new(
            seawall_core::Kind::NotFound,
            "sqlite.no-state",
            state_dir.display().to_string(),
            "there is no state record",
            "start `seawall replicate` for this database, or name the state directory that it uses",
        )),
    }
}

/// The bytes that aren't in the vault. If another file has replaced the captured one, all of it.
fn lag(database: &Path, position: &Position) -> u64 {
    match (fs::metadata(database), position.file) {
        (Ok(now), Some(captured)) if FileIdentity::of(&now) != captured => now.len(),
        _ => unshipped(database, position).unwrap_or(0),
    }
}

/// Committed bytes of WAL behind the position. `None` if the WAL was restarted, or can't be read.
fn unshipped(database: &Path, position: &Position) -> Option<u64> {
    let file = fs::File::open(sidecar(database, "-wal")).ok()?;
    let mut header = [0; HEADER_SIZE as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    let header = WalHeader::parse(&header)?;
    let start = position.wal.filter(|wal| wal.salts == header.salts);
    let mut scan = match start.map(|wal| (wal.offset, wal.chain)) {
        Some((offset, Some(chain))) => Scan::new(offset, chain),
        Some((_, None)) => return None,
        None => Scan::new(HEADER_SIZE, header.chain),
    };
    let frame = usize::try_from(header.frame_size()).ok()?;
    let mut buffer = vec![0; (1 << 20) / frame * frame];
    loop {
        let length = file.read_at(&mut buffer, scan.wants()).ok()?;
        let whole = length / frame * frame;
        if whole == 0 || !scan.take(&header, &buffer[..whole], u64::MAX) {
            return Some(scan.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::SystemClock;

    use super::*;
    use crate::untouched::Untouched;

    fn reading(millis: u32) -> Reading {
        let steady = Steady { boot: 1, millis: u64::from(millis) };
        Reading { wall: Moment::from_millis(i64::from(millis)), steady }
    }

    #[test]
    fn what_waits_waits_for_as_long_as_time_passed() {
        // The wall clock and the steady one, and for how long something has been waiting since both said 5000.
        for (wall, steady, waited) in [(8000, 8000, 3000), (1000, 8000, 3000), (3_600_000, 8000, 3000)] {
            let clock = StoredClock { belief: Belief::at(reading(5000)), captured: Some(reading(5000).steady) };
            let now = Reading { wall: Moment::from_millis(wall), ..reading(steady) };
            let found = clock.waited(Moment::from_millis(5000), now);
            assert_eq!(found, Duration::from_millis(waited), "{wall} {steady}");
        }
    }

    #[test]
    fn a_record_comes_back_for_its_own_vault_only() {
        let directory = tempfile::tempdir().expect("a folder");
        let wal = WalPosition { salts: Salts(1, 2), offset: 99, chain: Some(Chain(3, 4)) };
        let position = Position {
            txid: Txid(7),
            moment: Moment::from_millis(5),
            page_size: PageSize::new(4096).expect("a page size"),
            commit: 3,
            wal: Some(wal),
            file: Some(FileIdentity { device: 1, inode: 2 }),
            state: None,
            held: true,
            tag: None,
        };
        let record = Record::new(Facts {
            name: "app",
            source: Path::new("/data/app.db"),
            vault: "file:///vault",
            lineage: Lineage::new(9),
            phase: Phase::Protecting,
            error: None,
            at: Moment::from_millis(6),
            position: Some(position),
            clock: Some(StoredClock { belief: Belief::at(reading(5)), captured: Some(reading(5).steady) }),
            file: Some(Untouched::default().noted()),
            limits: vec![Limit { lacks: "stamps".to_owned(), effect: "no times".to_owned() }],
            hole: Some(Hole { from: None, to: position.point(), reason: "it was cut".to_owned(), restored: false }),
            credentials_end: Some(Moment::from_millis(8)),
        });
        record.save(directory.path(), &Probe::default()).expect("saved");
        let read = Record::load(directory.path()).expect("read").expect("there");
        assert_eq!(read, record);
        let (remembered, found) = read.remembered("file:///vault").expect("the same vault");
        assert_eq!(found, Position { held: false, ..position });
        assert!(read.file("file:///vault").is_some() && read.file("file:///other").is_none());
        assert_eq!(remembered, Remembered { txid: Txid(7), lineage: Lineage::new(9), wal: Some(wal) });
        assert!(read.remembered("file:///other").is_none());
        let status = read_state(directory.path(), &SystemClock).expect("a status");
        assert_eq!((status.phase, status.protected), (Phase::Stopped, Some(position.point())));
        assert_eq!((&status.limits, &status.hole), (&record.limits, &record.hole));
        assert_eq!(status.credentials_end, record.credentials_end);
        assert!(read.hole("file:///vault").is_some() && read.hole("file:///other").is_none());
    }

    #[test]
    fn damage_is_as_good_as_nothing() {
        let directory = tempfile::tempdir().expect("a folder");
        for bytes in [&b""[..], b"{", b"{\"format\":1}", b"\xff"] {
            fs::write(path(directory.path()), bytes).expect("written");
            assert_eq!(Record::load(directory.path()).expect("read"), None);
        }
        assert!(read_state(directory.path(), &SystemClock).is_err());
    }
}
