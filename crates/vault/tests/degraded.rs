//! Stores that accept every write: the probe notices them, and then each creation looks first.

use std::sync::Arc;

use bytes::Bytes;
use seawall_testing::{Forwarding, Hooks};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Condition, Created, Error, ObjectKey, Policy, PutOptions, Vault};

/// A server that doesn't know conditions and says nothing about it.
#[derive(Debug)]
struct Careless;

impl Hooks for Careless {
    fn options(&self, options: &PutOptions) -> PutOptions {
        PutOptions { condition: Condition::Always, ..options.clone() }
    }
}

#[tokio::test]
async fn creation_looks_first_where_the_store_takes_everything() {
    let policy = Policy { part_size: 100, seed: 5, ..Policy::default() };
    let vault = Vault::new(Arc::new(Forwarding { inner: MemoryStore::new(), hooks: Careless }), policy);
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
