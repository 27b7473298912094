//! The set of the chosen rows of a table: their places (`ctid`), in about two bytes each. Pure.
//!
//! Places of neighbouring pages share a group, which stores only the lower sixteen bits of each. A new place waits
//! until the rows that its row refers to were looked up. Then it is settled.

use std::collections::BTreeMap;

/// The memory of a group beside its places: its entry in the map, and its own allocation.
const GROUP: usize = 64;

/// A row's place: the page, and the number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowAddress {
    pub(crate) page: u32,
    pub(crate) number: u16,
}

impl RowAddress {
    /// As the server writes it: `(17,4)`.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let inner = std::str::from_utf8(text).ok()?.strip_prefix('(')?.strip_suffix(')')?;
        let (page, number) = inner.split_once(',')?;
        Some(Self { page: page.parse().ok()?, number: number.parse().ok()? })
    }
}

/// Neighbouring groups, the last one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// Places by group, each group sorted.
#[derive(Debug, Default)]
struct Places {
    groups: BTreeMap<u32, Vec<u16>>,
    rows: u64,
    /// Its approximate size in memory.
    bytes: usize,
}

fn size(group: &Vec<u16>) -> usize {
    GROUP + group.capacity() * 2
}

impl Places {
    fn has(&self, group: u32, low: u16) -> bool {
        self.groups.get(&group).is_some_and(|places| places.binary_search(&low).is_ok())
    }

    /// Whether it is new.
    fn insert(&mut self, group: u32, low: u16) -> bool {
        let known = self.groups.get(&group).map_or(0, size);
        let places = self.groups.entry(group).or_default();
        let Err(at) = places.binary_search(&low) else { return false };
        places.insert(at, low);
        self.bytes += size(places) - known;
        self.rows += 1;
        true
    }

    /// Adds a group that it doesn't have yet.
    fn merge(&mut self, group: u32, more: Vec<u16>) {
        let known = self.groups.get(&group).map_or(0, size);
        self.rows += more.len() as u64;
        let places = self.groups.entry(group).or_default();
        if places.is_empty() {
            *places = more;
        } else {
            places.extend(more);
            places.sort_unstable();
        }
        self.bytes = self.bytes + size(places) - known;
    }

    fn pop(&mut self) -> Option<(u32, Vec<u16>)> {
        let (group, places) = self.groups.pop_first()?;
        self.rows -= places.len() as u64;
        self.bytes -= size(&places);
        Some((group, places))
    }
}

/// The rows of one table that were taken.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Bits of the number in a page; the rest of sixteen are the page's in its group.
    bits: u32,
    waiting: Places,
    settled: Places,
}

impl Taken {
    /// An empty set, for a server with pages of this many bytes.
    pub(crate) fn new(page_size: u64) -> Self {
        // A row takes 28 bytes at least, so there are fewer than a sixteenth of the bytes.
        let bits = (page_size.max(1 << 10).ilog2() - 4).min(15);
        Self { bits, waiting: Places::default(), settled: Places::default() }
    }

    /// Adds a row. Returns whether it is new; `None` for a place that no row can have.
    pub(crate) fn take(&mut self, place: RowAddress) -> Option<bool> {
        if place.number == 0 || u32::from(place.number) >> self.bits != 0 {
            return None;
        }
        let group = place.page >> (16 - self.bits);
        let low = (place.page << self.bits | u32::from(place.number)) as u16;
        Some(!self.settled.has(group, low) && self.waiting.insert(group, low))
    }

    /// Settles some that wait, groups until there are `most`, and returns them as SQL.
    pub(crate) fn settle(&mut self, most: usize) -> Option<String> {
        let (mut list, mut count) = (List::default(), 0);
        while count < most {
            let Some((group, places)) = self.waiting.pop() else { break };
            count += places.len();
            self.list_group(&mut list, group, &places);
            self.settled.merge(group, places);
        }
        (count > 0).then(|| list.end())
    }

    /// Whether some wait.
    pub(crate) fn waits(&self) -> bool {
        self.waiting.rows > 0
    }

    /// How many there are.
    pub(crate) fn rows(&self) -> u64 {
        self.waiting.rows + self.settled.rows
    }

    /// Their approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.bytes + self.settled.bytes
    }

    /// The settled places in order, in pieces of about `most`.
    pub(crate) fn pieces(&self, most: usize) -> Vec<Groups> {
        let mut pieces: Vec<(Groups, usize)> = Vec::new();
        for (group, places) in &self.settled.groups {
            match pieces.last_mut() {
                Some((groups, count)) if *count < most => {
                    groups.last = *group;
                    *count += places.len();
                }
                _ => pieces.push((Groups { first: *group, last: *group }, places.len())),
            }
        }
        pieces.into_iter().map(|(groups, _)| groups).collect()
    }

    /// The settled places of some groups, as SQL.
    pub(crate) fn list(&self, groups: Groups) -> String {
        let mut list = List::default();
        for (group, places) in self.settled.groups.range(groups.first..=groups.last) {
            self.list_group(&mut list, *group, places);
        }
        list.end()
    }

    fn list_group(&self, list: &mut List, group: u32, places: &[u16]) {
        let mask = (1_u32 << self.bits) - 1;
        for low in places {
            let low = u32::from(*low);
            list.add((group << (16 - self.bits)) + (low >> self.bits), low & mask);
        }
    }
}

