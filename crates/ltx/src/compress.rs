//! The compressor: LZ4's own library, which can be told to search less.

use ::lz4::block::{CompressionMode, compress_to_buffer};

use crate::lz4;

/// The acceleration (LZ4's word) for pages after a page that hardly compressed: three times as fast as the careful
/// search, for a thirtieth more bytes.
const HASTY: i32 = 4;

/// At least one page of this many is searched carefully.
const TRIAL: u8 = 16;

/// Compresses pages one after the other. Adjacent pages are alike: after a page that hardly compressed, the search is
/// faster, until pages compress again.
#[derive(Default)]
pub(crate) struct Compressor {
    /// How many more pages get the faster search.
    pub(crate) hasty: u8,
}

impl Compressor {
    /// Writes the block of a page to the front of `out`, which has the room of a [`bound`]; returns its length.
    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> usize {
        let acceleration = if self.hasty > 0 { HASTY } else { 1 };
        // It needs no more, and counts in 31 bits.
        let room = out.len().min(lz4::longest(page.len()));
        let out = out.get_mut(..room).unwrap_or_default();
        let len = compress_to_buffer(page, Some(CompressionMode::FAST(acceleration)), false, out)
            .expect("a block always fits into its bound");
        self.hasty = hasty(self.hasty, page.len(), len);
        len
    }
}

/// How many pages get the faster search after a page of `page` bytes became `block` bytes.
fn hasty(left: u8, page: usize, block: usize) -> u8 {
    match left {
        _ if block < page / 10 * 9 => 0,
        0 => TRIAL - 1,
        left => left - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::hasty;

    #[test]
    fn where_little_is_found_less_is_searched() {
        // The number of pages before, the page, its block, and the number of pages after.
        let table = [
            (0, 4096, 4000, 15),
            (15, 4096, 4100, 14),
            (1, 4096, 4000, 0),
            (0, 4096, 3600, 0),
            (9, 4096, 3600, 0),
            (9, 4096, 3700, 8),
        ];
        for (left, page, block, expected) in table {
            assert_eq!(hasty(left, page, block), expected, "{left} {page} {block}");
        }
    }
}
