//! Errors of a file, or of calls to the encoder.
//!
//! Each class of defect has one variant, which says where the defect is: a page number, or an offset in the file. A
//! variant never carries content of the file, only numbers.

use crate::checksum::Checksum;
use crate::types::{PageNo, PageSize, Txid};

/// The result of this crate's functions.
///
/// ```
/// /// The newest transaction in a file.
/// fn newest(file: &[u8]) -> seawall_ltx::Result<seawall_ltx::Txid> {
///     Ok(seawall_ltx::Header::parse(file)?.max_txid)
/// }
/// assert!(newest(b"LTX1").is_err());
/// ```
pub type Result<T> = core::result::Result<T, Error>;

/// Why a file can't be read, or can't be written in this way.
///
/// ```
/// use seawall_ltx::{Error, Part, decode_all};
///
/// let error = decode_all(b"LTX1", |_, _| ()).unwrap_err();
/// assert_eq!(error, Error::Truncated { offset: 4, part: Part::Header });
/// println!("{error}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The header breaks a rule.
    #[error("header: {0}")]
    Header(#[from] HeaderError),

    /// A page has a number that it can't have.
    #[error("page {page}: {rule}")]
    Page {
        /// The page.
        page: PageNo,
        /// What is wrong with it.
        rule: PageRule,
    },

    /// A snapshot misses a page.
    #[error("the snapshot has no page {missing}")]
    SnapshotHole {
        /// The first page that is missing.
        missing: PageNo,
    },

    /// A page buffer handed to the encoder is not one page long.
    #[error("page {page}: a buffer of {len} bytes instead of {expected}")]
    PageLength {
        /// The page.
        page: PageNo,
        /// The length of the buffer.
        len: usize,
        /// The page size.
        expected: PageSize,
    },

    /// A page header has flags that no version of the format knows.
    #[error("offset {offset}: unknown page flags {flags:#06x}")]
    PageFlags {
        /// Where the page header is.
        offset: u64,
        /// The flags found.
        flags: u16,
    },

    /// The length of a frame is impossible for the page size.
    #[error("page {page} at offset {offset}: {len} bytes can't be one compressed page")]
    FrameLength {
        /// The page.
        page: PageNo,
        /// Where the page header is.
        offset: u64,
        /// The length found.
        len: u64,
    },

    /// A frame doesn't decompress to one page.
    #[error("page {page} at offset {offset}: {fault}")]
    Lz4 {
        /// The page.
        page: PageNo,
        /// Where the page header is.
        offset: u64,
        /// What is wrong.
        fault: Lz4Fault,
    },

    /// The page index doesn't match the content of the file.
    #[error("page index at offset {offset}: {fault}")]
    Index {
        /// Where in the file, as far as known.
        offset: u64,
        /// What is wrong.
        fault: IndexFault,
    },

    /// The post-apply checksum breaks a rule for this file.
    #[error("post-apply checksum {found}: {rule}")]
    PostApply {
        /// The checksum found.
        found: Checksum,
        /// The rule that it breaks.
        rule: PostApplyRule,
    },

    /// The file's bytes don't match its file checksum.
    #[error("the file checksum is {computed}, the trailer says {stored}")]
    FileChecksum {
        /// The checksum in the trailer.
        stored: Checksum,
        /// The checksum of the bytes that were read.
        computed: Checksum,
    },

    /// The pages of a snapshot don't match its database checksum.
    #[error("the database checksum of the snapshot is {computed}, the trailer says {stored}")]
    DatabaseChecksum {
        /// The checksum in the trailer.
        stored: Checksum,
        /// The checksum of the pages.
        computed: Checksum,
    },

    /// The file ends too early.
    #[error("the file ends at offset {offset}, in the {part}")]
    Truncated {
        /// How long the file is.
        offset: u64,
        /// Where it ends.
        part: Part,
    },

    /// Reading the index needs more of the end of the file. Not a defect of the file.
    #[error("the index needs the last {needed} bytes of the file")]
    TailTooShort {
        /// The bytes that are needed.
        needed: u64,
    },

    /// There are bytes after the trailer.
    #[error("data after the end of the file at offset {offset}")]
    Trailing {
        /// Where the file should end.
        offset: u64,
    },

    /// A file of a generation that this version can't read.
    #[error("an LTX file of generation {0}, which is not supported")]
    Generation(Generation),

    /// The numbers exceed the format, or memory.
    #[error("the file is too large")]
    TooLarge,

    /// Decoded batches were joined in another order than they have in the file, or some weren't joined.
    #[error("the batch at offset {found} was joined in place of the one at {expected}")]
    BatchOrder {
        /// The offset of the batch that has to be joined next.
        expected: u64,
        /// The offset of the batch that was joined, or of the end of the pages.
        found: u64,
    },

    /// The files can't be merged into one.
    #[error("merging: {0}")]
    Merge(#[from] MergeError),

    /// A batch of pages of one size was handed to a file of another.
    #[error("pages of {found} bytes in a file of pages of {expected} bytes")]
    BatchPageSize {
        /// The page size of the file.
        expected: PageSize,
        /// The page size of the batch.
        found: PageSize,
    },
}

/// The rule that a header breaks.
///
/// ```
/// use seawall_ltx::{Error, Header, HeaderError};
///
/// assert_eq!(Header::parse(&[b'x'; 100]), Err(Error::Header(HeaderError::Magic)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Not an LTX file.
    #[error("not an LTX file")]
    Magic,
    /// Unknown flags.
    #[error("unknown flags {0:#010x}")]
    Flags(u32),
    /// Not a page size.
    #[error("{0} is not a page size")]
    PageSize(u32),
    /// A transaction id of 0.
    #[error("a transaction id is 0")]
    TxidZero,
    /// The last transaction is before the first.
    #[error("the transaction ids {min} to {max} are out of order")]
    TxidOrder {
        /// The first transaction.
        min: Txid,
        /// The last transaction.
        max: Txid,
    },
    /// A WAL offset or size beyond 2^63, which other readers take for a negative number.
    #[error("a WAL offset or size is negative")]
    WalNegative,
    /// A WAL size or salt without a WAL offset.
    #[error("a WAL size or salt without a WAL offset")]
    WalOffsetMissing,
    /// A snapshot with a pre-apply checksum.
    #[error("a snapshot with a pre-apply checksum")]
    PreApplyOnSnapshot,
    /// A pre-apply checksum in a file without checksums.
    #[error("a pre-apply checksum in a file without checksums")]
    PreApplyNotAllowed,
    /// A file with checksums has no pre-apply checksum.
    #[error("no pre-apply checksum")]
    PreApplyMissing,
    /// A pre-apply checksum without bit 63.
    #[error("the pre-apply checksum lacks its flag")]
    PreApplyFlag,
    /// A deletion (commit 0) without checksums: the rules for its trailer contradict each other, so no
    /// such file exists.
    #[error("a deletion (commit 0) without checksums")]
    DeletionUnchecked,
}

