//! Which pages come with one request?
//!
//! Pure. A page that is asked for alone brings its neighbours in the same object, because a request takes longer than the
//! bytes of a few pages. If the next miss goes on where the last request ended, a scan is under way, and each request is
//! twice as large as the one before.

use std::ops::Range;

use crate::places::Place;

/// Bytes of an object that are fetched for a page by itself.
pub(crate) const FIRST: u64 = 32 << 10;

/// The most bytes of an object that one request of a scan fetches.
const MOST: u64 = 2 << 20;

/// Bytes between two wanted frames that are fetched and thrown away rather than asked around.
const GAP: u64 = 16 << 10;

/// How many pages a scan may skip, for the pages of other tables between its own.
const SKIP: u32 = 32;

/// Scans that are noticed side by side: a table and its indexes.
const SCANS: usize = 4;

/// Frames of one object that are fetched with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The bytes of the object.
    pub(crate) bytes: Range<u64>,
    /// The positions of the first and behind the last of its places. Between them are places of other objects.
    pub(crate) places: Range<usize>,
    /// The object.
    pub(crate) object: u32,
}

/// The frames that come with the one at position `first`: at most `window` bytes of the object, and at most `pages` pages.
pub(crate) fn batch(places: &[Place], first: usize, window: u64, pages: usize) -> Option<Batch> {
    let begin = places.get(first)?;
    let mut batch = Batch { bytes: begin.offset()..begin.end(), places: first..first + 1, object: begin.object };
    let mut taken = 1;
    // A page of another object costs a look, and no more of them are looked at than pages are fetched.
    for (at, place) in places.iter().enumerate().skip(first + 1).take(pages.saturating_mul(2)) {
        if place.object != begin.object {
            continue;
        }
        let follows = place.offset() >= batch.bytes.end && place.offset() - batch.bytes.end <= GAP;
        if taken >= pages || !follows || place.end() - batch.bytes.start > window {
            break;
        }
        batch.bytes.end = place.end();
        batch.places.end = at + 1;
        taken += 1;
    }
    Some(batch)
}

/// How many bytes the request behind one of so many bytes fetches, in a scan.
pub(crate) fn grown(window: u64) -> u64 {
    (window * 2).min(MOST)
}

/// Where scans are expected to go on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scans([Scan; SCANS]);

#[derive(Debug, Clone, Copy, Default)]
struct Scan {
    /// The page behind the last one that was fetched; 0 for none.
    next: u32,
    window: u64,
    used: u64,
}

impl Scans {
    /// How many bytes to fetch for a page that isn't at hand, and whether a scan asks for it.
    pub(crate) fn window(&mut self, page: u32) -> (u64, bool) {
        let goes_on = |scan: &&mut Scan| scan.next > 0 && (scan.next..=scan.next.saturating_add(SKIP)).contains(&page);
        let newest = self.0.iter().map(|scan| scan.used).max().unwrap_or_default() + 1;
        if let Some(scan) = self.0.iter_mut().find(goes_on) {
            *scan = Scan { next: page, window: grown(scan.window), used: newest };
            return (scan.window, true);
        }
        if let Some(oldest) = self.0.iter_mut().min_by_key(|scan| scan.used) {
            *oldest = Scan { next: page, window: FIRST, used: newest };
        }
        (FIRST, false)
    }

    /// Notes how far the pages reach that were fetched for `page`, or ahead of it.
    pub(crate) fn reached(&mut self, page: u32, next: u32) {
        if let Some(scan) = self.0.iter_mut().find(|scan| scan.next == page) {
            scan.next = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::tests::place;

    fn in_a_row(object: u32, pages: Range<u32>, size: u32) -> Vec<Place> {
        pages.clone().map(|page| place(object, page, 100 + u64::from((page - pages.start) * size), size)).collect()
    }

    #[test]
    fn neighbours_come_with_one_request() {
        let places = in_a_row(0, 1..101, 1000);
        let all = |first, window, pages| batch(&places, first, window, pages).map(|b| (b.bytes, b.places));
        assert_eq!(all(0, 1, 10), Some((100..1100, 0..1)), "a page comes, however small the window");
        assert_eq!(all(10, 5000, 100), Some((10_100..15_100, 10..15)));
        assert_eq!(all(10, 1 << 20, 3), Some((10_100..13_100, 10..13)));
        assert_eq!(all(98, 1 << 20, 100), Some((98_100..100_100, 98..100)));
        assert_eq!(all(100, 1 << 20, 100), None);
    }

    #[test]
    fn pages_of_other_objects_are_passed_over_and_large_gaps_are_not() {
        let mut places = in_a_row(0, 1..11, 1000);
        places[2].object = 7;
        places[3].object = 7;
        let found = batch(&places, 0, 1 << 20, 100).expect("a batch");
        assert_eq!((found.bytes, found.places), (100..10_100, 0..10));
        let other = batch(&places, 2, 1 << 20, 100).expect("a batch");
        assert_eq!((other.bytes, other.places, other.object), (2100..4100, 2..4, 7));
        let apart = [place(0, 1, 100, 50), place(0, 2, 150 + GAP, 50), place(0, 3, 201 + 2 * GAP, 50)];
        assert_eq!(batch(&apart, 0, 1 << 20, 100).map(|b| b.places), Some(0..2));
        // Offsets that go back, as no index has them.
        let back = [place(0, 1, 500, 50), place(0, 2, 100, 50)];
        assert_eq!(batch(&back, 0, 1 << 20, 100).map(|b| b.places), Some(0..1));
    }

    #[test]
    fn scans_get_larger_windows_and_other_reads_do_not() {
        let mut scans = Scans::default();
        let mut read = |page: u32, reaches: u32| {
            let (window, scan) = scans.window(page);
            scans.reached(page, reaches);
            (window, scan)
        };
        assert_eq!(read(10, 20), (FIRST, false));
        assert_eq!(read(20, 40), (2 * FIRST, true));
        // The scan of an index in between, and single pages.
        assert_eq!(read(1000, 1010), (FIRST, false));
        assert_eq!(read(45, 80), (4 * FIRST, true));
        assert_eq!(read(1010, 1030), (2 * FIRST, true));
        assert_eq!(read(7, 8), (FIRST, false));
        assert_eq!(read(5, 6), (FIRST, false));
        let mut window = 0;
        for round in 0..20 {
            window = read(80 + round * 10, 90 + round * 10).0;
        }
        assert_eq!(window, MOST);
        assert_eq!(read(5000, 5001), (FIRST, false));
    }
}
