//! Tries a place out: what its store and these credentials can do, and how fast they are.
//!
//! Everything is written under `seawall/probe-<random>-…`, names that no engine reads, and deleted at the end. What could
//! not be deleted is named. A refusal for lack of a right is a finding; any other error ends the trial, after the cleanup.
//! A process that is killed leaves these objects behind.

use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::try_join_all;
use seawall_core::{Clock, Limit, Moment};
use tokio::time::Instant;

use crate::vault::PROBES;
use crate::{Capabilities, Digest, Digester, Error, ObjectKey, Prefix, Protection, Vault, canary};

/// Bytes of a small object.
const SMALL: usize = 1024;

/// Bytes that are handed to an upload at a time.
const CHUNK: usize = 1 << 20;

/// A moment that no store has by itself.
const STAMP: Moment = Moment::from_millis(1_600_000_000_123);

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// How often each small request is made.
    pub rounds: u32,
    /// Bytes of a large object.
    pub size: u64,
    /// How many large objects are written and read at once.
    pub lanes: usize,
}

/// Whether something works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Finding {
    /// It does.
    Yes,
    /// It doesn't, for this reason.
    No(String),
    /// It wasn't tried, or the answer doesn't tell.
    #[default]
    Unknown,
}

impl Finding {
    fn of(works: bool, otherwise: &str) -> Self {
        if works { Self::Yes } else { Self::No(otherwise.to_owned()) }
    }
}

/// An amount of data and the time that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes.
    pub bytes: u64,
    /// The time.
    pub took: Duration,
}

impl Transfer {
    /// Bytes a second.
    pub fn rate(&self) -> u64 {
        let nanos = self.took.as_nanos().max(1);
        u64::try_from(u128::from(self.bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// What a trial found.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// Whether objects can be written.
    pub write: Finding,
    /// Whether they can be read, and are what was written.
    pub read: Finding,
    /// Whether a range of an object can be read.
    pub ranges: Finding,
    /// Whether objects can be listed, and a listing has what was just written.
    pub list: Finding,
    /// Whether they can be deleted.
    pub delete: Finding,
    /// Whether they keep a time of their own.
    pub stamps: Finding,
    /// How conditions are handled; `None` if that could not be tried.
    pub conditions: Option<Capabilities>,
    /// What isn't offered here. Only meaningful with `conditions`.
    pub limits: Vec<Limit>,
    /// Whom the vault is encrypted for; empty without encryption, `None` if that can't be seen.
    pub recipients: Option<Vec<String>>,
    /// Versions and locks; `None` if the credentials may not ask.
    pub protection: Option<Protection>,
    /// By how many milliseconds the store's clock is ahead of this machine's, to a second or so.
    pub clock_ahead_ms: Option<i64>,
    /// The median time of writing a small object.
    pub put: Option<Duration>,
    /// That of reading it.
    pub get: Option<Duration>,
    /// That of listing a few names.
    pub list_time: Option<Duration>,
    /// Writing the large object.
    pub upload: Option<Transfer>,
    /// Reading it.
    pub download: Option<Transfer>,
    /// Objects and bytes that were written.
    pub written: (u64, u64),
    /// What is still there.
    pub left: Vec<Left>,
}

/// An object that could not be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Its name.
    pub key: String,
    /// The reason.
    pub cause: String,
    /// Whether the credentials may not delete.
    pub denied: bool,
}

/// Tries a place out. `names` is opened with [`Access::Names`](crate::Access::Names), so that an encrypted vault needs no
/// key.
///
/// # Errors
/// The place is away, or isn't there.
pub async fn run(names: &Vault, effort: Effort, clock: &dyn Clock) -> Result<Trial, Error> {
    let nonce = names.inner.retrier.nonce();
    let mut scratch = Scratch { vault: names, nonce, keys: Vec::new(), trial: Trial::default() };
    let tried = scratch.all(effort, clock).await;
    scratch.clean().await;
    let trial = scratch.trial;
    if tried.is_err() && !trial.left.is_empty() {
        let left: Vec<&str> = trial.left.iter().map(|left| left.key.as_str()).collect();
        tracing::warn!(vault = names.url(), "left behind: {}", left.join(", "));
    }
    tried.map(|()| trial)
}

/// The names of one trial, and what it has found so far.
struct Scratch<'a> {
    vault: &'a Vault,
    nonce: u64,
    /// What was written, or may have been.
    keys: Vec<ObjectKey>,
    trial: Trial,
}

impl Scratch<'_> {
    async fn all(&mut self, effort: Effort, clock: &dyn Clock) -> Result<(), Error> {
        self.trial.recipients = allowed(canary::recipients(self.vault).await)?.ok().map(Option::unwrap_or_default);
        self.trial.protection = allowed(self.vault.protection().await)?.ok();
        let first = self.name("first", SMALL)?;
        if let Err(cause) = allowed(self.vault.put(&first, self.content(0), Some(STAMP)).await)? {
            self.trial.write = Finding::No(cause);
            // Nothing is there to be deleted.
            self.keys.clear();
            self.trial.list = self.listed(0).await?.map_or_else(Finding::No, |_| Finding::Yes);
            return Ok(());
        }
        self.trial.write = Finding::Yes;
        self.meta(&first, clock).await?;
        let conditions = self.name("conditions", 0)?;
        self.trial.conditions = allowed(self.vault.probe_with(&conditions, self.nonce).await)?.ok();
        self.trial.limits = self.vault.limits();
        let small = self.small(effort.rounds).await?;
        self.list(effort.rounds, small.len()).await?;
        self.large(effort).await
    }

