//! Which table do rows of a script go to? Pure.

use crate::schema::tokens::{Placed, Token, first, tokens, unquoted};

/// The most tokens before the rows of a statement: names of columns, with commas.
const COLUMNS: usize = 8192;

/// A table, by its names as the server takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

impl Target {
    /// Whether it is none of the server's own tables, of which some are those of all databases: roles, settings.
    pub(crate) fn is_of_users(&self) -> bool {
        let is_own = |schema: &str| schema == "information_schema" || schema.starts_with("pg_");
        match &self.schema {
            Some(schema) => !is_own(schema),
            // The server looks into its own schema first.
            None => !self.name.starts_with("pg_"),
        }
    }
}

/// The table of a COPY.
pub(crate) fn of_rows(statement: &[u8]) -> Option<Target> {
    let tokens = first(statement);
    Some(table(statement, tokens.get(1..)?)?.0)
}

/// Whether it is an INSERT.
pub(crate) fn is_insert(statement: &[u8]) -> bool {
    first(statement).first().is_some_and(|first| first.is("INSERT"))
}

/// The foreign table that a statement makes.
pub(crate) fn foreign(statement: &[u8]) -> Option<Target> {
    let tokens = first(statement);
    let is = |place: usize, word: &str| tokens.get(place).is_some_and(|token| token.is(word));
    let is_one = is(0, "CREATE") && is(1, "FOREIGN") && is(2, "TABLE");
    Some(table(statement, tokens.get(3..).filter(|_| is_one)?)?.0)
}

/// The table of an INSERT of constants, as `pg_dump --inserts` writes it, and how many rows it has; `None` of any other.
pub(crate) fn inserted(statement: &[u8]) -> Option<(Target, u64)> {
    let all = tokens(statement, usize::MAX);
    let [insert, into, rest @ ..] = &all[..] else { return None };
    let (target, rest) = table(statement, rest).filter(|_| insert.is("INSERT") && into.is("INTO"))?;
    let rest = columns(rest)?;
    let rest = match rest {
        [a, b, c, rest @ ..] if a.is("OVERRIDING") && (b.is("SYSTEM") || b.is("USER")) && c.is("VALUE") => rest,
        rest => rest,
    };
    let rest = match rest {
        [default, values] if default.is("DEFAULT") && values.is("VALUES") => return Some((target, 1)),
        [values, rest @ ..] if values.is("VALUES") => rest,
        _ => return None,
    };
    let rows = match rest {
        [rows @ .., a, b, c, d] if a.is("ON") && b.is("CONFLICT") && c.is("DO") && d.is("NOTHING") => rows,
        rows => rows,
    };
    let is_comment = |two: &[Placed]| two.iter().all(|token| token.is_sign('-'));
    // Constants have no parentheses of their own.
    let count = rows.iter().filter(|token| token.is_sign('(')).count() as u64;
    (count > 0 && rows.iter().all(is_constant) && !rows.windows(2).any(is_comment)).then_some((target, count))
}

/// Whether a token may stand in rows of constants. A function would be a word of its own, or a name.
fn is_constant(token: &Placed) -> bool {
    match &token.token {
        // Bits have a letter before their text.
        Token::Word(word) => {
            matches!(word.as_str(), "NULL" | "DEFAULT" | "TRUE" | "FALSE" | "B" | "X")
                || word.starts_with(|first: char| first.is_ascii_digit())
        }
        Token::Text => true,
        Token::Sign(sign) => matches!(sign, ',' | '(' | ')' | '-' | '+' | '.'),
        Token::Name => false,
    }
}

