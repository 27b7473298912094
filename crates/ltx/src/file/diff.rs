//! Which pages differ between two databases, two files, or a file and a database?
//!
//! Both sides are walked in page order. A page of a file is decompressed only if its frame differs from the other
//! side's. Memory: a piece of each side.

use std::fs::File;
use std::path::Path;

use crate::decode::decode_frame_into;
use crate::file::checksum::read as read_pages;
use crate::file::database::{Database, PIECE, read_up_to};
use crate::file::error::{FileError, Result};
use crate::file::index::{Entries, LtxFile};
use crate::file::wal::Wal;
use crate::file::{Work, modern, verify};
use crate::{IndexEntry, PageNo, PageSize};

/// How a page differs, as [`diff`] reports it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::PageNo;
/// use seawall_ltx::file::{Difference, Work, diff};
///
/// let mut bytes = std::fs::read(&database)?;
/// bytes[5000] ^= 1;
/// std::fs::write(&database, bytes)?;
/// let mut found = Vec::new();
/// diff(&snapshot, &database, Work::new(), |page, difference| found.push((page, difference)))?;
/// assert_eq!(found, [(PageNo(2), Difference::Content)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Only the first side has the page.
    First,
    /// Only the second side has the page.
    Second,
    /// Both sides have the page, with different content.
    Content,
}

/// Compares two sides, each an LTX file or a database (with its WAL). Calls `visit` with the pages that differ, in
/// order. LTX files are verified first; a file of an older generation is then rewritten, without a name, in the
/// temporary folder.
///
/// For a side that is a database: no process may write to it meanwhile, and no SQLite connection of *this* process may
/// be open on it ([why](crate::file#databases-that-are-in-use)).
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::PageNo;
/// use seawall_ltx::file::{Difference, Work, diff};
///
/// rusqlite::Connection::open(&database)?.execute_batch("INSERT INTO t VALUES (1)")?;
/// let mut changed = Vec::new();
/// diff(&snapshot, &database, Work::new(), |page, how| changed.push((page, how)))?;
/// assert_eq!(changed, [(PageNo(1), Difference::Content), (PageNo(2), Difference::Content)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::PageSize`] if their page sizes differ, [`FileError::Format`], [`FileError::Database`],
/// [`FileError::Io`].
pub fn diff(first: &Path, second: &Path, work: Work<'_>, mut visit: impl FnMut(PageNo, Difference)) -> Result<()> {
    let (a, b) = (Side::open(first, work)?, Side::open(second, work)?);
    if let (Some(expected), Some(found)) = (a.page_size(), b.page_size())
        && expected != found
    {
        return Err(FileError::PageSize { path: second.to_owned(), expected, found });
    }
    let (mut a, mut b) = (a.walk()?, b.walk()?);
    loop {
        match (a.page(), b.page()) {
            (None, None) => return Ok(()),
            (Some(left), Some(right)) if left == right => {
                if !same(&mut a, &mut b)? {
                    visit(left, Difference::Content);
                }
                a.advance()?;
                b.advance()?;
            }
            (Some(left), right) if right.is_none_or(|right| left < right) => {
                visit(left, Difference::First);
                a.advance()?;
            }
            (_, right) => {
                right.into_iter().for_each(|page| visit(page, Difference::Second));
                b.advance()?;
            }
        }
    }
}

/// One of the two sides.
enum Side {
    Ltx(LtxFile),
    Database(Database, Option<Wal>),
}

impl Side {
    fn open(path: &Path, work: Work<'_>) -> Result<Side> {
        let file = File::open(path).map_err(FileError::io(path))?;
        let mut magic = [0; 4];
        let got = read_up_to(&file, &mut magic, 0).map_err(FileError::io(path))?;
        if got < 4 || magic != *b"LTX1" {
            return Ok(Side::Database(Database::of(file, path)?, Wal::of(path)?));
        }
        let opened = match verify::verify_file(&file, path, work)?.generation {
            None => LtxFile::of(file, path),
            Some(_) => modern::rewrite(&file, path, &std::env::temp_dir().join("seawall-ltx"), work),
        };
        opened.map(Side::Ltx)
    }

