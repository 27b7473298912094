//! The index of a base: which files there are, and where each block of them is. Pure: bytes in, bytes out.
//!
//! A part of the index is a list of extents. An extent is a stretch of one file, of at most [`EXTENT`] bytes. It names
//! the frames that it needs and, for each of its blocks, the frame, the place in the frame and the hash. A block that
//! holds only zeros has neither. `docs/formats.md` specifies the bytes.

use std::cmp::Ordering;

/// Bytes of a block: what is compared with the base before, and what is sent again when one of its bytes changed.
pub(crate) const BLOCK: usize = 32 << 10;

/// The most bytes of an extent.
pub(crate) const EXTENT: u64 = 1 << 30;

/// The most bytes of a frame's content.
pub(crate) const FRAME: usize = 1 << 20;

/// The most blocks that a part has, so that reading one takes bounded memory.
const MOST_BLOCKS: u64 = 1 << 18;

/// The most bytes of a part before it is compressed.
pub(crate) const MOST_OF_PART: usize = 16 << 20;

/// The longest path of a file.
const LONGEST_PATH: usize = 1024;

/// How a part begins.
const MAGIC: &[u8; 8] = b"SWBASE\x01\n";

/// The hash of a block: the first 16 bytes of its BLAKE3.
pub(crate) type Hash = [u8; 16];

/// A piece of compressed content in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Frame {
    /// The base whose pack it is: 0 for the base itself, otherwise its place in the manifest's list, from 1.
    pub(crate) base: u32,
    /// The pack.
    pub(crate) pack: u32,
    /// Where it begins in the pack.
    pub(crate) at: u64,
    /// Its bytes in the pack.
    pub(crate) stored: u32,
    /// Its bytes when it is decompressed.
    pub(crate) raw: u32,
}

/// A block of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// Only zeros.
    Zero,
    /// Content.
    Stored {
        /// What it must hash to.
        hash: Hash,
        /// The frame, by its place in the extent.
        frame: u32,
        /// Where it begins in the frame's content.
        at: u32,
    },
}

/// What stands in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file.
    File,
    /// A folder.
    Folder,
}

/// A stretch of a file, or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    /// A file or a folder.
    pub(crate) entry: Entry,
    /// The path below the data directory, with slashes.
    pub(crate) path: String,
    /// When the file was changed last, in seconds since 1970.
    pub(crate) modified: u64,
    /// Where it begins in the file: a multiple of [`EXTENT`].
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) length: u64,
    /// The frames that it needs.
    pub(crate) frames: Vec<Frame>,
    /// Its blocks, in order; the last one may be short.
    pub(crate) blocks: Vec<Block>,
}

/// Folder and name of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The order of extents in an index: by folder, by name, by offset.
pub(crate) fn order(one: (&str, u64), other: (&str, u64)) -> Ordering {
    split(one.0).cmp(&split(other.0)).then(one.1.cmp(&other.1))
}

/// The bytes of the block at `nth` of an extent of `length` bytes.
pub(crate) fn block_bytes(length: u64, nth: usize) -> usize {
    let before = (nth as u64).saturating_mul(BLOCK as u64);
    usize::try_from(length.saturating_sub(before).min(BLOCK as u64)).unwrap_or(BLOCK)
}

/// Whether a restore may make a file of this path below its folder (I11): it can't lead out of it.
pub(crate) fn is_sound_path(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    path.len() <= LONGEST_PATH && path.split('/').all(is_name)
}

