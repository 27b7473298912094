//! Is a page missing from the data file that the environment uses?
//!
//! liblmdb counts the pages that were ever taken. A transaction may take pages at the end of the file and give them
//! back before it commits; liblmdb never writes such pages. So a file may end before its last counted page, and is whole
//! if the list of free pages names every page behind its end.
//!
//! Everything is read from the file, not through the map, where the read of a missing page ends the process.

use std::mem::size_of;
use std::os::fd::BorrowedFd;

/// Bytes of a meta page that are looked at: the page's head, then the meta data.
const META: usize = 152;

/// Bytes of a page's head.
const HEAD: usize = 16;

/// Flags of a page: it has pages below it, or entries.
const BRANCH: u16 = 1;
const LEAF: u16 = 2;

/// The flag of an entry whose value is on pages of its own.
const BIG: u16 = 1;

/// The number of no page: an empty tree has it as its root.
const NONE: u64 = u64::MAX;

/// The sizes of pages that liblmdb makes.
const PAGES: std::ops::RangeInclusive<u64> = 256..=65_536;

/// What a meta page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    /// Bytes of a page.
    page: u64,
    /// The root of the tree of free pages.
    free: u64,
    /// The last page that was ever taken.
    last: u64,
    transaction: u64,
}

impl Meta {
    /// Parses the meta page of a 64-bit process in this machine's order of bytes.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (magic, version) = (word(bytes, 16)?, word(bytes, 20)?);
        let page = u64::from(word(bytes, 40)?);
        if (magic, version) != (0xBEEF_C0DE, 1) || !PAGES.contains(&page) || !page.is_power_of_two() {
            return None;
        }
        Some(Self { page, free: long(bytes, 80)?, last: long(bytes, 136)?, transaction: long(bytes, 144)? })
    }

    /// Bytes of the pages that were ever taken.
    pub(super) fn used(&self) -> u64 {
        self.last.saturating_add(1).saturating_mul(self.page)
    }
}

/// Both meta pages, the newer one first; `None` if there aren't two.
fn metas(file: BorrowedFd<'_>) -> Option<[Meta; 2]> {
    let read = |at| Meta::parse(&read(file, at, META)?);
    let one = read(0)?;
    let two = read(one.page)?;
    Some(if two.transaction > one.transaction { [two, one] } else { [one, two] })
}

/// What the length of a data file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// It has room for every page.
    Whole,
    /// It has no room for its last pages. [`lacks_only_free_pages`] says whether one of them is in use.
    Short(Meta),
    /// It is too short for an environment, or doesn't begin as one.
    NoEnvironment,
}

/// Compares the length of a file with its newest meta page.
pub(super) fn length(file: BorrowedFd<'_>) -> Length {
    let Some([newest, _]) = metas(file) else { return Length::NoEnvironment };
    // After the meta page: a writer makes the file longer before it writes the meta page that counts the new pages.
    match bytes(file) {
        Some(bytes) if newest.used() <= bytes => Length::Whole,
        _ => Length::Short(newest),
    }
}

/// Whether no page behind the end of the file is in use. The caller has a read transaction with the number `seen`, so
/// that no process writes over the list of free pages.
pub(super) fn lacks_only_free_pages(file: BorrowedFd<'_>, seen: u64) -> bool {
    let Some(found) = metas(file) else { return false };
    let [newest, _] = found;
    let meta = found.into_iter().find(|meta| meta.transaction == seen).unwrap_or(newest);
    let Some(bytes) = bytes(file) else { return false };
    let missing = bytes / meta.page..meta.last.saturating_add(1);
    let wanted = missing.end.saturating_sub(missing.start);
    let Some(mut free) = free_pages(file, &meta, &missing) else { return false };
    free.sort_unstable();
    free.dedup();
    free.len() as u64 == wanted
}

/// The free pages among `missing`; `None` if a page of their list can't be read.
fn free_pages(file: BorrowedFd<'_>, meta: &Meta, missing: &std::ops::Range<u64>) -> Option<Vec<u64>> {
    let size = usize::try_from(meta.page).ok()?;
    let (mut found, mut next, mut visits) = (Vec::new(), Vec::new(), 0_u64);
    if meta.free != NONE {
        next.push(meta.free);
    }
    while let Some(place) = next.pop() {
        visits += 1;
        // A tree has no page twice.
        if visits > meta.last {
            return None;
        }
        let page = read(file, place.checked_mul(meta.page)?, size)?;
        let flags = short(&page, 10)?;
        let entries = usize::from(short(&page, 12)?).checked_sub(HEAD)? / 2;
        for nth in 0..entries {
            let at = usize::from(short(&page, HEAD + 2 * nth)?);
            let low = number(&page, at)?;
            let (third, key) = (short(&page, at + 4)?, usize::from(short(&page, at + 6)?));
            if flags & BRANCH != 0 {
                next.push(u64::from(low) | u64::from(third) << 32);
                continue;
            }
            if flags & LEAF == 0 {
                return None;
            }
            let (at, length) = (at + 8 + key, usize::try_from(low).ok()?);
            let list = if third & BIG != 0 {
                let place = long(&page, at)?.checked_mul(meta.page)?.checked_add(HEAD as u64)?;
                read(file, place, length)?
            } else {
                page.get(at..at.checked_add(length)?)?.to_vec()
            };
            let count = usize::try_from(long(&list, 0)?).ok()?;
            for nth in 1..=count {
                let free = long(&list, nth.checked_mul(size_of::<u64>())?)?;
                if missing.contains(&free) {
                    found.push(free);
                }
            }
        }
    }
    Some(found)
}

