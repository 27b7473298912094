//! Takes the versions of columns out of a dump's statements. Pure.
//!
//! Since the security releases of November 2026 a server keeps a version of each column among the column's options, as
//! `pg_attver`. It is the server's own: `SET (pg_attver=…)` does nothing there, and a server before these releases refuses it. A
//! `pg_dump` before these releases takes the version for an option of the user, and writes it into the dump. So such a dump could
//! not be restored into an older server, and two dumps of equal databases would differ.

/// The name of the option.
const VERSION: &str = "pg_attver=";

/// The beginnings of the statements in which `pg_dump` sets options of a column.
const BEGINNINGS: [&str; 2] = ["ALTER TABLE ONLY ", "ALTER FOREIGN TABLE ONLY "];

/// Words before the options of a column.
const SET: &str = " SET (";

/// A statement, without its semicolon, that sets no version of a column. `None` if nothing remains of it.
pub(crate) fn of_statement(statement: Vec<u8>) -> Option<Vec<u8>> {
    let Some((before, options)) = parts(&statement) else { return Some(statement) };
    let left: Vec<&str> = options.split(", ").filter(|option| !option.starts_with(VERSION)).collect();
    (!left.is_empty()).then(|| [before, SET.as_bytes(), left.join(", ").as_bytes(), b")"].concat())
}

/// A script of `pg_dump` or `pg_restore` in which no statement sets a version of a column. Each such statement is one line.
pub(crate) fn of_script(script: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(script.len());
    for line in script.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b";\n").filter(|statement| parts(statement).is_some()) {
            None => all.extend_from_slice(line),
            Some(statement) => {
                if let Some(left) = of_statement(statement.to_vec()) {
                    all.extend_from_slice(&left);
                    all.extend_from_slice(b";\n");
                }
            }
        }
    }
    all
}

/// The words before the options of a column, and the options, of a statement that sets a version. The words may contain names
/// of any kind, in any encoding, and the options are numbers with plain names.
fn parts(statement: &[u8]) -> Option<(&[u8], &str)> {
    let is_one = BEGINNINGS.iter().any(|beginning| statement.starts_with(beginning.as_bytes()));
    let inner = statement.strip_suffix(b")").filter(|_| is_one)?;
    let at = inner.windows(SET.len()).rposition(|window| window == SET.as_bytes())?;
    let options = std::str::from_utf8(&inner[at + SET.len()..]).ok()?;
    let is_option = |option: &str| {
        option.split_once('=').is_some_and(|(name, value)| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                && !value.is_empty()
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte))
        })
    };
    let is_versioned = options.split(", ").any(|option| option.starts_with(VERSION));
    (is_versioned && options.split(", ").all(is_option)).then_some((&inner[..at], options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_go_and_all_else_stays() {
        let column = "ALTER TABLE ONLY public.t ALTER COLUMN \"a SET (pg_attver=1)\"";
        for (statement, left) in [
            (format!("{column} SET (pg_attver=22223928)"), None),
            (format!("{column} SET (n_distinct=-0.5, pg_attver=1)"), Some(format!("{column} SET (n_distinct=-0.5)"))),
            (
                format!("{column} SET (pg_attver=1, n_distinct=5, n_distinct_inherited=7)"),
                Some(format!("{column} SET (n_distinct=5, n_distinct_inherited=7)")),
            ),
            ("ALTER FOREIGN TABLE ONLY f ALTER COLUMN a SET (pg_attver=1)".into(), None),
        ] {
            let found = of_statement(statement.clone().into_bytes());
            assert_eq!(found.as_deref(), left.as_deref().map(str::as_bytes), "{statement}");
            let script = of_script(format!("SELECT 1;\n{statement};\nSELECT 2;\n").as_bytes());
            let expected = format!("SELECT 1;\n{}SELECT 2;\n", left.map(|left| left + ";\n").unwrap_or_default());
            assert_eq!(String::from_utf8(script), Ok(expected));
        }
        for same in [
            "ALTER TABLE ONLY t ALTER COLUMN a SET (n_distinct=5)",
            "ALTER TABLE ONLY t ALTER COLUMN a SET DEFAULT 'x SET (pg_attver=1)'",
            "ALTER TABLE ONLY t ADD CONSTRAINT c CHECK ((a <> ' SET (pg_attver=1'))",
            "ALTER TABLE ONLY t ALTER COLUMN \"a SET (pg_attver=1)\"",
            "ALTER TABLE ONLY t ALTER COLUMN a SET (pg_attver=)",
            "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'ALTER TABLE t ALTER a SET (pg_attver=1)",
            "pg_attver=",
            "",
        ] {
            assert_eq!(of_statement(same.as_bytes().to_vec()).as_deref(), Some(same.as_bytes()));
            let script = format!("{same};\n{same}\n");
            assert_eq!(of_script(script.as_bytes()), script.as_bytes());
        }
    }
}
