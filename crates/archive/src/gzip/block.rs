//! A block of deflate (RFC 1951, 3.2), with codes made for its content or with its bytes stored as they are.

use super::bits::{Bits, Code};
use super::codes::codes;
use super::search::{LONGEST, Piece};

/// The longest code for a byte or a length. So four bytes fit between two flushes, and three with a length behind them.
const LIMIT: usize = 12;

/// The symbol that ends a block, and how many there are for bytes, the end and lengths; and how many for distances.
const END: usize = 256;
const LITERALS: usize = 286;
const DISTANCES: usize = 30;

/// The order in which the code lengths of the length codes are written.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The most bytes of a stored block.
const STORED: usize = u16::MAX as usize;

/// The most bytes that a stored block of `len` bytes takes.
pub(super) fn stored_bound(len: usize) -> usize {
    len + 5 * (len / STORED + 1) + 1
}

/// Part of a text.
pub(super) struct Block<'a> {
    pub(super) text: &'a [u8],
    pub(super) pieces: &'a [Piece],
    /// Whether it ends the stream.
    pub(super) last: bool,
}

/// A symbol, and the extra bits after it.
struct Symbol {
    symbol: usize,
    extra: Code,
}

/// The symbol of a length. Four share each number of extra bits.
fn length_symbol(length: usize) -> Symbol {
    let less = (length - 3) as u32;
    match length {
        258 => Symbol { symbol: 285, extra: Code::default() },
        ..=10 => Symbol { symbol: 257 + less as usize, extra: Code::default() },
        _ => {
            let bits = less.ilog2() - 2;
            let symbol = 257 + 4 * (bits + 1) + ((less >> bits) & 3);
            Symbol { symbol: symbol as usize, extra: Code { bits: less & ((1 << bits) - 1), length: bits } }
        }
    }
}

/// The symbol of a distance, less one. Two share each number of extra bits.
#[inline(always)]
fn distance_symbol(less: u16) -> Symbol {
    let less = u32::from(less);
    if less < 4 {
        return Symbol { symbol: less as usize, extra: Code::default() };
    }
    let bits = less.ilog2() - 1;
    let symbol = 2 * (bits + 1) + ((less >> bits) & 1);
    Symbol { symbol: symbol as usize, extra: Code { bits: less & ((1 << bits) - 1), length: bits } }
}

/// The last bytes of a run, up to three, after its whole groups of four, and how many of them belong to the run.
/// Reading all three and using as many as belong needs no branch. At the end of the text there may be fewer than three.
#[inline(always)]
fn tail(text: &[u8], end: usize, run: usize) -> ([u8; 3], usize) {
    let rest = run % 4;
    let bytes = text.get(end - rest..).and_then(|tail| tail.first_chunk()).copied();
    let at_the_end = || std::array::from_fn(|i| text.get(end - rest + i).copied().unwrap_or_default());
    (bytes.unwrap_or_else(at_the_end), rest)
}

