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
use super::super::recover::connect;
use crate::Error;
use crate::client::{Connection, Target};
use crate::error::UNSPOKEN;
use crate::prove::throwaway::login;
use crate::quote::{ident, literal};

/// How many things are named that are wrong.
const MOST: usize = 100;

/// Where the extension is put. A schema of this name in the source goes: all of it is thrown away.
const SCHEMA: &str = "seawall_proof";

/// Settings of roles and databases would count in the checks, and every database is to be checked, also one that is closed.
const OPEN: &str = "DELETE FROM pg_catalog.pg_db_role_setting; \
    UPDATE pg_catalog.pg_database SET datallowconn = true WHERE datname <> 'template0' AND datconnlimit >= -1";

/// The functions of indexes run as the owners of their tables, and none of these is a superuser or reaches files and programs.
/// `{}` is our own role.
const DEMOTE: &str = "UPDATE pg_catalog.pg_authid SET rolsuper = false, rolreplication = false, rolcreaterole = false WHERE rolname <> {}; \
    DELETE FROM pg_catalog.pg_auth_members m USING pg_catalog.pg_authid r WHERE r.oid = m.roleid \
    AND r.rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')";

/// What runs outside the rules of SQL can't run: functions of libraries that aren't extensions of this host, built-in ones under
/// other names that not everybody may call, and languages other than PL/pgSQL. The languages `internal` and C have the numbers 12
/// and 13.
const DISARM: &str = "UPDATE pg_catalog.pg_proc SET probin = 'seawall-nothing' \
    WHERE prolang = 13 AND oid >= 16384 AND probin !~ '^[$]libdir/[A-Za-z0-9_.-]+$'; \
    UPDATE pg_catalog.pg_proc p SET prosrc = 'seawall_nothing' WHERE prolang = 12 AND oid >= 16384 \
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc b WHERE b.oid < 16384 AND b.prolang = 12 AND b.prosrc = p.prosrc AND b.proacl IS NULL); \
    UPDATE pg_catalog.pg_language l SET lanplcallfoid = 0 WHERE lanplcallfoid <> 0 AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p \
    WHERE p.oid = l.lanplcallfoid AND p.prosrc = 'plpgsql_call_handler' AND p.probin = '$libdir/plpgsql')";

/// The databases that can be connected to. A limit below -1 says that a database is half dropped.
const DATABASES: &str =
    "SELECT datname FROM pg_catalog.pg_database WHERE datallowconn AND datconnlimit >= -1 ORDER BY oid";

/// Whether the extension is installed on this host.
const AMCHECK: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_available_extensions WHERE name = 'amcheck'";

/// Tables, with those of their large values, whose rows PostgreSQL's own access method keeps.
const TABLES: &str = "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_am a ON a.oid = c.relam \
    WHERE c.relkind IN ('r', 'm', 't') AND a.amname = 'heap' AND c.relpersistence <> 't' ORDER BY c.relpages DESC";

/// Indexes: with their access method, whether they order text otherwise here than where they were made, whether an operator class of
/// the source orders them, and whether functions of the source decide what is in them. The collation with the number 100 is that of
/// the database, whose version is `{}`; `jsonb` (3802), rows and ranges are ordered by it too.
const INDEXES: &str = "SELECT c.oid, n.nspname, c.relname, a.amname, \
    EXISTS (SELECT FROM pg_catalog.unnest(i.indcollation) k (oid) LEFT JOIN pg_catalog.pg_collation l ON l.oid = k.oid \
    WHERE CASE WHEN k.oid = 100 THEN {} ELSE l.oid IS NOT NULL AND l.collprovider <> 'd' \
    AND l.collversion IS DISTINCT FROM pg_catalog.pg_collation_actual_version(l.oid) END) \
    OR ({} AND EXISTS (SELECT FROM pg_catalog.pg_attribute k JOIN pg_catalog.pg_type t ON t.oid = k.atttypid \
    WHERE k.attrelid = c.oid AND (t.oid = 3802 OR t.typtype IN ('c', 'r', 'm')))), \
    EXISTS (SELECT FROM pg_catalog.unnest(i.indclass) o (oid) WHERE o.oid >= 16384), \
    EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 1259 AND d.objid = c.oid AND d.refobjid >= 16384 \
    AND d.refclassid IN (1255, 1247, 2617)) \
    FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_am a ON a.oid = c.relam \
    JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid \
    WHERE c.relkind = 'i' AND i.indisvalid AND i.indisready AND c.relpersistence <> 't' ORDER BY c.relpages DESC";

