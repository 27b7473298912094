//! Rows back into tables: one transaction for each unit of chunks, noted in the journal by the same transaction.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::try_join_all;
use seawall_archive::{Frame, SetReader};
use seawall_core::Progress;
use tokio::task::JoinHandle;

use crate::binary::misfit;
use crate::client::quote::{ident, qualified};
use crate::client::{Connection, Target, binary};
use crate::detail::ItemDetail;
use crate::journal::{Journal, SCHEMA};
use crate::units::{Unit, units};
use crate::{Error, inventory, restore};

/// What is loaded, and by whom.
pub(crate) struct Load<'a> {
    pub(crate) target: &'a Target,
    pub(crate) encoding: &'a str,
    pub(crate) reader: &'a Arc<SetReader>,
    /// What each item is.
    pub(crate) items: &'a [ItemDetail],
    /// Whether the rows of each are loaded.
    pub(crate) wanted: Vec<bool>,
    /// Whether each is a table that this restore has made, and nobody else has written to.
    pub(crate) fresh: Vec<bool>,
    /// Whether triggers fire: where there are none yet, it makes no difference.
    pub(crate) triggers: bool,
    pub(crate) progress: &'a dyn Progress,
}

impl Load<'_> {
    /// Loads every unit that the journal doesn't have, with `jobs` connections.
    pub(crate) async fn run(&self, journal: &Journal, jobs: usize) -> Result<(), Error> {
        let index = self.reader.index();
        let unwanted = |frame: &&Frame| !self.is_wanted(frame);
        let frames = || index.chunks.iter().flat_map(|chunk| &chunk.frames);
        self.progress.advance(frames().filter(unwanted).map(|frame| frame.raw).sum());
        let (done, left): (VecDeque<Unit>, VecDeque<Unit>) = units(index, &self.wanted, &self.fresh, jobs)
            .into_iter()
            .partition(|unit| unit.chunks.iter().any(|number| journal.has(&step(*number))));
        let of_chunk = |number: &u32| index.chunks.get(*number as usize).into_iter().flat_map(|chunk| &chunk.frames);
        let loaded = done.iter().flat_map(|unit| &unit.chunks).flat_map(of_chunk);
        self.progress.advance(loaded.filter(|frame| self.is_wanted(frame)).map(|frame| frame.raw).sum());
        let jobs = jobs.min(left.len());
        let wanted = self.items.iter().zip(&self.wanted).filter(|(_, wanted)| **wanted);
        fits(self.target, wanted.map(|(item, _)| item)).await?;
        let left = Mutex::new(left);
        try_join_all((0..jobs).map(|number| self.worker(number, &left))).await.map(drop)
    }

    fn is_wanted(&self, frame: &Frame) -> bool {
        self.wanted.get(frame.item as usize).copied().unwrap_or(false)
    }

    async fn worker(&self, number: usize, left: &Mutex<VecDeque<Unit>>) -> Result<(), Error> {
        let mut connection = restore::connect(self.target, self.encoding).await?;
        if !self.triggers {
            // They fired when the rows were written the first time. It turns foreign keys off as well: see `orphans`.
            connection.execute("SET session_replication_role = replica").await?;
        }
        let mut worker = Worker { pages: format!("{SCHEMA}.pages_{number}"), spare: Vec::new() };
        let mut frames = Frames::new(self.reader, left);
        while let Some(unit) = frames.unit() {
            self.load(&mut connection, &unit, &mut frames, &mut worker).await?;
        }
        connection.close().await;
        Ok(())
    }

    /// Loads a unit, in one transaction.
    async fn load(
        &self,
        connection: &mut Connection,
        unit: &Unit,
        frames: &mut Frames<'_>,
        worker: &mut Worker,
    ) -> Result<(), Error> {
        connection.execute("BEGIN").await?;
        let mut next = frames.next().await?;
        while let Some(first) = next {
            next = match self.is_wanted(&first.frame) {
                true => self.copy(connection, unit, first, frames, worker).await?,
                false => frames.next().await?,
            };
        }
        let notes: Vec<String> = unit.chunks.iter().map(|number| Journal::note(&step(*number))).collect();
        connection.execute(&format!("{}; COMMIT", notes.join("; "))).await
    }

    /// The statement that takes an item's rows.
    async fn statement(
        &self,
        connection: &mut Connection,
        unit: &Unit,
        item: u32,
        worker: &Worker,
    ) -> Result<Option<Statement>, Error> {
        match self.items.get(item as usize) {
            Some(ItemDetail::Table { schema, name, columns, binary }) => {
                let columns: Vec<String> = columns.iter().map(|column| ident(column)).collect();
                let columns = if columns.is_empty() { String::new() } else { format!("({})", columns.join(", ")) };
                let (table, about) = (qualified(schema, name), format!("{schema}.{name}"));
                let is_frozen = unit.frozen.contains(&item);
                if is_frozen {
                    // It is empty. A table that its own transaction has emptied can take frozen rows.
                    connection
                        .execute(&format!("TRUNCATE ONLY {table}"))
                        .await
                        .map_err(|error| error.about(&*about))?;
                }
                let options = match (is_frozen, binary.is_empty()) {
                    (false, true) => "",
                    (true, true) => "(FREEZE)",
                    (false, false) => "(FORMAT binary)",
                    (true, false) => "(FREEZE, FORMAT binary)",
                };
                let sql = format!("COPY {table} {columns} FROM STDIN {options}");
                Ok(Some(Statement { sql, about, is_binary: !binary.is_empty() }))
            }
            Some(ItemDetail::LargeObjects) => {
                let pages = &worker.pages;
                let make = format!("CREATE UNLOGGED TABLE IF NOT EXISTS {pages} (oid oid, page bigint, data bytea)");
                connection.execute(&make).await?;
                let (sql, about) = (format!("COPY {pages} FROM STDIN"), "large objects".to_owned());
                Ok(Some(Statement { sql, about, is_binary: false }))
            }
            _ => Ok(None),
        }
    }

    /// Loads frames of one item, one behind another, and returns the first that isn't one of them.
    async fn copy(
        &self,
        connection: &mut Connection,
        unit: &Unit,
        first: Stored,
        frames: &mut Frames<'_>,
        worker: &mut Worker,
    ) -> Result<Option<Stored>, Error> {
        let item = first.frame.item;
        let statement = self.statement(connection, unit, item, worker).await?;
        let Some(statement) = statement else { return frames.next().await };
        let spare = &mut worker.spare;
        let failed = |error| statement.failed(error);
        let mut copying = connection.copy_in(&statement.sql).await.map_err(failed)?;
        if statement.is_binary {
            copying.send_bytes(&binary::HEADER).await.map_err(failed)?;
        }
        let mut expected = 0;
        let mut ready: Option<Vec<u8>> = None;
        let mut next = Some(first);
        loop {
            // One frame is decompressed while the one before it is sent.
            let decode = async {
                let of_item = |stored: &mut Stored| stored.frame.item == item;
                let Some(stored) = next.take_if(of_item) else { return Ok::<_, Error>(None) };
                expected += stored.frame.rows;
                let raw = self.decode(stored, spare.pop().unwrap_or_default()).await?;
                next = frames.next().await?;
                Ok(Some(raw))
            };
            let send = async {
                let Some(raw) = ready.take() else { return Ok::<_, Error>(None) };
                let size = raw.len() as u64;
                let raw = copying.send(raw).await.map_err(failed)?;
                self.progress.advance(size);
                self.progress.part(&statement.about, Some(self.reader.size(item)), size);
                Ok(Some(raw))
            };
            let (decoded, sent) = tokio::try_join!(decode, send)?;
            spare.extend(sent);
            ready = decoded;
            if ready.is_none() {
                break;
            }
        }
        if statement.is_binary {
            copying.send_bytes(&binary::TRAILER).await.map_err(failed)?;
        }
        let loaded = copying.finish().await.map_err(failed)?;
        if loaded != expected {
            let cause = format!("the server took {loaded} rows of a unit, and it holds {expected}");
            return Err(Error::Different { object: statement.about, cause });
        }
        if self.items.get(item as usize) == Some(&ItemDetail::LargeObjects) {
            let pages = &worker.pages;
            // The objects themselves are there already, empty.
            let write = format!("SELECT count(lo_put(oid, page * 2048, data)) FROM {pages}; TRUNCATE {pages}");
            connection.execute(&write).await.map_err(failed)?;
        }
        Ok(next)
    }

    async fn decode(&self, stored: Stored, mut raw: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (reader, Stored { number, frame, bytes }) = (Arc::clone(self.reader), stored);
        let job = tokio::task::spawn_blocking(move || reader.decode(number, &frame, &bytes, &mut raw).map(|()| raw));
        Ok(job.await.map_err(panicked)??)
    }
}

