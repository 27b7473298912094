//! An object of any size, written in order with bounded memory: create-only, or over one known version.
//!
//! Parts are handed on without copying. No request is made before the first part is full, and an object smaller than a
//! part is one PUT. Memory: the part being collected, and the parts in flight. If the upload is dropped before
//! [`Upload::finish`], nothing is visible, and the store is asked to abort it (best effort).

use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use seawall_core::Moment;

use crate::counts::Operation;
use crate::reading;
use crate::settle::{self, Owner, SAMPLE, Sample, Settled};
use crate::{Condition, Created, Digest, Digester, Error, Multipart, ObjectKey, PutOptions, Tag, Vault};

/// The time limit for aborting a dropped upload.
const FAREWELL: Duration = Duration::from_secs(10);

/// The most bytes that a completion is given time for. Only parts in flight may still have to be sent then, not the
/// whole object.
const UNSETTLED: u64 = 64 << 20;

/// A streamed write.
pub struct Upload {
    vault: Vault,
    key: ObjectKey,
    stamp: Option<Moment>,
    pending: Vec<Bytes>,
    pending_bytes: usize,
    parts: usize,
    part_size: usize,
    sink: Option<Box<dyn Multipart>>,
    sample: Sample,
    digester: Option<Digester>,
    /// The version that is replaced; `None` where there must be no object.
    expected: Option<Tag>,
    failed: bool,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("key", &self.key).field("bytes", &self.sample.size).finish_non_exhaustive()
    }
}

impl Upload {
    pub(crate) fn new(vault: Vault, key: ObjectKey, stamp: Option<Moment>) -> Self {
        let abilities = vault.abilities();
        let wanted = abilities.part_size.unwrap_or(vault.policy().part_size);
        let part_size = part_size(wanted, abilities.smallest_part, 0, usize::MAX);
        Self {
            vault,
            key,
            stamp,
            pending: Vec::new(),
            pending_bytes: 0,
            parts: 0,
            part_size,
            sink: None,
            sample: Sample::default(),
            digester: None,
            expected: None,
            failed: false,
        }
    }

    /// Says how large the object will be at most, so that its parts are large enough where the store bounds their
    /// number. To be called before the first write; without it parts grow when many have been written.
    #[must_use]
    pub fn expecting(mut self, bytes: u64) -> Self {
        let abilities = self.vault.abilities();
        self.part_size = part_size(self.part_size, abilities.smallest_part, bytes, abilities.most_parts);
        self
    }

    /// Computes the digest, if the store has no room for it beside an object in parts.
    #[must_use]
    pub fn digesting(mut self) -> Self {
        self.digester = (!self.vault.abilities().digests_of_parts).then(Digester::default);
        self
    }

    /// Writes over exactly this version of the object. [`Upload::finish`] then ends in [`Error::Precondition`] where it is
    /// another one, or gone.
    #[must_use]
    pub(crate) fn replacing(mut self, expected: Tag) -> Self {
        self.expected = Some(expected);
        self
    }

    /// Bytes taken so far.
    pub fn written(&self) -> u64 {
        self.sample.size
    }

