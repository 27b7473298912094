//! A script of `pg_dump` on its way to a server: statement by statement, with the rows that follow some of them.
//!
//! What sees all that is done once it is there, event triggers, is put aside for the end.

use futures::{Stream, StreamExt as _};
use seawall_core::{Failure, Kind};

use crate::Error;
use crate::build::refresh;
use crate::client::Connection;
use crate::client::tried::{Refused, is_about_the_statement};
use crate::preflight::grantors;
use crate::schema::NEWER;
use crate::schema::account::Account;
use crate::schema::copied;
use crate::schema::diagnose::shown;
use crate::schema::guard;
use crate::schema::judged;
use crate::schema::powers;
use crate::schema::script::{self, Refusal, Rows, Scanner};
use crate::schema::written::{Judge, Meant, Why};

/// Whether a statement only says something of an object that may be another's, or that a library must know.
pub(crate) fn is_said(statement: &[u8]) -> bool {
    statement.starts_with(b"COMMENT ON EXTENSION ") || statement.starts_with(b"SECURITY LABEL ")
}

/// How the statement that fills a materialized view begins.
const REFRESH: &[u8] = b"REFRESH MATERIALIZED VIEW ";

/// A script in pieces.
pub(crate) struct Input<S> {
    pieces: S,
    /// The piece at hand, and how much of it is done.
    bytes: Vec<u8>,
    pub(super) at: usize,
}

impl<S: Stream<Item = Result<Vec<u8>, Error>> + Unpin> Input<S> {
    /// A script that comes in these pieces.
    pub(crate) fn new(pieces: S) -> Self {
        Self { pieces, bytes: Vec::new(), at: 0 }
    }

    /// What is left of the piece at hand.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Puts the next piece behind what is left of this one; false when there is none.
    pub(super) async fn more(&mut self) -> Result<bool, Error> {
        let Some(mut piece) = self.pieces.next().await.transpose()? else { return Ok(false) };
        if !self.rest().is_empty() {
            piece.splice(0..0, self.rest().iter().copied());
        }
        (self.bytes, self.at) = (piece, 0);
        Ok(true)
    }
}

/// Why a script wasn't run to its end.
pub(crate) enum Stopped {
    Refused(Refusal),
    Error(Error),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A script being run.
pub(crate) struct Player<'a, S> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) input: Input<S>,
    pub(crate) scanner: Scanner,
    /// What it comes to, if somebody wants to know.
    pub(crate) account: &'a mut Option<Account>,
    /// What the server refused without harm to anything else.
    pub(crate) refused: &'a mut Vec<Refused>,
    /// Whether its role may grant as any role.
    pub(crate) superuser: bool,
    /// Whether owners and grants are restored.
    pub(crate) owners: bool,
    /// Rows that the server took.
    pub(crate) rows: &'a mut u64,
    /// Statements for the end: event triggers see all that is done once they are there.
    pub(crate) last: Vec<Vec<u8>>,
    /// Decides what is run of a file that another program left. `None`: of a set, whatever `pg_dump` wrote is run.
    pub(crate) judge: Option<Judge>,
    /// Statements that were passed over.
    pub(crate) passed_over: &'a mut Vec<String>,
}

