//! The WAL of a database: the pages that were committed and are not in the database file yet.
//!
//! Source: the chapter "WAL File Format" of SQLite's file format. A frame counts when its salts are the header's and
//! its checksum continues the chain, and only up to the last frame that ends a transaction: exactly what SQLite
//! itself would find after a crash. Memory: 8 bytes for each frame.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::file::database::{read_up_to, sidecar};
use crate::file::error::{FileError, Result};
use crate::{PageNo, PageSize};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Bytes read at once.
const READ: usize = 1 << 20;

/// What a WAL adds to its database.
#[derive(Debug)]
pub(super) struct Wal {
    file: File,
    path: PathBuf,
    page_size: PageSize,
    /// The newest frame of each page, by page.
    frames: Vec<(PageNo, u32)>,
    /// The size of the database in pages after the last transaction.
    pub(super) commit: u32,
    /// The salts of its header.
    pub(super) salts: (u32, u32),
}

impl Wal {
    /// Reads the WAL beside a database; `None` if there is none, or nothing in it counts.
    pub(super) fn of(database: &Path) -> Result<Option<Wal>> {
        let path = sidecar(database, "-wal");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::io(&path)(error)),
        };
        let mut header = [0; HEADER];
        let got = read_up_to(&file, &mut header, 0).map_err(FileError::io(&path))?;
        let Some(header) = Header::parse(header.get(..got).unwrap_or_default()) else { return Ok(None) };
        let mut scan = Scan::new(header);
        let frame = FRAME_HEADER + header.page_size.bytes();
        let mut buffer = vec![0; (READ / frame).max(1) * frame];
        loop {
            let offset = HEADER as u64 + u64::from(scan.count) * frame as u64;
            let got = read_up_to(&file, &mut buffer, offset).map_err(FileError::io(&path))?;
            let whole = buffer.get(..got - got % frame).unwrap_or_default();
            if whole.is_empty() || !whole.chunks_exact(frame).all(|frame| scan.take(frame)) {
                break;
            }
        }
        let Some((commit, count)) = scan.committed else { return Ok(None) };
        let (page_size, salts) = (header.page_size, header.salts);
        Ok(Some(Wal { file, path, page_size, frames: scan.newest(commit, count), commit, salts }))
    }

    /// The page size that its header says.
    pub(super) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// How many pages it has a newer version of.
    pub(super) fn pages(&self) -> usize {
        self.frames.len()
    }

    /// Puts its pages over those of the database file, from `first` on.
    pub(super) fn overlay(&self, first: PageNo, pages: &mut [u8]) -> Result<()> {
        let size = self.page_size.bytes();
        let from = self.frames.partition_point(|(page, _)| *page < first);
        for (page, frame) in self.frames.get(from..).unwrap_or_default() {
            let at = (page.0 - first.0) as usize;
            let Some(to) = pages.chunks_exact_mut(size).nth(at) else { break };
            let offset = HEADER as u64 + u64::from(*frame) * (FRAME_HEADER + size) as u64 + FRAME_HEADER as u64;
            self.file.read_exact_at(to, offset).map_err(FileError::io(&self.path))?;
        }
        Ok(())
    }

    /// Whether its header still is the one that was read: a WAL that began anew meanwhile has overwritten frames.
    pub(super) fn unchanged(&self) -> Result<bool> {
        let mut header = [0; HEADER];
        let got = read_up_to(&self.file, &mut header, 0).map_err(FileError::io(&self.path))?;
        Ok(Header::parse(header.get(..got).unwrap_or_default()).is_some_and(|now| now.salts == self.salts))
    }
}

#[derive(Clone, Copy)]
struct Header {
    big_endian: bool,
    page_size: PageSize,
    salts: (u32, u32),
    chain: (u32, u32),
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Header> {
        let big_endian = match word(bytes, 0)? {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return None,
        };
        let chain = (word(bytes, 24)?, word(bytes, 28)?);
        let right = word(bytes, 4)? == 3_007_000 && over((0, 0), bytes.get(..24)?, big_endian) == chain;
        let page_size = PageSize::new(word(bytes, 8)?)?;
        right.then_some(Header { big_endian, page_size, salts: (word(bytes, 16)?, word(bytes, 20)?), chain })
    }
}

/// The frames that were read so far.
struct Scan {
    header: Header,
    chain: (u32, u32),
    pages: Vec<PageNo>,
    count: u32,
    /// The size of the database and the number of frames at the end of the last transaction.
    committed: Option<(u32, u32)>,
}

impl Scan {
    fn new(header: Header) -> Scan {
        Scan { header, chain: header.chain, pages: Vec::new(), count: 0, committed: None }
    }

    /// Takes the next frame; whether it counts.
    fn take(&mut self, frame: &[u8]) -> bool {
        let read = || {
            let (head, page) = frame.split_at_checked(FRAME_HEADER)?;
            let salts = (word(head, 8)?, word(head, 12)?);
            let chain = over(over(self.chain, head.get(..8)?, self.header.big_endian), page, self.header.big_endian);
            let right = salts == self.header.salts && (word(head, 16)?, word(head, 20)?) == chain;
            Some((PageNo(word(head, 0)?), word(head, 4)?, chain)).filter(|(page, ..)| right && page.0 != 0)
        };
        let Some((page, commit, chain)) = read() else { return false };
        let Some(count) = self.count.checked_add(1) else { return false };
        (self.count, self.chain) = (count, chain);
        self.pages.push(page);
        if commit != 0 {
            self.committed = Some((commit, self.count));
        }
        true
    }

    /// The newest of the first `count` frames for each page of a database of `commit` pages.
    fn newest(self, commit: u32, count: u32) -> Vec<(PageNo, u32)> {
        let mut frames: Vec<_> = self.pages.into_iter().zip(0..count).filter(|(page, _)| page.0 <= commit).collect();
        // The newest first, of which one is kept.
        frames.sort_unstable_by_key(|(page, frame)| (*page, std::cmp::Reverse(*frame)));
        frames.dedup_by_key(|(page, _)| *page);
        frames
    }
}

/// The chain continued over bytes, whose number is a multiple of eight.
fn over((mut s0, mut s1): (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let (pairs, _) = bytes.as_chunks::<8>();
    for [a, b, c, d, e, f, g, h] in pairs {
        let (x, y) = ([*a, *b, *c, *d], [*e, *f, *g, *h]);
        let (x, y) = if big_endian {
            (u32::from_be_bytes(x), u32::from_be_bytes(y))
        } else {
            (u32::from_le_bytes(x), u32::from_le_bytes(y))
        };
        s0 = s0.wrapping_add(x).wrapping_add(s1);
        s1 = s1.wrapping_add(y).wrapping_add(s0);
    }
    (s0, s1)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}
