//! A store that forwards every call to another store, except where a test's hooks do something else.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{
    Abilities, Body, Condition, Error, Meta, Multipart, ObjectKey, Page, Prefix, PutOptions, Scheme, Store, Tag,
};

/// A test's changes to the calls. The default of each hook forwards the call unchanged.
#[async_trait]
pub trait Hooks: Send + Sync + fmt::Debug {
    /// Before an object is written; whether the store is to get it.
    async fn before_put(&self, _key: &ObjectKey, _body: &Bytes) -> bool {
        true
    }

    /// Before an object in parts is begun.
    async fn before_begin(&self, _key: &ObjectKey) {}

    /// Before an object is read.
    async fn before_get(&self, _key: &ObjectKey) {}

    /// Whether the store asks for a probe, as one behind an endpoint does.
    fn needs_probe(&self) -> bool {
        false
    }

    /// Whether the store doesn't know a condition.
    fn refuses(&self, _condition: &Condition) -> bool {
        false
    }

    /// Whether nothing can be deleted, for a reason that isn't a missing right.
    fn keeps_all(&self) -> bool {
        false
    }

    /// How an object is really written.
    fn options(&self, options: &PutOptions) -> PutOptions {
        options.clone()
    }
}

/// A store in memory behind hooks.
#[derive(Debug, Clone)]
pub struct Forwarding<H> {
    /// The store with the objects.
    pub inner: MemoryStore,
    /// The test's changes.
    pub hooks: H,
}

#[async_trait]
impl<H: Hooks> Store for Forwarding<H> {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn scheme(&self) -> Scheme {
        self.inner.scheme()
    }

    fn needs_probe(&self) -> bool {
        self.hooks.needs_probe()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        if self.hooks.refuses(&options.condition) {
            return Err(Error::Unsupported { object: key.to_string(), cause: "it has no such condition".to_owned() });
        }
        if !self.hooks.before_put(key, &body).await {
            return Ok(None);
        }
        self.inner.put(key, body, &self.hooks.options(options)).await
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        self.hooks.before_begin(key).await;
        self.inner.begin(key, &self.hooks.options(options), in_flight).await
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.hooks.before_get(key).await;
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.inner.head(key).await
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        self.inner.list(prefix, start_after, limit).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        if self.hooks.keeps_all() {
            let refusal = |key: &ObjectKey| {
                let (object, cause) = (key.to_string(), "it is in use".to_owned());
                Err(Error::Unavailable { object, cause, retryable: false })
            };
            return Ok(keys.iter().map(refusal).collect());
        }
        self.inner.delete(keys).await
    }
}
