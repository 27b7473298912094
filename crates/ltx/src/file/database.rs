//! A database file: its page size, its pages, large reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::file::error::{FileError, Result};
use crate::{PageNo, PageSize};

/// Bytes that are read, compressed or decompressed as one piece: several pieces on each core stay in its cache.
pub(super) const PIECE: usize = 256 << 10;

/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A database file, open.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// `None` for the empty file.
    pub(super) head: Option<Head>,
}

/// The facts on the first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) page_size: PageSize,
    /// The size in pages, if the first page has a size that SQLite would trust.
    pub(super) pages: Option<u32>,
}

impl Database {
    /// Opens a database to read it.
    pub(super) fn open(path: &Path) -> Result<Database> {
        Database::of(File::open(path).map_err(FileError::io(path))?, path)
    }

    /// An open file as a database.
    pub(super) fn of(file: File, path: &Path) -> Result<Database> {
        let metadata = file.metadata().map_err(FileError::io(path))?;
        if !metadata.is_file() {
            return Err(FileError::database(path, "it is no regular file"));
        }
        let len = metadata.len();
        let mut bytes = [0; 100];
        let got = read_up_to(&file, &mut bytes, 0).map_err(FileError::io(path))?;
        let head = match got {
            0 => None,
            100 => Some(Head::parse(&bytes).map_err(|what| FileError::database(path, what))?),
            _ => return Err(FileError::database(path, "it is too short for a SQLite database")),
        };
        Ok(Database { file, path: path.to_owned(), len, head })
    }

    /// How many pages the file has, whatever its first page says.
    pub(super) fn pages(&self) -> Result<u32> {
        let Some(head) = self.head else { return Ok(0) };
        let size = u64::from(head.page_size.get());
        if !self.len.is_multiple_of(size) {
            return Err(FileError::database(&self.path, "its size is not a multiple of its page size"));
        }
        u32::try_from(self.len / size).map_err(|_| FileError::database(&self.path, "it is larger than SQLite allows"))
    }

    /// Reads whole pages, from `first` on.
    pub(super) fn read(&self, first: PageNo, pages: &mut [u8]) -> Result<()> {
        let size = self.head.map_or(0, |head| u64::from(head.page_size.get()));
        let offset = u64::from(first.0.saturating_sub(1)) * size;
        self.file.read_exact_at(pages, offset).map_err(FileError::io(&self.path))
    }
}

impl Head {
    fn parse(bytes: &[u8; 100]) -> std::result::Result<Head, &'static str> {
        if !bytes.starts_with(MAGIC) {
            return Err("it is no SQLite database, or it is encrypted");
        }
        let word =
            |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk().copied()).map_or(0, u32::from_be_bytes);
        let size = word(16) >> 16;
        let page_size = PageSize::new(if size == 1 { PageSize::MAX } else { size })
            .ok_or("its page size is none that SQLite has")?;
        // The size is trusted if its writer kept it: such a writer stored the change counter in a second place.
        let (changes, pages, valid_for) = (word(24), word(28), word(92));
        Ok(Head { page_size, pages: (pages != 0 && changes == valid_for).then_some(pages) })
    }
}

/// The pages of a database in pieces of about the same number of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    pages: u32,
    /// Pages in a piece.
    step: u32,
}

impl Pieces {
    /// `pages` pages in pieces of about `bytes` bytes, at least one page each.
    pub(super) fn new(page_size: PageSize, pages: u32, bytes: usize) -> Pieces {
        Pieces { pages, step: u32::try_from(bytes / page_size.bytes()).unwrap_or(1).max(1) }
    }

    /// How many pieces there are.
    pub(super) fn count(self) -> u32 {
        self.pages.div_ceil(self.step)
    }

    /// The first page of a piece, and the number of its pages. Pieces count from 0.
    pub(super) fn piece(self, number: u32) -> (PageNo, u32) {
        let before = number.saturating_mul(self.step).min(self.pages);
        (PageNo(before.saturating_add(1)), self.step.min(self.pages - before))
    }

    /// All of them, in order.
    pub(super) fn iter(self) -> impl Iterator<Item = (PageNo, u32)> + Send {
        (0..self.count()).map(move |number| self.piece(number))
    }
}

/// Reads until `buffer` is full or the file ends; returns how many bytes were read.
pub(super) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// `path` with a suffix, as SQLite names its side files.
pub(super) fn sidecar(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
