//! What of a restore goes together: the blocks of a step, what of them is there, what is fetched for them, and when a file is whole.
//! Pure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::base::chunk::{self, is_zero};
use super::super::base::corrupt;
use super::super::base::index::{BLOCK, Block, Entry, Extent, Frame, Hash, block_bytes};
use super::listing::Restored;
use crate::Error;

/// Blocks that are restored with one step.
pub(super) const WINDOW: usize = (4 << 20) / BLOCK;

/// The most bytes that are fetched with one request.
const RANGE: u64 = 4 << 20;

/// Bytes of a pack between two frames that are fetched along, because a request costs more.
const BETWEEN: u64 = 64 << 10;

/// Blocks of one file that are restored together.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) extent: Arc<Extent>,
    pub(super) first: usize,
    pub(super) blocks: usize,
    /// Whether its file is whole with it.
    pub(super) is_all: bool,
}

impl Window {
    /// Where it begins in its file.
    pub(super) fn offset(&self) -> u64 {
        self.extent.offset + (self.first * BLOCK) as u64
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> usize {
        (self.first..self.first + self.blocks).map(|nth| block_bytes(self.extent.length, nth)).sum()
    }
}

/// The bytes of a window, and which of its blocks its file already has.
#[derive(Debug)]
pub(super) struct State {
    pub(super) content: Vec<u8>,
    pub(super) there: Vec<bool>,
}

/// What a file has at the place of a window.
#[derive(Debug)]
pub(super) struct Had {
    /// As far as the file goes. A block that can't be read is zeros.
    pub(super) content: Vec<u8>,
    /// The blocks that can't be read: their part of the disk is damaged.
    pub(super) unread: Vec<usize>,
}

impl Had {
    /// Reads into `content`, which is as long as the window, with `read_at`. Where that fails, it goes on block by block.
    pub(super) fn read(
        mut content: Vec<u8>,
        mut read_at: impl FnMut(&mut [u8], u64) -> std::io::Result<usize>,
    ) -> Self {
        let (mut had, mut unread) = (0, Vec::new());
        while had < content.len() {
            match read_at(&mut content[had..], had as u64) {
                Ok(0) => break,
                Ok(read) => had += read,
                Err(_) => {
                    let (nth, end) = (had / BLOCK, content.len().min((had / BLOCK + 1) * BLOCK));
                    // A read of many blocks fails for one of them.
                    match read_at(&mut content[had..end], had as u64) {
                        Ok(0) => break,
                        Ok(read) => had += read,
                        Err(_) => {
                            content[had..end].fill(0);
                            unread.push(nth);
                            had = end;
                        }
                    }
                }
            }
        }
        content.truncate(had);
        Self { content, unread }
    }
}

impl State {
    /// Nothing is there, and a new file holds zeros. The memory of `content` is used.
    pub(super) fn new(window: &Window, mut content: Vec<u8>) -> Self {
        content.resize(window.bytes(), 0);
        let blocks = window.extent.blocks.iter().skip(window.first).take(window.blocks);
        let there: Vec<bool> = blocks.map(|block| *block == Block::Zero).collect();
        let zeros = content.chunks_mut(BLOCK).zip(&there).filter(|(_, is_zero)| **is_zero);
        zeros.for_each(|(block, _)| block.fill(0));
        Self { content, there }
    }

    /// What a file has at the window's place is compared with the base. Pure.
    pub(super) fn of(window: &Window, Had { mut content, unread }: Had) -> Self {
        let had = content.len();
        content.resize(window.bytes(), 0);
        let blocks = window.extent.blocks.iter().skip(window.first).take(window.blocks);
        let there = content.chunks_mut(BLOCK).zip(blocks).enumerate();
        let there = there.map(|(nth, (content, block))| match block {
            // It is written, so that the disk has another place for it.
            _ if unread.contains(&nth) => {
                content.fill(0);
                false
            }
            // What is behind the end of the file is zeros when the file has grown.
            Block::Zero if is_zero(content) => true,
            Block::Zero => {
                content.fill(0);
                false
            }
            Block::Stored { hash, .. } => nth * BLOCK + content.len() <= had && chunk::hash(content) == *hash,
        });
        let there = there.collect();
        Self { content, there }
    }
}

/// Where the content of a frame goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goes {
    pub(super) window: usize,
    /// Where in the window.
    pub(super) to: usize,
    pub(super) bytes: usize,
    /// Where in the frame.
    pub(super) at: usize,
    pub(super) hash: Hash,
}

/// Frames that are fetched with one request.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) base: u32,
    pub(super) pack: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) frames: Vec<(Frame, Vec<Goes>)>,
}

/// Files of which windows were restored, in any order.
#[derive(Debug, Default)]
pub(super) struct Begun(BTreeMap<String, Stretches>);

