//! What PostgreSQL itself finds in a recovered cluster: every table and every index is read and checked by `amcheck`.
//!
//! The functions of the extension: `verify_heapam` (pages, tuples and TOAST of a table), `bt_index_check` (order and structure of a
//! B-tree; with the content, that each row of the table is in it), and from version 18 on `gin_index_check`. Source: PostgreSQL's
//! documentation, F.1 amcheck.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::try_join_all;
use seawall_core::{Checked, Fault, Level, Progress};

use super::super::aside::Server;
use crate::Error;
use crate::client::{Connection, Target};
use crate::quote::{ident, literal};

/// How many things are named that are wrong.
const MOST: usize = 100;

/// Where the extension is put. A schema of this name in the source goes: all of it is thrown away.
const SCHEMA: &str = "seawall_proof";

/// The databases that can be connected to. A negative limit other than -1 says that a database is half dropped.
const DATABASES: &str =
    "SELECT datname FROM pg_catalog.pg_database WHERE datallowconn AND datconnlimit >= -1 ORDER BY oid";

/// What is read of tables: their rows are kept as PostgreSQL's own access method keeps them, and somebody may read them.
const TABLES: &str = "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_am a ON a.oid = c.relam \
    WHERE c.relkind IN ('r', 'm') AND a.amname = 'heap' AND c.relpersistence <> 't' ORDER BY c.relpages DESC";

/// What is read of indexes.
const INDEXES: &str = "SELECT c.oid, n.nspname, c.relname, a.amname FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_am a ON a.oid = c.relam \
    JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid \
    WHERE c.relkind = 'i' AND a.amname IN ('btree', 'gin') AND i.indisvalid AND i.indisready AND c.relpersistence <> 't' \
    ORDER BY c.relpages DESC";

/// Tables whose rows another access method keeps.
const OTHERS: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_am a ON a.oid = c.relam \
    WHERE c.relkind IN ('r', 'm') AND a.amname <> 'heap'";

/// Collations that order otherwise here than where the indexes were made.
const COLLATIONS: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_collation c \
    WHERE c.collversion IS NOT NULL AND c.collversion <> pg_catalog.pg_collation_actual_version(c.oid)";

/// The same of the database itself.
const COLLATION: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database() \
    AND d.datcollversion IS NOT NULL AND d.datcollversion <> pg_catalog.pg_database_collation_actual_version(d.oid)";

/// Triggers on events, which would run functions of the source when the extension is made.
const TRIGGERS: &str = "SELECT evtname FROM pg_catalog.pg_event_trigger WHERE evtenabled <> 'D'";

/// Checks every database of a server. What is wrong, and what can't be told, is added to `checked`.
///
/// # Errors
/// When the server ends, or can't go on.
pub(super) async fn all(
    server: &Server,
    level: Level,
    jobs: usize,
    checked: &mut Checked,
    progress: &Arc<dyn Progress>,
) -> Result<(), Error> {
    progress.begin("check", None);
    let mut connection = Connection::open(&server.target).await?;
    let databases: Vec<String> = connection.query(DATABASES).await?.iter().map(|row| row.text(0).to_owned()).collect();
    connection.close().await;
    checked.reachable = Level::Engine;
    let with_content = level == Level::Content;
    if with_content {
        checked.doubts.push("its content isn't compared, because a server keeps no sums of it: each row is only looked for in the indexes".to_owned());
    }
    let found = Mutex::new(Found::default());
    for database in databases {
        let one = Database {
            target: server.target.with_database(&database),
            name: database,
            version: server.version(),
            with_content,
        };
        one.check(jobs, &found, progress).await?;
    }
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if found.is_unchecked {
        checked.reachable = Level::Structure;
    }
    found.faults.into_iter().for_each(|fault| checked.fault(fault));
    checked.doubts.extend(found.doubts);
    progress.finish();
    Ok(())
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    faults: Vec<Fault>,
    doubts: Vec<String>,
    /// Whether tables of a database couldn't be checked at all.
    is_unchecked: bool,
}

