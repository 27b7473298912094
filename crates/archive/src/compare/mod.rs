//! Is what was restored what the set says? The form of the comparison; engines gather both sides.
//!
//! The room: `sum` (the rows of a table, whatever their order), `set` (the rows that a set has).

mod set;
mod sum;

pub use set::sums;
pub use sum::{Hashing, Lines, Sum, Summing};

use std::collections::BTreeMap;

use seawall_core::Finding;

/// A schema and a name in it. The schema is empty for what is in none.
pub type Name = (String, String);

/// A name for people: `public.orders`.
pub fn shown((schema, name): &Name) -> String {
    if schema.is_empty() { name.clone() } else { format!("{schema}.{name}") }
}

/// Something that isn't as the set says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The table or the object, for people.
    pub object: String,
    /// What differs.
    pub cause: String,
}

impl Difference {
    /// A difference of an object.
    pub fn new(object: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { object: object.into(), cause: cause.into() }
    }

    /// The difference as a finding of a proof, with the engine's stable code for differences.
    pub fn finding(self, code: &'static str) -> Finding {
        Finding { code, object: self.object, cause: self.cause }
    }
}

/// Tables whose rows differ from those of the set, tables that are missing, and tables that the set doesn't have.
pub fn rows(expected: &BTreeMap<Name, Sum>, found: &BTreeMap<Name, Sum>) -> Vec<Difference> {
    let differs = |(name, wanted): (&Name, &Sum)| {
        let cause = match found.get(name) {
            Some(sum) if sum == wanted => return None,
            Some(sum) if sum.rows == wanted.rows => "a row is not what it is in the set".to_owned(),
            Some(sum) => format!("it has {} rows, and {} in the set", sum.rows, wanted.rows),
            None => "it was not restored".to_owned(),
        };
        Some(Difference::new(shown(name), cause))
    };
    let others = found.keys().filter(|name| !expected.contains_key(*name));
    let others = others.map(|name| Difference::new(shown(name), "the set doesn't have it"));
    expected.iter().filter_map(differs).chain(others).collect()
}

/// Sequences with another position than in the `source`, a set or a vendor's dump. `position` puts a position into words.
pub fn sequences<V: PartialEq>(
    expected: &BTreeMap<Name, V>,
    found: &BTreeMap<Name, V>,
    source: &str,
    position: impl Fn(&V) -> String,
) -> Vec<Difference> {
    let differs = |(name, value): (&Name, &V)| {
        let there = found.get(name).filter(|there| *there != value).map(&position);
        let value = position(value);
        let cause = match (found.contains_key(name), there) {
            (true, None) => return None,
            (true, Some(there)) => format!("the sequence is at {there}, and at {value} in the {source}"),
            (false, _) => format!("the sequence is missing; in the {source} it is at {value}"),
        };
        Some(Difference::new(shown(name), cause))
    };
    expected.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(text: &str) -> Sum {
        let mut lines = Lines::default();
        lines.take(text.as_bytes());
        lines.end()
    }

    fn named(name: &str) -> Name {
        ("s".to_owned(), name.to_owned())
    }

    fn objects(differences: &[Difference]) -> Vec<&str> {
        differences.iter().map(|difference| difference.object.as_str()).collect()
    }

    #[test]
    fn every_table_that_differs_is_named() {
        let expected = BTreeMap::from(["same", "less", "other", "gone"].map(|name| (named(name), sum("a\nb\n"))));
        let found = BTreeMap::from([
            (named("same"), sum("b\na\n")),
            (named("less"), sum("a\n")),
            (named("other"), sum("a\nc\n")),
            (named("more"), sum("")),
        ]);
        let differences = rows(&expected, &found);
        assert_eq!(objects(&differences), ["s.gone", "s.less", "s.other", "s.more"]);
        assert_eq!(differences[1].cause, "it has 1 rows, and 2 in the set");
    }

    #[test]
    fn every_sequence_that_stands_elsewhere_or_nowhere_is_named() {
        let expected = BTreeMap::from([(named("same"), 1), (named("other"), 2), (named("gone"), 3)]);
        let found = BTreeMap::from([(named("same"), 1), (named("other"), 7), (named("more"), 1)]);
        let differences = sequences(&expected, &found, "set", |position| position.to_string());
        assert_eq!(objects(&differences), ["s.gone", "s.other"]);
        assert_eq!(differences[0].cause, "the sequence is missing; in the set it is at 3");
        assert_eq!(differences[1].cause, "the sequence is at 7, and at 2 in the set");
        assert_eq!(differences[1].clone().finding("x.different").code, "x.different");
    }
}
