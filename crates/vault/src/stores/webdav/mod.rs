//! A vault that is a folder on a WebDAV server.
//!
//! Every object is written under a temporary name and moved to its own, because many servers write in place: a PUT that breaks
//! off leaves its beginning there (I2). Temporary files are in `seawall.tmp/`, which is no name of objects. Those of killed
//! processes are removed by a later one.
//!
//! The protocol has no exact condition: servers look whether a name is free, and move in another step, and some ignore
//! `Overwrite: F`. So a creation refuses an object that it sees, and two writers in the same moment aren't caught; nothing is
//! replaced by version. Dates have seconds, so stamps aren't kept.

mod classify;
mod client;
mod multistatus;
pub(crate) mod settings;
mod upload;
pub(crate) mod url;
mod walk;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt};

use self::client::{Client, when};
use self::settings::WebdavSettings;
use self::upload::WebdavUpload;
use crate::connections::Trust;
use crate::{
    Abilities, Body, Condition, Environment, Error, Meta, Multipart, ObjectKey, Page, PlaceSettings as _, Policy,
    Prefix, PutOptions, Scheme, Secret, Store, Tag, Tls,
};

/// Reads `bytes` as an answer to PROPFIND, in two pieces. Nothing may panic. For the fuzz target.
pub(crate) fn read_anything(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut answer = multistatus::Multistatus::default();
    let _ = answer.feed(first, drop).and_then(|()| answer.feed(second, drop));
    let text = String::from_utf8_lossy(bytes);
    let _ = (answer.is_complete(), multistatus::moment(&text), multistatus::strong(&text));
}

/// The folder of files that are being written.
const TEMPORARY: &str = "seawall.tmp/";

/// How long ago a temporary file was changed that no upload can still be writing.
const LEFT_BEHIND: Duration = Duration::from_secs(3 * 24 * 3600);

/// The most leftovers that are removed at once.
const LEFTOVERS: usize = 100;

/// Objects deleted at a time.
const BATCH: usize = 64;

/// Deletions in flight.
const DELETIONS: usize = 8;

/// The most folders that are remembered to exist.
const FOLDERS: usize = 10_000;

/// Objects in a folder on a WebDAV server.
#[derive(Clone)]
pub struct WebdavStore {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    client: Client,
    /// Folders that were there. One that is gone since is made again.
    folders: Mutex<BTreeSet<String>>,
    /// One folder is made at a time: servers fail when a folder is made twice at once.
    making: tokio::sync::Mutex<()>,
}

impl fmt::Debug for WebdavStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebdavStore").field(&self.inner.client.url).finish()
    }
}

impl WebdavStore {
    /// Makes a store for the settings. Checks the settings; makes no request.
    ///
    /// # Errors
    /// The settings don't name a place, are wrong, or would show a password to others.
    pub async fn connect(settings: &WebdavSettings, environment: &Environment, policy: &Policy) -> Result<Self, Error> {
        settings.check()?;
        let of_environment = |name: &str| environment.get(name).map(Secret::new);
        let is_given = settings.username.is_some() || settings.password.is_some() || settings.token.is_some();
        let (username, password, token) = match is_given {
            true => (
                settings.username.clone(),
                settings.password.clone().or_else(|| of_environment("WEBDAV_PASSWORD")),
                settings.token.clone(),
            ),
            false => (
                environment.get("WEBDAV_USERNAME").map(str::to_owned),
                of_environment("WEBDAV_PASSWORD"),
                of_environment("WEBDAV_TOKEN"),
            ),
        };
        let shown = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
        let authorization =
            client::authorization(username.as_deref(), shown(&password).as_deref(), shown(&token).as_deref())?;
        settings.check_privacy(authorization.is_some())?;
        let url = settings.url();
        let trust = Trust::of(settings.skip_verify, settings.ca_file.as_ref(), &Tls::default());
        let client = Client {
            http: policy.connections.client(&trust, &url)?,
            server: settings.server.clone(),
            root: settings.path.clone(),
            url,
            authorization,
            attempt: policy.attempt,
            slowest: policy.slowest,
        };
        Ok(Self { inner: Arc::new(Inner { client, folders: Mutex::default(), making: tokio::sync::Mutex::default() }) })
    }
}

impl Inner {
    /// Makes a folder below the place (empty, or ending in `/`), unless it was there lately.
    async fn ensure(&self, folder: &str) -> Result<(), Error> {
        let known = || self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(folder) {
            return Ok(());
        }
        let _making = self.making.lock().await;
        if known().contains(folder) {
            return Ok(());
        }
        self.client.make_folders(folder).await?;
        let mut known = known();
        if known.len() >= FOLDERS {
            known.clear();
        }
        known.insert(folder.to_owned());
        Ok(())
    }

