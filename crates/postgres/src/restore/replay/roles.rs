//! What belongs to no database, from the script that `pg_dumpall --globals-only` wrote: roles, memberships, tablespaces.
//!
//! A restore changes no role and no tablespace that is there (I8): what the script says of such a one is passed over, and told. A
//! statement that such a script doesn't have refuses all of it before anything is done.

use std::collections::BTreeSet;

use seawall_archive::preflight::Lack;
use seawall_core::{Failure, Kind};
use seawall_dumps::Said;

use crate::Error;
use crate::catalog::globals;
use crate::client::tried::is_about_the_statement;
use crate::client::{Connection, Target, TextEncoding};
use crate::error::Side;
use crate::quote::{ident, literal};
use crate::restore::ANYTHING;
use crate::schema::diagnose::shown;
use crate::schema::global::{Global, global};
use crate::schema::script::{Refusal, Scanner};

/// What a script of globals came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Globals {
    /// The roles that were made, or would be.
    pub roles: Vec<String>,
    /// What was there before and stays as it is: which, and why.
    pub kept: Vec<(String, String)>,
    /// What the server refused, and what it said.
    pub refused: Vec<(String, String)>,
    /// Statements about a role in one database, for the time when that is there.
    pub late: Vec<Vec<u8>>,
}

/// The statements of a script of globals.
///
/// # Errors
/// The script isn't whole, or has a statement that `pg_dumpall` doesn't write.
pub fn read_globals(script: &[u8], object: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let wrong = |line: u64, cause: &str| {
        let next = "don't restore this backup: pg_dumpall writes no such statement, so somebody has changed it";
        Failure::new(Kind::Refused, "dump.globals", object, format!("line {line}: {cause}"), next)
    };
    let (mut scanner, mut rest, mut statements) = (Scanner::default(), script, Vec::new());
    loop {
        let is_last = rest.is_empty();
        match is_last {
            true => scanner.end(),
            false => rest = &rest[scanner.feed(rest)..],
        }
        loop {
            let statement = scanner.statement().map_err(|refusal| match refusal {
                Refusal::Command(line) => wrong(line, "it is a command for psql"),
                Refusal::Wrong(line, cause) => wrong(line, cause),
            })?;
            let Some(statement) = statement else { break };
            if global(&statement) == Global::Unknown {
                return Err(wrong(
                    scanner.number(),
                    &format!("{} is nothing that roles and tablespaces need", shown(&statement)),
                ));
            }
            statements.push(statement);
        }
        if is_last {
            break;
        }
    }
    match scanner.is_between() {
        true => Ok(statements),
        false => Err(wrong(scanner.number(), "it ends within a statement")),
    }
}

/// Makes the roles and tablespaces of such a script that aren't there; with `dry_run` says which these are.
///
/// # Errors
/// The server can't be reached, or the role may make no roles.
pub async fn restore_globals(
    statements: &[Vec<u8>],
    said: &Said,
    target: &Target,
    dry_run: bool,
) -> Result<Globals, Error> {
    make(statements, said, target, dry_run).await.map_err(|error| error.during(Side::Restore))
}

async fn make(statements: &[Vec<u8>], said: &Said, target: &Target, dry_run: bool) -> Result<Globals, Error> {
    let mut connection = globals::connect(target).await?;
    let roles = names(&mut connection, "SELECT rolname FROM pg_catalog.pg_roles").await?;
    let spaces = names(&mut connection, "SELECT spcname FROM pg_catalog.pg_tablespace").await?;
    connection.execute("SET standard_conforming_strings = on").await?;
    connection.speak(said.encoding.as_deref().and_then(TextEncoding::of).unwrap_or_default()).await?;
    let mut told = Globals::default();
    for statement in statements {
        let is_there = match global(statement) {
            Global::Setting => continue,
            Global::Role(name) if roles.contains(&name) => {
                told.kept.push((format!("role {name}"), "it was there, and nothing of it is changed".to_owned()));
                continue;
            }
            Global::Role(name) => {
                if !dry_run {
                    connection.run_one(statement).await.map_err(|error| error.about(format!("role {name}")))?;
                }
                told.roles.push(name);
                continue;
            }
            Global::InDatabase(name) => {
                if !roles.contains(&name) {
                    told.late.push(statement.clone());
                }
                continue;
            }
            Global::Tablespace(name) if spaces.contains(&name) => {
                told.kept.push((format!("tablespace {name}"), "it was there, and nothing of it is changed".to_owned()));
                continue;
            }
            Global::OfRole(name) | Global::Parameter(name) => roles.contains(&name),
            Global::Member(role, member) => roles.contains(&role) && roles.contains(&member),
            Global::OfTablespace(name) => spaces.contains(&name),
            Global::Tablespace(_) => false,
            Global::Unknown => true,
        };
        if !is_there && !dry_run {
            told.refused.extend(tried(&mut connection, statement).await?);
        }
    }
    connection.close().await;
    Ok(told)
}

