//! A database file that follows a vault while SQLite's readers have it open.
//!
//! The file is a database in rollback-journal mode, and a step changes it as SQLite does. The pages that a step
//! overwrites are first saved in a journal. SQLite takes the exclusive lock for us, which keeps readers out. Then the
//! journal gets its name, the pages are written and synced, and removing the journal is the commit. A reader sees the
//! state before or after a step. So does a reader that opens the database after a crash, because SQLite plays the
//! journal back.
//!
//! The lock is held only for the writing. It can't be had while a reader is inside a transaction; new readers wait only
//! for the time of one attempt.
//!
//! Closing any handle on the file would drop every lock of this process. So there is one handle, open for as long as
//! SQLite's.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use seawall_ltx::file::{FileError, Journal};
use seawall_ltx::{PageNo, PageSize};

use crate::assemble::{Assembly, PageBits};
use crate::error::Error;
use crate::files::FileIdentity;

/// How much is read and written at once.
const PIECE: usize = 1 << 20;

/// The part of the first page that SQLite keeps for itself.
const HEAD: usize = 100;

/// The database.
pub(crate) struct Standby {
    path: PathBuf,
    /// Declared before `file`: the connection must go first.
    connection: Connection,
    file: File,
    identity: FileIdentity,
    page_size: PageSize,
    pages: u32,
    counter: u32,
}

/// A step whose pages are known and saved, and which no reader sees yet.
pub(crate) struct Prepared {
    journal: Journal,
    changed: PageBits,
    assembly: Assembly,
    counter: u32,
}

impl Prepared {
    /// Gives it up.
    pub(crate) fn discard(self) {
        self.journal.discard();
    }
}

impl Standby {
    /// Opens a database that a follower made. SQLite undoes a step that a crash interrupted. Blocks.
    pub(crate) fn open(path: &Path, patience: Duration) -> Result<Self, Error> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(Error::io(path))?;
        let identity = FileIdentity::of(&file.metadata().map_err(Error::io(path))?);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(Error::sqlite(path))?;
        connection.execute_batch("PRAGMA cache_size = 8").map_err(Error::sqlite(path))?;
        let page_size = PageSize::new(512).ok_or_else(|| Error::Internal("512 is a page size".to_owned()))?;
        let path = path.to_owned();
        let mut standby = Self { path, connection, file, identity, page_size, pages: 0, counter: 0 };
        let Head { page_size, pages, counter } = standby.settled_head(patience)?;
        (standby.page_size, standby.pages, standby.counter) = (page_size, pages, counter);
        Ok(standby)
    }

    /// Reads the first page after the journal was played back. Readers don't matter for it.
    fn settled_head(&self, patience: Duration) -> Result<Head, Error> {
        let read = || {
            self.connection.busy_timeout(patience)?;
            self.connection.execute_batch("BEGIN")?;
            self.connection.query_row("PRAGMA schema_version", [], |_| Ok(()))
        };
        let read = read().map_err(Error::sqlite(&self.path));
        let head = read.and_then(|()| self.head());
        drop(Hold(&self.connection));
        head
    }

    /// The counter of this state, which no other state has.
    pub(crate) fn counter(&self) -> u32 {
        self.counter
    }

    /// Finds the pages that a step changes, and saves their old content. Readers continue. Blocks.
    pub(crate) fn prepare(&self, assembly: Assembly, counter: u32) -> Result<Prepared, Error> {
        let same_size = assembly.page_size() == self.page_size;
        if !same_size && !assembly.is_complete() {
            let what = "the vault's page size changed, and not all pages are there".to_owned();
            return Err(Error::Corrupt { object: self.path.display().to_string(), what });
        }
        let changed = if same_size { self.differing(&assembly)? } else { all(assembly.commit()) };
        let kept = if same_size { assembly.commit() } else { 0 };
        let overwritten = changed.iter().filter(|page| page.0 <= self.pages.min(kept));
        let cut = (kept.saturating_add(1)..=self.pages).map(PageNo);
        let journal = Journal::prepare(&self.file, &self.path, self.page_size, self.pages, overwritten.chain(cut));
        Ok(Prepared { journal: journal.map_err(from_file)?, changed, assembly, counter })
    }

    /// The pages that a step really changes, the first one among them.
    fn differing(&self, assembly: &Assembly) -> Result<PageBits, Error> {
        let mut changed = PageBits::new(assembly.commit());
        changed.insert(PageNo(1));
        let size = self.page_size.bytes();
        let (mut old, mut new) = (vec![0; size], vec![0; size]);
        for page in assembly.touched() {
            let at = offset(page, self.page_size);
            let same = page.0 <= self.pages
                && page.0 <= assembly.commit()
                && self.file.read_exact_at(&mut old, at).is_ok()
                && assembly.file().read_exact_at(&mut new, at).is_ok()
                && old == new;
            if !same {
                changed.insert(page);
            }
        }
        Ok(changed)
    }

    /// Makes a step visible, at once and durably. Returns the step if readers blocked it for `patience`. After an error
    /// the database is as it was. Blocks.
    pub(crate) fn commit(&mut self, mut step: Prepared, patience: Duration) -> Result<Option<Prepared>, Error> {
        let hold = match self.hold(patience) {
            Ok(hold) => hold,
            Err(error) if is_busy(&error) => return Ok(Some(step)),
            Err(error) => {
                step.journal.discard();
                return Err(error);
            }
        };
        if let Err(error) = self.check_untouched().and_then(|()| step.journal.arm().map_err(from_file)) {
            step.journal.discard();
            return Err(error);
        }
        let Prepared { journal, changed, assembly, counter } = step;
        if let Err(error) = self.write(&changed, &assembly, counter) {
            journal.roll_back(&self.file, &self.path).map_err(from_file)?;
            return Err(error);
        }
        journal.commit(&self.file, &self.path).map_err(from_file)?;
        drop(hold);
        (self.page_size, self.pages, self.counter) = (assembly.page_size(), assembly.commit(), counter);
        Ok(None)
    }

    /// Checks that no other program has written, and that it is still the file under this name.
    fn check_untouched(&self) -> Result<(), Error> {
        let there = fs::metadata(&self.path).is_ok_and(|found| FileIdentity::of(&found) == self.identity);
        if !there {
            return Err(Error::Vanished { path: self.path.clone() });
        }
        let head = self.head()?;
        if (head.counter, head.pages) != (self.counter, self.pages) {
            return Err(Error::Diverged { path: self.path.clone() });
        }
        Ok(())
    }

    fn write(&self, changed: &PageBits, assembly: &Assembly, counter: u32) -> Result<(), Error> {
        let page_size = assembly.page_size();
        let size = page_size.bytes();
        let write = || -> io::Result<()> {
            let mut buffer = vec![0; (PIECE / size).max(1) * size];
            let mut pages = changed.iter().peekable();
            while let Some(first) = pages.next() {
                let mut count = 1;
                while count < buffer.len() / size && pages.next_if_eq(&PageNo(first.0 + count as u32)).is_some() {
                    count += 1;
                }
                let run = &mut buffer[..count * size];
                let at = offset(first, page_size);
                // A first page that the step doesn't hold stays, but for its counter.
                let holds = first.0 != 1 || assembly.touched().next() == Some(PageNo(1));
                let (source, kept) = run.split_at_mut(if holds { 0 } else { size });
                self.file.read_exact_at(source, at)?;
                assembly.file().read_exact_at(kept, at + source.len() as u64)?;
                if first.0 == 1 {
                    stamp(run, assembly.commit(), counter);
                }
                self.file.write_all_at(run, at)?;
            }
            self.file.set_len(u64::from(assembly.commit()) * u64::from(page_size.get()))
        };
        write().map_err(Error::io(&self.path))
    }

    /// Takes SQLite's exclusive lock. Taking it undoes a step that a crash interrupted.
    fn hold(&self, patience: Duration) -> Result<Hold<'_>, Error> {
        self.connection.busy_timeout(patience).map_err(Error::sqlite(&self.path))?;
        self.connection.execute_batch("BEGIN EXCLUSIVE").map_err(Error::sqlite(&self.path))?;
        Ok(Hold(&self.connection))
    }

    fn head(&self) -> Result<Head, Error> {
        let mut bytes = [0; HEAD];
        self.file.read_exact_at(&mut bytes, 0).map_err(Error::io(&self.path))?;
        let len = self.file.metadata().map_err(Error::io(&self.path))?.len();
        Head::parse(&bytes, len).ok_or_else(|| Error::Diverged { path: self.path.clone() })
    }
}

