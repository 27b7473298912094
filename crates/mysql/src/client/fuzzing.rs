//! Every parser of this room, for the fuzz target.

use seawall_vault::Environment;

use super::line::{self, Line};
use super::packet::{self, Fields};
use super::url::Parts;
use super::{Target, answer, facts, handshake, login_path, option_file, url};

pub(crate) fn parse(bytes: &[u8]) {
    let _ = (answer::ok(bytes), answer::end(bytes), answer::error(bytes));
    let _ = (handshake::greeting(bytes).is_ok(), handshake::switch(bytes));
    let _ = (packet::header(bytes), Fields::of(bytes).value());
    for columns in [1, 3] {
        row(bytes, columns);
    }
    let _ = login_path::reveal(bytes);
    let text = String::from_utf8_lossy(bytes);
    let _ = facts::version(&text);
    let mut files = Parts::default();
    for text in text.lines() {
        if let Some(option_file::Line::Setting(name, value)) = option_file::line(text) {
            let _ = option_file::apply(&name, value.as_deref(), &mut files);
        }
    }
    let environment = Environment::empty();
    if let Ok(target) = url::parts(&text).and_then(|parts| Target::from_parts(parts, files, &environment)) {
        let shown = target.to_string();
        let again = url::parts(&shown).and_then(|parts| Target::from_parts(parts, Parts::default(), &environment));
        assert!(again.is_ok_and(|again| again.to_string() == shown), "{shown}");
    }
}

/// A row is the same line at once and in pieces, and a refused row is refused in both ways.
fn row(bytes: &[u8], columns: usize) {
    let mut whole = Vec::new();
    let accepted = line::append(bytes, columns, &mut whole).is_some();
    assert!(!accepted || whole.len() <= line::longest(bytes.len(), columns));
    let (mut pieces, mut rest, mut line) = (Vec::new(), bytes, Line::new(columns));
    while !line.is_complete() {
        let mut out = Vec::with_capacity(line::MARKS + 3);
        let here = rest.get(..rest.len().min(5)).unwrap_or_default();
        let Ok(taken) = line.feed(here, &mut out) else { break };
        pieces.extend_from_slice(&out);
        rest = rest.get(taken..).unwrap_or_default();
        if taken == 0 && out.is_empty() {
            break;
        }
    }
    assert_eq!(accepted, line.is_complete() && rest.is_empty());
    assert!(!accepted || pieces == whole);
}
