//! Protocol buffers on the wire: tags, varints and fields of a message that is in memory.

use super::fault::Rule;

/// The most bytes that a varint takes.
pub(crate) const MAX_VARINT: usize = 10;

/// How a field is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint,
    Fixed64,
    Bytes,
    Fixed32,
}

/// A field's number and layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) field: u64,
    pub(crate) wire: WireType,
}

impl Tag {
    /// Reads a tag; groups and field number 0 are no tags.
    pub(crate) fn new(raw: u64) -> Result<Self, Rule> {
        let wire = match raw & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Bytes,
            5 => WireType::Fixed32,
            _ => return Err(Rule::WireType),
        };
        match raw >> 3 {
            0 => Err(Rule::FieldNumber),
            field => Ok(Self { field, wire }),
        }
    }

    /// Checks the layout of a known field.
    pub(crate) fn must_be(self, wire: WireType) -> Result<(), Rule> {
        if self.wire == wire { Ok(()) } else { Err(Rule::WireType) }
    }
}

/// The varint at the start of `bytes` with its length; `None` where the bytes end inside it.
pub(crate) fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Rule> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(MAX_VARINT).enumerate() {
        // The tenth byte has room for one bit.
        if at + 1 == MAX_VARINT && *byte > 1 {
            return Err(Rule::Varint);
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((value, at + 1)));
        }
    }
    Ok(None)
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
    /// Four bytes that no message here uses.
    Ignored,
}

impl<'a> Value<'a> {
    pub(crate) fn number(self) -> Result<u64, Rule> {
        if let Self::Number(number) = self { Ok(number) } else { Err(Rule::WireType) }
    }

    pub(crate) fn fixed(self) -> Result<u64, Rule> {
        if let Self::Fixed(number) = self { Ok(number) } else { Err(Rule::WireType) }
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], Rule> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(Rule::WireType) }
    }
}

/// The fields of a message, in order.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn number(&mut self) -> Result<u64, Rule> {
        // Nearly every tag and most lengths are one byte.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(byte.into());
        }
        let (value, length) = varint(self.rest)?.ok_or(Rule::Overrun)?;
        self.rest = self.rest.get(length..).ok_or(Rule::Overrun)?;
        Ok(value)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Rule> {
        let length = usize::try_from(length).map_err(|_| Rule::Overrun)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Rule::Overrun)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next field with its value; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Rule> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = Tag::new(self.number()?)?;
        let value = match tag.wire {
            WireType::Varint => Value::Number(self.number()?),
            WireType::Fixed64 => {
                let bytes = self.take(8)?;
                Value::Fixed(u64::from_le_bytes(bytes.try_into().map_err(|_| Rule::Overrun)?))
            }
            WireType::Bytes => {
                let length = self.number()?;
                Value::Bytes(self.take(length)?)
            }
            WireType::Fixed32 => {
                self.take(4)?;
                Value::Ignored
            }
        };
        Ok(Some((tag.field, value)))
    }
}

/// Bytes that a varint takes.
pub(crate) fn varint_size(value: u64) -> u64 {
    // Seven bits a byte, and one byte for 0.
    u64::from((70 - (value | 1).leading_zeros()) / 7)
}

/// Appends a varint.
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number that is not 0.
pub(crate) fn put_number(field: u8, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        out.push(field << 3);
        put_varint(value, out);
    }
}

/// Appends a fixed number that is not 0.
pub(crate) fn put_fixed(field: u8, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        out.push(field << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Appends the tag and the length of bytes that follow.
pub(crate) fn put_length(field: u8, length: u64, out: &mut Vec<u8>) {
    out.push(field << 3 | 2);
    put_varint(length, out);
}

/// Appends bytes that are not empty.
pub(crate) fn put_bytes(field: u8, value: &[u8], out: &mut Vec<u8>) {
    if !value.is_empty() {
        put_length(field, value.len() as u64, out);
        out.extend_from_slice(value);
    }
}

/// Bytes that a field of `length` bytes takes, with its tag; nothing where it is empty.
pub(crate) fn bytes_size(length: u64) -> u64 {
    if length == 0 { 0 } else { 1 + varint_size(length) + length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_with_their_size() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(value, &mut bytes);
            assert_eq!(bytes.len() as u64, varint_size(value), "{value}");
            assert_eq!(varint(&bytes), Ok(Some((value, bytes.len()))));
            assert_eq!(varint(&bytes[..bytes.len() - 1]), Ok(None));
        }
        assert_eq!(varint(&[0xff; 10]), Err(Rule::Varint));
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), Err(Rule::Varint));
    }

    #[test]
    fn fields_are_held_to_their_message() {
        let mut message = Vec::new();
        put_bytes(1, b"key", &mut message);
        put_number(4, 1, &mut message);
        put_fixed(3, 7, &mut message);
        let mut fields = Fields::new(&message);
        assert_eq!(fields.next(), Ok(Some((1, Value::Bytes(b"key")))));
        assert_eq!(fields.next(), Ok(Some((4, Value::Number(1)))));
        assert_eq!(fields.next(), Ok(Some((3, Value::Fixed(7)))));
        assert_eq!(fields.next(), Ok(None));
        for (bytes, rule) in [
            (&[0x0a, 5, 1][..], Rule::Overrun),
            (&[0x19, 1], Rule::Overrun),
            (&[0x00, 1], Rule::FieldNumber),
            (&[0x0b], Rule::WireType),
            (&[0x0f], Rule::WireType),
            (&[0x0a], Rule::Overrun),
        ] {
            assert_eq!(Fields::new(bytes).next(), Err(rule), "{bytes:?}");
        }
    }
}