impl Found {
    fn add(&mut self, what: Said, object: String) {
        let place = match what {
            Said::Wrong(_) => self.faults.len(),
            Said::Doubtful(_) => self.doubts.len(),
        };
        if place >= MOST {
            return;
        }
        match what {
            Said::Wrong(cause) => self.faults.push(Fault { code: "postgres.amcheck".to_owned(), object, cause }),
            Said::Doubtful(cause) => self.doubts.push(format!("{object}: {cause}")),
        }
    }
}

/// What an answer of the server says of what it was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    /// It is damaged.
    Wrong(String),
    /// That can't be told here.
    Doubtful(String),
}

/// One database.
struct Database {
    target: Target,
    name: String,
    version: u32,
    with_content: bool,
}

/// What is asked of a table or an index.
struct Question {
    object: String,
    oid: String,
    sql: String,
    is_index: bool,
}

impl Database {
    async fn check(&self, jobs: usize, found: &Mutex<Found>, progress: &Arc<dyn Progress>) -> Result<(), Error> {
        let add = |said: Said, object: String| found.lock().unwrap_or_else(PoisonError::into_inner).add(said, object);
        let object = format!("database {}", self.name);
        let unchecked = |error: Error| {
            let said = told(&error, true, false).ok_or(error)?;
            found.lock().unwrap_or_else(PoisonError::into_inner).is_unchecked = true;
            add(said, object.clone());
            Ok::<_, Error>(())
        };
        let mut connection = match Connection::open(&self.target).await {
            Ok(connection) => connection,
            Err(error) => return unchecked(error),
        };
        let asked = self.questions(&mut connection, &add).await;
        connection.close().await;
        let (questions, is_ordered_otherwise) = match asked {
            Ok(asked) => asked,
            Err(error) => return unchecked(error),
        };
        let questions = Mutex::new(questions);
        let worker = async || {
            let mut connection = Connection::open(&self.target).await?;
            loop {
                let next = questions.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(Question { object, oid, sql, is_index }) = next else { break };
                match connection.query(&sql).await {
                    Ok(_) if is_index => {}
                    Ok(rows) => rows.iter().for_each(|row| add(Said::Wrong(row.text(0).to_owned()), object.clone())),
                    Err(error) => {
                        let is_there = connection.one(&exists(&oid)).await.is_ok_and(|row| row.flag(0));
                        add(told(&error, is_there, is_index && is_ordered_otherwise).ok_or(error)?, object);
                    }
                }
                progress.advance(1);
            }
            connection.close().await;
            Ok::<_, Error>(())
        };
        try_join_all((0..jobs.max(1)).map(|_| worker())).await.map(drop)
    }

    /// Makes the extension, and returns what to ask, and whether some collation orders otherwise here.
    async fn questions(
        &self,
        connection: &mut Connection,
        add: &impl Fn(Said, String),
    ) -> Result<(VecDeque<Question>, bool), Error> {
        for row in connection.query(TRIGGERS).await? {
            connection.execute(&format!("ALTER EVENT TRIGGER {} DISABLE", ident(row.text(0)))).await?;
        }
        let schema = ident(SCHEMA);
        let make = format!(
            "DROP EXTENSION IF EXISTS amcheck CASCADE; DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}; \
             CREATE EXTENSION amcheck SCHEMA {schema}"
        );
        connection.execute(&make).await?;
        let object = format!("database {}", self.name);
        let others = connection.one(OTHERS).await?.number(0);
        if others > 0 {
            add(Said::Doubtful(format!("{others} tables of other access methods aren't checked")), object.clone());
        }
        let mut changed = connection.one(COLLATIONS).await?.number(0);
        if self.version >= 150_000 {
            changed += connection.one(COLLATION).await?.number(0);
        }
        if changed > 0 {
            let cause = "this host orders text otherwise than the source: after a restore here, REINDEX what has text";
            add(Said::Doubtful(cause.to_owned()), object);
        }
        let mut questions = VecDeque::new();
        for row in connection.query(TABLES).await? {
            let sql = format!(
                "SELECT pg_catalog.concat('block ', blkno, ': ', msg) \
                 FROM {schema}.verify_heapam({}::pg_catalog.regclass, on_error_stop => true) LIMIT 3",
                literal(row.text(0))
            );
            questions.push_back(Question {
                object: self.shown(&row),
                oid: row.text(0).to_owned(),
                sql,
                is_index: false,
            });
        }
        for row in connection.query(INDEXES).await? {
            let oid = literal(row.text(0));
            let check = match row.text(3) {
                "btree" => format!("bt_index_check({oid}::pg_catalog.regclass, {})", self.with_content),
                _ if self.version >= 180_000 => format!("gin_index_check({oid}::pg_catalog.regclass)"),
                _ => continue,
            };
            // It returns nothing, or an error.
            let sql = format!("SELECT {schema}.{check}");
            questions.push_back(Question {
                object: self.shown(&row),
                oid: row.text(0).to_owned(),
                sql,
                is_index: true,
            });
        }
        Ok((questions, changed > 0))
    }

