//! What does a vault hold? The names of its objects tell, from one listing.
//!
//! No marker in a vault says which engine wrote it: the names belong to formats of other tools too, and stay as they
//! are. Each kind of engine recognises its own names.

use futures::TryStreamExt as _;
use seawall_core::{Failure, Kind};
use seawall_postgres::physical::kept;
use seawall_vault::{ObjectKey, Prefix, Scheme, Vault, VaultUrl};

use crate::{lmdb, proofs, sets, sqlite};

/// The number of objects that are looked at: one page of a listing. It finds a vault's own objects unless more foreign
/// objects than this come before them.
const GLANCE: usize = 1000;

/// The kinds of vaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Nothing that an engine knows.
    Nothing,
    /// A SQLite database.
    Sqlite,
    /// Snapshots of LMDB environments.
    Lmdb,
    /// Backup sets of a server.
    Sets,
    /// The files and the log of a PostgreSQL cluster.
    Cluster,
}

/// The kind of a vault whose objects have these names. Snapshots and sets come first, because their names can't be
/// another engine's.
pub(crate) fn recognise<'a>(scheme: Scheme, keys: impl IntoIterator<Item = &'a ObjectKey>) -> Held {
    let mut held = Held::Nothing;
    for key in keys {
        if lmdb::is_name(key) {
            return Held::Lmdb;
        }
        if sets::is_name(key) {
            held = Held::Sets;
        } else if held != Held::Sets && kept::is_name(key) {
            held = Held::Cluster;
        } else if held == Held::Nothing && sqlite::is_name(scheme, key) {
            held = Held::Sqlite;
        }
    }
    held
}

/// The kind of a vault, from one page of a listing. Only if the page is full of foreign objects, it also asks for sets
/// by name.
pub(crate) async fn look(vault: &Vault) -> Result<Held, Failure> {
    let (mut keys, mut entries) = (Vec::new(), Box::pin(vault.entries(&Prefix::all(), None)));
    while keys.len() < GLANCE
        && let Some(entry) = entries.try_next().await?
    {
        // Many environments may share a vault, each with its records of proofs before the snapshots in the listing.
        if !proofs::is_record(&entry.key) {
            keys.push(entry.key);
        }
    }
    let held = recognise(vault.scheme(), &keys);
    if held == Held::Nothing && keys.len() == GLANCE && sets::are_here(vault).await? {
        return Ok(Held::Sets);
    }
    Ok(held)
}

/// Refuses a folder that isn't there: an empty folder proves that there is no backup, a missing one proves nothing.
///
/// # Errors
/// `vault.missing`, with the folder.
pub fn is_there(vault: &VaultUrl) -> Result<(), Failure> {
    match vault {
        VaultUrl::File(folder) if matches!(folder.try_exists(), Ok(false)) => {
            let object = folder.display().to_string();
            let next = "mount its disk, or check the path; if nothing was backed up yet, make the folder";
            Err(Failure::new(Kind::Refused, "vault.missing", object, "the folder doesn't exist", next))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_names_alone() {
        const LTX: &str = "0000000000000001-0000000000000001.ltx";
        const SNAPSHOT: &str = "main__ns1__20261123-101112-000000001__GX.pb.gz";
        const MANIFEST: &str = "physical/7/bases/20261121T101112000Z-0000000a/manifest.json";
        let (ltx, below) = (&*format!("0000/{LTX}"), &*format!("app/0000/{LTX}"));
        let set = "sets/20261121T101112000Z-0000000a/index.json";
        for (scheme, keys, expected) in [
            (Scheme::S3, vec![], Held::Nothing),
            (Scheme::S3, vec!["readme.txt", "x/y"], Held::Nothing),
            (Scheme::S3, vec![ltx], Held::Sqlite),
            (Scheme::File, vec![ltx], Held::Nothing),
            (Scheme::File, vec!["ltx/0/0000000000000001-0000000000000001.ltx"], Held::Sqlite),
            // Several databases, each below its name: the vault itself holds none.
            (Scheme::S3, vec![below], Held::Nothing),
            (Scheme::S3, vec!["generations/5e21ff9be28275d2/snapshots/00000001.snapshot.lz4"], Held::Sqlite),
            (Scheme::S3, vec!["chain/00000001.json"], Held::Sets),
            (Scheme::S3, vec!["chain/1.json"], Held::Nothing),
            (Scheme::S3, vec![set], Held::Sets),
            (Scheme::S3, vec![MANIFEST], Held::Cluster),
            (Scheme::S3, vec!["physical/7/log/00000001/000000010000000000000002.zst"], Held::Cluster),
            (Scheme::S3, vec![ltx, MANIFEST], Held::Cluster),
            (Scheme::S3, vec![MANIFEST, set], Held::Sets),
            (Scheme::S3, vec![SNAPSHOT], Held::Lmdb),
            (Scheme::S3, vec!["update_marker", SNAPSHOT], Held::Lmdb),
            (Scheme::S3, vec![ltx, "chain/00000001.json"], Held::Sets),
            (Scheme::S3, vec![ltx, "chain/00000001.json", SNAPSHOT], Held::Lmdb),
        ] {
            let keys: Vec<ObjectKey> = keys.into_iter().map(|key| ObjectKey::new(key).expect("a key")).collect();
            assert_eq!(recognise(scheme, &keys), expected, "{keys:?}");
        }
    }
}
