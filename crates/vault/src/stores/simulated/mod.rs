//! A store that fails on purpose, for tests of everything above it. It simulates the faults of a network, a server or a
//! crash, decided by a seed or at a chosen call.
//!
//! It wraps a [`MemoryStore`], which holds the true state. Time is tokio's, so paused tests don't wait. Every call is
//! numbered from 0 and logged. The same seed with the same calls gives the same faults.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use crate::memory::MemoryStore;
use crate::{Abilities, Body, Error, Meta, Multipart, ObjectKey, Page, Prefix, PutOptions, Scheme, Store, Tag};

/// A fault of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done; the answer is a retryable error.
    Error,
    /// Nothing is done; the answer is this error.
    Fail(Error),
    /// It is done, and the answer is lost: a retryable error.
    LostAnswer,
    /// It is done twice, as by a proxy that repeats; the second answer is given.
    Duplicate,
    /// A listing shows the state before the last change. Other calls aren't affected.
    StaleList,
    /// It is done and answered after this time.
    Delay(Duration),
    /// No answer ever comes, and nothing is done.
    Hang,
    /// A read ends after half of its bytes with a retryable error.
    BrokenStream,
    /// Nothing is done, and no later call is answered until [`SimulatedStore::revive`].
    Crash,
    /// The call is carried out, and neither it nor any later call is answered until [`SimulatedStore::revive`].
    CrashAfter,
}

/// How often each fault comes by chance, in thousandths of all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chances {
    /// [`Fault::Error`].
    pub error: u16,
    /// [`Fault::LostAnswer`].
    pub lost_answer: u16,
    /// [`Fault::Duplicate`].
    pub duplicate: u16,
    /// [`Fault::StaleList`].
    pub stale_list: u16,
    /// [`Fault::BrokenStream`].
    pub broken_stream: u16,
    /// [`Fault::Delay`], of up to [`Chances::longest_delay`].
    pub delay: u16,
    /// The longest delay.
    pub longest_delay: Duration,
}

/// A call to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its number, from 0.
    pub number: u64,
    /// `put`, `begin`, `write`, `complete`, `abort`, `get`, `head`, `list` or `delete`.
    pub operation: &'static str,
    /// The key or prefix; the first key of a batch.
    pub object: String,
    /// What went wrong with it.
    pub fault: Option<Fault>,
}

/// A [`MemoryStore`] with faults. Clones share everything.
#[derive(Debug, Clone)]
pub struct SimulatedStore {
    inner: MemoryStore,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    rng: fastrand::Rng,
    chances: Chances,
    planned: BTreeMap<u64, Fault>,
    /// From this call on all fail, as on a network that is gone.
    away_from: Option<u64>,
    forbidden: Vec<(&'static str, Error)>,
    crashed: bool,
    calls: Vec<Call>,
    /// The state before the last change, for stale listings.
    before: MemoryStore,
}

impl SimulatedStore {
    /// A store without any faults as yet.
    pub fn new(inner: MemoryStore, seed: u64) -> Self {
        let state = State {
            rng: fastrand::Rng::with_seed(seed),
            chances: Chances::default(),
            planned: BTreeMap::new(),
            away_from: None,
            forbidden: Vec::new(),
            crashed: false,
            calls: Vec::new(),
            before: inner.snapshot(),
        };
        Self { inner, state: Arc::new(Mutex::new(state)) }
    }

    /// Lets faults come by chance.
    #[must_use]
    pub fn with_chances(self, chances: Chances) -> Self {
        self.lock().chances = chances;
        self
    }

    /// Plans a fault for the call of that number.
    pub fn fail_call(&self, number: u64, fault: Fault) {
        self.lock().planned.insert(number, fault);
    }

    /// Lets every call from that number on end in a retryable error, until [`SimulatedStore::revive`].
    pub fn fail_from(&self, number: u64) {
        self.lock().away_from = Some(number);
    }

    /// Lets every call of that operation end in `error`, as credentials do that don't allow it.
    pub fn forbid(&self, operation: &'static str, error: Error) {
        self.lock().forbidden.push((operation, error));
    }

    /// No call from now on is answered: so a store sees a process that was killed.
    pub fn crash(&self) {
        self.lock().crashed = true;
    }