/// What is there of a file: when it was modified, and by their offsets the bytes and the CRC-32C of its stretches.
#[derive(Debug, Default)]
struct Stretches {
    modified: u64,
    found: BTreeMap<u64, (u64, u32)>,
}

impl Begun {
    /// Adds a window, and joins it with the stretch that it follows.
    pub(super) fn add(&mut self, window: &Window, crc: u32) {
        let stretches = self.0.entry(window.extent.path.clone()).or_default();
        stretches.modified = window.extent.modified;
        let (offset, bytes) = (window.offset(), window.bytes() as u64);
        match stretches.found.range_mut(..=offset).next_back() {
            Some((start, (before, its))) if *start + *before == offset && *before > 0 => {
                *its = joined(*its, crc, bytes);
                *before += bytes;
            }
            _ => drop(stretches.found.insert(offset, (bytes, crc))),
        }
    }

    /// Takes a file out of which everything was restored.
    ///
    /// # Errors
    /// A part of it is missing.
    pub(super) fn end(&mut self, path: &str) -> Result<Option<Restored>, Error> {
        let Some(Stretches { modified, found }) = self.0.remove(path) else { return Ok(None) };
        let (mut bytes, mut crc) = (0, 0);
        for (offset, (more, its)) in found {
            if offset != bytes {
                return Err(torn(path));
            }
            crc = if bytes == 0 { its } else { joined(crc, its, more) };
            bytes += more;
        }
        Ok(Some(Restored { path: path.to_owned(), bytes, modified, crc }))
    }

    /// All files but this one.
    pub(super) fn others(&self, path: Option<&str>) -> Vec<String> {
        self.0.keys().filter(|its| Some(its.as_str()) != path).cloned().collect()
    }
}

/// The CRC-32C of two stretches of which the second one has so many bytes.
fn joined(one: u32, other: u32, bytes: u64) -> u32 {
    let joined =
        crc_fast::checksum_combine(crc_fast::CrcAlgorithm::Crc32Iscsi, u64::from(one), u64::from(other), bytes);
    u32::try_from(joined).unwrap_or_default()
}

pub(super) fn torn(path: &str) -> Error {
    corrupt(path, "the index of the base has only parts of it")
}

/// What is done in a step.
#[derive(Debug)]
pub(super) enum Step {
    Folder(String),
    Windows(Vec<Window>),
}

/// Cuts extents into steps. Small files go together, because they share frames. The windows of `lanes` large files take turns:
/// the system lets one thread at a time write to a file.
pub(super) fn plan(extents: Vec<Extent>, lanes: usize) -> impl Iterator<Item = Step> {
    let mut files = cut(extents).peekable();
    let mut large: VecDeque<VecDeque<Window>> = VecDeque::new();
    let (mut group, mut blocks) = (Vec::new(), 0);
    std::iter::from_fn(move || {
        loop {
            if large.len() >= lanes.max(1) || (files.peek().is_none() && !large.is_empty()) {
                let mut windows = large.pop_front()?;
                let next = windows.pop_front()?;
                if !windows.is_empty() {
                    large.push_back(windows);
                }
                return Some(Step::Windows(vec![next]));
            }
            let windows = files.peek();
            let first = windows.and_then(|windows| windows.front());
            let (is_folder, is_large) = (
                first.is_some_and(|window| window.extent.entry == Entry::Folder),
                windows.is_some_and(|windows| windows.len() > 1),
            );
            // A file counts as a block, so that a thousand empty ones are no single step.
            let more = first.map_or(0, |window| window.blocks.max(1));
            let is_full = first.is_none() || is_folder || (!is_large && blocks + more > WINDOW);
            if is_full && !group.is_empty() {
                blocks = 0;
                return Some(Step::Windows(std::mem::take(&mut group)));
            }
            let mut windows = files.next()?;
            if is_folder {
                return windows.pop_front().map(|window| Step::Folder(window.extent.path.clone()));
            }
            if is_large {
                large.push_back(windows);
            } else {
                blocks += more;
                group.extend(windows);
            }
        }
    })
}

/// The windows of each extent.
fn cut(extents: Vec<Extent>) -> impl Iterator<Item = VecDeque<Window>> {
    let paths: Vec<bool> = (0..extents.len())
        .map(|nth| {
            let path = |nth: Option<usize>| nth.and_then(|nth| extents.get(nth)).map(|extent| extent.path.as_str());
            let (own, before, next) = (path(Some(nth)), path(nth.checked_sub(1)), path(Some(nth + 1)));
            next.is_some() && own != next && own != before && extents[nth].offset == 0
        })
        .collect();
    extents.into_iter().zip(paths).map(|(extent, is_alone)| {
        let extent = Arc::new(extent);
        let windows = extent.blocks.len().div_ceil(WINDOW).max(1);
        let window = |nth: usize| {
            let first = nth * WINDOW;
            let blocks = extent.blocks.len().saturating_sub(first).min(WINDOW);
            Window { extent: Arc::clone(&extent), first, blocks, is_all: is_alone && nth + 1 == windows }
        };
        (0..windows).map(window).collect()
    })
}

