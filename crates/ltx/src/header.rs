//! The first 100 and the last 16 bytes of a file.
//!
//! A [`Header`] describes the file: which transactions it holds, how large the database is after it, and where in
//! SQLite's WAL it came from. A [`Trailer`] ends the file with two checksums. Writer and reader check both by the same
//! rules. All numbers are big-endian.

use crate::checksum::Checksum;
use crate::error::{Error, Generation, HeaderError, Part, PostApplyRule, Result};
use crate::types::{PageSize, Txid};

/// The bytes of a header.
///
/// ```
/// use seawall_ltx::{HEADER_SIZE, Header};
///
/// /// A file's header alone.
/// fn peek(mut file: impl std::io::Read) -> Result<Header, Box<dyn std::error::Error>> {
///     let mut bytes = [0; HEADER_SIZE];
///     file.read_exact(&mut bytes)?;
///     Ok(Header::parse(&bytes)?)
/// }
/// assert!(peek(&b"LTX1"[..]).is_err());
/// ```
pub const HEADER_SIZE: usize = 100;
/// The bytes of a trailer.
///
/// ```
/// use seawall_ltx::{TRAILER_SIZE, Trailer};
///
/// /// The trailer of a file, if it is one.
/// fn trailer(file: &[u8]) -> Option<Trailer> {
///     file.last_chunk::<TRAILER_SIZE>().map(Trailer::parse)
/// }
/// assert_eq!(trailer(b"LTX1"), None);
/// ```
pub const TRAILER_SIZE: usize = 16;

const MAGIC: [u8; 4] = *b"LTX1";
const FLAG_LZ4: u32 = 1 << 0;
const FLAG_NO_CHECKSUM: u32 = 1 << 1;

/// The header of a file: its first 100 bytes.
///
/// ```text
///      0       4       8       12      16
///   0  "LTX1"  flags   page    commit         flags: 2 without database checksums
///                      size
///  16  min txid        max txid
///  32  timestamp       pre-apply              signed milliseconds; checksum of the database before the file
///  48  WAL offset      WAL size
///  64  salt 1  salt 2  node id
///  80  reserved, 20 bytes                     written as zeros
/// 100  the first page frame
/// ```
///
/// ```
/// use seawall_ltx::{Header, PageSize, Txid};
///
/// let header = Header { timestamp_ms: 1_700_000_000_000, ..Header::new(PageSize::new(4096).unwrap(), 12, Txid(7), Txid(9)) };
/// let bytes = header.encode();
/// assert_eq!(Header::parse(&bytes)?, header);
/// assert!(!header.is_snapshot());
/// # Ok::<(), seawall_ltx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The file has no database checksums: `pre_apply` and the trailer's `post_apply` are 0. The file
    /// checksum is there nevertheless. Litestream writes only such files.
    pub no_checksum: bool,
    /// The page size of the database.
    pub page_size: PageSize,
    /// The size of the database after the file, in pages. 0: the database is deleted.
    pub commit: u32,
    /// The first transaction in the file. 1 makes it a snapshot.
    pub min_txid: Txid,
    /// The last transaction in the file.
    pub max_txid: Txid,
    /// When the last transaction was made, in milliseconds since 1970-01-01 UTC. May be negative.
    pub timestamp_ms: i64,
    /// The database checksum before the file. 0 in snapshots and in files without checksums.
    pub pre_apply: Checksum,
    /// Where in the WAL file the first frame was read, in bytes. 0: not from a WAL (compactions). At most
    /// `i64::MAX`.
    pub wal_offset: u64,
    /// How many bytes of the WAL were read. 0 is allowed. At most `i64::MAX`.
    pub wal_size: u64,
    /// The first salt of the WAL.
    pub wal_salt1: u32,
    /// The second salt of the WAL.
    pub wal_salt2: u32,
    /// The node that wrote the file, 0 when unset. Readers ignore it.
    pub node_id: u64,
    /// Free for the writer, covered by the file checksum. Readers ignore it, other writers write zeros.
    pub reserved: [u8; 20],
}

