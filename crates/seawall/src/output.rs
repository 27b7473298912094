//! The result of a command: text for people, one JSON document for programs.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write as _};

use seawall_core::{Failure, Kind, is_visible};
use serde::Serialize;
use serde_json::{Value, json};

use crate::exit::Exit;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Output {
    /// For people; may be empty.
    pub(crate) text: String,
    /// What failed beside it, for people; programs find it in the JSON.
    pub(crate) failures: Vec<Failure>,
    /// For programs (docs/json.md).
    pub(crate) json: Value,
    /// The exit code.
    pub(crate) exit: Exit,
}

impl Output {
    /// A result that was reached.
    pub(crate) fn done(text: impl Into<String>, json: &impl Serialize) -> Self {
        Self { text: text.into(), failures: Vec::new(), json: to_json(json), exit: Exit::Done }
    }

    /// The same, with nothing to say to people.
    pub(crate) fn without_text(self) -> Self {
        Self { text: String::new(), ..self }
    }

    /// A result that was printed while it was made.
    pub(crate) fn printed() -> Self {
        Self { text: String::new(), failures: Vec::new(), json: Value::Null, exit: Exit::Done }
    }

    /// Prints it to standard output. A reader that went away (`| head`) is no failure.
    pub(crate) fn print(self, json: bool) -> Exit {
        if !json {
            self.failures.iter().for_each(|failure| print_failure(failure, false));
        }
        let text = match json {
            true if self.json.is_null() => String::new(),
            true => escaped(&format!("{:#}\n", self.json)),
            false => shown(&self.text).into_owned(),
        };
        match print(&text) {
            Err(error) => {
                print_failure(&unprinted(&error, self.exit), false);
                Exit::Failed
            }
            Ok(()) => self.exit,
        }
    }
}

/// Prints to standard output. A reader that went away is no failure.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Prints a large document for programs to standard output while it is made, so that memory holds neither its tree nor its text. A reader that
/// went away is no failure.
pub(crate) fn print_document(document: &impl Serialize) -> io::Result<()> {
    let mut out = Visible(io::BufWriter::new(io::stdout().lock()));
    let printed = serde_json::to_writer_pretty(&mut out, document).map_err(io::Error::from);
    match printed.and_then(|()| out.0.write_all(b"\n")).and_then(|()| out.0.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes JSON as [`escaped`] has it. Each write must have whole characters, as those of a serializer have.
struct Visible<W>(W);

impl<W: io::Write> io::Write for Visible<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(json).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        self.0.write_all(escaped(text).as_bytes())?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The failure of a command whose output can't be written, although its work ended with `exit`.
pub(crate) fn unprinted(error: &io::Error, exit: Exit) -> Failure {
    let (work, next) = match exit {
        Exit::Done => ("; the work itself is done", "make room where standard output goes; the work needs no repeat"),
        Exit::Partly => {
            ("; the work itself is done in part", "make room where standard output goes, and start the command again")
        }
        _ => ("", "make room where standard output goes, and start the command again"),
    };
    let cause = format!("the output can't be written: {error}{work}");
    Failure::new(Kind::Unavailable, "command.output", "standard output", cause, next)
}

/// A value as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

/// A JSON text in which every character that a reader doesn't see in its place is escaped: outside of strings it has only spaces
/// and ends of lines. A parser reads the same values.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || is_visible(c) {
            text.push(c);
        } else {
            // JSON escapes units of UTF-16.
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

/// A text that is safe for a terminal. Characters that move the cursor, change the title or reverse the text are
/// escaped as in a string. Names may come from anyone.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| matches!(c, '\n' | '\t') || is_visible(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_plain(c) { escaped.push(c) } else { escaped.extend(c.escape_default()) }
    }
    Cow::Owned(escaped)
}

/// A failure as text: object, cause and next step. Line breaks in the name of the object are escaped.
pub(crate) fn failure_text(failure: &Failure) -> String {
    let object = failure.object.replace('\n', "\\n");
    format!("error[{}]: {object}: {}\nnext: {}\n", failure.code, brief(&failure.cause), failure.next)
}

/// Letters of a sentence that a terminal gets before its list of names is cut.
const BRIEF: usize = 300;

