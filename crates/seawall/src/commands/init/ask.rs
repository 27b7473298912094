//! The three questions: which databases, where to keep them, for how long.

use std::collections::BTreeSet;
use std::io::BufRead;

use seawall_agent::VaultUrl;
use seawall_agent::config::read_place;
use seawall_core::{Failure, Kind, parse_duration};

use super::found::Thing;
use crate::edge::{Edge, usage};

/// For how long every moment can be restored, unless something else is said.
pub(super) const KEEP: &str = "7d";

/// The folder for everything, unless something else is said.
pub(super) const VAULT: &str = "./vault";

/// How often a question is repeated after an answer that isn't understood.
const ATTEMPTS: usize = 3;

/// What a person, or the command line, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answers {
    /// The places of the databases in the list that was shown.
    pub(super) taken: BTreeSet<usize>,
    /// A URL without secrets, or a folder from the root.
    pub(super) vault: String,
    pub(super) keep: String,
}

/// A person at a terminal.
pub(super) struct Person<'a> {
    pub(super) answers: &'a mut dyn BufRead,
    pub(super) say: &'a mut dyn FnMut(&str),
}

impl Person<'_> {
    /// Asks until an answer is understood, a few times at most.
    pub(super) fn ask<T>(&mut self, question: &str, read: impl Fn(&str) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            (self.say)(question);
            let mut line = String::new();
            match self.answers.read_line(&mut line) {
                Ok(1..) => {}
                Ok(_) | Err(_) => return Err(no_answer("the answers ended")),
            }
            match read(line.trim()) {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    (self.say)(&format!("{}: {}\n", failure.cause, failure.next));
                    last = Some(failure);
                }
            }
        }
        Err(last.unwrap_or_else(|| no_answer("nothing was asked")))
    }
}

/// Nothing can be decided.
pub(super) fn no_answer(cause: &str) -> Failure {
    let next = "start it again on a terminal, or give --yes to take every SQLite database";
    Failure::new(Kind::Refused, "command.no-answer", "seawall init", format!("{cause}, and nothing was written"), next)
}

/// The databases that are taken unless something else is said.
pub(super) fn plain(things: &[Thing]) -> BTreeSet<usize> {
    things.iter().enumerate().filter(|(_, thing)| thing.what.is_plain()).map(|(at, _)| at).collect()
}

/// Reads numbers of the list, such as `1,3-5`.
pub(super) fn which(answer: &str, things: &[Thing]) -> Result<BTreeSet<usize>, Failure> {
    let taken = match answer {
        "" => plain(things),
        "all" => (0..things.len()).collect(),
        numbers => read_numbers(numbers, things.len())?,
    };
    if taken.is_empty() {
        return Err(not_understood(answer, "no database is chosen"));
    }
    Ok(taken)
}

fn read_numbers(text: &str, count: usize) -> Result<BTreeSet<usize>, Failure> {
    let mut taken = BTreeSet::new();
    for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        match (from.trim().parse::<usize>(), to.trim().parse::<usize>()) {
            (Ok(from @ 1..), Ok(to)) if from <= to && to <= count => taken.extend(from - 1..to),
            _ => return Err(not_understood(part, "the list has no such number")),
        }
    }
    Ok(taken)
}

fn not_understood(answer: &str, cause: &str) -> Failure {
    usage("usage.arguments", answer, cause, "give numbers of the list, such as 1,3-5, or all")
}

/// Reads a span, as the configuration has it.
pub(super) fn keep(answer: &str) -> Result<String, Failure> {
    match answer {
        "" => Ok(KEEP.to_owned()),
        span if span == "forever" || parse_duration(span).is_some_and(|span| !span.is_zero()) => Ok(span.to_owned()),
        _ => Err(usage(
            "usage.keep",
            answer,
            "this is no span of time",
            "give one with its unit, such as 7d, or forever",
        )),
    }
}

/// Reads a place. A folder comes out from the root, and a URL as it was given.
pub(super) fn vault(answer: &str, edge: &Edge) -> Result<String, Failure> {
    let text = if answer.is_empty() { VAULT } else { answer };
    if has_secret(text) {
        let place = text.split_once("://").map_or("the vault", |(scheme, _)| scheme);
        let next = "give it without: docs/configuration.md says where the credentials of a vault come from";
        return Err(usage("usage.secret", place, "the URL may hold a secret, and none is written to a file", next));
    }
    match read_place(text, &edge.directory)? {
        VaultUrl::File(path) if !text.contains("://") => Ok(path.display().to_string()),
        _ => Ok(text.to_owned()),
    }
}