    /// Takes the next bytes. Waits while the store is slow.
    ///
    /// # Errors
    /// After any error the upload has ended.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        self.check()?;
        self.sample.extend(&bytes);
        while !bytes.is_empty() {
            let most = grown(self.part_size, self.parts, self.vault.abilities().most_parts);
            let chunk = bytes.split_to(bytes.len().min(most.saturating_sub(self.pending_bytes)));
            self.pending_bytes += chunk.len();
            self.pending.push(chunk);
            if self.pending_bytes >= most {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Makes the object visible and durable, if the name is free.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when another object has the name.
    pub async fn finish(self) -> Result<Created, Error> {
        self.finish_digested().await.map(|(created, _)| created)
    }

    /// Like [`Upload::finish`]. With [`Upload::digesting`], also returns the digest if the store keeps none, so that
    /// the caller can keep it elsewhere.
    ///
    /// # Errors
    /// As [`Upload::finish`].
    pub async fn finish_digested(mut self) -> Result<(Created, Option<Digest>), Error> {
        self.check()?;
        if self.sink.is_none() {
            let bytes = join(std::mem::take(&mut self.pending));
            if let Some(expected) = &self.expected {
                self.vault.clone().replace_as(&self.key.clone(), bytes, expected, self.stamp).await?;
                return Ok((Created::Fresh, None));
            }
            return Ok((self.vault.clone().create(&self.key.clone(), bytes, self.stamp).await?, None));
        }
        if !self.pending.is_empty() {
            self.flush().await?;
        }
        let outcome = self.complete().await;
        let created = match outcome {
            Ok(()) => {
                self.sink = None;
                self.confirm().await
            }
            Err(error) => self.settle(error).await,
        };
        Ok((created?, self.digester.as_ref().map(Digester::digest)))
    }

    /// Asks whether all parts are in the object. Code that isn't ours joins them, and a short object would be noticed
    /// too late.
    async fn confirm(&mut self) -> Result<Created, Error> {
        let (object, size) = (self.vault.object(&self.key), self.sample.size);
        match self.vault.head(&self.key).await? {
            Some(meta) if meta.size == size => Ok(Created::Fresh),
            Some(meta) => {
                let cause = format!("{} of {size} bytes arrived; the store did not join all parts", meta.size);
                Err(Error::Corrupt { object, cause })
            }
            None => Err(self.vault.vanished(&self.key)),
        }
    }

    /// Aborts the upload.
    pub async fn abort(mut self) -> Result<(), Error> {
        self.pending.clear();
        let Some(mut sink) = self.sink.take() else { return Ok(()) };
        let object = self.vault.object(&self.key);
        self.vault.inner.retrier.once(Operation::Upload, &object, 0, sink.abort()).await
    }

    fn check(&self) -> Result<(), Error> {
        if self.failed {
            let cause = "the upload was given up by an earlier error".to_owned();
            return Err(Error::Unavailable { object: self.vault.object(&self.key), cause, retryable: false });
        }
        Ok(())
    }

    fn stopped(&self) -> Error {
        let cause = "the process is shutting down".to_owned();
        Error::Unavailable { object: self.vault.object(&self.key), cause, retryable: false }
    }

    /// Hands the pending bytes over as one part.
    async fn flush(&mut self) -> Result<(), Error> {
        // A future that is dropped half way leaves an unknown number of parts. The upload takes no more parts then.
        self.failed = true;
        if self.sink.is_none() {
            self.sink = Some(self.begin().await?);
        }
        let Some(sink) = self.sink.as_mut() else { return self.check() };
        let retrier = &self.vault.inner.retrier;
        let (part, size) = (std::mem::take(&mut self.pending), self.pending_bytes as u64);
        if let Some(throttle) = &retrier.policy.upload {
            throttle.take(size).await;
        }
        let object = self.vault.object(&self.key);
        let hashing = self.digester.take().map(|digester| hash(digester, part.clone()));
        let mut waits = retrier.waits(size);
        loop {
            retrier.counters.sent(size);
            match retrier.patient(Operation::Upload, &object, size, sink.write(part.clone())).await {
                Ok(()) => break,
                // Our own deadline cut the call off in an unknown state. Only an error that the store answered can be
                // retried.
                Err(error @ Error::Timeout { .. }) => return Err(error),
                Err(error) => waits.after(error).await?,
            }
        }
        if let Some(hashing) = hashing {
            self.digester = Some(hashing.await.map_err(|_| self.stopped())?);
        }
        self.parts += 1;
        self.pending_bytes = 0;
        self.failed = false;
        Ok(())
    }

    async fn begin(&mut self) -> Result<Box<dyn Multipart>, Error> {
        let creates = self.expected.is_none();
        if creates && self.vault.looks_first() && self.vault.head(&self.key).await?.is_some() {
            return Err(Error::AlreadyExists { object: self.vault.object(&self.key) });
        }
        let condition = match &self.expected {
            Some(expected) => Condition::Match(expected.clone()),
            None if self.vault.looks_first() => Condition::Always,
            None => Condition::Create,
        };
        let options = PutOptions { condition, stamp: self.stamp, digest: None };
        let store = &self.vault.inner.store;
        let retrier = &self.vault.inner.retrier;
        let in_flight = self.vault.abilities().parts_in_flight.unwrap_or(retrier.policy.parts_in_flight).max(1);
        let object = self.vault.object(&self.key);
        retrier.run(Operation::Upload, &object, 0, || store.begin(&self.key, &options, in_flight)).await
    }

    async fn complete(&mut self) -> Result<(), Error> {
        let Some(sink) = self.sink.as_mut() else { return Ok(()) };
        let retrier = &self.vault.inner.retrier;
        let object = self.vault.object(&self.key);
        // Parts may still be in flight, and a server may need long to join them.
        let bytes = self.sample.size.min(UNSETTLED);
        let mut waits = retrier.waits(bytes);
        loop {
            match retrier.patient(Operation::Upload, &object, bytes, sink.complete()).await {
                Ok(_) => return Ok(()),
                Err(error @ Error::Timeout { .. }) => return Err(error),
                Err(error) => waits.after(error).await?,
            }
        }
    }

    /// Finds out the result of a completion that ended in `error`.
    async fn settle(&mut self, error: Error) -> Result<Created, Error> {
        // A repeated completion doesn't find its upload: the first completion succeeded, or the upload was aborted.
        if !settle::is_unclear(&error) && !error.is_not_found() {
            return Err(error);
        }
        let unchanged = match &self.expected {
            Some(expected) => self.vault.head(&self.key).await?.and_then(|meta| meta.tag).as_ref() == Some(expected),
            None => false,
        };
        let owner = self.owner().await?;
        match settle::decide(Some(&error), owner, unchanged) {
            Settled::Ours => {
                if !settle::is_refusal(&error) {
                    // Completed, so there is nothing to give up.
                    self.sink = None;
                }
                Ok(Created::Adopted)
            }
            Settled::Theirs if self.expected.is_some() => {
                Err(Error::Precondition { object: self.vault.object(&self.key) })
            }
            Settled::Theirs => Err(Error::AlreadyExists { object: self.vault.object(&self.key) }),
            Settled::Open if settle::is_refusal(&error) => Err(self.vault.vanished(&self.key)),
            Settled::Open => Err(error),
        }
    }

    async fn owner(&mut self) -> Result<Owner, Error> {
        match self.found().await {
            Ok(found) => Ok(settle::sampled(&self.sample, found.as_ref())),
            // An object of ours would open.
            Err(Error::Sealing { fault, .. }) if fault.is_of_object() => Ok(Owner::Theirs),
            Err(error) => Err(error),
        }
    }

    /// The sample of the object that is there; of one of another size, its size alone.
    async fn found(&mut self) -> Result<Option<Sample>, Error> {
        let Some(meta) = self.vault.head(&self.key).await? else { return Ok(None) };
        let size = meta.size;
        let mut found = Sample { size, ..Sample::default() };
        if size == self.sample.size {
            let sample = SAMPLE as u64;
            found.head = self.bytes(0..sample.min(size)).await?;
            found.tail = self.bytes(size.saturating_sub(sample)..size).await?;
        }
        Ok(Some(found))
    }

    async fn bytes(&mut self, range: std::ops::Range<u64>) -> Result<Vec<u8>, Error> {
        let chunks: Vec<Bytes> =
            reading::stream(self.vault.clone(), self.key.clone(), Some(range), Some(SAMPLE as u64))
                .try_collect()
                .await?;
        Ok(chunks.concat())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(mut sink) = self.sink.take() else { return };
        // Best effort, as the module says. Without a runtime, the store's own expiry removes the upload.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(FAREWELL, sink.abort()).await;
            });
        }
    }
}

