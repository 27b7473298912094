//! Into which pieces is a DBI cut, and which of them are the same as last time?
//!
//! A piece is a run of entries that becomes one gzip member. It is cut where the last snapshot had cut, so that a change
//! makes one piece new and leaves the others as they are. That a piece is unchanged follows from its entries: as many,
//! as long, with the same times, and none written after the last snapshot was read.

use crate::header::Stored;

/// Bytes of entries at which a piece is full.
pub(crate) const FULL: u64 = 1 << 20;

/// A run of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its first key.
    pub(crate) first: Vec<u8>,
    /// What it adds up to.
    pub(crate) sum: Sum,
    /// Where it is in the last snapshot, compressed, if it is unchanged; else to be made.
    pub(crate) kept: Option<Place>,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) length: u64,
}

/// What the entries of a piece add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum {
    /// How many.
    pub(crate) entries: u64,
    /// Bytes in the snapshot.
    pub(crate) bytes: u64,
    /// Their times and transactions, mixed.
    pub(crate) mixed: u64,
}

impl Sum {
    /// Adds an entry that takes `bytes`.
    pub(crate) fn add(&mut self, stored: &Stored<'_>, bytes: u64) {
        self.entries += 1;
        self.bytes += bytes;
        let version = stored.stamp.0 ^ stored.transaction.rotate_left(32) ^ u64::from(stored.deleted);
        // Spread first: times of neighbours differ in a few bits, and sums of those could be equal.
        let spread = (version ^ bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.mixed = self.mixed.wrapping_add(spread ^ spread >> 29);
    }
}

/// Cuts a DBI while its entries go by.
pub(crate) struct Cutter<'b> {
    before: &'b [(Piece, Place)],
    /// The pieces so far.
    pieces: Vec<Piece>,
    /// The one that is being filled, and whether it began where one of last time did.
    open: Option<(Piece, Option<usize>)>,
    /// The next piece of last time that hasn't begun.
    next: usize,
}

impl<'b> Cutter<'b> {
    /// Cuts where `before` was cut.
    pub(crate) fn new(before: &'b [(Piece, Place)]) -> Self {
        Self { before, pieces: Vec::new(), open: None, next: 0 }
    }

    /// Takes the next entry. `reached` tells whether the DBI's order has `key` at or behind another key.
    pub(crate) fn take(&mut self, key: &[u8], stored: &Stored<'_>, bytes: u64, reached: impl Fn(&[u8]) -> bool) {
        let mut begun = None;
        while let Some((piece, _)) = self.before.get(self.next)
            && reached(&piece.first)
        {
            begun = Some(self.next);
            self.next += 1;
        }
        // Inside of a piece of last time there is room for what was added; a new one is cut when it is full.
        let full = match &self.open {
            Some((piece, Some(_))) => piece.sum.bytes >= 2 * FULL,
            Some((piece, None)) => piece.sum.bytes >= FULL,
            None => true,
        };
        if begun.is_some() || full {
            self.close();
            let same = begun.filter(|at| self.before.get(*at).is_some_and(|(piece, _)| piece.first == key));
            self.open = Some((Piece { first: key.to_vec(), sum: Sum::default(), kept: None }, same));
        }
        if let Some((piece, _)) = &mut self.open {
            piece.sum.add(stored, bytes);
        }
    }

    fn close(&mut self) {
        let Some((mut piece, same)) = self.open.take() else { return };
        let before = same.and_then(|at| self.before.get(at));
        piece.kept = before.filter(|(before, _)| before.sum == piece.sum).map(|(_, place)| *place);
        self.pieces.push(piece);
    }

    /// All pieces.
    pub(crate) fn finish(mut self) -> Vec<Piece> {
        self.close();
        self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;

    const ENTRY: u64 = FULL / 4;

    /// Keys with their times.
    type Keys = Vec<(u32, u64)>;

    fn cut(keys: &[(u32, u64)], before: &[(Piece, Place)]) -> Vec<Piece> {
        let mut cutter = Cutter::new(before);
        for (key, stamp) in keys {
            let key = key.to_be_bytes();
            let stored = Stored { stamp: Stamp(*stamp), transaction: 1, deleted: false, value: b"" };
            cutter.take(&key, &stored, ENTRY, |other| key.as_slice() >= other);
        }
        cutter.finish()
    }

    fn kept(pieces: &[Piece]) -> Vec<bool> {
        pieces.iter().map(|piece| piece.kept.is_some()).collect()
    }

    fn placed(pieces: Vec<Piece>) -> Vec<(Piece, Place)> {
        pieces.into_iter().enumerate().map(|(at, piece)| (piece, Place { at: at as u64, length: 1 })).collect()
    }

    #[test]
    fn a_change_makes_one_piece_new() {
        let keys: Keys = (0..16).map(|n| (n * 10, 7)).collect();
        let first = cut(&keys, &[]);
        assert_eq!(first.iter().map(|piece| piece.sum.entries).collect::<Vec<_>>(), [4, 4, 4, 4]);
        let before = placed(first);
        assert_eq!(kept(&cut(&keys, &before)), [true; 4]);

        let with = |change: &dyn Fn(&mut Keys)| {
            let mut keys = keys.clone();
            change(&mut keys);
            let pieces = cut(&keys, &before);
            assert_eq!(pieces.iter().map(|piece| piece.sum.entries).sum::<u64>(), keys.len() as u64);
            kept(&pieces)
        };
        assert_eq!(with(&|keys| keys[5].1 = 8), [true, false, true, true], "changed");
        assert_eq!(with(&|keys| keys.insert(6, (55, 7))), [true, false, true, true], "added");
        assert_eq!(with(&|keys| keys.retain(|key| key.0 != 50)), [true, false, true, true], "removed");
        assert_eq!(
            with(&|keys| keys.retain(|key| key.0 != 40)),
            [true, false, true, true],
            "the first of a piece removed"
        );
        assert_eq!(with(&|keys| drop(keys.drain(4..8))), [true, true, true], "a whole piece removed");
        assert_eq!(with(&|keys| drop(keys.drain(3..9))), [false, false, true], "across pieces");
        assert_eq!(with(&|keys| keys.push((900, 7))), [true, true, true, false], "behind the end");
        assert_eq!(with(&|keys| keys.insert(0, (0, 7))), [false, true, true, true], "the same key first");
        let many = |keys: &mut Keys| (0..9).for_each(|n| keys.insert(6, (59 - n, 7)));
        assert_eq!(with(&many), [true, false, false, false, true, true], "so many that the piece is cut");
    }
}
