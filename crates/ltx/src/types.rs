//! The numbers of the format as types: transaction ids, page numbers, page sizes.
//!
//! A [`PageSize`] can't hold a size that SQLite doesn't have. A [`Txid`] or a [`PageNo`] may be zero as a
//! value (zero means "none" in several places); the codecs refuse zero where the format does.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use crate::text::{self, TextError};

/// The byte offset of SQLite's lock page: the page that holds it is never part of an LTX file.
const LOCK_OFFSET: u32 = 0x4000_0000;

/// A transaction id: the position of a database in its history, counted from 1. 0 means "nothing yet".
///
/// Its text form is 16 lowercase hexadecimal digits.
///
/// ```
/// use seawall_ltx::Txid;
///
/// let txid: Txid = "000000000000001f".parse()?;
/// assert_eq!(txid, Txid(31));
/// assert_eq!(txid.next(), Some(Txid(32)));
/// assert_eq!(Txid(u64::MAX).next(), None);
/// # Ok::<(), seawall_ltx::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Txid(pub u64);

impl Txid {
    /// The id after this one; `None` after the largest id.
    pub fn next(self) -> Option<Txid> {
        self.0.checked_add(1).map(Txid)
    }
}

impl fmt::Display for Txid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Txid {
    type Err = TextError;

    /// Reads exactly 16 hexadecimal digits, of either case.
    fn from_str(text: &str) -> Result<Self, TextError> {
        text::hex16(text).map(Txid).ok_or(TextError::Txid)
    }
}

/// A page number, counted from 1 as SQLite does. 0 is no page.
///
/// ```
/// use seawall_ltx::PageNo;
///
/// assert!(PageNo(2) > PageNo(1));
/// assert_eq!(PageNo(17).to_string(), "17");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u32);

impl fmt::Display for PageNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The page size of a database in bytes: a power of two from 512 to 65536.
///
/// ```
/// use seawall_ltx::{PageNo, PageSize};
///
/// let size = PageSize::new(4096).unwrap();
/// assert_eq!(size.lock_page(), PageNo(262145));
/// assert!(PageSize::new(1000).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(NonZeroU32);

impl PageSize {
    /// The smallest page size, 512 bytes.
    pub const MIN: u32 = 512;
    /// The largest page size, 65536 bytes (SQLite's own header stores it as 1; LTX stores the number).
    pub const MAX: u32 = 65536;

    /// The page size of `bytes` bytes, or `None` if SQLite has no such page size.
    pub fn new(bytes: u32) -> Option<PageSize> {
        let valid = (Self::MIN..=Self::MAX).contains(&bytes) && bytes.is_power_of_two();
        NonZeroU32::new(bytes).filter(|_| valid).map(PageSize)
    }

    /// The size in bytes.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// The size in bytes, to index memory with.
    pub fn bytes(self) -> usize {
        // 65536 at most, which `usize` holds on every platform with an allocator.
        self.0.get() as usize
    }

    /// The number of the lock page: the page at 1 GiB that SQLite never writes and LTX never stores.
    pub fn lock_page(self) -> PageNo {
        PageNo(LOCK_OFFSET / self.0 + 1)
    }

    /// The page that follows `page` in a complete copy of a database, which leaves out the lock page.
    ///
    /// `None` after the largest page number.
    ///
    /// ```
    /// use seawall_ltx::{PageNo, PageSize};
    ///
    /// let size = PageSize::new(PageSize::MAX).unwrap();
    /// assert_eq!((size.bytes(), size.lock_page()), (65536, PageNo(16385)));
    /// assert_eq!(size.page_after(PageNo(16384)), Some(PageNo(16386)));
    /// assert_eq!(size.page_after(PageNo(u32::MAX)), None);
    /// ```
    pub fn page_after(self, page: PageNo) -> Option<PageNo> {
        let next = page.0.checked_add(1)?;
        if PageNo(next) == self.lock_page() { next.checked_add(1).map(PageNo) } else { Some(PageNo(next)) }
    }

    /// How many pages a complete copy of a database of `commit` pages has: all but the lock page.
    ///
    /// ```
    /// use seawall_ltx::PageSize;
    ///
    /// let size = PageSize::new(PageSize::MIN).unwrap();
    /// assert_eq!(size.pages_in_snapshot(100), 100);
    /// assert_eq!(size.pages_in_snapshot(size.lock_page().0), size.lock_page().0 - 1);
    /// ```
    pub fn pages_in_snapshot(self, commit: u32) -> u32 {
        if commit >= self.lock_page().0 { commit - 1 } else { commit }
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for PageSize {
    type Error = crate::Error;

    fn try_from(bytes: u32) -> Result<Self, Self::Error> {
        PageSize::new(bytes).ok_or(crate::HeaderError::PageSize(bytes).into())
    }
}
