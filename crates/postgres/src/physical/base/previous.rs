//! The base before: what it has of a file, so that only blocks that changed are sent.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use seawall_archive::SetId;
use seawall_vault::Vault;

use super::index::{Extent, order};
use super::manifest::{BaseManifest, Part};
use super::store;
use crate::Error;

/// The stretches of each file, by its name.
type Extents = HashMap<String, Vec<Arc<Extent>>>;

/// The base before, of which one part of the index is in memory.
pub(crate) struct Previous {
    vault: Vault,
    system: u64,
    pub(crate) manifest: Arc<BaseManifest>,
    /// Packs that aren't there, by the numbers that its index has: (base, pack).
    pub(crate) gone: BTreeSet<(u32, u32)>,
    read: Option<(usize, Extents)>,
}

impl Previous {
    /// The newest base of a cluster that can be read; `None` if there is none. Packs that aren't there are noted.
    pub(crate) async fn find(vault: &Vault, system: u64) -> Result<Option<Self>, Error> {
        let bases = store::list(vault).await?;
        for base in bases.into_iter().rev().filter(|base| base.system == system) {
            let manifest = match store::manifest(vault, base).await {
                Ok(manifest) => manifest,
                Err(error) => {
                    tracing::warn!("the base {} can't be gone on from: {error}", base.id);
                    continue;
                }
            };
            let missing: BTreeSet<(SetId, u32)> =
                store::missing(vault, system, store::packs(&manifest)).await?.into_iter().collect();
            if !missing.is_empty() {
                tracing::warn!("the base {} lacks {} packs: what they held is sent again", base.id, missing.len());
            }
            let others = (1..).zip(&manifest.uses).map(|(nth, uses)| (nth, uses.base));
            let numbered = others.chain([(0, manifest.id)]);
            let gone = numbered
                .flat_map(|(nth, id)| {
                    missing.iter().filter(move |(of, _)| *of == id).map(move |(_, pack)| (nth, *pack))
                })
                .collect();
            let manifest = Arc::new(manifest);
            return Ok(Some(Self { vault: vault.clone(), system, manifest, gone, read: None }));
        }
        Ok(None)
    }

    /// What it has of a file from `offset` on. A part of the index that can't be read counts as if it had nothing.
    pub(crate) async fn extent(&mut self, path: &str, offset: u64) -> Option<Arc<Extent>> {
        let nth = part_of(&self.manifest.index, path, offset)?;
        if self.read.as_ref().is_none_or(|(read, _)| *read != nth) {
            let extents = match store::part(&self.vault, self.system, &self.manifest, nth).await {
                Ok(extents) => extents,
                Err(error) => {
                    tracing::warn!("a part of the index of the base before can't be read: {error}");
                    Vec::new()
                }
            };
            let mut by_path: HashMap<String, Vec<Arc<Extent>>> = HashMap::new();
            for extent in extents {
                by_path.entry(extent.path.clone()).or_default().push(Arc::new(extent));
            }
            self.read = Some((nth, by_path));
        }
        let (_, by_path) = self.read.as_ref()?;
        by_path.get(path)?.iter().find(|extent| extent.offset == offset).cloned()
    }
}

/// The part that has an extent, if any has. The last part is what was read last, and isn't in the order.
fn part_of(parts: &[Part], path: &str, offset: u64) -> Option<usize> {
    let (_, ordered) = parts.split_last()?;
    let behind = ordered.partition_point(|part| order((&part.first, part.offset), (path, offset)) != Ordering::Greater);
    behind.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use seawall_archive::Digest;

    use super::super::manifest::Sealed;
    use super::*;

    #[test]
    fn a_file_is_in_one_part() {
        let part = |first: &str, offset| Part {
            first: first.into(),
            offset,
            raw: 1,
            sealed: Sealed { bytes: 1, blake3: Digest::of(b"") },
        };
        let parts =
            [part("PG_VERSION", 0), part("base/1/100", 0), part("base/5/7", 1 << 30), part("global/pg_control", 0)];
        for (path, offset, expected) in [
            ("PG_VERSION", 0, Some(0)),
            ("zzz", 0, Some(0)),
            ("base/1/0", 0, Some(0)),
            ("base/1/100", 0, Some(1)),
            ("base/1/99", 0, Some(1)),
            ("base/5/7", 0, Some(1)),
            ("base/5/7", 1 << 30, Some(2)),
            ("pg_xact/0000", 0, Some(2)),
            ("A", 0, None),
        ] {
            assert_eq!(part_of(&parts, path, offset), expected, "{path} {offset}");
        }
        assert_eq!(part_of(&[], "x", 0), None);
    }
}
