//! The words of a statement: where names, texts and comments begin and end. Pure.
//!
//! Statements of a set come from `SHOW CREATE`, under a session whose `sql_mode` we set, so that a backslash escapes in texts
//! and backticks are for names. A statement that doesn't follow these rules has no words, and is refused.

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Letters, digits, `_`, `$`, and every byte that isn't ASCII.
    Word,
    /// A name in backticks.
    Name,
    /// A text in quotes.
    Text,
    /// A comment. One whose content a server runs (`/*! … */`) is a single word as well.
    Comment,
    /// Any other character.
    Sign(u8),
}

/// A word, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) bytes: &'a [u8],
}

impl Word<'_> {
    /// Where it ends.
    pub(crate) fn end(&self) -> usize {
        self.start + self.bytes.len()
    }

    /// Whether it is this word of the language, in any case.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.bytes.eq_ignore_ascii_case(word.as_bytes())
    }

    /// Whether it is this character.
    pub(crate) fn is_sign(&self, sign: u8) -> bool {
        self.kind == Kind::Sign(sign)
    }

    /// The name that it is, without backticks. A name may also be a plain word.
    pub(crate) fn name(&self) -> Option<String> {
        let inner = match self.kind {
            Kind::Name => self.bytes.strip_prefix(b"`")?.strip_suffix(b"`")?,
            Kind::Word => self.bytes,
            _ => return None,
        };
        let name = std::str::from_utf8(inner).ok()?;
        Some(if self.kind == Kind::Name { name.replace("``", "`") } else { name.to_owned() })
    }
}

/// The words of a statement, in order. `None`: a name, a text or a comment has no end.
pub(crate) fn words(sql: &[u8]) -> Option<Vec<Word<'_>>> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some((word, end)) = next(sql, at)? {
        words.push(word);
        at = end;
    }
    Some(words)
}

/// A statement as text. Where a text in it has bytes that are no UTF-8, as the default of a binary column, it stands in
/// hexadecimal. `None`: it isn't text otherwise.
pub(crate) fn readable(sql: &[u8]) -> Option<String> {
    if let Ok(text) = std::str::from_utf8(sql) {
        return Some(text.to_owned());
    }
    let (mut out, mut done) = (String::with_capacity(sql.len()), 0);
    for word in words(sql)?.iter().filter(|word| word.kind == Kind::Text && std::str::from_utf8(word.bytes).is_err()) {
        out.push_str(std::str::from_utf8(sql.get(done..word.start)?).ok()?);
        let digits: String = value(word.bytes)?.iter().map(|byte| format!("{byte:02X}")).collect();
        out.push_str(&format!("X'{digits}'"));
        done = word.end();
    }
    out.push_str(std::str::from_utf8(sql.get(done..)?).ok()?);
    Some(out)
}

/// The value of a text in quotes.
fn value(text: &[u8]) -> Option<Vec<u8>> {
    let (quote, rest) = text.split_first()?;
    let inner = rest.strip_suffix(&[*quote])?;
    let (mut out, mut bytes) = (Vec::with_capacity(inner.len()), inner.iter());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next()? {
                b'0' => 0,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'b' => 8,
                b'Z' => 26,
                other => *other,
            },
            byte if byte == quote => *bytes.next()?,
            byte => *byte,
        });
    }
    Some(out)
}

/// The first words of a statement, at most `most`: what stands behind them may follow other rules.
pub(crate) fn first_words(sql: &[u8], most: usize) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    while words.len() < most
        && let Some(Some((word, end))) = next(sql, at)
    {
        words.push(word);
        at = end;
    }
    words
}

