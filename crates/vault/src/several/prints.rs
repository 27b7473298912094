//! Prints: few bytes by which an acknowledged object is known again, and which of them are kept.
//!
//! Names alone don't tell whose vault is at a place: every database begins with the same ones. The record keeps the newest name of
//! each folder with the print of its object, so a vault that was swapped for another database's shows it.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use crate::settle::{SAMPLE, Sample};
use crate::{Digest, Error, Fault, ObjectKey, Operation, Prefix, Vault, reading};

/// The names of a listing that looks for a later one of a line.
const LATER: usize = 100;

/// The most folders whose newest names are kept. A replica of SQLite has ten; of backup sets the newest ones count.
const MOST: usize = 16;

/// The size of an object, and the digest of its first and its last bytes. Formats of ours carry a nonce in the head and a
/// checksum in the tail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Print(String);

impl Print {
    /// The print of an object from its sample.
    pub(crate) fn of(sample: &Sample) -> Self {
        let digest = Digest::of(&[sample.head.as_slice(), sample.tail.as_slice()].concat());
        Self(format!("{}:{digest}", sample.size))
    }

    /// Whether it is of an object of this size.
    pub(crate) fn has_size(&self, size: u64) -> bool {
        self.0.split_once(':').and_then(|(own, _)| own.parse::<u64>().ok()) == Some(size)
    }

    /// The print of an object from all of its bytes.
    pub(crate) fn of_bytes(bytes: &Bytes) -> Self {
        let mut sample = Sample::default();
        sample.extend(bytes);
        Self::of(&sample)
    }
}

/// What a vault holds under a name whose print is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// That object.
    Same,
    /// Another one.
    Other,
    /// Nothing.
    Gone,
    /// No key at hand opens it.
    Locked,
}

/// What a vault holds under a name, from its size and a few bytes that are read now: a digest beside it may be older than they.
pub(crate) async fn held(vault: &Vault, key: &ObjectKey, print: &Print) -> Result<Held, Error> {
    let Some(meta) = vault.head(key).await? else { return Ok(Held::Gone) };
    match sample_of(vault, key, meta.size).await {
        Ok(sample) if Print::of(&sample) == *print => Ok(Held::Same),
        Ok(_) => Ok(Held::Other),
        Err(Error::NotFound { .. }) => Ok(Held::Gone),
        Err(Error::Sealing { fault: Fault::NoKey, .. }) => Ok(Held::Locked),
        // It isn't what was written there.
        Err(Error::Sealing { .. } | Error::Corrupt { .. } | Error::OutOfRange { .. }) => Ok(Held::Other),
        Err(error) => Err(error),
    }
}

/// The next names of the line of this one that a vault holds. A vault that was emptied or set back has none behind the newest one that was
/// acknowledged: a process that finds one knows an older state than the vault holds.
pub(crate) async fn later(vault: &Vault, key: &ObjectKey) -> Result<Vec<ObjectKey>, Error> {
    let Some(own) = line(key) else { return Ok(Vec::new()) };
    let prefix = Prefix::new(own)?;
    let list = || vault.inner.store.list(&prefix, Some(key), LATER);
    let page = vault.inner.retrier.run(Operation::List, vault.url(), 0, list).await?;
    Ok(page.entries.into_iter().map(|entry| entry.key).filter(|key| line(key) == Some(own)).collect())
}

/// The sample of an object of this size.
pub(crate) async fn sample_of(vault: &Vault, key: &ObjectKey, size: u64) -> Result<Sample, Error> {
    let bytes = async |range: std::ops::Range<u64>| -> Result<Vec<u8>, Error> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let chunks = reading::stream(vault.clone(), key.clone(), Some(range), Some(SAMPLE as u64));
        Ok(chunks.try_collect::<Vec<Bytes>>().await?.concat())
    };
    let sample = SAMPLE as u64;
    let head = bytes(0..sample.min(size)).await?;
    let tail = bytes(size.saturating_sub(sample)..size).await?;
    Ok(Sample { size, head, tail })
}

/// The folder of a name that tells whose history a vault holds; `None` for other names. Notes (`seawall/`) may be each vault's own,
/// as where each is thinned out by itself. Beside the folders lie names that are written over (a lease), and names that hold the
/// time to the nanosecond.
pub(crate) fn telling(key: &ObjectKey) -> Option<&str> {
    let (folder, _) = key.as_str().rsplit_once('/')?;
    (!folder.is_empty() && folder.split('/').next() != Some("seawall")).then_some(folder)
}

