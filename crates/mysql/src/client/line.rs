//! Rows as lines that `LOAD DATA` reads back. Pure.
//!
//! A line is what `FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'` expects: values with a tab between
//! them, a newline behind the last, NULL as `\N`. In values a backslash precedes a backslash, and `\t`, `\n` and `\0` stand for
//! a tab, a newline and a zero byte. So every newline byte ends a row.

use super::packet::{Fields, Length, length, size_of_length};

/// The most bytes that [`Line::feed`] writes at once apart from a value's bytes: a tab, NULL and a newline.
pub(super) const MARKS: usize = 4;

/// The most bytes of the line of a row of so many bytes: each byte becomes at most two. A value's length has room for the tab or
/// newline, but NULL is one byte and becomes two besides.
pub(super) fn longest(payload: usize, columns: usize) -> usize {
    payload.saturating_mul(2).saturating_add(columns)
}

/// Why a row isn't one.
pub(super) const CUT: &str = "a row whose values and length contradict each other";

/// Appends a whole row of so many columns. `None`: the row isn't one, and what was appended is of no use.
pub(super) fn append(row: &[u8], columns: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut fields = Fields::of(row);
    for column in 0..columns {
        if column > 0 {
            out.push(b'\t');
        }
        match fields.value()? {
            Some(value) => escape(value, out),
            None => out.extend_from_slice(b"\\N"),
        }
    }
    out.push(b'\n');
    fields.rest().is_empty().then_some(())
}

/// How many bytes are looked at at once. The compiler makes one comparison of it.
const BLOCK: usize = 32;

/// Whether a byte must be escaped, or is one of a few other control characters: this is the cheaper question.
fn may_need_escape(byte: u8) -> bool {
    byte <= b'\n' || byte == b'\\'
}

/// Appends a value.
fn escape(value: &[u8], out: &mut Vec<u8>) {
    let (mut written, mut at) = (0, 0);
    while at < value.len() {
        if let Some(block) = value.get(at..at + BLOCK)
            && !block.iter().fold(false, |found, byte| found | may_need_escape(*byte))
        {
            at += BLOCK;
            continue;
        }
        let end = value.len().min(at + BLOCK);
        for (place, byte) in value.iter().enumerate().take(end).skip(at) {
            let letter = match byte {
                b'\\' => b'\\',
                b'\t' => b't',
                b'\n' => b'n',
                0 => b'0',
                _ => continue,
            };
            out.extend_from_slice(value.get(written..place).unwrap_or_default());
            out.extend_from_slice(&[b'\\', letter]);
            written = place + 1;
        }
        at = end;
    }
    out.extend_from_slice(value.get(written..).unwrap_or_default());
}

/// A row that is larger than a buffer, or that goes on in another packet: its line is made piece by piece.
#[derive(Debug)]
pub(super) struct Line {
    columns: usize,
    /// How many values are complete.
    complete: usize,
    /// The bytes of a length that has begun.
    head: Vec<u8>,
    /// How many bytes are still to come of the value whose length was read.
    left: Option<u64>,
}

