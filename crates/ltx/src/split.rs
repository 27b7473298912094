//! Reading a file as a stream: arbitrary pieces in, header and batches of whole frames out.
//!
//! The [`Splitter`] does the cheap work that must happen in order: it finds the frames, checks the order of the pages,
//! compares the index with the frames, and adds up the checksums. The expensive work, decompression and hashing,
//! happens in [`RawBatch::decode`] on any thread; [`Splitter::join`] takes the results back in order. The pages are
//! unverified until [`Splitter::finish`] returns success.
//!
//! Memory: one batch, and typically 3 (at most 8) bytes for each page to compare the index with.

use alloc::vec::Vec;

use crate::checksum::{Crc64, Rolling};
use crate::decode::{CheckedBatch, DecodedBatch, RawBatch, Share};
use crate::error::{Error, IndexFault, Part, Result};
use crate::frame::{self, END_MARKER, Measure, PAGE_HEADER_SIZE};
use crate::header::{HEADER_SIZE, Header, TRAILER_SIZE, Trailer};
use crate::ledger::{Cursor, Frame, Ledger};
use crate::sequence::Sequence;
use crate::varint::Varint;

/// The default decompressed size at which a batch is complete.
const BATCH_SIZE: usize = 1 << 20;

/// The index size and the trailer.
const TAIL_SIZE: usize = 8 + TRAILER_SIZE;

/// The summary of a file that was read and verified to its end.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
/// # let page_size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{PageNo, decode_all};
///
/// let summary = decode_all(&file, |_, _| ())?;
/// assert_eq!((summary.pages, summary.header.max_txid), (1, Txid(2)));
/// assert_eq!(summary.trailer.post_apply, Checksum::NONE);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The header.
    pub header: Header,
    /// The trailer.
    pub trailer: Trailer,
    /// How many pages were in the file.
    pub pages: u64,
}

/// Takes a file apart while it arrives.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Splitter, Txid};
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(PageSize::new(512).unwrap(), 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// let mut splitter = Splitter::new();
/// for piece in file.chunks(100) {
///     let mut piece = piece;
///     while let Some(batch) = splitter.feed(&mut piece)? {
///         let batch = batch.decode()?; // on this thread or on another
///         splitter.join(&batch)?; // in order
///         for (page, data) in batch.pages() {
///             assert_eq!((page, data), (PageNo(3), &[3; 512][..]));
///         }
///     }
/// }
/// let summary = splitter.finish()?; // only now it is known to be right
/// assert_eq!(summary.pages, 1);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
pub struct Splitter {
    state: State,
    batch_size: usize,
    /// How many bytes of the file were consumed.
    position: u64,
    /// The unfinished header; later the frames that are not returned yet, the last of them unfinished; later index size
    /// and trailer.
    held: Vec<u8>,
    /// The CRC over the header and the joined batches.
    crc: Crc64,
    /// The CRC over the end marker and all bytes after it.
    tail_crc: Crc64,
    rolling: Rolling,
    /// The offset of the batch that has to be joined next.
    joined: u64,
}

/// How far the file was read.
enum State {
    Header,
    Pages(Pages),
    Index(Pages, IndexReader),
    Tail(Pages, u64),
    Done(Pages, Trailer),
    /// The defect after the returned frames.
    Defect(Pages, Error),
    Failed(Error),
}

/// The facts about the pages.
struct Pages {
    header: Header,
    sequence: Sequence,
    ledger: Ledger,
    /// How many bytes of `held` are whole frames, and how many frames.
    whole: usize,
    frames: usize,
    /// How many bytes after `whole` are needed to continue.
    need: usize,
}

/// The element after the whole frames.
enum Look {
    /// An element that hasn't arrived completely.
    Need,
    /// A frame that is whole now.
    Frame,
    /// The end marker.
    End,
}

impl Pages {
    /// Examines the bytes after the whole frames.
    fn look(&mut self, here: &[u8]) -> Result<Look> {
        match frame::measure(here, self.ledger.end(), self.header.page_size)? {
            Measure::Need(len) => self.need = len,
            Measure::Frame { len, .. } if here.len() < len => self.need = len,
            Measure::Frame { page, len, .. } => {
                self.sequence.admit(page)?;
                self.ledger.push(page, u32::try_from(len).map_err(|_| Error::TooLarge)?)?;
                self.whole += len;
                self.frames += 1;
                self.need = PAGE_HEADER_SIZE;
                return Ok(Look::Frame);
            }
            Measure::End => {
                self.sequence.finish()?;
                return Ok(Look::End);
            }
        }
        Ok(Look::Need)
    }

    /// Takes the whole frames out of `held`, and keeps the bytes after them.
    fn take_batch(&mut self, held: &mut Vec<u8>) -> Option<RawBatch> {
        held.truncate(self.whole);
        if self.frames == 0 {
            return None;
        }
        let next = Vec::with_capacity(held.len());
        let bytes = core::mem::replace(held, next);
        let batch = RawBatch {
            offset: self.ledger.end().saturating_sub(bytes.len() as u64),
            page_size: self.header.page_size,
            rolling: self.header.is_snapshot() && !self.header.no_checksum,
            frames: self.frames,
            bytes,
        };
        (self.whole, self.frames) = (0, 0);
        Some(batch)
    }
}

impl core::fmt::Debug for Splitter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (header, position) = (self.header(), self.position);
        f.debug_struct("Splitter").field("header", &header).field("position", &position).finish_non_exhaustive()
    }
}

