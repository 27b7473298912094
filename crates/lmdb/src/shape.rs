//! Into which pieces is a DBI cut, and which of them are the same as last time?
//!
//! A piece is a run of entries that becomes one gzip member. Where it is cut follows from the keys alone, so that
//! instances that hold the same data cut it alike, whatever they held before, and a change makes one piece new and
//! leaves the others as they are. That a piece is unchanged since the last snapshot follows from its entries: as many, as
//! long, with the same times, and none written after that snapshot was read.

use crate::header::Stored;

/// The fewest bytes of entries in a piece, but for the last one of a DBI.
const LEAST: u64 = 256 << 10;

/// What comes on top of that until a key is met that begins a piece, on average.
const STRETCH: u64 = 384 << 10;

/// Bytes of entries at which a piece ends in any case.
const MOST: u64 = 2 << 20;

/// What entries are by their content: a digest of their bytes in a snapshot, before compression.
pub(crate) type Content = [u8; 16];

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

/// A piece that was compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where it begins in the file.
    pub(crate) at: u64,
    /// Its bytes there.
    pub(crate) length: u64,
    /// What it holds.
    pub(crate) content: Content,
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
    /// The one that is being filled, and the one of last time that began with the same key.
    open: Option<(Piece, Option<usize>)>,
    /// The next piece of last time that hasn't begun.
    next: usize,
}

impl<'b> Cutter<'b> {
    /// Compares with the pieces of last time.
    pub(crate) fn new(before: &'b [(Piece, Place)]) -> Self {
        Self { before, pieces: Vec::new(), open: None, next: 0 }
    }

    /// Takes the next entry. `reached` tells whether the DBI's order has `key` at or behind another key.
    pub(crate) fn take(&mut self, key: &[u8], stored: &Stored<'_>, bytes: u64, reached: impl Fn(&[u8]) -> bool) {
        let begins = match &self.open {
            Some((piece, _)) => begins(key, bytes, piece.sum.bytes),
            None => true,
        };
        if begins {
            self.close();
            let mut same = None;
            while let Some((piece, _)) = self.before.get(self.next)
                && reached(&piece.first)
            {
                same = (piece.first == key).then_some(self.next);
                self.next += 1;
            }
            self.open = Some((Piece { first: key.to_vec(), sum: Sum::default(), kept: None }, same));
        }
        if let Some((piece, _)) = &mut self.open {
            piece.sum.add(stored, bytes);
        }
    }

    /// Whether the next entry would begin a piece behind another one.
    pub(crate) fn ends_before(&self, key: &[u8], bytes: u64) -> bool {
        self.open.as_ref().is_some_and(|(piece, _)| begins(key, bytes, piece.sum.bytes))
    }

    /// The number of the piece that is being filled, and how many entries it has.
    pub(crate) fn open(&self) -> (usize, u64) {
        (self.pieces.len(), self.open.as_ref().map_or(0, |(piece, _)| piece.sum.entries))
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

/// Whether an entry of `bytes` begins a piece, where the one before it has `filled` bytes.
fn begins(key: &[u8], bytes: u64, filled: u64) -> bool {
    // The longer an entry, the likelier: pieces of large values aren't longer than those of small ones.
    filled >= MOST || filled >= LEAST && mark(key) < (u64::MAX / STRETCH).saturating_mul(bytes)
}

/// A number that a key always has, evenly spread.
fn mark(key: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |mark: u64, word: u64| (mark ^ word).wrapping_mul(ODD).rotate_left(29);
    let (words, rest) = key.as_chunks::<8>();
    let mark = words.iter().fold(key.len() as u64, |mark, word| mix(mark, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte));
    let mark = mix(mix(mark, last), ODD);
    mark ^ mark >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;

    const ENTRY: u64 = 16 << 10;

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

    fn placed(pieces: Vec<Piece>) -> Vec<(Piece, Place)> {
        let place = |at: usize| Place { at: at as u64, length: 1, content: [0; 16] };
        pieces.into_iter().enumerate().map(|(at, piece)| (piece, place(at))).collect()
    }

    #[test]
    fn pieces_have_their_size() {
        let keys: Keys = (0..20_000).map(|n| (n * 10, 7)).collect();
        let pieces = cut(&keys, &[]);
        let (last, others) = pieces.split_last().unwrap();
        assert!(others.iter().all(|piece| (LEAST..MOST + ENTRY).contains(&piece.sum.bytes)), "{pieces:?}");
        assert!(last.sum.bytes < MOST + ENTRY);
        let mean = 20_000 * ENTRY / pieces.len() as u64;
        assert!((512 << 10..768 << 10).contains(&mean), "{mean}");
        assert_eq!(pieces.iter().map(|piece| piece.sum.entries).sum::<u64>(), 20_000);
    }

    #[test]
    fn a_change_makes_few_pieces_new() {
        let keys: Keys = (0..4_000).map(|n| (n * 10, 7)).collect();
        let before = placed(cut(&keys, &[]));
        assert!(cut(&keys, &before).iter().all(|piece| piece.kept.is_some()));
        // A piece that grew or shrank may end elsewhere, and the next ones until both meet a key that begins one.
        let few = 0..=6;
        for at in (5..3_900).step_by(97) {
            let with = |change: &dyn Fn(&mut Keys)| {
                let mut keys = keys.clone();
                change(&mut keys);
                let pieces = cut(&keys, &before);
                assert_eq!(pieces.iter().map(|piece| piece.sum.entries).sum::<u64>(), keys.len() as u64);
                let fresh = pieces.iter().filter(|piece| piece.kept.is_none()).count();
                // Whoever holds the same comes to the same pieces without the ones before.
                let alone = cut(&keys, &[]);
                let sums = |pieces: &[Piece]| -> Vec<_> { pieces.iter().map(|p| (p.first.clone(), p.sum)).collect() };
                assert_eq!(sums(&pieces), sums(&alone));
                fresh
            };
            assert_eq!(with(&|keys| keys[at].1 = 8), 1, "changed {at}");
            assert!(few.contains(&with(&|keys| keys.insert(at + 1, (keys[at].0 + 5, 7)))), "added behind {at}");
            assert!(few.contains(&with(&|keys| keys.retain(|key| key.0 != at as u32 * 10))), "removed {at}");
            assert!(few.contains(&with(&|keys| drop(keys.drain(at..at + 90)))), "many removed at {at}");
        }
        let end: Keys = keys.iter().copied().chain([(50_000, 7)]).collect();
        assert_eq!(cut(&end, &before).iter().filter(|piece| piece.kept.is_none()).count(), 1, "behind the end");
    }
}
