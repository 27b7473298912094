//! A set back into a server: tables, rows, indexes, foreign keys, and what the server keeps as statements.
//!
//! Everything is made in a database of a name of its own, and gets into the wanted one when all of it is there (I8). The wanted
//! database is absent or empty, or is replaced, with `clean`, at that moment and not before. Each step is noted in a journal
//! in the unfinished database; the same command goes on where an earlier one was interrupted. Only settings of our own sessions
//! are ever changed.
//!
//! No statement of the set is evaluated with the rights of the account that restores: triggers come behind the rows, events behind
//! everything, and views aren't read.
//!
//! The room: `steps` (in which order), `objects` (routines, views, triggers, events), `finish` (into the wanted database), `rows` (rows
//! alone), `server` (every database of a server), `accounts` (its users),
//! `outside` (a script that another program left).

pub(crate) mod accounts;
pub(crate) mod finish;
pub(crate) mod objects;
pub(crate) mod outside;
pub(crate) mod rows;
pub(crate) mod server;
pub(crate) mod steps;

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_archive::Catalog;
use seawall_archive::preflight::Lack;
use seawall_core::Progress;
use seawall_vault::Vault;
use tokio::time::Instant;

use crate::client::quote::{name, text};
use crate::client::tried::is_about_the_statement;
use crate::client::{Connection, Target};
use crate::detail::ServerDetail;
use crate::error::Side;
use crate::journal::Journal;
use crate::preflight::{Request, Server};
use crate::restore::finish::FINISHING;
use crate::restore::steps::Place;
use crate::set::scope::Scope;
use crate::set::{self, Set};
use crate::{Error, RestoreOptions, Restored, World, preflight};

/// Restores a set into the database that `target` names.
///
/// # Errors
/// What failed, and where what is restored so far stays. Nothing that was there is changed before everything is there.
pub async fn restore(
    vault: &Vault,
    target: &Target,
    options: &RestoreOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Restored, Error> {
    restore_set(vault, target, options, world, progress).await.map_err(|error| error.during(Side::Restore))
}

async fn restore_set(
    vault: &Vault,
    target: &Target,
    options: &RestoreOptions,
    _world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Restored, Error> {
    let started = Instant::now();
    let manifest = Catalog::read(vault).await?.find(&options.when)?.clone();
    let reader = set::open(vault, manifest.clone()).await?;
    let whole = set::whole(&reader);
    let mut restored = Restored::begin(manifest, target.to_string(), options.dry_run);
    match (&whole, target.database.is_empty()) {
        (Some(detail), true) if options.database.is_none() => {
            server::restore(reader, detail, target, options, &*progress, &mut restored).await?;
        }
        (_, true) => {
            let next = "write mysql://USER@HOST/DATABASE".to_owned();
            let cause = "no database is named to restore into".to_owned();
            return Err(Error::Url { object: target.to_string(), cause, next });
        }
        (whole, false) => {
            let database = which(&reader, whole.as_ref(), target, options)?;
            let set = Set::open(reader, database).await?;
            restored.databases.extend(database.map(str::to_owned));
            restore_one(&set, target, options, &*progress, &mut restored).await?;
        }
    }
    restored.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(restored)
}

/// The database of a set that is meant; `None` where the set is of one database.
fn which<'a>(
    reader: &seawall_archive::SetReader,
    server: Option<&ServerDetail>,
    target: &'a Target,
    options: &'a RestoreOptions,
) -> Result<Option<&'a str>, Error> {
    let refused = |cause: String, next: String| Error::Refused {
        code: "mysql.which-database",
        object: format!("set {}", reader.manifest().id),
        cause,
        next,
    };
    match (server, &options.database) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(refused("it is of one database".to_owned(), "leave out --database".to_owned())),
        (Some(server), named) => {
            let name = named.as_deref().unwrap_or(&target.database);
            if server.databases.iter().any(|database| database == name) {
                return Ok(Some(name));
            }
            let next = format!("give --database with one of: {}", server.databases.join(", "));
            Err(refused(format!("it is of a whole server, which had no database {name}"), next))
        }
    }
}

