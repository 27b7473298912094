//! Stores that take every write: noticed by the probe, then looked at before each creation.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{
    Abilities, Body, Condition, Created, Error, Layout, Meta, Multipart, ObjectKey, Page, Policy, Prefix, PutOptions,
    Store, Tag, Vault,
};

/// A server that doesn't know conditions and says nothing about it.
#[derive(Debug)]
struct Careless(MemoryStore);

fn unconditional(options: &PutOptions) -> PutOptions {
    PutOptions { condition: Condition::Always, ..options.clone() }
}

#[async_trait]
impl Store for Careless {
    fn url(&self) -> String {
        self.0.url()
    }
    fn layout(&self) -> Layout {
        self.0.layout()
    }
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }
    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        self.0.put(key, body, &unconditional(options)).await
    }
    async fn begin(&self, key: &ObjectKey, options: &PutOptions, n: usize) -> Result<Box<dyn Multipart>, Error> {
        self.0.begin(key, &unconditional(options), n).await
    }
    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.0.get(key, range).await
    }
    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.0.head(key).await
    }
    async fn list(&self, prefix: &Prefix, after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        self.0.list(prefix, after, limit).await
    }
    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        self.0.delete(keys).await
    }
}

#[tokio::test]
async fn creation_looks_first_where_the_store_takes_everything() {
    let policy = Policy { part_size: 100, seed: 5, ..Policy::default() };
    let vault = Vault::new(Arc::new(Careless(MemoryStore::new())), policy);
    let capabilities = vault.probe().await.expect("probe");
    assert!(capabilities.create && !capabilities.rejects_create && !capabilities.exclusive_create());
    assert!(capabilities.update && !capabilities.exclusive_update());
    let key = ObjectKey::new("x").expect("a name");
    let create = |body: &'static [u8]| vault.create(&key, Bytes::from_static(body), None);
    assert_eq!(create(b"one").await, Ok(Created::Fresh));
    assert_eq!(create(b"one").await, Ok(Created::Adopted));
    assert!(matches!(create(b"two").await, Err(Error::AlreadyExists { .. })));
    let mut upload = vault.upload(&key, None);
    let written = upload.write(Bytes::from(vec![1; 500])).await;
    assert!(matches!(written, Err(Error::AlreadyExists { .. })), "{written:?}");
}