    /// Ends all planned faults, a crash, and chance.
    pub fn revive(&self) {
        let mut state = self.lock();
        state.crashed = false;
        state.away_from = None;
        state.forbidden.clear();
        state.planned.clear();
        state.chances = Chances::default();
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// The number of calls so far, which is the number of the next one.
    pub fn call_count(&self) -> u64 {
        self.lock().calls.len() as u64
    }

    /// The true content of the store.
    pub fn truth(&self) -> &MemoryStore {
        &self.inner
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a call and decides its fault.
    fn decide(&self, operation: &'static str, object: &str) -> Option<Fault> {
        let mut state = self.lock();
        let number = state.calls.len() as u64;
        let mut fault = state.planned.remove(&number);
        if fault.is_none() && state.away_from.is_some_and(|from| number >= from) {
            fault = Some(Fault::Error);
        }
        if let Some((_, error)) = state.forbidden.iter().rev().find(|(forbidden, _)| *forbidden == operation) {
            fault = Some(Fault::Fail(error.clone()));
        }
        if fault.is_none() {
            fault = state.chance(operation);
        }
        if operation == "write" && fault == Some(Fault::LostAnswer) {
            // The contract of parts: after an error nothing was taken. A stored part is overwritten by its repetition.
            fault = Some(Fault::Error);
        }
        if state.crashed {
            fault = Some(Fault::Hang);
        }
        if matches!(fault, Some(Fault::Crash | Fault::CrashAfter)) {
            state.crashed = true;
        }
        state.calls.push(Call { number, operation, object: object.to_owned(), fault: fault.clone() });
        fault
    }

    /// Carries a call out. `work` may run twice; it gets the fault if it has to simulate that fault itself.
    async fn call<T, F: Future<Output = Result<T, Error>>>(
        &self,
        operation: &'static str,
        object: &str,
        mut work: impl FnMut(bool) -> F,
    ) -> Result<T, Error> {
        let away =
            |cause: &str| Error::Unavailable { object: object.to_owned(), cause: cause.to_owned(), retryable: true };
        match self.decide(operation, object) {
            None => work(false).await,
            Some(Fault::StaleList | Fault::BrokenStream) => work(true).await,
            Some(Fault::Error) => Err(away("simulated: the request was lost")),
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::LostAnswer) => {
                // A refusal is lost just as well.
                let _ = work(false).await;
                Err(away("simulated: the answer was lost"))
            }
            Some(Fault::Duplicate) => {
                let _ = work(false).await;
                work(false).await
            }
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                work(false).await
            }
            Some(Fault::Hang | Fault::Crash) => std::future::pending().await,
            Some(Fault::CrashAfter) => {
                let _ = work(false).await;
                std::future::pending().await
            }
        }
    }

    fn remember(&self) {
        let snapshot = self.inner.snapshot();
        self.lock().before = snapshot;
    }
}

impl State {
    fn chance(&mut self, operation: &str) -> Option<Fault> {
        let chances = self.chances;
        let mut draw = self.rng.u16(0..1000);
        let longest = u64::try_from(chances.longest_delay.as_millis()).unwrap_or(u64::MAX);
        let delay = Fault::Delay(Duration::from_millis(self.rng.u64(0..=longest)));
        let on = |wanted: &str, chance: u16| if operation == wanted { chance } else { 0 };
        for (chance, fault) in [
            (chances.error, Fault::Error),
            (chances.lost_answer, Fault::LostAnswer),
            (chances.duplicate, Fault::Duplicate),
            (on("list", chances.stale_list), Fault::StaleList),
            (on("get", chances.broken_stream), Fault::BrokenStream),
            (chances.delay, delay),
        ] {
            match draw.checked_sub(chance) {
                None => return Some(fault),
                Some(rest) => draw = rest,
            }
        }
        None
    }
}

#[async_trait]
impl Store for SimulatedStore {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn scheme(&self) -> Scheme {
        self.inner.scheme()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        let work = |_| {
            self.remember();
            self.inner.put(key, body.clone(), options)
        };
        self.call("put", key.as_str(), work).await
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        let upload = self.call("begin", key.as_str(), |_| self.inner.begin(key, options, in_flight)).await?;
        Ok(Box::new(SimulatedUpload { store: self.clone(), key: key.clone(), upload: tokio::sync::Mutex::new(upload) }))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        let work = |breaks| {
            let range = range.clone();
            async move {
                let body = self.inner.get(key, range).await?;
                if breaks { broken(body, key).await } else { Ok(body) }
            }
        };
        self.call("get", key.as_str(), work).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.call("head", key.as_str(), |_| self.inner.head(key)).await
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        let work = |stale| {
            let store = if stale { self.lock().before.clone() } else { self.inner.clone() };
            async move { store.list(prefix, start_after, limit).await }
        };
        self.call("list", prefix.as_str(), work).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let work = |_| {
            self.remember();
            self.inner.delete(keys)
        };
        self.call("delete", keys.first().map_or("", ObjectKey::as_str), work).await
    }
}

/// Cuts a body off in its middle.
async fn broken(body: Body, key: &ObjectKey) -> Result<Body, Error> {
    let Body { size, tag, stream } = body;
    let chunks: Vec<Bytes> = stream.try_collect().await?;
    let whole: Bytes = chunks.concat().into();
    let cause = "simulated: the connection broke".to_owned();
    let error = Error::Unavailable { object: key.to_string(), cause, retryable: true };
    let half = whole.slice(..whole.len() / 2);
    Ok(Body { size, tag, stream: stream::iter([Ok(half), Err(error)]).boxed() })
}

struct SimulatedUpload {
    store: SimulatedStore,
    key: ObjectKey,
    upload: tokio::sync::Mutex<Box<dyn Multipart>>,
}

#[async_trait]
impl Multipart for SimulatedUpload {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        // A part has its number, so that a server takes a repeated one once: done twice is done, and done without an
        // answer is done by the repetition.
        let (done, upload) = (std::sync::atomic::AtomicBool::new(false), &self.upload);
        let work = |_| {
            let (part, first) = (part.clone(), !done.swap(true, std::sync::atomic::Ordering::SeqCst));
            async move { if first { upload.lock().await.write(part).await } else { Ok(()) } }
        };
        self.store.call("write", self.key.as_str(), work).await
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        let upload = &self.upload;
        let work = |_| {
            self.store.remember();
            async move { upload.lock().await.complete().await }
        };
        self.store.call("complete", self.key.as_str(), work).await
    }

    async fn abort(&mut self) -> Result<(), Error> {
        let upload = &self.upload;
        self.store.call("abort", self.key.as_str(), |_| async move { upload.lock().await.abort().await }).await
    }
}
