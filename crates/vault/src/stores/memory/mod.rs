//! A store in memory, for tests: versioned tags, stamps, exact conditions. Nothing survives the process.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use seawall_core::{Clock, Moment, SystemClock};

use crate::{
    Abilities, Body, Condition, Digest, Entry, Error, Meta, Multipart, ObjectKey, Page, Prefix, PutOptions, Scheme,
    Store, Tag,
};

/// Objects in a map. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    objects: Arc<Mutex<Objects>>,
    clock: Arc<dyn Clock>,
    scheme: Scheme,
    name: Arc<str>,
}

#[derive(Debug, Default)]
struct Objects {
    map: BTreeMap<ObjectKey, Object>,
    version: u64,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    modified: Moment,
    version: u64,
    stamp: Option<Moment>,
    digest: Option<Digest>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store in the place of a bucket.
    pub fn new() -> Self {
        Self::with(Scheme::S3, Arc::new(SystemClock))
    }

    /// An empty store in the place of one of that kind, with a clock.
    pub fn with(scheme: Scheme, clock: Arc<dyn Clock>) -> Self {
        Self { objects: Arc::default(), clock, scheme, name: "memory:".into() }
    }

    /// An empty store in the place of a bucket with that URL, to tell several apart.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::new() }
    }

    /// A store of its own with the same objects.
    pub fn snapshot(&self) -> Self {
        let objects = self.lock();
        let copy = Objects { map: objects.map.clone(), version: objects.version };
        Self { objects: Arc::new(Mutex::new(copy)), ..self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, key: &ObjectKey) -> String {
        format!("{}/{key}", self.name)
    }

    fn write(
        &self,
        key: &ObjectKey,
        bytes: Bytes,
        digest: Option<Digest>,
        options: &PutOptions,
    ) -> Result<Option<Tag>, Error> {
        let mut objects = self.lock();
        let present = objects.map.get(key).map(|object| tag(object.version));
        match (&options.condition, present) {
            (Condition::Create, Some(_)) => return Err(Error::AlreadyExists { object: self.name(key) }),
            (Condition::Match(expected), present) if present.as_ref() != Some(expected) => {
                return Err(Error::Precondition { object: self.name(key) });
            }
            _ => {}
        }
        objects.version += 1;
        let version = objects.version;
        let object = Object { digest, bytes, modified: self.clock.now(), version, stamp: options.stamp };
        objects.map.insert(key.clone(), object);
        Ok(Some(tag(version)))
    }

    fn find(&self, key: &ObjectKey) -> Result<Object, Error> {
        self.lock().map.get(key).cloned().ok_or_else(|| Error::NotFound { object: self.name(key) })
    }
}

fn tag(version: u64) -> Tag {
    Tag::new(format!("v{version}"))
}

#[async_trait]
impl Store for MemoryStore {
    fn url(&self) -> String {
        self.name.to_string()
    }

    fn scheme(&self) -> Scheme {
        self.scheme
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: true,
            stamps: true,
            delete_batch: 1000,
            smallest_part: 1,
            most_parts: usize::MAX,
            part_size: None,
            parts_in_flight: None,
            digests_of_parts: false,
        }
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        let digest = options.digest.unwrap_or_else(|| Digest::of(&body));
        self.write(key, body, Some(digest), options)
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        _in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        let upload =
            MemoryUpload { store: self.clone(), key: key.clone(), options: options.clone(), bytes: BytesMut::new() };
        Ok(Box::new(upload))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        let object = self.find(key)?;
        let size = object.bytes.len() as u64;
        let bytes = match range {
            None => object.bytes,
            Some(range) if range.start >= size => {
                return Err(Error::OutOfRange { object: self.name(key), start: range.start });
            }
            Some(range) => {
                let index = |at: u64| usize::try_from(at.min(size)).unwrap_or(usize::MAX);
                object.bytes.slice(index(range.start)..index(range.end))
            }
        };
        Ok(Body { size: Some(size), tag: Some(tag(object.version)), stream: stream::iter([Ok(bytes)]).boxed() })
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        let object = self.find(key)?;
        Ok(Meta {
            size: object.bytes.len() as u64,
            modified: object.modified,
            tag: Some(tag(object.version)),
            stamp: object.stamp,
            digest: object.digest,
        })
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        let objects = self.lock();
        let from = start_after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
        let entries: Vec<Entry> = objects
            .map
            .range((from, Bound::Unbounded))
            .filter(|(key, _)| key.as_str().starts_with(prefix.as_str()))
            .take(limit)
            .map(|(key, object)| Entry {
                key: key.clone(),
                size: object.bytes.len() as u64,
                modified: object.modified,
                written: object.modified,
                tag: Some(tag(object.version)),
            })
            .collect();
        let next = if entries.len() == limit { entries.last().map(|entry| entry.key.clone()) } else { None };
        Ok(Page { entries, next, ..Page::default() })
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let mut objects = self.lock();
        for key in keys {
            objects.map.remove(key);
        }
        Ok(keys.iter().map(|_| Ok(())).collect())
    }
}

struct MemoryUpload {
    store: MemoryStore,
    key: ObjectKey,
    options: PutOptions,
    bytes: BytesMut,
}

#[async_trait]
impl Multipart for MemoryUpload {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        for chunk in part {
            self.bytes.extend_from_slice(&chunk);
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        self.store.write(&self.key, self.bytes.clone().freeze(), None, &self.options)
    }

    async fn abort(&mut self) -> Result<(), Error> {
        self.bytes.clear();
        Ok(())
    }
}
