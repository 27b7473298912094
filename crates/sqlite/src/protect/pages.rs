//! The pages of an object: which ones, where each is, and how they become compressed batches.
//!
//! Bases and captures both use a [`PageSet`]. It has some pages in their newest version from the WAL, and a tail: all
//! pages from a page number on. Tail pages that aren't in the WAL come from the database file. For a base the tail
//! begins at page 1. For a capture of a database that grew, it begins at the first new page: SQLite doesn't write pages
//! to the WAL that are free when a transaction ends, but a reader needs every page of the larger file. When the WAL was
//! fully copied and no process can copy again, its pages are in the database file as well ([`PageSet::copied`]).
//!
//! Memory: eight bytes for each page that is or was in the WAL.

use seawall_ltx::{Batch, PageNo, PageSize, compress_batch};

use crate::error::Error;
use crate::reader::PageReader;
use crate::wal::PageVersion;

/// Bytes of pages that are read and compressed as one job.
const BATCH_BYTES: usize = 1 << 20;

/// The frame of a page that is in the database file.
const IN_FILE: u32 = u32::MAX;

/// Pages of one state of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageSet {
    page_size: PageSize,
    /// Size of the database in pages.
    commit: u32,
    /// Every page from here on is wanted.
    all_from: u32,
    /// Single pages, ascending: in the WAL, or [`IN_FILE`].
    versions: Vec<PageVersion>,
}

/// One page of a set, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocatedPage {
    pub(crate) page: u32,
    /// The WAL frame that holds it; `None` for the database file.
    pub(crate) frame: Option<u32>,
}

impl PageSet {
    /// The whole database.
    pub(crate) fn whole(page_size: PageSize, commit: u32, versions: Vec<PageVersion>) -> Self {
        Self { page_size, commit, all_from: 1, versions }
    }

    /// The changes since the database had `previous` pages.
    pub(crate) fn changed(page_size: PageSize, previous: u32, commit: u32, versions: Vec<PageVersion>) -> Self {
        Self { page_size, commit, all_from: previous.saturating_add(1), versions }
    }

    /// The same pages, from the database file alone: for when all of them were copied there.
    pub(crate) fn copied(mut self) -> Self {
        self.versions.iter_mut().for_each(|version| version.frame = IN_FILE);
        self
    }

    /// Adds these pages, from the database file if the set has no other version. Pages that the database no longer has
    /// are left out.
    pub(crate) fn and_of_file(mut self, pages: &[u32]) -> Self {
        let there = pages.iter().filter(|page| **page <= self.commit);
        self.versions.extend(there.map(|page| PageVersion { page: PageNo(*page), frame: IN_FILE }));
        self.versions.sort_unstable_by_key(|version| (version.page, version.frame));
        self.versions.dedup_by_key(|version| version.page);
        self
    }

    /// The single pages of the set, ascending.
    pub(crate) fn singles(&self) -> impl ExactSizeIterator<Item = u32> {
        self.versions.iter().map(|version| version.page.0)
    }

    /// Size of the database in pages.
    pub(crate) fn commit(&self) -> u32 {
        self.commit
    }

    /// How many bytes of pages there are; one page more where the lock page is among them.
    pub(crate) fn bytes(&self) -> u64 {
        let tail = u64::from(self.commit.saturating_add(1).saturating_sub(self.all_from));
        (self.before_tail() as u64 + tail) * u64::from(self.page_size.get())
    }

    /// The number of single pages before those that are all wanted.
    fn before_tail(&self) -> usize {
        self.versions.partition_point(|version| version.page.0 < self.all_from)
    }

    /// The pages in ascending order, without the lock page.
    pub(crate) fn places(&self) -> impl Iterator<Item = LocatedPage> {
        let (before, behind) = self.versions.split_at(self.before_tail());
        let lock_page = self.page_size.lock_page().0;
        let mut behind = behind.iter().peekable();
        let tail = (self.all_from..=self.commit).map(move |page| {
            let version = behind.next_if(|version| version.page.0 == page);
            LocatedPage { page, frame: version.and_then(frame) }
        });
        let before = before.iter().map(|version| LocatedPage { page: version.page.0, frame: frame(version) });
        before.chain(tail).filter(move |place| place.page != lock_page)
    }

    /// The pages in jobs of about a MiB.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Vec<LocatedPage>> {
        let pages = (BATCH_BYTES / self.page_size.bytes()).max(1);
        let mut places = self.places();
        std::iter::from_fn(move || {
            let batch: Vec<LocatedPage> = places.by_ref().take(pages).collect();
            (!batch.is_empty()).then_some(batch)
        })
    }
}

