//! Checksums of a database, at the speed of reading.
//!
//! The database checksum is an XOR of CRCs, and a CRC is linear. So all pages are XORed into one, and one CRC of that
//! page gives the checksum; reading is then all of the cost. Checksums of single pages take one CRC for each page.

use std::path::Path;

use crate::file::database::{Database, Pieces};
use crate::file::error::{FileError, Result};
use crate::file::mapped::Mapped;
use crate::file::wal::Wal;
use crate::file::{Work, ordered, share};
use crate::{Checksum, PageHash, PageHasher, PageNo, PageSize};

/// Bytes that a thread takes at once: the range that one page of the processor's page tables maps.
const PIECE: usize = 2 << 20;

/// Bytes of one read. Reading is all of the cost; sizes from 64 KiB to 512 KiB cost the same.
const READ: usize = 256 << 10;

/// The result of [`checksum`]: the checksum of a database, and which pages it covers.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// use seawall_ltx::file::{Work, checksum};
///
/// let sum = checksum(&database, false, Work::new())?;
/// println!("{} of {} pages", sum.checksum, sum.pages);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseSum {
    /// The checksum; [`Checksum::EMPTY`] of an empty file.
    pub checksum: Checksum,
    /// The page size; `None` for an empty file, which has none.
    pub page_size: Option<PageSize>,
    /// How many pages the database has, the lock page among them.
    pub pages: u32,
    /// How many pages have a newer version in the WAL beside it. The checksum includes these only on request.
    pub wal_pages: usize,
}

