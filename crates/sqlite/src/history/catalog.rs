//! The objects of a vault, kept in memory. A session lists the vault once when it begins, and updates the catalog with
//! every object that it makes or deletes. So no task has to list the vault to find its work.

use seawall_core::Moment;
use seawall_ltx::{HEADER_SIZE, TRAILER_SIZE, Txid};

use crate::layout::{Level, Stored};

/// The size of an LTX file without pages: header, end marker, an empty index and its size, trailer.
const EMPTY_SIZE: u64 = (HEADER_SIZE + 6 + 1 + 8 + TRAILER_SIZE) as u64;

/// An LTX file of a vault, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dated {
    pub(crate) file: Stored,
    /// When its newest change was captured; if a listing doesn't have that time, when the object was written.
    pub(crate) moment: Moment,
    /// When it became visible, or later: a restore that was planned before doesn't know it.
    pub(crate) written: Moment,
}

impl Dated {
    /// Whether it has no pages, like the capture after a first base. Merging such an object would gain nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.size <= EMPTY_SIZE
    }

    /// Whether it was written as a complete copy.
    pub(crate) fn is_base(&self) -> bool {
        self.file.level == Level::BASE && self.file.min.0 == 1
    }
}

/// All LTX files of a vault by level, each level in the order of the last TXIDs.
///
/// Memory: 48 bytes a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    levels: [Vec<Dated>; 10],
    /// Objects that don't belong to the objects before them, as a merge found out.
    strangers: Vec<Stored>,
}

impl Catalog {
    /// From a listing.
    pub(crate) fn new(files: impl IntoIterator<Item = Dated>) -> Self {
        let mut catalog = Self::default();
        for dated in files {
            catalog.levels[usize::from(dated.file.level.number())].push(dated);
        }
        for level in &mut catalog.levels {
            level.sort_unstable_by_key(|dated| (dated.file.max, dated.file.min));
            level.dedup_by_key(|dated| dated.file);
            level.shrink_to_fit();
        }
        catalog
    }

    /// Takes over a newer listing. Objects written since `recently` may be missing from it, and stay.
    pub(crate) fn refresh(&mut self, listed: Catalog, recently: Moment) {
        let before = std::mem::replace(self, listed);
        before.levels.into_iter().flatten().filter(|dated| dated.written >= recently).for_each(|dated| self.add(dated));
    }

    /// The files of a level, in the order of their last TXIDs.
    pub(crate) fn level(&self, level: Level) -> &[Dated] {
        &self.levels[usize::from(level.number())]
    }

    /// The bases, oldest first.
    pub(crate) fn bases(&self) -> impl DoubleEndedIterator<Item = &Dated> {
        self.level(Level::BASE).iter().filter(|dated| dated.is_base())
    }

