//! Does a COPY take rows that follow in the script? Pure.
//!
//! `pg_dump` writes no other. A COPY of a file or a program of the server names it by a text, and a comment could hide the end of the statement:
//! so a COPY counts as one of rows only if all of it is the form that `pg_dump` writes.

use crate::schema::tokens::{Placed, all, first};

/// A COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copy {
    /// Of rows that follow in the script, as text.
    Rows,
    RowsInAnotherForm,
    /// Of a file or program of the server, or to the client.
    OfAFile,
}

/// Whether rows as text follow a statement.
pub(crate) fn has_rows(statement: &[u8]) -> bool {
    is_copy(statement) && copy(statement) == Copy::Rows
}

/// Whether a statement is a COPY that doesn't take rows from the script.
pub(crate) fn is_copy_of_a_file(statement: &[u8]) -> bool {
    is_copy(statement) && copy(statement) != Copy::Rows
}

fn is_copy(statement: &[u8]) -> bool {
    first(statement).first().is_some_and(|first| first.is("COPY"))
}

/// What a COPY takes: `COPY a.b (c, d) FROM stdin`.
pub(crate) fn copy(statement: &[u8]) -> Copy {
    let tokens = all(statement);
    let mut rest = tokens.get(1..).unwrap_or_default();
    let mut take = |is_one: &dyn Fn(&Placed) -> bool| match rest.split_first() {
        Some((first, behind)) if is_one(first) => {
            rest = behind;
            true
        }
        _ => false,
    };
    let mut is_of_rows = take(&Placed::is_name);
    while is_of_rows && take(&|token| token.is_sign('.')) {
        is_of_rows = take(&Placed::is_name);
    }
    if is_of_rows && take(&|token| token.is_sign('(')) {
        while take(&|token| token.is_name() || token.is_sign(',')) {}
        is_of_rows = take(&|token| token.is_sign(')'));
    }
    // pg_dump before version 12.
    if take(&|token| token.is("WITH")) {
        is_of_rows &= take(&|token| token.is("OIDS"));
    }
    is_of_rows = is_of_rows && take(&|token| token.is("FROM")) && take(&|token| token.is("STDIN"));
    // A text may name a file or a program.
    match (is_of_rows, rest.is_empty()) {
        (true, true) => Copy::Rows,
        (true, false) => Copy::RowsInAnotherForm,
        (false, _) => Copy::OfAFile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_the_script_itself_are_copied() {
        use super::Copy::{OfAFile, Rows, RowsInAnotherForm};
        for (statement, expected) in [
            ("COPY public.t (a, b) FROM stdin", Rows),
            ("COPY public.t  FROM stdin", Rows),
            ("COPY\tt FROM stdin", Rows),
            ("COPY\"t\" FROM STDIN", Rows),
            ("COPY t (a) WITH OIDS FROM stdin", Rows),
            ("copy \"it's $1 -- /* \" (a) from STDIN\n", Rows),
            ("COPY t (a) FROM stdin WITH (FORMAT csv)", RowsInAnotherForm),
            ("COPY t FROM stdin WITH (NULL 'x')", RowsInAnotherForm),
            ("COPY t FROM PROGRAM 'sh -c id'", OfAFile),
            ("COPY t FROM '/etc/passwd'", OfAFile),
            ("COPY t TO '/tmp/x'", OfAFile),
            ("COPY t TO stdout", OfAFile),
            ("COPY t FROM PROGRAM $$id$$ -- FROM stdin", OfAFile),
            ("COPY/**/t FROM PROGRAM 'id' /* FROM stdin", OfAFile),
            ("COPY t FROM U&'\\002f' FROM stdin", OfAFile),
            ("COPY (SELECT 1) TO stdout", OfAFile),
            ("COPY", OfAFile),
        ] {
            assert_eq!(copy(statement.as_bytes()), expected, "{statement}");
            assert_eq!(has_rows(statement.as_bytes()), expected == Rows, "{statement}");
            assert_eq!(is_copy_of_a_file(statement.as_bytes()), expected != Rows, "{statement}");
        }
        for statement in ["COPYRIGHT", "CREATE TABLE copy ()"] {
            assert!(!is_copy_of_a_file(statement.as_bytes()) && !has_rows(statement.as_bytes()), "{statement}");
        }
    }
}
