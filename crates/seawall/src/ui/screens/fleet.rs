//! The list of databases.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use seawall_core::{Moment, Proof};

use super::style::{Theme, paragraph, safe};
use super::{page_of, width};
use crate::commands::status::state;
use crate::table;
use crate::ui::model::{Contact, Entry, Kind, Model};

/// From this width on there are more columns.
const WIDE: u16 = 110;

/// A column: its heading, its width, whether it holds figures, and what it says of a database.
struct Column {
    heading: &'static str,
    width: Constraint,
    is_right: bool,
    text: fn(&Entry, Moment) -> String,
}

const fn column(
    heading: &'static str,
    width: Constraint,
    is_right: bool,
    text: fn(&Entry, Moment) -> String,
) -> Column {
    Column { heading, width, is_right, text }
}

pub(super) fn draw(model: &Model, theme: Theme, area: Rect, frame: &mut Frame<'_>) -> usize {
    let shown = model.shown();
    if shown.is_empty() {
        let text = match (&model.contact, model.databases.is_empty()) {
            (Contact::Waiting, _) => "",
            (Contact::Lost(_, failure), true) => &format!("next: {}", failure.next),
            (Contact::Here(_), true) => "there is no database here",
            (_, false) => "no database matches the filter; Esc removes it",
        };
        frame.render_widget(Paragraph::new(paragraph(text, 0, ratatui::style::Style::new(), width(area))), area);
        return 0;
    }
    let columns = columns(model.kind, area.width >= WIDE);
    let height = usize::from(area.height).saturating_sub(1);
    let chosen = model.index().unwrap_or(0);
    let (first, entries) = page_of(&shown, chosen, height);
    let rows = entries.iter().enumerate().map(|(index, entry)| {
        let (style, mark) = theme.standing(entry.standing());
        let cells = columns.iter().map(|column| {
            let text = Text::from(safe(&(column.text)(entry, model.now)));
            Cell::from(if column.is_right { text.right_aligned() } else { text })
        });
        let row = Row::new(std::iter::once(Cell::from(mark).style(style)).chain(cells));
        if first + index == chosen && model.index().is_some() { row.style(theme.chosen()) } else { row }
    });
    let heading = columns.iter().map(|column| {
        let text = Text::from(column.heading);
        Cell::from(if column.is_right { text.right_aligned() } else { text })
    });
    let heading = Row::new(std::iter::once(Cell::from("")).chain(heading)).style(theme.label());
    let widths = std::iter::once(Constraint::Length(1)).chain(columns.iter().map(|column| column.width));
    frame.render_widget(Table::new(rows, widths).header(heading).column_spacing(1), area);
    0
}

fn columns(kind: Kind, is_wide: bool) -> Vec<Column> {
    let name = column("database", Constraint::Fill(2), false, |entry, _| entry.name.clone());
    let engine = column("engine", Constraint::Length(8), false, |entry, _| entry.engine.clone());
    let newest = column("newest", Constraint::Length(7), true, |entry, now| {
        entry.point.as_ref().map_or_else(|| "-".to_owned(), |point| age(point.moment, now))
    });
    let size = column("size", Constraint::Length(10), true, |entry, _| {
        entry.bytes.map_or_else(|| "-".to_owned(), table::bytes)
    });
    // Two spaces before it: "newest" on its left belongs to the age of the point.
    let proof = column(" proof", Constraint::Length(17), false, |entry, now| {
        entry.proof.as_ref().map_or_else(|| " none".to_owned(), |proof| format!(" {}", of_proof(proof, now)))
    });
    let alarms = column("alarms", Constraint::Length(6), true, |entry, _| match entry.alarms.len() {
        0 => "-".to_owned(),
        count => count.to_string(),
    });
    let vault = column("vault", Constraint::Fill(3), false, |entry, _| entry.vault.clone());
    let mut columns = match kind {
        Kind::Process => {
            let state = column("state", Constraint::Length(14), false, |entry, _| {
                entry.phase.map_or_else(String::new, |phase| state(phase, entry.progress.as_ref()))
            });
            let lag = column("lag", Constraint::Length(7), true, |entry, _| rough(entry.lag_ms));
            vec![name, state, lag, newest, proof, alarms]
        }
        Kind::Vault => vec![name, engine, newest, size, proof, alarms],
    };
    if is_wide && kind == Kind::Process {
        let engine = column("engine", Constraint::Length(8), false, |entry, _| entry.engine.clone());
        let waiting = column("waiting", Constraint::Length(10), true, |entry, _| table::bytes(entry.lag_bytes));
        columns.insert(1, engine);
        columns.insert(4, waiting);
    }
    if is_wide {
        columns.push(vault);
    }
    columns
}

/// A span of milliseconds, roughly.
fn rough(millis: u64) -> String {
    if millis < 1000 { format!("{millis} ms") } else { table::rough(millis / 1000) }
}

fn age(moment: Moment, now: Moment) -> String {
    table::rough(now.since(moment).as_secs())
}

/// What came of a proof, and how old it is.
fn of_proof(proof: &Proof, now: Moment) -> String {
    let age = age(proof.at, now);
    match (proof.holds(), proof.inconclusive) {
        (true, _) => format!("{} {age}", proof.level.name()),
        (false, true) => format!("not made {age}"),
        (false, false) => format!("FAILED {age}"),
    }
}
