//! Tables and figures for people.

use comfy_table::{CellAlignment, Table, presets};
pub(crate) use seawall_agent::figures::{bytes, span};
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

/// A point as people read it: the moment and the position.
pub(crate) fn point(point: &Point) -> String {
    format!("{} ({})", point.moment, point.position)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(data: &[u8]) -> String {
    use std::fmt::Write as _;
    data.iter().fold(String::with_capacity(data.len() * 2), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// How long ago a moment was.
pub(crate) fn ago(moment: Moment, now: Moment) -> String {
    let elapsed = now.since(moment);
    format!("{} ago", span(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)))
}

/// A span of seconds for people, in the largest unit that fits.
pub(crate) fn rough(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_clean() {
        let rows = vec![vec!["0".into(), "12".into()], vec!["10".into(), "3".into()]];
        assert_eq!(table(&["level", "objects"], rows, &[1]), "level  objects\n0           12\n10           3\n");
    }

    #[test]
    fn rough_spans() {
        for (seconds, expected) in
            [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_800, "2 d")]
        {
            assert_eq!(rough(seconds), expected);
        }
    }
}
