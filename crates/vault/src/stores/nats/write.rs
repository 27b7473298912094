//! Writes objects: chunks under a subject of their own first, then the description, which makes the object visible.
//!
//! The description is published under the condition that its subject's newest message is the expected one, so creation and
//! replacement are exact. Chunks are on their way a few at a time, in order. A chunk that fails ends the object: sent again, it
//! would come behind its successors. A killed writer leaves chunks that nothing names.

use std::collections::BTreeMap;

use async_nats::HeaderMap;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use seawall_core::Moment;

use super::api::{Api, Latest, Pipeline};
use super::info::{self, DIGEST, FIRST, ObjectInfo, Options, STAMP};
use crate::{Condition, Digest, Digester, Error, Multipart, ObjectKey, PutOptions, Tag};

/// The header with a chunk's number, from 0. Other programs ignore it.
pub(super) const NUMBER: &str = "Seawall-Chunk";

/// The size of a chunk, where the server takes as much.
const CHUNK: usize = 256 << 10;

/// The smallest size of a chunk.
const SMALLEST: usize = 1 << 10;

/// Room for the headers of a chunk in the server's largest message.
const HEADERS: usize = 512;

/// Chunks on their way.
const WINDOW: u64 = 16;

/// An object that is being written.
pub(super) struct Writer {
    api: Api,
    /// The name in the bucket.
    name: String,
    options: PutOptions,
    nuid: String,
    chunk: usize,
    buffer: BytesMut,
    chunks: u64,
    size: u64,
    sha256: ring::digest::Context,
    blake3: Option<Digester>,
    pipeline: Option<Pipeline>,
    /// Chunks that are stored, in their order.
    stored: u64,
    /// The places of chunks that are stored before their predecessors were confirmed.
    confirmed: BTreeMap<u64, u64>,
    /// The places of the first chunk and of the last one that was confirmed.
    places: Option<(u64, u64)>,
    /// Why the object can't be finished any more.
    failed: Option<Error>,
    /// The description is published.
    done: bool,
}

impl Writer {
    /// Begins an object. The largest message that the server takes bounds its chunks.
    pub(super) async fn begin(api: Api, key: &ObjectKey, name: String, options: PutOptions) -> Result<Self, Error> {
        let object = api.name(&name);
        let most = api.link.line(&object).await?.client.max_payload();
        let chunk = CHUNK.min(most.saturating_sub(HEADERS)).max(SMALLEST);
        let blake3 = options.digest.is_none().then(Digester::default);
        tracing::trace!(%key, chunk, "begins an object");
        Ok(Self {
            nuid: nuid(&object)?,
            api,
            name,
            options,
            chunk,
            buffer: BytesMut::new(),
            chunks: 0,
            size: 0,
            sha256: ring::digest::Context::new(&ring::digest::SHA256),
            blake3,
            pipeline: None,
            stored: 0,
            confirmed: BTreeMap::new(),
            places: None,
            failed: None,
            done: false,
        })
    }

    fn object(&self) -> String {
        self.api.name(&self.name)
    }

