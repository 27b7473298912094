//! A vault that is a part of an object store in NATS JetStream.
//!
//! An object is a description under its name and chunks under a subject of their own; the format is NATS's, so that other programs
//! read our objects and we theirs. Visible is what has a description, and a description is published last, under a condition that
//! the server keeps exactly. The bucket must exist.
//!
//! Names are encoded in subjects, so no listing can begin behind a name or end with a folder: each page reads all descriptions of
//! the bucket, and keeps the first ones that are asked for. A killed writer leaves chunks that nothing names; they take space until
//! the bucket is cleaned by hand.

mod api;
mod info;
mod link;
mod read;
pub(crate) mod settings;
pub(crate) mod url;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use seawall_core::Moment;

use self::api::{Api, Place};
use self::info::{ObjectInfo, STAMP};
pub(crate) use self::link::Link;
use self::settings::{Access, NatsSettings};
use self::write::Writer;
use crate::{
    Abilities, Body, Entry, Environment, Error, Meta, Multipart, ObjectKey, Page, PassedOver, PlaceSettings as _,
    Policy, Prefix, PutOptions, Scheme, Secret, Store, Tag, expiry,
};

/// Reads `bytes` as the description of an object, and as the place of a message. Nothing may panic. For the fuzz target.
pub(crate) fn read_anything(bytes: &[u8]) {
    if let Ok(info) = ObjectInfo::read(bytes, "name") {
        let _ = (info.is_link(), info.chunk_size(), info.header(STAMP), info.metadata(STAMP));
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = (Place::read(&text), info::name("bucket", &text));
}

/// The fewest names of a page: each page reads all descriptions of the bucket.
const PAGE: usize = 20_000;

/// Descriptions on their way in a listing.
const WINDOW: u64 = 128;

/// Objects deleted at a time.
const BATCH: usize = 64;

/// Deletions in flight.
const DELETIONS: usize = 16;

/// Objects in a bucket of NATS.
#[derive(Clone)]
pub struct NatsStore {
    api: Api,
    /// When the JWT of the settings ends.
    credentials_end: Option<Moment>,
    /// What all names begin with: nothing, or text that ends in `/`.
    root: String,
}

impl fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NatsStore").field(&self.api.url).finish()
    }
}

/// Settings come before the environment, whose names are those of NATS's own tool.
fn access(settings: &Access, environment: &Environment) -> Access {
    let mut access = settings.clone();
    if !access.has_proof() {
        access.creds = environment.get("NATS_CREDS").map(str::to_owned);
        if access.creds.is_none() {
            access.username = environment.get("NATS_USER").map(str::to_owned);
            access.password = environment.get("NATS_PASSWORD").map(Secret::new);
        }
    }
    access
}

