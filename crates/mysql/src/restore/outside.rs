//! A script that another program left, into a database: what `mysqldump` or `mariadb-dump` wrote of one database.
//!
//! It is run statement by statement over our own connection, in a database of an unfinished name. Tables with their rows are made
//! there. What isn't tables (views, routines, triggers, events) is put aside with the settings around it, because it can't move into
//! another database. When all rows are there, all tables move at once into the wanted database (I8), and the rest is made in it. A
//! restore that was interrupted before that begins anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use seawall_archive::names::unfinished;
use seawall_archive::preflight::Lack;
use seawall_archive::server::Filled;
use seawall_core::{Failure, Kind, Progress};
use seawall_dumps::{Pieces, Said};

use crate::client::quote::{name, qualified};
use crate::client::tried::is_about_the_statement;
use crate::client::{Connection, Target};
use crate::detail::ServerFacts;
use crate::error::Side;
use crate::journal::Journal;
use crate::restore::steps::{prepare, tables_of};
use crate::restore::{anything, exists};
use crate::schema::meant::{Meant, meant};
use crate::schema::script::{Refusal, Scanner};
use crate::{Error, RestoreOptions, preflight};

/// The most bytes that are put aside.
const MOST_ASIDE: usize = 64 << 20;

/// The most warnings that are kept.
const MOST_WARNINGS: usize = 20;

/// What a script has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileContent {
    /// Statements of SQL.
    pub statements: u64,
}

/// A statement that waits until the tables are in their database.
struct Aside {
    sql: Vec<u8>,
    line: u64,
    /// What it makes; `None` of a setting.
    what: Option<String>,
}

/// A script that is read statement by statement.
struct Script {
    pieces: futures::stream::BoxStream<'static, Result<Vec<u8>, Failure>>,
    object: String,
    scanner: Scanner,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
    /// The database that it says it is of.
    database: Option<String>,
}

impl Script {
    fn new(pieces: Pieces) -> Self {
        let object = pieces.object().to_owned();
        let (scanner, piece) = (Scanner::default(), Vec::new());
        Self { pieces: pieces.stream(), object, scanner, piece, at: 0, ended: false, database: None }
    }

    /// The next statement, with its meaning; `None` at the end of a script that is whole.
    async fn next(&mut self, progress: &dyn Progress) -> Result<Option<(Vec<u8>, Meant)>, Error> {
        loop {
            if let Some(statement) = self.scanner.statement().map_err(|refusal| self.refused(&refusal))? {
                let meant = meant(&statement);
                self.judge(&statement, &meant)?;
                return Ok(Some((statement, meant)));
            }
            let rest = self.piece.get(self.at..).unwrap_or_default();
            if !rest.is_empty() {
                self.at += self.scanner.feed(rest);
                continue;
            }
            if self.ended {
                return match self.scanner.is_between() {
                    true => Ok(None),
                    false => Err(self.damaged("it ends within a statement")),
                };
            }
            match self.pieces.next().await.transpose().map_err(|failure| Error::File(Box::new(failure)))? {
                Some(piece) => {
                    progress.advance(piece.len() as u64);
                    (self.piece, self.at) = (piece, 0);
                }
                None => {
                    self.scanner.end();
                    self.ended = true;
                }
            }
        }
    }