/// Insists that tables have the columns whose values are in binary in a set: no server notices all that don't fit.
pub(crate) async fn fits(target: &Target, items: impl Iterator<Item = &ItemDetail>) -> Result<(), Error> {
    let in_binary: Vec<_> = items
        .filter_map(|item| match item {
            ItemDetail::Table { schema, name, columns, binary } if !binary.is_empty() => {
                Some(((schema, name), columns, binary))
            }
            _ => None,
        })
        .collect();
    if in_binary.is_empty() {
        return Ok(());
    }
    let mut connection = Connection::open(target).await?;
    let (tables, kinds) = (inventory::tables(&mut connection).await?, inventory::kinds(&mut connection).await?);
    connection.close().await;
    let tables: BTreeMap<_, _> = tables.iter().map(|table| ((&table.schema, &table.name), table)).collect();
    for (name, columns, forms) in in_binary {
        let misfit = match tables.get(&name) {
            Some(table) => misfit(columns, forms, table, &kinds),
            None => Some("it is no table of the target".to_owned()),
        };
        if let Some(cause) = misfit {
            return Err(Error::Refused {
                code: "postgres.other-types",
                object: format!("{}.{}", name.0, name.1),
                cause,
                next:
                    "restore the table into another database, with its own columns, or a set made without --copy binary"
                        .to_owned(),
            });
        }
    }
    Ok(())
}

