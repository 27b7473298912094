//! Files from packs: which frames are fetched for which blocks, checked, and written once at their place.

use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_archive::{Codec, Decoder};
use seawall_core::Progress;
use seawall_vault::Vault;

use super::super::base::chunk;
use super::super::base::index::{BLOCK, Block, Extent};
use super::super::base::store::{self, corrupt};
use super::super::base::{BaseManifest, layout};
use super::folder::Folders;
use super::handed::HANDED_OVER;
use super::listing::Restored;
use super::lock::LOCK;
use super::over::{CONTROL_LATER, Kept, MARK};
use super::windows::{Begun, Fetch, Had, State, Step, WINDOW, Window, fetches, plan, torn};
use crate::Error;

/// Memory of a step: the blocks, what was fetched for them, and a frame.
const STEP: u64 = 10 << 20;

/// Memory beside steps: code, and a part of the index.
const OVERHEAD: u64 = 40 << 20;

/// A base that is being restored.
pub(crate) struct Filling {
    pub(crate) vault: Vault,
    pub(crate) system: u64,
    pub(crate) manifest: Arc<BaseManifest>,
    pub(crate) folders: Arc<Folders>,
    pub(crate) decoders: Mutex<Vec<Decoder>>,
    /// Memory of windows that are done.
    pub(crate) memory: Mutex<Vec<Vec<u8>>>,
    /// Bytes that were written.
    pub(crate) written: AtomicU64,
}

/// How many steps are done at once.
pub(crate) fn steps(memory: u64, jobs: usize) -> usize {
    let fits = usize::try_from(memory.saturating_sub(OVERHEAD) / STEP).unwrap_or(usize::MAX);
    fits.clamp(1, 2 * jobs.max(1))
}

/// Restores all files of a base; `told` gets each of them when it is whole.
pub(crate) async fn fill(
    filling: &Arc<Filling>,
    steps: usize,
    progress: &Arc<dyn Progress>,
    mut told: impl FnMut(Restored) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut told = |file: Restored| {
        filling.end(&file)?;
        told(file)
    };
    let mut begun = Begun::default();
    for part in 0..filling.manifest.index.len() {
        let extents = part_of(&filling.vault, filling.system, &filling.manifest, part).await?;
        // The next part may go on with this file.
        let last = extents.last().map(|extent| extent.path.clone());
        let kept = extents.into_iter().filter(|extent| is_kept(&filling.manifest, &extent.path)).collect();
        let windows = stream::iter(plan(kept, steps)).then(|step| {
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
                progress.advance(window.bytes() as u64);
                begun.add(&window, crc);
                if window.is_all {
                    begun.end(&window.extent.path)?.map_or(Ok(()), &mut told)?;
                }
            }
        }
        for path in begun.others(last.as_deref()) {
            begun.end(&path)?.map_or(Ok(()), &mut told)?;
        }
    }
    for path in begun.others(None) {
        begun.end(&path)?.map_or(Ok(()), &mut told)?;
    }
    Ok(())
}

/// A part of the index.
///
/// # Errors
/// It can't be read, or names what no tablespace has.
async fn part_of(vault: &Vault, system: u64, manifest: &BaseManifest, part: usize) -> Result<Vec<Extent>, Error> {
    let extents = store::part(vault, system, manifest, part).await?;
    if let Some(stray) = extents.iter().find(|extent| is_stray(&extent.path, manifest.version / 10_000)) {
        let object = vault.object(&layout::manifest(system, manifest.id)?);
        return Err(corrupt(object, format!("its index has {}, which no tablespace has", stray.path)));
    }
    Ok(extents)
}

/// Whether a path is in a tablespace, and not in the folder that a server of this version makes there. A tablespace may go to any
/// place that was named, where nothing else may be made or removed (I11).
fn is_stray(path: &str, major: u32) -> bool {
    let mut parts = path.split('/');
    let is_in_tablespace = parts.next() == Some("pg_tblspc") && parts.next().is_some();
    is_in_tablespace && parts.next().is_some_and(|folder| !folder.starts_with(&format!("PG_{major}_")))
}

/// The paths that a restore makes, or keeps where they are.
///
/// # Errors
/// The index can't be read.
pub(super) async fn kept(vault: &Vault, system: u64, manifest: &BaseManifest) -> Result<Kept, Error> {
    let mut kept = Kept::default();
    for part in 0..manifest.index.len() {
        let extents = part_of(vault, system, manifest, part).await?;
        let all = extents.iter().filter(|extent| is_kept(manifest, &extent.path));
        all.for_each(|extent| kept.add(&extent.path, extent.entry));
    }
    Ok(kept)
}

