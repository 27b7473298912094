//! What was acknowledged lately, by which a vault that was emptied, swapped or set back is found while the process runs.
//!
//! The newest object tells nothing then: it was written after the vault was emptied, and is there. So a look asks for names from the
//! last look on: the anchor, which was the newest one then, and those that came since.

use std::collections::{BTreeMap, BTreeSet};

use super::prints::{Newest, Print, telling};
use crate::{Entry, ObjectKey};

/// The names of one folder that are remembered, the newest ones.
const MOST_OF_FOLDER: usize = 32;

/// The folders of which names are remembered.
const MOST_FOLDERS: usize = 16;

/// An acknowledged object, and when: a count.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Acknowledged {
    print: Print,
    nth: u64,
}

/// What was acknowledged lately, and not deleted since.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lately {
    folders: BTreeMap<String, BTreeMap<ObjectKey, Acknowledged>>,
    /// Of each folder the newest name at the last look.
    anchors: BTreeMap<String, (ObjectKey, Acknowledged)>,
    count: u64,
}

/// What a look asks a vault for: the names of one folder from the anchor on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The folder, without `/` at its end.
    pub(crate) folder: String,
    /// The object whose bytes are compared as well.
    pub(crate) anchor: (ObjectKey, Print),
    /// All that should be there, the anchor included, by name.
    pub(crate) known: BTreeMap<ObjectKey, Print>,
}

/// What a listing shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shows {
    /// All that was asked for.
    All,
    /// This object is missing.
    Gone(ObjectKey),
    /// This one has another size.
    Other(ObjectKey),
}

impl Lately {
    /// What an earlier process left: the newest name of each folder.
    pub(crate) fn begin(newest: &Newest) -> Self {
        let mut lately = Self::default();
        for (key, print) in newest.all() {
            lately.note(key, print.clone());
        }
        lately.turn(lately.count);
        lately
    }

    /// Notes an object that was acknowledged.
    pub(crate) fn note(&mut self, key: &ObjectKey, print: Print) {
        let Some(folder) = telling(key) else { return };
        self.count += 1;
        let acknowledged = Acknowledged { print, nth: self.count };
        let names = match self.folders.get_mut(folder) {
            Some(names) => names,
            None => self.folders.entry(folder.to_owned()).or_default(),
        };
        names.insert(key.clone(), acknowledged);
        while names.len() > MOST_OF_FOLDER {
            names.pop_first();
        }
        while self.folders.len() > MOST_FOLDERS
            && let Some((first, _)) = self.folders.pop_first()
        {
            self.anchors.remove(&first);
        }
    }

    /// Notes that an object was deleted, or is written over.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        let Some(folder) = telling(key) else { return };
        if let Some(names) = self.folders.get_mut(folder) {
            names.remove(key);
        }
        if self.anchors.get(folder).is_some_and(|(anchor, _)| anchor == key) {
            self.anchors.remove(folder);
        }
    }

    /// Whether an object is still to be in every vault.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        let Some(folder) = telling(key) else { return false };
        self.folders.get(folder).is_some_and(|names| names.contains_key(key))
            || self.anchors.get(folder).is_some_and(|(anchor, _)| anchor == key)
    }

    /// What to ask for now: of the folder with the newest anchor. Without any anchor, of the folder of which the most names are remembered,
    /// from its first one on. `None` where nothing is.
    pub(crate) fn asked(&self) -> Option<Asked> {
        let anchor = self.anchors.iter().max_by_key(|(_, (_, acknowledged))| acknowledged.nth);
        let anchor = anchor.map(|(folder, anchor)| (folder.clone(), anchor.clone()));
        let (folder, (key, acknowledged)) = anchor.or_else(|| {
            let (folder, names) = self.folders.iter().max_by_key(|(_, names)| names.len())?;
            let (key, acknowledged) = names.first_key_value()?;
            Some((folder.clone(), (key.clone(), acknowledged.clone())))
        })?;
        let names = self.folders.get(&folder).into_iter().flat_map(|names| names.range(&key..));
        let mut known: BTreeMap<ObjectKey, Print> =
            names.map(|(key, acknowledged)| (key.clone(), acknowledged.print.clone())).collect();
        known.insert(key.clone(), acknowledged.print.clone());
        Some(Asked { folder, anchor: (key, acknowledged.print), known })
    }

    /// All names that are remembered.
    pub(crate) fn names(&self) -> BTreeSet<ObjectKey> {
        let lately = self.folders.values().flat_map(BTreeMap::keys);
        lately.chain(self.anchors.values().map(|(key, _)| key)).cloned().collect()
    }

    /// The anchors of all folders.
    pub(crate) fn anchors(&self) -> Vec<ObjectKey> {
        self.anchors.values().map(|(key, _)| key.clone()).collect()
    }

    /// What was acknowledged until now, for [`Lately::turn`].
    pub(crate) fn mark(&self) -> u64 {
        self.count
    }

    /// Every vault was found to hold what was acknowledged until `mark`: what comes from there on is asked for at the next look.
    pub(crate) fn turn(&mut self, mark: u64) {
        for (folder, names) in &self.folders {
            let until = names.iter().filter(|(_, acknowledged)| acknowledged.nth <= mark);
            if let Some((key, acknowledged)) = until.max_by_key(|(_, acknowledged)| acknowledged.nth) {
                self.anchors.insert(folder.clone(), (key.clone(), acknowledged.clone()));
            }
        }
    }
}

