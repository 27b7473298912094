//! In which pieces is a table read, and by which statement? Pure.

use seawall_archive::split::{largest_first, split};

use crate::catalog::columns::Column;
use crate::catalog::inventory::{History, Table};
use crate::client::quote;
use crate::sample::Choice;

/// What one statement reads of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything.
    Whole,
    /// The rows whose first column of the primary key is in a range.
    Keys(KeyRange),
    /// A partition.
    Partition(String),
    /// The rows of a sample that fulfil a condition.
    Chosen(String),
}

/// A range of values of the first column of a primary key, each as it stands in a statement. Without a bound it reaches to the
/// end, so that rows outside of the values that were counted are in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeyRange {
    pub(crate) from: Option<String>,
    pub(crate) before: Option<String>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    /// The table, by its place in the inventory.
    pub(crate) table: usize,
    pub(crate) part: Part,
    /// About how many bytes.
    pub(crate) bytes: u64,
}

/// Whether a table is so large that several connections share it.
pub(crate) fn is_shared(table: &Table) -> bool {
    pieces(table.bytes) > 1
}

/// The first column of the primary key.
pub(crate) fn key(table: &Table) -> Option<&Column> {
    let name = table.primary.first()?;
    table.columns.iter().find(|column| column.name == *name)
}

/// The ranges between bounds, which are in order.
pub(crate) fn ranges(bounds: &[String]) -> Vec<Part> {
    let mut from = None;
    let mut parts = Vec::with_capacity(bounds.len() + 1);
    for bound in bounds {
        parts.push(Part::Keys(KeyRange { from: from.take(), before: Some(bound.clone()) }));
        from = Some(bound.clone());
    }
    parts.push(Part::Keys(KeyRange { from, before: None }));
    parts
}

/// In how many pieces a table of so many bytes is read.
pub(crate) fn pieces(bytes: u64) -> u64 {
    split(bytes, u64::MAX).len() as u64
}

/// All that is to be read, the largest table first: what comes last is small, and no connection is left alone with much. `bounds`
/// are those of the tables that are cut by keys; some tables have none. Of a sample `choices` says what is read of each table;
/// without it, all is.
pub(crate) fn work(tables: &[Table], bounds: &[Vec<String>], choices: &[Choice]) -> Vec<Work> {
    let size = |(place, table): (usize, &Table)| match choices.get(place) {
        Some(Choice::Some { bytes, .. }) => *bytes,
        _ => table.bytes,
    };
    let sizes: Vec<u64> = tables.iter().enumerate().map(size).collect();
    let of = |table: usize| {
        let Some(facts) = tables.get(table) else { return Vec::new() };
        if let Some(Choice::Some { chance, needed, bytes }) = choices.get(table) {
            let parts = std::iter::once(chance).chain(needed).cloned().map(Part::Chosen);
            return parts.map(|part| Work { table, part, bytes: bytes / (needed.len() as u64 + 1) }).collect();
        }
        let parts = match bounds.get(table) {
            Some(bounds) if !bounds.is_empty() => ranges(bounds),
            // A partition by system time and a question for all history exclude each other.
            _ if is_shared(facts) && facts.partitions.len() > 1 && !facts.versioned => {
                facts.partitions.iter().cloned().map(Part::Partition).collect()
            }
            _ => vec![Part::Whole],
        };
        let bytes = facts.bytes / parts.len().max(1) as u64;
        parts.into_iter().map(|part| Work { table, part, bytes }).collect()
    };
    largest_first(&sizes).into_iter().flat_map(of).collect()
}

