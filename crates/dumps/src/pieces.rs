//! Bytes that a thread reads, as a stream: at most a few pieces wait.

use futures::stream::{self, BoxStream, StreamExt as _};
use seawall_core::{Failure, Kind};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The bytes of a piece.
pub(crate) const PIECE: usize = 256 << 10;

/// How many pieces wait for their reader.
const WAITING: usize = 4;

/// What the thread tells. Without an end it has ended in a panic.
pub(crate) enum Event {
    Bytes(Vec<u8>),
    Failed(Failure),
    End,
}

/// The content of a backup: decrypted, decompressed, and checked at its end. The end comes only if all checks passed.
pub struct Pieces {
    object: String,
    id: String,
    size: u64,
    front: Vec<u8>,
    receiver: Receiver<Event>,
    ended: bool,
}

/// The failure where the thread that reads a file has ended in a panic.
pub(crate) fn ended(object: &str) -> Failure {
    let cause = "the thread that reads it has ended before the file";
    Failure::new(Kind::Internal, "dump.internal", object, cause, "report this: it is a defect")
}

impl Pieces {
    /// The content of `object`, a file of `size` bytes whose content `id` stands for; and the end at which it is put in.
    pub(crate) fn new(object: &str, id: &str, size: u64) -> (Self, Sender<Event>) {
        let (sender, receiver) = channel(WAITING);
        let (object, id) = (object.to_owned(), id.to_owned());
        (Self { object, id, size, front: Vec::new(), receiver, ended: false }, sender)
    }

    /// What it is, for messages: a path, and the member of a tar.
    pub fn object(&self) -> &str {
        &self.object
    }

    /// A text that no other content has: it changes when the file does.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The bytes of the file, compressed as it is.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The first bytes, at least `enough` of them unless there are fewer. They stay part of the content.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub async fn peek(&mut self, enough: usize) -> Result<&[u8], Failure> {
        while self.front.len() < enough && !self.ended {
            match self.next().await? {
                Some(piece) => self.front.extend_from_slice(&piece),
                None => self.ended = true,
            }
        }
        Ok(&self.front)
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self.receiver.recv().await {
            Some(Event::Bytes(piece)) => Ok(Some(piece)),
            Some(Event::End) => Ok(None),
            Some(Event::Failed(failure)) => Err(failure),
            None => Err(ended(&self.object)),
        }
    }

    /// All of the content.
    pub fn stream(self) -> BoxStream<'static, Result<Vec<u8>, Failure>> {
        stream::try_unfold(self, |mut pieces| async move {
            if !pieces.front.is_empty() {
                return Ok(Some((std::mem::take(&mut pieces.front), pieces)));
            }
            if pieces.ended {
                return Ok(None);
            }
            match pieces.next().await? {
                Some(piece) => Ok(Some((piece, pieces))),
                None => Ok(None),
            }
        })
        .boxed()
    }

    /// All of a small content.
    ///
    /// # Errors
    /// What is wrong with the file, or `dump.damaged` where it has more than `most` bytes.
    pub async fn all(mut self, most: usize) -> Result<Vec<u8>, Failure> {
        self.peek(most.saturating_add(1)).await?;
        if self.front.len() > most {
            return Err(crate::layers::damaged(&self.object, format!("it has more than {most} bytes")));
        }
        Ok(self.front)
    }
}
