//! Which statement of a script did the server refuse? A script is sent as a whole, because that is faster. If it fails,
//! it is sent again, one statement at a time, in a transaction that is rolled back, to find the statement.

use crate::Error;
use crate::client::Connection;
use crate::client::tried::is_about_the_statement;
use crate::schema::account;
use crate::schema::script::Scanner;

/// Letters of a statement that a message shows.
const SHOWN: usize = 60;

/// The error of a script, with the name of the object whose statement failed, if it can be found. `before` are the
/// earlier scripts of the same failed transaction. Nothing that is run here stays.
pub(crate) async fn find(connection: &mut Connection, before: &[Vec<u8>], script: &[u8], error: Error) -> Error {
    if connection.execute("ROLLBACK").await.is_err() || !is_about_the_statement(&error) {
        return error.about("the schema");
    }
    let found = by_statement(connection, before, script).await;
    let ended = connection.execute("ROLLBACK").await;
    match (found, ended) {
        (Ok(Some((object, again))), Ok(())) => again.about(object),
        // It succeeded this time, or the statement can't be found.
        _ => error.about("the schema"),
    }
}

async fn by_statement(
    connection: &mut Connection,
    before: &[Vec<u8>],
    script: &[u8],
) -> Result<Option<(String, Error)>, Error> {
    connection.execute("BEGIN").await?;
    for one in before {
        connection.run(one).await?;
    }
    let (mut scanner, mut rest, mut object) = (Scanner::default(), script, String::new());
    loop {
        match rest.is_empty() {
            true => scanner.end(),
            false => rest = &rest[scanner.feed(rest)..],
        }
        while let Ok(Some(statement)) = scanner.statement() {
            if let Some(line) = scanner.names().pop() {
                object = account::shown(&String::from_utf8_lossy(&line)).unwrap_or_default();
            }
            if let Err(error) = connection.run(&statement).await {
                let statement = shown(&statement);
                let dash = if object.is_empty() { "" } else { ": " };
                return Ok(Some((format!("{object}{dash}{statement}"), error)));
            }
        }
        if rest.is_empty() {
            return Ok(None);
        }
    }
}

/// The beginning of a statement, for messages. It ends before the first string literal, which may be a password.
pub(crate) fn shown(statement: &[u8]) -> String {
    let line = statement.split(|byte| matches!(byte, b'\n' | b'\'' | b'$')).next().unwrap_or_default();
    String::from_utf8_lossy(line).trim_end().chars().take(SHOWN).collect()
}
