//! Where does each row end in PostgreSQL's binary `COPY` format? Pure.
//!
//! A row is the number of its columns (16 bits), then for each column the length of its value (32 bits, -1 for NULL)
//! and the value. Numbers are big-endian. The header and the trailer of a whole stream aren't rows, and sets don't hold
//! them.

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How many bytes.
    pub bytes: usize,
    /// If they belong to a value: its column, and the value's bytes before them.
    pub value: Option<(u16, u32)>,
    /// Whether a row ends after them.
    pub ends: bool,
}

/// What is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The number of columns: its bytes so far.
    Columns([u8; 2], usize),
    /// The length of a column's value: its bytes so far.
    Length([u8; 4], usize),
    /// A value: how much of it came, and how much is still to come.
    Value(u32, u32),
}

const START: Reading = Reading::Columns([0; 2], 0);

/// A parser of rows, fed with pieces that may begin and end anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuples {
    reading: Reading,
    /// The current column, and the number of columns.
    column: (u16, u16),
}

impl Default for Tuples {
    fn default() -> Self {
        Self { reading: START, column: (0, 0) }
    }
}

impl Tuples {
    /// Whether a row has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.reading != START
    }

    /// Consumes the first bytes of a piece, which must not be empty. The caller continues behind them.
    ///
    /// # Errors
    /// What is wrong with them: then nothing more can be taken.
    pub fn step(&mut self, piece: &[u8]) -> Result<Step, &'static str> {
        let mut step = Step { bytes: piece.len(), value: None, ends: false };
        match &mut self.reading {
            Reading::Columns(number, known) => {
                step.bytes = fill(number, known, piece);
                if *known == number.len() {
                    let count = i16::from_be_bytes(*number);
                    let count = u16::try_from(count).map_err(|_| "a row has fewer columns than none")?;
                    self.column = (0, count);
                    step.ends = self.next();
                }
            }
            Reading::Length(number, known) => {
                step.bytes = fill(number, known, piece);
                if *known == number.len() {
                    match i32::from_be_bytes(*number) {
                        -1 | 0 => {
                            self.column.0 += 1;
                            step.ends = self.next();
                        }
                        length => {
                            let length = u32::try_from(length).map_err(|_| "a value has fewer bytes than none")?;
                            self.reading = Reading::Value(0, length);
                        }
                    }
                }
            }
            Reading::Value(before, left) => {
                let taken = u32::try_from(piece.len()).unwrap_or(u32::MAX).min(*left);
                step.bytes = taken as usize;
                step.value = Some((self.column.0, *before));
                (*before, *left) = (*before + taken, *left - taken);
                if *left == 0 {
                    self.column.0 += 1;
                    step.ends = self.next();
                }
            }
        }
        Ok(step)
    }

    /// How many rows end in a piece.
    ///
    /// # Errors
    /// As [`Tuples::step`].
    pub fn count(&mut self, mut piece: &[u8]) -> Result<u64, &'static str> {
        let mut rows = 0;
        while !piece.is_empty() {
            let step = self.step(piece)?;
            rows += u64::from(step.ends);
            piece = &piece[step.bytes..];
        }
        Ok(rows)
    }

    /// Goes on with the next column, or with the next row if there is none; whether a row has ended.
    fn next(&mut self) -> bool {
        let ended = self.column.0 >= self.column.1;
        self.reading = if ended { START } else { Reading::Length([0; 4], 0) };
        ended
    }
}

/// Takes bytes of a number until it is whole; returns how many.
fn fill(number: &mut [u8], known: &mut usize, piece: &[u8]) -> usize {
    let taken = piece.len().min(number.len() - *known);
    number[*known..*known + taken].copy_from_slice(&piece[..taken]);
    *known += taken;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of these values.
    fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = u16::try_from(values.len()).expect("few").to_be_bytes().to_vec();
        for value in values {
            let length = value.map_or(-1, |value| i32::try_from(value.len()).expect("short"));
            bytes.extend(length.to_be_bytes());
            bytes.extend(value.unwrap_or_default());
        }
        bytes
    }

    #[test]
    fn rows_end_where_they_end_however_they_are_cut() {
        let rows = [row(&[Some(b"one"), None]), row(&[]), row(&[Some(b""), Some(&[0xff; 300])]), row(&[None])].concat();
        for size in 1..=rows.len() {
            let (mut tuples, mut ended) = (Tuples::default(), 0);
            for piece in rows.chunks(size) {
                ended += tuples.count(piece).expect("rows");
            }
            assert_eq!((ended, tuples.is_open()), (4, false), "{size}");
        }
        let mut cut = Tuples::default();
        assert_eq!((cut.count(&rows[..rows.len() - 1]), cut.is_open()), (Ok(3), true));
    }

    #[test]
    fn bytes_of_values_say_which_and_where() {
        let row = row(&[None, Some(b"abcdef")]);
        let (mut tuples, mut rest, mut values) = (Tuples::default(), &row[..], Vec::new());
        while !rest.is_empty() {
            let step = tuples.step(&rest[..rest.len().min(4)]).expect("a row");
            values.extend(step.value.map(|place| (place, rest[..step.bytes].to_vec(), step.ends)));
            rest = &rest[step.bytes..];
        }
        assert_eq!(values, [((1, 0), b"abcd".to_vec(), false), ((1, 4), b"ef".to_vec(), true)]);
    }

    #[test]
    fn what_is_no_row_is_said() {
        for (bytes, wrong) in [
            (&[0xff, 0xff][..], "a row has fewer columns"),
            (&[0x80, 0], "a row has fewer columns"),
            (&[0, 1, 0xff, 0xff, 0xff, 0xfe], "a value has fewer bytes"),
            (b"1\ttext that goes on long enough\n", ""),
        ] {
            let counted = Tuples::default().count(bytes);
            match wrong {
                "" => assert_eq!(counted, Ok(0), "half a row"),
                wrong => assert!(counted.expect_err("no rows").contains(wrong)),
            }
        }
    }
}
