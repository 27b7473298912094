//! A lane: the way of one connection's bytes into a set.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use seawall_core::Panicked;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::{Piece, Shared};
use crate::budget::{PACKS, RAW_BUFFERS};
use crate::buffer::Buffer;
use crate::{Error, Frame, Stage};

/// The result of a compression job: both buffers, and the frame's facts.
struct Compressed {
    raw: Vec<u8>,
    stored: Vec<u8>,
    frame: Frame,
    /// Whether its last row continues in the next frame.
    open: bool,
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
    /// The item at hand, and whether it is large enough for chunks of its own.
    item: Option<(u32, bool)>,
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
    /// A lane of a set.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (frame, attempt) = (shared.budget.frame, shared.content().attempt);
        Self {
            shared,
            attempt,
            raw: (0..RAW_BUFFERS).map(|_| Vec::with_capacity(frame)).collect(),
            stored: (0..RAW_BUFFERS).map(|_| Vec::new()).collect(),
            compressing: VecDeque::new(),
            packs: Arc::new(Mutex::new(Vec::new())),
            made: 0,
            item: None,
            pack: None,
            open: false,
            continues: None,
            putting: JoinSet::new(),
        }
    }

    /// An empty buffer with room for a frame. Waits until a later stage frees one.
    pub async fn buffer(&mut self) -> Result<Vec<u8>, Error> {
        while self.raw.is_empty() {
            self.collect().await?;
        }
        self.raw.pop().ok_or_else(|| Error::Internal("a lane has lost its buffers".to_owned()))
    }

    /// Says that the next frames are of `item`, and that about `bytes` bytes of it come. An item that fills a chunk shares no
    /// chunk with others, so that a restore reads no more than it needs.
    pub async fn begin(&mut self, item: u32, bytes: u64) -> Result<(), Error> {
        let alone = bytes >= self.shared.budget.chunk as u64;
        let before = self.item.replace((item, alone));
        if before.is_some_and(|(other, was_alone)| other != item && (alone || was_alone)) {
            self.cut().await?;
        }
        Ok(())
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
