//! A set back into a server: schema, rows, indexes and constraints, what comes behind them, statistics.
//!
//! A database that doesn't exist is made under a name of its own and gets the wanted one when everything is there (I8).
//! One that exists must be empty, or is replaced, with `clean`, at that moment and not before. Each step is noted in a
//! journal inside the target, in the step's own transaction; the same command goes on where an earlier one was
//! interrupted. Only settings of our own sessions are ever changed.
//!
//! The room: `set` (what can be restored), `steps` (in which order), `journal` (which steps are done), `unfinished` (the name
//! until all is made), `place` (whose a database of that name is, and who may get in), `later` (what waits for the final name), `naming` and `finish` (giving it), `retell` (what earlier runs
//! told), `server` (every database of a server).

pub(crate) mod finish;
pub(crate) mod journal;
pub(crate) mod later;
pub(crate) mod naming;
pub(crate) mod place;
pub(crate) mod retell;
pub(crate) mod server;
pub(crate) mod set;
pub(crate) mod steps;
pub(crate) mod unfinished;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall_archive::{Catalog, Digest, Manifest};
use seawall_core::Progress;
use seawall_vault::Vault;
use serde::Deserialize as _;
use tokio::time::Instant;

use crate::artefact::replay;
use crate::build::refresh;
use crate::catalog::globals;
use crate::catalog::properties;
use crate::client::quote::{ident, literal, qualified};
use crate::client::{Connection, Host, Target, TextEncoding};
use crate::detail::ServerDetail;
use crate::error::Side;
use crate::load::large_objects;
use crate::load::replica;
use crate::preflight::restorer::Destination;
use crate::prove::guard;
use crate::prove::proof_name::ProofName;
use crate::restore::finish::Waiting;
use crate::restore::journal::Journal;
use crate::restore::later::Later;
use crate::restore::naming::Pair;
use crate::restore::set::Set;
use crate::schema::select::{Selection, select};
use crate::schema::toc::{self, Entry};
use crate::schema::tried;
use crate::{Error, Properties, RestoreOptions, Restored, World, load, preflight};

/// A relation of a user's, whichever. What extensions have made is none.
pub(crate) const ANYTHING: &str = "SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c \
                                   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)' \
     AND c.relkind NOT IN ('i', 'I', 't') AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
     WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e') LIMIT 1";

/// Settings of a session that change how values are written: those of a dump are noted beside it.
pub(crate) const OF_TEXTS: [&str; 3] = ["TimeZone", "bytea_output", "lc_monetary"];

/// How long another restore into the same database is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long until it is asked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// The advisory lock that every session of a restore shares.
const UNDER_WAY: u32 = 0x5ea_a11;

/// A role may be set to write as a replica does, which passes triggers over; setting that needs a right, even to what it is. And a
/// server may keep sessions from views, which materialized ones are filled from.
const AS_USUAL: &str = "SELECT pg_catalog.set_config(name, CASE name WHEN 'session_replication_role' THEN 'origin' ELSE '' END, false) \
                        FROM pg_catalog.pg_settings WHERE name = 'session_replication_role' AND setting <> 'origin' \
                        OR name = 'restrict_nonsystem_relation_kind' AND setting <> ''";

/// A connection that is set to write what a set holds.
pub(crate) async fn connect(target: &Target, encoding: &str) -> Result<Connection, Error> {
    let mut connection = Connection::open(target).await?;
    // Rows have moments with their offset from UTC. A CHECK may look at the day, and means that of the server's zone.
    connection
        .execute(&format!(
            "SELECT pg_catalog.pg_advisory_lock_shared({UNDER_WAY}); \
             SET lock_timeout = 0; SET synchronous_commit = off; SET check_function_bodies = off; \
             RESET timezone; {AS_USUAL}"
        ))
        .await?;
    connection.speak(TextEncoding::of(encoding).ok_or_else(|| unknown_encoding(encoding))?).await?;
    replica::without_those_of_extensions(&mut connection).await?;
    Ok(connection)
}

/// What is wrong with a set whose texts have an encoding that no database has.
fn unknown_encoding(encoding: &str) -> Error {
    Error::Internal(format!("texts in the encoding {encoding}"))
}

