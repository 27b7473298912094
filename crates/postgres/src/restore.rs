//! A set back into a server: schema, rows, indexes and constraints, what comes behind them, statistics.
//!
//! A database that doesn't exist is made under a name of its own and gets the wanted one when everything is there (I8).
//! One that exists must be empty, or is replaced, with `clean`, at that moment and not before. Each step is noted in a
//! journal inside the target, in the step's own transaction; the same command goes on where an earlier one was
//! interrupted. Only settings of our own sessions are ever changed.

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::{Catalog, Digest, Manifest};
use seawall_core::{Progress, When};
use seawall_vault::Vault;
use serde::Deserialize as _;
use tokio::time::Instant;

use crate::client::quote::{ident, literal, qualified};
use crate::client::{Connection, Host, Target};
use crate::detail::ServerDetail;
use crate::error::Side;
use crate::globals;
use crate::journal::{self, Journal, SCHEMA};
use crate::restorer::Destination;
use crate::select::{Selection, select};
use crate::set::{self, Set};
use crate::toc::Entry;
use crate::{Error, Limits, World, load, preflight, properties, replay, server};

/// A relation of a user's, whichever.
pub(crate) const ANYTHING: &str = "SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)' LIMIT 1";

/// Settings of a session that change how values are written: those of a dump are noted beside it.
pub(crate) const OF_TEXTS: [&str; 3] = ["TimeZone", "bytea_output", "lc_monetary"];

/// How long another restore into the same database is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long until it is asked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// The advisory lock that every session of a restore shares.
const UNDER_WAY: u32 = 0x5ea_a11;

/// How to restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// Which set.
    pub when: When,
    /// Replace a database that is there already.
    pub clean: bool,
    /// Only these tables, as `schema.table` or `table`; none are all.
    pub tables: Vec<String>,
    /// Only rows, sequences' values and large objects, into tables that are there and empty.
    pub data_only: bool,
    /// Restore owners and grants; without, everything belongs to who restores.
    pub owners: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Of a whole server's set: the database that is meant. Without it, the one that is called as the target's, and all of
    /// them into a target without a database.
    pub database: Option<String>,
    /// How much of the machine.
    pub limits: Limits,
}

impl RestoreOptions {
    /// All of the set of this id, or of one database in it, as it was.
    pub(crate) fn whole(set: &str, database: Option<String>, limits: Limits) -> Self {
        Self {
            when: When::Position(set.to_owned()),
            clean: false,
            tables: Vec::new(),
            data_only: false,
            owners: true,
            dry_run: false,
            database,
            limits,
        }
    }
}

/// What a restore did, or would do.
#[derive(Debug, Clone)]
pub struct Restored {
    /// The set.
    pub manifest: Manifest,
    /// The database, as a URL without its password.
    pub target: String,
    /// Whether an earlier restore was continued.
    pub resumed: bool,
    /// What belongs to the chosen tables and was left out: what, and what it needs that isn't restored.
    pub left_out: Vec<(String, String)>,
    /// Tables that the planner has no statistics of, and why: gathering them fails in the source as well.
    pub without_statistics: Vec<(String, String)>,
    /// Of a whole server's set: the databases that were restored.
    pub databases: Vec<String>,
    /// Of a whole server: the roles that were made.
    pub roles: Vec<String>,
    /// Of a whole server: roles that were there already and aren't as the set has them: which, and how they differ.
    pub kept: Vec<(String, String)>,
    /// Whether nothing was done because only the plan was asked for.
    pub dry_run: bool,
    /// What a dry run found that the target lacks: what, and the command that mends it.
    pub lacks: Vec<(String, String)>,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

/// A connection that is set to write what a set holds.
pub(crate) async fn connect(target: &Target, encoding: &str) -> Result<Connection, Error> {
    let mut connection = Connection::open(target).await?;
    // Whatever the role or the server is set to, texts are read as they were written.
    connection
        .execute(&format!(
            "SELECT pg_advisory_lock_shared({UNDER_WAY}); SET client_encoding = {}; \
             SET lock_timeout = 0; SET synchronous_commit = off; SET row_security = off; SET check_function_bodies = off; \
             SET xmloption = content; SET datestyle = ISO; SET intervalstyle = postgres; SET lc_monetary = 'C'; \
             SET array_nulls = on; SELECT pg_catalog.set_config('search_path', '', false)",
            literal(encoding)
        ))
        .await?;
    Ok(connection)
}

/// Where the restore goes, and what is to be done with it in the end.
pub(crate) struct Place {
    /// The database that is written to.
    pub(crate) target: Target,
    /// The name that it gets in the end, if it is another one.
    rename: Option<String>,
}

/// How to restore, and what of the set.
pub(crate) struct What<'a> {
    pub(crate) options: &'a RestoreOptions,
    /// The chosen tables; without, everything.
    pub(crate) chosen: Option<Selection>,
}

