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

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use seawall_core::{Clock, Moment, Panicked, Progress};
use seawall_vault::Vault;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::budget::{PACKS, RAW_BUFFERS};
use crate::buffer::Buffer;
use crate::codec::Encoder;
use crate::layout;
use crate::manifest::write_document;
use crate::stages::Meter;
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
        let frame = self.shared.budget.frame;
        Lane {
            shared: Arc::clone(&self.shared),
            attempt: self.shared.content().attempt,
            raw: (0..RAW_BUFFERS).map(|_| Vec::with_capacity(frame)).collect(),
            stored: (0..RAW_BUFFERS).map(|_| Vec::new()).collect(),
            compressing: VecDeque::new(),
            packs: Arc::new(Mutex::new(Vec::new())),
            made: 0,
            pack: None,
            open: false,
            continues: None,
            putting: JoinSet::new(),
        }
    }

    /// Whether an item of about `bytes` bytes fills a chunk of its own.
    pub fn fills_a_chunk(&self, bytes: u64) -> bool {
        bytes >= self.shared.budget.chunk as u64
    }

    /// Where the time went so far.
    pub fn stages(&self) -> Stages {
        self.shared.meter.report()
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

/// The result of a compression job: both buffers, and the frame's facts.
struct Compressed {
    raw: Vec<u8>,
    stored: Vec<u8>,
    frame: Frame,
    /// Whether its last row continues in the next frame.
    open: bool,
}

/// What the index will say about a chunk.
struct Piece {
    frames: Vec<Frame>,
    continues: Option<u32>,
}

/// A chunk that is being collected.
struct Pack {
    number: u32,
    bytes: Buffer,
    frames: Vec<Frame>,
    continues: Option<u32>,
}

/// A chunk's buffer, which returns to its lane when the vault is done with it.
struct Lent {
    bytes: Buffer,
    home: Arc<Mutex<Vec<Buffer>>>,
    size: usize,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes).recycled(self.size);
        self.home.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

/// A buffer ready for its next use. A buffer that a large row made large is freed and replaced.
fn recycled(mut buffer: Vec<u8>, size: usize) -> Vec<u8> {
    if buffer.capacity() > 2 * size + 4096 {
        return Vec::with_capacity(size);
    }
    buffer.clear();
    buffer
}

/// The way of one connection's bytes into a set. Frames of one lane stand in the set in the order in which they came.
pub struct Lane {
    shared: Arc<Shared>,
    attempt: u32,
    raw: Vec<Vec<u8>>,
    stored: Vec<Vec<u8>>,
    compressing: VecDeque<JoinHandle<Result<Compressed, Error>>>,
    packs: Arc<Mutex<Vec<Buffer>>>,
    /// Chunk buffers made so far; no more than [`PACKS`].
    made: usize,
    pack: Option<Pack>,
    /// Whether the last row that was put into a chunk continues.
    open: bool,
    /// The chunk whose last row continues in the next chunk.
    continues: Option<u32>,
    putting: JoinSet<Result<(), Error>>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

impl Lane {
    /// An empty buffer with room for a frame. Waits until a later stage frees one.
    pub async fn buffer(&mut self) -> Result<Vec<u8>, Error> {
        while self.raw.is_empty() {
            self.collect().await?;
        }
        self.raw.pop().ok_or_else(|| Error::Internal("a lane has lost its buffers".to_owned()))
    }

    /// Gives a buffer back unused.
    pub fn unused(&mut self, buffer: Vec<u8>) {
        self.raw.push(recycled(buffer, self.shared.budget.frame));
    }

    /// Takes a filled buffer as the next frame of `item`, with the number of rows that end in it.
    pub async fn push(&mut self, item: u32, rows: u64, raw: Vec<u8>) -> Result<(), Error> {
        self.compress(item, rows, raw, false).await
    }

    /// The same, when the last row continues in the buffer that is pushed next.
    pub async fn push_open(&mut self, item: u32, rows: u64, raw: Vec<u8>) -> Result<(), Error> {
        self.compress(item, rows, raw, true).await
    }

    async fn compress(&mut self, item: u32, rows: u64, raw: Vec<u8>, open: bool) -> Result<(), Error> {
        while self.stored.is_empty() {
            self.collect().await?;
        }
        let mut stored = self.stored.pop().unwrap_or_default();
        let shared = Arc::clone(&self.shared);
        // The job waits for its turn there, so that this lane can fill its next buffer meanwhile.
        self.compressing.push_back(tokio::spawn(async move {
            let shut = |_| Error::Internal("compression was shut down".to_owned());
            let turn = Arc::clone(&shared.compressing).acquire_owned().await.map_err(shut)?;
            let job = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                shared.compress(&raw, &mut stored)?;
                let frame = Frame { item, rows, raw: raw.len() as u64, stored: stored.len() as u64 };
                shared.progress.advance(frame.raw);
                shared.tell(frame);
                Ok(Compressed { raw, stored, frame, open })
            });
            job.await.map_err(Panicked::from)?
        }));
        Ok(())
    }

    /// Ends the current chunk, so that the next frames are in another one.
    pub async fn cut(&mut self) -> Result<(), Error> {
        while !self.compressing.is_empty() {
            self.collect().await?;
        }
        self.put()
    }

    /// Ends the lane. On return the vault has everything that was pushed.
    pub async fn finish(mut self) -> Result<(), Error> {
        self.cut().await?;
        let started = Instant::now();
        while let Some(done) = self.putting.join_next().await {
            done.map_err(Panicked::from)??;
        }
        self.waited(Stage::Vault, started.elapsed());
        Ok(())
    }

    /// Adds to the time that this lane waited for a stage.
    pub fn waited(&self, stage: Stage, time: Duration) {
        self.shared.meter.waited(stage, time);
    }

    /// Moves the oldest compressed frame into the chunk, once its compression is done.
    async fn collect(&mut self) -> Result<(), Error> {
        let Some(job) = self.compressing.pop_front() else {
            return Err(Error::Internal("a lane waits for nothing".to_owned()));
        };
        let started = Instant::now();
        let Compressed { raw, stored, frame, open } = job.await.map_err(Panicked::from)??;
        self.waited(Stage::Codec, started.elapsed());
        let size = self.shared.budget.frame;
        self.raw.push(recycled(raw, size));
        self.append(&stored, frame).await?;
        self.open = open;
        self.stored.push(recycled(stored, size));
        Ok(())
    }

    async fn append(&mut self, stored: &[u8], frame: Frame) -> Result<(), Error> {
        let most = self.shared.budget.chunk;
        if self.pack.as_ref().is_some_and(|pack| pack.bytes.len() + stored.len() > most) {
            self.put()?;
        }
        let mut pack = match self.pack.take() {
            Some(pack) => pack,
            None => self.pack().await?,
        };
        pack.bytes.extend_from_slice(stored);
        pack.frames.push(frame);
        self.pack = Some(pack);
        Ok(())
    }

    /// An empty chunk, once the vault has taken an earlier one.
    async fn pack(&mut self) -> Result<Pack, Error> {
        let started = Instant::now();
        let bytes = loop {
            let returned = self.packs.lock().unwrap_or_else(PoisonError::into_inner).pop();
            if let Some(bytes) = returned {
                break bytes;
            }
            if self.made < PACKS {
                self.made += 1;
                break Buffer::with_capacity(self.shared.budget.chunk);
            }
            match self.putting.join_next().await {
                Some(done) => done.map_err(Panicked::from)??,
                // The store still holds the buffer of an object that it has stored already. Allocate one more buffer
                // rather than wait for ever.
                None => break Buffer::with_capacity(self.shared.budget.chunk),
            }
        };
        self.waited(Stage::Vault, started.elapsed());
        let number = self.shared.next_chunk.fetch_add(1, Ordering::Relaxed);
        if number >= 100_000_000 {
            return Err(Error::TooLarge { id: self.shared.id.to_string() });
        }
        Ok(Pack { number, bytes, frames: Vec::new(), continues: self.continues.take() })
    }

    fn put(&mut self) -> Result<(), Error> {
        let Some(Pack { number, bytes, frames, continues }) = self.pack.take() else { return Ok(()) };
        self.continues = self.open.then_some(number);
        // Report an upload that failed meanwhile now, not at the end.
        while let Some(done) = self.putting.try_join_next() {
            done.map_err(Panicked::from)??;
        }
        let lent = Lent { bytes, home: Arc::clone(&self.packs), size: self.shared.budget.chunk };
        let (attempt, piece) = (self.attempt, Piece { frames, continues });
        self.putting.spawn(Arc::clone(&self.shared).put(attempt, number, piece, Bytes::from_owner(lent)));
        Ok(())
    }
}
