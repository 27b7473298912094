//! At which places is a table cut whose keys are on a line of whole numbers, so that its pieces have about the same number of rows?
//! Pure.
//!
//! Keys leave gaps: one row with the largest number that there is would put all others into one piece. So a range that has too many rows
//! is halved, by the server's estimates, the fullest range first, and ranges with few rows are joined.

use std::collections::BTreeMap;

/// The most pieces of a table.
const MOST_PIECES: u64 = 512;

/// The most ranges whose rows are estimated for each piece.
const LOOKS: u64 = 4;

/// Looks that are always allowed: to get through the widest gap it takes one for each bit of a number, in both halves.
const ALWAYS: u64 = 160;

/// A search for the bounds of a table's pieces.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Ranges whose rows aren't known.
    waiting: Vec<(i128, i128)>,
    /// Ranges by their first value: the last value, and about how many rows.
    known: BTreeMap<i128, (i128, u64)>,
    pieces: u64,
    looks: u64,
    rows: u64,
}

impl Cut {
    /// A search in the values from `least` to `largest` for the bounds of so many pieces.
    pub(crate) fn new(least: i128, largest: i128, pieces: u64) -> Self {
        let pieces = pieces.min(MOST_PIECES);
        let waiting = if least < largest && pieces > 1 { vec![(least, largest)] } else { Vec::new() };
        Self { waiting, known: BTreeMap::new(), pieces, looks: ALWAYS + LOOKS * pieces, rows: 0 }
    }

    /// The next range whose rows are asked for; none when the search is over.
    pub(crate) fn next(&mut self) -> Option<(i128, i128)> {
        if self.waiting.is_empty() {
            let enough = self.rows / self.pieces.max(1) / 2;
            let fullest = self.known.iter().max_by_key(|(_, (_, rows))| *rows);
            let (first, (last, rows)) = fullest.map(|(first, range)| (*first, *range))?;
            if rows <= enough.max(1) || first >= last || self.looks < 2 {
                return None;
            }
            self.known.remove(&first);
            let middle = first + (last - first) / 2;
            self.waiting = vec![(middle + 1, last), (first, middle)];
        }
        self.waiting.last().copied()
    }

    /// Takes the estimate of the range that [`Self::next`] returned.
    pub(crate) fn count(&mut self, rows: u64) {
        let Some((first, last)) = self.waiting.pop() else { return };
        if self.rows == 0 {
            self.rows = rows;
        }
        self.looks = self.looks.saturating_sub(1);
        self.known.insert(first, (last, rows));
    }

    /// The bounds, in order.
    pub(crate) fn bounds(&self) -> Vec<i128> {
        let each = self.known.values().map(|(_, rows)| *rows).sum::<u64>() / self.pieces.max(1);
        let mut bounds = Vec::new();
        let mut sum = 0_u64;
        for (first, (_, rows)) in &self.known {
            if sum > 0 && sum + rows / 2 > each {
                bounds.push(*first);
                sum = 0;
            }
            sum += rows;
        }
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches in a table with these keys, and returns the rows of each piece.
    fn pieces(keys: &[i128], count: u64) -> Vec<usize> {
        let mut cut = Cut::new(keys[0], keys[keys.len() - 1], count);
        let mut looks = 0;
        while let Some((first, last)) = cut.next() {
            let rows = keys.iter().filter(|key| (first..=last).contains(*key)).count();
            cut.count(rows as u64);
            looks += 1;
        }
        assert!(looks <= ALWAYS + LOOKS * count, "{looks}");
        let bounds = cut.bounds();
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        let place = |key: &i128| bounds.iter().filter(|bound| *bound <= key).count();
        let mut rows = vec![0; bounds.len() + 1];
        for key in keys {
            rows[place(key)] += 1;
        }
        assert!(rows.iter().all(|rows| *rows > 0), "{rows:?}");
        rows
    }

    #[test]
    fn pieces_have_about_the_same_number_of_rows_whatever_the_gaps() {
        let dense: Vec<i128> = (1..=1000).collect();
        let outlier: Vec<i128> = (1..=1000).chain([i128::from(i64::MAX)]).collect();
        let both: Vec<i128> =
            [i128::from(i64::MIN)].into_iter().chain(5000..6000).chain([i128::from(i64::MAX)]).collect();
        let islands: Vec<i128> = (0..10).flat_map(|island| (0..100).map(move |n| island * 1_000_000_007 + n)).collect();
        let unsigned: Vec<i128> = (0..1000).map(|n| n * i128::from(u64::MAX / 1000)).collect();
        for keys in [dense, outlier, both, islands, unsigned] {
            for count in [2, 5, 10] {
                let rows = pieces(&keys, count);
                let most = rows.iter().max().copied().unwrap_or_default();
                assert!(rows.len() as u64 >= count && most <= 2 * keys.len() / count as usize, "{count} {rows:?}");
            }
        }
    }

    #[test]
    fn what_cant_be_cut_isnt() {
        assert_eq!(pieces(&[5], 10), [1]);
        assert_eq!(pieces(&[1, 2, 3], 1), [3]);
        for (least, largest, pieces) in [(5, 4, 9), (1, 100, 0)] {
            let mut cut = Cut::new(least, largest, pieces);
            assert_eq!((cut.next(), cut.bounds().len()), (None, 0));
        }
        // An empty table, and a server that always gives the same answer.
        for rows in [0, 7] {
            let mut cut = Cut::new(0, i128::from(u64::MAX), 100);
            let mut looks = 0;
            while cut.next().is_some() {
                cut.count(rows);
                looks += 1;
            }
            assert!(looks < 1000 && cut.bounds().len() < 2000);
        }
    }
}
