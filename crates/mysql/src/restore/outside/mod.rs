//! A script that another program left, into a database: what `mysqldump` or `mariadb-dump` wrote of one database.
//!
//! It is run statement by statement over our own connection, in a database of an unfinished name. Tables with their rows are made
//! there. What isn't tables (views, routines, triggers, events) is put aside with the settings around it, because it can't move into
//! another database. When all rows are there, one statement moves all tables into the wanted database (I8), and the rest is made in it.
//! From MySQL 8.0 and MariaDB 10.6 on, that statement is all or nothing also where the server crashes in it. A restore that was interrupted
//! before it begins anew.
//!
//! The room: `script` (the next statement, or why the script is refused) and `settings` (which settings does this server refuse?).

mod script;
mod settings;

use std::collections::BTreeSet;
use std::sync::Arc;

use script::{Script, about};
use seawall_archive::names::unfinished;
use seawall_archive::preflight::Lack;
use seawall_archive::server::Filled;
use seawall_core::Progress;
use seawall_dumps::{Pieces, Said};
use settings::{Pending, without_gone_modes};

use crate::client::quote::{name, qualified};
use crate::client::tried::is_about_the_statement;
use crate::client::{Connection, Flavour, Target};
use crate::detail::ServerFacts;
use crate::error::Side;
use crate::journal::Journal;
use crate::restore::steps::{prepare, tables_of};
use crate::restore::{anything, exists};
use crate::schema::meant::{Meant, Modes, Server};
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
    what: What,
}

/// What such a statement does.
enum What {
    /// It makes or drops this.
    Made(String),
    /// It sets these.
    Sets(Vec<String>),
}

/// The table that says that all others have moved out of the unfinished database: it is made before, and goes with the database.
const MOVED: &str = "seawall-moved";

