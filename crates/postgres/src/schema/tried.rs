//! Statements that the server may refuse without harm to what else is restored: whether it does can't be known before.
//!
//! A setting may need a superuser, may be unknown to the target's version, or belong to a library that isn't loaded there;
//! a provider of a managed server allows what PostgreSQL's catalogs don't say. So such a statement is tried. Where it is
//! refused the restore goes on, and tells what is missing and why.

use crate::Error;
use crate::client::Connection;

/// A statement, and what is missing without it; `None` where it must go well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) gives: Option<String>,
}

impl Statement {
    /// One that must go well.
    pub(crate) fn must(sql: String) -> Self {
        Self { sql, gives: None }
    }

    /// One that may be refused, and then `gives` is missing.
    pub(crate) fn may_fail(sql: String, gives: impl Into<String>) -> Self {
        Self { sql, gives: Some(gives.into()) }
    }
}

/// What the server refused, and what it said.
pub(crate) type Refused = (String, String);

/// Whether an answer of the server is about the statement alone: the role may not (42), the value is none (22), or there is
/// no such thing here (0A, 55, 58).
pub(crate) fn is_about_the_statement(error: &Error) -> bool {
    error.sqlstate().is_some_and(|state| match state.get(..2) {
        Some("22" | "42" | "0A" | "2F" | "38" | "39" | "58") => true,
        // Not an object that is locked or in use, which passes.
        Some("55") => !matches!(state, "55P03" | "55006"),
        // Raised by a function, such as a check of a provider's.
        Some("P0") => true,
        _ => false,
    })
}

/// Runs statements one by one; what may be refused and is comes back.
pub(crate) async fn run(connection: &mut Connection, statements: &[Statement]) -> Result<Vec<Refused>, Error> {
    let mut refused = Vec::new();
    for Statement { sql, gives } in statements {
        match (connection.execute(sql).await, gives) {
            (Ok(()), _) => {}
            (Err(error), Some(what)) if is_about_the_statement(&error) => refused.push((what.clone(), error.cause())),
            (Err(error), _) => return Err(error),
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerError;

    #[test]
    fn what_is_about_the_statement_alone_may_be_refused() {
        for (code, is_so) in [
            ("42501", true),
            ("42704", true),
            ("22023", true),
            ("0A000", true),
            ("58P01", true),
            ("55P02", true),
            ("P0001", true),
            ("55P03", false),
            ("55006", false),
            ("53100", false),
            ("57P01", false),
            ("40P01", false),
            ("XX000", false),
        ] {
            let error = ServerError { code: code.into(), message: "no".into(), detail: None, hint: None };
            assert_eq!(is_about_the_statement(&Error::Server { object: "o".into(), error }), is_so, "{code}");
        }
        assert!(!is_about_the_statement(&Error::Internal("x".into())));
    }
}
