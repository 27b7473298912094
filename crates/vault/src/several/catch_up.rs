//! Lets a vault that is behind catch up: what is missing is copied from the leading vault, oldest first, until nothing
//! is; then, while no write runs, the vault goes back in step.
//!
//! The task exists only while the vault is behind. An attempt that fails is repeated after growing waits.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use seawall_core::Backoff;
use tokio::time::timeout;

use super::compare;
use super::decide::{Clash, clash, is_trouble};
use super::members::Shared;
use super::settle::overwrite;
use super::transfer::{self, Copied, digest_of};
use crate::{Error, Fault, ObjectKey, Vault};

/// The wait after a first failure, and the longest.
const WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// How long writes may wait for a vault that comes back in step.
const ALONE: Duration = Duration::from_secs(5);

/// The most names that are copied while writes wait.
const MOST_ALONE: usize = 16;

/// Begins to let a vault catch up, unless a task is at it.
pub(crate) fn begin(shared: &Arc<Shared>, i: usize) {
    let Some(runtime) = shared.runtime.get() else { return };
    let mut tasks = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(slot) = tasks.get_mut(i) else { return };
    if slot.as_ref().is_some_and(|task| !task.is_finished()) {
        return;
    }
    *slot = Some(runtime.spawn(run(shared.clone(), i)).abort_handle());
}

/// Boxed, because falling behind begins this, and this may let another vault fall behind.
fn run(shared: Arc<Shared>, i: usize) -> BoxFuture<'static, ()> {
    async move {
        let mut waits = WAITS;
        loop {
            match attempt(&shared, i).await {
                Ok(true) => {
                    tracing::info!(vault = shared.vault(i).url(), "this vault is in step again");
                    shared.save().await;
                    return;
                }
                Ok(false) => waits.worked(),
                Err(error) => {
                    note(&shared, i, error);
                    tokio::time::sleep(waits.failed()).await;
                }
            }
        }
    }
    .boxed()
}

fn note(shared: &Shared, i: usize, error: Error) {
    let mut state = shared.state();
    let behind = state.standings.get_mut(i).and_then(|standing| standing.behind.as_mut());
    let Some(behind) = behind else { return };
    if behind.error.as_ref() != Some(&error) {
        tracing::warn!(vault = shared.vault(i).url(), "this vault is still behind: {error}");
    }
    behind.error = Some(error);
}

/// Whether the vault is in step again. `false`: there is more to copy.
async fn attempt(shared: &Arc<Shared>, i: usize) -> Result<bool, Error> {
    let Some(leader) = shared.in_step().first().copied() else { return Err(shared.nobody()) };
    if leader == i {
        return Ok(true);
    }
    let (from, to) = (shared.vault(leader), shared.vault(i));
    to.enter().await?;
    super::probe(shared, i).await?;
    let deleted = apply_deletions(shared, i).await?;
    if let Some(behind) = shared.state().standings.get_mut(i).and_then(|standing| standing.behind.as_mut()) {
        behind.recent.clear();
        behind.complete = true;
    }
    let missing = compare::missing(from, to).await?;
    note_lack(shared, i, missing.objects, missing.bytes);
    let unknown = unknown(shared, i, &missing.extra).await?;
    let cut_off = cut_off(shared, i);
    let mut telling = missing.telling();
    telling.retain(|key| !cut_off.contains(key) && !shared.state().overwritten.contains(key));
    if let Some(key) = compare::parted(from, to, &telling).await? {
        return Err(Error::AlreadyExists { object: to.object(&key) });
    }
    // Another write may have the size of one that was cut off.
    for key in &cut_off {
        let brought = bring(shared, leader, i, key).await;
        let Err(error) = brought else { continue };
        if !is_sealed(&error, from, key) {
            return Err(error);
        }
        // The last name that an earlier process wrote is among these although it was finished. Its size has to do then.
        let (there, here) = (from.head(key).await?, to.head(key).await?);
        if there.zip(here).is_some_and(|(there, here)| there.size != here.size) {
            return Err(error);
        }
    }
    let (mut objects, mut bytes) = (missing.objects, missing.bytes);
    for entry in &missing.differing {
        bring(shared, leader, i, &entry.key).await?;
    }
    let (mut sealed, mut refused) = ((0, 0), None);
    for entry in &missing.entries {
        match bring(shared, leader, i, &entry.key).await {
            // The host's keys opened it once. What was written since then is worth more than waiting for the owner's.
            Err(error) if is_sealed(&error, from, &entry.key) => {
                sealed = (sealed.0 + 1, sealed.1 + entry.size);
                refused = Some(error);
                continue;
            }
            brought => brought?,
        }
        objects = objects.saturating_sub(1);
        bytes = bytes.saturating_sub(entry.size);
        note_lack(shared, i, objects, bytes);
    }
    overwritten(shared, leader, i).await?;
    if missing.entries.len() as u64 > sealed.0 || deleted {
        return Ok(false);
    }
    // More is missing than one comparison collects.
    if let Some(error) = refused.filter(|_| missing.objects > sealed.0) {
        return Err(error);
    }
    note_sealed(shared, i, sealed);
    if let Some(key) = unknown {
        return Err(Error::AlreadyExists { object: to.object(&key) });
    }
    match timeout(ALONE, rejoin(shared, leader, i)).await {
        Ok(rejoined) => rejoined,
        // The next attempt comes after a wait, so that writes are held up for a few seconds at most now and then.
        Err(_) => Err(Error::Timeout { object: to.url().to_owned(), after: ALONE }),
    }
}

