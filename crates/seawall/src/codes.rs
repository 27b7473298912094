//! What every code means, from the one table that there is: `docs/errors.md` is part of the program.
//!
//! A row says which kinds of error have the code. The exit code and whether a retry can help follow from the kind.

use seawall_core::{Kind, Severity};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use crate::exit::Exit;

/// The document.
const DOCUMENT: &str = include_str!("../../../docs/errors.md");

/// The most codes that are suggested for an unknown one.
const SUGGESTED: usize = 5;

/// A row of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry<'d> {
    /// The code.
    pub(crate) code: &'d str,
    /// The heading of its part of the document.
    pub(crate) part: &'d str,
    /// What has the code.
    pub(crate) uses: Vec<Use<'d>>,
    /// What it means.
    pub(crate) means: &'d str,
    /// The next thing to do.
    pub(crate) next: &'d str,
}

/// What has a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use<'d> {
    /// An error of this kind. `own_exit` is an exit code that isn't the kind's.
    Error { kind: Kind, own_exit: Option<u8> },
    /// An alarm.
    Alarm(Severity),
    /// Neither: a finding, a warning in the log.
    Other(&'d str),
}

/// Whether the same may succeed when it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The cause may pass, although nobody does anything.
    Later,
    /// Something ended it from outside, and it can be started again.
    Now,
    /// It fails again until somebody acts.
    Never,
}

impl Use<'_> {
    fn read(word: &str) -> Use<'_> {
        let (name, own_exit) = match word.split_once(" (") {
            Some((name, rest)) => (name, rest.trim_end_matches(')').parse().ok()),
            None => (word, None),
        };
        let text = || -> StrDeserializer<'_, Error> { name.into_deserializer() };
        match (Kind::deserialize(text()), Severity::deserialize(text())) {
            (Ok(kind), _) => Use::Error { kind, own_exit },
            (_, Ok(severity)) => Use::Alarm(severity),
            _ => Use::Other(word),
        }
    }

    /// The exit code of a command that fails as a whole with this.
    pub(crate) fn exit(self) -> Option<u8> {
        match self {
            Use::Error { kind, own_exit } => Some(own_exit.unwrap_or_else(|| Exit::of(kind).code())),
            Use::Alarm(_) | Use::Other(_) => None,
        }
    }

    /// Whether trying again can help; only errors are tried.
    pub(crate) fn retry(self) -> Option<Retry> {
        match self {
            Use::Error { kind, .. } if kind.may_pass() => Some(Retry::Later),
            Use::Error { kind: Kind::Interrupted, .. } => Some(Retry::Now),
            Use::Error { .. } => Some(Retry::Never),
            Use::Alarm(_) | Use::Other(_) => None,
        }
    }
}

/// Every code, in the document's order.
pub(crate) fn all() -> Vec<Entry<'static>> {
    read(DOCUMENT)
}

fn read(document: &str) -> Vec<Entry<'_>> {
    let mut part = "";
    let mut found = Vec::new();
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            part = heading;
        }
        found.extend(entry(line, part));
    }
    found
}

/// A row of a table with four columns, of which the first is a code.
fn entry<'d>(line: &'d str, part: &'d str) -> Option<Entry<'d>> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let mut cells = row.splitn(4, " | ");
    let mut cell = || cells.next();
    let (code, uses, means, next) = (cell()?, cell()?, cell()?, cell()?);
    let code = code.strip_prefix('`')?.strip_suffix('`')?;
    Some(Entry { code, part, uses: uses.split(", ").map(Use::read).collect(), means, next })
}

