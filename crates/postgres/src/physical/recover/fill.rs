//! Files from packs: which frames are fetched for which blocks, checked, and written once at their place.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_archive::{Codec, Decoder};
use seawall_core::Progress;
use seawall_vault::Vault;

use super::super::base::index::{BLOCK, Block, Entry, Extent, Frame, Hash, block_bytes};
use super::super::base::store::{self, corrupt};
use super::super::base::{BaseManifest, layout};
use super::folder::Folders;
use super::handed::HANDED_OVER;
use super::listing::Restored;
use crate::Error;

/// Blocks that are restored with one step.
const WINDOW: usize = (4 << 20) / BLOCK;

/// The most bytes that are fetched with one request.
const RANGE: u64 = 4 << 20;

/// Bytes of a pack between two frames that are fetched along, because a request costs more.
const BETWEEN: u64 = 64 << 10;

/// Memory of a step: the blocks, what was fetched for them, and a frame.
const STEP: u64 = 10 << 20;

/// Memory beside steps: code, and a part of the index.
const OVERHEAD: u64 = 40 << 20;

/// Blocks of one file that are restored together.
#[derive(Debug, Clone)]
struct Window {
    extent: Arc<Extent>,
    first: usize,
    blocks: usize,
}

impl Window {
    /// Where it begins in its file.
    fn offset(&self) -> u64 {
        self.extent.offset + (self.first * BLOCK) as u64
    }

    /// Its bytes.
    fn bytes(&self) -> usize {
        (self.first..self.first + self.blocks).map(|nth| block_bytes(self.extent.length, nth)).sum()
    }
}

/// Where the content of a frame goes.
#[derive(Debug, Clone, Copy)]
struct Goes {
    window: usize,
    /// Where in the window.
    to: usize,
    bytes: usize,
    /// Where in the frame.
    at: usize,
    hash: Hash,
}

/// Frames that are fetched with one request.
#[derive(Debug)]
struct Fetch {
    base: u32,
    pack: u32,
    start: u64,
    end: u64,
    frames: Vec<(Frame, Vec<Goes>)>,
}

/// A base that is being restored.
pub(crate) struct Filling {
    pub(crate) vault: Vault,
    pub(crate) system: u64,
    pub(crate) manifest: Arc<BaseManifest>,
    pub(crate) folders: Arc<Folders>,
    pub(crate) decoders: Mutex<Vec<Decoder>>,
}

/// How many steps are done at once.
pub(crate) fn steps(memory: u64, jobs: usize) -> usize {
    let fits = usize::try_from(memory.saturating_sub(OVERHEAD) / STEP).unwrap_or(usize::MAX);
    fits.clamp(1, 2 * jobs.max(1))
}

/// Restores all files of a base; `told` gets each of them, in the order of the index.
pub(crate) async fn fill(
    filling: &Arc<Filling>,
    steps: usize,
    progress: &Arc<dyn Progress>,
    mut told: impl FnMut(Restored) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut open: Option<Restored> = None;
    for part in 0..filling.manifest.index.len() {
        let extents = store::part(&filling.vault, filling.system, &filling.manifest, part).await?;
        if let Some(stray) = extents.iter().find(|extent| is_stray(&extent.path)) {
            let object = filling.vault.object(&layout::manifest(filling.system, filling.manifest.id)?);
            return Err(corrupt(object, format!("its index has {}, which no tablespace has", stray.path)));
        }
        let is_kept = |extent: &Extent| filling.is_kept(&extent.path);
        let windows = stream::iter(plan(extents.into_iter().filter(is_kept).collect())).then(|step| {
            let filling = Arc::clone(filling);
            async move { filling.folder(step).await }
        });
        let work = windows.map(|windows| {
            let filling = Arc::clone(filling);
            async move { filling.step(windows?).await }
        });
        let mut done = std::pin::pin!(work.buffered(steps));
        while let Some(windows) = done.try_next().await? {
            for (window, crc) in windows {
                let bytes = window.bytes() as u64;
                progress.advance(bytes);
                match &mut open {
                    Some(file) if file.path == window.extent.path => {
                        if file.bytes != window.offset() {
                            return Err(torn(&file.path));
                        }
                        let (one, other) = (u64::from(file.crc), u64::from(crc));
                        let joined = crc_fast::checksum_combine(crc_fast::CrcAlgorithm::Crc32Iscsi, one, other, bytes);
                        file.crc = u32::try_from(joined).unwrap_or_default();
                        file.bytes += bytes;
                    }
                    _ => {
                        if window.offset() != 0 {
                            return Err(torn(&window.extent.path));
                        }
                        let (path, modified) = (window.extent.path.clone(), window.extent.modified);
                        let next = Restored { path, bytes, modified, crc };
                        if let Some(file) = open.replace(next) {
                            told(file)?;
                        }
                    }
                }
            }
        }
    }
    open.map_or(Ok(()), told)
}

