//! What becomes of the bytes that were read: pages are judged, blocks hashed and compared with the base before, and what
//! is new compressed. Pure work for a blocking thread.

use std::collections::BTreeSet;

use seawall_archive::Encoder;

use super::index::{BLOCK, Block, EXTENT, FRAME, Frame, Hash, block_bytes};
use super::pages::{PAGE, Page, judge};
use super::read::{Piece, Raw};
use crate::Error;
use seawall_archive::log::Lsn;

/// How pages are judged.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Where the backup's log begins, if pages have checksums.
    pub(crate) judged_from: Option<Lsn>,
    /// Pages of a file of a relation.
    pub(crate) segment_pages: u32,
    /// Packs of the base before that aren't there: (base, pack).
    pub(crate) gone: BTreeSet<(u32, u32)>,
}

/// A page whose checksum is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suspect {
    /// The piece it is in.
    pub(crate) piece: usize,
    /// Where it begins in the piece.
    pub(crate) at: usize,
    /// Its number in the relation.
    pub(crate) page: u32,
}

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Only zeros.
    Zero,
    /// In a new frame of this work.
    New { hash: Hash, frame: u32, at: u32 },
    /// In a frame of the base before.
    Old { hash: Hash, frame: Frame, at: u32 },
}

/// A piece, worked through.
#[derive(Debug)]
pub(crate) struct Worked {
    /// Bytes that were there; `None` if the file is gone.
    pub(crate) length: Option<usize>,
    pub(crate) blocks: Vec<Placed>,
}

/// A new frame.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) raw: u32,
    pub(crate) stored: Vec<u8>,
}

/// Pieces, worked through.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) pieces: Vec<Worked>,
    pub(crate) frames: Vec<Made>,
    /// Bytes that were new.
    pub(crate) sent: u64,
}

/// The pages that are neither sound nor changing.
pub(crate) fn suspects(pieces: &[Piece], raw: &Raw, rules: &Rules) -> Vec<Suspect> {
    let Some(start) = rules.judged_from else { return Vec::new() };
    let mut found = Vec::new();
    for (nth, (piece, place)) in pieces.iter().zip(&raw.places).enumerate() {
        let (Some(relation), Some(place)) = (piece.relation, place) else { continue };
        let (pages, _) = raw.bytes[place.clone()].as_chunks::<PAGE>();
        let first = u64::from(relation.segment) * u64::from(rules.segment_pages) + piece.offset / PAGE as u64;
        for (number, page) in pages.iter().enumerate() {
            let Ok(page_number) = u32::try_from(first + number as u64) else { continue };
            if judge(page, page_number, start) == Page::Damaged {
                found.push(Suspect { piece: nth, at: number * PAGE, page: page_number });
            }
        }
    }
    found
}

/// Compares with the base before, and compresses what is new.
pub(crate) fn work(pieces: &[Piece], raw: &Raw, rules: &Rules, encoder: &mut Encoder) -> Result<Work, Error> {
    let mut frames = Frames { made: Vec::new(), filling: Vec::with_capacity(FRAME), sent: 0 };
    let mut worked = Vec::with_capacity(pieces.len());
    for (piece, place) in pieces.iter().zip(&raw.places) {
        let Some(place) = place else {
            worked.push(Worked { length: None, blocks: Vec::new() });
            continue;
        };
        let bytes = &raw.bytes[place.clone()];
        let mut blocks = Vec::with_capacity(bytes.len().div_ceil(BLOCK));
        let first = usize::try_from(piece.offset % EXTENT).unwrap_or(0) / BLOCK;
        for (nth, block) in bytes.chunks(BLOCK).enumerate() {
            blocks.push(if is_zero(block) {
                Placed::Zero
            } else {
                let hash = hash(block);
                match old(piece, first + nth, block.len(), &hash, &rules.gone) {
                    Some((frame, at)) => Placed::Old { hash, frame, at },
                    None => {
                        let (frame, at) = frames.add(block, encoder)?;
                        Placed::New { hash, frame, at }
                    }
                }
            });
        }
        worked.push(Worked { length: Some(bytes.len()), blocks });
    }
    frames.seal(encoder)?;
    Ok(Work { pieces: worked, frames: frames.made, sent: frames.sent })
}

/// The hash of a block.
pub(crate) fn hash(block: &[u8]) -> Hash {
    let mut first = Hash::default();
    first.copy_from_slice(&blake3::hash(block).as_bytes()[..16]);
    first
}

