//! Is a table that was just read the one whose definition is in the set?
//!
//! A snapshot shows the rows of a table by whatever name it has now. Behind `RENAME TABLE a TO x, b TO a` the name `a` gives the rows
//! of `b`; tools that change large tables end so. Behind an exchange of two columns' names each gives the other's values. The
//! server refuses neither: error 1412 is only for tables that were built anew. So each table is compared behind its rows, while the
//! transaction that read them still holds its metadata lock. Until then nothing of it can be renamed.

use std::collections::BTreeMap;

use tokio::sync::Mutex;

use crate::Error;
use crate::catalog::listing::Listing;
use crate::client::{Connection, quote};
use crate::detail::TableName;

/// What tells a table from others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shape {
    /// Its statement, without the next value of AUTO_INCREMENT.
    statement: Vec<u8>,
    /// When it was created, as the server tells.
    created: Vec<u8>,
}

/// The statements of tables, as they are in the set.
pub(crate) type Statements = BTreeMap<TableName, Vec<u8>>;

/// The definitions of the set, and a session that asks for the present ones.
pub(crate) struct Same {
    shapes: BTreeMap<TableName, Shape>,
    session: Mutex<Session>,
}

struct Session {
    /// It tells statements as bytes, as the session did that read the definitions.
    connection: Connection,
    /// Its present database: names of others are told with their database.
    database: Option<String>,
}

impl Same {
    /// The definitions that were read while the server's objects were as in `listing`.
    pub(crate) fn new(statements: Statements, listing: &Listing, connection: Connection) -> Self {
        let shape = |(name, statement): (TableName, Vec<u8>)| {
            let created = listing.created(&name.database, &name.name).unwrap_or_default().to_vec();
            (name, Shape { statement: without_counter(&statement), created })
        };
        let session = Session { connection, database: None };
        Self { shapes: statements.into_iter().map(shape).collect(), session: Mutex::new(session) }
    }

    /// Insists that a table is what the set says of it. The caller's transaction has read the table, and holds its metadata lock.
    pub(crate) async fn check(&self, table: &TableName) -> Result<(), Error> {
        let now = self.session.lock().await.look(table).await?;
        if self.shapes.get(table) == Some(&now) {
            return Ok(());
        }
        Err(Error::Refused {
            code: "mysql.changing",
            object: format!("table {table}"),
            cause: "another table has got its name, or its columns other names, while the backup was made".to_owned(),
            next: "start again when no definition is being changed".to_owned(),
        })
    }

    /// Ends its session.
    pub(crate) async fn close(self) {
        self.session.into_inner().connection.close().await;
    }
}

impl Session {
    /// How a table is now.
    async fn look(&mut self, table: &TableName) -> Result<Shape, Error> {
        let Self { connection, database } = self;
        let about = |error: Error| error.about(table.to_string());
        if database.as_ref() != Some(&table.database) {
            connection.execute(&format!("USE {}", quote::name(&table.database))).await.map_err(about)?;
            *database = Some(table.database.clone());
        }
        let shown = connection.one(&format!("SHOW CREATE TABLE {}", quote::name(&table.name))).await.map_err(about)?;
        let sql = format!(
            "SELECT COALESCE(create_time, '') FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            quote::text(&table.database),
            quote::text(&table.name)
        );
        let created = connection.query(&sql).await.map_err(about)?;
        let created = created.first().and_then(|row| row.bytes(0)).unwrap_or_default().to_vec();
        Ok(Shape { statement: without_counter(shown.bytes(1).unwrap_or_default()), created })
    }
}

/// A statement without the next value of AUTO_INCREMENT, which changes with rows. Pure.
fn without_counter(statement: &[u8]) -> Vec<u8> {
    const WORD: &[u8] = b" AUTO_INCREMENT=";
    let (mut kept, mut rest) = (Vec::with_capacity(statement.len()), statement);
    while let Some(place) = rest.windows(WORD.len()).position(|word| word == WORD) {
        let (before, behind) = rest.split_at(place);
        kept.extend_from_slice(before);
        let behind = behind.get(WORD.len()..).unwrap_or_default();
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest = behind.get(digits..).unwrap_or_default();
    }
    kept.extend_from_slice(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_counter_is_left_out() {
        for (statement, expected) in [
            (
                "CREATE TABLE `t` (\n) ENGINE=InnoDB AUTO_INCREMENT=17 DEFAULT CHARSET=x",
                "CREATE TABLE `t` (\n) ENGINE=InnoDB DEFAULT CHARSET=x",
            ),
            ("CREATE TABLE `t` (\n) ENGINE=InnoDB AUTO_INCREMENT=17", "CREATE TABLE `t` (\n) ENGINE=InnoDB"),
            ("CREATE TABLE `t` (`a` int AUTO_INCREMENT)", "CREATE TABLE `t` (`a` int AUTO_INCREMENT)"),
            ("x AUTO_INCREMENT=1 COMMENT=' AUTO_INCREMENT='", "x COMMENT=''"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_counter(statement.as_bytes())), expected);
        }
    }
}
