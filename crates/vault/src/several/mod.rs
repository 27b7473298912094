//! Several vaults for one database, behind the contract of one store.
//!
//! Each vault is *in step* or *behind*. **A vault in step holds every acknowledged object**, but for those that no key at
//! hand opened when it caught up; its state counts them. The first vault in step, in the order of the configuration, leads:
//! it is read, and it decides whether an object may be made. A write is acknowledged when one vault has the object, and every
//! other one in step has it too or was noted as behind. A vault that is behind holds nothing up; a task of its own lets it
//! catch up (`catch_up`).
//!
//! A crash leaves the record (`record`): which vaults are behind, and which names a write or deletion was at. Each start
//! compares the names in all vaults (`start`), so no vault leads that lacks something. A write that was cut off without
//! a crash is settled before the next call is answered (`settle`): all vaults in step have the object afterwards, or
//! none has.
//!
//! A vault *differs* if it holds what isn't of this database's history: it was swapped, or another database's objects got into it.
//! Nothing is written to it and nothing is copied from it until somebody looked. `prints` are how acknowledged objects are known
//! again, `kin` tells which vaults are of one history, `question` finds a vault that was swapped, `look` one that was emptied or
//! set back, `beyond` a name that was copied into one, and `judge` is what an engine knows of
//! its histories.
//!
//! The rooms: `decide` has the rules, `fan` carries a write to all, `parts` a streamed one, `compare` finds differences,
//! `transfer` copies one object.

mod beyond;
mod catch_up;
mod compare;
mod decide;
mod differ;
mod fan;
mod judge;
pub mod kin;
mod late;
mod lately;
mod look;
mod members;
mod parts;
mod prints;
mod question;
mod record;
pub mod renamed;
mod settle;
mod start;
pub mod transfer;

use std::future::Future;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use seawall_core::{Clock, Moment, Requests};
use tokio::sync::OnceCell;

use self::decide::{grace, is_trouble, representative};
pub use self::differ::Belongs;
use self::fan::{Failed, fan_out};
pub use self::judge::{Judge, Newer, Question, Stranger};
pub use self::late::LateStore;
use self::members::{Member, Shared, Work};
pub use self::members::{MemberState, recorded};
use self::prints::Print;
use self::question::{question_all, question_leader};
use crate::counts::Operation;
use crate::{
    Abilities, Body, Capabilities, Condition, Digest, Error, Lock, Meta, Multipart, ObjectKey, Page, Policy, Prefix,
    Protection, PutOptions, Scheme, Store, Tag, Vault,
};

/// Objects up to this size are compared to know our own version again.
const SMALL: u64 = 16 << 10;

/// Several stores that hold the same. When it is dropped, no vault catches up any more.
#[derive(Debug)]
pub struct SeveralStore {
    shared: Arc<Shared>,
}

/// One of several places.
#[derive(Debug, Clone)]
pub struct Place {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Whether it keeps what is deleted in the others: it has a retention of its own.
    pub keeps: bool,
}

impl From<Arc<dyn Store>> for Place {
    fn from(store: Arc<dyn Store>) -> Self {
        Self { store, keeps: false }
    }
}

/// How several vaults are used.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it is kept which vaults are behind, beyond the end of the process.
    pub record: Option<PathBuf>,
    /// Whether the record is kept by this process, and not only read.
    pub notes: bool,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// What the engine knows of whole histories, for vaults that don't agree.
    pub judge: Option<Arc<dyn Judge>>,
    /// How often each vault in step is looked at while the process runs; `None`: only at a start.
    pub look: Option<Duration>,
}

impl SeveralStore {
    /// One store over these, of which the first leads while it is in step. Makes no request.
    pub fn new(places: Vec<Place>, policy: &Policy, settings: Settings) -> Self {
        let one = |(nth, Place { store, keeps }): (usize, Place)| Member {
            vault: Vault::new(store, bounded(policy, nth as u64)),
            keeps: keeps.into(),
            probed: OnceCell::new(),
        };
        let members = places.into_iter().enumerate().map(one).collect();
        Self { shared: Arc::new(Shared::new(members, settings, policy.upload.clone(), policy.seed)) }
    }

    /// One vault over these.
    pub fn vault(places: Vec<Place>, policy: Policy, settings: Settings) -> Vault {
        let store = Self::new(places, &policy, settings);
        Vault::new(Arc::new(store), policy)
    }

