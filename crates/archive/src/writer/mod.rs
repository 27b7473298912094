//! Writing a set: lanes turn buffers into frames, frames into chunks, and chunks into objects.
//!
//! A lane has a fixed number of buffers, which are reused. The caller fills one buffer, and a job on the blocking pool
//! compresses it into another. The lane collects frames into a chunk in the order in which they came, and puts a full
//! chunk into the vault while it collects the next one. A slow stage holds up the stage before it: [`Lane::buffer`]
//! waits until a buffer is free again. No buffer is allocated after the first round. A row that is larger than a buffer
//! is split over several, and its chunks are chained.
//!
//! The set doesn't count before its manifest, which [`SetWriter::finish`] makes, is in the chain. Dropping everything
//! earlier leaves chunks that no manifest names; a later maintenance deletes them.

mod lane;

pub use lane::Lane;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use seawall_core::{Clock, Moment, Panicked, Progress};
use seawall_vault::Vault;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::codec::Encoder;
use crate::layout;
use crate::manifest::write_document;
use crate::stages::Meter;
use crate::turns::{Turn, Turns};
use crate::{
    Budget, Chunk, Codec, Content, Digest, Error, Frame, Index, Item, Manifest, Sample, Sealed, SetId, Stage, Stages,
};

/// A set that is being written. Clones write the same set.
#[derive(Clone)]
pub struct SetWriter {
    shared: Arc<Shared>,
    /// In a set of a whole server: the database that this clone's items belong to.
    database: Option<String>,
}

/// How far a set has been written: a position to go back to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    items: usize,
    chunk: u32,
}

struct Shared {
    vault: Vault,
    id: SetId,
    codec: Codec,
    budget: Budget,
    progress: Arc<dyn Progress>,
    meter: Meter,
    turns: Turns,
    /// Limits how many frames are compressed at once: as many as there are jobs.
    compressing: Arc<Semaphore>,
    encoders: Mutex<Vec<Encoder>>,
    next_chunk: AtomicU32,
    content: Mutex<Written>,
}

/// What the vault has so far.
#[derive(Default)]
struct Written {
    items: Vec<Item>,
    /// By number; `None` until the vault has it.
    chunks: Vec<Option<Chunk>>,
    /// About how many bytes items are expected to have.
    expected: BTreeMap<u32, u64>,
    /// How often the set was restarted. Results of an earlier attempt that arrive late are dropped.
    attempt: u32,
}

impl Written {
    /// The place of a chunk.
    fn place(&mut self, number: u32) -> &mut Option<Chunk> {
        let place = number as usize;
        if self.chunks.len() <= place {
            self.chunks.resize(place + 1, None);
        }
        &mut self.chunks[place]
    }
}

/// Facts about a whole set that the engine provides.
#[derive(Debug, Clone)]
pub struct Facts {
    /// [`Manifest::engine`].
    pub engine: &'static str,
    /// [`Manifest::identity`].
    pub identity: String,
    /// [`Manifest::tool`].
    pub tool: String,
    /// [`Manifest::point`].
    pub point: Moment,
    /// [`Manifest::artefact`].
    pub artefact: Option<String>,
    /// [`Manifest::sample`].
    pub sample: Option<Sample>,
    /// [`Manifest::detail`].
    pub detail: serde_json::Value,
}

impl std::fmt::Debug for SetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetWriter").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

impl SetWriter {
    /// Begins a set. Makes no request.
    pub fn begin(vault: Vault, id: SetId, codec: Codec, budget: Budget, progress: Arc<dyn Progress>) -> Self {
        let shared = Shared {
            vault,
            id,
            codec,
            budget,
            progress,
            meter: Meter::default(),
            turns: Turns::new(budget.jobs),
            compressing: Arc::new(Semaphore::new(budget.jobs)),
            encoders: Mutex::default(),
            next_chunk: AtomicU32::new(0),
            content: Mutex::default(),
        };
        Self { shared: Arc::new(shared), database: None }
    }

    /// A clone whose items belong to `database` of the server.
    #[must_use]
    pub fn of(&self, database: impl Into<String>) -> Self {
        Self { shared: Arc::clone(&self.shared), database: Some(database.into()) }
    }

    /// How far the set is written. No lane may be open.
    pub fn mark(&self) -> Mark {
        Mark { items: self.shared.content().items.len(), chunk: self.shared.next_chunk.load(Ordering::Relaxed) }
    }

    /// Takes back everything that was written after `mark`; its lanes must have been dropped. Numbers aren't reused,
    /// because objects with these numbers may be in the vault.
    pub fn go_back(&self, mark: Mark) {
        let mut written = self.shared.content();
        written.attempt += 1;
        written.items.truncate(mark.items);
        written.expected.clear();
        for number in mark.chunk..self.shared.next_chunk.load(Ordering::Relaxed) {
            *written.place(number) = Some(Chunk { blake3: Digest::of(b""), frames: Vec::new(), continues: None });
        }
    }

    /// Adds an item to the set; frames refer to the item by the number that is returned.
    pub fn item(&self, name: impl Into<String>, content: Content, detail: serde_json::Value) -> u32 {
        let mut written = self.shared.content();
        written.items.push(Item { name: name.into(), database: self.database.clone(), content, detail });
        u32::try_from(written.items.len() - 1).unwrap_or(u32::MAX)
    }

