//! What kinds of buckets have in common: OpenDAL makes and signs the requests; retry, deadlines and conditions are ours.
//!
//! A whole object is one request. A streamed object is an upload in parts, whose completion checks the condition. A crash may
//! leave an unfinished upload, which is invisible; a rule of the bucket or the service itself removes it.
//!
//! Stamps are user metadata, as Litestream writes them. Metadata go before the bytes. So an object in one piece has a digest, and
//! an object in parts has none: a writer that wants its digest kept gets it from the upload.

pub(crate) mod classify;
pub(crate) mod endpoint;
pub(crate) mod limits;
pub(crate) mod reason;
pub(crate) mod transport;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use opendal_core::layers::CapabilityOverrideLayer;
use opendal_core::options::{ListOptions, ReaderOptions, StatOptions, WriteOptions};
use opendal_core::{Buffer, Capability, HttpTransporter, Metadata, OperationContext, Operator, Writer};
use seawall_core::Moment;

use self::classify::classify;
use self::reason::Reason;
use crate::place::shown;
use crate::{
    Abilities, Body, Condition, Digest, Entry, Error, Lock, LockMode, Meta, Multipart, ObjectKey, Page, Prefix,
    Protection, PutOptions, Scheme, Store, Tag,
};

/// The names of a page of a service whose listings can't begin behind a name: there, each page reads all names before it.
const LARGE_PAGE: usize = 50_000;

/// Names that a listing repeats at most, where it was asked to begin behind them.
const MOST_REPEATED: usize = 64_000;

/// Deletions in flight, where each is a request.
const DELETIONS: usize = 8;

/// What names the version of an object, so that a write can be bound to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// Its ETag.
    Etags,
    /// Its ETag, which binds no write: the service has no such condition.
    Told,
    /// A number that the service gives out for each write.
    Generations,
}

/// How a kind of bucket is reached, and what it keeps.
#[async_trait]
pub trait Reach: fmt::Debug + Send + Sync + 'static {
    /// The kind.
    const SCHEME: Scheme;

    /// The name of the metadata that holds an object's logical time; Litestream's.
    const STAMP: &'static str;

    /// The name of the metadata that holds the digest.
    const DIGEST: &'static str;

    /// Whether a listing can begin behind a name.
    const LISTS_AFTER: bool;

    /// Whether OpenDAL sends metadata with an upload in parts. If it doesn't, the transport gets them in another header.
    const METADATA_OF_PARTS: bool = true;

    /// What names a version.
    const VERSIONS: Versions = Versions::Etags;
    /// Whether the kind tells of versions and locks.
    const PROTECTS: bool = false;

    /// The client; it may ask the service something at its first use.
    async fn operator(&self) -> Result<Operator, Error>;

    /// The server, for anything but the service itself.
    fn endpoint(&self) -> Option<&str>;

    /// Whether a probe must find out how conditions are handled. The services themselves keep their promises.
    fn needs_probe(&self) -> bool {
        self.endpoint().is_some()
    }

    /// Why there are no credentials now.
    fn reason(&self) -> &Reason;

    /// When the credentials end, if they tell and aren't renewed.
    fn credentials_end(&self) -> Option<Moment> {
        None
    }

    /// Whether a request can delete many objects.
    fn deletes_many(&self) -> bool {
        true
    }

    /// What the kind promises.
    fn abilities(&self) -> Abilities;

    /// What the bucket does against changes of its objects.
    async fn protection(&self) -> Result<Protection, Error> {
        Ok(Protection::default())
    }

    /// The lock of an object, or of one version of it, by its name below the root.
    async fn lock(&self, _name: &str, _version: Option<&str>) -> Result<Lock, Error> {
        Ok(Lock::default())
    }

    /// For how long the settings ask that what is needed stays locked.
    fn keeps_locked(&self) -> Option<Duration> {
        None
    }

    /// Gives an object another lock, by its name below the root.
    async fn set_lock(&self, _name: &str, _lock: (LockMode, Moment)) -> Result<(), Error> {
        Ok(())
    }
}