/// Why files can't be merged.
///
/// ```
/// use seawall_ltx::{Error, Header, Merge, MergeError, PageSize, Txid};
///
/// let [a, b] = [2, 4].map(|txid| Header::new(PageSize::new(512).unwrap(), 9, Txid(txid), Txid(txid)));
/// let gap = MergeError::Gap { after: Txid(2), min: Txid(4), max: Txid(4) };
/// assert_eq!(Merge::new(&[a, b]).unwrap_err(), Error::Merge(gap));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("no files")]
    NoInput,
    /// Two neighbours are of different page sizes.
    #[error("file {input} (counted from 0) has another page size than those before it")]
    PageSize {
        /// The later file, counted from 0.
        input: usize,
    },
    /// Two neighbours are not contiguous: there is a gap, or the later file leads no further.
    #[error("transactions {min} to {max} don't follow transaction {after}")]
    Gap {
        /// The last transaction of the earlier file.
        after: Txid,
        /// The first transaction of the later file.
        min: Txid,
        /// The last transaction of the later file.
        max: Txid,
    },
    /// A file was made for another database state than the state after the file before it.
    #[error("file {input} (counted from 0) expects database checksum {expected}, the file before it leaves {found}")]
    Chain {
        /// The later file, counted from 0.
        input: usize,
        /// Its pre-apply checksum.
        expected: Checksum,
        /// The post-apply checksum of the earlier file.
        found: Checksum,
    },
}

/// The rule that a page number breaks.
///
/// ```
/// use seawall_ltx::{Encoder, Error, Header, PageNo, PageRule, PageSize, Txid};
///
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(Header::new(PageSize::new(512).unwrap(), 3, Txid(2), Txid(2)), &mut file)?;
/// let error = encoder.push(PageNo(4), &[0; 512], &mut file).unwrap_err();
/// assert_eq!(error, Error::Page { page: PageNo(4), rule: PageRule::BeyondCommit { commit: 3 } });
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageRule {
    /// Pages count from 1.
    #[error("pages count from 1")]
    Zero,
    /// The page is beyond the end of the database.
    #[error("behind the end of the database of {commit} pages")]
    BeyondCommit {
        /// The pages of the database.
        commit: u32,
    },
    /// The lock page is never stored.
    #[error("the lock page is never stored")]
    Lock,
    /// The page doesn't ascend.
    #[error("after page {previous}")]
    Order {
        /// The page before it in the file.
        previous: PageNo,
    },
}