impl Splitter {
    /// A reader of one file, with batches of about 1 MiB of decompressed pages.
    pub fn new() -> Splitter {
        Splitter::with_batch_size(BATCH_SIZE)
    }

    /// A reader of one file. It returns a batch once the batch has `bytes` bytes of decompressed pages, or is the last.
    /// A batch has at least one page.
    pub fn with_batch_size(bytes: usize) -> Splitter {
        Splitter {
            state: State::Header,
            batch_size: bytes,
            position: 0,
            held: Vec::new(),
            crc: Crc64::new(),
            tail_crc: Crc64::new(),
            rolling: Rolling::new(),
            joined: HEADER_SIZE as u64,
        }
    }

    /// The header, once its 100 bytes have arrived.
    pub fn header(&self) -> Option<&Header> {
        match &self.state {
            State::Header | State::Failed(_) => None,
            State::Pages(pages)
            | State::Index(pages, _)
            | State::Tail(pages, _)
            | State::Done(pages, _)
            | State::Defect(pages, _) => Some(&pages.header),
        }
    }

    /// Consumes bytes from the front of `piece` until a batch is complete. Returns `None` if the piece is used up
    /// before that.
    ///
    /// # Errors
    ///
    /// The first defect of the file after the returned batches; every later call returns the same one. Defects of the
    /// returned batches show when they are decoded.
    pub fn feed(&mut self, piece: &mut &[u8]) -> Result<Option<RawBatch>> {
        let result = self.step(piece);
        if let Err(error) = result {
            self.state = State::Failed(error);
        }
        result
    }

    fn step(&mut self, piece: &mut &[u8]) -> Result<Option<RawBatch>> {
        while !piece.is_empty() {
            let batch = match core::mem::replace(&mut self.state, State::Header) {
                State::Header => self.step_header(piece)?,
                State::Pages(pages) => self.step_pages(pages, piece)?,
                State::Index(pages, index) => self.step_index(pages, index, piece)?,
                State::Tail(pages, index_size) => self.step_tail(pages, index_size, piece)?,
                State::Done(..) => return Err(Error::Trailing { offset: self.position }),
                State::Defect(_, error) | State::Failed(error) => return Err(error),
            };
            if batch.is_some() {
                return Ok(batch);
            }
        }
        Ok(None)
    }

    /// Moves bytes from the piece until `held` has `len`; returns whether it does.
    fn hold(&mut self, len: usize, piece: &mut &[u8]) -> bool {
        let missing = len.saturating_sub(self.held.len());
        let (taken, rest) = piece.split_at_checked(missing).unwrap_or((piece, &[]));
        self.held.extend_from_slice(taken);
        self.position = self.position.saturating_add(taken.len() as u64);
        *piece = rest;
        self.held.len() >= len
    }

