//! The facade that every engine uses: whole objects, listing, deletion, and the settlement of ambiguous answers.
//!
//! Built over any [`Store`]. Cheap to clone; clones share connections, counts and bandwidth. Everything here is bounded
//! by the [`Policy`] (I7), and dropping a future leaves what a crash would leave.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, Stream};
use futures::{StreamExt, TryStreamExt};
use seawall_core::{Limit, Locks, Moment, RENEWED_LOCKS};
use tokio::sync::OnceCell;

use crate::counts::{Counters, Operation};
use crate::limits::limits;
use crate::protection::summary;
use crate::reading;
use crate::retry::Retrier;
use crate::settle::{self, Owner, Settled};
use crate::several::MemberState;
use crate::trouble::Trouble;
use crate::{
    Abilities, Access, Capabilities, Condition, Digest, Entry, Environment, Error, Lock, Meta, Noted, ObjectKey, Page,
    Policy, Prefix, Protection, PutOptions, Scheme, SealedStore, Store, Tag, Upload, VaultUrl,
};

/// Objects that [`Vault::list`] holds at most, in about 200 bytes each.
const MOST_LISTED: usize = 500_000;

/// Keys asked for with one listing request.
const PAGE: usize = 1000;

/// How the names of objects begin that exist only to test a store. Nothing else reads them.
pub(crate) const PROBES: &str = "seawall/probe-";

/// Objects whose locks are asked for at once.
const LOCKS_AT_ONCE: usize = 16;

/// When an object with a legal hold is asked for again.
const HELD: Duration = Duration::from_secs(24 * 3600);

/// The result of a successful create-only write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// This write made the object.
    Fresh,
    /// The object existed already, byte for byte: an earlier attempt of ours, whose answer was lost.
    Adopted,
}

/// A place that keeps objects.
#[derive(Clone)]
pub struct Vault {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) retrier: Retrier,
    pub(crate) url: String,
    /// Whether create-only writes must look first, because the store accepts every write.
    degraded: std::sync::atomic::AtomicBool,
    /// What the place does against changes, once it was asked.
    protection: OnceCell<Protection>,
    /// Why locks were not renewed when they last should have been.
    not_renewed: Mutex<Option<String>>,
    /// The findings of the last probe.
    probed: Mutex<Option<Capabilities>>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vault").field(&self.inner.url).finish()
    }
}

impl Vault {
    /// Opens the place that a URL names. Checks what it can without a request. Other mistakes show at the first use.
    pub async fn open(url: &VaultUrl, environment: &Environment, policy: Policy) -> Result<Self, Error> {
        let counters = Arc::default();
        let store = open_store(url, environment, &policy, &counters).await?;
        Ok(Self::over(store, policy, counters))
    }

    /// A vault over a store, as it is: a store that encrypts is a [`SealedStore`].
    pub fn new(store: Arc<dyn Store>, policy: Policy) -> Self {
        Self::over(store, policy, Arc::default())
    }

    fn over(store: Arc<dyn Store>, policy: Policy, counters: Arc<Counters>) -> Self {
        // Where a probe is needed, the probe tells.
        let (url, degraded) = (store.url(), !store.abilities().create && !store.needs_probe());
        let mut retrier = Retrier::new(policy);
        retrier.counters = counters;
        Self {
            inner: Arc::new(Inner {
                store,
                retrier,
                url,
                degraded: degraded.into(),
                protection: OnceCell::new(),
                not_renewed: Mutex::default(),
                probed: Mutex::default(),
            }),
        }
    }

    /// The place, without secrets.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// Whether this process still has to call [`Vault::probe`] to learn how the server handles conditions.
    pub fn needs_probe(&self) -> bool {
        self.inner.store.needs_probe() && self.probed().is_none()
    }

    /// The findings of the last probe; `None` before the first one.
    pub fn probed(&self) -> Option<Capabilities> {
        *self.inner.probed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the store handles conditions, by the last probe. Makes a probe if there was none and one is needed, or if the
    /// vault consists of several places.
    ///
    /// # Errors
    /// Those of [`Vault::probe`].
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        match self.probed() {
            Some(found) => Ok(found),
            None if self.needs_probe() || !self.members().is_empty() => self.probe().await,
            None => Ok(Capabilities::promised(self.abilities())),
        }
    }

