//! Does the vendor's client find the same quotes in a statement as the server? Pure.
//!
//! `mariadb` and `mysql` look for quotes, comments and the end of each statement before they send it. A backslash outside of quotes
//! begins a command of their own: `\!` starts a program. They don't know all of the server's rules. The owner of the source writes
//! the texts of routines, so a text with a backslash is written into a script only if both find it within the same quotes.

/// Character sets in which a backslash or a quote may be the second byte of a letter.
const AMBIGUOUS: [&str; 5] = ["big5", "cp932", "gb18030", "gbk", "sjis"];

/// Comments that the server may run or pass over, and the client doesn't know which.
const CONDITIONAL: [&[u8]; 3] = [b"/*!", b"/*M!", b"/*+"];

/// Whether an object's statement may be put into a script.
pub(crate) fn is_read_alike(statement: &[u8], sql_mode: &str, charset: &str) -> bool {
    if !statement.is_ascii() && AMBIGUOUS.contains(&charset.to_ascii_lowercase().as_str()) {
        return false;
    }
    // Both end a comment elsewhere at a control character, and the client ends a statement at a zero.
    if statement.iter().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t' | b'\r')) {
        return false;
    }
    let has = |part: &[u8]| statement.windows(part.len()).any(|here| here == part);
    if !has(b"\\") {
        return true;
    }
    let is_set = |mode: &str| sql_mode.split(',').any(|one| one == mode);
    !CONDITIONAL.iter().any(|comment| has(comment))
        && is_within_quotes(statement, is_set("ANSI_QUOTES"), is_set("NO_BACKSLASH_ESCAPES"))
}

/// Whether each backslash is in a comment, or in quotes in which it means the same to both.
fn is_within_quotes(statement: &[u8], ansi: bool, plain: bool) -> bool {
    let mut rest = statement;
    while let Some((byte, behind)) = rest.split_first() {
        let end_of_line = || rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let skipped = match byte {
            b'\\' => return false,
            b'#' => end_of_line(),
            b'-' if rest.starts_with(b"--") && rest.get(2).is_none_or(u8::is_ascii_whitespace) => end_of_line(),
            b'/' if rest.starts_with(b"/*") => match rest.windows(2).skip(2).position(|end| end == b"*/") {
                Some(place) => place + 4,
                None => return false,
            },
            b'\'' | b'"' | b'`' => {
                let is_name = *byte == b'`' || (*byte == b'"' && ansi);
                let mut at = 0;
                loop {
                    match behind.get(at) {
                        None => return false,
                        Some(b'\\') if plain => at += 1,
                        Some(b'\\') if is_name => return false,
                        Some(b'\\') => at += 2,
                        Some(end) if end == byte => break at + 2,
                        Some(_) => at += 1,
                    }
                }
            }
            _ => 1,
        };
        rest = rest.get(skipped..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_reads_as_the_server_does() {
        for (statement, mode, charset, alike) in [
            (&b"SELECT 'a\\'b\\n\\\\.\\!', \"c\\\"\"\t\r\n"[..], "STRICT_ALL_TABLES", "utf8mb4", true),
            (b"SELECT 'a\\\\' -- \\! it's\n, '' /* \\! ' */, 1 # \\", "", "utf8mb4", true),
            (b"SELECT \"a\", 'it''s', '\\'", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "utf8mb4", true),
            (b"SELECT \"a\\\", \"\\! id\"", "ANSI_QUOTES", "utf8mb4", false),
            (b"SELECT `a\\` AS b", "", "utf8mb4", false),
            (b"SELECT 'a' \\! id", "", "utf8mb4", false),
            (b"SELECT 'a\\' \\! id", "NO_BACKSLASH_ESCAPES", "utf8mb4", false),
            (b"SELECT '\\", "", "utf8mb4", false),
            (b"/*!999999 ' */ SELECT '\\! id'", "", "utf8mb4", false),
            (b"/*!50000 SELECT */ 'x'", "", "utf8mb4", true),
            (b"SELECT 1 /* \\", "", "utf8mb4", false),
            (b"SELECT 1 --\x01'", "", "utf8mb4", false),
            (b"SELECT 'a\0'", "", "utf8mb4", false),
            (b"SELECT '\xb5\x5c'", "", "gbk", false),
            (b"SELECT 'x'", "", "GBK", true),
            (b"SELECT '\xe4'", "", "latin1", true),
        ] {
            assert_eq!(is_read_alike(statement, mode, charset), alike, "{}", String::from_utf8_lossy(statement));
        }
    }
}
