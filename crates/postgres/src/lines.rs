//! What the rows of a table come to, whatever their order: their number, and the sum of the hashes of their texts. Pure.

/// A number of rows and the sum of their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum {
    pub(crate) rows: u64,
    hash: u128,
}

impl Sum {
    /// Takes in other rows of the same table.
    pub(crate) fn add(&mut self, other: Sum) {
        self.rows = self.rows.wrapping_add(other.rows);
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

/// Rows as they come, in pieces that may begin and end anywhere.
#[derive(Default)]
pub(crate) struct Lines {
    sum: Sum,
    hasher: blake3::Hasher,
    /// Whether a row has begun.
    open: bool,
}

impl Lines {
    /// Takes the next piece.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.hasher.update(piece);
            self.open = true;
            if piece.last() == Some(&b'\n') {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        let mut half = [0; 16];
        half.copy_from_slice(&self.hasher.finalize().as_bytes()[..16]);
        self.sum.add(Sum { rows: 1, hash: u128::from_le_bytes(half) });
        self.hasher.reset();
        self.open = false;
    }

    /// What they come to.
    pub(crate) fn end(mut self) -> Sum {
        if self.open {
            self.close();
        }
        self.sum
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