impl What<'_> {
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.entries.contains(&entry.id))
    }

    pub(crate) fn has_table(&self, schema: &str, name: &str) -> bool {
        let name = (schema.to_owned(), name.to_owned());
        self.chosen.as_ref().is_none_or(|chosen| chosen.tables.contains(&name))
    }

    /// What a journal is called, so that nothing else goes on with it.
    fn title(&self, set: &Set) -> String {
        let rows = match (self.options.data_only, self.options.owners) {
            (true, _) => ", rows only",
            (false, true) => "",
            (false, false) => ", without owners",
        };
        // Another database's encoding may have no letters for the name.
        let of = |name: &String| format!(" of database {}", &Digest::of(name.as_bytes()).to_string()[..16]);
        let of = set.database.as_ref().map_or(String::new(), of);
        let set = format!("{}{of}", set.reader.manifest().id);
        let name = |(schema, name): &(String, String)| qualified(schema, name);
        match &self.chosen {
            None => format!("set {set}{rows}"),
            Some(chosen) => {
                format!("set {set}{rows}: {}", chosen.tables.iter().map(name).collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// What a database that is to be called `name` is called until it is all there: the same restore finds the same name
    /// again, and goes on in it.
    pub(crate) fn unfinished_name(&self, set: &Set, name: &str) -> String {
        let digest = Digest::of(format!("{}\0{name}", self.title(set)).as_bytes()).to_string();
        format!("seawall-{}", &digest[..16])
    }
}

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
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Restored, Error> {
    let started = Instant::now();
    let manifest = Catalog::read(vault).await?.find(&options.when)?.clone();
    let reader = set::open(vault, manifest.clone()).await?;
    let server = ServerDetail::deserialize(&manifest.detail).ok();
    let is_artefact = manifest.artefact.is_some();
    let mut restored = Restored {
        manifest,
        target: target.to_string(),
        resumed: false,
        left_out: Vec::new(),
        without_statistics: Vec::new(),
        databases: Vec::new(),
        roles: Vec::new(),
        kept: Vec::new(),
        dry_run: options.dry_run,
        lacks: Vec::new(),
        duration_ms: 0,
    };
    match (&server, target.database.is_empty()) {
        (Some(server), true) if options.database.is_none() => {
            server::restore(reader, server, target, options, world, progress, &mut restored).await?;
        }
        (_, true) => {
            let next = "write postgresql://ROLE@HOST:PORT/DATABASE".to_owned();
            let cause = "no database is named to restore into".to_owned();
            return Err(Error::Url { object: target.to_string(), cause, next });
        }
        _ if is_artefact => replay::restore(reader, target, options, world, progress, &mut restored).await?,
        (server, false) => {
            let database = which(&restored.manifest, server.as_ref(), target, options)?;
            let set = Set::open(reader, database).await?;
            restored.databases.extend(database.map(str::to_owned));
            restore_one(&set, target, options, world, progress, &mut restored).await?;
        }
    }
    restored.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(restored)
}

/// The database of a set that is meant; `None` where the set is of one database.
fn which<'a>(
    manifest: &Manifest,
    server: Option<&ServerDetail>,
    target: &'a Target,
    options: &'a RestoreOptions,
) -> Result<Option<&'a str>, Error> {
    let refused = |cause: String, next: String| Error::Refused {
        code: "postgres.which-database",
        object: format!("set {}", manifest.id),
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
    world: &World,
    progress: Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<(), Error> {
    // Rows alone need tables that are there.
    let (mut connection, exists) = if options.data_only {
        (Connection::open(target).await?, true)
    } else {
        globals::connect_to_or_beside(target).await?
    };
    let new = !exists || options.clean;
    let chosen = match &options.tables[..] {
        [] => None,
        names => Some(select(&set.schema.entries, names, new)?),
    };
    restored.left_out = chosen.as_ref().map(|chosen| chosen.left_out.clone()).unwrap_or_default();
    let what = What { options, chosen };
    let into = if new { Destination::New { replaces: exists } } else { Destination::Existing };
    restored.lacks = set.lacks(&mut connection, (&target.database, into), &what, &[]).await?;
    if what.chosen.is_none() && !options.data_only && matches!(target.host, Host::Socket(_)) {
        restored.lacks.extend(preflight::room(&mut connection, set.detail.size).await?);
    }
    if options.data_only && restored.lacks.is_empty() {
        load::fits(target, set.items.iter().filter(|item| set.is_loaded(item, &what))).await?;
    }
    restored.manifest.totals = set.totals(|item| set.is_restored(item, &what));
    if options.dry_run {
        // What is done in the end is refused in the end; a plan names it before.
        if !new
            && restored.lacks.is_empty()
            && let Some(way) = in_the_way(&mut connection, set, &what).await?
        {
            restored.lacks.push(way);
        }
        connection.close().await;
        return Ok(());
    }
    connection.close().await;
    preflight::refuse(&restored.target, &restored.lacks)?;
    let place = make(set, target, new, &what, world, progress, restored).await?;
    if let Some(name) = &place.rename {
        let made = &place.target.database;
        take_name(target, made, name, exists).await.map_err(|error| error.leaves(made))?;
    }
    Ok(())
}

/// Makes everything, in a database of another name where it is `new`.
pub(crate) async fn make(
    set: &Set,
    target: &Target,
    new: bool,
    what: &What<'_>,
    world: &World,
    progress: Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<Place, Error> {
    let place = find_place(set, target, new, what).await?;
    let made = place.rename.is_some().then(|| place.target.database.clone());
    let done = make_in(place, set, target, new, what, world, progress, restored).await;
    done.map_err(|error| match made {
        Some(made) => error.leaves(&made),
        None => error,
    })
}

/// Makes everything in a place, or, where that can't be gone on with, in another one.
#[expect(clippy::too_many_arguments, reason = "what a restore is told, and where it tells what it did")]
async fn make_in(
    mut place: Place,
    set: &Set,
    target: &Target,
    new: bool,
    what: &What<'_>,
    world: &World,
    progress: Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<Place, Error> {
    let options = what.options;
    let mut connection = connect(&place.target, &set.detail.encoding).await?;
    let mut journal = begin(&mut connection, set, &place, what).await?;
    // Without its journal nothing says of a whole database whether the server crashed since.
    let lost = match &journal {
        Some(known) => known.has_lost_rows(&mut connection).await?,
        None => journal::has_unlogged_tables(&mut connection).await?,
    };
    if lost {
        connection.close().await;
        give_up(target, &place).await?;
        place = find_place(set, target, new, what).await?;
        connection = connect(&place.target, &set.detail.encoding).await?;
        journal = begin(&mut connection, set, &place, what).await?;
    }
    restored.resumed |= journal.as_ref().is_none_or(Journal::is_resumed);
    if let Some(journal) = journal {
        let without = set.fill(&mut connection, &place.target, &journal, what, world, progress).await?;
        restored.without_statistics.extend(without);
        if place.rename.is_some() {
            let statements = properties::statements(&set.after.properties, &place.target.database, options.owners);
            connection.execute(&statements).await?;
        }
        // What was committed without waiting for the disk is behind this, which waits.
        connection.execute("SET synchronous_commit = on").await?;
        Journal::remove(&mut connection).await?;
    }
    connection.close().await;
    Ok(place)
}

/// Where to restore, made if it isn't there.
async fn find_place(set: &Set, target: &Target, new: bool, what: &What<'_>) -> Result<Place, Error> {
    if !new {
        return Ok(Place { target: target.clone(), rename: None });
    }
    let name = what.unfinished_name(set, &target.database);
    let mut connection = globals::connect(target).await?;
    let there = format!("SELECT 1 FROM pg_database WHERE datname = {}", literal(&name));
    if connection.query(&there).await?.is_empty() {
        let create = preflight::create_database(&name, &set.detail, connection.version);
        match connection.execute(&create).await {
            // An interrupted restore's own statement came to its end meanwhile.
            Err(error) if matches!(error.sqlstate(), Some("42P04" | "23505")) => {}
            made => made.map_err(|error| error.about(format!("database {}", target.database)))?,
        }
    }
    connection.close().await;
    Ok(Place { target: target.with_database(&name), rename: Some(target.database.clone()) })
}

/// Drops a database of ours that can't be gone on with, because the server crashed and emptied its unlogged tables.
async fn give_up(target: &Target, place: &Place) -> Result<(), Error> {
    if place.rename.is_none() {
        return Err(Error::Refused {
            code: "postgres.emptied",
            object: place.target.to_string(),
            cause: "the server crashed while it was restored into, and emptied unlogged tables that were loaded"
                .to_owned(),
            next: format!(
                "drop the schema {SCHEMA} and everything that was restored (or the database), then start again"
            ),
        });
    }
    tracing::warn!(database = place.target.database, "begun anew: the server crashed, and emptied unlogged tables");
    let mut connection = globals::connect(target).await?;
    server::drop(&mut connection, &place.target.database).await?;
    connection.close().await;
    Ok(())
}

/// The journal of this restore; an empty database gets one, any other is refused. `None` for a database of ours that is
/// whole and has not got its name yet.
async fn begin(
    connection: &mut Connection,
    set: &Set,
    place: &Place,
    what: &What<'_>,
) -> Result<Option<Journal>, Error> {
    be_alone(connection).await?;
    let journal = find_journal(connection, set, place, what).await?;
    be_one_of_us(connection).await?;
    Ok(journal)
}

/// Waits until no other session restores into the connection's database: what an interrupted restore left running on
/// the server is one until it ends, and so is another restore.
pub(crate) async fn be_alone(connection: &mut Connection) -> Result<(), Error> {
    connection.execute(&format!("SELECT pg_advisory_unlock_shared({UNDER_WAY})")).await?;
    let deadline = Instant::now() + PATIENCE;
    // Asked for again and again: who waits for it in the server stops the sessions that the other restore still opens.
    while !connection.one(&format!("SELECT pg_try_advisory_lock({UNDER_WAY})")).await?.flag(0) {
        if Instant::now() > deadline {
            return Err(Error::Refused {
                code: "postgres.other-restore",
                object: "another restore into this database".to_owned(),
                cause: "it is under way".to_owned(),
                next: "start again when it is done".to_owned(),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Lets the other sessions of this restore begin.
pub(crate) async fn be_one_of_us(connection: &mut Connection) -> Result<(), Error> {
    let shared = format!("SELECT pg_advisory_lock_shared({UNDER_WAY}); SELECT pg_advisory_unlock({UNDER_WAY})");
    connection.execute(&shared).await
}

/// What is in the way of a restore that wasn't begun yet, and what to do about it.
async fn in_the_way(connection: &mut Connection, set: &Set, what: &What<'_>) -> Result<Option<preflight::Lack>, Error> {
    let journal = format!("SELECT 1 FROM pg_namespace WHERE nspname = {}", literal(SCHEMA));
    match connection.query(&journal).await?.is_empty() {
        true => set.in_the_way(connection, what).await,
        false => Ok(None),
    }
}

async fn find_journal(
    connection: &mut Connection,
    set: &Set,
    place: &Place,
    what: &What<'_>,
) -> Result<Option<Journal>, Error> {
    let target = &place.target;
    let refused = |code, cause: String, next: &str| Error::Refused {
        code,
        object: target.to_string(),
        cause,
        next: next.to_owned(),
    };
    if let Some((cause, next)) = in_the_way(connection, set, what).await? {
        if place.rename.is_some() {
            return Ok(None);
        }
        return Err(refused("postgres.not-empty", cause, &next));
    }
    match Journal::open(connection, &what.title(set)).await? {
        Some(journal) => Ok(Some(journal)),
        None => {
            let cause = "another restore was begun in it".to_owned();
            let next = "finish that with the same arguments, or drop the database and start again";
            Err(refused("postgres.other-restore", cause, next))
        }
    }
}

/// Gives the finished database its name; the one that had it is dropped in this moment.
pub(crate) async fn take_name(target: &Target, made: &str, name: &str, exists: bool) -> Result<(), Error> {
    // Nobody renames the database that he is in.
    let elsewhere = if name == "postgres" { "template1" } else { "postgres" };
    let mut connection = Connection::open(&target.with_database(elsewhere)).await?;
    if exists {
        server::drop(&mut connection, name).await?;
    }
    let rename = format!("ALTER DATABASE {} RENAME TO {}", ident(made), ident(name));
    connection.execute(&rename).await.map_err(|error| error.about(format!("database {made}")))?;
    connection.close().await;
    Ok(())
}
