//! The functions that a base is read with, and the statements that grant them.

use crate::Error;
use crate::client::Connection;
use crate::quote::{ident, literal};

/// The functions, which only superusers may call unless they are granted.
const FUNCTIONS: [&str; 5] = [
    "pg_catalog.pg_backup_start(text, boolean)",
    "pg_catalog.pg_backup_stop(boolean)",
    "pg_catalog.pg_read_binary_file(text, bigint, bigint, boolean)",
    "pg_catalog.pg_ls_dir(text, boolean, boolean)",
    "pg_catalog.pg_stat_file(text, boolean)",
];

/// The first version that has functions of these names.
const FIRST_VERSION: u32 = 150_000;

/// Checks that a base can be read with this session.
///
/// # Errors
/// [`Error::Denied`] with the statements that grant what is missing, and `postgres.physical-version`.
pub(crate) async fn check(connection: &mut Connection, server: &str) -> Result<(), Error> {
    if connection.version < FIRST_VERSION {
        return Err(Error::Refused {
            code: "postgres.physical-version",
            object: server.to_owned(),
            cause: format!("its version is {}, and a base is read from version 15 on", connection.version / 10_000),
            next: "back its databases up without --physical".to_owned(),
        });
    }
    let rows: Vec<String> = FUNCTIONS.map(|function| format!("({})", literal(function))).into();
    let sql = format!(
        "SELECT f, pg_catalog.current_user(), pg_catalog.current_database() FROM (VALUES {}) AS v (f) \
         WHERE NOT pg_catalog.has_function_privilege(f, 'EXECUTE')",
        rows.join(", ")
    )
    .replace("pg_catalog.current_user()", "current_user");
    let missing = connection.query(&sql).await?;
    let Some(first) = missing.first() else { return Ok(()) };
    let (role, database) = (first.text(1).to_owned(), first.text(2).to_owned());
    let functions: Vec<&str> = missing.iter().map(|row| row.text(0)).collect();
    Err(Error::Denied {
        object: format!("role {role}"),
        cause: format!("in database {database} it may not call {}", functions.join(", ")),
        next: granting(&functions, &role, &database),
    })
}

/// What a superuser has to run.
fn granting(functions: &[&str], role: &str, database: &str) -> String {
    format!(
        "as a superuser, in database {}: GRANT EXECUTE ON FUNCTION {} TO {};",
        ident(database),
        functions.join(", "),
        ident(role)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_what_is_missing() {
        assert_eq!(
            granting(&FUNCTIONS[3..], "back up", "postgres"),
            "as a superuser, in database \"postgres\": GRANT EXECUTE ON FUNCTION pg_catalog.pg_ls_dir(text, boolean, boolean), \
             pg_catalog.pg_stat_file(text, boolean) TO \"back up\";"
        );
    }
}
