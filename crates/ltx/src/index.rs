//! The page index, for random access: it finds the frame of a page from the last bytes of a file alone.
//!
//! ```text
//! … frames | 0000 0000 0000 | (page, offset, size) as varints, … | 0 | index size u64 | trailer 16
//! ```
//!
//! Reading checks the index only by itself: entries ascend, and frames fill the file from the header to the end marker
//! without a gap. Only reading the frames shows whether they hold these pages.

use alloc::vec::Vec;

use crate::error::{Error, IndexFault, Part, Result};
use crate::frame::{MAX_FRAME_SIZE, MIN_FRAME_SIZE, PAGE_HEADER_SIZE};
use crate::header::{HEADER_SIZE, Header, TRAILER_SIZE, Trailer};
use crate::sequence::Sequence;
use crate::types::PageNo;
use crate::varint;

/// The fewest bytes of an entry: three numbers of one byte.
const MIN_ENTRY_SIZE: usize = 3;

/// Where a page is in a file.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
/// # let page_size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{Index, IndexEntry, PageNo, TRAILER_SIZE, Trailer};
///
/// let index = Index::parse(&file, file.len() as u64)?;
/// let [IndexEntry { page, offset, .. }] = index.entries() else { panic!() };
/// assert_eq!((*page, *offset), (PageNo(3), 100));
/// assert_eq!(Some(index.trailer()), file.last_chunk::<TRAILER_SIZE>().map(Trailer::parse));
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The page.
    pub page: PageNo,
    /// The bytes of its frame.
    pub size: u32,
    /// The offset of its frame in the file.
    pub offset: u64,
}

/// The page index of a file, which is between the page frames and the trailer.
///
/// ```text
/// … frames | 0000 0000 0000 | page offset size | page offset size | … | 00 | index size | trailer
///            end marker, 6    varints, ascending, one for each frame   1    8            16
/// ```
///
/// The varints are unsigned LEB128, in their shortest form. The offset is from the start of the file. The index size
/// counts the varints and the 0 after them.
///
/// Memory: 16 bytes for each page.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, Txid};
/// use seawall_ltx::{Error, Index, PageNo, PageSize, decode_frame};
/// # let page_size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(page_size, 9, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// let len = file.len() as u64;
/// let index = match Index::parse(&file[file.len() - 24..], len) {
///     Err(Error::TailTooShort { needed }) => Index::parse(&file[(len - needed) as usize..], len)?,
///     other => other?,
/// };
/// let entry = index.find(PageNo(3)).unwrap();
/// let frame = &file[entry.offset as usize..][..entry.size as usize];
/// assert_eq!(decode_frame(page_size, frame)?, (PageNo(3), vec![3; 512]));
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    entries: Vec<IndexEntry>,
    trailer: Trailer,
}

impl Index {
    /// Reads the index from the last bytes of a file of `file_len` bytes. `tail` may begin before the index.
    ///
    /// # Errors
    ///
    /// [`Error::TailTooShort`] says how many bytes are needed if `tail` doesn't have all of the index (24
    /// to begin with). [`Error::Truncated`] if the file is too short for what it says; [`Error::Index`] if
    /// the index is invalid.
    pub fn parse(tail: &[u8], file_len: u64) -> Result<Index> {
        const FIXED: u64 = 8 + TRAILER_SIZE as u64;
        let Some((rest, trailer)) = tail.split_last_chunk::<TRAILER_SIZE>() else {
            return Err(Error::TailTooShort { needed: FIXED });
        };
        let Some((rest, size)) = rest.split_last_chunk() else {
            return Err(Error::TailTooShort { needed: FIXED });
        };
        let size = u64::from_be_bytes(*size);
        let needed = size.checked_add(FIXED).filter(|needed| *needed <= file_len);
        let truncated = Error::Truncated { offset: file_len, part: Part::Index };
        let start = file_len.checked_sub(needed.ok_or(truncated)?).ok_or(truncated)?;
        let frames_end = start.checked_sub(PAGE_HEADER_SIZE as u64).ok_or(truncated)?;
        let from = usize::try_from(size).ok().and_then(|size| rest.len().checked_sub(size));
        let Some(bytes) = from.and_then(|from| rest.get(from..)) else {
            return Err(Error::TailTooShort { needed: size.saturating_add(FIXED) });
        };
        let entries = parse_entries(bytes, start, frames_end)?;
        Ok(Index { entries, trailer: Trailer::parse(trailer) })
    }

    /// Checks that a file with this header can have these pages.
    ///
    /// # Errors
    ///
    /// [`Error::Page`] for a page beyond the end and for the lock page, [`Error::SnapshotHole`] for a snapshot without
    /// all pages.
    pub fn check(&self, header: &Header) -> Result<()> {
        let mut sequence = Sequence::new(header);
        for entry in &self.entries {
            sequence.admit(entry.page)?;
        }
        sequence.finish()
    }

    /// The entries, ascending by page and by offset.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// The entry of a page.
    pub fn find(&self, page: PageNo) -> Option<&IndexEntry> {
        let at = self.entries.binary_search_by_key(&page, |entry| entry.page).ok()?;
        self.entries.get(at)
    }

    /// The trailer of the file.
    pub fn trailer(&self) -> Trailer {
        self.trailer
    }
}

/// Reads the entries of an index that begins at `start` of a file, for frames that end at `frames_end`.
fn parse_entries(mut bytes: &[u8], start: u64, frames_end: u64) -> Result<Vec<IndexEntry>> {
    let len = bytes.len();
    let mut entries: Vec<IndexEntry> = Vec::with_capacity(len / MIN_ENTRY_SIZE / 3);
    let mut last = IndexEntry { page: PageNo(0), size: HEADER_SIZE as u32, offset: 0 };
    loop {
        let at = start.saturating_add((len - bytes.len()) as u64);
        let error = |fault| Error::Index { offset: at, fault };
        let mut number = || varint::take(&mut bytes).ok_or(error(IndexFault::Varint));
        let page = number()?;
        let end = last.offset.saturating_add(last.size.into());
        if page == 0 {
            let exact = bytes.is_empty() && end == frames_end;
            return if exact { Ok(entries) } else { Err(error(IndexFault::Entry)) };
        }
        let (offset, size) = (number()?, number()?);
        let page = u32::try_from(page).map(PageNo).ok().filter(|page| *page > last.page);
        let fits = offset == end && (MIN_FRAME_SIZE..=MAX_FRAME_SIZE).contains(&size);
        let (Some(page), true, Ok(size)) = (page, fits, u32::try_from(size)) else {
            return Err(error(IndexFault::Entry));
        };
        last = IndexEntry { page, size, offset };
        entries.push(last);
    }
}
