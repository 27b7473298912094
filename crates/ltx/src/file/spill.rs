//! Moves the index of a file in progress to disk when it exceeds its memory bound.
//!
//! An encoder keeps some 3 bytes for each page until the last page is written. Beyond a bound, these bytes go into a
//! file without a name beside the output. They are read back in pieces when the index is written, so memory doesn't
//! grow with the database.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::encode::{Encoder, Tail};
use crate::file::error::{FileError, Result};
use crate::file::replace;
use crate::{Crc64, Error, IndexFault};

/// Bytes that are read back at once.
const READ: usize = 64 << 10;

/// The index bytes that were moved out of an encoder.
pub(super) struct Spill<'p> {
    near: &'p Path,
    bound: usize,
    file: Option<File>,
    written: Crc64,
}

impl<'p> Spill<'p> {
    /// An empty spill. More than `bound` bytes go into a file beside `near`.
    pub(super) fn new(near: &'p Path, bound: usize) -> Spill<'p> {
        Spill { near, bound, file: None, written: Crc64::new() }
    }

    /// Takes the encoder's index bytes, if they exceed the bound.
    pub(super) fn relieve(&mut self, encoder: &mut Encoder) -> Result<()> {
        let ledger = encoder.ledger();
        if ledger.steps().len() <= self.bound {
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => replace::nameless(self.near)?,
        };
        file.write_all_at(ledger.steps(), self.written.hashed()).map_err(FileError::io(self.near))?;
        self.written.update(ledger.steps());
        ledger.forget();
        self.file = Some(file);
        Ok(())
    }

    /// Writes the part of the index that was moved out, piece by piece.
    pub(super) fn replay(self, tail: &mut Tail, mut put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(file) = self.file else { return Ok(()) };
        let (mut read, mut steps, mut out) = (Crc64::new(), Vec::new(), Vec::new());
        while read.hashed() < self.written.hashed() {
            let kept = steps.len();
            let left = usize::try_from(self.written.hashed() - read.hashed()).unwrap_or(READ);
            steps.resize(kept + left.min(READ), 0);
            let fresh = steps.get_mut(kept..).unwrap_or_default();
            file.read_exact_at(fresh, read.hashed()).map_err(FileError::io(self.near))?;
            read.update(fresh);
            let mut rest = steps.as_slice();
            out.clear();
            tail.replay(&mut rest, &mut out);
            let taken = steps.len() - rest.len();
            steps.drain(..taken);
            put(&out)?;
        }
        if read.value() != self.written.value() || !steps.is_empty() {
            // The disk returned other bytes than were written to it.
            let fault = IndexFault::Entry;
            return Err(FileError::format(self.near)(Error::Index { offset: read.hashed(), fault }));
        }
        Ok(())
    }
}
