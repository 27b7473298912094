//! `seawall ltx verify --strong`: compares a file with the digest that was recorded when it was written.
//!
//! The checksums in a file show that it is sound, not that it is the same file. The BLAKE3 digest that Seawall keeps
//! beside the objects of its vaults shows that, where there is one.

use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use seawall_agent::digest_of_object;
use seawall_core::{Failure, Kind};
use seawall_vault::{Digest, Digester, ObjectKey, Policy, Vault, VaultUrl};

use super::input::{Name, object};
use super::{failure, input};
use crate::edge::Edge;
use crate::runtime;

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    AsWritten,
    /// Nothing is kept beside it.
    WithoutDigest,
}

/// Compares a file that was found sound. It is read once more for it.
pub(super) fn compare(name: &Name, edge: &Edge) -> Result<Compared, Failure> {
    runtime::run(async {
        let (vault, key) = match object(&name.0)? {
            Some((url, key)) => input::open(&name.0, url, key, edge).await?,
            None => {
                let (url, key) = in_folder(Path::new(&name.0))?;
                (Vault::open(&url, &edge.environment, Policy::default()).await?, key)
            }
        };
        let Some(meta) = vault.head(&key).await? else { return Err(input::missing(vault.object(&key))) };
        let kept = match meta.digest {
            // What was read of it before proved it.
            _ if vault.is_authentic() => return Ok(Compared::AsWritten),
            Some(kept) => Some(kept),
            None => apart(&name.0, meta.size, edge).await?,
        };
        let Some(kept) = kept else { return Ok(Compared::WithoutDigest) };
        let mut digester = Digester::default();
        let mut pieces = std::pin::pin!(vault.stream(&key, None));
        while let Some(piece) = pieces.next().await {
            digester.update(&piece?);
        }
        decide(&vault.object(&key), kept, digester.digest())
    })
}

/// The digest that a replica keeps of an object that has no room for it beside it.
async fn apart(name: &str, size: u64, edge: &Edge) -> Result<Option<Digest>, Failure> {
    let Some((url, key)) = input::in_replica(name) else { return Ok(None) };
    // Not every place that has objects can have replicas, as a bucket without a prefix can't; nor has every path keys.
    let (Ok(url), Ok(key)) = (url.parse::<VaultUrl>(), ObjectKey::new(key)) else { return Ok(None) };
    let vault = Vault::open(&url, &edge.environment, Policy::default()).await?;
    digest_of_object(&vault, &key, size).await
}

/// A path as a key in its folder. Links are resolved.
fn in_folder(path: &Path) -> Result<(VaultUrl, ObjectKey), Failure> {
    let path = std::fs::canonicalize(path).map_err(|error| failure::io(path, error))?;
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok((VaultUrl::File(folder), ObjectKey::new(name)?))
}

fn decide(object: &str, kept: Digest, found: Digest) -> Result<Compared, Failure> {
    if kept == found {
        return Ok(Compared::AsWritten);
    }
    let cause = format!("its checksums are right, but its BLAKE3 is {found} and was {kept} when it was written");
    let next = "take another copy of the file, and find out who changes files there";
    Err(Failure::new(Kind::Corrupt, "ltx.digest", object, cause, next))
}
