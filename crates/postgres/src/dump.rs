//! Making a set of one database: schema, rows, and what comes behind them, all of one snapshot.
//!
//! The connection that holds the snapshot reads as well. It has every lock already, so it takes over the tables that
//! another connection couldn't lock at once: behind a waiting `ALTER` that connection would wait for the `ALTER`, and the
//! `ALTER` for us.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use seawall_archive::{Budget, Catalog, Content, Facts, Lane, Manifest, Record, SetId, SetWriter, Stage, Stages};
use seawall_core::Progress;
use seawall_vault::Vault;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::client::quote::ident;
use crate::client::{Connection, Filled, Target};
use crate::detail::{ItemDetail, SetDetail};
use crate::inventory::{self, Table};
use crate::plan::{Pages, Work, work};
use crate::snapshot::{self, Snapshot};
use crate::tools::{self, Tool};
use crate::{DumpOptions, Error, World};

/// The oldest server that is known to work: pages can be read by ranges since then.
const OLDEST: u32 = 140_000;

/// A set that was made.
#[derive(Debug, Clone)]
pub struct Dumped {
    /// What the chain says of it.
    pub manifest: Manifest,
    /// Where the time went.
    pub stages: Stages,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

/// How often a state is taken anew when what is read changes meanwhile.
const ATTEMPTS: u32 = 3;

/// Makes a set of the database that `target` names, and lets it count.
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
    let started = Instant::now();
    let mut attempt = 1;
    let (mut catalog, mut dumped) = loop {
        match read(target, vault, options, world, &progress).await {
            Err(error) if attempt < ATTEMPTS && is_passing(&error) => {
                tracing::warn!(attempt, "begun anew, because something changed: {error}");
                attempt += 1;
            }
            done => break done?,
        }
    };
    catalog.add(Record::Set(Box::new(dumped.manifest.clone()))).await?;
    dumped.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(dumped)
}

/// Whether it may go well the next time: a table changed or vanished, or its lock wasn't free. `pg_dump` says no more than
/// that it failed; what it can't stand fails again.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Refused { code: "postgres.changing", .. } | Error::ToolFailed { .. })
        || matches!(error.sqlstate(), Some("42P01" | "42703" | "3F000" | "40P01" | "55P03" | "XX000"))
}

/// One attempt: everything is in the vault, and nothing counts yet.
async fn read(
    target: &Target,
    vault: &Vault,
    options: &DumpOptions,
    world: &World,
    progress: &Arc<dyn Progress>,
) -> Result<(Catalog, Dumped), Error> {
    let budget = Budget::new(options.limits.memory, options.limits.jobs)?;
    let catalog = Catalog::read(vault).await?;
    let mut snapshot = snapshot::take(target, world).await?;
    let version = snapshot.connection.version;
    if version < OLDEST {
        return Err(too_old(target, version));
    }
    let tool = tools::find("pg_dump", version / 10_000, &options.limits, &world.environment).await?;
    let (database, locale, size, extensions) = inventory::database(&mut snapshot.connection).await?;
    let identity = format!("{}/{database}", snapshot.system_identifier);
    catalog.check_identity(&identity)?;
    let after = inventory::after(&mut snapshot.connection).await?;

    let id = SetId::new(snapshot.moment, world.nonce);
    let writer = SetWriter::begin(vault.clone(), id, options.codec, budget, Arc::clone(progress));
    progress.begin("dump", Some(snapshot.tables.iter().map(|table| table.bytes).sum()));
    let Snapshot { connection, name, lsn, standby, moment, system_identifier, encoding, tables } = snapshot;
    let schema = schema(&writer, &tool, target, &name, &encoding);
    let behind = file(&writer, "after.json", &ItemDetail::After, &after);
    let readers = Readers::new(&writer, target, &name, tables, !after.large_objects.is_empty())?;
    let (connection, (), ()) = tokio::try_join!(readers.run(connection, options.limits.jobs), schema, behind)?;
    connection.close().await;
    progress.finish();

    let detail = SetDetail {
        database,
        server_version: version,
        system_identifier,
        lsn,
        standby,
        encoding,
        pg_dump: tool.major,
        locale,
        size,
        extensions,
    };
    let facts = Facts {
        engine: "postgres",
        identity,
        tool: concat!("seawall ", env!("CARGO_PKG_VERSION")).to_owned(),
        point: moment,
        detail: json(&detail)?,
    };
    let manifest = writer.finish(facts, &*world.clock).await?;
    Ok((catalog, Dumped { manifest, stages: writer.stages(), duration_ms: 0 }))
}