/// Reads a script to its end without a server.
///
/// # Errors
/// The script isn't whole, or has something that no script of a database has.
pub async fn check_file(pieces: Pieces, progress: &dyn Progress) -> Result<FileContent, Error> {
    let mut script = Script::new(pieces);
    while script.next(progress).await?.is_some() {}
    Ok(FileContent { statements: script.statements })
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
    let mut script = Script::of(pieces, server_of(&connection), connection.max_packet);
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
    let is_moved = exists(connection, made).await? && {
        let left = tables_of(connection, made).await?;
        left.len() == 1 && left.contains(MOVED)
    };
    Ok(vec![match is_moved {
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

/// The server that runs a script, as far as it decides what is read in it.
fn server_of(connection: &Connection) -> Server {
    Server { mariadb: connection.flavour == Flavour::MariaDb, version: connection.version }
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
    let (mut pending, server) = (Pending::default(), server_of(&session));
    while let Some((mut sql, meant)) = script.next(progress).await? {
        let line = script.line();
        let what = match meant {
            Meant::Session(settings) => {
                if is_without_gone_modes(server) && settings.iter().any(|setting| setting == "sql_mode") {
                    sql = without_gone_modes(&sql);
                }
                set(&mut session, script, &sql, &settings, &mut pending).await?;
                What::Sets(settings)
            }
            Meant::Table | Meant::Rows => {
                let about = |error: Error| error.about(script.about(&sql));
                if let Some(cause) = pending.why() {
                    return Err(cannot(script.about(&sql), cause));
                }
                let done = session.execute_bytes(&sql).await.map_err(about)?;
                if meant == Meant::Rows {
                    filled.rows = filled.rows.saturating_add(done.affected);
                    if done.warnings > 0 {
                        warned(&mut session, line, filled).await?;
                    }
                }
                continue;
            }
            Meant::Object(what) => What::Made(what),
            Meant::Alter(_, without_name) => {
                // It names the source's database.
                sql = without_name.into_bytes();
                What::Made("settings of the database".to_owned())
            }
            Meant::Server(what) => {
                left_out.insert(what);
                continue;
            }
            Meant::Database(_) | Meant::Skipped => continue,
            Meant::Unknown(_) => return Err(Error::Internal("a refused statement was read".to_owned())),
        };
        size = size.saturating_add(sql.len() + 64);
        if size > MOST_ASIDE {
            return Err(script.damaged("its views, routines, triggers and events have more than 64 MiB"));
        }
        aside.push(Aside { sql, line, what });
    }
    // A script that begins transactions of its own should end them.
    session.execute("COMMIT").await?;
    session.close().await;
    filled.notes.extend(left_out.into_iter().map(|what| {
        format!("left out: {what}; they are the source's, and a restored database has a history of its own")
    }));
    Ok(aside)
}

/// Whether a server refuses modes of older ones.
fn is_without_gone_modes(server: Server) -> bool {
    !server.mariadb && server.version >= 80_000
}

fn cannot(object: String, cause: String) -> Error {
    let next =
        "restore into a server of the source's version, or change the setting in the script if you know what it does";
    Error::Refused { code: "mysql.refused", object, cause, next: next.to_owned() }
}

/// Runs a setting of the script's. One that the server refuses waits until something needs it.
async fn set(
    session: &mut Connection,
    script: &Script,
    sql: &[u8],
    settings: &[String],
    pending: &mut Pending,
) -> Result<(), Error> {
    // The server still reads quotes as before the setting that it refused, and the judge as the script says.
    if pending.has("sql_mode") && sql.iter().any(|byte| matches!(byte, b'\\' | b'"')) {
        return Err(cannot(script.about(sql), pending.why().unwrap_or_default()));
    }
    let is_alike = match session.execute_bytes(sql).await {
        Ok(done) => {
            pending.note(settings, None);
            pending.has("sql_mode") || done.has_plain_backslashes() == script.modes().plain
        }
        Err(error) if is_about_the_statement(&error) && !settings.is_empty() => {
            pending.note(settings, Some(&error.cause()));
            true
        }
        Err(error) => return Err(error.about(script.about(sql))),
    };
    let is_asked = settings.iter().any(|setting| setting == "sql_mode") && !pending.has("sql_mode");
    if !is_alike || is_asked && modes_of(session, script.modes()).await? != script.modes() {
        let cause =
            "the server's sql_mode isn't the one that the script sets, so that quotes would mean something else";
        return Err(cannot(script.about(sql), cause.to_owned()));
    }
    Ok(())
}

/// What quotes mean to the server. The character set isn't asked for.
async fn modes_of(session: &mut Connection, known: Modes) -> Result<Modes, Error> {
    let row = session.one("SELECT @@SESSION.sql_mode").await?;
    let has = |mode: &str| row.text(0).split(',').any(|one| one == mode);
    Ok(Modes { ansi: has("ANSI_QUOTES"), plain: has("NO_BACKSLASH_ESCAPES"), ..known })
}

/// Keeps what the server said of rows that it took.
async fn warned(session: &mut Connection, line: u64, filled: &mut Filled) -> Result<(), Error> {
    for row in session.warnings().await? {
        // MariaDB's dumps have values of generated columns too. The server computes them again.
        let is_generated = session.flavour == Flavour::MariaDb && row.text(1) == "1906";
        if row.text(0) != "Note" && !is_generated && filled.warnings.len() < MOST_WARNINGS {
            filled.warnings.push(format!("line {line}: {} [{}]", row.lossy(2), row.text(1)));
        }
    }
    Ok(())
}

/// Moves all tables into the wanted database by one statement.
async fn move_tables(connection: &mut Connection, made: &str, wanted: &str) -> Result<(), Error> {
    let about = |error: Error| error.about(format!("database {wanted}"));
    connection.execute(&format!("CREATE DATABASE IF NOT EXISTS {}", name(wanted))).await.map_err(about)?;
    let tables = tables_of(connection, made).await?;
    let moves: Vec<String> =
        tables.iter().map(|table| format!("{} TO {}", qualified(made, table), qualified(wanted, table))).collect();
    if moves.is_empty() {
        return Ok(());
    }
    // Alone in its database, it says that the tables of the wanted one are those of this restore.
    connection.execute(&format!("CREATE TABLE {} (a INT)", qualified(made, MOVED))).await.map_err(about)?;
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
    let mut pending = Pending::default();
    for Aside { sql, line, what } in aside {
        if let (What::Made(what), Some(cause)) = (what, pending.why()) {
            filled.refused.push((what.clone(), cause));
            continue;
        }
        let refused = match session.execute_bytes(sql).await {
            Ok(_) => None,
            Err(error) if is_about_the_statement(&error) => Some(error.cause()),
            Err(error) => {
                let what =
                    format!("{} (the tables are in {wanted}; some of all else isn't)", about(object, *line, sql));
                return Err(error.about(what));
            }
        };
        match (what, refused) {
            (What::Sets(settings), refused) => pending.note(settings, refused.as_deref()),
            (What::Made(what), Some(cause)) => filled.refused.push((what.clone(), cause)),
            (What::Made(_), None) => {}
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
        let wanted = &lowered(&mut connection, wanted).await?;
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
    }
}
