//! Lists the LTX files of a vault, for people and programs that want to see them.

use std::future::ready;

use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::{Failure, Moment};
use seawall_ltx::Txid;
use seawall_vault::{Prefix, Vault};

use crate::error::Error;
use crate::layout::{Layout, Level, level_prefix, parse_key};
use crate::survey::MOST_OF_LEVEL;

/// An LTX file in a vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LtxObject {
    /// Its key below the vault's prefix.
    pub key: String,
    /// Its level, 0 to 9.
    pub level: u8,
    /// Its first transaction.
    pub min: Txid,
    /// Its last one.
    pub max: Txid,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was made, by the listing.
    pub modified: Moment,
}

/// All LTX files of a vault, level by level, each in the order of its names.
///
/// # Errors
/// When the vault can't be listed.
pub async fn ltx_objects(vault: &Vault) -> Result<Vec<LtxObject>, Failure> {
    let levels: Vec<Vec<LtxObject>> = stream::iter(Level::all().map(|level| objects_of(vault, level)))
        .buffered(10)
        .try_collect()
        .await
        .map_err(|error: Error| error.failure())?;
    Ok(levels.concat())
}

async fn objects_of(vault: &Vault, level: Level) -> Result<Vec<LtxObject>, Error> {
    let layout = Layout::of(vault);
    let entries = vault.entries_up_to(&Prefix::new(level_prefix(layout, level))?, None, MOST_OF_LEVEL);
    let object = |entry: seawall_vault::Entry| {
        let file = parse_key(layout, entry.key.as_str(), entry.size)?;
        Some(LtxObject {
            key: entry.key.to_string(),
            level: level.number(),
            min: file.min,
            max: file.max,
            bytes: file.size,
            modified: entry.modified,
        })
    };
    Ok(entries.try_filter_map(|entry| ready(Ok(object(entry)))).try_collect().await?)
}
