//! Environment variables in configurations: two rules, one for each format.
//!
//! In a `seawall.yml`, `${NAME}` in a value is replaced after YAML has been read, so that no variable's content can
//! become a key. In a `litestream.yml`, the text is expanded before it is read, as Litestream does.

use std::collections::BTreeSet;

use seawall_vault::Environment;

use crate::document::{Entry, Node, Value};
use crate::error::{Location, Problem};

/// Expands `${NAME}` in every value below `node`. `$${` means a literal `${`.
pub fn expand_values(node: Node, environment: &Environment) -> Result<Node, Location> {
    let line = node.line;
    let value = match node.value {
        Value::Empty => Value::Empty,
        Value::Text(text) => Value::Text(expand_strict(&text, environment).map_err(|problem| problem.at(line))?),
        Value::List(items) => {
            Value::List(items.into_iter().map(|item| expand_values(item, environment)).collect::<Result<_, _>>()?)
        }
        Value::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|Entry { key, line, node }| Ok(Entry { key, line, node: expand_values(node, environment)? }))
                .collect::<Result<_, _>>()?,
        ),
    };
    Ok(Node { line, value })
}

fn expand_strict(text: &str, environment: &Environment) -> Result<String, Problem> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find("${") {
        if let Some(before) = rest[..dollar].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[dollar + 2..];
            continue;
        }
        out.push_str(&rest[..dollar]);
        let tail = &rest[dollar + 2..];
        let Some(end) = tail.find('}') else {
            return Err(Problem::Value {
                key: "${".into(),
                expected: "a variable is written ${NAME}".into(),
                found: "without its closing brace".into(),
            });
        };
        let name = &tail[..end];
        out.push_str(environment.get(name).ok_or_else(|| Problem::Undefined(name.into()))?);
        rest = &tail[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Expands `$NAME` and `${NAME}` in the text of a `litestream.yml`: an unset variable is nothing, `$PID` is this
/// process's id `pid`, a `$` that begins no name stays.
pub fn expand_text(text: &str, environment: &Environment, pid: u32) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        let tail = &rest[dollar + 1..];
        let (name, used) = shell_name(tail);
        match name {
            Some("PID") => out.push_str(&pid.to_string()),
            Some(name) => out.push_str(environment.get(name).unwrap_or_default()),
            None if used == 0 => out.push('$'),
            None => {}
        }
        rest = &tail[used..];
    }
    out.push_str(rest);
    out
}

/// The names of the variables that a text of either format names: all that it may need of an environment.
pub fn named(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        let tail = &rest[dollar + 1..];
        let (name, used) = shell_name(tail);
        names.extend(name.map(str::to_owned));
        rest = &tail[used..];
    }
    names
}

/// The name after a `$`, and the bytes that it takes up. `(None, 0)` means that there is no name, `(None, n)` that a
/// broken name of n bytes is dropped.
fn shell_name(tail: &str) -> (Option<&str>, usize) {
    if let Some(inner) = tail.strip_prefix('{') {
        return match inner.find('}') {
            None => (None, 1),
            Some(0) => (None, 2),
            Some(end) => (Some(&inner[..end]), end + 2),
        };
    }
    let special = |c: char| matches!(c, '*' | '#' | '$' | '@' | '!' | '?' | '-') || c.is_ascii_digit();
    if tail.starts_with(special) {
        return (Some(&tail[..1]), 1);
    }
    match tail.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(tail.len()) {
        0 => (None, 0),
        end => (Some(&tail[..end]), end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        [("A", "one"), ("B_2", "two")].map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect()
    }

    #[test]
    fn our_own_format_is_strict() {
        for (text, expected) in [
            ("plain $A", Ok("plain $A")),
            ("${A}/${B_2}", Ok("one/two")),
            ("$${A}", Ok("${A}")),
            ("${MISSING}", Err(Problem::Undefined("MISSING".into()))),
        ] {
            assert_eq!(expand_strict(text, &environment()), expected.map(str::to_owned), "{text}");
        }
        assert!(expand_strict("${A", &environment()).is_err());
    }

    #[test]
    fn variables_that_a_text_names() {
        for (text, expected) in [
            ("plain", &[][..]),
            ("vault: ${A}/${B_2}\nkey: $A", &["A", "B_2"]),
            ("100$ and $ 5 ${A", &[]),
            ("grün$A€ ${B-2}", &["A", "B-2"]),
        ] {
            assert_eq!(named(text).iter().collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn litestreams_format_is_lenient() {
        for (text, expected) in [
            ("$A-$B_2", "one-two"),
            ("${A}x$Ax", "onex"),
            ("pid $PID ${PID}", "pid 42 42"),
            ("[$MISSING][${MISSING}]", "[][]"),
            ("100$ and $ 5", "100$ and $ 5"),
            ("a$$b", "ab"),
            ("${}x", "x"),
            ("${A", "A"),
            ("$1x", "x"),
            ("grün$A€", "grünone€"),
        ] {
            assert_eq!(expand_text(text, &environment(), 42), expected, "{text}");
        }
    }
}
