//! Decodes frames into pages: whole batches for streams, whole files in memory, single frames for random access.

use alloc::vec;
use alloc::vec::Vec;

use crate::batch::check_length;
use crate::checksum::{Crc64, Rolling};
use crate::error::{Error, Part, Result};
use crate::frame::{self, Measure};
use crate::pagehash::{FileHash, PageHash, PageHasher};
use crate::split::{Splitter, Summary};
use crate::types::{PageNo, PageSize};

/// Whole frames of a file, still compressed. An owned value that can be sent to any thread.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
/// # let page_size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{PageNo, Splitter};
///
/// let mut splitter = Splitter::with_batch_size(512); // a page at a time
/// let batch = splitter.feed(&mut &file[..])?.unwrap();
/// assert_eq!((batch.len(), batch.is_empty()), (1, false));
/// let decoded = std::thread::spawn(move || batch.decode()).join().unwrap()?;
/// assert_eq!(decoded.numbers(), [PageNo(3)]);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RawBatch {
    /// The offset of the first frame in the file.
    pub(crate) offset: u64,
    pub(crate) page_size: PageSize,
    /// Whether the page checksums are needed.
    pub(crate) rolling: bool,
    pub(crate) frames: usize,
    pub(crate) bytes: Vec<u8>,
}

impl RawBatch {
    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.frames
    }

    /// Whether it holds no page. [`Splitter::feed`] never returns such a batch.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Decompresses and hashes the pages. Pure; the expensive half of reading a file.
    ///
    /// Memory: the decompressed pages, and 4 bytes for each.
    ///
    /// # Errors
    ///
    /// [`Error::Lz4`] if a frame is not exactly one page.
    pub fn decode(&self) -> Result<DecodedBatch> {
        let page_size = self.page_size.bytes();
        let mut numbers = Vec::with_capacity(self.frames);
        // The count comes from frames whose bytes have all arrived, so no length in the file can inflate it.
        let mut data = vec![0; self.frames.checked_mul(page_size).ok_or(Error::TooLarge)?];
        let mut frames = Frames::new(self.page_size, self.offset, &self.bytes, self.rolling);
        for page in data.chunks_exact_mut(page_size) {
            numbers.push(frames.next(page)?.page);
        }
        let share = frames.finish()?;
        Ok(DecodedBatch { offset: self.offset, page_size: self.page_size, numbers, data, share })
    }

    /// Decompresses and hashes the pages, and keeps the frames, for a file that is merged from others. Pure.
    ///
    /// Memory: one page, and 40 bytes for each.
    ///
    /// # Errors
    ///
    /// [`Error::Lz4`] if a frame is not exactly one page.
    pub fn check(self) -> Result<CheckedBatch> {
        let mut page = vec![0; self.page_size.bytes()];
        let mut found = Vec::with_capacity(self.frames);
        let mut frames = Frames::new(self.page_size, self.offset, &self.bytes, self.rolling);
        let mut start = 0;
        for _ in 0..self.frames {
            let opened = frames.next(&mut page)?;
            found.push(Found { start, opened });
            start += opened.size;
        }
        let share = frames.finish()?;
        Ok(CheckedBatch { offset: self.offset, bytes: self.bytes, found, share })
    }
}

/// The share of contiguous frames in the checksums of their file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// The offset after the last frame.
    pub(crate) end: u64,
    pub(crate) crc: Crc64,
    pub(crate) rolling: Rolling,
}

/// Decodes contiguous frames one after the other.
pub(crate) struct Frames<'a> {
    hasher: PageHasher,
    rest: &'a [u8],
    end: u64,
    file: FileHash,
    /// Absent if the caller doesn't need it.
    rolling: Option<Rolling>,
}

/// A decoded frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) page: PageNo,
    /// The bytes of the frame.
    pub(crate) size: usize,
    /// How many of them enter the file checksum as stored.
    hashed: usize,
    /// The hash of the page.
    hash: PageHash,
}

