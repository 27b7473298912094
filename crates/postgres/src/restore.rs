//! A set back into a server: schema, rows, indexes and constraints, what comes behind them, statistics.
//!
//! A database that doesn't exist is made under a name of its own and gets the wanted one when everything is there (I8).
//! One that exists must be empty, or is replaced, with `clean`, at that moment and not before. Each step is noted in a
//! journal inside the target, in the step's own transaction; the same command goes on where an earlier one was
//! interrupted. Only settings of our own sessions are ever changed.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Arc;

use seawall_archive::{Catalog, Digest, Manifest, SetReader};
use seawall_core::{Progress, When};
use seawall_vault::Vault;
use serde::Deserialize as _;
use tokio::time::Instant;

use crate::build::Build;
use crate::client::quote::{ident, literal, qualified};
use crate::client::{Connection, Target};
use crate::detail::{After, ItemDetail, SetDetail};
use crate::journal::{Journal, SCHEMA};
use crate::load::Load;
use crate::toc::{self, Entry, Section};
use crate::{Error, Limits, World, preflight, properties, tools};

/// The most bytes of a schema, which is taken into memory.
const LARGEST_SCHEMA: u64 = 1 << 30;

/// Large objects that are made in one transaction: each may hold a lock.
const LARGE_OBJECTS: usize = 1000;

/// The advisory lock that every session of a restore shares.
const UNDER_WAY: u32 = 0x5ea_a11;

/// How to restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// Which set.
    pub when: When,
    /// Replace a database that is there already.
    pub clean: bool,
    /// Restore owners and grants; without, everything belongs to who restores.
    pub owners: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// How much of the machine.
    pub limits: Limits,
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
    connection
        .execute(&format!(
            "SELECT pg_advisory_lock_shared({UNDER_WAY}); SET client_encoding = {}; SET lock_timeout = 0; SET synchronous_commit = off; SET row_security = off; \
             SET check_function_bodies = off; SET xmloption = content; SET datestyle = ISO; \
             SELECT pg_catalog.set_config('search_path', '', false)",
            literal(encoding)
        ))
        .await?;
    Ok(connection)
}

/// Where the restore goes, and what is to be done with it in the end.
struct Place {
    /// The database that is written to.
    target: Target,
    /// The name that it gets in the end, if it is another one.
    rename: Option<String>,
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
    if target.database.is_empty() {
        let next = "write postgresql://ROLE@HOST:PORT/DATABASE".to_owned();
        let cause = "no database is named to restore into".to_owned();
        return Err(Error::Url { object: target.to_string(), cause, next });
    }
    let manifest = Catalog::read(vault).await?.find(&options.when)?.clone();
    let set = Set::open(vault, manifest.clone()).await?;
    let mut restored = Restored {
        manifest,
        target: target.to_string(),
        resumed: false,
        dry_run: options.dry_run,
        lacks: Vec::new(),
        duration_ms: 0,
    };
    let exists = match Connection::open(target).await {
        Ok(mut connection) => {
            let lacks = set.lacks(&mut connection, options).await?;
            restored.lacks = lacks;
            connection.close().await;
            true
        }
        Err(error) if error.sqlstate() == Some("3D000") => {
            let mut connection = Connection::open(&target.with_database("postgres")).await?;
            restored.lacks = set.lacks(&mut connection, options).await?;
            connection.close().await;
            false
        }
        Err(error) => return Err(error),
    };
    if options.dry_run {
        return Ok(restored);
    }
    preflight::refuse(&restored.target, &restored.lacks)?;
    let place = set.place(target, exists, options).await?;
    let mut connection = connect(&place.target, &set.detail.encoding).await?;
    if let Some(journal) = begin(&mut connection, &set, &place).await? {
        restored.resumed = journal.has("schema");
        set.fill(&mut connection, &place.target, &journal, options, world, progress).await?;
        if place.rename.is_some() {
            let statements = properties::statements(&set.after.properties, &place.target.database, options.owners);
            connection.execute(&statements).await?;
        }
        // What was committed without waiting for the disk is behind this, which waits.
        connection.execute("SET synchronous_commit = on").await?;
        Journal::remove(&mut connection).await?;
    } else {
        restored.resumed = true;
    }
    connection.close().await;
    if let Some(name) = &place.rename {
        take_name(target, &place.target.database, name, exists).await?;
    }
    restored.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(restored)
}

