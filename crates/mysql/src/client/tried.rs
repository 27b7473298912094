//! Statements that the server may refuse without harm to the rest of a restore. It isn't known in advance whether it
//! will.
//!
//! A setting may need a right, or may be unknown to the target's version. A provider of managed servers may allow less than the
//! grants say. So such a statement is tried. If it is refused, the restore continues, and reports what is missing and why.

use super::Connection;
use crate::Error;
use crate::error::ServerError;

/// A statement, and what is missing without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The text.
    pub sql: String,
    /// What is missing if it is refused.
    pub gives: String,
}

impl Statement {
    /// One that may be refused, and then `gives` is missing.
    pub fn may_fail(sql: String, gives: impl Into<String>) -> Self {
        Self { sql, gives: gives.into() }
    }
}

/// What the server refused, and its message.
pub type Refused = (String, String);

/// Whether an answer is about the statement alone: the same statement fails in the same way whenever it runs, and another may
/// pass.
fn is_of_the_statement(error: &ServerError) -> bool {
    match error.number {
        // Login, connection, network, shutdown, kill.
        1040
        | 1042
        | 1043
        | 1045
        | 1053
        | 1077..=1081
        | 1129
        | 1130
        | 1152..=1161
        | 1184
        | 1203
        | 1226
        | 1317
        | 1698
        | 1927
        | 1969
        | 3024
        | 4031 => false,
        // Locks, deadlocks, changes under way.
        1020 | 1099 | 1100 | 1205 | 1206 | 1213 | 1223 | 1412 | 1614 | 3058 | 3572 => false,
        // Disk, memory, damage.
        3
        | 5
        | 9
        | 11
        | 12
        | 14
        | 20
        | 23
        | 24
        | 28
        | 1001..=1003
        | 1016
        | 1021
        | 1023
        | 1024
        | 1026
        | 1030
        | 1033..=1035
        | 1037..=1039
        | 1041
        | 1114
        | 1135
        | 1194
        | 1195
        | 1297
        | 1712
        | 1877
        | 126
        | 127
        | 134
        | 135
        | 136
        | 144
        | 145 => false,
        // The state of the server, which someone changes.
        1290 | 1792 | 1836 | 1874 | 3159 | 3707 => false,
        _ => !matches!(error.state.get(..2), Some("08" | "25" | "40" | "57")),
    }
}

/// Whether an error is about the statement alone, as [`run`] sees it.
pub fn is_about_the_statement(error: &Error) -> bool {
    error.server().is_some_and(is_of_the_statement)
}

/// Runs statements one by one. Returns the refused ones among those that may be refused.
pub async fn run(connection: &mut Connection, statements: &[Statement]) -> Result<Vec<Refused>, Error> {
    let mut refused = Vec::new();
    for Statement { sql, gives } in statements {
        match connection.execute(sql).await {
            Ok(_) => {}
            Err(error) if is_about_the_statement(&error) => refused.push((gives.clone(), error.cause())),
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_the_statement_alone_may_be_refused() {
        for (number, state, is_so) in [
            (1064, "42000", true),
            (1146, "42S02", true),
            (1193, "HY000", true),
            (1227, "42000", true),
            (1231, "42000", true),
            (1235, "42000", true),
            (1062, "23000", true),
            (1366, "22007", true),
            (1418, "HY000", true),
            (4031, "HY000", false),
            (1040, "08004", false),
            (1045, "28000", false),
            (1053, "08S01", false),
            (1153, "08S01", false),
            (1205, "HY000", false),
            (1213, "40001", false),
            (1290, "HY000", false),
            (1317, "70100", false),
            (1114, "HY000", false),
            (1412, "HY000", false),
            (1927, "70100", false),
            (145, "HY000", false),
            (2000, "08X01", false),
        ] {
            let error = ServerError { number, state: state.into(), message: "no".into() };
            assert_eq!(is_about_the_statement(&Error::Server { object: "o".into(), error }), is_so, "{number}");
        }
        assert!(!is_about_the_statement(&Error::Internal("x".into())));
    }
}
