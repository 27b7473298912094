//! Tables of deletions, and every small history against every promise.

use super::*;
use crate::catalog::tests::dated;

const DAY: i64 = 86_400;

fn policy() -> Retention {
    Retention {
        l0: Some(Duration::from_secs(300)),
        window: Some(Duration::from_secs(3600)),
        grace: Duration::from_secs(60),
        ..Retention::default()
    }
}

fn levels() -> Vec<LevelPolicy> {
    [30, 300].map(|interval| LevelPolicy { interval: Duration::from_secs(interval), keep: None }).to_vec()
}

fn at(seconds: i64) -> Moment {
    Moment::from_millis(seconds * 1000)
}

fn locked_for(seconds: u64) -> StoreLocks {
    StoreLocks { span: Duration::from_secs(seconds), ..StoreLocks::default() }
}

fn gone(files: &[Dated], policy: &Retention, pins: &[u64], now: i64) -> Vec<(u8, u64, u64, Why)> {
    gone_from_locked(files, policy, pins, now, 0)
}

/// The same, where each object is locked for so many seconds after it was written.
fn gone_from_locked(
    files: &[Dated],
    policy: &Retention,
    pins: &[u64],
    now: i64,
    lock: u64,
) -> Vec<(u8, u64, u64, Why)> {
    let (catalog, levels) = (Catalog::new(files.iter().copied()), levels());
    let pins: Vec<Txid> = pins.iter().map(|pin| Txid(*pin)).collect();
    let locks = locked_for(lock);
    let question = Question { catalog: &catalog, policy, levels: &levels, pins: &pins, locks: &locks };
    let removals = removals(&question, at(now));
    let next = next(&question, at(now));
    assert_eq!(next == Some(at(now)), !removals.is_empty(), "at {now} there is {removals:?}, and next {next:?}");
    let told = |r: &Removal| (r.file.level.number(), r.file.min.0, r.file.max.0, r.why);
    removals.iter().map(told).collect()
}

fn next_after(files: &[Dated], policy: &Retention, now: i64) -> Option<i64> {
    let (catalog, levels) = (Catalog::new(files.iter().copied()), levels());
    let locks = StoreLocks::default();
    next(&Question { catalog: &catalog, policy, levels: &levels, pins: &[], locks: &locks }, at(now))
        .map(|m| m.as_millis() / 1000)
}

use Why::{Merged, Outdated};

#[test]
fn level_0_goes_window_by_window() {
    let files = [
        dated(9, 1, 1, 0),
        dated(0, 2, 2, 1),
        dated(0, 3, 3, 29),
        dated(0, 4, 4, 31),
        dated(0, 5, 5, 61),
        dated(1, 2, 3, 29),
        dated(1, 4, 4, 31),
    ];
    assert_eq!(next_after(&files, &policy(), 0), Some(29 + 300 + 60));
    assert_eq!(gone(&files, &policy(), &[], 388), []);
    assert_eq!(gone(&files, &policy(), &[], 389), [(0, 2, 2, Merged), (0, 3, 3, Merged)]);
    let all = [(0, 2, 2, Merged), (0, 3, 3, Merged), (0, 4, 4, Merged)];
    assert_eq!(gone(&files, &policy(), &[], 99_999), all, "never the newest, never what is not merged");
    let kept = Retention { l0: None, ..policy() };
    assert_eq!((gone(&files, &kept, &[], 99_999), next_after(&files, &kept, 0)), (vec![], None));
    let disabled = Retention { enabled: false, ..policy() };
    assert_eq!((gone(&files, &disabled, &[], 99_999), next_after(&files, &disabled, 0)), (vec![], None));
}

/// A catch-up makes new objects from old changes. The objects that they replace stay for the grace period.
#[test]
fn what_was_merged_just_now_still_has_its_parts() {
    let late = Dated { written: at(5000), ..dated(1, 2, 3, 29) };
    let files = [dated(9, 1, 1, 0), dated(0, 2, 2, 1), dated(0, 3, 3, 29), dated(0, 4, 4, 31), late];
    assert_eq!(gone(&files, &policy(), &[], 5059), []);
    assert_eq!(gone(&files, &policy(), &[], 5060).len(), 2);
}

