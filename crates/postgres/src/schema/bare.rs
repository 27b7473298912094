//! The words of a statement, apart from what they say nothing about: texts, quoted names, comments. Pure.

/// A statement in capitals, with as many bytes as it has, where texts, quoted names and comments hold nothing that means
/// anything: of each only the first byte is left, which says what it was.
pub(crate) fn bare(statement: &[u8]) -> String {
    let mut bare = String::with_capacity(statement.len());
    let mut at = 0;
    while let Some((first, behind)) = statement.get(at..).and_then(<[u8]>::split_first) {
        let before = &statement[..at];
        let size = match first {
            b'\'' => 1 + past_quote(behind, b'\'', escapes(before)),
            b'"' => 1 + past_quote(behind, b'"', false),
            // A dollar is a letter within a name.
            b'$' if !before.last().is_some_and(is_letter) => past_dollars(&statement[at..]),
            b'-' if behind.first() == Some(&b'-') => {
                1 + behind.iter().position(|byte| *byte == b'\n').unwrap_or(behind.len())
            }
            b'/' if behind.first() == Some(&b'*') => past_comment(&statement[at..]),
            _ => 1,
        };
        bare.push(if first.is_ascii() { char::from(first.to_ascii_uppercase()) } else { '_' });
        bare.extend(std::iter::repeat_n('_', size - 1));
        at += size;
    }
    bare
}

/// Whether a byte goes on a name.
fn is_letter(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// Whether a backslash means something in a text behind `before`: in `E'…'`.
fn escapes(before: &[u8]) -> bool {
    match before.split_last() {
        Some((b'E' | b'e', others)) => !others.last().is_some_and(is_letter),
        _ => false,
    }
}

/// How far it is past the quote that ends a text or a name. One that belongs to it stands twice.
fn past_quote(text: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'\\' if escapes => 2,
            byte if *byte != quote => 1,
            _ if text.get(at + 1) == Some(&quote) => 2,
            _ => return at + 1,
        };
    }
    text.len()
}

/// How far it is past a text between two `$tag$`; past the dollar alone, where it begins none.
fn past_dollars(text: &[u8]) -> usize {
    let Some(end) = text.iter().skip(1).position(|byte| *byte == b'$').map(|at| at + 1) else { return 1 };
    let (tag, inner) = (&text[..=end], &text[1..end]);
    if inner.first().is_some_and(u8::is_ascii_digit) || !inner.iter().all(is_letter) {
        return 1;
    }
    let rest = &text[tag.len()..];
    tag.len() + rest.windows(tag.len()).position(|some| some == tag).map_or(rest.len(), |at| at + tag.len())
}

/// How far it is past a comment, which may hold others.
fn past_comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(two) = text.get(at..at + 2) {
        match two {
            b"/*" => depth = depth.saturating_add(1),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_are_left() {
        for (statement, expected) in [
            ("comment on table t is 'a''b(' ;", "COMMENT ON TABLE T IS '______ ;"),
            ("\"a\"\"b c\".d", "\"_______.D"),
            ("E'\\'' || f(), e'a''\\' )'", "E'___ || F(), E'________"),
            ("(E'\\'', 'x\\')", "(E'___, '___)"),
            // No text that escapes: it ends at the second quote, and the last one begins another.
            ("name'\\''x'", "NAME'_____"),
            ("$x$ ( $$ $x$)", "$___________)"),
            ("a$$(b)$$", "A$$(B)$_"),
            ("$1 + $2", "$1 + $2"),
            ("a -- it's\nb", "A -______\nB"),
            ("/* a /* ' */ ' */ b", "/________________ B"),
            ("/* a", "/___"),
            ("'a", "'_"),
            ("é'é'", "__'___"),
        ] {
            assert_eq!(bare(statement.as_bytes()), expected, "{statement}");
            assert_eq!(bare(statement.as_bytes()).len(), statement.len());
        }
    }
}