    /// A name that is to be written to.
    fn name(&mut self, what: &str, bytes: usize) -> Result<ObjectKey, Error> {
        let key = ObjectKey::new(format!("{PROBES}{:016x}-{what}", self.nonce))?;
        self.keys.push(key.clone());
        self.trial.written.0 += 1;
        self.trial.written.1 += bytes as u64;
        Ok(key)
    }

    /// Bytes that can't be compressed and that no other object has.
    fn content(&self, nth: u64) -> Bytes {
        let mut bytes = vec![0; SMALL];
        fastrand::Rng::with_seed(self.nonce ^ nth).fill(&mut bytes);
        bytes.into()
    }

    /// What the store keeps beside an object.
    async fn meta(&mut self, first: &ObjectKey, clock: &dyn Clock) -> Result<(), Error> {
        if let Ok(Some(meta)) = allowed(self.vault.head(first).await)? {
            let kept = meta.stamp == Some(STAMP) || meta.modified == STAMP;
            self.trial.stamps = Finding::of(kept, "the store has no room for it");
        }
        let own = self.name("time", SMALL)?;
        self.vault.put(&own, self.content(u64::MAX), None).await?;
        let now = clock.now();
        if let Ok(Some(meta)) = allowed(self.vault.head(&own).await)? {
            self.trial.clock_ahead_ms = Some(meta.modified.as_millis().saturating_sub(now.as_millis()));
        }
        Ok(())
    }

    /// Writes and reads small objects.
    async fn small(&mut self, rounds: u32) -> Result<Vec<ObjectKey>, Error> {
        let (mut puts, mut gets, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for nth in 0..rounds {
            let (key, bytes) = (self.name(&format!("small-{nth:04}"), SMALL)?, self.content(nth.into()));
            let began = Instant::now();
            self.vault.put(&key, bytes, None).await?;
            puts.push(began.elapsed());
            keys.push(key);
        }
        self.trial.put = median(puts);
        for (nth, key) in keys.iter().enumerate() {
            let began = Instant::now();
            match allowed(self.vault.read(key, None, SMALL as u64).await)? {
                Ok(found) if found == self.content(nth as u64) => gets.push(began.elapsed()),
                Ok(_) => {
                    self.trial.read = Finding::No("an object isn't what was written".to_owned());
                    return Ok(keys);
                }
                Err(cause) => {
                    self.trial.read = Finding::No(cause);
                    return Ok(keys);
                }
            }
        }
        self.trial.get = median(gets);
        if let Some(key) = keys.first() {
            self.trial.read = Finding::Yes;
            let (whole, range) = (self.content(0), 100..300);
            let part = self.vault.read(key, Some(range), SMALL as u64).await?;
            self.trial.ranges = Finding::of(part == whole.slice(100..300), "another part of the object came");
        }
        Ok(keys)
    }

    /// Lists the names of this trial.
    async fn list(&mut self, rounds: u32, small: usize) -> Result<(), Error> {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let began = Instant::now();
            match self.listed(small).await? {
                Ok(whole) => {
                    times.push(began.elapsed());
                    self.trial.list = Finding::of(whole, "a listing lacks an object that was just written");
                }
                Err(cause) => {
                    self.trial.list = Finding::No(cause);
                    break;
                }
            }
        }
        self.trial.list_time = median(times);
        Ok(())
    }

