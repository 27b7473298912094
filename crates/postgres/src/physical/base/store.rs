//! Reading what bases have in a vault: manifests, parts of an index, and which packs are there.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use futures::TryStreamExt as _;
use seawall_archive::{Codec, Decoder, Digest, SetId, read_document};
use seawall_core::Moment;
use seawall_vault::{Fault, ObjectKey, Vault};

use super::index::{self, Extent, MOST_OF_PART};
use super::layout::{self, InBases, in_bases};
use super::manifest::{BaseManifest, Part, Sealed};
use crate::Error;

/// The largest manifest that is read: it has some 100 bytes for each pack that a base needs.
pub(crate) const MOST_OF_MANIFEST: u64 = 64 << 20;

/// A base that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name; they sort by time.
    pub id: SetId,
    /// The cluster.
    pub system: u64,
}

/// What a vault has of one base.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    /// Whether its manifest is there.
    pub(crate) manifest: bool,
    /// What the listing says of its manifest (`Entry::fingerprint`).
    pub(crate) mark: u128,
    /// When retention gave it up, by the store's clock.
    pub(crate) retired: Option<Moment>,
    /// Its packs and the parts of its index, with their sizes.
    pub(crate) content: Vec<(ObjectKey, u64)>,
    /// When the store last wrote one of its objects.
    pub(crate) written: Moment,
}

/// Which packs and parts of indexes a vault has: a few bytes for each, for there may be a million.
#[derive(Debug, Clone, Default)]
pub(crate) struct Present(HashSet<u64>);

impl Present {
    /// Whether an object is there with this many bytes.
    pub(crate) fn has(&self, mark: u64) -> bool {
        self.0.contains(&mark)
    }
}

/// A hash of an object's key and size.
fn mark(key: &ObjectKey, bytes: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key.as_str(), bytes).hash(&mut hasher);
    hasher.finish()
}

/// What stands for each object that a base needs beside its manifest.
pub(crate) fn marks(system: u64, manifest: &BaseManifest) -> Result<Vec<u64>, Error> {
    Ok(needed(system, manifest)?.iter().map(|(key, bytes)| mark(key, *bytes)).collect())
}

/// Everything that a vault has of bases, oldest first.
///
/// # Errors
/// When the vault can't be listed.
pub(crate) async fn survey(vault: &Vault) -> Result<BTreeMap<Listed, Objects>, Error> {
    surveyed(vault, &mut |objects, key, bytes| objects.content.push((key, bytes))).await
}

/// The bases of a vault that count, oldest first, each with what the listing says of its manifest: one that was written over has
/// another number. And which packs and parts are there, by the same listing.
///
/// # Errors
/// When the vault can't be listed.
pub(crate) async fn look(vault: &Vault) -> Result<(Vec<(Listed, u128)>, Present), Error> {
    let mut present = HashSet::new();
    let all = surveyed(vault, &mut |_, key, bytes| {
        present.insert(mark(&key, bytes));
    })
    .await?
    .into_iter();
    let counts = all.filter(|(_, objects)| objects.manifest && objects.retired.is_none());
    Ok((counts.map(|(base, objects)| (base, objects.mark)).collect(), Present(present)))
}

/// Everything that a vault has of bases, oldest first. `see` gets each pack and part with its bytes.
async fn surveyed(
    vault: &Vault,
    see: &mut (dyn FnMut(&mut Objects, ObjectKey, u64) + Send),
) -> Result<BTreeMap<Listed, Objects>, Error> {
    let root = layout::root()?;
    let mut entries = Box::pin(vault.entries(&root, None));
    let mut found: BTreeMap<Listed, Objects> = BTreeMap::new();
    while let Some(entry) = entries.try_next().await.map_err(seawall_archive::Error::from)? {
        let Some(("", system, object)) = in_bases(entry.key.as_str()) else {
            // The log of a cluster sorts behind its bases, and may have a hundred thousand objects.
            if let Some(end) = layout::end_behind_bases(entry.key.as_str())? {
                entries = Box::pin(vault.entries(&root, Some(&end)));
            }
            continue;
        };
        let (InBases::Manifest(id) | InBases::Content(id) | InBases::Retired(id)) = object;
        let objects = found.entry(Listed { id, system }).or_default();
        objects.written = objects.written.max(entry.written);
        match object {
            InBases::Manifest(_) => (objects.manifest, objects.mark) = (true, entry.fingerprint()),
            InBases::Retired(_) => objects.retired = Some(entry.written),
            InBases::Content(_) => see(objects, entry.key, entry.size),
        }
    }
    Ok(found)
}

/// The bases of a vault that count, oldest first: each has a manifest, and retention didn't give it up.
///
/// # Errors
/// When the vault can't be listed.
pub async fn list(vault: &Vault) -> Result<Vec<Listed>, Error> {
    Ok(look(vault).await?.0.into_iter().map(|(base, _)| base).collect())
}

