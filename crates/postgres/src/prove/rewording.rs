//! Can two statements make the same object in other words? Pure.
//!
//! PostgreSQL writes an object from its catalogs, and not always with the words that made it: it adds casts, parentheses and
//! names of columns. It adds no value, and it forgets neither a value nor a column. Code of the source that runs while a
//! proof restores could change an object, and would change the control in the same way. So the control alone doesn't
//! excuse a statement with other words: its values and names must be those of the set as well.

use std::collections::BTreeSet;

/// What a statement says, apart from keywords, casts and punctuation.
#[derive(Debug, PartialEq, Eq, Default)]
struct Said {
    /// Strings and numbers.
    values: BTreeSet<String>,
    /// Names of columns, tables, functions and constraints.
    names: BTreeSet<String>,
    /// Names that PostgreSQL may add by itself: a column's after `AS`, and a table's before a dot.
    added: BTreeSet<String>,
}

/// Whether `found` can be `wanted` in other words. `is_query` is true for views and rules: PostgreSQL draws names in their
/// queries by itself, so that only their values are compared.
pub(crate) fn is_rewording(wanted: &str, found: &str, is_query: bool) -> bool {
    let (wanted, found) = (said(wanted), said(found));
    let known = |name: &String| wanted.names.contains(name) || wanted.added.contains(name);
    let there = |name: &String| found.names.contains(name) || found.added.contains(name);
    wanted.values == found.values && (is_query || wanted.names.iter().all(there) && found.names.iter().all(known))
}

fn said(statement: &str) -> Said {
    let mut said = Said::default();
    let (mut rest, mut after_as) = (statement, false);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' => quoted(rest, '\''),
            '"' => quoted(rest, '"'),
            '$' => dollar_quoted(rest).unwrap_or(1),
            _ if rest.starts_with("::") => 2 + type_name(&rest[2..]),
            _ if is_word(first) => rest.find(|letter: char| !is_word(letter)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        match first {
            '\'' => _ = said.values.insert(token.to_owned()),
            '$' if length > 1 => _ = said.values.insert(token.to_owned()),
            '0'..='9' => _ = said.values.insert(token.to_owned()),
            _ if token == "AS" => {
                after_as = true;
                continue;
            }
            // PostgreSQL writes keywords in capitals, and quotes names that have any.
            '"' => name(token.trim_matches('"'), after_as || rest.starts_with('.'), &mut said),
            _ if is_word(first) && token.chars().any(char::is_lowercase) => {
                name(token, after_as || rest.starts_with('.'), &mut said);
            }
            _ => {}
        }
        if !first.is_whitespace() {
            after_as = false;
        }
    }
    said
}

fn name(name: &str, is_added: bool, said: &mut Said) {
    let names = if is_added { &mut said.added } else { &mut said.names };
    names.insert(name.to_owned());
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The length of a text in quotation marks, both of them included. Two marks in a row stand for one.
fn quoted(text: &str, mark: char) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != mark {
            continue;
        }
        if letters.peek().is_none_or(|(_, next)| *next != mark) {
            return at + 1;
        }
        letters.next();
    }
    text.len()
}

/// The length of a text between two equal tags such as `$_$`, if one begins here.
fn dollar_quoted(text: &str) -> Option<usize> {
    let tag = 2 + text[1..].find('$')?;
    if text[1..tag - 1].chars().any(|letter| !is_word(letter)) {
        return None;
    }
    let (tag, body) = text.split_at(tag);
    Some(tag.len() + body.find(tag).map_or(body.len(), |end| end + tag.len()))
}

/// The length of the type behind a cast, with its modifiers: `character varying(10)[]`.
fn type_name(text: &str) -> usize {
    let word = |text: &str| match text.chars().next() {
        Some('"') => quoted(text, '"'),
        _ => text.find(|letter: char| !is_word(letter)).unwrap_or(text.len()),
    };
    let mut length = word(text);
    while text[length..].starts_with('.') {
        length += 1 + word(&text[length + 1..]);
    }
    for more in [" varying", " precision", " without time zone", " with time zone"] {
        if text[length..].starts_with(more) {
            length += more.len();
        }
    }
    if text[length..].starts_with('(') {
        length += text[length..].find(')').map_or(0, |end| end + 1);
    }
    for more in [" without time zone", " with time zone"] {
        if text[length..].starts_with(more) {
            length += more.len();
        }
    }
    while text[length..].starts_with("[]") {
        length += 2;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_differ_and_values_and_names_may_not() {
        for (wanted, found, is_query, expected) in [
            ("SELECT 'x'", "SELECT 'x'::text AS text", false, true),
            (
                "CREATE TABLE t (\n    a integer,\n    b text\n)",
                "CREATE TABLE t (\n    b text,\n    a integer\n)",
                false,
                true,
            ),
            (
                "CHECK (((a)::text = ANY ((ARRAY['x'::character varying, 'y'::character varying])::text[])))",
                "CHECK (((a)::text = ANY (ARRAY[('x'::character varying)::text, ('y'::character varying(9))::text])))",
                false,
                true,
            ),
            ("DEFAULT (1)::numeric(10,2)", "DEFAULT 1", false, true),
            (
                "DEFAULT now()::timestamp(3) without time zone",
                "DEFAULT (now())::timestamp without time zone",
                false,
                true,
            ),
            ("x::public.\"My Type\"[]", "x", false, true),
            ("SELECT a FROM t", "SELECT t.a FROM t", false, true),
            ("SELECT a FROM t", "SELECT a AS b FROM t t_1", true, true),
            ("CREATE TABLE t (a integer DEFAULT 1)", "CREATE TABLE t (a integer DEFAULT 666)", false, false),
            ("CREATE TABLE t (a integer, CONSTRAINT pos CHECK (a > 0))", "CREATE TABLE t (a integer)", false, false),
            ("CREATE TABLE t (a integer)", "CREATE TABLE t (a integer, b integer)", false, false),
            ("SELECT 'a'", "SELECT 'b'", true, false),
            ("SELECT 'it''s'", "SELECT 'it'", true, false),
            ("AS $_$ select 1 $_$", "AS $_$ select 2 $_$", false, false),
            ("AS $_$ a $_$", "AS $_$ a $_$", false, true),
            ("SELECT $1", "SELECT $1", false, true),
            ("'never ends", "'never ends", false, true),
            ("$x$ never ends", "$x$ never", false, false),
            ("::", "", false, true),
            ("\"", "", false, false),
        ] {
            assert_eq!(is_rewording(wanted, found, is_query), expected, "{wanted} / {found}");
        }
    }
}
