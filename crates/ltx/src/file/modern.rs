//! Rewrites a file of an older generation in the current form. A file without an index, or with frames that can't be
//! copied, can afterwards be read like any other.
//!
//! The new file has no name, so the system deletes it when it is closed or when the process ends. It takes as much room
//! as the current form of the old file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::file::database::PIECE;
use crate::file::error::{FileError, Result};
use crate::file::index::LtxFile;
use crate::file::spill::Spill;
use crate::file::{Work, replace, sequential, tail};
use crate::{Batch, Batcher, Encoder};

/// Rewrites a file into a file without a name in the folder of `near`. The old file is verified on the way, and errors
/// name it.
pub(super) fn rewrite(file: &File, path: &Path, near: &Path, work: Work<'_>) -> Result<LtxFile> {
    let header = sequential::header(file, path)?;
    let scratch = replace::nameless(near)?;
    let format = || FileError::format(path);
    let put = |bytes: &[u8], at| scratch.write_all_at(bytes, at).map_err(FileError::io(near));
    let mut start = Vec::new();
    let mut encoder = Encoder::new(header, &mut start).map_err(format())?;
    put(&start, 0)?;
    let mut spill = Spill::new(near, work.index);
    let most = (PIECE / header.page_size.bytes()).max(1);
    let (mut batcher, mut used, mut count) = (Batcher::new(header.page_size), None, 0);
    let mut append = |batch: Batch| {
        let at = encoder.len();
        encoder.count(&batch).map_err(format())?;
        spill.relieve(&mut encoder)?;
        put(batch.frames(), at)?;
        Ok(batch)
    };
    let read = sequential::read(file, path, |page, data| {
        batcher.push(page, data).map_err(format())?;
        count += 1;
        if count == most {
            count = 0;
            used = Some(append(batcher.take(used.take()))?);
        }
        Ok(())
    })?;
    if count > 0 {
        append(batcher.take(used))?;
    }
    tail::write(header, encoder, spill, read.summary.trailer.post_apply, &scratch, near)?;
    LtxFile::of(scratch, path)
}