/// Hashes a part while it is being sent.
fn hash(mut digester: Digester, part: Vec<Bytes>) -> tokio::task::JoinHandle<Digester> {
    tokio::task::spawn_blocking(move || {
        part.iter().for_each(|chunk| digester.update(chunk));
        digester
    })
}

fn join(mut chunks: Vec<Bytes>) -> Bytes {
    match chunks.len() {
        0 => Bytes::new(),
        1 => chunks.remove(0),
        _ => chunks.concat().into(),
    }
}

/// The size of parts for an object of `expected` bytes (0: unknown) in at most `most` parts.
fn part_size(wanted: usize, smallest: usize, expected: u64, most: usize) -> usize {
    // A tenth of the parts is a reserve, in case the expectation was too small.
    let share = expected / (most as u64 / 10 * 9).max(1) + 1;
    wanted.max(smallest).max(usize::try_from(share).unwrap_or(usize::MAX)).max(1)
}

/// The size of the next part. Parts grow when half of their number is used up, so an upload of unknown size can have
/// four times the bytes before the store's number of parts ends it.
fn grown(size: usize, parts: usize, most: usize) -> usize {
    if parts < most / 2 { size } else { size.saturating_mul(8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_the_store() {
        const MIB: usize = 1 << 20;
        assert_eq!(part_size(8 * MIB, 5 * MIB, 0, 10_000), 8 * MIB);
        assert_eq!(part_size(MIB, 5 * MIB, 0, 10_000), 5 * MIB, "never below the store's own bound");
        assert_eq!(part_size(8 * MIB, 1, u64::MAX, usize::MAX), 8 * MIB, "no bound on parts");
        let terabyte = 1_u64 << 40;
        let size = part_size(8 * MIB, 5 * MIB, terabyte, 10_000);
        assert!(terabyte / size as u64 <= 9_000, "{size}");
        assert_eq!(grown(8 * MIB, 4_999, 10_000), 8 * MIB);
        assert_eq!(grown(8 * MIB, 5_000, 10_000), 64 * MIB);
        assert_eq!(grown(8 * MIB, 1 << 40, usize::MAX), 8 * MIB);
    }

    #[test]
    fn nothing_is_copied_for_one_chunk() {
        let chunk = Bytes::from(vec![1; 100]);
        assert_eq!(join(vec![chunk.clone()]).as_ptr(), chunk.as_ptr());
        assert_eq!(join(vec![chunk.clone(), chunk]).len(), 200);
        assert!(join(Vec::new()).is_empty());
    }
}
