//! In which pieces is a table read, and in which order? Pure.

use crate::catalog::inventory::Table;
use crate::sample::Choice;
use crate::sample::taken::Groups;

/// Tables that are larger are read in pieces of about this many bytes, so that several connections share one table and
/// end at about the same time.
const PIECE: u64 = 32 << 20;

/// A part of a table, by pages: those from `first` to before `end`; without an end, all that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) first: u64,
    pub(crate) end: Option<u64>,
}

/// What one COPY reads of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything.
    Whole,
    /// Some pages.
    Pages(Pages),
    /// Some of the rows that were chosen.
    Chosen(Groups),
}

/// One COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// The table, by its place in the inventory.
    pub(crate) table: usize,
    pub(crate) part: Part,
    /// About how many bytes.
    pub(crate) bytes: u64,
}

/// All that is to be read, the largest table first: what comes last is small, and no connection is left alone with much.
/// Of a sample `choices` says what is read of each table; without it, all is.
pub(crate) fn work(tables: &[Table], choices: &[Choice]) -> Vec<Work> {
    let bytes = |place: usize| match choices.get(place) {
        Some(Choice::Some { bytes, .. }) => *bytes,
        Some(Choice::Whole) | None => tables[place].bytes,
    };
    let mut order: Vec<usize> = (0..tables.len()).collect();
    order.sort_by_key(|place| (std::cmp::Reverse(bytes(*place)), *place));
    let of = |table: usize| match choices.get(table) {
        Some(chosen @ Choice::Some { bytes, .. }) => {
            let piece = |groups| Work { table, part: Part::Chosen(groups), bytes: *bytes };
            chosen.pieces().into_iter().map(piece).collect()
        }
        Some(Choice::Whole) | None => pieces(table, &tables[table]),
    };
    order.into_iter().flat_map(of).collect()
}

fn pieces(table: usize, facts: &Table) -> Vec<Work> {
    // Only the heap has pages that stand for places; and a condition may look at anything.
    let divisible = facts.heap && facts.condition.is_none() && !facts.columns.is_empty() && !facts.evaluates;
    let count = (facts.bytes / PIECE).min(facts.pages);
    if !divisible || count < 2 {
        return vec![Work { table, part: Part::Whole, bytes: facts.bytes }];
    }
    // A table's values may be stored beside its pages, so a piece is counted in bytes and cut by pages.
    let each = facts.pages.div_ceil(count).max(1);
    let starts = (0..facts.pages).step_by(usize::try_from(each).unwrap_or(usize::MAX));
    let last = facts.pages.saturating_sub(1) / each * each;
    let piece = |first: u64| Work {
        table,
        // Whatever was appended since the pages were counted is in the last piece.
        part: Part::Pages(Pages { first, end: (first != last).then_some(first + each) }),
        bytes: facts.bytes / count,
    };
    starts.map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::taken::{Place, Taken};

    fn table(bytes: u64, pages: u64) -> Table {
        Table { bytes, pages, heap: true, columns: vec!["a".into()], ..Table::default() }
    }

    #[test]
    fn every_page_is_in_one_piece_and_the_last_is_open() {
        for (bytes, pages) in [
            (64 << 20, 8192),
            (1 << 30, 131_072),
            (1 << 30, 3),
            ((1 << 30) + 1, 130_999),
            (100 << 20, 10_007),
            (u64::MAX, 5),
        ] {
            let pieces = work(&[table(bytes, pages)], &[]);
            assert!(pieces.len() >= 2, "{bytes} {pages}");
            let mut next = 0;
            for (place, piece) in pieces.iter().enumerate() {
                let Part::Pages(Pages { first, end }) = piece.part else { panic!("whole") };
                assert_eq!(first, next);
                assert_eq!(end.is_none(), place == pieces.len() - 1);
                next = end.unwrap_or(u64::MAX);
            }
        }
    }

    #[test]
    fn what_is_small_or_no_heap_is_read_whole() {
        let whole = |table: Table| matches!(work(&[table], &[])[..], [Work { part: Part::Whole, .. }]);
        assert!(whole(table(1 << 20, 128)));
        assert!(whole(table(0, 0)));
        assert!(whole(table(1 << 30, 0)), "no pages, whatever the bytes say");
        assert!(whole(Table { heap: false, ..table(1 << 30, 131_072) }));
        assert!(whole(Table { evaluates: true, ..table(1 << 30, 131_072) }));
        assert!(whole(Table { condition: Some("WHERE true".into()), ..table(1 << 30, 131_072) }));
        assert!(whole(Table { columns: Vec::new(), ..table(1 << 30, 131_072) }));
    }

    #[test]
    fn the_largest_comes_first() {
        let tables = [table(10, 1), table(1 << 20, 128), table(100, 1), table(1 << 20, 128)];
        let order: Vec<usize> = work(&tables, &[]).iter().map(|work| work.table).collect();
        assert_eq!(order, [1, 3, 2, 0]);
    }

    #[test]
    fn of_a_sample_every_chosen_row_is_read_once_and_tables_come_by_what_is_read() {
        let mut rows = Taken::new(8192);
        for page in 0..40_000 {
            rows.take(Place { page, number: 1 });
        }
        while rows.settle(10_000).is_some() {}
        let choices =
            [Choice::Some { rows, bytes: 10 << 20 }, Choice::Whole, Choice::Some { rows: Taken::new(8192), bytes: 0 }];
        let work = work(&[table(1 << 40, 1 << 27), table(64 << 20, 8192), table(1 << 40, 1 << 27)], &choices);
        let order: Vec<usize> = work.iter().map(|work| work.table).collect();
        assert_eq!(order, [1, 1, 0, 0, 0, 0], "what has no chosen row isn't read");
        let chosen = |work: &Work| match work.part {
            Part::Chosen(groups) => choices[work.table].places(groups).expect("chosen").matches('(').count(),
            Part::Whole | Part::Pages(_) => 0,
        };
        assert_eq!(work.iter().map(chosen).sum::<usize>(), 40_000);
    }
}
