//! What belongs to no database, from the script that `pg_dumpall --globals-only` wrote: roles, memberships, tablespaces.
//!
//! A restore changes no role and no tablespace that is there (I8): only what is about those that it makes itself is run, and the rest is
//! told. A statement that such a script doesn't have refuses all of it before anything is done. Roles are made in one transaction with
//! all that is said of them, so that an interrupted restore leaves none without its password or its memberships.

use std::collections::{BTreeMap, BTreeSet};

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
use crate::schema::global::{Global, global, is_powerful};
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
    let Plan { roles, spaces, kept, first, then, late } = plan(statements, &roles, &spaces);
    let mut told = Globals { roles, kept, refused: Vec::new(), late };
    if dry_run {
        connection.close().await;
        return Ok(told);
    }
    // Roles with all that is said of them, or none: the next restore passes over a role that is there.
    connection.execute("BEGIN").await?;
    for (statement, makes) in first {
        match makes {
            Some(role) => connection.run_one(statement).await.map_err(|error| error.about(format!("role {role}")))?,
            None => {
                connection.execute("SAVEPOINT seawall").await?;
                let refused = tried(&mut connection, statement).await?;
                let end = if refused.is_none() { "RELEASE SAVEPOINT" } else { "ROLLBACK TO SAVEPOINT" };
                connection.execute(&format!("{end} seawall")).await?;
                told.refused.extend(refused);
            }
        }
    }
    connection.execute("COMMIT").await?;
    // The server makes no tablespace inside a transaction.
    let mut missing = BTreeSet::new();
    for (statement, space) in then {
        if missing.contains(&space) {
            continue;
        }
        let is_new = spaces.contains(&space) && matches!(global(statement), Global::Tablespace(_));
        let refused = tried(&mut connection, statement).await?;
        if is_new && refused.is_some() {
            missing.insert(space);
        }
        told.refused.extend(refused);
    }
    connection.close().await;
    Ok(told)
}

/// What of a script is run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan<'a> {
    /// The roles and tablespaces that it makes.
    roles: Vec<String>,
    spaces: Vec<String>,
    kept: Vec<(String, String)>,
    /// About roles, in one transaction: the statement, and the role if it makes one.
    first: Vec<(&'a [u8], Option<String>)>,
    /// About tablespaces, afterwards.
    then: Vec<(&'a [u8], String)>,
    late: Vec<Vec<u8>>,
}

/// Decides what of a script is run on a server that has these roles and tablespaces: only what is about those that the script makes.
fn plan<'a>(statements: &'a [Vec<u8>], there: &BTreeSet<String>, spaces_there: &BTreeSet<String>) -> Plan<'a> {
    let mut plan = Plan::default();
    let kept = |what: String| (what, "it was there, and nothing of it is changed".to_owned());
    for statement in statements {
        match global(statement) {
            Global::Role(name) if there.contains(&name) => plan.kept.push(kept(format!("role {name}"))),
            Global::Role(name) if !plan.roles.contains(&name) => {
                plan.first.push((statement, Some(name.clone())));
                plan.roles.push(name);
            }
            Global::Attributes(name, _) | Global::OfRole(name) | Global::Member(_, name) | Global::Parameter(name)
                if plan.roles.contains(&name) =>
            {
                plan.first.push((statement, None));
            }
            Global::Member(role, member) if plan.roles.contains(&role) => {
                let how = format!("it was there, and doesn't become a member of the new role {role}");
                plan.kept.push((format!("role {member}"), how));
            }
            Global::InDatabase(name) if plan.roles.contains(&name) => plan.late.push(statement.clone()),
            // Nothing that is there is removed: with its objects it couldn't, and others may use it.
            Global::Dropped(_) => {}
            Global::Tablespace(name) if spaces_there.contains(&name) => {
                plan.kept.push(kept(format!("tablespace {name}")))
            }
            Global::Tablespace(name) if !plan.spaces.contains(&name) => {
                plan.then.push((statement, name.clone()));
                plan.spaces.push(name);
            }
            Global::OfTablespace(name) if plan.spaces.contains(&name) => plan.then.push((statement, name)),
            _ => {}
        }
    }
    plan
}

/// The power over the server that a script gives to roles of these names: the role, and what it gets. Membership in PostgreSQL's own roles, `pg_…`,
/// and in roles that the script doesn't make, is such a power too, and so is a right to change a setting of the server.
pub fn powers(statements: &[Vec<u8>], roles: &[String]) -> Vec<(String, Vec<String>)> {
    let mut powers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for statement in statements {
        let (role, found) = match global(statement) {
            Global::Attributes(role, found) => (role, found.into_iter().map(str::to_owned).collect()),
            Global::Member(of, member) if is_powerful(&of) || !roles.contains(&of) => (member, vec![of]),
            Global::Parameter(role) => (role, vec!["PARAMETER".to_owned()]),
            _ => continue,
        };
        if roles.contains(&role) && !found.is_empty() {
            powers.entry(role).or_default().extend(found);
        }
    }
    powers.into_iter().collect()
}

/// The roles that a script makes where there are none.
pub fn roles_of(statements: &[Vec<u8>]) -> Vec<String> {
    plan(statements, &BTreeSet::new(), &BTreeSet::new()).roles
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
    fn only_what_is_about_new_roles_is_run() {
        let script = "CREATE ROLE postgres;ALTER ROLE postgres WITH SUPERUSER PASSWORD 'x';CREATE ROLE app;CREATE ROLE eve;\
                      ALTER ROLE eve WITH SUPERUSER LOGIN;ALTER ROLE ghost WITH SUPERUSER;GRANT eve TO app;GRANT app TO eve;\
                      GRANT pg_monitor TO eve;GRANT SET ON PARAMETER a TO app;GRANT SET ON PARAMETER a TO PUBLIC;\
                      GRANT SET ON PARAMETER a TO eve;ALTER ROLE eve IN DATABASE d SET a TO 'b';ALTER ROLE app IN DATABASE d SET a TO 'b';\
                      CREATE TABLESPACE old OWNER eve LOCATION '/old';GRANT ALL ON TABLESPACE old TO eve;\
                      CREATE TABLESPACE new OWNER eve LOCATION '/new';GRANT ALL ON TABLESPACE new TO eve;";
        let statements = read_globals(script.as_bytes(), "g").expect("a script");
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let plan = plan(&statements, &set(&["postgres", "app"]), &set(&["old"]));
        let text = |statement: &[u8]| String::from_utf8_lossy(statement).into_owned();
        let first: Vec<String> = plan.first.iter().map(|(statement, _)| text(statement)).collect();
        assert_eq!(
            first,
            [
                "CREATE ROLE eve",
                "ALTER ROLE eve WITH SUPERUSER LOGIN",
                "GRANT app TO eve",
                "GRANT pg_monitor TO eve",
                "GRANT SET ON PARAMETER a TO eve",
            ]
        );
        assert_eq!((plan.roles.as_slice(), plan.spaces.as_slice()), (&["eve".to_owned()][..], &["new".to_owned()][..]));
        assert_eq!((plan.then.len(), plan.late.len()), (2, 1));
        let kept: Vec<&str> = plan.kept.iter().map(|(what, _)| what.as_str()).collect();
        assert_eq!(kept, ["role postgres", "role app", "role app", "tablespace old"]);
        assert_eq!(
            powers(&statements, &plan.roles),
            [("eve".to_owned(), ["SUPERUSER", "app", "pg_monitor", "PARAMETER"].map(str::to_owned).to_vec())]
        );
        assert_eq!(roles_of(&statements), ["postgres", "app", "eve"]);
    }

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
