//! One database: everything that is known of it.

use ratatui::style::Style;
use ratatui::text::Line;

use super::order::progress;
use super::style::{Theme, labelled, paragraph, safe};
use crate::commands::{prove, status};
use crate::table;
use crate::ui::model::{Entry, Model};

pub(super) fn lines(model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let Some(entry) = model.entry() else { return paragraph("it isn't there any more", 0, theme.warning(), width) };
    let (style, mark) = theme.standing(entry.standing());
    let mut lines = vec![Line::styled(format!("{mark} {} ({})", safe(&entry.name), safe(&entry.engine)), style)];
    let mut say = |label: &str, value: &str, style: Style| lines.extend(labelled(label, value, style, theme, width));
    let plain = Style::new();
    if let Some(phase) = entry.phase {
        say("state", &status::state(phase, entry.progress.as_ref()), plain);
        let lag = format!("{}, {} waiting", table::span(entry.lag_ms), table::bytes(entry.lag_bytes));
        say("lag", &lag, plain);
    }
    if let Some(underway) = &entry.progress {
        say("progress", &progress(underway, width.saturating_sub(16)), plain);
    }
    let newest = entry.point.as_ref();
    let newest = newest
        .map_or("none".to_owned(), |point| format!("{}, {}", table::point(point), table::ago(point.moment, model.now)));
    say("newest point", &newest, plain);
    if let Some(bytes) = entry.bytes {
        say("size", &table::bytes(bytes), plain);
    }
    if !entry.source.is_empty() {
        say("source", &entry.source, plain);
    }
    say("vault", &entry.vault, plain);
    for vault in &entry.vaults {
        let line = status::line_of("", vault, model.now);
        say("", line.trim_start_matches(": ").trim_end(), if vault.in_step { plain } else { theme.warning() });
    }
    let proof = entry.proof.as_ref();
    let style = if proof.is_some_and(|proof| proof.holds()) { theme.good() } else { theme.warning() };
    say("proof", &proof.map_or("none yet".to_owned(), prove::line), style);
    for (label, value) in &entry.facts {
        say(label, value, plain);
    }
    for doubt in &entry.doubts {
        say("can't be told", doubt, theme.warning());
    }
    lines.extend(troubles(entry, model, theme, width));
    lines
}

/// The last error and the alarms, each with the next thing to do.
fn troubles(entry: &Entry, model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(error) = &entry.error {
        let ago = table::ago(error.at, model.now);
        let text = format!("error[{}]: {} ({} times, {ago})", error.code, error.message, error.count);
        lines.push(Line::raw(""));
        lines.extend(paragraph(&text, 0, theme.bad(), width));
        lines.extend(paragraph(&format!("next: {}", error.next), 2, Style::new(), width));
    }
    for alarm in &entry.alarms {
        let silenced = alarm.silenced_until.map_or_else(String::new, |until| format!(", silenced until {until}"));
        let since = table::ago(alarm.since, model.now);
        let (name, code) = (alarm.severity.name(), &alarm.code);
        let style = if alarm.severity.name() == "critical" { theme.bad() } else { theme.warning() };
        lines.push(Line::raw(""));
        lines.extend(paragraph(&format!("{name}[{code}]: {} (since {since}{silenced})", alarm.cause), 0, style, width));
        lines.extend(paragraph(&format!("next: {}", alarm.next), 2, Style::new(), width));
    }
    lines
}
