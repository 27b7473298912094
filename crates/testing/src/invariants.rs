//! The invariants of a database's vault (`docs/design.md`) as one pure function. From a vault's content, the reported
//! positions and the restored state it finds the invariants that don't hold. It knows only names and bytes of objects,
//! so the model, the tests of faults and the tests of the real binary can all use it, with a store in memory, a folder
//! or a bucket.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;

/// The objects of a vault at one moment: a hash of its bytes for each name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    objects: BTreeMap<String, u64>,
}

impl Look {
    /// Takes the transactions and recorded holes of these objects. Other objects have rules of their own.
    pub fn of<B: AsRef<[u8]>>(objects: impl IntoIterator<Item = (String, B)>) -> Self {
        let counts = objects.into_iter().filter(|(name, _)| transactions(name).is_some() || hole(name).is_some());
        Self { objects: counts.map(|(name, bytes)| (name, hash(bytes.as_ref()))).collect() }
    }

    /// The objects of a vault that is a folder.
    ///
    /// # Panics
    /// When the folder can't be read, other than by objects that go in the meantime.
    pub fn of_folder(root: &Path) -> Self {
        let (mut objects, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries {
                let path = entry.expect("an entry of the vault").path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(bytes) = std::fs::read(&path) {
                    let name = path.strip_prefix(root).expect("below the vault").display().to_string();
                    objects.push((name, bytes));
                }
            }
        }
        Self::of(objects)
    }

    /// The newest TXID that a restore can reach: a complete copy and the unbroken sequence after it.
    fn reach(&self) -> Option<u64> {
        let ranges: Vec<(u64, u64)> = self.objects.keys().filter_map(|name| transactions(name)).collect();
        let mut reach = ranges.iter().filter(|(min, _)| *min == 1).map(|(_, max)| *max).max()?;
        while let Some(next) = ranges.iter().filter(|(min, _)| *min <= reach + 1).map(|(_, max)| *max).max()
            && next > reach
        {
            reach = next;
        }
        Some(reach)
    }

    fn holes(&self) -> BTreeSet<u64> {
        self.objects.keys().filter_map(|name| hole(name)).collect()
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The first and the last TXID of an object of transactions, by its name in a folder or in a bucket.
fn transactions(name: &str) -> Option<(u64, u64)> {
    let (_, file) = name.rsplit_once('/')?;
    let (min, max) = file.strip_suffix(".ltx")?.split_once('-')?;
    Some((u64::from_str_radix(min, 16).ok()?, u64::from_str_radix(max, 16).ok()?))
}

/// The TXID at which a recorded hole ends.
fn hole(name: &str) -> Option<u64> {
    let (_, file) = name.split_once("seawall/holes/")?;
    u64::from_str_radix(file.strip_suffix(".json")?, 16).ok()
}

/// What became of a file that a restore was to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Whether a file had the name before.
    pub existed: bool,
    /// Whether the restore was to replace it.
    pub forced: bool,
    /// Whether the restore ended well.
    pub restored: bool,
    /// Whether the file is unchanged, or still missing.
    pub untouched: bool,
}

/// The observations of a vault and of the engine's reports.
#[derive(Debug, Default)]
pub struct Seen<'a> {
    /// An earlier look.
    pub before: Option<&'a Look>,
    /// The vault now.
    pub now: Look,
    /// The newest TXID that was ever reported as protected.
    pub reported: Option<u64>,
    /// The state that was recorded when `reported` was reported, and the state of the newest restore. Numbered in the
    /// order in which the database had them.
    pub states: Option<(u64, u64)>,
    /// The holes in a timeline, by the TXIDs at which they end.
    pub told_holes: Option<BTreeSet<u64>>,
    /// The effect of a restore on its target.
    pub target: Option<Target>,
    /// TXIDs of objects that the test itself took away.
    pub taken_away: BTreeSet<u64>,
}

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number in `docs/design.md`.
    pub invariant: &'static str,
    /// The observation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Which invariants do not hold.
