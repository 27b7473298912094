//! Which pieces of a snapshot are merged already?
//!
//! A piece is known if it holds the same entries as a piece of the last merged snapshot of any instance, or as a piece
//! of the last snapshot that this process took. Merging an entry once more changes nothing, with one exception: in a
//! native schema, an application whose clock is behind may have replaced the entry by an older one. So pieces that were
//! merged from others count no more where this environment changed since. This knowledge ends with the process; a new
//! process begins by reading everything.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use crate::capture::shape::Content;
use crate::peers::transfer::Part;
use crate::schema::flags::Flags;
use crate::schema::order::compare;
use crate::snapshot::encode::put_database;
use crate::snapshot::index::{Index, Section, Span};

/// The indexes of the last snapshots.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Of this environment.
    own: Option<Index>,
    /// Of the other instances, without the pieces that count no more.
    merged: BTreeMap<String, Index>,
}

impl Known {
    /// Records that a snapshot was merged.
    pub(crate) fn merged(&mut self, instance: &str, index: Index) {
        self.merged.insert(instance.to_owned(), index);
    }

    /// Records what this environment holds now.
    pub(crate) fn taken(&mut self, index: Index) {
        match &self.own {
            // It is unknown what changed since the snapshots of others were merged.
            None => self.merged.clear(),
            Some(before) => {
                for merged in self.merged.values_mut() {
                    forget(merged, before, &index);
                }
            }
        }
        self.own = Some(index);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The parts of a snapshot that have to be read: its unknown pieces, as a snapshot of their own. `None` means all
    /// of it, if little could be left out.
    pub(crate) fn needed(&self, index: &Index) -> Option<Vec<Part>> {
        let all = self.own.iter().chain(self.merged.values()).flat_map(|index| &index.sections);
        let known: HashSet<(&[u8], Content)> =
            all.flat_map(|s| s.pieces.iter().map(|piece| (s.name.as_slice(), piece.content))).collect();
        let is_new = |section: &Section, piece: &Span| !known.contains(&(section.name.as_slice(), piece.content));
        let (mut parts, mut heads) = (Vec::new(), index.preamble.clone());
        let (mut left, mut total) = (0, 0);
        for section in &index.sections {
            let new: Vec<_> = section.pieces.iter().filter(|piece| is_new(section, piece)).collect();
            left += new.iter().map(|piece| piece.length).sum::<u64>();
            total += section.pieces.iter().map(|piece| piece.length).sum::<u64>();
            let raw = new.iter().fold(0_u64, |raw, piece| raw.saturating_add(piece.raw));
            put_database(&section.name, section.flags.bits(), &section.transform, raw, &mut heads);
            if !new.is_empty() {
                parts.push(Part::Raw(std::mem::take(&mut heads)));
            }
            for piece in new {
                let end = piece.at.saturating_add(piece.length);
                match parts.last_mut() {
                    Some(Part::Range(range)) if range.end == piece.at => range.end = end,
                    _ => parts.push(Part::Range(piece.at..end)),
                }
            }
        }
        if !heads.is_empty() {
            parts.push(Part::Raw(heads));
        }
        (left <= total / 4 * 3 && total > 0).then_some(parts)
    }
}

/// Takes the pieces out of `merged` whose keys may have changed between `before` and `now`.
fn forget(merged: &mut Index, before: &Index, now: &Index) {
    for section in &mut merged.sections {
        let of = |index: &Index| index.sections.iter().position(|found| found.name == section.name);
        let (before, now) =
            (of(before).and_then(|at| before.sections.get(at)), of(now).and_then(|at| now.sections.get(at)));
        let (Some(before), Some(now)) = (before, now) else {
            section.pieces.clear();
            continue;
        };
        let same: HashSet<_> = stretches(before).collect();
        let changed: Vec<_> = stretches(now).filter(|stretch| !same.contains(stretch)).collect();
        if changed.is_empty() {
            continue;
        }
        if section.flags.contains(Flags::REVERSE_KEY) {
            // A shadow has another order than its DBI, and the index doesn't tell which of the two was cut.
            section.pieces.clear();
            continue;
        }
        let untouched: Vec<bool> = stretches(section)
            .map(|piece| !changed.iter().any(|other| overlap(section.flags, &piece, other)))
            .collect();
        let mut untouched = untouched.into_iter();
        section.pieces.retain(|_| untouched.next().unwrap_or_default());
    }
}

/// The key range of a piece: from its first key up to the first key of the next piece. `None` is an end of the DBI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stretch<'a> {
    from: Option<&'a [u8]>,
    to: Option<&'a [u8]>,
    content: Content,
}

/// The pieces of a DBI with the gaps between them; one stretch without content where there are none.
fn stretches(section: &Section) -> impl Iterator<Item = Stretch<'_>> {
    let first = |at: usize| section.pieces.get(at).map(|piece| piece.first.as_slice());
    let content = |at: usize| section.pieces.get(at).map_or(Content::default(), |piece| piece.content);
    let count = section.pieces.len().max(1);
    (0..count).map(move |at| Stretch { from: first(at).filter(|_| at > 0), to: first(at + 1), content: content(at) })
}