#[test]
fn the_window_begins_at_a_base() {
    let mut files = vec![dated(9, 1, 1, 0), dated(2, 2, 5, 900), dated(9, 1, 5, 1000), dated(2, 6, 9, 1900)];
    files.extend([dated(9, 1, 9, 2000), dated(2, 10, 12, 2500), dated(0, 12, 12, 2500)]);
    assert_eq!(gone(&files, &policy(), &[], 4659), []);
    assert_eq!(next_after(&files, &policy(), 2500), Some(1000 + 3660));
    assert_eq!(gone(&files, &policy(), &[], 4660), [(2, 2, 5, Outdated), (9, 1, 1, Outdated)]);
    let later = [(2, 2, 5, Outdated), (2, 6, 9, Outdated), (9, 1, 1, Outdated), (9, 1, 5, Outdated)];
    assert_eq!(gone(&files, &policy(), &[], 99_999), later, "the newest base and the newest of each level stay");
    let endless = Retention { window: None, ..policy() };
    assert_eq!((gone(&files, &endless, &[], 99_999), next_after(&files, &endless, 0)), (vec![], None));
}

#[test]
fn the_newest_base_and_the_only_one() {
    let one = [dated(9, 1, 1, 0), dated(0, 2, 2, 0)];
    assert_eq!((gone(&one, &policy(), &[], i64::MAX / 1000), next_after(&one, &policy(), 0)), (vec![], None));
    // Level 9 holds an object that is no complete copy. It isn't ours to delete.
    let odd = [dated(9, 2, 3, 0), dated(9, 1, 4, 0), dated(0, 5, 5, 1)];
    assert_eq!(gone(&odd, &policy(), &[], 99_999), []);
}

#[test]
fn bases_by_the_calendar() {
    // One base at noon of each day for 800 days from 2026-01-01 on.
    let start = 1_767_268_800;
    let files: Vec<Dated> =
        (0..800).map(|day| dated(9, 1, day + 1, start + i64::try_from(day).expect("small") * DAY)).collect();
    let now = start + 800 * DAY;
    let left = |policy: Retention| -> Vec<u64> {
        let gone: BTreeSet<u64> = gone(&files, &policy, &[], now).iter().map(|(_, _, max, _)| *max).collect();
        (1..=800).filter(|txid| !gone.contains(txid)).collect()
    };
    let one = Retention { window: Some(Duration::ZERO), ..policy() };
    assert_eq!(left(one.clone()), [800]);
    assert_eq!(left(Retention { minimum: 3, ..one.clone() }), [798, 799, 800]);
    assert_eq!(left(Retention { daily: 2, ..one.clone() }), [799, 800]);
    // 2028-03-10 was the last day; weeks end on Sundays, 2028-03-05 is day 795.
    assert_eq!(left(Retention { weekly: 3, ..one.clone() }), [788, 795, 800]);
    assert_eq!(left(Retention { monthly: 3, ..one.clone() }), [761, 790, 800], "2028-01-31, 2028-02-29 and the last");
    assert_eq!(left(Retention { yearly: 9, ..one.clone() }), [365, 730, 800]);
    let all = Retention { daily: 2, weekly: 2, monthly: 2, yearly: 2, ..one };
    assert_eq!(left(all), [730, 790, 795, 799, 800]);
}

#[test]
fn pins_hold_what_leads_to_them() {
    let files = [
        dated(9, 1, 1, 0),
        dated(0, 2, 2, 1),
        dated(0, 3, 3, 2),
        dated(0, 4, 4, 3),
        dated(1, 2, 4, 3),
        dated(9, 1, 4, 10),
        dated(0, 5, 5, 20),
    ];
    let outdated = [(0, 2, 2, Outdated), (0, 3, 3, Outdated), (0, 4, 4, Outdated), (9, 1, 1, Outdated)];
    assert_eq!(gone(&files, &policy(), &[], 99_999), outdated);
    assert_eq!(gone(&files, &policy(), &[3], 99_999), [(0, 4, 4, Outdated)]);
    assert_eq!(gone(&files, &policy(), &[1], 99_999), outdated[..3]);
    assert_eq!(gone(&files, &policy(), &[4, 77], 99_999), outdated, "one that can't be restored holds nothing");
}

