//! Compresses pages apart from the file that they go into.
//!
//! Compression is most of the cost of writing a file, and depends on the file only by the page size. So any thread can
//! make a [`Batch`], which carries its frames and its share of the checksums.
//! [`Encoder::append`](crate::Encoder::append) adds the batches to the file in order.

use alloc::vec::Vec;

use crate::checksum::{Crc64, Rolling};
use crate::decode::{CheckedFrame, split_frame};
use crate::error::{Error, Result};
use crate::frame;
use crate::lz4::Compressor;
use crate::pagehash::{FileHash, PageHash, PageHasher};
use crate::types::{PageNo, PageSize};

/// Compressed pages, ready to be appended to a file.
///
/// Memory: the frames, and 8 bytes for each page.
///
/// ```
/// use seawall_ltx::{Batcher, PageNo, PageSize, page_checksum};
///
/// let mut batcher = Batcher::new(PageSize::new(512).unwrap());
/// batcher.push(PageNo(5), &[7; 512])?;
/// assert!(batcher.size() > 0);
/// let batch = batcher.take(None);
/// assert_eq!((batch.pages(), batcher.size()), (1, 0));
/// assert!(batch.frames().len() < 512, "it is compressed");
/// assert_eq!(batch.rolling().checksum(), page_checksum(PageNo(5), &[7; 512]));
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) page_size: PageSize,
    /// Page number and frame size, in order.
    pub(crate) entries: Vec<(PageNo, u32)>,
    /// The frames, with reserved room after them.
    buffer: Vec<u8>,
    len: usize,
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
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// The database checksum of the pages, as a share of that of a whole database.
    pub fn rolling(&self) -> Rolling {
        self.rolling
    }
}

/// Makes batches, page by page, and reuses its working memory.
///
/// ```
/// use seawall_ltx::{Batcher, Checksum, Encoder, Header, PageNo, PageSize, Txid};
///
/// let page_size = PageSize::new(512).unwrap();
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(Header::new(page_size, 2, Txid(1), Txid(1)), &mut file)?;
/// let mut batcher = Batcher::new(page_size);
/// let mut used = None;
/// for number in 1..=2 {
///     batcher.push(PageNo(number), &[7; 512])?;
///     let batch = batcher.take(used.take());
///     encoder.append(&batch, &mut file)?;
///     used = Some(batch);
/// }
/// encoder.finish(Checksum::NONE, &mut file)?;
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
pub struct Batcher {
    hasher: PageHasher,
    compressor: Compressor,
    page: Vec<u8>,
    entries: Vec<(PageNo, u32)>,
    buffer: Vec<u8>,
    len: usize,
    file: FileHash,
    rolling: Rolling,
}

impl core::fmt::Debug for Batcher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let page_size = self.hasher.page_size();
        f.debug_struct("Batcher").field("page_size", &page_size).field("size", &self.len).finish_non_exhaustive()
    }
}

impl Batcher {
    /// A maker of batches of pages of this size.
    pub fn new(page_size: PageSize) -> Batcher {
        Batcher {
            hasher: PageHasher::new(page_size),
            compressor: Compressor::default(),
            page: Vec::new(),
            entries: Vec::new(),
            buffer: Vec::new(),
            len: 0,
            file: FileHash::new(),
            rolling: Rolling::new(),
        }
    }

    /// Compresses the next page.
    ///
    /// # Errors
    ///
    /// [`Error::PageLength`] if `data` is not one page long. The order of the pages is checked when the batch
    /// is appended.
    pub fn push(&mut self, number: PageNo, data: &[u8]) -> Result<()> {
        check_length(number, data, self.hasher.page_size())?;
        self.reserve(frame::room(self.hasher.page_size()));
        let out = self.buffer.get_mut(self.len..).unwrap_or_default();
        let (head, len) = frame::seal(number, data, &mut self.compressor, out)?;
        let hash = self.hasher.hash(data);
        self.file.add(&self.hasher, out.get(..head).unwrap_or_default(), hash);
        self.admit(number, len)?;
        self.rolling.toggle(self.hasher.checksum(number, hash));
        Ok(())
    }

    /// Copies a frame of another file unchanged: its page is decompressed for the checksums, but not compressed again.
    /// (A frame of the older form becomes a frame of the newer form, which costs a compression.)
    ///
    /// ```
    /// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
    /// # let page_size = PageSize::new(512).unwrap();
    /// # let mut file = Vec::new();
    /// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
    /// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
    /// # encoder.finish(Checksum::NONE, &mut file)?;
    /// use seawall_ltx::{Batcher, Index, PageNo};
    ///
    /// let index = Index::parse(&file, file.len() as u64)?;
    /// let entry = index.find(PageNo(3)).unwrap();
    /// let frame = &file[entry.offset as usize..][..entry.size as usize];
    /// let mut batcher = Batcher::new(page_size);
    /// assert_eq!(batcher.copy(frame)?, PageNo(3));
    /// assert_eq!(batcher.take(None).frames(), frame);
    /// # Ok::<(), seawall_ltx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`decode_frame`](crate::decode_frame).
    pub fn copy(&mut self, bytes: &[u8]) -> Result<PageNo> {
        let page_size = self.hasher.page_size();
        let mut rest = bytes;
        let found = split_frame(&mut rest, 0, page_size)?;
        if !rest.is_empty() {
            return Err(Error::Trailing { offset: found.bytes.len() as u64 });
        }
        let mut page = core::mem::take(&mut self.page);
        page.resize(page_size.bytes(), 0);
        let opened = frame::open(found.bytes, found.page, found.hashed, 0, &mut page);
        let done = match opened {
            Ok(head) if frame::is_block(found.hashed) => {
                let hash = self.hasher.hash(&page);
                self.copy_block(found.page, head, bytes, hash)
            }
            Ok(_) => self.push(found.page, &page),
            Err(error) => Err(error),
        };
        self.page = page;
        done.map(|()| found.page)
    }

