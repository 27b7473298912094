//! Page frames: a page header, a length in the newer form, and the compressed page.
//!
//! ```text
//! block form  page u32 | flags 0x0001 | length u32 | LZ4 block          written here and by all since 0.5.2
//! frame form  page u32 | flags 0x0000 | LZ4 frame                       Litestream 0.5.0 to 0.5.15
//! end marker  0000 0000 0000
//! ```
//!
//! One file may have both forms. [`measure`] finds the end of a frame from its first bytes alone, and bounds its length
//! by the page size. So a reader never waits for, or allocates, a length that only the file claims.

use crate::error::{Error, Generation, Lz4Fault, PageRule, Result};
use crate::header::HEADER_SIZE;
use crate::lz4::{self, Compressor};
use crate::types::{PageNo, PageSize};

/// The bytes of a page header, and of the end marker.
pub(crate) const PAGE_HEADER_SIZE: usize = 6;
/// The bytes after the last frame, in place of a page header.
pub(crate) const END_MARKER: [u8; PAGE_HEADER_SIZE] = [0; PAGE_HEADER_SIZE];
/// The bytes of a page header with the length of the block form.
const BLOCK_HEADER_SIZE: usize = PAGE_HEADER_SIZE + 4;
/// The bytes in front of the data of the frame form: page header, start, length.
const FRAME_HEADER_SIZE: usize = PAGE_HEADER_SIZE + lz4::FRAME_START.len() + 4;

const FLAG_SIZED: u16 = 1;

/// The largest frame of any page size.
pub(crate) const MAX_FRAME_SIZE: u64 = 65536 + 65536 / 255 + 16 + (FRAME_HEADER_SIZE + lz4::FRAME_END) as u64;
/// The smallest frame: a block of one byte.
pub(crate) const MIN_FRAME_SIZE: u64 = BLOCK_HEADER_SIZE as u64 + 1;

/// The element at an offset of the page block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Deciding needs this many bytes from the start of the frame.
    Need(usize),
    /// The end marker.
    End,
    /// A frame. Its bytes may not all be there yet.
    Frame {
        page: PageNo,
        /// The whole frame.
        len: usize,
        /// How many of its bytes enter the file checksum as stored, before the decompressed page.
        hashed: usize,
    },
}

/// Finds the element at the front of `bytes`, which begin at `offset` of a file.
pub(crate) fn measure(bytes: &[u8], offset: u64, page_size: PageSize) -> Result<Measure> {
    let Some(&[p0, p1, p2, p3, f0, f1]) = bytes.first_chunk() else {
        return Ok(Measure::Need(PAGE_HEADER_SIZE));
    };
    let page = PageNo(u32::from_be_bytes([p0, p1, p2, p3]));
    let flags = u16::from_be_bytes([f0, f1]);
    match (page, flags) {
        (PageNo(0), 0) => Ok(Measure::End),
        (PageNo(0), _) => Err(Error::Page { page, rule: PageRule::Zero }),
        (_, FLAG_SIZED) => measure_block(bytes, page, offset, page_size),
        (_, 0) => measure_frame(bytes, page, offset, page_size),
        _ => unknown_flags(bytes, offset, flags),
    }
}

fn measure_block(bytes: &[u8], page: PageNo, offset: u64, page_size: PageSize) -> Result<Measure> {
    let Some(len) = field(bytes, PAGE_HEADER_SIZE).map(u32::from_be_bytes) else {
        return Ok(Measure::Need(BLOCK_HEADER_SIZE));
    };
    let max = lz4::bound(page_size);
    match usize::try_from(len) {
        Ok(n) if (1..=max).contains(&n) => {
            Ok(Measure::Frame { page, len: BLOCK_HEADER_SIZE + n, hashed: BLOCK_HEADER_SIZE })
        }
        _ => Err(Error::FrameLength { page, offset, len: len.into() }),
    }
}

fn measure_frame(bytes: &[u8], page: PageNo, offset: u64, page_size: PageSize) -> Result<Measure> {
    let Some(len) = field(bytes, FRAME_HEADER_SIZE - 4).map(u32::from_le_bytes) else {
        return Ok(Measure::Need(FRAME_HEADER_SIZE));
    };
    if bytes.get(PAGE_HEADER_SIZE..FRAME_HEADER_SIZE - 4) != Some(&lz4::FRAME_START) {
        return Err(Error::Lz4 { page, offset, fault: Lz4Fault::Frame });
    }
    let len = len & !lz4::STORED;
    match usize::try_from(len) {
        Ok(n) if (1..=lz4::bound(page_size)).contains(&n) => {
            Ok(Measure::Frame { page, len: FRAME_HEADER_SIZE + n + lz4::FRAME_END, hashed: PAGE_HEADER_SIZE })
        }
        _ => Err(Error::FrameLength { page, offset, len: len.into() }),
    }
}

/// The first page header of an older generation has two bytes less, so the flags are the first bytes of a
/// page (page 1 begins with SQLite's magic) or of an LZ4 frame.
fn unknown_flags(bytes: &[u8], offset: u64, flags: u16) -> Result<Measure> {
    if offset == HEADER_SIZE as u64 {
        match field(bytes, 4) {
            None => return Ok(Measure::Need(8)),
            Some([b'S', b'Q', b'L', b'i']) => return Err(Error::Generation(Generation::V1)),
            Some([0x04, 0x22, 0x4d, 0x18]) => return Err(Error::Generation(Generation::V2)),
            Some(_) => {}
        }
    }
    Err(Error::PageFlags { offset, flags })
}

fn field(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Decompresses a whole frame into `page`; returns the bytes that enter the file checksum as stored.
pub(crate) fn open<'a>(
    frame: &'a [u8],
    number: PageNo,
    hashed: usize,
    offset: u64,
    page: &mut [u8],
) -> Result<&'a [u8]> {
    let fault = |fault| Error::Lz4 { page: number, offset, fault };
    let (head, data) = frame.split_at_checked(hashed).ok_or_else(|| fault(Lz4Fault::Frame))?;
    if hashed == BLOCK_HEADER_SIZE { lz4::decompress(data, page) } else { lz4::decompress_frame(data, page) }
        .map_err(fault)?;
    Ok(head)
}

/// Whether a measured frame is of the block form, which this crate writes.
pub(crate) fn is_block(hashed: usize) -> bool {
    hashed == BLOCK_HEADER_SIZE
}

/// The most that [`seal`] writes for a page.
pub(crate) fn room(page_size: PageSize) -> usize {
    BLOCK_HEADER_SIZE + lz4::bound(page_size)
}

/// Writes a page as a frame of the block form to the front of `out`, which must have [`room`] for one. Returns the
/// length of the page header and of the whole frame.
pub(crate) fn seal(number: PageNo, page: &[u8], compressor: &mut Compressor, out: &mut [u8]) -> Result<(usize, usize)> {
    let (head, block) = out.split_first_chunk_mut::<BLOCK_HEADER_SIZE>().ok_or(Error::TooLarge)?;
    let len = compressor.compress(page, block);
    head[..4].copy_from_slice(&number.0.to_be_bytes());
    head[4..6].copy_from_slice(&FLAG_SIZED.to_be_bytes());
    head[6..].copy_from_slice(&u32::try_from(len).map_err(|_| Error::TooLarge)?.to_be_bytes());
    Ok((BLOCK_HEADER_SIZE, BLOCK_HEADER_SIZE + len))
}
