//! A store whose objects have other names in it: some folders are called differently there.
//!
//! SQLite's objects are named as Litestream names them, which depends on the kind of store. So a vault that holds the
//! same as another kind of vault shows its folders by the names that they have there.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seawall_core::{Moment, Requests};

use super::MemberState;
use crate::{
    Abilities, Body, Entry, Error, Lock, Meta, Multipart, ObjectKey, Page, PassedOver, Prefix, Protection, PutOptions,
    Scheme, Store, Tag,
};

/// Folders with two names each: outside, and in the store. All end in `/`, none begins with another of its side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Renames(Vec<(Prefix, Prefix)>);

impl Renames {
    /// From pairs of names, outside and in the store.
    pub fn new(mut pairs: Vec<(Prefix, Prefix)>) -> Self {
        pairs.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
        Self(pairs)
    }

    /// The pairs: outside, and in the store.
    pub fn into_pairs(self) -> Vec<(Prefix, Prefix)> {
        self.0
    }

    /// Whether every name is the same on both sides.
    pub fn is_nothing(&self) -> bool {
        self.0.iter().all(|(outside, inside)| outside == inside)
    }

    /// The name in the store. A name that a renamed folder has in the store is nobody's outside.
    fn inward(&self, key: &ObjectKey) -> Result<ObjectKey, Error> {
        match self.0.iter().find_map(|(outside, inside)| Some((inside, key.as_str().strip_prefix(outside.as_str())?))) {
            Some((inside, rest)) => ObjectKey::new(format!("{}{rest}", inside.as_str())),
            None if self.is_hidden(key) => Err(Error::InvalidKey {
                object: key.to_string(),
                cause: "this folder has another name in this kind of store".to_owned(),
            }),
            None => Ok(key.clone()),
        }
    }

    /// The name outside of a name below one of the folders.
    fn outward(outside: &Prefix, inside: &Prefix, key: &ObjectKey) -> Option<ObjectKey> {
        let rest = key.as_str().strip_prefix(inside.as_str())?;
        ObjectKey::new(format!("{}{rest}", outside.as_str())).ok()
    }

    /// Whether the store has it below a folder that is called differently outside.
    fn is_hidden(&self, key: &ObjectKey) -> bool {
        self.0.iter().any(|(_, inside)| key.as_str().starts_with(inside.as_str()))
    }
}

/// A store behind [`Renames`].
#[derive(Debug)]
pub struct RenamedStore {
    inner: Arc<dyn Store>,
    renames: Renames,
    scheme: Scheme,
}

impl RenamedStore {
    /// A store that shows its objects as one of the kind `scheme` does.
    pub fn over(inner: Arc<dyn Store>, renames: Renames, scheme: Scheme) -> Arc<dyn Store> {
        if renames.is_nothing() { inner } else { Arc::new(Self { inner, renames, scheme }) }
    }

    /// One page of a renamed folder, by the names outside.
    async fn folder_page(
        &self,
        (outside, inside): &(Prefix, Prefix),
        prefix: &Prefix,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Page, Error> {
        let below = match prefix.as_str().strip_prefix(outside.as_str()) {
            Some("") | None => inside.clone(),
            Some(rest) => Prefix::new(format!("{}{rest}", inside.as_str()))?,
        };
        let after = match after.and_then(|after| after.as_str().strip_prefix(outside.as_str())) {
            Some(rest) => Some(ObjectKey::new(format!("{}{rest}", inside.as_str()))?),
            None => None,
        };
        let page = self.inner.list(&below, after.as_ref(), limit).await?;
        let renamed = |entry: Entry| Some(Entry { key: Renames::outward(outside, inside, &entry.key)?, ..entry });
        let next = page.next.as_ref().and_then(|next| Renames::outward(outside, inside, next));
        Ok(Page { entries: page.entries.into_iter().filter_map(renamed).collect(), next, ..page })
    }
}

/// Whether names below two folders can be the same.
fn overlap(one: &Prefix, other: &Prefix) -> bool {
    one.as_str().starts_with(other.as_str()) || other.as_str().starts_with(one.as_str())
}

#[async_trait]
impl Store for RenamedStore {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn scheme(&self) -> Scheme {
        self.scheme
    }

