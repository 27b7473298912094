//! Writes the end of a file by offset: end marker, index and trailer, in pieces.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::file::error::{FileError, Result};
use crate::file::spill::Spill;
use crate::file::verify::Verified;
use crate::{Checksum, Encoder, Header, Summary};

/// Writes the end after the frames that `encoder` has counted, and returns a summary of the file.
pub(super) fn write(
    header: Header,
    encoder: Encoder,
    spill: Spill<'_>,
    post_apply: Checksum,
    file: &File,
    path: &Path,
) -> Result<Verified> {
    let (mut at, pages) = (encoder.len(), encoder.pages());
    let mut tail = encoder.close(post_apply).map_err(FileError::format(path))?;
    let mut put = |piece: &[u8]| {
        file.write_all_at(piece, at).map_err(FileError::io(path))?;
        at += piece.len() as u64;
        Ok(())
    };
    spill.replay(&mut tail, &mut put)?;
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let trailer = tail.write(&mut piece);
        put(&piece)?;
        if let Some(trailer) = trailer {
            return Ok(Verified { summary: Summary { header, trailer, pages }, len: at, generation: None });
        }
    }
}
