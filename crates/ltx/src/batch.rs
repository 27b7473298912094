//! Pages compressed away from the file that they go into.
//!
//! Compression is most of the cost of writing a file, and needs nothing of the file but the page size. A
//! [`Batch`] is made on any thread, carries its frames and its share of the checksums, and is joined by
//! [`Encoder::append`](crate::Encoder::append), in order.

use crate::checksum::{Crc64, Rolling, page_checksum};
use crate::error::{Error, Result};
use crate::frame;
use crate::lz4::Compressor;
use crate::types::{PageNo, PageSize};

/// Compressed pages, ready to be appended to a file.
///
/// Memory: the frames, and 8 bytes for each page.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) page_size: PageSize,
    /// Page number and frame size, in order.
    pub(crate) entries: Vec<(PageNo, u32)>,
    pub(crate) frames: Vec<u8>,
    pub(crate) crc: Crc64,
    pub(crate) rolling: Rolling,
}

impl Batch {
    /// How many pages are in it.
    pub fn pages(&self) -> usize {
        self.entries.len()
    }

    /// The frames: the bytes that [`Encoder::append`](crate::Encoder::append) adds to a file.
    pub fn frames(&self) -> &[u8] {
        &self.frames
    }
}

/// Compresses pages, in the order in which they go into the file. Pure; meant for any thread.
///
/// Some hundred KiB to some MiB of pages make a good batch: joining one costs some microseconds.
///
/// ```
/// use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid, compress_batch};
///
/// let page_size = PageSize::new(512).unwrap();
/// let batch = std::thread::spawn(move || compress_batch(page_size, [(PageNo(1), &[7; 512][..])])).join().unwrap()?;
///
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(Header::new(page_size, 1, Txid(1), Txid(1)), &mut file)?;
/// encoder.append(&batch, &mut file)?;
/// encoder.finish(Checksum::NONE, &mut file)?;
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::PageLength`] if a buffer is not one page long. The order of the pages is checked when the
/// batch is appended.
pub fn compress_batch<'a>(page_size: PageSize, pages: impl IntoIterator<Item = (PageNo, &'a [u8])>) -> Result<Batch> {
    let pages = pages.into_iter();
    let mut compressor = Compressor::new(page_size);
    let mut batch = Batch {
        page_size,
        entries: Vec::with_capacity(pages.size_hint().0),
        frames: Vec::new(),
        crc: Crc64::new(),
        rolling: Rolling::new(),
    };
    for (number, page) in pages {
        check_length(number, page, page_size)?;
        let size = frame::seal(number, page, &mut compressor, &mut batch.frames, &mut batch.crc)?;
        batch.entries.push((number, size));
        batch.rolling.toggle(page_checksum(number, page));
    }
    Ok(batch)
}

/// Whether a buffer is one page.
pub(crate) fn check_length(page: PageNo, data: &[u8], expected: PageSize) -> Result<()> {
    if data.len() == expected.bytes() { Ok(()) } else { Err(Error::PageLength { page, len: data.len(), expected }) }
}