    /// When the credentials of the place end, the first of several places. `None` if they don't end, are renewed, or don't tell.
    pub fn credentials_end(&self) -> Option<Moment> {
        self.inner.store.credentials_end()
    }

    /// What the place can't do and what isn't offered because of it: by the backend's promises, and by the last probe. Of
    /// several places, what one of them can't do.
    pub fn limits(&self) -> Vec<Limit> {
        let mut all = limits(self.abilities(), self.probed());
        let not_renewed = self.inner.not_renewed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.extend(not_renewed.map(|cause| Limit {
            lacks: RENEWED_LOCKS.to_owned(),
            effect: format!("locks of objects that are needed will end: {cause}"),
        }));
        for limit in self.members().into_iter().flat_map(|member| member.limits) {
            if all.iter().all(|known| known.lacks != limit.lacks) {
                all.push(limit);
            }
        }
        all
    }

    /// The kind of its store.
    pub fn scheme(&self) -> Scheme {
        self.inner.store.scheme()
    }

    /// Accepts the folder that is at the path now; see [`Store::enter`].
    pub async fn enter(&self) -> Result<(), Error> {
        self.inner.store.enter().await
    }

    /// The identity of an encrypted vault, once it was opened.
    pub(crate) fn identity(&self) -> Option<String> {
        self.inner.store.identity()
    }

    /// Puts back what tells how an encrypted vault's objects are read; see [`Store::mend`].
    pub(crate) async fn mend(&self) -> Result<(), Error> {
        self.inner.store.mend().await
    }

    /// Whether one of several places holds now what was acknowledged lately; see [`Store::confirms`].
    pub async fn confirms(&self, url: &str) -> bool {
        self.inner.store.confirms(url).await
    }

    /// Checks that the place is still the one that was written to; see [`Store::check`]. May block for a system call.
    pub fn check(&self) -> Result<(), Error> {
        self.inner.store.check()
    }

    /// A number that changes when names below these prefixes come or go; see [`Store::trace`].
    pub fn trace(&self, prefixes: &[Prefix]) -> Option<u64> {
        self.inner.store.trace(prefixes)
    }

    /// The promises of the backend; [`Vault::probe`] tells how the server behaves.
    pub fn abilities(&self) -> Abilities {
        self.inner.store.abilities()
    }

    /// Whether every object that is read is proved by that; see [`Store::is_authentic`].
    pub fn is_authentic(&self) -> bool {
        self.inner.store.is_authentic()
    }

    /// Requests and bytes so far, of this vault and its clones.
    pub fn counts(&self) -> seawall_core::Requests {
        self.inner.store.requests().unwrap_or_else(|| self.inner.retrier.counters.snapshot())
    }

    /// The places that it consists of, if there are several.
    pub fn members(&self) -> Vec<MemberState> {
        self.inner.store.members()
    }

    /// The folder whose files are the objects, if the place is a folder.
    pub fn folder(&self) -> Option<std::path::PathBuf> {
        self.inner.store.folder()
    }

    /// The trouble since the last answered request: the first request that failed, or one that waits for its answer.
    /// `None` if all is well. So a caller learns that a store is away while requests are still retried.
    pub fn trouble(&self) -> Option<Trouble> {
        self.inner.retrier.troubles.now()
    }

    /// The bounds that this vault works within.
    pub fn policy(&self) -> &Policy {
        &self.inner.retrier.policy
    }

    /// The object's URL without secrets, for messages.
    pub fn object(&self, key: &ObjectKey) -> String {
        match self.inner.url.split_once('?') {
            Some((place, query)) => format!("{place}/{key}?{query}"),
            None => format!("{}/{key}", self.inner.url),
        }
    }

    /// Makes an object if there is none (I2, I9). When the store refuses or doesn't answer, the object there is read
    /// back. Equal bytes are an earlier attempt of ours, so `bytes` must hold a nonce.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when another object has the name.
    pub async fn create(&self, key: &ObjectKey, bytes: Bytes, stamp: Option<Moment>) -> Result<Created, Error> {
        self.create_as(key, bytes, stamp, None).await
    }

