//! Is our newest snapshot still in the vault, and does no other process write under our name?
//!
//! What was uploaded may be removed, overwritten or cut later, and nothing tells of that but a listing (I15). Cleaners
//! delete old snapshots of any instance, and rightly so: a snapshot may go once its instance has a newer one, and the
//! last snapshot of an instance that seems gone may go once its content is in another instance's. So only the newest
//! snapshot of ours counts.
//!
//! Of each instance only the newest snapshot is restored and merged (`latest.rs`). Two writers with one name hide each
//! other's changes. The snapshots that were there at the start are ours: this host may have lost its state.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Stamp;
use crate::peers::latest::Listed;

/// How old a snapshot must be for its instance to count as gone, if no setting says it. Lightning Stream's default.
const GONE: Duration = Duration::from_secs(7 * 86_400);

/// A snapshot that this session sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Its name in the vault.
    pub(crate) key: String,
    /// The time in its name.
    pub(crate) stamp: Stamp,
    /// Its bytes.
    pub(crate) bytes: u64,
}

/// What became of our newest snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there, with the size that was written.
    There,
    /// A cleaner may have deleted it: another writer has a newer one with our name, or we sent nothing for so long that
    /// we count as gone, and another instance has sent since.
    Cleaned,
    /// It is there with another size.
    Cut(u64),
    /// It is missing.
    Missing,
}

/// Decides what became of it. `gone` is the configured age at which an instance counts as gone.
pub(crate) fn fate(sent: &Sent, instance: &str, listed: &[Listed], gone: Option<Duration>, now: Stamp) -> Fate {
    if let Some(found) = listed.iter().find(|snapshot| snapshot.key == sent.key) {
        return if found.bytes == sent.bytes { Fate::There } else { Fate::Cut(found.bytes) };
    }
    let age = Duration::from_nanos(now.0.saturating_sub(sent.stamp.0));
    let is_old = age > gone.unwrap_or(GONE);
    let replaces =
        |snapshot: &&Listed| snapshot.name.stamp > sent.stamp && (snapshot.name.instance == instance || is_old);
    if listed.iter().any(|snapshot| replaces(&snapshot)) { Fate::Cleaned } else { Fate::Missing }
}

/// The newest snapshot with our name that another process sent after `first`, the time of our first snapshot. `ours`
/// are the names that were there at the start or that we sent.
pub(crate) fn rival<'a>(
    listed: &'a [Listed],
    instance: &str,
    ours: &BTreeSet<String>,
    first: Stamp,
) -> Option<&'a Listed> {
    let is_rival = |snapshot: &&Listed| {
        snapshot.name.instance == instance && snapshot.name.stamp > first && !ours.contains(&snapshot.key)
    };
    listed.iter().filter(is_rival).max_by_key(|snapshot| snapshot.name.stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::latest::snapshots;

    fn key(instance: &str, day: &str) -> String {
        format!("main__{instance}__{day}-080000-000000000__GX.pb.gz")
    }

    fn list(names: &[(&str, &str, u64)]) -> Vec<Listed> {
        let names: Vec<_> = names.iter().map(|(instance, day, bytes)| (key(instance, day), *bytes)).collect();
        snapshots("main", names.iter().map(|(name, bytes)| (name.as_str(), *bytes)))
    }

    fn at(day: &str) -> Stamp {
        list(&[("x", day, 1)])[0].name.stamp
    }

    #[test]
    fn what_became_of_our_newest_snapshot() {
        let sent = Sent { key: key("a", "20260810"), stamp: at("20260810"), bytes: 7 };
        let (day, week) = (Duration::from_secs(86_400), None);
        for (listed, gone, now, expected) in [
            (list(&[("a", "20260810", 7)]), week, "20260810", Fate::There),
            (list(&[("a", "20260810", 6)]), week, "20260810", Fate::Cut(6)),
            (list(&[]), week, "20260810", Fate::Missing),
            (list(&[("a", "20260809", 7), ("b", "20260810", 7)]), week, "20260811", Fate::Missing),
            (list(&[("b", "20260811", 7)]), week, "20260812", Fate::Missing),
            (list(&[("a", "20260811", 7)]), week, "20260811", Fate::Cleaned),
            (list(&[("b", "20260811", 7)]), week, "20260818", Fate::Cleaned),
            (list(&[("b", "20260811", 7)]), Some(day), "20260812", Fate::Cleaned),
            (list(&[("b", "20260809", 7)]), week, "20260830", Fate::Missing),
        ] {
            assert_eq!(fate(&sent, "a", &listed, gone, at(now)), expected, "{listed:?} {gone:?} {now}");
        }
    }

    #[test]
    fn who_writes_under_our_name() {
        let ours = BTreeSet::from([key("a", "20260810"), key("a", "20260812")]);
        let first = at("20260810");
        for (listed, expected) in [
            (list(&[("a", "20260810", 1), ("a", "20260812", 1), ("b", "20260813", 1)]), None),
            (list(&[("a", "20260809", 1)]), None),
            (list(&[("a", "20260811", 1)]), Some("20260811")),
            (list(&[("a", "20260814", 1), ("a", "20260813", 1)]), Some("20260814")),
        ] {
            let found = rival(&listed, "a", &ours, first).map(|rival| rival.key.clone());
            assert_eq!(found, expected.map(|day| key("a", day)), "{listed:?}");
        }
    }
}