/// Whether a block holds only zeros.
pub(crate) fn is_zero(block: &[u8]) -> bool {
    let (words, rest) = block.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// Where the base before has this very block, if it has it and its pack is there.
fn old(piece: &Piece, nth: usize, bytes: usize, hash: &Hash, gone: &BTreeSet<(u32, u32)>) -> Option<(Frame, u32)> {
    let before = piece.before.as_ref()?;
    let Block::Stored { hash: its, frame, at } = before.blocks.get(nth)? else { return None };
    let frame = before.frames.get(*frame as usize)?;
    let is_same = its == hash && block_bytes(before.length, nth) == bytes;
    (is_same && !gone.contains(&(frame.base, frame.pack))).then_some((*frame, *at))
}

/// New frames.
struct Frames {
    made: Vec<Made>,
    filling: Vec<u8>,
    sent: u64,
}

impl Frames {
    /// Appends a block; returns its frame and its place there.
    fn add(&mut self, block: &[u8], encoder: &mut Encoder) -> Result<(u32, u32), Error> {
        if self.filling.len() + block.len() > FRAME {
            self.seal(encoder)?;
        }
        let place = (self.made.len(), self.filling.len());
        self.filling.extend_from_slice(block);
        self.sent += block.len() as u64;
        let small = |value: usize| u32::try_from(value).map_err(|_| Error::Internal("too many frames".to_owned()));
        Ok((small(place.0)?, small(place.1)?))
    }

    fn seal(&mut self, encoder: &mut Encoder) -> Result<(), Error> {
        if self.filling.is_empty() {
            return Ok(());
        }
        let mut stored = Vec::new();
        let defect = |error: std::io::Error| Error::Internal(format!("a frame can't be compressed: {error}"));
        encoder.encode(&self.filling, &mut stored).map_err(defect)?;
        let raw = u32::try_from(self.filling.len()).unwrap_or(u32::MAX);
        self.made.push(Made { raw, stored });
        self.filling.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_archive::Codec;

    use super::super::index::{Entry, Extent};
    use super::*;

    fn piece(length: usize, before: Option<Extent>) -> Piece {
        Piece { path: "base/5/1".into(), modified: 0, offset: 0, length, relation: None, before: before.map(Arc::new) }
    }

    fn raw(bytes: &[u8]) -> Raw {
        Raw { bytes: bytes.to_vec(), places: vec![Some(0..bytes.len())] }
    }

    fn rules(gone: &[(u32, u32)]) -> Rules {
        Rules { judged_from: None, segment_pages: 131_072, gone: gone.iter().copied().collect() }
    }

    /// The extent that the base before has of these bytes, in one frame.
    fn before(bytes: &[u8]) -> Extent {
        let frame = Frame { base: 0, pack: 9, at: 0, stored: 10, raw: u32::try_from(bytes.len()).expect("small") };
        let block = |(nth, block): (usize, &[u8])| match is_zero(block) {
            true => Block::Zero,
            false => Block::Stored { hash: hash(block), frame: 0, at: (nth * BLOCK) as u32 },
        };
        Extent {
            entry: Entry::File,
            path: "base/5/1".into(),
            modified: 0,
            offset: 0,
            length: bytes.len() as u64,
            frames: vec![frame],
            blocks: bytes.chunks(BLOCK).enumerate().map(block).collect(),
        }
    }

    #[test]
    fn only_what_changed_is_sent() {
        let old: Vec<u8> = (0..5 * BLOCK + 100).map(|at| (at / 97) as u8 | 1).collect();
        let mut new = old.clone();
        new[BLOCK + 7] ^= 0x80;
        new[3 * BLOCK..4 * BLOCK].fill(0);
        new.extend([1; 50]);
        let mut encoder = Encoder::new(Codec::default()).expect("zstd");
        let mut kinds = |bytes: &[u8], before: Option<Extent>, gone: &[(u32, u32)]| {
            let pieces = [piece(bytes.len(), before)];
            let work = work(&pieces, &raw(bytes), &rules(gone), &mut encoder).expect("worked");
            let kind = |placed: &Placed| match placed {
                Placed::Zero => 'z',
                Placed::New { .. } => 'n',
                Placed::Old { .. } => 'o',
            };
            (work.pieces[0].blocks.iter().map(kind).collect::<String>(), work.sent, work.frames.len())
        };
        assert_eq!(kinds(&old, None, &[]), ("nnnnnn".into(), old.len() as u64, 1));
        assert_eq!(kinds(&old, Some(before(&old)), &[]), ("oooooo".into(), 0, 0));
        assert_eq!(kinds(&old, Some(before(&old)), &[(0, 9)]).0, "nnnnnn", "the pack is gone");
        let last = (BLOCK + 150) as u64;
        assert_eq!(kinds(&new, Some(before(&old)), &[]), ("onozon".into(), last, 1), "the last one grew");
        // What is cut off has another last block.
        assert_eq!(kinds(&old[..2 * BLOCK + 5], Some(before(&old)), &[]).0, "oon");
    }
}
