//! The snapshots of a vault, by database.

use std::collections::{BTreeSet, HashMap};

use futures::TryStreamExt as _;
use seawall_vault::{Entry, ObjectKey, Prefix, Vault};

use crate::error::Error;
use crate::peers::latest::{Listed, snapshots};
use crate::snapshot::SnapshotName;

/// Snapshots of a database that are listed at most, in about 400 MB. Lightning Stream deletes none by itself.
const MOST: usize = 2_000_000;

/// Every object whose name is a snapshot name of a database.
pub(crate) async fn names(vault: &Vault, database: &str) -> Result<Vec<(String, u64)>, Error> {
    let name = |entry: Entry| (entry.key.to_string(), entry.size);
    Ok(entries(vault, database).await?.into_iter().map(name).collect())
}

/// The numbers by which proofs remember the snapshots of a database, by their names and sizes.
pub(crate) async fn fingerprints(vault: &Vault, database: &str) -> Result<HashMap<(String, u64), u128>, Error> {
    let number = |entry: Entry| ((entry.key.to_string(), entry.size), entry.fingerprint());
    Ok(entries(vault, database).await?.into_iter().map(number).collect())
}

async fn entries(vault: &Vault, database: &str) -> Result<Vec<Entry>, Error> {
    let prefix = SnapshotName::prefix(database);
    // All names with this prefix sort after it, and next to each other.
    let after = ObjectKey::new(prefix.get(..prefix.len() - 1).unwrap_or_default())?;
    let mut entries = Box::pin(vault.entries_up_to(&Prefix::all(), Some(&after), MOST));
    let mut found = Vec::new();
    while let Some(entry) = entries.try_next().await? {
        let name = entry.key.as_str();
        if name.starts_with(&prefix) {
            found.push(entry);
        } else if name > prefix.as_str() {
            break;
        }
    }
    Ok(found)
}

/// The snapshots of a database.
pub(crate) async fn of_database(vault: &Vault, database: &str) -> Result<Vec<Listed>, Error> {
    let names = names(vault, database).await?;
    Ok(snapshots(database, names.iter().map(|(name, bytes)| (name.as_str(), *bytes))))
}

/// The databases that a vault has snapshots of.
pub(crate) async fn databases(vault: &Vault) -> Result<Vec<String>, Error> {
    let mut entries = Box::pin(vault.entries_up_to(&Prefix::all(), None, MOST));
    let mut found = BTreeSet::new();
    while let Some(entry) = entries.try_next().await? {
        found.extend(SnapshotName::parse(entry.key.as_str()).map(|name| name.database));
    }
    Ok(found.into_iter().collect())
}