/// Why a frame doesn't decompress to one page.
///
/// ```
/// use seawall_ltx::{Error, Lz4Fault, PageSize, decode_frame};
///
/// // Page 1, its size of 2 bytes, and an LZ4 block of one literal.
/// let frame = [0, 0, 0, 1, 0, 1, 0, 0, 0, 2, 0x10, 7];
/// let error = decode_frame(PageSize::new(512).unwrap(), &frame).unwrap_err();
/// assert!(matches!(error, Error::Lz4 { fault: Lz4Fault::Short { len: 1 }, .. }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lz4Fault {
    /// The compressed data is invalid, or more than a page.
    #[error("invalid LZ4 data")]
    Invalid,
    /// It decompresses to less than a page.
    #[error("{len} bytes instead of a page")]
    Short {
        /// The bytes that came out.
        len: usize,
    },
    /// A frame of the older form breaks the rules of its form.
    #[error("invalid LZ4 frame")]
    Frame,
    /// The content checksum of a frame of the older form is wrong.
    #[error("wrong LZ4 content checksum")]
    ContentChecksum,
}

/// What is wrong with an index.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageSize, Txid};
/// # let page_size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::{Error, IndexFault, PageNo, decode_all};
///
/// let at = file.len() - 28; // the page's number in the index
/// file[at] = 2;
/// let error = decode_all(&file, |_, _| ()).unwrap_err();
/// assert!(matches!(error, Error::Index { fault: IndexFault::Mismatch { page: PageNo(3) }, .. }), "{error:?}");
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexFault {
    /// A number is not in its shortest form, or has more than 64 bits.
    #[error("invalid number")]
    Varint,
    /// An entry doesn't match the frame at its place.
    #[error("an entry doesn't match the frame of page {page}")]
    Mismatch {
        /// The page whose entry should be here.
        page: PageNo,
    },
    /// It ends before the last frame.
    #[error("no entry for page {page}")]
    Missing {
        /// The first page without an entry.
        page: PageNo,
    },
    /// It has more entries than the file has frames.
    #[error("an entry without a frame")]
    Extra,
    /// The size field is not the number of the index's bytes.
    #[error("its size field is {stored}, its size {actual}")]
    Size {
        /// The size field.
        stored: u64,
        /// The bytes of the index.
        actual: u64,
    },
    /// Entries are not ascending, not contiguous, or outside of the file. Reported only if the reader doesn't have the
    /// frames to compare with.
    #[error("an entry is out of order or out of range")]
    Entry,
}

/// The rule that a post-apply checksum breaks.
///
/// ```
/// use seawall_ltx::{Checksum, Encoder, Error, Header, PageSize, PostApplyRule, Txid};
///
/// let mut file = Vec::new();
/// let encoder = Encoder::new(Header::new(PageSize::new(512).unwrap(), 3, Txid(2), Txid(2)), &mut file)?;
/// let error = encoder.finish(Checksum::EMPTY, &mut file).unwrap_err();
/// assert!(matches!(error, Error::PostApply { rule: PostApplyRule::NotAllowed, .. }));
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostApplyRule {
    /// A file without checksums has none.
    #[error("not allowed in a file without checksums")]
    NotAllowed,
    /// A file with checksums has one.
    #[error("required")]
    Missing,
    /// Every checksum has bit 63.
    #[error("lacks its flag")]
    Flag,
    /// A deletion leaves the empty database.
    #[error("not that of the empty database")]
    NotEmpty,
}

/// A part of a file.
///
/// ```
/// use seawall_ltx::{Error, Header, Part};
///
/// assert_eq!(Header::parse(b"LTX1"), Err(Error::Truncated { offset: 4, part: Part::Header }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The first 100 bytes.
    Header,
    /// The page frames and their end marker.
    Pages,
    /// The page index and its size.
    Index,
    /// The last 16 bytes.
    Trailer,
}

impl core::fmt::Display for Part {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Part::Header => "header",
            Part::Pages => "pages",
            Part::Index => "index",
            Part::Trailer => "trailer",
        })
    }
}

/// A generation of the format before the current one. The files carry no version; their bytes show the generation.
///
/// ```
/// # use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid};
/// # let size = PageSize::new(512).unwrap();
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(Header::new(size, 3, Txid(2), Txid(2)), &mut file)?;
/// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
/// # encoder.finish(Checksum::NONE, &mut file)?;
/// use seawall_ltx::Generation;
///
/// assert_eq!(Generation::detect(&file)?, None, "the current one");
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Generation {
    /// Raw pages, no index (early LiteFS).
    V1,
    /// All pages in one LZ4 frame, no index (LiteFS).
    V1Lz4,
    /// An LZ4 frame for each page, short page headers.
    V2,
}

impl core::fmt::Display for Generation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Generation::V1 => "1",
            Generation::V1Lz4 => "1 (compressed)",
            Generation::V2 => "2",
        })
    }
}