/// The line of a name: the folder whose names grow with time, and of which the newest name stays. Sets, bases and timelines of a log have
/// folders of their own below it. `None` for names that don't tell, and for those that come and go: pins, and parts of a log.
pub(crate) fn line(key: &ObjectKey) -> Option<&str> {
    let folder = telling(key)?;
    let above = |below: &str| {
        let at = folder.find(below)?;
        folder.get(..at + below.len() - 1)
    };
    match folder.split('/').next() {
        Some("pins") => None,
        Some("physical") if is_part_of_log(key) => None,
        Some("sets") => Some("sets"),
        Some("physical") => Some(above("/bases/").or_else(|| above("/log/")).unwrap_or(folder)),
        Some(_) | None => Some(folder),
    }
}

/// Whether a name below a cluster's log isn't of a whole file: a range, which goes when its segment is whole, a hole, or a mark of retention.
/// These begin with a position and sort behind all segments.
fn is_part_of_log(key: &ObjectKey) -> bool {
    let Some((_, below)) = key.as_str().split_once("/log/") else { return false };
    let name = below.rsplit_once('/').map_or(below, |(_, name)| name);
    let ends = [".hole", ".trimmed", ".partial.zst"];
    key.as_str().starts_with("physical/") && (name.contains('-') || ends.iter().any(|end| name.ends_with(end)))
}

/// The newest acknowledged name of each folder, with the print of its object while that wasn't deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Newest {
    names: BTreeMap<String, (ObjectKey, Option<Print>)>,
    last: Option<String>,
}

impl Newest {
    /// Notes an object that was acknowledged.
    pub(crate) fn note(&mut self, key: &ObjectKey, print: Print) {
        let Some(folder) = telling(key).filter(|_| !is_part_of_log(key)) else { return };
        if self.names.get(folder).is_some_and(|(newest, _)| newest > key) {
            return;
        }
        self.names.insert(folder.to_owned(), (key.clone(), Some(print)));
        self.last = Some(folder.to_owned());
        while self.names.len() > MOST {
            self.names.pop_first();
        }
    }

