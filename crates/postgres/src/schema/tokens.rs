//! The tokens of a statement: words, quoted names, texts and signs. Pure.
//!
//! They stand on [`bare`], so that nothing inside a text, a quoted name or a comment is taken for a word. A comment is a sign: no
//! program that makes backups writes one within a statement, and no caller here knows a statement with such a sign.

use crate::schema::bare::bare;

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A word without quotes, in capitals.
    Word(String),
    /// A name in quotes.
    Name,
    /// A text in quotes.
    Text,
    /// Anything else, or the beginning of a comment.
    Sign(char),
}

/// A token, and where it begins in the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) at: usize,
}

impl Placed {
    /// Whether it is this word. The word is written in capitals.
    pub(crate) fn is(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(found) if found == word)
    }

    /// Whether it is this sign.
    pub(crate) fn is_sign(&self, sign: char) -> bool {
        self.token == Token::Sign(sign)
    }

    /// Whether it is a name, with quotes or without.
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.token, Token::Word(_) | Token::Name)
    }
}

/// The tokens of a statement, at most `most` of them.
pub(crate) fn tokens(statement: &[u8], most: usize) -> Vec<Placed> {
    let bare = bare(statement);
    let bytes = bare.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at).filter(|_| tokens.len() < most) {
        let from = at;
        at += 1;
        // A vertical tab is a blank in some versions of the server only, so it is a sign here.
        if byte.is_ascii_whitespace() {
            continue;
        }
        let past = |at: usize, goes_on: &dyn Fn(&u8) -> bool| {
            bytes.get(at..).unwrap_or_default().iter().position(|byte| !goes_on(byte)).map_or(bytes.len(), |n| at + n)
        };
        let token = match byte {
            b'"' | b'\'' => {
                at = past(at, &|byte| *byte == b'_');
                if *byte == b'"' { Token::Name } else { Token::Text }
            }
            // A text between dollars, whose inside is blank; a parameter begins otherwise.
            b'$' if bytes.get(at) == Some(&b'_') => {
                at = past(at, &|byte| *byte == b'_');
                Token::Text
            }
            byte if is_letter(byte) && *byte != b'$' => {
                at = past(at, &is_letter);
                Token::Word(bare.get(from..at).unwrap_or_default().to_owned())
            }
            byte => Token::Sign(char::from(*byte)),
        };
        tokens.push(Placed { token, at: from });
    }
    tokens
}

/// A statement that is looked at as a whole has at most so many bytes.
const LARGEST: usize = 16 << 20;

/// The bytes and tokens in which the beginning of a statement must stand.
const BEGINNING: (usize, usize) = (1024, 8);

/// The tokens that a statement begins with.
pub(crate) fn first(statement: &[u8]) -> Vec<Placed> {
    tokens(statement.get(..BEGINNING.0).unwrap_or(statement), BEGINNING.1)
}

/// All tokens of a statement; none where it is larger than any that is looked at as a whole.
pub(crate) fn all(statement: &[u8]) -> Vec<Placed> {
    if statement.len() > LARGEST { Vec::new() } else { tokens(statement, usize::MAX) }
}

fn is_letter(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

/// The name that begins `text`, as the server takes it: in lower case without quotes. `None`: there is none, or its case isn't known
/// for sure because it has letters beyond ASCII.
pub(crate) fn name(text: &[u8]) -> Option<String> {
    // What follows the name may have another encoding.
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let goes_on = |byte: &u8| is_letter(byte) || !byte.is_ascii();
        let end = text.iter().position(|byte| !goes_on(byte)).unwrap_or(text.len());
        let word = text.get(..end).filter(|word| !word.is_empty() && word.is_ascii())?;
        return Some(String::from_utf8_lossy(word).to_ascii_lowercase());
    };
    let (name, is_closed) = unquoted(quoted);
    if is_closed { String::from_utf8(name).ok() } else { None }
}

/// A name behind its opening quote, with each doubled quote as one, and whether a quote closes it. Without one it ends with the last doubled quote.
pub(super) fn unquoted(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut name = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == b'"') {
        let (part, behind) = rest.split_at(end);
        name.extend_from_slice(part);
        match behind.strip_prefix(b"\"\"") {
            Some(more) => {
                name.push(b'"');
                rest = more;
            }
            None => return (name, true),
        }
    }
    (name, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_names_texts_and_signs() {
        let shown = |statement: &str| -> Vec<String> {
            let shown = |placed: &Placed| match &placed.token {
                Token::Word(word) => word.clone(),
                Token::Name => "NAME".to_owned(),
                Token::Text => "TEXT".to_owned(),
                Token::Sign(sign) => format!("<{sign}>"),
            };
            tokens(statement.as_bytes(), 9).iter().map(shown).collect()
        };
        for (statement, expected) in [
            ("copy public.\"a b\" (a,b)", "COPY PUBLIC <.> NAME <(> A <,> B <)>"),
            ("SELECT 'a''b', $$x$$, $1", "SELECT TEXT <,> TEXT <,> <$> 1"),
            ("DROP/* x */DATABASE", "DROP </> ______DATABASE"),
            ("DROP -- x\nTABLE t", "DROP <-> ___ TABLE T"),
            ("\u{b}COPY t", "<\u{b}> COPY T"),
            ("", ""),
        ] {
            assert_eq!(shown(statement).join(" "), expected, "{statement}");
        }
    }

    #[test]
    fn names_as_the_server_takes_them() {
        for (text, expected) in [
            ("Shop WITH", Some("shop")),
            ("\"The \"\"shop\"\"\" x", Some("The \"shop\"")),
            ("\"open", None),
            ("Ä", None),
            ("", None),
            ("'x'", None),
        ] {
            assert_eq!(name(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }
}