    fn needs_probe(&self) -> bool {
        self.inner.needs_probe()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn is_authentic(&self) -> bool {
        self.inner.is_authentic()
    }

    fn folder(&self) -> Option<PathBuf> {
        self.inner.folder()
    }

    fn members(&self) -> Vec<MemberState> {
        self.inner.members()
    }

    fn requests(&self) -> Option<Requests> {
        self.inner.requests()
    }

    fn credentials_end(&self) -> Option<Moment> {
        self.inner.credentials_end()
    }

    fn has_protection(&self) -> bool {
        self.inner.has_protection()
    }

    async fn protection(&self) -> Result<Protection, Error> {
        self.inner.protection().await
    }

    async fn lock(&self, key: &ObjectKey) -> Result<Lock, Error> {
        self.inner.lock(&self.renames.inward(key)?).await
    }

    async fn renews(&self) -> Result<bool, Error> {
        self.inner.renews().await
    }

    async fn renew(&self, key: &ObjectKey, now: Moment) -> Result<Option<Moment>, Error> {
        self.inner.renew(&self.renames.inward(key)?, now).await
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        self.inner.put(&self.renames.inward(key)?, body, options).await
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        self.inner.begin(&self.renames.inward(key)?, options, in_flight).await
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        self.inner.get(&self.renames.inward(key)?, range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        self.inner.head(&self.renames.inward(key)?).await
    }

    /// Names outside sort differently from those inside. So a page ends where a renamed folder begins or ends, and the
    /// next one begins there.
    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        let mut after = start_after.cloned();
        let folders: Vec<&(Prefix, Prefix)> =
            self.renames.0.iter().filter(|(outside, _)| overlap(outside, prefix)).collect();
        let (mut entries, mut passed_over) = (Vec::new(), PassedOver::default());
        for folder in &folders {
            let (outside, _) = *folder;
            let is_below = |key: &ObjectKey| key.as_str().starts_with(outside.as_str());
            let is_past = |key: &ObjectKey| !is_below(key) && key.as_str() > outside.as_str();
            if after.as_ref().is_some_and(is_past) {
                continue;
            }
            // First what sorts before this folder.
            if !prefix.as_str().starts_with(outside.as_str()) && !after.as_ref().is_some_and(is_below) {
                let page = self.plain(prefix, after.as_ref(), limit).await?;
                let cut = page.entries.iter().position(|entry| entry.key.as_str() > outside.as_str());
                let all = cut.is_none() && page.next.is_some();
                passed_over.add(page.passed_over);
                let taken = page.entries.into_iter().take(cut.unwrap_or(usize::MAX));
                entries.extend(taken.filter(|entry| !self.renames.is_hidden(&entry.key)));
                if all {
                    return Ok(Page { entries, next: page.next, passed_over });
                }
            }
            let page = self.folder_page(folder, prefix, after.as_ref(), limit).await?;
            entries.extend(page.entries);
            passed_over.add(page.passed_over);
            if page.next.is_some() {
                return Ok(Page { entries, next: page.next, passed_over });
            }
            after = Some(last_below(outside)?);
            if entries.len() >= limit {
                return Ok(Page { entries, next: after, passed_over });
            }
        }
        if folders.iter().any(|(outside, _)| prefix.as_str().starts_with(outside.as_str())) {
            return Ok(Page { entries, next: None, passed_over });
        }
        let page = self.plain(prefix, after.as_ref(), limit).await?;
        entries.extend(page.entries.into_iter().filter(|entry| !self.renames.is_hidden(&entry.key)));
        passed_over.add(page.passed_over);
        Ok(Page { entries, next: page.next, passed_over })
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let keys: Vec<ObjectKey> = keys.iter().map(|key| self.renames.inward(key)).collect::<Result<_, _>>()?;
        self.inner.delete(&keys).await
    }

    async fn enter(&self) -> Result<(), Error> {
        self.inner.enter().await
    }

    fn identity(&self) -> Option<String> {
        self.inner.identity()
    }

    async fn mend(&self) -> Result<(), Error> {
        self.inner.mend().await
    }

    fn check(&self) -> Result<(), Error> {
        self.inner.check()
    }

    fn trace(&self, prefixes: &[Prefix]) -> Option<u64> {
        let inward = |prefix: &Prefix| {
            let renamed = self.renames.0.iter().find(|(outside, _)| outside == prefix);
            renamed.map_or_else(|| prefix.clone(), |(_, inside)| inside.clone())
        };
        self.inner.trace(&prefixes.iter().map(inward).collect::<Vec<_>>())
    }
}

impl RenamedStore {
    /// A page of the names that are the same on both sides, and of those that are hidden.
    async fn plain(&self, prefix: &Prefix, after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        if self.renames.0.iter().any(|(_, inside)| prefix.as_str().starts_with(inside.as_str())) {
            return Ok(Page::default());
        }
        self.inner.list(prefix, after, limit).await
    }
}

/// A name that sorts after all names below a folder that a store of ours can have.
fn last_below(folder: &Prefix) -> Result<ObjectKey, Error> {
    ObjectKey::new(format!("{}\u{10ffff}", folder.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;
    use crate::{Policy, Vault};

    fn renames() -> Renames {
        let prefix = |name: String| Prefix::new(name).expect("a folder");
        Renames::new((0..10).map(|level| (prefix(format!("{level:04x}")), prefix(format!("ltx/{level}")))).collect())
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(name).expect("a key")
    }

    #[tokio::test]
    async fn folders_have_other_names_and_all_else_has_its_own() {
        let inner = MemoryStore::new();
        let outside: Vec<&str> = vec![
            "0000/1-1.ltx",
            "0000/2-2.ltx",
            "0001/1-2.ltx",
            "0009/1-1.ltx",
            "000",
            "00000",
            "0001-x",
            "a",
            "generations/x",
            "ltx/10/x",
            "ltx/x",
            "seawall/digests/0000/1-1.ltx",
            "zz",
        ];
        let truth = Vault::new(Arc::new(inner.clone()), Policy::default());
        truth.put(&key("0003/foreign"), "x".into(), None).await.expect("put");
        let renamed = RenamedStore::over(Arc::new(inner), renames(), Scheme::File);
        let vault = Vault::new(renamed.clone(), Policy::default());
        for name in &outside {
            vault.put(&key(name), name.to_string().into(), None).await.expect("put");
        }
        let mut sorted = outside.clone();
        sorted.sort_unstable();
        for limit in [1, 2, 3, 1000] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = renamed.list(&Prefix::all(), after.as_ref(), limit).await.expect("a page");
                found.extend(page.entries.into_iter().map(|entry| entry.key.to_string()));
                assert!(
                    page.next.as_ref().is_none_or(|next| after.as_ref().is_none_or(|after| next > after)),
                    "it advances"
                );
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            assert_eq!(found, sorted, "{limit}");
        }
        let level =
            vault.list(&Prefix::new("0000").expect("a folder"), Some(&key("0000/1-1.ltx"))).await.expect("listed");
        assert_eq!(level.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["0000/2-2.ltx"]);
        let below = vault.list(&Prefix::new("seawall/digests/0000").expect("a folder"), None).await.expect("listed");
        assert_eq!(below.len(), 1);
        assert!(truth.head(&key("ltx/9/1-1.ltx")).await.expect("asked").is_some());
        assert_eq!(vault.read(&key("0009/1-1.ltx"), None, 99).await.expect("read"), "0009/1-1.ltx");
        vault.delete(&[key("0009/1-1.ltx")]).await.expect("deleted");
        assert!(truth.head(&key("ltx/9/1-1.ltx")).await.expect("asked").is_none());
        assert!(vault.put(&key("ltx/3/x"), "x".into(), None).await.is_err(), "it would show as 0003/x");
    }
}
