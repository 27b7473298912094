//! The screens as a terminal shows them, compared with files. `SEAWALL_WRITE_SCREENS=1` writes the files anew.
#![expect(clippy::disallowed_methods, reason = "the expected screens are files")]

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use seawall_core::{Failure, Kind as FailureKind, Underway};

use super::*;
use crate::ui::model::tests::{databases, model, now, press, preview, timeline};
use crate::ui::model::{Effect, Input, Told};

fn drawn(model: &Model, colours: bool, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| {
            let _ = draw(model, Theme { colours }, frame);
        })
        .expect("drawn");
    terminal.backend().buffer().clone()
}

fn rows(buffer: &Buffer, of: impl Fn(&Cell) -> String) -> Vec<String> {
    let rows = buffer.content.chunks(usize::from(buffer.area.width));
    rows.map(|row| row.iter().map(&of).collect::<String>().trim_end().to_owned()).collect()
}

fn text(buffer: &Buffer) -> String {
    rows(buffer, |cell| cell.symbol().to_owned()).join("\n") + "\n"
}

/// A letter for each style: its colour, else what else it is. Reversed rows have capitals.
fn letter(cell: &Cell) -> String {
    let letter = match cell.fg {
        Color::Red => 'r',
        Color::Yellow => 'y',
        Color::Green => 'g',
        Color::Cyan => 'c',
        _ if cell.modifier.contains(Modifier::REVERSED) => 'v',
        _ => ' ',
    };
    let is_reversed = cell.modifier.contains(Modifier::REVERSED);
    if is_reversed { letter.to_ascii_uppercase().to_string() } else { letter.to_string() }
}

/// A model of each kind of screen.
fn all() -> Vec<(&'static str, Model)> {
    let of = |keys: &str| {
        let mut model = model();
        press(&mut model, keys);
        model
    };
    let planned = |keys: &str| {
        let mut model = model();
        let effects = press(&mut model, keys);
        let [Effect::Plan(id, ..)] = effects[..] else { panic!("{effects:?}") };
        model.take(Input::Told(Told::Preview(id, Ok(preview()))));
        model
    };
    let mut with_timeline = model();
    let effects = press(&mut with_timeline, "t");
    let [Effect::Timeline(id, _)] = effects[..] else { panic!("{effects:?}") };
    with_timeline.take(Input::Told(Told::Timeline(id, Ok(timeline()))));
    press(&mut with_timeline, "<up>");
    let mut lost = model();
    let failure = Failure::new(
        FailureKind::NotFound,
        "agent.no-process",
        "/run/seawall.sock",
        "no running process answers",
        "start `seawall replicate`",
    );
    lost.take(Input::Told(Told::Databases(Err(failure.clone()))));
    let mut running = planned("r<enter>");
    let effects = press(&mut running, "app<enter>");
    let [Effect::Carry(id, ..)] = effects[..] else { panic!("{effects:?}") };
    let mut failed = running.clone();
    let underway = Underway { stage: "restore".into(), done_bytes: 1 << 20, total_bytes: Some(3 << 20) };
    running.take(Input::Told(Told::Underway(id, Some(underway))));
    failed.take(Input::Told(Told::Ended(id, Err(failure))));
    vec![
        ("fleet", of("")),
        ("fleet-filtered", of("/e<enter>")),
        ("fleet-lost", lost),
        ("database", of("<enter>")),
        ("database-failing", of("jj<enter>")),
        ("timeline", with_timeline),
        ("restore-form", of("r<tab>/tmp/b.db")),
        ("restore-preview", planned("r<enter>")),
        ("restore-running", running),
        ("restore-failed", failed),
        ("help", of("?")),
        ("log", of("l")),
    ]
}

#[test]
fn screens_are_as_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ui/screens/expected");
    let is_written = std::env::var_os("SEAWALL_WRITE_SCREENS").is_some();
    for (name, model) in all() {
        for size in [(80, 24), (120, 40)] {
            let (coloured, plain) = (drawn(&model, true, size), drawn(&model, false, size));
            assert_eq!(text(&coloured), text(&plain), "{name}: colours change no text");
            assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset), "{name}");
            let styles = rows(&coloured, letter).join("\n");
            let found = format!("{}---- colours\n{styles}\n", text(&coloured));
            let file = folder.join(format!("{name}-{}x{}.txt", size.0, size.1));
            if is_written {
                std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, &found)).expect("written");
            }
            let expected = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(found == expected, "{} isn't as it was:\n{found}", file.display());
        }
    }
}

#[test]
fn the_keys_of_each_screen_fit_into_80_columns() {
    for (name, model) in all() {
        for kind in [Kind::Process, Kind::Vault] {
            let mut model = model.clone();
            model.kind = kind;
            let shown = text(&drawn(&model, false, (80, 24)));
            let keys = shown.lines().last().unwrap_or_default();
            assert!(!keys.is_empty() && !keys.ends_with('~'), "{name}: {keys}");
        }
    }
}

#[test]
fn no_character_of_a_name_is_obeyed() {
    let mut hostile = model();
    for entry in &mut hostile.databases {
        let bad = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\r\n\u{200b}";
        for text in [&mut entry.name, &mut entry.engine, &mut entry.source, &mut entry.vault] {
            text.push_str(bad);
        }
        entry.doubts.push(bad.into());
        entry.facts.push((bad.into(), bad.into()));
    }
    hostile.place.push('\u{1b}');
    for keys in ["", "<enter>", "G<enter>", "l", "r", "/\u{e4}"] {
        let mut model = hostile.clone();
        press(&mut model, keys);
        for size in [(80, 24), (20, 5), (1, 1), (200, 60)] {
            let buffer = drawn(&model, true, size);
            assert!(buffer.content.iter().all(|cell| is_safe(cell.symbol())), "{keys} {size:?}");
        }
    }
}

#[test]
fn any_size_has_a_screen() {
    for (name, model) in all() {
        for width in [1, 2, 7, 16, 40, 79, 300] {
            for height in [1, 2, 3, 5, 10, 24] {
                let buffer = drawn(&model, true, (width, height));
                assert_eq!(buffer.area.area(), u32::from(width) * u32::from(height), "{name}");
            }
        }
    }
}

#[test]
fn many_databases_have_pages() {
    let mut many = model();
    let template = databases().remove(0);
    let entry = |number: usize| {
        let mut entry = template.clone();
        (entry.key, entry.name) = (format!("{number}"), format!("tenant-{number:04}"));
        entry
    };
    many.take(Input::Told(Told::Databases(Ok((0..1000).map(entry).collect()))));
    press(&mut many, "G");
    let shown = text(&drawn(&many, false, (80, 24)));
    assert!(shown.contains("tenant-0999") && !shown.contains("tenant-0000"), "{shown}");
    assert!(many.now == now());
}
