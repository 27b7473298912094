//! The decisions of several vaults, without any I/O: how long a vault is waited for, whose fault an error is, and which
//! vault leads after a start.

use std::time::Duration;

use crate::Error;

/// How long a write may take in one vault after another vault has the object, beside the time for its bytes.
const GRACE: Duration = Duration::from_secs(2);

/// The slowest transfer that a vault is waited for, in bytes per second, while another vault has the object.
const SLOW: u64 = 512 << 10;

/// How long a vault that is asked first is waited for alone, and how long every other is waited for once one has the
/// object.
pub(crate) fn grace(bytes: u64) -> Duration {
    GRACE + Duration::from_millis(bytes.saturating_mul(1000) / SLOW)
}

/// Whether an error says that a vault is in trouble. The other errors are answers about an object.
pub(crate) fn is_trouble(error: &Error) -> bool {
    !matches!(
        error,
        Error::NotFound { .. }
            | Error::AlreadyExists { .. }
            | Error::Precondition { .. }
            | Error::OutOfRange { .. }
            | Error::TooLarge { .. }
            | Error::InvalidKey { .. }
    )
}

/// The error that stands for those of all vaults: one that is worth another attempt, otherwise that of the first.
pub(crate) fn representative(errors: Vec<Error>) -> Option<Error> {
    let retryable = errors.iter().find(|error| error.is_retryable()).cloned();
    retryable.or_else(|| errors.into_iter().next())
}

/// What is known of a vault when the names of all were compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// Whether the record of an earlier process says that it held everything; `None` where it doesn't know the vault.
    pub(crate) recorded: Option<bool>,
    /// Whether it keeps what is deleted in the others.
    pub(crate) keeps: bool,
    /// What was seen of it; `None` when it could not be reached.
    pub(crate) seen: Option<Seen>,
}

/// How the names in a vault compare with those in each of the others, itself included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    /// How many objects the other has, and this one hasn't.
    pub(crate) lacks: Vec<u64>,
    /// How many objects both have, with different sizes.
    pub(crate) differs: Vec<u64>,
    /// Whether this one has a name in some folder that is greater than all of the other's there. Names within a folder
    /// grow with time in every format of ours.
    pub(crate) ahead: Vec<bool>,
}

/// Which vault leads after a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lead {
    /// This one. `in_step` says which others hold the same; `sure` is false when no vault holds everything that the
    /// others do, and none is clearly the newest.
    By {
        /// Its number.
        leader: usize,
        /// For each vault whether it is in step.
        in_step: Vec<bool>,
        /// Whether the facts leave no doubt.
        sure: bool,
    },
    /// None: every vault that may lead is away.
    Nobody,
}

/// Decides which vault leads. A vault that was behind when an earlier process ended never leads, and neither does one
/// that the record doesn't know, unless there is no record at all. Among the others the one leads that is ahead of all;
/// otherwise the first that has all names of the others. What a vault keeps for itself doesn't count.
///
/// `damaged`: there is a record, and it can't be read. Then a vault that is away may be the only one that holds everything, so
/// none leads without it.
pub(crate) fn lead(facts: &[Fact], damaged: bool) -> Lead {
    if damaged && facts.iter().any(|fact| fact.seen.is_none()) {
        return Lead::Nobody;
    }
    let unrecorded = facts.iter().all(|fact| fact.recorded.is_none());
    let may_lead = |fact: &Fact| fact.seen.is_some() && (unrecorded || fact.recorded == Some(true));
    let eligible: Vec<usize> = (0..facts.len()).filter(|i| facts.get(*i).is_some_and(may_lead)).collect();
    let seen = |i: usize| facts.get(i).and_then(|fact| fact.seen.as_ref());
    let lacks = |i: usize, j: usize| seen(i).and_then(|seen| seen.lacks.get(j)).copied().unwrap_or(0);
    let differs = |i: usize, j: usize| seen(i).and_then(|seen| seen.differs.get(j)).copied().unwrap_or(0);
    let ahead = |i: usize, j: usize| seen(i).and_then(|seen| seen.ahead.get(j)).copied().unwrap_or(false);
    let Some(first) = eligible.first().copied() else { return Lead::Nobody };
    let keeps = |i: usize| facts.get(i).is_some_and(|fact| fact.keeps);
    let whole = |i: &usize| !keeps(*i) && eligible.iter().all(|j| keeps(*j) || lacks(*i, *j) == 0);
    let whole = eligible.iter().copied().find(whole);
    let newest =
        eligible.iter().copied().find(|i| eligible.iter().all(|j| i == j || (ahead(*i, *j) && !ahead(*j, *i))));
    let (leader, sure) = match newest.or(whole) {
        Some(leader) => (leader, true),
        None => (first, false),
    };
    let in_step = (0..facts.len())
        .map(|i| {
            let more = !keeps(i) && lacks(leader, i) > 0;
            let equal = lacks(i, leader) == 0 && !more && differs(i, leader) == 0;
            i == leader || (equal && eligible.contains(&i))
        })
        .collect();
    Lead::By { leader, in_step, sure }
}

