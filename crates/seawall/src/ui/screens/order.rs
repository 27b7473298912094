//! The dialog of a restore, a backup or a proof.

use ratatui::style::Style;
use ratatui::text::Line;
use seawall_core::Underway;

use super::style::{Theme, labelled, paragraph, safe};
use crate::table;
use crate::ui::model::{Model, Order, Preview, Step, Verb};

pub(super) fn lines(model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let Some(order) = &model.order else { return Vec::new() };
    let title = format!("{} of {}", order.wish.verb.name(), safe(&order.name));
    let mut lines = vec![Line::styled(title, theme.label()), Line::raw("")];
    let mut add = |more: Vec<Line<'static>>| lines.extend(more);
    let plain = Style::new();
    match &order.step {
        Step::Form { at, into, focus } => {
            let field = |label: &str, text: &str, has_focus: bool| {
                let style = if has_focus { theme.chosen() } else { plain };
                let end = if has_focus { "_" } else { "" };
                labelled(label, &format!("{text}{end}"), style, theme, width)
            };
            add(field("moment", at.text(), *focus == 0));
            add(field("into", into.text(), *focus == 1));
            add(vec![Line::raw("")]);
            let help = "The moment is `latest`, RFC 3339 (2026-11-21T10:00:00Z), `10 minutes ago`, or a position of the timeline. \
                        The file must not exist; without one it is made beside the original, or in the current folder.";
            add(paragraph(help, 0, plain, width));
        }
        Step::Planning => {
            let text = match order.wish.verb {
                Verb::Ship => "asking",
                Verb::Restore | Verb::Prove => "asking the vault what would be read, and which point would be reached",
            };
            add(paragraph(text, 0, plain, width));
        }
        Step::Preview { preview, typed } => add(of_preview(order, preview, typed.text(), theme, width)),
        Step::Running { command, underway } => {
            add(labelled("command", command, plain, theme, width));
            // A backup is made by the process, which tells its progress with its status.
            let of_process =
                model.databases.iter().find(|entry| entry.key == order.wish.key && order.wish.verb == Verb::Ship);
            let underway = underway.as_ref().or_else(|| of_process?.progress.as_ref());
            let room = width.saturating_sub(16);
            let far = underway.map_or_else(|| "under way".to_owned(), |underway| progress(underway, room));
            add(labelled("progress", &far, plain, theme, width));
        }
        Step::Ended(Ok(said)) => said.iter().for_each(|line| add(paragraph(line, 0, theme.good(), width))),
        Step::Ended(Err(failure)) => {
            add(paragraph(&failure.to_string(), 0, theme.bad(), width));
            add(paragraph(&format!("next: {}", failure.next), 0, plain, width));
        }
    }
    lines
}

fn of_preview(order: &Order, preview: &Preview, typed: &str, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let plain = Style::new();
    let mut say = |label: &str, value: &str, style: Style| lines.extend(labelled(label, value, style, theme, width));
    say("command", &preview.command, plain);
    if let Some(point) = &preview.point {
        say("reaches", &table::point(point), plain);
    }
    if let Some((objects, bytes)) = preview.read {
        let objects = table::count(usize::try_from(objects).unwrap_or(usize::MAX), "object");
        say("reads", &format!("{objects}, {}", table::bytes(bytes)), plain);
    }
    for note in &preview.notes {
        say("note", note, theme.warning());
    }
    lines.push(Line::raw(""));
    if preview.is_offered {
        let text = format!("Type {} and press Enter to do it. Esc leaves it.", order.word);
        lines.extend(paragraph(&text, 0, plain, width));
        lines.extend(labelled("confirm", &format!("{typed}_"), theme.chosen(), theme, width));
    }
    lines
}

/// How far work is, with a bar where its size is known.
pub(super) fn progress(underway: &Underway, width: usize) -> String {
    let done = table::bytes(underway.done_bytes);
    let Some(total) = underway.total_bytes.filter(|total| *total > 0) else {
        return format!("{}, {done}", underway.stage);
    };
    let share =
        |of: u64| u64::try_from(u128::from(underway.done_bytes.min(total)) * u128::from(of) / u128::from(total));
    let percent = share(100).unwrap_or(100);
    let bar = usize::try_from(share(20).unwrap_or(20)).unwrap_or(20);
    let text = format!("{}, {percent} %, {done} of {}", underway.stage, table::bytes(total));
    if width < 60 { text } else { format!("[{}{}] {text}", "#".repeat(bar), ".".repeat(20 - bar)) }
}
