//! A live database file: holds its WAL, and reads both.
//!
//! This file opens a database, and tells whether its files are still the same ones. `index` reads the wal-index, `frames`
//! reads the WAL, and `advance` moves the hold.
//!
//! All calls block and belong on the runtime's blocking pool. One [`Source`] has a [`Hold`], which keeps other processes
//! from restarting the WAL, and plain handles on the database file, its wal-index and its WAL. The handles on the database file
//! and the wal-index stay open as long as any connection: closing a handle on a file drops this process's POSIX locks on it,
//! and SQLite's are among them.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

mod advance;
mod frames;
mod index;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

pub(crate) use frames::End;
use seawall_core::Moment;
use seawall_ltx::PageSize;

use crate::connection::{connect, enter_wal_mode, pin};
use crate::error::Error;
use crate::files::{FileIdentity, FileState, read_up_to, sidecar};
use crate::grip::{Grip, Hands, is_in_use};
use crate::header::check_is_database;
use crate::hold::{Hold, KeptFiles};
use crate::identity::WalPosition;
use crate::names::{linked, mounted_elsewhere};
use crate::probe::{Probe, Step};
use crate::untouched::{Times, Untouched};

/// No SQLite database is smaller.
const SMALLEST: u64 = 512;

/// The time between two looks whether a program has locked all that it locks when it opens a database.
const OPENING: Duration = Duration::from_millis(20);

/// One look for programs that use a deleted WAL. A program that is about to open the database is taken for one of them.
pub(crate) const AT_A_GLANCE: u32 = 1;

/// As many looks as a program may take to open the database.
pub(crate) const TO_BE_SURE: u32 = 3;

/// A database that is being protected.
pub(crate) struct Source {
    path: PathBuf,
    /// The configured name of the database, if links lead from there to `path`.
    named: Option<PathBuf>,
    /// Where the file alone is mounted, when it was opened.
    mounted: Option<String>,
    /// How many names the file had at the last look.
    links: u64,
    wal_path: PathBuf,
    busy_timeout: Duration,
    /// Declared before `hands`: a connection must go first.
    hold: Hold,
    /// Whether the hold was moved behind the first frames of the generation.
    inside: bool,
    hands: Arc<Hands>,
    wal: Wal,
    index_identity: FileIdentity,
    /// Wal-indexes that were deleted while they were used.
    deleted: Vec<Arc<File>>,
    identity: FileIdentity,
    page_size: PageSize,
    /// What is known of the file's content from its outside, also for the next opening.
    untouched: Arc<Mutex<Untouched>>,
    /// Whose clock gives the file its times.
    times: Times,
    /// Whether this process held the wal-index already when the file was opened.
    was_held: bool,
    /// The captured place at the last look.
    looked_at: Option<WalPosition>,
    probe: Probe,
}

/// The WAL: a handle while it is read, and the facts by which the file under its path is recognised.
#[derive(Default)]
struct Wal {
    file: Option<Arc<File>>,
    known: Option<Known>,
}

/// Which file it is. The system gives the inode number of a deleted file to a new one. So without an open handle the time of
/// birth is needed too, which not all file systems tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    identity: FileIdentity,
    born: Option<SystemTime>,
}

impl Known {
    fn of(metadata: &Metadata) -> Self {
        Self { identity: FileIdentity::of(metadata), born: metadata.created().ok() }
    }
}