/// A cause for a terminal: of each sentence that names very many, some, and how many more there are. JSON has all of them.
pub(crate) fn brief(cause: &str) -> Cow<'_, str> {
    if cause.len() <= BRIEF {
        return Cow::Borrowed(cause);
    }
    let cut = |sentence: &str| {
        let end = sentence.char_indices().nth(BRIEF).map_or(sentence.len(), |(end, _)| end);
        // A sentence without a list isn't cut.
        let last = sentence[..end].rfind(", ").filter(|_| end < sentence.len());
        let Some(last) = last else { return sentence.to_owned() };
        format!("{} and {} more (--json names all)", &sentence[..last], sentence[last..].matches(", ").count())
    };
    Cow::Owned(cause.split("; ").map(cut).collect::<Vec<_>>().join("; "))
}

/// Prints a failure: to standard error as text, or as the one JSON document on standard output.
pub(crate) fn print_failure(failure: &Failure, json: bool) {
    if !json {
        return complain(&failure_text(failure));
    }
    let document = escaped(&format!("{:#}\n", json!({ "error": failure })));
    // If standard output is closed, the exit code still reports the failure.
    if let Err(error) = print(&document) {
        complain(&failure_text(&unprinted(&error, Exit::Failed)));
        complain(&failure_text(failure));
    }
}

/// Prints to standard error.
pub(crate) fn complain(text: &str) {
    drop(std::io::stderr().lock().write_all(shown(text).as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_the_same_whole_and_in_parts() {
        let document = json!({ "name": "a\u{202e}b\n\u{9b}\u{1f30a}\"", "list": [1, { "x": null }], "empty": {} });
        let mut parts = Visible(Vec::new());
        serde_json::to_writer_pretty(&mut parts, &document).expect("written");
        assert_eq!(String::from_utf8(parts.0).expect("text"), escaped(&format!("{document:#}")));
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_escaped() {
        for (text, expected) in [
            ("plain\ttext\nof two lines, \u{e4} \u{1f418}", "plain\ttext\nof two lines, \u{e4} \u{1f418}"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\rb\u{9b}2J\u{7f}", "a\\rb\\u{9b}2J\\u{7f}"),
            ("abc\u{202e}txt", "abc\\u{202e}txt"),
            ("abc\u{200b}txt\u{feff}", "abc\\u{200b}txt\\u{feff}"),
        ] {
            assert_eq!(shown(text), expected);
        }
        let failure = Failure::new(Kind::NotFound, "c", "a\nerror[x]: b", "cause", "next");
        assert_eq!(failure_text(&failure), "error[c]: a\\nerror[x]: b: cause\nnext: next\n");
    }

    #[test]
    fn json_shows_no_character_that_is_not_seen() {
        let value = json!({ "a\u{200b}": "x\u{202e}y\u{1b}\u{e0041}\n\u{e4}" });
        let text = escaped(&format!("{value:#}\n"));
        assert!(text.chars().all(|c| c == '\n' || is_visible(c)), "{text:?}");
        assert!(text.contains("\\u202e") && text.contains("\\udb40\\udc41") && text.contains('\u{e4}'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn a_terminal_gets_some_of_very_many_names() {
        let names = |count| (0..count).map(|number| format!("public.t{number:04}")).collect::<Vec<_>>().join(", ");
        let few = format!("it may not read {}; nor write", names(5));
        assert_eq!(brief(&few), few);
        let many = format!("it may not read {}; it may not read large objects", names(1000));
        let told = brief(&many);
        assert!(told.starts_with("it may not read public.t0000, public.t0001, "), "{told}");
        assert!(
            told.ends_with("public.t0019 and 980 more (--json names all); it may not read large objects"),
            "{told}"
        );
        let prose = "x".repeat(1000);
        assert_eq!(brief(&prose), prose);
    }

    #[test]
    fn a_failure_says_what_and_what_next() {
        let failure = Failure::new(Kind::NotFound, "vault.not-found", "./vault", "there is nothing", "look elsewhere");
        assert_eq!(failure_text(&failure), "error[vault.not-found]: ./vault: there is nothing\nnext: look elsewhere\n");
        assert_eq!(
            json!({ "error": failure }),
            json!({ "error": {
                "kind": "not-found",
                "code": "vault.not-found",
                "object": "./vault",
                "cause": "there is nothing",
                "next": "look elsewhere",
            }})
        );
    }
}
