//! Applies one file to one open database: writes pages, changes the size, and updates the checksum.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::file::database::PIECE;
use crate::file::decode::{offset, write_runs};
use crate::file::error::{FileError, Result};
use crate::file::index::LtxFile;
use crate::file::verify::{OpenPiece, read_keeping};
use crate::file::{Work, sequential};
use crate::{Checksum, PageHash, PageHasher, PageNo, PageSize, Rolling, Summary};

/// The facts about a database while files are applied to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) page_size: PageSize,
    /// Its size in pages.
    pub(super) pages: u32,
    /// Its checksum, if it is known or needed.
    pub(super) sum: Option<Rolling>,
}

/// A database that is being changed.
struct Target<'a> {
    file: &'a File,
    path: &'a Path,
    hasher: PageHasher,
    /// The number of pages that it had before.
    pages: u32,
    /// The pages' share of the checksum; `None` if it isn't needed.
    delta: Option<Mutex<Rolling>>,
}

/// Applies one file and verifies it on the way. After an error, the caller must undo or discard the written pages.
/// Returns the file's post-apply checksum.
pub(super) fn apply(
    ltx: &File,
    ltx_path: &Path,
    database: &File,
    path: &Path,
    state: &mut State,
    work: Work<'_>,
) -> Result<Checksum> {
    let header = sequential::header(ltx, ltx_path)?;
    let (size, before) = (state.page_size, state.pages);
    check_pre_apply(ltx_path, header.pre_apply, state)?;
    let delta = state.sum.map(|_| Mutex::new(Rolling::new()));
    let target = Target { file: database, path, hasher: PageHasher::new(size), pages: before, delta };
    // Cut off pages first, so that the file grows again with zeros.
    if header.commit < before {
        target.leave(header.commit, before)?;
    } else {
        target.grow(before, header.commit);
    }
    let bytes = u64::from(header.commit) * u64::from(size.get());
    database.set_len(bytes).map_err(FileError::io(path))?;
    let summary = read(ltx, ltx_path, &target, work)?;
    state.pages = header.commit;
    let Some(delta) = target.delta else { return Ok(summary.trailer.post_apply) };
    if let Some(sum) = &mut state.sum {
        sum.join(delta.into_inner().unwrap_or_else(PoisonError::into_inner));
        let (expected, found) = (summary.trailer.post_apply, sum.checksum());
        if !header.no_checksum && expected != found {
            return Err(FileError::PostApply { path: ltx_path.to_owned(), expected, found });
        }
    }
    Ok(summary.trailer.post_apply)
}

fn check_pre_apply(path: &Path, expected: Checksum, state: &State) -> Result<()> {
    match state.sum.map(Rolling::checksum) {
        Some(found) if !expected.is_none() && found != expected => {
            Err(FileError::PreApply { path: path.to_owned(), expected, found })
        }
        _ => Ok(()),
    }
}

fn read(ltx: &File, ltx_path: &Path, target: &Target<'_>, work: Work<'_>) -> Result<Summary> {
    let len = ltx.metadata().map_err(FileError::io(ltx_path))?.len();
    if sequential::detect(ltx, ltx_path, len)?.is_some() {
        let verified =
            sequential::read(ltx, ltx_path, |page, data| target.put(OpenPiece { frames: &[(page, 0)], pages: data }))?;
        return Ok(verified.summary);
    }
    let clone = ltx.try_clone().map_err(FileError::io(ltx_path))?;
    let done = LtxFile::of(clone, ltx_path)
        .and_then(|ltx| read_keeping(&ltx, work, false, true, |piece| target.put(piece)).map(|(summary, _)| summary));
    match done {
        // Read the file once more, to report the first defect.
        Err(error @ FileError::Format { .. }) => Err(sequential::verify(ltx, ltx_path).err().unwrap_or(error)),
        done => done,
    }
}

impl Target<'_> {
    /// Writes pages, and replaces the old pages' checksums in the database checksum.
    fn put(&self, piece: OpenPiece<'_>) -> Result<()> {
        let size = self.hasher.page_size();
        if let Some(delta) = &self.delta {
            let (mut change, mut old) = (Rolling::new(), vec![0; size.bytes()]);
            for ((page, _), data) in piece.frames.iter().zip(piece.pages.chunks_exact(size.bytes())) {
                let hash = if page.0 <= self.pages {
                    self.file.read_exact_at(&mut old, offset(*page, size)).map_err(FileError::io(self.path))?;
                    self.hasher.hash(&old)
                } else {
                    PageHash::ZEROS
                };
                change.toggle(self.hasher.checksum(*page, hash));
                change.toggle(self.hasher.checksum(*page, self.hasher.hash(data)));
            }
            delta.lock().unwrap_or_else(PoisonError::into_inner).join(change);
        }
        write_runs(self.file, size, piece, self.path)
    }

    /// Adds the pages after `from` up to `to`, which are zeros until they are written.
    fn grow(&self, from: u32, to: u32) {
        let Some(delta) = self.delta.as_ref().filter(|_| from < to) else { return };
        let (first, last, lock) = (PageNo(from + 1), PageNo(to), self.hasher.page_size().lock_page());
        let mut sum = self.hasher.fold(first, last, PageHash::ZEROS);
        if (first..=last).contains(&lock) {
            sum.toggle(self.hasher.checksum(lock, PageHash::ZEROS));
        }
        delta.lock().unwrap_or_else(PoisonError::into_inner).join(sum);
    }

    /// Removes the pages after `to` up to `from`.
    fn leave(&self, to: u32, from: u32) -> Result<()> {
        let Some(delta) = &self.delta else { return Ok(()) };
        let size = self.hasher.page_size();
        let (mut sum, step) = (Rolling::new(), (PIECE / size.bytes()).max(1));
        let mut buffer = vec![0; step * size.bytes()];
        for first in (to..from).step_by(step) {
            let count = step.min((from - first) as usize);
            let pages = buffer.get_mut(..count * size.bytes()).unwrap_or_default();
            self.file.read_exact_at(pages, offset(PageNo(first + 1), size)).map_err(FileError::io(self.path))?;
            for (page, number) in pages.chunks_exact(size.bytes()).zip(first + 1..) {
                if PageNo(number) != size.lock_page() {
                    sum.toggle(self.hasher.checksum(PageNo(number), self.hasher.hash(page)));
                }
            }
        }
        delta.lock().unwrap_or_else(PoisonError::into_inner).join(sum);
        Ok(())
    }
}
