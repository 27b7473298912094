//! Which sets may be retired? Pure: from the sets of a vault, the policy and the present. Three promises hold whatever
//! the policy:
//!
//! * The newest whole set stays, and at least `minimum` whole sets in all. A set that lost an object doesn't count
//!   towards them.
//! * Pinned sets stay.
//! * The decision only retires a set. Its objects are deleted a `grace` later, so that a restore that reads the set can
//!   finish.

use std::collections::BTreeSet;
use std::time::Duration;

use seawall_core::{Moment, Thinning};

use crate::SetId;

/// The retention policy: which sets stay. Every other set may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Whether retention is on at all.
    pub enabled: bool,
    /// Sets that aren't older than this stay; `None` keeps all.
    pub window: Option<Duration>,
    /// Which older sets stay.
    pub thinning: Thinning,
    /// How long the objects of a retired set stay.
    pub grace: Duration,
}

/// The facts about a set that retention decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub id: SetId,
    /// The moment whose state it holds.
    pub point: Moment,
    /// Whether all of its objects exist and have their sizes.
    pub whole: bool,
}

/// The sets that may be retired. `sets` are all that count, oldest first.
pub fn removals(sets: &[Candidate], pins: &[SetId], policy: &RetentionPolicy, now: Moment) -> Vec<SetId> {
    let Some(window) = policy.window.filter(|_| policy.enabled) else { return Vec::new() };
    let whole: Vec<&Candidate> = sets.iter().filter(|set| set.whole).collect();
    let Some(newest) = whole.last() else { return Vec::new() };
    let moments: Vec<Moment> = whole.iter().map(|set| set.point).collect();
    let chosen: BTreeSet<SetId> =
        policy.thinning.chosen(&moments).into_iter().filter_map(|place| whole.get(place)).map(|set| set.id).collect();
    let from = now.before(window);
    let may_go = |set: &&Candidate| {
        set.point < from && set.point < newest.point && !chosen.contains(&set.id) && !pins.contains(&set.id)
    };
    sets.iter().filter(may_go).map(|set| set.id).collect()
}

impl RetentionPolicy {
    /// The rule in words, for the record of a retirement.
    pub fn rule(&self) -> String {
        let Thinning { minimum, hourly, daily, weekly, monthly, yearly } = self.thinning;
        let mut words = match self.window {
            Some(window) => format!("keep {}s, minimum {}", window.as_secs(), minimum.max(1)),
            None => format!("keep forever, minimum {}", minimum.max(1)),
        };
        let counts =
            [("hourly", hourly), ("daily", daily), ("weekly", weekly), ("monthly", monthly), ("yearly", yearly)];
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            words.push_str(&format!(", {name} {count}"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn id(hour: i64) -> SetId {
        SetId::new(Moment::from_millis(hour * HOUR), 1)
    }

    fn sets(hours: &[i64], broken: &[i64]) -> Vec<Candidate> {
        let set = |hour: &i64| Candidate { id: id(*hour), point: id(*hour).moment(), whole: !broken.contains(hour) };
        hours.iter().map(set).collect()
    }

    fn policy(window: u64, thinning: Thinning) -> RetentionPolicy {
        let window = Some(Duration::from_secs(window * 3600));
        RetentionPolicy { enabled: true, window, thinning, grace: Duration::ZERO }
    }

    #[test]
    fn what_goes_and_what_stays() {
        let all = [0, 6, 12, 24, 30, 48];
        let few = Thinning { minimum: 1, ..Thinning::default() };
        for (what, broken, pins, policy, now, gone) in [
            ("the window", &[][..], &[][..], policy(24, few), 48, &[0, 6, 12][..]),
            ("long ago, the newest is all that is left", &[], &[], policy(24, few), 9_999, &[0, 6, 12, 24, 30]),
            ("a minimum", &[], &[], policy(1, Thinning { minimum: 3, ..few }), 999, &[0, 6, 12]),
            ("one of each day", &[], &[], policy(1, Thinning { daily: 9, ..few }), 999, &[0, 6, 24]),
            ("pins", &[], &[6, 24], policy(1, few), 999, &[0, 12, 30]),
            ("what is broken isn't counted", &[48, 30], &[], policy(1, Thinning { minimum: 2, ..few }), 999, &[0, 6]),
            ("the last good one stays", &[0, 6, 12, 30, 48], &[], policy(1, few), 999, &[0, 6, 12]),
            ("nothing is good, nothing goes", &[0, 6, 12, 24, 30, 48], &[], policy(1, few), 999, &[]),
            ("a clock that was set back", &[], &[], policy(1, few), -5, &[]),
            ("switched off", &[], &[], RetentionPolicy { enabled: false, ..policy(1, few) }, 999, &[]),
            ("for ever", &[], &[], RetentionPolicy { window: None, ..policy(1, few) }, 999, &[]),
        ] {
            let pins: Vec<SetId> = pins.iter().copied().map(id).collect();
            let removed = removals(&sets(&all, broken), &pins, &policy, id(now).moment());
            assert_eq!(removed, gone.iter().copied().map(id).collect::<Vec<_>>(), "{what}");
        }
        assert!(removals(&[], &[], &policy(1, few), Moment::default()).is_empty());
    }

    #[test]
    fn the_rule_in_words() {
        let thinning = Thinning { daily: 7, yearly: 1, ..Thinning::default() };
        assert_eq!(policy(24, thinning).rule(), "keep 86400s, minimum 1, daily 7, yearly 1");
        assert_eq!(
            RetentionPolicy { window: None, ..policy(1, thinning) }.rule(),
            "keep forever, minimum 1, daily 7, yearly 1"
        );
    }

    proptest::proptest! {
        /// Whatever the policy, the newest whole set and pinned sets stay, and a second decision on the kept sets
        /// retires none of them.
        #[test]
        fn the_newest_whole_set_and_pins_always_stay(
            hours in proptest::collection::btree_set(0_i64..400, 1..12),
            broken in proptest::collection::vec(0_usize..12, 0..6),
            pin in 0_usize..12, window in 0_u64..100, now in -10_i64..500,
            minimum in 0_u32..4, daily in 0_u32..4, monthly in 0_u32..2,
        ) {
            let hours: Vec<i64> = hours.into_iter().collect();
            let broken: Vec<i64> = broken.iter().filter_map(|place| hours.get(*place).copied()).collect();
            let sets = sets(&hours, &broken);
            let pins: Vec<SetId> = hours.get(pin).copied().map(id).into_iter().collect();
            let policy = policy(window, Thinning { minimum, daily, monthly, ..Thinning::default() });
            let now = Moment::from_millis(now * HOUR);
            let gone = removals(&sets, &pins, &policy, now);
            let newest = sets.iter().rev().find(|set| set.whole);
            proptest::prop_assert!(newest.is_none_or(|newest| !gone.contains(&newest.id)));
            proptest::prop_assert!(!pins.iter().any(|pin| gone.contains(pin)));
            proptest::prop_assert!(newest.is_some() || gone.is_empty());
            let left: Vec<Candidate> = sets.iter().copied().filter(|set| !gone.contains(&set.id)).collect();
            proptest::prop_assert!(removals(&left, &pins, &policy, now).is_empty());
        }
    }
}
