//! Files of the generations before the current one: what LiteFS keeps, and what Litestream wrote for weeks.
//!
//! ```text
//! 1             header | (page u32, page) … | 0 u32 | trailer
//! 1 compressed  header | one LZ4 frame of all that | trailer
//! 2             header | (page u32, LZ4 frame) … | 0 u32 | index | index size u64 | trailer
//! ```
//!
//! The files carry no version. The first bytes of the pages and the length of the file show the generation. So the
//! length must be known; with it the files are read as a stream. The rules for header, order, snapshots and checksums
//! are the current ones.

use alloc::vec;
use alloc::vec::Vec;
use core::hash::Hasher;

use twox_hash::XxHash32;

use crate::checksum::{Checksum, Crc64, Rolling};
use crate::decode::decode_all;
use crate::error::{Error, Generation, IndexFault, Lz4Fault, Part, Result};
use crate::header::{HEADER_SIZE, Header, TRAILER_SIZE, Trailer};
use crate::ledger::Ledger;
use crate::lz4::{self, FRAME_END, FRAME_START, STORED};
use crate::pagehash::PageHasher;
use crate::sequence::Sequence;
use crate::split::{IndexReader, Summary};
use crate::types::PageNo;

/// The bytes of a page header, and of the end marker.
const PAGE_HEADER_SIZE: usize = 4;
/// The most that a block of the compressed form decompresses to.
const BLOCK_SIZE: usize = 1 << 16;
/// The lengths of files without pages.
const EMPTY_V1: u64 = (HEADER_SIZE + PAGE_HEADER_SIZE + TRAILER_SIZE) as u64;
const EMPTY_V2: u64 = EMPTY_V1 + 1 + 8;

impl Generation {
    /// The generation of a whole file; `None` for the current generation, and for bytes of no generation, which the
    /// current reader then reports.
    ///
    /// # Errors
    ///
    /// [`Error::Header`] or [`Error::Truncated`] if there is no valid header.
    pub fn detect(file: &[u8]) -> Result<Option<Generation>> {
        Generation::detect_start(file, file.len() as u64)
    }

