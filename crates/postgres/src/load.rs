//! Rows back into tables: one transaction for each chunk, noted in the journal by the same transaction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::try_join_all;
use seawall_archive::{Chunk, Frame, SetReader};
use seawall_core::Progress;

use crate::client::quote::{ident, qualified};
use crate::client::{Connection, Target};
use crate::detail::ItemDetail;
use crate::journal::Journal;
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
    /// Whether triggers fire: where there are none yet, it makes no difference.
    pub(crate) triggers: bool,
    pub(crate) progress: &'a dyn Progress,
}

impl Load<'_> {
    /// Loads every chunk that the journal doesn't have, with `jobs` connections.
    pub(crate) async fn run(&self, journal: &Journal, jobs: usize) -> Result<(), Error> {
        let mut left = VecDeque::new();
        for (number, chunk) in self.reader.index().chunks.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let raw: u64 = chunk.frames.iter().map(|frame| frame.raw).sum();
            if !self.has_rows(chunk) || journal.has(&step(number)) {
                self.progress.advance(raw);
            } else {
                left.push_back(number);
            }
        }
        let jobs = jobs.min(left.len());
        let left = Mutex::new(left);
        try_join_all((0..jobs).map(|_| self.worker(&left))).await.map(drop)
    }

    fn has_rows(&self, chunk: &Chunk) -> bool {
        let rows = |frame: &Frame| self.is_wanted(frame);
        chunk.frames.iter().any(rows)
    }

    fn is_wanted(&self, frame: &Frame) -> bool {
        self.wanted.get(frame.item as usize).copied().unwrap_or(false)
    }

    fn item(&self, frame: &Frame) -> Option<&ItemDetail> {
        self.items.get(frame.item as usize)
    }

    async fn worker(&self, left: &Mutex<VecDeque<u32>>) -> Result<(), Error> {
        let mut connection = restore::connect(self.target, self.encoding).await?;
        if !self.triggers {
            // They fired when the rows were written the first time. It turns foreign keys off as well: see `orphans`.
            connection.execute("SET session_replication_role = replica").await?;
        }
        let mut spare = Vec::new();
        let mut fetched = self.fetch(left).await?;
        while let Some((number, bytes)) = fetched {
            // While this one is loaded, the next one is read.
            let load = self.load(&mut connection, number, &bytes, &mut spare);
            fetched = tokio::try_join!(self.fetch(left), load)?.0;
        }
        connection.close().await;
        Ok(())
    }

    /// Reads the next chunk.
    async fn fetch(&self, left: &Mutex<VecDeque<u32>>) -> Result<Option<(u32, Bytes)>, Error> {
        let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(number) = next else { return Ok(None) };
        let (_, bytes) = self.reader.chunk(number).await?;
        Ok(Some((number, bytes)))
    }

    /// Loads a chunk, in one transaction.
    async fn load(
        &self,
        connection: &mut Connection,
        number: u32,
        bytes: &Bytes,
        spare: &mut Vec<Vec<u8>>,
    ) -> Result<(), Error> {
        let Some(chunk) = self.reader.index().chunks.get(number as usize) else { return Ok(()) };
        let frames: Vec<(&Frame, Bytes)> = SetReader::frames(chunk, bytes).collect();
        connection.execute("BEGIN").await?;
        for of_item in frames.chunk_by(|(one, _), (two, _)| one.item == two.item) {
            if of_item.first().is_some_and(|(frame, _)| self.is_wanted(frame)) {
                self.copy(connection, number, of_item, spare).await?;
            }
        }
        connection.execute(&format!("{}; COMMIT", Journal::note(&step(number)))).await
    }

    /// Loads frames of one item, one behind another.
    async fn copy(
        &self,
        connection: &mut Connection,
        number: u32,
        frames: &[(&Frame, Bytes)],
        spare: &mut Vec<Vec<u8>>,
    ) -> Result<(), Error> {
        let Some(item) = frames.first().and_then(|(frame, _)| self.item(frame)) else { return Ok(()) };
        let (sql, about) = match item {
            ItemDetail::Table { schema, name, columns } => {
                let columns: Vec<String> = columns.iter().map(|column| ident(column)).collect();
                let columns = if columns.is_empty() { String::new() } else { format!("({})", columns.join(", ")) };
                (format!("COPY {} {columns} FROM STDIN", qualified(schema, name)), format!("{schema}.{name}"))
            }
            ItemDetail::LargeObjects => {
                connection.execute(PAGES).await?;
                ("COPY pg_temp.pages FROM STDIN".to_owned(), "large objects".to_owned())
            }
            ItemDetail::Schema | ItemDetail::After => return Ok(()),
        };
        let mut copying = connection.copy_in(&sql).await.map_err(|error| error.about(&*about))?;
        let mut expected = 0;
        let mut ready: Option<Vec<u8>> = None;
        let mut rest = frames.iter();
        loop {
            // One frame is decompressed while the one before it is sent.
            let decode = async {
                let Some((frame, stored)) = rest.next() else { return Ok(None) };
                expected += frame.rows;
                let raw = spare.pop().unwrap_or_default();
                self.decode(number, **frame, stored.clone(), raw).await.map(Some)
            };
            let send = async {
                let Some(raw) = ready.take() else { return Ok(None) };
                let size = raw.len() as u64;
                let raw = copying.send(raw).await.map_err(|error| error.about(&*about))?;
                self.progress.advance(size);
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
            let cause = format!("the server took {loaded} rows of chunk {number}, and it holds {expected}");
            return Err(Error::Different { object: about, cause });
        }
        if *item == ItemDetail::LargeObjects {
            connection.execute(WRITE_PAGES).await.map_err(|error| error.about(&*about))?;
        }
        Ok(())
    }

    async fn decode(&self, number: u32, frame: Frame, stored: Bytes, mut raw: Vec<u8>) -> Result<Vec<u8>, Error> {
        let reader = Arc::clone(self.reader);
        let job = tokio::task::spawn_blocking(move || reader.decode(number, &frame, &stored, &mut raw).map(|()| raw));
        Ok(job.await.map_err(|error| Error::Internal(format!("a job ended in a panic: {error}")))??)
    }
}

/// Where pages of large objects wait until they are written.
const PAGES: &str =
    "CREATE TEMPORARY TABLE IF NOT EXISTS pages (oid oid, page bigint, data bytea) ON COMMIT DELETE ROWS";

/// Writes them: the objects themselves are there already, empty.
const WRITE_PAGES: &str = "SELECT count(lo_put(oid, page * 2048, data)) FROM pg_temp.pages; TRUNCATE pg_temp.pages";

fn step(number: u32) -> String {
    format!("chunk {number}")
}