/// The next word from `at` on, and where it ends; inner `None` at the end of the statement.
fn next(sql: &[u8], mut at: usize) -> Option<Option<(Word<'_>, usize)>> {
    while sql.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    let Some(&first) = sql.get(at) else { return Some(None) };
    let rest = sql.get(at..).unwrap_or_default();
    let (kind, length) = match first {
        b'`' => (Kind::Name, quoted(rest, false)?),
        b'\'' | b'"' => (Kind::Text, quoted(rest, true)?),
        b'/' if rest.get(1) == Some(&b'*') => (Kind::Comment, comment(rest)?),
        b'#' => (Kind::Comment, line(rest)),
        b'-' if rest.starts_with(b"--") && rest.get(2).is_none_or(|byte| *byte <= b' ') => (Kind::Comment, line(rest)),
        byte if is_of_word(byte) => (Kind::Word, rest.iter().position(|byte| !is_of_word(*byte)).unwrap_or(rest.len())),
        byte => (Kind::Sign(byte), 1),
    };
    let bytes = rest.get(..length)?;
    Some(Some((Word { kind, start: at, bytes }, at + length)))
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// The bytes of something in quotes, both quotes included. A quote within is doubled, or a backslash precedes it.
fn quoted(rest: &[u8], escapes: bool) -> Option<usize> {
    let quote = *rest.first()?;
    let mut at = 1;
    loop {
        let byte = *rest.get(at)?;
        if byte == b'\\' && escapes {
            at += 2;
        } else if byte == quote {
            if rest.get(at + 1) != Some(&quote) {
                return Some(at + 1);
            }
            at += 2;
        } else {
            at += 1;
        }
    }
}

/// The bytes of a comment. What a server runs is made of words, and the comment's end isn't within one of them.
fn comment(rest: &[u8]) -> Option<usize> {
    let is_run = matches!(rest.get(2..4), Some([b'!', _] | [b'M', b'!']));
    if !is_run {
        let end = rest.get(2..)?.windows(2).position(|pair| pair == b"*/")?;
        return Some(end + 4);
    }
    let mut at = 3;
    loop {
        while rest.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if rest.get(at..)?.starts_with(b"*/") {
            return Some(at + 2);
        }
        at += match rest.get(at)? {
            b'`' => quoted(rest.get(at..)?, false)?,
            b'\'' | b'"' => quoted(rest.get(at..)?, true)?,
            // A comment within a comment ends at its own end.
            b'/' if rest.get(at + 1) == Some(&b'*') => {
                rest.get(at + 2..)?.windows(2).position(|pair| pair == b"*/")? + 4
            }
            _ => 1,
        };
    }
}

fn line(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(sql: &str) -> Option<Vec<String>> {
        let words = words(sql.as_bytes())?;
        Some(words.iter().map(|word| String::from_utf8_lossy(word.bytes).into_owned()).collect())
    }

    #[test]
    fn statements_have_words() {
        for (sql, expected) in [
            ("CREATE TABLE `a``b` (x)", Some(&["CREATE", "TABLE", "`a``b`", "(", "x", ")"][..])),
            ("'it''s' 'a\\'b' \"q\\\\\"", Some(&["'it''s'", "'a\\'b'", "\"q\\\\\""])),
            ("a/*!50100 PARTITION '*/' `*/` */b", Some(&["a", "/*!50100 PARTITION '*/' `*/` */", "b"])),
            ("/*M!100301 x*/ /* ' */ y", Some(&["/*M!100301 x*/", "/* ' */", "y"])),
            ("a -- b\nc # d\ne a--b", Some(&["a", "-- b", "c", "# d", "e", "a", "-", "-", "b"])),
            ("`back\\`x", Some(&["`back\\`", "x"])),
            ("größe=1.5", Some(&["größe", "=", "1", ".", "5"])),
            ("`a", None),
            ("'a", None),
            ("'a\\'", None),
            ("/*! 'a */", None),
            ("/* a", None),
            ("", Some(&[])),
        ] {
            assert_eq!(
                shown(sql),
                expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
                "{sql}"
            );
        }
    }

    #[test]
    fn texts_that_are_no_utf_8_are_told_in_hexadecimal() {
        for (sql, expected) in [
            (&b"DEFAULT 'a' COMMENT 'x\xC3\xA4'"[..], Some("DEFAULT 'a' COMMENT 'x\u{e4}'")),
            (b"DEFAULT '\\0\xff''\\\\\\n' COMMENT 'it''s'", Some("DEFAULT X'00FF275C0A' COMMENT 'it''s'")),
            (b"`a\xff` 'x'", None),
            (b"'\xff", None),
        ] {
            assert_eq!(readable(sql).as_deref(), expected);
        }
    }

    #[test]
    fn names_lose_their_backticks() {
        let name = |sql: &str| words(sql.as_bytes()).and_then(|words| words.first()?.name());
        for (sql, expected) in
            [("`a``b`", Some("a`b")), ("root", Some("root")), ("'a'", None), ("(", None), ("``", Some(""))]
        {
            assert_eq!(name(sql).as_deref(), expected, "{sql}");
        }
    }

    proptest! {
        #[test]
        fn words_lie_one_behind_another(sql in prop::collection::vec(prop_oneof![
            any::<u8>(), Just(b'`'), Just(b'\''), Just(b'\\'), Just(b'/'), Just(b'*'), Just(b'!'), Just(b' '), Just(b'-')
        ], 0..60)) {
            let found = words(&sql).unwrap_or_else(|| first_words(&sql, usize::MAX));
            let mut end = 0;
            for word in found {
                prop_assert!(word.start >= end && !word.bytes.is_empty());
                prop_assert_eq!(sql.get(word.start..word.end()), Some(word.bytes));
                end = word.end();
            }
        }
    }
}