/// Where the restore goes, and what is to be done with it in the end.
pub(crate) struct Place {
    /// The database that is written to.
    pub(crate) target: Target,
    /// The name that it gets in the end, if it is another one.
    rename: Option<String>,
    /// Whether all of it is made, but for the name.
    is_whole: bool,
}

/// How to restore, and what of the set.
pub(crate) struct What<'a> {
    pub(crate) options: &'a RestoreOptions,
    /// The chosen tables; without, everything.
    pub(crate) chosen: Option<Selection>,
    /// Tables and sequences that have no place, because the server refused their extension.
    pub(crate) absent: OnceLock<BTreeSet<(String, String)>>,
    /// Whether what is bound to the database's name may wait for it.
    pub(crate) may_wait: bool,
    /// What waits, if anything.
    pub(crate) later: OnceLock<Later>,
    /// Whether this is what waited, and not all else.
    pub(crate) is_later: bool,
}

impl<'a> What<'a> {
    /// Everything of a set, or the chosen tables.
    pub(crate) fn new(options: &'a RestoreOptions, chosen: Option<Selection>) -> Self {
        let (absent, later) = (OnceLock::new(), OnceLock::new());
        Self { options, chosen, absent, may_wait: false, later, is_later: false }
    }

    /// The same, where the database is made under another name first.
    pub(crate) fn under_another_name(self, is_so: bool) -> Self {
        Self { may_wait: is_so, ..self }
    }

    /// What waits for the name.
    fn waiting(&self) -> Self {
        let later = self.later.clone();
        Self { later, is_later: true, ..Self::new(self.options, self.chosen.clone()) }
    }

    /// Whether a relation's turn is now: before the database has its name, or then.
    pub(crate) fn is_now(&self, schema: &str, name: &str) -> bool {
        self.later.get().is_none_or(|later| later.has(schema, name) == self.is_later)
    }

    /// Whether a table or sequence has no place.
    pub(crate) fn is_absent(&self, schema: &str, name: &str) -> bool {
        let is_it = |(other, its): &(String, String)| (other.as_str(), its.as_str()) == (schema, name);
        self.absent.get().is_some_and(|absent| absent.iter().any(is_it))
    }

    pub(crate) fn has(&self, entry: &Entry) -> bool {
        self.later.get().is_none_or(|later| later.entries.contains(&entry.id) == self.is_later)
            && self.chosen.as_ref().is_none_or(|chosen| chosen.entries.contains(&entry.id))
    }

    pub(crate) fn has_table(&self, schema: &str, name: &str) -> bool {
        let name = (schema.to_owned(), name.to_owned());
        !self.is_absent(schema, &name.1)
            && self.is_now(schema, &name.1)
            && self.chosen.as_ref().is_none_or(|chosen| chosen.tables.contains(&name))
    }

    /// What a journal is called, so that nothing else goes on with it.
    pub(crate) fn title(&self, set: &Set) -> String {
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
        if let Some(unfinished) = ProofName::unfinished(name) {
            return unfinished;
        }
        unfinished::name(&self.title(set), name)
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
        unfilled: Vec::new(),
        databases: Vec::new(),
        roles: Vec::new(),
        kept: Vec::new(),
        refused: Vec::new(),
        dry_run: options.dry_run,
        lacks: Vec::new(),
        doubts: Vec::new(),
        later: Vec::new(),
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
    if !options.dry_run && !options.data_only {
        naming::undo_left(target, &[&target.database]).await?;
    }
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
    if let Some(chosen) = &chosen
        && !options.data_only
    {
        refuse_parts(&mut connection, &chosen.needs, new).await?;
    }
    let what = What::new(options, chosen).under_another_name(new);
    let into = if new { Destination::New { replaces: exists } } else { Destination::Existing };
    let look = set.lacks(&mut connection, (&target.database, into), &what, &[]).await?;
    (restored.lacks, restored.doubts, restored.later) = (look.lacks, look.doubts, look.later);
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
            && let Some(way) = in_the_way(&mut connection, set, &what, new).await?
        {
            restored.lacks.push(way);
        }
        connection.close().await;
        return Ok(());
    }
    connection.close().await;
    preflight::refuse(&restored.target, &restored.lacks)?;
    if new {
        // The name is given from another database, in the end: whether there is one is known now.
        globals::connect_beside(target, &[&target.database]).await?.close().await;
    }
    restored.later.clear();
    let place = make(set, target, new, &what, world, Arc::clone(&progress), restored).await?;
    let Some(name) = &place.rename else { return Ok(()) };
    let made = &place.target.database;
    let properties = &set.after.properties;
    if what.later.get().is_none() {
        let named = take_name(target, made, name, exists, (properties, options.owners)).await;
        return named.map_err(|error| error.leaves(made));
    }
    let pair = Pair { made: made.clone(), name: name.clone(), replaces: exists };
    let waiting = Waiting { set, what: &what, made, name };
    finish::finish(target, &[(pair, properties)], &[waiting], world, &progress, restored).await
}

