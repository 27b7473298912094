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
    /// Whether a legal hold keeps the object, which has no end.
    pub held: bool,
}

/// How many of the objects are locked at `now`, and the end of the lock that ends first if all of them are.
pub(crate) fn summary(locks: &[Lock], now: Moment) -> (u64, Option<Moment>) {
    let locked = locks.iter().filter(|lock| lock.held || lock.until.is_some_and(|until| until > now)).count();
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
    fn the_lock_that_ends_first() {
        let until = |at: i64| Lock { until: Some(Moment::from_millis(at)), held: false };
        let held = Lock { until: None, held: true };
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
