//! Which chunks does one transaction load, and which tables may it empty first? Pure.
//!
//! The answer depends on the chunks that are loaded already, and not on the plan of an earlier run: a resume may have other
//! settings and make other units. A unit holds only chunks that aren't loaded. It empties a table only while none of the
//! table's chunks is loaded.
//!
//! Usually a transaction loads one chunk. So many connections share a table, and an interruption loses little. Two cases
//! need several chunks in one transaction:
//!
//! - One row spans these chunks.
//! - They are all chunks of a table of middling size. A transaction that empties a table and then loads all of its rows can
//!   freeze them (PostgreSQL's `COPY … FREEZE`). VACUUM needn't rewrite frozen rows later, and a server with
//!   `wal_level = minimal` writes no WAL for them. An engine without frozen rows says that no table is fresh.

use std::collections::{BTreeMap, BTreeSet};

use crate::Index;

/// The largest table that is loaded in one transaction, in bytes of rows.
const LARGEST: u64 = 1 << 30;

/// The smallest table that is frozen, in bytes of rows: emptying a table costs more than it saves for a smaller one.
const SMALLEST: u64 = 256 << 10;

/// The chunks that one transaction loads, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Their numbers.
    pub chunks: Vec<u32>,
    /// Items whose rows are all in these chunks, and whose tables hold no rows yet. The transaction may empty such a table
    /// first, because no other transaction fills it.
    pub frozen: Vec<u32>,
}

/// An item's rows, over all chunks.
#[derive(Default)]
struct Rows {
    raw: u64,
    chunks: Vec<u32>,
    /// Whether one of its chunks also holds rows of another item.
    shared: bool,
    /// Whether some of its chunks are loaded already.
    begun: bool,
}

/// The units that `jobs` connections still have to load, in the order of the chunks. `wanted` says which items are loaded,
/// `fresh` which of them are tables that this restore made, and `done` which chunks are loaded already.
pub fn units(index: &Index, wanted: &[bool], fresh: &[bool], done: &BTreeSet<u32>, jobs: usize) -> Vec<Unit> {
    let is = |list: &[bool], item: u32| list.get(item as usize).copied().unwrap_or(false);
    let mut items: BTreeMap<u32, Rows> = BTreeMap::new();
    for (number, chunk) in (0..).zip(&index.chunks) {
        let shared = chunk.frames.windows(2).any(|pair| pair[0].item != pair[1].item);
        for frame in chunk.frames.iter().filter(|frame| is(wanted, frame.item)) {
            let rows = items.entry(frame.item).or_default();
            if done.contains(&number) {
                rows.begun = true;
                continue;
            }
            rows.raw += frame.raw;
            rows.shared |= shared;
            if rows.chunks.last() != Some(&number) {
                rows.chunks.push(number);
            }
        }
    }
    let total: u64 = items.values().map(|rows| rows.raw).sum();
    // Small enough that all connections still end at about the same time.
    let most = (total / (4 * jobs.max(1) as u64)).min(LARGEST);
    let continuations = index.continuations();
    let mut units = Vec::new();
    for (number, chunk) in (0..).zip(&index.chunks).filter(|(number, _)| !done.contains(number)) {
        let Some(first) = chunk.frames.iter().find(|frame| is(wanted, frame.item)) else { continue };
        let whole =
            |item: u32| items.get(&item).is_some_and(|rows| is(fresh, item) && !rows.begun && rows.raw >= SMALLEST);
        let of_a_table = items.get(&first.item).filter(|rows| !rows.shared && rows.raw <= most && whole(first.item));
        let chunks = match of_a_table {
            Some(rows) if rows.chunks.first() != Some(&number) => continue,
            Some(rows) => rows.chunks.clone(),
            None if chunk.continues.is_some_and(|before| !done.contains(&before))
                && chunk.frames.first().is_some_and(|frame| is(wanted, frame.item)) =>
            {
                continue;
            }
            None => {
                let goes_on = |number: &u32| index.chunks.get(*number as usize)?.frames.last();
                let next = |number: &u32| {
                    let goes_on = goes_on(number).is_some_and(|frame| is(wanted, frame.item));
                    continuations.get(number).copied().filter(|next| goes_on && !done.contains(next))
                };
                std::iter::successors(Some(number), next).collect()
            }
        };
        let inside = |rows: &Rows| rows.chunks.iter().all(|number| chunks.contains(number));
        // Consecutive frames of an item are one COPY. It empties the table first, so the table may have only one COPY.
        let mut copies: Vec<u32> = chunks
            .iter()
            .filter_map(|number| index.chunks.get(*number as usize))
            .flat_map(|chunk| chunk.frames.iter().map(|frame| frame.item))
            .collect();
        copies.dedup();
        let once = |item: &u32| copies.iter().filter(|other| *other == item).count() == 1;
        let mut frozen: Vec<u32> = chunk.frames.iter().map(|frame| frame.item).collect();
        frozen.dedup();
        frozen.retain(|item| once(item) && whole(*item) && items.get(item).is_some_and(inside));
        units.push(Unit { chunks, frozen });
    }
    units
}