    /// One page that begins at the names of this trial: whether it has as many small objects as there are, or why it
    /// can't be had.
    async fn listed(&self, small: usize) -> Result<Result<bool, String>, Error> {
        let before = ObjectKey::new(format!("{PROBES}{:016x}", self.nonce))?;
        let page = self.vault.page(&Prefix::new("seawall")?, Some(&before)).await;
        let own = format!("{before}-small-");
        let is_own = |name: &str| name.starts_with(&own);
        Ok(allowed(page)?.map(|page| page.entries.iter().filter(|entry| is_own(entry.key.as_str())).count() == small))
    }

    /// Writes and reads the large objects, one for each lane, all at once.
    async fn large(&mut self, Effort { size, lanes, .. }: Effort) -> Result<(), Error> {
        if size == 0 || lanes == 0 {
            return Ok(());
        }
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        let keys: Vec<ObjectKey> = match lanes {
            1 => vec![self.name("large", bytes)?],
            lanes => (0..lanes).map(|lane| self.name(&format!("large-{lane:04}"), bytes)).collect::<Result<_, _>>()?,
        };
        let moved = size.saturating_mul(keys.len() as u64);
        let lane = |(lane, key)| self.send(key, self.nonce.wrapping_add(lane), size);
        let began = Instant::now();
        let sent = try_join_all((0..).zip(&keys).map(lane)).await?;
        self.trial.upload = Some(Transfer { bytes: moved, took: began.elapsed() });
        if self.trial.read != Finding::Yes {
            return Ok(());
        }
        let began = Instant::now();
        let found = try_join_all(keys.iter().map(|key| self.receive(key))).await?;
        let took = began.elapsed();
        if found == sent {
            self.trial.download = Some(Transfer { bytes: moved, took });
        } else {
            self.trial.read = Finding::No("the large object isn't what was written".to_owned());
        }
        Ok(())
    }

    /// Writes a large object, and gives its digest.
    async fn send(&self, key: &ObjectKey, seed: u64, size: u64) -> Result<Digest, Error> {
        let (mut rng, mut sent, mut left) = (fastrand::Rng::with_seed(seed), Digester::default(), size);
        let mut upload = self.vault.upload(key, None).expecting(size);
        while left > 0 {
            let mut chunk = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
            rng.fill(&mut chunk);
            sent.update(&chunk);
            left -= chunk.len() as u64;
            upload.write(chunk.into()).await?;
        }
        upload.finish().await?;
        Ok(sent.digest())
    }

    /// Reads a large object, and gives its digest.
    async fn receive(&self, key: &ObjectKey) -> Result<Digest, Error> {
        let mut found = Digester::default();
        let mut chunks = Box::pin(self.vault.stream(key, None));
        while let Some(chunk) = chunks.try_next().await? {
            found.update(&chunk);
        }
        Ok(found.digest())
    }

    /// Deletes everything that was written, and looks for what is still there where that fails.
    async fn clean(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        if keys.is_empty() {
            return;
        }
        let error = match self.vault.delete(&keys).await {
            Ok(()) => {
                self.trial.delete = Finding::Yes;
                return;
            }
            Err(error) => error,
        };
        let (cause, denied) = (error.to_string(), matches!(error, Error::Denied { .. }));
        for key in keys {
            if !matches!(self.vault.head(&key).await, Ok(None)) {
                self.trial.left.push(Left { key: key.to_string(), cause: cause.clone(), denied });
            }
        }
        self.trial.delete = Finding::No(cause);
    }
}