    /// As [`Generation::detect`], from the first 132 bytes (more may be there) of a file of `len` bytes.
    ///
    /// ```
    /// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
    /// # let page_size = PageSize::new(512).unwrap();
    /// # let mut file = Vec::new();
    /// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
    /// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
    /// # encoder.finish(Checksum::NONE, &mut file)?;
    /// use seawall_ltx::{Generation, PageNo};
    ///
    /// assert_eq!(Generation::detect_start(&file[..132], file.len() as u64)?, None, "the current one");
    /// # Ok::<(), seawall_ltx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Generation::detect`].
    pub fn detect_start(start: &[u8], len: u64) -> Result<Option<Generation>> {
        let (header, compressed) = Header::parse_any(start)?;
        if compressed {
            return Ok(Some(Generation::V1Lz4));
        }
        let start = start.get(HEADER_SIZE..).unwrap_or_default();
        let magic = FRAME_START.get(..4).unwrap_or_default();
        let is_current = match start {
            [0, 0, 0, 0, ..] => ![EMPTY_V1, EMPTY_V2].contains(&len),
            [_, _, _, _, 0, 1, ..] => true,
            [_, _, _, _, 0, 0, rest @ ..] => rest.starts_with(magic),
            _ => false,
        };
        let page = (PAGE_HEADER_SIZE as u64).saturating_add(header.page_size.get().into());
        let whole_pages = len.checked_sub(EMPTY_V1).is_some_and(|len| len % page == 0);
        Ok(if is_current {
            None
        } else if len == EMPTY_V2 || start.get(4..8) == Some(magic) {
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
/// `visit` gets the pages in order *before* the end of the file is verified. After an error the caller must discard
/// everything that it made from them. Memory for older generations: one page, one block of 64 KiB, a few bytes for each
/// page.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid};
/// # let size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::decode_any;
///
/// let summary = decode_any(&file, |page, data| println!("page {page}: {} bytes", data.len()))?;
/// assert_eq!(summary.header.commit, 3);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
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

fn decode_legacy(generation: Generation, file: &[u8], visit: impl FnMut(PageNo, &[u8])) -> Result<Summary> {
    let mut rest = file;
    let pull = |into: &mut [u8]| {
        let (here, behind) = rest.split_at_checked(into.len())?;
        into.copy_from_slice(here);
        rest = behind;
        Some(())
    };
    decode_stream(generation, file.len() as u64, pull, visit)
}

/// Reads a file of an older generation, whose length is known, from its first byte on. `pull` fills a buffer with the
/// next bytes, or returns `None` if it can't.
pub(crate) fn decode_stream(
    generation: Generation,
    len: u64,
    mut pull: impl FnMut(&mut [u8]) -> Option<()>,
    mut visit: impl FnMut(PageNo, &[u8]),
) -> Result<Summary> {
    let mut bytes = Bytes { pull: &mut pull, held: Vec::new(), offset: 0, len };
    let head = bytes.take(HEADER_SIZE, Part::Header)?;
    let (header, _) = Header::parse_any(head)?;
    let mut state = State::new(header, head);
    let mut source = Source::new(generation, bytes)?;
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
        let hash = state.hasher.hash(&page);
        state.crc.update(&page);
        state.rolling.toggle(state.hasher.checksum(number, hash));
        visit(number, &page);
    }
    state.sequence.finish()?;
    let mut rest = source.finish()?;
    if generation == Generation::V2 {
        state.check_index(&mut rest)?;
    }
    state.check_trailer(rest)
}

/// The facts about the file so far.
struct State {
    header: Header,
    sequence: Sequence,
    ledger: Ledger,
    hasher: PageHasher,
    crc: Crc64,
    rolling: Rolling,
}

impl State {
    fn new(header: Header, bytes: &[u8]) -> State {
        let mut crc = Crc64::new();
        crc.update(bytes);
        let (sequence, hasher) = (Sequence::new(&header), PageHasher::new(header.page_size));
        State { header, sequence, ledger: Ledger::new(), hasher, crc, rolling: Rolling::new() }
    }

    /// Compares the index with the pages.
    fn check_index(&mut self, bytes: &mut Bytes<'_>) -> Result<()> {
        let offset = bytes.offset;
        let mut index = IndexReader::new(&self.ledger);
        loop {
            let byte = bytes.take(1, Part::Index)?;
            self.crc.update(byte);
            let byte = byte.first().copied().unwrap_or_default();
            if index.push(byte, &self.ledger).map_err(|fault| Error::Index { offset, fault })? {
                break;
            }
        }
        let size = bytes.take(8, Part::Index)?;
        self.crc.update(size);
        let stored = size.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let actual = index.size;
        if stored != actual {
            return Err(Error::Index { offset, fault: IndexFault::Size { stored, actual } });
        }
        Ok(())
    }

    fn check_trailer(mut self, mut bytes: Bytes<'_>) -> Result<Summary> {
        let trailer = bytes.take(TRAILER_SIZE, Part::Trailer)?.first_chunk().map(Trailer::parse);
        let trailer = trailer.ok_or(Error::Truncated { offset: bytes.len, part: Part::Trailer })?;
        if bytes.offset != bytes.len {
            return Err(Error::Trailing { offset: bytes.offset });
        }
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

/// The source of page headers and pages.
enum Source<'a> {
    Raw(Bytes<'a>),
    /// Page by page.
    Frames(Bytes<'a>),
    /// All of them as one stream, and a block of it.
    Stream(Stream<'a>),
}

impl<'a> Source<'a> {
    fn new(generation: Generation, mut bytes: Bytes<'a>) -> Result<Source<'a>> {
        Ok(match generation {
            Generation::V1 => Source::Raw(bytes),
            Generation::V2 => Source::Frames(bytes),
            Generation::V1Lz4 => {
                let offset = bytes.offset;
                if bytes.take(FRAME_START.len(), Part::Pages)? != FRAME_START {
                    return Err(Error::Lz4 { page: PageNo(0), offset, fault: Lz4Fault::Frame });
                }
                Source::Stream(Stream { bytes, block: Vec::new(), at: 0, sum: XxHash32::with_seed(0) })
            }
        })
    }

    /// Reads a page header.
    fn header(&mut self, out: &mut [u8]) -> Result<()> {
        match self {
            Source::Raw(bytes) | Source::Frames(bytes) => bytes.fill(out),
            Source::Stream(stream) => stream.read(out),
        }
    }

    /// Reads a page; returns the size of its frame with the page header.
    fn page(&mut self, page: PageNo, out: &mut [u8]) -> Result<u32> {
        let size = match self {
            Source::Raw(bytes) => {
                bytes.fill(out)?;
                out.len()
            }
            Source::Stream(stream) => {
                stream.read(out)?;
                out.len()
            }
            Source::Frames(bytes) => {
                let offset = bytes.offset;
                let error = |fault| Error::Lz4 { page, offset, fault };
                let frame = bytes.take_frame(out.len())?.ok_or(error(Lz4Fault::Frame))?;
                lz4::decompress_frame(frame, out).map_err(error)?;
                frame.len()
            }
        };
        u32::try_from(size.saturating_add(PAGE_HEADER_SIZE)).map_err(|_| Error::TooLarge)
    }

    /// Ends the pages; returns the bytes after them.
    fn finish(self) -> Result<Bytes<'a>> {
        match self {
            Source::Raw(bytes) | Source::Frames(bytes) => Ok(bytes),
            Source::Stream(stream) => stream.finish(),
        }
    }
}

/// The file from the current read position on.
struct Bytes<'a> {
    pull: &'a mut dyn FnMut(&mut [u8]) -> Option<()>,
    held: Vec<u8>,
    offset: u64,
    len: u64,
}

impl Bytes<'_> {
    /// The next `len` bytes, in a part of the file where no more than a page is read at once.
    fn take(&mut self, len: usize, part: Part) -> Result<&[u8]> {
        self.held.clear();
        self.more(len, part)?;
        Ok(&self.held)
    }

    fn more(&mut self, len: usize, part: Part) -> Result<()> {
        let truncated = Error::Truncated { offset: self.len, part };
        let end = self.offset.checked_add(len as u64).filter(|end| *end <= self.len).ok_or(truncated)?;
        let from = self.held.len();
        self.held.resize(from + len, 0);
        (self.pull)(self.held.get_mut(from..).unwrap_or_default()).ok_or(truncated)?;
        self.offset = end;
        Ok(())
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(self.take(out.len(), Part::Pages)?);
        Ok(())
    }

    fn take_u32(&mut self) -> Result<u32> {
        let bytes = self.take(4, Part::Pages)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    /// A frame of one block: the start, the length of the block, the block and the end. `None` if the block can't be
    /// one page.
    fn take_frame(&mut self, page_size: usize) -> Result<Option<&[u8]>> {
        self.take(FRAME_START.len() + 4, Part::Pages)?;
        let size = self.held.last_chunk().copied().map_or(0, u32::from_le_bytes) & !STORED;
        let Some(len) = usize::try_from(size).ok().filter(|len| *len <= page_size + page_size / 255 + 16) else {
            return Ok(None);
        };
        self.more(len.saturating_add(FRAME_END), Part::Pages)?;
        Ok(Some(&self.held))
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

    /// Decompresses the next block; returns whether there was one.
    fn next_block(&mut self) -> Result<bool> {
        let offset = self.bytes.offset;
        let error = |fault| Error::Lz4 { page: PageNo(0), offset, fault };
        let size = self.bytes.take_u32()?;
        let len = usize::try_from(size & !STORED).map_err(|_| Error::TooLarge)?;
        if len == 0 {
            return Ok(false);
        }
        // A length in the file can't make the reader wait: no block is longer than its content.
        if len > BLOCK_SIZE {
            return Err(error(Lz4Fault::Frame));
        }
        let block = self.bytes.take(len, Part::Pages)?;
        self.block.clear();
        self.at = 0;
        if size & STORED == 0 {
            self.block.resize(BLOCK_SIZE, 0);
            let len = lz4::decompress_partly(block, &mut self.block).map_err(error)?;
            self.block.truncate(len);
        } else {
            self.block.extend_from_slice(block);
        }
        self.sum.write(&self.block);
        Ok(true)
    }

    /// Reads the end mark and checks the content checksum.
    fn finish(mut self) -> Result<Bytes<'a>> {
        let offset = self.bytes.offset;
        let error = |fault| Err(Error::Lz4 { page: PageNo(0), offset, fault });
        if self.at != self.block.len() || self.next_block()? {
            return error(Lz4Fault::Frame);
        }
        if self.bytes.take_u32()? != self.sum.finish_32() {
            return error(Lz4Fault::ContentChecksum);
        }
        Ok(self.bytes)
    }
}
