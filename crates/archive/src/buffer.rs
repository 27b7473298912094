//! A page-aligned buffer for a chunk's bytes, so that a vault in a folder can write them to disk without a copy.

/// Where the bytes begin is a multiple of this.
const PAGE: usize = 4096;

/// A buffer that is appended to. Its bytes begin at a page boundary as long as they fit into the capacity.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Padding bytes before the first byte of the content.
    start: usize,
}

impl Buffer {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(capacity + PAGE);
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        bytes.resize(start, 0);
        Self { bytes, start }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn extend_from_slice(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
    }

    /// The buffer, emptied for its next use. A buffer that grew beyond `capacity` is freed and replaced.
    pub(crate) fn recycled(mut self, capacity: usize) -> Self {
        if self.bytes.capacity() > capacity + PAGE {
            return Self::with_capacity(capacity);
        }
        self.bytes.truncate(self.start);
        self
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stand_at_the_beginning_of_a_page_through_all_uses() {
        let mut buffer = Buffer::with_capacity(10_000);
        let address = buffer.as_ref().as_ptr();
        for size in [0, 1, 4096, 10_000] {
            buffer.extend_from_slice(&vec![7; size]);
            assert_eq!((buffer.len(), buffer.as_ref().len()), (size, size));
            assert!(buffer.as_ref().iter().all(|byte| *byte == 7));
            assert_eq!((buffer.as_ref().as_ptr(), buffer.as_ref().as_ptr().align_offset(PAGE)), (address, 0));
            buffer = buffer.recycled(10_000);
        }
        // What grew is let go.
        buffer.extend_from_slice(&vec![7; 30_000]);
        assert_eq!(buffer.as_ref(), vec![7; 30_000]);
        let buffer = buffer.recycled(10_000);
        assert_eq!((buffer.len(), buffer.as_ref().as_ptr().align_offset(PAGE)), (0, 0));
    }
}