/// Whether the database orders text otherwise here.
const COLLATION: &str = "SELECT datcollversion IS DISTINCT FROM pg_catalog.pg_database_collation_actual_version(oid) \
    FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()";

/// Tables whose rows another access method keeps.
const OTHERS: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_am a ON a.oid = c.relam \
    WHERE c.relkind IN ('r', 'm') AND a.amname <> 'heap'";

/// Triggers on events, which would run functions of the source when the extension is made.
const TRIGGERS: &str = "SELECT evtname FROM pg_catalog.pg_event_trigger WHERE evtenabled <> 'D'";

/// Checks every database of a server. What is wrong, and what can't be told, is added to `checked`.
///
/// # Errors
/// When the server ends, can't go on, or can't check: that is no result.
pub(super) async fn all(
    server: &mut Server,
    level: Level,
    jobs: usize,
    checked: &mut Checked,
    progress: &Arc<dyn Progress>,
) -> Result<(), Error> {
    progress.begin("check", None);
    let keeper = login("seawall_keeper")?.user;
    let mut connection = connect(&server.target).await?;
    let make = format!("{OPEN}; CREATE ROLE {} SUPERUSER LOGIN", ident(&keeper));
    connection.execute(&make).await?;
    let databases = connection.query(DATABASES).await?;
    let databases: Vec<String> = databases.iter().map(|row| row.text(0).to_owned()).collect();
    let has_amcheck = connection.one(AMCHECK).await?.number(0) > 0;
    connection.close().await;
    if !has_amcheck {
        return Err(Error::Tool {
            tool: "amcheck".to_owned(),
            cause: "the extension isn't installed beside the server's programs".to_owned(),
            next: "install it (Debian: postgresql-NN), or prove on another host".to_owned(),
        });
    }
    server.target.user.clone_from(&keeper);
    let mut connection = connect(&server.target).await?;
    connection.execute(&DEMOTE.replace("{}", &literal(&keeper))).await?;
    connection.close().await;
    let with_content = level == Level::Content;
    let found = Mutex::new(Found::default());
    let mut asked = Ok(());
    for database in databases {
        let target = server.target.with_database(&database);
        let one = Database { target, name: database, version: server.version(), with_content };
        asked = one.check(jobs, &found, progress).await;
        if asked.is_err() {
            break;
        }
    }
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let crashed_at = found.lost.clone();
    checked.reachable = if found.is_unchecked { Level::Structure } else { Level::Engine };
    found.tell(checked);
    if with_content {
        checked.doubts.push(
            "its content isn't compared, because a server keeps no sums of it: each row is only looked for in the indexes".to_owned(),
        );
    }
    if asked.is_err()
        && let Some(object) = crashed_at
        && let Some(words) = server.crash().await
    {
        tracing::warn!("the server of a proof crashed: {words}");
        let cause = format!("the server crashed when this was checked; {UNSPOKEN}");
        checked.fault(Fault { code: CODE.to_owned(), object, cause });
        asked = Ok(());
    }
    progress.finish();
    asked
}

/// The code of what the checks find.
const CODE: &str = "postgres.amcheck";

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    faults: Vec<Fault>,
    doubts: Vec<String>,
    /// How many more faults and doubts there are than are named.
    more: [u64; 2],
    /// Whether a database couldn't be checked at all.
    is_unchecked: bool,
    /// What was asked about when a connection broke.
    lost: Option<String>,
}