/// Whether a URL may hold a secret: rather refused without need than written.
fn has_secret(text: &str) -> bool {
    const WORDS: [&str; 9] = ["secret", "password", "phrase", "token", "key", "sig", "jwt", "seed", "sas"];
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let names_user = matches!(scheme, "sftp" | "abs" | "webdav" | "webdavs");
    let is_secret = |setting: &str| {
        let name = setting.split('=').next().unwrap_or_default().to_ascii_lowercase();
        let is_file = name.ends_with("-file") || name.ends_with("-path");
        !is_file && WORDS.iter().any(|word| name.contains(word))
    };
    user.is_some_and(|user| !names_user || user.contains(':')) || query.split('&').any(is_secret)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::found::What;
    use super::*;

    fn things() -> Vec<Thing> {
        let sqlite = |path: &str| What::Sqlite { path: path.to_owned(), wal: true };
        let all = [sqlite("/a"), sqlite("/b"), What::Mysql { socket: "/s".to_owned() }];
        all.map(|what| Thing { what, programs: BTreeSet::new() }).into()
    }

    fn edge() -> Edge {
        Edge { directory: PathBuf::from("/srv"), ..Edge::of_process() }
    }

    #[test]
    fn which_databases() {
        for (answer, expected) in [
            ("", Some(vec![0, 1])),
            ("all", Some(vec![0, 1, 2])),
            ("3", Some(vec![2])),
            ("1, 3", Some(vec![0, 2])),
            ("2-3", Some(vec![1, 2])),
            ("1-1,1", Some(vec![0])),
            ("0", None),
            ("4", None),
            ("3-2", None),
            ("1-9999999999999999999999", None),
            ("-1", None),
            ("none", None),
            (",", None),
        ] {
            let taken = which(answer, &things()).ok().map(|taken| taken.into_iter().collect::<Vec<_>>());
            assert_eq!(taken, expected, "{answer}");
        }
        assert!(which("", &things()[2..]).is_err(), "a server isn't taken unasked");
    }

    #[test]
    fn where_to_keep_it() {
        for (answer, expected) in [
            ("", Some("/srv/vault")),
            ("backup", Some("/srv/backup")),
            ("/mnt/b", Some("/mnt/b")),
            ("file:///mnt/b", Some("file:///mnt/b")),
            ("s3://bucket/prefix", Some("s3://bucket/prefix")),
            ("s3://bucket/p?endpoint=https://h&region=eu", Some("s3://bucket/p?endpoint=https://h&region=eu")),
            ("sftp://me@host/backup", Some("sftp://me@host/backup")),
            ("sftp://me:hush@host/backup", None),
            ("s3://bucket/p?secret-access-key=hush", None),
            ("s3://AKIA@bucket/p", None),
            ("webdavs://me:hush@host/p", None),
            ("nats://hush@host/bucket", None),
            ("gopher://host/p", None),
        ] {
            let read = vault(answer, &edge());
            assert_eq!(read.as_deref().ok(), expected, "{answer}: {read:?}");
            assert!(!format!("{:?}", read.err()).contains("hush"), "{answer}");
        }
    }

    #[test]
    fn for_how_long() {
        for (answer, expected) in [
            ("", Some("7d")),
            ("30d", Some("30d")),
            ("forever", Some("forever")),
            ("0s", None),
            ("7", None),
            ("x", None),
        ] {
            assert_eq!(keep(answer).ok().as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn a_question_is_repeated_and_ends() {
        for (typed, expected) in [
            ("30d\n", Ok("30d")),
            ("soon\n\n", Ok("7d")),
            ("a\nb\nc\n1d\n", Err("usage.keep")),
            ("", Err("command.no-answer")),
            ("soon\n", Err("command.no-answer")),
        ] {
            let mut said = String::new();
            let mut person = Person { answers: &mut typed.as_bytes(), say: &mut |text| said.push_str(text) };
            let answer = person.ask("how long? ", keep);
            assert_eq!(answer.as_deref().map_err(|failure| failure.code), expected, "{typed:?}");
            assert!(said.starts_with("how long? "), "{said}");
        }
    }
}
