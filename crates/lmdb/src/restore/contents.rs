//! Tells what a point holds without a restore: the index of a snapshot lists its DBIs with their sizes, and a digest of each piece.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use seawall_core::{Contents, Part, When};
use seawall_vault::{ObjectKey, Vault};

use super::plan;
use crate::error::{Error, shown};
use crate::peers::latest::{Listed, newest};
use crate::peers::transfer;
use crate::snapshot::index::{Index, Section};

/// Indexes that are read at a time.
const AT_ONCE: usize = 8;

/// What the point holds that `when` names, of the environment `database`. A restore merges the newest snapshot of each instance. So a DBI is as
/// large as in the newest one of them, and its digest is one of all of them.
pub(crate) async fn contents(vault: &Vault, database: &str, listed: &[Listed], when: &When) -> Result<Contents, Error> {
    let wanted: Vec<_> = newest(&plan::until(listed, when), &Default::default()).into_values().collect();
    let latest = plan::latest(&wanted)
        .ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned(), database: database.into() })?;
    let read = async |snapshot: &Listed| {
        let index = transfer::index(vault, &ObjectKey::new(&snapshot.key)?, snapshot.bytes).await?;
        Ok::<_, Error>((snapshot.clone(), index))
    };
    let mut read: Vec<(Listed, Option<Index>)> =
        stream::iter(&wanted).map(read).buffered(AT_ONCE).try_collect().await?;
    read.sort_by(|(one, _), (other, _)| (one.name.stamp, &one.key).cmp(&(other.name.stamp, &other.key)));
    let unlisted = read.iter().filter(|(_, index)| index.is_none()).map(|(snapshot, _)| {
        format!("{} has no index, which only Seawall writes, so that the DBIs aren't known", snapshot.key)
    });
    let doubts: Vec<String> = unlisted.collect();
    let parts = doubts.is_empty().then(|| {
        merged(read.iter().filter_map(|(snapshot, index)| {
            Some((snapshot.name.instance.as_str(), index.as_ref()?.sections.as_slice()))
        }))
    });
    Ok(Contents {
        point: plan::point(latest),
        bytes: parts.as_ref().map(|parts| parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes))),
        objects: wanted.len() as u64,
        stored_bytes: wanted.iter().fold(0, |sum: u64, snapshot| sum.saturating_add(snapshot.bytes)),
        parts,
        merged: wanted.len() > 1,
        doubts,
    })
}

/// A DBI as several snapshots have it.
#[derive(Default)]
struct Merged<'a> {
    /// Bytes in the newest of them.
    bytes: u64,
    /// A digest for each instance.
    digests: BTreeMap<&'a str, [u8; 32]>,
}

impl Merged<'_> {
    fn part(&self, name: &[u8]) -> Part {
        let mut hasher = blake3::Hasher::new();
        for (instance, digest) in &self.digests {
            hasher.update(&(instance.len() as u64).to_le_bytes()).update(instance.as_bytes()).update(digest);
        }
        Part { name: shown(name), rows: None, bytes: self.bytes, digest: Some(hasher.finalize().as_bytes().to_vec()) }
    }
}

/// The DBIs of several instances, the oldest snapshot first.
fn merged<'a>(snapshots: impl Iterator<Item = (&'a str, &'a [Section])>) -> Vec<Part> {
    let mut all: BTreeMap<&[u8], Merged<'_>> = BTreeMap::new();
    for (instance, sections) in snapshots {
        for section in sections {
            let dbi = all.entry(&section.name).or_default();
            dbi.bytes = section.pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.raw));
            dbi.digests.insert(instance, digest(section));
        }
    }
    all.into_iter().map(|(name, dbi)| dbi.part(name)).collect()
}

/// A digest of a DBI. Its pieces begin at the same keys wherever the data are the same, so their digests stand for its content.
fn digest(section: &Section) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for piece in &section.pieces {
        hasher.update(&piece.raw.to_le_bytes()).update(&piece.content);
    }
    hasher.finalize().into()
}
