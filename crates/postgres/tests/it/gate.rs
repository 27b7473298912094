//! A store that takes nothing while its gate is shut, so that a backup stands still in the middle.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Abilities, Body, Error, Layout, Meta, Multipart, ObjectKey, Page, Prefix, PutOptions, Store, Tag};
use tokio::sync::watch;

#[derive(Debug, Clone)]
pub(crate) struct Gate {
    inner: MemoryStore,
    open: watch::Sender<bool>,
}

impl Gate {
    /// Before a store, and open.
    pub(crate) fn before(inner: &MemoryStore) -> Self {
        Self { inner: inner.clone(), open: watch::Sender::new(true) }
    }

    pub(crate) fn set(&self, open: bool) {
        self.open.send_replace(open);
    }

    async fn pass(&self) {
        self.open.subscribe().wait_for(|open| *open).await.expect("the gate outlives who waits");
    }
}

#[async_trait]
impl Store for Gate {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn layout(&self) -> Layout {
        self.inner.layout()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        self.pass().await;
        self.inner.put(key, body, options).await
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        self.pass().await;
        self.inner.begin(key, options, in_flight).await
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.inner.head(key).await
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        self.inner.list(prefix, start_after, limit).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        self.inner.delete(keys).await
    }
}