/// Whether a path is in a tablespace, and not in the folder that a server makes there. A tablespace may go to any place that was
/// named, where nothing else may be made (I11).
fn is_stray(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_in_tablespace = parts.next() == Some("pg_tblspc") && parts.next().is_some();
    is_in_tablespace && parts.next().is_some_and(|folder| !folder.starts_with("PG_"))
}

fn torn(path: &str) -> Error {
    corrupt(path, "the index of the base has only parts of it")
}

/// What is done in a step.
#[derive(Debug)]
enum Step {
    Folder(String),
    Windows(Vec<Window>),
}

/// Cuts extents into steps: small files go together, because they share frames.
fn plan(extents: Vec<Extent>) -> impl Iterator<Item = Step> {
    let mut pieces = extents.into_iter().flat_map(|extent| {
        let extent = Arc::new(extent);
        let windows = extent.blocks.len().div_ceil(WINDOW).max(1);
        (0..windows).map(move |nth| {
            let first = nth * WINDOW;
            let blocks = extent.blocks.len().saturating_sub(first).min(WINDOW);
            Window { extent: Arc::clone(&extent), first, blocks }
        })
    });
    let mut pending: Option<Window> = None;
    std::iter::from_fn(move || {
        let (mut windows, mut blocks) = (Vec::new(), 0);
        while let Some(window) = pending.take().or_else(|| pieces.next()) {
            let is_folder = window.extent.entry == Entry::Folder;
            if is_folder && windows.is_empty() {
                return Some(Step::Folder(window.extent.path.clone()));
            }
            // A file counts as a block, so that a thousand empty ones are no single step.
            if is_folder || (!windows.is_empty() && blocks + window.blocks.max(1) > WINDOW) {
                pending = Some(window);
                break;
            }
            blocks += window.blocks.max(1);
            windows.push(window);
        }
        (!windows.is_empty()).then_some(Step::Windows(windows))
    })
}

