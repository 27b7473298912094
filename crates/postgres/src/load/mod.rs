//! Rows back into tables: one transaction for each unit of chunks, noted in the journal by the same transaction.
//!
//! The room: `units` (which chunks make one transaction?), `held` (are tables still tables?), `order` and `orphans` (tables that have their keys already), `routed`
//! (rows that go through a parent), `replica`, `triggers` and `restore_mode` (what must not fire), `large_objects`.

pub(crate) mod held;
pub(crate) mod large_objects;
pub(crate) mod order;
pub(crate) mod orphans;
pub(crate) mod replica;
pub(crate) mod restore_mode;
pub(crate) mod routed;
pub(crate) mod triggers;
pub(crate) mod units;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::try_join_all;
use seawall_archive::{Chunk, Frame, Index, SetReader};
use seawall_core::{Panicked, Progress, blocking};
use tokio::task::JoinHandle;

use crate::catalog::inventory;
use crate::client::quote::{ident, qualified};
use crate::client::{Connection, Target, binary};
use crate::detail::ItemDetail;
use crate::dump::binary::misfit;
use crate::load::routed::Named;
use crate::load::triggers::Triggers;
use crate::load::units::{Unit, units};
use crate::restore::journal::Journal;
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
    /// The table that takes the rows of each, if it is one.
    pub(crate) into: Vec<Option<Named>>,
    /// Whether the tables were there before: others may put something else in their places.
    pub(crate) found: bool,
    /// Whether triggers and foreign keys are off.
    pub(crate) quiet: bool,
    /// Whether all rows are one COPY: those of a table whose keys refer to itself, and are checked when that ends.
    pub(crate) alone: bool,
    /// Those that fire all the same.
    pub(crate) triggers: Triggers,
    /// Bytes of a page of large objects, in the source.
    pub(crate) page: u64,
    /// What is loaded already.
    pub(crate) journal: &'a Journal,
    pub(crate) progress: &'a dyn Progress,
}

