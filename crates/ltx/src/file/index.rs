//! Reads the page index of a file piece by piece, to find the next frames in page order.
//!
//! The index is checked on the way for everything that it can show alone: order, contiguous frames, pages that a file
//! with this header can have, and that it ends where its size says. The code that decodes the frames compares them with
//! the index. Memory: one piece of 64 KiB, whatever the number of pages.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::file::error::{FileError, Result};
use crate::frame::{END_MARKER, MAX_FRAME_SIZE, MIN_FRAME_SIZE, PAGE_HEADER_SIZE};
use crate::sequence::Sequence;
use crate::{Crc64, Error, HEADER_SIZE, Header, IndexEntry, IndexFault, PageNo, Part, TRAILER_SIZE, Trailer, varint};

/// The index size and the trailer.
const TAIL: usize = 8 + TRAILER_SIZE;
/// Bytes of the index that are read at once.
const READ: usize = 64 << 10;
/// The most bytes of an entry.
const MAX_ENTRY: usize = 30;

/// An open LTX file of the current generation, with the parts of it at fixed places.
#[derive(Debug)]
pub(super) struct LtxFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    pub(super) header: Header,
    pub(super) trailer: Trailer,
    /// The offset of the index, after the end marker.
    index: u64,
}

impl LtxFile {
    /// Reads the header and the end of an open file. `path` is its name in errors.
    pub(super) fn of(file: File, path: &Path) -> Result<LtxFile> {
        let (io, format) = (|| FileError::io(path), || FileError::format(path));
        let len = file.metadata().map_err(io())?.len();
        let truncated = |part| format()(Error::Truncated { offset: len, part });
        let mut head = [0; HEADER_SIZE];
        let got = super::database::read_up_to(&file, &mut head, 0).map_err(io())?;
        let header = Header::parse(head.get(..got).unwrap_or_default()).map_err(format())?;
        let mut tail = [0; TAIL];
        let tail_at = len.checked_sub(TAIL as u64).ok_or_else(|| truncated(Part::Trailer))?;
        file.read_exact_at(&mut tail, tail_at).map_err(io())?;
        let (size, rest) = tail.split_first_chunk().ok_or_else(|| truncated(Part::Trailer))?;
        let trailer = Trailer::parse(rest.first_chunk().ok_or_else(|| truncated(Part::Trailer))?);
        let index = tail_at.checked_sub(u64::from_be_bytes(*size)).ok_or_else(|| truncated(Part::Index))?;
        let frames = index.checked_sub(PAGE_HEADER_SIZE as u64).filter(|end| *end >= HEADER_SIZE as u64);
        let frames = frames.ok_or_else(|| truncated(Part::Index))?;
        let mut marker = END_MARKER;
        file.read_exact_at(&mut marker, frames).map_err(io())?;
        if marker != END_MARKER {
            return Err(format()(Error::Index { offset: index, fault: IndexFault::Entry }));
        }
        Ok(LtxFile { path: path.to_owned(), file, len, header, trailer, index })
    }

    /// The entries, beginning with the first.
    pub(super) fn entries(&self) -> Entries<'_> {
        Entries {
            ltx: self,
            at: self.index,
            buffer: Vec::new(),
            taken: 0,
            last: IndexEntry { page: PageNo(0), size: HEADER_SIZE as u32, offset: 0 },
            sequence: Sequence::new(&self.header),
            crc: Crc64::new(),
            ended: false,
        }
    }

    /// Reads the bytes of adjacent frames into `buffer`, which grows as needed.
    pub(super) fn read<'b>(&self, offset: u64, len: usize, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let bytes = buffer.get_mut(..len).unwrap_or_default();
        self.file.read_exact_at(bytes, offset).map_err(FileError::io(&self.path))?;
        Ok(bytes)
    }

    /// An error of this file.
    pub(super) fn error(&self, error: Error) -> FileError {
        FileError::format(&self.path)(error)
    }
}