#[cfg(test)]
mod tests {
    use crate::{Chunk, Digest, Frame, SetId};
    use seawall_core::Moment;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A chunk: the items and bytes of its frames, and the chunk that it goes on with.
    type Facts<'a> = (&'a [(u32, u64)], Option<u32>);

    fn index(chunks: &[Facts<'_>]) -> Index {
        let frame = |(item, raw): &(u32, u64)| Frame { item: *item, rows: 1, raw: *raw, stored: 1 };
        let chunk = |(frames, continues): &Facts<'_>| Chunk {
            blake3: Digest::of(b""),
            frames: frames.iter().map(frame).collect(),
            continues: *continues,
        };
        let id = SetId::new(Moment::from_millis(0), 0);
        Index { id, items: Vec::new(), chunks: chunks.iter().map(chunk).collect() }
    }

    fn shown(index: &Index, fresh: bool, jobs: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
        shown_after(index, fresh, &[], jobs)
    }

    fn shown_after(index: &Index, fresh: bool, done: &[u32], jobs: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
        let done = done.iter().copied().collect();
        let units = units(index, &[false, true, true, true], &[fresh; 4], &done, jobs);
        units.into_iter().map(|unit| (unit.chunks, unit.frozen)).collect()
    }

    #[test]
    fn a_large_table_is_loaded_by_the_chunk() {
        let large = index(&[(&[(0, 9)], None), (&[(1, 6 * MIB)], None), (&[(1, 6 * MIB)], None)]);
        assert_eq!(shown(&large, true, 2), [(vec![1], vec![]), (vec![2], vec![])]);
    }

    #[test]
    fn a_table_of_middling_size_is_loaded_at_once_and_frozen() {
        let chunks: [Facts<'_>; 4] =
            [(&[(1, MIB)], None), (&[(2, 90 * MIB)], None), (&[(1, MIB)], None), (&[(2, 9)], None)];
        let middling = index(&chunks);
        assert_eq!(shown(&middling, true, 2), [(vec![0, 2], vec![1]), (vec![1], vec![]), (vec![3], vec![])]);
        let there_already: Vec<_> = (0..4).map(|number| (vec![number], vec![])).collect();
        assert_eq!(shown(&middling, false, 2), there_already);
    }

    #[test]
    fn what_shares_a_chunk_is_frozen_if_it_is_all_there_and_worth_it() {
        let shared = index(&[(&[(1, MIB), (2, 100), (3, MIB)], None), (&[(3, 90 * MIB)], None)]);
        assert_eq!(shown(&shared, true, 1), [(vec![0], vec![1]), (vec![1], vec![])]);
    }

    #[test]
    fn a_table_whose_rows_come_in_two_copies_is_not_emptied_between_them() {
        let parted = index(&[(&[(1, MIB), (2, MIB), (1, MIB)], None), (&[(3, MIB), (0, 9), (3, MIB)], None)]);
        assert_eq!(shown(&parted, true, 1), [(vec![0], vec![2]), (vec![1], vec![])]);
    }

    #[test]
    fn chunks_of_one_row_stay_together() {
        let row = index(&[
            (&[(1, 6 * MIB)], None),
            (&[(2, 6 * MIB)], None),
            (&[(1, 6 * MIB)], Some(0)),
            (&[(1, 6 * MIB)], Some(2)),
        ]);
        assert_eq!(shown(&row, true, 8), [(vec![0, 2, 3], vec![1]), (vec![1], vec![2])]);
        assert_eq!(shown(&row, false, 8), [(vec![0, 2, 3], vec![]), (vec![1], vec![])]);
        // What isn't wanted holds nothing together.
        let ended = index(&[(&[(1, 9), (0, 6 * MIB)], None), (&[(0, 9), (2, 9)], Some(0))]);
        assert_eq!(shown(&ended, true, 1), [(vec![0], vec![]), (vec![1], vec![])]);
    }

    #[test]
    fn what_is_loaded_already_is_in_no_unit_and_its_table_is_never_emptied() {
        let chunks: [Facts<'_>; 4] =
            [(&[(1, MIB)], None), (&[(1, MIB)], None), (&[(2, 90 * MIB)], None), (&[(1, MIB), (3, MIB)], None)];
        let index = index(&chunks);
        // Of three chunks of a table one is loaded, by eight connections; now there is one.
        assert_eq!(shown_after(&index, true, &[1], 1), [(vec![0], vec![]), (vec![2], vec![2]), (vec![3], vec![3])]);
        assert_eq!(shown_after(&index, true, &[0, 1, 2, 3], 8), []);
    }

    fn frames_of(frames: &[Vec<(u32, u64)>], chunk: u32) -> impl Iterator<Item = u32> {
        frames[chunk as usize].iter().map(|(item, _)| *item)
    }

    #[test]
    fn every_wanted_chunk_is_in_one_unit_whatever_the_settings_of_each_run() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let count = random.u32(1..20);
            let frames: Vec<Vec<(u32, u64)>> = (0..count)
                .map(|_| (0..random.usize(1..4)).map(|_| (random.u32(0..4), random.u64(1..4 * MIB))).collect())
                .collect();
            let chunks: Vec<Facts<'_>> = frames.iter().map(|frames| (&frames[..], None)).collect();
            let index = index(&chunks);
            // Each run has other settings, and is interrupted behind some of its units.
            let (mut all, mut emptied) = (Vec::new(), BTreeSet::new());
            for run in 0..4 {
                let units = shown_after(&index, random.bool(), &all, random.usize(1..9));
                let some = if run == 3 { units.len() } else { random.usize(0..=units.len()) };
                for (chunks, frozen) in units.into_iter().take(some) {
                    for item in &frozen {
                        let holds = |chunk: &u32| frames_of(&frames, *chunk).any(|other| other == *item);
                        assert!(!all.iter().any(holds), "{item} is emptied, and has rows");
                        assert!(emptied.insert(*item), "{item} is emptied twice");
                    }
                    all.extend(chunks);
                }
            }
            all.sort_unstable();
            let is_wanted = |number: &u32| frames_of(&frames, *number).any(|item| item > 0);
            assert_eq!(all, (0..count).filter(is_wanted).collect::<Vec<_>>());
        }
    }
}