/// Restores one database.
async fn restore_one(
    set: &Set,
    target: &Target,
    options: &RestoreOptions,
    progress: &dyn Progress,
    restored: &mut Restored,
) -> Result<(), Error> {
    let server_target = target.with_database("");
    let mut connection = Connection::open(&server_target).await?;
    let server = Server::look(&mut connection).await?;
    let what = Scope::new(options, set)?;
    let accounts = BTreeSet::new();
    let member =
        Member::look(&mut connection, &server, set, &what, &server_target, &target.database, &accounts).await?;
    restored.manifest.totals = set.totals(&what);
    restored.left_out = member.left_out.clone();
    (restored.lacks, restored.doubts) = (member.look.lacks.clone(), member.look.doubts.clone());
    if options.dry_run {
        connection.close().await;
        return Ok(());
    }
    preflight::refuse(&restored.target, &restored.lacks)?;
    let place = member.place(set, &what, &server_target, &server);
    let made = place.made.clone();
    let done = async {
        Journal::hold(&mut connection, &made).await?;
        if options.data_only {
            return rows::restore(&place, &mut connection, progress, restored).await;
        }
        let mut journal = make(&place, &mut connection, progress, restored).await?;
        place.take_name(&mut connection, &mut journal, member.replaces).await?;
        settle(&[&place], &mut connection, restored).await?;
        place.end(&mut connection).await
    };
    done.await.map_err(|error| error.leaves(&made))?;
    connection.close().await;
    Ok(())
}

/// A database of a set, and what is in its place on the target.
pub(crate) struct Member {
    /// The database in which everything is made.
    made: String,
    /// The wanted database.
    wanted: String,
    /// Whether a database is replaced.
    pub(crate) replaces: bool,
    /// What the target lacks.
    pub(crate) look: preflight::Look,
    /// Foreign keys to tables that aren't restored and aren't there.
    left_out: Vec<(String, String)>,
}

impl Member {
    /// Looks at the target.
    pub(crate) async fn look(
        connection: &mut Connection,
        server: &Server,
        set: &Set,
        what: &Scope<'_>,
        target: &Target,
        wanted: &str,
        accounts: &BTreeSet<String>,
    ) -> Result<Self, Error> {
        // A server that keeps names in lower case tells them so.
        let is_lowered = server.facts.server.lower_case_table_names == 1;
        let wanted = if is_lowered { wanted.to_lowercase() } else { wanted.to_owned() };
        let made = what.unfinished_name(set, &wanted);
        let request = Request { set, what, target, made: &made, wanted: &wanted, accounts };
        let mut look = preflight::look(connection, server, &request).await?;
        let exists = exists(connection, &wanted).await?;
        let clean = what.options.clean && !what.options.data_only;
        let resumed = is_finishing(connection, &made, &what.title(set)).await?;
        let way = match (what.options.data_only, resumed) {
            (true, _) => rows::in_the_way(connection, set, what, &made, &wanted).await?,
            (false, true) => Vec::new(),
            (false, false) if clean || !exists => Vec::new(),
            (false, false) => in_the_way(connection, set, what, &wanted).await?,
        };
        look.lacks.extend(way);
        let mut left_out = Vec::new();
        if what.chosen.is_some() && !what.options.data_only {
            let there = if exists && !clean { steps::tables_of(connection, &wanted).await? } else { BTreeSet::new() };
            for table in set.tables()?.iter().filter(|table| what.has(&table.name)) {
                for (key, _) in table.foreign_keys() {
                    if key.database.is_none() && !what.has(&key.table) && !there.contains(&key.table) {
                        let needs = format!("it needs table {}", key.table);
                        left_out.push((format!("foreign key {}.{}", table.name, key.name), needs));
                    }
                }
            }
        }
        Ok(Self { made, wanted, replaces: clean && exists, look, left_out })
    }

    /// Where the restore works.
    pub(crate) fn place<'a>(
        &self,
        set: &'a Set,
        what: &'a Scope<'a>,
        target: &'a Target,
        server: &'a Server,
    ) -> Place<'a> {
        let (made, name) = (self.made.clone(), self.wanted.clone());
        Place { set, what, target, made, name, facts: &server.facts, infile: server.infile }
    }
}

/// Whether a database is there.
pub(crate) async fn exists(connection: &mut Connection, database: &str) -> Result<bool, Error> {
    let sql = format!("SELECT 1 FROM information_schema.schemata WHERE schema_name = {}", text(database));
    Ok(!connection.query(&sql).await?.is_empty())
}

/// Whether the same restore has come so far that the wanted database holds a part of it.
async fn is_finishing(connection: &mut Connection, made: &str, title: &str) -> Result<bool, Error> {
    if !exists(connection, made).await? {
        return Ok(false);
    }
    let journal = Journal::open(connection, made, title, false).await?;
    Ok(journal.is_some_and(|journal| journal.has(FINISHING)))
}

