//! What happened in this session, newest first.

use ratatui::style::Style;
use ratatui::text::Line;

use super::style::{Theme, labelled, paragraph};
use crate::ui::model::{Model, Said};

pub(super) fn lines(model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let line = |said: &Said| {
        let at = said.at.to_string();
        let style = if said.is_bad { theme.bad() } else { Style::new() };
        labelled(at.get(11..19).unwrap_or(&at), &said.text, style, theme, width)
    };
    let lines: Vec<_> = model.journal.lines().rev().flat_map(line).collect();
    if lines.is_empty() { paragraph("nothing happened yet", 0, Style::new(), width) } else { lines }
}
