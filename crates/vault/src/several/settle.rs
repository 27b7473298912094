//! Settles writes and deletions that were cut off: afterwards every vault in step has the object, or none has.
//!
//! Done before the next call is answered, so that no caller sees an object that some vault in step lacks.

use std::sync::Arc;

use futures::future::join_all;
use tokio::time::timeout;

use super::decide::{grace, is_trouble};
use super::fan::Failed;
use super::fell_behind;
use super::members::{Shared, Unsettled, Work};
use super::prints::{Held, held};
use super::transfer::{self, Copied, digest_of};
use crate::{Condition, Error, Meta, ObjectKey, PutOptions, Vault};

/// An object that is written over has at most this many bytes.
const LARGEST: u64 = 16 << 20;

/// Settles what was cut off. Costs nothing when nothing was.
pub(crate) async fn settle(shared: &Arc<Shared>) -> Result<(), Error> {
    loop {
        let next = {
            let state = shared.state();
            let cut = state.unsettled.iter().find(|(_, unsettled)| !unsettled.running);
            cut.map(|(key, unsettled)| (key.clone(), unsettled.clone()))
        };
        let Some((key, unsettled)) = next else { return Ok(()) };
        let _shared = shared.gate.read().await;
        let order = shared.in_step();
        let failed = match unsettled.work {
            Work::Delete => delete(shared, &order, &key).await?,
            Work::Create | Work::Overwrite => level(shared, &order, &key, &unsettled).await?,
        };
        {
            let mut state = shared.state();
            // Another task may be at the name again.
            if state.unsettled.get(&key).is_some_and(|unsettled| !unsettled.running) {
                state.unsettled.remove(&key);
            }
        }
        let error = |(i, _): &(usize, Error)| *i;
        let late: Vec<usize> = failed.iter().map(error).collect();
        fell_behind(shared, failed).await;
        note(shared, &late, &key, &unsettled);
    }
}

/// A vault that could not be asked may hold what was cut off.
fn note(shared: &Shared, late: &[usize], key: &ObjectKey, unsettled: &Unsettled) {
    let mut state = shared.state();
    for i in late {
        let Some(behind) = state.standings.get_mut(*i).and_then(|standing| standing.behind.as_mut()) else { continue };
        if unsettled.work == Work::Delete {
            behind.deleted.insert(key.clone());
        } else {
            behind.unfinished.insert(key.clone(), unsettled.digest);
        }
    }
}

/// Deletes a name in every vault in step; the vaults where that failed.
async fn delete(shared: &Arc<Shared>, order: &[usize], key: &ObjectKey) -> Result<Failed, Error> {
    let one = |i: usize| async move {
        match shared.keeps(i) {
            true => (i, Ok(())),
            false => (i, shared.vault(i).delete(std::slice::from_ref(key)).await),
        }
    };
    let results = join_all(order.iter().map(|i| one(*i))).await;
    parted(results.into_iter().filter(|(_, result)| !matches!(result, Err(Error::Denied { .. }))).collect())
}

/// The vaults that failed, if at least one didn't.
fn parted(results: Vec<(usize, Result<(), Error>)>) -> Result<Failed, Error> {
    let any = results.is_empty() || results.iter().any(|(_, result)| result.is_ok());
    let mut failed: Failed = results.into_iter().filter_map(|(i, result)| Some((i, result.err()?))).collect();
    match (any, failed.is_empty()) {
        (false, false) => Err(failed.remove(0).1),
        _ => Ok(failed),
    }
}

/// Gives every vault in step what the first of them has that has it.
async fn level(shared: &Arc<Shared>, order: &[usize], key: &ObjectKey, unsettled: &Unsettled) -> Result<Failed, Error> {
    let look = |i: usize| async move { (i, shared.vault(i).head(key).await) };
    let found = join_all(order.iter().map(|i| look(*i))).await;
    let (mut failed, mut answers) = (Failed::new(), Vec::<(usize, Option<Meta>)>::new());
    for (i, found) in found {
        match found {
            Ok(meta) => answers.push((i, meta)),
            Err(error) => failed.push((i, error)),
        }
    }
    if answers.is_empty() {
        return if failed.is_empty() { Ok(failed) } else { Err(failed.remove(0).1) };
    }
    let mut source = None;
    for (i, meta) in &answers {
        let Some(meta) = meta else { continue };
        let ours = match unsettled.work {
            Work::Overwrite => Ok(true),
            Work::Create | Work::Delete => is_ours(shared.vault(*i), key, unsettled).await,
        };
        match ours {
            Ok(true) => {
                source = Some((*i, meta.clone()));
                break;
            }
            Ok(false) => {}
            Err(error) => failed.push((*i, error)),
        }
    }
    // What another writer, or another database, has there is never spread.
    let Some((source, meta)) = source else {
        return if failed.len() < order.len() { Ok(failed) } else { Err(failed.remove(0).1) };
    };
    let known: Vec<usize> = failed.iter().map(|(i, _)| *i).collect();
    for (i, there) in answers.into_iter().filter(|(i, _)| *i != source && !known.contains(i)) {
        let (from, to) = (shared.vault(source), shared.vault(i));
        let work = async {
            match (unsettled.work, there) {
                (Work::Overwrite, _) => overwrite(shared, source, i, key).await,
                (_, None) => copied(to, key, transfer::copy(from, to, key).await?),
                (_, Some(there)) => match transfer::same(from, to, key, &meta, &there).await? {
                    true => Ok(()),
                    false => Err(Error::AlreadyExists { object: to.object(key) }),
                },
            }
        };
        let limit = grace(2 * meta.size) + to.policy().total;
        let result =
            timeout(limit, work).await.unwrap_or_else(|_| Err(Error::Timeout { object: to.object(key), after: limit }));
        match result {
            Ok(()) => {}
            // The one with the object is in trouble, and the others may be in order.
            Err(error) if is_trouble(&error) && error.object() == from.object(key) => return Err(error),
            Err(error) => failed.push((i, error)),
        }
    }
    Ok(failed)
}

/// Whether an object is the one whose creation was cut off. A streamed one without a print was never complete, so it is in no vault.
async fn is_ours(vault: &Vault, key: &ObjectKey, unsettled: &Unsettled) -> Result<bool, Error> {
    match (&unsettled.digest, &unsettled.print) {
        (Some(digest), _) => Ok(digest_of(vault, key).await? == *digest),
        (None, Some(print)) => Ok(held(vault, key, print).await? == Held::Same),
        (None, None) => Ok(false),
    }
}

fn copied(to: &Vault, key: &ObjectKey, copied: Copied) -> Result<(), Error> {
    match copied {
        Copied::Differs => Err(Error::AlreadyExists { object: to.object(key) }),
        Copied::Fresh(_) | Copied::There(_) | Copied::Gone => Ok(()),
    }
}

/// Writes an object over the one of another vault. Where it is gone, it goes there too, unless that vault keeps everything.
pub(crate) async fn overwrite(shared: &Shared, source: usize, i: usize, key: &ObjectKey) -> Result<(), Error> {
    let (from, to) = (shared.vault(source), shared.vault(i));
    let Some(meta) = from.head(key).await? else {
        if shared.keeps(i) {
            return Ok(());
        }
        return match to.delete(std::slice::from_ref(key)).await {
            Err(Error::Denied { .. }) => {
                shared.keeps_from_now_on(i);
                Ok(())
            }
            deleted => deleted,
        };
    };
    let bytes = from.read(key, None, LARGEST).await?;
    let options = PutOptions { condition: Condition::Always, stamp: meta.stamp, digest: None };
    to.write(key, &bytes, options).await.map(drop)
}