    /// Makes sure that the vaults were compared and that no write is unsettled; afterwards every vault in step holds
    /// the same.
    async fn ready(&self) -> Result<(), Error> {
        start::started(&self.shared).await?;
        settle::settle(&self.shared).await
    }

    /// Asks the leading vault; if it is in trouble, the next one in step. A vault in trouble is behind from then on, if
    /// another answered.
    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        operation: Operation,
        call: impl Fn(Arc<dyn Store>) -> F,
    ) -> Result<(usize, T), Error> {
        self.ready().await?;
        let mut failed = Failed::new();
        for i in self.shared.in_step() {
            let (vault, store) = (self.shared.vault(i), self.shared.store(i));
            match vault.inner.retrier.run(operation, vault.url(), 0, || call(store.clone())).await {
                Err(error) if is_trouble(&error) => failed.push((i, error)),
                answer => {
                    self.fell_behind(failed).await;
                    return answer.map(|answer| (i, answer));
                }
            }
        }
        Err(representative(failed.into_iter().map(|(_, error)| error).collect())
            .unwrap_or_else(|| self.shared.nobody()))
    }

    async fn fell_behind(&self, failed: Failed) {
        fell_behind(&self.shared, failed).await;
    }

    /// Deletes in every vault in step, but for those that keep what they have.
    async fn delete_everywhere(&self, keys: &[ObjectKey]) -> Result<(), Error> {
        let order: Vec<usize> = self.shared.in_step().into_iter().filter(|i| !self.shared.keeps(*i)).collect();
        let shared = &self.shared;
        let one = |i: usize| -> BoxFuture<'_, Result<(), Error>> {
            Box::pin(async move { shared.vault(i).delete(keys).await })
        };
        let mut failed = if order.is_empty() { Failed::new() } else { fan_out(&order, grace(0), one).await? };
        // Credentials that can't delete are enough to keep everything.
        let denied = failed.iter().filter(|(_, error)| matches!(error, Error::Denied { .. })).map(|(i, _)| *i);
        denied.for_each(|i| shared.keeps_from_now_on(i));
        failed.retain(|(_, error)| !matches!(error, Error::Denied { .. }));
        self.fell_behind(failed).await;
        Ok(())
    }

    /// Writes to every vault in step. `Ok(false)`: the object was there already.
    async fn write_everywhere(&self, key: &ObjectKey, body: &Bytes, options: &PutOptions) -> Result<bool, Error> {
        let (order, fresh) = (self.shared.in_step(), std::sync::atomic::AtomicBool::new(true));
        if let Some(throttle) = &self.shared.throttle {
            throttle.take((body.len() * order.len().saturating_sub(1)) as u64).await;
        }
        let (shared, leader, fresh_there) = (&self.shared, order.first().copied(), &fresh);
        let one = |i: usize| -> BoxFuture<'_, Result<(), Error>> {
            Box::pin(async move {
                probe(shared, i).await?;
                let vault = shared.vault(i);
                match &options.condition {
                    Condition::Create => {
                        let created = vault.create_as(key, body.clone(), options.stamp, options.digest).await?;
                        if Some(i) == leader && created == crate::Created::Adopted {
                            fresh_there.store(false, std::sync::atomic::Ordering::Relaxed);
                        }
                        Ok(())
                    }
                    Condition::Match(tag) if Some(i) == leader => self.replace(i, key, body, tag).await,
                    Condition::Always | Condition::Match(_) => {
                        let always = PutOptions { condition: Condition::Always, ..options.clone() };
                        vault.write(key, body, always).await.map(drop)
                    }
                }
            })
        };
        let failed = fan_out(&order, grace(body.len() as u64), one).await?;
        self.fell_behind(failed).await;
        Ok(fresh.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Replaces an object in the leading vault. A version of another vault is our own last one if its content is still
    /// what we wrote.
    async fn replace(&self, leader: usize, key: &ObjectKey, body: &Bytes, tag: &Tag) -> Result<(), Error> {
        let vault = self.shared.vault(leader);
        // Another vault may lead than when the places were probed.
        vault.refuse_blind_replacement(key)?;
        let changed = || Error::Precondition { object: vault.object(key) };
        let expected = match untagged(tag) {
            Some((i, tag)) if i == leader => tag,
            _ => {
                let found = vault.head(key).await?.and_then(|meta| meta.tag).ok_or_else(changed)?;
                let content = Digest::of(&vault.read(key, None, SMALL).await?);
                let ours = self.shared.state().versions.get(key).copied();
                if ours != Some(content) {
                    return Err(changed());
                }
                found
            }
        };
        let options = PutOptions { condition: Condition::Match(expected), ..PutOptions::default() };
        vault.write(key, body, options).await.map(drop)
    }
}