impl<S: Stream<Item = Result<Vec<u8>, Error>> + Unpin> Player<'_, S> {
    /// Runs all of it. The first statement that fails ends it.
    pub(crate) async fn play(&mut self) -> Result<(), Stopped> {
        loop {
            while let Some(statement) = self.scanner.statement()? {
                self.run(&statement).await?;
            }
            if !self.input.rest().is_empty() {
                self.input.at += self.scanner.feed(self.input.rest());
            } else if !self.input.more().await? {
                break;
            }
        }
        self.scanner.end();
        while let Some(statement) = self.scanner.statement()? {
            self.run(&statement).await?;
        }
        match self.scanner.is_between() {
            true if self.judge.as_ref().is_some_and(|judge| judge.in_transaction) => {
                Err(Refusal::Wrong(self.scanner.number(), OPEN).into())
            }
            true => Ok(()),
            false => Err(Refusal::Wrong(self.scanner.number(), "it ends within a statement").into()),
        }
    }

    /// Runs one statement, with the rows that follow it.
    async fn run(&mut self, statement: &[u8]) -> Result<(), Stopped> {
        if self.connection.version < 170_000 && statement == NEWER.as_bytes() {
            return Ok(());
        }
        let about = format!("line {} of the dump: {}", self.scanner.number(), shown(statement));
        let names = self.scanner.names();
        if let Some(account) = self.account {
            names.iter().for_each(|name| account.name(name));
        }
        if let Some(judge) = &mut self.judge {
            let before = judge.inserted;
            let meant = judge.judge(statement);
            *self.rows += judge.inserted - before;
            match meant {
                Meant::Run | Meant::Rows => {}
                Meant::OfDatabase | Meant::MakesDatabase(_) => {
                    self.passed_over.push(shown(statement));
                    return Ok(());
                }
                Meant::Connects(_) => return Err(Refusal::Command(self.scanner.number()).into()),
                Meant::Refused(why) => return Err(refused(about, why).into()),
            }
        } else if copied::is_copy_of_a_file(statement) {
            return Err(refused(about, Why::File).into());
        }
        if judged::is_of_owners(statement) && !self.owners {
            return Ok(());
        }
        // A guard puts them aside itself.
        if self.connection.guard.is_none() && powers::is_of_event_triggers(statement) {
            if let Some(account) = self.account {
                account.statement(statement);
            }
            self.last.push(statement.to_vec());
            return Ok(());
        }
        let words = if self.superuser { None } else { grantors::with_set_role(statement) };
        let copying = match guard::run(self.connection, words.as_deref().unwrap_or(statement)).await {
            Err(error) if is_said(statement) && is_about_the_statement(&error) => {
                self.refused.push((shown(statement), error.cause()));
                return Ok(());
            }
            // The view stays without rows, as in the restore of a native set.
            Err(error) if statement.starts_with(REFRESH) && refresh::is_the_views_own(&error) => {
                self.refused.push((shown(statement), error.cause()));
                None
            }
            Err(error) if error.sqlstate() == Some("42704") && judged::is_of_owners(statement) => {
                return Err(without_role(about, &error).into());
            }
            ran => ran.map_err(|error| error.about(&*about))?,
        };
        let Some(mut copying) = copying else {
            if let Some(account) = self.account {
                account.statement(statement);
            }
            return Ok(());
        };
        if let Some(account) = self.account {
            account.copy(statement);
        }
        self.scanner.rows_follow()?;
        let (mut fresh, mut sent) = (true, 0);
        loop {
            let rest = self.input.rest();
            let (size, next) = match script::rows(rest, fresh) {
                Rows::End(size, next) => (size, Some(next)),
                Rows::Go(size) => (size, None),
            };
            let rows = &rest[..size];
            sent += rows.iter().filter(|byte| **byte == b'\n').count() as u64;
            fresh = rows.last().map_or(fresh, |byte| *byte == b'\n');
            copying.send_bytes(rows).await.map_err(|error| error.about(&*about))?;
            if let Some(account) = self.account {
                account.rows(rows);
            }
            if let Some(next) = next {
                self.input.at += next;
                break;
            }
            self.input.at += size;
            if !self.input.more().await? {
                return Err(Refusal::Wrong(self.scanner.number(), "it ends within rows").into());
            }
        }
        let loaded = copying.finish().await.map_err(|error| error.about(&*about))?;
        if let Some(account) = self.account {
            account.copied();
        }
        self.scanner.passed(sent + 1);
        *self.rows += sent;
        match loaded == sent {
            true => Ok(()),
            false => {
                let cause = format!("the server took {loaded} rows, and the dump holds {sent}");
                Err(Error::Different { object: about, cause }.into())
            }
        }
    }
}

/// Nothing of such a script would stay.
pub(super) const OPEN: &str = "it begins a transaction and doesn't end it";

/// The refusal of a statement that no program writes who backs up one database.
pub(super) fn refused(object: String, why: Why) -> Error {
    let (code, cause, next) = match why {
        Why::File => (
            "postgres.copy-of-file",
            "it has the server read or write a file of its own, or run a program, which pg_dump never writes",
            "don't restore this dump: somebody has changed it",
        ),
        Why::RowsInAnotherForm => (
            "postgres.statement",
            "its rows are in another form than pg_dump's, such as CSV, and aren't read here",
            "restore the script with psql, if you trust it",
        ),
        Why::Escapes => (
            "postgres.statement",
            "it lets backslashes end texts elsewhere, so the ends of the statements behind it aren't certain",
            "make another dump while standard_conforming_strings is on; or restore this one with psql, if you trust it",
        ),
        Why::Other => (
            "postgres.statement",
            "it isn't among the statements that pg_dump writes for one database, and only these are run",
            "look at that line; if you trust the file, take the line out of a copy of it, or restore it with psql",
        ),
        Why::Foreign => (
            "postgres.statement",
            "its rows go to a foreign table, and so to another server, which has them already",
            "make another dump without --include-foreign-data, or take these rows out of a copy of this one",
        ),
        Why::NoEnd => {
            let cause = "a function before these rows has no semicolon at its end, so they are part of its statement: a \
                         known defect of dbbackup 5.3 and 6";
            let next =
                "put a line with a semicolon before this COPY into a copy of the file; or restore another backup";
            let failure = Failure::new(Kind::Corrupt, "dump.damaged", object, cause, next);
            return Error::File(Box::new(failure));
        }
    };
    Error::Refused { code, object, cause: cause.to_owned(), next: next.to_owned() }
}

/// The refusal of an owner or a grant whose role isn't there.
fn without_role(object: String, error: &Error) -> Error {
    Error::Refused {
        code: "postgres.no-role",
        object,
        cause: error.cause(),
        next: "CREATE ROLE what it names, then start again; or leave owners and grants out with --no-owner".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_no_texts_of_statements() {
        for (statement, expected) in [
            ("COPY public.t (a, b) FROM stdin", "COPY public.t (a, b) FROM stdin"),
            ("CREATE SUBSCRIPTION s CONNECTION 'password=x' PUBLICATION p", "CREATE SUBSCRIPTION s CONNECTION"),
            (
                "CREATE USER MAPPING FOR a SERVER s OPTIONS (\n password 'x'\n)",
                "CREATE USER MAPPING FOR a SERVER s OPTIONS (",
            ),
            ("DO $$secret$$", "DO"),
            ("", ""),
        ] {
            assert_eq!(shown(statement.as_bytes()), expected);
        }
    }
}
