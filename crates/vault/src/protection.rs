//! What a store itself does against changes of its objects: versions and locks.

use std::fmt;
use std::time::Duration;

use seawall_core::Moment;

/// Who may shorten a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Nobody.
    Compliance,
    /// Credentials with the right to bypass it.
    Governance,
}

impl LockMode {
    /// The name that a store has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compliance => "COMPLIANCE",
            Self::Governance => "GOVERNANCE",
        }
    }

    /// The mode that a store names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "COMPLIANCE" => Some(Self::Compliance),
            "GOVERNANCE" => Some(Self::Governance),
            _ => None,
        }
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compliance => "compliance",
            Self::Governance => "governance",
        })
    }
}

/// What a place does against changes of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protection {
    /// Whether it keeps the earlier versions of an object; `None` if it doesn't say.
    pub versions: Option<bool>,
    /// Whether its objects may have locks; `None` if it doesn't say.
    pub locks: Option<bool>,
    /// How long it locks each new object, and how.
    pub each: Option<(LockMode, Duration)>,
}

impl Protection {
    /// How long each object is locked after it was written.
    pub fn span(&self) -> Duration {
        self.each.map_or(Duration::ZERO, |(_, span)| span)
    }

    /// What two places that hold the same do together: the longer lock counts, and versions only where both keep them.
    pub(crate) fn with(self, other: Self) -> Self {
        let known = |one: Option<bool>, other: Option<bool>, together: fn(bool, bool) -> bool| match (one, other) {
            (Some(one), Some(other)) => Some(together(one, other)),
            _ => None,
        };
        Self {
            versions: known(self.versions, other.versions, |one, other| one && other),
            locks: if self.locks == Some(true) || other.locks == Some(true) {
                Some(true)
            } else {
                known(self.locks, other.locks, |one, other| one || other)
            },
            each: if self.span() < other.span() { other.each } else { self.each },
        }
    }

    /// Whether there is anything to tell.
    pub fn is_some(&self) -> bool {
        self.versions == Some(true) || self.locks == Some(true)
    }
}

/// The lock of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lock {
    /// When it ends; `None` if there is none, or it isn't told.
    pub until: Option<Moment>,
    /// Who may shorten it.
    pub mode: Option<LockMode>,
    /// Whether a legal hold keeps the object, which has no end.
    pub held: bool,
}

impl Lock {
    /// The locks of two copies of an object as one, which ends with the last.
    pub(crate) fn with(self, other: Self) -> Self {
        let later = if self.until < other.until { other } else { self };
        Self { held: self.held || other.held, ..later }
    }

    /// Whether the object can't be deleted at `now`.
    pub fn holds(&self, now: Moment) -> bool {
        self.held || self.until.is_some_and(|until| until > now)
    }

    /// The lock to set, so that the object stays locked for at least `keep` from each moment of the next day on; `None` if its lock
    /// does that. Locks are looked at once a day.
    ///
    /// The mode stays. An object without a lock gets one that credentials with the right to bypass it may end
    /// (governance): an end that no credentials can bring forward is the bucket's owner's decision. The new end lies
    /// behind what is asked, so that an object isn't renewed every day.
    pub(crate) fn renewed(&self, keep: Duration, now: Moment) -> Option<(LockMode, Moment)> {
        let least = now.after(keep).after(AHEAD);
        let lasts = self.until.is_some_and(|until| until >= least);
        (!lasts).then(|| (self.mode.unwrap_or(LockMode::Governance), whole_seconds(least.after(AHEAD.max(keep / 8)))))
    }
}

/// A moment in whole seconds, as stores have ends of locks; rounded up.
fn whole_seconds(at: Moment) -> Moment {
    Moment::from_millis(at.as_millis().saturating_add(999).div_euclid(1000).saturating_mul(1000))
}

/// How far behind the asked end a lock ends at least: locks are looked at once a day.
const AHEAD: Duration = Duration::from_secs(24 * 3600);

/// How many of the objects are locked at `now`, and the end of the lock that ends first if all of them are.
pub(crate) fn summary(locks: &[Lock], now: Moment) -> (u64, Option<Moment>) {
    let locked = locks.iter().filter(|lock| lock.holds(now)).count();
    let ends = locks.iter().filter(|lock| !lock.held).filter_map(|lock| lock.until);
    let until = if locked == locks.len() { ends.min() } else { None };
    (u64::try_from(locked).unwrap_or(u64::MAX), until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_together() {
        let days = |days: u64| Some((LockMode::Governance, Duration::from_secs(days * 86_400)));
        let place = |versions, locks, each| Protection { versions, locks, each };
        for (one, other, together) in [
            (place(Some(true), Some(true), days(3)), place(None, None, None), place(None, Some(true), days(3))),
            (place(Some(true), None, days(3)), place(Some(true), None, days(5)), place(Some(true), None, days(5))),
            (
                place(Some(true), Some(false), None),
                place(Some(false), Some(false), None),
                place(Some(false), Some(false), None),
            ),
        ] {
            assert_eq!(one.with(other), together);
            assert_eq!(other.with(one), together);
        }
    }

    #[test]
    fn locks_that_are_renewed() {
        use LockMode::{Compliance, Governance};
        let day = |days: i64| Moment::from_millis(days * 86_400_000);
        let lock = |until: Option<i64>, mode| Lock { until: until.map(day), mode, held: false };
        let keep = Duration::from_secs(40 * 86_400);
        for (before, expected) in [
            (Lock::default(), Some((Governance, 146))),
            (Lock { held: true, ..Lock::default() }, Some((Governance, 146))),
            (lock(Some(99), Some(Compliance)), Some((Compliance, 146))),
            (lock(Some(140), Some(Governance)), Some((Governance, 146))),
            (lock(Some(141), Some(Compliance)), None),
            (lock(Some(999), Some(Governance)), None),
        ] {
            assert_eq!(before.renewed(keep, day(100)), expected.map(|(mode, end)| (mode, day(end))), "{before:?}");
        }
        let uneven = Lock::default().renewed(keep, Moment::from_millis(1)).map(|(_, end)| end.as_millis() % 1000);
        assert_eq!(uneven, Some(0), "whole seconds");
        let short = Duration::from_secs(86_400);
        assert_eq!(Lock::default().renewed(short, day(1)), Some((Governance, day(4))), "two days ahead at least");
    }

    #[test]
    fn copies_of_an_object_are_locked_until_the_last_lock_ends() {
        let until = |at: i64, mode| Lock { until: Some(Moment::from_millis(at)), mode: Some(mode), held: false };
        let held = Lock { held: true, ..Lock::default() };
        let (one, other) = (until(1, LockMode::Compliance), until(2, LockMode::Governance));
        assert_eq!(one.with(other), other);
        assert_eq!(other.with(one), other);
        assert_eq!(held.with(one), Lock { held: true, ..one });
        assert_eq!(Lock::default().with(Lock::default()), Lock::default());
    }

    #[test]
    fn the_lock_that_ends_first() {
        let until = |at: i64| Lock { until: Some(Moment::from_millis(at)), ..Lock::default() };
        let held = Lock { held: true, ..Lock::default() };
        for (locks, expected) in [
            (&[][..], (0, None)),
            (&[until(20), until(15)][..], (2, Some(15))),
            (&[until(20), until(10)][..], (1, None)),
            (&[until(20), Lock::default()][..], (1, None)),
            (&[held, until(30)][..], (2, Some(30))),
            (&[held][..], (1, None)),
        ] {
            let (locked, until) = summary(locks, Moment::from_millis(10));
            assert_eq!((locked, until.map(Moment::as_millis)), expected, "{locks:?}");
        }
    }
}
