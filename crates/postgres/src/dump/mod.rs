//! Reading one database's rows into a set, with several connections that see one snapshot.
//!
//! The connection that holds the snapshot reads as well. It has every lock already, so it takes over the tables that
//! another connection couldn't lock at once: behind a waiting `ALTER` that connection would wait for the `ALTER`, and the
//! `ALTER` for us.
//!
//! The room: `base` (a whole set), `plan` (in which pieces is a table read?), `ready` (what would refuse a backup or a proof?),
//! `too_large` (which row has no text?).

pub(crate) mod base;
pub(crate) mod plan;
pub(crate) mod ready;
pub(crate) mod too_large;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use seawall_archive::split::Span;
use seawall_archive::{Content, Lane, SetWriter, Stage};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::catalog::inventory::Table;
use crate::catalog::snapshot;
use crate::client::{Connection, Filled, Target};
use crate::detail::ItemDetail;
use crate::dump::plan::{Part, Work, work};
use crate::items::json;
use crate::quote::ident;
use crate::sample::Choice;
use crate::{CopyFormat, Error};

/// The pages of large objects, in order.
pub(crate) const LARGE_OBJECTS: &str =
    "COPY (SELECT loid, pageno, data FROM pg_catalog.pg_largeobject ORDER BY loid, pageno) TO STDOUT";

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
pub(crate) struct Readers<'a> {
    writer: &'a SetWriter,
    target: &'a Target,
    snapshot: &'a str,
    tables: Vec<Table>,
    /// Of a sample, what is read of each table.
    choices: Vec<Choice>,
    /// The item of each table.
    items: Vec<u32>,
    large_objects: Option<u32>,
    queue: Mutex<Queue>,
    changed: Notify,
}

impl<'a> Readers<'a> {
    pub(crate) fn new(
        writer: &'a SetWriter,
        target: &'a Target,
        snapshot: &'a str,
        tables: Vec<Table>,
        choices: Vec<Choice>,
        large_objects: bool,
    ) -> Result<Self, Error> {
        let mut items = Vec::with_capacity(tables.len());
        for table in &tables {
            let Table { schema, name, columns, binary, .. } = table.clone();
            let content = match table.format() {
                CopyFormat::Text => Content::Lines,
                CopyFormat::Binary => Content::Tuples,
            };
            let detail = json(&ItemDetail::Table { schema, name, columns, binary })?;
            let item = writer.item(table.shown(), content, detail);
            writer.expect(item, table.bytes);
            items.push(item);
        }
        let mut jobs: VecDeque<Job> = work(&tables, &choices).into_iter().map(Job::Rows).collect();
        let large_objects = match large_objects {
            true => Some(writer.item("large objects", Content::Lines, json(&ItemDetail::LargeObjects)?)),
            false => None,
        };
        if large_objects.is_some() {
            jobs.push_front(Job::LargeObjects);
        }
        let queue = Mutex::new(Queue { jobs, refused: VecDeque::new(), others: 0 });
        Ok(Self { writer, target, snapshot, tables, choices, items, large_objects, queue, changed: Notify::new() })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads everything with `jobs` connections, of which `holder` is one. It is returned, its transaction still open.
    pub(crate) async fn run(&self, mut holder: Connection, jobs: usize) -> Result<Connection, Error> {
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
            let mut lane = self.writer.lane();
            loop {
                let _turn = self.writer.turn().await;
                let Some(job) = self.queue().jobs.pop_front() else { break };
                if self.lock(&mut connection, job).await? {
                    self.read(&mut connection, &mut lane, job).await?;
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
        let mut lane = self.writer.lane();
        loop {
            let turn = self.writer.turn().await;
            let (job, waiting) = {
                let mut queue = self.queue();
                let job = queue.refused.pop_front().or_else(|| queue.jobs.pop_front());
                (job, queue.others > 0)
            };
            match job {
                Some(job) => self.read(connection, &mut lane, job).await?,
                None if waiting => {
                    // The others need it for what is left.
                    drop(turn);
                    self.changed.notified().await;
                }
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

    /// The statement that reads a piece of work.
    fn statement(&self, work: Work) -> Result<String, Error> {
        let condition = match work.part {
            Part::Whole => None,
            Part::Pages(Span { first, end: Some(end) }) => {
                Some(format!("WHERE ctid >= '({first},0)' AND ctid < '({end},0)'"))
            }
            Part::Pages(Span { first, end: None }) => Some(format!("WHERE ctid >= '({first},0)'")),
            Part::Chosen(groups) => {
                let places = self.choices.get(work.table).and_then(|choice| choice.places(groups));
                let places = places.ok_or_else(|| Error::Internal("rows were chosen of no table".to_owned()))?;
                Some(format!("WHERE ctid = ANY ({places})"))
            }
        };
        Ok(copy(&self.tables[work.table], condition.as_deref()))
    }

    /// Why a job failed.
    async fn explain(&self, job: Job, error: Error) -> Error {
        match job {
            Job::Rows(work) => too_large::explain(self.target, &self.tables[work.table], error).await,
            Job::LargeObjects => error,
        }
    }

    /// Reads one job into a lane.
    async fn read(&self, connection: &mut Connection, lane: &mut Lane, job: Job) -> Result<(), Error> {
        let (item, sql, format, about, bytes) = match (job, self.large_objects) {
            (Job::Rows(work), _) => {
                let (table, item) = (&self.tables[work.table], self.items[work.table]);
                (item, self.statement(work)?, table.format(), table.shown(), work.bytes)
            }
            (Job::LargeObjects, Some(item)) => {
                (item, LARGE_OBJECTS.to_owned(), CopyFormat::Text, "large objects".to_owned(), u64::MAX)
            }
            (Job::LargeObjects, None) => return Ok(()),
        };
        lane.begin(item, bytes).await?;
        let mut rows = match connection.copy_out(&sql, format).await {
            Ok(rows) => rows,
            Err(error) => return Err(self.explain(job, error.about(&*about)).await),
        };
        loop {
            let mut buffer = lane.buffer().await?;
            let started = Instant::now();
            let (filled, count) = match rows.fill(&mut buffer).await {
                Ok(filled) => filled,
                Err(error) => return Err(self.explain(job, error.about(&*about)).await),
            };
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

/// The statement that reads a table, or those of its rows for which a condition holds.
pub(crate) fn copy(table: &Table, condition: Option<&str>) -> String {
    let columns: Vec<String> = table.columns.iter().map(|column| ident(column)).collect();
    let (columns, name) = (columns.join(", "), table.sql());
    let condition = condition.or(table.condition.as_deref()).unwrap_or_default();
    let options = match table.format() {
        CopyFormat::Text => "",
        CopyFormat::Binary => " (FORMAT binary)",
    };
    // A query would be planned, and that runs functions of the table's indexes.
    if condition.is_empty() {
        let columns = if columns.is_empty() { String::new() } else { format!(" ({columns})") };
        return format!("COPY {name}{columns} TO STDOUT{options}");
    }
    format!("COPY (SELECT {columns} FROM ONLY {name} {condition}) TO STDOUT{options}")
}