impl Found {
    fn add(&mut self, what: Said, object: String) {
        match what {
            Said::Wrong(_) if self.faults.len() >= MOST => self.more[0] += 1,
            Said::Doubtful(_) if self.doubts.len() >= MOST => self.more[1] += 1,
            Said::Wrong(cause) => self.faults.push(Fault { code: CODE.to_owned(), object, cause }),
            Said::Doubtful(cause) => self.doubts.push(format!("{object}: {cause}")),
        }
    }

    fn tell(self, checked: &mut Checked) {
        self.faults.into_iter().for_each(|fault| checked.fault(fault));
        checked.doubts.extend(self.doubts);
        let [faults, doubts] = self.more;
        if faults + doubts > 0 {
            checked.doubts.push(format!("{faults} more faults and {doubts} more doubts aren't named"));
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
    kind: Kind,
}

/// What decides how an answer is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What a session begins with.
    Database,
    /// No function of the source has a part in it.
    Table,
    Index {
        /// It may be ordered otherwise here: by other text, or by an operator class of the source.
        is_ordered_otherwise: bool,
        /// Functions of the source decide what is in it.
        has_functions: bool,
    },
}

impl Database {
    async fn check(&self, jobs: usize, found: &Mutex<Found>, progress: &Arc<dyn Progress>) -> Result<(), Error> {
        let all = || found.lock().unwrap_or_else(PoisonError::into_inner);
        let object = format!("database {}", self.name);
        let unchecked = |error: Error| {
            let said = told(&error, true, Kind::Database).ok_or(error)?;
            all().is_unchecked = true;
            all().add(said, object.clone());
            Ok::<_, Error>(())
        };
        let mut connection = match Connection::open(&self.target).await {
            Ok(connection) => connection,
            // A locale that is missing here says nothing about the database. Damage of its catalogs does.
            Err(error) => {
                all().lost = Some(object.clone());
                return unchecked(error);
            }
        };
        let asked = self.questions(&mut connection, &|said, object| all().add(said, object)).await;
        connection.close().await;
        let questions = match asked {
            Ok(questions) => Mutex::new(questions),
            Err(error) => {
                all().lost = Some(object.clone());
                return unchecked(error);
            }
        };
        let worker = async || {
            let mut connection = Connection::open(&self.target).await?;
            loop {
                let next = questions.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(Question { object, oid, sql, kind }) = next else { break };
                match connection.query(&sql).await {
                    Ok(_) if kind != Kind::Table => {}
                    Ok(rows) => {
                        rows.iter().for_each(|row| all().add(Said::Wrong(block(row.text(0))), object.clone()));
                    }
                    Err(error) => {
                        // An answer to this shows also that the connection stands.
                        let there = connection.one(&exists(&oid)).await.map(|row| row.flag(0));
                        let said = there.ok().and_then(|is_there| told(&error, is_there, kind));
                        match said {
                            Some(said) => all().add(said, object),
                            None => {
                                all().lost = Some(object);
                                return Err(error);
                            }
                        }
                    }
                }
                progress.advance(1);
            }
            connection.close().await;
            Ok::<_, Error>(())
        };
        try_join_all((0..jobs.max(1)).map(|_| worker())).await.map(drop)
    }

