//! The frames of units, one behind another, while the chunk that comes next is read already.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use seawall_core::{Panicked, blocking};
use tokio::task::JoinHandle;

use crate::load::Unit;
use crate::{Error, Frame, SetReader};

/// A frame as it is in its chunk, still compressed.
#[derive(Debug, Clone)]
pub struct Stored {
    number: u32,
    /// What the index says of it.
    pub frame: Frame,
    bytes: Bytes,
}

impl Stored {
    /// Decompresses the frame into `raw`, on the blocking pool, and returns it. What was in `raw` is dropped; its memory
    /// is used again.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the bytes aren't those that the index says.
    pub async fn decode(self, reader: &Arc<SetReader>, mut raw: Vec<u8>) -> Result<Vec<u8>, Error> {
        let (reader, Self { number, frame, bytes }) = (Arc::clone(reader), self);
        let job = blocking(move || {
            reader.decode(number, &frame, &bytes, &mut raw)?;
            Ok::<_, Error>(raw)
        });
        job.await
    }
}

/// The wanted frames of one connection's units, one behind another. While a chunk is loaded, the next one is read: one
/// connection holds at most two chunks in memory.
#[derive(Debug)]
pub struct Frames<'a> {
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
    ahead: Option<JoinHandle<Result<Bytes, Error>>>,
}

impl<'a> Frames<'a> {
    /// The frames of the items that are `wanted`, by their place in the index. Each connection takes its units from those that
    /// are `left`, which all connections share, and begins to read at once.
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

    /// The next wanted frame of the unit at hand; none behind its last.
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