    fn step_header(&mut self, piece: &mut &[u8]) -> Result<Option<RawBatch>> {
        if self.hold(HEADER_SIZE, piece) {
            let header = Header::parse(&self.held)?;
            self.crc.update(&self.held);
            self.held.clear();
            let sequence = Sequence::new(&header);
            let (whole, frames, need) = (0, 0, PAGE_HEADER_SIZE);
            self.state = State::Pages(Pages { header, sequence, ledger: Ledger::new(), whole, frames, need });
        }
        Ok(None)
    }

    fn step_pages(&mut self, mut pages: Pages, piece: &mut &[u8]) -> Result<Option<RawBatch>> {
        while self.hold(pages.whole.saturating_add(pages.need), piece) {
            let here = self.held.get(pages.whole..).unwrap_or_default();
            match pages.look(here) {
                Ok(Look::Need) => {}
                Ok(Look::Frame) => {
                    if pages.frames.saturating_mul(pages.header.page_size.bytes()) >= self.batch_size {
                        let batch = pages.take_batch(&mut self.held);
                        self.state = State::Pages(pages);
                        return Ok(batch);
                    }
                }
                Ok(Look::End) => {
                    self.tail_crc.update(&END_MARKER);
                    let batch = pages.take_batch(&mut self.held);
                    let index = IndexReader::new(&pages.ledger);
                    self.state = State::Index(pages, index);
                    return Ok(batch);
                }
                // The frames before the defect are returned first.
                Err(error) => {
                    let batch = pages.take_batch(&mut self.held);
                    self.state = State::Defect(pages, error);
                    return if batch.is_some() { Ok(batch) } else { Err(error) };
                }
            }
        }
        self.state = State::Pages(pages);
        Ok(None)
    }

    fn step_index(&mut self, pages: Pages, mut index: IndexReader, piece: &mut &[u8]) -> Result<Option<RawBatch>> {
        let all = *piece;
        let mut complete = false;
        while let Some((byte, rest)) = piece.split_first().filter(|_| !complete) {
            let fault = |fault| Error::Index { offset: self.position, fault };
            complete = index.push(*byte, &pages.ledger).map_err(fault)?;
            self.position = self.position.saturating_add(1);
            *piece = rest;
        }
        self.tail_crc.update(all.strip_suffix(*piece).unwrap_or(all));
        self.held.clear();
        self.state = if complete { State::Tail(pages, index.size) } else { State::Index(pages, index) };
        Ok(None)
    }

    fn step_tail(&mut self, pages: Pages, actual: u64, piece: &mut &[u8]) -> Result<Option<RawBatch>> {
        if !self.hold(TAIL_SIZE, piece) {
            self.state = State::Tail(pages, actual);
            return Ok(None);
        }
        let (size, trailer) = self.held.split_first_chunk().ok_or(Error::TooLarge)?;
        let stored = u64::from_be_bytes(*size);
        if stored != actual {
            let offset = self.position.saturating_sub(TAIL_SIZE as u64);
            return Err(Error::Index { offset, fault: IndexFault::Size { stored, actual } });
        }
        let trailer = Trailer::parse(trailer.first_chunk().ok_or(Error::TooLarge)?);
        self.tail_crc.update(size);
        self.tail_crc.update(&trailer.post_apply.0.to_be_bytes());
        self.held.clear();
        self.state = State::Done(pages, trailer);
        Ok(None)
    }

    /// Adds a decoded batch to the checksums. The caller joins all batches, in the order in which they were returned,
    /// at any time before [`Splitter::finish`].
    ///
    /// # Errors
    ///
    /// [`Error::BatchOrder`] if another batch has to come first.
    pub fn join(&mut self, batch: &DecodedBatch) -> Result<()> {
        self.add(batch.offset, &batch.share)
    }

