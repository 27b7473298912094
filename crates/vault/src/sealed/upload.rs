//! A sealed object that is written in parts.
//!
//! Chunks don't end where parts do. So the last bytes of a part are kept back until it is known whether a chunk of them is
//! the last. The parts handed on all have one size but for the last, as some stores ask, and none is smaller than the
//! store takes. Only where the writer's parts grow, so do these.
//!
//! While a part is sealed, the one before it is handed on. So one sealed part waits in memory beside those of an unsealed
//! upload. Its memory is used again once the store has let go of it.

use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::{Buf as _, Bytes, BytesMut};

use super::lengths::{CHUNK, TAG};
use super::payload::Payload;
use super::seals::blocking;
use crate::{Error, Multipart, Tag};

pub(super) struct SealedUpload {
    inner: Box<dyn Multipart>,
    sealer: Option<Sealer>,
    /// Sealed parts that are handed on next.
    full: VecDeque<Bytes>,
    /// Sealed bytes that fill no part yet.
    ready: BytesMut,
    /// The memory of a part that was handed on.
    spare: Option<BytesMut>,
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
        Self {
            inner,
            sealer: Some(sealer),
            full: VecDeque::new(),
            ready: BytesMut::from(begin),
            spare: None,
            part: None,
            smallest,
            taken: false,
            ended: false,
        }
    }

    /// Seals plaintext apart from the runtime's thread, and meanwhile hands on what was sealed before.
    async fn seal(&mut self, part: Vec<Bytes>, last: bool) -> Result<(), Error> {
        let mut ready = std::mem::take(&mut self.ready);
        let Some(mut sealer) = self.sealer.take() else { return Err(broken()) };
        let size = part.iter().map(Bytes::len).sum::<usize>();
        let sealing = blocking(move || {
            ready.reserve(size + (size / CHUNK + 2) * TAG + CHUNK);
            part.into_iter().for_each(|piece| sealer.take(piece, &mut ready));
            if last {
                sealer.end(&mut ready);
            }
            (sealer, ready)
        });
        let (sealed, handed) = futures::join!(sealing, hand_on(&mut self.inner, &mut self.full, &mut self.spare));
        let (sealer, ready) = sealed?;
        (self.sealer, self.ready) = (Some(sealer), ready);
        self.divide(last);
        self.taken = true;
        handed
    }

    /// Divides the sealed bytes into parts of one size. The rest waits for more, or is the last part.
    fn divide(&mut self, last: bool) {
        let part = *self.part.get_or_insert(self.ready.len().max(self.smallest).max(1));
        while self.ready.len() >= part || (last && !self.ready.is_empty()) {
            // The rest moves, so that the part has its memory alone and gives it back.
            let mut rest = self.spare.take().unwrap_or_default();
            rest.clear();
            rest.extend_from_slice(self.ready.get(part..).unwrap_or_default());
            let mut piece = std::mem::replace(&mut self.ready, rest);
            piece.truncate(part);
            self.full.push_back(piece.freeze());
        }
    }
}

/// Hands on parts in order. A part that the store refuses stays the next one.
async fn hand_on(
    inner: &mut Box<dyn Multipart>,
    full: &mut VecDeque<Bytes>,
    spare: &mut Option<BytesMut>,
) -> Result<(), Error> {
    while let Some(piece) = full.front() {
        inner.write(vec![piece.clone()]).await?;
        *spare = full.pop_front().and_then(|piece| piece.try_into_mut().ok());
    }
    Ok(())
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
        if self.taken {
            // A part before this one was refused.
            hand_on(&mut self.inner, &mut self.full, &mut self.spare).await?;
        } else {
            // The parts of a long upload grow, because the store takes only so many.
            let size = part.iter().map(Bytes::len).sum::<usize>();
            self.part = self.part.map(|part| if size / 2 > part { size } else { part });
            self.seal(part, false).await?;
        }
        self.taken = false;
        Ok(())
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        if !self.ended {
            let sealed = self.seal(Vec::new(), true).await;
            self.ended = self.sealer.is_some();
            sealed?;
        }
        hand_on(&mut self.inner, &mut self.full, &mut self.spare).await?;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<(), Error> {
        self.full.clear();
        self.ready.clear();
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps the parts.
    #[derive(Default)]
    struct Parts {
        kept: Arc<Mutex<Vec<Vec<u8>>>>,
        /// Refuses every other part, the next one first.
        reluctant: bool,
        refused: bool,
    }

    #[async_trait]
    impl Multipart for Parts {
        async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
            self.refused = self.reluctant && !self.refused;
            if self.refused {
                return Err(Error::Unavailable { object: String::new(), cause: String::new(), retryable: true });
            }
            self.kept.lock().expect("no panic").push(part.concat());
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
        let inner = Box::new(Parts::default());
        let kept = Arc::clone(&inner.kept);
        let sizes = || kept.lock().expect("no panic").iter().map(Vec::len).collect::<Vec<usize>>();
        let mut upload = SealedUpload::new(inner, &[0; 1040], Payload::new(&[3; 32]), 1);
        let part = |chunks: usize| vec![Bytes::from(vec![7; chunks * CHUNK])];
        for _ in 0..4 {
            upload.write(part(4)).await.expect("taken");
        }
        let small = sizes();
        assert!(small.len() <= 5 && small.iter().all(|size| *size == small[0]), "{small:?}");
        for _ in 0..4 {
            upload.write(part(32)).await.expect("taken");
        }
        upload.complete().await.expect("complete");
        let all = sizes();
        assert_eq!(all.iter().sum::<usize>(), 1040 + 144 * (CHUNK + 16));
        assert!(all.len() <= small.len() + 6, "{all:?}");
    }

    #[tokio::test]
    async fn parts_that_are_refused_are_handed_on_again_in_their_order() {
        for last in [0, 1, CHUNK, 3 * CHUNK + 5] {
            let inner = Box::new(Parts { reluctant: true, ..Parts::default() });
            let kept = Arc::clone(&inner.kept);
            let mut upload = SealedUpload::new(inner, b"begin", Payload::new(&[3; 32]), 1);
            let mut plain = Vec::new();
            for (number, size) in [3 * CHUNK, 3 * CHUNK, 3 * CHUNK, last].into_iter().enumerate() {
                let part = Bytes::from(vec![number as u8 + 1; size]);
                plain.extend_from_slice(&part);
                let mut refused = 0;
                while upload.write(vec![part.clone()]).await.is_err() {
                    refused += 1;
                    assert!(refused < 10, "{number} of {last} is never taken");
                }
            }
            let mut refused = 0;
            while upload.complete().await.is_err() {
                refused += 1;
                assert!(refused < 10, "the end of {last} is never taken");
            }
            let sealed = kept.lock().expect("no panic").concat().split_off(b"begin".len());
            let opened = Payload::new(&[3; 32]).open(0, true, BytesMut::from(&sealed[..])).expect("whole").concat();
            assert_eq!(opened, plain, "{last}");
        }
    }
}
