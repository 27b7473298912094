//! May an instance write a snapshot that only Seawall can read?
//!
//! Only while every other instance of the vault is known to run Seawall: by the name of its newest snapshot, or by the
//! index in it. An instance whose snapshot hasn't been read yet may run an old version.

pub(crate) mod known;
pub(crate) mod latest;
pub(crate) mod listing;
pub(crate) mod marker;
pub(crate) mod misdated;
pub(crate) mod orphans;
pub(crate) mod own;
pub(crate) mod retention;
pub(crate) mod transfer;

use std::collections::{BTreeMap, BTreeSet};

use crate::peers::latest::Listed;
use crate::snapshot::Codec;

/// Instances that may be able to read only gzip. `ours` are the names of snapshots that have Seawall's index.
pub(crate) fn old(newest: &BTreeMap<String, Listed>, own: &str, ours: &BTreeSet<String>) -> Vec<String> {
    let is_old = |snapshot: &&Listed| {
        let is_ours = snapshot.name.codec == Codec::Zstd || ours.contains(&snapshot.key);
        snapshot.name.instance != own && !is_ours
    };
    newest.values().filter(is_old).map(|snapshot| snapshot.name.instance.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::latest::{newest, snapshots};

    #[test]
    fn who_may_be_old() {
        let names = [
            "main__a__20260615-100000-000000000__GX.pb.gz",
            "main__b__20260615-100000-000000000__GX.pb.zstd",
            "main__c__20260615-100000-000000000__GX.pb.gz",
            "main__d__20260615-100000-000000000__GX.pb.zstd",
            "main__d__20260615-110000-000000000__GX.pb.gz",
        ];
        let newest = newest(&snapshots("main", names.map(|name| (name, 1))), &BTreeSet::new());
        let ours = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(old(&newest, "a", &ours(&[])), ["c", "d"]);
        assert_eq!(old(&newest, "b", &ours(&[names[2]])), ["a", "d"]);
        assert_eq!(old(&newest, "a", &ours(&[names[2], names[3]])), ["d"], "by its newest alone");
        assert!(old(&newest, "a", &ours(&[names[2], names[4]])).is_empty());
    }
}
