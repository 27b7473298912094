//! Two sessions that restore a set on a server that is started for a proof: one of a plain role, in which everything runs that
//! users wrote, and one of the superuser, in which nothing of that ever does (I18). [`crate::schema::powers`] says which statement
//! is whose.
//!
//! Where PostgreSQL wants a superuser as the maker or the owner of an object, a role becomes one inside a transaction of the
//! superuser's session, so that no other session ever sees it as one. Event triggers are made when all else is done: none
//! sees a statement of the superuser's.

use crate::Error;
use crate::client::tried::{self, Refused, Statement};
use crate::client::{Connection, CopyIn, Guard, Target};
use crate::quote::{ident, literal};
use crate::schema::account;
use crate::schema::copied;
use crate::schema::diagnose;
use crate::schema::powers::{self, Runner};
use crate::schema::routine::Routine;
use crate::schema::script::Scanner;

/// Gives a session of the plain role its guard, if its target has a superuser beside it.
pub(crate) async fn watch(connection: &mut Connection, target: &Target) -> Result<(), Error> {
    let Some(keeper) = target.keeper() else { return Ok(()) };
    let mut keeper = Connection::open(&keeper).await?;
    keeper.execute("SET check_function_bodies = off").await?;
    keeper.speak(connection.encoding).await?;
    let loader = target.user.clone();
    connection.guard =
        Some(Box::new(Guard { keeper, loader, rights: Vec::new(), triggers: Vec::new(), as_another: None }));
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

/// Runs a statement as the role that it is for; a statement that asks for rows gets them in the connection.
pub(crate) async fn run<'a>(connection: &'a mut Connection, statement: &[u8]) -> Result<Option<CopyIn<'a>>, Error> {
    if let Some(mut guard) = connection.guard.take() {
        let done = guard.run(connection, statement).await;
        connection.guard = Some(guard);
        if done? {
            return Ok(None);
        }
    }
    // No second statement can be hidden in one that is sent alone. Rows follow only the other kind of message.
    match copied::has_rows(statement) {
        true => connection.run(statement).await,
        false => connection.run_one(statement).await.map(|()| None),
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
    let (rights, triggers) = (std::mem::take(&mut guard.rights), std::mem::take(&mut guard.triggers));
    for statement in rights.into_iter().chain(triggers) {
        let done = match guard.apply(connection, &statement).await {
            Ok(false) => all_of(connection, &statement).await,
            done => done.map(drop),
        };
        match done {
            Err(error) if goes_on && error.sqlstate().is_some() => {}
            done => done.map_err(|error| error.about(diagnose::shown(&statement)))?,
        }
    }
    connection.guard = Some(guard);
    Ok(())
}

impl Guard {
    /// Runs a statement that isn't the plain role's; false for one that is.
    async fn run(&mut self, connection: &mut Connection, statement: &[u8]) -> Result<bool, Error> {
        if let Some(is_set) = powers::session_role(statement) {
            self.as_another = is_set.then(|| statement.to_vec());
        }
        if powers::is_of_event_triggers(statement) {
            self.triggers.push(statement.to_vec());
            return Ok(true);
        }
        if powers::is_of_server_functions(statement) {
            let another = self.as_another.iter();
            self.rights.extend(another.clone().cloned());
            self.rights.push(statement.to_vec());
            self.rights.extend(another.map(|_| b"RESET SESSION AUTHORIZATION".to_vec()));
            return Ok(true);
        }
        self.apply(connection, statement).await
    }

