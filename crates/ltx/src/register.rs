//! The register of a CRC-64/GO-ISO: the remainder of the bytes so far, before it is inverted to the value.
//!
//! A library with the processor's own instructions keeps it at the speed of memory. It needs `std`, so builds without
//! it look bytes up in tables, at a fiftieth of that speed.

/// The register of a CRC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register(State);

#[cfg(feature = "std")]
type State = crc_fast::Digest;

#[cfg(not(feature = "std"))]
type State = u64;

#[cfg(feature = "std")]
impl Register {
    /// A register with this content.
    #[inline]
    pub(crate) fn new(content: u64) -> Register {
        Register(State::new_with_init_state(crc_fast::CrcAlgorithm::Crc64GoIso, content))
    }

    /// Adds bytes at the end.
    #[inline]
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The content.
    #[inline]
    pub(crate) fn content(&self) -> u64 {
        // The library inverts it.
        !self.0.finalize()
    }
}

#[cfg(not(feature = "std"))]
impl Register {
    /// A register with this content.
    #[inline]
    pub(crate) fn new(content: u64) -> Register {
        Register(content)
    }

    /// Adds bytes at the end.
    #[inline]
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0 = crate::shift::step(self.0, bytes);
    }

    /// The content.
    #[inline]
    pub(crate) fn content(&self) -> u64 {
        self.0
    }
}