impl<'a> Frames<'a> {
    /// The frames in `bytes`, which begin at `offset` of a file.
    pub(crate) fn new(page_size: PageSize, offset: u64, bytes: &'a [u8], rolling: bool) -> Frames<'a> {
        Frames {
            hasher: PageHasher::new(page_size),
            rest: bytes,
            end: offset,
            file: FileHash::new(),
            rolling: rolling.then(Rolling::new),
        }
    }

    /// Decompresses the next frame into `page`, which is one page long, and hashes it.
    pub(crate) fn next(&mut self, page: &mut [u8]) -> Result<Opened> {
        let frame = split_frame(&mut self.rest, self.end, self.hasher.page_size())?;
        let head = frame::open(frame.bytes, frame.page, frame.hashed, self.end, page)?;
        let hash = self.hasher.hash(page);
        self.file.add(&self.hasher, head, hash);
        if let Some(rolling) = &mut self.rolling {
            rolling.toggle(self.hasher.checksum(frame.page, hash));
        }
        self.end = self.end.checked_add(frame.bytes.len() as u64).ok_or(Error::TooLarge)?;
        Ok(Opened { page: frame.page, size: frame.bytes.len(), hashed: frame.hashed, hash })
    }

    /// The sums over the frames, all of which must have been decoded.
    pub(crate) fn finish(self) -> Result<Share> {
        if !self.rest.is_empty() {
            return Err(Error::Trailing { offset: self.end });
        }
        let rolling = self.rolling.unwrap_or_default();
        Ok(Share { end: self.end, crc: self.file.crc(), rolling })
    }
}

/// Decompressed pages, to be joined to the [`Splitter`] they came from, in order.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
/// # let page_size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{PageNo, Splitter};
///
/// let mut splitter = Splitter::new();
/// let batch = splitter.feed(&mut &file[..])?.unwrap().decode()?;
/// assert_eq!((batch.numbers(), batch.data()), (&[PageNo(3)][..], &[3; 512][..]));
/// for (page, data) in batch.pages() {
///     println!("page {page}: {} bytes", data.len());
/// }
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecodedBatch {
    /// Where it was in the file.
    pub(crate) offset: u64,
    page_size: PageSize,
    numbers: Vec<PageNo>,
    data: Vec<u8>,
    pub(crate) share: Share,
}

impl DecodedBatch {
    /// The page numbers, ascending.
    pub fn numbers(&self) -> &[PageNo] {
        &self.numbers
    }

    /// The pages one after the other: the page of `numbers()[i]` is at `i * page_size`.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The pages with their numbers, ascending.
    pub fn pages(&self) -> impl ExactSizeIterator<Item = (PageNo, &[u8])> {
        self.numbers.iter().copied().zip(self.data.chunks_exact(self.page_size.bytes()))
    }
}

/// Frames whose pages were decompressed and hashed, with their bytes as they are in the file. The caller joins them to
/// the [`Splitter`] that they came from, in order.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
/// # let page_size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{PageNo, Splitter};
///
/// let mut splitter = Splitter::new();
/// let batch = splitter.feed(&mut &file[..])?.unwrap().check()?;
/// assert_eq!((batch.len(), batch.is_empty()), (1, false));
/// assert!(batch.get(0).is_some_and(|frame| frame.page() == PageNo(3)) && batch.get(1).is_none());
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckedBatch {
    /// Where it was in the file.
    pub(crate) offset: u64,
    bytes: Vec<u8>,
    found: Vec<Found>,
    pub(crate) share: Share,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    start: usize,
    opened: Opened,
}

impl CheckedBatch {
    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether it holds no page.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The frame at this index, from 0.
    pub fn get(&self, at: usize) -> Option<CheckedFrame<'_>> {
        let Found { start, opened } = *self.found.get(at)?;
        let bytes = self.bytes.get(start..)?.get(..opened.size)?;
        Some(CheckedFrame { page: opened.page, bytes, hashed: opened.hashed, hash: opened.hash })
    }
}

/// A frame whose page was decompressed and hashed, for [`Batcher::copy_checked`](crate::Batcher::copy_checked).
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
/// # let page_size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{PageNo, Splitter, decode_frame};
///
/// let mut splitter = Splitter::new();
/// let batch = splitter.feed(&mut &file[..])?.unwrap().check()?;
/// let frame = batch.get(0).unwrap();
/// assert_eq!(decode_frame(page_size, frame.bytes())?.0, frame.page());
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CheckedFrame<'a> {
    pub(crate) page: PageNo,
    pub(crate) bytes: &'a [u8],
    pub(crate) hashed: usize,
    pub(crate) hash: PageHash,
}

impl CheckedFrame<'_> {
    /// The page's number.
    pub fn page(&self) -> PageNo {
        self.page
    }

    /// The frame as it is in the file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

/// A frame in memory.
pub(crate) struct FrameRef<'a> {
    pub(crate) page: PageNo,
    pub(crate) bytes: &'a [u8],
    /// The bytes that enter the file checksum as stored.
    pub(crate) hashed: usize,
}

/// Reads the frame at the front of `bytes`, which begin at `offset` of a file.
pub(crate) fn split_frame<'a>(bytes: &mut &'a [u8], offset: u64, page_size: PageSize) -> Result<FrameRef<'a>> {
    let truncated = Error::Truncated { offset: offset.saturating_add(bytes.len() as u64), part: Part::Pages };
    let Measure::Frame { page, len, hashed } = frame::measure(bytes, offset, page_size)? else {
        return Err(truncated);
    };
    let (frame, rest) = bytes.split_at_checked(len).ok_or(truncated)?;
    *bytes = rest;
    Ok(FrameRef { page, bytes: frame, hashed })
}