/// An array of places as SQL.
#[derive(Default)]
struct List(String);

impl List {
    fn add(&mut self, page: u32, number: u32) {
        use std::fmt::Write as _;
        let comma = if self.0.is_empty() { "'{" } else { "," };
        // Writing into memory can't fail.
        let _ = write!(self.0, "{comma}\"({page},{number})\"");
    }

    fn end(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "'{}'" } else { "}'" });
        self.0.push_str("::pg_catalog.tid[]");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn place(page: u32, number: u16) -> RowAddress {
        RowAddress { page, number }
    }

    /// The places in a list of SQL.
    fn read(list: &str) -> Vec<(u32, u16)> {
        let inner = list.strip_prefix("'{").and_then(|list| list.strip_suffix("}'::pg_catalog.tid[]")).expect(list);
        let parse = |text: &str| RowAddress::parse(text.as_bytes()).expect(text);
        let texts = inner.split('"').filter(|text| text.starts_with('('));
        texts.map(parse).map(|place| (place.page, place.number)).collect()
    }

    #[test]
    fn places_as_the_server_writes_them() {
        for (text, found) in [
            ("(0,1)", Some((0, 1))),
            ("(4294967295,65535)", Some((u32::MAX, 65535))),
            ("(4294967296,1)", None),
            ("(1,65536)", None),
            ("(1)", None),
            ("1,2", None),
            ("(-1,2)", None),
            ("(1,2)\t", None),
            ("", None),
        ] {
            assert_eq!(RowAddress::parse(text.as_bytes()).map(|place| (place.page, place.number)), found, "{text}");
        }
    }

    #[test]
    fn a_row_is_taken_once_whether_it_waits_or_is_settled() {
        let mut taken = Taken::new(8192);
        assert_eq!([taken.take(place(7, 1)), taken.take(place(7, 1))], [Some(true), Some(false)]);
        assert_eq!(taken.settle(10).map(|list| read(&list)), Some(vec![(7, 1)]));
        assert_eq!((taken.take(place(7, 1)), taken.waits(), taken.settle(10)), (Some(false), false, None));
        assert_eq!((taken.take(place(7, 2)), taken.waits(), taken.rows()), (Some(true), true, 2));
        taken.settle(10);
        let all = Groups { first: 0, last: u32::MAX };
        assert_eq!(read(&taken.list(all)), [(7, 1), (7, 2)]);
    }

    #[test]
    fn a_place_that_no_row_has_is_noticed() {
        for (page_size, largest) in [(1024, 63), (8192, 511), (32_768, 2047)] {
            let mut taken = Taken::new(page_size);
            assert_eq!(taken.take(place(0, 0)), None);
            assert_eq!(taken.take(place(u32::MAX, largest)), Some(true));
            assert_eq!(taken.take(place(0, largest + 1)), None);
            assert_eq!(taken.settle(1).map(|list| read(&list)), Some(vec![(u32::MAX, largest)]));
        }
    }

    #[test]
    fn what_comes_out_is_what_was_taken_in_order_and_in_pieces() {
        let mut random = fastrand::Rng::with_seed(3);
        for page_size in [8192, 32_768] {
            let (mut taken, mut model) = (Taken::new(page_size), BTreeSet::new());
            for _ in 0..20_000 {
                let (page, number) = (random.u32(0..3000), random.u16(1..30));
                assert_eq!(taken.take(place(page, number)), Some(model.insert((page, number))));
                if random.u32(0..100) == 0 {
                    taken.settle(random.usize(1..500));
                }
            }
            while taken.settle(777).is_some() {}
            assert_eq!(taken.rows(), model.len() as u64);
            let pieces: Vec<Vec<(u32, u16)>> =
                taken.pieces(1000).into_iter().map(|groups| read(&taken.list(groups))).collect();
            assert!(pieces.len() > 5 && pieces.iter().all(|piece| piece.len() < 1000 + 128 * 30), "{}", pieces.len());
            assert_eq!(pieces.concat(), model.into_iter().collect::<Vec<_>>());
        }
    }

    /// Every hundredth row of a table with a hundred rows on each page, which is how a sample looks.
    #[test]
    fn a_row_takes_about_four_bytes_and_nothing_is_miscounted() {
        let mut taken = Taken::new(8192);
        for page in 0..500_000 {
            taken.take(place(page, 1 + (page.wrapping_mul(2_654_435_761) >> 16) as u16 % 100));
        }
        let each = taken.bytes() as f64 / taken.rows() as f64;
        assert!(each < 4.0, "{each}");
        while taken.settle(10_000).is_some() {}
        let counted: usize = taken.settled.groups.values().map(size).sum();
        assert_eq!((taken.bytes(), taken.waiting.bytes), (counted, 0));
    }
}
