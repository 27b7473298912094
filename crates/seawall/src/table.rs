//! Tables and figures for people.

use comfy_table::{CellAlignment, Table, presets};
use seawall_core::{Moment, Point};

/// A table with a heading and aligned columns; `right` lists the columns of figures. A line break in a name is escaped: it would look like
/// another row.
pub(crate) fn table(heading: &[&str], mut rows: Vec<Vec<String>>, right: &[usize]) -> String {
    for cell in rows.iter_mut().flatten().filter(|cell| cell.contains(['\n', '\t'])) {
        *cell = cell.replace('\n', "\\n").replace('\t', "\\t");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heading.to_vec()).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A number of things: `1 object`, `2 objects`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// A number of bytes as people read it, in powers of 1024.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS[unit];
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {name}") }
}

/// A span of milliseconds as people read it: its two largest units.
pub(crate) fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A point as people read it: the moment and the position.
pub(crate) fn point(point: &Point) -> String {
    format!("{} ({})", point.moment, point.position)
}

/// How long ago a moment was.
pub(crate) fn ago(moment: Moment, now: Moment) -> String {
    let elapsed = now.since(moment);
    format!("{} ago", span(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        for (count, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (u64::MAX, "16384.0 PiB")]
        {
            assert_eq!(bytes(count), text);
        }
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_500, "1.5 s"),
            (61_000, "1 min 1 s"),
            (3_720_000, "1 h 2 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span(millis), text);
        }
    }

    #[test]
    fn columns_are_aligned_and_lines_end_clean() {
        let rows = vec![vec!["0".into(), "12".into()], vec!["10".into(), "3".into()]];
        assert_eq!(table(&["level", "objects"], rows, &[1]), "level  objects\n0           12\n10           3\n");
    }
}