impl Block<'_> {
    /// How often each byte, length and distance occurs.
    fn count(&self) -> ([u32; LITERALS], [u32; DISTANCES]) {
        // In four tables, because a byte often repeats before its count is written.
        let mut bytes = [[0_u32; 256]; 4];
        let mut lengths = [0_u32; LONGEST + 1];
        let mut distances = [0; DISTANCES];
        let mut at = 0;
        for piece in self.pieces {
            let run = &self.text[at..at + piece.literals as usize];
            at += run.len();
            for four in run.as_chunks::<4>().0 {
                for (bytes, byte) in bytes.iter_mut().zip(four) {
                    bytes[usize::from(*byte)] += 1;
                }
            }
            let (three, rest) = tail(self.text, at, run.len());
            for (i, (bytes, byte)) in bytes.iter_mut().zip(three).enumerate() {
                bytes[usize::from(byte)] += u32::from(i < rest);
            }
            at += usize::from(piece.length);
            lengths[usize::from(piece.length).min(LONGEST)] += 1;
            distances[distance_symbol(piece.distance).symbol] += u32::from(piece.length > 0);
        }
        let mut literals = [0; LITERALS];
        for (symbol, count) in literals[..END].iter_mut().enumerate() {
            *count = bytes.iter().map(|bytes| bytes[symbol]).sum();
        }
        for (length, count) in lengths.iter().enumerate().skip(3) {
            literals[length_symbol(length).symbol] += count;
        }
        literals[END] = 1;
        // A code needs two symbols.
        literals[0] = literals[0].max(1);
        distances[0] = distances[0].max(1);
        distances[1] = distances[1].max(1);
        (literals, distances)
    }

    /// Writes the block with codes of its own; `None` if there is no room.
    pub(super) fn write(&self, bits: &mut Bits<'_>) -> Option<()> {
        let (literals, distances) = self.count();
        let (literals, distances) = (codes(&literals, LIMIT), codes(&distances, 15));
        self.header(bits, &literals, &distances)?;
        let mut lengths = [Code::default(); LONGEST + 1];
        for (length, code) in lengths.iter_mut().enumerate().skip(3) {
            let Symbol { symbol, extra } = length_symbol(length);
            let Code { bits, length } = literals[symbol];
            *code = Code { bits: bits | extra.bits << length, length: length + extra.length };
        }
        // A local copy, so that it stays in registers.
        let mut own = bits.lend();
        let mut at = 0;
        for piece in self.pieces {
            let run = &self.text[at..at + piece.literals as usize];
            at += run.len();
            for four in run.as_chunks::<4>().0 {
                for byte in four {
                    own.put(literals[usize::from(*byte)]);
                }
                own.flush()?;
            }
            let (three, rest) = tail(self.text, at, run.len());
            for (i, byte) in three.into_iter().enumerate() {
                let Code { bits: value, length } = literals[usize::from(byte)];
                let mask = 0_u32.wrapping_sub(u32::from(i < rest));
                own.put(Code { bits: value & mask, length: length & mask });
            }
            // Writes nothing if there is no repetition.
            own.put(lengths[usize::from(piece.length).min(LONGEST)]);
            own.flush()?;
            if piece.length > 0 {
                let Symbol { symbol, extra } = distance_symbol(piece.distance);
                own.put(distances[symbol]);
                own.put(extra);
                own.flush()?;
            }
            at += usize::from(piece.length);
        }
        own.put(literals[END]);
        own.flush()?;
        let end = own.mark();
        bits.go_on(end);
        Some(())
    }

    /// Writes the code lengths, which are compressed themselves: 16 repeats a length, 17 and 18 are runs of zeros.
    fn header(&self, bits: &mut Bits<'_>, literals: &[Code; LITERALS], distances: &[Code; DISTANCES]) -> Option<()> {
        let used = |codes: &[Code]| codes.iter().rposition(|code| code.length > 0).map_or(0, |last| last + 1);
        let (literals, distances) = (&literals[..used(literals)], &distances[..used(distances)]);
        let mut told = [(0_usize, Code::default()); LITERALS + DISTANCES];
        let mut len = 0;
        let mut tell = |symbol, less: usize, length| {
            told[len] = (symbol, Code { bits: less as u32, length });
            len += 1;
        };
        let mut all = [0_u32; LITERALS + DISTANCES];
        for (length, code) in all.iter_mut().zip(literals.iter().chain(distances)) {
            *length = code.length;
        }
        for same in all[..literals.len() + distances.len()].chunk_by(|a, b| a == b) {
            let (length, mut run) = (same[0], same.len());
            if length > 0 {
                tell(length as usize, 0, 0);
                run -= 1;
            }
            while run >= 3 {
                let (symbol, most, least, extra) = match length {
                    1.. => (16, 6, 3, 2),
                    0 if run > 10 => (18, 138, 11, 7),
                    0 => (17, 10, 3, 3),
                };
                let part = run.min(most);
                tell(symbol, part - least, extra);
                run -= part;
            }
            (0..run).for_each(|_| tell(length as usize, 0, 0));
        }
        let told = &told[..len];
        let mut counts = [0_u32; ORDER.len()];
        told.iter().for_each(|(symbol, _)| counts[*symbol] += 1);
        // A code needs two symbols.
        counts[0] = counts[0].max(1);
        counts[1] = counts[1].max(1);
        let codes = codes(&counts, 7);
        let ordered = ORDER.map(|symbol| codes[symbol]);
        let ordered = &ordered[..used(&ordered)];
        bits.put(Code { bits: u32::from(self.last) | 2 << 1, length: 3 });
        bits.put(Code { bits: (literals.len() - 257) as u32, length: 5 });
        bits.put(Code { bits: (distances.len() - 1) as u32, length: 5 });
        bits.put(Code { bits: (ordered.len() - 4) as u32, length: 4 });
        for code in ordered {
            bits.flush()?;
            bits.put(Code { bits: code.length, length: 3 });
        }
        for (symbol, extra) in told {
            bits.flush()?;
            bits.put(codes[*symbol]);
            bits.put(*extra);
        }
        bits.flush()
    }

    /// Writes the block as it is; `None` if there is no room.
    pub(super) fn store(&self, bits: &mut Bits<'_>) -> Option<()> {
        let parts = self.text.len().div_ceil(STORED).max(1);
        for part in 0..parts {
            let from = part * STORED;
            let text = &self.text[from..self.text.len().min(from + STORED)];
            bits.put(Code { bits: u32::from(self.last && part + 1 == parts), length: 3 });
            let len = text.len() as u16;
            bits.bytes(&len.to_le_bytes())?;
            bits.bytes(&(!len).to_le_bytes())?;
            bits.bytes(text)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_lengths_are_those_of_the_rfc() {
        // Length, symbol, extra bits, their value: corners of the table in 3.2.5.
        let table = [
            (3, 257, 0, 0),
            (10, 264, 0, 0),
            (11, 265, 1, 0),
            (12, 265, 1, 1),
            (13, 266, 1, 0),
            (18, 268, 1, 1),
            (19, 269, 2, 0),
            (66, 276, 3, 7),
            (67, 277, 4, 0),
            (130, 280, 4, 15),
            (131, 281, 5, 0),
            (227, 284, 5, 0),
            (257, 284, 5, 30),
            (258, 285, 0, 0),
        ];
        for (length, symbol, extra, bits) in table {
            let found = length_symbol(length);
            assert_eq!((found.symbol, found.extra), (symbol, Code { bits, length: extra }), "{length}");
        }
    }

    #[test]
    fn symbols_of_distances_are_those_of_the_rfc() {
        let table = [
            (1_u32, 0, 0, 0),
            (4, 3, 0, 0),
            (5, 4, 1, 0),
            (6, 4, 1, 1),
            (7, 5, 1, 0),
            (9, 6, 2, 0),
            (193, 15, 6, 0),
            (256, 15, 6, 63),
            (257, 16, 7, 0),
            (16_385, 28, 13, 0),
            (24_577, 29, 13, 0),
            (32_768, 29, 13, 8191),
        ];
        for (distance, symbol, extra, bits) in table {
            let found = distance_symbol((distance - 1) as u16);
            assert_eq!((found.symbol, found.extra), (symbol, Code { bits, length: extra }), "{distance}");
        }
    }
}
