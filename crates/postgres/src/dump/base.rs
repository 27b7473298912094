//! Making a set: of one database, or of every database of a server with what belongs to all of them.
//!
//! Each database is read from a snapshot of its own, because PostgreSQL has none that reaches over two. What changes
//! under the eyes of an attempt makes it begin anew, for that database alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use seawall_archive::names::ProofName;
use seawall_archive::{Budget, Catalog, Content, Facts, Record, Sample, SetId, SetWriter};
use seawall_core::{Moment, Progress};
use seawall_vault::Vault;
use tokio::time::Instant;

use crate::artefact::How;
use crate::catalog::binary;
use crate::catalog::globals::{self, Databases};
use crate::catalog::inventory::{self, Table};
use crate::catalog::pages;
use crate::catalog::snapshot::{self, Seen, Snapshot};
use crate::client::{Connection, Target, keepalives, session};
use crate::detail::{ItemDetail, ServerDetail, SetDetail};
use crate::dump::Readers;
use crate::error::Side;
use crate::items::{file, json, written};
use crate::journal;
use crate::tools::{self, Tool};
use crate::{AsText, CopyFormat, DumpOptions, Dumped, Error, Format, Limits, World, artefact, sample};

/// The oldest server that is known to work: pages can be read by ranges since then.
const OLDEST: u32 = 140_000;

/// How often a state is taken anew when what is read changes meanwhile.
const ATTEMPTS: u32 = 3;

