//! The store whose objects are sealed, over one that knows nothing of it.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use seawall_core::{Moment, Requests};

use super::gate::{self, Opened};
use super::lengths::{self, CHUNK, TAG};
use super::payload::Payload;
use super::seals::{Seals, bad_chunk, blocking, seal_whole};
use super::upload::SealedUpload;
use super::{Access, Fault, fault, marker};
use crate::counts::Counters;
use crate::several::MemberState;
use crate::{
    Abilities, Body, Capabilities, Error, Lock, Meta, Multipart, ObjectKey, Page, Prefix, Protection, PutOptions,
    Scheme, Store, Tag,
};

/// Chunks that are opened together, apart from the runtime's thread.
const TOGETHER: usize = 8;

/// Bytes of a piece as stores hand them out: most are smaller.
const PIECE: usize = 128 << 10;

/// Batches whose memory is kept. Two are opened at a time, one is received, and the reader still holds some.
const BATCHES: usize = 6;

/// Headers that are remembered, so that a further range of an object needs one request.
const HEADERS: usize = 64;

/// Objects sealed, or left as they are, as [`Access`] says; refused if the vault disagrees.
pub struct SealedStore {
    inner: Arc<dyn Store>,
    access: Access,
    counters: Arc<Counters>,
    opened: RwLock<Option<Arc<Opened>>>,
    opening: tokio::sync::Mutex<()>,
    /// The keys of the vault that was opened last.
    last: Mutex<Option<Arc<Seals>>>,
    headers: Mutex<VecDeque<(ObjectKey, Tag, [u8; 32])>>,
}

impl fmt::Debug for SealedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedStore").field("inner", &self.inner).field("access", &self.access).finish_non_exhaustive()
    }
}

impl SealedStore {
    /// A store over another.
    pub fn new(inner: Arc<dyn Store>, access: Access) -> Self {
        Self::counted(inner, access, Arc::default())
    }

    /// The same; requests beside those that were asked for are counted.
    pub(crate) fn counted(inner: Arc<dyn Store>, access: Access, counters: Arc<Counters>) -> Self {
        let (opened, opening, headers) = (RwLock::default(), tokio::sync::Mutex::default(), Mutex::default());
        Self { inner, access, counters, opened, opening, last: Mutex::default(), headers }
    }

    async fn opened(&self, writing: bool) -> Result<Arc<Opened>, Error> {
        let present = || self.opened.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(opened) = present() {
            return Ok(opened);
        }
        let _turn = self.opening.lock().await;
        if let Some(opened) = present() {
            return Ok(opened);
        }
        let opened = Arc::new(gate::open(&*self.inner, &self.access, &self.counters, writing).await?);
        if let Opened::Sealed(seals) = &*opened {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(seals.clone());
        }
        if !matches!(*opened, Opened::Empty) {
            *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Some(opened.clone());
        }
        Ok(opened)
    }

    /// What seals new objects, or `None` in a plain vault.
    async fn seals(&self) -> Result<Option<Arc<Seals>>, Error> {
        match &*self.opened(true).await? {
            Opened::Plain => Ok(None),
            Opened::Sealed(seals) => {
                seals.look_again(&*self.inner, &self.counters).await?;
                Ok(Some(seals.clone()))
            }
            Opened::Empty => Err(fault(Fault::Recipients, self.url(), "no recipients are named to encrypt for")),
        }
    }

    fn last(&self) -> Option<Arc<Seals>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn object(&self, key: &ObjectKey) -> String {
        format!("{}/{key}", self.inner.url())
    }

    fn plain_size(&self, seals: &Seals, key: &ObjectKey, size: u64) -> Result<u64, Error> {
        seals.lengths.plain(size).ok_or_else(|| {
            let kind = if size < seals.lengths.before() { Fault::Plaintext } else { Fault::Cut };
            fault(kind, self.object(key), format!("no encrypted object of this vault has {size} bytes"))
        })
    }

    fn remembered(&self, key: &ObjectKey) -> Option<(Tag, [u8; 32])> {
        let headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        headers.iter().find(|(known, ..)| known == key).map(|(_, tag, payload)| (tag.clone(), *payload))
    }

    fn remember(&self, key: &ObjectKey, tag: Option<&Tag>, payload: [u8; 32]) {
        let Some(tag) = tag else { return };
        let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        headers.retain(|(known, ..)| known != key);
        headers.push_back((key.clone(), tag.clone(), payload));
        if headers.len() > HEADERS {
            headers.pop_front();
        }
    }

