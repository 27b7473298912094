//! Lists a tree of folders in the order of keys, a page at a time. The page bounds the memory.
//!
//! A server returns a folder's names unsorted and can't begin behind one, so each page reads whole folders and keeps the
//! smallest names. Pages are large for that reason. A folder sorts as its name with the `/`, as in a bucket: `a-b` comes
//! before `a/b`.

use std::collections::BinaryHeap;

use futures::future::BoxFuture;

use super::Place;
use super::link::Lease;
use super::requests::{Failed, Opened};
use super::wire::{Attributes, Named};
use crate::{Entry, Error, ObjectKey, Page, PassedOver, Prefix};
use seawall_core::Moment;

/// The folders that a key may lie deep; more is hostile.
const DEEPEST: usize = 64;

/// The names of a page.
const LARGE_PAGE: usize = 50_000;

/// How many requests for the names of one folder are under way, at first and at most. An answer of OpenSSH has a hundred.
const AHEAD: (usize, usize) = (2, 16);

/// A name in a folder: a key, or a folder of keys, which ends in `/`. Ordered by the name.
#[derive(Debug, Clone)]
struct Found {
    name: String,
    attributes: Attributes,
    /// A link could lead anywhere, and other names are no keys (I11).
    is_passed_over: bool,
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Found {}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

/// A listing under way.
struct Listing<'a> {
    place: &'a Place,
    lease: Lease,
    after: &'a str,
    limit: usize,
    entries: Vec<Entry>,
    passed_over: PassedOver,
}

/// A page of the keys below `prefix` that sort after `after`.
pub(super) async fn page(
    place: &Place,
    prefix: &Prefix,
    after: Option<&ObjectKey>,
    limit: usize,
) -> Result<Page, Error> {
    let lease = place.link.lease().await?;
    let after = after.map_or("", ObjectKey::as_str);
    let limit = limit.max(LARGE_PAGE);
    let mut listing = Listing { place, lease, after, limit, entries: Vec::new(), passed_over: PassedOver::default() };
    listing.walk(prefix.as_str().to_owned(), 0).await?;
    let next = listing.entries.last().filter(|_| listing.entries.len() >= limit).map(|entry| entry.key.clone());
    Ok(Page { entries: listing.entries, next, passed_over: listing.passed_over })
}

/// A time of the protocol, in seconds.
pub(super) fn moment(seconds: Option<u32>) -> Moment {
    Moment::from_millis(i64::from(seconds.unwrap_or(0)) * 1000)
}

/// An entry, unless a name is no key.
fn entry(name: &str, attributes: &Attributes) -> Option<Entry> {
    let modified = moment(attributes.modified);
    let key = ObjectKey::new(name).ok()?;
    Some(Entry { key, size: attributes.size?, modified, written: modified, tag: None })
}

/// A segment of keys from a server's name. Everything that could lead elsewhere is none (I11).
fn segment(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    (!name.contains('/') && ObjectKey::new(name).is_ok()).then_some(name)
}

