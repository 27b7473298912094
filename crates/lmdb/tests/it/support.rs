//! Environments to test with, and what is in them.

use std::collections::BTreeMap;
use std::path::Path;

use seawall_lmdb::{Author, Env, EnvOptions, Flags, Local, Schema, Settings, Stamp};

/// Flags and pairs of a DBI.
pub(crate) type Content = (u16, Vec<(Vec<u8>, Vec<u8>)>);

/// Everything in an environment.
pub(crate) type Dump = BTreeMap<Vec<u8>, Content>;

/// A moment after every golden file was made.
pub(crate) const NOW: Stamp = Stamp(1_800_000_000_000_000_000);

pub(crate) fn schema(native: bool, dupsort_hack: bool) -> Schema {
    Schema { native, dupsort_hack, padding: false, create_flags: BTreeMap::new() }
}

pub(crate) fn options() -> EnvOptions {
    EnvOptions { create: true, map_size: Some(64 << 20), ..EnvOptions::default() }
}

pub(crate) fn open(path: &Path, schema: &Schema) -> Local {
    Local::open(path, &options(), Settings::new(schema.clone())).unwrap()
}

pub(crate) fn author(instance: &str) -> Author {
    Author { instance: instance.to_owned(), hostname: "vm".to_owned(), database: "main".to_owned() }
}

/// Everything in an environment, in its own order.
pub(crate) fn dump(env: &Env) -> Dump {
    let mut txn = env.read().unwrap();
    let mut all = Dump::new();
    for name in txn.names().unwrap() {
        let dbi = txn.open(&name).unwrap().unwrap();
        let mut cursor = txn.cursor(dbi).unwrap();
        let (mut pairs, mut next) = (Vec::new(), cursor.first().unwrap());
        while let Some((key, value)) = next {
            pairs.push((key.to_vec(), value.to_vec()));
            next = cursor.next().unwrap();
        }
        all.insert(name, (dbi.flags().bits(), pairs));
    }
    all
}

/// Sets a value as an application would.
pub(crate) fn put(env: &Env, dbi: &str, flags: Flags, key: &[u8], value: &[u8]) {
    let mut txn = env.write().unwrap();
    let dbi = txn.create(dbi.as_bytes(), flags).unwrap();
    txn.put(dbi, key, value).unwrap();
    txn.commit().unwrap();
}

/// Removes a key as an application would.
pub(crate) fn delete(env: &Env, dbi: &str, key: &[u8]) {
    let mut txn = env.write().unwrap();
    let dbi = txn.open(dbi.as_bytes()).unwrap().unwrap();
    assert!(txn.delete(dbi, key).unwrap(), "there is no such key");
    txn.commit().unwrap();
}

/// The snapshot that a [`Local`] takes now, as bytes.
pub(crate) fn snapshot(local: &mut Local, instance: &str, now: Stamp) -> Vec<u8> {
    use std::os::unix::fs::FileExt as _;
    let dumped = local.snapshot(&author(instance), &|| now).unwrap();
    let mut bytes = Vec::new();
    for stretch in &dumped.stretches {
        let start = bytes.len();
        bytes.resize(start + usize::try_from(stretch.length).unwrap(), 0);
        dumped.file.read_exact_at(&mut bytes[start..], stretch.at).unwrap();
    }
    assert_eq!(bytes.len() as u64, dumped.bytes);
    bytes
}

/// Compares what two environments hold, and shows only what differs.
pub(crate) fn assert_same(ours: &Dump, wanted: &Dump, what: &str) {
    let lines = |dump: &Dump| -> Vec<String> {
        let pair = |name: &Vec<u8>, (key, value): &(Vec<u8>, Vec<u8>)| {
            format!("{} {} = {}", name.escape_ascii(), key.escape_ascii(), value.escape_ascii())
        };
        let dbi = |(name, (flags, pairs)): (&Vec<u8>, &Content)| {
            let head = format!("{} flags {flags}", name.escape_ascii());
            std::iter::once(head).chain(pairs.iter().map(|p| pair(name, p))).collect::<Vec<_>>()
        };
        dump.iter().flat_map(dbi).collect()
    };
    let (left, right) = (lines(ours), lines(wanted));
    let only = |a: &[String], b: &[String]| a.iter().filter(|line| !b.contains(line)).cloned().collect::<Vec<_>>();
    let (more, less) = (only(&left, &right), only(&right, &left));
    assert!(more.is_empty() && less.is_empty(), "{what}\nours only: {more:#?}\nmissing: {less:#?}");
    assert_eq!(left, right, "{what}: the order");
}
