//! Files of the generations before the current one: what LiteFS keeps, and what Litestream wrote for weeks.
//!
//! ```text
//! 1             header | (page u32, page) … | 0 u32 | trailer
//! 1 compressed  header | one LZ4 frame of all that | trailer
//! 2             header | (page u32, LZ4 frame) … | 0 u32 | index | index size u64 | trailer
//! ```
//!
//! They carry no version. The generation is told from the first bytes of the pages and from the length of
//! the file, which is why they are read from memory (or a memory map), not as a stream. The rules for
//! header, order, snapshots and checksums are the current ones.

use std::hash::Hasher;

use twox_hash::XxHash32;

use crate::checksum::{Checksum, Crc64, Rolling, page_checksum};
use crate::decode::decode_all;
use crate::error::{Error, Generation, IndexFault, Lz4Fault, Part, Result};
use crate::header::{HEADER_SIZE, Header, TRAILER_SIZE, Trailer};
use crate::ledger::Ledger;
use crate::lz4::{self, FRAME_END, FRAME_START, STORED};
use crate::sequence::Sequence;
use crate::split::{IndexReader, Summary};
use crate::types::PageNo;

/// The bytes of a page header, and of the end marker.
const PAGE_HEADER_SIZE: usize = 4;
/// The most that a block of the compressed form decompresses to.
const BLOCK_SIZE: usize = 1 << 16;
/// The lengths of files without pages.
const EMPTY_V1: usize = HEADER_SIZE + PAGE_HEADER_SIZE + TRAILER_SIZE;
const EMPTY_V2: usize = EMPTY_V1 + 1 + 8;

impl Generation {
    /// The generation of a whole file, `None` for the current one (or for something that isn't a file of
    /// any: reading it as a current one says what is wrong).
    ///
    /// # Errors
    ///
    /// [`Error::Header`] or [`Error::Truncated`] if there is no valid header.
    pub fn detect(file: &[u8]) -> Result<Option<Generation>> {
        let (header, compressed) = Header::parse_any(file)?;
        if compressed {
            return Ok(Some(Generation::V1Lz4));
        }
        let start = file.get(HEADER_SIZE..).unwrap_or_default();
        let magic = FRAME_START.get(..4).unwrap_or_default();
        let is_current = match start {
            [0, 0, 0, 0, ..] => ![EMPTY_V1, EMPTY_V2].contains(&file.len()),
            [_, _, _, _, 0, 1, ..] => true,
            [_, _, _, _, 0, 0, rest @ ..] => rest.starts_with(magic),
            _ => false,
        };
        let pages = file.len().checked_sub(EMPTY_V1);
        let whole_pages = pages.is_some_and(|len| len % (PAGE_HEADER_SIZE + header.page_size.bytes()) == 0);
        Ok(if is_current {
            None
        } else if file.len() == EMPTY_V2 || start.get(4..8) == Some(magic) {
            Some(Generation::V2)
        } else if whole_pages {
            Some(Generation::V1)
        } else {
            None
        })
    }
}

/// Reads and verifies a whole file of any generation, as [`crate::decode_all`] does one of the current.
///
/// `visit` gets the pages in order *before* the end of the file is verified: what it made of them must be
/// thrown away after an error. Memory for older generations: one page, one block of 64 KiB, a few bytes for
/// each page.
///
/// # Errors
///
/// The first defect of the file.
pub fn decode_any(file: &[u8], visit: impl FnMut(PageNo, &[u8])) -> Result<Summary> {
    match Generation::detect(file)? {
        None => decode_all(file, visit),
        Some(generation) => decode_legacy(generation, file, visit),
    }
}

fn decode_legacy(generation: Generation, file: &[u8], mut visit: impl FnMut(PageNo, &[u8])) -> Result<Summary> {
    let (header, _) = Header::parse_any(file)?;
    let (head, body) = file.split_at_checked(HEADER_SIZE).unwrap_or((file, &[]));
    let mut source = Source::new(generation, body)?;
    let mut state = State::new(header, head);
    let mut page = vec![0; header.page_size.bytes()];
    loop {
        let mut number = [0; PAGE_HEADER_SIZE];
        source.header(&mut number)?;
        state.crc.update(&number);
        let number = PageNo(u32::from_be_bytes(number));
        if number == PageNo(0) {
            break;
        }
        state.sequence.admit(number)?;
        let size = source.page(number, &mut page)?;
        state.ledger.push(number, size)?;
        state.crc.update(&page);
        state.rolling.toggle(page_checksum(number, &page));
        visit(number, &page);
    }
    state.sequence.finish()?;
    let mut rest = source.finish()?;
    if generation == Generation::V2 {
        rest = state.check_index(rest, file.len())?;
    }
    state.check_trailer(rest, file.len())
}