fn too_old(target: &Target, version: u32) -> Error {
    Error::Refused {
        code: "postgres.too-old",
        object: target.to_string(),
        cause: format!("the server is version {}, and 14 is the oldest that is known to work", version / 10_000),
        next: "use pg_dump".to_owned(),
    }
}

fn json(value: &impl Serialize) -> Result<serde_json::Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::Internal(format!("a document can't be written: {error}")))
}

/// The schema, as `pg_dump` writes it.
async fn schema(writer: &SetWriter, tool: &Tool, target: &Target, snapshot: &str, encoding: &str) -> Result<(), Error> {
    let item = writer.item("schema.dump", Content::File, json(&ItemDetail::Schema)?);
    let arguments = [
        "--schema-only",
        "--format=custom",
        "--compress=0",
        "--no-password",
        "--lock-wait-timeout=3s",
        &format!("--encoding={encoding}"),
        &format!("--snapshot={snapshot}"),
    ];
    let mut running = tool.start(target, &arguments.map(str::to_owned))?;
    let mut lane = writer.lane();
    loop {
        let mut buffer = lane.buffer().await?;
        let more = running.read(&mut buffer).await?;
        lane.push(item, 0, buffer).await?;
        if !more {
            break;
        }
    }
    running.finish().await?;
    Ok(lane.finish().await?)
}

/// A small file of our own.
async fn file(writer: &SetWriter, name: &str, detail: &ItemDetail, content: &impl Serialize) -> Result<(), Error> {
    let item = writer.item(name, Content::File, json(detail)?);
    let bytes = serde_json::to_vec(content);
    let bytes = bytes.map_err(|error| Error::Internal(format!("a document can't be written: {error}")))?;
    let mut lane = writer.lane();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let mut buffer = lane.buffer().await?;
        let (part, others) = rest.split_at(rest.len().min(buffer.capacity()));
        buffer.extend_from_slice(part);
        rest = others;
        lane.push(item, 0, buffer).await?;
    }
    Ok(lane.finish().await?)
}

/// One COPY.
#[derive(Debug, Clone, Copy)]
enum Job {
    Rows(Work),
    LargeObjects,
}

/// What is still to be read, and by whom.
struct Queue {
    jobs: VecDeque<Job>,
    /// What only the connection that holds the snapshot can read.
    refused: VecDeque<Job>,
    /// Connections that may still refuse something.
    others: usize,
}

/// All connections that read, and what they share.
struct Readers<'a> {
    writer: &'a SetWriter,
    target: &'a Target,
    snapshot: &'a str,
    tables: Vec<Table>,
    /// The item of each table.
    items: Vec<u32>,
    large_objects: Option<u32>,
    queue: Mutex<Queue>,
    changed: Notify,
}