/// The database checksum of a whole file, with its WAL if `wal` is set.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// use seawall_ltx::file::{Work, checksum};
///
/// let sum = checksum(&database, true, Work::new())?;
/// assert_eq!((sum.pages, sum.wal_pages), (2, 0));
/// println!("{}", sum.checksum); // 16 hexadecimal digits, as `ltx checksum` prints them
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::Database`] if the file isn't a whole database, [`FileError::Io`].
pub fn checksum(path: &Path, wal: bool, work: Work<'_>) -> Result<DatabaseSum> {
    let database = Database::open(path)?;
    let log = Wal::of(path)?;
    let wal_pages = log.as_ref().map_or(0, Wal::pages);
    let log = log.filter(|_| wal);
    let pages = log.as_ref().map_or_else(|| database.pages(), |log| Ok(log.commit))?;
    sum(&database, log.as_ref(), pages, work).map(|(checksum, page_size)| DatabaseSum {
        checksum,
        page_size,
        pages,
        wal_pages,
    })
}

/// The checksum of the first `pages` pages.
pub(super) fn sum(
    database: &Database,
    wal: Option<&Wal>,
    pages: u32,
    work: Work<'_>,
) -> Result<(Checksum, Option<PageSize>)> {
    let Some(head) = database.head else { return Ok((Checksum::EMPTY, None)) };
    let page_size = head.page_size;
    let (hasher, lock) = (PageHasher::new(page_size), page_size.lock_page());
    let pieces = Pieces::new(page_size, pages, PIECE);
    // Pages in the WAL replace the pages that were read.
    let mapped = if wal.is_none() { Mapped::of(&database.file, database.len) } else { None };
    let parts = share::run(
        work.jobs,
        pieces.count(),
        || (Aligned::new(READ.max(page_size.bytes())), vec![0; page_size.bytes()]),
        |(buffer, folded), piece| {
            let (first, count) = pieces.piece(piece);
            let bytes = count as usize * page_size.bytes();
            let offset = u64::from(first.0 - 1) * u64::from(page_size.get());
            let mut fold = |first, pages: &[u8]| fold_but(folded, pages, first, lock);
            let done = mapped.as_ref().and_then(|mapped| mapped.with(offset, bytes, |pages| fold(first, pages)));
            if done.is_none() {
                read_piece(database, wal, (first, count), buffer, fold)?;
            }
            (work.progress)(bytes as u64);
            Ok(())
        },
    )?;
    let mut all = vec![0; page_size.bytes()];
    parts.iter().for_each(|(_, folded)| fold(&mut all, folded));
    let mut total = hasher.fold(PageNo(1), PageNo(pages), hasher.hash(&all));
    if lock.0 <= pages {
        total.toggle(hasher.checksum(lock, PageHash::ZEROS));
    }
    Ok((total.checksum(), Some(page_size)))
}

/// Reads a piece in portions that fit into the processor's cache.
fn read_piece(
    database: &Database,
    wal: Option<&Wal>,
    (first, count): (PageNo, u32),
    buffer: &mut Aligned,
    mut fold: impl FnMut(PageNo, &[u8]),
) -> Result<()> {
    let size = database.head.map_or(0, |head| head.page_size.bytes());
    let step = u32::try_from(READ / size.max(1)).unwrap_or(1).max(1);
    for before in (0..count).step_by(step as usize) {
        let first = PageNo(first.0 + before);
        let pages = buffer.first(step.min(count - before) as usize * size);
        read(database, wal, first, pages)?;
        fold(first, pages);
    }
    Ok(())
}

/// A page-aligned buffer: the kernel copies into one a twentieth faster.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    const PAGE: usize = 4096;

    fn new(len: usize) -> Aligned {
        let bytes = vec![0; len + Self::PAGE];
        let start = bytes.as_ptr().align_offset(Self::PAGE);
        Aligned { bytes, start: start.min(Self::PAGE) }
    }

    /// Its first `len` bytes.
    fn first(&mut self, len: usize) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + len).unwrap_or_default()
    }
}

/// Reads pages and replaces those that have a newer version in the WAL.
pub(super) fn read(database: &Database, wal: Option<&Wal>, first: PageNo, pages: &mut [u8]) -> Result<()> {
    let Some(wal) = wal else { return database.read(first, pages) };
    let size = wal.page_size().get();
    // A page that only the WAL has lies beyond the end of the file.
    let offset = u64::from(first.0 - 1) * u64::from(size);
    let got = super::database::read_up_to(&database.file, pages, offset).map_err(FileError::io(&database.path))?;
    pages.get_mut(got..).unwrap_or_default().fill(0);
    wal.overlay(first, pages)
}

/// XORs pages into one, except the lock page, which doesn't count. `first` is the number of the first page.
fn fold_but(into: &mut [u8], pages: &[u8], first: PageNo, lock: PageNo) {
    let at = lock.0.checked_sub(first.0).map(|at| at as usize * into.len());
    match at.and_then(|at| pages.split_at_checked(at)) {
        Some((before, rest)) if !rest.is_empty() => {
            fold(into, before);
            fold(into, rest.get(into.len()..).unwrap_or_default());
        }
        _ => fold(into, pages),
    }
}

/// XORs pages into one.
fn fold(into: &mut [u8], pages: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the function only needs a processor with AVX2, and this processor has it.
        return unsafe { fold_avx2(into, pages) };
    }
    fold_groups(into, pages);
}

/// [`fold_groups`], compiled for registers of twice the size.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fold_avx2(into: &mut [u8], pages: &[u8]) {
    fold_groups(into, pages);
}

/// Several pages at a time, so that the result is read and written less often.
#[inline(always)]
fn fold_groups(into: &mut [u8], pages: &[u8]) {
    const AT_ONCE: usize = 8;
    let size = into.len();
    let mut groups = pages.chunks_exact(size * AT_ONCE);
    for group in &mut groups {
        let (a, rest) = group.split_at(size);
        let (b, rest) = rest.split_at(size);
        let (c, rest) = rest.split_at(size);
        let (d, rest) = rest.split_at(size);
        let (e, rest) = rest.split_at(size);
        let (f, rest) = rest.split_at(size);
        let (g, h) = rest.split_at(size);
        let left = a.iter().zip(b).zip(c).zip(d);
        let right = e.iter().zip(f).zip(g).zip(h);
        for ((to, (((a, b), c), d)), (((e, f), g), h)) in into.iter_mut().zip(left).zip(right) {
            *to ^= a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
        }
    }
    for page in groups.remainder().chunks_exact(size) {
        into.iter_mut().zip(page).for_each(|(to, from)| *to ^= from);
    }
}

/// Calls `visit` with the checksum of each page of a file, in page order. The lock page has no checksum and is left
/// out.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// use seawall_ltx::Rolling;
/// use seawall_ltx::file::{Work, checksum, page_checksums};
///
/// let mut sum = Rolling::new();
/// page_checksums(&database, Work::new(), |_page, checksum| sum.toggle(checksum))?;
/// assert_eq!(sum.checksum(), checksum(&database, false, Work::new())?.checksum);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Those of [`checksum`].
pub fn page_checksums(path: &Path, work: Work<'_>, mut visit: impl FnMut(PageNo, Checksum) + Send) -> Result<()> {
    let database = Database::open(path)?;
    let Some(head) = database.head else { return Ok(()) };
    let (page_size, lock) = (head.page_size, head.page_size.lock_page());
    let hasher = PageHasher::new(page_size);
    let mut pieces = Pieces::new(page_size, database.pages()?, READ).iter();
    ordered::run(
        work.jobs,
        || Ok(pieces.next()),
        || vec![0; READ.max(page_size.bytes())],
        |buffer, (first, count)| {
            let buffer = buffer.get_mut(..count as usize * page_size.bytes()).unwrap_or_default();
            database.read(first, buffer)?;
            let pages = buffer.chunks_exact(page_size.bytes()).zip(first.0..);
            let sums = pages.map(|(page, number)| hasher.checksum(PageNo(number), hasher.hash(page)));
            let sums: Vec<Checksum> = sums.collect();
            (work.progress)(buffer.len() as u64);
            Ok((first, sums))
        },
        |(first, sums)| {
            let numbered = (first.0..).map(PageNo).zip(sums);
            numbered.filter(|(page, _)| *page != lock).for_each(|(page, sum)| visit(page, sum));
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_page_is_left_out() {
        let pages: Vec<u8> = (0..5 * 512).map(|i: usize| ((i * 31) ^ (i >> 7)) as u8).collect();
        for lock in 1..12 {
            let mut folded = vec![0; 512];
            fold_but(&mut folded, &pages, PageNo(4), PageNo(lock));
            let mut without = pages.clone();
            let locked = without.chunks_exact_mut(512).zip(4..).filter(|(_, number)| *number == lock);
            locked.for_each(|(page, _)| page.fill(0));
            let mut plain = vec![0; 512];
            fold(&mut plain, &without);
            assert_eq!(folded, plain, "{lock}");
        }
    }

    #[test]
    fn folding_is_xor() {
        for count in [0, 1, 7, 8, 9, 31] {
            let pages: Vec<u8> = (0..count * 512).map(|i: usize| ((i * 31) ^ (i >> 7)) as u8).collect();
            let mut folded = vec![0; 512];
            fold(&mut folded, &pages);
            let mut portable = vec![0; 512];
            fold_groups(&mut portable, &pages);
            assert_eq!(folded, portable, "{count} pages");
            let plain: Vec<u8> = (0..512).map(|at| pages.iter().skip(at).step_by(512).fold(0, |x, y| x ^ y)).collect();
            assert_eq!(folded, plain, "{count} pages");
        }
    }
}
