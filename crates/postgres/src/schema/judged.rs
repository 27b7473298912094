//! Which statements of a script are left out, and which are refused? Pure.

/// Whether a statement only says whose something is, or who may do what with it.
pub(crate) fn is_of_owners(statement: &[u8]) -> bool {
    const BEGINNINGS: [&str; 4] = ["GRANT ", "REVOKE ", "ALTER DEFAULT PRIVILEGES ", "SET SESSION AUTHORIZATION "];
    if BEGINNINGS.iter().any(|begins| statement.starts_with(begins.as_bytes())) {
        return true;
    }
    const OWNER: &[u8] = b" OWNER TO ";
    let at = statement.windows(OWNER.len()).rposition(|some| some == OWNER);
    let role = at.and_then(|at| statement.get(at + OWNER.len()..));
    statement.starts_with(b"ALTER ") && role.is_some_and(is_name)
}

/// Whether it is one name and nothing else.
fn is_name(text: &[u8]) -> bool {
    match text.trim_ascii_end() {
        [b'"', inner @ .., b'"'] => !String::from_utf8_lossy(inner).replace("\"\"", "").contains('"'),
        bare => {
            !bare.is_empty() && bare.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80)
        }
    }
}

/// Whether a statement is a COPY that isn't `FROM stdin`: of a file or a program of the server, or to us. `pg_dump` writes neither.
///
/// A file or a program is named by a text, so a COPY with any text is one. Comments could hide the end of the statement.
pub(crate) fn is_copy_of_a_file(statement: &[u8]) -> bool {
    let size = statement.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(statement.len());
    if !statement.get(..size).unwrap_or_default().eq_ignore_ascii_case(b"COPY") {
        return false;
    }
    let mut in_name = false;
    for (at, byte) in statement.iter().enumerate() {
        in_name ^= *byte == b'"';
        let next = statement.get(at + 1);
        let is_comment = matches!((byte, next), (b'-', Some(b'-')) | (b'/', Some(b'*')));
        if !in_name && (is_comment || matches!(byte, b'\'' | b'$')) {
            return true;
        }
    }
    let mut words = statement.rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is = |word: Option<&[u8]>, wanted: &[u8]| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    in_name || !is(words.next(), b"stdin") || !is(words.next(), b"FROM")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_owners_and_grants() {
        for (statement, is_so) in [
            ("ALTER TABLE public.t OWNER TO shop", true),
            ("ALTER FUNCTION public.f(a integer) OWNER TO \"the \"\"shop\"\"\"", true),
            ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 'x OWNER TO y'", false),
            ("ALTER TABLE t OWNER TO a, ADD b int", false),
            ("GRANT SELECT ON TABLE t TO a", true),
            ("REVOKE ALL ON SCHEMA public FROM PUBLIC", true),
            ("ALTER DEFAULT PRIVILEGES FOR ROLE a GRANT SELECT ON TABLES TO b", true),
            ("SET SESSION AUTHORIZATION a", true),
            ("CREATE TABLE \" OWNER TO x\" ()", false),
            ("COMMENT ON TABLE t IS ' OWNER TO x'", false),
            ("", false),
        ] {
            assert_eq!(is_of_owners(statement.as_bytes()), is_so, "{statement}");
        }
    }

    #[test]
    fn only_rows_of_the_script_itself_are_copied() {
        for (statement, is_so) in [
            ("COPY public.t (a, b) FROM stdin", false),
            ("COPY public.t  FROM stdin", false),
            ("copy \"it's $1 -- /* \" (a) from STDIN\n", false),
            ("COPY t FROM PROGRAM 'sh -c id'", true),
            ("COPY t FROM '/etc/passwd'", true),
            ("COPY t TO '/tmp/x'", true),
            ("COPY t TO stdout", true),
            ("COPY t FROM PROGRAM $$id$$ -- FROM stdin", true),
            ("COPY/**/t FROM PROGRAM 'id' /* FROM stdin", true),
            ("COPY t FROM U&'\\002f' FROM stdin", true),
            ("COPY t FROM stdin WITH (NULL 'x')", true),
            ("COPY (SELECT 1) TO stdout", true),
            ("COPYRIGHT", false),
            ("CREATE TABLE copy ()", false),
            ("COPY", true),
        ] {
            assert_eq!(is_copy_of_a_file(statement.as_bytes()), is_so, "{statement}");
        }
    }
}