impl Load<'_> {
    /// Loads every unit that the journal doesn't have, with `jobs` connections.
    pub(crate) async fn run(&self, connection: &mut Connection, jobs: usize) -> Result<(), Error> {
        let (index, done) = (self.reader.index(), self.journal.chunks());
        let chunks = || (0..).zip(&index.chunks);
        let is_wanted = |frame: &&Frame| self.is_wanted(frame);
        let passed = chunks().filter(|(number, _)| done.contains(number)).flat_map(|(_, chunk)| &chunk.frames);
        self.progress.advance(passed.filter(is_wanted).map(|frame| frame.raw).sum());
        let left: VecDeque<Unit> = match self.alone {
            true => {
                let holds = |(number, chunk): &(u32, &Chunk)| {
                    !done.contains(number) && chunk.frames.iter().any(|frame| self.is_wanted(frame))
                };
                let chunks: Vec<u32> = chunks().filter(holds).map(|(number, _)| number).collect();
                let unit = Unit { chunks, frozen: Vec::new() };
                (!unit.chunks.is_empty()).then_some(unit).into_iter().collect()
            }
            false => units(index, &self.wanted, &self.fresh, &done, jobs).into(),
        };
        let jobs = jobs.min(left.len());
        let wanted = self.items.iter().zip(&self.wanted).filter(|(_, wanted)| **wanted);
        fits(self.target, wanted.map(|(item, _)| item)).await?;
        let left = Mutex::new(left);
        try_join_all((0..jobs).map(|number| self.worker(number, &left))).await?;
        self.check(connection).await
    }

    /// Insists that all is loaded: every wanted chunk is noted, and of each item as many rows as the set has.
    async fn check(&self, connection: &mut Connection) -> Result<(), Error> {
        let (chunks, rows) = self.journal.loaded(connection).await?;
        let missing = lacking(self.reader.index(), &self.wanted, &chunks, &rows);
        let Some(Lacking { item, loaded, expected }) = missing else { return Ok(()) };
        let object = match self.items.get(item as usize) {
            Some(ItemDetail::Table { schema, name, .. }) => format!("{schema}.{name}"),
            _ => "large objects".to_owned(),
        };
        let cause = format!("{loaded} of its rows are noted as loaded, and the set has {expected}");
        Err(Error::Different { object, cause })
    }

    fn is_wanted(&self, frame: &Frame) -> bool {
        self.wanted.get(frame.item as usize).copied().unwrap_or(false)
    }

    async fn worker(&self, number: usize, left: &Mutex<VecDeque<Unit>>) -> Result<(), Error> {
        let mut connection = restore::connect(self.target, self.encoding).await?;
        if self.quiet {
            // Triggers fired when the rows were written the first time. Foreign keys are off as well: see `orphans`.
            connection.execute("SET session_replication_role = replica").await?;
        }
        let mut worker = Worker { pages: format!("{}.pages_{number}", self.journal.schema), spare: Vec::new() };
        let mut frames = Frames::new(self.reader, left, &self.wanted);
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
        let (off, on) = self.triggers.off_and_on(self.tables(unit));
        connection.execute(&format!("BEGIN; {off}")).await?;
        if self.found {
            held::hold(connection, self.tables(unit).map(|(schema, name)| (&**schema, &**name))).await?;
        }
        let mut next = frames.next().await?;
        while let Some(first) = next {
            next = self.copy(connection, unit, first, frames, worker).await?;
        }
        let notes: Vec<String> = unit.chunks.iter().map(|number| self.journal.note_chunk(*number)).collect();
        connection.execute(&format!("{on}{}; COMMIT", notes.join("; "))).await
    }

    /// The tables that take the rows of a unit.
    fn tables(&self, unit: &Unit) -> impl Iterator<Item = &Named> {
        let chunks = unit.chunks.iter().filter_map(|number| self.reader.index().chunks.get(*number as usize));
        let wanted = chunks.flat_map(|chunk| &chunk.frames).filter(|frame| self.is_wanted(frame));
        wanted.filter_map(|frame| self.into.get(frame.item as usize)?.as_ref())
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
                let table = match self.into.get(item as usize) {
                    Some(Some((schema, name))) => qualified(schema, name),
                    _ => qualified(schema, name),
                };
                let about = format!("{schema}.{name}");
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
                let make = format!(
                    "CREATE UNLOGGED TABLE IF NOT EXISTS {pages} (oid pg_catalog.oid, page pg_catalog.int8, data pg_catalog.bytea)"
                );
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
        let first = unit.chunks.first().copied().unwrap_or_default();
        connection.execute(&self.journal.note_rows(first, item, loaded)).await?;
        if self.items.get(item as usize) == Some(&ItemDetail::LargeObjects) {
            let write = large_objects::write(&worker.pages, self.page);
            connection.execute(&write).await.map_err(failed)?;
        }
        Ok(next)
    }

    async fn decode(&self, stored: Stored, mut raw: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (reader, Stored { number, frame, bytes }) = (Arc::clone(self.reader), stored);
        let job = blocking(move || {
            reader.decode(number, &frame, &bytes, &mut raw)?;
            Ok::<_, Error>(raw)
        });
        job.await
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

/// The wanted frames of one connection's units, one behind another. While a chunk is loaded, the next one is read.
struct Frames<'a> {
    reader: &'a Arc<SetReader>,
    left: &'a Mutex<VecDeque<Unit>>,
    /// Whether the frames of each item are wanted.
    wanted: &'a [bool],
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
    fn new(reader: &'a Arc<SetReader>, left: &'a Mutex<VecDeque<Unit>>, wanted: &'a [bool]) -> Self {
        let mut frames = Self {
            reader,
            left,
            wanted,
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

    /// The next wanted frame of the unit at hand.
    async fn next(&mut self) -> Result<Option<Stored>, Error> {
        loop {
            let (number, done, bytes) = &mut self.chunk;
            let chunk = self.reader.index().chunks.get(*number as usize);
            if let Some(frame) = chunk.and_then(|chunk| chunk.frames.get(*done)) {
                *done += 1;
                let size = usize::try_from(frame.stored).unwrap_or(usize::MAX).min(bytes.len());
                let bytes = bytes.split_to(size);
                if !self.wanted.get(frame.item as usize).copied().unwrap_or(false) {
                    continue;
                }
                return Ok(Some(Stored { number: *number, frame: *frame, bytes }));
            }
            let Some(number) = self.numbers.pop_front() else { return Ok(None) };
            let Some(ahead) = self.ahead.take() else {
                return Err(Error::Internal("a chunk was not read ahead".to_owned()));
            };
            self.chunk = (number, 0, ahead.await.map_err(Panicked::from)??);
            self.read_ahead();
        }
    }
}

/// An item that isn't loaded whole.
#[derive(Debug, PartialEq, Eq)]
struct Lacking {
    item: u32,
    loaded: u64,
    expected: u64,
}

/// The first wanted item of which a chunk isn't noted, or of which others than the set's rows are.
fn lacking(index: &Index, wanted: &[bool], chunks: &BTreeSet<u32>, rows: &BTreeMap<u32, u64>) -> Option<Lacking> {
    let mut expected = BTreeMap::new();
    let mut open = BTreeSet::new();
    for (number, chunk) in (0..).zip(&index.chunks) {
        let is_wanted = |frame: &&Frame| wanted.get(frame.item as usize).copied().unwrap_or(false);
        for frame in chunk.frames.iter().filter(is_wanted) {
            *expected.entry(frame.item).or_insert(0) += frame.rows;
            if !chunks.contains(&number) {
                open.insert(frame.item);
            }
        }
    }
    expected.into_iter().find_map(|(item, expected)| {
        let loaded = rows.get(&item).copied().unwrap_or_default();
        (open.contains(&item) || loaded != expected).then_some(Lacking { item, loaded, expected })
    })
}

#[cfg(test)]
mod tests {
    use seawall_archive::{Digest, SetId};
    use seawall_core::Moment;

    use super::*;

    #[test]
    fn a_chunk_that_is_not_noted_and_rows_that_are_missing_are_found() {
        let chunk = |items: &[(u32, u64)]| Chunk {
            blake3: Digest::of(b""),
            frames: items.iter().map(|(item, rows)| Frame { item: *item, rows: *rows, raw: 1, stored: 1 }).collect(),
            continues: None,
        };
        let chunks = vec![chunk(&[(1, 10), (2, 5)]), chunk(&[(1, 7)]), chunk(&[(0, 3)])];
        let index = Index { id: SetId::new(Moment::from_millis(0), 0), items: Vec::new(), chunks };
        let wanted = [false, true, true];
        let find = |chunks: &[u32], rows: &[(u32, u64)]| {
            let (chunks, rows) = (chunks.iter().copied().collect(), rows.iter().copied().collect());
            lacking(&index, &wanted, &chunks, &rows).map(|found| (found.item, found.loaded, found.expected))
        };
        assert_eq!(find(&[0, 1], &[(1, 17), (2, 5)]), None, "what isn't wanted isn't missed");
        assert_eq!(find(&[0], &[(1, 10), (2, 5)]), Some((1, 10, 17)));
        assert_eq!(find(&[0, 1], &[(1, 17), (2, 4)]), Some((2, 4, 5)));
        assert_eq!(find(&[0, 1], &[(1, 27), (2, 5)]), Some((1, 27, 17)));
        assert_eq!(find(&[1], &[(1, 17), (2, 5)]), Some((1, 17, 17)), "a note is missing, whatever the sums say");
    }
}
