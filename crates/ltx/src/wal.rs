//! SQLite's write-ahead log as bytes: its header, its frames and their checksum chain.
//!
//! LTX files are made from the WAL, by the functions of `file` and by programs that capture a live log, so this module
//! is the one reader of it. Source: "WAL File Format" of the SQLite file format documentation
//! (<https://www.sqlite.org/fileformat2.html>, section 4). A frame is live if its salts are the header's and its
//! checksum continues the chain that begins in the header. The checksum stored in a frame therefore covers everything
//! before it in its generation: comparing these eight bytes compares the whole history.
//!
//! ```
//! use seawall_ltx::PageNo;
//! use seawall_ltx::wal::{HEADER_SIZE, Scan, WalHeader};
//!
//! /// The pages that a log has a newer version of.
//! fn changed(wal: &[u8]) -> Vec<PageNo> {
//!     let Some(header) = WalHeader::parse(wal) else { return Vec::new() };
//!     let mut scan = Scan::new(HEADER_SIZE, header.chain);
//!     scan.take(&header, &wal[HEADER_SIZE as usize..], u64::MAX);
//!     scan.newest().into_iter().map(|version| version.page).collect()
//! }
//! assert_eq!(changed(b"not a log"), []);
//! ```

use alloc::vec::Vec;

use crate::types::{PageNo, PageSize};

/// Size of the header at the start of the file, in bytes.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # let db = rusqlite::Connection::open(&path)?;
/// # db.execute_batch("PRAGMA page_size=4096; PRAGMA journal_mode=wal; CREATE TABLE t(x)")?;
/// # let wal = std::fs::read(folder.path().join("app.db-wal"))?;
/// use seawall_ltx::wal::{FRAME_HEADER_SIZE, FrameHeader, HEADER_SIZE};
///
/// let (_header, frames) = wal.split_at(HEADER_SIZE as usize);
/// let first = FrameHeader::parse(frames).unwrap();
/// assert_eq!((first.page.0, frames.len() % (FRAME_HEADER_SIZE + 4096)), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const HEADER_SIZE: u64 = 32;

/// Size of the header before each page, in bytes.
///
/// ```
/// use seawall_ltx::{PageSize, wal};
///
/// assert_eq!(wal::frame_size(PageSize::new(512).unwrap()), wal::FRAME_HEADER_SIZE as u64 + 512);
/// ```
pub const FRAME_HEADER_SIZE: usize = 24;

/// The salts of a WAL generation: the first grows by one with every restart, the second is random.
///
/// ```
/// use seawall_ltx::wal::Salts;
/// assert_ne!(Salts(7, 1), Salts(8, 2)); // another generation: none of its frames continues the first one's chain
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Salts(pub u32, pub u32);

/// The running checksum of the chain.
///
/// ```
/// use seawall_ltx::wal::{Chain, WordOrder};
///
/// let (first, rest) = ([1; 8], [2; 16]);
/// let at_once = Chain::default().over(WordOrder::Big, &[&first[..], &rest].concat());
/// assert_eq!(Chain::default().over(WordOrder::Big, &first).over(WordOrder::Big, &rest), at_once);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chain(pub u32, pub u32);

/// The byte order of checksummed words; the header's magic number sets it.
///
/// ```
/// use seawall_ltx::wal::{Chain, WordOrder};
///
/// let words = [0, 0, 0, 1, 0, 0, 0, 0];
/// assert_eq!(Chain::default().over(WordOrder::Big, &words), Chain(1, 1));
/// assert_eq!(Chain::default().over(WordOrder::Little, &words), Chain(1 << 24, 1 << 24));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordOrder {
    /// The lowest byte first.
    Little,
    /// The highest byte first.
    Big,
}