    /// Writes an object whose digest is known, if there is none, as [`Vault::create`] does.
    pub async fn create_digested(&self, key: &ObjectKey, bytes: Bytes, digest: Digest) -> Result<Created, Error> {
        self.create_as(key, bytes, None, Some(digest)).await
    }

    pub(crate) async fn create_as(
        &self,
        key: &ObjectKey,
        bytes: Bytes,
        stamp: Option<Moment>,
        digest: Option<Digest>,
    ) -> Result<Created, Error> {
        if self.looks_first() {
            match self.owner(key, &bytes).await? {
                Owner::Ours => return Ok(Created::Adopted),
                Owner::Theirs => return Err(Error::AlreadyExists { object: self.object(key) }),
                Owner::Nobody => {}
            }
        }
        let condition = if self.looks_first() { Condition::Always } else { Condition::Create };
        match self.write(key, &bytes, PutOptions { condition, stamp, digest }).await {
            Ok(_) => Ok(Created::Fresh),
            Err(error) => self.settle(key, &bytes, error).await.map(|()| Created::Adopted),
        }
    }

    /// Replaces an object whose version is still `expected`, and returns the new version. Ambiguous answers are settled
    /// as in [`Vault::create`], so `bytes` must hold a nonce.
    ///
    /// # Errors
    /// [`Error::Precondition`] when it is another version or gone; [`Error::Unsupported`] where a probe has found that the
    /// store doesn't compare versions.
    pub async fn replace(&self, key: &ObjectKey, bytes: Bytes, expected: &Tag) -> Result<Tag, Error> {
        self.replace_as(key, bytes, expected, None).await
    }

    pub(crate) async fn replace_as(
        &self,
        key: &ObjectKey,
        bytes: Bytes,
        expected: &Tag,
        stamp: Option<Moment>,
    ) -> Result<Tag, Error> {
        self.refuse_blind_replacement(key)?;
        let options = PutOptions { condition: Condition::Match(expected.clone()), stamp, digest: None };
        let error = match self.write(key, &bytes, options).await {
            Ok(Some(tag)) => return Ok(tag),
            Ok(None) => None,
            Err(error) if settle::is_unclear(&error) => Some(error),
            Err(error) => return Err(error),
        };
        // The version is asked for before the content, so that a change in between is not taken for ours.
        let found = self.head(key).await?.and_then(|meta| meta.tag);
        let owner = self.owner(key, &bytes).await?;
        match (settle::decide(error.as_ref(), owner, found.as_ref() == Some(expected)), found) {
            (Settled::Ours, Some(tag)) => Ok(tag),
            (Settled::Open, _) => Err(error.unwrap_or_else(|| self.vanished(key))),
            _ => Err(Error::Precondition { object: self.object(key) }),
        }
    }

    /// Writes an object, also over an existing one.
    pub async fn put(&self, key: &ObjectKey, bytes: Bytes, stamp: Option<Moment>) -> Result<(), Error> {
        self.write(key, &bytes, PutOptions { stamp, ..PutOptions::default() }).await.map(drop)
    }

    /// Begins an object of any size that is written in order and appears, whole, when it is finished. No request is
    /// made before the first part is full.
    pub fn upload(&self, key: &ObjectKey, stamp: Option<Moment>) -> Upload {
        Upload::new(self.clone(), key.clone(), stamp)
    }

    /// Reads an object, or a range of it, into memory.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when it has more than `max` bytes: sizes that come from a store are hostile (I11).
    pub async fn read(&self, key: &ObjectKey, range: Option<Range<u64>>, max: u64) -> Result<Bytes, Error> {
        let mut chunks = Box::pin(reading::stream(self.clone(), key.clone(), range, Some(max)));
        let Some(first) = chunks.try_next().await? else { return Ok(Bytes::new()) };
        let Some(second) = chunks.try_next().await? else { return Ok(first) };
        let mut all = BytesMut::from(&first[..]);
        all.extend_from_slice(&second);
        while let Some(chunk) = chunks.try_next().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }

