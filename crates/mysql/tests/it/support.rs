//! Backups of real servers, and what is in their sets.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use seawall_archive::{Content, SetReader};
use seawall_core::{Failure, NoProgress};
use seawall_mysql::{DumpOptions, Dumped, ItemDetail, Limits, Schema, World, dump};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Environment, Policy, Vault};
use serde::de::DeserializeOwned;

use crate::server::target;

pub(crate) fn vault(store: &MemoryStore) -> Vault {
    Vault::new(Arc::new(store.clone()), Policy { seed: 1, ..Policy::default() })
}

/// Little memory, so that little content makes many frames, and three connections.
pub(crate) fn options() -> DumpOptions {
    let limits = Limits { jobs: 3, memory: 32 << 20, ..Limits::default() };
    DumpOptions { limits, lock_wait: Duration::from_secs(2), ..DumpOptions::default() }
}

pub(crate) async fn back_up(url: &str, store: &MemoryStore) -> Result<Dumped, Failure> {
    back_up_with(url, store, &options()).await
}

pub(crate) async fn back_up_with(url: &str, store: &MemoryStore, options: &DumpOptions) -> Result<Dumped, Failure> {
    let world = World::real(Environment::default());
    Ok(dump(&target(url), &vault(store), options, &world, Arc::new(NoProgress)).await?)
}

/// A set that was made.
pub(crate) struct Set {
    pub(crate) reader: Arc<SetReader>,
}

impl Set {
    pub(crate) async fn of(store: &MemoryStore, dumped: &Dumped) -> Self {
        let reader = SetReader::open(vault(store), dumped.manifest.clone()).await.expect("opened");
        Self { reader: Arc::new(reader) }
    }

    /// The manifest's detail.
    pub(crate) fn detail<T: DeserializeOwned>(&self) -> T {
        serde_json::from_value(self.reader.manifest().detail.clone()).expect("a detail")
    }

    fn number(&self, database: Option<&str>, name: &str) -> u32 {
        let items = &self.reader.index().items;
        let is_it = |item: &seawall_archive::Item| item.name == name && item.database.as_deref() == database;
        let place = items.iter().position(is_it);
        let names: Vec<_> = items.iter().map(|item| (&item.database, &item.name)).collect();
        u32::try_from(place.unwrap_or_else(|| panic!("{name:?} isn't among {names:?}"))).expect("few items")
    }

    pub(crate) async fn document<T: DeserializeOwned>(&self, database: Option<&str>, name: &str) -> T {
        let bytes = self.reader.file(self.number(database, name), 64 << 20).await.expect("a file");
        serde_json::from_slice(&bytes).expect("a document")
    }

    pub(crate) async fn schema(&self, database: Option<&str>) -> Schema {
        self.document(database, "schema.json").await
    }

    /// The rows of a table, sorted, and what is said of them.
    pub(crate) async fn rows(&self, database: Option<&str>, table: &str) -> (Vec<Vec<u8>>, ItemDetail) {
        let number = self.number(database, table);
        let item = &self.reader.index().items[number as usize];
        assert_eq!(item.content, Content::Lines);
        let frames: Vec<Vec<u8>> = self.reader.content(number).try_collect().await.expect("content");
        let bytes = frames.concat();
        let mut rows: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        assert!(rows.iter().all(|row| row.ends_with(b"\n")), "a row of {table} is cut");
        rows.sort();
        (rows, serde_json::from_value(item.detail.clone()).expect("a detail"))
    }

    /// The rows as text, without the ends of lines.
    pub(crate) async fn lines(&self, table: &str) -> Vec<String> {
        let (rows, _) = self.rows(None, table).await;
        rows.iter().map(|row| String::from_utf8_lossy(row.trim_ascii_end()).into_owned()).collect()
    }
}