impl Asked {
    /// Doesn't ask for a name any more.
    pub(crate) fn pass_over(&mut self, key: &ObjectKey) {
        self.known.remove(key);
    }

    /// What a listing shows that begins with the anchor. `ends`: there may be more behind its last entry.
    pub(crate) fn judge(&self, entries: &[Entry], ends: bool) -> Shows {
        let last = entries.last().filter(|_| ends).map(|entry| &entry.key);
        let sizes: BTreeMap<&ObjectKey, u64> = entries.iter().map(|entry| (&entry.key, entry.size)).collect();
        let within = |key: &&ObjectKey| last.is_none_or(|last| *key <= last);
        for (key, print) in self.known.iter().filter(|(key, _)| within(key)) {
            match sizes.get(key) {
                None => return Shows::Gone(key.clone()),
                Some(size) if !print.has_size(*size) => return Shows::Other(key.clone()),
                Some(_) => {}
            }
        }
        Shows::All
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(name).expect("a key")
    }

    fn print(text: &'static str) -> Print {
        Print::of_bytes(&Bytes::from_static(text.as_bytes()))
    }

    fn asked(lately: &Lately) -> (String, Vec<String>) {
        let asked = lately.asked().expect("something to ask for");
        (asked.anchor.0.to_string(), asked.known.keys().map(ToString::to_string).collect())
    }

    #[test]
    fn a_look_asks_from_the_last_look_on() {
        let mut lately = Lately::default();
        assert_eq!(lately.asked(), None);
        for name in ["ltx/9/1", "ltx/0/1", "ltx/0/2", "lock.json", "seawall/floors/1"] {
            lately.note(&key(name), print("x"));
        }
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(asked(&lately), ("ltx/0/1".into(), names(&["ltx/0/1", "ltx/0/2"])), "before the first look");
        lately.turn(lately.mark());
        lately.note(&key("ltx/0/3"), print("x"));
        lately.note(&key("ltx/0/4"), print("x"));
        assert_eq!(asked(&lately), ("ltx/0/2".into(), names(&["ltx/0/2", "ltx/0/3", "ltx/0/4"])));
        lately.forget(&key("ltx/0/3"));
        assert_eq!(asked(&lately), ("ltx/0/2".into(), names(&["ltx/0/2", "ltx/0/4"])));
        // A round that began before these two asks from there on next time.
        let mut later = lately.clone();
        let mark = later.mark();
        later.note(&key("ltx/0/5"), print("x"));
        later.note(&key("ltx/0/6"), print("x"));
        later.turn(mark);
        assert_eq!(asked(&later), ("ltx/0/4".into(), names(&["ltx/0/4", "ltx/0/5", "ltx/0/6"])));
        // All of level 0 is merged and deleted: the complete copy stays.
        ["ltx/0/1", "ltx/0/2", "ltx/0/4"].iter().for_each(|name| lately.forget(&key(name)));
        assert_eq!(asked(&lately), ("ltx/9/1".into(), names(&["ltx/9/1"])));
        assert!(lately.has(&key("ltx/9/1")) && !lately.has(&key("ltx/0/2")));
        // What is remembered is bounded, and the anchor stays.
        (10..200).for_each(|i| lately.note(&key(&format!("ltx/9/{i}")), print("x")));
        let (anchor, known) = asked(&lately);
        assert_eq!((anchor.as_str(), known.len()), ("ltx/9/1", MOST_OF_FOLDER + 1));
        (0..100).for_each(|i| lately.note(&key(&format!("sets/{i:03}/x")), print("x")));
        assert_eq!(lately.folders.len(), MOST_FOLDERS);
        assert!(lately.anchors.len() <= MOST_FOLDERS);
    }

    #[test]
    fn what_a_listing_shows() {
        let mut lately = Lately::default();
        ["a/1", "a/2", "a/3"].iter().for_each(|name| lately.note(&key(name), print("xx")));
        let asked = lately.asked().expect("something to ask for");
        let entries = |sizes: &[(&str, u64)]| -> Vec<Entry> {
            let entry = |(name, size): &(&str, u64)| Entry {
                key: key(name),
                size: *size,
                modified: seawall_core::Moment::from_millis(0),
                written: seawall_core::Moment::from_millis(0),
                tag: None,
            };
            sizes.iter().map(entry).collect()
        };
        for (sizes, ends, expected) in [
            (&[("a/1", 2), ("a/2", 2), ("a/3", 2), ("a/4", 9)][..], false, Shows::All),
            (&[("a/1", 2), ("a/2", 2)], true, Shows::All),
            (&[("a/1", 2), ("a/2", 2)], false, Shows::Gone(key("a/3"))),
            (&[("a/1", 2), ("a/3", 2)], true, Shows::Gone(key("a/2"))),
            (&[("a/1", 2), ("a/2", 3), ("a/3", 2)], false, Shows::Other(key("a/2"))),
            (&[], false, Shows::Gone(key("a/1"))),
        ] {
            assert_eq!(asked.judge(&entries(sizes), ends), expected, "{sizes:?}");
        }
    }
}
