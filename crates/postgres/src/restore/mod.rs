//! Restores a set into a server: the schema, the rows, indexes and constraints, the later steps, statistics.
//!
//! A missing database is made under an unfinished name, and gets its own name when it is whole (I8). An existing database must
//! be empty. With `clean` it is replaced, but only when the new one is whole. Each step is noted in a journal in the target, in
//! the transaction of the step, so the same command continues after an interruption. A restore changes settings only in its
//! own sessions.
//!
//! The room: `set` (what can be restored), `scope` (what of it is), `begin` (alone in the database, with a journal), `steps` (in which order), `extensions` (the first of them),
//! `place` (whose a database of an unfinished one's name is, and who may get in), `later` (what waits for the final name),
//! `naming` and `finish` (giving it), `retell` (what earlier runs told), `server` (every database of a server), `replay` (a set of `pg_dump`'s own format).

pub(crate) mod begin;
pub(crate) mod extensions;
pub(crate) mod finish;
pub(crate) mod later;
pub(crate) mod naming;
pub(crate) mod place;
pub(crate) mod replay;
pub(crate) mod retell;
pub(crate) mod scope;
pub(crate) mod server;
pub(crate) mod set;
pub(crate) mod steps;

use std::sync::Arc;

use seawall_archive::{Catalog, Manifest};
use seawall_core::Progress;
use seawall_vault::Vault;
use serde::Deserialize as _;
use tokio::time::Instant;

use crate::build::refresh;
use crate::catalog::globals::{self, Found};
use crate::catalog::notes;
use crate::catalog::properties;
use crate::catalog::rights::is_superuser;
use crate::client::tried;
use crate::client::{Connection, Host, Target};
use crate::detail::ServerDetail;
use crate::error::Side;
use crate::journal::{self, Journal};
use crate::load::connect::connect;
use crate::load::large_objects;
use crate::preflight::restorer::Destination;
use crate::quote::{literal, qualified};
use crate::restore::begin::{begin, in_the_way};
use crate::restore::finish::Waiting;
use crate::restore::naming::{Pair, take_name};
use crate::restore::scope::Scope;
use crate::restore::set::Set;
use crate::schema::guard;
use crate::schema::select::select;
use crate::schema::toc;
use crate::{Error, RestoreOptions, Restored, World, load, preflight};

/// Finds any relation of a user. Relations of extensions don't count.
pub(crate) const ANYTHING: &str = "SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c \
                                   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)' \
     AND c.relkind NOT IN ('i', 'I', 't') AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
     WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e') LIMIT 1";

/// Settings that change how a session writes values. Their values in `pg_dump`'s session are recorded beside an artefact.
pub(crate) const OF_TEXTS: [&str; 3] = ["TimeZone", "bytea_output", "lc_monetary"];

/// The database that a restore fills, and how the restore ends.
pub(crate) struct Place {
    /// The database that is written to.
    pub(crate) target: Target,
    /// The name that it gets in the end, if it is another one.
    rename: Option<String>,
    /// Whether it is whole, and lacks only its name.
    is_whole: bool,
}

/// Restores a set into the database that `target` names.
///
/// # Errors
/// The failure, and the database that holds the restored part. An existing database is unchanged until the new one is whole.
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
    let mut restored = Restored::begin(manifest, target.to_string(), options.dry_run);
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
    let (mut connection, found) = if options.data_only {
        (Connection::open(target).await?, Found::Database)
    } else {
        globals::connect_to_or_beside(target).await?
    };
    let exists = found != Found::Nothing;
    let new = !exists || options.clean;
    if found == Found::Invalid && !new {
        restored.lacks.push(globals::invalid(&target.database));
        return if options.dry_run { Ok(()) } else { preflight::refuse(&restored.target, &restored.lacks) };
    }
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
    let what = Scope::new(options, chosen).under_another_name(new);
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
        // The restore itself finds these later. A dry run has no later.
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
        // The last step renames from another database. Without one, the restore doesn't begin.
        globals::connect_beside(target, &[&target.database]).await?.close().await;
    }
    let exists = exists && !drop_invalid(target, found).await?;
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
    finish::finish(target, (&[(pair, properties)], options.owners), &[waiting], world, &progress, restored).await
}

/// Drops the target's database if an interrupted `DROP DATABASE`, perhaps of an earlier restore, left it invalid. Returns
/// whether it did.
pub(crate) async fn drop_invalid(target: &Target, found: Found) -> Result<bool, Error> {
    if found != Found::Invalid {
        return Ok(false);
    }
    let mut connection = globals::connect_beside(target, &[&target.database]).await?;
    server::drop_invalid(&mut connection, &target.database).await?;
    connection.close().await;
    Ok(true)
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

/// Makes everything. A `new` database has an unfinished name meanwhile.
pub(crate) async fn make(
    set: &Set,
    target: &Target,
    new: bool,
    what: &Scope<'_>,
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

/// Makes everything in a place. If the restore can't continue there, in a new place.
#[expect(clippy::too_many_arguments, reason = "what a restore is told, and where it tells what it did")]
async fn make_in(
    mut place: Place,
    set: &Set,
    target: &Target,
    new: bool,
    what: &Scope<'_>,
    world: &World,
    progress: Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<Place, Error> {
    let options = what.options;
    let (mut connection, mut journal) = enter(&place, set, what).await?;
    // A whole database has no journal any more that shows a crash of the server.
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
        (connection, journal) = enter(&place, set, what).await?;
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
                let whole = place.rename.as_ref().map_or(String::new(), |_| notes::says_whole(made, made));
                restored.refused.extend(set.end(&mut connection, journal, (&whole, &last), what, world).await?);
            }
            Some(later) => {
                restored.later.extend(later.extensions.iter().map(|name| format!("extension {name}")));
            }
        }
    } else {
        restored.unfilled.extend(refresh::left(&mut connection, &set.after.refresh).await?);
        restored.refused.extend(set.left(&mut connection, what).await?);
        let superuser = is_superuser(&mut connection).await?;
        restored.refused.extend(set.refused_of_what_is_said(&mut connection, what, superuser).await?);
        // What the server refused of these before it refuses again, and that is told.
        let properties = &set.after.properties;
        let mut statements = properties::last_drops(properties);
        statements.extend(properties::statements(properties, &place.target.database, &target.database, options.owners));
        restored.refused.extend(tried::run(&mut connection, &statements).await?);
    }
    connection.close().await;
    Ok(place)
}

/// A session in the database that is written to, with the journal: see [`begin`].
async fn enter(place: &Place, set: &Set, what: &Scope<'_>) -> Result<(Connection, Option<Journal>), Error> {
    let mut connection = connect(&place.target, &set.detail.encoding).await?;
    guard::watch(&mut connection, &place.target).await?;
    guard::set(&mut connection, toc::texts(&set.schema.entries)).await?;
    let journal = begin(&mut connection, set, place, what).await?;
    Ok((connection, journal))
}

/// Makes what waited for the database's name, in the database that has it now and was `made` under another one.
pub(crate) async fn make_later(
    set: &Set,
    target: &Target,
    made: &str,
    what: &Scope<'_>,
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
    let whole = Scope::new(what.options, what.chosen.clone());
    let last = set.event_triggers(&whole, world, connection.version).await?;
    connection.execute("SET synchronous_commit = on").await?;
    let says = notes::says_whole(&target.database, made);
    restored.refused.extend(set.end(&mut connection, journal, (&says, &last), &whole, world).await?);
    connection.close().await;
    Ok(())
}

/// Drops a database of ours in which the restore can't continue: the server may have crashed and emptied unlogged tables, or
/// the journal is of an older version and says too little.
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