/// Objects in a bucket.
pub struct CloudStore<Kind: Reach> {
    reach: Arc<Kind>,
    url: String,
    /// The prefix of the place's keys, after its root.
    prefix: Arc<str>,
    /// Whether a request has shown that the bucket exists and is accessible. A HEAD that is answered with 404 and no
    /// body may also mean that the bucket doesn't exist. A missing vault must not be taken for an empty one.
    proven: Arc<AtomicBool>,
}

impl<Kind: Reach> Clone for CloudStore<Kind> {
    fn clone(&self) -> Self {
        Self {
            reach: Arc::clone(&self.reach),
            url: self.url.clone(),
            prefix: Arc::clone(&self.prefix),
            proven: Arc::clone(&self.proven),
        }
    }
}

impl<Kind: Reach> fmt::Debug for CloudStore<Kind> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudStore").field("url", &self.url).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Gives a client its transport, and takes its own buffer for parts away. If OpenDAL is told the smallest part size, it collects
/// smaller parts itself. It loses such a part when the request before it fails: closed again, the object ends without it. Our
/// parts already have their sizes.
pub(crate) fn unbuffered(operator: Operator, transport: &HttpTransporter) -> Operator {
    let layer = CapabilityOverrideLayer::new(|capability| Capability { write_multi_min_size: None, ..capability });
    operator.layer(layer).with_context(OperationContext::default().with_http_transport(transport.clone()))
}

impl<Kind: Reach> CloudStore<Kind> {
    /// The store behind a URL whose keys begin with `prefix`.
    pub(crate) fn new(reach: Kind, url: String, prefix: &str) -> Self {
        Self { reach: Arc::new(reach), url, prefix: prefix.into(), proven: Arc::default() }
    }

    /// How the bucket is reached.
    pub(crate) fn reach(&self) -> &Kind {
        &self.reach
    }

    pub(crate) fn name(&self, key: &ObjectKey) -> String {
        self.named(key.as_str())
    }

    /// The name, for messages, of the objects that begin with `text`.
    pub(crate) fn named(&self, text: &str) -> String {
        let slash = if self.url.ends_with('/') || !self.prefix.is_empty() { "" } else { "/" };
        format!("{}{slash}{text}", self.url)
    }

    /// Where the store has `text`.
    pub(crate) fn at(&self, text: &str) -> String {
        format!("{}{text}", self.prefix)
    }

    fn write_options(
        &self,
        object: &str,
        options: &PutOptions,
        digest: Option<Digest>,
        in_flight: usize,
    ) -> Result<WriteOptions, Error> {
        let mut write = WriteOptions { concurrent: in_flight, ..WriteOptions::default() };
        match &options.condition {
            Condition::Always => {}
            Condition::Create => write.if_not_exists = true,
            Condition::Match(tag) => match Kind::VERSIONS {
                Versions::Etags => write.if_match = Some(tag.as_str().to_owned()),
                Versions::Told => {
                    let cause = "the service replaces no object on the condition of its version".to_owned();
                    return Err(Error::Unsupported { object: object.to_owned(), cause });
                }
                // No object has a version that is no number, nor the number by which the service means "no object".
                Versions::Generations => match tag.as_str().parse::<u64>() {
                    Ok(number) if number > 0 => write.if_version_match = Some(number.to_string()),
                    _ => return Err(Error::Precondition { object: object.to_owned() }),
                },
            },
        }
        let stamp = options.stamp.map(|stamp| (Kind::STAMP.to_owned(), stamp.to_rfc3339_nanos()));
        let digest = digest.map(|digest| (Kind::DIGEST.to_owned(), digest.to_string()));
        if !Kind::METADATA_OF_PARTS {
            write.content_disposition = stamp.as_ref().map(|(name, value)| format!("{name}={value}"));
        }
        let metadata: HashMap<_, _> = stamp.into_iter().chain(digest).collect();
        write.user_metadata = (!metadata.is_empty()).then_some(metadata);
        Ok(write)
    }
}

