//! Reads that resume where a broken connection ended.
//!
//! The reader compares the bytes that arrived with the object's size. An early end is an error like any other, and the
//! next attempt asks for the rest. Each attempt compares the object's version, so bytes of two versions never mix.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream};
use futures::{StreamExt, TryStreamExt};
use tokio::time::timeout;

use crate::counts::Operation;
use crate::{Error, ObjectKey, Tag, Vault};

/// A read under way.
struct Reading {
    vault: Vault,
    key: ObjectKey,
    /// The next byte, counted from the object's start.
    at: u64,
    /// The end of the requested range, or [`u64::MAX`] until the object's size is known.
    end: u64,
    /// Whether the whole object is wanted, so that the first request needs no range.
    whole: bool,
    /// Bytes handed on so far.
    taken: u64,
    /// The most bytes that the caller takes.
    max: Option<u64>,
    tag: Option<Tag>,
    body: Option<BoxStream<'static, Result<Bytes, Error>>>,
}

/// The bytes of an object or a range, with retries; `max` refuses more than the caller takes.
pub(crate) fn stream(
    vault: Vault,
    key: ObjectKey,
    range: Option<Range<u64>>,
    max: Option<u64>,
) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
    let whole = range.is_none();
    let Range { start: at, end } = range.unwrap_or(0..u64::MAX);
    let reading = Reading { vault, key, at, end, whole, taken: 0, max, tag: None, body: None };
    stream::try_unfold(reading, |mut reading| async move { Ok(reading.next().await?.map(|chunk| (chunk, reading))) })
        .boxed()
}

impl Reading {
    /// The next chunk; `None` at the end. The retry budget is fresh for each chunk: progress is progress.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let vault = self.vault.clone();
        let mut waits = vault.inner.retrier.waits(0);
        loop {
            if self.at >= self.end {
                return Ok(None);
            }
            match self.attempt(waits.deadline(0)).await {
                Ok(Some(chunk)) => {
                    if let Some(throttle) = &vault.policy().download {
                        throttle.take(chunk.len() as u64).await;
                    }
                    return Ok(Some(chunk));
                }
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.body = None;
                    waits.after(error).await?;
                }
            }
        }
    }

    async fn attempt(&mut self, patience: Duration) -> Result<Option<Bytes>, Error> {
        let mut body = match self.body.take() {
            Some(body) => body,
            None => self.connect(patience).await?,
        };
        if self.at >= self.end {
            return Ok(None);
        }
        let chunk = match timeout(patience, body.try_next()).await {
            Ok(chunk) => chunk?,
            Err(_) => return Err(Error::Timeout { object: self.object(), after: patience }),
        };
        let Some(mut chunk) = chunk else {
            return if self.end == u64::MAX { Ok(None) } else { Err(self.broken()) };
        };
        let wanted = self.end - self.at;
        if chunk.len() as u64 > wanted {
            chunk.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        }
        self.at += chunk.len() as u64;
        self.taken += chunk.len() as u64;
        if let Some(max) = self.max
            && self.taken > max
        {
            return Err(Error::TooLarge { object: self.object(), size: self.taken, max });
        }
        self.vault.inner.retrier.counters.received(chunk.len() as u64);
        self.body = Some(body);
        Ok(Some(chunk))
    }

    /// Asks for the remaining bytes, and learns the object's size and version.
    async fn connect(&mut self, patience: Duration) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let range = (!self.whole || self.at > 0).then_some(self.at..self.end);
        let store = &self.vault.inner.store;
        let retrier = &self.vault.inner.retrier;
        let body = retrier.within(patience, Operation::Get, &self.object(), store.get(&self.key, range)).await?;
        match (&self.tag, body.tag) {
            (Some(old), Some(new)) if *old != new => {
                let cause = "the object changed while it was read".to_owned();
                return Err(Error::Corrupt { object: self.object(), cause });
            }
            (None, tag) => self.tag = tag,
            _ => {}
        }
        if let Some(size) = body.size {
            self.end = self.end.min(size);
        }
        let expected = self.taken.saturating_add(self.end.saturating_sub(self.at));
        if let Some(max) = self.max
            && self.end != u64::MAX
            && expected > max
        {
            return Err(Error::TooLarge { object: self.object(), size: expected, max });
        }
        Ok(body.stream)
    }

    fn object(&self) -> String {
        self.vault.object(&self.key)
    }

    fn broken(&self) -> Error {
        let cause = format!("the connection ended at byte {} of {}", self.at, self.end);
        Error::Unavailable { object: self.object(), cause, retryable: true }
    }
}