/// The name of a table with its schema or without, and what follows it. A name with a database before it is none that a backup has.
fn table<'a>(statement: &[u8], tokens: &'a [Placed]) -> Option<(Target, &'a [Placed])> {
    let read = |token: &Placed| token.is_name().then(|| name(statement.get(token.at..).unwrap_or_default()));
    let one = read(tokens.first()?)?;
    let (target, rest) = match tokens {
        [_, dot, second, rest @ ..] if dot.is_sign('.') => (Target { schema: Some(one), name: read(second)? }, rest),
        [_, rest @ ..] => (Target { schema: None, name: one }, rest),
        [] => return None,
    };
    let goes_on = rest.first().is_some_and(|token| token.is_sign('.') || token.is_sign('&'));
    (!goes_on).then_some((target, rest))
}

/// The name that begins `text`, in any encoding whose letters beyond ASCII have no byte of ASCII: the server's own names have ASCII alone.
fn name(text: &[u8]) -> String {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii();
        let end = text.iter().position(|byte| !is_letter(byte)).unwrap_or(text.len());
        return String::from_utf8_lossy(text.get(..end).unwrap_or_default()).to_ascii_lowercase();
    };
    String::from_utf8_lossy(&unquoted(quoted).0).into_owned()
}

/// What follows a list of columns, if there is one.
fn columns(tokens: &[Placed]) -> Option<&[Placed]> {
    let Some((open, rest)) = tokens.split_first() else { return Some(tokens) };
    if !open.is_sign('(') {
        return Some(tokens);
    }
    let end = rest.iter().take(COLUMNS).position(|token| token.is_sign(')'))?;
    let (names, behind) = rest.split_at(end);
    names.iter().all(|token| token.is_name() || token.is_sign(',')).then(|| behind.get(1..)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_the_server_takes_them() {
        for (statement, schema, name) in [
            (&b"COPY public.t (a) FROM stdin"[..], Some("public"), "t"),
            (b"COPY T FROM stdin", None, "t"),
            (b"COPY \"T\" FROM stdin", None, "T"),
            (b"COPY \"a\"\"b\".\"c\" (d) FROM stdin", Some("a\"b"), "c"),
            (b"COPY \"pg_catalog\".\"pg_authid\" FROM stdin", Some("pg_catalog"), "pg_authid"),
            (b"COPY public.\"gr\xf6\xdfe\" (\"stra\xdfe\") FROM stdin", Some("public"), "gr\u{fffd}\u{fffd}e"),
        ] {
            let expected = Target { schema: schema.map(str::to_owned), name: name.to_owned() };
            assert_eq!(of_rows(statement), Some(expected), "{}", statement.escape_ascii());
        }
        for statement in ["COPY a.b.c FROM stdin", "COPY (SELECT 1) TO stdout", "COPY U&\"x\" FROM stdin", "COPY"] {
            assert_eq!(of_rows(statement.as_bytes()), None, "{statement}");
        }
    }

    #[test]
    fn only_constants_are_inserted() {
        for (statement, is_one) in [
            ("INSERT INTO a.t VALUES (1, -2.5, 'x', NULL, true, B'1', '\\x00')", true),
            ("INSERT INTO a.t VALUES\n\t(1, 'a'),\n\t(2, 'f()')", true),
            ("INSERT INTO t (\"a b\", c) VALUES (1, DEFAULT)", true),
            ("INSERT INTO t VALUES (now())", false),
            ("INSERT INTO t VALUES (\"f\"())", false),
            ("INSERT INTO t VALUES (1) --", false),
            ("INSERT INTO t VALUES (1) /* */", false),
            ("INSERT INTO t VALUES", false),
            ("INSERT INTO t TABLE u", false),
            ("INSERT INTO t (a[f()]) VALUES (1)", false),
        ] {
            assert_eq!(inserted(statement.as_bytes()).is_some(), is_one, "{statement}");
        }
        let rows = |statement: &str| inserted(statement.as_bytes()).map(|(_, rows)| rows);
        assert_eq!(rows("INSERT INTO t VALUES (1, '('), (2, ')(')"), Some(2));
        assert_eq!(rows("INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING"), Some(1));
        assert_eq!(rows("INSERT INTO t DEFAULT VALUES"), Some(1));
    }
}