/// A valid WAL header.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # let db = rusqlite::Connection::open(&path)?;
/// # db.execute_batch("PRAGMA page_size=4096; PRAGMA journal_mode=wal; CREATE TABLE t(x)")?;
/// # let wal = std::fs::read(folder.path().join("app.db-wal"))?;
/// use seawall_ltx::wal::WalHeader;
///
/// let header = WalHeader::parse(&wal).unwrap();
/// assert_eq!((header.page_size.get(), header.frame_size()), (4096, 4120));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalHeader {
    /// The order of checksummed words.
    pub order: WordOrder,
    /// The size of the pages in the frames.
    pub page_size: PageSize,
    /// The salts, which identify the generation.
    pub salts: Salts,
    /// The checksum at which the generation's chain begins.
    pub chain: Chain,
}

impl WalHeader {
    /// Reads the header; `None` for bytes that SQLite itself would treat as an empty log.
    ///
    /// ```
    /// assert_eq!(seawall_ltx::wal::WalHeader::parse(&[0; 32]), None);
    /// ```
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_SIZE as usize] = bytes.first_chunk()?;
        let order = match word(bytes, 0)? {
            0x377f_0682 => WordOrder::Little,
            0x377f_0683 => WordOrder::Big,
            _ => return None,
        };
        if word(bytes, 4)? != 3_007_000 {
            return None;
        }
        let page_size = PageSize::new(word(bytes, 8)?)?;
        let chain = Chain(word(bytes, 24)?, word(bytes, 28)?);
        if Chain::default().over(order, &bytes[..24]) != chain {
            return None;
        }
        Some(Self { order, page_size, salts: Salts(word(bytes, 16)?, word(bytes, 20)?), chain })
    }

    /// Size of a frame, header and page, in bytes.
    pub fn frame_size(&self) -> u64 {
        frame_size(self.page_size)
    }
}

/// Size of a frame, header and page, in bytes.
///
/// ```
/// use seawall_ltx::{PageSize, wal::frame_size};
/// assert_eq!(frame_size(PageSize::try_from(4096)?), 4120);
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
pub fn frame_size(page_size: PageSize) -> u64 {
    FRAME_HEADER_SIZE as u64 + u64::from(page_size.get())
}

impl Chain {
    /// The chain continued over `bytes`, a multiple of eight long (a rest is ignored).
    ///
    /// ```
    /// use seawall_ltx::wal::{Chain, WordOrder};
    /// assert_eq!(Chain(0, 0).over(WordOrder::Big, &[0, 0, 0, 1, 0, 0, 0, 2]), Chain(1, 3));
    /// ```
    pub fn over(self, order: WordOrder, bytes: &[u8]) -> Self {
        let Self(mut s0, mut s1) = self;
        let (pairs, _) = bytes.as_chunks::<8>();
        match order {
            WordOrder::Little => {
                for &[a, b, c, d, e, f, g, h] in pairs {
                    s0 = s0.wrapping_add(u32::from_le_bytes([a, b, c, d])).wrapping_add(s1);
                    s1 = s1.wrapping_add(u32::from_le_bytes([e, f, g, h])).wrapping_add(s0);
                }
            }
            WordOrder::Big => {
                for &[a, b, c, d, e, f, g, h] in pairs {
                    s0 = s0.wrapping_add(u32::from_be_bytes([a, b, c, d])).wrapping_add(s1);
                    s1 = s1.wrapping_add(u32::from_be_bytes([e, f, g, h])).wrapping_add(s0);
                }
            }
        }
        Self(s0, s1)
    }
}

/// The header of a frame.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # let db = rusqlite::Connection::open(&path)?;
/// # db.execute_batch("PRAGMA page_size=4096; PRAGMA journal_mode=wal; CREATE TABLE t(x)")?;
/// # let wal = std::fs::read(folder.path().join("app.db-wal"))?;
/// use seawall_ltx::wal::{FrameHeader, WalHeader};
///
/// let header = WalHeader::parse(&wal).unwrap();
/// let last = FrameHeader::parse(&wal[wal.len() - header.frame_size() as usize..]).unwrap();
/// assert_eq!((last.salts, last.commit), (header.salts, 2), "it ends a transaction, which left 2 pages");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The page in the frame.
    pub page: PageNo,
    /// Size of the database in pages after the transaction that this frame ends; 0 if it ends none.
    pub commit: u32,
    /// The salts of the generation in which it was written.
    pub salts: Salts,
    /// The chain after it.
    pub chain: Chain,
}

