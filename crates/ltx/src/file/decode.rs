//! Decodes a snapshot into a database.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::file::error::{FileError, Result};
use crate::file::index::LtxFile;
use crate::file::replace::{Replacement, check_distinct};
use crate::file::verify::{OpenPiece, Verified, read_keeping};
use crate::file::{Work, apply, flush, sequential};
use crate::{Generation, PageHasher, PageNo, PageSize, Rolling};

/// Makes the database that a snapshot of any generation holds. The database replaces the file at `output` once the
/// whole snapshot was verified and the database is durable.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::file::{Work, decode};
///
/// let back = folder.path().join("back.db");
/// decode(&snapshot, &back, Work::new())?;
/// assert_eq!(std::fs::read(&back)?, std::fs::read(&database)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::NoSnapshot`], [`FileError::Format`], [`FileError::Beside`] if a WAL or a journal of another database is
/// beside the output, [`FileError::Io`].
pub fn decode(path: &Path, output: &Path, work: Work<'_>) -> Result<Verified> {
    check_distinct(output, [path])?;
    apply::refuse_side_files(output)?;
    let file = File::open(path).map_err(FileError::io(path))?;
    if !sequential::header(&file, path)?.is_snapshot() {
        return Err(FileError::NoSnapshot { path: path.to_owned() });
    }
    let made = Replacement::create(output)?;
    let (verified, _) = into_file(&file, path, &made, false, work)?;
    made.finish()?;
    Ok(verified)
}

/// Writes the pages of a snapshot into a new file; if `rolling`, also returns the database checksum.
pub(super) fn into_file(
    file: &File,
    path: &Path,
    made: &Replacement,
    rolling: bool,
    work: Work<'_>,
) -> Result<(Verified, Rolling)> {
    let header = sequential::header(file, path)?;
    let size = header.page_size;
    let set_len = || made.file.set_len(u64::from(header.commit) * u64::from(size.get()));
    set_len().map_err(FileError::io(made.partial()))?;
    let len = file.metadata().map_err(FileError::io(path))?.len();
    if let Some(generation) = sequential::detect(file, path, len)? {
        return from_older(generation, file, path, made, size);
    }
    let clone = file.try_clone().map_err(FileError::io(path))?;
    let current = LtxFile::of(clone, path).and_then(|ltx| {
        let (summary, sum) = flush::along(&made.file, made.partial(), |flusher| {
            read_keeping(&ltx, work, rolling, true, |piece| {
                let bytes = piece.pages.len();
                write_runs(&made.file, size, piece, made.partial())?;
                flusher.wrote(bytes);
                Ok(())
            })
        })?;
        Ok((Verified { summary, len, generation: None }, sum))
    });
    match current {
        // Read the file once more, to report the first defect.
        Err(error @ FileError::Format { .. }) => Err(sequential::verify(file, path).err().unwrap_or(error)),
        done => done,
    }
}

fn from_older(
    generation: Generation,
    file: &File,
    path: &Path,
    made: &Replacement,
    size: PageSize,
) -> Result<(Verified, Rolling)> {
    let (hasher, mut sum) = (PageHasher::new(size), Rolling::new());
    let verified = sequential::read(file, path, |page, data| {
        sum.toggle(hasher.checksum(page, hasher.hash(data)));
        made.file.write_all_at(data, offset(page, size)).map_err(FileError::io(made.partial()))
    })?;
    Ok((Verified { generation: Some(generation), ..verified }, sum))
}

/// The offset of a page in a database.
pub(super) fn offset(page: PageNo, size: PageSize) -> u64 {
    u64::from(page.0.saturating_sub(1)) * u64::from(size.get())
}

/// Writes pages to their places, adjacent pages at once.
pub(super) fn write_runs(file: &File, size: PageSize, piece: OpenPiece<'_>, path: &Path) -> Result<()> {
    let mut rest = piece.pages;
    for run in piece.frames.chunk_by(|(a, _), (b, _)| a.0.checked_add(1) == Some(b.0)) {
        let (pages, behind) = rest.split_at_checked(run.len() * size.bytes()).unwrap_or_default();
        rest = behind;
        let first = run.first().map_or(PageNo(1), |(page, _)| *page);
        file.write_all_at(pages, offset(first, size)).map_err(FileError::io(path))?;
    }
    Ok(())
}
