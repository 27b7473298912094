//! The decisions of several vaults, without any I/O: how long a vault is waited for, whose fault an error is, and which
//! vault leads after a start.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::prints::Held;
use crate::{Error, ObjectKey};

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
            | Error::Endless { .. }
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
    /// Whether it differs: it holds what isn't of this database's history.
    pub(crate) differs: bool,
    /// Whether it lacks what the record acknowledges.
    pub(crate) lost: bool,
    /// Whether nothing shows that it continues what another vault holds, which the record knows.
    pub(crate) doubted: bool,
    /// What was seen of it; `None` when it could not be reached.
    pub(crate) seen: Option<Seen>,
}

/// How the names in a vault compare with those in each of the others, itself included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    /// Whether it holds any object.
    pub(crate) holds: bool,
    /// Whether it holds any object that tells whose history it is: a lease and notes don't.
    pub(crate) tells: bool,
    /// How many objects the other has, and this one hasn't.
    pub(crate) lacks: Vec<u64>,
    /// How many objects both have, with different sizes.
    pub(crate) differs: Vec<u64>,
    /// Whether this one has a name in some line that both have, and that is greater than all of the other's there. Names of a line
    /// grow with time in every format of ours, and its newest one stays.
    pub(crate) ahead: Vec<bool>,
    /// Objects that the other lacks, or has with another size.
    pub(crate) odd: Vec<Odd>,
    /// Names that the other has as well.
    pub(crate) common: Vec<Common>,
}

/// The most folders of which common names are kept.
const MOST_FOLDERS: usize = 16;

/// The names of a folder that are kept. The greatest one tells; where it is damaged, the one before it does.
pub(crate) const MOST_OF_FOLDER: usize = 3;

/// Names that two vaults have both: the greatest ones of each folder. Histories that parted went on under the same names, and names
/// grow with time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Common {
    folders: BTreeMap<String, VecDeque<ObjectKey>>,
}

impl Common {
    /// Notes a name of a folder. They come in order.
    pub(crate) fn note(&mut self, folder: &str, key: &ObjectKey) {
        let names = match self.folders.get_mut(folder) {
            Some(names) => names,
            None => self.folders.entry(folder.to_owned()).or_default(),
        };
        names.push_front(key.clone());
        names.truncate(MOST_OF_FOLDER);
        while self.folders.len() > MOST_FOLDERS {
            self.folders.pop_first();
        }
    }

    /// The names of each folder, the greatest one first.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &VecDeque<ObjectKey>> {
        self.folders.values()
    }
}

/// The most names at each end of a listing that are judged at a start. Each object is judged again before it is copied.
const MOST_ODD: usize = 64;

/// Some of the names that another vault lacks: the first and the last ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Odd {
    first: Vec<ObjectKey>,
    last: VecDeque<ObjectKey>,
}

impl Odd {
    /// Notes a name. They come in order.
    pub(crate) fn note(&mut self, key: &ObjectKey) {
        if self.first.len() < MOST_ODD {
            self.first.push(key.clone());
            return;
        }
        if self.last.len() == MOST_ODD {
            self.last.pop_front();
        }
        self.last.push_back(key.clone());
    }

    /// The names.
    pub(crate) fn names(&self) -> Vec<ObjectKey> {
        self.first.iter().chain(&self.last).cloned().collect()
    }
}

/// What a vault holds of the newest acknowledged objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Them.
    Holds,
    /// Another object under the name of one.
    Other,
    /// It lacks one: it was emptied, or set back.
    Lost {
        /// Whether it holds another one.
        some: bool,
    },
    /// It holds none of them, and later names in their place: it went on, or is another database's.
    Beyond,
    /// It can't be told.
    Unknown,
}