/// What to do with an object that a vault has under a name under which the leading vault has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clash {
    /// Replace it: it is an unfinished write of ours, or an object that we write over.
    Replace,
    /// Leave it and report it: it is another writer's.
    Report,
}

/// Decides about an object with other content, by what this process and its record know of the name.
pub(crate) fn clash(unfinished: bool, overwritten: bool) -> Clash {
    if unfinished || overwritten { Clash::Replace } else { Clash::Report }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_bytes() {
        for (bytes, seconds) in [(0, 2), (512 << 10, 3), (8 << 20, 18)] {
            assert_eq!(grace(bytes), Duration::from_secs(seconds), "{bytes}");
        }
    }

    #[test]
    fn errors_about_objects_are_no_trouble() {
        let object = || "x".to_owned();
        let away = |retryable| Error::Unavailable { object: object(), cause: String::new(), retryable };
        let denied = Error::Denied { object: object(), cause: String::new() };
        for (error, trouble) in [
            (Error::NotFound { object: object() }, false),
            (Error::AlreadyExists { object: object() }, false),
            (Error::Precondition { object: object() }, false),
            (Error::Timeout { object: object(), after: GRACE }, true),
            (denied.clone(), true),
            (Error::Vanished { object: object(), cause: String::new() }, true),
            (away(true), true),
        ] {
            assert_eq!(is_trouble(&error), trouble, "{error}");
        }
        assert_eq!(representative(vec![denied.clone(), away(true)]), Some(away(true)));
        assert_eq!(representative(vec![denied.clone(), away(false)]), Some(denied));
        assert_eq!(representative(Vec::new()), None);
    }

    /// A vault that was seen, beside one other.
    fn seen(recorded: Option<bool>, at: usize, lacks: u64, ahead: bool) -> Fact {
        let other = 1 - at;
        let mut seen = Seen { lacks: vec![0; 2], differs: vec![0; 2], ahead: vec![false; 2] };
        seen.lacks[other] = lacks;
        seen.ahead[other] = ahead;
        Fact { recorded, keeps: false, seen: Some(seen) }
    }

    fn away(recorded: Option<bool>) -> Fact {
        Fact { recorded, keeps: false, seen: None }
    }

    fn by(leader: usize, in_step: [bool; 2], sure: bool) -> Lead {
        Lead::By { leader, in_step: in_step.to_vec(), sure }
    }

    #[test]
    fn who_leads() {
        let (yes, no) = (Some(true), Some(false));
        for (what, facts, expected) in [
            ("both are equal", [seen(yes, 0, 0, false), seen(yes, 1, 0, false)], by(0, [true, true], true)),
            ("both are new", [seen(None, 0, 0, false), seen(None, 1, 0, false)], by(0, [true, true], true)),
            ("the first was set back", [seen(yes, 0, 3, false), seen(yes, 1, 0, true)], by(1, [false, true], true)),
            ("the second was behind", [seen(yes, 0, 0, true), seen(no, 1, 3, false)], by(0, [true, false], true)),
            (
                "it caught up without a record",
                [seen(yes, 0, 0, false), seen(no, 1, 0, false)],
                by(0, [true, false], true),
            ),
            ("the second is new", [seen(yes, 0, 0, true), seen(None, 1, 9, false)], by(0, [true, false], true)),
            ("the first is away", [away(yes), seen(yes, 1, 0, false)], by(1, [false, true], true)),
            ("only a stale one is there", [away(yes), seen(no, 1, 0, false)], Lead::Nobody),
            ("only a new one is there", [away(yes), seen(None, 1, 0, false)], Lead::Nobody),
            ("no record, one away", [away(None), seen(None, 1, 0, false)], by(1, [false, true], true)),
            ("all are away", [away(yes), away(no)], Lead::Nobody),
            (
                "old names in one, new ones in the other",
                [seen(None, 0, 2, false), seen(None, 1, 5, true)],
                by(1, [false, true], true),
            ),
            ("each has new names", [seen(None, 0, 2, true), seen(None, 1, 5, true)], by(0, [true, false], false)),
        ] {
            assert_eq!(lead(&facts, false), expected, "{what}");
        }
        let mut keeper = seen(yes, 0, 0, false);
        keeper.keeps = true;
        assert_eq!(lead(&[keeper, seen(yes, 1, 9, false)], false), by(1, [true, true], true), "the first keeps more");
        let mut other = seen(yes, 1, 0, false);
        other.seen.as_mut().expect("seen").differs[0] = 1;
        let facts = [seen(yes, 0, 0, false), other];
        assert_eq!(lead(&facts, false), by(0, [true, false], true), "one object has another size");
        let reached = [seen(None, 0, 3, false), seen(None, 1, 0, true)];
        assert_eq!(lead(&reached, true), by(1, [false, true], true), "the record is damaged, and all are there");
        assert_eq!(lead(&[away(None), seen(None, 1, 0, false)], true), Lead::Nobody, "the record is damaged");
    }

    #[test]
    fn objects_with_other_content() {
        assert_eq!(clash(false, false), Clash::Report);
        for (unfinished, overwritten) in [(true, false), (false, true), (true, true)] {
            assert_eq!(clash(unfinished, overwritten), Clash::Replace);
        }
    }
}
