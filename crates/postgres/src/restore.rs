//! A set back into a server: schema, rows, indexes and constraints, what comes behind them, statistics.
//!
//! A database that doesn't exist is made under a name of its own and gets the wanted one when everything is there (I8).
//! One that exists must be empty, or is replaced, with `clean`, at that moment and not before. Each step is noted in a
//! journal inside the target, in the step's own transaction; the same command goes on where an earlier one was
//! interrupted. Only settings of our own sessions are ever changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_archive::{Catalog, Digest, Frame, Item, Manifest, SetReader, Totals};
use seawall_core::{Progress, When};
use seawall_vault::Vault;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::build::Build;
use crate::client::quote::{ident, literal, qualified};
use crate::client::{Connection, Host, Target};
use crate::detail::{After, ItemDetail, ServerDetail, SetDetail};
use crate::globals::{self, Globals};
use crate::journal::{Journal, SCHEMA};
use crate::load::Load;
use crate::schema::Schema;
use crate::select::{Selection, select};
use crate::toc::{self, Entry, Section};
use crate::{Error, Limits, World, large_objects, orphans, preflight, properties, replay, server};

/// The most bytes of a schema, which is taken into memory.
const LARGEST_SCHEMA: u64 = 1 << 30;

/// Tables that are looked into with one statement.
const TABLES: usize = 200;

/// Sequences that are set with one statement.
const SEQUENCES: usize = 1000;

/// A relation of a user's, whichever.
pub(crate) const ANYTHING: &str = "SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)' LIMIT 1";

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
    fn has(&self, entry: &Entry) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.entries.contains(&entry.id))
    }

    fn has_table(&self, schema: &str, name: &str) -> bool {
        let name = (schema.to_owned(), name.to_owned());
        self.chosen.as_ref().is_none_or(|chosen| chosen.tables.contains(&name))
    }

    /// What a journal is called, so that nothing else goes on with it.
    fn title(&self, set: &Set) -> String {
        let rows = if self.options.data_only { ", rows only" } else { "" };
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
}

