//! Names beyond ours: objects in one vault that this process didn't write, greater than everything that it did write there.
//!
//! Another writer's object gets into all vaults that it reaches, and is of this history, or of one that continues it: the engine finds it
//! and says so. An object of another history that stays in a single vault was copied into it: that vault differs, and the others go on.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::differ::strange as error_of;
use super::judge::{Newer, Question};
use super::leave;
use super::members::Shared;
use super::prints::telling;
use crate::{Error, ObjectKey};

/// How long another writer's object may take to get into a second vault: longer than a write waits for a slow vault.
const WAITS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(3)];

/// How long the other vaults, and the judge, may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most names that are asked about.
const MOST: usize = 4;

/// Asks about names in a vault in step, and leaves it alone if one is a stranger's. Whether it did.
pub(crate) async fn leaves(shared: &Arc<Shared>, i: usize, names: &[ObjectKey]) -> bool {
    match timeout(PATIENCE, strange(shared, i, names)).await {
        Ok(Ok(Some(error))) => leave(shared, i, error).await,
        Ok(Ok(None)) | Err(_) => false,
        Ok(Err(error)) => {
            tracing::debug!(vault = shared.vault(i).url(), "names beyond ours can't be judged now: {error}");
            false
        }
    }
}

/// The error of a vault that alone has one of these names, if the judge calls it a stranger.
pub(crate) async fn strange(shared: &Shared, i: usize, names: &[ObjectKey]) -> Result<Option<Error>, Error> {
    let Some(judge) = shared.judge.as_ref().filter(|_| shared.notes()) else { return Ok(None) };
    let mut names: Vec<ObjectKey> = names.iter().take(MOST).cloned().collect();
    for wait in WAITS {
        if names.is_empty() {
            return Ok(None);
        }
        sleep(wait).await;
        let mut alone = Vec::new();
        for key in names {
            match is_alone(shared, i, &key).await {
                Some(true) => alone.push(key),
                Some(false) => shared.judged(&key),
                None => {}
            }
        }
        names = alone;
    }
    for j in shared.in_step().into_iter().filter(|j| *j != i) {
        let (suspect, sound) = (shared.vault(i), shared.vault(j));
        let question =
            Question { suspect, names: &names, sound, recorded: true, older_stay: false, newer: Newer::Writer };
        match judge.stranger(question).await {
            Ok(Some(stranger)) => return Ok(Some(error_of(shared, i, &stranger))),
            Ok(None) => {
                names.iter().for_each(|key| shared.judged(key));
                return Ok(None);
            }
            // The next vault may answer.
            Err(error) => tracing::debug!(vault = sound.url(), "names beyond ours can't be compared with it: {error}"),
        }
    }
    Ok(None)
}

/// Which of these names are beyond ours: greater than the last one that this process wrote into their folder.
pub(crate) fn among<'a>(shared: &Shared, names: impl Iterator<Item = &'a ObjectKey>) -> Vec<ObjectKey> {
    if shared.judge.is_none() || !shared.notes() {
        return Vec::new();
    }
    let state = shared.state();
    let is_beyond = |key: &&ObjectKey| {
        let newest = telling(key).and_then(|folder| state.newest.of(folder));
        newest.is_some_and(|newest| newest < *key)
            && !state.unsettled.contains_key(*key)
            && !state.judged.contains(*key)
    };
    names.filter(is_beyond).cloned().collect()
}

/// Whether another vault in step says that it hasn't the name, and none has it; `None` where no other one answers.
async fn is_alone(shared: &Shared, i: usize, key: &ObjectKey) -> Option<bool> {
    let mut alone = None;
    for j in shared.in_step().into_iter().filter(|j| *j != i) {
        match shared.vault(j).head(key).await {
            Ok(Some(_)) => return Some(false),
            Ok(None) => alone = Some(true),
            Err(_) => {}
        }
    }
    alone
}