    /// Reads an object, or a range of it, as a stream that resumes after a broken connection. An object that changes
    /// while it is read is an error, never a mixture.
    pub fn stream(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
    ) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
        reading::stream(self.clone(), key.clone(), range, None)
    }

    /// What is known about an object; `None` where there is none.
    pub async fn head(&self, key: &ObjectKey) -> Result<Option<Meta>, Error> {
        let store = &self.inner.store;
        match self.inner.retrier.run(Operation::Head, &self.object(key), 0, || store.head(key)).await {
            Ok(meta) => Ok(Some(meta)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All objects below `prefix` whose keys sort after `start_after`, in the order of their keys.
    ///
    /// # Errors
    /// [`Error::Endless`] where there are more than fit in memory.
    pub async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>) -> Result<Vec<Entry>, Error> {
        self.entries_up_to(prefix, start_after, MOST_LISTED).try_collect().await
    }

    /// Like [`Vault::entries`], for a caller that keeps something of each: after `most` objects it ends with [`Error::Endless`] (I5).
    pub fn entries_up_to(
        &self,
        prefix: &Prefix,
        start_after: Option<&ObjectKey>,
        most: usize,
    ) -> impl Stream<Item = Result<Entry, Error>> + Send + 'static {
        let object = format!("{}/{}", self.inner.url, prefix.as_str());
        let counted = self.entries(prefix, start_after).enumerate();
        counted.map(
            move |(number, entry)| {
                if number < most { entry } else { Err(Error::Endless { object: object.clone(), most }) }
            },
        )
    }

    /// Like [`Vault::list`], with one page in memory at a time.
    pub fn entries(
        &self,
        prefix: &Prefix,
        start_after: Option<&ObjectKey>,
    ) -> impl Stream<Item = Result<Entry, Error>> + Send + 'static {
        self.entries_noting(prefix, start_after, &Noted::default())
    }

    /// Like [`Vault::entries`], and notes which names are passed over. The note is complete at the end of the stream.
    pub fn entries_noting(
        &self,
        prefix: &Prefix,
        start_after: Option<&ObjectKey>,
        noted: &Noted,
    ) -> impl Stream<Item = Result<Entry, Error>> + Send + 'static + use<> {
        let (vault, prefix, noted) = (self.clone(), prefix.clone(), noted.clone());
        let pages = stream::try_unfold(Some(start_after.cloned()), move |at| {
            let (vault, prefix, noted) = (vault.clone(), prefix.clone(), noted.clone());
            async move {
                let Some(after) = at else { return Ok(None) };
                let page = vault.page(&prefix, after.as_ref()).await?;
                noted.add(page.passed_over);
                Ok::<_, Error>(Some((stream::iter(page.entries.into_iter().map(Ok)), page.next.map(Some))))
            }
        });
        pages.try_flatten().boxed()
    }

    pub(crate) async fn page(&self, prefix: &Prefix, after: Option<&ObjectKey>) -> Result<Page, Error> {
        let store = &self.inner.store;
        let page =
            self.inner.retrier.run(Operation::List, &self.inner.url, 0, || store.list(prefix, after, PAGE)).await?;
        // A store whose pages don't advance would be listed endlessly.
        if let (Some(next), Some(after)) = (&page.next, after)
            && next <= after
        {
            let cause = "the listing repeats itself".to_owned();
            return Err(Error::Corrupt { object: format!("{}/{}", self.inner.url, prefix.as_str()), cause });
        }
        Ok(page)
    }

    /// Deletes objects. A missing object counts as deleted. All are tried, and the first error is returned.
    pub async fn delete(&self, keys: &[ObjectKey]) -> Result<(), Error> {
        let (store, retrier) = (&self.inner.store, &self.inner.retrier);
        let mut worst = Ok(());
        for batch in keys.chunks(store.abilities().delete_batch.max(1)) {
            let mut left = batch.to_vec();
            let mut waits = retrier.waits(0);
            loop {
                let attempt = store.delete(&left);
                let outcome = retrier.within(waits.deadline(0), Operation::Delete, &self.inner.url, attempt).await;
                let (again, error) = match outcome {
                    Ok(results) => undeleted(&left, results),
                    Err(error) => (left.clone(), Some(error)),
                };
                let Some(error) = error else { break };
                if let Err(error) = waits.after(error).await {
                    worst = worst.and(Err(error));
                    break;
                }
                left = again;
            }
        }
        worst
    }

    /// Whether [`Vault::protection`] has anything to ask: not every store can tell.
    pub fn tells_protection(&self) -> bool {
        self.inner.store.has_protection()
    }

    /// What the place itself does against changes of its objects. The first call asks, with a request or two.
    pub async fn protection(&self) -> Result<Protection, Error> {
        let (store, retrier) = (&self.inner.store, &self.inner.retrier);
        if !store.has_protection() {
            return Ok(Protection::default());
        }
        let ask = async || {
            let told = retrier.run(Operation::Head, &self.inner.url, 0, || store.protection()).await?;
            if told.locks.is_none() {
                tracing::warn!(
                    vault = %self.inner.url,
                    "these credentials may not ask whether the bucket locks its objects: nothing tells until when they can't be deleted, and \
                     retention hides objects that may be locked. Allow s3:GetBucketVersioning, s3:GetBucketObjectLockConfiguration and \
                     s3:GetObjectRetention"
                );
            }
            Ok::<_, Error>(told)
        };
        self.inner.protection.get_or_try_init(ask).await.copied()
    }

    /// Until when these objects are locked, which a restore of the newest point needs; `None` for a place without locks and
    /// versions. A request for each object, if the place has locks.
    pub async fn locks(&self, keys: &[ObjectKey], now: Moment) -> Result<Option<Locks>, Error> {
        let protection = self.protection().await?;
        if !protection.is_some() {
            return Ok(None);
        }
        let asked = if protection.locks == Some(true) { keys } else { &[] };
        let ask = async |key: &ObjectKey| self.lock_of(key).await;
        let locks: Vec<Lock> = stream::iter(asked).map(ask).buffered(LOCKS_AT_ONCE).try_collect().await?;
        let (locked, until) = summary(&locks, now);
        Ok(Some(Locks {
            versions: protection.versions,
            lock_s: protection.each.map(|(_, span)| span.as_secs()),
            mode: protection.each.map(|(mode, _)| mode.to_string()),
            objects: u64::try_from(keys.len()).unwrap_or(u64::MAX),
            locked,
            until: until.filter(|_| !keys.is_empty()),
        }))
    }

    /// Until when each of these objects can't be deleted, in their order; `None` for an object that can. A legal hold has no
    /// end: the object is asked for again a day later. A request for each object, if the place has locks.
    pub async fn locked_until(&self, keys: &[ObjectKey], now: Moment) -> Result<Vec<Option<Moment>>, Error> {
        if self.protection().await?.locks != Some(true) {
            return Ok(vec![None; keys.len()]);
        }
        let there = async |key: &ObjectKey| match self.lock_of(key).await {
            // Another process deleted it.
            Err(Error::NotFound { .. }) => Ok(Lock::default()),
            lock => lock,
        };
        let locks: Vec<Lock> = stream::iter(keys).map(there).buffered(LOCKS_AT_ONCE).try_collect().await?;
        let end = |lock: &Lock| if lock.held { Some(now.after(HELD)).max(lock.until) } else { lock.until };
        Ok(locks.iter().map(|lock| end(lock).filter(|end| *end > now)).collect())
    }

    /// Whether the settings of the place ask that locks are renewed ([`Vault::renew`]).
    pub async fn renews(&self) -> Result<bool, Error> {
        if !self.inner.store.has_protection() {
            return Ok(false);
        }
        let renews = self.inner.store.renews().await;
        // A place that is to be renewed is told as such until it was.
        if !matches!(renews, Ok(true)) {
            self.note_renewal(renews.as_ref().err());
        }
        renews
    }

    /// Renews the locks of these objects, so that each lasts as long as the settings of the place ask. Returns when the
    /// first of them ends; `None` if the settings don't ask, or there is no object. [`Vault::limits`] tells of a failure
    /// until a renewal succeeds.
    pub async fn renew(&self, keys: &[ObjectKey], now: Moment) -> Result<Option<Moment>, Error> {
        let (store, retrier) = (&self.inner.store, &self.inner.retrier);
        let renew = async |key: &ObjectKey| {
            let object = self.object(key);
            retrier.run(Operation::Head, &object, 0, || store.renew(key, now)).await
        };
        let ends: Vec<Result<Option<Moment>, Error>> =
            stream::iter(keys).map(renew).buffered(LOCKS_AT_ONCE).collect().await;
        // An object that another process deleted is needed no more, and one that fails holds up no other.
        let ends = ends.into_iter().filter(|end| !matches!(end, Err(Error::NotFound { .. })));
        let ends: Result<Vec<Option<Moment>>, Error> = ends.collect();
        if !keys.is_empty() {
            self.note_renewal(ends.as_ref().err());
        }
        Ok(ends?.into_iter().flatten().min())
    }

    fn note_renewal(&self, error: Option<&Error>) {
        let trouble = error.map(ToString::to_string);
        *self.inner.not_renewed.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    async fn lock_of(&self, key: &ObjectKey) -> Result<Lock, Error> {
        let (store, retrier) = (&self.inner.store, &self.inner.retrier);
        retrier.run(Operation::Head, &self.object(key), 0, || store.lock(key)).await
    }

    /// Refuses to replace an object where the store is known to take such a write over any version.
    pub(crate) fn refuse_blind_replacement(&self, key: &ObjectKey) -> Result<(), Error> {
        match self.probed().and_then(|found| found.lack_of_update()) {
            None => Ok(()),
            Some(cause) => Err(Error::Unsupported { object: self.object(key), cause: cause.to_owned() }),
        }
    }

    /// Tests how the store handles conditions, on an object of its own that it deletes afterwards. [`Vault::create`] and
    /// [`Vault::replace`] use the result from then on. Of several places each is tested, and the result is what all of
    /// them can.
    ///
    /// # Errors
    /// The store, or one of several places, can't be asked.
    pub async fn probe(&self) -> Result<Capabilities, Error> {
        if let Some(found) = self.inner.store.probe_places().await {
            return found.inspect(|found| self.note_probe(*found));
        }
        let nonce = self.inner.retrier.nonce();
        let key = ObjectKey::new(format!("{PROBES}{nonce:016x}"))?;
        let outcome = self.probe_with(&key, nonce).await;
        // Credentials without the right to delete are allowed. Then a few bytes remain.
        if let Err(error) = self.delete(std::slice::from_ref(&key)).await {
            tracing::debug!(%error, "the probe's object is left behind");
        }
        outcome
    }

    /// Tests how the store handles conditions, on this object, which nothing else may use and which is left behind.
    pub(crate) async fn probe_with(&self, key: &ObjectKey, nonce: u64) -> Result<Capabilities, Error> {
        let mut capabilities = self.try_conditions(key, nonce).await?;
        let refuses_what_it_sees = capabilities.exclusive_create();
        // One writer alone can't see whether a condition also holds for two in the same moment.
        let Abilities { create, update, .. } = self.abilities();
        capabilities.rejects_create &= create;
        capabilities.rejects_stale_update &= update;
        self.note_probe(capabilities);
        self.inner.degraded.store(!refuses_what_it_sees, std::sync::atomic::Ordering::Relaxed);
        Ok(capabilities)
    }

    fn note_probe(&self, found: Capabilities) {
        *self.inner.probed.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    }

    async fn try_conditions(&self, key: &ObjectKey, nonce: u64) -> Result<Capabilities, Error> {
        let body = |round: u8| Bytes::from(format!("seawall probe {nonce:016x} {round}"));
        let put = |round: u8, condition: Condition| self.write_as(key, body(round), condition);
        let mut found =
            Capabilities { create: false, rejects_create: false, update: false, rejects_stale_update: false };
        found.create = taken(put(1, Condition::Create).await)?;
        if !found.create {
            self.put(key, body(1), None).await?;
        }
        found.rejects_create = !taken(put(2, Condition::Create).await)?;
        self.put(key, body(3), None).await?;
        let Some(Meta { tag: Some(old), .. }) = self.head(key).await? else { return Ok(found) };
        found.update = taken(put(4, Condition::Match(old.clone())).await)?;
        self.put(key, body(5), None).await?;
        found.rejects_stale_update = !taken(put(6, Condition::Match(old)).await)?;
        Ok(found)
    }

    async fn write_as(&self, key: &ObjectKey, body: Bytes, condition: Condition) -> Result<Option<Tag>, Error> {
        self.write(key, &body, PutOptions { condition, ..PutOptions::default() }).await
    }

    pub(crate) fn looks_first(&self) -> bool {
        self.inner.degraded.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) async fn write(
        &self,
        key: &ObjectKey,
        bytes: &Bytes,
        options: PutOptions,
    ) -> Result<Option<Tag>, Error> {
        let Inner { store, retrier, .. } = &*self.inner;
        let size = bytes.len() as u64;
        if let Some(throttle) = &retrier.policy.upload {
            throttle.take(size).await;
        }
        let attempt = || {
            retrier.counters.sent(size);
            store.put(key, bytes.clone(), &options)
        };
        retrier.run(Operation::Put, &self.object(key), size, attempt).await
    }

    /// Finds out the result of a creation that ended in `error`; `Ok` when the object is ours.
    async fn settle(&self, key: &ObjectKey, bytes: &Bytes, error: Error) -> Result<(), Error> {
        if !settle::is_unclear(&error) {
            return Err(error);
        }
        // If the read-back fails too, its error is returned: a refusal doesn't say whose object it is.
        let owner = self.owner(key, bytes).await?;
        match settle::decide(Some(&error), owner, false) {
            Settled::Ours => Ok(()),
            Settled::Theirs => Err(Error::AlreadyExists { object: self.object(key) }),
            Settled::Open => Err(if settle::is_refusal(&error) { self.vanished(key) } else { error }),
        }
    }

    /// The error for a write that was refused although the object isn't there.
    pub(crate) fn vanished(&self, key: &ObjectKey) -> Error {
        let cause = "the write was refused, but there is no object now".to_owned();
        Error::Unavailable { object: self.object(key), cause, retryable: true }
    }

    async fn owner(&self, key: &ObjectKey, bytes: &Bytes) -> Result<Owner, Error> {
        let size = bytes.len() as u64;
        match self.read(key, None, size).await {
            Ok(found) => Ok(settle::whole(bytes, Some(&found))),
            Err(Error::TooLarge { .. }) => Ok(Owner::Theirs),
            Err(Error::NotFound { .. }) => Ok(settle::whole(bytes, None)),
            // An object of ours would open.
            Err(Error::Sealing { fault, .. }) if fault.is_of_object() => Ok(Owner::Theirs),
            Err(error) => Err(error),
        }
    }
}