/// A statement that takes rows.
struct Statement {
    sql: String,
    /// What the rows are called.
    about: String,
    is_binary: bool,
}

impl Statement {
    /// Why the server didn't take them.
    fn failed(&self, error: Error) -> Error {
        match error.sqlstate() {
            // A number of columns, a length or a value that can't be; the last one is what a value that is too short gives.
            Some("22P03" | "22P04" | "08P01") if self.is_binary => Error::Different {
                object: self.about.clone(),
                cause: format!("its rows in the set are not what COPY reads in binary: {}", error.cause()),
            },
            _ => error.about(&*self.about),
        }
    }
}

/// What one connection keeps from unit to unit.
struct Worker {
    /// The table in which pages of large objects wait until they are written. No temporary one: the schema of that would
    /// stay in the database for ever.
    pages: String,
    /// Buffers for rows.
    spare: Vec<Vec<u8>>,
}

/// A frame as it is in a chunk.
struct Stored {
    number: u32,
    frame: Frame,
    bytes: Bytes,
}

/// The frames of one connection's units, one behind another. While a chunk is loaded, the next one is read.
struct Frames<'a> {
    reader: &'a Arc<SetReader>,
    left: &'a Mutex<VecDeque<Unit>>,
    /// The chunk at hand: its number, how many of its frames are done, and the bytes of the others.
    chunk: (u32, usize, Bytes),
    /// What is left of the unit at hand.
    numbers: VecDeque<u32>,
    /// The unit after that.
    following: Option<Unit>,
    /// The chunk after the one at hand, of either unit.
    ahead: Option<JoinHandle<Result<Bytes, seawall_archive::Error>>>,
}

impl<'a> Frames<'a> {
    fn new(reader: &'a Arc<SetReader>, left: &'a Mutex<VecDeque<Unit>>) -> Self {
        let mut frames = Self {
            reader,
            left,
            chunk: (u32::MAX, 0, Bytes::new()),
            numbers: VecDeque::new(),
            following: None,
            ahead: None,
        };
        frames.read_ahead();
        frames
    }

    /// The next unit; its frames are next.
    fn unit(&mut self) -> Option<Unit> {
        let unit = self.following.take()?;
        self.numbers = unit.chunks.iter().copied().collect();
        Some(unit)
    }

    /// Begins to read the chunk that comes next.
    fn read_ahead(&mut self) {
        let number = self.numbers.front().copied().or_else(|| {
            self.following = self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            self.following.as_ref()?.chunks.first().copied()
        });
        let Some(number) = number else { return };
        let reader = Arc::clone(self.reader);
        self.ahead = Some(tokio::spawn(async move { reader.chunk(number).await.map(|(_, bytes)| bytes) }));
    }

    /// The next frame of the unit at hand.
    async fn next(&mut self) -> Result<Option<Stored>, Error> {
        loop {
            let (number, done, bytes) = &mut self.chunk;
            let chunk = self.reader.index().chunks.get(*number as usize);
            if let Some(frame) = chunk.and_then(|chunk| chunk.frames.get(*done)) {
                *done += 1;
                let size = usize::try_from(frame.stored).unwrap_or(usize::MAX).min(bytes.len());
                return Ok(Some(Stored { number: *number, frame: *frame, bytes: bytes.split_to(size) }));
            }
            let Some(number) = self.numbers.pop_front() else { return Ok(None) };
            let Some(ahead) = self.ahead.take() else {
                return Err(Error::Internal("a chunk was not read ahead".to_owned()));
            };
            self.chunk = (number, 0, ahead.await.map_err(panicked)??);
            self.read_ahead();
        }
    }
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::Internal(format!("a job ended in a panic: {error}"))
}

fn step(number: u32) -> String {
    format!("chunk {number}")
}
