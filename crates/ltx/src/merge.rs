//! Merges many files into one: which copy of each page does the merged file take?
//!
//! The merged file does to a database exactly what its inputs do one after the other. So it has the last copy of each
//! page, unless a later input truncates the database below that page. Then the page is gone; and if the database has
//! grown again without writing the page, the page is zeros. (Taking the last copy without this rule brings old content
//! back. The peers' compaction does so; their writers hide it.)
//!
//! [`Merge`] decides, from headers and page numbers alone. The caller reads the pages, from streams or by indexes.
//! Memory: a few bytes for each input.

use alloc::vec;
use alloc::vec::Vec;

use crate::checksum::Checksum;
use crate::decode::{DecodedBatch, RawBatch};
use crate::encode::Encoder;
use crate::error::{MergeError, Result};
use crate::header::{Header, Trailer};
use crate::split::Splitter;
use crate::text::FileName;
use crate::types::PageNo;

/// Decides which pages a merged file holds.
///
/// ```
/// use seawall_ltx::{Header, Merge, PageNo, PageSize, Source, Txid};
///
/// // Transaction 2 wrote pages 1 and 4; transaction 3 cut the database to 2 pages and wrote page 2.
/// let size = PageSize::new(512).unwrap();
/// let inputs = [Header::new(size, 4, Txid(2), Txid(2)), Header::new(size, 2, Txid(3), Txid(3))];
/// let mut merge = Merge::new(&inputs)?;
/// assert_eq!((merge.header().min_txid, merge.header().max_txid), (Txid(2), Txid(3)));
/// assert_eq!(merge.next([Some(PageNo(1)), Some(PageNo(2))]), Some((PageNo(1), Source::Input(0))));
/// assert_eq!(merge.next([Some(PageNo(4)), Some(PageNo(2))]), Some((PageNo(2), Source::Input(1))));
/// assert_eq!(merge.next([Some(PageNo(4)), None]), Some((PageNo(4), Source::Nowhere)));
/// assert_eq!(merge.next([None, None]), None);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Merge {
    header: Header,
    /// For each input, the smallest size to which later inputs truncate the database.
    kept: Vec<u32>,
    /// The smallest size that the database had. Pages above it that no input has were cut off and are zeros.
    smallest: u32,
    last: PageNo,
}

/// The source of a page's content in the merged file.
///
/// ```
/// use seawall_ltx::{Header, Merge, PageNo, PageSize, Source, Txid};
///
/// // The database shrank to 1 page and grew to 3 again: page 2 of the first file was cut off and not written since.
/// let sizes = [(2, 2), (3, 1), (4, 3)];
/// let inputs = sizes.map(|(txid, pages)| Header::new(PageSize::new(512).unwrap(), pages, Txid(txid), Txid(txid)));
/// let mut merge = Merge::new(&inputs)?;
/// assert_eq!(merge.next([Some(PageNo(2)), None, Some(PageNo(3))]), Some((PageNo(2), Source::Zeros)));
/// assert_eq!(merge.next([None, None, Some(PageNo(3))]), Some((PageNo(3), Source::Input(2))));
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From this input, counted from 0.
    Input(usize),
    /// The page is zeros.
    Zeros,
    /// The page is not in the merged file: the database ends before it.
    Nowhere,
}

impl Merge {
    /// Merges files with these headers, in their order.
    ///
    /// The merged header has page size, first transaction and pre-apply checksum of the first input, and size, last
    /// transaction and time of the last. It has no checksums if an input has none. WAL position, node and reserved
    /// bytes are not set.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Merge`] without input, for inputs of different page sizes and for inputs that are
    /// not contiguous (overlap is allowed, as [`FileName::continues`] says);
    /// [`crate::Error::Header`] if the merged file would be a deletion without checksums.
    pub fn new(inputs: &[Header]) -> Result<Merge> {
        let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else {
            return Err(MergeError::NoInput.into());
        };
        for (at, (before, next)) in inputs.iter().zip(inputs.iter().skip(1)).enumerate() {
            let (min, max, after) = (next.min_txid, next.max_txid, before.max_txid);
            if next.page_size != before.page_size {
                return Err(MergeError::PageSize { input: at + 1 }.into());
            }
            if !(FileName { min, max }).continues(after) {
                return Err(MergeError::Gap { after, min, max }.into());
            }
        }
        let no_checksum = inputs.iter().any(|input| input.no_checksum);
        let header = Header {
            no_checksum,
            timestamp_ms: last.timestamp_ms,
            pre_apply: if no_checksum { Checksum::NONE } else { first.pre_apply },
            ..Header::new(first.page_size, last.commit, first.min_txid, last.max_txid)
        };
        header.validate()?;
        let mut smallest = u32::MAX;
        let mut kept = Vec::with_capacity(inputs.len());
        for input in inputs.iter().rev() {
            kept.push(smallest);
            smallest = smallest.min(input.commit);
        }
        kept.reverse();
        // A snapshot begins with an empty database: pages that no input has are zeros.
        let smallest = if header.is_snapshot() { 0 } else { smallest };
        Ok(Merge { header, kept, smallest, last: PageNo(0) })
    }