impl Header {
    /// A header without checksums, time, WAL position and node: the minimum of a file.
    pub fn new(page_size: PageSize, commit: u32, min_txid: Txid, max_txid: Txid) -> Header {
        Header {
            no_checksum: true,
            page_size,
            commit,
            min_txid,
            max_txid,
            timestamp_ms: 0,
            pre_apply: Checksum::NONE,
            wal_offset: 0,
            wal_size: 0,
            wal_salt1: 0,
            wal_salt2: 0,
            node_id: 0,
            reserved: [0; 20],
        }
    }

    /// Whether the file is a snapshot: it begins at transaction 1, and holds every page of the database except the lock
    /// page. Nothing else marks a snapshot; a complete copy at a later transaction is formally an increment.
    pub fn is_snapshot(&self) -> bool {
        self.min_txid == Txid(1)
    }

    /// The 100 bytes of the header, whatever the fields hold. [`Header::validate`] checks whether a reader accepts
    /// them.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let flags = if self.no_checksum { FLAG_NO_CHECKSUM } else { 0 };
        let mut out = Writer { bytes: [0; HEADER_SIZE], at: 0 };
        out.put(&MAGIC);
        out.put(&flags.to_be_bytes());
        out.put(&self.page_size.get().to_be_bytes());
        out.put(&self.commit.to_be_bytes());
        out.put(&self.min_txid.0.to_be_bytes());
        out.put(&self.max_txid.0.to_be_bytes());
        out.put(&self.timestamp_ms.to_be_bytes());
        out.put(&self.pre_apply.0.to_be_bytes());
        out.put(&self.wal_offset.to_be_bytes());
        out.put(&self.wal_size.to_be_bytes());
        out.put(&self.wal_salt1.to_be_bytes());
        out.put(&self.wal_salt2.to_be_bytes());
        out.put(&self.node_id.to_be_bytes());
        out.put(&self.reserved);
        out.bytes
    }

    /// Reads and validates a header from the first bytes of a file; what follows them is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] with fewer than 100 bytes, [`Error::Header`] for every rule of
    /// [`Header::validate`] and for a wrong magic or unknown flags, [`Error::Generation`] for a compressed
    /// file of generation 1.
    pub fn parse(bytes: &[u8]) -> Result<Header> {
        match Header::parse_any(bytes)? {
            (header, false) => Ok(header),
            (_, true) => Err(Error::Generation(Generation::V1Lz4)),
        }
    }

    /// Reads the header of any generation, and whether the file is a compressed one of generation 1.
    pub(crate) fn parse_any(bytes: &[u8]) -> Result<(Header, bool)> {
        if bytes.len() >= MAGIC.len() && !bytes.starts_with(&MAGIC) {
            return Err(HeaderError::Magic.into());
        }
        let Some(bytes) = bytes.first_chunk::<HEADER_SIZE>() else {
            return Err(Error::Truncated { offset: bytes.len() as u64, part: Part::Header });
        };
        let mut fields = Reader { bytes, at: MAGIC.len() };
        let flags = fields.u32();
        if flags & !(FLAG_LZ4 | FLAG_NO_CHECKSUM) != 0 {
            return Err(HeaderError::Flags(flags).into());
        }
        let header = Header {
            no_checksum: flags & FLAG_NO_CHECKSUM != 0,
            page_size: PageSize::try_from(fields.u32())?,
            commit: fields.u32(),
            min_txid: Txid(fields.u64()),
            max_txid: Txid(fields.u64()),
            timestamp_ms: i64::from_be_bytes(fields.take()),
            pre_apply: Checksum(fields.u64()),
            wal_offset: fields.u64(),
            wal_size: fields.u64(),
            wal_salt1: fields.u32(),
            wal_salt2: fields.u32(),
            node_id: fields.u64(),
            reserved: fields.take(),
        };
        header.validate()?;
        Ok((header, flags & FLAG_LZ4 != 0))
    }

    /// Checks that the fields keep the format's rules.
    ///
    /// ```
    /// use seawall_ltx::{Header, HeaderError, PageSize, Txid};
    ///
    /// let header = Header::new(PageSize::new(512).unwrap(), 3, Txid(0), Txid(2));
    /// assert_eq!(header.validate(), Err(HeaderError::TxidZero));
    /// ```
    ///
    /// # Errors
    ///
    /// The first broken rule.
    pub fn validate(&self) -> core::result::Result<(), HeaderError> {
        if self.min_txid == Txid(0) || self.max_txid == Txid(0) {
            return Err(HeaderError::TxidZero);
        }
        if self.min_txid > self.max_txid {
            return Err(HeaderError::TxidOrder { min: self.min_txid, max: self.max_txid });
        }
        if i64::try_from(self.wal_offset).is_err() || i64::try_from(self.wal_size).is_err() {
            return Err(HeaderError::WalNegative);
        }
        let from_wal = self.wal_size != 0 || self.wal_salt1 != 0 || self.wal_salt2 != 0;
        if from_wal && self.wal_offset == 0 {
            return Err(HeaderError::WalOffsetMissing);
        }
        if self.no_checksum && self.commit == 0 {
            return Err(HeaderError::DeletionUnchecked);
        }
        self.validate_pre_apply()
    }

    fn validate_pre_apply(&self) -> core::result::Result<(), HeaderError> {
        match (self.pre_apply.is_none(), self.is_snapshot(), self.no_checksum) {
            (false, true, _) => Err(HeaderError::PreApplyOnSnapshot),
            (false, false, true) => Err(HeaderError::PreApplyNotAllowed),
            (true, false, false) => Err(HeaderError::PreApplyMissing),
            (false, false, false) if !self.pre_apply.is_valid() => Err(HeaderError::PreApplyFlag),
            _ => Ok(()),
        }
    }

    /// Whether a file with this header can end with this post-apply checksum.
    pub(crate) fn validate_post_apply(&self, found: Checksum) -> Result<()> {
        let rule = if self.no_checksum {
            (!found.is_none()).then_some(PostApplyRule::NotAllowed)
        } else if found.is_none() {
            Some(PostApplyRule::Missing)
        } else if !found.is_valid() {
            Some(PostApplyRule::Flag)
        } else if self.commit == 0 && found != Checksum::EMPTY {
            Some(PostApplyRule::NotEmpty)
        } else {
            None
        };
        rule.map_or(Ok(()), |rule| Err(Error::PostApply { found, rule }))
    }
}