impl Drop for SeveralStore {
    fn drop(&mut self) {
        let mut tasks = self.shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.drain(..).flatten().for_each(|task| task.abort());
        if let Some(looker) = self.shared.looker().take() {
            looker.abort();
        }
    }
}

/// Notes a vault in step as behind because of what it holds, unless it is the last one in step: then nothing else is proved to hold
/// everything. Whether it is behind now.
pub(crate) async fn leave(shared: &Arc<Shared>, i: usize, error: Error) -> bool {
    if !shared.leave(i, &error) {
        tracing::warn!(vault = shared.vault(i).url(), "this vault is the last one in step, and goes on: {error}");
        return false;
    }
    if matches!(error, Error::Corrupt { .. }) {
        shared.set_back(i);
    }
    catch_up::begin(shared, i);
    shared.save().await;
    true
}

/// Notes vaults as behind, keeps that, and begins to let them catch up.
pub(crate) async fn fell_behind(shared: &Arc<Shared>, failed: Failed) {
    if failed.is_empty() {
        return;
    }
    for (i, error) in failed {
        shared.fell_behind(i, Some(error));
        catch_up::begin(shared, i);
    }
    shared.save().await;
}

/// Asks the server behind a vault once how it handles conditions.
pub(crate) async fn probe(shared: &Shared, i: usize) -> Result<(), Error> {
    let member = shared.member(i);
    let ask = || async {
        if member.vault.needs_probe() && !member.vault.probe().await?.exclusive_create() {
            tracing::warn!(
                vault = member.vault.url(),
                "this store overwrites what it was asked to create only: a second writer can't be caught there"
            );
        }
        Ok(())
    };
    member.probed.get_or_try_init(ask).await.map(drop)
}

/// The policy of one vault: its attempts end before that of the whole does. Bandwidth is taken for all together.
fn bounded(policy: &Policy, nth: u64) -> Policy {
    Policy {
        attempt: policy.attempt / 3,
        total: policy.attempt * 2 / 3,
        attempts: policy.attempts.min(3),
        upload: None,
        download: None,
        seed: policy.seed.wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ..policy.clone()
    }
}

/// A version of an object in one of the vaults.
fn tagged(i: usize, tag: &Tag) -> Tag {
    Tag::new(format!("{i}:{tag}"))
}

fn untagged(tag: &Tag) -> Option<(usize, Tag)> {
    let (i, tag) = tag.as_str().split_once(':')?;
    Some((i.parse().ok()?, Tag::new(tag)))
}

/// Work on names. If it is dropped before it is done, the names are settled before the next call is answered.
struct Working<'a> {
    shared: &'a Shared,
    keys: &'a [ObjectKey],
    work: Work,
    done: bool,
}

impl<'a> Working<'a> {
    async fn begin(shared: &'a Shared, keys: &'a [ObjectKey], work: Work, digest: Option<Digest>) -> Self {
        let working = Self { shared, keys, work, done: false };
        shared.begin(keys, work, digest).await;
        working
    }

    fn done(mut self, print: Option<Print>) {
        self.done = true;
        self.shared.done(self.keys, self.work, print);
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.shared.cut_off(self.keys);
        }
    }
}

#[async_trait]
impl Store for SeveralStore {
    /// That of the first vault of the configuration, so that a record of its state stays valid when another is added.
    fn url(&self) -> String {
        self.shared.members.first().map(|member| member.vault.url().to_owned()).unwrap_or_default()
    }

    fn scheme(&self) -> Scheme {
        self.shared.scheme
    }

    fn abilities(&self) -> Abilities {
        let all = self.shared.members.iter().map(|member| member.vault.abilities());
        all.reduce(Abilities::both).unwrap_or(Abilities::LEAST)
    }

