//! Which statements of a script are left out without owners and grants? Pure.

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
}