impl NatsStore {
    /// Makes a store for the settings. Checks the settings; makes no request.
    ///
    /// # Errors
    /// The settings don't name a place, are wrong, or would show a password to others.
    pub async fn connect(settings: &NatsSettings, environment: &Environment, policy: &Policy) -> Result<Self, Error> {
        settings.check()?;
        let access = access(&settings.access, environment);
        access.check_privacy(&settings.server)?;
        let server = match settings.server.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => settings.server.clone(),
            _ => format!("{}:4222", settings.server),
        };
        let link =
            policy.connections.nats(|link| link.is_for(&server, &access), || Link::new(server.clone(), access.clone()));
        let root = if settings.path.is_empty() { String::new() } else { format!("{}/", settings.path) };
        let api = Api { link, bucket: settings.bucket.clone(), url: settings.url(), attempt: policy.attempt };
        let credentials_end = access.jwt.as_ref().and_then(|token| expiry::of_web_token(token.reveal()));
        Ok(Self { api, credentials_end, root })
    }

    fn name(&self, key: &ObjectKey) -> String {
        format!("{}{key}", self.root)
    }

    async fn delete_one(&self, key: &ObjectKey) -> Result<(), Error> {
        let (api, name) = (&self.api, self.name(key));
        let (object, subject) = (api.name(&name), api.subject(&name));
        let latest = match api.latest(&object, &subject).await {
            Err(Error::NotFound { .. }) => return Ok(()),
            latest => latest?,
        };
        // An object that can't be read can be deleted all the same.
        let info = ObjectInfo::read(&latest.payload, &name).ok().filter(|info| !info.deleted);
        // First what makes it visible, and only the version that was seen.
        api.purge(&object, &subject, Some(latest.sequence)).await?;
        match info {
            Some(info) if info.chunks > 0 => api.purge(&object, &info::chunks(&api.bucket, &info.nuid), None).await,
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for NatsStore {
    fn url(&self) -> String {
        self.api.url.clone()
    }

    fn scheme(&self) -> Scheme {
        Scheme::Nats
    }

    fn credentials_end(&self) -> Option<Moment> {
        self.credentials_end
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: true,
            stamps: true,
            delete_batch: BATCH,
            smallest_part: 1,
            most_parts: usize::MAX,
            part_size: None,
            parts_in_flight: None,
            digests_of_parts: true,
        }
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        let mut writer = Writer::begin(self.api.clone(), key, self.name(key), options.clone()).await?;
        let written = match writer.take(body).await {
            Ok(()) => writer.finish().await,
            Err(error) => Err(error),
        };
        // A whole object is written anew by the next attempt.
        written.map_err(|error| match error {
            Error::Unavailable { object, cause, .. } => Error::Unavailable { object, cause, retryable: true },
            error => error,
        })
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        _in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        Ok(Box::new(Writer::begin(self.api.clone(), key, self.name(key), options.clone()).await?))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        read::open(self.api.clone(), &self.name(key), range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        let (latest, info) = read::look(&self.api, &self.name(key)).await?;
        Ok(Meta {
            size: info.size,
            modified: latest.time,
            tag: Some(Tag::new(latest.sequence.to_string())),
            stamp: info.header(STAMP).and_then(|stamp| stamp.parse().ok()),
            digest: write::digest(&info),
        })
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        let (api, most) = (&self.api, limit.max(PAGE));
        let (mut first, mut passed_over) = (BTreeMap::new(), PassedOver::default());
        let mut cut = false;
        let mut reader = api.read(&api.url, &format!("$O.{}.M.>", api.bucket), None).await?;
        while let Some(message) = reader.next(WINDOW).await? {
            let Some(name) = info::name(&api.bucket, &message.subject) else { continue };
            let Some(below) = name.strip_prefix(&self.root).filter(|below| below.starts_with(prefix.as_str())) else {
                continue;
            };
            let Ok(key) = ObjectKey::new(below) else {
                // Every page reads all names: the first one counts.
                if start_after.is_none() {
                    passed_over.note(below);
                }
                continue;
            };
            if start_after.is_some_and(|after| key <= *after) {
                continue;
            }
            let corrupt = |cause: &str| Error::Corrupt { object: api.name(&name), cause: cause.to_owned() };
            let info = ObjectInfo::read(&message.payload, &name).map_err(corrupt)?;
            if info.deleted || info.is_link() {
                // A later message counts, and the reader tells messages in their order.
                first.remove(&key);
                continue;
            }
            let place = message.reply.as_ref().and_then(|reply| Place::read(reply));
            let place = place.ok_or_else(|| corrupt("its message has no place in the stream"))?;
            let tag = Some(Tag::new(place.sequence.to_string()));
            let entry = Entry { key: key.clone(), size: info.size, modified: place.time, written: place.time, tag };
            first.insert(key, entry);
            if first.len() > most {
                first.pop_last();
                cut = true;
            }
        }
        let next = if cut { first.last_key_value().map(|(key, _)| key.clone()) } else { None };
        Ok(Page { entries: first.into_values().collect(), next, passed_over })
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let deletions: Vec<_> = keys.iter().map(|key| self.delete_one(key)).collect();
        Ok(stream::iter(deletions).buffered(DELETIONS).collect().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_before_the_environment() {
        let variables = [("NATS_USER", "u"), ("NATS_PASSWORD", "p")];
        let environment: Environment =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        let found = access(&Access::default(), &environment);
        assert_eq!((found.username.as_deref(), found.password), (Some("u"), Some(Secret::new("p"))));
        let given = Access { token: Some(Secret::new("t")), ..Access::default() };
        assert_eq!(access(&given, &environment), given);
    }
}
