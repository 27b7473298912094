//! A rollback journal in SQLite's own format: it makes a change of many pages in place atomic.
//!
//! The journal holds the pages that are going to be overwritten or cut off, and the size that the database had. It is
//! durable before the first of these pages is touched. Deleting it is the commit. After a crash in between, the next
//! program that opens the database with SQLite finds the journal and plays it back. After a failure [`Journal`] plays
//! it back itself.
//!
//! The journal is made under a name that SQLite doesn't look at, while readers still read. Arming it gives it the name
//! that SQLite looks for. A crash before that leaves `<database>-journal.tmp`, which the next journal replaces. Source:
//! the chapter "Rollback Journal Format" of SQLite's file format.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::file::database::{PIECE, sidecar};
use crate::file::decode::offset;
use crate::file::error::{FileError, Result};
use crate::file::replace::sync_folder;
use crate::{PageNo, PageSize};

const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The header fills a sector of this size.
const SECTOR: usize = 512;
/// Any number: it distinguishes the records of one journal from remnants of another.
const NONCE: u32 = 0x5ea3_a11d;

/// A journal. Once it is armed, its database may be changed.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE t(x)")?;
/// use std::os::unix::fs::FileExt;
/// use seawall_ltx::file::Journal;
/// use seawall_ltx::{PageNo, PageSize};
///
/// let before = std::fs::read(&path)?;
/// let database = std::fs::OpenOptions::new().read(true).write(true).open(&path)?;
/// let size = PageSize::new(4096).unwrap();
/// let journal = Journal::begin(&database, &path, size, 2, [PageNo(2)].into_iter())?;
/// database.write_all_at(&[7; 4096], 4096)?; // whatever happens now, SQLite finds page 2 in the journal
/// journal.roll_back(&database, &path)?; // or commit
/// assert!(std::fs::read(&path)? == before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Journal {
    /// Its present path.
    path: PathBuf,
    /// The path where SQLite looks for it.
    armed: PathBuf,
    file: File,
    page_size: PageSize,
    /// The size of the database before the change, in pages.
    pages: u32,
    records: u32,
}

impl Journal {
    /// Saves pages of a database, durably, and arms the journal.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]; then no journal is left.
    pub fn begin(
        database: &File,
        path: &Path,
        page_size: PageSize,
        pages: u32,
        saved: impl Iterator<Item = PageNo>,
    ) -> Result<Journal> {
        let mut journal = Journal::prepare(database, path, page_size, pages, saved)?;
        match journal.arm() {
            Ok(()) => Ok(journal),
            Err(error) => {
                // Nothing was changed yet.
                let _ = fs::remove_file(&journal.path);
                Err(error)
            }
        }
    }