/// Runs what waited for the databases; returns what the server refused.
///
/// # Errors
/// The server can't be reached.
pub async fn restore_late_globals(statements: &[Vec<u8>], target: &Target) -> Result<Vec<(String, String)>, Error> {
    let mut refused = Vec::new();
    if statements.is_empty() {
        return Ok(refused);
    }
    let mut connection = globals::connect(target).await?;
    for statement in statements {
        refused.extend(tried(&mut connection, statement).await?);
    }
    connection.close().await;
    Ok(refused)
}

async fn tried(connection: &mut Connection, statement: &[u8]) -> Result<Option<(String, String)>, Error> {
    match connection.run_one(statement).await {
        Ok(()) => Ok(None),
        Err(error) if is_about_the_statement(&error) => Ok(Some((shown(statement), error.cause()))),
        Err(error) => Err(error),
    }
}

async fn names(connection: &mut Connection, sql: &str) -> Result<BTreeSet<String>, Error> {
    Ok(connection.query(sql).await?.iter().map(|row| row.text(0).to_owned()).collect())
}

/// The databases of these names that are there and have something in them.
///
/// # Errors
/// The server can't be reached.
pub async fn in_the_way(target: &Target, databases: &[&str]) -> Result<Vec<Lack>, Error> {
    let mut connection = globals::connect(target).await?;
    let wanted: Vec<String> = databases.iter().map(|name| literal(name)).collect();
    let mut there = Vec::new();
    if !wanted.is_empty() {
        let sql =
            format!("SELECT datname FROM pg_catalog.pg_database WHERE datname IN ({}) ORDER BY 1", wanted.join(", "));
        there = connection.query(&sql).await?;
    }
    connection.close().await;
    let mut lacks = Vec::new();
    for name in there.iter().map(|row| row.text(0)) {
        let way = match globals::open_if_there(&target.with_database(name)).await? {
            Ok(mut inside) => {
                let found = inside.query(ANYTHING).await?;
                inside.close().await;
                found.first().map(|row| format!("the database {name} is there and has {} in it", row.text(0)))
            }
            Err(error) => Some(format!("the database {name} is there, and can't be looked into: {}", error.cause())),
        };
        let mend =
            format!("replace all of them with --clean, restore one with --database, or DROP DATABASE {};", ident(name));
        lacks.extend(way.map(|cause| Lack::new(cause, mend)));
    }
    Ok(lacks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_globals_are_read_whole_or_not_at_all() {
        let script = "--\n-- PostgreSQL database cluster dump\n--\n\\restrict k\nSET client_encoding = 'UTF8';\n\nCREATE ROLE a;\n\
                      ALTER ROLE a WITH LOGIN PASSWORD 'x;y';\n\\unrestrict k\n";
        let statements = read_globals(script.as_bytes(), "g").expect("a script");
        assert_eq!(statements.len(), 3);
        for (script, cause) in [
            ("CREATE ROLE a;\nDROP DATABASE shop;\n", "line 2: DROP DATABASE shop is nothing"),
            ("CREATE ROLE a;\n\\! id\n", "line 2: it is a command for psql"),
            ("CREATE ROLE a", "line 1: it ends within a statement"),
            ("COPY t FROM PROGRAM 'id';", "line 1: COPY t FROM PROGRAM is nothing"),
        ] {
            let failure = read_globals(script.as_bytes(), "g").expect_err(script);
            assert!(failure.cause.starts_with(cause), "{failure}");
        }
    }
}