impl<'a> Readers<'a> {
    fn new(
        writer: &'a SetWriter,
        target: &'a Target,
        snapshot: &'a str,
        tables: Vec<Table>,
        large_objects: bool,
    ) -> Result<Self, Error> {
        let mut items = Vec::with_capacity(tables.len());
        for table in &tables {
            let (schema, name, columns) = (table.schema.clone(), table.name.clone(), table.columns.clone());
            let detail = json(&ItemDetail::Table { schema, name, columns })?;
            items.push(writer.item(table.shown(), Content::Lines, detail));
        }
        let mut jobs: VecDeque<Job> = work(&tables).into_iter().map(Job::Rows).collect();
        let large_objects = match large_objects {
            true => Some(writer.item("large objects", Content::Lines, json(&ItemDetail::LargeObjects)?)),
            false => None,
        };
        if large_objects.is_some() {
            jobs.push_front(Job::LargeObjects);
        }
        let queue = Mutex::new(Queue { jobs, refused: VecDeque::new(), others: 0 });
        Ok(Self { writer, target, snapshot, tables, items, large_objects, queue, changed: Notify::new() })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads everything with `jobs` connections, of which `holder` is one. It is returned, its transaction still open.
    async fn run(&self, mut holder: Connection, jobs: usize) -> Result<Connection, Error> {
        let others = jobs.saturating_sub(1).min(self.queue().jobs.len());
        self.queue().others = others;
        let others = try_join_all((0..others).map(|_| self.other()));
        tokio::try_join!(self.hold(&mut holder), others)?;
        Ok(holder)
    }

    /// One of the other connections.
    async fn other(&self) -> Result<(), Error> {
        let read = async {
            let mut connection = Connection::open(self.target).await?;
            snapshot::prepare(&mut connection).await?;
            snapshot::join(&mut connection, self.snapshot).await?;
            let (mut lane, mut last) = (self.writer.lane(), None);
            loop {
                let Some(job) = self.queue().jobs.pop_front() else { break };
                if self.lock(&mut connection, job).await? {
                    self.read(&mut connection, &mut lane, &mut last, job).await?;
                } else {
                    self.queue().refused.push_back(job);
                    self.changed.notify_one();
                    snapshot::join(&mut connection, self.snapshot).await?;
                }
            }
            connection.close().await;
            Ok(lane.finish().await?)
        };
        let done = read.await;
        self.queue().others -= 1;
        self.changed.notify_one();
        done
    }

    /// The connection that holds the snapshot: it reads as the others do, and then what they couldn't.
    async fn hold(&self, connection: &mut Connection) -> Result<(), Error> {
        let (mut lane, mut last) = (self.writer.lane(), None);
        loop {
            let (job, waiting) = {
                let mut queue = self.queue();
                let job = queue.refused.pop_front().or_else(|| queue.jobs.pop_front());
                (job, queue.others > 0)
            };
            match job {
                Some(job) => self.read(connection, &mut lane, &mut last, job).await?,
                None if waiting => self.changed.notified().await,
                None => return Ok(lane.finish().await?),
            }
        }
    }

    /// Locks what a job reads, unless somebody waits for it to be free.
    async fn lock(&self, connection: &mut Connection, job: Job) -> Result<bool, Error> {
        let Job::Rows(work) = job else { return Ok(true) };
        let table = &self.tables[work.table];
        let lock = format!("LOCK TABLE ONLY {} IN ACCESS SHARE MODE NOWAIT", table.sql());
        match connection.execute(&lock).await {
            Ok(()) => Ok(true),
            Err(error) if error.sqlstate() == Some("55P03") => Ok(false),
            Err(error) => Err(error.about(table.shown())),
        }
    }

    /// Reads one job into a lane, whose last item and whether that has chunks of its own are in `last`.
    async fn read(
        &self,
        connection: &mut Connection,
        lane: &mut Lane,
        last: &mut Option<(u32, bool)>,
        job: Job,
    ) -> Result<(), Error> {
        let (item, sql, about, alone) = match (job, self.large_objects) {
            (Job::Rows(work), _) => {
                let table = &self.tables[work.table];
                (self.items[work.table], copy(table, work.pages), table.shown(), self.writer.fills_a_chunk(work.bytes))
            }
            (Job::LargeObjects, Some(item)) => {
                let sql = "COPY (SELECT loid, pageno, data FROM pg_largeobject ORDER BY loid, pageno) TO STDOUT";
                (item, sql.to_owned(), "large objects".to_owned(), true)
            }
            (Job::LargeObjects, None) => return Ok(()),
        };
        // A large table's chunks hold nothing else.
        if last.replace((item, alone)).is_some_and(|(other, was_alone)| other != item && (alone || was_alone)) {
            lane.cut().await?;
        }
        let mut rows = connection.copy_out(&sql).await.map_err(|error| error.about(&*about))?;
        loop {
            let mut buffer = lane.buffer().await?;
            let started = Instant::now();
            let (filled, count) = rows.fill(&mut buffer).await.map_err(|error| error.about(&*about))?;
            lane.waited(Stage::Server, started.elapsed());
            if buffer.is_empty() {
                lane.unused(buffer);
            } else if filled == Filled::Within {
                lane.push_open(item, count, buffer).await?;
            } else {
                lane.push(item, count, buffer).await?;
            }
            if filled == Filled::Done {
                break;
            }
        }
        Ok(())
    }
}

/// The statement that reads a table, or some of its pages.
fn copy(table: &Table, pages: Option<Pages>) -> String {
    let columns: Vec<String> = table.columns.iter().map(|column| ident(column)).collect();
    let (columns, name) = (columns.join(", "), table.sql());
    let condition = match pages {
        Some(Pages { first, end: Some(end) }) => format!("WHERE ctid >= '({first},0)' AND ctid < '({end},0)'"),
        Some(Pages { first, end: None }) => format!("WHERE ctid >= '({first},0)'"),
        None => table.condition.clone().unwrap_or_default(),
    };
    // A plain COPY is a little cheaper for the server than one of a query, and does the same.
    if condition.is_empty() && !columns.is_empty() {
        return format!("COPY {name} ({columns}) TO STDOUT");
    }
    format!("COPY (SELECT {columns} FROM ONLY {name} {condition}) TO STDOUT")
}
