//! Where is the newest version of each page?
//!
//! Pure: from the page indexes of a chain to one list, in the order of the pages. The rule is that of a restore: the newest
//! object that has a page decides, and a page beyond the end of any newer state was cut off in between.

use seawall_ltx::{IndexEntry, PageNo};

/// Bits of the size of a frame, which is at most 65.8 KB. The other bits are the offset.
const SIZE_BITS: u32 = 20;

/// The newest version of a page. 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) page: PageNo,
    /// The number of the object in its snapshot.
    pub(crate) object: u32,
    /// The offset of the frame in the object, and its size.
    packed: u64,
}

impl Place {
    /// Where an index says that a page is; `None` for an offset of 16 TiB and more, which no object has.
    pub(crate) fn new(object: u32, entry: &IndexEntry) -> Option<Self> {
        let fits = entry.offset >> (u64::BITS - SIZE_BITS) == 0 && entry.size >> SIZE_BITS == 0;
        let packed = (entry.offset << SIZE_BITS) | u64::from(entry.size);
        fits.then_some(Self { page: entry.page, object, packed })
    }

    /// The offset of the frame in its object.
    pub(crate) fn offset(&self) -> u64 {
        self.packed >> SIZE_BITS
    }

    /// The bytes of the frame.
    pub(crate) fn size(&self) -> u64 {
        self.packed & ((1 << SIZE_BITS) - 1)
    }

    /// The offset behind the frame.
    pub(crate) fn end(&self) -> u64 {
        self.offset() + self.size()
    }
}

/// Puts the indexes of a chain under each other, the newest first.
///
/// Memory: 16 bytes a page, twice for a moment.
#[derive(Debug)]
pub(crate) struct Stack {
    places: Vec<Place>,
    /// The size in pages of the smallest state so far.
    limit: u32,
}

impl Stack {
    /// Begins below a state of `commit` pages.
    pub(crate) fn new(commit: u32) -> Self {
        Self { places: Vec::new(), limit: commit }
    }

    /// Adds an older object, or everything older: its places in the order of the pages, and the size of its state.
    pub(crate) fn put_below(&mut self, older: &[Place], commit: u32) {
        let newer = std::mem::take(&mut self.places);
        self.places = Vec::with_capacity(newer.len().max(older.len()));
        let mut newer = newer.into_iter().peekable();
        for place in older.iter().take_while(|place| place.page.0 <= self.limit) {
            while let Some(before) = newer.next_if(|newer| newer.page < place.page) {
                self.places.push(before);
            }
            if newer.peek().is_none_or(|newer| newer.page != place.page) {
                self.places.push(*place);
            }
        }
        self.places.extend(newer);
        self.limit = self.limit.min(commit);
    }

    /// The places, in the order of the pages.
    pub(crate) fn finish(mut self) -> Vec<Place> {
        self.places.shrink_to_fit();
        self.places
    }
}

/// Where in a list a page is, or would be.
pub(crate) fn position(places: &[Place], page: PageNo) -> Result<usize, usize> {
    places.binary_search_by_key(&page, |place| place.page)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The place of a page in an object, with an offset and a size.
    pub(crate) fn place(object: u32, page: u32, offset: u64, size: u32) -> Place {
        Place::new(object, &IndexEntry { page: PageNo(page), offset, size }).expect("it fits")
    }

    #[test]
    fn a_place_takes_sixteen_bytes_and_holds_what_an_object_can_have() {
        assert_eq!(size_of::<Place>(), 16);
        let far = place(u32::MAX, u32::MAX, (1 << 44) - 1, (1 << 20) - 1);
        assert_eq!((far.offset(), far.size()), ((1 << 44) - 1, (1 << 20) - 1));
        for (offset, size) in [(1 << 44, 11), (u64::MAX, 11), (100, 1 << 20)] {
            assert_eq!(Place::new(0, &IndexEntry { page: PageNo(1), offset, size }), None);
        }
    }

    /// Random chains, applied oldest first to a map, and newest first to a stack.
    #[test]
    fn a_stack_holds_what_applying_the_chain_leaves() {
        let mut random = fastrand::Rng::with_seed(21);
        for _ in 0..2000 {
            let mut applied: BTreeMap<u32, u32> = BTreeMap::new();
            let mut chain: Vec<(Vec<Place>, u32)> = Vec::new();
            for object in 0..random.u32(1..6) {
                let commit = random.u32(1..12);
                let pages: Vec<u32> = (1..=commit).filter(|_| object == 0 || random.bool()).collect();
                applied.extend(pages.iter().map(|page| (*page, object)));
                applied.retain(|page, _| *page <= commit);
                chain.push((pages.iter().map(|page| place(object, *page, 100, 11)).collect(), commit));
            }
            let mut stack = Stack::new(chain.last().expect("an object").1);
            chain.iter().rev().for_each(|(places, commit)| stack.put_below(places, *commit));
            let found: BTreeMap<u32, u32> = stack.finish().iter().map(|place| (place.page.0, place.object)).collect();
            assert_eq!(found, applied);
        }
    }
}
