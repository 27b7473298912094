//! Which objects of a database should not be in its vault?
//!
//! Three kinds. No instance reads an object whose name begins as a snapshot's does and is none. A snapshot that its instance has a newer one
//! of, and the last snapshot of an instance that is gone, may be deleted (`retention.rs`), and a process with a `cleanup` deletes them. That
//! process counts from when it first saw a snapshot, so a day more is granted than it needs. The store's own time counts here.
//!
//! The decision is pure and reads a listing once, in the order of the names; one page is in memory.

use std::time::Duration;

use futures::TryStreamExt as _;
use seawall_core::Moment;
use seawall_vault::{Entry, ObjectKey, Prefix, Vault};

use crate::Stamp;
use crate::error::Error;
use crate::peers::listing::MOST;
use crate::peers::misdated::is_ahead;
use crate::peers::retention::{Retention, UPLOAD};
use crate::restore::plan::moment;
use crate::snapshot::SnapshotName;

/// How much longer than the rules say a snapshot may stay: a process that begins anew counts anew.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// Snapshots whose locks are asked for, and last snapshots of instances that are remembered.
const ASKED: usize = 100;

/// How this host deletes snapshots.
#[derive(Debug, Clone, Copy)]
pub struct Cleaner<'a> {
    /// The rules.
    pub rules: Retention,
    /// The name of its instance in names of snapshots.
    pub instance: &'a str,
    /// Whether it merges the snapshots of others. Otherwise their last ones stay.
    pub receives: bool,
}

/// Why an object should not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is named like a snapshot of the database, and is none.
    Strange,
    /// Its name has a moment of the future: the clock of its host was wrong.
    Misdated,
    /// Its instance has had a newer snapshot for longer than snapshots stay.
    Newer,
    /// It is the last snapshot of an instance that is gone.
    Gone,
}

/// Objects that should not be there for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphans {
    /// The reason.
    pub why: Why,
    /// The name of the first.
    pub first: String,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Objects of a database that should not be in its vault. `cleaner` is `None` where this host deletes no snapshots.
///
/// # Errors
/// When the vault can't be listed, or can't be asked which objects it locks.
pub async fn orphans(
    vault: &Vault,
    database: &str,
    cleaner: Option<Cleaner<'_>>,
    now: Moment,
) -> Result<Vec<Orphans>, Error> {
    let lock = if cleaner.is_some() { vault.protection().await?.span() } else { Duration::ZERO };
    let mut look = Look::new(database, cleaner, lock, now);
    let prefix = SnapshotName::prefix(database);
    let after = ObjectKey::new(prefix.get(..prefix.len() - 1).unwrap_or_default())?;
    let mut entries = Box::pin(vault.entries_up_to(&Prefix::all(), Some(&after), MOST));
    while let Some(entry) = entries.try_next().await? {
        if entry.key.as_str().starts_with(&prefix) {
            look.take(&entry);
        } else if entry.key.as_str() > prefix.as_str() {
            break;
        }
    }
    let mut found = Vec::new();
    for group in look.end() {
        found.extend(unlocked(vault, group, now).await?);
    }
    Ok(found)
}

/// The group without the objects that the store still locks, as far as it is asked.
async fn unlocked(vault: &Vault, group: Group, now: Moment) -> Result<Option<Orphans>, Error> {
    let Group { why, mut objects, count, bytes } = group;
    let keys = objects.iter().map(|(key, _)| ObjectKey::new(key)).collect::<Result<Vec<_>, _>>()?;
    let ends = vault.locked_until(&keys, now).await?;
    let asked = objects.len();
    let mut ends = ends.into_iter();
    objects.retain(|_| ends.next().flatten().is_none());
    // If some are locked, nothing is said of those that weren't asked for.
    let (count, bytes) = match objects.len() == asked {
        true => (count, bytes),
        false => (objects.len() as u64, objects.iter().map(|(_, bytes)| bytes).sum()),
    };
    Ok(objects.into_iter().next().map(|(first, _)| Orphans { why, first, count, bytes }))
}

/// Objects of one kind: the first ones, and the sum of all.
#[derive(Debug)]
struct Group {
    why: Why,
    objects: Vec<(String, u64)>,
    count: u64,
    bytes: u64,
}

impl Group {
    fn new(why: Why) -> Self {
        Self { why, objects: Vec::new(), count: 0, bytes: 0 }
    }