/// Which requests bring the blocks of these windows. Pure.
fn fetches(windows: &[Window]) -> Option<Vec<Fetch>> {
    let mut wanted: BTreeMap<Frame, Vec<Goes>> = BTreeMap::new();
    for (nth, window) in windows.iter().enumerate() {
        let blocks = window.extent.blocks.get(window.first..window.first + window.blocks)?;
        for (place, block) in blocks.iter().enumerate() {
            let Block::Stored { hash, frame, at } = *block else { continue };
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

impl Filling {
    /// Whether a path is restored: a tablespace that was made after the backup began is in the log, and what an earlier restore
    /// handed over is written anew.
    fn is_kept(&self, path: &str) -> bool {
        if path == HANDED_OVER {
            return false;
        }
        let mut parts = path.split('/');
        if parts.next() != Some("pg_tblspc") {
            return true;
        }
        let Some(Ok(oid)) = parts.next().map(str::parse::<u32>) else { return true };
        let manifest = &self.manifest;
        manifest.in_place.contains(&oid) || manifest.tablespaces.iter().any(|tablespace| tablespace.oid == oid)
    }

    /// Makes a folder at once, because what comes next may lie in it.
    async fn folder(self: Arc<Self>, step: Step) -> Result<Vec<Window>, Error> {
        match step {
            Step::Windows(windows) => Ok(windows),
            Step::Folder(path) => {
                seawall_core::blocking(move || self.folders.folder(&path)).await?;
                Ok(Vec::new())
            }
        }
    }

    async fn step(self: Arc<Self>, windows: Vec<Window>) -> Result<Vec<(Window, u32)>, Error> {
        if windows.is_empty() {
            return Ok(Vec::new());
        }
        let fetches = fetches(&windows).ok_or_else(|| torn(&windows[0].extent.path))?;
        let mut contents: Vec<Vec<u8>> = windows.iter().map(|window| vec![0; window.bytes()]).collect();
        for fetch in fetches {
            let (bytes, object) = self.fetch(&fetch).await?;
            let filling = Arc::clone(&self);
            contents = seawall_core::blocking(move || {
                filling.take(&fetch, &bytes, &object, &mut contents)?;
                Ok::<_, Error>(contents)
            })
            .await?;
        }
        seawall_core::blocking(move || self.write(windows, &contents)).await
    }

    /// Bytes of a pack, and what it is called.
    async fn fetch(&self, fetch: &Fetch) -> Result<(Bytes, String), Error> {
        let Some((id, sealed)) = self.manifest.pack(fetch.base, fetch.pack) else {
            let object = layout::manifest(self.system, self.manifest.id)?;
            return Err(corrupt(self.vault.object(&object), "its index names a pack that it doesn't name itself"));
        };
        let key = layout::pack(self.system, id, fetch.pack)?;
        let object = self.vault.object(&key);
        if fetch.end > sealed.bytes {
            return Err(corrupt(object, "the index names bytes behind its end"));
        }
        let read = self.vault.read(&key, Some(fetch.start..fetch.end), fetch.end - fetch.start).await;
        let bytes = read.map_err(seawall_archive::Error::from)?;
        if bytes.len() as u64 != fetch.end - fetch.start {
            return Err(corrupt(
                object,
                format!("it ends before the {} bytes that its base's manifest names", sealed.bytes),
            ));
        }
        Ok((bytes, object))
    }

    /// Decompresses frames, checks each block, and puts it into its window.
    fn take(&self, fetch: &Fetch, bytes: &[u8], object: &str, contents: &mut [Vec<u8>]) -> Result<(), Error> {
        let kept = self.decoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let defect = |error: std::io::Error| Error::Internal(format!("zstd: {error}"));
        let mut decoder = kept.map_or_else(|| Decoder::new(Codec::default()), Ok).map_err(defect)?;
        let mut raw = Vec::new();
        for (frame, all) in &fetch.frames {
            let at = usize::try_from(frame.at - fetch.start).unwrap_or(usize::MAX);
            let stored = bytes.get(at..at.saturating_add(frame.stored as usize));
            let stored = stored.ok_or_else(|| corrupt(object, "a frame of it is cut off"))?;
            let decoded = decoder.decode(stored, frame.raw as usize, &mut raw);
            decoded.map_err(|cause| corrupt(object, format!("a frame at byte {} isn't sound: {cause}", frame.at)))?;
            for goes in all {
                let content = raw.get(goes.at..goes.at.saturating_add(goes.bytes));
                let content = content.filter(|content| blake3::hash(content).as_bytes()[..16] == goes.hash);
                let to = contents.get_mut(goes.window).and_then(|all| all.get_mut(goes.to..goes.to + goes.bytes));
                let (Some(content), Some(to)) = (content, to) else {
                    let cause =
                        format!("a block in the frame at byte {} has another hash than the index says", frame.at);
                    return Err(corrupt(object, cause));
                };
                to.copy_from_slice(content);
            }
        }
        self.decoders.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
        Ok(())
    }

    /// Writes windows, leaving out blocks that hold only zeros, and returns the CRC-32C of each.
    fn write(&self, windows: Vec<Window>, contents: &[Vec<u8>]) -> Result<Vec<(Window, u32)>, Error> {
        let mut written = Vec::with_capacity(windows.len());
        for (window, content) in windows.into_iter().zip(contents) {
            let path = &window.extent.path;
            let failed = |error: std::io::Error| Error::Io { path: path.clone(), cause: error.to_string() };
            let file = self.folders.open(path)?;
            let mut blocks =
                window.extent.blocks[window.first..window.first + window.blocks].iter().enumerate().peekable();
            while let Some((nth, block)) = blocks.next() {
                if *block == Block::Zero {
                    continue;
                }
                let mut end = nth + 1;
                while blocks.next_if(|(_, block)| **block != Block::Zero).is_some() {
                    end += 1;
                }
                let bytes = &content[nth * BLOCK..content.len().min(end * BLOCK)];
                file.write_all_at(bytes, window.offset() + (nth * BLOCK) as u64).map_err(failed)?;
            }
            // Of zeros at the end the last one is written: it makes the file as long as it was.
            let is_last = window.first + window.blocks == window.extent.blocks.len();
            if is_last && window.extent.blocks.last() == Some(&Block::Zero) {
                file.write_all_at(&[0], window.offset() + content.len() as u64 - 1).map_err(failed)?;
            }
            let crc = super::super::base::control::crc32c(content);
            written.push((window, crc));
        }
        Ok(written)
    }
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
        let steps: Vec<String> = plan(all)
            .map(|step| match step {
                Step::Folder(path) => path,
                Step::Windows(windows) => {
                    let one = |window: &Window| format!("{}+{}x{}", window.extent.path, window.first, window.blocks);
                    windows.iter().map(one).collect::<Vec<_>>().join(" ")
                }
            })
            .collect();
        assert_eq!(steps, ["a+0x1 b+0x0", "d", "e+0x128", "e+128x128", "e+256x44 f+0x3"]);
    }

    #[test]
    fn neighbours_are_fetched_together() {
        let extent = Arc::new(extent("a", Entry::File, 300));
        let windows = [Window { extent, first: 0, blocks: 300 }];
        let found: Vec<(u32, u64, u64, usize)> = fetches(&windows)
            .expect("sound")
            .iter()
            .map(|fetch| (fetch.pack, fetch.start, fetch.end, fetch.frames.len()))
            .collect();
        assert_eq!(found, [(0, 0, 8000, 8), (1, 0, 2000, 2)]);
    }

    #[test]
    fn steps_fit_the_memory() {
        for (memory, jobs, expected) in [(128 << 20, 2, 4), (128 << 20, 16, 8), (0, 4, 1), (u64::MAX, 3, 6)] {
            assert_eq!(steps(memory, jobs), expected, "{memory} {jobs}");
        }
    }
}
