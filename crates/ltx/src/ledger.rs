//! A compact list of a file's frames, from which the page index is written and with which it is compared.
//!
//! An entry of the index is a page number, an offset and a size. Pages ascend and frames are contiguous, so the step of
//! the page number and the size are enough: two varints, typically 3 bytes and at most 8 for a frame. A database of 100
//! million pages (400 GB) costs 300 MB here; a Go map of the same entries takes 9 GB.

use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::header::HEADER_SIZE;
use crate::types::PageNo;
use crate::varint;

/// The frames of a file in their order.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    steps: Vec<u8>,
    last: PageNo,
    end: u64,
}

impl Ledger {
    /// No frames yet.
    pub(crate) fn new() -> Ledger {
        Ledger { steps: Vec::new(), last: PageNo(0), end: HEADER_SIZE as u64 }
    }

    /// Appends a frame. Its page number exceeds the one before, which [`crate::sequence`] checks.
    pub(crate) fn push(&mut self, page: PageNo, size: u32) -> Result<()> {
        self.end = self.end.checked_add(u64::from(size)).ok_or(Error::TooLarge)?;
        varint::put(u64::from(page.0.wrapping_sub(self.last.0)), &mut self.steps);
        varint::put(u64::from(size), &mut self.steps);
        self.last = page;
        Ok(())
    }

    /// The steps that are in memory.
    #[cfg(feature = "file")]
    pub(crate) fn steps(&self) -> &[u8] {
        &self.steps
    }

    /// Hands the steps so far over to the caller, who passes them to [`Cursor::step`] before the later ones.
    #[cfg(feature = "file")]
    pub(crate) fn forget(&mut self) {
        self.steps.clear();
    }

    /// The offset after the last frame.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }
}

/// A frame and its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) page: PageNo,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// A position in a ledger. Separate from the ledger so that one struct can hold both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    at: usize,
    page: PageNo,
    offset: u64,
}

impl Cursor {
    /// Before the first frame.
    pub(crate) fn new() -> Cursor {
        Cursor { at: 0, page: PageNo(0), offset: HEADER_SIZE as u64 }
    }

    /// The next frame of `ledger`.
    pub(crate) fn next(&mut self, ledger: &Ledger) -> Option<Frame> {
        let mut rest = ledger.steps.get(self.at..)?;
        let frame = self.step(&mut rest)?;
        self.at = ledger.steps.len() - rest.len();
        Some(frame)
    }

    /// The next frame, from steps that are kept elsewhere. `None`, with nothing consumed, if the steps end within one.
    pub(crate) fn step(&mut self, steps: &mut &[u8]) -> Option<Frame> {
        let mut rest = *steps;
        let step = u32::try_from(varint::take(&mut rest)?).ok()?;
        let size = varint::take(&mut rest)?;
        let frame = Frame { page: PageNo(self.page.0.wrapping_add(step)), offset: self.offset, size };
        *steps = rest;
        self.page = frame.page;
        self.offset = self.offset.wrapping_add(size);
        Some(frame)
    }
}
