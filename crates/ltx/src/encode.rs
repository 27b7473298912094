//! Writing a file: header, pages in order, index and trailer, appended to the caller's buffer.
//!
//! The encoder never reads the buffer again, so the caller may send its bytes and clear it after each call. Every rule
//! is checked before the first byte of a step is written. After an error the file is unchanged, and writing can
//! continue. Every reader of the format can read a finished file.

use alloc::vec::Vec;

use crate::batch::{Batch, Batcher, check_length};
use crate::checksum::{Checksum, Crc64, Rolling};
use crate::error::{Error, Result};
use crate::frame::END_MARKER;
use crate::header::{Header, Trailer};
use crate::ledger::{Cursor, Frame, Ledger};
use crate::sequence::Sequence;
use crate::types::PageNo;
use crate::varint;

/// How many bytes of the index [`Tail::write`] makes at a time.
const INDEX_CHUNK: usize = 64 * 1024;

/// Writes one file.
///
/// Memory: the page index in its shortest form, typically 3 and at most 8 bytes for each page, and one
/// compressed page.
///
/// ```
/// use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid, decode_all};
///
/// let header = Header::new(PageSize::new(512).unwrap(), 3, Txid(2), Txid(2));
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(header, &mut file)?;
/// encoder.push(PageNo(1), &[1; 512], &mut file)?;
/// encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// encoder.finish(Checksum::NONE, &mut file)?;
///
/// let mut pages = Vec::new();
/// let summary = decode_all(&file, |page, data| pages.push((page, data[0])))?;
/// assert_eq!(summary.header, header);
/// assert_eq!(pages, [(PageNo(1), 1), (PageNo(3), 3)]);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
pub struct Encoder {
    header: Header,
    sequence: Sequence,
    ledger: Ledger,
    crc: Crc64,
    rolling: Rolling,
    /// Made when the first uncompressed page arrives.
    single: Option<(Batcher, Option<Batch>)>,
}

impl core::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Encoder").field("header", &self.header).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Encoder {
    /// Begins a file: appends the header.
    ///
    /// # Errors
    ///
    /// [`Error::Header`] if the header breaks a rule of [`Header::validate`].
    pub fn new(header: Header, out: &mut Vec<u8>) -> Result<Encoder> {
        header.validate()?;
        let bytes = header.encode();
        out.extend_from_slice(&bytes);
        let mut crc = Crc64::new();
        crc.update(&bytes);
        let sequence = Sequence::new(&header);
        Ok(Encoder { header, sequence, ledger: Ledger::new(), crc, rolling: Rolling::new(), single: None })
    }

    /// The header of the file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many bytes the file has so far.
    pub fn len(&self) -> u64 {
        self.ledger.end()
    }

    /// Whether the file has no pages so far.
    ///
    /// ```
    /// use seawall_ltx::{Encoder, Header, PageSize, Txid};
    ///
    /// let mut file = Vec::new();
    /// let encoder = Encoder::new(Header::new(PageSize::new(512).unwrap(), 3, Txid(2), Txid(2)), &mut file)?;
    /// assert_eq!((encoder.is_empty(), encoder.pages(), encoder.len()), (true, 0, 100));
    /// # Ok::<(), seawall_ltx::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.pages() == 0
    }

    /// How many pages the file has so far.
    pub fn pages(&self) -> u64 {
        self.sequence.pages()
    }

    /// Compresses and appends the next page.
    ///
    /// # Errors
    ///
    /// [`Error::PageLength`] if `data` is not one page long, [`Error::Page`] if the page doesn't ascend, is 0, the lock
    /// page or beyond the end, [`Error::SnapshotHole`] if a snapshot would miss a page.
    pub fn push(&mut self, page: PageNo, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        check_length(page, data, self.header.page_size)?;
        let mut sequence = self.sequence;
        sequence.admit(page)?;
        let (batcher, used) = self.single.get_or_insert_with(|| (Batcher::new(self.header.page_size), None));
        batcher.push(page, data)?;
        let batch = batcher.take(used.take());
        out.extend_from_slice(batch.frames());
        let counted = self.count(&batch);
        if let Some((_, used)) = &mut self.single {
            *used = Some(batch);
        }
        counted
    }

    /// Appends the pages of a batch.
    ///
    /// # Errors
    ///
    /// As [`Encoder::push`] for each page; [`Error::BatchPageSize`] if the batch was made for another page
    /// size. After an error none of the batch is in the file.
    pub fn append(&mut self, batch: &Batch, out: &mut Vec<u8>) -> Result<()> {
        self.count(batch)?;
        out.extend_from_slice(batch.frames());
        Ok(())
    }

    /// Counts the pages of a batch as appended. The caller writes the batch's [`frames`](Batch::frames) at the offset
    /// that [`Encoder::len`] returned before the call. This saves a copy.
    ///
    /// ```
    /// use seawall_ltx::{Encoder, Header, PageNo, PageSize, Txid, compress_batch};
    ///
    /// let page_size = PageSize::new(512).unwrap();
    /// let (mut file, mut header) = (vec![0; 1000], Vec::new());
    /// let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut header)?;
    /// let batch = compress_batch(page_size, [(PageNo(2), &[7; 512][..])])?;
    /// let at = encoder.len() as usize;
    /// encoder.count(&batch)?;
    /// file[at..encoder.len() as usize].copy_from_slice(batch.frames());
    /// # Ok::<(), seawall_ltx::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Encoder::append`].
    pub fn count(&mut self, batch: &Batch) -> Result<()> {
        if batch.page_size != self.header.page_size {
            return Err(Error::BatchPageSize { expected: self.header.page_size, found: batch.page_size });
        }
        let mut sequence = self.sequence;
        for (page, _) in &batch.entries {
            sequence.admit(*page)?;
        }
        self.sequence = sequence;
        for (page, size) in &batch.entries {
            self.ledger.push(*page, *size)?;
        }
        self.crc.join(&batch.crc);
        self.rolling.join(batch.rolling);
        Ok(())
    }

    /// The frames that the index is made from.
    #[cfg(feature = "file")]
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Ends the file: appends the end marker, the index and the trailer. `post_apply` is the database
    /// checksum after the file, [`Checksum::NONE`] without checksums.
    ///
    /// The index of a file of very many pages is some hundred MB; [`Encoder::close`] makes it in pieces.
    ///
    /// # Errors
    ///
    /// [`Error::SnapshotHole`] if the end of a snapshot is missing, [`Error::PostApply`] if `post_apply`
    /// is not one that this file can have, [`Error::DatabaseChecksum`] if it is not that of the snapshot.
    pub fn finish(self, post_apply: Checksum, out: &mut Vec<u8>) -> Result<Trailer> {
        let mut tail = self.close(post_apply)?;
        loop {
            if let Some(trailer) = tail.write(out) {
                return Ok(trailer);
            }
        }
    }

    /// Ends the file as [`Encoder::finish`] does. The caller then fetches the remaining bytes piece by piece.
    ///
    /// # Errors
    ///
    /// Those of [`Encoder::finish`].
    pub fn close(self, post_apply: Checksum) -> Result<Tail> {
        self.sequence.finish()?;
        self.header.validate_post_apply(post_apply)?;
        let computed = self.rolling.checksum();
        if self.has_rolling() && computed != post_apply {
            return Err(Error::DatabaseChecksum { stored: post_apply, computed });
        }
        Ok(Tail {
            ledger: self.ledger,
            cursor: Cursor::new(),
            crc: self.crc,
            index_size: None,
            post_apply,
            trailer: None,
        })
    }

    /// Whether the file holds all pages of the database, so that the encoder knows the database checksum.
    fn has_rolling(&self) -> bool {
        self.header.is_snapshot() && !self.header.no_checksum
    }
}

