//! Would the same step go well at another time? Pure: from the server's SQLSTATE to a decision.
//!
//! What comes last of a restore runs code of users: the queries of materialized views, the functions of indexes and types
//! that ANALYZE calls. Such code may raise whatever it likes, and then it fails at each repetition. So only the errors that
//! a server has of itself end the restore. With any other error the object is left out and named, and the restore goes on.

/// Errors that pass, or that damage behind which nothing may go on: a conflict with another session (40, 55P03), no
/// resources (53), a server that stops (57P), its disk (58030), its damaged data (XX001, XX002).
///
/// A whole class is here only where nothing else is in it. In 57 there is also a timeout that a function has set for itself
/// (57014), in 58 a file that isn't on this server (58P01), in XX every error of a C function that names no SQLSTATE (XX000).
const PASSING: [&str; 7] = ["40", "53", "55P03", "57P", "58030", "XX001", "XX002"];

/// Whether an error of this SQLSTATE says something of the server at this moment, and not of the object that is worked on.
pub(crate) fn passes(sqlstate: &str) -> bool {
    PASSING.iter().any(|class| sqlstate.starts_with(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_at_each_repetition_is_told_from_what_passes() {
        for (sqlstate, passing) in [
            // Of the object.
            ("08001", false),
            ("22012", false),
            ("23505", false),
            ("38000", false),
            ("42501", false),
            ("54000", false),
            ("55000", false),
            ("55006", false),
            ("57014", false),
            ("58000", false),
            ("58P01", false),
            ("58P02", false),
            ("HV000", false),
            ("HV00N", false),
            ("P0001", false),
            ("XX000", false),
            ("", false),
            // Of the server.
            ("40001", true),
            ("40P01", true),
            ("53100", true),
            ("53200", true),
            ("53300", true),
            ("53400", true),
            ("55P03", true),
            ("57P01", true),
            ("57P02", true),
            ("57P03", true),
            ("57P05", true),
            ("58030", true),
            ("XX001", true),
            ("XX002", true),
        ] {
            assert_eq!(passes(sqlstate), passing, "{sqlstate}");
        }
    }
}
