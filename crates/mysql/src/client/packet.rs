//! Packets, and the fields in them.
//!
//! A packet is 3 bytes of length, 1 byte of sequence number and the payload. A payload of 2^24 - 1 bytes or more goes on in the
//! next packet, and ends with one that is shorter, which may be empty. Source: "MySQL Packets" in MySQL's internals manual.

use bytes::{BufMut as _, BytesMut};

/// The bytes before a payload.
pub(super) const HEADER: usize = 4;

/// The largest payload of one packet. One of this size goes on in the next packet.
pub(super) const LARGEST: usize = 0xFF_FFFF;

/// The length and the sequence number of the packet that `bytes` begin with; `None` while they are too few.
pub(super) fn header(bytes: &[u8]) -> Option<(usize, u8)> {
    let [a, b, c, sequence] = *bytes.first_chunk::<HEADER>()?;
    Some((u32::from_le_bytes([a, b, c, 0]) as usize, sequence))
}

/// The header of a packet of ours. `length` is at most [`LARGEST`].
pub(super) fn header_of(length: usize, sequence: u8) -> [u8; HEADER] {
    let [a, b, c, ..] = u32::try_from(length.min(LARGEST)).unwrap_or_default().to_le_bytes();
    [a, b, c, sequence]
}

/// Writes a payload as packets from `sequence` on. Returns the number of the packet that comes next.
pub(super) fn write(payload: &[u8], mut sequence: u8, outbox: &mut BytesMut) -> u8 {
    let mut rest = payload;
    loop {
        let (part, others) = rest.split_at(rest.len().min(LARGEST));
        outbox.put_slice(&header_of(part.len(), sequence));
        outbox.put_slice(part);
        sequence = sequence.wrapping_add(1);
        rest = others;
        if part.len() < LARGEST {
            return sequence;
        }
    }
}

/// How many bytes a length takes that begins with this byte; `None`: it begins none. 0xFB is NULL and takes one.
pub(super) fn size_of_length(first: u8) -> Option<usize> {
    match first {
        0..=0xFB => Some(1),
        0xFC => Some(3),
        0xFD => Some(4),
        0xFE => Some(9),
        0xFF => None,
    }
}

/// What a length says, of exactly as many bytes as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// There is no value.
    Null,
    /// A value of so many bytes follows.
    Bytes(u64),
}

/// Reads a length whose bytes are all there.
pub(super) fn length(bytes: &[u8]) -> Option<Length> {
    let (first, rest) = bytes.split_first()?;
    let mut number = [0; 8];
    Some(match first {
        0xFB => Length::Null,
        0..=0xFA => Length::Bytes(u64::from(*first)),
        _ => {
            number.get_mut(..rest.len())?.copy_from_slice(rest);
            Length::Bytes(u64::from_le_bytes(number))
        }
    })
}

/// Writes a text behind its length.
pub(super) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        short @ 0..=0xFA => out.push(short as u8),
        middle @ 0xFB..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&(middle as u16).to_le_bytes());
        }
        long => {
            out.push(0xFE);
            out.extend_from_slice(&(long as u64).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// The fields of a payload, from front to back. Every method answers `None` where too few bytes are left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(part)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// The bytes up to a zero byte, which is skipped.
    pub(super) fn until_zero(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
    }

    /// A length.
    pub(super) fn length(&mut self) -> Option<Length> {
        let size = size_of_length(*self.0.first()?)?;
        length(self.take(size)?)
    }

    /// A number that is written as a length is.
    pub(super) fn number(&mut self) -> Option<u64> {
        match self.length()? {
            Length::Bytes(number) => Some(number),
            Length::Null => None,
        }
    }

    /// A value behind its length; `Some(None)` is NULL.
    pub(super) fn value(&mut self) -> Option<Option<&'a [u8]>> {
        match self.length()? {
            Length::Null => Some(None),
            Length::Bytes(count) => Some(Some(self.take(usize::try_from(count).ok()?)?)),
        }
    }

    /// Everything that is left.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_become_packets_and_the_last_is_shorter_than_the_largest() {
        for (length, packets) in [
            (0, vec![0]),
            (5, vec![5]),
            (LARGEST - 1, vec![LARGEST - 1]),
            (LARGEST, vec![LARGEST, 0]),
            (LARGEST + 7, vec![LARGEST, 7]),
            (2 * LARGEST, vec![LARGEST, LARGEST, 0]),
        ] {
            let mut outbox = BytesMut::new();
            let next = write(&vec![b'x'; length], 254, &mut outbox);
            let (mut rest, mut found, mut number) = (&outbox[..], Vec::new(), 254_u8);
            while let Some((size, sequence)) = header(rest) {
                assert_eq!(sequence, number);
                number = number.wrapping_add(1);
                found.push(size);
                rest = &rest[HEADER + size..];
            }
            assert_eq!((found, rest.len(), next), (packets, 0, number), "{length}");
        }
    }

    #[test]
    fn lengths_of_every_size() {
        for (bytes, expected) in [
            (&[][..], None),
            (&[0], Some(Length::Bytes(0))),
            (&[0xFA], Some(Length::Bytes(0xFA))),
            (&[0xFB], Some(Length::Null)),
            (&[0xFC, 1], None),
            (&[0xFC, 1, 2], Some(Length::Bytes(0x201))),
            (&[0xFD, 1, 2, 3], Some(Length::Bytes(0x03_0201))),
            (&[0xFE, 1, 0, 0, 0, 0, 0, 0, 1], Some(Length::Bytes(0x0100_0000_0000_0001))),
            (&[0xFE, 1, 0, 0, 0, 0, 0, 0], None),
            (&[0xFF, 1, 2, 3, 4, 5, 6, 7, 8], None),
        ] {
            assert_eq!(Fields::of(bytes).length(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        for length in [0, 1, 0xFA, 0xFB, 0xFFFF, 0x1_0000] {
            let (text, mut out) = (vec![b'y'; length], Vec::new());
            put_text(&text, &mut out);
            let mut fields = Fields::of(&out);
            assert_eq!(fields.value(), Some(Some(&text[..])), "{length}");
            assert_eq!(fields.rest(), b"");
        }
    }
}