/// Reads the manifest of a base.
///
/// # Errors
/// When it isn't there, or isn't what it must be.
pub async fn manifest(vault: &Vault, base: Listed) -> Result<BaseManifest, Error> {
    let key = layout::manifest(base.system, base.id)?;
    let bytes = vault.read(&key, None, MOST_OF_MANIFEST).await.map_err(seawall_archive::Error::from)?;
    let object = vault.object(&key);
    let manifest: BaseManifest = read_document(&bytes, &object)?;
    if manifest.id != base.id || manifest.system != base.system.to_string() {
        return Err(corrupt(object, "it is the manifest of another base"));
    }
    Ok(manifest)
}

/// Reads an object of a base whose size and digest are known.
pub(crate) async fn sealed(vault: &Vault, key: &ObjectKey, sealed: Sealed) -> Result<Bytes, Error> {
    let bytes = vault.read(key, None, sealed.bytes).await.map_err(seawall_archive::Error::from)?;
    if bytes.len() as u64 != sealed.bytes || Digest::of(&bytes) != sealed.blake3 {
        return Err(corrupt(vault.object(key), "its bytes differ from what the base's manifest names"));
    }
    Ok(bytes)
}

/// Reads a part of a base's index.
pub(crate) async fn part(
    vault: &Vault,
    system: u64,
    manifest: &BaseManifest,
    nth: usize,
) -> Result<Vec<Extent>, Error> {
    let number = u32::try_from(nth).unwrap_or(u32::MAX);
    let key = layout::index(system, manifest.id, number)?;
    let object = vault.object(&key);
    let Some(part) = manifest.index.get(nth) else { return Err(corrupt(object, "the manifest names no such part")) };
    let raw = usize::try_from(part.raw).ok().filter(|raw| *raw <= MOST_OF_PART);
    let Some(raw) = raw else { return Err(corrupt(object, "the manifest names a size that none can have")) };
    let bytes = sealed(vault, &key, part.sealed).await?;
    let others = manifest.others();
    seawall_core::blocking(move || {
        let defect = |error: std::io::Error| Error::Internal(format!("zstd: {error}"));
        let mut content = Vec::new();
        let mut decoder = Decoder::new(Codec::default()).map_err(defect)?;
        decoder.decode(&bytes, raw, &mut content).map_err(|cause| corrupt(object.clone(), cause))?;
        index::read(&content, others).map_err(|cause| corrupt(object, cause))
    })
    .await
}

/// The wanted packs that the vault lacks, or has with another size.
pub(crate) async fn missing(
    vault: &Vault,
    system: u64,
    mut wanted: BTreeMap<(SetId, u32), u64>,
) -> Result<Vec<(SetId, u32)>, Error> {
    let bases: BTreeSet<SetId> = wanted.keys().map(|(id, _)| *id).collect();
    for id in bases {
        let mut entries = Box::pin(vault.entries(&layout::base(system, id)?, None));
        while let Some(entry) = entries.try_next().await.map_err(seawall_archive::Error::from)? {
            let number = entry.key.file_name().strip_suffix(".zst").and_then(|number| number.parse().ok());
            if let Some(number) = number
                && wanted.get(&(id, number)) == Some(&entry.size)
            {
                wanted.remove(&(id, number));
            }
        }
    }
    Ok(wanted.into_keys().collect())
}

/// The objects that a base needs beside its manifest, with their sizes: packs, its own and those of earlier bases, and its index.
pub(crate) fn needed(system: u64, manifest: &BaseManifest) -> Result<BTreeMap<ObjectKey, u64>, Error> {
    let packs = packs(manifest).into_iter().map(|((id, pack), bytes)| Ok((layout::pack(system, id, pack)?, bytes)));
    let part = |(number, part): (u32, &Part)| Ok((layout::index(system, manifest.id, number)?, part.sealed.bytes));
    packs.chain((0..).zip(&manifest.index).map(part)).collect()
}