/// The keys of a batch that are worth another attempt, and the error to classify: a final one, if there is any.
fn undeleted(keys: &[ObjectKey], results: Vec<Result<(), Error>>) -> (Vec<ObjectKey>, Option<Error>) {
    let mut again = Vec::new();
    let mut worst: Option<Error> = None;
    for (key, result) in keys.iter().zip(results) {
        if let Err(error) = result {
            if error.is_retryable() {
                again.push(key.clone());
            }
            if worst.as_ref().is_none_or(Error::is_retryable) {
                worst = Some(error);
            }
        }
    }
    (again, worst)
}

/// Whether a conditional write was accepted. A store that doesn't know the condition counts as refusing.
fn taken(result: Result<Option<Tag>, Error>) -> Result<bool, Error> {
    match result {
        Ok(_) => Ok(true),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::Unsupported { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The store of a place, encrypted where the policy says so. What the store asks for itself is counted.
pub(crate) async fn open_store(
    url: &VaultUrl,
    environment: &Environment,
    policy: &Policy,
    counters: &Arc<Counters>,
) -> Result<Arc<dyn Store>, Error> {
    let store = url.open(environment, policy).await?;
    Ok(match &policy.access {
        Access::Names => store,
        access => Arc::new(SealedStore::counted(store, access.clone(), Arc::clone(counters))),
    })
}