impl Extent {
    /// Appends the extent to a part.
    pub(crate) fn write(&self, part: &mut Vec<u8>) {
        part.push(match self.entry {
            Entry::File => 0,
            Entry::Folder => 1,
        });
        number(self.path.len() as u64, part);
        part.extend_from_slice(self.path.as_bytes());
        [self.modified, self.offset, self.length, self.frames.len() as u64].into_iter().for_each(|it| number(it, part));
        for Frame { base, pack, at, stored, raw } in &self.frames {
            [u64::from(*base), u64::from(*pack), *at, u64::from(*stored), u64::from(*raw)]
                .into_iter()
                .for_each(|it| number(it, part));
        }
        let mut blocks = &self.blocks[..];
        while let Some(first) = blocks.first() {
            // A run: blocks that follow each other in one frame, or zeros.
            let follows = |(nth, block): (usize, &Block)| match (first, block) {
                (Block::Zero, Block::Zero) => true,
                (Block::Stored { frame, at, .. }, Block::Stored { frame: its, at: there, .. }) => {
                    frame == its && u64::from(*at) + (nth * BLOCK) as u64 == u64::from(*there)
                }
                _ => false,
            };
            let run = blocks.iter().enumerate().take_while(|both| follows(*both)).count();
            number(run as u64, part);
            match first {
                Block::Zero => number(0, part),
                Block::Stored { frame, at, .. } => {
                    number(u64::from(*frame) + 1, part);
                    number(u64::from(*at), part);
                }
            }
            for block in &blocks[..run] {
                if let Block::Stored { hash, .. } = block {
                    part.extend_from_slice(hash);
                }
            }
            blocks = &blocks[run..];
        }
    }
}

/// The beginning of a part.
pub(crate) fn begin() -> Vec<u8> {
    MAGIC.to_vec()
}

/// Reads a part. `bases` is how many bases the manifest names beside its own.
pub(crate) fn read(part: &[u8], bases: u32) -> Result<Vec<Extent>, String> {
    let mut rest = part.strip_prefix(MAGIC).ok_or("it is no part of an index")?;
    let (mut extents, mut blocks): (Vec<Extent>, u64) = (Vec::new(), 0);
    while !rest.is_empty() {
        let extent = read_extent(&mut rest, bases, &mut blocks).ok_or("it is cut off, or isn't sound")?;
        if !is_sound_path(&extent.path) {
            return Err(format!("no file can be called {:?}", extent.path));
        }
        if let Some(last) = extents.last()
            && order((&last.path, last.offset), (&extent.path, extent.offset)) != Ordering::Less
        {
            return Err(format!("{:?} is not in its order", extent.path));
        }
        extents.push(extent);
    }
    Ok(extents)
}

fn read_extent(rest: &mut &[u8], bases: u32, all: &mut u64) -> Option<Extent> {
    let entry = match take(rest, 1)? {
        [0] => Entry::File,
        [1] => Entry::Folder,
        _ => return None,
    };
    let length = usize::try_from(read_number(rest)?).ok()?;
    let path = std::str::from_utf8(take(rest, length)?).ok()?.to_owned();
    let (modified, offset, length) = (read_number(rest)?, read_number(rest)?, read_number(rest)?);
    let is_at = offset.is_multiple_of(EXTENT) && offset <= i64::MAX.cast_unsigned() - EXTENT;
    if length > EXTENT || !is_at || (entry == Entry::Folder && offset + length > 0) {
        return None;
    }
    let count = read_number(rest)?;
    // A frame takes at least five bytes.
    if count > rest.len() as u64 / 5 {
        return None;
    }
    let mut frames = Vec::new();
    for _ in 0..count {
        let frame = Frame {
            base: small(rest)?,
            pack: small(rest)?,
            at: read_number(rest)?,
            stored: small(rest)?,
            raw: small(rest)?,
        };
        let is_sound = frame.base <= bases
            && frame.raw as usize <= FRAME
            && frame.stored as usize <= 2 * FRAME
            && frame.at <= u64::from(u32::MAX);
        if !is_sound {
            return None;
        }
        frames.push(frame);
    }
    let wanted = length.div_ceil(BLOCK as u64);
    *all += wanted;
    if *all > MOST_BLOCKS {
        return None;
    }
    let mut blocks: Vec<Block> = Vec::new();
    while (blocks.len() as u64) < wanted {
        let run = read_number(rest)?;
        if run == 0 || run > wanted - blocks.len() as u64 {
            return None;
        }
        let Some(frame) = small(rest)?.checked_sub(1) else {
            blocks.extend((0..run).map(|_| Block::Zero));
            continue;
        };
        let raw = frames.get(frame as usize)?.raw;
        let mut at = small(rest)?;
        for _ in 0..run {
            let hash: Hash = take(rest, 16)?.try_into().ok()?;
            let bytes = u32::try_from(block_bytes(length, blocks.len())).ok()?;
            if at.checked_add(bytes)? > raw {
                return None;
            }
            blocks.push(Block::Stored { hash, frame, at });
            at += bytes;
        }
    }
    Some(Extent { entry, path, modified, offset, length, frames, blocks })
}