/// The statement that reads a piece. Each names an index, or that none is to be used, because the server refuses that for a
/// view: where a table was replaced by a view, the functions of its owner would run with our rights.
pub(crate) fn select(table: &Table, history: History, part: &Part, mariadb: bool) -> String {
    let columns: Vec<String> = table.read(history).iter().map(Column::expression).collect();
    let columns = if columns.is_empty() { "NULL".to_owned() } else { columns.join(", ") };
    let mut sql = format!("SELECT {}{columns} FROM {}", if mariadb { "SQL_NO_CACHE " } else { "" }, table.sql());
    if let Part::Partition(name) = part {
        sql += &format!(" PARTITION ({})", quote::name(name));
    }
    if history == History::Kept {
        sql += " FOR SYSTEM_TIME ALL";
    }
    match (part, table.primary.first()) {
        (Part::Keys(range), Some(key)) => {
            let key = quote::name(key);
            let from = range.from.as_ref().map(|bound| format!("{key} >= {bound}"));
            let before = range.before.as_ref().map(|bound| format!("{key} < {bound}"));
            let conditions: Vec<String> = from.into_iter().chain(before).collect();
            sql += " FORCE INDEX (`PRIMARY`)";
            if !conditions.is_empty() {
                sql += &format!(" WHERE {}", conditions.join(" AND "));
            }
        }
        (Part::Chosen(condition), Some(_)) => sql += &format!(" FORCE INDEX (`PRIMARY`) WHERE {condition}"),
        (Part::Chosen(condition), None) => sql += &format!(" USE INDEX () WHERE {condition}"),
        _ => sql += " USE INDEX ()",
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::columns::Generated;
    use crate::detail::TableName;

    fn table(bytes: u64) -> Table {
        let column =
            |name: &str, r#type: &str| Column { name: name.into(), r#type: r#type.into(), ..Column::default() };
        Table {
            name: TableName { database: "sh`op".into(), name: "t".into() },
            engine: "InnoDB".into(),
            bytes,
            columns: vec![column("id", "int"), column("f", "float")],
            primary: vec!["id".into()],
            ..Table::default()
        }
    }

    #[test]
    fn ranges_leave_nothing_out() {
        assert_eq!([0, 63 << 20, 64 << 20, 100 << 20].map(pieces), [0, 0, 2, 3]);
        let range = |from: Option<&str>, before: Option<&str>| {
            Part::Keys(KeyRange { from: from.map(str::to_owned), before: before.map(str::to_owned) })
        };
        assert_eq!(
            ranges(&["1".into(), "2".into()]),
            [range(None, Some("1")), range(Some("1"), Some("2")), range(Some("2"), None)]
        );
    }

    #[test]
    fn statements_refuse_views_and_leave_generated_columns_out() {
        let mut t = table(0);
        t.columns.push(Column { name: "g".into(), generated: Generated::FromRow, ..Column::default() });
        let whole = "SELECT `id`, `f`*1e0 FROM `sh``op`.`t` USE INDEX ()";
        assert_eq!(select(&t, History::None, &Part::Whole, false), whole);
        let range = Part::Keys(KeyRange { from: Some("5".into()), before: Some("9".into()) });
        assert_eq!(
            select(&t, History::None, &range, true),
            "SELECT SQL_NO_CACHE `id`, `f`*1e0 FROM `sh``op`.`t` FORCE INDEX (`PRIMARY`) WHERE `id` >= 5 AND `id` < 9"
        );
        let partition = Part::Partition("p`0".into());
        assert_eq!(
            select(&t, History::None, &partition, false),
            "SELECT `id`, `f`*1e0 FROM `sh``op`.`t` PARTITION (`p``0`) USE INDEX ()"
        );
        t.versioned = true;
        assert_eq!(
            select(&t, History::Kept, &Part::Whole, false),
            "SELECT `id`, `f`*1e0, `row_start`, `row_end` FROM `sh``op`.`t` FOR SYSTEM_TIME ALL USE INDEX ()"
        );
        let bare = Table { columns: Vec::new(), ..table(0) };
        assert_eq!(select(&bare, History::None, &Part::Whole, false), "SELECT NULL FROM `sh``op`.`t` USE INDEX ()");
    }

    #[test]
    fn the_largest_comes_first_and_large_partitioned_tables_are_shared() {
        let partitioned = Table { partitions: vec!["p0".into(), "p1".into()], ..table(128 << 20) };
        let small = Table { partitions: vec!["p0".into(), "p1".into()], ..table(1 << 20) };
        let versioned = Table { versioned: true, ..partitioned.clone() };
        let tables = [table(10), partitioned, small, versioned];
        let bounds = [Vec::new(), Vec::new(), Vec::new(), vec!["5".to_owned()]];
        let work = work(&tables, &bounds, &[]);
        let order: Vec<usize> = work.iter().map(|work| work.table).collect();
        assert_eq!(order, [1, 1, 3, 3, 2, 0]);
        assert!(matches!(&work[0].part, Part::Partition(name) if name == "p0"));
        assert!(matches!(work[2].part, Part::Keys(_)) && work[4].part == Part::Whole);
        assert!(super::work(&tables[3..], &[], &[]).iter().all(|work| work.part == Part::Whole));
        assert!(key(&tables[0]).is_some());
    }

    #[test]
    fn of_a_sample_chosen_rows_are_read_and_whole_tables() {
        let needed = vec!["`id` IN (1)".to_owned(), "`id` IN (2)".to_owned()];
        let some = Choice::Some { chance: "chance".into(), needed, bytes: 30 };
        let work = work(&[table(1 << 40), table(20)], &[vec!["5".into()], Vec::new()], &[some, Choice::Whole]);
        let parts: Vec<(usize, &Part, u64)> = work.iter().map(|work| (work.table, &work.part, work.bytes)).collect();
        let chosen = |condition: &str| Part::Chosen(condition.to_owned());
        let (first, second, third) = (chosen("chance"), chosen("`id` IN (1)"), chosen("`id` IN (2)"));
        assert_eq!(parts, [(0, &first, 10), (0, &second, 10), (0, &third, 10), (1, &Part::Whole, 20)]);
        assert_eq!(
            select(&table(0), History::None, &third, false),
            "SELECT `id`, `f`*1e0 FROM `sh``op`.`t` FORCE INDEX (`PRIMARY`) WHERE `id` IN (2)"
        );
    }
}
