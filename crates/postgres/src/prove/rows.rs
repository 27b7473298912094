//! What the rows of a table come to, in either format of COPY. Pure.

use seawall_archive::Tuples;
use seawall_archive::compare::{Hashing, Lines, Sum, Summing};

use crate::catalog::binary::is_array;

/// Rows in binary as they come, in pieces that may begin and end anywhere.
pub(crate) struct InBinary {
    rows: Hashing,
    tuples: Tuples,
    /// For each column, whether its values are arrays.
    arrays: Vec<bool>,
}

impl InBinary {
    /// Rows whose columns have these forms.
    pub(crate) fn new(forms: &[String]) -> Self {
        let arrays = forms.iter().map(|form| is_array(form)).collect();
        Self { rows: Hashing::default(), tuples: Tuples::default(), arrays }
    }

    /// Takes the next piece.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            let step = self.tuples.step(bytes)?;
            let (piece, others) = bytes.split_at(step.bytes);
            match step.value {
                Some((column, before)) if self.arrays.get(usize::from(column)) == Some(&true) => {
                    // Two equal arrays may differ in whether an element might be NULL.
                    let at = |place: usize| place.saturating_sub(before as usize).min(piece.len());
                    self.rows.update(&piece[..at(4)]).update(&piece[at(8)..]);
                }
                _ => {
                    self.rows.update(piece);
                }
            }
            if step.ends {
                self.rows.end_row();
            }
            bytes = others;
        }
        Ok(())
    }

    /// What they come to.
    pub(crate) fn end(self) -> Result<Sum, &'static str> {
        if self.tuples.is_open() { Err("a row is cut off") } else { Ok(self.rows.sum()) }
    }
}

/// Rows as they come, in either format.
pub(crate) enum Rows {
    Text(Box<Lines>),
    Binary(Box<InBinary>),
}

impl Rows {
    /// Rows in binary, whose columns have these forms, or as text where there are none.
    pub(crate) fn new(forms: &[String]) -> Self {
        match forms {
            [] => Self::Text(Box::default()),
            forms => Self::Binary(Box::new(InBinary::new(forms))),
        }
    }
}

impl Summing for Rows {
    fn take(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Text(lines) => {
                lines.take(bytes);
                Ok(())
            }
            Self::Binary(rows) => rows.take(bytes),
        }
    }

    fn end(self) -> Result<Sum, &'static str> {
        match self {
            Self::Text(lines) => Ok(lines.end()),
            Self::Binary(rows) => rows.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_binary_are_the_same_where_their_values_are() {
        let value = |value: &[u8]| [&i32::try_from(value.len()).expect("short").to_be_bytes(), value].concat();
        let row = |text: &[u8], array: &[u8]| [&[0, 2][..], &value(text), &value(array)].concat();
        let forms = ["text".to_owned(), "int4[]".to_owned()];
        let sum = |rows: &[Vec<u8>], size: usize| {
            let mut taken = Rows::new(&forms);
            rows.concat().chunks(size).try_for_each(|piece| taken.take(piece)).expect("rows");
            taken.end().expect("whole rows")
        };
        let rows = [row(b"12345678", b"dims\0\0\0\0oid:"), row(b"b", b"dims\0\0\0\0oid:dddd")];
        let expected = sum(&rows, 1000);
        assert_eq!(expected.rows, 2);
        let flagged = [row(b"b", b"dims\0\0\0\x01oid:dddd"), rows[0].clone()];
        for size in 1..40 {
            assert_eq!((sum(&rows, size), sum(&flagged, size)), (expected, expected), "{size}");
        }
        for other in [row(b"1234567x", b"dims\0\0\0\0oid:"), row(b"1234\0\0\0\x01", b"dims\0\0\0\0oid:")] {
            assert_ne!(sum(&[other, rows[1].clone()], 1000), expected);
        }
        for (other, size) in [(row(b"12345678", b"dimx\0\0\0\0oid:"), 3), (row(b"12345678", b"dims\0\0\0\0oix:"), 7)] {
            assert_ne!(sum(&[other, rows[1].clone()], size), expected);
        }
        let mut cut = Rows::new(&forms);
        cut.take(&rows[0][..9]).expect("half a row");
        assert_eq!(cut.end(), Err("a row is cut off"));
        assert!(Rows::new(&forms).take(b"text").is_ok());
        assert!(Rows::new(&forms).take(&[0xff, 0xff]).is_err());
    }
}
