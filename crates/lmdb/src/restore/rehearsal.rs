//! A proof: is an environment that was restored from snapshots sound, and does it hold what the snapshots say?

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall_core::Fault;
use seawall_vault::{ObjectKey, Vault};

use crate::Stamp;
use crate::environment::{Env, EnvOptions, ReadTxn};
use crate::error::{Error, shown, snapshot_problem};
use crate::merge::{Verdict, Version, decide};
use crate::peers::latest::Listed;
use crate::peers::transfer::{self, Part};
use crate::schema::header::Stored;
use crate::schema::{Schema, Tables, is_private};
use crate::snapshot::{Entry, Item, Limits, SnapshotReader};

/// Keys of several snapshots that are told apart in memory. Beyond that, keys that no snapshot has aren't searched for.
const MOST_KEYS: usize = 4 << 20;

/// The options with which a restored environment is looked at.
pub(crate) fn options(env: &EnvOptions) -> EnvOptions {
    // Each DBI of the application may have a shadow, and `max_dbs` makes room for that.
    EnvOptions { create: false, map_size: None, largest_map: None, ..env.clone() }
}

/// How many entries a walk passes before it looks whether it is to end.
const STRIDE: u64 = 4096;

/// Ends a walk on another thread when this is dropped.
#[derive(Default)]
pub(crate) struct EndOnDrop(Arc<AtomicBool>);

impl EndOnDrop {
    /// Becomes true when the walk is to end.
    pub(crate) fn ended(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lets liblmdb walk over every entry of every DBI, and compares how many there are with its own count. Blocks. A walk that is ended
/// before finds nothing.
pub(crate) fn walk(path: &Path, env: &EnvOptions, ended: &AtomicBool) -> Result<Vec<Fault>, Error> {
    let env = Env::open(path, &options(env))?;
    let mut txn = env.read()?;
    let mut faults = Vec::new();
    for name in txn.names()? {
        let Some(dbi) = txn.open(&name)? else { continue };
        let (mut cursor, mut entries) = (txn.cursor(dbi)?, 0_u64);
        while cursor.next()?.is_some() {
            entries += 1;
            if entries % STRIDE == 0 && ended.load(Ordering::Relaxed) {
                return Ok(faults);
            }
        }
        let counted = txn.stat(dbi)?.entries;
        if entries != counted {
            let cause = format!("a walk finds {entries} entries, and liblmdb counts {counted}");
            faults.push(Fault { code: "lmdb.different".to_owned(), object: format!("DBI {}", shown(&name)), cause });
        }
    }
    Ok(faults)
}

/// What the comparison with snapshots found.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) faults: Vec<Fault>,
    pub(crate) doubts: Vec<String>,
}

/// Compares a restored environment with the snapshots that it was made from, each of which is read once more. Every entry
/// of every snapshot must be there, or a newer version of its key; and the environment may hold no key that no snapshot
/// has.
pub(crate) async fn compare(
    vault: &Vault,
    snapshots: &[Listed],
    path: &Path,
    env: &EnvOptions,
    schema: &Schema,
) -> Result<Compared, Error> {
    let mut keys = Keys::new(snapshots.len());
    let mut compared = Compared::default();
    for snapshot in snapshots {
        let key = ObjectKey::new(&snapshot.key)?;
        let object = vault.object(&key);
        let (path, options, schema) = (path.to_owned(), options(env), schema.clone());
        let named = object.clone();
        let read = transfer::read(vault, &key, vec![Part::Whole], move |source| {
            let compared = Env::open(&path, &options).and_then(|env| against(&env, &schema, source, &named, &mut keys));
            (compared, keys)
        });
        let (different, seen) = read.await?;
        keys = seen;
        let different = match different {
            // The restore read it, and its instance replaced and deleted it since.
            Err(Error::Vault(error)) if error.is_not_found() => {
                keys.incomplete = Some("a snapshot was deleted before it could be compared");
                continue;
            }
            different => different?,
        };
        for (dbi, count) in different {
            let cause =
                format!("DBI {}: {count} of its entries are missing or older in what was restored", shown(&dbi));
            compared.faults.push(Fault { code: "lmdb.different".to_owned(), object: object.clone(), cause });
        }
    }
    let (path, options, schema) = (path.to_owned(), options(env), schema.clone());
    let extra = seawall_core::blocking(move || {
        let env = Env::open(&path, &options)?;
        let mut txn = env.read()?;
        keys.unknown(&schema, &mut txn)
    });
    match extra.await? {
        Err(why) => {
            compared.doubts.push(format!("{why}, so that keys that no snapshot has weren't searched for"));
        }
        Ok(extra) => compared.faults.extend(extra.into_iter().map(|(dbi, count)| Fault {
            code: "lmdb.different".to_owned(),
            object: format!("DBI {}", shown(&dbi)),
            cause: format!("{count} of the restored keys are in no snapshot as they were restored"),
        })),
    }
    Ok(compared)
}

/// How many entries of each DBI of a snapshot the environment lacks. Blocks.
fn against(
    env: &Env,
    schema: &Schema,
    source: impl Read,
    object: &str,
    keys: &mut Keys,
) -> Result<BTreeMap<Vec<u8>, u64>, Error> {
    let mut reader = SnapshotReader::new(source, Limits::default());
    let mut txn = env.read()?;
    let (mut different, mut table) = (BTreeMap::new(), None);
    while let Some(item) = reader.next().map_err(|problem| snapshot_problem(object, problem))? {
        match item {
            Item::Database(_, database) if is_private(&database.name) => table = None,
            Item::Database(_, database) => {
                let tables = Tables::open(schema, &mut txn, &database.name)?;
                if tables.main.is_none() {
                    *different.entry(database.name.clone()).or_insert(0) += 1;
                }
                table = tables.versions;
            }
            Item::Entry(database, _) if is_private(&database.name) => {}
            Item::Entry(database, entry) => {
                let found = table.map(|dbi| txn.get(dbi, entry.key)).transpose()?.flatten();
                let stored = found.map(Stored::parse).transpose();
                let stored = stored.map_err(|what| Error::schema(env.path(), &database.name, what))?;
                match judge(stored.as_ref(), &entry) {
                    Judged::Equal => keys.add(&database.name, entry.key),
                    Judged::Newer => {}
                    Judged::Different => *different.entry(database.name.clone()).or_insert(0) += 1,
                }
            }
        }
    }
    Ok(different)
}

/// How an entry of a snapshot compares with what was restored.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// It was restored.
    Equal,
    /// Another version of its key won, or it is a deletion of a key that is unknown.
    Newer,
    /// It is missing, or should have won.
    Different,
}