/// A result that a refusal doesn't end: with its reason.
fn allowed<T>(result: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (Error::Denied { .. } | Error::Unsupported { .. })) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// The time in the middle, the longer one of two.
fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_core::SystemClock;

    use super::*;
    use crate::Policy;
    use crate::memory::MemoryStore;
    use crate::simulated::SimulatedStore;

    const EFFORT: Effort = Effort { rounds: 3, size: 3 << 20, lanes: 1 };

    fn store() -> SimulatedStore {
        SimulatedStore::new(MemoryStore::new(), 1)
    }

    fn vault(store: &SimulatedStore) -> Vault {
        Vault::new(Arc::new(store.clone()), Policy { attempts: 1, ..Policy::default() })
    }

    fn denied() -> Error {
        Error::Denied { object: "memory:".to_owned(), cause: "403".to_owned() }
    }

    /// The names that are in the store.
    async fn there(store: &SimulatedStore) -> Vec<String> {
        let truth = Vault::new(Arc::new(store.truth().clone()), Policy::default());
        let entries = truth.list(&Prefix::all(), None).await.expect("listed");
        entries.into_iter().map(|entry| entry.key.to_string()).collect()
    }

    #[tokio::test]
    async fn a_store_that_can_everything_is_left_as_it_was() {
        let store = store();
        let vault = vault(&store);
        let other = ObjectKey::new("seawall/pins/0000000000000001.json").expect("a name");
        vault.put(&other, Bytes::from_static(b"a pin"), None).await.expect("put");
        let trial = run(&vault, EFFORT, &SystemClock).await.expect("tried");
        for finding in [&trial.write, &trial.read, &trial.ranges, &trial.list, &trial.delete, &trial.stamps] {
            assert_eq!(*finding, Finding::Yes, "{trial:?}");
        }
        assert!(trial.conditions.is_some_and(|found| found.exclusive_create() && found.exclusive_update()));
        assert_eq!((trial.limits.as_slice(), trial.left.as_slice()), (&[][..], &[][..]));
        assert_eq!(trial.recipients, Some(Vec::new()));
        assert!(trial.put.is_some() && trial.get.is_some() && trial.list_time.is_some());
        assert_eq!(trial.download.map(|moved| moved.bytes), Some(3 << 20));
        assert!(trial.clock_ahead_ms.is_some_and(|ahead| ahead.abs() < 60_000), "{trial:?}");
        assert_eq!(there(&store).await, [other.as_str()]);
    }

    #[tokio::test]
    async fn several_lanes_move_several_objects() {
        let store = store();
        let trial = run(&vault(&store), Effort { lanes: 3, ..EFFORT }, &SystemClock).await.expect("tried");
        let bytes = |moved: Option<Transfer>| moved.map(|moved| moved.bytes);
        assert_eq!((bytes(trial.upload), bytes(trial.download)), (Some(9 << 20), Some(9 << 20)));
        assert_eq!((trial.left.len(), there(&store).await.len()), (0, 0));
    }

    #[tokio::test]
    async fn what_the_credentials_may_not_do_is_a_finding() {
        for (operation, left) in [("list", 0), ("delete", 7)] {
            let store = store();
            store.forbid(operation, denied());
            let trial = run(&vault(&store), EFFORT, &SystemClock).await.expect("no failure");
            let no = |finding: &Finding| matches!(finding, Finding::No(cause) if cause.contains("403"));
            assert_eq!((no(&trial.list), no(&trial.delete)), (operation == "list", operation == "delete"), "{trial:?}");
            assert_eq!((&trial.write, &trial.read), (&Finding::Yes, &Finding::Yes));
            let named: Vec<String> = trial.left.iter().map(|left| left.key.clone()).collect();
            assert_eq!(named.len(), left, "{trial:?}");
            assert!(trial.left.iter().all(|left| left.denied));
            let mut there = there(&store).await;
            there.retain(|name| !named.contains(name));
            assert_eq!(there, Vec::<String>::new(), "everything that is left is named");
        }
    }

    #[tokio::test]
    async fn credentials_that_may_not_write_leave_the_rest_open() {
        let store = store();
        store.forbid("put", denied());
        let trial = run(&vault(&store), EFFORT, &SystemClock).await.expect("no failure");
        assert!(matches!(trial.write, Finding::No(_)), "{trial:?}");
        assert_eq!((&trial.read, &trial.delete, &trial.list), (&Finding::Unknown, &Finding::Unknown, &Finding::Yes));
        assert_eq!((trial.conditions, trial.put), (None, None));
    }

    #[tokio::test]
    async fn a_store_that_goes_away_is_a_failure_and_nothing_is_left() {
        let store = store();
        store.forbid("get", Error::Unavailable { object: "x".to_owned(), cause: "away".to_owned(), retryable: false });
        let failed = run(&vault(&store), EFFORT, &SystemClock).await;
        assert!(matches!(failed, Err(Error::Unavailable { .. })), "{failed:?}");
        assert_eq!(there(&store).await, Vec::<String>::new());
    }

    #[test]
    fn medians_and_rates() {
        let millis = |all: &[u64]| all.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
        for (times, middle) in [(&[][..], None), (&[5][..], Some(5)), (&[9, 1, 3][..], Some(3)), (&[4, 2][..], Some(4))]
        {
            assert_eq!(median(millis(times)), middle.map(Duration::from_millis));
        }
        for (bytes, millis, rate) in [(1 << 20, 500, 2 << 20), (0, 10, 0), (5, 0, 5_000_000_000)] {
            assert_eq!(Transfer { bytes, took: Duration::from_millis(millis) }.rate(), rate);
        }
    }
}
