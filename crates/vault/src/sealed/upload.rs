//! A sealed object that is written in parts.
//!
//! Chunks don't end where parts do. So the last bytes of a part are kept back until it is known whether a chunk of them is
//! the last. The parts handed on all have one size but for the last, as some stores ask, and none is smaller than the
//! store takes. Only where the writer's parts grow, so do these.

use async_trait::async_trait;
use bytes::{Buf as _, Bytes, BytesMut};

use super::lengths::CHUNK;
use super::payload::Payload;
use super::seals::blocking;
use crate::{Error, Multipart, Tag};

pub(super) struct SealedUpload {
    inner: Box<dyn Multipart>,
    sealer: Option<Sealer>,
    /// Sealed, and not handed on yet.
    ready: BytesMut,
    /// The size of parts that are handed on; known with the first.
    part: Option<usize>,
    smallest: usize,
    /// Whether the part of the present call is sealed already, by a call that failed afterwards.
    taken: bool,
    /// Whether the last chunk is sealed.
    ended: bool,
}

/// Turns plaintext into chunks.
struct Sealer {
    payload: Payload,
    index: u64,
    /// Plaintext behind the last whole chunk that isn't the last: at most one chunk.
    kept: BytesMut,
}

impl SealedUpload {
    /// An upload whose object begins with `begin`.
    pub(super) fn new(inner: Box<dyn Multipart>, begin: &[u8], payload: Payload, smallest: usize) -> Self {
        let sealer = Sealer { payload, index: 0, kept: BytesMut::new() };
        let ready = BytesMut::from(begin);
        Self { inner, sealer: Some(sealer), ready, part: None, smallest, taken: false, ended: false }
    }

    /// Seals plaintext, apart from the runtime's thread.
    async fn seal(&mut self, part: Vec<Bytes>, last: bool) -> Result<(), Error> {
        let mut ready = std::mem::take(&mut self.ready);
        let Some(mut sealer) = self.sealer.take() else { return Err(broken()) };
        let (sealer, ready) = blocking(move || {
            ready.reserve(part.iter().map(Bytes::len).sum::<usize>() / CHUNK * 16 + CHUNK);
            part.into_iter().for_each(|piece| sealer.take(piece, &mut ready));
            if last {
                sealer.end(&mut ready);
            }
            (sealer, ready)
        })
        .await?;
        (self.sealer, self.ready) = (Some(sealer), ready);
        Ok(())
    }

    /// Hands on parts of one size; the rest too, if the object ends with it.
    async fn hand_on(&mut self, last: bool) -> Result<(), Error> {
        let part = *self.part.get_or_insert(self.ready.len().max(self.smallest).max(1));
        while self.ready.len() >= part || (last && !self.ready.is_empty()) {
            let size = part.min(self.ready.len());
            let piece = self.ready.split_to(size).freeze();
            // The store takes the part only after the answer. Until then it may be asked for again.
            let outcome = self.inner.write(vec![piece.clone()]).await;
            if let Err(error) = outcome {
                let rest = std::mem::take(&mut self.ready);
                self.ready = BytesMut::with_capacity(piece.len() + rest.len());
                self.ready.extend_from_slice(&piece);
                self.ready.extend_from_slice(&rest);
                return Err(error);
            }
        }
        Ok(())
    }
}

fn broken() -> Error {
    let cause = "the upload was given up half way".to_owned();
    Error::Unavailable { object: "encryption".to_owned(), cause, retryable: false }
}

impl Sealer {
    /// Takes plaintext, and seals the chunks that can't be the last.
    fn take(&mut self, mut piece: Bytes, out: &mut BytesMut) {
        while !piece.is_empty() {
            if self.kept.len() == CHUNK {
                self.chunk(false, out);
            }
            // Whole chunks go without a copy.
            while self.kept.is_empty() && piece.len() > CHUNK {
                self.payload.seal(self.index, false, &[&piece[..CHUNK]], out);
                self.index += 1;
                piece.advance(CHUNK);
            }
            let size = piece.len().min(CHUNK - self.kept.len());
            self.kept.extend_from_slice(&piece.split_to(size));
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.chunk(true, out);
    }

    fn chunk(&mut self, last: bool, out: &mut BytesMut) {
        self.payload.seal(self.index, last, &[&self.kept], out);
        self.index += 1;
        self.kept.clear();
    }
}

#[async_trait]
impl Multipart for SealedUpload {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        if !self.taken {
            // The parts of a long upload grow, because the store takes only so many.
            let size = part.iter().map(Bytes::len).sum::<usize>();
            self.part = self.part.map(|part| if size / 2 > part { size } else { part });
            self.seal(part, false).await?;
            self.taken = true;
        }
        self.hand_on(false).await?;
        self.taken = false;
        Ok(())
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        if !self.ended {
            self.seal(Vec::new(), true).await?;
            self.ended = true;
        }
        self.hand_on(true).await?;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<(), Error> {
        self.ready.clear();
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Notes the sizes of parts.
    struct Parts(Arc<Mutex<Vec<usize>>>);

    #[async_trait]
    impl Multipart for Parts {
        async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
            self.0.lock().expect("no panic").push(part.iter().map(Bytes::len).sum());
            Ok(())
        }

        async fn complete(&mut self) -> Result<Option<Tag>, Error> {
            Ok(None)
        }

        async fn abort(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn parts_have_one_size_and_grow_with_the_writers() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let inner = Box::new(Parts(Arc::clone(&sizes)));
        let mut upload = SealedUpload::new(inner, &[0; 1040], Payload::new(&[3; 32]), 1);
        let part = |chunks: usize| vec![Bytes::from(vec![7; chunks * CHUNK])];
        for _ in 0..4 {
            upload.write(part(4)).await.expect("taken");
        }
        let small = sizes.lock().expect("no panic").clone();
        assert!(small.len() <= 5 && small.iter().all(|size| *size == small[0]), "{small:?}");
        for _ in 0..4 {
            upload.write(part(32)).await.expect("taken");
        }
        upload.complete().await.expect("complete");
        let all = sizes.lock().expect("no panic").clone();
        assert_eq!(all.iter().sum::<usize>(), 1040 + 144 * (CHUNK + 16));
        assert!(all.len() <= small.len() + 6, "{all:?}");
    }
}