    fn add(&mut self, key: &str, bytes: u64) {
        if self.objects.len() < ASKED {
            self.objects.push((key.to_owned(), bytes));
        }
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// A snapshot of the listing.
#[derive(Debug)]
struct Seen {
    key: String,
    name: SnapshotName,
    bytes: u64,
}

/// A listing as far as it was read.
#[derive(Debug)]
struct Look<'a> {
    database: &'a str,
    cleaner: Option<Cleaner<'a>>,
    lock: Duration,
    now: Moment,
    strange: Group,
    misdated: Group,
    newer: Group,
    /// The last snapshots of instances that are gone.
    lasts: Vec<Seen>,
    /// The newest snapshot of this host's own instance.
    own: Option<Stamp>,
    before: Option<Seen>,
}

impl<'a> Look<'a> {
    fn new(database: &'a str, cleaner: Option<Cleaner<'a>>, lock: Duration, now: Moment) -> Self {
        let [strange, misdated, newer] = [Why::Strange, Why::Misdated, Why::Newer].map(Group::new);
        Self { database, cleaner, lock, now, strange, misdated, newer, lasts: Vec::new(), own: None, before: None }
    }

    fn take(&mut self, entry: &Entry) {
        let key = entry.key.as_str();
        let Some(name) = SnapshotName::parse(key).filter(|name| name.database == self.database) else {
            // A folder of that name may be another vault.
            if !key.contains('/') {
                self.strange.add(key, entry.size);
            }
            return;
        };
        // It would be the newest of its instance.
        if is_ahead(moment(name.stamp), entry.written, self.now, GRACE) {
            self.misdated.add(key, entry.size);
            return;
        }
        let seen = Seen { key: key.to_owned(), name, bytes: entry.size };
        match self.before.replace(seen) {
            Some(before) if self.before.as_ref().is_some_and(|seen| seen.name.instance == before.name.instance) => {
                self.superseded(&before, entry.written);
            }
            Some(last) => self.last(last),
            None => {}
        }
    }

    /// A snapshot whose successor was written then.
    fn superseded(&mut self, before: &Seen, successor: Moment) {
        let Some(Cleaner { rules, .. }) = self.cleaner else { return };
        let stays = rules.keep.saturating_add(rules.interval).saturating_add(GRACE);
        if self.now.since(successor) > stays && self.is_unlocked(before) {
            self.newer.add(&before.key, before.bytes);
        }
    }

    /// The last snapshot of an instance.
    fn last(&mut self, last: Seen) {
        let Some(Cleaner { rules, instance, receives }) = self.cleaner else { return };
        if last.name.instance == instance {
            self.own = Some(last.name.stamp);
        } else if receives
            && self.lasts.len() < ASKED
            && self.age(&last) > rules.gone.saturating_add(rules.interval).saturating_add(GRACE)
            && self.is_unlocked(&last)
        {
            self.lasts.push(last);
        }
    }

    fn end(mut self) -> Vec<Group> {
        if let Some(last) = self.before.take() {
            self.last(last);
        }
        let mut gone = Group::new(Why::Gone);
        let rules = self.cleaner.map(|cleaner| cleaner.rules);
        // Before this host sends a snapshot with its content, it stays.
        let is_held = |last: &&Seen| {
            let own = self.own.zip(rules).map(|(own, rules)| own.0.saturating_sub(nanos(rules.gone)));
            own.is_some_and(|own| own > last.name.stamp.0)
        };
        self.lasts.iter().filter(is_held).for_each(|last| gone.add(&last.key, last.bytes));
        [self.strange, self.misdated, self.newer, gone].into_iter().filter(|group| group.count > 0).collect()
    }

    fn age(&self, seen: &Seen) -> Duration {
        let now = u64::try_from(self.now.as_millis()).unwrap_or(0).saturating_mul(1_000_000);
        Duration::from_nanos(now.saturating_sub(seen.name.stamp.0))
    }