/// What is known of the file so far.
struct State {
    header: Header,
    sequence: Sequence,
    ledger: Ledger,
    crc: Crc64,
    rolling: Rolling,
}

impl State {
    fn new(header: Header, bytes: &[u8]) -> State {
        let mut crc = Crc64::new();
        crc.update(bytes);
        State { header, sequence: Sequence::new(&header), ledger: Ledger::new(), crc, rolling: Rolling::new() }
    }

    /// Compares the index at the start of `rest` with the pages; what is behind it.
    fn check_index<'a>(&mut self, rest: &'a [u8], file_len: usize) -> Result<&'a [u8]> {
        let offset = file_len.saturating_sub(rest.len()) as u64;
        let truncated = Error::Truncated { offset: file_len as u64, part: Part::Index };
        let mut index = IndexReader::new(&self.ledger);
        let mut bytes = rest;
        loop {
            let (byte, behind) = bytes.split_first().ok_or(truncated)?;
            bytes = behind;
            if index.push(*byte, &self.ledger).map_err(|fault| Error::Index { offset, fault })? {
                break;
            }
        }
        let (size, behind) = bytes.split_first_chunk().ok_or(truncated)?;
        let (stored, actual) = (u64::from_be_bytes(*size), index.size);
        if stored != actual {
            return Err(Error::Index { offset, fault: IndexFault::Size { stored, actual } });
        }
        self.crc.update(rest.strip_suffix(behind).unwrap_or_default());
        Ok(behind)
    }

    fn check_trailer(mut self, rest: &[u8], file_len: usize) -> Result<Summary> {
        let Some((trailer, behind)) = rest.split_first_chunk::<TRAILER_SIZE>() else {
            return Err(Error::Truncated { offset: file_len as u64, part: Part::Trailer });
        };
        if !behind.is_empty() {
            return Err(Error::Trailing { offset: file_len.saturating_sub(behind.len()) as u64 });
        }
        let trailer = Trailer::parse(trailer);
        self.crc.update(&trailer.post_apply.0.to_be_bytes());
        let (stored, computed) = (trailer.file, self.crc.checksum());
        if stored != computed {
            return Err(Error::FileChecksum { stored, computed });
        }
        self.header.validate_post_apply(trailer.post_apply)?;
        let (stored, computed): (Checksum, _) = (trailer.post_apply, self.rolling.checksum());
        if self.header.is_snapshot() && !self.header.no_checksum && stored != computed {
            return Err(Error::DatabaseChecksum { stored, computed });
        }
        Ok(Summary { header: self.header, trailer, pages: self.sequence.pages() })
    }
}

