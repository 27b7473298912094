//! The keys: those of a screen in its last line, and all of them on a screen of their own.

use ratatui::style::Style;
use ratatui::text::Line;

use super::style::{Theme, labelled, paragraph};
use crate::ui::model::{Kind, Model, Screen, Step};

pub(super) fn lines(model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let of_process = "asks the process";
    for (keys, does) in [
        ("up, down, k, j", "move; PageUp, PageDown, g and G move further"),
        ("Enter", "open the database; in a timeline, restore the chosen row's newest point"),
        ("Esc, q", "go back; in the list q quits"),
        ("/", "show only databases whose name, engine or state has a text; Enter keeps the filter, Esc removes it"),
        ("t", "what can be restored: asks the vault once"),
        ("r", "restore beside the original, with a preview"),
        ("b", "ship what is committed now; of a server, make a backup now"),
        ("p", "restore into a throw-away folder, check it, and record the proof"),
        ("u", "ask the vault again"),
        ("w", "return to work that is under way"),
        ("l", "what happened in this session"),
        ("Ctrl-L", "draw the screen again"),
        ("Ctrl-Z", "suspend; `fg` continues"),
        ("Ctrl-C", "quit"),
    ] {
        if model.kind == Kind::Vault && matches!(keys, "b" | "p") {
            continue;
        }
        lines.extend(labelled(keys, does, Style::new(), theme, width));
    }
    let marks = "Marks: ! needs attention now, ~ has a warning. `newest` is the age of the newest point in the vault.";
    let asks = match model.kind {
        Kind::Process => format!("The list {of_process} every second, and no vault."),
        Kind::Vault => "Nothing is asked for unless you press a key.".to_owned(),
    };
    lines.push(Line::raw(""));
    lines.extend(paragraph(&format!("{marks} {asks}"), 0, Style::new(), width));
    lines
}

/// The keys of the screen that is seen, the most useful first.
pub(super) fn keys(model: &Model) -> &'static str {
    if model.is_filtering {
        return "type a text   Enter keep it   Esc remove it";
    }
    match (model.screen(), model.kind) {
        (Screen::Fleet, Kind::Process) => {
            "Enter open  t timeline  r restore  b backup  p proof  / filter  ? help  q quit"
        }
        (Screen::Fleet, Kind::Vault) => "Enter open  t timeline  r restore  / filter  u again  l log  ? help  q quit",
        (Screen::Database, Kind::Process) => "t timeline  r restore  b backup  p proof  l log  ? help  q back",
        (Screen::Database, Kind::Vault) => "t timeline  r restore  l log  ? help  q back",
        (Screen::Timeline, _) => "Enter restore the chosen row's newest point  u ask again  ? help  q back",
        (Screen::Order, _) => match model.order.as_ref().map(|order| &order.step) {
            Some(Step::Form { .. }) => "Enter preview  Tab other field  Ctrl-U empty it  Esc leave",
            Some(Step::Planning) => "Esc leave",
            Some(Step::Preview { .. }) => "Enter do it, once the name is typed  Esc leave",
            Some(Step::Running { .. }) => "x give it up  Esc leave it running (w returns)",
            Some(Step::Ended(_)) | None => "Enter back",
        },
        (Screen::Log | Screen::Help, _) => "up, down scroll  q back",
    }
}