fn judge(stored: Option<&Stored<'_>>, entry: &Entry<'_>) -> Judged {
    let Some(stored) = stored else {
        return if entry.deleted { Judged::Newer } else { Judged::Different };
    };
    let old = Version { stamp: stored.stamp, value: stored.value, deleted: stored.deleted };
    let new = Version { stamp: entry.stamp, value: entry.value, deleted: entry.deleted };
    if old.stamp == new.stamp && old.deleted == new.deleted && (new.deleted || old.value == new.value) {
        return Judged::Equal;
    }
    match decide(Some(&old), &new, Stamp(0)) {
        Verdict::Keep => Judged::Newer,
        Verdict::Take => Judged::Different,
    }
}

/// Numbers of restored keys that no snapshot has, by DBI.
type Unknown = Vec<(Vec<u8>, u64)>;

/// The restored keys that a snapshot has exactly so, counted by DBI.
struct Keys {
    counts: BTreeMap<Vec<u8>, u64>,
    /// Hashes of the keys, if several snapshots may have the same key; `None` with one snapshot.
    seen: Option<HashSet<u64>>,
    hashing: RandomState,
    /// Why not every key of the snapshots is known.
    incomplete: Option<&'static str>,
}

impl Keys {
    fn new(snapshots: usize) -> Self {
        let seen = (snapshots > 1).then(HashSet::new);
        Self { counts: BTreeMap::new(), seen, hashing: RandomState::new(), incomplete: None }
    }

    fn add(&mut self, dbi: &[u8], key: &[u8]) {
        if let Some(seen) = &mut self.seen {
            if seen.len() >= MOST_KEYS {
                self.incomplete = Some("the snapshots have too many keys for memory");
                return;
            }
            if !seen.insert(self.hashing.hash_one((dbi, key))) {
                return;
            }
        }
        match self.counts.get_mut(dbi) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(dbi.to_vec(), 1)),
        }
    }

    /// How many restored keys of each DBI no snapshot has as they were restored, or why that can't be told.
    fn unknown(&self, schema: &Schema, txn: &mut ReadTxn<'_>) -> Result<Result<Unknown, &'static str>, Error> {
        if let Some(why) = self.incomplete {
            return Ok(Err(why));
        }
        let mut unknown = Vec::new();
        for name in schema.names(txn.names()?) {
            let Some(dbi) = Tables::open(schema, txn, &name)?.versions else { continue };
            let known = self.counts.get(&name).copied().unwrap_or_default();
            let extra = txn.stat(dbi)?.entries.saturating_sub(known);
            if extra > 0 {
                unknown.push((name, extra));
            }
        }
        Ok(Ok(unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_an_entry_compares() {
        let stored =
            |stamp, value: &'static [u8], deleted| Stored { stamp: Stamp(stamp), transaction: 1, deleted, value };
        let entry = |stamp, value: &'static [u8], deleted| Entry { key: b"k", value, stamp: Stamp(stamp), deleted };
        for (old, new, expected) in [
            (Some(stored(5, b"v", false)), entry(5, b"v", false), Judged::Equal),
            (Some(stored(5, b"v", false)), entry(5, b"w", false), Judged::Newer),
            (Some(stored(5, b"w", false)), entry(5, b"v", false), Judged::Different),
            (Some(stored(6, b"w", false)), entry(5, b"v", false), Judged::Newer),
            (Some(stored(4, b"v", false)), entry(5, b"v", false), Judged::Different),
            (Some(stored(5, b"", true)), entry(5, b"", true), Judged::Equal),
            (Some(stored(5, b"v", false)), entry(6, b"", true), Judged::Different),
            (None, entry(5, b"v", false), Judged::Different),
            (None, entry(5, b"", true), Judged::Newer),
        ] {
            assert_eq!(judge(old.as_ref(), &new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_key_of_two_snapshots_counts_once() {
        for (snapshots, expected) in [(1, 3), (2, 2)] {
            let mut keys = Keys::new(snapshots);
            for key in [b"a", b"b", b"a"] {
                keys.add(b"d", key);
            }
            assert_eq!(keys.counts.get(&b"d"[..]), Some(&expected), "{snapshots}");
        }
    }
}