/// An object that a base needs, and that the vault lacks or has with another size.
pub(crate) async fn lacking(vault: &Vault, system: u64, manifest: &BaseManifest) -> Result<Option<ObjectKey>, Error> {
    let mut needed = needed(system, manifest)?;
    let bases: BTreeSet<SetId> = manifest.uses.iter().map(|uses| uses.base).chain([manifest.id]).collect();
    for id in bases {
        let mut entries = Box::pin(vault.entries(&layout::base(system, id)?, None));
        while let Some(entry) = entries.try_next().await.map_err(seawall_archive::Error::from)? {
            if needed.get(&entry.key) == Some(&entry.size) {
                needed.remove(&entry.key);
            }
        }
    }
    // The listing of a store may be late.
    for (key, bytes) in needed {
        let found = match vault.head(&key).await {
            // No sealed object has this size: it was cut, or something else is in its place.
            Err(seawall_vault::Error::Sealing { fault: Fault::Cut | Fault::Plaintext, .. }) => None,
            found => found.map_err(seawall_archive::Error::from)?,
        };
        if found.is_none_or(|found| found.size != bytes) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// The same. Asks the vault only if an earlier listing (`present`) lacks one of the `marks`.
pub(crate) async fn lacks(
    vault: &Vault,
    base: Listed,
    marks: &[u64],
    present: &Present,
) -> Result<Option<ObjectKey>, Error> {
    if marks.iter().all(|mark| present.has(*mark)) {
        return Ok(None);
    }
    lacking(vault, base.system, &manifest(vault, base).await?).await
}

/// Every pack that a base needs, with its size.
pub(crate) fn packs(manifest: &BaseManifest) -> BTreeMap<(SetId, u32), u64> {
    let own = (0..).zip(&manifest.packs).map(|(number, sealed)| ((manifest.id, number), sealed.bytes));
    own.chain(others(manifest)).collect()
}

/// The packs of earlier bases that a base needs.
pub(crate) fn others(manifest: &BaseManifest) -> impl Iterator<Item = ((SetId, u32), u64)> {
    manifest.uses.iter().flat_map(|uses| uses.packs.iter().map(|(pack, sealed)| ((uses.base, *pack), sealed.bytes)))
}

/// An object that isn't what it must be.
pub(crate) fn corrupt(object: impl Into<String>, cause: impl Into<String>) -> Error {
    seawall_archive::Error::Corrupt { object: object.into(), cause: cause.into() }.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use std::path::Path;

    use seawall_core::SystemClock;
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::{Access, HostKeys, Identities, NoPrompt, Policy, Prompt, Recipients, SealedStore, Sealing};

    use super::super::manifest::tests::sample;
    use super::*;

    #[tokio::test]
    async fn the_log_is_passed_over_and_no_base_is() {
        let store = MemoryStore::new();
        let vault = Vault::new(Arc::new(store), Policy::default());
        let put = async |key: String| {
            let key = ObjectKey::new(key).expect("a key");
            vault.put(&key, Bytes::from_static(b"x"), None).await.expect("written");
        };
        let id = |second: i64| SetId::new(Moment::from_millis(second * 1000), 1);
        let mut expected = Vec::new();
        // In the order of keys "70" is between "7" and "8".
        for system in [7, 70, 700, 8] {
            for second in 1..=3 {
                put(format!("physical/{system}/bases/{}/manifest.json", id(second))).await;
                expected.push(Listed { id: id(second), system });
            }
            put(format!("physical/{system}/cluster.json")).await;
            for nth in 0..1500 {
                put(format!("physical/{system}/log/00000001/{nth:024}.zst")).await;
            }
        }
        let before = vault.counts().list;
        let listed = list(&vault).await.expect("listed");
        expected.sort();
        assert_eq!(listed, expected);
        let lists = vault.counts().list - before;
        assert!(lists <= 8, "{lists}");
    }

    /// A store that fills its disk leaves empty and cut objects, whose size no sealed object can have.
    #[tokio::test]
    async fn a_cut_object_of_an_encrypted_vault_is_missing() {
        let store = MemoryStore::new();
        let (secret, public) = Identities::generate();
        let prompt: Arc<dyn Prompt> = Arc::new(NoPrompt);
        let owner = Identities::parse(&secret, "the key", &prompt).expect("an identity");
        let recipients = Recipients::read([&public], Path::new("")).expect("a recipient");
        let sealing = Sealing::new(Some(recipients), owner, HostKeys::new(None, Arc::new(SystemClock)));
        let sealed = SealedStore::new(Arc::new(store.clone()), Access::Sealed(Arc::new(sealing)));
        let vault = Vault::new(Arc::new(sealed), Policy::default());
        let manifest = sample(100, 0x128, 0x200);
        let needed = needed(7, &manifest).expect("keys");
        for (key, bytes) in &needed {
            let content = vec![0; usize::try_from(*bytes).expect("small")];
            vault.put(key, content.into(), None).await.expect("stored");
        }
        assert_eq!(lacking(&vault, 7, &manifest).await.expect("looked"), None);
        let raw = Vault::new(Arc::new(store), Policy::default());
        let key = needed.keys().next().expect("one");
        for bytes in [0, 5] {
            raw.put(key, vec![b'x'; bytes].into(), None).await.expect("stored");
            assert_eq!(lacking(&vault, 7, &manifest).await.expect("looked").as_ref(), Some(key), "{bytes}");
        }
    }
}
