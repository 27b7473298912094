//! A writer of bits in deflate's order, lowest bit first, into a buffer of a fixed size.

/// Bits of a stream: the value, and their number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) bits: u32,
    pub(super) length: u32,
}

/// A position to go back to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    at: usize,
    held: u64,
    count: u32,
}

/// Writes bits. Up to 56 may be put between two calls of [`flush`](Self::flush).
pub(super) struct Bits<'a> {
    out: &'a mut [u8],
    now: Mark,
}

impl<'a> Bits<'a> {
    /// Writes into `out` from byte `at` on.
    pub(super) fn behind(out: &'a mut [u8], at: usize) -> Self {
        Self { out, now: Mark { at, held: 0, count: 0 } }
    }

    /// A copy of the writer for the following bits. [`Self::go_on`] then tells this writer where the copy ended.
    pub(super) fn lend(&mut self) -> Bits<'_> {
        Bits { out: self.out, now: self.now }
    }

    #[inline(always)]
    pub(super) fn put(&mut self, code: Code) {
        self.now.held |= u64::from(code.bits) << self.now.count;
        self.now.count += code.length;
    }

    /// Moves whole bytes to the buffer; `None` if the buffer is too small.
    #[inline(always)]
    pub(super) fn flush(&mut self) -> Option<()> {
        self.out.get_mut(self.now.at..)?.first_chunk_mut().map(|chunk| *chunk = self.now.held.to_le_bytes())?;
        self.now.at += (self.now.count / 8) as usize;
        self.now.held >>= self.now.count & !7;
        self.now.count &= 7;
        Some(())
    }

    /// Fills the current byte up, and writes `bytes` after it.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let at = self.end()?;
        self.out.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
        self.now = Mark { at: at + bytes.len(), held: 0, count: 0 };
        Some(())
    }

    pub(super) fn mark(&self) -> Mark {
        self.now
    }

    /// Whole bytes written since `mark`.
    pub(super) fn since(&self, mark: Mark) -> usize {
        self.now.at - mark.at
    }

    /// Continues from an earlier position, or from the position where a copy ended.
    pub(super) fn go_on(&mut self, mark: Mark) {
        self.now = mark;
    }

    /// The offset after the last bit; all bits before it are written.
    pub(super) fn end(&mut self) -> Option<usize> {
        self.flush()?;
        Some(self.now.at + usize::from(self.now.count > 0))
    }
}
