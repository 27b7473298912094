//! The fast level of gzip: one member for each frame, which `gzip -d` and every other reader of gzip takes.
//!
//! A dump spends most of its CPU time on compression. Of the libraries that build with Rust and a C compiler alone,
//! none that was tried writes deflate at more than half of this rate (`docs/performance.md`, "The compress stage"). So
//! the fast level is here, and small: one table lookup for every third byte ([`search`]), then codes made for each
//! block ([`block`], [`codes`]). libdeflate reads gzip and writes the slower levels. A frame depends on nothing but its
//! bytes: the same text becomes the same member.

mod bits;
mod block;
mod codes;
mod search;

use bits::Bits;
use block::Block;
use search::Search;

/// Bytes of a block: large enough that its codes cost nothing, small enough that the codes suit its content.
const BLOCK: usize = 128 << 10;

/// Deflate, no flags, no time, "fastest", an unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// Compresses frames. A compressor is reused.
pub(crate) struct Gzip {
    search: Search,
    /// Room for the largest member so far. The member is made here and copied to the caller, because filling the
    /// caller's buffer with zeros first costs more.
    room: Vec<u8>,
}

impl Gzip {
    pub(crate) fn new() -> Self {
        Self { search: Search::new(), room: Vec::new() }
    }

    /// Replaces the content of `stored` by `raw` as one member, which is at most a few bytes longer for each 64 KiB.
    ///
    /// # Errors
    /// None that can happen: the room is computed beforehand.
    pub(crate) fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> std::io::Result<()> {
        if self.room.len() < bound(raw.len()) {
            self.room.resize(bound(raw.len()), 0);
        }
        let end = self.blocks(raw).ok_or_else(|| std::io::Error::other("a member of gzip has no room"))?;
        stored.clear();
        stored.extend_from_slice(&self.room[..end]);
        let mut sum = libdeflater::Crc::new();
        sum.update(raw);
        stored.extend_from_slice(&sum.sum().to_le_bytes());
        // The format counts modulo 4 GiB.
        stored.extend_from_slice(&(raw.len() as u32).to_le_bytes());
        Ok(())
    }

    /// Writes all blocks, without the checksum and length after them; returns where they end.
    fn blocks(&mut self, raw: &[u8]) -> Option<usize> {
        self.room.first_chunk_mut().map(|header| *header = HEADER)?;
        let mut bits = Bits::behind(&mut self.room, HEADER.len());
        self.search.forget();
        let mut from = 0;
        loop {
            let to = raw.len().min(from + BLOCK);
            let last = to == raw.len();
            let block = Block { text: &raw[from..to], pieces: self.search.pieces(&raw[..to], from), last };
            let began = bits.mark();
            if block.write(&mut bits).is_none() || bits.since(began) > block::stored_bound(to - from) {
                bits.go_on(began);
                block.store(&mut bits)?;
            }
            if last {
                return bits.end();
            }
            from = to;
        }
    }
}

/// Room for a member of `len` bytes: each block stored as it is, and the bytes that a compressed block may take before
/// its size is noticed.
fn bound(len: usize) -> usize {
    HEADER.len() + block::stored_bound(len) + len.div_ceil(BLOCK) * 8 + BLOCK / 8 + 1024
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The member of `raw`, read by the library.
    fn there_and_back(gzip: &mut Gzip, raw: &[u8]) -> usize {
        let mut stored = vec![7; 3];
        gzip.encode(raw, &mut stored).expect("room");
        let mut back = vec![0; raw.len()];
        let made = libdeflater::Decompressor::new().gzip_decompress(&stored, &mut back).expect("a member");
        assert!(made == raw.len() && back == raw, "another text came back of {} bytes", raw.len());
        assert!(stored.len() <= raw.len() + raw.len().div_ceil(BLOCK) * 16 + 32, "{} of {}", stored.len(), raw.len());
        stored.len()
    }

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..len).map(|_| random.u8(..)).collect()
    }

    #[test]
    fn members_of_every_size_around_the_borders_are_read_back() {
        let mut gzip = Gzip::new();
        let text: Vec<u8> =
            (0..60_000_u32).flat_map(|i| format!("{i}\t{}\n", i.wrapping_mul(40_503) % 977).into_bytes()).collect();
        for size in (0..40).chain([257, 258, 259, 260, 261, 515, 516, 517, 32_767, 32_768, 32_769, 65_535, 65_536]) {
            for text in [&text[..size], &vec![b'a'; size], &noise(1, size)] {
                there_and_back(&mut gzip, text);
            }
        }
        for size in [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 17] {
            assert!(there_and_back(&mut gzip, &text[..size]) < size / 2);
            assert!(there_and_back(&mut gzip, &vec![0; size]) < size / 100);
            there_and_back(&mut gzip, &noise(2, size));
        }
    }

    #[test]
    fn a_repetition_is_found_as_far_back_as_a_reader_can_look_and_no_farther() {
        let mut gzip = Gzip::new();
        for (distance, found) in [(1000, true), (32_760, true), (32_768, true), (32_769, false), (65_536, false)] {
            let mut text = noise(3, 500);
            text.resize(distance, 0);
            text.extend_from_within(..500);
            assert_eq!(there_and_back(&mut gzip, &text) < 800, found, "{distance}");
        }
    }

    #[test]
    fn what_was_compressed_before_changes_nothing() {
        let (text, mut used, mut first, mut second) = (noise(5, 300).repeat(900), Gzip::new(), Vec::new(), Vec::new());
        used.encode(&noise(5, 300_000), &mut second).expect("room");
        used.encode(&text, &mut second).expect("room");
        Gzip::new().encode(&text, &mut first).expect("room");
        assert!(first == second);
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..30),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..4000),
        ) {
            let text: Vec<u8> = order.iter().flat_map(|index| index.get(&words).clone()).collect();
            there_and_back(&mut Gzip::new(), &text);
        }
    }
}
