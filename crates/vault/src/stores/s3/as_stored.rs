//! A place as it was stored at a moment: each name shows the version that was current then. Nothing is written.
//!
//! A listing of versions finds them. It is read a page at a time, and shows names in the order of a plain listing. The versions
//! that it finds are remembered, so that reading them afterwards costs one request each.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use seawall_core::Moment;
use tokio::sync::OnceCell;

use super::S3Store;
use super::requests::element;
use super::versions::{Chooser, Version, VersionPage, parse};
use crate::stores::cloud::Reach as _;
use crate::{
    Abilities, Body, Entry, Error, Lock, Meta, Multipart, ObjectKey, Page, Prefix, Protection, PutOptions, Scheme,
    Store, Tag,
};

/// The versions that one request asks for; S3 gives no more.
const PAGE: usize = 1000;

/// The versions that are remembered: about 10 MB. More of them are looked for again.
const REMEMBERED: usize = 50_000;

/// A bucket's objects as they were stored at a moment.
pub(super) struct AsStored {
    store: S3Store,
    at: Moment,
    /// The bucket was asked whether it keeps versions, and didn't deny it.
    keeps_versions: OnceCell<()>,
    /// The ids of versions that a listing found.
    ids: Mutex<HashMap<ObjectKey, String>>,
}

impl fmt::Debug for AsStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsStored").field("store", &self.store).field("at", &self.at).finish_non_exhaustive()
    }
}

impl AsStored {
    pub(super) fn new(store: S3Store, at: Moment) -> Self {
        Self { store, at, keeps_versions: OnceCell::new(), ids: Mutex::default() }
    }

    /// Refuses a bucket without versions, where every object would seem never to have been another.
    async fn require_versions(&self) -> Result<(), Error> {
        let asked = self.keeps_versions.get_or_try_init(|| async {
            let requests = self.store.reach().requests().await?;
            let answer = requests.send(Method::GET, None, &[("versioning", "")], &[], Vec::new()).await?;
            let object = || self.store.url();
            match answer.status {
                status if status.is_success() => match element(&answer.body, "Status") {
                    Some("Enabled" | "Suspended") => Ok(()),
                    _ => {
                        let cause = "the bucket doesn't keep versions of its objects".to_owned();
                        Err(Error::NoVersions { object: object(), cause })
                    }
                },
                // Credentials that may list versions needn't be allowed to ask this.
                status if status.as_u16() == 403 => Ok(()),
                status if status.is_server_error() && status.as_u16() != 501 => Err(answer.refusal(&object())),
                _ if answer.code() == "NoSuchBucket" => Err(answer.refusal(&object())),
                _ => {
                    let cause = format!("the server keeps no versions: {}", answer.refusal(&object()));
                    Err(Error::NoVersions { object: object(), cause })
                }
            }
        });
        asked.await.map(drop)
    }

    /// A page of the versions of all names that begin with `text`, behind a name and one of its versions.
    async fn page(&self, text: &str, behind: &(String, String), most: usize) -> Result<VersionPage, Error> {
        let root = self.store.reach().root();
        let (prefix, behind_name) = (format!("{root}{}", self.store.at(text)), format!("{root}{}", behind.0));
        // versitygw begins a page with the version that the page before ended with.
        let most = most.clamp(2, PAGE).to_string();
        let mut query = vec![("encoding-type", "url"), ("max-keys", &*most), ("prefix", &*prefix), ("versions", "")];
        if !behind.0.is_empty() {
            query.push(("key-marker", &behind_name));
        }
        if !behind.1.is_empty() {
            query.push(("version-id-marker", &behind.1));
        }
        query.sort_unstable();
        let requests = self.store.reach().requests().await?;
        let answer = requests.send(Method::GET, None, &query, &[], Vec::new()).await?;
        let body = answer.body(&self.store.named(text))?;
        let corrupt = |cause: String| Error::Corrupt { object: self.store.named(text), cause };
        let mut page =
            parse(&body).map_err(|cause| corrupt(format!("the listing of versions can't be read: {cause}")))?;
        let inside = |name: &str| name.strip_prefix(&root).map(str::to_owned);
        page.versions = std::mem::take(&mut page.versions)
            .into_iter()
            .filter_map(|version| Some(Version { name: inside(&version.name)?, ..version }))
            .collect();
        page.next = match page.next {
            None => None,
            Some((name, id)) => {
                let next = (inside(&name).ok_or_else(|| corrupt("the listing leaves its prefix".to_owned()))?, id);
                if next.0 < behind.0 || next == *behind {
                    return Err(corrupt("the listing repeats itself".to_owned()));
                }
                Some(next)
            }
        };
        Ok(page)
    }

