//! Names and values as SQL text. Both get into statements only through this file.

/// A name, always in double quotes, so that no word is reserved and no letter is folded.
pub(crate) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name in a schema.
pub(crate) fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", ident(schema), ident(name))
}

/// A text value. Backslashes mean themselves, whatever `standard_conforming_strings` says.
pub(crate) fn literal(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    if doubled.contains('\\') { format!(" E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_quotes() {
        for (name, quoted) in [
            ("orders", "\"orders\""),
            ("select", "\"select\""),
            ("a\"b", "\"a\"\"b\""),
            ("\"; DROP TABLE x; --", "\"\"\"; DROP TABLE x; --\""),
            ("two\nlines", "\"two\nlines\""),
            ("\u{1f418}", "\"\u{1f418}\""),
        ] {
            assert_eq!(ident(name), quoted);
        }
        assert_eq!(qualified("a.b", "c"), "\"a.b\".\"c\"");
        for (value, quoted) in [("it's", "'it''s'"), ("a\\", " E'a\\\\'"), ("\\'; x", " E'\\\\''; x'"), ("", "''")] {
            assert_eq!(literal(value), quoted);
        }
    }
}