impl Listing<'_> {
    fn left(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// Adds the keys below `folder` (empty, or ending in `/`), up to the limit in all.
    fn walk(&mut self, folder: String, depth: usize) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let mut done: Option<String> = None;
            if depth > DEEPEST {
                self.passed_over.note(folder.trim_end_matches('/'));
            }
            while depth <= DEEPEST && self.left() > 0 {
                let wanted = self.left();
                let names = self.smallest(&folder, done.as_deref(), wanted).await?;
                let all = names.len() < wanted;
                for found in names {
                    if self.left() == 0 {
                        return Ok(());
                    }
                    if found.is_passed_over {
                        self.passed_over.note(&found.name);
                    } else if found.name.ends_with('/') {
                        self.walk(found.name.clone(), depth + 1).await?;
                    } else if let Some(entry) = entry(&found.name, &found.attributes) {
                        self.entries.push(entry);
                    } else {
                        self.passed_over.note(&found.name);
                    }
                    done = Some(found.name);
                }
                if all {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The `count` smallest names in one folder after `done`; without `done`, those that sort after the key `after` or
    /// lead there.
    async fn smallest(&self, folder: &str, done: Option<&str>, count: usize) -> Result<Vec<Found>, Error> {
        let path = self.place.path(folder.trim_end_matches('/'));
        let object = self.place.object(&path);
        let opened = match Opened::folder(self.lease.again(), &path).await {
            Ok(opened) => opened,
            Err((_, failed)) if failed.is_missing() => return Ok(Vec::new()),
            Err((lease, failed)) => return self.no_folder(&lease, &path, failed).await,
        };
        let mut heap = BinaryHeap::new();
        let (mut ahead, most) = AHEAD;
        loop {
            // Requests behind the end are answered with it.
            let answers = futures::future::join_all((0..ahead).map(|_| opened.names())).await;
            ahead = (ahead * 2).min(most);
            let mut ends = false;
            for names in answers {
                let names = names.map_err(|failed| failed.about(&object))?;
                ends |= names.is_empty();
                for named in names {
                    if let Some(found) = self.wanted(folder, &path, named, done).await? {
                        heap.push(found);
                    }
                    if heap.len() > count {
                        heap.pop();
                    }
                }
            }
            if ends {
                return Ok(heap.into_sorted_vec());
            }
        }
    }

    /// What a refusal to list means: something else than a folder has no names.
    async fn no_folder(&self, lease: &Lease, path: &str, failed: Failed) -> Result<Vec<Found>, Error> {
        if failed.is_unexplained() && lease.lstat(path).await.is_ok_and(|there| there.is_folder() == Some(false)) {
            return Ok(Vec::new());
        }
        Err(failed.about(&self.place.object(path)))
    }

    /// A name that belongs to the page.
    async fn wanted(&self, folder: &str, path: &str, named: Named, done: Option<&str>) -> Result<Option<Found>, Error> {
        let Named { name, mut attributes } = named;
        if name.ends_with(super::leftovers::SUFFIX.as_bytes()) {
            self.place.leftovers.saw(path, &name, &attributes);
        }
        let Some(name) = segment(&name) else {
            let is_itself = matches!(&name[..], b"." | b"..");
            let name = format!("{folder}{}", String::from_utf8_lossy(&name));
            let is_wanted = !is_itself && self.is_wanted(&name, done);
            return Ok(is_wanted.then_some(Found { name, attributes, is_passed_over: true }));
        };
        if attributes.is_file().is_none() || attributes.is_file() == Some(true) && attributes.size.is_none() {
            // A server that doesn't tell in listings.
            let one = format!("{path}/{name}");
            attributes = match self.lease.lstat(&one).await {
                Ok(attributes) => attributes,
                // Deleted since its name was read.
                Err(failed) if failed.is_missing() => return Ok(None),
                Err(failed) => return Err(failed.about(&self.place.object(&one))),
            };
        }
        let is_folder = attributes.is_folder() == Some(true);
        let is_passed_over = !is_folder && attributes.is_file() != Some(true);
        let name = format!("{folder}{name}{}", if is_folder { "/" } else { "" });
        Ok(self.is_wanted(&name, done).then_some(Found { name, attributes, is_passed_over }))
    }

    /// Whether a name sorts after `done`; without it, after the key that the page begins behind, or leads there.
    fn is_wanted(&self, name: &str, done: Option<&str>) -> bool {
        match done {
            Some(done) => name > done,
            None => name > self.after || (name.ends_with('/') && self.after.starts_with(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for (name, expected) in [
            (&b"a"[..], Some("a")),
            ("ä b".as_bytes(), Some("ä b")),
            (b"..", None),
            (b".", None),
            (b"a/b", None),
            (b"/etc", None),
            (b"", None),
            (b"a\n", None),
            (b"a\xff", None),
            (b"x.tmp", None),
        ] {
            assert_eq!(segment(name), expected, "{name:?}");
        }
    }
}