fn note_lack(shared: &Shared, i: usize, objects: u64, bytes: u64) {
    if let Some(behind) = shared.state().standings.get_mut(i).and_then(|standing| standing.behind.as_mut()) {
        behind.lacks = Some((objects, bytes));
    }
}

/// Notes what the vault will lack although it is in step, and says so once.
fn note_sealed(shared: &Shared, i: usize, (objects, bytes): (u64, u64)) {
    let mut state = shared.state();
    let Some(standing) = state.standings.get_mut(i) else { return };
    let told = standing.sealed.replace((objects, bytes));
    if objects == 0 {
        standing.sealed = None;
    } else if told != Some((objects, bytes)) {
        tracing::warn!(
            vault = shared.vault(i).url(),
            objects,
            bytes,
            "this vault lacks objects that no key of this host opens any more: name an identity of the owner once under \
             `encryption`, and they are copied"
        );
    }
}

/// Deletes what was deleted in the other vaults meanwhile.
async fn apply_deletions(shared: &Shared, i: usize) -> Result<bool, Error> {
    let deleted: Vec<ObjectKey> = match &shared.state().standings.get(i).and_then(|standing| standing.behind.as_ref()) {
        Some(behind) => behind.deleted.iter().cloned().collect(),
        None => return Ok(false),
    };
    if deleted.is_empty() {
        return Ok(false);
    }
    if !shared.keeps(i) {
        match shared.vault(i).delete(&deleted).await {
            Err(Error::Denied { .. }) => shared.keeps_from_now_on(i),
            done => done?,
        }
    }
    if let Some(behind) = shared.state().standings.get_mut(i).and_then(|standing| standing.behind.as_mut()) {
        behind.deleted.retain(|key| !deleted.contains(key));
    }
    Ok(true)
}

/// Whether no key at hand opens an object of this vault.
fn is_sealed(error: &Error, of: &Vault, key: &ObjectKey) -> bool {
    matches!(error, Error::Sealing { fault: Fault::NoKey, object, .. } if *object == of.object(key))
}

/// Names under which the vault may hold an unfinished write of ours.
fn cut_off(shared: &Shared, i: usize) -> Vec<ObjectKey> {
    let state = shared.state();
    let behind = state.standings.get(i).and_then(|standing| standing.behind.as_ref());
    behind.map(|behind| behind.unfinished.keys().cloned().collect()).unwrap_or_default()
}

