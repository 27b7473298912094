//! LZ4 frames, written and read with reused buffers. The library's own writer and reader allocate eight megabytes of
//! buffers for each frame.
//!
//! The writer makes one shape of frame, which `lz4 -d` and every other reader of the format accept: independent blocks
//! of up to 4 MiB, the content's size in front and the content's checksum behind. The reader accepts only this shape,
//! because only Seawall writes sets.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use twox_hash::XxHash32;

/// The magic, and the descriptor but for the size and the checksum of it: version 1, independent blocks, size, checksum of
/// the content; blocks of 4 MiB.
const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const DESCRIPTOR: [u8; 2] = [0x6c, 0x70];

const BLOCK: usize = 4 << 20;

/// Marks a block that is as it is.
const STORED: u32 = 1 << 31;

/// Descriptor, size, and a byte of their checksum.
fn head(size: u64) -> [u8; 11] {
    let mut head = [0; 11];
    head[..2].copy_from_slice(&DESCRIPTOR);
    head[2..10].copy_from_slice(&size.to_le_bytes());
    head[10] = (XxHash32::oneshot(0, &head[..10]) >> 8) as u8;
    head
}

/// Compresses frames. Kept and used again.
pub(crate) struct Writer {
    table: CompressTable,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { table: CompressTable::large() }
    }

    /// Replaces what `stored` holds by `raw` as one frame.
    ///
    /// # Errors
    /// None that can happen: each block has the room that the library asks for.
    pub(crate) fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> std::io::Result<()> {
        stored.clear();
        stored.extend_from_slice(&MAGIC);
        stored.extend_from_slice(&head(raw.len() as u64));
        for block in raw.chunks(BLOCK) {
            let at = stored.len();
            stored.resize(at + 4 + get_maximum_output_size(block.len()), 0);
            let made = compress_into_with_table(block, &mut stored[at + 4..], &mut self.table);
            let made = made.map_err(std::io::Error::other)?;
            let mut length = made as u32;
            stored.truncate(at + 4 + made);
            if made >= block.len() {
                length = block.len() as u32 | STORED;
                stored.truncate(at + 4);
                stored.extend_from_slice(block);
            }
            stored[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
        stored.extend_from_slice(&[0; 4]);
        stored.extend_from_slice(&XxHash32::oneshot(0, raw).to_le_bytes());
        Ok(())
    }
}

/// Fills `raw` with the content of the frame `stored`, which must be exactly as long.
///
/// # Errors
/// In words: what is wrong with it.
pub(crate) fn decode(stored: &[u8], raw: &mut [u8]) -> Result<(), String> {
    let rest = stored.strip_prefix(&MAGIC).and_then(|rest| rest.strip_prefix(&head(raw.len() as u64)));
    let mut rest = rest.ok_or_else(|| format!("it doesn't begin as a frame of {} bytes", raw.len()))?;
    let mut at = 0;
    loop {
        let (length, behind) = rest.split_first_chunk().ok_or("it ends in the middle")?;
        let length = u32::from_le_bytes(*length);
        if length == 0 {
            rest = behind;
            break;
        }
        let (block, behind) = behind.split_at_checked((length & !STORED) as usize).ok_or("it ends in the middle")?;
        let room = raw.get_mut(at..).unwrap_or_default();
        if length & STORED == 0 {
            at += decompress_into(block, room).map_err(|error| error.to_string())?;
        } else {
            room.get_mut(..block.len()).ok_or("it holds more than it says")?.copy_from_slice(block);
            at += block.len();
        }
        rest = behind;
    }
    if at != raw.len() {
        return Err(format!("it holds {at} bytes instead of {}", raw.len()));
    }
    if rest != XxHash32::oneshot(0, raw).to_le_bytes() {
        return Err("its checksum is wrong".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

    use super::*;

    fn texts() -> Vec<Vec<u8>> {
        let mut random = fastrand::Rng::with_seed(3);
        let noise: Vec<u8> = (0..70_000).map(|_| random.u8(..)).collect();
        let text = b"and some text that repeats itself\n".repeat(150_000);
        vec![Vec::new(), b"x".to_vec(), noise, text[..BLOCK].to_vec(), text]
    }

    /// A frame as the library writes it; sets of earlier versions hold such frames.
    fn of_the_library(text: &[u8]) -> Vec<u8> {
        let info =
            FrameInfo::new().block_size(BlockSize::Max4MB).content_size(Some(text.len() as u64)).content_checksum(true);
        let mut frame = FrameEncoder::with_frame_info(info, Vec::new());
        frame.write_all(text).expect("written");
        frame.finish().expect("finished")
    }

    #[test]
    fn the_library_reads_what_is_written_and_the_other_way_round() {
        let mut writer = Writer::new();
        for text in texts() {
            let (mut stored, mut back) = (vec![1; 9], Vec::new());
            writer.encode(&text, &mut stored).expect("written");
            FrameDecoder::new(&stored[..]).read_to_end(&mut back).expect("read");
            assert!(back == text, "{}", text.len());
            for frame in [stored, of_the_library(&text)] {
                back.fill(7);
                decode(&frame, &mut back).expect("decoded");
                assert!(back == text, "{}", text.len());
            }
        }
    }

    #[test]
    fn a_frame_that_was_changed_anywhere_is_refused_or_means_the_same() {
        // One repetition, so that no other distance gives the same text.
        let (mut stored, text) =
            (Vec::new(), [&(0..200).collect::<Vec<u8>>()[..], &[0, 1, 2, 3, 4, 5, 6, 7], &[9; 20]].concat());
        Writer::new().encode(&text, &mut stored).expect("written");
        let (mut raw, mut kept) = (vec![0; text.len()], 0);
        for at in 0..stored.len() {
            for flip in [1, 0x80] {
                stored[at] ^= flip;
                // Some bits have no meaning there: the length of a repetition in the last piece, which has no
                // repetition.
                let same = decode(&stored, &mut raw).is_ok();
                assert!(!same || raw == text, "bit {flip} of {at}");
                kept += usize::from(same);
                stored[at] ^= flip;
            }
            decode(&stored[..at], &mut raw).expect_err("cut");
        }
        assert!(kept <= 1, "{kept}");
        decode(&[&stored[..], &[0]].concat(), &mut raw).expect_err("something behind");
        decode(&stored, &mut raw).expect("as it was");
    }
}
