//! In which pieces is a table read, and in which order are tables? Pure.
//!
//! An engine says where in a table places are counted: PostgreSQL's pages, or the values of an integer key from the smallest one on. Pieces are
//! ranges of places that hold about the same number of bytes, so that several connections share one table.

/// Tables that are larger are read in pieces of about this many bytes, so that all connections end at about the same
/// time.
const PIECE: u64 = 32 << 20;

/// A piece of a table: the places from `first` to before `end`; without an end, all that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first place.
    pub first: u64,
    /// The place behind the last one. The last piece has none: whatever was appended since the places were counted is in it.
    pub end: Option<u64>,
}

/// The pieces of a table of about `bytes` bytes that has `places` places; none if the table is read at once. Each place is in
/// one piece.
pub fn split(bytes: u64, places: u64) -> Vec<Span> {
    let count = (bytes / PIECE).min(places);
    if count < 2 {
        return Vec::new();
    }
    // Values may be stored beside their places, so pieces are counted in bytes and cut by places.
    let each = places.div_ceil(count).max(1);
    let starts = (0..places).step_by(usize::try_from(each).unwrap_or(usize::MAX));
    let last = places.saturating_sub(1) / each * each;
    starts.map(|first| Span { first, end: (first != last).then(|| first + each) }).collect()
}

/// The places of tables in a list of their sizes in bytes, the largest table first: what comes last is small, and no connection
/// is left alone with much. Tables of one size keep their order.
pub fn largest_first(sizes: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|place| (std::cmp::Reverse(sizes[*place]), *place));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_in_one_piece_and_the_last_is_open() {
        for (bytes, places) in [
            (64 << 20, 8192),
            (1 << 30, 131_072),
            (1 << 30, 3),
            ((1 << 30) + 1, 130_999),
            (100 << 20, 10_007),
            (u64::MAX, 5),
            (1 << 30, u64::MAX),
            (96 << 20, u64::MAX - 1),
        ] {
            let pieces = split(bytes, places);
            assert!(pieces.len() >= 2, "{bytes} {places}");
            let mut next = 0;
            for (number, Span { first, end }) in pieces.iter().copied().enumerate() {
                assert_eq!(first, next);
                assert_eq!(end.is_none(), number == pieces.len() - 1);
                next = end.unwrap_or(u64::MAX);
            }
        }
    }

    #[test]
    fn what_is_small_or_has_no_places_is_read_at_once() {
        for (bytes, places) in [(1 << 20, 128), (0, 0), (1 << 30, 0), (1 << 30, 1), ((64 << 20) - 1, 8192)] {
            assert_eq!(split(bytes, places), [], "{bytes} {places}");
        }
    }

    #[test]
    fn the_largest_comes_first() {
        assert_eq!(largest_first(&[10, 1 << 20, 100, 1 << 20]), [1, 3, 2, 0]);
    }
}