pub fn violations(seen: &Seen<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violated = |invariant, what| found.push(Violation { invariant, what });
    if let Some(reported) = seen.reported.filter(|reported| *reported > 0 && !seen.taken_away.contains(reported)) {
        let reach = seen.now.reach();
        // After an object that the test took away, the engine continues with a base. Until then no TXID is reachable.
        if reach.is_none_or(|reach| reach < reported) && seen.taken_away.is_empty() {
            violated("I1", format!("TXID {reported:x} was told to be protected, and {reach:x?} is reached"));
        }
    }
    if let Some((recorded, restored)) = seen.states.filter(|(recorded, restored)| restored < recorded) {
        violated("I1", format!("state {recorded} was told to be protected, and state {restored} is restored"));
    }
    for (name, bytes) in seen.before.iter().flat_map(|look| &look.objects) {
        let taken_away = transactions(name).is_some_and(|(_, max)| seen.taken_away.contains(&max));
        if !taken_away && seen.now.objects.get(name).is_some_and(|now| now != bytes) {
            violated("I2", format!("{name} has other bytes than before"));
        }
    }
    if let Some(told) = &seen.told_holes {
        for hole in seen.now.holes() {
            if seen.now.reach().is_some_and(|reach| hole <= reach) && !told.contains(&hole) {
                violated("I3", format!("the hole that ends at TXID {hole:x} is recorded, and no timeline tells it"));
            }
        }
    }
    if let Some(Target { existed, forced, restored, untouched }) = seen.target {
        if !restored && !untouched {
            violated("I8", "a restore that failed left its target otherwise than it was".to_owned());
        }
        if restored && existed && !forced {
            violated("I8", "a restore replaced a file without being told to".to_owned());
        }
    }
    found
}

/// Insists that all invariants hold.
///
/// # Panics
/// When one doesn't.
pub fn check(seen: &Seen<'_>) {
    let found = violations(seen);
    assert!(found.is_empty(), "{}", found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(level: u8, min: u64, max: u64) -> String {
        format!("{level:04x}/{min:016x}-{max:016x}.ltx")
    }

    fn look(objects: &[(String, &str)]) -> Look {
        Look::of(objects.iter().cloned())
    }

    fn broken(seen: &Seen<'_>) -> Vec<&'static str> {
        violations(seen).into_iter().map(|violation| violation.invariant).collect()
    }

    #[test]
    fn what_was_reported_is_reached() {
        let base = || (name(9, 1, 1), "base");
        let whole = || look(&[base(), (name(0, 2, 2), "two"), (name(1, 3, 5), "merged")]);
        let gap = || look(&[base(), (name(0, 3, 3), "three")]);
        for (now, reported, taken_away, expected) in [
            (whole(), 5, vec![], vec![]),
            (whole(), 6, vec![], vec!["I1"]),
            (whole(), 6, vec![6], vec![]),
            (gap(), 3, vec![], vec!["I1"]),
            (gap(), 1, vec![], vec![]),
            (Look::default(), 1, vec![], vec!["I1"]),
            (Look::default(), 0, vec![], vec![]),
        ] {
            let taken_away = taken_away.into_iter().collect();
            let seen = Seen { now, reported: Some(reported), taken_away, ..Seen::default() };
            assert_eq!(broken(&seen), expected, "{seen:?}");
        }
        for (states, expected) in [((3, 3), vec![]), ((3, 4), vec![]), ((3, 2), vec!["I1"])] {
            assert_eq!(broken(&Seen { states: Some(states), ..Seen::default() }), expected);
        }
    }

    #[test]
    fn names_keep_their_bytes() {
        let before =
            look(&[(name(0, 2, 2), "two"), (name(0, 3, 3), "three"), ("seawall/holes/4.json".into(), "a hole")]);
        for (now, taken_away, expected) in [
            (before.clone(), vec![], vec![]),
            (look(&[(name(0, 3, 3), "three")]), vec![], vec![]),
            (look(&[(name(0, 3, 3), "other")]), vec![], vec!["I2"]),
            (look(&[(name(0, 3, 3), "other")]), vec![3], vec![]),
            (look(&[("seawall/holes/4.json".into(), "another")]), vec![], vec!["I2"]),
            (look(&[("seawall/pins/4.json".into(), "another")]), vec![], vec![]),
        ] {
            let taken_away = taken_away.into_iter().collect();
            let seen = Seen { before: Some(&before), now, taken_away, ..Seen::default() };
            assert_eq!(broken(&seen), expected, "{seen:?}");
        }
    }

    #[test]
    fn a_recorded_hole_is_told() {
        let now = || look(&[(name(9, 1, 4), "base"), ("seawall/holes/0000000000000004.json".into(), "a hole")]);
        for (told, expected) in [(vec![4], vec![]), (vec![], vec!["I3"])] {
            let seen = Seen { now: now(), told_holes: Some(told.into_iter().collect()), ..Seen::default() };
            assert_eq!(broken(&seen), expected);
        }
    }

    #[test]
    fn a_restore_destroys_nothing() {
        for (existed, forced, restored, untouched, expected) in [
            (false, false, true, false, vec![]),
            (true, true, true, false, vec![]),
            (true, false, true, false, vec!["I8"]),
            (true, true, false, true, vec![]),
            (true, true, false, false, vec!["I8"]),
            (false, false, false, true, vec![]),
        ] {
            let target = Some(Target { existed, forced, restored, untouched });
            assert_eq!(broken(&Seen { target, ..Seen::default() }), expected, "{target:?}");
        }
    }
}
