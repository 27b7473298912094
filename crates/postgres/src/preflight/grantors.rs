//! Grants by another role than the owner, in the words of a role that is no superuser. Pure.
//!
//! `pg_dump` writes `SET SESSION AUTHORIZATION` before such a grant, for which a superuser is needed. `SET ROLE` is enough to
//! grant as somebody, and a member of the role may do it.

use crate::schema::script::Scanner;

const BEGINS: &[u8] = b"SET SESSION AUTHORIZATION ";
const ENDS: &[u8] = b"RESET SESSION AUTHORIZATION";

/// A script of `pg_restore` with `SET ROLE` in the place of `SET SESSION AUTHORIZATION`.
pub(crate) fn by_set_role(script: Vec<u8>) -> Vec<u8> {
    if !script.windows(BEGINS.len()).any(|bytes| bytes == BEGINS) {
        return script;
    }
    let (mut scanner, mut rest, mut all) = (Scanner::default(), &script[..], Vec::with_capacity(script.len()));
    loop {
        match rest.is_empty() {
            true => scanner.end(),
            false => rest = &rest[scanner.feed(rest)..],
        }
        loop {
            let statement = match scanner.statement() {
                Ok(Some(statement)) => statement,
                Ok(None) => break,
                // What isn't understood is left to the server as it is.
                Err(_) => return script,
            };
            scanner.names().iter().for_each(|name| all.extend_from_slice(name));
            all.extend(with_set_role(&statement).unwrap_or(statement));
            all.extend_from_slice(b";\n");
        }
        if rest.is_empty() {
            return if scanner.is_between() { all } else { script };
        }
    }
}

/// A statement with `SET ROLE` in the place of `SET SESSION AUTHORIZATION`, if it is one of those.
pub(crate) fn with_set_role(statement: &[u8]) -> Option<Vec<u8>> {
    match statement.strip_prefix(BEGINS) {
        Some(role) => Some([b"SET ROLE ", role].concat()),
        None => (statement == ENDS).then(|| b"RESET ROLE".to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statements_of_their_own_are_changed() {
        for (script, expected) in [
            (
                "SET SESSION AUTHORIZATION \"a\"\"b\";\nGRANT SELECT ON TABLE public.t TO c;\nRESET SESSION AUTHORIZATION;\n",
                "SET ROLE \"a\"\"b\";\nGRANT SELECT ON TABLE public.t TO c;\nRESET ROLE;\n",
            ),
            (
                "COMMENT ON TABLE t IS '\nSET SESSION AUTHORIZATION x;\n';\n",
                "COMMENT ON TABLE t IS '\nSET SESSION AUTHORIZATION x;\n';\n",
            ),
            ("SELECT 1;\n", "SELECT 1;\n"),
        ] {
            let made = by_set_role(script.as_bytes().to_vec());
            assert_eq!(String::from_utf8(made).expect("text"), expected);
        }
    }
}
