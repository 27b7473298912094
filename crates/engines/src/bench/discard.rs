//! A store that forgets what it is given: the source of a backup is measured with it alone. Small objects are kept, because a backup
//! reads its chain.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Abilities, Body, Error, Meta, Multipart, ObjectKey, Page, Prefix, PutOptions, Scheme, Store, Tag};

/// Larger objects are forgotten.
const SMALL: usize = 256 << 10;

/// Forgets large objects, but for the first bytes of all of them together.
#[derive(Debug, Clone)]
pub(super) struct Discard {
    small: MemoryStore,
    sample: Arc<Mutex<Sample>>,
}

#[derive(Debug, Default)]
struct Sample {
    parts: Vec<Bytes>,
    room: usize,
}

impl Discard {
    /// Keeps so many bytes of large objects.
    pub(super) fn keeping(room: usize) -> Self {
        Self { small: MemoryStore::new(), sample: Arc::new(Mutex::new(Sample { parts: Vec::new(), room })) }
    }

    /// What was kept of large objects.
    pub(super) fn take(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.sample.lock().unwrap_or_else(PoisonError::into_inner).parts)
    }

    fn sample(&self, part: &Bytes) {
        // Whole between any two statements that can panic.
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = part.len().min(sample.room);
        if taken > 0 {
            sample.room -= taken;
            sample.parts.push(part.slice(..taken));
        }
    }
}

#[async_trait]
impl Store for Discard {
    fn url(&self) -> String {
        "discard:".to_owned()
    }

    fn scheme(&self) -> Scheme {
        self.small.scheme()
    }

    fn abilities(&self) -> Abilities {
        self.small.abilities()
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        self.sample(&body);
        let kept = if body.len() < SMALL { body } else { Bytes::new() };
        self.small.put(key, kept, options).await
    }

    async fn begin(&self, key: &ObjectKey, options: &PutOptions, _: usize) -> Result<Box<dyn Multipart>, Error> {
        Ok(Box::new(Forgotten { store: self.clone(), key: key.clone(), options: options.clone() }))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.small.get(key, range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.small.head(key).await
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        self.small.list(prefix, start_after, limit).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        self.small.delete(keys).await
    }
}

/// An object in parts.
struct Forgotten {
    store: Discard,
    key: ObjectKey,
    options: PutOptions,
}

#[async_trait]
impl Multipart for Forgotten {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        part.iter().for_each(|chunk| self.store.sample(chunk));
        Ok(())
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        self.store.small.put(&self.key, Bytes::new(), &self.options).await
    }

    async fn abort(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_objects_are_forgotten_but_for_a_sample() {
        let store = Discard::keeping(SMALL + 10);
        let key = |name: &str| ObjectKey::new(name).expect("a key");
        let options = PutOptions::default();
        store.put(&key("small"), Bytes::from_static(b"chain"), &options).await.expect("put");
        store.put(&key("large"), vec![1; SMALL].into(), &options).await.expect("put");
        let mut upload = store.begin(&key("parts"), &options, 1).await.expect("begun");
        upload.write(vec![vec![2; SMALL].into()]).await.expect("written");
        upload.complete().await.expect("complete");
        let sizes = [store.head(&key("small")).await, store.head(&key("large")).await, store.head(&key("parts")).await];
        let sizes = sizes.map(|meta| meta.expect("there").size);
        assert_eq!(sizes, [5, 0, 0]);
        assert_eq!(store.take().iter().map(Bytes::len).sum::<usize>(), SMALL + 10);
    }
}
