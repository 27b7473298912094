//! Compresses one page to one LZ4 block, and decompresses it again.
//!
//! The writer makes a raw block without dictionary, whose last token has an empty low half. (The peers' decompressor
//! refuses other blocks; both compressors write such blocks, and a test holds them to that.) A page that doesn't
//! compress becomes literals, and then the block is slightly larger than the page. The reader accepts any valid block
//! of exactly one page, and the framed form of older writers. These bytes aren't trusted, so the reader checks every
//! bound.

use lz4_flex::block::decompress_into;
use twox_hash::XxHash32;

#[cfg(feature = "std")]
pub(crate) use crate::compress::Compressor;
#[cfg(not(feature = "std"))]
pub(crate) use crate::compress_rust::Compressor;
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

pub(crate) fn longest(page: usize) -> usize {
    page + page / 255 + 16
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

    /// The blocks that each compressor makes of a page.
    fn blocks(page: &[u8]) -> Vec<Vec<u8>> {
        fn block(mut compress: impl FnMut(&[u8], &mut [u8]) -> usize, page: &[u8]) -> Vec<u8> {
            let mut block = vec![0; longest(page.len())];
            let len = compress(page, &mut block);
            block.truncate(len);
            block
        }
        let mut rust = crate::compress_rust::Compressor::default();
        let mut blocks = vec![block(|page, out| rust.compress(page, out), &page[..page.len() / 2])];
        blocks[0] = block(|page, out| rust.compress(page, out), page);
        #[cfg(feature = "std")]
        for left in [0, 1] {
            let mut careful = Compressor { hasty: left };
            blocks.push(block(|page, out| careful.compress(page, out), page));
        }
        blocks
    }

    proptest! {
        #[test]
        fn the_last_token_has_an_empty_low_half(page in page()) {
            for block in blocks(&page) {
                prop_assert_eq!(last_token(&block) & 15, 0);
                let mut back = vec![1; page.len()];
                prop_assert_eq!(decompress(&block, &mut back), Ok(()));
                prop_assert_eq!(&back, &page);
            }
        }
    }
}