    fn page_size(&self) -> Option<PageSize> {
        match self {
            Side::Ltx(ltx) => Some(ltx.header.page_size),
            Side::Database(database, _) => database.head.map(|head| head.page_size),
        }
    }

    fn walk(&self) -> Result<Walk<'_>> {
        let size = self.page_size().map_or(0, PageSize::bytes);
        let (page, buffer) = (vec![0; size], Vec::new());
        match self {
            Side::Ltx(ltx) => {
                let mut entries = Box::new(ltx.entries());
                let head = entries.next()?;
                Ok(Walk::Ltx { ltx, entries, head, frame: buffer, page })
            }
            Side::Database(database, wal) => {
                let pages = wal.as_ref().map_or_else(|| database.pages(), |wal| Ok(wal.commit))?;
                let lock = self.page_size().map_or(PageNo(0), PageSize::lock_page);
                Ok(Walk::Database { database, wal: wal.as_ref(), pages, lock, at: 1, from: 1, size, buffer })
            }
        }
    }
}

/// A position in one side.
enum Walk<'s> {
    Ltx {
        ltx: &'s LtxFile,
        entries: Box<Entries<'s>>,
        head: Option<IndexEntry>,
        frame: Vec<u8>,
        page: Vec<u8>,
    },
    Database {
        database: &'s Database,
        wal: Option<&'s Wal>,
        pages: u32,
        lock: PageNo,
        at: u32,
        /// The first page in the buffer.
        from: u32,
        size: usize,
        buffer: Vec<u8>,
    },
}

impl Walk<'_> {
    fn page(&self) -> Option<PageNo> {
        match self {
            Walk::Ltx { head, .. } => head.map(|entry| entry.page),
            Walk::Database { pages, at, .. } => (at <= pages).then_some(PageNo(*at)),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Walk::Ltx { entries, head, .. } => *head = entries.next()?,
            Walk::Database { at, lock, .. } => {
                *at = at.saturating_add(if PageNo(*at + 1) == *lock { 2 } else { 1 });
            }
        }
        Ok(())
    }

    /// In a file, the frame of the current page.
    fn frame(&mut self) -> Result<Option<&[u8]>> {
        match self {
            Walk::Ltx { ltx, head: Some(entry), frame, .. } => {
                ltx.read(entry.offset, entry.size as usize, frame).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The content of the current page; in a file, once its frame was read.
    fn content(&mut self) -> Result<&[u8]> {
        match self {
            Walk::Ltx { ltx, head, frame, page, .. } => {
                let len = head.map_or(0, |entry| entry.size as usize);
                let bytes = frame.get(..len).unwrap_or_default();
                decode_frame_into(ltx.header.page_size, bytes, page).map_err(FileError::format(&ltx.path))?;
                Ok(page)
            }
            Walk::Database { database, wal, pages, at, from, size, buffer, .. } => {
                let held = u32::try_from(buffer.len() / (*size).max(1)).unwrap_or(0);
                if *at < *from || *at >= from.saturating_add(held) {
                    let count = ((PIECE / (*size).max(1)).max(1)).min((*pages - *at) as usize + 1);
                    buffer.resize(count * *size, 0);
                    read_pages(database, *wal, PageNo(*at), buffer)?;
                    *from = *at;
                }
                Ok(buffer.chunks_exact((*size).max(1)).nth((*at - *from) as usize).unwrap_or_default())
            }
        }
    }
}

fn same(a: &mut Walk<'_>, b: &mut Walk<'_>) -> Result<bool> {
    let (left, right) = (a.frame()?, b.frame()?);
    if left.is_some() && left == right {
        return Ok(true);
    }
    Ok(a.content()? == b.content()?)
}