/// The end of a file: its last 16 bytes.
///
/// ```text
///   0  post-apply      file checksum          checksum of the database after the file; checksum of the file
///  16  the end
/// ```
///
/// The file checksum is over everything before it, with the pages decompressed.
///
/// ```
/// use seawall_ltx::{Checksum, Trailer};
///
/// let trailer = Trailer { post_apply: Checksum::NONE, file: Checksum::from_crc(9) };
/// assert_eq!(Trailer::parse(&trailer.encode()), trailer);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The database checksum after the file. 0 in files without checksums.
    pub post_apply: Checksum,
    /// The checksum of the file.
    pub file: Checksum,
}

impl Trailer {
    /// The 16 bytes.
    pub fn encode(&self) -> [u8; TRAILER_SIZE] {
        let mut out = Writer { bytes: [0; TRAILER_SIZE], at: 0 };
        out.put(&self.post_apply.0.to_be_bytes());
        out.put(&self.file.0.to_be_bytes());
        out.bytes
    }

    /// Reads the 16 bytes. Only a check of the whole file can verify the checksums.
    pub fn parse(bytes: &[u8; TRAILER_SIZE]) -> Trailer {
        let mut fields = Reader { bytes, at: 0 };
        Trailer { post_apply: Checksum(fields.u64()), file: Checksum(fields.u64()) }
    }
}

/// Fixed-width fields one after the other; the widths add up to the array by construction.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    fn put(&mut self, field: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(self.at).zip(field) {
            *to = *from;
        }
        self.at += field.len();
    }
}

struct Reader<'a, const N: usize> {
    bytes: &'a [u8; N],
    at: usize,
}

impl<const N: usize> Reader<'_, N> {
    fn take<const M: usize>(&mut self) -> [u8; M] {
        let mut field = [0; M];
        for (to, from) in field.iter_mut().zip(self.bytes.iter().skip(self.at)) {
            *to = *from;
        }
        self.at += M;
        field
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
}