#[test]
fn levels_keep_as_long_as_they_say() {
    let policy = Retention { window: Some(Duration::from_secs(99_999)), ..policy() };
    let levels = [(30, Some(1000)), (300, None)].map(|(interval, keep): (u64, Option<u64>)| LevelPolicy {
        interval: Duration::from_secs(interval),
        keep: keep.map(Duration::from_secs),
    });
    let files = [dated(9, 1, 1, 0), dated(1, 2, 3, 29), dated(1, 4, 6, 250), dated(2, 2, 6, 250), dated(1, 7, 7, 301)];
    let catalog = Catalog::new(files);
    let locks = StoreLocks::default();
    let question = Question { catalog: &catalog, policy: &policy, levels: &levels, pins: &[], locks: &locks };
    assert_eq!(next(&question, at(0)), Some(at(250 + 1060)));
    assert_eq!(removals(&question, at(1310)).len(), 2);
    // A level keeps its objects no shorter than the level below.
    let patient = Retention { l0: Some(Duration::from_secs(5000)), ..policy };
    assert_eq!(next(&Question { policy: &patient, ..question }, at(0)), Some(at(250 + 5060)));
}

#[test]
fn what_is_locked_stays_until_its_lock_ends() {
    let parts = [dated(9, 1, 1, 0), dated(0, 2, 2, 1), dated(0, 3, 3, 29), dated(0, 4, 4, 31), dated(1, 2, 3, 29)];
    let merged = [(0, 2, 2, Merged), (0, 3, 3, Merged)];
    for (lock, now, expected) in [
        (0, 389, &merged[..]),
        (100, 389, &merged[..]),
        (1000, 389, &[][..]),
        (1000, 29 + 1000 + 59, &[]),
        (1000, 29 + 1000 + 60, &merged),
    ] {
        assert_eq!(gone_from_locked(&parts, &policy(), &[], now, lock), expected, "locked for {lock} s, at {now}");
    }
    let mut files = vec![dated(9, 1, 1, 0), dated(2, 2, 5, 900), dated(9, 1, 5, 1000), dated(2, 6, 9, 1900)];
    files.extend([dated(9, 1, 9, 2000), dated(2, 10, 12, 2500), dated(0, 12, 12, 2500)]);
    let first = [(2, 2, 5, Outdated), (9, 1, 1, Outdated)];
    for (lock, now, expected) in [
        (3000, 4660, &first[..]),
        (4000, 4660, &[(9, 1, 1, Outdated)][..]),
        (4000, 4900, &first),
        (9000, 8999, &[]),
        (9000, 9000, &[(9, 1, 1, Outdated)]),
    ] {
        assert_eq!(gone_from_locked(&files, &policy(), &[], now, lock), expected, "locked for {lock} s, at {now}");
    }
    let catalog = Catalog::new(files.iter().copied());
    let (policy, levels, locks) = (policy(), levels(), locked_for(9000));
    let question = Question { catalog: &catalog, policy: &policy, levels: &levels, pins: &[], locks: &locks };
    assert_eq!(next(&question, at(2500)), Some(at(9000)), "it isn't looked at before");
}

/// A renewed lock, or one that was set by hand, lasts longer than the bucket's own.
#[test]
fn a_renewed_lock_keeps_an_object_and_the_objects_that_its_point_needs() {
    let catalog = |files: &[Dated]| Catalog::new(files.iter().copied());
    let (policy, levels) = (policy(), levels());
    let ends = |ends: &[(u8, u64, u64, i64)]| StoreLocks {
        span: Duration::from_secs(100),
        ends: ends.iter().map(|(level, min, max, end)| ((*level, Txid(*min), Txid(*max)), at(*end))).collect(),
    };
    let merged =
        catalog(&[dated(9, 1, 1, 0), dated(0, 2, 2, 1), dated(0, 3, 3, 29), dated(0, 4, 4, 31), dated(1, 2, 3, 29)]);
    let outdated = catalog(&[dated(9, 1, 1, 0), dated(9, 1, 5, 1000), dated(0, 6, 6, 1001)]);
    for (catalog, locks, before, due, gone) in [
        (&merged, ends(&[]), 388, 389, 2),
        (&merged, ends(&[(0, 2, 2, 5000)]), 5059, 5060, 2),
        (&merged, ends(&[(0, 3, 3, 5000)]), 5059, 5060, 2),
        (&merged, ends(&[(0, 4, 4, 5000), (1, 2, 3, 5000)]), 388, 389, 2),
        (&outdated, ends(&[]), 4659, 4660, 1),
        (&outdated, ends(&[(9, 1, 1, 9000)]), 8999, 9000, 1),
    ] {
        let question = Question { catalog, policy: &policy, levels: &levels, pins: &[], locks: &locks };
        assert_eq!(removals(&question, at(before)).len(), 0, "{locks:?} at {before}");
        assert_eq!(next(&question, at(before)), Some(at(due)), "{locks:?}");
        assert_eq!(removals(&question, at(due)).len(), gone, "{locks:?} at {due}");
    }
}