/// The journal of this restore; an empty database gets one, any other is refused. `None` for a database of ours that is
/// whole and has not got its name yet.
async fn begin(connection: &mut Connection, set: &Set, place: &Place) -> Result<Option<Journal>, Error> {
    // What an interrupted restore left running on the server holds this until it ends, and so does another restore.
    let alone = format!(
        "SET lock_timeout = '60s'; SELECT pg_advisory_unlock_shared({UNDER_WAY}); SELECT pg_advisory_lock({UNDER_WAY}); \
         SET lock_timeout = 0"
    );
    connection.execute(&alone).await.map_err(|error| error.about("another restore into this database"))?;
    let journal = find_journal(connection, set, place).await?;
    let shared = format!("SELECT pg_advisory_lock_shared({UNDER_WAY}); SELECT pg_advisory_unlock({UNDER_WAY})");
    connection.execute(&shared).await?;
    Ok(journal)
}

async fn find_journal(connection: &mut Connection, set: &Set, place: &Place) -> Result<Option<Journal>, Error> {
    let target = &place.target;
    let refused = |code, cause: String, next: &str| Error::Refused {
        code,
        object: target.to_string(),
        cause,
        next: next.to_owned(),
    };
    let sql = "SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)' LIMIT 1";
    let in_use = connection.query(sql).await?;
    let journal = format!("SELECT 1 FROM pg_namespace WHERE nspname = {}", literal(SCHEMA));
    if !in_use.is_empty() && connection.query(&journal).await?.is_empty() {
        if place.rename.is_some() {
            return Ok(None);
        }
        let cause = format!("the database is not empty: it has {}", in_use[0].text(0));
        return Err(refused("postgres.not-empty", cause, "name another database, or replace this one with --clean"));
    }
    match Journal::open(connection, &set.reader.manifest().id.to_string()).await? {
        Some(journal) => Ok(Some(journal)),
        None => {
            let cause = "a restore of another set was begun in it".to_owned();
            let next = "finish that with the same --at, or drop the database and start again";
            Err(refused("postgres.other-restore", cause, next))
        }
    }
}

/// Gives the finished database its name; the one that had it is dropped in this moment.
async fn take_name(target: &Target, made: &str, name: &str, exists: bool) -> Result<(), Error> {
    let mut connection = Connection::open(&target.with_database("postgres")).await?;
    if exists {
        let drop = format!("DROP DATABASE {}", ident(name));
        connection.execute(&drop).await.map_err(|error| error.about(format!("database {name}")))?;
    }
    let rename = format!("ALTER DATABASE {} RENAME TO {}", ident(made), ident(name));
    connection.execute(&rename).await.map_err(|error| error.about(format!("database {made}")))?;
    connection.close().await;
    Ok(())
}

/// A set of this engine, opened.
struct Set {
    reader: Arc<SetReader>,
    detail: SetDetail,
    items: Vec<ItemDetail>,
    schema: Vec<u8>,
    entries: Vec<Entry>,
    after: After,
}

