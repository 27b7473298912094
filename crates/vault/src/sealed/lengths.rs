//! How long is an object, sealed and unsealed? Both lengths follow from each other alone, because all headers of a vault
//! have one length.
//!
//! A sealed object is its header, a nonce of 16 bytes, and the plaintext in chunks of 64 KiB, each followed by a tag of
//! 16 bytes. Only the last chunk may be shorter, and it is empty only if the whole plaintext is.

use std::ops::Range;

/// Bytes of plaintext in each chunk but the last.
pub(crate) const CHUNK: usize = 64 << 10;

/// Bytes of the tag behind each chunk.
pub(crate) const TAG: usize = 16;

/// Bytes of the nonce behind the header.
pub(crate) const NONCE: usize = 16;

/// The lengths of the objects of one vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// Bytes of a header.
    pub(crate) header: usize,
}

impl Lengths {
    /// Bytes before the first chunk.
    pub(crate) fn before(self) -> u64 {
        (self.header + NONCE) as u64
    }

    /// The length of the object that a plaintext of `plain` bytes becomes. Lengths that no object can have saturate.
    pub(crate) fn sealed(self, plain: u64) -> u64 {
        let chunks = plain.div_ceil(CHUNK as u64).max(1);
        self.before().saturating_add(plain).saturating_add(chunks.saturating_mul(TAG as u64))
    }

    /// The length of the plaintext in an object of `sealed` bytes; `None` where no plaintext has that length.
    pub(crate) fn plain(self, sealed: u64) -> Option<u64> {
        const WHOLE: u64 = (CHUNK + TAG) as u64;
        let body = sealed.checked_sub(self.before())?;
        let (chunks, rest) = (body / WHOLE, body % WHOLE);
        let rest = match (chunks, rest) {
            (0, rest) => rest.checked_sub(TAG as u64)?,
            (_, 0) => 0,
            // An empty chunk behind others.
            (_, rest) => rest.checked_sub(TAG as u64).filter(|rest| *rest > 0)?,
        };
        Some(chunks * CHUNK as u64 + rest)
    }

    /// Where chunk `index` begins in an object.
    pub(crate) fn at(self, index: u64) -> u64 {
        self.before().saturating_add(index.saturating_mul((CHUNK + TAG) as u64))
    }
}

/// The chunks that hold a range of plaintext: the first, and the one behind the last (`None`: up to the end).
pub(crate) fn chunks(range: &Range<u64>) -> (u64, Option<u64>) {
    let end = range.end.checked_add(CHUNK as u64 - 1).map(|end| end / CHUNK as u64);
    (range.start / CHUNK as u64, end)
}

/// The number of chunks of a plaintext.
pub(crate) fn count(plain: u64) -> u64 {
    plain.div_ceil(CHUNK as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Lengths = Lengths { header: 1024 };
    const C: u64 = CHUNK as u64;

    #[test]
    fn both_lengths() {
        for (plain, sealed) in [
            (0, 1040 + 16),
            (1, 1040 + 17),
            (C - 1, 1040 + C + 15),
            (C, 1040 + C + 16),
            (C + 1, 1040 + C + 1 + 32),
            (2 * C, 1040 + 2 * C + 32),
            (2 * C + 5, 1040 + 2 * C + 5 + 48),
            (1 << 40, 1040 + (1 << 40) + (1 << 24) * 16),
        ] {
            assert_eq!(LENGTHS.sealed(plain), sealed, "{plain}");
            assert_eq!(LENGTHS.plain(sealed), Some(plain), "{sealed}");
        }
        assert_eq!(LENGTHS.sealed(u64::MAX), u64::MAX);
    }

    #[test]
    fn lengths_of_no_plaintext() {
        for sealed in [0, 1, 1039, 1040, 1055, 1040 + C + 17, 1040 + C + 32, 1040 + 2 * (C + 16) + 16] {
            assert_eq!(LENGTHS.plain(sealed), None, "{sealed}");
        }
    }

    #[test]
    fn every_length_of_a_plaintext_comes_back_and_no_other() {
        for header in [200, 1024, 65_536] {
            let lengths = Lengths { header };
            let mut expected = std::collections::BTreeMap::new();
            for plain in (0..200).chain(C - 40..C + 40).chain(2 * C - 40..2 * C + 40) {
                expected.insert(lengths.sealed(plain), plain);
            }
            for from in [0, C - 20, 2 * C - 20] {
                for sealed in lengths.sealed(from)..lengths.sealed(from) + 30 {
                    assert_eq!(lengths.plain(sealed), expected.get(&sealed).copied(), "{sealed}");
                }
            }
        }
    }

    #[test]
    fn ranges() {
        for (range, expected) in [
            (0..1, (0, Some(1))),
            (0..C, (0, Some(1))),
            (0..C + 1, (0, Some(2))),
            (C - 1..C, (0, Some(1))),
            (C..C + 1, (1, Some(2))),
            (3 * C + 7..u64::MAX, (3, None)),
        ] {
            assert_eq!(chunks(&range), expected, "{range:?}");
        }
        assert_eq!([0, 1, C, C + 1].map(count), [1, 1, 1, 2]);
    }
}
