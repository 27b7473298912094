//! Into which pieces is a DBI cut, and which pieces are the same as last time?
//!
//! A piece is a run of entries that becomes one gzip member. The keys alone decide where a piece ends. So instances
//! that hold the same data cut it alike, whatever they held before, and a change makes one piece new and leaves the
//! others as they are. A piece is unchanged since the last snapshot if its entries have the same number, length and
//! times, and none was written after that snapshot was read.

use crate::schema::header::Stored;

/// The fewest bytes of entries in a piece, except the last piece of a DBI.
const LEAST: u64 = 256 << 10;

/// How many further bytes it takes, on average, until a key begins a new piece.
const STRETCH: u64 = 384 << 10;

/// Bytes of entries at which a piece always ends.
const MOST: u64 = 2 << 20;

/// The identity of a piece's content: a digest of its bytes in a snapshot, before compression.
pub(crate) type Content = [u8; 16];

/// A run of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its first key.
    pub(crate) first: Vec<u8>,
    /// The sums over its entries.
    pub(crate) sum: Sum,
    /// Its place in the last snapshot, compressed, if it is unchanged; otherwise it has to be made.
    pub(crate) kept: Option<Compressed>,
}

/// A piece that was compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compressed {
    /// Where it begins in the file.
    pub(crate) at: u64,
    /// Its bytes there.
    pub(crate) length: u64,
    /// What it holds.
    pub(crate) content: Content,
}

/// Sums over the entries of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum {
    /// How many.
    pub(crate) entries: u64,
    /// Bytes in the snapshot.
    pub(crate) bytes: u64,
    /// The times and transactions, mixed into one number.
    pub(crate) mixed: u64,
}

impl Sum {
    /// Adds an entry that takes `bytes`.
    pub(crate) fn add(&mut self, stored: &Stored<'_>, bytes: u64) {
        self.entries += 1;
        self.bytes += bytes;
        let version = stored.stamp.0 ^ stored.transaction.rotate_left(32) ^ u64::from(stored.deleted);
        // Spread first: the times of neighbours differ in a few bits, so that plain sums could be equal.
        let spread = (version ^ bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.mixed = self.mixed.wrapping_add(spread ^ spread >> 29);
    }
}

/// Cuts a DBI while its entries go by.
pub(crate) struct Cutter<'b> {
    before: &'b [(Piece, Compressed)],
    /// The pieces so far.
    pieces: Vec<Piece>,
    /// The piece that is being filled, and the piece of last time that began with the same key.
    open: Option<(Piece, Option<usize>)>,
    /// The next piece of last time that the walk hasn't reached.
    next: usize,
}

impl<'b> Cutter<'b> {
    /// Compares with the pieces of last time.
    pub(crate) fn new(before: &'b [(Piece, Compressed)]) -> Self {
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

    /// Whether the next entry would begin a piece if another piece came before it.
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

/// Whether an entry of `bytes` begins a piece, if the piece before it has `filled` bytes.
fn begins(key: &[u8], bytes: u64, filled: u64) -> bool {
    // A longer entry is likelier to begin a piece, so that pieces of large values aren't longer than pieces of small
    // ones.
    filled >= MOST || filled >= LEAST && mark(key) < (u64::MAX / STRETCH).saturating_mul(bytes)
}

/// A number that is fixed for a key and evenly spread over keys.
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

    fn cut(keys: &[(u32, u64)], before: &[(Piece, Compressed)]) -> Vec<Piece> {
        let mut cutter = Cutter::new(before);
        for (key, stamp) in keys {
            let key = key.to_be_bytes();
            let stored = Stored { stamp: Stamp(*stamp), transaction: 1, deleted: false, value: b"" };
            cutter.take(&key, &stored, ENTRY, |other| key.as_slice() >= other);
        }
        cutter.finish()
    }

    fn placed(pieces: Vec<Piece>) -> Vec<(Piece, Compressed)> {
        let place = |at: usize| Compressed { at: at as u64, length: 1, content: [0; 16] };
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
        // A piece that grew or shrank may end elsewhere, and so may the next pieces, until both walks meet a key that
        // begins a piece.
        let few = 0..=6;
        for at in (5..3_900).step_by(97) {
            let with = |change: &dyn Fn(&mut Keys)| {
                let mut keys = keys.clone();
                change(&mut keys);
                let pieces = cut(&keys, &before);
                assert_eq!(pieces.iter().map(|piece| piece.sum.entries).sum::<u64>(), keys.len() as u64);
                let fresh = pieces.iter().filter(|piece| piece.kept.is_none()).count();
                // An instance that holds only the later entries cuts them into the same pieces.
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
