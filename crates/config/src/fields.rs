//! One mapping of a configuration, read key by key.
//!
//! Each key that the code reads becomes a known key; the keys left over in the end are unknown. So the list of known
//! keys, from which the nearest one is suggested, can't differ from the keys that are really read.

use std::time::Duration;

use seawall_core::parse_duration;

use crate::document::{Entry, Node, Value};
use crate::error::{Location, Problem};
use crate::size::parse_size;

/// A value with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    /// The line.
    pub line: usize,
    /// The value.
    pub value: T,
}

/// The keys of one mapping. The keys that weren't read yet are left in it.
#[derive(Debug)]
pub struct Fields {
    /// The part of the file, for messages.
    pub section: String,
    /// The line that the mapping begins on.
    pub line: usize,
    entries: Vec<Entry>,
    known: Vec<&'static str>,
}

impl Fields {
    /// Takes a mapping apart. An empty value is an empty mapping.
    pub fn new(section: impl Into<String>, node: Node) -> Result<Self, Location> {
        let section = section.into();
        let entries = match node.value {
            Value::Map(entries) => entries,
            Value::Empty => Vec::new(),
            other => {
                let expected = "a mapping of keys to values".to_owned();
                return Err(Problem::Value { key: section, expected, found: other.shape().into() }.at(node.line));
            }
        };
        Ok(Self { section, line: node.line, entries, known: Vec::new() })
    }

    /// The value under `key`; `None` when the key is missing or has no value.
    pub fn take(&mut self, key: &'static str) -> Option<Node> {
        self.take_even_empty(key).filter(|node| node.value != Value::Empty)
    }

    /// The value under `key`, also where that is nothing; `None` when the key is missing.
    pub fn take_even_empty(&mut self, key: &'static str) -> Option<Node> {
        self.known.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index).node)
    }

    /// A single value as text.
    pub fn text(&mut self, key: &'static str) -> Result<Option<At<String>>, Location> {
        match self.take(key) {
            None => Ok(None),
            Some(Node { line, value: Value::Text(value) }) => Ok(Some(At { line, value })),
            Some(Node { line, value }) => {
                Err(Problem::Value { key: key.into(), expected: "a single value".into(), found: value.shape().into() }
                    .at(line))
            }
        }
    }

    /// A single value as text, or a list of such values, joined by commas.
    pub fn joined(&mut self, key: &'static str) -> Result<Option<At<String>>, Location> {
        let Some(Node { line, value }) = self.take(key) else { return Ok(None) };
        let wrong = |found: &Value| {
            let expected = "a single value, or a list of them".to_owned();
            Problem::Value { key: key.into(), expected, found: found.shape().into() }.at(line)
        };
        match value {
            Value::Text(value) => Ok(Some(At { line, value })),
            Value::List(nodes) => {
                let texts = nodes.into_iter().map(|node| match node.value {
                    Value::Text(text) => Ok(text),
                    other => Err(wrong(&other)),
                });
                let value = texts.collect::<Result<Vec<_>, _>>()?.join(",");
                Ok(Some(At { line, value }))
            }
            other => Err(wrong(&other)),
        }
    }

    /// A single value as text, or a list of such values, each with its line; none if the key is missing.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<At<String>>, Location> {
        let Some(Node { line, value }) = self.take(key) else { return Ok(Vec::new()) };
        let text = |node: Node| match node.value {
            Value::Text(value) => Ok(At { line: node.line, value }),
            other => {
                let expected = "takes a single value, or a list of them".to_owned();
                Err(Problem::Value { key: key.into(), expected, found: other.shape().into() }.at(node.line))
            }
        };
        match value {
            Value::List(nodes) => nodes.into_iter().map(text).collect(),
            value => text(Node { line, value }).map(|one| vec![one]),
        }
    }

    /// A single value that `parse` understands; `expected` describes the valid values.
    pub fn parsed<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<At<T>>, Location> {
        let Some(At { line, value }) = self.text(key)? else { return Ok(None) };
        match parse(value.trim()) {
            Some(value) => Ok(Some(At { line, value })),
            None => Err(Problem::Value {
                key: key.into(),
                expected: format!("takes {expected}"),
                found: format!("\"{value}\""),
            }
            .at(line)),
        }
    }

    /// A span of time, with its unit.
    pub fn duration(&mut self, key: &'static str) -> Result<Option<At<Duration>>, Location> {
        self.parsed(key, "a time with its unit, such as 1s or 5m", parse_duration)
    }

    /// A span of time longer than nothing.
    pub fn positive_duration(&mut self, key: &'static str) -> Result<Option<At<Duration>>, Location> {
        self.parsed(key, "a time above zero with its unit, such as 1s or 5m", |text| {
            parse_duration(text).filter(|span| !span.is_zero())
        })
    }

    /// A number of bytes, with its unit, above zero.
    pub fn size(&mut self, key: &'static str) -> Result<Option<At<u64>>, Location> {
        self.parsed(key, "a size above zero with its unit, such as 64MiB", |text| {
            parse_size(text).filter(|size| *size > 0)
        })
    }

    /// A whole number above zero.
    pub fn count(&mut self, key: &'static str) -> Result<Option<At<u32>>, Location> {
        self.parsed(key, "a whole number above zero", |text| text.parse().ok().filter(|count| *count > 0))
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Result<Option<At<bool>>, Location> {
        self.parsed(key, "true or false", parse_bool)
    }

    /// A mapping under `key`.
    pub fn section(&mut self, key: &'static str) -> Result<Option<Fields>, Location> {
        self.take(key).map(|node| Fields::new(key, node)).transpose()
    }

    /// A list under `key`.
    pub fn list(&mut self, key: &'static str) -> Result<Option<At<Vec<Node>>>, Location> {
        match self.take(key) {
            None => Ok(None),
            Some(Node { line, value: Value::List(value) }) => Ok(Some(At { line, value })),
            Some(Node { line, value }) => {
                Err(Problem::Value { key: key.into(), expected: "takes a list".into(), found: value.shape().into() }
                    .at(line))
            }
        }
    }

    /// The error for a missing key.
    pub fn missing(&self, key: &'static str) -> Location {
        Problem::Missing { key, section: self.section.clone() }.at(self.line)
    }

    /// Ends the reading. A key that wasn't read is an error.
    pub fn finish(self) -> Result<(), Location> {
        match self.unknown().into_iter().next() {
            Some(unknown) => Err(unknown),
            None => Ok(()),
        }
    }

    /// Ends the reading. Returns the keys that weren't read.
    pub fn unknown(self) -> Vec<Location> {
        let Self { section, entries, known, .. } = self;
        let problem = |entry: Entry| {
            let nearest = nearest(&entry.key, &known).map(str::to_owned);
            Problem::UnknownKey { key: entry.key, section: section.clone(), nearest }.at(entry.line)
        };
        entries.into_iter().map(problem).collect()
    }
}