/// Restores a set into the database that `target` names.
pub async fn restore(
    vault: &Vault,
    target: &Target,
    options: &RestoreOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Restored, Error> {
    let started = Instant::now();
    let manifest = Catalog::read(vault).await?.find(&options.when)?.clone();
    let reader = open(vault, manifest.clone()).await?;
    let server = ServerDetail::deserialize(&manifest.detail).ok();
    let is_artefact = manifest.artefact.is_some();
    let mut restored = Restored {
        manifest,
        target: target.to_string(),
        resumed: false,
        left_out: Vec::new(),
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
            restored.manifest.totals = set.totals();
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
    restored.lacks = set.lacks(&mut connection, options, chosen.as_ref()).await?;
    if chosen.is_none() && !options.data_only && matches!(target.host, Host::Socket(_)) {
        restored.lacks.extend(preflight::room(&mut connection, set.detail.size).await?);
    }
    connection.close().await;
    restored.left_out = chosen.as_ref().map(|chosen| chosen.left_out.clone()).unwrap_or_default();
    if options.dry_run {
        return Ok(());
    }
    preflight::refuse(&restored.target, &restored.lacks)?;
    let what = What { options, chosen };
    let (place, resumed) = make(set, target, new, &what, world, progress).await?;
    restored.resumed = resumed;
    if let Some(name) = &place.rename {
        take_name(target, &place.target.database, name, exists).await?;
    }
    Ok(())
}

/// Makes everything, in a database of another name where it is `new`. Also returns whether an earlier restore was
/// continued.
pub(crate) async fn make(
    set: &Set,
    target: &Target,
    new: bool,
    what: &What<'_>,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<(Place, bool), Error> {
    let options = what.options;
    let mut place = set.place(target, new, what).await?;
    let mut connection = connect(&place.target, &set.detail.encoding).await?;
    let mut journal = begin(&mut connection, set, &place, what).await?;
    if let Some(known) = &journal
        && known.has_lost_rows(&mut connection).await?
    {
        connection.close().await;
        give_up(target, &place).await?;
        place = set.place(target, new, what).await?;
        connection = connect(&place.target, &set.detail.encoding).await?;
        journal = begin(&mut connection, set, &place, what).await?;
    }
    let mut resumed = true;
    if let Some(journal) = journal {
        resumed = journal.is_resumed();
        set.fill(&mut connection, &place.target, &journal, what, world, progress).await?;
        if place.rename.is_some() {
            let statements = properties::statements(&set.after.properties, &place.target.database, options.owners);
            connection.execute(&statements).await?;
        }
        // What was committed without waiting for the disk is behind this, which waits.
        connection.execute("SET synchronous_commit = on").await?;
        Journal::remove(&mut connection).await?;
    }
    connection.close().await;
    Ok((place, resumed))
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
    let alone = format!(
        "SET lock_timeout = '60s'; SELECT pg_advisory_unlock_shared({UNDER_WAY}); SELECT pg_advisory_lock({UNDER_WAY}); \
         SET lock_timeout = 0"
    );
    connection.execute(&alone).await.map_err(|error| error.about("another restore into this database"))
}

/// Lets the other sessions of this restore begin.
pub(crate) async fn be_one_of_us(connection: &mut Connection) -> Result<(), Error> {
    let shared = format!("SELECT pg_advisory_lock_shared({UNDER_WAY}); SELECT pg_advisory_unlock({UNDER_WAY})");
    connection.execute(&shared).await
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
    let journal = format!("SELECT 1 FROM pg_namespace WHERE nspname = {}", literal(SCHEMA));
    if connection.query(&journal).await?.is_empty()
        && let Some((relation, how)) = set.in_the_way(connection, what).await?
    {
        if place.rename.is_some() {
            return Ok(None);
        }
        let next = "name another database, or replace this one with --clean";
        return Err(refused("postgres.not-empty", format!("{relation} {how}"), next));
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

/// Opens a set of this engine.
pub(crate) async fn open(vault: &Vault, manifest: Manifest) -> Result<Arc<SetReader>, Error> {
    if manifest.engine != "postgres" {
        return Err(Error::Refused {
            code: "postgres.other-engine",
            object: format!("set {}", manifest.id),
            cause: format!("it is one of {}", manifest.engine),
            next: "restore it into such a server".to_owned(),
        });
    }
    Ok(Arc::new(SetReader::open(vault.clone(), manifest).await?))
}

/// One database of a set, opened.
pub(crate) struct Set {
    pub(crate) reader: Arc<SetReader>,
    /// Its name there, of a whole server's set.
    database: Option<String>,
    pub(crate) detail: SetDetail,
    pub(crate) items: Vec<ItemDetail>,
    pub(crate) schema: Schema,
    pub(crate) after: After,
    pub(crate) globals: Globals,
}

/// What is wrong with a set.
pub(crate) fn corrupt(reader: &SetReader, cause: impl Into<String>) -> Error {
    Error::Different { object: format!("set {}", reader.manifest().id), cause: cause.into() }
}

/// What the items of a set are, with those of other databases left out.
pub(crate) fn items(reader: &SetReader, database: Option<&str>) -> Result<Vec<ItemDetail>, Error> {
    let detail = |item: &Item| match (item.database.as_deref(), database) {
        (Some(its), Some(ours)) if its != ours => Ok(ItemDetail::Elsewhere),
        _ => ItemDetail::deserialize(&item.detail).map_err(|error| corrupt(reader, error.to_string())),
    };
    reader.index().items.iter().map(detail).collect()
}

/// A document of a set: the only item that is `wanted`.
pub(crate) async fn document<T: DeserializeOwned>(
    reader: &SetReader,
    items: &[ItemDetail],
    wanted: &ItemDetail,
) -> Result<Option<T>, Error> {
    let Some(place) = items.iter().position(|item| item == wanted) else { return Ok(None) };
    let bytes = reader.file(u32::try_from(place).unwrap_or(u32::MAX), LARGEST_SCHEMA).await?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| corrupt(reader, error.to_string()))
}

/// What a set says of what belongs to its server and to no database.
pub(crate) async fn globals_of(reader: &SetReader) -> Result<Globals, Error> {
    Ok(document(reader, &items(reader, Some(""))?, &ItemDetail::Globals).await?.unwrap_or_default())
}

impl Set {
    /// What a database that is to be called `name` is called until it is all there: the same restore finds the same name
    /// again, and goes on in it.
    pub(crate) fn unfinished_name(&self, what: &What<'_>, name: &str) -> String {
        let digest = Digest::of(format!("{}\0{name}", what.title(self)).as_bytes()).to_string();
        format!("seawall-{}", &digest[..16])
    }

    /// Opens a set of one database, or `database` of a whole server's.
    pub(crate) async fn open(reader: Arc<SetReader>, database: Option<&str>) -> Result<Self, Error> {
        let corrupt = |cause: String| corrupt(&reader, cause);
        let items = items(&reader, database)?;
        let detail = match database {
            None => SetDetail::deserialize(&reader.manifest().detail).map_err(|error| corrupt(error.to_string()))?,
            Some(_) => {
                let detail = document(&reader, &items, &ItemDetail::Database).await?;
                detail.ok_or_else(|| corrupt("it says nothing of this database".to_owned()))?
            }
        };
        let globals = globals_of(&reader).await?;
        if !matches!(detail.encoding.as_str(), "UTF8" | "SQL_ASCII") {
            return Err(corrupt(format!("its rows have the encoding {}", detail.encoding)));
        }
        let place = |wanted: &ItemDetail| items.iter().position(|item| item == wanted).map(|place| place as u32);
        let after = document(&reader, &items, &ItemDetail::After).await?;
        let (Some(schema), Some(after)) = (place(&ItemDetail::Schema), after) else {
            return Err(corrupt("it has no schema".to_owned()));
        };
        let schema = reader.file(schema, LARGEST_SCHEMA).await?;
        let schema = Schema::parse(schema, detail.pg_dump).map_err(|cause| corrupt(format!("its schema: {cause}")))?;
        Ok(Self { database: database.map(str::to_owned), detail, items, schema, after, globals, reader })
    }

    /// Sums over what is in it: of a whole server's set, over this database.
    pub(crate) fn totals(&self) -> Totals {
        let all = &self.reader.index().chunks;
        let is_ours =
            |frame: &Frame| self.items.get(frame.item as usize).is_some_and(|item| *item != ItemDetail::Elsewhere);
        let frames = || all.iter().flat_map(|chunk| &chunk.frames).filter(|frame| is_ours(frame));
        Totals {
            items: self.items.iter().filter(|item| **item != ItemDetail::Elsewhere).count() as u64,
            rows: frames().map(|frame| frame.rows).sum(),
            raw: frames().map(|frame| frame.raw).sum(),
            stored: frames().map(|frame| frame.stored).sum(),
            chunks: all.iter().filter(|chunk| chunk.frames.iter().any(is_ours)).count() as u64,
        }
    }

    /// Whether nothing is in it that a new database hasn't.
    pub(crate) fn is_empty(&self) -> bool {
        let usual = ["ENCODING", "STDSTRINGS", "SEARCHPATH"];
        let has_rows = |item: &ItemDetail| matches!(item, ItemDetail::Table { .. } | ItemDetail::LargeObjects);
        self.schema.entries.iter().all(|entry| usual.contains(&entry.kind.as_str())) && !self.items.iter().any(has_rows)
    }

    pub(crate) async fn lacks(
        &self,
        connection: &mut Connection,
        options: &RestoreOptions,
        chosen: Option<&Selection>,
    ) -> Result<Vec<preflight::Lack>, Error> {
        let made =
            |entry: &&Entry| !options.data_only && chosen.is_none_or(|chosen| chosen.entries.contains(&entry.id));
        let entries: Vec<Entry> = self.schema.entries.iter().filter(made).cloned().collect();
        let whole = chosen.is_none() && !options.data_only;
        let mut lacks =
            preflight::lacks(connection, &self.detail, &entries, &self.after, &self.globals, options.owners, whole)
                .await?;
        if options.data_only {
            lacks.extend(preflight::may_turn_triggers_off(connection).await?);
        }
        Ok(lacks)
    }

    /// Tables with rows, and whether they are restored.
    fn tables<'a>(&'a self, what: &'a What<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.items.iter().filter_map(|item| match item {
            ItemDetail::Table { schema, name, .. } if what.has_table(schema, name) => {
                Some((schema.as_str(), name.as_str()))
            }
            _ => None,
        })
    }

    /// A relation that is in a new restore's way, and how.
    pub(crate) async fn in_the_way(
        &self,
        connection: &mut Connection,
        what: &What<'_>,
    ) -> Result<Option<(String, &'static str)>, Error> {
        let (sql, how) = match (&what.chosen, what.options.data_only) {
            (_, true) => {
                let name = |(schema, name): (&str, &str)| {
                    let name = qualified(schema, name);
                    format!("(SELECT {} FROM ONLY {name} LIMIT 1)", literal(&name))
                };
                let all: Vec<String> = self.tables(what).map(name).collect();
                for some in all.chunks(TABLES) {
                    let sql = format!("SELECT * FROM ({}) AS found LIMIT 1", some.join(" UNION ALL "));
                    if let Some(row) = connection.query(&sql).await?.first() {
                        return Ok(Some((row.text(0).to_owned(), "has rows already")));
                    }
                }
                return Ok(None);
            }
            (Some(chosen), false) => {
                let name = |(schema, name): &(String, String)| literal(&qualified(schema, name));
                let names: Vec<String> = chosen.tables.iter().map(name).collect();
                let sql = format!(
                    "SELECT name FROM unnest(ARRAY[{}]) name WHERE to_regclass(name) IS NOT NULL",
                    names.join(", ")
                );
                (sql, "is there already")
            }
            (None, false) => (ANYTHING.to_owned(), "is in the database, which should be empty"),
        };
        Ok(connection.query(&sql).await?.first().map(|row| (row.text(0).to_owned(), how)))
    }

    /// Where to restore, made if it isn't there.
    async fn place(&self, target: &Target, new: bool, what: &What<'_>) -> Result<Place, Error> {
        if !new {
            return Ok(Place { target: target.clone(), rename: None });
        }
        let name = self.unfinished_name(what, &target.database);
        let mut connection = globals::connect(target).await?;
        let there = format!("SELECT 1 FROM pg_database WHERE datname = {}", literal(&name));
        if connection.query(&there).await?.is_empty() {
            let create = preflight::create_database(&name, &self.detail, connection.version);
            match connection.execute(&create).await {
                // An interrupted restore's own statement came to its end meanwhile.
                Err(error) if matches!(error.sqlstate(), Some("42P04" | "23505")) => {}
                made => made.map_err(|error| error.about(format!("database {}", target.database)))?,
            }
        }
        connection.close().await;
        Ok(Place { target: target.with_database(&name), rename: Some(target.database.clone()) })
    }

    /// All steps that the journal doesn't have.
    async fn fill(
        &self,
        connection: &mut Connection,
        target: &Target,
        journal: &Journal,
        what: &What<'_>,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<(), Error> {
        let (options, jobs) = (what.options, what.options.limits.jobs.max(1));
        let made = !options.data_only;
        if made && !journal.has("schema") {
            let first = |entry: &Entry| entry.section == Section::Before && !is_grant(entry) && what.has(entry);
            let script = self.schema.script(first, options, world).await?;
            Schema::run(connection, "schema", &script).await?;
        }
        if what.chosen.is_none() {
            large_objects::make(&self.after.large_objects, connection, journal, options.owners).await?;
        }
        progress.begin("load", Some(self.reader.manifest().totals.raw));
        let load = Load {
            target,
            encoding: &self.detail.encoding,
            reader: &self.reader,
            items: &self.items,
            wanted: self.items.iter().map(|item| self.is_loaded(item, what)).collect(),
            fresh: if made { self.of_the_schema() } else { Vec::new() },
            triggers: made,
            progress: &*progress,
        };
        load.run(journal, jobs).await?;
        progress.finish();
        self.set_sequences(connection, what).await?;
        progress.begin("indexes", None);
        if made {
            self.build(connection, target, journal, what, jobs, world).await?;
        } else {
            orphans::check(connection, self.tables(what)).await?;
        }
        let views = if what.chosen.is_none() { &self.after.refresh[..] } else { &[] };
        for view in views {
            let name = qualified(&view.schema, &view.name);
            let refresh = format!("REFRESH MATERIALIZED VIEW {name}");
            connection.execute(&refresh).await.map_err(|error| error.about(name))?;
        }
        let chosen: Vec<String> =
            what.chosen.iter().flat_map(|chosen| &chosen.tables).map(|(s, n)| qualified(s, n)).collect();
        connection.execute(&format!("ANALYZE {}", chosen.join(", "))).await?;
        progress.finish();
        Ok(())
    }

    /// For each item, whether it is a table of the schema. Those of extensions aren't, and may have rows from the start.
    fn of_the_schema(&self) -> Vec<bool> {
        let tables = self.schema.entries.iter().filter(|entry| entry.kind == "TABLE");
        let tables: BTreeSet<(&str, &str)> = tables.map(|entry| (entry.schema.as_str(), entry.tag.as_str())).collect();
        let is_one = |item: &ItemDetail| match item {
            ItemDetail::Table { schema, name, .. } => tables.contains(&(schema.as_str(), name.as_str())),
            _ => false,
        };
        self.items.iter().map(is_one).collect()
    }

    /// Whether an item's rows are loaded.
    fn is_loaded(&self, item: &ItemDetail, what: &What<'_>) -> bool {
        match item {
            ItemDetail::Table { schema, name, .. } => what.has_table(schema, name),
            ItemDetail::LargeObjects => what.chosen.is_none(),
            _ => false,
        }
    }

    async fn set_sequences(&self, connection: &mut Connection, what: &What<'_>) -> Result<(), Error> {
        let is_sequence = |entry: &&Entry| entry.kind == "SEQUENCE" && what.has(entry);
        let made: BTreeSet<(&str, &str)> = self
            .schema
            .entries
            .iter()
            .filter(is_sequence)
            .map(|entry| (entry.schema.as_str(), entry.tag.as_str()))
            .collect();
        // Those of extensions have no entry, and come with everything.
        let wanted = |sequence: &&crate::Sequence| {
            what.chosen.is_none() || made.contains(&(sequence.schema.as_str(), sequence.name.as_str()))
        };
        let wanted: Vec<&crate::Sequence> = self.after.sequences.iter().filter(wanted).collect();
        for some in wanted.chunks(SEQUENCES) {
            let set = |sequence: &&crate::Sequence| {
                let name = literal(&qualified(&sequence.schema, &sequence.name));
                format!("SELECT setval({name}, {}, {});", sequence.last, sequence.called)
            };
            connection.execute(&some.iter().map(set).collect::<String>()).await?;
        }
        Ok(())
    }

    /// Indexes and constraints, then everything else that comes after the rows.
    async fn build(
        &self,
        connection: &mut Connection,
        target: &Target,
        journal: &Journal,
        what: &What<'_>,
        jobs: usize,
        world: &World,
    ) -> Result<(), Error> {
        let mut heavy = toc::heavy(&self.schema.entries);
        heavy.retain(|(entry, _)| what.has(entry));
        let build = Build::new(connection, target, &self.detail.encoding, heavy.clone(), journal).await?;
        build.run(connection, jobs).await?;
        if journal.has("rest") {
            return Ok(());
        }
        // Grants come last: an index on an expression is made with the rights of its table's owner.
        let made: BTreeSet<u32> = heavy.iter().map(|(entry, _)| entry.id).collect();
        let last = |entry: &Entry| {
            let is_last = is_grant(entry) || (entry.section == Section::After && !made.contains(&entry.id));
            is_last && what.has(entry)
        };
        let script = self.schema.script(last, what.options, world).await?;
        Schema::run(connection, "rest", &script).await
    }
}

/// Whether an entry says who may do what.
fn is_grant(entry: &Entry) -> bool {
    matches!(entry.kind.as_str(), "ACL" | "DEFAULT ACL")
}
