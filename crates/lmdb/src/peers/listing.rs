//! The snapshots of a vault, by database.

use std::collections::{BTreeSet, HashMap};

use futures::TryStreamExt as _;
use seawall_core::{Clock as _, SystemClock};
use seawall_vault::{Entry, ObjectKey, Prefix, Vault};

use crate::error::Error;
use crate::peers::latest::{Listed, snapshots};
use crate::peers::misdated::{Dated, may_be_misdated, misdated};
use crate::restore::plan::moment;
use crate::snapshot::SnapshotName;

/// Snapshots of a database that are listed at most, in about 400 MB. Lightning Stream deletes none by itself.
pub(crate) const MOST: usize = 2_000_000;

/// Every object whose name begins as the snapshots of a database do, but no snapshot that a wrong clock dated.
pub(crate) async fn names(vault: &Vault, database: &str) -> Result<Vec<(String, u64)>, Error> {
    Ok(apart(vault, database).await?.0)
}

/// The same, and the names of the snapshots that a wrong clock dated.
async fn apart(vault: &Vault, database: &str) -> Result<(Vec<(String, u64)>, Vec<String>), Error> {
    let (entries, now) = (entries(vault, database).await?, SystemClock.now());
    // There may be millions, and hardly ever one of the future: nothing is kept of their names without need.
    let may_be_misdated = |entry: &Entry| {
        let name = SnapshotName::parse(entry.key.as_str()).filter(|name| name.database == database);
        name.is_some_and(|name| may_be_misdated(moment(name.stamp), entry.written, now))
    };
    if !entries.iter().any(may_be_misdated) {
        return Ok((entries.into_iter().map(|entry| (entry.key.to_string(), entry.size)).collect(), Vec::new()));
    }
    let parsed: Vec<Option<SnapshotName>> =
        entries.iter().map(|entry| SnapshotName::parse(entry.key.as_str())).collect();
    let (mut places, mut dated) = (Vec::new(), Vec::new());
    for (place, (name, entry)) in parsed.iter().zip(&entries).enumerate() {
        if let Some(name) = name.as_ref().filter(|name| name.database == database) {
            places.push(place);
            dated.push(Dated { instance: &name.instance, stamp: moment(name.stamp), written: entry.written });
        }
    }
    let misdated: BTreeSet<usize> =
        misdated(&dated, now).into_iter().filter_map(|at| places.get(at).copied()).collect();
    let (mut names, mut left_out) = (Vec::with_capacity(entries.len()), Vec::new());
    for (place, entry) in entries.iter().enumerate() {
        match misdated.contains(&place) {
            true => left_out.push(entry.key.to_string()),
            false => names.push((entry.key.to_string(), entry.size)),
        }
    }
    Ok((names, left_out))
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
    Ok(with_misdated(vault, database).await?.0)
}

/// The same, and the names of the snapshots that a wrong clock dated.
pub(crate) async fn with_misdated(vault: &Vault, database: &str) -> Result<(Vec<Listed>, Vec<String>), Error> {
    let (names, misdated) = apart(vault, database).await?;
    Ok((snapshots(database, names.iter().map(|(name, bytes)| (name.as_str(), *bytes))), misdated))
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