    /// Notes that an object was deleted.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        let noted = telling(key).and_then(|folder| self.names.get_mut(folder));
        if let Some((_, print)) = noted.filter(|(newest, _)| newest == key) {
            *print = None;
        }
    }

    /// All objects that a vault in step holds, as far as they are noted.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&ObjectKey, &Print)> {
        self.names.values().filter_map(|(key, print)| Some((key, print.as_ref()?)))
    }

    /// The newest name of a folder.
    pub(crate) fn of(&self, folder: &str) -> Option<&ObjectKey> {
        self.names.get(folder).map(|(key, _)| key)
    }

    /// Whether a name is the newest noted one of its line. Older ones may have been deleted by another process, as retention does.
    pub(crate) fn is_last_of_line(&self, key: &ObjectKey) -> bool {
        let Some(own) = line(key) else { return false };
        self.names.values().all(|(other, _)| other <= key || line(other) != Some(own))
    }

    /// The one that was noted last.
    pub(crate) fn last(&self) -> Option<(ObjectKey, Print)> {
        let (key, print) = self.names.get(self.last.as_ref()?)?;
        Some((key.clone(), print.clone()?))
    }

    /// For the record.
    pub(crate) fn noted(&self) -> BTreeMap<String, Option<Print>> {
        self.names.values().map(|(key, print)| (key.to_string(), print.clone())).collect()
    }

    /// From the record.
    pub(crate) fn from_noted(noted: &BTreeMap<String, Option<Print>>) -> Self {
        let mut newest = Self::default();
        for (name, print) in noted {
            let Ok(key) = ObjectKey::new(name) else { continue };
            let Some(folder) = telling(&key).map(str::to_owned) else { continue };
            if print.is_some() && newest.last.is_none() {
                newest.last = Some(folder.clone());
            }
            newest.names.insert(folder, (key, print.clone()));
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_folder_is_kept() {
        let key = |name: &str| ObjectKey::new(name).expect("a key");
        let print = |text: &'static str| Print::of_bytes(&Bytes::from_static(text.as_bytes()));
        let mut newest = Newest::default();
        for (name, text) in [
            ("ltx/0/1", "a"),
            ("ltx/0/3", "b"),
            ("ltx/0/2", "c"),
            ("lock.json", "d"),
            ("seawall/holes/9", "e"),
            ("ltx/9/1", "f"),
        ] {
            newest.note(&key(name), print(text));
        }
        assert_eq!(newest.last(), Some((key("ltx/9/1"), print("f"))));
        let all: Vec<_> = newest.all().map(|(key, print)| (key.to_string(), print.clone())).collect();
        assert_eq!(all, [("ltx/0/3".to_owned(), print("b")), ("ltx/9/1".to_owned(), print("f"))]);
        // A range of a log is deleted when its segment is whole.
        let segment = "physical/7/log/00000001/000000010000000000000002.zst";
        newest.note(&key(segment), print("k"));
        newest.note(&key("physical/7/log/00000001/0000000200000000-0000000200000100.zst"), print("l"));
        assert_eq!(newest.of("physical/7/log/00000001"), Some(&key(segment)));
        newest.note(&key("sets/1/x"), print("h"));
        newest.note(&key("sets/2/x"), print("i"));
        newest.note(&key("pins/3"), print("j"));
        for (name, expected) in
            [("ltx/0/3", true), ("ltx/9/1", true), ("sets/1/x", false), ("sets/2/x", true), ("pins/3", false)]
        {
            assert_eq!(newest.is_last_of_line(&key(name)), expected, "{name}");
        }
        newest = Newest::from_noted(
            &newest
                .all()
                .filter(|(key, _)| key.as_str().starts_with("ltx"))
                .map(|(key, print)| (key.to_string(), Some(print.clone())))
                .collect(),
        );
        newest.forget(&key("ltx/0/2"));
        newest.forget(&key("ltx/0/3"));
        assert_eq!(newest.all().count(), 1);
        assert_eq!(Newest::from_noted(&newest.noted()).noted(), newest.noted());
        (0..100).for_each(|i| newest.note(&key(&format!("sets/{i:03}/x")), print("g")));
        assert_eq!(newest.noted().len(), MOST);
        assert_ne!(print("aa"), print("ab"));
    }

    #[test]
    fn names_that_tell_whose_history_it_is() {
        for (name, expected) in [
            ("ltx/0/1", Some("ltx/0")),
            ("sets/a/1", Some("sets/a")),
            ("lock.json", None),
            ("seawall/floors/5.json", None),
        ] {
            assert_eq!(telling(&ObjectKey::new(name).expect("a key")), expected, "{name}");
        }
        for (name, expected) in [
            ("ltx/0/1", Some("ltx/0")),
            ("0000/1", Some("0000")),
            ("sets/a/1", Some("sets")),
            ("chain/00000001.json", Some("chain")),
            ("pins/a.json", None),
            ("seawall/pins/a", None),
            ("physical/7/bases/a/1", Some("physical/7/bases")),
            ("physical/7/log/00000001/2.zst", Some("physical/7/log")),
            ("physical/7/log/00000001/000000010000000000000002.zst", Some("physical/7/log")),
            ("physical/7/log/00000001/000000010000000000000002.00000028.backup", Some("physical/7/log")),
            ("physical/7/log/00000001/0000000200000000-0000000200000100.zst", None),
            ("physical/7/log/00000001/0000000200000000-0000000200000100.hole", None),
            ("physical/7/log/00000001/0000000200000000.trimmed", None),
            ("physical/7/log/00000001/000000010000000000000002.partial.zst", None),
            ("physical/7/log/00000002.history", Some("physical/7/log")),
            ("physical/7/cluster.json", Some("physical/7")),
            ("lock.json", None),
        ] {
            assert_eq!(line(&ObjectKey::new(name).expect("a key")), expected, "{name}");
        }
    }

    /// What was merged or retired is followed by a later name, and what a vault lost isn't. Another line below the same folder tells nothing.
    #[tokio::test]
    async fn later_names_of_a_line() {
        let key = |name: &str| ObjectKey::new(name).expect("a key");
        let vault = Vault::new(std::sync::Arc::new(crate::memory::MemoryStore::new()), crate::Policy::default());
        for name in
            ["ltx/0/2", "ltx/1/9", "sets/2/a", "sets/3/a", "physical/7/bases/5/1", "physical/7/log/00000002/1.zst"]
        {
            vault.put(&key(name), "x".into(), None).await.expect("put");
        }
        for (name, expected) in [
            ("ltx/0/1", &["ltx/0/2"][..]),
            ("ltx/0/2", &[]),
            ("ltx/0/3", &[]),
            ("sets/1/x", &["sets/2/a", "sets/3/a"]),
            ("sets/3/b", &[]),
            ("physical/7/log/00000001/9.zst", &["physical/7/log/00000002/1.zst"]),
            ("physical/7/bases/6/1", &[]),
            ("physical/7/aaa", &[]),
            ("pins/0", &[]),
            ("lock.json", &[]),
        ] {
            let later = later(&vault, &key(name)).await.expect("listed");
            assert_eq!(later.iter().map(ObjectKey::as_str).collect::<Vec<_>>(), expected, "{name}");
        }
    }
}