/// A lock that SQLite holds for us, until dropped.
struct Hold<'a>(&'a Connection);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        // SQLite changed nothing, so there is nothing to undo that could fail. The lock is released in any case.
        let _locks_only = self.0.execute_batch("ROLLBACK");
    }
}

/// The facts in the first page of a follower's database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    page_size: PageSize,
    pages: u32,
    counter: u32,
}

impl Head {
    /// `None` for a page that no follower made: in WAL mode, or with two different counters.
    fn parse(bytes: &[u8; HEAD], len: u64) -> Option<Self> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        let size = word(16)? >> 16;
        let page_size = PageSize::new(if size == 1 { PageSize::MAX } else { size })?;
        let (counter, pages) = (word(24)?, word(28)?);
        let whole = u64::from(pages) * u64::from(page_size.get()) == len;
        (bytes[18..20] == [1, 1] && word(92)? == counter && whole).then_some(Self { page_size, pages, counter })
    }
}

/// Makes a first page that of a follower's database: rollback-journal mode, with counter and size set so that SQLite
/// trusts them.
pub(crate) fn stamp(page: &mut [u8], pages: u32, counter: u32) {
    if let Some(head) = page.first_chunk_mut::<HEAD>() {
        head[18..20].copy_from_slice(&[1, 1]);
        head[24..28].copy_from_slice(&counter.to_be_bytes());
        head[28..32].copy_from_slice(&pages.to_be_bytes());
        head[92..96].copy_from_slice(&counter.to_be_bytes());
    }
}

/// As [`stamp`], in a file that is being built.
pub(crate) fn stamp_file(file: &File, pages: u32, counter: u32) -> io::Result<()> {
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0)?;
    stamp(&mut head, pages, counter);
    file.write_all_at(&head, 0)
}

fn all(pages: u32) -> PageBits {
    let mut all = PageBits::new(pages);
    for page in 1..=pages {
        all.insert(PageNo(page));
    }
    all
}

fn offset(page: PageNo, size: PageSize) -> u64 {
    u64::from(page.0.saturating_sub(1)) * u64::from(size.get())
}

fn from_file(error: FileError) -> Error {
    match error {
        FileError::Io { path, source } => Error::Io { path, source },
        other => Error::Internal(other.to_string()),
    }
}

fn is_busy(error: &Error) -> bool {
    match error {
        Error::Sqlite { source, .. } => {
            matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
        }
        _ => false,
    }
}
