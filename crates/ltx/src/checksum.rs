//! CRC-64/GO-ISO and the three checksums of the format.
//!
//! * page: over the page number and the page;
//! * database ("rolling"): all page checksums except the lock page's, XORed;
//! * file: over the header, page headers, *decompressed* pages, index and post-apply checksum.
//!
//! Every stored checksum has bit 63 set, so that 0 can mean "none"; 63 bits are effective. A database checksum is an
//! XOR of CRCs, so it can't detect two swapped pages. It belongs to the format and serves other readers; it is no proof
//! of content.

use core::fmt;
use core::str::FromStr;

use crate::register::Register;
use crate::shift;
use crate::text::{self, TextError};
use crate::types::PageNo;

/// A CRC starts as all ones, and is inverted at the end.
const ONES: u64 = u64::MAX;

/// A stored checksum: bit 63 is set in every checksum, and 0 means "none".
///
/// Its text form is 16 lowercase hexadecimal digits.
///
/// ```
/// use seawall_ltx::Checksum;
///
/// let sum: Checksum = "f46b8fcc0740e654".parse().unwrap();
/// assert!(sum.is_valid() && !sum.is_none());
/// assert_eq!(sum.to_string(), "f46b8fcc0740e654");
/// assert_eq!(Checksum::from_crc(5).0, 1 << 63 | 5);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum(pub u64);

impl Checksum {
    /// The bit that every checksum has.
    ///
    /// ```
    /// use seawall_ltx::Checksum;
    ///
    /// assert_eq!(Checksum::EMPTY.0, Checksum::FLAG);
    /// ```
    pub const FLAG: u64 = 1 << 63;
    /// No checksum.
    pub const NONE: Checksum = Checksum(0);
    /// The database checksum of a database without pages.
    pub const EMPTY: Checksum = Checksum(Self::FLAG);

    /// The stored form of a CRC: the flag replaces its top bit.
    pub fn from_crc(crc: u64) -> Checksum {
        Checksum(crc | Self::FLAG)
    }

    /// Whether this is "none".
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether this can be a checksum: it has the flag.
    pub fn is_valid(self) -> bool {
        self.0 & Self::FLAG != 0
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Checksum {
    type Err = TextError;

    /// Reads exactly 16 hexadecimal digits, of either case.
    fn from_str(text: &str) -> Result<Self, TextError> {
        text::hex16(text).map(Checksum).ok_or(TextError::Checksum)
    }
}

/// A CRC-64/GO-ISO that is fed piece by piece.
///
/// Two of them over neighbouring pieces can be joined, so that parts of a file are hashed on many threads:
///
/// ```
/// use seawall_ltx::{Crc64, crc64};
///
/// let mut crc = Crc64::new();
/// crc.update(b"1234");
/// let mut rest = Crc64::new();
/// rest.update(b"56789");
/// crc.join(&rest);
/// assert_eq!(crc.value(), 0xb909_56c7_75a4_1001);
/// assert_eq!(crc.value(), crc64(b"123456789"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc64 {
    register: Register,
    hashed: u64,
}

impl Crc64 {
    /// The CRC of no bytes.
    pub fn new() -> Crc64 {
        Crc64 { register: Register::new(ONES), hashed: 0 }
    }

    /// Continues from the CRC `value` of `hashed` bytes.
    pub(crate) fn resume(value: u64, hashed: u64) -> Crc64 {
        Crc64 { register: Register::new(!value), hashed }
    }

    /// Adds bytes at the end.
    pub fn update(&mut self, bytes: &[u8]) {
        self.register.update(bytes);
        self.hashed = self.hashed.wrapping_add(bytes.len() as u64);
    }

    /// Appends all bytes that `next` has hashed. Costs about a microsecond, whatever the lengths.
    pub fn join(&mut self, next: &Crc64) {
        let value = shift::over_zeros(self.value(), next.hashed) ^ next.value();
        *self = Crc64::resume(value, self.hashed.wrapping_add(next.hashed));
    }

    /// The CRC of the bytes so far, all 64 bits of it.
    pub fn value(&self) -> u64 {
        !self.register.content()
    }

    /// How many bytes it has hashed.
    ///
    /// ```
    /// let mut crc = seawall_ltx::Crc64::new();
    /// crc.update(b"123");
    /// assert_eq!(crc.hashed(), 3);
    /// ```
    pub fn hashed(&self) -> u64 {
        self.hashed
    }

    /// The stored form.
    pub fn checksum(&self) -> Checksum {
        Checksum::from_crc(self.value())
    }
}

impl Default for Crc64 {
    fn default() -> Self {
        Crc64::new()
    }
}

/// The CRC-64/GO-ISO of `bytes`.
///
/// ```
/// assert_eq!(seawall_ltx::crc64(b"123456789"), 0xb909_56c7_75a4_1001);
/// ```
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut register = Register::new(ONES);
    register.update(bytes);
    !register.content()
}

/// The checksum of one page: over its number (4 bytes, big-endian) and its content.
///
/// ```
/// use seawall_ltx::{PageNo, page_checksum};
///
/// // The same content is another checksum on another page.
/// assert_ne!(page_checksum(PageNo(1), &[7; 512]), page_checksum(PageNo(2), &[7; 512]));
/// ```
pub fn page_checksum(page: PageNo, data: &[u8]) -> Checksum {
    let mut crc = Crc64::new();
    crc.update(&page.0.to_be_bytes());
    crc.update(data);
    crc.checksum()
}

/// The checksum of a database while its pages change: an XOR of page checksums.
///
/// Adding a page and taking it out again are the same operation, so a change of a page is two calls: one
/// with the old content, one with the new. The lock page is never added.
///
/// ```
/// use seawall_ltx::{Checksum, PageNo, Rolling, page_checksum};
///
/// let mut database = Rolling::from(Checksum::EMPTY);
/// database.toggle(page_checksum(PageNo(1), &[0; 512]));
/// database.toggle(page_checksum(PageNo(1), &[0; 512]));
/// assert_eq!(database.checksum(), Checksum::EMPTY);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rolling(u64);

impl Rolling {
    /// The checksum of a database without pages.
    pub fn new() -> Rolling {
        Rolling(0)
    }

    /// Adds a page that the checksum doesn't hold, or removes a page that it holds.
    pub fn toggle(&mut self, page: Checksum) {
        self.0 ^= page.0;
    }

    /// Adds the pages of another part of the same database.
    pub fn join(&mut self, other: Rolling) {
        self.0 ^= other.0;
    }

    /// The database checksum.
    pub fn checksum(self) -> Checksum {
        Checksum::from_crc(self.0)
    }
}

impl From<Checksum> for Rolling {
    /// Continues from a stored database checksum.
    fn from(stored: Checksum) -> Self {
        Rolling(stored.0)
    }
}
