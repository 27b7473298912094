//! Which snapshots may be deleted?
//!
//! A snapshot may be deleted once it has been seen for `keep` and a newer one of the same instance exists, so that
//! readers have finished with it. The last snapshot of an instance that is gone may be deleted once everything in it is
//! in a snapshot of ours. The age of a snapshot counts from when this process first saw it, because the clocks of
//! instances differ. Only names of snapshots of this database are considered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::Stamp;
use crate::peers::latest::Listed;

/// When snapshots are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How often to look for snapshots to delete.
    pub interval: Duration,
    /// How long every snapshot stays, counted from when it was first seen.
    pub keep: Duration,
    /// How old the last snapshot of an instance must be for the instance to count as gone.
    pub gone: Duration,
}

/// Why a snapshot is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// Its instance has a newer one.
    Newer,
    /// Its instance is gone, and its content is in a snapshot of ours.
    Gone,
}

/// Decides which snapshots are deleted now. `seen` is when each name was first seen; this function adds new names and
/// removes missing ones. `incorporated` is, for each instance, the time of its last snapshot whose content is in a
/// snapshot that we sent.
pub(crate) fn due(
    listed: &[Listed],
    seen: &mut BTreeMap<String, Stamp>,
    incorporated: &BTreeMap<String, Stamp>,
    rules: Retention,
    now: Stamp,
) -> Vec<(String, Reason)> {
    let since = |moment: Stamp| Duration::from_nanos(now.0.saturating_sub(moment.0));
    seen.retain(|key, _| listed.iter().any(|snapshot| snapshot.key == *key));
    let mut newest_first: Vec<&Listed> = listed.iter().collect();
    newest_first.sort_by(|a, b| (b.name.stamp, &b.key).cmp(&(a.name.stamp, &a.key)));
    let (mut due, mut with_newer) = (Vec::new(), BTreeSet::new());
    for snapshot in newest_first {
        let (instance, stamp) = (snapshot.name.instance.as_str(), snapshot.name.stamp);
        let Some(first) = seen.get(&snapshot.key) else {
            // It doesn't count as a newer snapshot yet: other instances may not have seen it.
            seen.insert(snapshot.key.clone(), now);
            continue;
        };
        if since(*first) <= rules.keep {
            with_newer.insert(instance);
        } else if !with_newer.insert(instance) {
            due.push((snapshot.key.clone(), Reason::Newer));
        } else if since(stamp) > rules.gone && incorporated.get(instance).is_some_and(|ours| *ours >= stamp) {
            due.push((snapshot.key.clone(), Reason::Gone));
        }
    }
    due
}

/// Whether the store doesn't keep a snapshot locked any more, if it locks each object for `lock` when it is written: at the
/// time in its name, or a little later.
pub(crate) fn is_unlocked(listed: &[Listed], key: &str, lock: Duration, now: Stamp) -> bool {
    let made = listed.iter().find(|snapshot| snapshot.key == key).map(|snapshot| snapshot.name.stamp);
    let since = made.map_or(Duration::ZERO, |made| Duration::from_nanos(now.0.saturating_sub(made.0)));
    lock.is_zero() || since > lock + UPLOAD
}

/// A snapshot is in the vault at most this long after the time in its name, in all likelihood.
pub(crate) const UPLOAD: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::latest::snapshots;

    const DAY: &str = "20260801";

    const RULES: Retention = Retention {
        interval: Duration::from_secs(60),
        keep: Duration::from_secs(600),
        gone: Duration::from_secs(7 * 86_400),
    };

    fn key(instance: &str, day: &str, time: &str) -> String {
        format!("main__{instance}__{day}-{time}-000000000__GX.pb.gz")
    }

    /// The moment of a time of the day.
    fn at(time: &str) -> Stamp {
        let listed = snapshots("main", [(key("x", DAY, time).as_str(), 1)]);
        listed[0].name.stamp
    }

    struct Cleaning {
        names: Vec<String>,
        seen: BTreeMap<String, Stamp>,
        incorporated: BTreeMap<String, Stamp>,
    }

    impl Cleaning {
        fn run(&mut self, time: &str) -> Vec<String> {
            let listed = snapshots("main", self.names.iter().map(|name| (name.as_str(), 1)));
            let due = due(&listed, &mut self.seen, &self.incorporated, RULES, at(time));
            let mut gone: Vec<String> = due.into_iter().map(|(key, _)| key).collect();
            self.names.retain(|name| !gone.contains(name));
            gone.sort();
            gone
        }
    }

    #[test]
    fn a_locked_snapshot_stays() {
        let key = key("a", DAY, "080000");
        let listed = snapshots("main", [(key.as_str(), 1)]);
        let locked = |seconds, now| !is_unlocked(&listed, &key, Duration::from_secs(seconds), at(now));
        assert!(!locked(0, "080000"));
        assert!(locked(3600, "095959"));
        assert!(!locked(3600, "100001"));
    }

    /// The times at which Lightning Stream's cleaner deletes.
    #[test]
    fn a_day_of_cleaning() {
        let a: Vec<String> = ["080000", "080100", "080200", "080300"].map(|time| key("a", DAY, time)).to_vec();
        let old = ["060000", "070000"].map(|time| key("old", "20260101", time));
        let other = "other__a__20260101-060000-000000000__GX.pb.gz".to_owned();
        let names = a.iter().chain(&old).cloned().chain([other.clone(), "update-marker".to_owned()]).collect();
        let mut cleaning = Cleaning { names, seen: BTreeMap::new(), incorporated: BTreeMap::new() };
        let nothing: [String; 0] = [];
        assert_eq!(cleaning.run("100000"), nothing, "all are new to us");
        assert_eq!(cleaning.run("100100"), nothing);
        assert_eq!(cleaning.run("101001"), [a[0].clone(), a[1].clone(), a[2].clone(), old[0].clone()]);
        let fresh = key("a", DAY, "101050");
        cleaning.names.push(fresh.clone());
        assert_eq!(cleaning.run("101100"), nothing, "a new one doesn't count yet");
        assert_eq!(cleaning.run("101200"), [a[3].clone()]);
        cleaning.incorporated.insert("old".to_owned(), Stamp(1));
        assert_eq!(cleaning.run("101230"), nothing, "what was merged is older");
        let last = snapshots("main", [(old[1].as_str(), 1)])[0].name.stamp;
        cleaning.incorporated.insert("old".to_owned(), last);
        assert_eq!(cleaning.run("101300"), [old[1].clone()]);
        let late = key("old", "20260101", "050000");
        cleaning.names.push(late.clone());
        assert_eq!(cleaning.run("101400"), nothing);
        assert_eq!(cleaning.run("102300"), nothing);
        assert_eq!(cleaning.run("102401"), [late]);
        assert_eq!(cleaning.names, [other, "update-marker".to_owned(), fresh], "others' are left alone");
        assert_eq!(cleaning.run("102500"), nothing);
        assert_eq!(cleaning.seen.len(), 1, "what is gone is forgotten");
    }
}