#[async_trait]
impl<Kind: Reach> Store for CloudStore<Kind> {
    fn url(&self) -> String {
        shown(&self.url, self.reach.endpoint())
    }

    fn scheme(&self) -> Scheme {
        Kind::SCHEME
    }

    fn needs_probe(&self) -> bool {
        self.reach.needs_probe()
    }

    fn abilities(&self) -> Abilities {
        self.reach.abilities()
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        let digest = options.digest.unwrap_or_else(|| Digest::of(&body));
        let (size, write) = (body.len() as u64, self.write_options(&self.name(key), options, Some(digest), 1)?);
        let result =
            self.reach.operator().await?.write_options(&self.at(key.as_str()), Buffer::from(body), write).await;
        match result {
            Ok(metadata) => {
                self.proven.store(true, Ordering::Relaxed);
                let tag = tag::<Kind>(&metadata);
                if tag.is_none() && !matches!(Kind::VERSIONS, Versions::Generations) {
                    self.arrived(key, size).await?;
                }
                Ok(tag)
            }
            Err(error) => Err(of_bucket(classify(self.name(key), &error, &options.condition, self.reach.reason()))),
        }
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        let (object, condition) = (self.name(key), options.condition.clone());
        let reason = self.reach.reason().clone();
        let writer = self
            .reach
            .operator()
            .await?
            .writer_options(&self.at(key.as_str()), self.write_options(&object, options, None, in_flight)?)
            .await;
        let writer = writer.map_err(|error| classify(object.clone(), &error, &condition, &reason))?;
        Ok(Box::new(Upload { writer, object, condition, reason, tag: tag::<Kind> }))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.get_version(key, None, range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.head_version(key, None).await
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        let reason = self.reach.reason();
        let failed = |error: opendal_core::Error| {
            of_bucket(classify(self.named(prefix.as_str()), &error, &Condition::Always, reason))
        };
        let limit = if Kind::LISTS_AFTER { limit } else { limit.max(LARGE_PAGE) };
        let options = ListOptions {
            limit: Kind::LISTS_AFTER.then_some(limit),
            start_after: start_after.filter(|_| Kind::LISTS_AFTER).map(|key| self.at(key.as_str())),
            recursive: true,
            ..ListOptions::default()
        };
        let mut lister =
            self.reach.operator().await?.lister_options(&self.at(prefix.as_str()), options).await.map_err(failed)?;
        let corrupt = |cause: &str| Error::Corrupt { object: self.named(prefix.as_str()), cause: cause.to_owned() };
        let (mut page, mut repeated) = (Page::default(), 0);
        // One page of the server, without names that are no keys. It ends with the server's page, or a little after it.
        while page.entries.len() < limit {
            // OpenDAL panics at a name that isn't below the place that was asked for.
            let found = AssertUnwindSafe(lister.try_next()).catch_unwind().await;
            let found = found.map_err(|_| corrupt("the listing names objects of another place"))?.map_err(failed)?;
            self.proven.store(true, Ordering::Relaxed);
            let Some(found) = found else { return Ok(page) };
            let metadata = found.metadata();
            let Some(name) = found.path().strip_prefix(&*self.prefix) else { continue };
            let Ok(key) = ObjectKey::new(name) else {
                page.passed_over.note(name);
                continue;
            };
            if start_after.is_some_and(|after| key <= *after) {
                repeated += 1;
                if Kind::LISTS_AFTER && repeated > MOST_REPEATED {
                    return Err(corrupt(
                        "the server begins no listing where it was asked to, and the listing repeats itself",
                    ));
                }
                continue;
            }
            if !metadata.is_file() {
                continue;
            }
            let written = modified(metadata);
            let size = metadata.content_length();
            page.entries.push(Entry { key, size, modified: written, written, tag: tag::<Kind>(metadata) });
        }
        page.next = page.entries.last().map(|entry| entry.key.clone());
        Ok(page)
    }

    fn credentials_end(&self) -> Option<Moment> {
        self.reach.credentials_end()
    }

    fn has_protection(&self) -> bool {
        Kind::PROTECTS
    }

    async fn protection(&self) -> Result<Protection, Error> {
        self.reach.protection().await
    }

    async fn lock(&self, key: &ObjectKey) -> Result<Lock, Error> {
        self.reach.lock(&self.at(key.as_str()), None).await
    }

    async fn renews(&self) -> Result<bool, Error> {
        Ok(self.reach.keeps_locked().is_some())
    }

    async fn renew(&self, key: &ObjectKey, now: Moment) -> Result<Option<Moment>, Error> {
        let Some(keep) = self.reach.keeps_locked() else { return Ok(None) };
        let name = self.at(key.as_str());
        let before = self.reach.lock(&name, None).await?;
        let Some(lock) = before.renewed(keep, now) else { return Ok(before.until) };
        self.reach.set_lock(&name, lock).await?;
        Ok(Some(lock.1))
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let reason = self.reach.reason();
        let failed = |error: opendal_core::Error| classify(self.url.clone(), &error, &Condition::Always, reason);
        if !self.reach.deletes_many() {
            return self.delete_each(keys).await;
        }
        let mut deleter = self.reach.operator().await?.deleter().await.map_err(failed)?;
        for key in keys {
            deleter.delete(self.at(key.as_str())).await.map_err(failed)?;
        }
        // One error counts for the whole batch: deleting a deleted object again is no error.
        match deleter.close().await {
            Ok(()) => Ok(keys.iter().map(|_| Ok(())).collect()),
            // An answer that refuses every object has a reason for each, which OpenDAL leaves out.
            Err(error) if error.kind() == opendal_core::ErrorKind::Unexpected && keys.len() > 1 => {
                let (first, rest) = keys.split_at(1);
                let mut results = self.delete_each(first).await?;
                if let Some(Err(error)) = results.pop() {
                    return Err(error);
                }
                results.push(Ok(()));
                results.extend(self.delete_each(rest).await?);
                Ok(results)
            }
            Err(error) => Err(failed(error)),
        }
    }
}

impl<Kind: Reach> CloudStore<Kind> {
    /// Deletes objects, a request for each.
    async fn delete_each(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let (operator, reason) = (&self.reach.operator().await?, self.reach.reason());
        let deletions = keys.iter().cloned().map(|key| async move {
            let deleted = operator.delete(&self.at(key.as_str())).await;
            deleted.map_err(|error| classify(self.name(&key), &error, &Condition::Always, reason))
        });
        Ok(futures::stream::iter(deletions).buffered(DELETIONS).collect().await)
    }