    fn is_unlocked(&self, seen: &Seen) -> bool {
        self.lock.is_zero() || self.age(seen) > self.lock.saturating_add(UPLOAD)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const RULES: Retention = Retention {
        interval: Duration::from_secs(300),
        keep: Duration::from_secs(600),
        gone: Duration::from_secs(7 * 86_400),
    };

    fn now() -> Moment {
        "2026-08-20T08:00:00Z".parse().expect("RFC 3339")
    }

    fn key(instance: &str, day: &str) -> String {
        format!("main__{instance}__202608{day}-080000-000000000__GX.pb.gz")
    }

    /// What is found among objects that were written so many days ago.
    fn found(objects: &[(String, u32)], cleaner: Option<Cleaner<'_>>, lock: Duration) -> Vec<(Why, String, u64)> {
        let mut look = Look::new("main", cleaner, lock, now());
        let mut objects = objects.to_vec();
        objects.sort();
        for (key, days) in &objects {
            let written = now().before(DAY * *days);
            let key = ObjectKey::new(key).expect("a key");
            look.take(&Entry { key, size: 10, modified: written, written, tag: None });
        }
        look.end().into_iter().map(|group| (group.why, group.objects[0].0.clone(), group.count)).collect()
    }

    #[test]
    fn what_should_not_be_there() {
        let a = |receives| Some(Cleaner { rules: RULES, instance: "a", receives });
        let own = || vec![(key("a", "19"), 1), (key("a", "20"), 0)];
        let with = |more: &[(String, u32)]| [own(), more.to_vec()].concat();
        let strange = || ("main__b.pb.gz".to_owned(), 1);
        for (objects, cleaner, lock, expected) in [
            (vec![], a(true), 0, vec![]),
            // The newer one is seen for less than a day.
            (own(), a(true), 0, vec![]),
            (with(&[(key("b", "17"), 3), (key("b", "18"), 2)]), a(true), 0, vec![(Why::Newer, key("b", "17"), 1)]),
            (
                with(&[(key("b", "15"), 5), (key("b", "16"), 4), (key("b", "18"), 2)]),
                a(false),
                0,
                vec![(Why::Newer, key("b", "15"), 2)],
            ),
            // It was copied here a moment ago.
            (with(&[(key("b", "15"), 0), (key("b", "16"), 0)]), a(true), 0, vec![]),
            (with(&[(key("b", "17"), 3), (key("b", "18"), 2)]), a(true), 5, vec![]),
            (with(&[(key("b", "17"), 3), (key("b", "18"), 2)]), None, 0, vec![]),
            // An instance that is gone, and one that isn't gone yet.
            (with(&[(key("b", "11"), 9), (key("c", "13"), 7)]), a(true), 0, vec![(Why::Gone, key("b", "11"), 1)]),
            (with(&[(key("b", "11"), 9)]), a(false), 0, vec![]),
            (with(&[(key("b", "11"), 9)]), a(true), 30, vec![]),
            // This host sent nothing since.
            (vec![(key("a", "12"), 8), (key("b", "11"), 9)], a(true), 0, vec![]),
            (vec![(key("b", "11"), 9)], a(true), 0, vec![]),
            // The clock was wrong. It is the newest of no instance.
            (
                with(&[("main__a__20270816-080000-000000000__GX.pb.gz".to_owned(), 2)]),
                a(true),
                0,
                vec![(Why::Misdated, "main__a__20270816-080000-000000000__GX.pb.gz".to_owned(), 1)],
            ),
            // What no instance reads, and another vault's.
            (with(&[strange()]), None, 0, vec![(Why::Strange, strange().0, 1)]),
            (with(&[("main__x/main__y".to_owned(), 5)]), None, 0, vec![]),
        ] {
            assert_eq!(found(&objects, cleaner, DAY * lock), expected, "{objects:?} {cleaner:?} {lock}");
        }
    }

    #[test]
    fn a_listing_without_end_takes_no_memory() {
        let objects: Vec<_> =
            (0..500).map(|n| (format!("main__b__2026081{}-080000-{n:09}__GX.pb.gz", n / 100), 5)).collect();
        let cleaner = Some(Cleaner { rules: RULES, instance: "a", receives: true });
        let mut look = Look::new("main", cleaner, Duration::ZERO, now());
        for (key, days) in &objects {
            let written = now().before(DAY * *days);
            look.take(&Entry {
                key: ObjectKey::new(key).expect("a key"),
                size: 10,
                modified: written,
                written,
                tag: None,
            });
        }
        let [group] = &look.end()[..] else { panic!("one kind") };
        assert_eq!((group.objects.len(), group.count, group.bytes), (ASKED, 499, 4990));
    }
}
