//! Names and values as SQL text. Both get into statements only through this file.

use std::fmt::Write as _;

/// A name, always in backticks, so that no word is reserved. It is right under every `sql_mode`.
pub fn name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A name in a database.
pub fn qualified(database: &str, object: &str) -> String {
    format!("{}.{}", name(database), name(object))
}

/// A text value, right under every `sql_mode` and character set of the session: plain letters in quotes, and anything else as
/// the bytes of UTF-8 in hexadecimal.
pub fn text(value: &str) -> String {
    let is_plain = |c: char| (' '..='~').contains(&c) && c != '\'' && c != '"' && c != '\\';
    if value.chars().all(is_plain) { format!("'{value}'") } else { format!("_utf8mb4 {}", hex(value.as_bytes())) }
}

/// Bytes as a value: a binary string.
pub fn bytes(value: &[u8]) -> String {
    if value.is_empty() { "_binary ''".to_owned() } else { format!("_binary {}", hex(value)) }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_quotes() {
        for (given, quoted) in [
            ("orders", "`orders`"),
            ("select", "`select`"),
            ("a`b", "`a``b`"),
            ("`; DROP TABLE x; -- ", "```; DROP TABLE x; -- `"),
            ("two\nlines", "`two\nlines`"),
            ("back\\slash", "`back\\slash`"),
            ("\u{1f418}", "`\u{1f418}`"),
        ] {
            assert_eq!(name(given), quoted);
        }
        assert_eq!(qualified("a.b", "c`"), "`a.b`.`c```");
        for (value, quoted) in [
            ("", "''"),
            ("it is", "'it is'"),
            ("it's", "_utf8mb4 0x69742773"),
            ("a\\", "_utf8mb4 0x615C"),
            ("\"", "_utf8mb4 0x22"),
            ("\n", "_utf8mb4 0x0A"),
            ("ä", "_utf8mb4 0xC3A4"),
        ] {
            assert_eq!(text(value), quoted);
        }
        assert_eq!(bytes(b"a\0"), "_binary 0x6100");
        assert_eq!(bytes(b""), "_binary ''");
    }
}
