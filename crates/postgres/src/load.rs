//! Rows back into tables: one transaction for each unit of chunks, noted in the journal by the same transaction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::try_join_all;
use seawall_archive::{Frame, SetReader};
use seawall_core::Progress;
use tokio::task::JoinHandle;

use crate::client::quote::{ident, qualified};
use crate::client::{Connection, Target};
use crate::detail::ItemDetail;
use crate::journal::{Journal, SCHEMA};
use crate::units::{Unit, units};
use crate::{Error, restore};

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

    /// The statement that takes an item's rows, and what it is called.
    async fn statement(
        &self,
        connection: &mut Connection,
        unit: &Unit,
        item: u32,
        worker: &Worker,
    ) -> Result<Option<(String, String)>, Error> {
        match self.items.get(item as usize) {
            Some(ItemDetail::Table { schema, name, columns }) => {
                let columns: Vec<String> = columns.iter().map(|column| ident(column)).collect();
                let columns = if columns.is_empty() { String::new() } else { format!("({})", columns.join(", ")) };
                let (table, about) = (qualified(schema, name), format!("{schema}.{name}"));
                let frozen = if unit.frozen.contains(&item) { "(FREEZE)" } else { "" };
                if !frozen.is_empty() {
                    // It is empty. A table that its own transaction has emptied can take frozen rows.
                    connection
                        .execute(&format!("TRUNCATE ONLY {table}"))
                        .await
                        .map_err(|error| error.about(&*about))?;
                }
                Ok(Some((format!("COPY {table} {columns} FROM STDIN {frozen}"), about)))
            }
            Some(ItemDetail::LargeObjects) => {
                let pages = &worker.pages;
                let make = format!("CREATE UNLOGGED TABLE IF NOT EXISTS {pages} (oid oid, page bigint, data bytea)");
                connection.execute(&make).await?;
                Ok(Some((format!("COPY {pages} FROM STDIN"), "large objects".to_owned())))
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
        let Some((sql, about)) = statement else { return frames.next().await };
        let spare = &mut worker.spare;
        let mut copying = connection.copy_in(&sql).await.map_err(|error| error.about(&*about))?;
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
                let raw = copying.send(raw).await.map_err(|error| error.about(&*about))?;
                self.progress.advance(size);
                self.progress.part(&about, Some(self.reader.size(item)), size);
                Ok(Some(raw))
            };
            let (decoded, sent) = tokio::try_join!(decode, send)?;
            spare.extend(sent);
            ready = decoded;
            if ready.is_none() {
                break;
            }
        }
        let loaded = copying.finish().await.map_err(|error| error.about(&*about))?;
        if loaded != expected {
            let cause = format!("the server took {loaded} rows of a unit, and it holds {expected}");
            return Err(Error::Different { object: about, cause });
        }
        if self.items.get(item as usize) == Some(&ItemDetail::LargeObjects) {
            let pages = &worker.pages;
            // The objects themselves are there already, empty.
            let write = format!("SELECT count(lo_put(oid, page * 2048, data)) FROM {pages}; TRUNCATE {pages}");
            connection.execute(&write).await.map_err(|error| error.about(&*about))?;
        }
        Ok(next)
    }

    async fn decode(&self, stored: Stored, mut raw: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (reader, Stored { number, frame, bytes }) = (Arc::clone(self.reader), stored);
        let job = tokio::task::spawn_blocking(move || reader.decode(number, &frame, &bytes, &mut raw).map(|()| raw));
        Ok(job.await.map_err(panicked)??)
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