/// Whether a path is restored: a tablespace that was made after the backup began is in the log, and what an earlier restore
/// handed over is written anew.
fn is_kept(manifest: &BaseManifest, path: &str) -> bool {
    if matches!(path, HANDED_OVER | MARK | LOCK | CONTROL_LATER) {
        return false;
    }
    let mut parts = path.split('/');
    if parts.next() != Some("pg_tblspc") {
        return true;
    }
    let Some(Ok(oid)) = parts.next().map(str::parse::<u32>) else { return true };
    manifest.in_place.contains(&oid) || manifest.tablespaces.iter().any(|tablespace| tablespace.oid == oid)
}

impl Filling {
    /// A file has all its bytes: what an older file has behind them goes. Blocks for a moment.
    fn end(&self, file: &Restored) -> Result<(), Error> {
        match self.folders.is_over() {
            true => self.folders.cut(&file.path, file.bytes),
            false => Ok(()),
        }
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
        let filling = Arc::clone(&self);
        let (windows, mut states) = match self.folders.is_over() {
            true => seawall_core::blocking(move || filling.look(windows)).await?,
            false => {
                let states = windows.iter().map(|window| State::new(window, self.memory(window))).collect();
                (windows, states)
            }
        };
        let fetches = fetches(&windows, &states).ok_or_else(|| torn(&windows[0].extent.path))?;
        for fetch in fetches {
            let (bytes, object) = self.fetch(&fetch).await?;
            let filling = Arc::clone(&self);
            states = seawall_core::blocking(move || {
                filling.take(&fetch, &bytes, &object, &mut states)?;
                Ok::<_, Error>(states)
            })
            .await?;
        }
        seawall_core::blocking(move || {
            let written = self.write(windows, &states)?;
            // Memory of one size: what is kept for a small window would count double.
            let large = states.into_iter().map(|state| state.content).filter(|content| content.len() == WINDOW * BLOCK);
            self.memory.lock().unwrap_or_else(PoisonError::into_inner).extend(large);
            Ok(written)
        })
        .await
    }

    /// Memory for the content of a window: what an earlier one had, because new memory costs the system as much as the work.
    fn memory(&self, window: &Window) -> Vec<u8> {
        let kept = || self.memory.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if window.bytes() == WINDOW * BLOCK { kept().unwrap_or_default() } else { Vec::new() }
    }

    /// What the files that are restored over have at the places of windows. Blocks.
    fn look(&self, windows: Vec<Window>) -> Result<(Vec<Window>, Vec<State>), Error> {
        let look = |window: &Window| {
            let path = &window.extent.path;
            let file = self.folders.open(path)?;
            let mut content = self.memory(window);
            content.resize(window.bytes(), 0);
            let had = Had::read(content, |to, at| file.read_at(to, window.offset() + at));
            if let Some(first) = had.unread.first() {
                let at = window.offset() + (first * BLOCK) as u64;
                tracing::warn!(
                    file = path,
                    at,
                    "a part of the file can't be read, and is written anew: look after the disk"
                );
            }
            Ok::<_, Error>(State::of(window, had))
        };
        let states = windows.iter().map(look).collect::<Result<Vec<_>, _>>()?;
        Ok((windows, states))
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
    fn take(&self, fetch: &Fetch, bytes: &[u8], object: &str, states: &mut [State]) -> Result<(), Error> {
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
                let content = content.filter(|content| chunk::hash(content) == goes.hash);
                let to = states.get_mut(goes.window);
                let to = to.and_then(|state| state.content.get_mut(goes.to..goes.to + goes.bytes));
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

    /// Writes the blocks of windows that aren't there, and returns the CRC-32C of each window.
    fn write(&self, windows: Vec<Window>, states: &[State]) -> Result<Vec<(Window, u32)>, Error> {
        let mut written = Vec::with_capacity(windows.len());
        for (window, State { content, there }) in windows.into_iter().zip(states) {
            let path = &window.extent.path;
            let failed = |error: std::io::Error| Error::Io { path: path.clone(), cause: error.to_string() };
            let file = self.folders.open(path)?;
            let mut blocks = there.iter().enumerate().peekable();
            while let Some((nth, is_there)) = blocks.next() {
                if *is_there {
                    continue;
                }
                let mut end = nth + 1;
                while blocks.next_if(|(_, is_there)| !**is_there).is_some() {
                    end += 1;
                }
                let bytes = &content[nth * BLOCK..content.len().min(end * BLOCK)];
                file.write_all_at(bytes, window.offset() + (nth * BLOCK) as u64).map_err(failed)?;
                self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
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

    #[test]
    fn steps_fit_the_memory() {
        for (memory, jobs, expected) in [(128 << 20, 2, 4), (128 << 20, 16, 8), (0, 4, 1), (u64::MAX, 3, 6)] {
            assert_eq!(steps(memory, jobs), expected, "{memory} {jobs}");
        }
    }
}
