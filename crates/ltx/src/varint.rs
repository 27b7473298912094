//! Unsigned LEB128 numbers: seven bits to a byte, the lowest first, the top bit on all but the last.
//!
//! A reader accepts only the shortest form of a number, and at most 64 bits. Every writer of the format makes the
//! shortest form, so an index has exactly one spelling.

use alloc::vec::Vec;

/// The most bytes that a number takes.
const MAX_LEN: u32 = 10;

/// Appends a number; returns how many bytes it took (1 to 10).
pub(crate) fn put(mut value: u64, out: &mut Vec<u8>) -> u64 {
    let mut len = 1;
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
        len += 1;
    }
    out.push(value as u8);
    len
}

/// A number is not in its shortest form or has more than 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

/// A number that is read byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Varint {
    value: u64,
    len: u32,
}

impl Varint {
    /// Reads the next byte; returns the number once it is complete, and then begins the next number.
    pub(crate) fn push(&mut self, byte: u8) -> Result<Option<u64>, Invalid> {
        let last = byte & 0x80 == 0;
        // The tenth byte has room for one bit, and must be the last.
        let overflow = self.len + 1 == MAX_LEN && byte > 1;
        let padded = last && byte == 0 && self.len > 0;
        if overflow || padded {
            return Err(Invalid);
        }
        self.value |= u64::from(byte & 0x7f) << (7 * self.len);
        self.len += 1;
        if !last {
            return Ok(None);
        }
        let value = self.value;
        *self = Varint::default();
        Ok(Some(value))
    }
}

/// The next number of `bytes`, which advances past it. `None` if the bytes end or are invalid.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut varint = Varint::default();
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(value) = varint.push(*byte).ok()? {
            *bytes = bytes.get(at + 1..)?;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            assert_eq!(put(value, &mut bytes), bytes.len() as u64);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(value));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for bytes in [&[0x80, 0x00][..], &[0x81, 0x00], &[0xff; 11], &[0x80; 10], &[0x80]] {
            assert_eq!(take(&mut { bytes }), None, "{bytes:02x?}");
        }
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(take(&mut too_large.as_slice()), None);
    }
}