/// The end of a file, made in pieces.
///
/// ```
/// use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid, decode_all};
///
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(Header::new(PageSize::new(512).unwrap(), 3, Txid(2), Txid(2)), &mut file)?;
/// encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// let mut tail = encoder.close(Checksum::NONE)?;
/// let mut piece = Vec::new();
/// loop {
///     let trailer = tail.write(&mut piece);
///     file.append(&mut piece); // or send it off
///     if trailer.is_some() {
///         break;
///     }
/// }
/// assert_eq!(decode_all(&file, |_, _| ())?.pages, 1);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
pub struct Tail {
    ledger: Ledger,
    cursor: Cursor,
    crc: Crc64,
    /// The bytes of the index so far; `None` before the end marker.
    index_size: Option<u64>,
    post_apply: Checksum,
    /// Set once everything is written.
    trailer: Option<Trailer>,
}

impl core::fmt::Debug for Tail {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tail")
            .field("index_size", &self.index_size)
            .field("trailer", &self.trailer)
            .finish_non_exhaustive()
    }
}

impl Tail {
    /// Appends the next piece, some 64 KiB. Returns the trailer with the last piece; there is nothing to append after
    /// it.
    pub fn write(&mut self, out: &mut Vec<u8>) -> Option<Trailer> {
        if self.trailer.is_some() {
            return self.trailer;
        }
        let start = out.len();
        let mut index_size = self.begin(out);
        while out.len() - start < INDEX_CHUNK {
            let Some(frame) = self.cursor.next(&self.ledger) else {
                index_size += varint::put(0, out);
                out.extend_from_slice(&index_size.to_be_bytes());
                self.trailer = Some(self.trailer(start, out));
                return self.trailer;
            };
            index_size += entry(frame, out);
        }
        self.crc.update(&out[start..]);
        self.index_size = Some(index_size);
        None
    }

    /// Appends the entries of steps that the ledger handed over, which come before all others: as many as are whole.
    #[cfg(feature = "file")]
    pub(crate) fn replay(&mut self, steps: &mut &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let mut index_size = self.begin(out);
        while let Some(frame) = self.cursor.step(steps) {
            index_size += entry(frame, out);
        }
        self.crc.update(&out[start..]);
        self.index_size = Some(index_size);
    }

    /// The bytes of the index so far; the end marker comes before the first of them.
    fn begin(&self, out: &mut Vec<u8>) -> u64 {
        self.index_size.unwrap_or_else(|| {
            out.extend_from_slice(&END_MARKER);
            0
        })
    }

    fn trailer(&mut self, start: usize, out: &mut Vec<u8>) -> Trailer {
        self.crc.update(&out[start..]);
        self.crc.update(&self.post_apply.0.to_be_bytes());
        let trailer = Trailer { post_apply: self.post_apply, file: self.crc.checksum() };
        out.extend_from_slice(&trailer.encode());
        trailer
    }
}

/// Appends an entry of the index; returns its bytes.
fn entry(frame: Frame, out: &mut Vec<u8>) -> u64 {
    varint::put(frame.page.0.into(), out) + varint::put(frame.offset, out) + varint::put(frame.size, out)
}
