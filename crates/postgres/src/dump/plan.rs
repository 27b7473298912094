//! In which pieces is a table read, by its pages or by the rows of a sample? Pure.

use seawall_archive::split::{Span, largest_first, split};

use crate::catalog::inventory::Table;
use crate::sample::Choice;
use crate::sample::taken::Groups;

/// What one COPY reads of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything.
    Whole,
    /// Some pages.
    Pages(Span),
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
    let bytes = |(place, table): (usize, &Table)| match choices.get(place) {
        Some(Choice::Some { bytes, .. }) => *bytes,
        Some(Choice::Whole) | None => table.bytes,
    };
    let sizes: Vec<u64> = tables.iter().enumerate().map(bytes).collect();
    let of = |table: usize| match choices.get(table) {
        Some(chosen @ Choice::Some { bytes, .. }) => {
            let piece = |groups| Work { table, part: Part::Chosen(groups), bytes: *bytes };
            chosen.pieces().into_iter().map(piece).collect()
        }
        Some(Choice::Whole) | None => pieces(table, &tables[table]),
    };
    largest_first(&sizes).into_iter().flat_map(of).collect()
}

fn pieces(table: usize, facts: &Table) -> Vec<Work> {
    // Only the heap has pages that stand for places; and a condition may look at anything.
    let divisible = facts.heap && facts.condition.is_none() && !facts.columns.is_empty() && !facts.evaluates;
    let spans = if divisible { split(facts.bytes, facts.pages) } else { Vec::new() };
    if spans.is_empty() {
        return vec![Work { table, part: Part::Whole, bytes: facts.bytes }];
    }
    let bytes = facts.bytes / spans.len() as u64;
    spans.into_iter().map(|span| Work { table, part: Part::Pages(span), bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::taken::{RowAddress, Taken};

    fn table(bytes: u64, pages: u64) -> Table {
        Table { bytes, pages, heap: true, columns: vec!["a".into()], ..Table::default() }
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
            rows.take(RowAddress { page, number: 1 });
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
