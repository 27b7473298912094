//! The rows of a table, whatever their order: their number, and the sum of their hashes. Pure.

/// A number of rows, and the sum of the hashes of what the server wrote of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// How many rows.
    pub rows: u64,
    hash: u128,
}

impl Sum {
    /// Takes in other rows of the same table.
    pub fn add(&mut self, other: Self) {
        self.rows = self.rows.wrapping_add(other.rows);
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

/// Rows that are summed as they come, in pieces that may begin and end anywhere.
pub trait Summing: Send + 'static {
    /// Takes the next piece.
    ///
    /// # Errors
    /// What is wrong with the piece: it isn't what the server writes.
    fn take(&mut self, bytes: &[u8]) -> Result<(), &'static str>;

    /// The sum of all rows.
    ///
    /// # Errors
    /// The last row is cut off.
    fn end(self) -> Result<Sum, &'static str>;
}

/// Rows that are hashed one behind another, by an engine that knows where each ends.
#[derive(Debug, Clone, Default)]
pub struct Hashing {
    sum: Sum,
    hasher: blake3::Hasher,
}

impl Hashing {
    /// Takes the next bytes of the row at hand.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Self {
        self.hasher.update(bytes);
        self
    }

    /// Ends the row at hand, and lets the next one begin.
    pub fn end_row(&mut self) {
        let mut half = [0; 16];
        half.copy_from_slice(&self.hasher.finalize().as_bytes()[..16]);
        self.sum.add(Sum { rows: 1, hash: u128::from_le_bytes(half) });
        self.hasher.reset();
    }

    /// The sum of the rows that were ended.
    pub fn sum(&self) -> Sum {
        self.sum
    }
}

/// Rows as lines ([`crate::Content::Lines`]): a newline ends each, and the last one may lack it.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    rows: Hashing,
    /// Whether a row has begun.
    open: bool,
}

impl Lines {
    /// Takes the next piece, which may begin and end anywhere.
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rows.update(piece);
            self.open = piece.last() != Some(&b'\n');
            if !self.open {
                self.rows.end_row();
            }
        }
    }

    /// The sum of all rows.
    pub fn end(mut self) -> Sum {
        if self.open {
            self.rows.end_row();
        }
        self.rows.sum()
    }
}

impl Summing for Lines {
    fn take(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        Self::take(self, bytes);
        Ok(())
    }

    fn end(self) -> Result<Sum, &'static str> {
        Ok(Self::end(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(pieces: &[&str]) -> Sum {
        let mut lines = Lines::default();
        pieces.iter().for_each(|piece| lines.take(piece.as_bytes()));
        lines.end()
    }

    #[test]
    fn neither_order_nor_pieces_make_a_difference_and_everything_else_does() {
        let rows = sum(&["one\ntwo\n\nthree\n"]);
        assert_eq!(rows.rows, 4);
        for same in [&["three\n", "\n", "two\n", "one\n"][..], &["on", "", "e\ntwo\n\nth", "ree", "\n"]] {
            assert_eq!(sum(same), rows);
        }
        for other in ["one\ntwo\nthree\n", "one\ntwo\n\nthree\n\n", "one\ntwo\n\nthrae\n", "onetwo\n\n\nthree\n", ""] {
            assert_ne!(sum(&[other]), rows, "{other}");
        }
        let mut two = sum(&["one\n"]);
        two.add(sum(&["two\n\nthree\n"]));
        assert_eq!(two, rows);
    }
}