    /// Copies a frame of another file whose page was hashed when it was checked, so nothing is decompressed. (A frame
    /// of the older form becomes a frame of the newer form, which costs both.)
    ///
    /// ```
    /// # use seawall_ltx::{Batcher, Checksum, Encoder, Header, PageNo, PageSize, Splitter, Txid, decode_all};
    /// # let page_size = PageSize::new(512).unwrap();
    /// # let header = Header { no_checksum: true, ..Header::new(page_size, 2, Txid(2), Txid(2)) };
    /// # let mut file = Vec::new();
    /// # let mut encoder = Encoder::new(header, &mut file)?;
    /// # encoder.push(PageNo(2), &[7; 512], &mut file)?;
    /// # encoder.finish(Checksum::NONE, &mut file)?;
    /// let mut again = Vec::new();
    /// let mut encoder = Encoder::new(header, &mut again)?;
    /// let (mut splitter, mut batcher, mut rest) = (Splitter::new(), Batcher::new(page_size), &file[..]);
    /// while let Some(batch) = splitter.feed(&mut rest)? {
    ///     let batch = batch.check()?;
    ///     splitter.join_checked(&batch)?;
    ///     for at in 0..batch.len() {
    ///         batcher.copy_checked(&batch.get(at).unwrap())?;
    ///     }
    ///     encoder.append(&batcher.take(None), &mut again)?;
    /// }
    /// splitter.finish()?; // Only now it is known that the frames are right.
    /// encoder.finish(Checksum::NONE, &mut again)?;
    /// assert_eq!(again, file);
    /// # Ok::<(), seawall_ltx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Batcher::copy`], for a frame of the older form.
    pub fn copy_checked(&mut self, frame: &CheckedFrame<'_>) -> Result<()> {
        match frame.bytes.get(..frame.hashed) {
            Some(head) if frame::is_block(frame.hashed) => self.copy_block(frame.page, head, frame.bytes, frame.hash),
            _ => self.copy(frame.bytes).map(|_| ()),
        }
    }

    fn copy_block(&mut self, number: PageNo, head: &[u8], bytes: &[u8], hash: PageHash) -> Result<()> {
        self.reserve(bytes.len());
        if let Some(out) = self.buffer.get_mut(self.len..).and_then(|out| out.get_mut(..bytes.len())) {
            out.copy_from_slice(bytes);
        }
        self.file.add(&self.hasher, head, hash);
        self.admit(number, bytes.len())?;
        self.rolling.toggle(self.hasher.checksum(number, hash));
        Ok(())
    }

    fn admit(&mut self, number: PageNo, len: usize) -> Result<()> {
        self.entries.push((number, u32::try_from(len).map_err(|_| Error::TooLarge)?));
        self.len += len;
        Ok(())
    }

    /// Reserves `len` bytes after the frames. The buffer grows in steps and never shrinks, because fresh memory costs
    /// as much as compression.
    fn reserve(&mut self, len: usize) {
        let needed = self.len + len;
        if self.buffer.len() < needed {
            self.buffer.resize(needed.max(self.buffer.len().saturating_mul(2)), 0);
        }
    }

    /// Bytes of frames so far.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Returns the pages so far as a batch; the next page begins another batch. The memory of a used batch serves for
    /// the next one.
    pub fn take(&mut self, used: Option<Batch>) -> Batch {
        let (entries, buffer) = used.map(|used| (used.entries, used.buffer)).unwrap_or_default();
        let batch = Batch {
            page_size: self.hasher.page_size(),
            entries: core::mem::replace(&mut self.entries, entries),
            buffer: core::mem::replace(&mut self.buffer, buffer),
            len: core::mem::take(&mut self.len),
            crc: core::mem::replace(&mut self.file, FileHash::new()).crc(),
            rolling: core::mem::take(&mut self.rolling),
        };
        self.entries.clear();
        batch
    }
}

/// Compresses pages, in the order in which they go into the file. Pure; meant for any thread.
///
/// Some hundred KiB to some MiB of pages make a good batch: joining one costs some microseconds.
/// [`Batcher`] makes many of them with less memory.
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
    let mut batcher = Batcher::new(page_size);
    for (number, page) in pages {
        batcher.push(number, page)?;
    }
    Ok(batcher.take(None))
}

/// Whether a buffer is one page.
pub(crate) fn check_length(page: PageNo, data: &[u8], expected: PageSize) -> Result<()> {
    if data.len() == expected.bytes() { Ok(()) } else { Err(Error::PageLength { page, len: data.len(), expected }) }
}
