//! Statements that add rows: only values that stand there, nothing that a server computes. Pure.

use super::reading::{Dialect, Modes, Reader, Server, Token, text};

/// Words that a row may have.
const VALUES: [&[u8]; 4] = [b"NULL", b"DEFAULT", b"TRUE", b"FALSE"];

/// Whether a statement begins as one that adds rows.
pub(super) fn is_insert(sql: &[u8]) -> bool {
    let end = sql.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(sql.len());
    let verb = sql.get(..end).unwrap_or_default();
    verb.eq_ignore_ascii_case(b"INSERT") || verb.eq_ignore_ascii_case(b"REPLACE")
}

/// Whether a statement only adds rows of values to a table of the session's own database.
pub(super) fn adds_values(sql: &[u8], modes: Modes) -> bool {
    // No server runs a comment of this version, and one that it may run ends the reading.
    let mut reader = Reader::new(sql, Dialect::of(Server { mariadb: false, version: 0 }), modes);
    match head(&mut reader) {
        Some(values) if !reader.has_lines => {
            let head = sql.get(..values).unwrap_or_default();
            !head.windows(2).any(|two| two == b"/*") && are_values(sql.get(values..).unwrap_or_default(), modes)
        }
        _ => false,
    }
}

/// Reads up to VALUES, and says where the rows begin.
fn head(reader: &mut Reader<'_>) -> Option<usize> {
    let is = |token: &Token<'_>, words: &[&str]| match token {
        Token::Word(word) => words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())),
        _ => false,
    };
    let is_name = |token: &Token<'_>| matches!(token, Token::Word(_) | Token::Name(_));
    let mut next = || Some(reader.next().ok()??.token);
    next().filter(|token| is(token, &["INSERT", "REPLACE"]))?;
    let mut token = next()?;
    while is(&token, &["IGNORE", "DELAYED", "LOW_PRIORITY", "HIGH_PRIORITY"]) {
        token = next()?;
    }
    if !is(&token, &["INTO"]) || !is_name(&next()?) {
        return None;
    }
    token = next()?;
    if token == Token::Sign(b'(') {
        loop {
            token = next()?;
            if token == Token::Sign(b')') {
                break;
            }
            if !is_name(&token) {
                return None;
            }
            match next()? {
                Token::Sign(b',') => {}
                Token::Sign(b')') => break,
                _ => return None,
            }
        }
        token = next()?;
    }
    if !is(&token, &["VALUES", "VALUE"]) {
        return None;
    }
    reader.place()
}

/// Whether these are rows of values, up to the end.
fn are_values(mut rest: &[u8], modes: Modes) -> bool {
    let (mut is_open, mut any) = (false, false);
    loop {
        let size = match rest {
            [] => return any && !is_open,
            [b' ' | b'\t' | b'\n' | b'\r', ..] => 1,
            [b',', ..] => 1,
            [b'(', ..] if !is_open => {
                (is_open, any) = (true, true);
                1
            }
            [b')', ..] if is_open => {
                is_open = false;
                1
            }
            _ if !is_open => return false,
            [b'-', b'-', ..] => return false,
            [b'-' | b'+', ..] => 1,
            [b'"', ..] if modes.ansi => return false,
            [b'\'' | b'"', ..] => match text(rest, modes.plain) {
                Some(size) => size,
                None => return false,
            },
            [b'.' | b'0'..=b'9', ..] => match number(rest) {
                Some(size) => size,
                None => return false,
            },
            [byte, ..] if byte.is_ascii_alphabetic() || *byte == b'_' => {
                let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
                let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
                let is_value = VALUES.iter().any(|known| word.eq_ignore_ascii_case(known));
                // X'00', b'1' and N'a' have no blank before the text; _binary 'a' may have one.
                let is_kind = matches!(word, [b'x' | b'X' | b'b' | b'B' | b'n' | b'N']) && behind.starts_with(b"'");
                let behind = behind.trim_ascii_start();
                let is_charset = word.starts_with(b"_") && matches!(behind, [b'\'', ..] | [b'0', b'x', ..]);
                if !is_value && !is_kind && !is_charset {
                    return false;
                }
                word.len()
            }
            _ => return false,
        };
        rest = rest.get(size..).unwrap_or_default();
    }
}

/// The bytes of a number at the beginning; `None` if letters or a name follow it.
fn number(rest: &[u8]) -> Option<usize> {
    let digits = |from: usize, is: fn(&u8) -> bool| {
        from + rest.get(from..).unwrap_or_default().iter().take_while(|byte| is(byte)).count()
    };
    let end = match rest {
        [b'0', b'x', ..] => digits(2, u8::is_ascii_hexdigit),
        [b'0', b'b', ..] => digits(2, |byte| matches!(byte, b'0' | b'1')),
        _ => {
            let mut at = digits(0, u8::is_ascii_digit);
            if rest.get(at) == Some(&b'.') {
                at = digits(at + 1, u8::is_ascii_digit);
            }
            if at == 1 && rest.first() == Some(&b'.') {
                return None;
            }
            if matches!(rest.get(at), Some(b'e' | b'E')) {
                let is_signed = matches!(rest.get(at + 1), Some(b'-' | b'+'));
                let end = digits(at + 1 + usize::from(is_signed), u8::is_ascii_digit);
                if end == at + 1 + usize::from(is_signed) {
                    return None;
                }
                at = end;
            }
            at
        }
    };
    let is_ended = rest.get(end).is_none_or(|byte| matches!(byte, b',' | b')' | b' ' | b'\t' | b'\n' | b'\r'));
    is_ended.then_some(end)
}
