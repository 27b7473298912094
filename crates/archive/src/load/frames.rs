//! The frames of units in their order. While one chunk is loaded, the next one is read from the vault.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use seawall_core::{Panicked, blocking};
use tokio::task::JoinHandle;

use crate::load::Unit;
use crate::{Error, Frame, SetReader};

/// A frame as its chunk stores it: compressed.
#[derive(Debug, Clone)]
pub struct Stored {
    number: u32,
    /// The frame's entry in the index.
    pub frame: Frame,
    bytes: Bytes,
}

impl Stored {
    /// Decompresses the frame on the blocking pool, and returns the rows. `raw` gives its memory: its content is dropped.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes aren't those of the index.
    pub async fn decode(self, reader: &Arc<SetReader>, mut raw: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (reader, Self { number, frame, bytes }) = (Arc::clone(reader), self);
        let job = blocking(move || {
            reader.decode(number, &frame, &bytes, &mut raw)?;
            Ok::<_, Error>(raw)
        });
        job.await
    }
}

/// The wanted frames of one connection's units, in their order. While the connection loads a chunk, the next one is read. So
/// each connection holds at most two chunks in memory.
#[derive(Debug)]
pub struct Frames<'a> {
    reader: &'a Arc<SetReader>,
    left: &'a Mutex<VecDeque<Unit>>,
    /// Whether the frames of each item are wanted.
    wanted: &'a [bool],
    /// The current chunk: its number, how many of its frames are done, and the bytes of the others.
    chunk: (u32, usize, Bytes),
    /// The chunks of the current unit that are still to come.
    numbers: VecDeque<u32>,
    /// The unit after the current one.
    following: Option<Unit>,
    /// The next chunk, which is being read: of the current unit, or the first of the following one.
    ahead: Option<JoinHandle<Result<Bytes, Error>>>,
}

impl<'a> Frames<'a> {
    /// The frames of the items that are `wanted`, by their place in the index. All connections share the units that are
    /// `left`, and each takes its next unit from them. Reading begins at once.
    pub fn new(reader: &'a Arc<SetReader>, left: &'a Mutex<VecDeque<Unit>>, wanted: &'a [bool]) -> Self {
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

    /// The next unit, if one is left; [`Frames::next`] then gives its frames.
    pub fn unit(&mut self) -> Option<Unit> {
        let unit = self.following.take()?;
        self.numbers = unit.chunks.iter().copied().collect();
        Some(unit)
    }

    /// Begins to read the next chunk.
    fn read_ahead(&mut self) {
        let number = self.numbers.front().copied().or_else(|| {
            self.following = self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            self.following.as_ref()?.chunks.first().copied()
        });
        let Some(number) = number else { return };
        let reader = Arc::clone(self.reader);
        self.ahead = Some(tokio::spawn(async move { reader.chunk(number).await.map(|(_, bytes)| bytes) }));
    }

    /// The next wanted frame of the current unit; `None` after the last one.
    ///
    /// # Errors
    /// Those of [`SetReader::chunk`].
    pub async fn next(&mut self) -> Result<Option<Stored>, Error> {
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