    /// The key of an object's payload, by a request for its header.
    async fn payload(&self, seals: &Seals, key: &ObjectKey) -> Result<(Option<Tag>, [u8; 32]), Error> {
        self.counters.request(crate::Operation::Get);
        let mut body = self.inner.get(key, Some(0..seals.lengths.before())).await?;
        let mut bytes = BytesMut::new();
        while let Some(piece) = body.stream.try_next().await? {
            bytes.extend_from_slice(&piece);
        }
        let payload = self.header(seals, key, &bytes, body.size).await?;
        self.remember(key, body.tag.as_ref(), payload);
        Ok((body.tag, payload))
    }

    /// Opens a header. A beginning that the connection cut is no fault of the object.
    async fn header(&self, seals: &Seals, key: &ObjectKey, bytes: &[u8], size: Option<u64>) -> Result<[u8; 32], Error> {
        if (bytes.len() as u64) < seals.lengths.before().min(size.unwrap_or(0)) {
            let cause = "the connection ended within the object's header".to_owned();
            return Err(Error::Unavailable { object: self.object(key), cause, retryable: true });
        }
        let before = usize::try_from(seals.lengths.before()).unwrap_or(usize::MAX);
        seals.open(&*self.inner, &self.counters, key, bytes.get(..before).unwrap_or(bytes)).await
    }

    /// A range of an object in a sealed vault.
    async fn read(&self, seals: &Seals, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        let whole = range.is_none();
        let range = range.unwrap_or(0..u64::MAX);
        let (first, end) = lengths::chunks(&range);
        let until = end.map_or(u64::MAX, |end| seals.lengths.at(end));
        // A range in the first chunk begins with the header. Others need it from before, of the same version.
        let mut known = if first == 0 { None } else { self.remembered(key) };
        if first > 0 && known.is_none() {
            let (tag, payload) = self.payload(seals, key).await?;
            known = Some((tag.unwrap_or_else(|| Tag::new("")), payload));
        }
        let from = if first == 0 { 0 } else { seals.lengths.at(first) };
        let behind = |error: Error| match error {
            Error::OutOfRange { object, .. } => Error::OutOfRange { object, start: range.start },
            error => error,
        };
        let mut body = self.inner.get(key, (!whole).then_some(from..until)).await.map_err(behind)?;
        let size = match body.size {
            Some(size) => size,
            None => self.inner.head(key).await?.size,
        };
        let mut bytes = BytesMut::new();
        let payload = match known {
            Some((tag, payload)) if body.tag.as_ref().is_none_or(|now| *now == tag || tag.as_str().is_empty()) => {
                payload
            }
            Some(_) => {
                // Another version than the header's. The reader above notices it by the tag, and this is its header.
                let (tag, payload) = self.payload(seals, key).await?;
                if tag != body.tag {
                    let cause = "the object changed while it was read".to_owned();
                    return Err(Error::Unavailable { object: self.object(key), cause, retryable: true });
                }
                payload
            }
            None => {
                while (bytes.len() as u64) < seals.lengths.before()
                    && let Some(piece) = body.stream.try_next().await?
                {
                    bytes.extend_from_slice(&piece);
                }
                let payload = self.header(seals, key, &bytes, Some(size)).await?;
                drop(bytes.split_to(usize::try_from(seals.lengths.before()).unwrap_or(usize::MAX).min(bytes.len())));
                self.remember(key, body.tag.as_ref(), payload);
                payload
            }
        };
        let plain = self.plain_size(seals, key, size)?;
        if range.start >= plain && !whole {
            return Err(Error::OutOfRange { object: self.object(key), start: range.start });
        }
        let opening = Opening {
            object: self.object(key),
            payload: Arc::new(Payload::new(&payload)),
            stream: body.stream,
            bytes,
            used: VecDeque::new(),
            next: first,
            end: end.unwrap_or(u64::MAX).min(lengths::count(plain)),
            count: lengths::count(plain),
            last: last_chunk(plain),
        };
        let begin = range.start - first * CHUNK as u64;
        let stream = cut(opening.into_stream(), begin, range.end.min(plain).saturating_sub(range.start));
        Ok(Body { size: Some(plain), tag: body.tag, stream })
    }
}

/// Bytes of plaintext in the last chunk.
fn last_chunk(plain: u64) -> usize {
    usize::try_from(plain - (lengths::count(plain) - 1) * CHUNK as u64).unwrap_or(CHUNK)
}

