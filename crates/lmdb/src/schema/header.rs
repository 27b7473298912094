//! The header before every value of a native schema and of a shadow: the time, the transaction that wrote the value,
//! and whether the key is deleted.

use crate::Stamp;

/// Bytes of a header without extension blocks.
pub(crate) const HEADER_SIZE: usize = 24;

/// The bit for a deleted key.
const DELETED: u8 = 1;

/// A stored value: its header, and the application's bytes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored<'a> {
    /// When the key got this value.
    pub(crate) stamp: Stamp,
    /// The transaction of this environment that wrote it.
    pub(crate) transaction: u64,
    /// Whether the key was deleted.
    pub(crate) deleted: bool,
    /// The application's value. A deleted key has none, but a writer may leave one.
    pub(crate) value: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Reads a value with its header. Extension blocks, reserved bytes and unknown flags are passed over.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_SIZE>() else {
            return Err("a value is too short to have a header");
        };
        let [stamp @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *head;
        let [_, _, _, _, _, _, _, _, transaction @ .., version, flags, _, _, _, _, high, low] = *head;
        if version != 0 {
            return Err("a value has a header of an unknown version, or none");
        }
        let blocks = usize::from(u16::from_be_bytes([high, low]));
        let value = rest.get(8 * blocks..).ok_or("a value is shorter than its header says")?;
        Ok(Self {
            stamp: Stamp(u64::from_be_bytes(stamp)),
            transaction: u64::from_be_bytes(transaction),
            deleted: flags & DELETED != 0,
            value,
        })
    }

    /// Writes a value with a fresh header into `out`; `padding` adds an empty extension block, for tests of readers.
    pub(crate) fn write(&self, padding: bool, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.stamp.0.to_be_bytes());
        out.extend_from_slice(&self.transaction.to_be_bytes());
        out.extend_from_slice(&[0, if self.deleted { DELETED } else { 0 }, 0, 0, 0, 0, 0, padding.into()]);
        if padding {
            out.extend_from_slice(&[0; 8]);
        }
        if !self.deleted {
            out.extend_from_slice(self.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (deleted, padding, value) in [(false, false, &b"value"[..]), (false, true, b""), (true, false, b"")] {
            let stored = Stored { stamp: Stamp(u64::MAX - 7), transaction: 9, deleted, value };
            let mut bytes = vec![1; 99];
            stored.write(padding, &mut bytes);
            assert_eq!(bytes.len(), 24 + if padding { 8 } else { 0 } + value.len());
            assert_eq!(Stored::parse(&bytes), Ok(stored));
        }
    }

    #[test]
    fn any_length_is_read_or_refused() {
        for length in 0..64 {
            let mut bytes = vec![0; length];
            assert_eq!(Stored::parse(&bytes).is_ok(), length >= 24, "{length}");
            if length >= 24 {
                bytes[23] = 2;
                bytes[17] = 0xfe;
                let parsed = Stored::parse(&bytes);
                assert_eq!(parsed.is_ok(), length >= 40, "{length}");
                assert!(parsed.is_err() || parsed.is_ok_and(|s| !s.deleted && s.value.len() == length - 40));
                bytes[16] = 1;
                assert!(Stored::parse(&bytes).is_err());
            }
        }
    }
}