/// What a vault holds of the newest acknowledged objects. `beyond`: it lacks some more of them, and has later names in their place, so it
/// didn't lose these. `keeps`: a retention of its own deletes some of them. `sealed`: it never got all of them, because no key opened
/// them when it caught up.
pub(crate) fn proof(held: &[Held], beyond: bool, keeps: bool, sealed: bool) -> Proof {
    let any = |what: Held| held.contains(&what);
    let some = any(Held::Same);
    match () {
        () if any(Held::Other) => Proof::Other,
        () if any(Held::Gone) && !sealed && !(keeps && some) => Proof::Lost { some },
        () if some => Proof::Holds,
        () if beyond => Proof::Beyond,
        () => Proof::Unknown,
    }
}

/// Which vaults differ. `proofs` has `None` for a vault that can't lead; `accused[i][j]` says that a vault has objects that aren't of
/// the history that the vault `j` holds.
///
/// A vault with another object under a recorded name differs, unless all have another one: then the record may be the one that is
/// wrong. Only vaults that hold the recorded objects accuse, if there are any. Of vaults that accuse one another the one differs that
/// more of them accuse; of equal ones that hold the recorded objects the later in the configuration. `None`: others accuse one another, and
/// nothing tells which of them is right.
pub(crate) fn differing(proofs: &[Option<Proof>], accused: &[Vec<bool>]) -> Option<Vec<bool>> {
    let is = |i: usize, proof: Proof| proofs.get(i).copied().flatten() == Some(proof);
    let some = |proof: Proof| (0..proofs.len()).any(|i| is(i, proof));
    let mut differs: Vec<bool> = (0..proofs.len())
        .map(|i| is(i, Proof::Other) && !proofs.iter().flatten().all(|proof| *proof == Proof::Other))
        .collect();
    let proved = some(Proof::Holds);
    let accuses = |j: usize| if proved { is(j, Proof::Holds) } else { proofs.get(j).copied().flatten().is_some() };
    loop {
        let by = |i: usize, j: usize| accused.get(i).and_then(|by| by.get(j)).copied().unwrap_or(false);
        let votes =
            |i: usize| (0..proofs.len()).filter(|j| *j != i && !differs[*j] && accuses(*j) && by(i, *j)).count();
        let counted: Vec<(usize, usize)> = (0..proofs.len()).filter(|i| !differs[*i]).map(|i| (votes(i), i)).collect();
        match counted.iter().copied().max() {
            Some((votes, i)) if votes > 0 => {
                let is_equal = |(others, j): &(usize, usize)| *j != i && *others == votes && by(i, *j) && by(*j, i);
                if !proved && counted.iter().any(is_equal) {
                    return None;
                }
                differs[i] = true;
            }
            _ => return Some(differs),
        }
    }
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
/// that the record doesn't know, unless the record knows none of them. One that lacks what the record acknowledges leads only if all do,
/// and none that may hold it is away. One that is doubted leads only if all are. Among the others the one leads that is ahead of all; otherwise the first that has all names of the others. What a vault keeps for itself doesn't count.
///
/// `damaged`: there is a record, and it can't be read. Then a vault that is away may be the only one that holds everything, so
/// none leads without it.
pub(crate) fn lead(facts: &[Fact], damaged: bool) -> Lead {
    if damaged && facts.iter().any(|fact| fact.seen.is_none()) {
        return Lead::Nobody;
    }
    let unrecorded = facts.iter().all(|fact| fact.recorded.is_none());
    let may_lead = |fact: &Fact| fact.seen.is_some() && !fact.differs && (unrecorded || fact.recorded == Some(true));
    let mut eligible: Vec<usize> = (0..facts.len()).filter(|i| facts.get(*i).is_some_and(may_lead)).collect();
    // One that is away, and may hold what the others lack.
    let away =
        facts.iter().any(|fact| fact.seen.is_none() && !fact.differs && (unrecorded || fact.recorded == Some(true)));
    let lost = |i: &usize| facts.get(*i).is_some_and(|fact| fact.lost);
    match () {
        () if !eligible.iter().all(lost) => eligible.retain(|i| !lost(i)),
        () if away => return Lead::Nobody,
        () => {}
    }
    let doubted = |i: &usize| facts.get(*i).is_some_and(|fact| fact.doubted);
    if !eligible.iter().all(doubted) {
        eligible.retain(|i| !doubted(i));
    }
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
        let mut seen =
            Seen { holds: true, lacks: vec![0; 2], differs: vec![0; 2], ahead: vec![false; 2], ..Seen::default() };
        seen.lacks[other] = lacks;
        seen.ahead[other] = ahead;
        Fact { recorded, keeps: false, differs: false, lost: false, doubted: false, seen: Some(seen) }
    }

    fn away(recorded: Option<bool>) -> Fact {
        Fact { recorded, keeps: false, differs: false, lost: false, doubted: false, seen: None }
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
        let lost = |fact: Fact| Fact { lost: true, ..fact };
        let empty = |mut fact: Fact| {
            fact.seen.as_mut().expect("seen").holds = false;
            fact
        };
        for (what, facts, expected) in [
            (
                "the first was set back, and has what retention deleted in the second",
                [lost(seen(yes, 0, 3, false)), seen(yes, 1, 1, false)],
                by(1, [false, true], true),
            ),
            (
                "the first was set back, and is ahead somewhere",
                [lost(seen(yes, 0, 3, true)), seen(yes, 1, 1, true)],
                by(1, [false, true], true),
            ),
            (
                "the first was emptied, and the second is away",
                [lost(empty(seen(yes, 0, 0, false))), away(yes)],
                Lead::Nobody,
            ),
            (
                "the first was emptied, and the second was behind",
                [lost(empty(seen(yes, 0, 0, false))), away(no)],
                by(0, [true, false], true),
            ),
            (
                "both were emptied",
                [lost(seen(yes, 0, 0, false)), lost(seen(yes, 1, 0, false))],
                by(0, [true, true], true),
            ),
            (
                "no record, one empty",
                [empty(seen(None, 0, 9, false)), seen(None, 1, 0, false)],
                by(1, [false, true], true),
            ),
        ] {
            assert_eq!(lead(&facts, false), expected, "{what}");
        }
        let doubted = |fact: Fact| Fact { doubted: true, ..fact };
        for (what, facts, expected) in [
            (
                "the record is old, and the first went on alone",
                [seen(yes, 0, 2, true), seen(yes, 1, 9, false)],
                by(0, [true, false], true),
            ),
            (
                "the record is old, and the second is away",
                [seen(yes, 0, 0, false), away(yes)],
                by(0, [true, false], true),
            ),
            (
                "nothing shows that the first one continues the other",
                [doubted(seen(yes, 0, 2, true)), seen(yes, 1, 9, false)],
                by(1, [false, true], true),
            ),
            (
                "nothing shows it of both",
                [doubted(seen(yes, 0, 0, true)), doubted(seen(yes, 1, 9, false))],
                by(0, [true, false], true),
            ),
            (
                "one is doubted, and the other one lost what the record names",
                [doubted(seen(yes, 0, 0, false)), lost(seen(yes, 1, 9, false))],
                by(0, [true, false], true),
            ),
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
    fn which_vaults_differ() {
        use Proof::{Beyond, Holds, Lost, Other, Unknown};
        let some = |proofs: &[Proof]| proofs.iter().copied().map(Some).collect::<Vec<_>>();
        for (what, proofs, accused, expected) in [
            ("all agree", some(&[Holds, Holds, Holds]), vec![], [false, false, false]),
            ("the second was swapped", some(&[Holds, Other, Holds]), vec![], [false, true, false]),
            ("all were swapped, or the record is old", some(&[Other, Other, Other]), vec![], [false, false, false]),
            ("one was emptied, two swapped", some(&[Unknown, Other, Other]), vec![], [false, true, true]),
            ("a stranger in the second", some(&[Holds, Holds, Holds]), vec![(1, 0), (1, 2)], [false, true, false]),
            ("a stranger in the first", some(&[Holds, Holds, Holds]), vec![(0, 1), (0, 2)], [true, false, false]),
            (
                "without a record",
                some(&[Unknown, Unknown, Unknown]),
                vec![(1, 0), (1, 2), (0, 1), (2, 1)],
                [false, true, false],
            ),
            (
                "two others without a record",
                some(&[Unknown, Unknown, Unknown]),
                vec![(0, 1), (0, 2), (1, 0), (2, 0)],
                [true, false, false],
            ),
            (
                "one that doesn't hold the newest accuses",
                some(&[Unknown, Holds, Holds]),
                vec![(1, 0), (2, 0)],
                [false, false, false],
            ),
            ("the second is behind", vec![Some(Holds), None, Some(Holds)], vec![(0, 1)], [false, false, false]),
            (
                "two that hold it against each other",
                some(&[Holds, Holds, Unknown]),
                vec![(0, 1), (1, 0)],
                [false, true, false],
            ),
            (
                "a set back one is accused",
                some(&[Lost { some: false }, Holds, Holds]),
                vec![(0, 1), (1, 0)],
                [true, false, false],
            ),
            ("one was set back, two swapped", some(&[Lost { some: true }, Other, Other]), vec![], [false, true, true]),
            (
                "one went on, and is of another history",
                some(&[Beyond, Holds, Holds]),
                vec![(0, 1)],
                [true, false, false],
            ),
            ("it accuses nobody", some(&[Beyond, Holds, Holds]), vec![(1, 0), (2, 0)], [false, false, false]),
        ] {
            let mut table = vec![vec![false; 3]; 3];
            accused.into_iter().for_each(|(i, by): (usize, usize)| table[i][by] = true);
            assert_eq!(differing(&proofs, &table), Some(expected.to_vec()), "{what}");
        }
        for proofs in [vec![Some(Unknown); 2], vec![Some(Lost { some: false }), Some(Unknown)]] {
            assert_eq!(differing(&proofs, &[vec![false, true], vec![true, false]]), None, "two against each other");
        }
        let mut facts = [seen(Some(true), 0, 3, true), seen(Some(true), 1, 0, true)];
        facts[1].differs = true;
        assert_eq!(lead(&facts, false), by(0, [true, false], true), "one that differs never leads");
    }

    #[test]
    fn what_a_vault_proves() {
        use Held::{Gone, Locked, Other, Same};
        for (held, beyond, keeps, sealed, expected) in [
            (&[Same, Same][..], false, false, false, Proof::Holds),
            (&[Same, Locked], false, false, false, Proof::Holds),
            (&[Same, Gone], false, false, false, Proof::Lost { some: true }),
            (&[Gone, Gone], false, false, false, Proof::Lost { some: false }),
            (&[Same, Gone], false, true, false, Proof::Holds),
            (&[Gone, Gone], false, true, false, Proof::Lost { some: false }),
            (&[Same, Gone], false, false, true, Proof::Holds),
            (&[Gone], false, false, true, Proof::Unknown),
            (&[Same, Gone, Other], false, false, false, Proof::Other),
            (&[Locked], false, false, false, Proof::Unknown),
            (&[], false, false, false, Proof::Unknown),
            (&[Same], true, false, false, Proof::Holds),
            (&[], true, false, false, Proof::Beyond),
            (&[Locked], true, false, false, Proof::Beyond),
            (&[Gone], true, false, false, Proof::Lost { some: false }),
            (&[Same, Gone], true, false, false, Proof::Lost { some: true }),
            (&[Other], true, false, false, Proof::Other),
        ] {
            assert_eq!(proof(held, beyond, keeps, sealed), expected, "{held:?} {beyond} {keeps} {sealed}");
        }
    }

    #[test]
    fn objects_with_other_content() {
        assert_eq!(clash(false, false), Clash::Report);
        for (unfinished, overwritten) in [(true, false), (false, true), (true, true)] {
            assert_eq!(clash(unfinished, overwritten), Clash::Replace);
        }
    }
}