impl Set {
    async fn open(vault: &Vault, manifest: Manifest) -> Result<Self, Error> {
        let corrupt = |cause: String| Error::Different { object: format!("set {}", manifest.id), cause };
        if manifest.engine != "postgres" {
            return Err(Error::Refused {
                code: "postgres.other-engine",
                object: format!("set {}", manifest.id),
                cause: format!("it is one of {}", manifest.engine),
                next: "restore it into such a server".to_owned(),
            });
        }
        let detail = SetDetail::deserialize(&manifest.detail).map_err(|error| corrupt(error.to_string()))?;
        if !matches!(detail.encoding.as_str(), "UTF8" | "SQL_ASCII") {
            return Err(corrupt(format!("its rows have the encoding {}", detail.encoding)));
        }
        let reader = Arc::new(SetReader::open(vault.clone(), manifest.clone()).await?);
        let items = reader.index().items.iter().map(|item| ItemDetail::deserialize(&item.detail));
        let items: Vec<ItemDetail> = items.collect::<Result<_, _>>().map_err(|error| corrupt(error.to_string()))?;
        let place = |wanted: &ItemDetail| items.iter().position(|item| item == wanted).map(|place| place as u32);
        let (Some(schema), Some(after)) = (place(&ItemDetail::Schema), place(&ItemDetail::After)) else {
            return Err(corrupt("it has no schema".to_owned()));
        };
        let schema = reader.file(schema, LARGEST_SCHEMA).await?;
        let entries = toc::parse(&schema).map_err(|cause| corrupt(format!("its schema: {cause}")))?;
        let after = reader.file(after, LARGEST_SCHEMA).await?;
        let after = serde_json::from_slice(&after).map_err(|error| corrupt(error.to_string()))?;
        Ok(Self { reader, detail, items, schema, entries, after })
    }

    async fn lacks(
        &self,
        connection: &mut Connection,
        options: &RestoreOptions,
    ) -> Result<Vec<preflight::Lack>, Error> {
        preflight::lacks(connection, &self.detail, &self.entries, &self.after, options.owners).await
    }

    /// Where to restore, made if it isn't there.
    async fn place(&self, target: &Target, exists: bool, options: &RestoreOptions) -> Result<Place, Error> {
        if exists && !options.clean {
            return Ok(Place { target: target.clone(), rename: None });
        }
        // The same restore finds the same name again, and goes on in it.
        let digest = Digest::of(format!("{}\0{}", self.reader.manifest().id, target.database).as_bytes()).to_string();
        let name = format!("seawall-{}", &digest[..16]);
        let mut connection = Connection::open(&target.with_database("postgres")).await?;
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
        options: &RestoreOptions,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<(), Error> {
        let jobs = options.limits.jobs.max(1);
        let heavy = toc::heavy(&self.entries);
        if !journal.has("schema") {
            let first = |entry: &Entry| entry.section == Section::Before && !is_grant(entry);
            let script = self.script(first, options, world).await?;
            self.run_script(connection, "schema", &script).await?;
        }
        self.make_large_objects(connection, journal, options.owners).await?;
        progress.begin("load", Some(self.reader.manifest().totals.raw));
        let load = Load {
            target,
            encoding: &self.detail.encoding,
            reader: &self.reader,
            items: &self.items,
            progress: &*progress,
        };
        load.run(journal, jobs).await?;
        progress.finish();
        for some in self.after.sequences.chunks(LARGE_OBJECTS) {
            let set = |sequence: &crate::Sequence| {
                let name = literal(&qualified(&sequence.schema, &sequence.name));
                format!("SELECT setval({name}, {}, {});", sequence.last, sequence.called)
            };
            connection.execute(&some.iter().map(set).collect::<String>()).await?;
        }
        progress.begin("indexes", None);
        let build = Build::new(connection, target, &self.detail.encoding, heavy.clone(), journal).await?;
        build.run(connection, jobs).await?;
        if !journal.has("rest") {
            // Grants come last: an index on an expression is made with the rights of its table's owner.
            let made: BTreeSet<u32> = heavy.iter().map(|(entry, _)| entry.id).collect();
            let last =
                |entry: &Entry| is_grant(entry) || (entry.section == Section::After && !made.contains(&entry.id));
            let script = self.script(last, options, world).await?;
            self.run_script(connection, "rest", &script).await?;
        }
        for view in &self.after.refresh {
            let name = qualified(&view.schema, &view.name);
            let refresh = format!("REFRESH MATERIALIZED VIEW {name}");
            connection.execute(&refresh).await.map_err(|error| error.about(name))?;
        }
        connection.execute("ANALYZE").await?;
        progress.finish();
        Ok(())
    }

    /// What `pg_restore` makes of some entries of the schema: SQL.
    async fn script(
        &self,
        wanted: impl Fn(&Entry) -> bool,
        options: &RestoreOptions,
        world: &World,
    ) -> Result<String, Error> {
        let io = |error: std::io::Error| Error::Io { path: "a temporary file".to_owned(), cause: error.to_string() };
        let tool = tools::find("pg_restore", self.detail.pg_dump, &options.limits, &world.environment).await?;
        // Made for this user alone, and gone with its handle.
        let mut archive = tempfile::NamedTempFile::new().map_err(io)?;
        archive.write_all(&self.schema).map_err(io)?;
        let mut list = tempfile::NamedTempFile::new().map_err(io)?;
        for entry in self.entries.iter().filter(|entry| wanted(entry)) {
            writeln!(list, "{};", entry.id).map_err(io)?;
        }
        let mut all = vec!["--file=-".to_owned(), format!("--use-list={}", list.path().display())];
        if !options.owners {
            all.extend(["--no-owner".to_owned(), "--no-privileges".to_owned()]);
        }
        all.push(archive.path().display().to_string());
        let mut running = tool.run(&all)?;
        let mut text = Vec::new();
        loop {
            text.reserve(1 << 20);
            if !running.read(&mut text).await? {
                break;
            }
        }
        running.finish().await?;
        String::from_utf8(text).map_err(|_| Error::Different {
            object: "the schema".to_owned(),
            cause: "its text is not UTF-8".to_owned(),
        })
    }

    /// Runs a script of `pg_restore` in one transaction with its note.
    async fn run_script(&self, connection: &mut Connection, step: &str, script: &str) -> Result<(), Error> {
        // Words for psql, which isn't used: they stand alone on the first line and the last.
        let plain: String = script
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("\\restrict ") && !line.starts_with("\\unrestrict "))
            .collect();
        let note = Journal::note(step);
        let all = format!("BEGIN;\n{plain}\n;\n{note};\nCOMMIT");
        connection.execute(&all).await.map_err(|error| error.about("the schema"))?;
        // The script sets a few things of its own.
        connection.execute("SET row_security = off; SET lock_timeout = 0; SET synchronous_commit = off").await
    }