/// Which requests bring the blocks of these windows that aren't there. Pure.
pub(super) fn fetches(windows: &[Window], states: &[State]) -> Option<Vec<Fetch>> {
    let mut wanted: BTreeMap<Frame, Vec<Goes>> = BTreeMap::new();
    for (nth, (window, state)) in windows.iter().zip(states).enumerate() {
        let blocks = window.extent.blocks.get(window.first..window.first + window.blocks)?;
        for (place, (block, is_there)) in blocks.iter().zip(&state.there).enumerate() {
            let Block::Stored { hash, frame, at } = *block else { continue };
            if *is_there {
                continue;
            }
            let bytes = block_bytes(window.extent.length, window.first + place);
            let frame = *window.extent.frames.get(frame as usize)?;
            let goes = Goes { window: nth, to: place * BLOCK, bytes, at: at as usize, hash };
            wanted.entry(frame).or_default().push(goes);
        }
    }
    let mut fetches: Vec<Fetch> = Vec::new();
    for (frame, goes) in wanted {
        let (start, end) = (frame.at, frame.at.checked_add(u64::from(frame.stored))?);
        match fetches.last_mut() {
            Some(last)
                if (last.base, last.pack) == (frame.base, frame.pack)
                    && start >= last.end
                    && start - last.end <= BETWEEN
                    && end - last.start <= RANGE =>
            {
                last.end = end;
                last.frames.push((frame, goes));
            }
            _ => fetches.push(Fetch { base: frame.base, pack: frame.pack, start, end, frames: vec![(frame, goes)] }),
        }
    }
    Some(fetches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(path: &str, entry: Entry, blocks: usize) -> Extent {
        let frames: Vec<Frame> = (0..blocks.div_ceil(32).max(1) as u32)
            .map(|nth| Frame { base: 0, pack: nth / 8, at: u64::from(nth % 8) * 1000, stored: 1000, raw: 1 << 20 })
            .collect();
        let block = |nth: usize| Block::Stored {
            hash: [0; 16],
            frame: u32::try_from(nth / 32).expect("small"),
            at: u32::try_from(nth % 32 * BLOCK).expect("small"),
        };
        let length = (blocks * BLOCK) as u64;
        let blocks = (0..blocks).map(block).collect();
        Extent { entry, path: path.into(), modified: 0, offset: 0, length, frames, blocks }
    }

    #[test]
    fn large_files_are_cut_and_small_ones_go_together() {
        let file = |path, blocks| extent(path, Entry::File, blocks);
        let all = vec![file("a", 1), file("b", 0), extent("d", Entry::Folder, 0), file("e", 300), file("f", 3)];
        let steps: Vec<String> = plan(all, 1)
            .map(|step| match step {
                Step::Folder(path) => path,
                Step::Windows(windows) => {
                    let one = |window: &Window| format!("{}+{}x{}", window.extent.path, window.first, window.blocks);
                    windows.iter().map(one).collect::<Vec<_>>().join(" ")
                }
            })
            .collect();
        assert_eq!(steps, ["a+0x1 b+0x0", "d", "e+0x128", "e+128x128", "e+256x44", "f+0x3"]);
    }

    #[test]
    fn large_files_take_turns() {
        let file = |path, blocks| extent(path, Entry::File, blocks);
        let all =
            || vec![file("a", 300), file("b", 2), file("c", 200), extent("d", Entry::Folder, 0), file("d/e", 129)];
        let turns = |lanes| {
            let one = |step| match step {
                Step::Folder(path) => path,
                Step::Windows(windows) => {
                    let one = |window: &Window| {
                        let all = if window.is_all { "!" } else { "" };
                        format!("{}+{}{all}", window.extent.path, window.first)
                    };
                    windows.iter().map(one).collect::<Vec<_>>().join(" ")
                }
            };
            plan(all(), lanes).map(one).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(turns(1), "a+0, a+128, a+256!, c+0, c+128!, b+0!, d, d/e+0, d/e+128");
        assert_eq!(turns(2), "a+0, c+0, a+128, c+128!, b+0!, d, a+256!, d/e+0, d/e+128");
        assert_eq!(turns(9), "b+0!, d, a+0, c+0, d/e+0, a+128, c+128!, d/e+128, a+256!");
    }

    #[test]
    fn windows_in_any_order_are_a_file() {
        let content: Vec<u8> = (0..300 * BLOCK).map(|at| (at / 7) as u8).collect();
        let extent = Arc::new(extent("a", Entry::File, 300));
        let windows: Vec<Window> = cut(vec![Arc::unwrap_or_clone(extent)]).flatten().collect();
        let crc = |window: &Window| {
            super::super::super::base::control::crc32c(&content[window.first * BLOCK..][..window.bytes()])
        };
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mut begun = Begun::default();
            order.iter().for_each(|nth| begun.add(&windows[*nth], crc(&windows[*nth])));
            assert_eq!(begun.others(Some("a")), Vec::<String>::new());
            let file = begun.end("a").expect("whole").expect("there");
            let whole = super::super::super::base::control::crc32c(&content);
            assert_eq!((file.bytes, file.crc), (content.len() as u64, whole), "{order:?}");
        }
        for order in [&[0, 2][..], &[1, 2], &[2]] {
            let mut begun = Begun::default();
            order.iter().for_each(|nth| begun.add(&windows[*nth], 0));
            assert!(begun.end("a").is_err(), "{order:?}");
        }
    }

    #[test]
    fn neighbours_are_fetched_together() {
        let extent = Arc::new(extent("a", Entry::File, 300));
        let windows = [Window { extent, first: 0, blocks: 300, is_all: true }];
        let found: Vec<(u32, u64, u64, usize)> = fetches(&windows, &[State::new(&windows[0], Vec::new())])
            .expect("sound")
            .iter()
            .map(|fetch| (fetch.pack, fetch.start, fetch.end, fetch.frames.len()))
            .collect();
        assert_eq!(found, [(0, 0, 8000, 8), (1, 0, 2000, 2)]);
    }

    #[test]
    fn only_what_differs_is_written() {
        let block = |byte: u8, bytes: usize| vec![byte; bytes];
        let stored = |content: &[u8]| Block::Stored { hash: chunk::hash(content), frame: 0, at: 0 };
        let mut extent = extent("a", Entry::File, 4);
        extent.length = (3 * BLOCK + 100) as u64;
        extent.blocks = vec![stored(&block(1, BLOCK)), Block::Zero, stored(&block(3, BLOCK)), stored(&block(4, 100))];
        let window = Window { extent: Arc::new(extent), first: 0, blocks: 4, is_all: true };
        let whole = [block(1, BLOCK), block(0, BLOCK), block(3, BLOCK), block(4, 100)].concat();
        let mut other = whole.clone();
        (other[5], other[BLOCK + 5], other[3 * BLOCK]) = (9, 9, 9);
        for (there, expected) in [
            (whole.clone(), [true, true, true, true]),
            (other, [false, false, true, false]),
            (whole[..3 * BLOCK + 99].to_vec(), [true, true, true, false]),
            (whole[..BLOCK + 10].to_vec(), [true, true, false, false]),
            (Vec::new(), [false, true, false, false]),
        ] {
            let state = State::of(&window, Had { content: there, unread: Vec::new() });
            assert_eq!(state.there, expected);
            assert_eq!(state.content.len(), whole.len());
            assert!(state.content[BLOCK..2 * BLOCK].iter().all(|byte| *byte == 0));
        }
        let used = State::new(&window, vec![9; 5 * BLOCK]);
        assert_eq!(used.there, [false, true, false, false]);
        assert!(used.content.len() == whole.len() && used.content[BLOCK..2 * BLOCK].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn blocks_that_can_not_be_read_are_written_anew() {
        let stored = |content: &[u8]| Block::Stored { hash: chunk::hash(content), frame: 0, at: 0 };
        let mut extent = extent("a", Entry::File, 4);
        extent.length = (3 * BLOCK + 100) as u64;
        let block = vec![7; BLOCK];
        extent.blocks = vec![stored(&block), Block::Zero, stored(&block), stored(&[7; 100])];
        let window = Window { extent: Arc::new(extent), first: 0, blocks: 4, is_all: true };
        let file = [&block[..], &vec![0; BLOCK], &block, &[7; 100]].concat();
        for (bad, expected) in [
            (&[][..], [true, true, true, true]),
            (&[0], [false, true, true, true]),
            // Zeros are written too: the disk gives another place for them.
            (&[1, 2], [true, false, false, true]),
            (&[3], [true, true, true, false]),
        ] {
            let had = Had::read(vec![0; window.bytes()], |to, at| {
                let at = usize::try_from(at).expect("small");
                let read = to.len().min(file.len() - at);
                let hits = |nth: &usize| nth * BLOCK < at + read && at < (nth + 1) * BLOCK;
                if bad.iter().any(hits) {
                    return Err(std::io::Error::from_raw_os_error(5));
                }
                to[..read].copy_from_slice(&file[at..at + read]);
                Ok(read)
            });
            assert_eq!(had.unread, bad);
            assert_eq!(State::of(&window, had).there, expected, "{bad:?}");
        }
    }
}
