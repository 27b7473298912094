//! Looks now and then at each vault in step, while the process runs: was it emptied, set back to an earlier state, or swapped?
//!
//! A look costs one listing of at most [`NAMES`] names and the first and last KiB of one object (three
//! requests; of an encrypted vault two more, which ask for what tells how it is read). It comes once in
//! [`Settings::look`](super::Settings::look), and after an object that was streamed, as a complete copy is. What the look asks for is said
//! in `lately`. A vault that was emptied or set back is behind and catches up; one that holds other objects differs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::beyond;
use super::lately::{Asked, Shows};
use super::leave;
use super::members::Shared;
use super::prints::{Held, Print, held, sample_of};
use super::question::another;
use crate::counts::Operation;
use crate::{Entry, Error, Fault, ObjectKey, Prefix};

/// The most names of a listing.
const NAMES: usize = 1000;

/// How long one vault may take to answer a look.
const PATIENCE: Duration = Duration::from_secs(30);

/// After this an object that is missing is asked for again: another process may be deleting it everywhere.
const AGAIN: Duration = Duration::from_secs(3);

/// How soon after a look another one comes because of a streamed object.
const SOON: Duration = Duration::from_secs(300);

/// Begins to look at the vaults, unless that was begun.
pub(crate) fn begin(shared: &Arc<Shared>) {
    let (Some(runtime), Some(interval)) = (shared.runtime.get(), shared.look) else { return };
    let mut looker = shared.looker();
    if looker.is_none() && shared.notes() {
        *looker = Some(runtime.spawn(run(shared.clone(), interval)).abort_handle());
    }
}

async fn run(shared: Arc<Shared>, interval: Duration) {
    // Many databases don't look at once.
    let mut next = Instant::now() + interval.mul_f64((shared.seed % 997) as f64 / 997.0);
    let mut last = Instant::now();
    loop {
        tokio::select! {
            () = sleep_until(next) => {}
            () = shared.streamed.notified() => {
                if last.elapsed() < SOON.min(interval) {
                    continue;
                }
            }
        }
        round(&shared).await;
        last = Instant::now();
        next = last + interval;
    }
}

/// Looks at each vault in step, at one after the other: one that is left is no witness against the next. The next round asks for what
/// comes from now on only if every vault was found to hold all that this one asked for.
async fn round(shared: &Arc<Shared>) {
    let (asked, mark) = {
        let state = shared.state();
        (state.lately.asked(), state.lately.mark())
    };
    let mut all = true;
    if let Some(asked) = asked {
        for i in shared.in_step() {
            all &= !matches!(confirm(shared, i, &asked).await, Looked::Unsure(_));
        }
    }
    if all {
        shared.state().lately.turn(mark);
    }
}

/// What a look showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Looked {
    /// It holds what was asked for.
    Clean,
    /// That can't be told: with the error of a vault that doesn't answer.
    Unsure(Option<Error>),
    /// It isn't in step any more, for this reason.
    Bad(Error),
}

/// Looks at one vault, and leaves it if it isn't in step any more.
async fn confirm(shared: &Arc<Shared>, i: usize, asked: &Asked) -> Looked {
    let vault = shared.vault(i).url();
    let looked = match timeout(PATIENCE, look(shared, i, asked)).await {
        Ok(Ok(looked)) => looked,
        // A vault that is away shows that at the next write.
        Ok(Err(error)) => {
            tracing::debug!(vault, "this vault can't be looked at now: {error}");
            Looked::Unsure(Some(error))
        }
        Err(_) => {
            tracing::warn!(vault, "this vault doesn't answer a look in time");
            Looked::Unsure(Some(Error::Timeout { object: vault.to_owned(), after: PATIENCE }))
        }
    };
    match looked {
        Looked::Bad(error) if leave(shared, i, error.clone()).await => Looked::Bad(error),
        // The last one in step.
        Looked::Bad(_) => Looked::Unsure(None),
        Looked::Clean => {
            if let Some(standing) = shared.state().standings.get_mut(i) {
                standing.confirmed = Some(Instant::now());
            }
            Looked::Clean
        }
        Looked::Unsure(error) => Looked::Unsure(error),
    }
}

/// Looks at each vault in step before objects are deleted, unless that was done a short while ago: a folder that was swapped has the
/// same names. A vault that doesn't pass, or that doesn't answer, is behind: nothing is deleted in it. Of a single vault in step nothing
/// can be told.
pub(crate) async fn before_deletions(shared: &Arc<Shared>) {
    let Some(asked) = shared.state().lately.asked() else { return };
    for i in shared.in_step() {
        let order = shared.in_step();
        if order.len() < 2 || !order.contains(&i) || shared.keeps(i) || is_confirmed(shared, i) {
            continue;
        }
        if let Looked::Unsure(Some(error)) = confirm(shared, i, &asked).await {
            leave(shared, i, error).await;
        }
    }
}

/// Whether a vault is in step and, if another vault is a witness, holds what was acknowledged lately.
pub(crate) async fn is_sound(shared: &Arc<Shared>, i: usize) -> bool {
    let order = shared.in_step();
    let asked = shared.state().lately.asked();
    match asked {
        _ if !order.contains(&i) => false,
        Some(asked) if order.len() > 1 && !is_confirmed(shared, i) => confirm(shared, i, &asked).await == Looked::Clean,
        // There is nothing to compare it with.
        Some(_) | None => true,
    }
}

fn is_confirmed(shared: &Shared, i: usize) -> bool {
    let confirmed = shared.state().standings.get(i).and_then(|standing| standing.confirmed);
    confirmed.is_some_and(|at| at.elapsed() < SOON)
}