/// Makes a set of the database that `target` names, or of the whole server when it names none, and lets it count.
///
/// # Errors
/// Whatever was skipped would be an error: a set that counts is complete.
pub async fn dump(
    target: &Target,
    vault: &Vault,
    options: &DumpOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Dumped, Error> {
    make_set(target, vault, options, world, progress).await.map_err(|error| error.during(Side::Backup))
}

async fn make_set(
    target: &Target,
    vault: &Vault,
    options: &DumpOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Dumped, Error> {
    let started = Instant::now();
    if options.format != Format::Native && target.database.is_empty() {
        return Err(artefact::of_a_server(target, options.format));
    }
    if options.format != Format::Native && options.sample.is_some() {
        return Err(artefact::of_a_sample(target, options.format));
    }
    let Limits { memory, jobs, .. } = options.limits;
    // Which rows are in a sample has to be remembered.
    let (budget, room) = match options.sample {
        Some(_) => Budget::beside(memory, jobs)?,
        None => (Budget::new(memory, jobs)?, 0),
    };
    let mut catalog = Catalog::read(vault).await?;
    let source = Source::look(target, options, world).await?;
    catalog.check_identity(&source.identity(options.sample))?;
    let id = SetId::new(world.clock.now(), world.nonce);
    let writer = SetWriter::begin(vault.clone(), id, options.codec, budget, Arc::clone(&progress));
    let base = Base {
        writer,
        source: &source,
        options,
        room,
        world,
        progress,
        invalid: Mutex::default(),
        journals: Mutex::default(),
    };
    let (point, detail, as_text) = if source.whole { base.server(target).await? } else { base.alone(target).await? };
    let facts = Facts {
        engine: "postgres",
        identity: source.identity(options.sample),
        tool: concat!("seawall ", env!("CARGO_PKG_VERSION")).to_owned(),
        point,
        artefact: (options.format != Format::Native).then(|| options.format.name().to_owned()),
        sample: options.sample,
        schedule: options.schedule.clone(),
        detail,
    };
    let manifest = base.writer.finish(facts, &*world.clock).await?;
    catalog.add(Record::Set(Box::new(manifest.clone()))).await?;
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let stages = base.writer.stages();
    let invalid = base.invalid.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
    let journals = base.journals.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
    let Source { whole, databases, left_out, .. } = source;
    Ok(Dumped { manifest, whole, databases, left_out, as_text, invalid, journals, stages, duration_ms })
}

/// What is known of the server before anything is read.
struct Source {
    version: u32,
    system_identifier: String,
    standby: bool,
    /// What is read.
    databases: Vec<String>,
    /// What isn't, because a restore that isn't done is in it, or a proof.
    left_out: Vec<String>,
    /// Whether that is all of the server.
    whole: bool,
    pg_dump: Tool,
}

impl Source {
    async fn look(target: &Target, options: &DumpOptions, world: &World) -> Result<Self, Error> {
        let mut connection = connect(target).await?;
        let version = connection.version;
        let pg_dump = tools::find("pg_dump", version / 10_000, &options.limits, &world.environment).await?;
        let row = connection
            .one("SELECT system_identifier, pg_catalog.pg_is_in_recovery() FROM pg_catalog.pg_control_system()")
            .await?;
        let Databases { read: databases, left_out } = databases(connection, target, options).await?;
        let system_identifier = row.text(0).to_owned();
        let whole = target.database.is_empty();
        Ok(Self { version, system_identifier, standby: row.flag(1), databases, left_out, whole, pg_dump })
    }

    /// Whose sets these are. No database has an empty name, so that a whole server is nothing else.
    fn identity(&self, sample: Option<Sample>) -> String {
        let database = if self.whole { "" } else { self.databases.first().map_or("", String::as_str) };
        let identity = format!("{}/{database}", self.system_identifier);
        sample.map_or(identity.clone(), |sample| sample.identity(&identity))
    }
}

/// Connects to the database that `target` names, or to any of a whole server. A server that is too old is refused.
pub(super) async fn connect(target: &Target) -> Result<Connection, Error> {
    let connection = match target.database.is_empty() {
        true => globals::connect(target).await?,
        false => Connection::open(target).await?,
    };
    if connection.version < OLDEST {
        return Err(too_old(target, connection.version));
    }
    Ok(connection)
}

/// The databases that a backup reads, and those that it leaves out: a database with an unfinished restore in it, or with a proof.
pub(super) async fn databases(
    mut connection: Connection,
    target: &Target,
    options: &DumpOptions,
) -> Result<Databases, Error> {
    if !target.database.is_empty() {
        let name = connection.one("SELECT pg_catalog.current_database()").await?.text(0).to_owned();
        connection.close().await;
        return Ok(Databases { read: vec![name], left_out: Vec::new() });
    }
    let Databases { read: all, mut left_out } = globals::databases(&mut connection, &options.excluded).await?;
    connection.close().await;
    let mut read = Vec::with_capacity(all.len());
    for database in all {
        let is_proofs = ProofName::of(&database).is_some();
        let is_left_out = is_proofs || journal::is_unfinished(&target.with_database(&database)).await?;
        if is_left_out { &mut left_out } else { &mut read }.push(database);
    }
    left_out.sort();
    Ok(Databases { read, left_out })
}

fn too_old(target: &Target, version: u32) -> Error {
    Error::Refused {
        code: "postgres.too-old",
        object: target.to_string(),
        cause: format!("the server is version {}, and 14 is the oldest that is known to work", version / 10_000),
        next: "use pg_dump".to_owned(),
    }
}

/// Whether it may go well the next time: a table changed or vanished, or its lock wasn't free. `pg_dump` says no more than
/// that it failed: that may be a change if it gets into the server at all, and what it can't stand fails again.
fn is_passing(error: &Error, tool_logs_in: Option<bool>) -> bool {
    match error {
        Error::ToolFailed { .. } => tool_logs_in != Some(false),
        Error::Refused { code, .. } => *code == "postgres.changing",
        _ => matches!(error.sqlstate(), Some("42P01" | "42703" | "3F000" | "40P01" | "55P03" | "XX000")),
    }
}

/// One database, read.
struct Taken {
    moment: Moment,
    detail: SetDetail,
    as_text: Vec<AsText>,
}

/// A set in the making.
struct Base<'a> {
    writer: SetWriter,
    source: &'a Source,
    options: &'a DumpOptions,
    /// Bytes of memory for which rows are in a sample.
    room: u64,
    world: &'a World,
    progress: Arc<dyn Progress>,
    /// Indexes that aren't in it, and the database of each.
    invalid: Mutex<BTreeSet<(String, String)>>,
    /// Journals of restores that aren't done, and the database of each.
    journals: Mutex<BTreeSet<(String, String)>>,
}

impl Base<'_> {
    /// One database.
    async fn alone(&self, target: &Target) -> Result<(Moment, serde_json::Value, Vec<AsText>), Error> {
        let Taken { moment, detail, as_text } = self.database(&self.writer, target).await?;
        Ok((moment, json(&detail)?, as_text))
    }

    /// Every database, one behind another, and what belongs to all of them.
    async fn server(&self, target: &Target) -> Result<(Moment, serde_json::Value, Vec<AsText>), Error> {
        let mut connection = globals::connect(target).await?;
        let moment = self.world.clock.now();
        let mut globals = globals::read(&mut connection, self.options.role_passwords).await?;
        for space in &mut globals.tablespaces {
            if let Some((_, noted)) = self.options.places.iter().find(|(place, _)| *place == space.location) {
                space.location.clone_from(noted);
            }
        }
        connection.close().await;
        file(&self.writer, "globals.json", &ItemDetail::Globals, &globals).await?;
        let mut all_as_text = Vec::new();
        for database in &self.source.databases {
            let writer = self.writer.of(database);
            let Taken { detail, as_text, .. } = self.database(&writer, &target.with_database(database)).await?;
            all_as_text.extend(as_text);
            file(&writer, "database.json", &ItemDetail::Database, &detail).await?;
        }
        let Source { version, system_identifier, standby, databases, .. } = self.source;
        let detail = ServerDetail {
            server_version: *version,
            system_identifier: system_identifier.clone(),
            standby: *standby,
            databases: databases.clone(),
        };
        Ok((moment, json(&detail)?, all_as_text))
    }

    /// One database, as often as something changes meanwhile, but no more than three times.
    async fn database(&self, writer: &SetWriter, target: &Target) -> Result<Taken, Error> {
        let mark = writer.mark();
        let mut attempt = 1;
        loop {
            let error = match self.read(writer, target).await {
                Err(error) if attempt < ATTEMPTS => error,
                done => return done,
            };
            let tool_logs_in = match &error {
                Error::ToolFailed { .. } => self.source.pg_dump.logs_in(target).await,
                _ => None,
            };
            if !is_passing(&error, tool_logs_in) {
                return Err(error);
            }
            let database = &target.database;
            tracing::warn!(attempt, database, "begun anew; a change meanwhile may be the cause: {error}");
            writer.go_back(mark);
            attempt += 1;
        }
    }

    /// One attempt: everything is in the vault, and nothing counts yet.
    async fn read(&self, writer: &SetWriter, target: &Target) -> Result<Taken, Error> {
        let mut snapshot = snapshot::take(target, self.world).await?;
        let (database, locale, size, extensions) = inventory::database(&mut snapshot.connection).await?;
        for index in inventory::invalid_indexes(&mut snapshot.connection).await? {
            tracing::warn!(database, index, "left out: an invalid index");
            self.invalid.lock().unwrap_or_else(PoisonError::into_inner).insert((database.clone(), index));
        }
        let journals = journal::all(&mut snapshot.connection).await?;
        for schema in &journals {
            tracing::warn!(database, schema, "left out: the journal of a restore that isn't done");
            let mut all = self.journals.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert((database.clone(), schema.clone()));
        }
        let block_size = snapshot.connection.one("SHOW block_size").await?.number(0);
        let total: u64 = snapshot.tables.iter().map(|table| table.bytes).sum();
        self.progress.begin(&format!("dump {database}"), self.options.sample.is_none().then_some(total));
        let tool = &self.source.pg_dump;
        let Snapshot { mut connection, name, lsn, standby, moment, system_identifier, mut tables } = snapshot;
        let encoding = connection.encoding.name();
        let as_text = match (self.options.format, self.options.copy) {
            (Format::Native, CopyFormat::Binary) => in_binary(&mut connection, &database, &mut tables).await?,
            _ => Vec::new(),
        };
        let options = session::deviations(&mut connection, self.options.format != Format::Native).await?;
        let target = &target.with_options(options);
        let seen = Seen { target, snapshot: &name, encoding, journals: &journals };
        let connection = match self.options.format {
            Format::Native => self.rows(writer, seen, connection, tables).await?,
            format => {
                let (jobs, world, progress) = (self.options.limits.jobs, self.world, &*self.progress);
                let how = How { format, jobs, tables: total, world, progress };
                artefact::write(writer, tool, seen, &mut connection, how).await?;
                connection
            }
        };
        connection.close().await;
        self.progress.finish();
        let detail = SetDetail {
            database,
            server_version: self.source.version,
            system_identifier,
            lsn,
            standby,
            encoding: encoding.to_owned(),
            pg_dump: tool.major,
            locale,
            size,
            extensions,
            block_size: pages::noted(block_size),
        };
        Ok(Taken { moment, detail, as_text })
    }

    /// The schema, everybody's rows and what comes behind them. The connection that holds the snapshot is returned.
    async fn rows(
        &self,
        writer: &SetWriter,
        seen: Seen<'_>,
        mut connection: Connection,
        tables: Vec<Table>,
    ) -> Result<Connection, Error> {
        let after = inventory::after(&mut connection).await?;
        let schema = schema(writer, &self.source.pg_dump, seen);
        let behind = file(writer, "after.json", &ItemDetail::After, &after);
        let read = async {
            let choices = match self.options.sample {
                Some(sample) => sample::choose(&mut connection, &tables, sample, self.room).await?,
                None => Vec::new(),
            };
            let objects = !after.large_objects.is_empty();
            let readers = Readers::new(writer, seen.target, seen.snapshot, tables, choices, objects)?;
            readers.run(connection, self.options.limits.jobs).await
        };
        let (connection, (), ()) = tokio::try_join!(read, schema, behind)?;
        Ok(connection)
    }
}