/// Opens chunks as they come.
struct Opening {
    object: String,
    payload: Arc<Payload>,
    stream: BoxStream<'static, Result<Bytes, Error>>,
    /// What came and isn't a whole batch yet.
    bytes: BytesMut,
    /// Memory of earlier batches, the oldest first. It is used again when their last reader has dropped them.
    used: VecDeque<BytesMut>,
    /// The chunk that `bytes` begin with.
    next: u64,
    /// Where to end.
    end: u64,
    /// The object's chunks.
    count: u64,
    /// Bytes of plaintext in the object's last chunk.
    last: usize,
}

impl Opening {
    /// Batches of chunks, in order. Opening one goes on while the next is received. Where the connection ends early, so does
    /// the stream, before the first chunk that isn't whole.
    fn into_stream(self) -> BoxStream<'static, Result<Bytes, Error>> {
        let (object, payload, count) = (self.object.clone(), self.payload.clone(), self.count);
        stream::try_unfold(self, |mut opening| async move { Ok(opening.batch().await?.map(|batch| (batch, opening))) })
            .map(move |batch: Result<(u64, u64, BytesMut), Error>| {
                let (object, payload) = (object.clone(), payload.clone());
                async move {
                    let (first, chunks, bytes) = batch?;
                    let small = bytes.len() <= CHUNK + TAG;
                    let last = first + chunks == count;
                    let work = move || payload.open(first, last, bytes);
                    let opened = if small { work() } else { blocking(work).await? };
                    opened.map_err(|(index, bad)| bad_chunk(&object, index, bad))
                }
            })
            .buffered(2)
            .map_ok(|chunks| stream::iter(chunks.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    /// The next whole chunks: the first, how many, and their bytes.
    async fn batch(&mut self) -> Result<Option<(u64, u64, BytesMut)>, Error> {
        if self.next >= self.end {
            return Ok(None);
        }
        let most = (self.end - self.next).min(TOGETHER as u64);
        let wanted = self.bytes_of(most);
        self.make_room(most);
        while self.bytes.len() < wanted {
            match self.stream.try_next().await {
                Ok(Some(piece)) => self.bytes.extend_from_slice(&piece),
                // What came whole is still handed on; the reader counts.
                Ok(None) => break,
                Err(error) if self.bytes.len() < CHUNK + TAG => return Err(error),
                Err(_) => break,
            }
        }
        let chunks = if self.bytes.len() >= wanted { most } else { (self.bytes.len() / (CHUNK + TAG)) as u64 };
        if chunks == 0 {
            return Ok(None);
        }
        let bytes = self.bytes.split_to(self.bytes_of(chunks).min(self.bytes.len()));
        let first = self.next;
        self.next += chunks;
        if chunks < most {
            self.end = self.next;
        }
        Ok(Some((first, chunks, bytes)))
    }

    /// Gives a batch of `chunks` chunks memory of its size at once, where possible that of an earlier batch. A piece that
    /// ends behind the batch fits in as well.
    fn make_room(&mut self, chunks: u64) {
        let behind = if self.next + chunks == self.end { 0 } else { PIECE };
        let room = self.bytes_of(chunks) + behind;
        if self.bytes.capacity() >= room {
            return;
        }
        let free = self.used.iter_mut().position(|used| used.try_reclaim(room));
        let mut home = free.and_then(|at| self.used.remove(at)).unwrap_or_else(|| BytesMut::with_capacity(room));
        home.extend_from_slice(&self.bytes);
        let mut before = std::mem::replace(&mut self.bytes, home);
        before.clear();
        if self.used.len() == BATCHES {
            self.used.pop_front();
        }
        self.used.push_back(before);
    }

    /// The bytes of so many chunks from the next on.
    fn bytes_of(&self, chunks: u64) -> usize {
        let whole = usize::try_from(chunks).unwrap_or(TOGETHER) * (CHUNK + TAG);
        if self.next + chunks == self.count { whole - CHUNK + self.last } else { whole }
    }
}

/// The bytes `begin..begin + size` of a stream.
fn cut(
    inner: BoxStream<'static, Result<Bytes, Error>>,
    begin: u64,
    size: u64,
) -> BoxStream<'static, Result<Bytes, Error>> {
    let mut skip = usize::try_from(begin).unwrap_or(usize::MAX);
    let mut left = size;
    let pieces = inner.try_filter_map(move |mut piece| {
        let dropped = skip.min(piece.len());
        skip -= dropped;
        let _ = piece.split_to(dropped);
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= piece.len() as u64;
        std::future::ready(Ok((!piece.is_empty()).then_some(piece)))
    });
    pieces.boxed()
}

#[async_trait]
impl Store for SealedStore {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn scheme(&self) -> Scheme {
        self.inner.scheme()
    }

    fn needs_probe(&self) -> bool {
        self.inner.needs_probe()
    }

