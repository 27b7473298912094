//! Is all loaded? Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Frame, Index};

/// An item that isn't loaded whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The item, by its place in the index.
    pub item: u32,
    /// Rows that are noted as loaded.
    pub loaded: u64,
    /// Rows that the set has.
    pub expected: u64,
}

/// The first item that is `wanted`, and of which a chunk isn't noted, or more or fewer rows than the set has. `chunks` are the
/// chunks that are noted as loaded; `rows` says how many rows are noted of each item.
pub fn lacking(index: &Index, wanted: &[bool], chunks: &BTreeSet<u32>, rows: &BTreeMap<u32, u64>) -> Option<Lacking> {
    let mut expected = BTreeMap::new();
    let mut open = BTreeSet::new();
    for (number, chunk) in (0..).zip(&index.chunks) {
        let is_wanted = |frame: &&Frame| wanted.get(frame.item as usize).copied().unwrap_or(false);
        for frame in chunk.frames.iter().filter(is_wanted) {
            *expected.entry(frame.item).or_insert(0) += frame.rows;
            if !chunks.contains(&number) {
                open.insert(frame.item);
            }
        }
    }
    expected.into_iter().find_map(|(item, expected)| {
        let loaded = rows.get(&item).copied().unwrap_or_default();
        (open.contains(&item) || loaded != expected).then_some(Lacking { item, loaded, expected })
    })
}

#[cfg(test)]
mod tests {
    use seawall_core::Moment;

    use super::*;
    use crate::{Chunk, Digest, SetId};

    #[test]
    fn a_chunk_that_is_not_noted_and_rows_that_are_missing_are_found() {
        let chunk = |items: &[(u32, u64)]| Chunk {
            blake3: Digest::of(b""),
            frames: items.iter().map(|(item, rows)| Frame { item: *item, rows: *rows, raw: 1, stored: 1 }).collect(),
            continues: None,
        };
        let chunks = vec![chunk(&[(1, 10), (2, 5)]), chunk(&[(1, 7)]), chunk(&[(0, 3)])];
        let index = Index { id: SetId::new(Moment::from_millis(0), 0), items: Vec::new(), chunks };
        let wanted = [false, true, true];
        let find = |chunks: &[u32], rows: &[(u32, u64)]| {
            let (chunks, rows) = (chunks.iter().copied().collect(), rows.iter().copied().collect());
            lacking(&index, &wanted, &chunks, &rows).map(|found| (found.item, found.loaded, found.expected))
        };
        assert_eq!(find(&[0, 1], &[(1, 17), (2, 5)]), None, "what isn't wanted isn't missed");
        assert_eq!(find(&[0], &[(1, 10), (2, 5)]), Some((1, 10, 17)));
        assert_eq!(find(&[0, 1], &[(1, 17), (2, 4)]), Some((2, 4, 5)));
        assert_eq!(find(&[0, 1], &[(1, 27), (2, 5)]), Some((1, 27, 17)));
        assert_eq!(find(&[1], &[(1, 17), (2, 5)]), Some((1, 17, 17)), "a note is missing, whatever the sums say");
    }
}