/// The entries of an index, one after the other.
pub(super) struct Entries<'f> {
    ltx: &'f LtxFile,
    /// The offset of the next bytes to read.
    at: u64,
    buffer: Vec<u8>,
    taken: usize,
    last: IndexEntry,
    sequence: Sequence,
    /// The CRC of the index.
    crc: Crc64,
    ended: bool,
}

impl Entries<'_> {
    /// The next entry; `None` at the end, and then the index has passed all checks.
    pub(super) fn next(&mut self) -> Result<Option<IndexEntry>> {
        if self.ended {
            return Ok(None);
        }
        if self.buffer.len() - self.taken < MAX_ENTRY {
            self.refill()?;
        }
        let mut rest = self.buffer.get(self.taken..).unwrap_or_default();
        let entry = entry(&mut rest, self.last, self.frames_end());
        self.taken = self.buffer.len() - rest.len();
        let entry = match entry {
            Ok(entry) => entry,
            Err(fault) => return Err(self.fault(fault)),
        };
        match entry {
            Some(entry) => {
                self.sequence.admit(entry.page).map_err(FileError::format(&self.ltx.path))?;
                self.last = entry;
            }
            None => {
                let end = self.last.offset + u64::from(self.last.size);
                let whole = self.taken == self.buffer.len() && self.at == self.end();
                if !whole || end != self.frames_end() {
                    return Err(self.fault(IndexFault::Entry));
                }
                self.sequence.finish().map_err(FileError::format(&self.ltx.path))?;
                self.ended = true;
            }
        }
        Ok(entry)
    }

    /// Once the end was reached: the CRC over the end marker and all later bytes that the file checksum covers, and the
    /// number of pages.
    pub(super) fn finish(self) -> (Crc64, u64) {
        let mut crc = Crc64::new();
        crc.update(&END_MARKER);
        crc.join(&self.crc);
        crc.update(&(self.end() - self.ltx.index).to_be_bytes());
        crc.update(&self.ltx.trailer.post_apply.0.to_be_bytes());
        (crc, self.sequence.pages())
    }

    /// The offset after the last frame.
    fn frames_end(&self) -> u64 {
        self.ltx.index - PAGE_HEADER_SIZE as u64
    }

    /// The offset after the index.
    fn end(&self) -> u64 {
        self.ltx.len - TAIL as u64
    }

    fn refill(&mut self) -> Result<()> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let kept = self.buffer.len();
        let more = usize::try_from(self.end() - self.at).unwrap_or(READ).min(READ);
        self.buffer.resize(kept + more, 0);
        let fresh = self.buffer.get_mut(kept..).unwrap_or_default();
        self.ltx.file.read_exact_at(fresh, self.at).map_err(FileError::io(&self.ltx.path))?;
        self.crc.update(fresh);
        self.at += more as u64;
        Ok(())
    }

    fn fault(&self, fault: IndexFault) -> FileError {
        let offset = self.at - (self.buffer.len() - self.taken) as u64;
        self.ltx.error(Error::Index { offset, fault })
    }
}

/// Reads the entry at the front of `bytes`; `None` for the end mark. No frame may go beyond `frames_end`.
fn entry(bytes: &mut &[u8], last: IndexEntry, frames_end: u64) -> std::result::Result<Option<IndexEntry>, IndexFault> {
    let mut number = || varint::take(bytes).ok_or(IndexFault::Varint);
    let page = number()?;
    if page == 0 {
        return Ok(None);
    }
    let (offset, size) = (number()?, number()?);
    let page = u32::try_from(page).map(PageNo).ok().filter(|page| *page > last.page);
    let follows = offset == last.offset.saturating_add(last.size.into());
    let ends = offset.checked_add(size).is_some_and(|end| end <= frames_end);
    let fits = follows && ends && (MIN_FRAME_SIZE..=MAX_FRAME_SIZE).contains(&size);
    match (page, u32::try_from(size)) {
        (Some(page), Ok(size)) if fits => Ok(Some(IndexEntry { page, size, offset })),
        _ => Err(IndexFault::Entry),
    }
}