    /// Asks whether an object is there, after an answer without a version: every service tells the version that a write made,
    /// so the answer may be another's, such as a proxy's.
    async fn arrived(&self, key: &ObjectKey, size: u64) -> Result<(), Error> {
        match self.head_version(key, None).await {
            Ok(meta) if meta.size == size => Ok(()),
            Ok(_) | Err(Error::NotFound { .. }) => {
                let cause = "the server reported success, and the object isn't there".to_owned();
                Err(Error::Unavailable { object: self.name(key), cause, retryable: true })
            }
            Err(error) => Err(error),
        }
    }

    /// Reads one version of an object, or the current one.
    pub(crate) async fn get_version(
        &self,
        key: &ObjectKey,
        version: Option<&str>,
        range: Option<Range<u64>>,
    ) -> Result<Body, Error> {
        let object = self.name(key);
        let start = range.as_ref().map_or(0, |range| range.start);
        let failed = {
            let (object, reason) = (object.clone(), self.reach.reason().clone());
            move |error: opendal_core::Error| match classify(object.clone(), &error, &Condition::Always, &reason) {
                Error::OutOfRange { object, .. } => Error::OutOfRange { object, start },
                error => error,
            }
        };
        let options = ReaderOptions { version: version.map(str::to_owned), ..ReaderOptions::default() };
        let reader =
            self.reach.operator().await?.reader_options(&self.at(key.as_str()), options).await.map_err(&failed)?;
        let end = range.as_ref().map_or(u64::MAX, |range| range.end);
        let stream = match range {
            None => reader.into_stream(..).await,
            Some(Range { start, end: u64::MAX }) => reader.into_stream(start..).await,
            Some(range) => reader.into_stream(range).await,
        };
        let mut stream = stream.map_err(&failed)?;
        // This call makes the request, so that a refusal shows here and not with the first bytes.
        let metadata = stream.metadata().await.map_err(&failed)?;
        let size = metadata.content_length();
        let stream = stream.map_err(move |error| match failed(error) {
            // The answer began well, so the rest can be asked for whatever OpenDAL thinks of how it ended.
            Error::Unavailable { object, cause, .. } => Error::Unavailable { object, cause, retryable: true },
            error => error,
        });
        let left = end.min(size).saturating_sub(start);
        Ok(Body { size: Some(size), tag: tag::<Kind>(&metadata), stream: exactly(stream, left).boxed() })
    }

