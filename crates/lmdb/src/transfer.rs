//! Between a vault and a thread that blocks: the bytes of a snapshot, a few chunks at a time in memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use seawall_vault::{ObjectKey, Vault};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::spawn_blocking;

use crate::error::Error;

/// Chunks on their way to the thread.
const AHEAD: usize = 4;

/// Bytes that are read from a file at once.
const CHUNK: u64 = 1 << 20;

/// What arrives, for a thread that waits for it.
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

/// Lets a thread read an object as it arrives.
pub(crate) async fn read<T: Send + 'static>(
    vault: &Vault,
    key: &ObjectKey,
    work: impl FnOnce(Arriving) -> T + Send + 'static,
) -> Result<T, Error> {
    let (sender, chunks) = channel(AHEAD);
    let working = spawn_blocking(move || work(Arriving { chunks, chunk: Bytes::new() }));
    let mut stream = Box::pin(vault.stream(key, None));
    let pump = async move {
        while let Some(chunk) = stream.next().await {
            // A thread that found what it needs, or what is wrong, has gone away.
            let failed = chunk.is_err();
            if sender.send(chunk).await.is_err() || failed {
                break;
            }
        }
    };
    let (done, ()) = tokio::join!(working, pump);
    done.map_err(|error| Error::Internal(format!("a job ended in a panic: {error}")))
}

/// Uploads a file, which appears whole or not at all.
pub(crate) async fn upload(
    vault: &Vault,
    key: &ObjectKey,
    file: &Arc<File>,
    bytes: u64,
    folder: &Path,
) -> Result<(), Error> {
    let mut upload = vault.upload(key, None).expecting(bytes);
    let mut at = 0;
    while at < bytes {
        let (file, length) = (Arc::clone(file), usize::try_from((bytes - at).min(CHUNK)).unwrap_or_default());
        let read = spawn_blocking(move || {
            let mut chunk = vec![0; length];
            file.read_exact_at(&mut chunk, at).map(|()| chunk)
        });
        let chunk = read.await.map_err(|error| Error::Internal(format!("a job ended in a panic: {error}")))?;
        upload.write(chunk.map_err(Error::io(folder))?.into()).await?;
        at += length as u64;
    }
    upload.finish().await?;
    Ok(())
}