impl Source {
    /// Opens a database, puts it into WAL mode if it isn't, and takes the read lock.
    pub(crate) fn open(path: &Path, busy_timeout: Duration, kept: &mut KeptFiles, probe: Probe) -> Result<Self, Error> {
        let holding = kept.holding();
        let (identity, file) = kept.database.open(path)?;
        let page_size = check_is_database(path, &file)?;
        enter_wal_mode(path, &file, busy_timeout)?;
        let reader = connect(path, busy_timeout)?;
        probe.at(Step::Opening);
        pin(path, &reader)?;
        probe.at(Step::Opening);
        let (index_identity, index) = kept.open_index(&sidecar(path, "-shm"), identity)?;
        let found = file.metadata().map_err(Error::io(path))?;
        let hands = kept.hands(file, index);
        let was_held = holding.is_some_and(|holding| Arc::ptr_eq(&holding, &hands));
        let size = reader.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0));
        let page_size = PageSize::new(size.map_err(Error::sqlite(path))?).unwrap_or(page_size);
        let mut source = Self {
            wal_path: sidecar(path, "-wal"),
            path: path.to_owned(),
            named: None,
            mounted: mounted_elsewhere(path, &found),
            links: found.nlink(),
            busy_timeout,
            hold: Hold::of(reader, &hands, &probe, false),
            inside: false,
            hands,
            wal: Wal::default(),
            index_identity,
            deleted: kept.deleted(),
            identity,
            page_size,
            untouched: Arc::default(),
            times: times_of(path),
            was_held,
            looked_at: None,
            probe,
        };
        source.wal()?;
        source.check_identity()?;
        // A process may begin with thousands of databases, which then wait for their turn: keep no handle that isn't needed.
        source.rest();
        Ok(source)
    }

    /// A second grip on the same slot, for a successor; `None` if the system has no grips.
    pub(crate) fn held(&self) -> Option<Grip> {
        match &self.hold {
            Hold::Grip(grip) => Some(grip.again()),
            Hold::Reader(_) => None,
        }
    }

    /// Sets the configured name of the database. From now on it must lead to this file.
    pub(crate) fn named(mut self, named: Option<PathBuf>) -> Self {
        self.named = named.filter(|named| *named != self.path);
        self
    }

    /// Sets the knowledge of the file that all its openings share.
    pub(crate) fn knowing(mut self, untouched: Arc<Mutex<Untouched>>) -> Self {
        untouched.lock().unwrap_or_else(PoisonError::into_inner).open(self.was_held);
        self.untouched = untouched;
        self
    }

    /// Why there may be commits that can't be seen from here, as of the last look at the file. For `looks` see
    /// [`has_deleted_wal`](Self::has_deleted_wal).
    pub(crate) fn unseen_writers(&self, looks: u32) -> Option<Error> {
        if let Some(what) = self.mounted.clone().or_else(|| linked(self.links)) {
            return Some(Error::SeveralNames { path: self.path.clone(), what });
        }
        self.has_deleted_wal(looks).then(|| Error::DeletedWal { path: self.path.clone() })
    }

    /// Whether a program has the database open with a WAL and a wal-index that were deleted: it shares none of ours.
    ///
    /// A program that opens the database takes one lock after the other, and looks like that meanwhile. So it must look
    /// like that at each of `looks` looks: [`AT_A_GLANCE`] or [`TO_BE_SURE`].
    pub(crate) fn has_deleted_wal(&self, looks: u32) -> bool {
        let misses_a_user = |look: u32| {
            if look > 0 {
                std::thread::sleep(OPENING);
            }
            self.hands.miss_a_user()
        };
        self.deleted.iter().any(|index| is_in_use(index)) || (0..looks).all(misses_a_user)
    }

    /// The page size in bytes.
    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Which file this is.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Fails when another file, or none, is at the path of the database, its WAL or its wal-index. SQLite deletes neither the
    /// WAL nor the wal-index while we are connected. If another program did, our read lock holds nothing.
    pub(crate) fn check_identity(&mut self) -> Result<(), Error> {
        let database = self.check(&self.path, |metadata| FileIdentity::of(metadata) == self.identity)?;
        if database.len() < SMALLEST {
            return Err(self.cut_short());
        }
        if let Some(named) = &self.named {
            self.check(named, |metadata| FileIdentity::of(metadata) == self.identity)?;
        }
        self.check(&sidecar(&self.path, "-shm"), |metadata| FileIdentity::of(metadata) == self.index_identity)?;
        if let Some(known) = self.wal.known {
            self.check(&self.wal_path, |metadata| Known::of(metadata) == known)?;
        }
        self.links = database.nlink();
        Ok(())
    }

    fn check(&self, path: &Path, is_the_same: impl Fn(&Metadata) -> bool) -> Result<Metadata, Error> {
        match self.probe.read(path).and_then(|()| std::fs::metadata(path)) {
            Ok(now) if is_the_same(&now) => Ok(now),
            Ok(_) => Err(Error::Vanished { path: path.to_owned() }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::Vanished { path: path.to_owned() }),
            Err(e) => Err(Error::io(path)(e)),
        }
    }

    /// The error for a file that was cut.
    pub(crate) fn cut_short(&self) -> Error {
        // The next content of the file comes from another program.
        self.untouched().doubt();
        Error::Cut { path: self.path.clone() }
    }

    /// The open WAL.
    fn wal(&mut self) -> Result<Option<&Arc<File>>, Error> {
        if self.wal.file.is_none() {
            let vanished = || Error::Vanished { path: self.wal_path.clone() };
            match self.probe.read(&self.wal_path).and_then(|()| File::open(&self.wal_path)) {
                Ok(file) => {
                    let now = Known::of(&file.metadata().map_err(Error::io(&self.wal_path))?);
                    if self.wal.known.is_some_and(|known| known != now) {
                        return Err(vanished());
                    }
                    self.wal = Wal { file: Some(Arc::new(file)), known: Some(now) };
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.wal.known.is_some() => return Err(vanished()),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io(&self.wal_path)(e)),
            }
        }
        Ok(self.wal.file.as_ref())
    }

    /// Closes the handle on the WAL until it is needed, if the file can be recognised without it.
    pub(crate) fn rest(&mut self) {
        if self.wal.known.is_some_and(|known| known.born.is_some()) {
            self.wal.file = None;
        }
    }

    /// The probe, through which tests act.
    pub(crate) fn probe(&self) -> &Probe {
        &self.probe
    }

    fn read(&self, file: &File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.probe.read(path).and_then(|()| read_up_to(file, buffer, offset)).map_err(Error::io(path))
    }

    /// The state of the database file, if it is at rest.
    pub(crate) fn file_at_rest(&self, now: Moment) -> Result<Option<FileState>, Error> {
        let metadata = self.hands.database().metadata().map_err(Error::io(&self.path))?;
        Ok(FileState::at_rest(&metadata, self.times, now))
    }

    /// Whether something other than a checkpoint has written to the file, as of the last look.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.untouched().is_overwritten()
    }

    /// Accepts the file as written by checkpoints alone, if its last write was at `until` or earlier: a checkpoint of ours was
    /// running when an earlier process ended.
    pub(crate) fn excuse(&mut self, until: SystemTime) -> Result<(), Error> {
        let (metadata, sight) = self.outside()?;
        if metadata.modified().is_ok_and(|modified| modified <= until) {
            self.untouched().excuse(&sight);
        }
        Ok(())
    }

    fn untouched(&self) -> MutexGuard<'_, Untouched> {
        // Consistent between any two statements.
        self.untouched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the state of the file: a base of it begins now.
    pub(crate) fn begin_base(&mut self) -> Result<(), Error> {
        let (_, sight) = self.outside()?;
        self.untouched().begin_base(&sight);
        Ok(())
    }

    /// Accepts the file as it was when the base began as the captured content.
    pub(crate) fn end_base(&mut self) {
        self.untouched().end_base();
    }

    /// Fails when the file doesn't begin as a database does.
    pub(crate) fn check_header(&self) -> Result<(), Error> {
        check_is_database(&self.path, self.hands.database()).map(drop)
    }

    /// Number of pages in the database file.
    pub(crate) fn file_pages(&self) -> Result<u32, Error> {
        let size = self.hands.database().metadata().map_err(Error::io(&self.path))?.len();
        u32::try_from(size / u64::from(self.page_size.get())).map_err(|_| Error::NotADatabase {
            path: self.path.clone(),
            what: "the file is larger than a SQLite database can be",
        })
    }

    /// A damaged frame in the WAL, behind `offset`.
    pub(crate) fn damaged(&self, offset: u64) -> Error {
        Error::DamagedWal { path: self.wal_path.clone(), offset }
    }
}

impl Drop for Source {
    /// Notes the file's metadata for the next opening, while the counts of the wal-index are still valid.
    fn drop(&mut self) {
        let captured = self.looked_at;
        self.look_outside(captured.as_ref()).ok();
    }
}

/// Whose clock gives the files of a folder their times.
fn times_of(path: &Path) -> Times {
    let folder = seawall_host::folder_of(path);
    if seawall_host::tells_of_changes(folder) { Times::Own } else { Times::Foreign }
}

#[cfg(test)]
mod tests;
