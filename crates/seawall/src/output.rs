//! What a command says in the end: text for people, one JSON document for programs.

use std::io::Write as _;

use seawall_core::Failure;
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
            true => format!("{:#}\n", self.json),
            false => self.text,
        };
        let mut out = std::io::stdout().lock();
        let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        match printed {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Failed,
            _ => self.exit,
        }
    }
}

/// A value as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

/// A failure as text: what happened to what, and what to do next.
pub(crate) fn failure_text(failure: &Failure) -> String {
    format!("error[{}]: {}: {}\nnext: {}\n", failure.code, failure.object, failure.cause, failure.next)
}

/// Prints a failure: to standard error as text, or as the one JSON document on standard output.
pub(crate) fn print_failure(failure: &Failure, json: bool) {
    if !json {
        return complain(&failure_text(failure));
    }
    let document = format!("{:#}\n", json!({ "error": failure }));
    // Nobody is left to tell: the exit code still says it.
    drop(std::io::stdout().lock().write_all(document.as_bytes()));
}

/// Prints to standard error.
pub(crate) fn complain(text: &str) {
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use seawall_core::Kind;

    use super::*;

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