    async fn apply(&mut self, connection: &mut Connection, statement: &[u8]) -> Result<bool, Error> {
        match powers::runner(self.keeper.encoding.decode_lossy(statement).as_bytes()) {
            Runner::Loader => return Ok(false),
            Runner::Routine => match Routine::parse(statement) {
                None => return Ok(false),
                Some(routine) => self.routine(connection, &routine).await?,
            },
            // A validator that is a user's would run with the right that is given here.
            Runner::Reader if self.keeper.one(VALIDATORS_OF_USERS).await?.flag(0) => return Ok(false),
            Runner::Reader => {
                let loader = ident(&self.loader);
                self.keeper.execute(&format!("GRANT pg_read_server_files TO {loader}")).await?;
                let done = all_of(connection, statement).await;
                self.keeper.execute(&format!("REVOKE pg_read_server_files FROM {loader}")).await?;
                done?;
            }
            Runner::Keeper => self.keeper.run_one(statement).await?,
            Runner::KeeperFor(owner) => self.raised(&owner, false, &[statement], None).await.map(drop)?,
            Runner::Raised => {
                let loader = self.loader.clone();
                match powers::without_validator(statement) {
                    Some((made, set)) => self.raised(&loader, true, &[&made, &set], None).await.map(drop)?,
                    None => self.raised(&loader, true, &[statement], None).await.map(drop)?,
                }
            }
            Runner::Both => {
                self.keeper.run_one(statement).await?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes a function. The plain role makes it, if its language is for everybody; then the superuser says what is left to
    /// say. In any other language the superuser makes it without its defaults: see [`crate::schema::routine`].
    async fn routine(&mut self, connection: &mut Connection, routine: &Routine) -> Result<(), Error> {
        let made = all_of(connection, &routine.plain()).await;
        let denied = match made {
            Err(error) if error.sqlstate() == Some("42501") => error,
            Err(error) => return Err(error),
            Ok(()) => {
                let Some(said) = routine.said() else { return Ok(()) };
                return self.keeper.run_one(&said).await;
            }
        };
        let language = self.keeper.encoding.decode_lossy(routine.language());
        let language = language.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(&language);
        let known = UNTRUSTED.replace("{language}", &literal(&language.replace("\"\"", "\"")));
        let is_untrusted = self.keeper.one(&known).await?.flag(0);
        let Some(made) = routine.without_defaults().filter(|_| is_untrusted) else { return Err(denied) };
        let loader = self.loader.clone();
        let function = self.raised(&loader, true, &[&made], Some(MADE)).await?;
        let Some(twin) = routine.defaults(&format!("pg_temp.{TWIN}")) else { return Ok(()) };
        all_of(connection, &twin).await?;
        let twins = connection.query(&format!("SELECT oid {TWINS}")).await?;
        let (Some(function), [twin]) = (function, &twins[..]) else {
            return Err(Error::Internal("a function of a set isn't there, or isn't alone".to_owned()));
        };
        let copy = format!(
            "UPDATE pg_catalog.pg_proc f SET pronargdefaults = t.pronargdefaults, proargdefaults = t.proargdefaults \
             FROM pg_catalog.pg_proc t WHERE f.oid = {function} AND t.oid = {}",
            twin.number(0)
        );
        self.keeper.execute(&copy).await?;
        connection.execute(&format!("DROP FUNCTION pg_temp.{TWIN}")).await
    }

    /// Runs statements in a transaction in which a role is a superuser, as that role or beside it. In the end it may be `asked`
    /// for a number.
    async fn raised(
        &mut self,
        role: &str,
        as_it: bool,
        statements: &[&[u8]],
        asked: Option<&str>,
    ) -> Result<Option<u64>, Error> {
        let role = ident(role);
        let become_it = if as_it { format!("; SET LOCAL ROLE {role}") } else { String::new() };
        self.keeper.execute(&format!("BEGIN; ALTER ROLE {role} SUPERUSER{become_it}")).await?;
        for statement in statements {
            if let Err(error) = self.keeper.run_one(statement).await {
                self.keeper.execute("ROLLBACK").await?;
                return Err(error);
            }
        }
        let answer = match asked {
            Some(sql) => Some(self.keeper.one(sql).await?.number(0)),
            None => None,
        };
        self.keeper.execute(&format!("RESET ROLE; ALTER ROLE {role} NOSUPERUSER; COMMIT")).await?;
        Ok(answer)
    }
}

/// Whether a wrapper's validator is in a language in which everybody may write.
const VALIDATORS_OF_USERS: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_foreign_data_wrapper w \
     JOIN pg_catalog.pg_proc v ON v.oid = w.fdwvalidator WHERE v.prolang NOT IN (12, 13))";

/// Whether a language is one of superusers alone, whose functions are checked by nothing that users wrote: 12 and 13 are
/// `internal` and `c`.
const UNTRUSTED: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_language l \
     LEFT JOIN pg_catalog.pg_proc v ON v.oid = l.lanvalidator \
     WHERE l.lanname = {language} AND NOT l.lanpltrusted AND (v.oid IS NULL OR v.prolang IN (12, 13)))";

/// The function that this transaction has made.
const MADE: &str = "SELECT oid FROM pg_catalog.pg_proc WHERE xmin = pg_catalog.pg_current_xact_id()::pg_catalog.xid";

/// What a function is called from which another one gets its defaults.
const TWIN: &str = "seawall_defaults";

/// The functions of that name in a session.
const TWINS: &str =
    "FROM pg_catalog.pg_proc WHERE proname = 'seawall_defaults' AND pronamespace = pg_catalog.pg_my_temp_schema()";

/// Runs a statement of the plain role that asks for no rows.
async fn all_of(connection: &mut Connection, statement: &[u8]) -> Result<(), Error> {
    match connection.run(statement).await?.is_some() {
        false => Ok(()),
        true => Err(Error::Internal("a statement that makes something asks for rows".to_owned())),
    }
}