    /// Sets about how many bytes an item will have, for progress reports.
    pub fn expect(&self, item: u32, bytes: u64) {
        self.shared.content().expected.insert(item, bytes);
    }

    /// Opens a lane: the way of one connection's bytes into the set.
    pub fn lane(&self) -> Lane {
        Lane::new(Arc::clone(&self.shared))
    }

    /// Waits until a connection is of use, and lets it do one piece of its work: [`Turn`] is dropped behind that. A connection that
    /// has its turn may not wait for another connection's work.
    pub async fn turn(&self) -> Turn<'_> {
        self.shared.turns.turn(&self.shared.meter).await
    }

    /// Writes `content` as JSON into a file of its own in the set. On return the vault has it.
    pub async fn document(
        &self,
        name: impl Into<String>,
        detail: serde_json::Value,
        content: &impl Serialize,
    ) -> Result<(), Error> {
        let defect = |error| Error::Internal(format!("a document can't be written: {error}"));
        let bytes = serde_json::to_vec(content).map_err(defect)?;
        let item = self.item(name, Content::File, detail);
        let mut lane = self.lane();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let mut buffer = lane.buffer().await?;
            let (part, others) = rest.split_at(rest.len().min(buffer.capacity()));
            buffer.extend_from_slice(part);
            rest = others;
            lane.push(item, 0, buffer).await?;
        }
        lane.finish().await
    }

    /// Where the time went so far.
    pub fn stages(&self) -> Stages {
        Stages { connections: self.shared.turns.allowed(), ..self.shared.meter.report() }
    }

    /// Writes the index and makes the manifest. [`crate::Catalog::add`] turns the manifest into a link, and the set
    /// counts from then on. Every lane must have been finished.
    pub async fn finish(&self, facts: Facts, clock: &dyn Clock) -> Result<Manifest, Error> {
        let (items, chunks) = {
            let mut written = self.shared.content();
            (std::mem::take(&mut written.items), std::mem::take(&mut written.chunks))
        };
        let chunks: Option<Vec<Chunk>> = chunks.into_iter().collect();
        let chunks = chunks.ok_or_else(|| Error::Internal("a set was finished before its lanes".to_owned()))?;
        let index = Index { id: self.shared.id, items, chunks };
        let bytes = Bytes::from(write_document(&index)?);
        let sealed = Sealed { bytes: bytes.len() as u64, blake3: Digest::of(&bytes) };
        self.shared.vault.create(&layout::index(index.id)?, bytes, None).await?;
        Ok(Manifest {
            id: index.id,
            engine: facts.engine.to_owned(),
            identity: facts.identity,
            tool: facts.tool,
            point: facts.point,
            ended: clock.now(),
            codec: self.shared.codec,
            totals: index.totals(),
            index: sealed,
            whole: index.whole(),
            artefact: facts.artefact,
            sample: facts.sample,
            detail: facts.detail,
        })
    }
}

impl Shared {
    fn content(&self) -> MutexGuard<'_, Written> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports which item a frame belongs to.
    fn tell(&self, frame: Frame) {
        let (name, expected) = {
            let written = self.content();
            let name = written.items.get(frame.item as usize).map(|item| item.name.clone());
            (name, written.expected.get(&frame.item).copied())
        };
        // A small item is finished before a person could read its name.
        if let (Some(name), Some(_)) = (name, expected) {
            self.progress.part(&name, expected, frame.raw);
        }
    }

    /// Compresses one buffer. Blocks.
    fn compress(&self, raw: &[u8], stored: &mut Vec<u8>) -> Result<(), Error> {
        let kept = self.encoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let defect = |error: std::io::Error| Error::Internal(format!("compression failed: {error}"));
        let mut encoder = kept.map_or_else(|| Encoder::new(self.codec), Ok).map_err(defect)?;
        let started = Instant::now();
        encoder.encode(raw, stored).map_err(defect)?;
        self.meter.busy(Stage::Codec, started.elapsed());
        self.encoders.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
        Ok(())
    }

    /// Puts one chunk into the vault and notes it.
    async fn put(self: Arc<Self>, attempt: u32, number: u32, piece: Piece, bytes: Bytes) -> Result<(), Error> {
        let started = Instant::now();
        let digest = tokio::task::spawn_blocking(move || (Digest::of(&bytes), bytes));
        let (blake3, bytes) = digest.await.map_err(Panicked::from)?;
        let key = layout::chunk(self.id, number, self.codec)?;
        self.vault.create_digested(&key, bytes, seawall_vault::Digest::from_bytes(*blake3.as_bytes())).await?;
        self.meter.busy(Stage::Vault, started.elapsed());
        let mut written = self.content();
        if written.attempt == attempt {
            *written.place(number) = Some(Chunk { blake3, frames: piece.frames, continues: piece.continues });
        }
        Ok(())
    }
}

/// What the index will say about a chunk.
struct Piece {
    frames: Vec<Frame>,
    continues: Option<u32>,
}
