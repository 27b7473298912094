//! Which snapshots are merged?
//!
//! Of each instance only the newest, whose name sorts last: it holds everything that the older ones held. A damaged
//! snapshot doesn't count, and the one before it is used instead.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::SnapshotName;

/// A snapshot in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its name in the vault.
    pub(crate) key: String,
    /// What the name says.
    pub(crate) name: SnapshotName,
    /// Bytes of the object.
    pub(crate) bytes: u64,
}

/// The snapshots of `database` among the names and sizes of a listing. Other objects are ignored.
pub(crate) fn snapshots<'a>(database: &str, objects: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<Listed> {
    let parse = |(key, bytes): (&str, u64)| {
        let name = SnapshotName::parse(key).filter(|name| name.database == database)?;
        Some(Listed { key: key.to_owned(), name, bytes })
    };
    objects.into_iter().filter_map(parse).collect()
}

/// The newest snapshot of each instance that isn't known to be damaged.
pub(crate) fn newest(listed: &[Listed], damaged: &BTreeSet<String>) -> BTreeMap<String, Listed> {
    let mut newest: BTreeMap<String, Listed> = BTreeMap::new();
    for snapshot in listed.iter().filter(|snapshot| !damaged.contains(&snapshot.key)) {
        let known = newest.get(&snapshot.name.instance);
        if known.is_none_or(|known| known.key < snapshot.key) {
            newest.insert(snapshot.name.instance.clone(), snapshot.clone());
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_instance() {
        let names = [
            "main__b__20250615-150640-000000001__GX.pb.gz",
            "main__b__20250615-150640-000000002__GX.pb.gz",
            "main__a__20240615-150640-000000000__GX.pb.gz",
            "other__a__20260615-150640-000000000__GX.pb.gz",
            "main__c__20260615-150640-000000000__GX.pb.zst",
            "update-marker",
        ];
        // Listings come in any order.
        for reversed in [false, true] {
            let mut names = names.to_vec();
            if reversed {
                names.reverse();
            }
            let listed = snapshots("main", names.iter().map(|name| (*name, 1)));
            let keys = |damaged: &[&str]| -> Vec<String> {
                let damaged = damaged.iter().map(|&key| key.to_owned()).collect();
                newest(&listed, &damaged).into_values().map(|snapshot| snapshot.key).collect()
            };
            assert_eq!(keys(&[]), [names_at(2), names_at(1)]);
            assert_eq!(keys(&[&names_at(1)]), [names_at(2), names_at(0)], "the one before a damaged one");
            assert_eq!(keys(&[&names_at(1), &names_at(0)]), [names_at(2)]);
        }
        fn names_at(at: usize) -> String {
            let stamps =
                ["b__20250615-150640-000000001", "b__20250615-150640-000000002", "a__20240615-150640-000000000"];
            format!("main__{}__GX.pb.gz", stamps[at])
        }
    }
}