    fn is_authentic(&self) -> bool {
        self.shared.members.iter().all(|member| member.vault.inner.store.is_authentic())
    }

    fn members(&self) -> Vec<MemberState> {
        self.shared.states()
    }

    async fn confirms(&self, url: &str) -> bool {
        let member = self.shared.members.iter().position(|member| member.vault.url() == url);
        match member {
            Some(i) if self.ready().await.is_ok() => look::is_sound(&self.shared, i).await,
            Some(_) | None => false,
        }
    }

    /// A place that is away is taken at its backend's promise: it is probed before the first write to it, and refuses
    /// replacements from then on if it can't compare versions.
    async fn probe_places(&self) -> Option<Result<Capabilities, Error>> {
        if let Err(error) = self.ready().await {
            return Some(Err(error));
        }
        let mut all: Option<Capabilities> = None;
        let mut failed = Failed::new();
        for i in self.shared.in_step() {
            match probe(&self.shared, i).await {
                Ok(()) => {
                    let vault = self.shared.vault(i);
                    let one = vault.probed().unwrap_or_else(|| Capabilities::promised(vault.abilities()));
                    all = Some(all.map_or(one, |all| all.both(one)));
                }
                Err(error) => failed.push((i, error)),
            }
        }
        let Some(all) = all else {
            let worst = representative(failed.into_iter().map(|(_, error)| error).collect());
            return Some(Err(worst.unwrap_or_else(|| self.shared.nobody())));
        };
        self.fell_behind(failed).await;
        Some(Ok(all.both(Capabilities::promised(self.abilities()))))
    }

    fn requests(&self) -> Option<Requests> {
        Some(self.shared.members.iter().map(|member| member.vault.counts()).fold(Requests::default(), Requests::plus))
    }

    fn credentials_end(&self) -> Option<Moment> {
        self.shared.members.iter().filter_map(|member| member.vault.credentials_end()).min()
    }

    fn has_protection(&self) -> bool {
        self.shared.members.iter().any(|member| member.vault.inner.store.has_protection())
    }

    /// What all vaults in step do together, so that retention deletes nothing that one of them still locks.
    async fn protection(&self) -> Result<Protection, Error> {
        self.ready().await?;
        let mut all: Option<Protection> = None;
        for i in self.shared.in_step() {
            let one = self.shared.vault(i).protection().await?;
            all = Some(all.map_or(one, |all| all.with(one)));
        }
        Ok(all.unwrap_or_default())
    }

    /// The lock that ends last among the vaults in step.
    async fn lock(&self, key: &ObjectKey) -> Result<Lock, Error> {
        self.ready().await?;
        let mut all = Lock::default();
        for i in self.shared.in_step() {
            let one = self.shared.store(i).lock(key).await?;
            all = all.with(one);
        }
        Ok(all)
    }

