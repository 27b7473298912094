//! A database filled from an artefact: a new one under a name of its own, or an empty one where it is.

use seawall_archive::server::Filled;
use seawall_core::Progress;

use crate::Error;
use crate::build::{refresh, statistics};
use crate::catalog::{globals, notes, properties};
use crate::client::tried::{Refused, is_about_the_statement};
use crate::client::{Connection, Target, tried};
use crate::journal::{self, Journal};
use crate::load::connect::connect;
use crate::quote::literal;
use crate::restore::replay::Told;
use crate::restore::replay::artefact::Artefact;
use crate::restore::replay::player::is_said;
use crate::restore::{self, begin, place, server};
use crate::schema::diagnose::shown;
use crate::schema::guard;

/// The state in which a restore finds a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    /// It has the journal of a restore that isn't done.
    Begun,
    /// It has other objects.
    Filled,
}

impl Artefact<'_> {
    /// Makes and fills a new database under an unfinished name, and returns it. A database that an interrupted call left is made
    /// anew, unless it is whole.
    pub(crate) async fn make(
        &self,
        target: &Target,
        progress: &dyn Progress,
        told: &mut Told,
    ) -> Result<Target, Error> {
        let made = target.with_database(&self.unfinished_name(&target.database));
        let mut server = globals::connect(target).await?;
        if !place::look(&mut server, target, &[&made.database]).await?.is_empty() {
            let is_whole = place::make(&mut server, &made.database, target, &self.detail).await?;
            // Waits until no other restore is at work there.
            self.connect(&made).await?.close().await;
            if is_whole && let Some(refused) = self.refused_before(&made, target).await? {
                told.refused = refused;
                return Ok(made);
            }
            server::drop(&mut server, &made.database).await?;
        }
        place::make(&mut server, &made.database, target, &self.detail).await?;
        server.close().await;
        let mut connection = self.connect(&made).await?;
        if state(&mut connection).await? != State::Empty {
            let cause = "another restore of the same set is under way there, or was a moment ago".to_owned();
            let (object, next) = (target.to_string(), "start again when it is done".to_owned());
            return Err(Error::Refused { code: "postgres.other-restore", object, cause, next });
        }
        let filled = self.fill(&mut connection, Some((&made.database, &target.database)), progress, told).await;
        filled.map_err(|error| error.leaves(&made.database))?;
        connection.close().await;
        Ok(made)
    }

    /// What the server refused in the run that made all of a database but its name; `None` where a view has no rows: whether
    /// the server refused to fill it is known when it is done again.
    async fn refused_before(&self, made: &Target, target: &Target) -> Result<Option<Vec<Refused>>, Error> {
        let mut connection = self.connect(made).await?;
        // Unlogged tables are empty if the server crashed since, and nothing tells whether it did.
        if refresh::has_unfilled(&mut connection).await? || journal::has_unlogged_tables(&mut connection).await? {
            connection.close().await;
            return Ok(None);
        }
        let statements = self.properties(&made.database, &target.database);
        let refused = tried::run(&mut connection, &statements).await?;
        connection.close().await;
        Ok(Some(refused))
    }

    /// Fills an existing, empty database.
    pub(super) async fn fill_in_place(
        &self,
        target: &Target,
        progress: &dyn Progress,
        restored: &mut Filled,
    ) -> Result<(), Error> {
        let mut connection = self.connect(target).await?;
        let refused = |code, cause: String, next: &str| {
            Err(Error::Refused { code, object: target.to_string(), cause, next: next.to_owned() })
        };
        match state(&mut connection).await? {
            State::Empty => {}
            State::Begun => {
                let cause = "a restore was begun in it, and one of pg_dump's own format doesn't go on".to_owned();
                return refused("postgres.other-restore", cause, "drop the database, and start again");
            }
            State::Filled => {
                let cause = "something is in the database, which should be empty".to_owned();
                let next = "name another database, or replace this one with --clean";
                return refused("postgres.not-empty", cause, next);
            }
        }
        let mut told = Told::default();
        self.fill(&mut connection, None, progress, &mut told).await?;
        restored.without_statistics = told.without_statistics;
        (restored.refused, restored.rows, restored.passed_over) = (told.refused, told.rows, told.passed_over);
        connection.close().await;
        Ok(())
    }

    /// A connection to a database in which no other restore is at work.
    pub(crate) async fn connect(&self, target: &Target) -> Result<Connection, Error> {
        let mut connection = connect(target, &self.detail.encoding).await?;
        // With another locale the server would read other amounts of money.
        if let Some((name, value)) = self.needs.settings.iter().find(|(name, _)| name == "lc_monetary") {
            let set = format!("SET lc_monetary = {}", literal(value));
            connection.execute(&set).await.map_err(|error| error.about(&**name))?;
        }
        begin::be_alone(&mut connection).await?;
        guard::watch(&mut connection, target).await?;
        Ok(connection)
    }

    /// Everything, into an empty database; one that was made for it gets its properties under its `name`, and messages call
    /// it by the second one.
    async fn fill(
        &self,
        connection: &mut Connection,
        name: Option<(&str, &str)>,
        progress: &dyn Progress,
        told: &mut Told,
    ) -> Result<(), Error> {
        let Some(journal) = Journal::open(connection, &self.title()).await? else {
            return Err(Error::Internal("an empty database has a journal".to_owned()));
        };
        if name.is_some() {
            told.refused = guard::tried(connection, &properties::first_drops(&self.needs.properties)).await?;
        }
        progress.begin("load", Some(self.raw()));
        let last = self.replay(connection, progress, told).await?;
        progress.finish();
        if let Some((name, shown)) = name {
            let statements = self.properties(name, shown);
            told.refused.extend(guard::tried(connection, &statements).await?);
        }
        told.without_statistics = statistics::gather_here(connection).await?;
        // Earlier commits didn't wait for the disk. The next one waits for all of them.
        connection.execute("SET synchronous_commit = on").await?;
        let whole = name.map_or(String::new(), |(name, _)| notes::says_whole(name, name));
        end(connection, &journal, &whole, &last, &mut told.refused).await
    }

    /// The statements for the properties of the database.
    fn properties(&self, name: &str, shown: &str) -> Vec<tried::Statement> {
        let properties = &self.needs.properties;
        let mut statements = properties::last_drops(properties);
        statements.extend(properties::statements(properties, name, shown, self.options.owners));
        statements
    }
}