    /// Adds a checked batch to the checksums, as [`Splitter::join`] does with a decoded batch.
    ///
    /// # Errors
    ///
    /// [`Error::BatchOrder`] if another batch has to come first.
    pub fn join_checked(&mut self, batch: &CheckedBatch) -> Result<()> {
        self.add(batch.offset, &batch.share)
    }

    fn add(&mut self, offset: u64, share: &Share) -> Result<()> {
        if offset != self.joined {
            return Err(Error::BatchOrder { expected: self.joined, found: offset });
        }
        self.joined = share.end;
        self.crc.join(&share.crc);
        self.rolling.join(share.rolling);
        Ok(())
    }

    /// Ends the file, and returns whether it was right from the first byte to the last.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the file isn't complete, or what is wrong with the pages of it that were not handed out;
    /// [`Error::FileChecksum`], [`Error::PostApply`], [`Error::DatabaseChecksum`] if a checksum is wrong,
    /// [`Error::BatchOrder`] if a batch was not joined, and the defect that [`Splitter::feed`] has found before.
    pub fn finish(mut self) -> Result<Summary> {
        let truncated = |part| Err(Error::Truncated { offset: self.position, part });
        let (pages, trailer) = match self.state {
            State::Header => return truncated(Part::Header),
            State::Pages(mut pages) => {
                let last = pages.take_batch(&mut self.held);
                return last.map_or(Ok(()), |batch| batch.decode().map(drop)).and_then(|()| truncated(Part::Pages));
            }
            State::Index(..) => return truncated(Part::Index),
            State::Tail(..) if self.held.len() < 8 => return truncated(Part::Index),
            State::Tail(..) => return truncated(Part::Trailer),
            State::Defect(_, error) | State::Failed(error) => return Err(error),
            State::Done(pages, trailer) => (pages, trailer),
        };
        if self.joined != pages.ledger.end() {
            return Err(Error::BatchOrder { expected: self.joined, found: pages.ledger.end() });
        }
        self.crc.join(&self.tail_crc);
        let (stored, computed) = (trailer.file, self.crc.checksum());
        if stored != computed {
            return Err(Error::FileChecksum { stored, computed });
        }
        let header = pages.header;
        header.validate_post_apply(trailer.post_apply)?;
        let (stored, computed) = (trailer.post_apply, self.rolling.checksum());
        if header.is_snapshot() && !header.no_checksum && stored != computed {
            return Err(Error::DatabaseChecksum { stored, computed });
        }
        Ok(Summary { header, trailer, pages: pages.sequence.pages() })
    }
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter::new()
    }
}

/// Compares the bytes of an index with the frames that were read.
pub(crate) struct IndexReader {
    cursor: Cursor,
    /// The frame whose entry is next, or is being read.
    expected: Option<Frame>,
    /// How many numbers of that entry were read.
    field: u8,
    varint: Varint,
    /// The bytes so far.
    pub(crate) size: u64,
}

impl IndexReader {
    pub(crate) fn new(ledger: &Ledger) -> IndexReader {
        let mut cursor = Cursor::new();
        let expected = cursor.next(ledger);
        IndexReader { cursor, expected, field: 0, varint: Varint::default(), size: 0 }
    }

    /// Reads the next byte; returns whether the index is complete with it.
    pub(crate) fn push(&mut self, byte: u8, ledger: &Ledger) -> core::result::Result<bool, IndexFault> {
        self.size = self.size.saturating_add(1);
        let Some(value) = self.varint.push(byte).map_err(|_| IndexFault::Varint)? else {
            return Ok(false);
        };
        let frame = match (self.expected, value) {
            (None, 0) => return Ok(true),
            (None, _) => return Err(IndexFault::Extra),
            (Some(frame), 0) if self.field == 0 => return Err(IndexFault::Missing { page: frame.page }),
            (Some(frame), _) => frame,
        };
        let right = match self.field {
            0 => u64::from(frame.page.0),
            1 => frame.offset,
            _ => frame.size,
        };
        if value != right {
            return Err(IndexFault::Mismatch { page: frame.page });
        }
        self.field = (self.field + 1) % 3;
        if self.field == 0 {
            self.expected = self.cursor.next(ledger);
        }
        Ok(false)
    }
}