    fn forget(&self) {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A temporary name that no other process has. At the first one of this process, leftovers of others are removed.
    async fn temporary(&self) -> Result<String, Error> {
        let first = !self.folders.lock().unwrap_or_else(PoisonError::into_inner).contains(TEMPORARY);
        self.ensure(TEMPORARY).await?;
        if first && let Err(error) = self.tidy().await {
            tracing::debug!(%error, "temporary files aren't looked through");
        }
        let random = || getrandom::u64().map_err(|_| self.without_randomness());
        Ok(format!("{TEMPORARY}{:016x}{:016x}", random()?, random()?))
    }

    fn without_randomness(&self) -> Error {
        let cause = "the system gives no random numbers".to_owned();
        Error::Unavailable { object: self.client.url.clone(), cause, retryable: false }
    }

    /// Removes temporary files that were changed long ago by the server's own clock.
    async fn tidy(&self) -> Result<(), Error> {
        let mut files = Vec::new();
        let now = self.client.list(TEMPORARY, |name, found| {
            if !found.folder && files.len() < LEFTOVERS {
                files.push((name, found.modified));
            }
        });
        let Some(now) = now.await? else { return Ok(()) };
        for (name, modified) in files {
            if modified.is_some_and(|modified| now.since(modified) > LEFT_BEHIND) {
                self.client.delete(&format!("{TEMPORARY}{name}")).await?;
            }
        }
        Ok(())
    }

    /// Gives a temporary file the name of an object.
    async fn publish(&self, temporary: &str, key: &ObjectKey, condition: &Condition) -> Result<(), Error> {
        let name = key.as_str();
        let folder = name.rfind('/').and_then(|at| name.get(..=at)).unwrap_or_default();
        self.ensure(folder).await?;
        let overwrite = *condition == Condition::Always;
        match self.client.rename(temporary, name, overwrite).await {
            // Somebody deleted the folder, or the temporary file: the next attempt begins anew.
            Err(Error::NotFound { object }) => {
                self.forget();
                let cause = "the folder is not there any more (MOVE: 404)".to_owned();
                Err(Error::Unavailable { object, cause, retryable: true })
            }
            Err(error @ Error::Unavailable { .. }) => {
                self.forget();
                Err(error)
            }
            result => result,
        }
    }
}

/// Refuses what can't be kept here: conditions on a version, and names that some servers misread.
fn check(client: &Client, key: &ObjectKey, condition: &Condition) -> Result<(), Error> {
    let object = client.name(key.as_str());
    if let Some(cause) = misread(key.as_str()) {
        return Err(Error::InvalidKey { object, cause: cause.to_owned() });
    }
    match condition {
        Condition::Always | Condition::Create => Ok(()),
        Condition::Match(_) => {
            let cause = "WebDAV replaces no object under the condition that it is the expected version".to_owned();
            Err(Error::Unsupported { object, cause })
        }
    }
}

/// Why some servers would lose an object of that name.
fn misread(name: &str) -> Option<&'static str> {
    if name.split('/').any(|segment| segment.starts_with('.')) {
        // nginx's module.
        return Some("some WebDAV servers don't list names that begin with a dot");
    }
    // WsgiDAV, in the address that an object is moved to.
    name.contains(['?', ';']).then_some("some WebDAV servers cut names off at `?` and `;`")
}

#[async_trait]
impl Store for WebdavStore {
    fn url(&self) -> String {
        self.inner.client.url.clone()
    }

    fn scheme(&self) -> Scheme {
        Scheme::Webdav
    }

    fn needs_probe(&self) -> bool {
        true
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: false,
            update: false,
            stamps: false,
            delete_batch: BATCH,
            smallest_part: 1,
            most_parts: usize::MAX,
            part_size: None,
            parts_in_flight: None,
            digests_of_parts: false,
        }
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        let Inner { client, .. } = &*self.inner;
        check(client, key, &options.condition)?;
        let temporary = self.inner.temporary().await?;
        if let Err(error) = client.put(&temporary, body).await {
            // A server that lost the folder answers with one of several errors.
            self.inner.forget();
            return Err(match error {
                Error::NotFound { object } => {
                    let cause = "the folder is not there any more (PUT: 404)".to_owned();
                    Error::Unavailable { object, cause, retryable: true }
                }
                error => error,
            });
        }
        let published = self.inner.publish(&temporary, key, &options.condition).await;
        if let Err(Error::AlreadyExists { .. }) = published
            && let Err(error) = client.delete(&temporary).await
        {
            tracing::debug!(%error, "a temporary file is left behind");
        }
        published.map(|()| None)
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        check(&self.inner.client, key, &options.condition)?;
        let temporary = self.inner.temporary().await?;
        let inner = Arc::clone(&self.inner);
        Ok(Box::new(WebdavUpload::begin(inner, key.clone(), options.condition.clone(), temporary, in_flight)))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        let answer = self.inner.client.get(key.as_str(), range).await?;
        let object = self.inner.client.name(key.as_str());
        let stream = answer.response.bytes_stream();
        let stream = stream.map(move |chunk| chunk.map_err(|error| classify::unanswered(&object, error)));
        Ok(Body { size: answer.size, tag: answer.tag.map(Tag::new), stream: stream.boxed() })
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        let found = self.inner.client.look(key.as_str()).await?;
        let Some(size) = found.size else {
            let cause = "the server doesn't tell its size".to_owned();
            return Err(Error::Corrupt { object: self.inner.client.name(key.as_str()), cause });
        };
        let modified = when(&found);
        Ok(Meta { size, modified, tag: found.tag.map(Tag::new), stamp: None, digest: None })
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        walk::page(&self.inner.client, prefix, start_after, limit).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let deletions: Vec<_> = keys.iter().map(|key| self.inner.client.delete(key.as_str())).collect();
        Ok(stream::iter(deletions).buffered(DELETIONS).collect().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_servers_misread() {
        for (name, refused) in
            [("a/b", false), ("a.b/c..", false), (".a", true), ("a/.b", true), ("a?", true), ("a;b/c", true)]
        {
            assert_eq!(misread(name).is_some(), refused, "{name}");
        }
    }
}
