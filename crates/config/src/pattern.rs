//! Which file names of a folder match? Shell patterns on the last part of a path.
//!
//! The rules are those of Litestream's `pattern`, so that its configurations mean the same here. `*` matches any
//! characters and `?` any one. `[a-z]` matches one character of a class, and `[^a-z]` one that isn't in it. A backslash
//! takes the next character literally. Nothing else is special.

use std::fmt;

/// A pattern that is sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `*`
    Any,
    /// `?`
    One,
    /// A character.
    Char(char),
    /// A class: the ranges in it, and whether it means all others.
    Class { ranges: Vec<(char, char)>, others: bool },
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Char(wanted) => *wanted == c,
            Self::Class { ranges, others } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *others,
        }
    }
}

impl Pattern {
    /// Reads a pattern; `None` when it is none, because a class or an escape has no end.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            parts.push(match c {
                '*' => Part::Any,
                '?' => Part::One,
                '\\' => Part::Char(rest.next()?),
                '[' => {
                    let others = rest.next_if_eq(&'^').is_some();
                    let mut ranges = Vec::new();
                    while ranges.is_empty() || rest.next_if_eq(&']').is_none() {
                        let low = class_char(&mut rest)?;
                        let high = if rest.next_if_eq(&'-').is_some() { class_char(&mut rest)? } else { low };
                        ranges.push((low, high));
                    }
                    Part::Class { ranges, others }
                }
                c => Part::Char(c),
            });
        }
        // Two stars in a row mean what one means.
        parts.dedup_by(|a, b| *a == Part::Any && *b == Part::Any);
        Some(Self { text: text.to_owned(), parts })
    }

    /// Everything.
    pub fn any() -> Self {
        Self { text: "*".to_owned(), parts: vec![Part::Any] }
    }

    /// Whether a file name is meant. Costs at most the product of both lengths.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut part) = (0, 0);
        // Where to continue if the last star has to take one character more.
        let mut star = None;
        while at < name.len() {
            match (self.parts.get(part), name.get(at)) {
                (Some(Part::Any), _) => {
                    star = Some((part, at));
                    part += 1;
                }
                (Some(wanted), Some(c)) if wanted.takes(*c) => (at, part) = (at + 1, part + 1),
                _ => match star {
                    None => return false,
                    Some((of, from)) => {
                        star = Some((of, from + 1));
                        (at, part) = (from + 1, of + 1);
                    }
                },
            }
        }
        self.parts.iter().skip(part).all(|part| *part == Part::Any)
    }
}

/// One end of a range: any character but the ones that have a meaning here, unless they are escaped.
fn class_char(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match rest.next()? {
        '\\' => rest.next(),
        '-' | ']' => None,
        c => Some(c),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_patterns() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.db", "app.db", true),
            ("*.db", ".db", true),
            ("*.db", "app.db-wal", false),
            ("*.db*", "app.db-wal", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "x", true),
            ("app?.db", "app1.db", true),
            ("app?.db", "app.db", false),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[^a-c]x", "dx", true),
            ("[a-cx-z]", "y", true),
            ("[!a]", "!", true),
            (r"\*.db", "*.db", true),
            (r"\*.db", "a.db", false),
            (r"[\]]", "]", true),
            ("{a,b}", "a", false),
            ("büro-?", "büro-ü", true),
            ("", "", true),
            ("", "x", false),
        ] {
            let parsed = Pattern::parse(pattern).expect(pattern);
            assert_eq!(parsed.matches(name), expected, "{pattern} {name}");
            assert_eq!(parsed.to_string(), pattern);
        }
    }

    #[test]
    fn what_is_no_pattern() {
        for text in ["[", "[]", "[a", "[a-", "[a-]", "[-a]", "\\", "[^]"] {
            assert_eq!(Pattern::parse(text), None, "{text}");
        }
    }

    #[test]
    fn many_stars_cost_little() {
        let pattern = Pattern::parse(&"*a".repeat(50)).expect("a pattern");
        assert!(!pattern.matches(&"a".repeat(49).repeat(20).replace('a', "b")));
        assert!(pattern.matches(&"ba".repeat(500)));
    }

    proptest::proptest! {
        #[test]
        fn an_escaped_name_matches_itself_alone(name in "[^/]{0,20}", other in "[^/]{0,20}") {
            let escaped: String = name.chars().flat_map(|c| ['\\', c]).collect();
            let pattern = Pattern::parse(&escaped).expect("a pattern");
            proptest::prop_assert!(pattern.matches(&name));
            proptest::prop_assert_eq!(pattern.matches(&other), name == other);
        }

        #[test]
        fn any_text_is_a_pattern_or_none(text in "[\\[\\]^*?\\\\a-]{0,12}", name in "[a\\-^]{0,8}") {
            if let Some(pattern) = Pattern::parse(&text) {
                pattern.matches(&name);
            }
        }
    }
}