/// The codes that a text most likely means, the nearest first.
pub(crate) fn nearest<'d>(text: &str, entries: &[Entry<'d>]) -> Vec<&'d str> {
    let wanted: String = text.to_ascii_lowercase().replace('_', "-");
    let distance = |code: &str| {
        let problem = code.split_once('.').map_or(code, |(_, problem)| problem);
        let distance = strsim::damerau_levenshtein(&wanted, code).min(strsim::damerau_levenshtein(&wanted, problem));
        let is_part = wanted.len() >= 3 && code.contains(&wanted);
        (is_part || distance <= 1 + wanted.len() / 4).then_some(distance)
    };
    let mut found: Vec<(usize, &str)> =
        entries.iter().filter_map(|entry| Some((distance(entry.code)?, entry.code))).collect();
    found.sort_unstable();
    found.into_iter().take(SUGGESTED).map(|(_, code)| code).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_of_the_document_is_understood() {
        let entries = all();
        let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(entries.len(), rows, "rows need four cells: code, kind, means, next");
        let codes: BTreeSet<&str> = entries.iter().map(|entry| entry.code).collect();
        assert_eq!(codes.len(), rows, "a code stands there twice");
        for entry in &entries {
            let Entry { code, uses, means, next, .. } = entry;
            assert!(!means.is_empty() && !next.is_empty() && !entry.part.is_empty(), "{code}");
            assert!([means, next].iter().all(|cell| !cell.contains("](") && !cell.contains(" | ")), "{code}");
            let known = |one: &Use<'_>| !matches!(one, Use::Other(word) if !["any", "a finding", "a warning in the log", "a test"].contains(word));
            assert!(uses.iter().all(known), "{code}: {uses:?}");
            let is_alarm = uses.iter().any(|one| matches!(one, Use::Alarm(_)));
            assert_eq!(is_alarm, code.starts_with("alarm."), "{code}");
        }
    }

    #[test]
    fn what_a_row_says() {
        let error = |kind| Use::Error { kind, own_exit: None };
        for (row, expected) in [
            ("| `a.b` | usage, denied | m | n |", Some(vec![error(Kind::Usage), error(Kind::Denied)])),
            ("| `a.b` | interrupted (75) | m | n |", {
                Some(vec![Use::Error { kind: Kind::Interrupted, own_exit: Some(75) }])
            }),
            ("| `a.b` | critical | m | n |", Some(vec![Use::Alarm(Severity::Critical)])),
            ("| `a.b` | a finding | m | n |", Some(vec![Use::Other("a finding")])),
            ("| `a.b` | usage | m |", None),
            ("| kind | exit code | a retry | that |", None),
            ("|---|---|---|---|", None),
            ("a text", None),
        ] {
            assert_eq!(entry(row, "Part").map(|entry| entry.uses), expected, "{row}");
        }
    }

    #[test]
    fn exit_and_retry_follow_from_the_kind() {
        for (word, exit, retry) in [
            ("usage", Some(2), Some(Retry::Never)),
            ("not-found", Some(4), Some(Retry::Never)),
            ("refused", Some(1), Some(Retry::Never)),
            ("conflict", Some(1), Some(Retry::Never)),
            ("corrupt", Some(1), Some(Retry::Never)),
            ("denied", Some(1), Some(Retry::Never)),
            ("unavailable", Some(1), Some(Retry::Later)),
            ("interrupted", Some(130), Some(Retry::Now)),
            ("interrupted (75)", Some(75), Some(Retry::Now)),
            ("internal", Some(1), Some(Retry::Never)),
            ("warning", None, None),
            ("any", None, None),
        ] {
            let read = Use::read(word);
            assert_eq!((read.exit(), read.retry()), (exit, retry), "{word}");
        }
    }

    #[test]
    fn what_an_unknown_code_most_likely_means() {
        let entries = all();
        for (text, expected) in [
            ("sqlite.two-writer", &["sqlite.two-writers"][..]),
            ("two-writers", &["lmdb.two-writers", "sqlite.two-writers"]),
            ("SQLITE.TWO_WRITERS", &["sqlite.two-writers"]),
            ("vault.timeot", &["vault.timeout"]),
            ("nothing like any of them", &[]),
            ("", &[]),
        ] {
            let found = nearest(text, &entries);
            assert!(found.len() <= SUGGESTED && found.starts_with(expected), "{text}: {found:?}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{text}: {found:?}");
        }
    }
}