/// Whether a part has room for one more extent of so many blocks.
pub(crate) fn has_room(part: usize, blocks: u64, more: u64) -> bool {
    part <= MOST_OF_PART / 8 && blocks + more <= MOST_BLOCKS
}

/// A number in groups of seven bits, the lowest first.
fn number(mut value: u64, part: &mut Vec<u8>) {
    while value >= 0x80 {
        part.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    part.push((value & 0x7f) as u8);
}

fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for nth in 0..10 {
        let byte = *take(rest, 1)?.first()?;
        let bits = u64::from(byte & 0x7f);
        value |= bits.checked_shl(nth * 7).filter(|shifted| shifted >> (nth * 7) == bits)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn small(rest: &mut &[u8]) -> Option<u32> {
    u32::try_from(read_number(rest)?).ok()
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(path: &str, length: u64) -> Extent {
        let frames = vec![Frame { base: 1, pack: 3, at: 700, stored: 900, raw: 3 * BLOCK as u32 }];
        let blocks = (0..length.div_ceil(BLOCK as u64)).map(|nth| match nth % 4 {
            3 => Block::Zero,
            nth => {
                Block::Stored { hash: [u8::try_from(nth).expect("small"); 16], frame: 0, at: nth as u32 * BLOCK as u32 }
            }
        });
        let blocks = blocks.collect();
        Extent { entry: Entry::File, path: path.into(), modified: 1_800_000_000, offset: 0, length, frames, blocks }
    }

    fn part(extents: &[Extent]) -> Vec<u8> {
        let mut part = begin();
        extents.iter().for_each(|extent| extent.write(&mut part));
        part
    }

    #[test]
    fn extents_and_back() {
        let folder = Extent {
            entry: Entry::Folder,
            path: "pg_wal".into(),
            modified: 0,
            offset: 0,
            length: 0,
            frames: Vec::new(),
            blocks: Vec::new(),
        };
        let all = vec![
            extent("PG_VERSION", 3),
            folder,
            extent("base/1/empty", 0),
            extent("base/1/x", 10 * BLOCK as u64 + 5),
            Extent { offset: EXTENT, ..extent("base/1/x", 7) },
        ];
        assert_eq!(read(&part(&all), 1), Ok(all.clone()));
        read(&part(&all), 0).expect_err("a base that the manifest doesn't name");
        let turned: Vec<Extent> = all.into_iter().rev().collect();
        assert!(read(&part(&turned), 1).expect_err("the order").contains("order"));
    }

    #[test]
    fn no_path_leads_out() {
        for path in ["../x", "/etc/passwd", "a//b", "a/../b", "", ".", "a/\0"] {
            assert!(read(&part(&[extent(path, 1)]), 1).is_err(), "{path:?}");
        }
        assert!(is_sound_path("pg_tblspc/16384/PG_15_202209061/5/16385"));
    }

    #[test]
    fn a_block_is_within_its_frame() {
        let mut wrong = extent("x", 3 * BLOCK as u64);
        wrong.frames[0].raw -= 1;
        assert!(read(&part(&[wrong]), 1).is_err());
    }

    #[test]
    fn a_few_bytes_never_become_much_memory() {
        let mut bytes = begin();
        for path in 0..100 {
            let path = format!("f{path:03}");
            bytes.extend_from_slice(&[0, 4]);
            bytes.extend_from_slice(path.as_bytes());
            [0, 0, EXTENT, 0, EXTENT / BLOCK as u64, 0].into_iter().for_each(|it| number(it, &mut bytes));
        }
        assert!(read(&bytes, 0).is_err(), "100 GiB of zeros in one part");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0_usize..400) {
            let mut with_magic = begin();
            with_magic.extend_from_slice(&bytes);
            let _ = read(&with_magic, 3);
            let whole = part(&[extent("a/b", 9 * BLOCK as u64)]);
            let mut damaged = whole[..cut.min(whole.len())].to_vec();
            let _ = read(&damaged, 3);
            damaged.extend_from_slice(&bytes);
            let _ = read(&damaged, 3);
        }
    }
}