fn frame(version: &PageVersion) -> Option<u32> {
    (version.frame != IN_FILE).then_some(version.frame)
}

/// Reads and compresses one batch. Blocks.
pub(crate) fn compress(reader: &PageReader, places: &[LocatedPage]) -> Result<Batch, Error> {
    let pages = read(reader, places)?;
    let numbered = places.iter().map(|place| PageNo(place.page)).zip(pages.chunks_exact(reader.page_size().bytes()));
    compress_batch(reader.page_size(), numbered).map_err(Error::ltx("batch"))
}

/// Reads the pages of one batch, one after the other. Blocks.
pub(crate) fn read(reader: &PageReader, places: &[LocatedPage]) -> Result<Vec<u8>, Error> {
    let size = reader.page_size().bytes();
    let mut pages = vec![0; places.len() * size];
    let mut done = 0;
    while let Some(place) = places.get(done) {
        let rest = &mut pages[done * size..];
        match place.frame {
            Some(frame) => {
                reader.read_frame(frame, &mut rest[..size])?;
                done += 1;
            }
            None => {
                let run = file_run(&places[done..]);
                reader.read_pages(place.page, &mut rest[..run * size])?;
                done += run;
            }
        }
    }
    Ok(pages)
}

/// How many places at the beginning are neighbours in the database file.
fn file_run(places: &[LocatedPage]) -> usize {
    let first = places.first().map_or(0, |place| place.page);
    places.iter().zip(first..).take_while(|(place, page)| place.frame.is_none() && place.page == *page).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(bytes: u32) -> PageSize {
        PageSize::new(bytes).expect("a page size")
    }

    fn version(page: u32, frame: u32) -> PageVersion {
        PageVersion { page: PageNo(page), frame }
    }

    fn places(set: &PageSet) -> Vec<(u32, Option<u32>)> {
        set.places().map(|place| (place.page, place.frame)).collect()
    }

    #[test]
    fn which_pages_from_where() {
        let versions = vec![version(2, 7), version(4, 1)];
        let whole = PageSet::whole(size(512), 5, versions.clone());
        assert_eq!(places(&whole), [(1, None), (2, Some(7)), (3, None), (4, Some(1)), (5, None)]);
        let same = PageSet::changed(size(512), 5, 5, versions.clone());
        assert_eq!(places(&same), [(2, Some(7)), (4, Some(1))]);
        let grown = PageSet::changed(size(512), 2, 5, versions.clone());
        assert_eq!(places(&grown), [(2, Some(7)), (3, None), (4, Some(1)), (5, None)]);
        let shrunk = PageSet::changed(size(512), 9, 4, versions);
        assert_eq!(places(&shrunk), [(2, Some(7)), (4, Some(1))]);
        assert_eq!(places(&PageSet::whole(size(512), 0, vec![])), []);
    }

    #[test]
    fn pages_that_were_copied() {
        let set = PageSet::changed(size(512), 4, 5, vec![version(2, 7), version(4, 1)]);
        assert_eq!(set.singles().collect::<Vec<_>>(), [2, 4]);
        assert_eq!(places(&set.clone().copied()), [(2, None), (4, None), (5, None)]);
        let more = set.and_of_file(&[1, 2, 5, 6]);
        assert_eq!(places(&more), [(1, None), (2, Some(7)), (4, Some(1)), (5, None)]);
    }

    #[test]
    fn the_lock_page_is_left_out() {
        let lock = size(65_536).lock_page().0;
        let set = PageSet::changed(size(65_536), lock - 2, lock + 1, vec![]);
        assert_eq!(places(&set), [(lock - 1, None), (lock + 1, None)]);
    }

    #[test]
    fn batches_hold_everything_once() {
        let set = PageSet::whole(size(4096), 1000, vec![version(300, 0), version(301, 1)]);
        let batches: Vec<Vec<LocatedPage>> = set.batches().collect();
        assert_eq!(batches.len(), 4);
        assert_eq!(batches.concat(), set.places().collect::<Vec<_>>());
        assert_eq!(set.bytes(), 1000 * 4096);
        assert_eq!(PageSet::changed(size(4096), 300, 1000, vec![version(7, 0), version(301, 1)]).bytes(), 701 * 4096);
        assert_eq!(file_run(&batches[0]), 256);
        assert_eq!(file_run(&batches[1]), 43);
    }
}