    /// Makes large objects, empty, with owner, grants and comment.
    async fn make_large_objects(
        &self,
        connection: &mut Connection,
        journal: &Journal,
        owners: bool,
    ) -> Result<(), Error> {
        for (number, some) in self.after.large_objects.chunks(LARGE_OBJECTS).enumerate() {
            let step = format!("large objects {number}");
            if journal.has(&step) {
                continue;
            }
            let made: String = some.iter().map(|object| large_object(object, owners)).collect();
            let sql = format!("BEGIN; {made} {}; COMMIT", Journal::note(&step));
            connection.execute(&sql).await.map_err(|error| error.about("large objects"))?;
        }
        Ok(())
    }
}

/// Whether an entry says who may do what.
fn is_grant(entry: &Entry) -> bool {
    matches!(entry.kind.as_str(), "ACL" | "DEFAULT ACL")
}

/// The statements that make one large object.
fn large_object(object: &crate::LargeObject, owners: bool) -> String {
    let oid = object.oid;
    let mut sql = format!("SELECT lo_create({oid});\n");
    if let Some(comment) = &object.comment {
        sql.push_str(&format!("COMMENT ON LARGE OBJECT {oid} IS {};\n", literal(comment)));
    }
    if !owners {
        return sql;
    }
    if let Some(grants) = &object.grants {
        sql.push_str(&format!("REVOKE ALL ON LARGE OBJECT {oid} FROM CURRENT_USER;\n"));
        for (grantee, privilege, grantable) in grants {
            let privilege = if privilege == "UPDATE" { "UPDATE" } else { "SELECT" };
            let grantee = if grantee.is_empty() { "PUBLIC".to_owned() } else { ident(grantee) };
            let option = if *grantable { " WITH GRANT OPTION" } else { "" };
            sql.push_str(&format!("GRANT {privilege} ON LARGE OBJECT {oid} TO {grantee}{option};\n"));
        }
    }
    sql.push_str(&format!("ALTER LARGE OBJECT {oid} OWNER TO {};\n", ident(&object.owner)));
    sql
}