    /// All files.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Dated> {
        self.levels.iter().flatten()
    }

    /// All files as the planner takes them.
    pub(crate) fn files(&self) -> Vec<Stored> {
        self.all().map(|dated| dated.file).collect()
    }

    /// Notes that a file doesn't belong to the objects before it. Remembered until the vault is listed again.
    pub(crate) fn set_apart(&mut self, file: Stored) {
        if !self.strangers.contains(&file) {
            self.strangers.push(file);
        }
    }

    /// Whether a file is a stranger, or comes after a stranger with no base in between. Its changes aren't those of the
    /// vault's history.
    pub(crate) fn is_apart(&self, file: &Stored) -> bool {
        let begins = |base: &Stored, stranger: &Stored| base.max > stranger.max && base.max <= file.min;
        let begins = |stranger: &Stored| {
            self.bases().map(|base| base.file).any(|base| begins(&base, stranger) && !self.strangers.contains(&base))
        };
        // A stranger that is a complete copy affects only objects after its end.
        let from = |stranger: &Stored| if stranger.min.0 == 1 { stranger.max } else { stranger.min };
        self.strangers.iter().any(|stranger| from(stranger) <= file.max && !begins(stranger))
    }

    /// The last TXID that a level reaches.
    pub(crate) fn reached(&self, level: Level) -> Option<Txid> {
        self.level(level).last().map(|dated| dated.file.max)
    }

    /// Adds a file, unless it is there.
    pub(crate) fn add(&mut self, dated: Dated) {
        let level = &mut self.levels[usize::from(dated.file.level.number())];
        let key = (dated.file.max, dated.file.min);
        if let Err(at) = level.binary_search_by_key(&key, |dated| (dated.file.max, dated.file.min)) {
            level.insert(at, dated);
        }
    }

    /// Sets the moment of a file.
    pub(crate) fn date(&mut self, file: &Stored, moment: Moment) {
        let level = &mut self.levels[usize::from(file.level.number())];
        if let Some(dated) = level.iter_mut().find(|dated| dated.file == *file) {
            dated.moment = moment;
        }
    }

    /// Whether it holds exactly this file.
    pub(crate) fn holds(&self, file: &Stored) -> bool {
        let level = &self.levels[usize::from(file.level.number())];
        let at = level.binary_search_by_key(&(file.max, file.min), |dated| (dated.file.max, dated.file.min));
        at.is_ok_and(|at| level[at].file == *file)
    }

    /// Forgets files that were deleted.
    pub(crate) fn remove(&mut self, files: &[Stored]) {
        for level in &mut self.levels {
            level.retain(|dated| !files.contains(&dated.file));
        }
    }

    /// Frees memory that an idle database doesn't need.
    pub(crate) fn shrink(&mut self) {
        self.levels.iter_mut().for_each(Vec::shrink_to_fit);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file of a table: level, first and last TXID, and its moment in seconds.
    pub(crate) fn dated(level: u8, min: u64, max: u64, seconds: i64) -> Dated {
        let level = Level::new(level.into()).expect("a level");
        let moment = Moment::from_millis(seconds * 1000);
        Dated { file: Stored { level, min: Txid(min), max: Txid(max), size: 1000 }, moment, written: moment }
    }

    #[test]
    fn what_comes_and_goes() {
        let mut catalog = Catalog::new([dated(0, 3, 3, 3), dated(0, 2, 2, 2), dated(9, 1, 1, 1), dated(0, 3, 3, 3)]);
        assert_eq!(catalog.reached(Level::LOG), Some(Txid(3)));
        catalog.add(dated(0, 4, 4, 4));
        catalog.add(dated(0, 4, 4, 4));
        let txids = |catalog: &Catalog| catalog.level(Level::LOG).iter().map(|d| d.file.max.0).collect::<Vec<_>>();
        assert_eq!(txids(&catalog), [2, 3, 4]);
        catalog.remove(&[dated(0, 3, 3, 0).file]);
        assert_eq!(txids(&catalog), [2, 4]);
        assert_eq!(catalog.bases().map(|d| d.file.max.0).collect::<Vec<_>>(), [1]);
        assert_eq!(catalog.files().len(), 3);
        assert_eq!(catalog.reached(Level::new(1).expect("a level")), None);
        assert_eq!(Level::new(10), None);
    }

    #[test]
    fn a_file_without_pages_has_the_size_of_an_empty_one() {
        let size = seawall_ltx::PageSize::new(4096).expect("a page size");
        let header = seawall_ltx::Header::new(size, 7, Txid(2), Txid(2));
        let mut file = Vec::new();
        let encoder = seawall_ltx::Encoder::new(header, &mut file).expect("a header");
        encoder.finish(seawall_ltx::Checksum::NONE, &mut file).expect("a file");
        assert_eq!(file.len() as u64, EMPTY_SIZE);
    }

    #[test]
    fn what_lies_behind_a_stranger_is_apart_up_to_the_next_base() {
        let files = [dated(9, 1, 1, 1), dated(0, 2, 2, 2), dated(0, 3, 3, 3), dated(9, 1, 5, 5), dated(0, 5, 5, 5)];
        let mut catalog = Catalog::new(files);
        let apart = |catalog: &Catalog| {
            (2..=6).filter(|txid| catalog.is_apart(&dated(0, *txid, *txid, 0).file)).collect::<Vec<_>>()
        };
        assert!(apart(&catalog).is_empty());
        catalog.set_apart(dated(0, 3, 3, 3).file);
        assert_eq!(apart(&catalog), [3, 4]);
        catalog.set_apart(dated(9, 1, 5, 5).file);
        assert_eq!(apart(&catalog), [3, 4, 5, 6], "a base that is a stranger itself begins nothing");
        catalog.refresh(Catalog::new(files), Moment::from_millis(9000));
        assert!(apart(&catalog).is_empty(), "listed anew");
    }

    #[test]
    fn a_listing_that_is_older_than_what_was_made_since() {
        let mut catalog = Catalog::new([dated(0, 2, 2, 2), dated(0, 3, 3, 3), dated(0, 4, 4, 4), dated(1, 2, 2, 2)]);
        catalog.refresh(Catalog::new([dated(0, 3, 3, 3), dated(9, 1, 3, 3)]), Moment::from_millis(3000));
        let expected = [dated(0, 3, 3, 3), dated(0, 4, 4, 4), dated(9, 1, 3, 3)];
        assert_eq!(catalog, Catalog::new(expected));
    }
}
