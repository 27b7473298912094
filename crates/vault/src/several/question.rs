//! Whether a vault in step is still this database's vault.
//!
//! A folder may be swapped for another database's while the process runs. Then it answers as a vault that is in order, and has other
//! objects under the same names. The newest acknowledged object shows it: each vault in step holds that one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::leave;
use super::members::Shared;
use super::prints::{Held, held};
use crate::{Error, ObjectKey, Vault};

/// How long the vaults may take to answer. One that is away shows that at the next request.
const PATIENCE: Duration = Duration::from_secs(3);

/// The error of a vault that holds another object under a name that this database's history has.
pub(crate) fn another(vault: &Vault, key: &ObjectKey) -> Error {
    Error::Differs {
        object: vault.object(key),
        cause: "it is another object than the one of this database's history".to_owned(),
    }
}

/// Why a vault in step isn't any more: it doesn't hold the newest acknowledged object, and another vault in step does. `None` also
/// where that can't be told.
pub(crate) async fn question(shared: &Shared, i: usize) -> Option<Error> {
    timeout(PATIENCE, asked(shared, i)).await.ok().flatten()
}

async fn asked(shared: &Shared, i: usize) -> Option<Error> {
    let (key, print) = shared.state().newest.last()?;
    let vault = shared.vault(i);
    let error = match held(vault, &key, &print).await.ok()? {
        Held::Other => another(vault, &key),
        Held::Gone => {
            let cause = "it was acknowledged, and is missing".to_owned();
            Error::Corrupt { object: vault.object(&key), cause }
        }
        Held::Same | Held::Locked => return None,
    };
    for j in shared.in_step().into_iter().filter(|j| *j != i) {
        if matches!(held(shared.vault(j), &key, &print).await, Ok(Held::Same)) {
            return Some(error);
        }
    }
    None
}

/// Asks that of the leading vault, until one leads that holds the newest object.
pub(crate) async fn question_leader(shared: &Arc<Shared>) {
    while let Some(leader) = shared.in_step().first().copied()
        && let Some(error) = question(shared, leader).await
    {
        if !leave(shared, leader, error).await {
            return;
        }
    }
}

/// Asks that of every vault in step. Whether one isn't any more.
pub(crate) async fn question_all(shared: &Arc<Shared>) -> bool {
    let mut any = false;
    for i in shared.in_step() {
        if let Some(error) = question(shared, i).await {
            any |= leave(shared, i, error).await;
        }
    }
    any
}