    /// The header of the merged file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next page, ascending, and its source. `heads` holds, for each input, its next page. After the call, the
    /// caller advances the inputs whose head is the returned page. `None` after the last page.
    pub fn next(&mut self, heads: impl IntoIterator<Item = Option<PageNo>>) -> Option<(PageNo, Source)> {
        // The lowest head, and the last of the inputs that have it.
        let mut lowest: Option<(PageNo, usize)> = None;
        for (input, head) in heads.into_iter().enumerate() {
            if let Some(page) = head.filter(|page| lowest.is_none_or(|(low, _)| *page <= low)) {
                lowest = Some((page, input));
            }
        }
        let zeros = self.next_zeros().filter(|zeros| lowest.is_none_or(|(page, _)| *zeros < page));
        let (page, source) = match (zeros, lowest) {
            (Some(page), _) => (page, Source::Zeros),
            (None, None) => return None,
            (None, Some((page, _))) if page.0 > self.header.commit => (page, Source::Nowhere),
            (None, Some((page, input))) if self.kept.get(input).is_some_and(|kept| page.0 <= *kept) => {
                (page, Source::Input(input))
            }
            (None, Some((page, _))) => (page, Source::Zeros),
        };
        self.last = page;
        Some((page, source))
    }

    /// The next page that is zeros if no input has it.
    fn next_zeros(&self) -> Option<PageNo> {
        let after = self.last.max(PageNo(self.smallest));
        self.header.page_size.page_after(after).filter(|page| page.0 <= self.header.commit)
    }
}

/// Merges whole files in memory, in their order. For files that are small.
///
/// Every input is verified to its end. After an error, the bytes that were appended to `out` aren't a file.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid};
/// # let change = |txid: u64, page: u32| -> Result<Vec<u8>, seawall_ltx::Error> {
/// #     let mut file = Vec::new();
/// #     let header = Header::new(PageSize::new(512).unwrap(), 3, Txid(txid), Txid(txid));
/// #     let mut encoder = Encoder::new(header, &mut file)?;
/// #     encoder.push(PageNo(page), &[txid as u8; 512], &mut file)?;
/// #     encoder.finish(Checksum::NONE, &mut file)?;
/// #     Ok(file)
/// # };
/// use seawall_ltx::{decode_all, merge_all};
///
/// // Transaction 2 wrote page 3, transaction 3 page 1, transaction 4 page 3 again.
/// let files = [change(2, 3)?, change(3, 1)?, change(4, 3)?];
/// let mut merged = Vec::new();
/// merge_all(&[&files[0], &files[1], &files[2]], &mut merged)?;
/// let mut pages = Vec::new();
/// decode_all(&merged, |page, data| pages.push((page.0, data[0])))?;
/// assert_eq!(pages, [(1, 3), (3, 4)]);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`Merge::new`]; the first defect of an input; [`MergeError::Chain`] if an input was made for
/// another database than its predecessor leaves.
pub fn merge_all(files: &[&[u8]], out: &mut Vec<u8>) -> Result<Trailer> {
    let mut inputs = files.iter().map(|file| Input::open(file)).collect::<Result<Vec<_>>>()?;
    let headers: Vec<Header> = inputs.iter().map(|input| input.header).collect();
    let mut merge = Merge::new(&headers)?;
    let mut encoder = Encoder::new(*merge.header(), out)?;
    let zeros = vec![0; merge.header().page_size.bytes()];
    while let Some((page, source)) = merge.next(inputs.iter().map(Input::head)) {
        match source {
            Source::Input(at) => {
                let data = inputs.get(at).and_then(Input::page).unwrap_or(&zeros);
                encoder.push(page, data, out)?;
            }
            Source::Zeros => encoder.push(page, &zeros, out)?,
            Source::Nowhere => {}
        }
        for input in inputs.iter_mut().filter(|input| input.head() == Some(page)) {
            input.advance()?;
        }
    }
    let post_apply = finish_inputs(inputs)?;
    encoder.finish(if merge.header.no_checksum { Checksum::NONE } else { post_apply }, out)
}

/// Verifies the ends of all inputs and that each follows the one before; the last one's post-apply checksum.
fn finish_inputs(inputs: Vec<Input<'_>>) -> Result<Checksum> {
    let mut before: Option<(Header, Checksum)> = None;
    for (at, input) in inputs.into_iter().enumerate() {
        let summary = input.splitter.finish()?;
        let (next, post_apply) = (summary.header, summary.trailer.post_apply);
        if let Some((header, found)) = before {
            let adjacent = header.max_txid.next() == Some(next.min_txid);
            if adjacent && !header.no_checksum && !next.no_checksum && next.pre_apply != found {
                return Err(MergeError::Chain { input: at, expected: next.pre_apply, found }.into());
            }
        }
        before = Some((next, post_apply));
    }
    Ok(before.map_or(Checksum::NONE, |(_, post_apply)| post_apply))
}

/// A file in memory that is read page by page.
struct Input<'a> {
    rest: &'a [u8],
    splitter: Splitter,
    header: Header,
    batch: Option<DecodedBatch>,
    /// The place of the next page in the batch.
    at: usize,
}

impl<'a> Input<'a> {
    fn open(file: &'a [u8]) -> Result<Input<'a>> {
        let header = Header::parse(file)?;
        let mut input = Input { rest: file, splitter: Splitter::with_batch_size(1 << 16), header, batch: None, at: 0 };
        input.read()?;
        Ok(input)
    }

    fn read(&mut self) -> Result<()> {
        self.at = 0;
        self.batch = self.splitter.feed(&mut self.rest)?.as_ref().map(RawBatch::decode).transpose()?;
        self.batch.as_ref().map_or(Ok(()), |batch| self.splitter.join(batch))
    }

    fn head(&self) -> Option<PageNo> {
        self.batch.as_ref()?.numbers().get(self.at).copied()
    }

    fn page(&self) -> Option<&[u8]> {
        self.batch.as_ref()?.pages().nth(self.at).map(|(_, data)| data)
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.head().is_none() { self.read() } else { Ok(()) }
    }
}
