//! Reading a set: one chunk after another. The digest of a chunk is checked before any of its bytes are used.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use seawall_core::Panicked;
use seawall_vault::Vault;

use crate::codec::Decoder;
use crate::manifest::read_document;
use crate::{Chunk, Digest, Error, Frame, Index, Manifest, layout};

/// How many chunks are read, and frames decompressed, ahead of the consumer of an item's bytes.
const AHEAD: usize = 2;

/// An open set.
pub struct SetReader {
    vault: Vault,
    manifest: Manifest,
    index: Index,
    /// Bytes of each item when it is decompressed.
    sizes: Vec<u64>,
    decoders: Mutex<Vec<Decoder>>,
}

impl std::fmt::Debug for SetReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetReader").field("id", &self.manifest.id).finish_non_exhaustive()
    }
}

impl SetReader {
    /// Reads and checks the index of a set.
    pub async fn open(vault: Vault, manifest: Manifest) -> Result<Self, Error> {
        let key = layout::index(manifest.id)?;
        let object = vault.object(&key);
        if !manifest.codec.is_sound() {
            return Err(Error::corrupt(object, "the manifest names a compression that can't be"));
        }
        let bytes = vault.read(&key, None, manifest.index.bytes).await?;
        if bytes.len() as u64 != manifest.index.bytes || Digest::of(&bytes) != manifest.index.blake3 {
            return Err(Error::corrupt(object, "it is not the index that the manifest names"));
        }
        let index: Index = read_document(&bytes, &object)?;
        index.check(&manifest).map_err(|cause| Error::corrupt(object, cause))?;
        let mut sizes = vec![0; index.items.len()];
        for frame in index.chunks.iter().flat_map(|chunk| &chunk.frames) {
            sizes[frame.item as usize] += frame.raw;
        }
        Ok(Self { vault, manifest, index, sizes, decoders: Mutex::default() })
    }

    /// The set's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The set's index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The name of a chunk, for messages.
    pub fn object(&self, number: u32) -> Result<String, Error> {
        Ok(self.vault.object(&layout::chunk(self.manifest.id, number, self.manifest.codec)?))
    }

    /// Reads a chunk and checks its digest.
    pub async fn chunk(&self, number: u32) -> Result<(&Chunk, Bytes), Error> {
        let key = layout::chunk(self.manifest.id, number, self.manifest.codec)?;
        let Some(chunk) = self.index.chunks.get(number as usize) else {
            return Err(Error::Internal(format!("there is no chunk {number}")));
        };
        if chunk.frames.is_empty() {
            return Ok((chunk, Bytes::new()));
        }
        let size = chunk.stored();
        let bytes = self.vault.read(&key, None, size).await?;
        let object = || self.vault.object(&key);
        if bytes.len() as u64 != size {
            return Err(Error::corrupt(object(), format!("it has {} bytes instead of {size}", bytes.len())));
        }
        let digest = tokio::task::spawn_blocking(move || (Digest::of(&bytes), bytes));
        let (blake3, bytes) = digest.await.map_err(Panicked::from)?;
        if blake3 != chunk.blake3 {
            return Err(Error::corrupt(object(), "its digest is wrong: it was changed, damaged or exchanged"));
        }
        Ok((chunk, bytes))
    }

    /// Decompresses a frame of a chunk that [`SetReader::chunk`] has checked. Blocks.
    pub fn decode(&self, number: u32, frame: &Frame, stored: &[u8], raw: &mut Vec<u8>) -> Result<(), Error> {
        let kept = self.decoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let defect = |error: std::io::Error| Error::Internal(format!("decompression failed: {error}"));
        let mut decoder = kept.map_or_else(|| Decoder::new(self.manifest.codec), Ok).map_err(defect)?;
        let size = usize::try_from(frame.raw).map_err(|_| Error::Internal("a frame is too large".to_owned()))?;
        let decoded = decoder.decode(stored, size, raw);
        self.decoders.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
        let wrong =
            |cause: String| self.object(number).map(|object| Error::corrupt(object, format!("a frame: {cause}")));
        match decoded {
            Ok(()) => Ok(()),
            Err(cause) => Err(wrong(cause)?),
        }
    }