/// The truth values of YAML as people write them.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The known key that a misspelt key most likely means.
fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], "");
    let wanted = plain(key);
    let (distance, best) =
        known.iter().map(|candidate| (strsim::damerau_levenshtein(&wanted, &plain(candidate)), *candidate)).min()?;
    (distance <= 1 + wanted.len() / 4).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    #[test]
    fn the_nearest_key() {
        let known = ["sync-interval", "path", "name", "vault", "state-dir"];
        for (key, expected) in [
            ("sync_interval", Some("sync-interval")),
            ("syncInterval", Some("sync-interval")),
            ("sync-intreval", Some("sync-interval")),
            ("pth", Some("path")),
            ("valut", Some("vault")),
            ("retention", None),
            ("x", None),
        ] {
            assert_eq!(nearest(key, &known), expected, "{key}");
        }
    }

    #[test]
    fn values_by_type() {
        let mut fields = Fields::new("x", parse("t: 1m\ns: 2MiB\nn: 5\nb: yes\nz: 0\n").expect("YAML")).expect("map");
        assert_eq!(fields.duration("t"), Ok(Some(At { line: 1, value: Duration::from_secs(60) })));
        assert_eq!(fields.size("s"), Ok(Some(At { line: 2, value: 2 << 20 })));
        assert_eq!(fields.count("n"), Ok(Some(At { line: 3, value: 5 })));
        assert_eq!(fields.flag("b"), Ok(Some(At { line: 4, value: true })));
        assert_eq!(fields.count("z").map_err(|error| error.line), Err(5));
        assert_eq!(fields.text("absent"), Ok(None));
        assert_eq!(fields.texts("absent"), Ok(Vec::new()));
        assert_eq!(fields.finish(), Ok(()));
    }
}
