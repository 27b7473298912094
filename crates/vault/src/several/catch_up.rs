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
use crate::{Error, ObjectKey};

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
    let (mut objects, mut bytes) = (missing.objects, missing.bytes);
    for entry in missing.differing.iter().chain(&missing.entries) {
        bring(shared, leader, i, &entry.key).await?;
        objects = objects.saturating_sub(1);
        bytes = bytes.saturating_sub(entry.size);
        note_lack(shared, i, objects, bytes);
    }
    overwritten(shared, leader, i).await?;
    if !missing.entries.is_empty() || deleted {
        return Ok(false);
    }
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
        Clash::Replace if overwritten => overwrite(from, to, key).await,
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
        overwrite(shared.vault(leader), shared.vault(i), &key).await?;
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
            overwrite(shared.vault(leader), shared.vault(i), key).await?;
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