impl FrameHeader {
    /// Reads the first 24 bytes of a frame; `None` when there are fewer.
    ///
    /// ```
    /// use seawall_ltx::{PageNo, wal::FrameHeader};
    /// let mut frame = [0; 24];
    /// frame[3] = 9;
    /// assert_eq!(FrameHeader::parse(&frame).map(|head| head.page), Some(PageNo(9)));
    /// ```
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            page: PageNo(word(bytes, 0)?),
            commit: word(bytes, 4)?,
            salts: Salts(word(bytes, 8)?, word(bytes, 12)?),
            chain: Chain(word(bytes, 16)?, word(bytes, 20)?),
        })
    }
}

/// Checks one whole frame as the continuation of `chain`; `None` if it isn't live.
fn live_frame(header: &WalHeader, chain: Chain, frame: &[u8]) -> Option<FrameHeader> {
    let found = FrameHeader::parse(frame)?;
    if found.salts != header.salts || found.page.0 == 0 {
        return None;
    }
    let (head, page) = frame.split_at_checked(FRAME_HEADER_SIZE)?;
    let page = page.get(..header.page_size.bytes())?;
    let expected = chain.over(header.order, head.get(..8)?).over(header.order, page);
    (expected == found.chain).then_some(found)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// A page's newest version in a stretch of the WAL: eight bytes a frame.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # let db = rusqlite::Connection::open(&path)?;
/// # db.execute_batch("PRAGMA page_size=4096; PRAGMA journal_mode=wal; CREATE TABLE t(x)")?;
/// # let wal = std::fs::read(folder.path().join("app.db-wal"))?;
/// use seawall_ltx::wal::{HEADER_SIZE, Scan, WalHeader};
///
/// let header = WalHeader::parse(&wal).unwrap();
/// let mut scan = Scan::new(HEADER_SIZE, header.chain);
/// assert_eq!((scan.is_empty(), scan.wants()), (true, HEADER_SIZE));
/// scan.take(&header, &wal[HEADER_SIZE as usize..], u64::MAX);
/// assert_eq!((scan.is_empty(), scan.bytes()), (false, wal.len() as u64 - HEADER_SIZE));
/// for version in scan.newest() {
///     println!("page {} is in frame {}", version.page, version.frame);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageVersion {
    /// The page.
    pub page: PageNo,
    /// Number of the frame that holds it, counted from 0.
    pub frame: u32,
}

/// A scan of the WAL. It reports only committed frames; frames of an open transaction don't count.
///
/// Memory: eight bytes for each frame.
///
/// ```
/// use seawall_ltx::wal::{HEADER_SIZE, Scan, WalHeader};
///
/// /// The pages that a WAL has, and where.
/// fn pages(wal: &[u8]) -> Vec<u32> {
///     let Some(header) = WalHeader::parse(wal) else { return Vec::new() };
///     let mut scan = Scan::new(HEADER_SIZE, header.chain);
///     scan.take(&header, &wal[HEADER_SIZE as usize..], u64::MAX);
///     scan.newest().iter().map(|version| version.page.0).collect()
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # let db = rusqlite::Connection::open(&path)?;
/// db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(x)")?;
/// assert_eq!(pages(&std::fs::read(folder.path().join("app.db-wal"))?), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// File offset of the first frame.
    pub start: u64,
    /// File offset after the last committed frame.
    pub end: u64,
    /// The chain at that offset.
    pub chain: Chain,
    /// Size of the database in pages after the last commit; 0 if there was none.
    pub commit: u32,
    /// Every frame up to `end`; sorted and reduced by [`Scan::newest`].
    versions: Vec<PageVersion>,
    committed: usize,
    /// Where the next frame is expected, and the chain there: past `end` if a transaction is still open.
    cursor: (u64, Chain),
}