/// Refuses tables that can't be made without others, which aren't restored and aren't in the target either.
async fn refuse_parts(connection: &mut Connection, needs: &[[(String, String); 2]], new: bool) -> Result<(), Error> {
    for [table, other] in needs {
        let name = qualified(&other.0, &other.1);
        let is_there = format!("SELECT pg_catalog.to_regclass({}) IS NOT NULL", literal(&name));
        if new || !connection.one(&is_there).await?.flag(0) {
            return Err(Error::Refused {
                code: "postgres.needs-table",
                object: format!("{}.{}", table.0, table.1),
                cause: format!("it is made of {}.{}, from which it inherits or whose type it has", other.0, other.1),
                next: format!("restore that as well: --table {}.{}", other.0, other.1),
            });
        }
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
    let place = place::find(set, target, new, what).await?;
    let made = place.rename.is_some().then(|| place.target.database.clone());
    let done = make_in(place, set, target, new, what, world, progress, restored).await;
    done.map_err(|error| error.within(&target.database)).map_err(|error| match made {
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
    guard::watch(&mut connection, &place.target).await?;
    guard::set(&mut connection, toc::texts(&set.schema.entries)).await?;
    let mut journal = begin(&mut connection, set, &place, what).await?;
    // Without its journal nothing says of a whole database whether the server crashed since.
    let lost = match &journal {
        Some(known) => known.has_lost_rows(&mut connection).await?,
        None => {
            journal::is_of_before(&mut connection, &what.title(set)).await?
                || journal::has_unlogged_tables(&mut connection).await?
        }
    };
    if lost {
        connection.close().await;
        give_up(target, &place, &journal::name(&what.title(set))).await?;
        place = place::find(set, target, new, what).await?;
        connection = connect(&place.target, &set.detail.encoding).await?;
        guard::watch(&mut connection, &place.target).await?;
        guard::set(&mut connection, toc::texts(&set.schema.entries)).await?;
        journal = begin(&mut connection, set, &place, what).await?;
    }
    restored.resumed |= journal.as_ref().is_none_or(Journal::is_resumed);
    if let Some(journal) = journal {
        if place.rename.is_some() {
            let drops = properties::first_drops(&set.after.properties);
            restored.refused.extend(guard::tried(&mut connection, &drops).await?);
        }
        let told = set.fill(&mut connection, &place.target, &journal, what, world, progress).await?;
        restored.without_statistics.extend(told.without_statistics);
        restored.unfilled.extend(told.unfilled);
        restored.refused.extend(told.refused);
        if what.chosen.is_none() {
            let labels = large_objects::label(&set.after.large_objects, &mut connection);
            restored.refused.extend(labels.await?);
        }
        let waits = what.later.get();
        if place.rename.is_some() {
            let properties = &set.after.properties;
            // Scripts of extensions that wait may need what is dropped last.
            let mut statements = if waits.is_none() { properties::last_drops(properties) } else { Vec::new() };
            let (made, shown) = (&place.target.database, &target.database);
            statements.extend(properties::statements(properties, made, shown, options.owners));
            restored.refused.extend(guard::tried(&mut connection, &statements).await?);
        }
        // What was committed without waiting for the disk is behind this, which waits.
        connection.execute("SET synchronous_commit = on").await?;
        match waits {
            None => {
                let last = set.event_triggers(what, world, connection.version).await?;
                let made = &place.target.database;
                let whole = place.rename.as_ref().map_or(String::new(), |_| place::says_whole(made, made));
                restored.refused.extend(set.end(&mut connection, journal, (&whole, &last), what, world).await?);
            }
            Some(later) => {
                restored.later.extend(later.extensions.iter().map(|name| format!("extension {name}")));
            }
        }
    } else {
        restored.unfilled.extend(refresh::left(&mut connection, &set.after.refresh).await?);
        restored.refused.extend(set.left(&mut connection, what).await?);
        let superuser = steps::is_superuser(&mut connection).await?;
        restored.refused.extend(set.refused_of_what_is_said(&mut connection, what, superuser).await?);
        // What the server refused of these before it refuses again, and that is told.
        let properties = &set.after.properties;
        let mut statements = properties::last_drops(properties);
        statements.extend(properties::statements(properties, &place.target.database, &target.database, options.owners));
        statements.retain(|statement| statement.gives.is_some());
        restored.refused.extend(tried::run(&mut connection, &statements).await?);
    }
    connection.close().await;
    Ok(place)
}

/// Makes what waited for the database's name, in the database that has it now and was `made` under another one.
pub(crate) async fn make_later(
    set: &Set,
    target: &Target,
    made: &str,
    what: &What<'_>,
    world: &World,
    progress: Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<(), Error> {
    let mut connection = connect(target, &set.detail.encoding).await?;
    connection.execute(toc::texts(&set.schema.entries)).await?;
    let Some(journal) = Journal::open(&mut connection, &what.title(set)).await? else {
        return Err(Error::Internal("a restore has lost its journal".to_owned()));
    };
    let told = set.fill(&mut connection, target, &journal.part("later"), &what.waiting(), world, progress).await?;
    restored.without_statistics.extend(told.without_statistics);
    restored.unfilled.extend(told.unfilled);
    restored.refused.extend(told.refused);
    restored.refused.extend(tried::run(&mut connection, &properties::last_drops(&set.after.properties)).await?);
    let whole = What::new(what.options, what.chosen.clone());
    let last = set.event_triggers(&whole, world, connection.version).await?;
    connection.execute("SET synchronous_commit = on").await?;
    let says = place::says_whole(&target.database, made);
    restored.refused.extend(set.end(&mut connection, journal, (&says, &last), &whole, world).await?);
    connection.close().await;
    Ok(())
}

/// Drops a database of ours that can't be gone on with: the server may have crashed and emptied its unlogged tables, or an
/// older version has begun it, whose journal says too little.
async fn give_up(target: &Target, place: &Place, journal: &str) -> Result<(), Error> {
    if place.rename.is_none() {
        return Err(Error::Refused {
            code: "postgres.emptied",
            object: place.target.to_string(),
            cause: "the server crashed while it was restored into, and emptied unlogged tables that were loaded"
                .to_owned(),
            next: format!(
                "drop the schema {journal} and everything that was restored (or the database), then start again"
            ),
        });
    }
    tracing::warn!(
        database = place.target.database,
        "begun anew: the server may have emptied unlogged tables in a crash, or an older version of Seawall began it"
    );
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
    connection.execute(&format!("SELECT pg_catalog.pg_advisory_unlock_shared({UNDER_WAY})")).await?;
    let deadline = Instant::now() + PATIENCE;
    // Asked for again and again: who waits for it in the server stops the sessions that the other restore still opens.
    while !connection.one(&format!("SELECT pg_catalog.pg_try_advisory_lock({UNDER_WAY})")).await?.flag(0) {
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
    let shared = format!(
        "SELECT pg_catalog.pg_advisory_lock_shared({UNDER_WAY}); SELECT pg_catalog.pg_advisory_unlock({UNDER_WAY})"
    );
    connection.execute(&shared).await
}

/// What is in the way of a restore that wasn't begun yet, and what to do about it.
async fn in_the_way(
    connection: &mut Connection,
    set: &Set,
    what: &What<'_>,
    new: bool,
) -> Result<Option<preflight::Lack>, Error> {
    let journals = journal::all(connection).await?;
    // The set itself may hold the journal of an older restore.
    let is_begun = if new { journals.contains(&journal::name(&what.title(set))) } else { !journals.is_empty() };
    if is_begun { Ok(None) } else { set.in_the_way(connection, what).await }
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
    let of_before = journal::is_of_before(connection, &what.title(set)).await?;
    if place.is_whole || of_before && place.rename.is_some() {
        return Ok(None);
    }
    if of_before {
        let cause = "an older version of Seawall began this restore in it, and this version can't go on with that";
        let next =
            "empty the database (or drop what was restored), DROP SCHEMA seawall_restore CASCADE, then start again";
        return Err(refused("postgres.other-restore", cause.to_owned(), next));
    }
    if let Some((cause, next)) = in_the_way(connection, set, what, place.rename.is_some()).await? {
        if place.rename.is_some() {
            let name = &place.target.database;
            return Err(Error::Refused {
                code: "postgres.not-ours",
                object: format!("database {name}"),
                cause: format!(
                    "it has the name of this restore's unfinished database, and no journal and no comment says that a restore made it: {cause}"
                ),
                next: format!("DROP DATABASE {}; and start the same again", ident(name)),
            });
        }
        return Err(refused("postgres.not-empty", cause, &next));
    }
    match Journal::open(connection, &what.title(set)).await? {
        Some(journal) => Ok(Some(journal)),
        None => {
            let journals = journal::all(connection).await?.join(", ");
            let cause = format!("another restore was begun in it, and is not done: its journal is {journals}");
            let next = match journal::named(connection).await?.is_empty() {
                true => format!(
                    "finish that with the same arguments; or give it up: DROP SCHEMA {journals} CASCADE, then start again"
                ),
                // Without its journal the database that it has put aside can't be told from one that isn't needed.
                false => "repeat that restore with the same arguments: it takes the name back first. Keep its journal until then"
                    .to_owned(),
            };
            Err(refused("postgres.other-restore", cause, &next))
        }
    }
}

/// Gives the finished database its name, its owner and its grants; the one that had the name is dropped in this moment.
pub(crate) async fn take_name(
    target: &Target,
    made: &str,
    name: &str,
    exists: bool,
    (properties, owners): (&Properties, bool),
) -> Result<(), Error> {
    let mut connection = globals::connect_beside(target, &[made, name]).await?;
    let is_open = place::is_open(&mut connection, made).await?;
    let last = |name: &str| properties::last(properties, name, owners, Some(is_open));
    let is_ascii = last(name).is_ascii();
    if exists {
        if is_ascii {
            // What the server refuses must be known before a database is dropped for it.
            let tried = connection.execute(&format!("BEGIN;\n{}ROLLBACK", last(made))).await;
            tried.map_err(|error| error.about(format!("database {made}")))?;
        }
        server::drop(&mut connection, name).await?;
    }
    let here = if is_ascii { last(name) } else { String::new() };
    let rename = format!("BEGIN;\nALTER DATABASE {} RENAME TO {};\n{here}COMMIT", ident(made), ident(name));
    connection.execute(&rename).await.map_err(|error| error.about(format!("database {made}")))?;
    connection.close().await;
    if is_ascii { Ok(()) } else { from_within(target, name, &last(name)).await }
}

/// Runs what gives a database to its owner in a session of that database. The server keeps names and comments in the encoding
/// of the session's database, and doesn't say in which; ASCII is the same in all of them.
pub(crate) async fn from_within(target: &Target, name: &str, last: &str) -> Result<(), Error> {
    let mut inside = Connection::open(&target.for_databases().with_database(name)).await?;
    let encoding = "SELECT pg_catalog.pg_encoding_to_char(encoding) FROM pg_catalog.pg_database \
                    WHERE datname = pg_catalog.current_database()";
    let encoding = inside.one(encoding).await?.text(0).to_owned();
    inside.speak(TextEncoding::of(&encoding).ok_or_else(|| unknown_encoding(&encoding))?).await?;
    let done = inside.execute(&format!("BEGIN;\n{last}COMMIT")).await;
    done.map_err(|error| error.about(format!("database {name}")))?;
    inside.close().await;
    Ok(())
}
