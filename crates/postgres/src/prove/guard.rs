//! Two sessions that restore a set on a server that is started for a proof: one of a plain role, in which everything runs that
//! users wrote, and one of the superuser, in which nothing of that ever does (I18). [`crate::prove::powers`] says which statement
//! is whose.
//!
//! Where PostgreSQL wants a superuser as the maker or the owner of an object, a role becomes one inside a transaction of the
//! superuser's session, so that no other session ever sees it as one. Event triggers are made when all else is done: none
//! sees a statement of the superuser's.

use crate::Error;
use crate::client::quote::ident;
use crate::client::{Connection, CopyIn, Target};
use crate::prove::powers::{self, Runner};
use crate::schema::account;
use crate::schema::diagnose;
use crate::schema::script::Scanner;
use crate::schema::tried::{self, Refused, Statement};

/// The superuser's session beside that of the plain role.
pub(crate) struct Guard {
    keeper: Connection,
    /// The plain role.
    loader: String,
    /// Statements for the end: about event triggers, and rights to call what the server keeps to itself.
    last: Vec<Vec<u8>>,
    /// Whether its session grants as somebody else.
    as_another: bool,
}

/// Gives a session of the plain role its guard, if its target has a superuser beside it.
pub(crate) async fn watch(connection: &mut Connection, target: &Target) -> Result<(), Error> {
    let Some(keeper) = target.keeper() else { return Ok(()) };
    let mut keeper = Connection::open(&keeper).await?;
    keeper.execute("SET check_function_bodies = off").await?;
    keeper.speak(connection.encoding).await?;
    connection.guard =
        Some(Box::new(Guard { keeper, loader: target.user.clone(), last: Vec::new(), as_another: false }));
    Ok(())
}

/// Sets something in both sessions.
pub(crate) async fn set(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    set_beside(connection, sql).await?;
    connection.execute(sql).await
}

/// Sets something in the superuser's session, if there is one.
pub(crate) async fn set_beside(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    match &mut connection.guard {
        Some(guard) => guard.keeper.execute(sql).await,
        None => Ok(()),
    }
}

/// Lets the plain role set a parameter for its database. Before version 15 only superusers can.
pub(crate) async fn let_set(connection: &mut Connection, parameter: &str) -> Result<(), Error> {
    match &mut connection.guard {
        Some(guard) if connection.version >= 150_000 => {
            let grant = format!("GRANT SET ON PARAMETER {parameter} TO {}", ident(&guard.loader));
            guard.keeper.execute(&grant).await
        }
        _ => Ok(()),
    }
}

/// Runs a statement as whoever it is for; what asks for rows gets them in the connection.
pub(crate) async fn run<'a>(connection: &'a mut Connection, statement: &[u8]) -> Result<Option<CopyIn<'a>>, Error> {
    let Some(mut guard) = connection.guard.take() else { return connection.run(statement).await };
    let done = guard.run(connection, statement).await;
    connection.guard = Some(guard);
    match done? {
        true => Ok(None),
        false => connection.run(statement).await,
    }
}

/// Runs our own statements about the database itself, as the superuser where there is one.
pub(crate) async fn tried(connection: &mut Connection, statements: &[Statement]) -> Result<Vec<Refused>, Error> {
    match &mut connection.guard {
        Some(guard) => tried::run(&mut guard.keeper, statements).await,
        None => tried::run(connection, statements).await,
    }
}