    /// Refuses a statement that no script of a database has, and a second database.
    fn judge(&mut self, statement: &[u8], meant: &Meant) -> Result<(), Error> {
        match meant {
            Meant::Unknown => Err(Error::Refused {
                code: "mysql.statement",
                object: self.about(statement),
                cause: "it is no statement that a script of one database has: it changes the server, its accounts or another database"
                    .to_owned(),
                next: "if you trust the script, remove the statement from it, or give the script to the server's own client; else don't use it"
                    .to_owned(),
            }),
            Meant::Database(named) => {
                let first = self.database.get_or_insert_with(|| named.clone()).clone();
                if first == *named {
                    return Ok(());
                }
                Err(Error::Refused {
                    code: "mysql.statement",
                    object: self.about(statement),
                    cause: format!("the script is of several databases: {first} and {named}"),
                    next: "make a script for each database, or give this one to the server's own client".to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, refusal: &Refusal) -> Error {
        match refusal {
            Refusal::Wrong(line, cause) => self.damaged(&format!("line {line}: {cause}")),
            Refusal::Command(line) => Error::Refused {
                code: "mysql.client-command",
                object: self.object.clone(),
                cause: format!("line {line} is a command for the server's client, which no backup program writes"),
                next: "don't give it to that client; look at that line".to_owned(),
            },
        }
    }

    fn damaged(&self, cause: &str) -> Error {
        let next = "take another copy of the backup, or another backup";
        Error::File(Box::new(Failure::new(Kind::Corrupt, "dump.damaged", &self.object, cause, next)))
    }

    /// A statement for messages: its line and its first words, without values.
    fn about(&self, statement: &[u8]) -> String {
        about(&self.object, self.scanner.number(), statement)
    }
}

fn about(object: &str, line: u64, statement: &[u8]) -> String {
    let end = statement.iter().position(|byte| matches!(byte, b'\'' | b'"' | b'(' | b'\n')).unwrap_or(statement.len());
    let shown = String::from_utf8_lossy(statement.get(..end.min(80)).unwrap_or_default()).trim().to_owned();
    format!("line {line} of {object}: {shown}")
}

/// Reads a script to its end without a server.
///
/// # Errors
/// The script isn't whole, or has something that no script of a database has.
pub async fn check_file(pieces: Pieces, progress: &dyn Progress) -> Result<FileContent, Error> {
    let (mut script, mut found) = (Script::new(pieces), FileContent::default());
    while script.next(progress).await?.is_some() {
        found.statements += 1;
    }
    Ok(found)
}

/// Restores a script into the database that `target` names: a new one, or an empty one.
///
/// # Errors
/// What is wrong with the script, the target or the request.
pub async fn restore_file(
    pieces: Pieces,
    said: Option<&Said>,
    target: &Target,
    options: &RestoreOptions,
    progress: Arc<dyn Progress>,
) -> Result<Filled, Error> {
    let restored = restore(pieces, said, target, options, &*progress).await;
    restored.map_err(|error| error.during(Side::Restore))
}

async fn restore(
    pieces: Pieces,
    said: Option<&Said>,
    target: &Target,
    options: &RestoreOptions,
    progress: &dyn Progress,
) -> Result<Filled, Error> {
    refuse_options(&pieces, options)?;
    let server = target.with_database("");
    let mut connection = Connection::open(&server).await?;
    let wanted = lowered(&mut connection, &target.database).await?;
    let made = unfinished::name(&format!("file {}", pieces.id()), &wanted);
    let mut filled = Filled { lacks: way(&mut connection, &made, &wanted).await?, ..Filled::default() };
    if options.dry_run {
        connection.close().await;
        return Ok(filled);
    }
    preflight::refuse(&target.to_string(), &filled.lacks)?;
    let facts = facts(said);
    let drop_made = format!("DROP DATABASE IF EXISTS {}", name(&made));
    Journal::hold(&mut connection, &made).await?;
    connection.execute(&drop_made).await?;
    connection.execute(&format!("CREATE DATABASE {}", name(&made))).await?;
    progress.begin("load", Some(pieces.size()));
    let mut script = Script::new(pieces);
    let aside = match fill(&mut script, &server, &facts, &made, progress, &mut filled).await {
        Ok(aside) => aside,
        Err(error) => {
            // Nothing goes on in it. If the server is away, the next restore of the same file drops it.
            let _ = connection.execute(&drop_made).await;
            return Err(error);
        }
    };
    progress.finish();
    prepare(&mut connection, &facts).await?;
    // Something may have come into the database since.
    preflight::refuse(&target.to_string(), &way(&mut connection, &made, &wanted).await?)?;
    move_tables(&mut connection, &made, &wanted).await?;
    make_aside(&aside, &script.object, &server, &facts, &wanted, &mut filled).await?;
    connection.execute(&drop_made).await?;
    connection.close().await;
    Ok(filled)
}

fn refuse_options(pieces: &Pieces, options: &RestoreOptions) -> Result<(), Error> {
    let refused = |cause: &str, next: &str| {
        let (object, cause, next) = (pieces.object().to_owned(), cause.to_owned(), next.to_owned());
        Err(Error::Refused { code: "mysql.vendor-format", object, cause, next })
    };
    if !options.tables.is_empty() || options.data_only {
        return refused("a script of another program is restored as a whole", "leave --table and --data-only out");
    }
    if !options.definers.is_empty() || !options.owners {
        return refused(
            "the definers in a script of another program stay as they are",
            "leave --definer and --no-owner out",
        );
    }
    if options.clean {
        let next = "DROP DATABASE the old one first, or restore under another name";
        return refused("a script of another program doesn't replace a database", next);
    }
    Ok(())
}

/// The name of a database as the server keeps it.
async fn lowered(connection: &mut Connection, database: &str) -> Result<String, Error> {
    let is_lowered = connection.one("SELECT @@lower_case_table_names").await?.number(0) == 1;
    Ok(if is_lowered { database.to_lowercase() } else { database.to_owned() })
}

/// What is in the way of a restore into the wanted database.
async fn way(connection: &mut Connection, made: &str, wanted: &str) -> Result<Vec<Lack>, Error> {
    let Some(found) = anything(connection, wanted).await? else { return Ok(Vec::new()) };
    let is_begun = exists(connection, made).await? && tables_of(connection, made).await?.is_empty();
    Ok(vec![match is_begun {
        true => Lack::new(
            format!(
                "a restore of the same file has moved its tables into {wanted}, and was interrupted before all else was made"
            ),
            format!("DROP DATABASE {}; and start the same again", name(wanted)),
        ),
        false => Lack::new(
            format!("{wanted}.{found} is in the database, which should be empty"),
            "name another database, or DROP DATABASE this one",
        ),
    }])
}

/// The server that a script is of, as far as it decides what statements mean.
fn facts(said: Option<&Said>) -> ServerFacts {
    let version = said.and_then(|said| said.server.as_deref()).unwrap_or_default();
    let family = if version.contains("MariaDB") { "mariadb" } else { "mysql" };
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or_default());
    let mut next = || parts.next().unwrap_or_default().min(999);
    let number = next() * 10_000 + next() * 100 + next();
    ServerFacts { family: family.to_owned(), version: number, ..ServerFacts::default() }
}

/// Makes tables with their rows, and returns what is to be made behind them.
async fn fill(
    script: &mut Script,
    server: &Target,
    facts: &ServerFacts,
    made: &str,
    progress: &dyn Progress,
    filled: &mut Filled,
) -> Result<Vec<Aside>, Error> {
    let mut session = Connection::open(server).await?;
    prepare(&mut session, facts).await?;
    session.execute(&format!("USE {}", name(made))).await?;
    let (mut aside, mut size, mut left_out) = (Vec::new(), 0_usize, BTreeSet::new());
    while let Some((statement, meant)) = script.next(progress).await? {
        let line = script.scanner.number();
        let (is_run, what) = match &meant {
            Meant::Session => (true, Some(None)),
            Meant::Table | Meant::Rows => (true, None),
            Meant::Object(what) => (false, Some(Some(what.clone()))),
            Meant::Alter(..) => (false, Some(Some("settings of the database".to_owned()))),
            Meant::Server(what) => {
                left_out.insert(*what);
                continue;
            }
            Meant::Database(_) | Meant::Skipped => continue,
            Meant::Unknown => return Err(Error::Internal("a refused statement was read".to_owned())),
        };
        if is_run {
            let done =
                session.execute_bytes(&statement).await.map_err(|error| error.about(script.about(&statement)))?;
            script.scanner.plain_backslashes = done.has_plain_backslashes();
            if meant == Meant::Rows {
                filled.rows = filled.rows.saturating_add(done.affected);
                if done.warnings > 0 {
                    warned(&mut session, line, filled).await?;
                }
            }
        }
        if let Some(what) = what {
            let sql = match meant {
                // It names the source's database.
                Meant::Alter(_, rest) => [&b"ALTER DATABASE "[..], statement.get(rest..).unwrap_or_default()].concat(),
                _ => statement,
            };
            size = size.saturating_add(sql.len() + 64);
            if size > MOST_ASIDE {
                return Err(script.damaged("its views, routines, triggers and events have more than 64 MiB"));
            }
            aside.push(Aside { sql, line, what });
        }
    }
    // A script that begins transactions of its own should end them.
    session.execute("COMMIT").await?;
    session.close().await;
    filled.refused.extend(left_out.into_iter().map(|what| {
        (
            what.to_owned(),
            "they are the source's, and are left out: a restored database has a history of its own".to_owned(),
        )
    }));
    Ok(aside)
}

/// Keeps what the server said of rows that it took.
async fn warned(session: &mut Connection, line: u64, filled: &mut Filled) -> Result<(), Error> {
    for row in session.warnings().await? {
        if row.text(0) != "Note" && filled.warnings.len() < MOST_WARNINGS {
            filled.warnings.push(format!("line {line}: {} [{}]", row.lossy(2), row.text(1)));
        }
    }
    Ok(())
}

/// Moves all tables into the wanted database at once.
async fn move_tables(connection: &mut Connection, made: &str, wanted: &str) -> Result<(), Error> {
    let about = |error: Error| error.about(format!("database {wanted}"));
    connection.execute(&format!("CREATE DATABASE IF NOT EXISTS {}", name(wanted))).await.map_err(about)?;
    let tables = tables_of(connection, made).await?;
    let moves: Vec<String> =
        tables.iter().map(|table| format!("{} TO {}", qualified(made, table), qualified(wanted, table))).collect();
    if moves.is_empty() {
        return Ok(());
    }
    // With the checks on, foreign keys follow the tables that they refer to.
    connection.execute("SET SESSION foreign_key_checks = 1").await?;
    connection.execute(&format!("RENAME TABLE {}", moves.join(", "))).await.map(drop).map_err(about)
}

/// Makes what was put aside in the wanted database. What the server refuses is told.
async fn make_aside(
    aside: &[Aside],
    object: &str,
    server: &Target,
    facts: &ServerFacts,
    wanted: &str,
    filled: &mut Filled,
) -> Result<(), Error> {
    let mut session = Connection::open(server).await?;
    prepare(&mut session, facts).await?;
    session.execute(&format!("USE {}", name(wanted))).await?;
    for Aside { sql, line, what } in aside {
        match session.execute_bytes(sql).await {
            Ok(_) => {}
            Err(error) if is_about_the_statement(&error) && what.is_some() => {
                filled.refused.push((what.clone().unwrap_or_default(), error.cause()));
            }
            Err(error) => return Err(error.about(about(object, *line, sql))),
        }
    }
    session.close().await;
    Ok(())
}

/// The databases of these names that are there and have something in them.
///
/// # Errors
/// The server can't be reached.
pub async fn in_the_way(target: &Target, databases: &[&str]) -> Result<Vec<Lack>, Error> {
    let mut connection = Connection::open(&target.with_database("")).await?;
    let mut lacks = Vec::new();
    for wanted in databases {
        if let Some(found) = anything(&mut connection, wanted).await? {
            let cause = format!("{wanted}.{found} is in the database, which should be empty");
            lacks.push(Lack::new(cause, format!("restore one with --database, or DROP DATABASE {};", name(wanted))));
        }
    }
    connection.close().await;
    Ok(lacks)
}

#[cfg(test)]
mod tests {
    use seawall_dumps::Maker;

    use super::*;

    #[test]
    fn servers_of_scripts() {
        for (version, family, number) in [
            (Some("10.11.19-MariaDB-0+deb12u1"), "mariadb", 101_119),
            (Some("8.0.36"), "mysql", 80_036),
            (Some("9.7.4-0ubuntu0"), "mysql", 90_704),
            (Some("99999999999.x"), "mysql", 0),
            (None, "mysql", 0),
        ] {
            let said = Said { maker: Maker::Mysql, encoding: None, server: version.map(Into::into) };
            let facts = facts(Some(&said));
            assert_eq!((facts.family.as_str(), facts.version), (family, number), "{version:?}");
        }
        assert_eq!(about("f", 3, b"INSERT INTO `t` VALUES ('secret')"), "line 3 of f: INSERT INTO `t` VALUES");
    }
}
