//! Looks now and then at each vault in step, while the process runs: was it emptied, set back to an earlier state, or swapped?
//!
//! A look costs one listing of at most [`NAMES`] names and the first and last KiB of one object (three
//! requests; of an encrypted vault two more, which ask for what tells how it is read). It comes once in
//! [`Settings::look`](super::Settings::look), and after an object that was streamed, as a complete copy is. What the look asks for is said
//! in `lately`. A vault that was emptied or set back is behind and catches up; one that holds other objects differs.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::beyond;
use super::fell_behind;
use super::lately::{Asked, Shows};
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
    let mut wait = interval.mul_f64((shared.seed % 997) as f64 / 997.0);
    let mut last = Instant::now();
    loop {
        tokio::select! {
            () = sleep(wait) => {}
            () = shared.streamed.notified() => {
                if last.elapsed() < SOON.min(interval) {
                    continue;
                }
            }
        }
        last = Instant::now();
        round(&shared).await;
        wait = interval;
    }
}

/// Looks at each vault in step, at all at once.
async fn round(shared: &Arc<Shared>) {
    let asked = shared.state().lately.asked();
    if let Some(asked) = asked {
        let order = shared.in_step();
        let looks = order.iter().map(|i| timeout(PATIENCE, look(shared, *i, &asked)));
        for (i, looked) in order.iter().copied().zip(join_all(looks).await) {
            let vault = shared.vault(i).url();
            match looked {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(error))) => {
                    if !matches!(error, Error::Differs { .. }) {
                        shared.set_back(i);
                    }
                    fell_behind(shared, vec![(i, error)]).await;
                }
                // Credentials that can't list are enough to replicate, and a vault that is away shows that at the next write.
                Ok(Err(error)) => tracing::debug!(vault, "this vault can't be looked at now: {error}"),
                Err(_) => tracing::warn!(vault, "this vault doesn't answer a look in time"),
            }
        }
    }
    shared.state().lately.turn();
}

/// Why a vault isn't in step any more; `None` if it is, as far as can be told.
async fn look(shared: &Arc<Shared>, i: usize, asked: &Asked) -> Result<Option<Error>, Error> {
    let vault = shared.vault(i);
    vault.mend().await?;
    let (prefix, after) = (Prefix::new(&asked.folder)?, before(&asked.anchor.0));
    let list = || shared.store(i).list(&prefix, after.as_ref(), NAMES);
    let page = vault.inner.retrier.run(Operation::List, vault.url(), 0, list).await?;
    match asked.judge(&page.entries, page.next.is_some()) {
        Shows::Gone(key) => {
            let print = asked.known.get(&key).unwrap_or(&asked.anchor.1);
            return lost(shared, i, &key, print).await;
        }
        Shows::Other(key) => {
            let print = asked.known.get(&key).unwrap_or(&asked.anchor.1);
            return Ok(stands(shared, i, &key, print).await.then(|| another(vault, &key)));
        }
        Shows::All => {}
    }
    let (key, print) = &asked.anchor;
    if let Some(entry) = page.entries.iter().find(|entry| entry.key == *key)
        && is_other(shared, i, entry, print).await?
        && stands(shared, i, key, print).await
    {
        return Ok(Some(another(vault, key)));
    }
    let names = beyond::among(shared, page.entries.iter().map(|entry| &entry.key));
    beyond::strange(shared, i, &names).await
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