    async fn renews(&self) -> Result<bool, Error> {
        self.ready().await?;
        for i in self.shared.in_step() {
            if self.shared.store(i).renews().await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Renews in each vault that asks for it. The lock that ends first counts.
    async fn renew(&self, key: &ObjectKey, now: Moment) -> Result<Option<Moment>, Error> {
        self.ready().await?;
        let (mut first, mut worst): (Option<Moment>, Result<(), Error>) = (None, Ok(()));
        for i in self.shared.in_step() {
            // A vault without locks holds up no other.
            match self.shared.store(i).renew(key, now).await {
                Ok(Some(end)) => first = Some(first.map_or(end, |first| first.min(end))),
                Ok(None) => {}
                Err(error) => worst = worst.and(Err(error)),
            }
        }
        worst.map(|()| first)
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        self.ready().await?;
        let _shared = self.shared.gate.read().await;
        let creates = options.condition == Condition::Create;
        let _one = if creates { None } else { Some(self.shared.overwriting.lock().await) };
        let digest = options.digest.unwrap_or_else(|| Digest::of(&body));
        let options = PutOptions { digest: Some(digest), ..options.clone() };
        let work = if creates { Work::Create } else { Work::Overwrite };
        let keys = std::slice::from_ref(key);
        let working = Working::begin(&self.shared, keys, work, Some(digest)).await;
        let mut written = self.write_everywhere(key, &body, &options).await;
        // In a vault that was swapped for another one, the object in the way is no answer about this database.
        while creates && matches!(written, Err(Error::AlreadyExists { .. })) && question_all(&self.shared).await {
            written = self.write_everywhere(key, &body, &options).await;
        }
        // Nor is one in a vault that it was copied into.
        while creates
            && matches!(written, Err(Error::AlreadyExists { .. }))
            && let Some(leader) = self.shared.in_step().first().copied()
            && beyond::leaves(&self.shared, leader, keys).await
        {
            written = self.write_everywhere(key, &body, &options).await;
        }
        match written {
            Ok(fresh) => {
                if body.len() as u64 <= SMALL {
                    self.shared.remember(key, digest);
                }
                working.done(Some(Print::of_bytes(&body)));
                if fresh { Ok(None) } else { Err(Error::AlreadyExists { object: self.shared.vault(0).object(key) }) }
            }
            Err(error) => Err(error),
        }
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        self.ready().await?;
        Ok(Box::new(parts::SeveralUpload::begin(self.shared.clone(), key, options, in_flight).await?))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        let call = |store: Arc<dyn Store>| {
            let range = range.clone();
            async move { store.get(key, range).await }
        };
        let (_, body) = self.ask(Operation::Get, call).await?;
        // Another vault may answer when the reader asks for the rest, and its versions are its own.
        Ok(Body { tag: None, ..body })
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        let call = |store: Arc<dyn Store>| async move { store.head(key).await };
        let (i, meta) = self.ask(Operation::Head, call).await?;
        Ok(Meta { tag: meta.tag.map(|tag| tagged(i, &tag)), ..meta })
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        if start_after.is_none() {
            self.ready().await?;
            question_leader(&self.shared).await;
        }
        let call = |store: Arc<dyn Store>| async move { store.list(prefix, start_after, limit).await };
        let (i, mut page) = loop {
            let (i, page) = self.ask(Operation::List, call).await?;
            let beyond = beyond::among(&self.shared, page.entries.iter().map(|entry| &entry.key));
            if beyond.is_empty() || !beyond::leaves(&self.shared, i, &beyond).await {
                break (i, page);
            }
        };
        for entry in &mut page.entries {
            entry.tag = entry.tag.take().map(|tag| tagged(i, &tag));
        }
        Ok(page)
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        self.ready().await?;
        if keys.iter().any(|key| prints::telling(key).is_some()) {
            // Who wants to delete is told, and asks again.
            if self.shared.state().unproved {
                let cause = "a vault was away, and nothing on this machine tells that the others hold its history, so nothing is deleted \
                             before they are compared";
                return Err(Error::Unsure { object: self.shared.all_urls(), cause: cause.to_owned() });
            }
            look::before_deletions(&self.shared).await;
        }
        let _shared = self.shared.gate.read().await;
        let working = Working::begin(&self.shared, keys, Work::Delete, None).await;
        self.delete_everywhere(keys).await?;
        working.done(None);
        if self.shared.states().iter().any(|member| !member.in_step) {
            self.shared.save().await;
        }
        Ok(keys.iter().map(|_| Ok(())).collect())
    }

    async fn enter(&self) -> Result<(), Error> {
        // The vaults are compared when they are used next; that enters each of them.
        self.ready().await?;
        let (mut failed, mut entered) = (Failed::new(), false);
        for i in self.shared.in_step() {
            match self.shared.vault(i).enter().await {
                Ok(()) => entered = true,
                Err(error) => failed.push((i, error)),
            }
        }
        if !entered && let Some((_, error)) = failed.pop() {
            return Err(error);
        }
        self.fell_behind(failed).await;
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        let (mut failed, mut sound) = (Failed::new(), false);
        for i in self.shared.in_step() {
            match self.shared.vault(i).check() {
                Ok(()) => sound = true,
                Err(error) => failed.push((i, error)),
            }
        }
        if !sound && let Some((_, error)) = failed.pop() {
            return Err(error);
        }
        for (i, error) in failed {
            self.shared.fell_behind(i, Some(error));
            catch_up::begin(&self.shared, i);
        }
        Ok(())
    }

    fn trace(&self, prefixes: &[Prefix]) -> Option<u64> {
        let leader = self.shared.in_step().first().copied()?;
        let trace = self.shared.store(leader).trace(prefixes)?;
        Some(trace.rotate_left(7) ^ leader as u64)
    }
}
