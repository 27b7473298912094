//! One pass over a page for both of its checksums.
//!
//! A page enters two checksums: its own, after its number, and the file checksum, after its page header. A CRC is
//! linear, so the bytes before a page and the page itself can be hashed separately and added. With `raw` the page
//! hashed from an empty register, and `shift` the effect of a page of zeros on a register,
//!
//! ```text
//! register after (head, page) = shift(register after head) ^ raw(page)
//! ```
//!
//! `raw` is the only pass over the page. `shift` is linear too, which makes it eight table look-ups.

use alloc::boxed::Box;

use once_cell::race::OnceBox;

use crate::checksum::{Checksum, Crc64};
use crate::register::Register;
use crate::shift::{self, Shift};
use crate::types::{PageNo, PageSize};

/// A CRC starts as all ones, and is inverted at the end.
const ONES: u64 = u64::MAX;

/// Hashes pages of one size.
///
/// Memory: 24 KiB of tables for each page size that a process uses, made once.
///
/// ```
/// use seawall_ltx::{PageHasher, PageNo, PageSize, page_checksum};
///
/// let hasher = PageHasher::new(PageSize::new(512).unwrap());
/// let page = [7; 512];
/// let hash = hasher.hash(&page);
/// assert_eq!(hasher.checksum(PageNo(9), hash), page_checksum(PageNo(9), &page));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageHasher {
    page_size: PageSize,
    tables: &'static Tables,
}

#[derive(Debug)]
struct Tables {
    over_page: Shift,
    /// The share of each byte of a page number in the checksum of its page.
    number: Box<[[u64; 256]; 4]>,
    /// The share of page number 0.
    zero: u64,
}

/// The hash of a page's content alone, without its number.
///
/// Hashes of pages of one size add up: the hash of pages XORed is the XOR of their hashes.
///
/// ```
/// use seawall_ltx::{PageHash, PageHasher, PageSize};
///
/// let hasher = PageHasher::new(PageSize::new(512).unwrap());
/// assert_eq!(hasher.page_size().get(), 512);
/// assert_eq!(hasher.hash(&[0; 512]), PageHash::ZEROS);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageHash(u64);

impl PageHash {
    /// The hash of a page of zeros, of any size.
    pub const ZEROS: PageHash = PageHash(0);
}

impl PageHasher {
    /// A hasher of pages of this size.
    pub fn new(page_size: PageSize) -> PageHasher {
        /// By the power of two: 512 is the 9th, 65536 the 16th.
        static ALL: [OnceBox<Tables>; 17] = [const { OnceBox::new() }; 17];
        let tables = ALL[page_size.get().trailing_zeros() as usize].get_or_init(|| Box::new(Tables::new(page_size)));
        PageHasher { page_size, tables }
    }

    /// The page size of this hasher.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// The hash of a page, which is one page long.
    pub fn hash(&self, page: &[u8]) -> PageHash {
        let mut register = Register::new(0);
        register.update(page);
        PageHash(register.content())
    }

    /// The checksum of a page from its hash.
    pub fn checksum(&self, number: PageNo, page: PageHash) -> Checksum {
        Checksum::from_crc(self.number_part(number) ^ page.0)
    }

    /// The share of a page's number in its checksum.
    fn number_part(&self, number: PageNo) -> u64 {
        let [a, b, c, d] = number.0.to_be_bytes().map(usize::from);
        let [ta, tb, tc, td] = &*self.tables.number;
        self.tables.zero ^ ta[a] ^ tb[b] ^ tc[c] ^ td[d]
    }