    /// Saves pages of the database at `path`, which has `pages` pages, durably. SQLite doesn't see the journal before
    /// [`Journal::arm`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let database = folder.path().join("app.db");
    /// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
    /// use std::os::unix::fs::FileExt;
    /// use seawall_ltx::file::Journal;
    /// use seawall_ltx::{PageNo, PageSize};
    ///
    /// let file = std::fs::OpenOptions::new().read(true).write(true).open(&database)?;
    /// let (size, page) = (PageSize::new(4096).unwrap(), [PageNo(2)]);
    /// let mut journal = Journal::prepare(&file, &database, size, 2, page.into_iter())?; // while others still read
    /// journal.arm()?;
    /// file.write_all_at(&[0; 4096], 4096)?;
    /// journal.commit(&file, &database)?;
    ///
    /// let journal = Journal::prepare(&file, &database, size, 2, page.into_iter())?;
    /// journal.discard(); // nothing was changed
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]; then no journal is left.
    pub fn prepare(
        database: &File,
        path: &Path,
        page_size: PageSize,
        pages: u32,
        saved: impl Iterator<Item = PageNo>,
    ) -> Result<Journal> {
        let armed = sidecar(path, "-journal");
        let partial = sidecar(path, "-journal.tmp");
        let mode = database.metadata().map_err(FileError::io(path))?.permissions().mode() & 0o777;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(mode).open(&partial);
        let file = file.map_err(FileError::io(&partial))?;
        let mut journal = Journal { path: partial, armed, file, page_size, pages, records: 0 };
        match journal.save(database, path, saved) {
            Ok(()) => Ok(journal),
            Err(error) => {
                journal.discard();
                Err(error)
            }
        }
    }

    fn save(&mut self, database: &File, database_path: &Path, saved: impl Iterator<Item = PageNo>) -> Result<()> {
        let record = self.record_size();
        let mut buffer = Vec::with_capacity(PIECE + record);
        let mut page = vec![0; self.page_size.bytes()];
        let mut at = SECTOR as u64;
        for number in saved {
            database.read_exact_at(&mut page, offset(number, self.page_size)).map_err(FileError::io(database_path))?;
            buffer.extend_from_slice(&number.0.to_be_bytes());
            buffer.extend_from_slice(&page);
            buffer.extend_from_slice(&sum(&page).to_be_bytes());
            self.records += 1;
            if buffer.len() >= PIECE {
                self.put(&buffer, at)?;
                at += buffer.len() as u64;
                buffer.clear();
            }
        }
        self.put(&buffer, at)?;
        let mut header = Vec::with_capacity(SECTOR);
        header.extend_from_slice(&MAGIC);
        for word in [self.records, NONCE, self.pages, SECTOR as u32, self.page_size.get()] {
            header.extend_from_slice(&word.to_be_bytes());
        }
        header.resize(SECTOR, 0);
        self.put(&header, 0)?;
        self.file.sync_all().map_err(FileError::io(&self.path))
    }

    /// Gives the journal the name under which SQLite finds it. From here on, the next program that opens the database
    /// after a crash undoes the change.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]; then the caller must not change the database.
    pub fn arm(&mut self) -> Result<()> {
        fs::rename(&self.path, &self.armed).map_err(FileError::io(&self.armed))?;
        self.path.clone_from(&self.armed);
        sync_folder(&self.path)
    }

    /// Discards a journal whose database wasn't changed.
    pub fn discard(self) {
        // The next journal replaces a remnant. An armed journal restores pages that never changed.
        let _ = fs::remove_file(&self.path);
    }

    fn put(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(FileError::io(&self.path))
    }

    fn record_size(&self) -> usize {
        4 + self.page_size.bytes() + 4
    }

    /// Restores the database's old state.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]; then the journal stays, and SQLite plays it back.
    pub fn roll_back(self, database: &File, path: &Path) -> Result<()> {
        let play = || -> io::Result<()> {
            let mut record = vec![0; self.record_size()];
            for number in 0..u64::from(self.records) {
                let at = SECTOR as u64 + number * self.record_size() as u64;
                self.file.read_exact_at(&mut record, at)?;
                let (page, rest) = record.split_first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
                let data = rest.get(..self.page_size.bytes()).unwrap_or_default();
                database.write_all_at(data, offset(PageNo(u32::from_be_bytes(*page)), self.page_size))?;
            }
            database.set_len(u64::from(self.pages) * u64::from(self.page_size.get()))?;
            database.sync_all()
        };
        play().map_err(FileError::io(path))?;
        self.remove()
    }

    /// Commits the change.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]; then only the next opening shows whether the change was committed.
    pub fn commit(self, database: &File, path: &Path) -> Result<()> {
        database.sync_all().map_err(FileError::io(path))?;
        self.remove()
    }

    fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(FileError::io(&self.path))?;
        sync_folder(&self.path)
    }
}

/// The checksum of a record: some bytes of the page.
fn sum(page: &[u8]) -> u32 {
    let picked = page.iter().rev().skip(199).step_by(200);
    let last = page.len().saturating_sub(200);
    // Every 200th byte, counted from 200 before the end; byte 0 is not among them.
    picked
        .zip((0..=last).rev().step_by(200))
        .filter(|(_, at)| *at > 0)
        .fold(NONCE, |sum, (byte, _)| sum.wrapping_add(u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::file::database::Database;

    fn digest(path: &Path) -> u64 {
        crate::crc64(&fs::read(path).expect("the database"))
    }

    /// A process that dies in the middle leaves the journal behind, and SQLite itself restores the old state.
    #[test]
    fn sqlite_plays_it_back() {
        for page_size in [512, 4096, 65536] {
            let folder = tempfile::TempDir::new().expect("a folder");
            let path = folder.path().join("a.db");
            let connection = Connection::open(&path).expect("a database");
            connection.pragma_update(None, "page_size", page_size).expect("a page size");
            connection
                .execute_batch(
                    "CREATE TABLE t(x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99)
                     INSERT INTO t SELECT randomblob(2000) FROM n",
                )
                .expect("rows");
            drop(connection);
            let before = digest(&path);
            let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file");
            let database = Database::of(file, &path).expect("a database");
            let pages = database.pages().expect("whole pages");
            let size = database.head.expect("a header").page_size;
            let journal =
                Journal::begin(&database.file, &path, size, pages, (1..=pages).map(PageNo)).expect("a journal");
            // Write garbage over the first pages, and cut the end off.
            database.file.write_all_at(&vec![9; 2 * size.bytes()], 0).expect("garbage");
            database.file.set_len(u64::from(pages / 2) * u64::from(size.get())).expect("a cut");
            drop((journal, database));
            assert_ne!(digest(&path), before);
            let connection = Connection::open(&path).expect("a database");
            let check: String =
                connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
            assert_eq!(check, "ok");
            assert_eq!(digest(&path), before);
            assert!(!sidecar(&path, "-journal").exists());
        }
    }
}