    fn shown(&self, row: &crate::client::Row) -> String {
        format!("{}.{} in database {}", row.text(1), row.text(2), self.name)
    }
}

/// What an error says; `None` if the server can't go on.
fn told(error: &Error, is_there: bool, is_ordered_otherwise: bool) -> Option<Said> {
    error.sqlstate().and_then(|code| judge(code, &error.cause(), is_there, is_ordered_otherwise))
}

/// Whether the file of a relation is there.
fn exists(oid: &str) -> String {
    format!(
        "SELECT (pg_catalog.pg_stat_file(pg_catalog.pg_relation_filepath({}::pg_catalog.oid), true)).size IS NOT NULL",
        literal(oid)
    )
}

/// What an error with this SQLSTATE says of an object whose file `is_there`; `None` if the server can't go on. On a host that orders
/// text otherwise than the source, an index may only seem damaged. Pure.
fn judge(code: &str, cause: &str, is_there: bool, is_ordered_otherwise: bool) -> Option<Said> {
    match code {
        "XX001" | "XX002" if is_ordered_otherwise => {
            Some(Said::Doubtful(format!("it may only be ordered otherwise on this host: {cause}")))
        }
        "XX001" | "XX002" => Some(Said::Wrong(cause.to_owned())),
        // A file is missing: that of the relation, or the library of an extension.
        "58P01" if !is_there => Some(Said::Wrong(cause.to_owned())),
        // The machine has too little of something, or the server was told to stop.
        _ if code.starts_with("53") || code.starts_with("57") || code.starts_with("08") => None,
        // An error of the system, such as a disk that can't be read.
        "58030" => None,
        _ => Some(Said::Doubtful(format!("it couldn't be checked: {cause}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_errors_say() {
        let told = |code, is_there, otherwise| {
            judge(code, "x", is_there, otherwise).map(|said| matches!(said, Said::Wrong(_)))
        };
        for (code, is_there, otherwise, expected) in [
            ("XX002", true, false, Some(true)),
            ("XX001", true, false, Some(true)),
            ("XX002", true, true, Some(false)),
            ("58P01", false, false, Some(true)),
            ("58P01", true, false, Some(false)),
            ("22012", true, false, Some(false)),
            ("0A000", true, false, Some(false)),
            ("53200", true, false, None),
            ("57P01", true, false, None),
            ("58030", true, false, None),
        ] {
            assert_eq!(told(code, is_there, otherwise), expected, "{code} {is_there} {otherwise}");
        }
    }

    #[test]
    fn what_is_named_is_bounded() {
        let mut found = Found::default();
        for nth in 0..2 * MOST {
            found.add(Said::Wrong("w".into()), nth.to_string());
            found.add(Said::Doubtful("d".into()), nth.to_string());
        }
        assert_eq!((found.faults.len(), found.doubts.len()), (MOST, MOST));
    }
}
