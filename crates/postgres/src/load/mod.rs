//! Rows back into tables: one transaction for each unit of chunks, noted in the journal by the same transaction.
//!
//! Which chunks make one transaction, `seawall_archive::load` decides. The room: `connect` (the sessions), `held` (are tables
//! still tables?), `order` and `orphans` (tables that have their keys already), `routed` (rows that go through a parent),
//! `triggers` and `restore_mode` (what must not fire), `large_objects`.

pub(crate) mod connect;
pub(crate) mod held;
pub(crate) mod large_objects;
pub(crate) mod order;
pub(crate) mod orphans;
pub(crate) mod restore_mode;
pub(crate) mod routed;
pub(crate) mod triggers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures::future::try_join_all;
use seawall_archive::load::{Frames, Lacking, Stored, Unit, lacking, units};
use seawall_archive::{Chunk, Frame, SetReader};
use seawall_core::Progress;

use crate::Error;
use crate::catalog::binary::misfit;
use crate::catalog::inventory;
use crate::client::{Connection, Target, binary};
use crate::detail::ItemDetail;
use crate::journal::Journal;
use crate::load::connect::connect;
use crate::load::routed::Named;
use crate::load::triggers::Triggers;
use crate::quote::{ident, qualified};

/// What is loaded, and by whom.
pub(crate) struct Load<'a> {
    pub(crate) target: &'a Target,
    pub(crate) encoding: &'a str,
    pub(crate) reader: &'a Arc<SetReader>,
    /// What each item is.
    pub(crate) items: &'a [ItemDetail],
    /// Whether the rows of each are loaded.
    pub(crate) wanted: Vec<bool>,
    /// Whether each is a table that this restore has made, and no other session has written to.
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
        let mut connection = connect(self.target, self.encoding).await?;
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
        let Some(statement) = statement else { return Ok(frames.next().await?) };
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
                let raw = stored.decode(self.reader, spare.pop().unwrap_or_default()).await?;
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