/// Copies one object. What is ours in its place and unfinished, or is written over, is replaced.
async fn bring(shared: &Shared, leader: usize, i: usize, key: &ObjectKey) -> Result<(), Error> {
    let (from, to) = (shared.vault(leader), shared.vault(i));
    if let Some(throttle) = &shared.throttle {
        let size = from.head(key).await?.map_or(0, |meta| meta.size);
        throttle.take(size).await;
    }
    match transfer::copy(from, to, key).await? {
        Copied::Fresh(_) | Copied::There(_) | Copied::Gone => return Ok(()),
        Copied::Differs => {}
    }
    let (unfinished, overwritten) = {
        let state = shared.state();
        let behind = state.standings.get(i).and_then(|standing| standing.behind.as_ref());
        (behind.and_then(|behind| behind.unfinished.get(key)).copied(), state.overwritten.contains(key))
    };
    let unfinished = match unfinished {
        Some(digest) => digest_of(to, key).await? == digest,
        None => false,
    };
    match clash(unfinished, overwritten) {
        Clash::Report => Err(Error::AlreadyExists { object: to.object(key) }),
        Clash::Replace if overwritten => overwrite(shared, leader, i, key).await,
        Clash::Replace => {
            to.delete(std::slice::from_ref(key)).await?;
            match transfer::copy(from, to, key).await? {
                Copied::Differs => Err(Error::AlreadyExists { object: to.object(key) }),
                Copied::Fresh(_) | Copied::There(_) | Copied::Gone => Ok(()),
            }
        }
    }
}

/// Names that are written over may differ although their sizes are equal.
async fn overwritten(shared: &Shared, leader: usize, i: usize) -> Result<(), Error> {
    let names: Vec<ObjectKey> = shared.state().overwritten.iter().cloned().collect();
    for key in names {
        overwrite(shared, leader, i, &key).await?;
    }
    Ok(())
}

/// Deletes names that only this vault has and that are unfinished writes of ours. Returns the first of the others that
/// is newer than everything of the leading vault in its folder: another writer's, or a history that went on without the
/// others. Older ones are what was deleted elsewhere, and stay.
async fn unknown(shared: &Shared, i: usize, extra: &[ObjectKey]) -> Result<Option<ObjectKey>, Error> {
    let (to, mut unknown) = (shared.vault(i), None);
    for key in extra {
        let digest = {
            let state = shared.state();
            let behind = state.standings.get(i).and_then(|standing| standing.behind.as_ref());
            behind.and_then(|behind| behind.unfinished.get(key)).copied()
        };
        if let Some(digest) = digest
            && digest_of(to, key).await? == digest
        {
            to.delete(std::slice::from_ref(key)).await?;
            continue;
        }
        if unknown.is_none() && is_newer(shared, key).await? {
            unknown = Some(key.clone());
        }
    }
    Ok(unknown)
}

/// Whether the leading vault has names in the folder of this one, and all of them are less.
async fn is_newer(shared: &Shared, key: &ObjectKey) -> Result<bool, Error> {
    let Some(leader) = shared.in_step().first().copied() else { return Ok(false) };
    let Some((folder, _)) = key.as_str().rsplit_once('/') else { return Ok(false) };
    let (prefix, store) = (crate::Prefix::new(folder)?, shared.vault(leader));
    let after = store
        .inner
        .retrier
        .run(crate::Operation::List, store.url(), 0, || store.inner.store.list(&prefix, Some(key), 1));
    if !after.await?.entries.is_empty() {
        return Ok(false);
    }
    let any =
        store.inner.retrier.run(crate::Operation::List, store.url(), 0, || store.inner.store.list(&prefix, None, 1));
    Ok(!any.await?.entries.is_empty())
}

/// Brings the last few names while no write runs. Then the vault is in step.
async fn rejoin(shared: &Arc<Shared>, leader: usize, i: usize) -> Result<bool, Error> {
    let _alone = shared.gate.write().await;
    let (recent, deleted) = {
        let state = shared.state();
        let Some(behind) = state.standings.get(i).and_then(|standing| standing.behind.as_ref()) else {
            return Ok(true);
        };
        if !behind.complete
            || behind.recent.len() > MOST_ALONE
            || state.standings.get(leader).is_none_or(|leading| leading.behind.is_some())
        {
            return Ok(false);
        }
        (behind.recent.clone(), !behind.deleted.is_empty())
    };
    if deleted {
        return Ok(false);
    }
    for key in &recent {
        bring(shared, leader, i, key).await?;
        let overwrites = shared.state().overwritten.contains(key);
        if overwrites {
            overwrite(shared, leader, i, key).await?;
        }
    }
    if let Some(error) = shared.vault(i).check().err().filter(is_trouble) {
        return Err(error);
    }
    if let Some(standing) = shared.state().standings.get_mut(i) {
        standing.behind = None;
    }
    Ok(true)
}
