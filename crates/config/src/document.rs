//! A configuration file as a tree in which every key and value knows its line.
//!
//! A scalar stays the text of the file, because its meaning depends on its key. So a password `012345` or a bucket
//! `1e5` is never turned into a number. A key that occurs twice in a mapping, aliases that would expand without end,
//! and a second document are errors. Merge keys (`<<`) are followed.

use saphyr::{MarkedYaml, ScalarStyle, YamlData, YamlLoader};
use saphyr_parser::Parser;

use crate::error::{Location, Problem};

/// A value, and the line it begins on (from 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The line it begins on.
    pub line: usize,
    /// The value.
    pub value: Value,
}

/// The shapes a value can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing after the key.
    Empty,
    /// Text as written, without its quotes.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

impl Value {
    /// The shape, for messages.
    pub fn shape(&self) -> &'static str {
        match self {
            Self::Empty => "nothing",
            Self::Text(_) => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The line of the key.
    pub line: usize,
    /// The node under the key.
    pub node: Node,
}

/// Reads the one document in `text`; an empty file is an empty mapping.
pub fn parse(text: &str) -> Result<Node, Location> {
    let mut loader: YamlLoader<'_, MarkedYaml<'_>> = YamlLoader::default();
    loader.early_parse(false);
    let scanned = Parser::new_from_str(text).load(&mut loader, true);
    if let Some(error) = scanned.err().or_else(|| loader.error().cloned()) {
        return Err(Problem::Syntax(error.info().to_owned()).at(error.marker().line()));
    }
    let mut documents = loader.into_documents();
    if let Some(second) = documents.get(1) {
        return Err(Problem::Syntax("more than one document".into()).at(second.span.start.line()));
    }
    match documents.pop() {
        Some(document) => convert(document),
        None => Ok(Node { line: 1, value: Value::Empty }),
    }
}

fn convert(yaml: MarkedYaml<'_>) -> Result<Node, Location> {
    let line = yaml.span.start.line().max(1);
    let value = match yaml.data {
        YamlData::BadValue => Value::Empty,
        YamlData::Representation(text, ScalarStyle::Plain, _) if matches!(&*text, "" | "~" | "null" | "Null") => {
            Value::Empty
        }
        YamlData::Representation(text, ..) => Value::Text(text.into_owned()),
        YamlData::Sequence(items) => Value::List(items.into_iter().map(convert).collect::<Result<_, _>>()?),
        YamlData::Mapping(pairs) => {
            let pairs = pairs.into_iter().map(|(key, node)| entry(key, node)).collect::<Result<Vec<_>, _>>()?;
            Value::Map(merge(pairs)?)
        }
        YamlData::Tagged(_, inner) => return convert(*inner),
        YamlData::Value(_) | YamlData::Alias(_) => {
            return Err(Problem::Syntax("a value of a kind that has no place here".into()).at(line));
        }
    };
    Ok(Node { line, value })
}

fn entry(key: MarkedYaml<'_>, node: MarkedYaml<'_>) -> Result<Entry, Location> {
    let Node { line, value } = convert(key)?;
    match value {
        Value::Text(key) => Ok(Entry { key, line, node: convert(node)? }),
        _ => Err(Problem::Syntax("a key must be a word".into()).at(line)),
    }
}

/// Follows merge keys. A mapping's own keys win over merged ones.
fn merge(pairs: Vec<Entry>) -> Result<Vec<Entry>, Location> {
    let mut entries: Vec<Entry> = Vec::with_capacity(pairs.len());
    let mut merged = Vec::new();
    for pair in pairs {
        if pair.key == "<<" {
            merged.push(pair);
        } else if entries.iter().any(|entry| entry.key == pair.key) {
            return Err(Problem::Syntax(format!("the key \"{}\" occurs twice", pair.key)).at(pair.line));
        } else {
            entries.push(pair);
        }
    }
    for pair in merged {
        let sources = match pair.node.value {
            Value::List(list) => list,
            _ => vec![pair.node],
        };
        for source in sources {
            let Value::Map(inherited) = source.value else {
                return Err(Problem::Syntax("<< takes a mapping or a list of mappings".into()).at(pair.line));
            };
            for entry in inherited {
                if !entries.iter().any(|own| own.key == entry.key) {
                    entries.push(entry);
                }
            }
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: usize, text: &str) -> Node {
        Node { line, value: Value::Text(text.into()) }
    }

    #[test]
    fn keys_and_values_know_their_lines() {
        let tree = parse("# a comment\na: 1e5\nb:\n  - \"x\"\n  - 012\nc: ~\n").expect("YAML");
        let Value::Map(entries) = tree.value else { panic!("{tree:?}") };
        assert_eq!(entries[0], Entry { key: "a".into(), line: 2, node: text(2, "1e5") });
        assert_eq!(entries[1].node.value, Value::List(vec![text(4, "x"), text(5, "012")]));
        assert_eq!(entries[2].node.value, Value::Empty);
    }

    #[test]
    fn merge_keys_stand_behind_own_keys() {
        let tree = parse("base: &base\n  a: 1\n  b: 2\nmine:\n  <<: *base\n  b: 3\n").expect("YAML");
        let Value::Map(entries) = tree.value else { panic!("{tree:?}") };
        let Value::Map(mine) = &entries[1].node.value else { panic!("{entries:?}") };
        let found: Vec<_> = mine.iter().map(|e| (e.key.as_str(), &e.node.value)).collect();
        assert_eq!(found, [("b", &Value::Text("3".into())), ("a", &Value::Text("1".into()))]);
    }

    #[test]
    fn what_is_refused() {
        for (yaml, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: 1\n\"a\": 2\n", 2),
            ("a: [1\n", 2),
            ("a: 1\n---\nb: 2\n", 3),
            ("? [x]\n: 1\n", 1),
            ("a: 1\n<<: 5\n", 2),
            ("a:\n\t- x\n", 2),
        ] {
            let error = parse(yaml).expect_err(yaml);
            assert_eq!(error.line, line, "{yaml:?}: {}", error.problem);
        }
        assert_eq!(parse("").expect("an empty file").value, Value::Empty);
    }
}