    /// Takes bytes, and sends what fills chunks.
    pub(super) async fn take(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        self.size += bytes.len() as u64;
        if let Some(blake3) = &mut self.blake3 {
            blake3.update(&bytes);
        }
        self.sha256.update(&bytes);
        while !bytes.is_empty() {
            if self.buffer.is_empty() && bytes.len() >= self.chunk {
                let chunk = bytes.split_to(self.chunk);
                self.send(chunk).await?;
                continue;
            }
            let more = bytes.split_to(bytes.len().min(self.chunk - self.buffer.len()));
            self.buffer.extend_from_slice(&more);
            if self.buffer.len() == self.chunk {
                let chunk = self.buffer.split().freeze();
                self.send(chunk).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, chunk: Bytes) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let outcome = self.try_to_send(chunk).await;
        self.note(outcome)
    }

    async fn try_to_send(&mut self, chunk: Bytes) -> Result<(), Error> {
        while self.chunks - self.stored >= WINDOW {
            self.confirm().await?;
        }
        let object = self.object();
        if self.pipeline.is_none() {
            self.pipeline = Some(self.api.pipeline(&object).await?);
        }
        let mut headers = HeaderMap::new();
        headers.insert(NUMBER, self.chunks.to_string());
        let (number, subject) = (self.chunks, info::chunks(&self.api.bucket, &self.nuid));
        if let Some(pipeline) = &mut self.pipeline {
            self.chunks += 1;
            pipeline.send(number, subject, headers, chunk).await?;
        }
        // The first chunk goes alone: it tells whether there is a bucket.
        if number == 0 { self.confirm().await } else { Ok(()) }
    }

    /// Waits until one more chunk is stored.
    async fn confirm(&mut self) -> Result<(), Error> {
        let Some(pipeline) = &mut self.pipeline else { return Ok(()) };
        let (number, place) = pipeline.confirmed().await?;
        self.confirmed.insert(number, place);
        while let Some(place) = self.confirmed.remove(&self.stored) {
            self.stored += 1;
            self.places = match self.places {
                None => Some((place, place)),
                Some((first, last)) if last < place => Some((first, place)),
                Some(_) => return Err(self.ended("the server stored its chunks in another order")),
            };
        }
        if self.confirmed.len() as u64 > WINDOW {
            return Err(self.ended("the server confirms other chunks than were sent"));
        }
        Ok(())
    }

    /// Remembers an error: sent again, a chunk would come behind its successors.
    fn note(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        let outcome = outcome.map_err(|error| match error {
            Error::Unavailable { cause, .. } => self.ended(&cause),
            error => error,
        });
        self.failed = outcome.clone().err();
        outcome
    }

    fn ended(&self, cause: &str) -> Error {
        Error::Unavailable { object: self.object(), cause: cause.to_owned(), retryable: false }
    }

    /// Sends the rest, and publishes the description. Can be repeated after a retryable error.
    pub(super) async fn finish(&mut self) -> Result<Option<Tag>, Error> {
        if !self.buffer.is_empty() {
            let chunk = self.buffer.split().freeze();
            self.send(chunk).await?;
        }
        while self.stored < self.chunks && self.failed.is_none() {
            let outcome = self.confirm().await;
            self.note(outcome)?;
        }
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let sequence = self.publish().await?;
        self.done = true;
        Ok(Some(Tag::new(sequence.to_string())))
    }

    async fn publish(&mut self) -> Result<u64, Error> {
        let (object, subject) = (self.object(), self.api.subject(&self.name));
        let description =
            serde_json::to_vec(&self.describe()).map_err(|_| self.ended("its description can't be written"))?;
        let description = Bytes::from(description);
        let former = match &self.options.condition {
            Condition::Create => None,
            Condition::Always | Condition::Match(_) => self.former(&object, &subject).await?,
        };
        let expected = match (&self.options.condition, &former) {
            (Condition::Always, _) => None,
            (Condition::Create, _) => Some(0),
            (Condition::Match(tag), Some((latest, info)))
                if !info.deleted && latest.sequence.to_string() == tag.as_str() =>
            {
                Some(latest.sequence)
            }
            (Condition::Match(_), _) => return Err(Error::Precondition { object }),
        };
        let published = self.publish_over(&object, &subject, &description, expected).await;
        let sequence = match published {
            // Other programs leave a message in the place of a deleted object.
            Err(error @ Error::AlreadyExists { .. }) => match self.former(&object, &subject).await? {
                Some((latest, info)) if info.deleted => {
                    self.publish_over(&object, &subject, &description, Some(latest.sequence)).await?
                }
                _ => return Err(error),
            },
            published => published?,
        };
        if let Some((_, info)) = former.filter(|(_, info)| !info.deleted && info.nuid != self.nuid) {
            // The object is written; what is left of the former one takes space and nothing else.
            let chunks = info::chunks(&self.api.bucket, &info.nuid);
            if let Err(error) = self.api.purge(&object, &chunks, None).await {
                tracing::debug!(%error, "chunks of a replaced object are left behind");
            }
        }
        Ok(sequence)
    }

    async fn former(&self, object: &str, subject: &str) -> Result<Option<(Latest, ObjectInfo)>, Error> {
        match self.api.latest(object, subject).await {
            Ok(latest) => {
                let corrupt = |cause: &str| Error::Corrupt { object: object.to_owned(), cause: cause.to_owned() };
                let info = ObjectInfo::read(&latest.payload, &self.name).map_err(corrupt)?;
                Ok(Some((latest, info)))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn publish_over(
        &self,
        object: &str,
        subject: &str,
        description: &Bytes,
        expected: Option<u64>,
    ) -> Result<u64, Error> {
        let mut headers = HeaderMap::new();
        // The former description goes when the new one comes.
        headers.insert("Nats-Rollup", "sub");
        if let Some(expected) = expected {
            headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        }
        self.api.publish(object, subject.to_owned(), headers, description.clone(), &self.options.condition).await
    }

    fn describe(&self) -> ObjectInfo {
        let sha256 = self.sha256.clone().finish();
        let blake3 = self.options.digest.or_else(|| self.blake3.as_ref().map(Digester::digest));
        let mut metadata = BTreeMap::new();
        if let Some(blake3) = blake3 {
            metadata.insert(DIGEST.to_owned(), blake3.to_string());
        }
        if let Some((first, _)) = self.places {
            metadata.insert(FIRST.to_owned(), first.to_string());
        }
        let stamped = |stamp: Moment| BTreeMap::from([(STAMP.to_owned(), vec![stamp.to_rfc3339_nanos()])]);
        ObjectInfo {
            name: self.name.clone(),
            headers: self.options.stamp.map(stamped),
            metadata: Some(metadata),
            options: Some(Options { link: None, max_chunk_size: Some(self.chunk as u64) }),
            bucket: self.api.bucket.clone(),
            nuid: self.nuid.clone(),
            size: self.size,
            // Readers take the time of the message.
            mtime: "0001-01-01T00:00:00Z".to_owned(),
            chunks: self.chunks,
            digest: Some(info::digest(sha256.as_ref())),
            deleted: false,
        }
    }

    /// Removes the chunks of an object that is not finished.
    pub(super) async fn give_up(&mut self) -> Result<(), Error> {
        if self.done || self.chunks == 0 {
            return Ok(());
        }
        // Chunks on their way come before the purge: they have the same connection, if it stands.
        self.failed = Some(self.ended("the upload was given up"));
        self.api.purge(&self.object(), &info::chunks(&self.api.bucket, &self.nuid), None).await
    }
}

#[async_trait]
impl Multipart for Writer {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        for chunk in part {
            self.take(chunk).await?;
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        self.finish().await
    }

    async fn abort(&mut self) -> Result<(), Error> {
        self.give_up().await
    }
}

/// A token that no other object has.
fn nuid(object: &str) -> Result<String, Error> {
    let none = |_| {
        let cause = "the system gives no random numbers".to_owned();
        Error::Unavailable { object: object.to_owned(), cause, retryable: false }
    };
    Ok(format!("{:016x}{:016x}", getrandom::u64().map_err(none)?, getrandom::u64().map_err(none)?))
}

/// The digest that a description has.
pub(super) fn digest(info: &ObjectInfo) -> Option<Digest> {
    info.metadata(DIGEST)?.parse().ok()
}
