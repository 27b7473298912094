//! Entry points for the fuzz target: what is read of a base and of a log.

use seawall_archive::log::Lsn;

use super::base::BaseManifest;
use super::base::control::Control;
use super::base::index::{self, BLOCK, Block};
use super::base::label::{Label, tablespaces};
use super::receive::SegmentHeader;
use super::records;

/// Bases that the manifest of a part's index names beside its own.
const BASES: u32 = 3;

/// Reads `bytes` as each of these. Nothing may panic.
pub(crate) fn parse(bytes: &[u8]) {
    part(bytes);
    let _ = serde_json::from_slice::<BaseManifest>(bytes).map(|manifest| (manifest.needs(), manifest.others()));
    let text = String::from_utf8_lossy(bytes);
    let _ = (Label::parse(&text), tablespaces(&text), Control::parse(bytes), SegmentHeader::parse(bytes));
    let (start, size) = (Lsn::new(0x300_0000), bytes.len() / 8192 * 8192);
    let _ = records::events(bytes, start, size, start, |at, _| assert!(at >= start));
    let _ = records::is_followed(bytes, start, size, start);
}

/// What is read of a part of an index stays within the frames that it names, and is written as it was read.
fn part(bytes: &[u8]) {
    let Ok(extents) = index::read(bytes, BASES) else { return };
    let mut again = index::begin();
    for extent in &extents {
        assert!(index::is_sound_path(&extent.path), "{}", extent.path);
        assert_eq!(extent.blocks.len() as u64, extent.length.div_ceil(BLOCK as u64));
        for (nth, block) in extent.blocks.iter().enumerate() {
            if let Block::Stored { frame, at, .. } = block {
                let raw = extent.frames[*frame as usize].raw as usize;
                assert!(*at as usize + index::block_bytes(extent.length, nth) <= raw);
            }
        }
        extent.write(&mut again);
    }
    assert_eq!(index::read(&again, BASES), Ok(extents));
}

#[cfg(test)]
mod tests {
    use seawall_archive::write_document;

    use super::super::base::index::{Entry, Extent, Frame};
    use super::super::base::manifest::tests::sample;
    use super::*;

    const LABEL: &str = "START WAL LOCATION: 0/3000028 (file 000000010000000000000003)\nCHECKPOINT LOCATION: 0/3000080\n\
                         BACKUP METHOD: streamed\nBACKUP FROM: primary\nSTART TIME: 2026-11-28 05:00:00 UTC\nLABEL: x\nSTART TIMELINE: 1\n";

    /// What the parsers read.
    fn corpus() -> Vec<Vec<u8>> {
        let extent = |path: &str, length: u64, blocks: Vec<Block>| Extent {
            entry: Entry::File,
            path: path.into(),
            modified: 1_790_000_000,
            offset: 0,
            length,
            frames: vec![Frame { base: 1, pack: 2, at: 70_000, stored: 900, raw: 3 << 15 }],
            blocks,
        };
        let stored = |nth: u32| Block::Stored { hash: [7; 16], frame: 0, at: nth << 15 };
        let folder = Extent { entry: Entry::Folder, frames: Vec::new(), ..extent("base/5", 0, Vec::new()) };
        let file = extent("base/5/1259", (3 << 15) + 1, vec![stored(1), stored(2), Block::Zero, stored(0)]);
        let mut part = index::begin();
        [folder, file].iter().for_each(|extent| extent.write(&mut part));
        assert_eq!(index::read(&part, BASES).map(|extents| extents.len()), Ok(2));
        // A page with one record: its length, its transaction, its place before, its kind, and no checksum that holds.
        let head = [0xD118_u64 | 2 << 16 | 1 << 32, 0x300_0000, 0, 7, 16 << 20 | 8192 << 32];
        let mut page: Vec<u8> = head.into_iter().flat_map(u64::to_le_bytes).collect();
        page.extend([40, 0, 0, 0, 9, 0, 0, 0]);
        page.resize(2 * 8192, 0);
        vec![
            part,
            page,
            write_document(&sample(100, 1, 2)).expect("written"),
            LABEL.into(),
            b"16384 /mnt/a\\\nb\n16385 /mnt/c d\n".to_vec(),
            vec![7; 8192],
        ]
    }

    #[test]
    fn nothing_that_is_nearly_right_panics() {
        let mut random = fastrand::Rng::with_seed(seawall_testing::seed());
        let corpus = corpus();
        corpus.iter().for_each(|bytes| parse(bytes));
        for _ in 0..5000 {
            let mut bytes = corpus[random.usize(..corpus.len())].clone();
            for _ in 0..random.usize(1..5) {
                let place = random.usize(..=bytes.len());
                match random.u8(0..4) {
                    0 => bytes.truncate(place),
                    1 => bytes.insert(place, random.u8(..)),
                    2 => bytes.splice(place..place, [0xff; 9]).for_each(drop),
                    _ => {
                        if let Some(byte) = bytes.get_mut(place) {
                            *byte ^= 1 << random.u8(0..8);
                        }
                    }
                }
            }
            parse(&bytes);
        }
    }
}