    /// The key of a name of the bucket; `None` if none of our objects has such a name.
    fn key(&self, name: &str) -> Option<ObjectKey> {
        ObjectKey::new(name.strip_prefix(&self.store.at(""))?).ok()
    }

    fn remember(&self, key: &ObjectKey, id: &str) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() >= REMEMBERED {
            ids.clear();
        }
        ids.insert(key.clone(), id.to_owned());
    }

    /// The id of the version that was current.
    async fn id(&self, key: &ObjectKey) -> Result<String, Error> {
        self.require_versions().await?;
        if let Some(id) = self.ids.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Ok(id.clone());
        }
        let name = self.store.at(key.as_str());
        let (mut chooser, mut behind) = (Chooser::new(self.at), (String::new(), String::new()));
        loop {
            let page = self.page(key.as_str(), &behind, PAGE).await?;
            let others = page.versions.iter().any(|version| version.name != name);
            for version in page.versions.into_iter().filter(|version| version.name == name) {
                chooser.push(version);
            }
            match page.next {
                Some(next) if !others => behind = next,
                _ => break,
            }
        }
        let found = chooser.finish().and_then(|(_, found)| found);
        let id = found.ok_or_else(|| Error::NotFound { object: self.store.name(key) })?.id;
        self.remember(key, &id);
        Ok(id)
    }
}

#[async_trait]
impl Store for AsStored {
    fn url(&self) -> String {
        let url = self.store.url();
        let sign = if url.contains('?') { '&' } else { '?' };
        format!("{url}{sign}as-stored-at={}", self.at)
    }

    fn scheme(&self) -> Scheme {
        self.store.scheme()
    }

    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    async fn put(&self, key: &ObjectKey, _body: Bytes, _options: &PutOptions) -> Result<Option<Tag>, Error> {
        Err(Error::ReadOnly { object: self.store.name(key) })
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        _options: &PutOptions,
        _in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        Err(Error::ReadOnly { object: self.store.name(key) })
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.store.get_version(key, Some(&self.id(key).await?), range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.store.head_version(key, Some(&self.id(key).await?)).await
    }

    /// A page ends behind a name whose versions are all known. The versions of one name may need several requests.
    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        self.require_versions().await?;
        let (mut chooser, mut page) = (Chooser::new(self.at), Page::default());
        let mut behind = (start_after.map_or_else(String::new, |key| self.store.at(key.as_str())), String::new());
        loop {
            let found = self.page(prefix.as_str(), &behind, limit).await?;
            let mut complete: Vec<_> = found.versions.into_iter().filter_map(|version| chooser.push(version)).collect();
            if found.next.is_none() {
                complete.extend(chooser.finish());
            }
            let mut last = None;
            for (name, version) in complete {
                let there = match version {
                    Some(Version { id, stored, object: Some((size, tag)), .. }) => Some((id, stored, size, tag)),
                    _ => None,
                };
                let Some(key) = self.key(&name) else {
                    if there.is_some() {
                        page.passed_over.note(&name);
                    }
                    continue;
                };
                if start_after.is_some_and(|after| key <= *after) {
                    continue;
                }
                last = Some(key.clone());
                let Some((id, stored, size, tag)) = there else { continue };
                self.remember(&key, &id);
                page.entries.push(Entry { key, size, modified: stored, written: stored, tag });
            }
            match (found.next, last) {
                (None, _) => return Ok(page),
                (Some(_), Some(last)) => {
                    page.next = Some(last);
                    return Ok(page);
                }
                (Some(next), None) => behind = next,
            }
        }
    }

    fn credentials_end(&self) -> Option<Moment> {
        self.store.credentials_end()
    }

    fn has_protection(&self) -> bool {
        true
    }

    async fn protection(&self) -> Result<Protection, Error> {
        self.store.protection().await
    }

    async fn lock(&self, key: &ObjectKey) -> Result<Lock, Error> {
        self.store.reach().lock(&self.store.at(key.as_str()), Some(&self.id(key).await?)).await
    }

    async fn delete(&self, _keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        Err(Error::ReadOnly { object: self.store.url() })
    }
}