    /// What is known about one version of an object, or about the current one.
    pub(crate) async fn head_version(&self, key: &ObjectKey, version: Option<&str>) -> Result<Meta, Error> {
        let reason = self.reach.reason();
        let options = StatOptions { version: version.map(str::to_owned), ..StatOptions::default() };
        let metadata = self.reach.operator().await?.stat_options(&self.at(key.as_str()), options).await;
        let metadata = match metadata.map_err(|error| classify(self.name(key), &error, &Condition::Always, reason)) {
            Ok(metadata) => metadata,
            Err(error) => {
                if error.is_not_found() && !self.proven.load(Ordering::Relaxed) {
                    self.list(&Prefix::all(), None, 1).await?;
                }
                return Err(error);
            }
        };
        let kept = |name: &str| metadata.user_metadata().and_then(|user| user.get(name));
        Ok(Meta {
            size: metadata.content_length(),
            modified: modified(&metadata),
            tag: tag::<Kind>(&metadata),
            stamp: kept(Kind::STAMP).and_then(|text| text.parse().ok()),
            digest: kept(Kind::DIGEST).and_then(|text| text.parse().ok()),
        })
    }
}

struct Upload {
    writer: Writer,
    object: String,
    condition: Condition,
    reason: Reason,
    tag: fn(&Metadata) -> Option<Tag>,
}

#[async_trait]
impl Multipart for Upload {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        let result = self.writer.write(Buffer::from(part)).await;
        result.map_err(|error| classify(self.object.clone(), &error, &self.condition, &self.reason))
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        let result = self.writer.close().await;
        result
            .map(|metadata| (self.tag)(&metadata))
            .map_err(|error| classify(self.object.clone(), &error, &self.condition, &self.reason))
    }

    async fn abort(&mut self) -> Result<(), Error> {
        let result = self.writer.abort().await;
        result.map_err(|error| classify(self.object.clone(), &error, &self.condition, &self.reason))
    }
}

/// Ends a stream with its last byte. OpenDAL counts to the end of the range that it was asked for, and takes an object
/// that ends before for a broken connection.
fn exactly(
    stream: impl Stream<Item = Result<Buffer, Error>> + Send + Unpin + 'static,
    left: u64,
) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
    futures::stream::try_unfold((stream, left), |(mut stream, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(buffer) = stream.try_next().await? else { return Ok(None) };
        let chunk = buffer.to_bytes();
        let left = left.saturating_sub(chunk.len() as u64);
        Ok(Some((chunk, (stream, left))))
    })
}

fn tag<Kind: Reach>(metadata: &Metadata) -> Option<Tag> {
    match Kind::VERSIONS {
        Versions::Etags | Versions::Told => metadata.etag().map(Tag::new),
        Versions::Generations => metadata.version().map(Tag::new),
    }
}

/// What isn't found by a listing or a write is the bucket.
fn of_bucket(error: Error) -> Error {
    match error {
        Error::NotFound { object } => Error::Missing { object, cause: "the bucket does not exist".to_owned() },
        error => error,
    }
}

fn modified(metadata: &Metadata) -> Moment {
    let millis = metadata.last_modified().map_or(0, |at| at.into_inner().as_millisecond());
    Moment::from_millis(millis)
}