/// What is in the way of a restore into a database that is there.
async fn in_the_way(
    connection: &mut Connection,
    set: &Set,
    what: &Scope<'_>,
    wanted: &str,
) -> Result<Vec<Lack>, Error> {
    if let Some(chosen) = &what.chosen {
        let sql = format!("SELECT table_name FROM information_schema.tables WHERE table_schema = {}", text(wanted));
        let there = connection.query(&sql).await?;
        let is_chosen = |row: &&crate::client::Row| chosen.contains(row.text(0));
        let way = |row: &crate::client::Row| {
            let mend = format!(
                "DROP TABLE {}; or name another database",
                crate::client::quote::qualified(wanted, row.text(0))
            );
            Lack::new(format!("{wanted}.{} is there already", row.text(0)), mend)
        };
        let mut lacks: Vec<Lack> = there.iter().filter(is_chosen).map(way).collect();
        let triggers: BTreeSet<&str> = set
            .schema
            .triggers
            .iter()
            .filter(|trigger| trigger.table.as_deref().is_some_and(|table| what.has(table)))
            .map(|trigger| trigger.name.as_str())
            .collect();
        let sql =
            format!("SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = {}", text(wanted));
        for row in connection.query(&sql).await?.iter().filter(|row| triggers.contains(row.text(0))) {
            let mend = format!(
                "DROP TRIGGER {}; or name another database",
                crate::client::quote::qualified(wanted, row.text(0))
            );
            lacks.push(Lack::new(format!("a trigger {wanted}.{} is there already", row.text(0)), mend));
        }
        return Ok(lacks);
    }
    let way = |found: String| {
        let cause = format!("{wanted}.{found} is in the database, which should be empty");
        Lack::new(cause, "name another database, or replace this one with --clean")
    };
    Ok(anything(connection, wanted).await?.map(way).into_iter().collect())
}

/// Something in a database, if there is anything.
pub(crate) async fn anything(connection: &mut Connection, database: &str) -> Result<Option<String>, Error> {
    let of = text(database);
    let sql = format!(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = {of} \
         UNION ALL SELECT routine_name FROM information_schema.routines WHERE routine_schema = {of} \
         UNION ALL SELECT event_name FROM information_schema.events WHERE event_schema = {of} LIMIT 1"
    );
    Ok(connection.query(&sql).await?.first().map(|row| row.text(0).to_owned()))
}

/// Begins a restore, or finds what an earlier run began: the unfinished database with its journal.
pub(crate) async fn begin(place: &Place<'_>, connection: &mut Connection) -> Result<Journal, Error> {
    let options = place.set.options()?;
    let create = format!("CREATE DATABASE IF NOT EXISTS {} {options}", name(&place.made));
    connection.execute(&create).await.map_err(|error| error.about(format!("database {}", place.made)))?;
    let journal = Journal::open(connection, &place.made, &place.what.title(place.set), true).await?;
    journal.ok_or_else(|| Error::Internal("a journal was not made".to_owned()))
}

/// The journal of an earlier run, if there was one.
pub(crate) async fn begun(place: &Place<'_>, connection: &mut Connection) -> Result<Option<Journal>, Error> {
    if !exists(connection, &place.made).await? {
        return Ok(None);
    }
    Journal::open(connection, &place.made, &place.what.title(place.set), false).await
}

/// Makes everything in the unfinished database.
pub(crate) async fn make(
    place: &Place<'_>,
    connection: &mut Connection,
    progress: &dyn Progress,
    restored: &mut Restored,
) -> Result<Journal, Error> {
    let mut journal = begin(place, connection).await?;
    restored.resumed |= journal.is_resumed();
    steps::prepare(connection, &place.set.server).await?;
    if !journal.has(FINISHING) {
        place.fill(connection, &mut journal, progress).await?;
        place.rehearse(connection, &mut journal).await?;
    }
    Ok(journal)
}

/// Why the server refuses a statement that the rest doesn't need.
fn refusal<T>(done: Result<T, Error>) -> Result<Option<String>, Error> {
    match done {
        Ok(_) => Ok(None),
        Err(error) if is_about_the_statement(&error) => Ok(Some(error.cause())),
        Err(error) => Err(error),
    }
}

/// Completes databases that have their tables under their names: what refers to other tables, and what isn't tables. All of it can
/// be done again.
pub(crate) async fn settle(
    places: &[&Place<'_>],
    connection: &mut Connection,
    restored: &mut Restored,
) -> Result<(), Error> {
    let is_read_only = |place: &Place<'_>| place.what.is_whole() && place.set.is_read_only();
    for place in places {
        if is_read_only(place) {
            // An earlier run may have ended behind the last step.
            refusal(connection.execute(&format!("ALTER DATABASE {} READ ONLY = 0", name(&place.name))).await)?;
        }
        restored.refused.extend(place.refer(connection).await?);
    }
    restored.refused.extend(finish::make_objects(connection, places).await?);
    for place in places.iter().filter(|place| is_read_only(place)) {
        let sql = format!("ALTER DATABASE {} READ ONLY = 1", name(&place.name));
        if let Some(cause) = refusal(connection.execute(&sql).await)? {
            restored.refused.push((format!("database {} as read-only", place.name), cause));
        }
    }
    Ok(())
}