/// The end of a restore: event triggers, which are live from then on, in one transaction with the end of the journal. What is
/// said of them may be refused.
async fn end(
    connection: &mut Connection,
    journal: &Journal,
    whole: &str,
    last: &[Vec<u8>],
    refused: &mut Vec<Refused>,
) -> Result<(), Error> {
    if connection.guard.is_some() {
        journal.remove(connection, whole, b"").await?;
        return guard::finish(connection, false).await;
    }
    let script = |wanted: &dyn Fn(&[u8]) -> bool| -> Vec<u8> {
        last.iter()
            .filter(|statement| wanted(statement))
            .flat_map(|statement| [statement, &b";\n"[..]].concat())
            .collect()
    };
    let ended = journal.remove(connection, whole, &script(&|_| true)).await;
    let labels: Vec<String> =
        last.iter().filter(|statement| is_said(statement)).map(|statement| shown(statement)).collect();
    let ended = match ended {
        Err(error) if !labels.is_empty() && is_about_the_statement(&error) => {
            connection.execute("ROLLBACK").await?;
            refused.extend(labels.into_iter().map(|what| (what, error.cause())));
            journal.remove(connection, whole, &script(&|statement| !is_said(statement))).await
        }
        ended => ended,
    };
    ended.map_err(|error| if last.is_empty() { error } else { error.about("the event triggers") })
}

/// The state of the connection's database.
async fn state(connection: &mut Connection) -> Result<State, Error> {
    if !journal::all(connection).await?.is_empty() {
        return Ok(State::Begun);
    }
    let is_empty = connection.query(restore::ANYTHING).await?.is_empty();
    Ok(if is_empty { State::Empty } else { State::Filled })
}