/// Runs a script statement by statement, each in a transaction of its own: where this server ends, all of it goes. A
/// statement that is refused ends it, unless it `goes_on`.
pub(crate) async fn script(connection: &mut Connection, script: &[u8], goes_on: bool) -> Result<(), Error> {
    let (mut scanner, mut rest, mut object) = (Scanner::default(), script, String::new());
    loop {
        match rest.is_empty() {
            true => scanner.end(),
            false => rest = &rest[scanner.feed(rest)..],
        }
        let wrong = |_| Error::Internal("what pg_restore has just written can't be read".to_owned());
        while let Some(statement) = scanner.statement().map_err(wrong)? {
            if let Some(line) = scanner.names().pop() {
                object = account::shown(&String::from_utf8_lossy(&line)).unwrap_or_default();
            }
            match run(connection, &statement).await.map(|asks| asks.is_some()) {
                Ok(false) => {}
                Ok(true) => return Err(Error::Internal("a schema asks for rows".to_owned())),
                Err(error) if goes_on && error.sqlstate().is_some() => {}
                Err(error) => {
                    let dash = if object.is_empty() { "" } else { ": " };
                    return Err(error.about(format!("{object}{dash}{}", diagnose::shown(&statement))));
                }
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Runs what was put aside, which makes event triggers: nothing of ours may follow in this database. A statement that is refused
/// ends it, unless it `goes_on`.
pub(crate) async fn finish(connection: &mut Connection, goes_on: bool) -> Result<(), Error> {
    let Some(mut guard) = connection.guard.take() else { return Ok(()) };
    for statement in std::mem::take(&mut guard.last) {
        match guard.apply(connection, &statement).await {
            Err(error) if goes_on && error.sqlstate().is_some() => {}
            done => drop(done.map_err(|error| error.about(diagnose::shown(&statement)))?),
        }
    }
    connection.guard = Some(guard);
    Ok(())
}

impl Guard {
    /// Ends its session.
    pub(crate) async fn close(self) {
        self.keeper.close().await;
    }

    /// Runs a statement that isn't the plain role's; false for one that is.
    async fn run(&mut self, connection: &mut Connection, statement: &[u8]) -> Result<bool, Error> {
        self.as_another = match powers::session_role(statement) {
            Some(is_set) => is_set,
            None => self.as_another,
        };
        if powers::is_of_event_triggers(statement) || !self.as_another && powers::is_of_server_functions(statement) {
            self.last.push(statement.to_vec());
            return Ok(true);
        }
        self.apply(connection, statement).await
    }

    async fn apply(&mut self, connection: &mut Connection, statement: &[u8]) -> Result<bool, Error> {
        match powers::runner(self.keeper.encoding.decode_lossy(statement).as_bytes()) {
            Runner::Loader => return Ok(false),
            Runner::Reader => {
                let loader = ident(&self.loader);
                self.keeper.execute(&format!("GRANT pg_read_server_files TO {loader}")).await?;
                let done = all_of(connection, statement).await;
                self.keeper.execute(&format!("REVOKE pg_read_server_files FROM {loader}")).await?;
                done?;
            }
            Runner::Keeper => all_of(&mut self.keeper, statement).await?,
            Runner::KeeperFor(owner) => self.raised(&owner, false, &[statement]).await?,
            Runner::Raised => {
                let loader = self.loader.clone();
                match powers::without_validator(statement) {
                    Some((made, set)) => self.raised(&loader, true, &[&made, &set]).await?,
                    None => self.raised(&loader, true, &[statement]).await?,
                }
            }
            Runner::Both => {
                all_of(&mut self.keeper, statement).await?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs statements in a transaction in which a role is a superuser, as that role or beside it.
    async fn raised(&mut self, role: &str, as_it: bool, statements: &[&[u8]]) -> Result<(), Error> {
        let role = ident(role);
        let become_it = if as_it { format!("; SET LOCAL ROLE {role}") } else { String::new() };
        self.keeper.execute(&format!("BEGIN; ALTER ROLE {role} SUPERUSER{become_it}")).await?;
        for statement in statements {
            if let Err(error) = all_of(&mut self.keeper, statement).await {
                self.keeper.execute("ROLLBACK").await?;
                return Err(error);
            }
        }
        self.keeper.execute(&format!("RESET ROLE; ALTER ROLE {role} NOSUPERUSER; COMMIT")).await
    }
}

/// Runs a statement that asks for no rows.
async fn all_of(connection: &mut Connection, statement: &[u8]) -> Result<(), Error> {
    match connection.run(statement).await?.is_some() {
        false => Ok(()),
        true => Err(Error::Internal("a statement of a superuser's asks for rows".to_owned())),
    }
}