    /// The sum of the checksums of the pages from `first` to `last` whose contents, XORed, hash to `folded`. This gives
    /// the database checksum without each page's own checksum.
    ///
    /// ```
    /// use seawall_ltx::{PageHasher, PageNo, PageSize, Rolling};
    ///
    /// let hasher = PageHasher::new(PageSize::new(512).unwrap());
    /// let mut one_by_one = Rolling::new();
    /// for (number, page) in [(1, [3; 512]), (2, [5; 512])] {
    ///     one_by_one.toggle(hasher.checksum(PageNo(number), hasher.hash(&page)));
    /// }
    /// let folded = hasher.hash(&[3 ^ 5; 512]);
    /// assert_eq!(hasher.fold(PageNo(1), PageNo(2), folded), one_by_one);
    /// ```
    pub fn fold(&self, first: PageNo, last: PageNo, folded: PageHash) -> crate::Rolling {
        let mut sum = folded.0;
        for number in first.0..=last.0 {
            sum ^= self.number_part(PageNo(number));
        }
        let mut rolling = crate::Rolling::new();
        rolling.toggle(Checksum(sum));
        rolling
    }
}

impl Tables {
    fn new(page_size: PageSize) -> Tables {
        let over_page = Shift::new(u64::from(page_size.get()));
        let mut number = Box::new([[0; 256]; 4]);
        for (at, table) in number.iter_mut().enumerate() {
            for (byte, entry) in (0..=u8::MAX).zip(table.iter_mut()) {
                let mut bytes = [0; 4];
                bytes[at] = byte;
                *entry = over_page.apply(shift::step(0, &bytes));
            }
        }
        let zero = over_page.apply(shift::step(ONES, &[0; 4])) ^ ONES;
        Tables { over_page, number, zero }
    }
}

/// A share of the file checksum, over page headers and pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileHash {
    register: u64,
    hashed: u64,
}

impl FileHash {
    /// Nothing yet.
    pub(crate) fn new() -> FileHash {
        FileHash { register: ONES, hashed: 0 }
    }

    /// Adds a page header and the page after it.
    pub(crate) fn add(&mut self, hasher: &PageHasher, head: &[u8], page: PageHash) {
        self.register = hasher.tables.over_page.apply(shift::step(self.register, head)) ^ page.0;
        self.hashed += head.len() as u64 + u64::from(hasher.page_size.get());
    }

    /// The CRC so far.
    pub(crate) fn crc(&self) -> Crc64 {
        Crc64::resume(self.register ^ ONES, self.hashed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{Rolling, crc64, page_checksum};

    fn page(size: usize, seed: u8) -> Vec<u8> {
        (0..size).map(|i| (i as u8).wrapping_mul(31) ^ seed ^ (i >> 8) as u8).collect()
    }

    #[test]
    fn both_checksums_come_out_of_one_hash() {
        for bytes in [512, 1024, 4096, 65536] {
            let hasher = PageHasher::new(PageSize::new(bytes).expect("a page size"));
            let mut file = FileHash::new();
            let mut plain = Vec::new();
            for (number, seed) in [(1, 3), (2, 0), (255, 9), (65_536, 1), (u32::MAX, 255)] {
                let page = page(bytes as usize, seed);
                let hash = hasher.hash(&page);
                assert_eq!(hasher.checksum(PageNo(number), hash), page_checksum(PageNo(number), &page));
                let head: &[u8] = if number % 2 == 0 { &[1, 2, 3, 4, 5, 6] } else { &[9, 8, 7, 6, 5, 4, 3, 2, 1, 0] };
                file.add(&hasher, head, hash);
                plain.extend_from_slice(head);
                plain.extend_from_slice(&page);
            }
            assert_eq!((file.crc().value(), file.crc().hashed()), (crc64(&plain), plain.len() as u64));
        }
    }

    #[test]
    fn pages_xored_have_the_sum_of_the_checksums() {
        let hasher = PageHasher::new(PageSize::new(512).expect("a page size"));
        for count in [1_u32, 2, 7, 300] {
            let mut sum = Rolling::new();
            let mut folded = vec![0; 512];
            for number in 10..10 + count {
                let page = page(512, number as u8);
                sum.toggle(page_checksum(PageNo(number), &page));
                folded.iter_mut().zip(&page).for_each(|(to, from)| *to ^= from);
            }
            let fold = hasher.fold(PageNo(10), PageNo(10 + count - 1), hasher.hash(&folded));
            assert_eq!(fold.checksum(), sum.checksum());
        }
    }
}
