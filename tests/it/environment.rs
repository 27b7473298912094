//! An application of an LMDB environment, for tests of environments beside other engines.

use std::path::Path;

use seawall_lmdb::{Env, EnvOptions, Flags};

/// The DBI that the application uses.
pub(crate) const DBI: &[u8] = b"d";

/// Opens the environment at `path` for as long as `act` runs.
pub(crate) fn with<T>(path: &Path, act: impl FnOnce(&Env) -> T) -> T {
    let options = EnvOptions { create: true, map_size: Some(64 << 20), ..EnvOptions::default() };
    act(&Env::open(path, &options).unwrap())
}

/// Commits one pair.
pub(crate) fn put(path: &Path, key: &str, value: &str) {
    with(path, |env| {
        let mut txn = env.write().unwrap();
        let dbi = txn.create(DBI, Flags::default()).unwrap();
        txn.put(dbi, key.as_bytes(), value.as_bytes()).unwrap();
        txn.commit().unwrap();
    });
}

/// The value of a key.
pub(crate) fn get(path: &Path, key: &str) -> Option<String> {
    with(path, |env| {
        let mut txn = env.read().unwrap();
        let dbi = txn.open(DBI).unwrap()?;
        txn.get(dbi, key.as_bytes()).unwrap().map(|value| String::from_utf8_lossy(value).into_owned())
    })
}