/// Whether a vault is in step still.
async fn look(shared: &Arc<Shared>, i: usize, asked: &Asked) -> Result<Looked, Error> {
    let vault = shared.vault(i);
    vault.mend().await?;
    let (prefix, after) = (Prefix::new(&asked.folder)?, before(&asked.anchor.0));
    let list = || shared.store(i).list(&prefix, after.as_ref(), NAMES);
    let page = match vault.inner.retrier.run(Operation::List, vault.url(), 0, list).await {
        // Credentials that can't list are enough to replicate.
        Err(Error::Denied { .. }) => return one(shared, i, asked).await,
        page => page?,
    };
    let (mut asked, mut unsure) = (asked.clone(), false);
    loop {
        let (key, is_gone) = match asked.judge(&page.entries, page.next.is_some()) {
            Shows::Gone(key) => (key, true),
            Shows::Other(key) => (key, false),
            Shows::All => break,
        };
        let Some(print) = asked.known.get(&key).cloned() else { return Ok(Looked::Unsure(None)) };
        match is_gone {
            true => match lost(shared, i, &key, &print).await? {
                Some(error) => return Ok(Looked::Bad(error)),
                // Another process deleted it everywhere, or no other vault is a witness. The next name may tell.
                None => unsure |= shared.in_step().len() < 2,
            },
            false if stands(shared, i, &key, &print).await => return Ok(Looked::Bad(another(vault, &key))),
            false => unsure = true,
        }
        asked.pass_over(&key);
    }
    let shown = asked.known.iter().find_map(|(key, print)| {
        let entry = page.entries.iter().find(|entry| entry.key == *key)?;
        Some((entry, key, print))
    });
    let Some((entry, key, print)) = shown else { return Ok(Looked::Unsure(None)) };
    if is_other(shared, i, entry, print).await? {
        return Ok(match stands(shared, i, key, print).await {
            true => Looked::Bad(another(vault, key)),
            false => Looked::Unsure(None),
        });
    }
    let names = beyond::among(shared, page.entries.iter().map(|entry| &entry.key));
    let sound = if unsure { Looked::Unsure(None) } else { Looked::Clean };
    Ok(beyond::strange(shared, i, &names).await?.map_or(sound, Looked::Bad))
}

/// A look at one object alone.
async fn one(shared: &Arc<Shared>, i: usize, asked: &Asked) -> Result<Looked, Error> {
    let (key, print) = &asked.anchor;
    Ok(match held(shared.vault(i), key, print).await? {
        Held::Same => Looked::Clean,
        Held::Locked => Looked::Unsure(None),
        Held::Other if stands(shared, i, key, print).await => Looked::Bad(another(shared.vault(i), key)),
        Held::Other => Looked::Unsure(None),
        Held::Gone => lost(shared, i, key, print).await?.map_or(Looked::Unsure(None), Looked::Bad),
    })
}

/// Whether an object that is listed has other bytes. What no key at hand opens has the size that the listing told.
async fn is_other(shared: &Shared, i: usize, entry: &Entry, print: &Print) -> Result<bool, Error> {
    match sample_of(shared.vault(i), &entry.key, entry.size).await {
        Ok(sample) => Ok(Print::of(&sample) != *print),
        Err(Error::Sealing { fault: Fault::NoKey, .. } | Error::NotFound { .. }) => Ok(false),
        // It isn't what was written there.
        Err(Error::Sealing { .. } | Error::Corrupt { .. } | Error::OutOfRange { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether an object is still to be in every vault, and another vault in step has it. If none has, this vault is no worse than they.
async fn stands(shared: &Shared, i: usize, key: &ObjectKey, print: &Print) -> bool {
    let is_due = || {
        let state = shared.state();
        state.lately.has(key) && !state.unsettled.contains_key(key)
    };
    if !is_due() {
        return false;
    }
    for j in shared.in_step().into_iter().filter(|j| *j != i) {
        if matches!(held(shared.vault(j), key, print).await, Ok(Held::Same | Held::Locked)) {
            return is_due();
        }
    }
    false
}

/// The error of a vault that lacks an acknowledged object. It is asked for twice.
async fn lost(shared: &Shared, i: usize, key: &ObjectKey, print: &Print) -> Result<Option<Error>, Error> {
    for wait in [Duration::ZERO, AGAIN] {
        sleep(wait).await;
        if shared.vault(i).head(key).await?.is_some() || !stands(shared, i, key, print).await {
            return Ok(None);
        }
    }
    // A retention of its own deletes some things, and not the newest of every folder.
    if shared.keeps(i) {
        let anchors = shared.state().lately.anchors();
        for key in &anchors {
            if shared.vault(i).head(key).await?.is_some() {
                return Ok(None);
            }
        }
    }
    let cause =
        "it was acknowledged, and is missing: the vault was emptied, or set back to an earlier state".to_owned();
    Ok(Some(Error::Corrupt { object: shared.vault(i).object(key), cause }))
}

/// A name right before a name, so that a listing behind it begins with that one. `None`: the folder's beginning.
fn before(key: &ObjectKey) -> Option<ObjectKey> {
    let mut name = key.as_str().to_owned();
    name.pop();
    ObjectKey::new(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_begins_with_the_anchor() {
        for (name, expected) in [("ltx/0/1-2.ltx", Some("ltx/0/1-2.lt")), ("ltx/0/1", None), ("a", None)] {
            let before = before(&ObjectKey::new(name).expect("a key"));
            assert_eq!(before.as_ref().map(ObjectKey::as_str), expected, "{name}");
        }
    }
}