/// Where page headers and pages come from.
enum Source<'a> {
    Raw(Bytes<'a>),
    /// Page by page.
    Frames(Bytes<'a>),
    /// All of them as one stream, and a block of it.
    Stream(Stream<'a>),
}

impl<'a> Source<'a> {
    fn new(generation: Generation, body: &'a [u8]) -> Result<Source<'a>> {
        let mut bytes = Bytes { rest: body, offset: HEADER_SIZE as u64 };
        Ok(match generation {
            Generation::V1 => Source::Raw(bytes),
            Generation::V2 => Source::Frames(bytes),
            Generation::V1Lz4 => {
                let offset = bytes.offset;
                if bytes.take(FRAME_START.len())? != FRAME_START {
                    return Err(Error::Lz4 { page: PageNo(0), offset, fault: Lz4Fault::Frame });
                }
                Source::Stream(Stream { bytes, block: Vec::new(), at: 0, sum: XxHash32::with_seed(0) })
            }
        })
    }

    /// Reads a page header.
    fn header(&mut self, out: &mut [u8]) -> Result<()> {
        match self {
            Source::Raw(bytes) | Source::Frames(bytes) => {
                out.copy_from_slice(bytes.take(PAGE_HEADER_SIZE)?);
                Ok(())
            }
            Source::Stream(stream) => stream.read(out),
        }
    }

    /// Reads a page; the size of its frame with the page header.
    fn page(&mut self, page: PageNo, out: &mut [u8]) -> Result<u32> {
        let size = match self {
            Source::Raw(bytes) => {
                out.copy_from_slice(bytes.take(out.len())?);
                out.len()
            }
            Source::Stream(stream) => {
                stream.read(out)?;
                out.len()
            }
            Source::Frames(bytes) => {
                let offset = bytes.offset;
                let frame = bytes.take_frame()?;
                lz4::decompress_frame(frame, out).map_err(|fault| Error::Lz4 { page, offset, fault })?;
                frame.len()
            }
        };
        u32::try_from(size.saturating_add(PAGE_HEADER_SIZE)).map_err(|_| Error::TooLarge)
    }

    /// Ends the pages; what is behind them.
    fn finish(self) -> Result<&'a [u8]> {
        match self {
            Source::Raw(bytes) | Source::Frames(bytes) => Ok(bytes.rest),
            Source::Stream(stream) => stream.finish(),
        }
    }
}

/// The rest of the file and where it begins.
struct Bytes<'a> {
    rest: &'a [u8],
    offset: u64,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.offset.saturating_add(self.rest.len() as u64);
        let truncated = Error::Truncated { offset: end, part: Part::Pages };
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(truncated)?;
        self.rest = rest;
        self.offset = self.offset.saturating_add(len as u64);
        Ok(taken)
    }

    fn take_u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    /// A frame of one block: the start, the length of the block, the block and the end.
    fn take_frame(&mut self) -> Result<&'a [u8]> {
        let from = self.rest;
        self.take(FRAME_START.len())?;
        let len = self.take_u32()? & !STORED;
        self.take(usize::try_from(len).map_err(|_| Error::TooLarge)?.saturating_add(FRAME_END))?;
        Ok(from.strip_suffix(self.rest).unwrap_or(from))
    }
}

/// The content of one LZ4 frame of many blocks.
struct Stream<'a> {
    bytes: Bytes<'a>,
    block: Vec<u8>,
    /// How much of the block was read.
    at: usize,
    sum: XxHash32,
}

impl<'a> Stream<'a> {
    fn read(&mut self, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() {
            let here = self.block.get(self.at..).unwrap_or_default();
            let len = here.len().min(out.len());
            let (to, rest) = out.split_at_mut(len);
            to.copy_from_slice(here.get(..len).unwrap_or_default());
            out = rest;
            self.at += len;
            if len == 0 && !self.next_block()? {
                let fault = Lz4Fault::Frame;
                return Err(Error::Lz4 { page: PageNo(0), offset: self.bytes.offset, fault });
            }
        }
        Ok(())
    }

    /// Decompresses the next block; whether there is one.
    fn next_block(&mut self) -> Result<bool> {
        let offset = self.bytes.offset;
        let error = |fault| Error::Lz4 { page: PageNo(0), offset, fault };
        let size = self.bytes.take_u32()?;
        let len = usize::try_from(size & !STORED).map_err(|_| Error::TooLarge)?;
        if len == 0 {
            return Ok(false);
        }
        let block = self.bytes.take(len)?;
        self.block.clear();
        self.at = 0;
        if size & STORED == 0 {
            self.block.resize(BLOCK_SIZE, 0);
            let len = lz4::decompress_partly(block, &mut self.block).map_err(error)?;
            self.block.truncate(len);
        } else if len <= BLOCK_SIZE {
            self.block.extend_from_slice(block);
        } else {
            return Err(error(Lz4Fault::Frame));
        }
        self.sum.write(&self.block);
        Ok(true)
    }

    /// Takes the end mark and checks the content checksum.
    fn finish(mut self) -> Result<&'a [u8]> {
        let offset = self.bytes.offset;
        let error = |fault| Err(Error::Lz4 { page: PageNo(0), offset, fault });
        if self.at != self.block.len() || self.next_block()? {
            return error(Lz4Fault::Frame);
        }
        if self.bytes.take_u32()? != self.sum.finish_32() {
            return error(Lz4Fault::ContentChecksum);
        }
        Ok(self.bytes.rest)
    }
}
