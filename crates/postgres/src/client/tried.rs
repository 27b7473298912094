//! Statements that the server may refuse without harm to the rest of a restore. Only trying shows whether it refuses
//! one.
//!
//! A setting may need a superuser, may be unknown to the target's version, or may belong to a library that isn't loaded
//! there. A provider of managed servers may allow more than PostgreSQL's catalogs say. So such a statement is tried. If
//! it is refused, the restore continues, and reports what is missing and why.

use crate::Error;
use crate::client::Connection;

/// A statement, and the property that the database lacks if the server refuses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) gives: String,
}

impl Statement {
    /// A statement that the server may refuse. Without it the database lacks `gives`.
    pub(crate) fn may_fail(sql: String, gives: impl Into<String>) -> Self {
        Self { sql, gives: gives.into() }
    }
}

/// A refused property, and the server's message.
pub(crate) type Refused = (String, String);

/// Classes of SQLSTATE whose cause is the statement, or a function that it calls: the same statement fails again at another
/// time. Other classes may pass, or are worse: the connection (08), transactions (25, 40), resources (53), an operator (57),
/// a defect (XX).
const ABOUT_THE_STATEMENT: [&str; 22] = [
    "09", // a triggered action failed
    "0A", // not supported
    "0L", // the grantor lacks the right
    "0P", // no such role
    "20", // no branch of a CASE fits
    "21", // more rows than one
    "22", // an invalid value
    "23", // a constraint
    "27", // a trigger changed what is changed
    "2B", // something depends on it
    "2D", // a function ended the transaction
    "2F", // a function in SQL failed
    "38", // an external function failed
    "39", // an external function was called wrongly
    "3D", // no such database
    "3F", // no such schema
    "42", // the role may not, or there is no such object
    "44", // a view's condition
    "54", // too much for the program: columns, arguments, depth
    "55", // the state of an object or of the server
    "HV", // a foreign data wrapper refuses
    "P0", // raised by a function, such as a check of a provider's
];

/// Whether the statement alone is the cause of a server's error.
pub(crate) fn is_about_the_statement(error: &Error) -> bool {
    error.sqlstate().is_some_and(|state| match state {
        // An object is locked or in use. That passes.
        "55P03" | "55006" => false,
        // A file is missing, such as a library. The rest of the class means a failing disk.
        "58P01" | "58P02" => true,
        _ => state.get(..2).is_some_and(|class| ABOUT_THE_STATEMENT.contains(&class)),
    })
}

/// Runs statements one by one. Returns the refused ones.
pub(crate) async fn run(connection: &mut Connection, statements: &[Statement]) -> Result<Vec<Refused>, Error> {
    let mut refused = Vec::new();
    for Statement { sql, gives } in statements {
        match connection.execute(sql).await {
            Ok(()) => {}
            Err(error) if is_about_the_statement(&error) => refused.push((gives.clone(), error.cause())),
            Err(error) => return Err(error),
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
            ("09000", true),
            ("0A000", true),
            ("0LP01", true),
            ("0P000", true),
            ("20000", true),
            ("21000", true),
            ("22023", true),
            ("23505", true),
            ("23514", true),
            ("27000", true),
            ("2BP01", true),
            ("2D000", true),
            ("2F005", true),
            ("38000", true),
            ("39P03", true),
            ("3D000", true),
            ("3F000", true),
            ("42501", true),
            ("42704", true),
            ("44000", true),
            ("54001", true),
            ("54011", true),
            ("55000", true),
            ("55P02", true),
            ("58P01", true),
            ("58P02", true),
            ("HV00D", true),
            ("P0001", true),
            ("P0004", true),
            ("08006", false),
            ("08P01", false),
            ("25006", false),
            ("25P02", false),
            ("40001", false),
            ("40P01", false),
            ("53100", false),
            ("53200", false),
            ("53300", false),
            ("55006", false),
            ("55P03", false),
            ("57014", false),
            ("57P01", false),
            ("58000", false),
            ("58030", false),
            ("XX000", false),
            ("XX001", false),
            ("", false),
        ] {
            let error = ServerError { code: code.into(), message: "no".into(), detail: None, hint: None };
            assert_eq!(is_about_the_statement(&Error::Server { object: "o".into(), error }), is_so, "{code}");
        }
        assert!(!is_about_the_statement(&Error::Internal("x".into())));
    }
}