    /// The frames of a chunk with their bytes, in order.
    pub fn frames<'a>(chunk: &'a Chunk, bytes: &Bytes) -> impl Iterator<Item = (&'a Frame, Bytes)> {
        let mut rest = bytes.clone();
        chunk.frames.iter().map(move |frame| {
            let size = usize::try_from(frame.stored).unwrap_or(usize::MAX).min(rest.len());
            (frame, rest.split_to(size))
        })
    }

    /// The bytes of an item, in order, a frame at a time. At most a few chunks are in memory, whatever the item's size.
    pub fn content(self: &Arc<Self>, item: u32) -> impl Stream<Item = Result<Vec<u8>, Error>> + Send + use<> {
        self.contents(BTreeSet::from([item])).map_ok(|(_, raw)| raw)
    }

    /// The bytes of several items, a frame at a time: each item's in order, the items interleaved as the chunks hold
    /// them. At most a few chunks are in memory, whatever the size.
    pub fn contents(
        self: &Arc<Self>,
        items: BTreeSet<u32>,
    ) -> impl Stream<Item = Result<(u32, Vec<u8>), Error>> + Send + use<> {
        let numbers: Vec<u32> = (0..)
            .zip(&self.index.chunks)
            .filter(|(_, chunk)| chunk.frames.iter().any(|frame| items.contains(&frame.item)))
            .map(|(number, _)| number)
            .collect();
        let (chunks, frames, items) = (Arc::clone(self), Arc::clone(self), Arc::new(items));
        let read = move |number| {
            let (reader, items) = (Arc::clone(&chunks), Arc::clone(&items));
            let job = tokio::spawn(async move {
                let (chunk, bytes) = reader.chunk(number).await?;
                let wanted = Self::frames(chunk, &bytes).filter(|(frame, _)| items.contains(&frame.item));
                let frames: Vec<_> = wanted.map(|(frame, stored)| Ok((number, *frame, stored))).collect();
                Ok::<_, Error>(stream::iter(frames))
            });
            async { job.await.map_err(Panicked::from)? }
        };
        let decode = move |stored: Result<(u32, Frame, Bytes), Error>| {
            let reader = Arc::clone(&frames);
            async move {
                let (number, frame, stored) = stored?;
                let job = tokio::task::spawn_blocking(move || {
                    let mut raw = Vec::new();
                    reader.decode(number, &frame, &stored, &mut raw).map(|()| (frame.item, raw))
                });
                job.await.map_err(Panicked::from)?
            }
        };
        stream::iter(numbers).map(read).buffered(AHEAD).try_flatten().map(decode).buffered(AHEAD)
    }

    /// Bytes of an item when it is decompressed.
    pub fn size(&self, item: u32) -> u64 {
        self.sizes.get(item as usize).copied().unwrap_or_default()
    }

    /// The bytes of an item that is a file, at most `max` of them.
    pub async fn file(&self, item: u32, max: u64) -> Result<Vec<u8>, Error> {
        let of_item = |chunk: &Chunk| chunk.frames.iter().any(|frame| frame.item == item);
        let size = self.size(item);
        if size > max {
            return Err(Error::corrupt(
                self.vault.url(),
                format!("an item has {size} bytes, more than the {max} that it may have"),
            ));
        }
        let (mut file, mut raw) = (Vec::new(), Vec::new());
        for number in 0..u32::try_from(self.index.chunks.len()).unwrap_or(u32::MAX) {
            if !of_item(&self.index.chunks[number as usize]) {
                continue;
            }
            let (chunk, bytes) = self.chunk(number).await?;
            for (frame, stored) in Self::frames(chunk, &bytes).filter(|(frame, _)| frame.item == item) {
                self.decode(number, frame, &stored, &mut raw)?;
                file.extend_from_slice(&raw);
            }
        }
        Ok(file)
    }
}