    /// Makes the extension, and returns what to ask.
    async fn questions(
        &self,
        connection: &mut Connection,
        add: &impl Fn(Said, String),
    ) -> Result<VecDeque<Question>, Error> {
        for row in connection.query(TRIGGERS).await? {
            connection.execute(&format!("ALTER EVENT TRIGGER {} DISABLE", ident(row.text(0)))).await?;
        }
        let schema = ident(SCHEMA);
        let make = format!(
            "{DISARM}; DROP EXTENSION IF EXISTS amcheck CASCADE; DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}; \
             CREATE EXTENSION amcheck SCHEMA {schema}"
        );
        connection.execute(&make).await?;
        let object = format!("database {}", self.name);
        let others = connection.one(OTHERS).await?.number(0);
        if others > 0 {
            add(Said::Doubtful(format!("{others} tables of other access methods aren't checked")), object.clone());
        }
        let is_database_otherwise = self.version >= 150_000 && connection.one(COLLATION).await?.flag(0);
        let mut questions = VecDeque::new();
        for row in connection.query(TABLES).await? {
            let sql = format!(
                "SELECT pg_catalog.concat('block ', blkno, ': ', msg) \
                 FROM {schema}.verify_heapam({}::pg_catalog.regclass, on_error_stop => true, check_toast => true) LIMIT 3",
                literal(row.text(0))
            );
            let (object, oid) = (self.shown(&row), row.text(0).to_owned());
            questions.push_back(Question { object, oid, sql, kind: Kind::Table });
        }
        let (mut unknown, mut otherwise) = (0_u64, 0_u64);
        for row in
            connection.query(&INDEXES.replace("{}", if is_database_otherwise { "true" } else { "false" })).await?
        {
            let oid = literal(row.text(0));
            let check = match row.text(3) {
                "btree" => format!("bt_index_check({oid}::pg_catalog.regclass, {})", self.with_content),
                "gin" if self.version >= 180_000 => format!("gin_index_check({oid}::pg_catalog.regclass)"),
                _ => {
                    unknown += 1;
                    continue;
                }
            };
            otherwise += u64::from(row.flag(4));
            let kind = Kind::Index {
                is_ordered_otherwise: row.flag(4) || row.flag(5),
                has_functions: row.flag(5) || row.flag(6),
            };
            // It returns nothing, or an error.
            let sql = format!("SELECT {schema}.{check}");
            questions.push_back(Question { object: self.shown(&row), oid: row.text(0).to_owned(), sql, kind });
        }
        if unknown > 0 {
            add(Said::Doubtful(format!("{unknown} indexes of other access methods aren't checked")), object.clone());
        }
        if otherwise > 0 {
            let cause = format!(
                "this host orders the text of {otherwise} indexes otherwise than the source: after a restore here, REINDEX them"
            );
            add(Said::Doubtful(cause), object);
        }
        Ok(questions)
    }