/// Consecutive page frames, unchanged, each with its page. Offsets in errors are relative.
///
/// ```text
///   0  page number, 4  flags, 2               flags 1: the length follows
///   6  length, 4                              of the LZ4 block
///  10  LZ4 block                              decompresses to exactly one page
///
///   0  page number, 4  flags, 2               flags 0, from Litestream 0.5.0 to 0.5.15
///   6  LZ4 frame                              with one block of exactly one page
/// ```
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid};
/// # let size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{Index, frames};
///
/// let index = Index::parse(&file, file.len() as u64)?;
/// let last = index.entries().last().unwrap();
/// let all = &file[100..(last.offset + u64::from(last.size)) as usize];
/// let pages: Vec<PageNo> = frames(size, all).map(|frame| frame.map(|(page, _)| page)).collect::<Result<_, _>>()?;
/// assert_eq!(pages, [PageNo(3)]);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
///
/// # Errors
///
/// An item that is an error says what is wrong with a frame; it is the last item.
pub fn frames(page_size: PageSize, bytes: &[u8]) -> impl Iterator<Item = Result<(PageNo, &[u8])>> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let offset = (bytes.len() - rest.len()) as u64;
        let frame = split_frame(&mut rest, offset, page_size);
        if frame.is_err() {
            rest = &[];
        }
        Some(frame.map(|frame| (frame.page, frame.bytes)))
    })
}

/// Decompresses one frame, as found by [`Index`](crate::Index), into `page`. Returns the page's number.
///
/// Nothing but LZ4 itself protects the content of a single frame: checksums are over whole files.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid};
/// # let size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{Index, decode_frame_into};
///
/// let index = Index::parse(&file, file.len() as u64)?;
/// let entry = index.find(PageNo(3)).unwrap();
/// let frame = &file[entry.offset as usize..][..entry.size as usize];
/// let mut page = [0; 512];
/// assert_eq!(decode_frame_into(size, frame, &mut page)?, PageNo(3));
/// assert_eq!(page, [3; 512]);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::PageLength`] if `page` is not one page long; [`Error::Truncated`] or [`Error::Trailing`] if
/// `bytes` are less or more than the frame; otherwise what is wrong with it. Offsets are relative.
pub fn decode_frame_into(page_size: PageSize, bytes: &[u8], page: &mut [u8]) -> Result<PageNo> {
    let mut rest = bytes;
    let frame = split_frame(&mut rest, 0, page_size)?;
    if !rest.is_empty() {
        return Err(Error::Trailing { offset: frame.bytes.len() as u64 });
    }
    check_length(frame.page, page, page_size)?;
    frame::open(frame.bytes, frame.page, frame.hashed, 0, page)?;
    Ok(frame.page)
}

/// Decompresses one frame, as [`decode_frame_into`], into a new page.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid};
/// # let size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{Index, decode_frame};
///
/// let index = Index::parse(&file, file.len() as u64)?;
/// let entry = index.find(PageNo(3)).unwrap();
/// let frame = &file[entry.offset as usize..][..entry.size as usize];
/// assert_eq!(decode_frame(size, frame)?, (PageNo(3), vec![3; 512]));
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`decode_frame_into`].
pub fn decode_frame(page_size: PageSize, bytes: &[u8]) -> Result<(PageNo, Vec<u8>)> {
    let mut page = vec![0; page_size.bytes()];
    let number = decode_frame_into(page_size, bytes, &mut page)?;
    Ok((number, page))
}

/// Reads and verifies a whole file in memory. For files that are small; [`Splitter`] reads the others.
///
/// `visit` gets the pages in order *before* the end of the file is verified. After an error the caller must discard
/// everything that it made from them.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Error, Header, PageNo, PageSize, Txid, decode_all};
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(PageSize::new(512).unwrap(), 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// let summary = decode_all(&file, |page, data| println!("page {page}: {} bytes", data.len()))?;
/// assert_eq!((summary.header.max_txid, summary.pages), (Txid(2), 1));
///
/// file[60] ^= 1;
/// assert!(matches!(decode_all(&file, |_, _| ()), Err(Error::FileChecksum { .. } | Error::Header(_))));
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
///
/// # Errors
///
/// The first defect of the file.
pub fn decode_all(file: &[u8], mut visit: impl FnMut(PageNo, &[u8])) -> Result<Summary> {
    let mut splitter = Splitter::new();
    let mut rest = file;
    while let Some(batch) = splitter.feed(&mut rest)? {
        let batch = batch.decode()?;
        splitter.join(&batch)?;
        batch.pages().for_each(|(page, data)| visit(page, data));
    }
    splitter.finish()
}