impl Line {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, complete: 0, head: Vec::with_capacity(9), left: None }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete == self.columns
    }

    /// Takes bytes of the row, as far as the capacity of `out` has room for their line. Returns how many it took.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, &'static str> {
        let mut fields = Fields::of(bytes);
        while !self.is_complete() {
            let room = out.capacity() - out.len();
            if room < MARKS {
                break;
            }
            match self.left {
                Some(0) => self.end_value(out),
                Some(left) => {
                    let here = fields.rest().len().min(room / 2);
                    let part = usize::try_from(left).map_or(here, |left| left.min(here));
                    let Some(value) = fields.take(part).filter(|value| !value.is_empty()) else { break };
                    escape(value, out);
                    self.left = Some(left - value.len() as u64);
                }
                None => {
                    let Some(byte) = fields.u8() else { break };
                    self.head.push(byte);
                    let first = self.head.first().copied().unwrap_or(byte);
                    if size_of_length(first).ok_or(CUT)? > self.head.len() {
                        continue;
                    }
                    let begun = length(&self.head).ok_or(CUT)?;
                    self.head.clear();
                    if self.complete > 0 {
                        out.push(b'\t');
                    }
                    match begun {
                        Length::Bytes(count) => self.left = Some(count),
                        Length::Null => {
                            out.extend_from_slice(b"\\N");
                            self.end_value(out);
                        }
                    }
                }
            }
        }
        Ok(bytes.len() - fields.rest().len())
    }

    fn end_value(&mut self, out: &mut Vec<u8>) {
        self.left = None;
        self.complete += 1;
        if self.is_complete() {
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::packet::put_text;
    use super::*;

    fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut row = Vec::new();
        for value in values {
            match value {
                Some(value) => put_text(value, &mut row),
                None => row.push(0xFB),
            }
        }
        row
    }

    fn line(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        append(&row(values), values.len(), &mut out).expect("a row");
        out
    }

    /// Reads a line as `LOAD DATA` does.
    fn read(line: &[u8]) -> Vec<Option<Vec<u8>>> {
        let line = line.strip_suffix(b"\n").expect("a line");
        assert!(!line.contains(&b'\n'), "a newline ends a row");
        line.split(|byte| *byte == b'\t')
            .map(|field| {
                if field == b"\\N" {
                    return None;
                }
                let (mut value, mut bytes) = (Vec::new(), field.iter());
                while let Some(byte) = bytes.next() {
                    value.push(match byte {
                        b'\\' => match bytes.next().expect("an escaped byte") {
                            b't' => b'\t',
                            b'n' => b'\n',
                            b'0' => 0,
                            other => *other,
                        },
                        other => *other,
                    });
                }
                Some(value)
            })
            .collect()
    }

    #[test]
    fn values_become_lines() {
        for (values, expected) in [
            (&[Some(&b"1"[..]), Some(b"abc")][..], &b"1\tabc\n"[..]),
            (&[None], b"\\N\n"),
            (&[Some(b"N"), Some(b"\\N"), Some(b"NULL"), None], b"N\t\\\\N\tNULL\t\\N\n"),
            (&[Some(b"")], b"\n"),
            (&[Some(b""), None, Some(b"")], b"\t\\N\t\n"),
            (&[Some(b"a\tb\nc\\d\0e\rf\x1ag")], b"a\\tb\\nc\\\\d\\0e\rf\x1ag\n"),
            (&[Some(b"\xff\xfe\xfb")], b"\xff\xfe\xfb\n"),
        ] {
            assert_eq!(line(values), expected, "{values:?}");
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for (row, columns) in [
            (&b"\x01a"[..], 2),
            (b"\x01a\x01b", 1),
            (b"\x05abc", 1),
            (b"\xff", 1),
            (b"\xfc\x01", 1),
            (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff", 1),
            (b"", 1),
        ] {
            assert_eq!(append(row, columns, &mut Vec::new()), None, "{row:?}");
        }
        assert_eq!(Line::new(1).feed(b"\xff", &mut Vec::with_capacity(9)), Err(CUT));
    }

    fn in_pieces(row: &[u8], columns: usize, piece: usize, capacity: usize) -> Vec<u8> {
        let (mut whole, mut rest, mut line) = (Vec::new(), row, Line::new(columns));
        loop {
            let mut out = Vec::with_capacity(capacity);
            loop {
                let here = &rest[..rest.len().min(piece)];
                let taken = line.feed(here, &mut out).expect("a row");
                rest = &rest[taken..];
                assert!(out.len() <= out.capacity());
                if line.is_complete() || taken < here.len() || out.capacity() - out.len() < MARKS {
                    break;
                }
            }
            whole.extend_from_slice(&out);
            if line.is_complete() {
                assert!(rest.is_empty());
                return whole;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn lines_are_read_back_and_are_the_same_in_pieces(
            values in prop::collection::vec(prop::option::of(prop::collection::vec(prop_oneof![
                4 => any::<u8>(), 1 => Just(b'\\'), 1 => Just(b'\n'), 1 => Just(b'\t'), 1 => Just(0), 20 => Just(b'x')
            ], 0..200)), 1..6),
            piece in 1_usize..40,
            capacity in 8_usize..600,
        ) {
            let given: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
            let (row, line) = (row(&given), line(&given));
            prop_assert_eq!(&read(&line), &values);
            prop_assert!(line.len() <= longest(row.len(), values.len()));
            prop_assert_eq!(in_pieces(&row, values.len(), piece, capacity), line);
        }
    }
}