impl Scan {
    /// A scan that begins with the frame at `start`, and the chain before it.
    pub fn new(start: u64, chain: Chain) -> Self {
        Self { start, end: start, chain, commit: 0, versions: Vec::new(), committed: 0, cursor: (start, chain) }
    }

    /// Goes back to the last commit: later frames may be overwritten, and have to be read again.
    ///
    /// ```
    /// use seawall_ltx::wal::{HEADER_SIZE, Scan, WalHeader};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("app.db");
    /// # let db = rusqlite::Connection::open(&path)?;
    /// db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(x)")?;
    /// let wal = std::fs::read(folder.path().join("app.db-wal"))?;
    /// let header = WalHeader::parse(&wal).expect("a WAL");
    /// let mut scan = Scan::new(HEADER_SIZE, header.chain);
    /// // The first frame of a transaction of two.
    /// scan.take(&header, &wal[HEADER_SIZE as usize..][..header.frame_size() as usize], u64::MAX);
    /// assert_eq!(scan.wants(), HEADER_SIZE + header.frame_size());
    /// let scan = scan.rewound();
    /// assert_eq!(scan.wants(), HEADER_SIZE);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rewound(mut self) -> Self {
        self.versions.truncate(self.committed);
        self.cursor = (self.end, self.chain);
        self
    }

    /// File offset of the next bytes wanted.
    pub fn wants(&self) -> u64 {
        self.cursor.0
    }

    /// Consumes the bytes at [`Scan::wants`]. It takes whole live frames and stops, with `false`, at the first frame
    /// that isn't live, or at the first commit once `limit` bytes are committed.
    pub fn take(&mut self, header: &WalHeader, bytes: &[u8], limit: u64) -> bool {
        let size = header.frame_size();
        for frame in bytes.chunks_exact(size as usize) {
            let Some(found) = live_frame(header, self.cursor.1, frame) else { return false };
            let Ok(number) = u32::try_from(self.cursor.0.saturating_sub(HEADER_SIZE) / size) else { return false };
            self.versions.push(PageVersion { page: found.page, frame: number });
            self.cursor = (self.cursor.0.saturating_add(size), found.chain);
            if found.commit != 0 {
                (self.end, self.chain) = self.cursor;
                self.commit = found.commit;
                self.committed = self.versions.len();
                if self.bytes() >= limit {
                    return false;
                }
            }
        }
        true
    }

    /// Whether no transaction was found.
    pub fn is_empty(&self) -> bool {
        self.commit == 0
    }

    /// Committed bytes of WAL.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// The newest version of every page that exists after the last commit, in page order.
    pub fn newest(mut self) -> Vec<PageVersion> {
        self.versions.truncate(self.committed);
        self.versions.retain(|version| version.page.0 <= self.commit);
        // The newest version comes first and is kept.
        self.versions.sort_unstable_by_key(|version| (version.page, core::cmp::Reverse(version.frame)));
        self.versions.dedup_by_key(|version| version.page);
        self.versions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes WAL bytes as SQLite does.
    struct Writer {
        bytes: Vec<u8>,
        header: WalHeader,
        chain: Chain,
    }

    impl Writer {
        fn new(order: WordOrder, page_size: u32, salts: Salts) -> Self {
            let mut bytes = Vec::new();
            let magic: u32 = if order == WordOrder::Little { 0x377f_0682 } else { 0x377f_0683 };
            for word in [magic, 3_007_000, page_size, 0, salts.0, salts.1] {
                bytes.extend(word.to_be_bytes());
            }
            let chain = Chain::default().over(order, &bytes);
            bytes.extend(chain.0.to_be_bytes());
            bytes.extend(chain.1.to_be_bytes());
            let header = WalHeader::parse(&bytes).expect("a valid header");
            Self { bytes, header, chain }
        }

        fn frame(&mut self, page: u32, commit: u32, fill: u8) {
            let body = vec![fill; self.header.page_size.bytes()];
            let mut head = Vec::new();
            head.extend(page.to_be_bytes());
            head.extend(commit.to_be_bytes());
            self.chain = self.chain.over(self.header.order, &head).over(self.header.order, &body);
            for word in [self.header.salts.0, self.header.salts.1, self.chain.0, self.chain.1] {
                head.extend(word.to_be_bytes());
            }
            self.bytes.extend(head);
            self.bytes.extend(body);
        }
    }

    fn scan(writer: &Writer, limit: u64) -> Scan {
        let mut scan = Scan::new(HEADER_SIZE, writer.header.chain);
        scan.take(&writer.header, &writer.bytes[HEADER_SIZE as usize..], limit);
        scan
    }

    fn pages(scan: Scan) -> Vec<(u32, u32)> {
        scan.newest().into_iter().map(|v| (v.page.0, v.frame)).collect()
    }

    #[test]
    fn newest_committed_version_of_each_page() {
        for order in [WordOrder::Little, WordOrder::Big] {
            let mut wal = Writer::new(order, 512, Salts(1, 2));
            wal.frame(2, 0, 1);
            wal.frame(1, 3, 2);
            wal.frame(2, 3, 3);
            wal.frame(3, 0, 4); // an open transaction
            let found = scan(&wal, u64::MAX);
            assert_eq!((found.commit, found.end), (3, HEADER_SIZE + 3 * 536));
            assert_eq!(found.wants(), HEADER_SIZE + 4 * 536);
            assert_eq!(pages(found), [(1, 1), (2, 2)]);
        }
    }

    #[test]
    fn pages_past_a_shrink_are_dropped() {
        let mut wal = Writer::new(WordOrder::Little, 512, Salts(1, 2));
        wal.frame(9, 9, 1);
        wal.frame(1, 4, 2);
        assert_eq!(pages(scan(&wal, u64::MAX)), [(1, 1)]);
    }

    #[test]
    fn stops_at_a_commit_past_the_limit_only() {
        let mut wal = Writer::new(WordOrder::Little, 512, Salts(1, 2));
        for page in 1..=4 {
            wal.frame(page, if page % 2 == 0 { page } else { 0 }, 1);
        }
        assert_eq!(scan(&wal, 1).end, HEADER_SIZE + 2 * 536);
        assert_eq!(scan(&wal, 3 * 536).end, HEADER_SIZE + 4 * 536);
    }

    #[test]
    fn stale_salts_and_any_flipped_bit_end_the_log() {
        let mut wal = Writer::new(WordOrder::Little, 512, Salts(1, 2));
        wal.frame(1, 1, 7);
        wal.frame(2, 2, 8);
        let whole = scan(&wal, u64::MAX).end;
        for at in HEADER_SIZE as usize + 536..wal.bytes.len() {
            for bit in 0..8 {
                wal.bytes[at] ^= 1 << bit;
                assert!(scan(&wal, u64::MAX).end < whole, "byte {at} bit {bit}");
                wal.bytes[at] ^= 1 << bit;
            }
        }
        let mut next = Writer::new(WordOrder::Little, 512, Salts(2, 9));
        next.frame(1, 1, 7);
        next.bytes.extend(&wal.bytes[HEADER_SIZE as usize + 536..]);
        assert_eq!(scan(&next, u64::MAX).end, HEADER_SIZE + 536);
    }

    #[test]
    fn headers_that_sqlite_ignores() {
        let good = Writer::new(WordOrder::Big, 65_536, Salts(1, 2)).bytes;
        assert!(WalHeader::parse(&good).is_some());
        assert_eq!(WalHeader::parse(&good[..31]), None);
        for at in 0..32 {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert_eq!(WalHeader::parse(&bad), None, "byte {at}");
        }
    }
}