/// Has tables read in binary that can be, and returns the others.
async fn in_binary(connection: &mut Connection, database: &str, tables: &mut [Table]) -> Result<Vec<AsText>, Error> {
    let kinds = inventory::kinds(connection).await?;
    let mut others = Vec::new();
    for (place, table) in tables.iter_mut().enumerate() {
        match binary::forms(&table.types, &kinds) {
            Ok(forms) => table.binary = forms,
            Err(Some(column)) => others.push((place, column)),
            Err(None) => {}
        }
    }
    let types: Vec<u32> = others.iter().map(|(table, column)| tables[*table].types[*column]).collect();
    let names = inventory::names_of_types(connection, &types).await?;
    let as_text = |(table, column): (usize, usize)| {
        let table = &tables[table];
        let r#type = names.get(&table.types[column]).cloned().unwrap_or_default();
        AsText { database: database.to_owned(), table: table.shown(), column: table.columns[column].clone(), r#type }
    };
    Ok(others.into_iter().map(as_text).collect())
}

/// How `pg_dump` is asked for a schema.
pub(crate) fn schema_arguments(encoding: &str) -> Vec<String> {
    let always = ["--schema-only", "--format=custom", "--compress=0", "--no-password", "--lock-wait-timeout=3s"];
    let mut arguments: Vec<String> = always.map(str::to_owned).into();
    arguments.push(format!("--encoding={encoding}"));
    arguments.push(keepalives());
    arguments
}

/// The schema, as `pg_dump` writes it.
async fn schema(writer: &SetWriter, tool: &Tool, seen: Seen<'_>) -> Result<(), Error> {
    let item = writer.item("schema.dump", Content::File, json(&ItemDetail::Schema)?);
    let mut arguments = schema_arguments(seen.encoding);
    arguments.extend(seen.arguments());
    written(writer, item, tool.start(seen.target, &arguments)?).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerError;

    #[test]
    fn what_is_tried_again() {
        let tool = || Error::ToolFailed { tool: "pg_dump".into(), cause: "exit status: 1".into() };
        let refused = |code| Error::Refused { code, object: "o".into(), cause: "c".into(), next: "n".into() };
        let server = |code: &str| Error::Server {
            object: "o".into(),
            error: ServerError { code: code.into(), message: "no".into(), detail: None, hint: None },
        };
        for (error, logs_in, passing) in [
            (tool(), Some(true), true),
            (tool(), Some(false), false),
            (tool(), None, true),
            (refused("postgres.changing"), None, true),
            (refused("postgres.not-ready"), None, false),
            (server("42P01"), None, true),
            (server("55P03"), None, true),
            (server("28P01"), None, false),
            (server("42501"), None, false),
            (Error::Connection { server: "s".into(), cause: "c".into() }, None, false),
        ] {
            assert_eq!(is_passing(&error, logs_in), passing, "{error} {logs_in:?}");
        }
    }
}
