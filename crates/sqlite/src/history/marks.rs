//! Small objects that say all by their names: pinned points, and the mark of thinned-out history.

use bytes::Bytes;
use seawall_ltx::Txid;
use seawall_vault::{ObjectKey, Prefix, Vault};
use serde::Serialize;

use crate::error::Error;
use crate::layout::{FLOORS, PINS, mark_key, parse_mark};

/// The content of a mark, for people. Only its name counts.
#[derive(Serialize)]
struct Mark {
    format: u32,
    what: &'static str,
}

/// The pinned points, ascending.
pub(crate) async fn pins(vault: &Vault) -> Result<Vec<Txid>, Error> {
    list(vault, PINS).await
}

/// Pins a point: the objects that lead to it are no longer deleted.
pub(crate) async fn pin(vault: &Vault, point: Txid) -> Result<(), Error> {
    set(vault, PINS, point, "what leads to this point is not deleted").await
}

/// Takes a pin away. Returns whether there was one.
pub(crate) async fn unpin(vault: &Vault, point: Txid) -> Result<bool, Error> {
    let there = pins(vault).await?.contains(&point);
    vault.delete(&[mark_key(PINS, point)]).await?;
    Ok(there)
}

/// The TXID up to which history was thinned out, if it ever was.
pub(crate) async fn floor(vault: &Vault) -> Result<Option<Txid>, Error> {
    Ok(list(vault, FLOORS).await?.pop())
}

/// Records that history is thinned out up to `floor`, which only grows.
pub(crate) async fn set_floor(vault: &Vault, floor: Txid) -> Result<(), Error> {
    let older = list(vault, FLOORS).await?;
    if older.last().is_some_and(|last| *last >= floor) {
        return Ok(());
    }
    set(vault, FLOORS, floor, "objects up to here may have been deleted because they are not kept any longer").await?;
    let keys: Vec<ObjectKey> = older.into_iter().map(|older| mark_key(FLOORS, older)).collect();
    match vault.delete(&keys).await {
        // The greatest mark counts.
        Ok(()) | Err(seawall_vault::Error::Denied { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn set(vault: &Vault, prefix: &str, txid: Txid, what: &'static str) -> Result<(), Error> {
    let bytes = serde_json::to_vec(&Mark { format: 1, what }).map_err(|e| Error::Internal(e.to_string()))?;
    match vault.create(&mark_key(prefix, txid), Bytes::from(bytes), None).await {
        // Another process set the same mark before.
        Ok(_) | Err(seawall_vault::Error::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn list(vault: &Vault, prefix: &str) -> Result<Vec<Txid>, Error> {
    let entries = vault.list(&Prefix::new(prefix)?, None).await?;
    let mut found: Vec<Txid> = entries.iter().filter_map(|entry| parse_mark(prefix, entry.key.as_str())).collect();
    found.sort_unstable();
    Ok(found)
}
