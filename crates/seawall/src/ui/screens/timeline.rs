//! What can be restored of a database: ranges, and the holes between them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use seawall_core::{Moment, Timeline};

use super::style::{Theme, labelled, paragraph, safe};
use super::{page_of, width};
use crate::commands::prove;
use crate::table;
use crate::ui::model::{History, Model, Stretch};

pub(super) fn draw(model: &Model, theme: Theme, area: Rect, frame: &mut Frame<'_>) -> usize {
    let Some(history) = &model.history else { return 0 };
    let rows = history.stretches();
    let answered = match &history.answer {
        None => {
            let waited = table::rough(model.now.since(history.asked).as_secs());
            let text = format!("asking the vault of {} for its timeline ({waited}); Esc leaves", history.name);
            return short(paragraph(&text, 0, Style::new(), width(area)), area, frame);
        }
        Some((_, Err(failure))) => {
            let mut lines = paragraph(&failure.to_string(), 0, theme.bad(), width(area));
            lines.extend(paragraph(&format!("next: {}", failure.next), 0, Style::new(), width(area)));
            return short(lines, area, frame);
        }
        Some((at, Ok(timeline))) => (at, timeline),
    };
    if rows.is_empty() {
        let text = format!("nothing of {} can be restored yet", history.name);
        return short(paragraph(&text, 0, theme.warning(), width(area)), area, frame);
    }
    let below = below(history, answered, theme, width(area));
    let parts = Layout::vertical([Constraint::Fill(1), Constraint::Length(u16::try_from(below.len()).unwrap_or(9))]);
    let [list, more] = parts.areas(area);
    let (first, shown) = page_of(&rows, history.chosen, usize::from(list.height).saturating_sub(1));
    let rows = shown.iter().enumerate().map(|(index, row)| {
        let (from, to, points, about, style) = match row {
            Stretch::Span(span) => {
                let (from, to) = (second(span.from.moment), second(span.to.moment));
                (from, to, span.points.to_string(), span.to.position.clone(), Style::new())
            }
            Stretch::Hole(hole) => {
                let from = hole.from.as_ref().map_or_else(|| "-".to_owned(), |point| second(point.moment));
                (from, second(hole.to.moment), "hole".to_owned(), hole.reason.clone(), theme.warning())
            }
        };
        let points = Cell::from(Text::from(points).right_aligned());
        let row = Row::new([Cell::from(from), Cell::from(to), points, Cell::from(safe(&about))]).style(style);
        if first + index == history.chosen { row.style(theme.chosen()) } else { row }
    });
    let points = Cell::from(Text::from("points").right_aligned());
    let heading = Row::new([Cell::from("from"), Cell::from("to"), points, Cell::from("newest position")]);
    let widths = [Constraint::Length(19), Constraint::Length(19), Constraint::Length(8), Constraint::Fill(1)];
    frame.render_widget(Table::new(rows, widths).header(heading.style(theme.label())).column_spacing(1), list);
    frame.render_widget(Paragraph::new(below), more);
    0
}

fn short(lines: Vec<Line<'static>>, area: Rect, frame: &mut Frame<'_>) -> usize {
    frame.render_widget(Paragraph::new(lines), area);
    0
}

/// A moment to the second.
fn second(moment: Moment) -> String {
    let text = moment.to_string();
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// What else the vault tells, and the chosen row in full.
fn below(history: &History, (at, timeline): (&Moment, &Timeline), theme: Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::raw("")];
    let plain = Style::new();
    let mut say = |label: &str, value: &str, style: Style| {
        let all = labelled(label, value, style, theme, width);
        lines.extend(all.into_iter().take(2));
    };
    match history.stretches().get(history.chosen) {
        Some(Stretch::Span(span)) => {
            say("chosen", &format!("{} to {}", table::point(&span.from), table::point(&span.to)), plain);
            if let Some(note) = timeline.notes.iter().find(|note| note.position == span.to.position) {
                say("note", &note.note, theme.warning());
            }
        }
        Some(Stretch::Hole(hole)) => say("hole", &hole.reason, theme.warning()),
        None => {}
    }
    let objects = timeline.levels.iter().map(|level| level.objects).sum::<u64>();
    let bytes = timeline.levels.iter().fold(0, |sum: u64, level| sum.saturating_add(level.bytes));
    say("vault", &format!("{objects} objects, {}, listed {at}", table::bytes(bytes)), plain);
    if !timeline.pins.is_empty() {
        say("pinned", &timeline.pins.join(", "), plain);
    }
    if let Some(proof) = timeline.proofs.first() {
        say("proof", &prove::line(proof), if proof.holds() { theme.good() } else { theme.bad() });
    }
    if let Some(doubt) = timeline.doubts.first() {
        let more = match timeline.doubts.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        say("can't be told", &format!("{doubt}{more}"), theme.warning());
    }
    lines
}