/// The first four bytes of an entry: two halves of a number, in this machine's order.
fn number(page: &[u8], at: usize) -> Option<u32> {
    let (first, second) = (short(page, at)?, short(page, at + 2)?);
    let (low, high) = if cfg!(target_endian = "little") { (first, second) } else { (second, first) };
    Some(u32::from(low) | u32::from(high) << 16)
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Bytes of a file.
pub(super) fn bytes(file: BorrowedFd<'_>) -> Option<u64> {
    rustix::fs::fstat(file).ok().and_then(|found| u64::try_from(found.st_size).ok())
}

/// Reads `length` bytes; `None` if the file ends before.
fn read(file: BorrowedFd<'_>, at: u64, length: usize) -> Option<Vec<u8>> {
    // What is longer than the file isn't read, so that a damaged length takes no memory.
    if at.checked_add(length as u64)? > bytes(file)? {
        return None;
    }
    let (mut bytes, mut done) = (vec![0; length], 0);
    while done < length {
        let place = at.checked_add(done as u64)?;
        match rustix::io::pread(file, bytes.get_mut(done..)?, place) {
            Ok(0) => return None,
            Ok(count) => done += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests cut files")]

    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd as _;
    use std::path::Path;

    use super::*;
    use crate::environment::{Env, EnvOptions};
    use crate::error::Error;
    use crate::schema::flags::Flags;

    fn open(folder: &Path) -> Result<Env, Error> {
        Env::open(folder, &EnvOptions { create: true, map_size: Some(1 << 26), ..EnvOptions::default() })
    }

    fn cut(data: &Path, length: u64) {
        OpenOptions::new().write(true).open(data).unwrap().set_len(length).unwrap();
    }

    #[test]
    fn a_file_without_its_last_page_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data.mdb");
        let env = open(folder.path()).unwrap();
        let mut txn = env.write().unwrap();
        let dbi = txn.create(b"d", Flags::default()).unwrap();
        txn.put(dbi, b"k", &[7; 20_000]).unwrap();
        txn.commit().unwrap();
        let used = env.info().unwrap().used;
        drop(env);
        let file = File::open(&data).unwrap();
        assert_eq!(length(file.as_fd()), Length::Whole);
        cut(&data, used - 1);
        assert!(matches!(length(file.as_fd()), Length::Short(meta) if meta.used() == used));
        assert!(!lacks_only_free_pages(file.as_fd(), 1));
        assert!(
            matches!(open(folder.path()), Err(Error::Cut { bytes, before, .. }) if (bytes, before) == (used - 1, used))
        );
        cut(&data, 4096);
        assert_eq!(length(file.as_fd()), Length::NoEnvironment);
        assert!(open(folder.path()).is_err());
    }

    /// Pages that a transaction took and gave back are counted, but liblmdb never writes them.
    #[test]
    fn a_file_that_ends_before_free_pages_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data.mdb");
        let env = open(folder.path()).unwrap();
        // The first transaction leaves entries, and each later one takes back what it put.
        for round in 0..7_u32 {
            let mut txn = env.write().unwrap();
            let dbi = txn.create(b"d", Flags::default()).unwrap();
            let (count, size) = match round {
                0 => (100, 100),
                round if round % 2 == 1 => (3000, 100),
                round => (1, 199_000 + 1000 * round as usize),
            };
            let keys = || (0..count).map(|key: u32| (1000 * round.min(1) + key).to_ne_bytes());
            for key in keys() {
                txn.put(dbi, &key, &vec![7; size]).unwrap();
            }
            for key in keys().filter(|_| round > 0) {
                assert!(txn.delete(dbi, &key).unwrap());
            }
            txn.commit().unwrap();
        }
        let longest = env.info().unwrap().used;
        drop(env);
        let file = File::open(&data).unwrap();
        let found = bytes(file.as_fd()).unwrap();
        assert!(found < longest, "the file has all {longest} bytes, so that this shows nothing");
        let env = open(folder.path()).unwrap();
        assert_eq!(env.read().unwrap().names().unwrap().len(), 1);
        drop(env);
        // Every page that is cut off now was written, and most of them are free.
        let mut refused = 0;
        for pages in 3..found / 4096 {
            cut(&data, found - pages * 4096);
            refused += u64::from(!lacks_only_free_pages(file.as_fd(), u64::MAX));
        }
        assert!(refused > 0, "an environment without its pages counts as whole");
    }
}
