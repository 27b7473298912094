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

use super::compare::{self, Compared};
use super::decide::{Clash, clash, is_trouble};
use super::differ::{nothing_in_common, strange};
use super::judge::{Newer, Question, Stranger};
use super::members::Shared;
use super::prints::{Held, held, later, telling};
use super::question::another;
use super::settle::overwrite;
use super::transfer::{self, Copied, digest_of};
use crate::{Digest, Error, Fault, ObjectKey, Vault};

/// The wait after a first failure, and the longest.
const WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// The same for a vault that differs: somebody has to look at it first, and each comparison lists it.
const LONG_WAITS: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(1800));

/// How long writes may wait for a vault that comes back in step.
const ALONE: Duration = Duration::from_secs(5);

/// The most names at each end that are judged of those that were deleted elsewhere.
const MOST_GONE: usize = 16;

/// The most names that are copied while writes wait.
const MOST_ALONE: usize = 16;

/// The most names that are deleted while writes wait: one request.
const MOST_DELETED: usize = 1000;

/// So many comparisons may follow one another at once although none found anything to copy.
const IN_VAIN: u32 = 3;

/// The wait after each further one.
const PAUSE: Duration = Duration::from_secs(5);

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The vault is in step again.
    InStep,
    /// Objects were copied, and there may be more.
    Copied,
    /// Nothing was missing, and too much was written or deleted meanwhile.
    Overtaken,
}

/// How long to wait after so many attempts in a row that were overtaken: each lists both vaults.
fn pause(overtaken: u32) -> Duration {
    if overtaken < IN_VAIN { Duration::ZERO } else { PAUSE }
}

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
        let (mut waits, mut long_waits, mut overtaken) = (WAITS, LONG_WAITS, 0_u32);
        loop {
            match attempt(&shared, i).await {
                Ok(Attempt::InStep) => {
                    tracing::info!(vault = shared.vault(i).url(), "this vault is in step again");
                    shared.save().await;
                    return;
                }
                Ok(Attempt::Copied) => {
                    waits.worked();
                    overtaken = 0;
                }
                Ok(Attempt::Overtaken) => {
                    waits.worked();
                    overtaken = overtaken.saturating_add(1);
                    tokio::time::sleep(pause(overtaken)).await;
                }
                Err(error) => {
                    let differs = matches!(error, Error::Differs { .. });
                    if note(&shared, i, error) && differs {
                        shared.save().await;
                    }
                    tokio::time::sleep(if differs { long_waits.failed() } else { waits.failed() }).await;
                }
            }
        }
    }
    .boxed()
}

/// Notes what keeps a vault behind. Whether that is new.
fn note(shared: &Shared, i: usize, error: Error) -> bool {
    let mut state = shared.state();
    let behind = state.standings.get_mut(i).and_then(|standing| standing.behind.as_mut());
    let Some(behind) = behind else { return false };
    let known = |error: &Option<Error>| matches!(error, Some(Error::Differs { .. }));
    // The first object that showed it stays: each commit would name another one.
    let new =
        behind.error.as_ref() != Some(&error) && !(known(&behind.error) && matches!(error, Error::Differs { .. }));
    let vault = shared.vault(i).url();
    match &error {
        _ if !new => {}
        Error::Differs { .. } => tracing::error!(vault, code = "vault.differs", "this vault is left alone: {error}"),
        _ => tracing::warn!(vault, "this vault is still behind: {error}"),
    }
    if new {
        behind.error = Some(error);
    }
    new
}

