//! Where does the text repeat itself? Every third byte is looked up once, greedily. A look back finds repetitions that
//! begin earlier.
//!
//! The goal is to avoid mispredicted branches. Text of a database has a repetition every ten or twenty bytes, at places
//! that can't be predicted, and each branch that depends on one costs as much as twenty instructions. So the search
//! examines two places before it decides, and computes the length of a repetition instead of walking along it.

use std::hint::select_unpredictable;

use super::BLOCK;

/// How far back a reader of deflate can look.
const WINDOW: usize = 1 << 15;

/// The table fits into a core's first-level cache, together with the text that it points to.
const TABLE_BITS: u32 = 14;

/// Shorter repetitions cost as many bits as the bytes themselves, on text that compresses to half.
const SHORTEST: usize = 6;

/// The longest repetition that deflate can express, and the shortest.
pub(super) const LONGEST: usize = 258;
const LEAST: usize = 3;

/// The distance of the two places that are examined together.
const STRIDE: usize = 3;

/// After this many bytes (as a power of two) without a repetition the steps become one byte longer, up to a limit.
const PATIENCE: u32 = 6;
const HASTE: usize = 64;

/// Bytes as they are, and a repetition behind them, if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Bytes as they are.
    pub(super) literals: u32,
    /// How long the repetition is: 3 to 258, or 0.
    pub(super) length: u16,
    /// How far back it is, less one.
    pub(super) distance: u16,
}

/// The result of a look at one place.
#[derive(Clone, Copy)]
struct Look {
    distance: usize,
    /// The bits in which eight bytes there differ from those here.
    differs: u64,
    found: bool,
}

/// Searches texts. A search is reused.
pub(super) struct Search {
    /// The low half of the place where a hash was seen last. A look at the text shows whether the place is outside the
    /// window, or only has the same hash.
    heads: Box<[u16; 1 << TABLE_BITS]>,
    pieces: Vec<Piece>,
}

/// Eight bytes at a place.
#[inline(always)]
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[inline(always)]
fn hash(word: u64) -> usize {
    let bytes = word << (64 - 8 * SHORTEST);
    (bytes.wrapping_mul(0x9e37_79b1_85eb_ca87) >> (64 - TABLE_BITS)) as usize
}

/// How many bytes two texts begin with in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(8).zip(b.chunks_exact(8));
    let same = 8 * words.take_while(|(a, b)| a == b).count();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

impl Search {
    pub(super) fn new() -> Self {
        let pieces = Vec::with_capacity(BLOCK / SHORTEST + 2);
        Self { heads: Box::new([0; 1 << TABLE_BITS]), pieces }
    }

    /// Begins another text.
    pub(super) fn forget(&mut self) {
        self.heads.fill(0);
    }

    #[inline(always)]
    fn look(heads: &mut [u16; 1 << TABLE_BITS], text: &[u8], at: usize) -> Look {
        let here = word(text, at).unwrap_or_default();
        let head = &mut heads[hash(here)];
        let distance = usize::from((at as u16).wrapping_sub(*head));
        *head = at as u16;
        // Before the beginning, by wrapping, there is nothing.
        let differs = here ^ word(text, at.wrapping_sub(distance)).unwrap_or(!here);
        let found = (differs << (64 - 8 * SHORTEST) == 0) & (distance.wrapping_sub(1) < WINDOW);
        Look { distance, differs, found }
    }

    /// The pieces of `text` from byte `from` on, for at most [`BLOCK`] bytes. Earlier calls searched the text before
    /// `from`.
    pub(super) fn pieces(&mut self, text: &[u8], from: usize) -> &[Piece] {
        self.pieces.clear();
        let heads = &mut *self.heads;
        let limit = text.len().saturating_sub(16 + STRIDE);
        let (mut at, mut begin) = (from, from);
        while at < limit {
            let first = Self::look(heads, text, at);
            let second = Self::look(heads, text, at + STRIDE);
            if !(first.found | second.found) {
                at += 2 * STRIDE + ((at - begin) >> PATIENCE).min(HASTE);
                continue;
            }
            at += select_unpredictable(first.found, 0, STRIDE);
            let distance = select_unpredictable(first.found, first.distance, second.distance);
            let differs = select_unpredictable(first.found, first.differs, second.differs);
            let ahead = ahead(text, at, distance, differs);
            let behind = behind(text, at, distance).min(at - begin);
            self.pieces.extend(split((at - behind - begin) as u32, ahead + behind, distance));
            begin = at + ahead;
            for place in [at + 2, begin - 2] {
                if let Some(word) = word(text, place) {
                    heads[hash(word)] = place as u16;
                }
            }
            at = begin;
        }
        self.pieces.push(Piece { literals: (text.len() - begin) as u32, length: 0, distance: 0 });
        &self.pieces
    }
}

/// How many bytes from `at` on equal the bytes `distance` earlier. `differs` holds the bits in which the first eight
/// bytes differ. At least sixteen bytes are left.
#[inline(always)]
fn ahead(text: &[u8], at: usize, distance: usize, differs: u64) -> usize {
    let next = word(text, at + 8).unwrap_or_default() ^ word(text, at + 8 - distance).unwrap_or_default();
    let bits = select_unpredictable(differs == 0, 64 + next.trailing_zeros(), differs.trailing_zeros());
    match (bits / 8) as usize {
        16 => 16 + common(&text[at + 16..], &text[at + 16 - distance..]),
        same => same,
    }
}

/// How many of the eight bytes before `at` equal the bytes `distance` earlier.
#[inline(always)]
fn behind(text: &[u8], at: usize, distance: usize) -> usize {
    let there = word(text, (at - distance).wrapping_sub(8));
    let Some((here, there)) = word(text, at.wrapping_sub(8)).zip(there) else { return 0 };
    ((here ^ there).leading_zeros() / 8) as usize
}

/// Splits a repetition of any length into pieces that deflate can express.
fn split(literals: u32, length: usize, distance: usize) -> impl Iterator<Item = Piece> {
    let (mut literals, mut left) = (literals, length);
    std::iter::from_fn(move || {
        let length = match left {
            0 => return None,
            1..=LONGEST => left,
            // Not so little is left that it can't be said.
            _ => LONGEST.min(left - LEAST),
        };
        left -= length;
        let piece = Piece { literals, length: length as u16, distance: (distance - 1) as u16 };
        literals = 0;
        Some(piece)
    })
}
