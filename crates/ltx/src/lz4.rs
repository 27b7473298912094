//! Compresses one page to one LZ4 block, and decompresses it again.
//!
//! The writer makes a raw block without dictionary, whose last token has an empty low half. (The peers' decompressor
//! refuses other blocks; LZ4's own library writes such blocks, and a test holds it to that.) A page that doesn't
//! compress becomes literals, and then the block is slightly larger than the page. The reader accepts any valid block
//! of exactly one page, and the framed form of older writers. These bytes aren't trusted, so the reader checks every
//! bound.

use lz4::block::{CompressionMode, compress_to_buffer};
use lz4_flex::block::decompress_into;
use twox_hash::XxHash32;

use crate::error::Lz4Fault;
use crate::types::PageSize;

/// The start of each frame of the older form: magic, descriptor (independent blocks, content checksum), block size of
/// 64 KiB, and the checksum of these two bytes. The only writer of this form never used other settings.
pub(crate) const FRAME_START: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x64, 0x40, 0xa7];
/// The bytes after the only block of such a frame: an empty block as the end mark, and the content checksum.
pub(crate) const FRAME_END: usize = 4 + 4;
/// Marks a block of such a frame that is stored uncompressed.
pub(crate) const STORED: u32 = 1 << 31;

/// The longest block that a page can become.
pub(crate) fn bound(page_size: PageSize) -> usize {
    longest(page_size.bytes())
}

fn longest(page: usize) -> usize {
    page + page / 255 + 16
}

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
    hasty: u8,
}

impl Compressor {
    /// Writes the block of a page to the front of `out`, which has the room of a [`bound`]; returns its length.
    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> usize {
        let acceleration = if self.hasty > 0 { HASTY } else { 1 };
        // It needs no more, and counts in 31 bits.
        let room = out.len().min(longest(page.len()));
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

/// Decompresses a block into a page, which it must fill.
pub(crate) fn decompress(block: &[u8], page: &mut [u8]) -> Result<(), Lz4Fault> {
    match decompress_partly(block, page)? {
        len if len == page.len() => Ok(()),
        len => Err(Lz4Fault::Short { len }),
    }
}

/// Decompresses a block into the front of `out`; returns the number of bytes.
pub(crate) fn decompress_partly(block: &[u8], out: &mut [u8]) -> Result<usize, Lz4Fault> {
    decompress_into(block, out).map_err(|_| Lz4Fault::Invalid)
}

/// Decompresses a frame of the older form: start, one block with its length, end mark, checksum.
pub(crate) fn decompress_frame(frame: &[u8], page: &mut [u8]) -> Result<(), Lz4Fault> {
    let (size, rest) =
        frame.strip_prefix(&FRAME_START).and_then(|rest| rest.split_first_chunk()).ok_or(Lz4Fault::Frame)?;
    let size = u32::from_le_bytes(*size);
    let (block, end) = rest.split_last_chunk::<FRAME_END>().ok_or(Lz4Fault::Frame)?;
    let [e0, e1, e2, e3, sum @ ..] = *end;
    if block.len() != (size & !STORED) as usize || [e0, e1, e2, e3] != [0; 4] {
        return Err(Lz4Fault::Frame);
    }
    if size & STORED == 0 {
        decompress(block, page)?;
    } else if block.len() == page.len() {
        page.copy_from_slice(block);
    } else {
        return Err(Lz4Fault::Short { len: block.len() });
    }
    if XxHash32::oneshot(0, page) == u32::from_le_bytes(sum) { Ok(()) } else { Err(Lz4Fault::ContentChecksum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Walks the sequences of a block to its last token.
    fn last_token(block: &[u8]) -> u8 {
        fn length(nibble: u8, block: &[u8], at: &mut usize) -> usize {
            let mut len = usize::from(nibble);
            if nibble == 15 {
                loop {
                    let more = block[*at];
                    *at += 1;
                    len += usize::from(more);
                    if more != 255 {
                        break;
                    }
                }
            }
            len
        }
        let mut at = 0;
        loop {
            let token = block[at];
            at += 1;
            at += length(token >> 4, block, &mut at);
            if at == block.len() {
                return token;
            }
            at += 2;
            length(token & 15, block, &mut at);
        }
    }

    fn page() -> impl Strategy<Value = Vec<u8>> {
        let size = prop::sample::select(vec![512_usize, 1024, 4096, 65536]);
        (size, any::<u64>(), 0..9_u32).prop_map(|(size, seed, noise)| {
            let mut x = seed;
            (0..size)
                .map(|i| {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if (x >> 60) as u32 % 8 < noise { (x >> 33) as u8 } else { (i / 64) as u8 }
                })
                .collect()
        })
    }

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

    proptest! {
        #[test]
        fn the_last_token_has_an_empty_low_half(page in page()) {
            let size = PageSize::new(page.len() as u32).unwrap();
            for left in [0, 1] {
                let mut block = vec![0; bound(size)];
                let len = Compressor { hasty: left }.compress(&page, &mut block);
                block.truncate(len);
                prop_assert_eq!(last_token(&block) & 15, 0);
                let mut back = vec![1; page.len()];
                prop_assert_eq!(decompress(&block, &mut back), Ok(()));
                prop_assert_eq!(&back, &page);
            }
        }
    }
}