/// Compares the vault with the leading one, and copies and deletes what is due.
async fn attempt(shared: &Arc<Shared>, i: usize) -> Result<Attempt, Error> {
    let Some(leader) = shared.in_step().first().copied() else { return Err(shared.nobody()) };
    if leader == i {
        return Ok(Attempt::InStep);
    }
    let (from, to) = (shared.vault(leader), shared.vault(i));
    to.mend().await?;
    to.enter().await?;
    super::probe(shared, i).await?;
    // What is deleted from now on may still be in the leading vault's listing: it is looked at in the end, or in the next attempt.
    let mut noted = Vec::new();
    if let Some(behind) = shared.state().standings.get_mut(i).and_then(|standing| standing.behind.as_mut()) {
        behind.recent.clear();
        behind.complete = true;
        noted.extend(behind.deleted.iter().cloned());
    }
    let missing = compare::missing(from, to, &noted).await?;
    note_lack(shared, i, missing.objects, missing.bytes);
    let cut_off = cut_off(shared, i);
    // Nothing is changed in a vault that holds what isn't of this history.
    inspect(shared, leader, i, &missing, &cut_off).await?;
    shared.note_loss(i, missing.entries.iter().map(|entry| &entry.key));
    apply_deletions(shared, i, &noted).await?;
    // Another write may have the size of one that was cut off.
    for key in &cut_off {
        // A streamed object may be large; its first and last bytes tell.
        if is_streamed(shared, i, key) && transfer::compared(from, to, key).await? != Held::Other {
            continue;
        }
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
    let mut strange = (0, 0);
    for entry in &missing.entries {
        if let Some(stranger) = misfit(shared, leader, i, &entry.key).await? {
            strange = (strange.0 + 1, strange.1 + entry.size);
            if strange.0 == 1 {
                let object = from.object(&stranger.key);
                tracing::error!(object, vault = to.url(), "this object isn't copied to the vault: {}", stranger.why);
            }
            continue;
        }
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
    let left = (sealed.0 + strange.0, sealed.1 + strange.1);
    if missing.entries.len() as u64 > left.0 {
        return Ok(Attempt::Copied);
    }
    // It was deleted in this vault, too.
    if missing.again {
        return Ok(Attempt::Overtaken);
    }
    // More is missing than one comparison collects.
    if let Some(error) = refused.filter(|_| missing.objects > left.0) {
        return Err(error);
    }
    note_sealed(shared, i, sealed, left);
    match timeout(ALONE, rejoin(shared, leader, i)).await {
        Ok(rejoined) => Ok(if rejoined? { Attempt::InStep } else { Attempt::Overtaken }),
        // The next attempt comes after a wait, so that writes are held up for a few seconds at most now and then.
        Err(_) => Err(Error::Timeout { object: to.url().to_owned(), after: ALONE }),
    }
}

/// Looks for what isn't of this database's history in the vault.
async fn inspect(
    shared: &Shared,
    leader: usize,
    i: usize,
    missing: &compare::Missing,
    cut_off: &[ObjectKey],
) -> Result<(), Error> {
    let (from, to) = (shared.vault(leader), shared.vault(i));
    if missing.is_empty {
        shared.note_identity(i, None);
        shared.save().await;
    }
    let fixed = |key: &ObjectKey| !cut_off.contains(key) && !shared.state().overwritten.contains(key);
    let noted: Vec<_> = {
        let state = shared.state();
        state.newest.all().map(|(key, print)| (key.clone(), print.clone())).collect()
    };
    let mut is_ours = false;
    for (key, print) in noted.iter().filter(|(key, _)| fixed(key)) {
        match held(to, key, print).await? {
            Held::Other => return Err(another(to, key)),
            Held::Same => is_ours = true,
            Held::Gone | Held::Locked => {}
        }
    }
    // The leading vault is the one that lost something. What it lacks is no stranger's.
    let lost =
        |key: &ObjectKey| fixed(key) && missing.extra.contains(key) && shared.state().newest.is_last_of_line(key);
    for (key, _) in noted.iter().filter(|(key, _)| lost(key)) {
        // It came there since the listing, or another process went on there and deleted it.
        let tells = |key: &ObjectKey| fixed(key) && !is_unsettled(shared, key);
        if from.head(key).await?.is_some() || later(from, key).await?.iter().any(tells) {
            continue;
        }
        shared.set_back(leader);
        let cause = format!("it was acknowledged, and is missing: {} has it, and isn't changed", to.url());
        return Err(Error::Corrupt { object: from.object(key), cause });
    }
    if !is_ours && !missing.is_empty {
        is_ours = held_before(shared, i).await?;
    }
    // What can be read counts more: a copy of our own has another identity.
    if let Some(error) = shared.other_identity(i).filter(|_| !missing.is_empty && !is_ours) {
        return Err(error);
    }
    if let Some(entry) = missing.differing.iter().find(|entry| telling(&entry.key).is_some() && fixed(&entry.key)) {
        return Err(another(to, &entry.key));
    }
    let mut telling_names = missing.telling();
    telling_names.retain(fixed);
    match compare::common(from, to, &telling_names).await? {
        Compared::Parted(key) => return Err(another(to, &key)),
        Compared::Nothing if !is_ours && !telling_names.is_empty() => {
            let cause = "what both vaults had in common was deleted while they were compared".to_owned();
            return Err(Error::Unavailable { object: to.url().to_owned(), cause, retryable: true });
        }
        Compared::Alike | Compared::Nothing => {}
    }
    let deleted = |key: &ObjectKey| {
        let state = shared.state();
        let behind = state.standings.get(i).and_then(|standing| standing.behind.as_ref());
        behind.is_some_and(|behind| behind.deleted.contains(key))
    };
    let extra = missing.extra.iter().filter(|key| !deleted(key)).cloned();
    let tells = |key: &ObjectKey| telling(key).is_some() && fixed(key);
    let lacks_all = missing.telling().is_empty() && missing.entries.iter().any(|entry| tells(&entry.key));
    if shared.judge.is_none() && !is_ours && lacks_all && extra.clone().any(|key| tells(&key)) {
        return Err(nothing_in_common(to));
    }
    // What was deleted elsewhere has names that another database may have as well.
    let gone: Vec<ObjectKey> = missing.extra.iter().filter(|key| deleted(key) && tells(key)).cloned().collect();
    let is_proved = is_ours || !telling_names.is_empty();
    if shared.judge.is_none() && !is_proved && !gone.is_empty() && gone.iter().all(|key| !has_nonce(key)) {
        return Err(nothing_in_common(to));
    }
    // The judge also knows names that are of this history although no other vault has them: a complete copy for example.
    let is_judged = |key: &ObjectKey| shared.judge.is_some() && tells(key) && !is_unsettled(shared, key);
    let (mut judged, others): (Vec<ObjectKey>, Vec<ObjectKey>) = extra.partition(is_judged);
    if !is_ours && shared.judge.is_some() {
        judged.extend(gone.iter().take(MOST_GONE).chain(gone.iter().skip(MOST_GONE).rev().take(MOST_GONE)).cloned());
    }
    while let Some(judge) = shared.judge.as_ref().filter(|_| !judged.is_empty()) {
        // A part of the history that was deleted in the leading vault meanwhile.
        let older_stay = shared.keeps(i) || is_ours;
        let question =
            Question { suspect: to, names: &judged, sound: from, recorded: true, older_stay, newer: Newer::Stranger };
        let Some(stranger) = judge.stranger(question).await? else { break };
        let asked = judged.len();
        judged.retain(|key| *key != stranger.key);
        // What the leading vault has by now came into both since it was listed.
        if judged.len() == asked || from.head(&stranger.key).await?.is_none() {
            return Err(strange(shared, i, &stranger));
        }
    }
    match unknown(shared, i, &others).await? {
        Some(key) => Err(Error::Differs {
            object: to.object(&key),
            cause: "it is newer than everything that this process acknowledged, and no other vault has it".to_owned(),
        }),
        None => Ok(()),
    }
}

/// Whether a vault holds one of the objects that were the newest ones when it fell behind.
async fn held_before(shared: &Shared, i: usize) -> Result<bool, Error> {
    let newest = {
        let state = shared.state();
        let behind = state.standings.get(i).and_then(|standing| standing.behind.as_ref());
        behind.map(|behind| behind.newest.clone()).unwrap_or_default()
    };
    for (key, print) in newest.all() {
        if held(shared.vault(i), key, print).await? == Held::Same {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether no other database has an object of this name.
fn has_nonce(key: &ObjectKey) -> bool {
    key.as_str().starts_with("sets/") || key.as_str().contains("/bases/")
}

/// Whether an object of the leading vault may not be copied.
async fn misfit(shared: &Shared, leader: usize, i: usize, key: &ObjectKey) -> Result<Option<Stranger>, Error> {
    match shared.judge.as_ref().filter(|_| telling(key).is_some()) {
        Some(judge) => judge.misfit(shared.vault(leader), shared.vault(i), key).await,
        None => Ok(None),
    }
}

fn note_lack(shared: &Shared, i: usize, objects: u64, bytes: u64) {
    if let Some(behind) = shared.state().standings.get_mut(i).and_then(|standing| standing.behind.as_mut()) {
        behind.lacks = Some((objects, bytes));
    }
}

/// Notes what the vault will lack although it is in step, and says so once.
fn note_sealed(shared: &Shared, i: usize, (objects, bytes): (u64, u64), left: (u64, u64)) {
    let mut state = shared.state();
    let Some(standing) = state.standings.get_mut(i) else { return };
    let told = std::mem::replace(&mut standing.sealed, Some(left).filter(|(objects, _)| *objects > 0));
    if objects > 0 && told != Some(left) {
        tracing::warn!(
            vault = shared.vault(i).url(),
            objects,
            bytes,
            "this vault lacks objects that no key of this host opens any more: name an identity of the owner once under \
             `encryption`, and they are copied"
        );
    }
}

/// Deletes what was deleted in the other vaults meanwhile: these names, sorted.
async fn apply_deletions(shared: &Shared, i: usize, deleted: &[ObjectKey]) -> Result<(), Error> {
    if deleted.is_empty() {
        return Ok(());
    }
    if !shared.keeps(i) {
        match shared.vault(i).delete(deleted).await {
            Err(Error::Denied { .. }) => shared.keeps_from_now_on(i),
            done => done?,
        }
    }
    if let Some(behind) = shared.state().standings.get_mut(i).and_then(|standing| standing.behind.as_mut()) {
        behind.deleted.retain(|key| deleted.binary_search(key).is_err());
    }
    Ok(())
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

/// Whether a name is of an unfinished write whose digest isn't known.
fn is_streamed(shared: &Shared, i: usize, key: &ObjectKey) -> bool {
    let state = shared.state();
    let behind = state.standings.get(i).and_then(|standing| standing.behind.as_ref());
    behind.is_some_and(|behind| behind.unfinished.get(key) == Some(&None))
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
        Some(digest) => is_unfinished(shared, leader, i, key, digest).await?,
        None => false,
    };
    match clash(unfinished, overwritten) {
        Clash::Report => Err(another(to, key)),
        Clash::Replace if overwritten => overwrite(shared, leader, i, key).await,
        Clash::Replace => {
            to.delete(std::slice::from_ref(key)).await?;
            match transfer::copy(from, to, key).await? {
                Copied::Differs => Err(another(to, key)),
                Copied::Fresh(_) | Copied::There(_) | Copied::Gone => Ok(()),
            }
        }
    }
}

/// Whether an object is our unfinished write: by its digest. That of a streamed one isn't known: then no stranger's object is ours,
/// because nothing else has the name, and it was never acknowledged.
async fn is_unfinished(
    shared: &Shared,
    leader: usize,
    i: usize,
    key: &ObjectKey,
    digest: Option<Digest>,
) -> Result<bool, Error> {
    let (suspect, sound) = (shared.vault(i), shared.vault(leader));
    match (digest, shared.judge.as_ref().filter(|_| telling(key).is_some())) {
        (Some(digest), _) => Ok(digest_of(suspect, key).await? == digest),
        (None, Some(judge)) => {
            let names = std::slice::from_ref(key);
            let question =
                Question { suspect, names, sound, recorded: true, older_stay: false, newer: Newer::Continues };
            Ok(judge.stranger(question).await?.is_none())
        }
        (None, None) => Ok(true),
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

/// Deletes names that only this vault has and that are unfinished writes of ours, once nothing else is wrong with it. Returns the
/// first of the others that is newer than everything of the leading vault in its folder: another writer's, or a history that went
/// on without the others. Older ones are what was deleted elsewhere, and stay.
async fn unknown(shared: &Shared, i: usize, extra: &[ObjectKey]) -> Result<Option<ObjectKey>, Error> {
    let (to, mut unknown, mut ours) = (shared.vault(i), None, Vec::new());
    for key in extra {
        let digest = {
            let state = shared.state();
            let behind = state.standings.get(i).and_then(|standing| standing.behind.as_ref());
            behind.and_then(|behind| behind.unfinished.get(key)).copied()
        };
        if let Some(digest) = digest
            && let Some(leader) = shared.in_step().first().copied()
            && is_unfinished(shared, leader, i, key, digest).await?
        {
            ours.push(key.clone());
            continue;
        }
        if unknown.is_none() && !is_unsettled(shared, key) && is_newer(shared, key).await? {
            unknown = Some(key.clone());
        }
    }
    if unknown.is_none() && !ours.is_empty() {
        to.delete(&ours).await?;
    }
    Ok(unknown)
}

/// Whether a write is at a name now: it comes into one vault after the other.
fn is_unsettled(shared: &Shared, key: &ObjectKey) -> bool {
    shared.state().unsettled.contains_key(key)
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
    // It may have come there since the vaults were listed.
    Ok(!any.await?.entries.is_empty() && store.head(key).await?.is_none())
}

/// Deletes and brings the last few names while no write runs. Then the vault is in step. `false`: there are too many.
async fn rejoin(shared: &Arc<Shared>, leader: usize, i: usize) -> Result<bool, Error> {
    let _alone = shared.gate.write().await;
    let (recent, deleted) = {
        let state = shared.state();
        let Some(behind) = state.standings.get(i).and_then(|standing| standing.behind.as_ref()) else {
            return Ok(true);
        };
        if !behind.complete
            || behind.recent.len() > MOST_ALONE
            || behind.deleted.len() > MOST_DELETED
            || state.standings.get(leader).is_none_or(|leading| leading.behind.is_some())
        {
            return Ok(false);
        }
        (behind.recent.clone(), behind.deleted.iter().cloned().collect::<Vec<ObjectKey>>())
    };
    // A name that was made again is brought afterwards.
    apply_deletions(shared, i, &deleted).await?;
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
    {
        let mut state = shared.state();
        if let Some(standing) = state.standings.get_mut(i) {
            standing.behind = None;
        }
        // All agree.
        if state.standings.iter().all(|standing| standing.behind.is_none()) {
            state.unproved = false;
        }
    }
    shared.note_identity(i, shared.vault(i).identity());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_in_vain_come_with_pauses() {
        for (overtaken, expected) in [(0, Duration::ZERO), (2, Duration::ZERO), (3, PAUSE), (u32::MAX, PAUSE)] {
            assert_eq!(pause(overtaken), expected, "{overtaken}");
        }
    }
}
