//! A place that may not be there yet: it is opened at its first use, and again at the next one if that failed.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seawall_core::Moment;
use tokio::sync::OnceCell;

use crate::vault::open_store;
use crate::{
    Abilities, Body, Environment, Error, Lock, Meta, Multipart, ObjectKey, Page, Policy, Prefix, Protection,
    PutOptions, Scheme, Store, Tag, VaultUrl,
};

/// A store that is opened when it is used.
#[derive(Debug)]
pub struct LateStore {
    url: VaultUrl,
    environment: Environment,
    policy: Policy,
    store: OnceCell<Arc<dyn Store>>,
}

impl LateStore {
    /// The store of a URL. Makes no request.
    pub fn new(url: VaultUrl, environment: Environment, policy: Policy) -> Self {
        Self { url, environment, policy, store: OnceCell::new() }
    }

    /// Opens the place now if that is possible. If not, it is opened later.
    pub async fn open(url: &VaultUrl, environment: &Environment, policy: &Policy) -> Arc<dyn Store> {
        let late = Self::new(url.clone(), environment.clone(), policy.clone());
        match tokio::time::timeout(policy.attempt / 3, late.store()).await {
            Ok(Ok(store)) => store.clone(),
            _ => Arc::new(late),
        }
    }

    async fn store(&self) -> Result<&Arc<dyn Store>, Error> {
        let counters = Arc::default();
        self.store.get_or_try_init(|| open_store(&self.url, &self.environment, &self.policy, &counters)).await
    }
}

#[async_trait]
impl Store for LateStore {
    fn url(&self) -> String {
        self.store.get().map_or_else(|| self.url.to_string(), |store| store.url())
    }

    fn scheme(&self) -> Scheme {
        self.url.scheme()
    }

    fn needs_probe(&self) -> bool {
        self.store.get().is_none_or(|store| store.needs_probe())
    }

    fn abilities(&self) -> Abilities {
        // A probe tells what the server does with conditions.
        let unknown = Abilities { create: true, update: true, stamps: true, ..Abilities::LEAST };
        self.store.get().map_or(unknown, |store| store.abilities())
    }

    fn is_authentic(&self) -> bool {
        self.store.get().is_some_and(|store| store.is_authentic())
    }

    fn folder(&self) -> Option<PathBuf> {
        self.store.get().and_then(|store| store.folder())
    }

    fn credentials_end(&self) -> Option<Moment> {
        self.store.get()?.credentials_end()
    }

    fn has_protection(&self) -> bool {
        self.store.get().is_none_or(|store| store.has_protection())
    }

    async fn protection(&self) -> Result<Protection, Error> {
        self.store().await?.protection().await
    }

    async fn lock(&self, key: &ObjectKey) -> Result<Lock, Error> {
        self.store().await?.lock(key).await
    }

    async fn renews(&self) -> Result<bool, Error> {
        self.store().await?.renews().await
    }

    async fn renew(&self, key: &ObjectKey, now: Moment) -> Result<Option<Moment>, Error> {
        self.store().await?.renew(key, now).await
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        self.store().await?.put(key, body, options).await
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        self.store().await?.begin(key, options, in_flight).await
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.store().await?.get(key, range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.store().await?.head(key).await
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        self.store().await?.list(prefix, start_after, limit).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        self.store().await?.delete(keys).await
    }

    async fn enter(&self) -> Result<(), Error> {
        self.store().await?.enter().await
    }

    fn identity(&self) -> Option<String> {
        self.store.get().and_then(|store| store.identity())
    }

    async fn mend(&self) -> Result<(), Error> {
        match self.store.get() {
            Some(store) => store.mend().await,
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.store.get().map_or(Ok(()), |store| store.check())
    }

    fn trace(&self, prefixes: &[Prefix]) -> Option<u64> {
        self.store.get().and_then(|store| store.trace(prefixes))
    }
}