    fn abilities(&self) -> Abilities {
        let inner = self.inner.abilities();
        if !matches!(self.access, Access::Sealed(_)) {
            return inner;
        }
        // Parts grow by their tags, which make a further part of a thousand.
        let most_parts = inner.most_parts - (inner.most_parts / 1000).min(inner.most_parts.saturating_sub(1));
        Abilities { most_parts, digests_of_parts: true, ..inner }
    }

    fn members(&self) -> Vec<MemberState> {
        self.inner.members()
    }

    async fn probe_places(&self) -> Option<Result<Capabilities, Error>> {
        self.inner.probe_places().await
    }

    fn requests(&self) -> Option<Requests> {
        self.inner.requests()
    }

    fn credentials_end(&self) -> Option<Moment> {
        self.inner.credentials_end()
    }

    fn has_protection(&self) -> bool {
        self.inner.has_protection()
    }

    async fn protection(&self) -> Result<Protection, Error> {
        self.inner.protection().await
    }

    async fn lock(&self, key: &ObjectKey) -> Result<Lock, Error> {
        self.inner.lock(key).await
    }

    async fn renews(&self) -> Result<bool, Error> {
        self.inner.renews().await
    }

    async fn renew(&self, key: &ObjectKey, now: Moment) -> Result<Option<Moment>, Error> {
        self.inner.renew(key, now).await
    }

    fn is_authentic(&self) -> bool {
        matches!(self.access, Access::Sealed(_))
    }

    fn folder(&self) -> Option<PathBuf> {
        self.inner.folder()
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        let Some(seals) = self.seals().await? else { return self.inner.put(key, body, options).await };
        let (begin, payload) = seals.begin(&*self.inner, &self.counters, key).await?;
        let (small, lengths) = (body.len() <= CHUNK, seals.lengths);
        let work = move || seal_whole(&begin, &payload, &body, lengths);
        let sealed = if small { work() } else { blocking(work).await? };
        self.inner.put(key, sealed, &PutOptions { digest: None, ..options.clone() }).await
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        let Some(seals) = self.seals().await? else { return self.inner.begin(key, options, in_flight).await };
        let (begin, payload) = seals.begin(&*self.inner, &self.counters, key).await?;
        let options = PutOptions { digest: None, ..options.clone() };
        let inner = self.inner.begin(key, &options, in_flight).await?;
        Ok(Box::new(SealedUpload::new(inner, &begin, payload, self.inner.abilities().smallest_part)))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        match &*self.opened(false).await? {
            Opened::Plain => self.inner.get(key, range).await,
            Opened::Sealed(seals) => self.read(seals, key, range).await,
            Opened::Empty => Err(Error::NotFound { object: self.object(key) }),
        }
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        match &*self.opened(false).await? {
            Opened::Plain => self.inner.head(key).await,
            Opened::Sealed(seals) => {
                let meta = self.inner.head(key).await?;
                // The digest beside an object is the stored bytes', which nothing above sees.
                Ok(Meta { size: self.plain_size(seals, key, meta.size)?, digest: None, ..meta })
            }
            Opened::Empty => Err(Error::NotFound { object: self.object(key) }),
        }
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        let opened = self.opened(false).await?;
        let seals = match &*opened {
            Opened::Plain => return self.inner.list(prefix, start_after, limit).await,
            Opened::Sealed(seals) => seals,
            Opened::Empty => return Ok(Page::default()),
        };
        let mut page = self.inner.list(prefix, start_after, limit).await?;
        page.entries.retain(|entry| !marker::is_ours(entry.key.as_str()));
        for entry in &mut page.entries {
            // What has a length that no object of the vault has keeps it: reading it tells the fault.
            entry.size = seals.lengths.plain(entry.size).unwrap_or(entry.size);
        }
        Ok(page)
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        match &*self.opened(false).await? {
            Opened::Empty => Ok(keys.iter().map(|_| Ok(())).collect()),
            Opened::Plain | Opened::Sealed(_) => self.inner.delete(keys).await,
        }
    }

    async fn enter(&self) -> Result<(), Error> {
        self.inner.enter().await?;
        // What is there now may be another vault.
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.headers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    fn identity(&self) -> Option<String> {
        Some(self.last()?.vault().to_string())
    }

    async fn mend(&self) -> Result<(), Error> {
        match self.last() {
            Some(seals) => seals.put_back(&*self.inner, &self.counters).await,
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.inner.check()
    }

    fn trace(&self, prefixes: &[Prefix]) -> Option<u64> {
        self.inner.trace(prefixes)
    }
}