    fn shown(&self, row: &crate::client::Row) -> String {
        format!("{}.{} in database {}", row.text(1), row.text(2), self.name)
    }
}

/// What amcheck found in a table: the block alone goes into a record.
fn block(said: &str) -> String {
    tracing::warn!("amcheck in the server of a proof says: {said}");
    let number = said.strip_prefix("block ").and_then(|rest| rest.split(':').next()?.parse::<u64>().ok());
    match number {
        Some(number) => format!("block {number} is damaged; {UNSPOKEN}"),
        None => format!("a block of it is damaged; {UNSPOKEN}"),
    }
}

/// What an error says; `None` if the server can't go on.
fn told(error: &Error, is_there: bool, kind: Kind) -> Option<Said> {
    let (code, cause) = (error.sqlstate()?, error.cause());
    tracing::warn!("the server of a proof says: {cause}");
    judge(code, &cause, is_there, kind)
}

/// Whether the file of a relation is there.
fn exists(oid: &str) -> String {
    format!(
        "SELECT (pg_catalog.pg_stat_file(pg_catalog.pg_relation_filepath({}::pg_catalog.oid), true)).size IS NOT NULL",
        literal(oid)
    )
}

/// What an error with this SQLSTATE says of an object whose file `is_there`; `None` if the server can't go on. Pure.
fn judge(code: &str, cause: &str, is_there: bool, kind: Kind) -> Option<Said> {
    // What it says is the work of the source's owner: a record has the SQLSTATE alone.
    let is_code = code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let shown = format!("{UNSPOKEN} [SQLSTATE {}]", if is_code { code } else { "XX000" });
    let wrong = || Some(Said::Wrong(shown.clone()));
    let doubtful = |why: &str| Some(Said::Doubtful(format!("{why}: {shown}")));
    let is_library = cause.contains("could not access file") || cause.contains("could not load library");
    match (code, kind) {
        // A page can't be read, whatever it is a page of.
        ("XX001", _) if !cause.contains("index tuple") => wrong(),
        // A file is missing: that of the relation, one that says what became of transactions, or the library of an extension.
        ("58P01", _) if !is_there || !is_library => wrong(),
        ("XX001" | "XX002", Kind::Index { is_ordered_otherwise: true, .. }) => {
            doubtful("it may only be ordered otherwise on this host")
        }
        // Its order is that of the values that it holds. Whether these belong to the rows, only its functions say.
        ("XX001", Kind::Index { has_functions: true, .. }) => {
            doubtful("its functions may only give another value here than when its rows were written")
        }
        ("XX001" | "XX002", _) => wrong(),
        (_, Kind::Table) if code.starts_with("XX") => wrong(),
        // A function may say anything, and the connection still answers.
        (_, Kind::Index { has_functions: true, .. }) => doubtful("it couldn't be checked"),
        // The machine has too little of something, can't read its disk, or the server was told to stop.
        _ if ["53", "57", "08"].iter().any(|begin| code.starts_with(begin)) || code == "58030" => None,
        _ => doubtful("it couldn't be checked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_errors_say() {
        let index = |is_ordered_otherwise, has_functions| Kind::Index { is_ordered_otherwise, has_functions };
        let plain = index(false, false);
        let told =
            |code, cause, is_there, kind| judge(code, cause, is_there, kind).map(|said| matches!(said, Said::Wrong(_)));
        let (page, tuple) = ("invalid page in block 3", "heap tuple lacks matching index tuple");
        for (code, cause, is_there, kind, expected) in [
            ("XX002", "order", true, plain, Some(true)),
            ("XX002", "order", true, index(true, false), Some(false)),
            ("XX002", "order", true, index(false, true), Some(true)),
            ("XX001", tuple, true, index(false, true), Some(false)),
            ("XX000", "database locale is incompatible with operating system", true, Kind::Database, Some(false)),
            ("XX001", page, true, Kind::Database, Some(true)),
            ("XX001", page, true, index(true, true), Some(true)),
            ("XX001", tuple, true, plain, Some(true)),
            ("XX001", tuple, true, index(true, false), Some(false)),
            ("XX001", page, true, Kind::Table, Some(true)),
            ("XX000", "cache lookup failed", true, Kind::Table, Some(true)),
            ("XX000", "x", true, plain, Some(false)),
            ("58P01", "could not open file", false, plain, Some(true)),
            ("58P01", "could not access status of transaction", true, Kind::Table, Some(true)),
            ("58P01", "could not access file \"$libdir/x\"", true, plain, Some(false)),
            ("22012", "x", true, plain, Some(false)),
            ("53200", "x", true, plain, None),
            ("53200", "x", true, index(false, true), Some(false)),
            ("57P01", "x", true, Kind::Table, None),
            ("58030", "x", true, Kind::Table, None),
        ] {
            assert_eq!(told(code, cause, is_there, kind), expected, "{code} {cause} {is_there} {kind:?}");
        }
    }

    #[test]
    fn what_is_named_is_bounded_and_the_rest_is_counted() {
        let (mut found, mut checked) = (Found::default(), Checked::default());
        for nth in 0..2 * MOST {
            found.add(Said::Wrong("w".into()), nth.to_string());
            found.add(Said::Doubtful("d".into()), nth.to_string());
        }
        found.tell(&mut checked);
        assert_eq!((checked.faults.len(), checked.doubts.len()), (MOST, MOST + 1));
        assert!(checked.doubts[MOST].starts_with("100 more faults and 100 more doubts"), "{:?}", checked.doubts[MOST]);
    }
}