fn overlap(flags: Flags, a: &Stretch<'_>, b: &Stretch<'_>) -> bool {
    let order = flags.and(Flags::INTEGER_KEY);
    let before = |end: Option<&[u8]>, begin: Option<&[u8]>| match (end, begin) {
        (Some(end), Some(begin)) => compare(order, end, begin) != Ordering::Greater,
        _ => false,
    };
    !before(a.to, b.from) && !before(b.to, a.from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::index::tests::index;

    /// The contents of the pieces that would be read, each 10 bytes long from 100 on.
    fn read(known: &Known, index: &Index) -> Option<Vec<u8>> {
        let parts = known.needed(index)?;
        let within = |at: u64| parts.iter().any(|part| matches!(part, Part::Range(range) if range.contains(&at)));
        let pieces = index.sections.iter().flat_map(|section| &section.pieces);
        Some(pieces.filter(|piece| within(piece.at)).map(|piece| piece.content[0]).collect())
    }

    const A: &[(&str, u8)] = &[("b", 1), ("d", 2), ("f", 3), ("h", 4)];

    #[test]
    fn what_was_merged_is_not_read_again() {
        let mut known = Known::default();
        assert_eq!(known.needed(&index(&[("x", A)])), None, "nothing is known");
        known.merged("a", index(&[("x", A)]));
        assert_eq!(read(&known, &index(&[("x", A)])), Some(vec![]));
        assert_eq!(read(&known, &index(&[("x", &[("b", 1), ("d", 9), ("f", 3), ("h", 4)])])), Some(vec![9]));
        assert_eq!(read(&known, &index(&[("x", &[("a", 8), ("b", 7), ("c", 6), ("h", 4)])])), Some(vec![8, 7, 6]));
        assert_eq!(read(&known, &index(&[("x", &[("a", 8), ("b", 7), ("c", 6), ("h", 5)])])), None, "all is new");
        assert_eq!(known.needed(&index(&[("y", A)])), None, "the same in another DBI");
        known.merged("b", index(&[("x", &[("d", 9)])]));
        assert_eq!(read(&known, &index(&[("x", &[("b", 1), ("d", 9), ("f", 3), ("h", 5)])])), Some(vec![5]));
        known.merged("b", index(&[("x", &[("d", 8)])]));
        assert_eq!(read(&known, &index(&[("x", &[("b", 1), ("d", 9), ("f", 3), ("h", 4)])])), Some(vec![9]));
    }

    #[test]
    fn what_is_read_is_a_snapshot_of_its_own() {
        let mut known = Known::default();
        known.merged("a", index(&[("x", A), ("y", A)]));
        let new = index(&[("x", &[("b", 1), ("d", 8), ("f", 9), ("h", 4)]), ("y", A), ("z", &[])]);
        let mut first = b"preamble".to_vec();
        put_database(b"x", 0, "", 80, &mut first);
        let mut rest = Vec::new();
        put_database(b"y", 0, "", 0, &mut rest);
        put_database(b"z", 0, "", 0, &mut rest);
        let wanted = vec![Part::Raw(first), Part::Range(110..130), Part::Raw(rest)];
        assert_eq!(known.needed(&new), Some(wanted), "neighbours in one range, and DBIs without anything new");
    }

    #[test]
    fn where_this_environment_changed_the_others_count_no_more() {
        let own: &[(&str, u8)] = &[("b", 11), ("e", 12), ("g", 13)];
        for (now, left) in [
            (own, &[1, 2, 3, 4][..]),
            (&[("b", 11), ("e", 99), ("g", 13)], &[1, 4]),
            (&[("b", 99), ("e", 12), ("g", 13)], &[3, 4]),
            (&[("a", 11), ("e", 12), ("g", 13)], &[1, 2, 3, 4]),
            (&[("b", 11), ("e", 12), ("g", 99)], &[1, 2]),
            (&[("b", 11), ("e", 12)], &[1]),
            (&[("b", 11), ("g", 13)], &[4]),
            (&[], &[]),
        ] {
            let mut known = Known::default();
            known.taken(index(&[("x", own)]));
            known.merged("a", index(&[("x", A)]));
            known.taken(index(&[("x", now)]));
            let kept: Vec<u8> = known.merged["a"].sections[0].pieces.iter().map(|piece| piece.content[0]).collect();
            assert_eq!(kept, left, "{now:?}");
        }
        let mut known = Known::default();
        known.merged("a", index(&[("x", A)]));
        known.taken(index(&[("x", own)]));
        assert!(known.merged.is_empty(), "nothing to compare with");
        assert_eq!(read(&known, &index(&[("x", own)])), Some(vec![]), "what is here already");
        known.merged("a", index(&[("x", A)]));
        known.taken(index(&[]));
        assert!(known.merged["a"].sections[0].pieces.is_empty(), "the DBI is gone");
    }
}
