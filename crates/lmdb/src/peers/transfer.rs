//! Moves the bytes of a snapshot between a vault and a blocking thread, with a few chunks in memory at a time.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use seawall_core::Panicked;
use seawall_vault::{ObjectKey, Vault};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::spawn_blocking;

use crate::capture::dump::Stretch;
use crate::error::Error;
use crate::snapshot::index::{self, Index};
use crate::snapshot::{Compressor, SnapshotName};

/// Chunks on their way to the thread.
const AHEAD: usize = 4;

/// Bytes that are read from a file at once.
const CHUNK: u64 = 1 << 20;

/// Bytes at the end of an object that are read to find its index; they nearly always hold all of it.
const TAIL: u64 = 64 << 10;

/// A part of the bytes to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of the object.
    Whole,
    /// A range of the object.
    Range(Range<u64>),
    /// Bytes that aren't in the object, still to be compressed.
    Raw(Vec<u8>),
}

/// The bytes that arrive, for a thread that waits for them.
pub(crate) struct Arriving {
    chunks: Receiver<Result<Bytes, seawall_vault::Error>>,
    chunk: Bytes,
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.chunks.blocking_recv() {
                Some(Ok(chunk)) => self.chunk = chunk,
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => return Ok(0),
            }
        }
        let part = self.chunk.split_to(self.chunk.len().min(buffer.len()));
        let Some(place) = buffer.get_mut(..part.len()) else { return Ok(0) };
        place.copy_from_slice(&part);
        Ok(part.len())
    }
}

/// Lets a thread read parts of an object as they arrive.
pub(crate) async fn read<T: Send + 'static>(
    vault: &Vault,
    key: &ObjectKey,
    parts: Vec<Part>,
    work: impl FnOnce(Arriving) -> T + Send + 'static,
) -> Result<T, Error> {
    let codec = SnapshotName::parse(key.as_str()).map(|name| name.codec).unwrap_or_default();
    let (sender, chunks) = channel(AHEAD);
    let working = spawn_blocking(move || work(Arriving { chunks, chunk: Bytes::new() }));
    let mut stream = stream::iter(parts).flat_map(|part| match part {
        Part::Whole => vault.stream(key, None).boxed(),
        Part::Range(range) => vault.stream(key, Some(range)).boxed(),
        Part::Raw(raw) => {
            let mut member = Vec::new();
            Compressor::new(codec).member(&raw, &mut member);
            stream::iter([Ok(member.into())]).boxed()
        }
    });
    let pump = async move {
        while let Some(chunk) = stream.next().await {
            // The thread has ended, because it has what it needs or found a fault.
            let failed = chunk.is_err();
            if sender.send(chunk).await.is_err() || failed {
                break;
            }
        }
    };
    let (done, ()) = tokio::join!(working, pump);
    Ok(done.map_err(Panicked::from)?)
}

/// The index of an object of `size` bytes. Without a readable index the caller reads the whole object.
pub(crate) async fn index(vault: &Vault, key: &ObjectKey, size: u64) -> Result<Option<Index>, Error> {
    if size < index::FOOTER as u64 {
        return Ok(None);
    }
    let from = size.saturating_sub(TAIL);
    let tail = vault.read(key, Some(from..size), TAIL).await?;
    let Some(range) = index::find(&tail, size) else { return Ok(None) };
    let within = range.start.checked_sub(from).and_then(|start| {
        let end = range.end.checked_sub(from)?;
        tail.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    });
    let member = match within {
        Some(member) => Bytes::copy_from_slice(member),
        None => vault.read(key, Some(range.clone()), index::MOST).await?,
    };
    let index = index::parse(&member, range.start);
    if index.is_none() {
        tracing::warn!(object = key.as_str(), "its index is damaged; all of it is read");
    }
    Ok(index)
}

/// Uploads a snapshot, which appears whole or not at all.
pub(crate) async fn upload(
    vault: &Vault,
    key: &ObjectKey,
    file: &Arc<File>,
    stretches: &[Stretch],
    folder: &Path,
) -> Result<(), Error> {
    let bytes = stretches.iter().map(|stretch| stretch.length).sum();
    let mut upload = vault.upload(key, None).expecting(bytes);
    for Stretch { at, length } in stretches {
        let (mut at, end) = (*at, at + length);
        while at < end {
            let (file, length) = (Arc::clone(file), usize::try_from((end - at).min(CHUNK)).unwrap_or_default());
            let read = spawn_blocking(move || {
                let mut chunk = vec![0; length];
                file.read_exact_at(&mut chunk, at).map(|()| chunk)
            });
            let chunk = read.await.map_err(Panicked::from)?;
            upload.write(chunk.map_err(Error::io(folder))?.into()).await?;
            at += length as u64;
        }
    }
    upload.finish().await?;
    Ok(())
}
