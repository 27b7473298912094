//! Which of several vaults hold one history: what a restore by a database's name, and a start without a record, go by.
//!
//! A name proves nothing: every database begins with the same ones. Two vaults are of one history if they hold the same object under a
//! common name, and if no sound objects differ under another one. The greatest common names of the folders are compared, because
//! histories that parted went on under them. A vault that is only older agrees with a newer one, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use tokio::time::timeout;

use super::compare::compare;
use super::decide::{MOST_OF_FOLDER, Seen};
use super::differ::{Belongs, belongs_to};
use super::judge::Judge;
use super::prints::{Print, sample_of};
use super::record;
use crate::{Error, Fault, ObjectKey, Vault};

/// How long one vault may take to show what it holds under some names.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests to one vault at a time.
const AT_ONCE: usize = 8;

/// How two vaults stand to one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kin {
    /// They are of one history; one of them may be older.
    Same,
    /// They hold other sound objects under one name.
    Other,
    /// Nothing shows: they have no names in common, or none that can be read in both.
    Unknown,
}

/// What a look at one vault of several showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Whether it holds any object.
    pub holds: bool,
    /// What the record on this machine says of it.
    pub belongs: Belongs,
    /// Whether the record began without it: the vault was away, or didn't agree, and what it holds may be the newer history.
    pub unmet: bool,
    /// How it stands to each vault.
    pub kin: Vec<Kin>,
}

/// Which vaults hold the database's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// These: for each vault whether it does.
    In(Vec<bool>),
    /// That can't be told.
    Unsure,
}

/// Decides which vaults hold the database's history. `looks` has `None` for a vault that could not be looked at.
///
/// If the record on this machine knows one of them, the history is what that one and those of one history with it hold. Otherwise all that
/// hold something have to agree.
pub fn which(looks: &[Option<&Look>]) -> Verdict {
    let holding: Vec<usize> = (0..looks.len()).filter(|i| looks[*i].is_some_and(|look| look.holds)).collect();
    let look = |i: usize| looks.get(i).copied().flatten();
    let kin = |i: usize, j: usize| match (look(i), look(j)) {
        _ if i == j => Kin::Same,
        (Some(one), Some(other)) => match (one.kin.get(j), other.kin.get(i)) {
            (Some(Kin::Other), _) | (_, Some(Kin::Other)) => Kin::Other,
            (Some(Kin::Same), _) | (_, Some(Kin::Same)) => Kin::Same,
            _ => Kin::Unknown,
        },
        _ => Kin::Unknown,
    };
    let is = |i: &usize, belongs: fn(&Belongs) -> bool| look(*i).is_some_and(|look| belongs(&look.belongs));
    let known: Vec<usize> = holding.iter().copied().filter(|i| is(i, |belongs| *belongs == Belongs::Yes)).collect();
    let first: Vec<usize> = if known.is_empty() { holding.iter().copied().take(1).collect() } else { known.clone() };
    let mut ours = first.clone();
    while let Some(next) = holding.iter().copied().find(|i| {
        !ours.contains(i)
            && first.iter().all(|j| kin(*i, *j) != Kin::Other)
            && ours.iter().any(|j| kin(*i, *j) == Kin::Same)
    }) {
        ours.push(next);
    }
    let sure = match known.is_empty() {
        // A vault that the record began without may hold what this machine never knew.
        false => holding.iter().all(|i| ours.contains(i) || look(*i).is_none_or(|look| !look.unmet)),
        true => {
            let agree =
                ours.len() == holding.len() && ours.iter().all(|i| ours.iter().all(|j| kin(*i, *j) != Kin::Other));
            let alone = ours.len() == 1 && ours.iter().any(|i| is(i, |belongs| matches!(belongs, Belongs::No(_))));
            agree && !alone
        }
    };
    match sure {
        true => Verdict::In((0..looks.len()).map(|i| ours.contains(&i)).collect()),
        false => Verdict::Unsure,
    }
}

/// Looks at vaults that should hold the same, each with its own deadline. `record` is what this machine knows of them.
pub async fn look(vaults: &[Vault], record: Option<&Path>, judge: Option<&dyn Judge>) -> Vec<Result<Look, Error>> {
    let record = match record.map(Path::to_owned) {
        Some(path) => {
            tokio::task::spawn_blocking(move || record::load(&path)).await.ok().and_then(Result::ok).flatten()
        }
        None => None,
    };
    let all: Vec<&Vault> = vaults.iter().collect();
    let seen = compare(&all).await;
    let shown: Vec<Option<&Seen>> = seen.iter().map(|seen| seen.as_ref().ok()).collect();
    let of_one = |(vault, seen): (&Vault, &Option<&Seen>)| {
        let (vault, record) = (vault.clone(), record.clone().filter(|_| seen.is_some()));
        async move {
            let Some(record) = record else { return Belongs::Unknown };
            timeout(PATIENCE, belongs_to(&record, &vault)).await.unwrap_or(Belongs::Unknown)
        }
    };
    let belongs = join_all(vaults.iter().zip(&shown).map(of_one));
    let (belongs, kin) = futures::join!(belongs, kin_of(&all, &shown, judge));
    let unmet =
        |vault: &Vault| record.as_ref().and_then(|record| record.of(vault.url())).is_some_and(|noted| noted.unmet);
    let mut looks = Vec::new();
    for (((seen, vault), belongs), kin) in seen.into_iter().zip(vaults).zip(belongs).zip(kin) {
        looks.push(seen.map(|seen| Look { holds: seen.holds, belongs, unmet: unmet(vault), kin }));
    }
    looks
}

/// What a vault holds under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    Object(Print),
    /// An object of this size that no key at hand opens.
    Locked(u64),
    /// Nothing, or nothing that can be read.
    Nothing,
}

/// What is known of a pair.
#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    same: bool,
    /// Objects of one size that no key at hand opens.
    locked: bool,
    other: bool,
}

impl Evidence {
    fn kin(self) -> Kin {
        match self {
            Self { other: true, .. } => Kin::Other,
            Self { same: true, .. } | Self { locked: true, .. } => Kin::Same,
            Self { .. } => Kin::Unknown,
        }
    }
}

/// How each vault stands to each other one. `seen` has `None` for a vault that could not be listed.
pub(super) async fn kin_of(vaults: &[&Vault], seen: &[Option<&Seen>], judge: Option<&dyn Judge>) -> Vec<Vec<Kin>> {
    let count = vaults.len();
    let pairs: Vec<(usize, usize)> = (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j))).collect();
    // For each pair the folders that nothing is known of yet.
    let mut open: Vec<(usize, usize, Vec<Vec<ObjectKey>>)> = Vec::new();
    for (i, j) in pairs {
        let common = seen[i].filter(|_| seen[j].is_some()).and_then(|seen| seen.common.get(j));
        let folders = common.map(|common| common.folders().map(|names| names.iter().cloned().collect()).collect());
        open.push((i, j, folders.unwrap_or_default()));
    }
    let mut evidence = vec![vec![Evidence::default(); count]; count];
    for round in 0..MOST_OF_FOLDER {
        let mut wanted: Vec<BTreeSet<ObjectKey>> = vec![BTreeSet::new(); count];
        for (i, j, folders) in &open {
            for key in folders.iter().filter_map(|names| names.get(round)) {
                wanted[*i].insert(key.clone());
                wanted[*j].insert(key.clone());
            }
        }
        if wanted.iter().all(BTreeSet::is_empty) {
            break;
        }
        let shown = join_all(vaults.iter().zip(wanted).map(|(vault, keys)| shown(vault, keys))).await;
        for (i, j, folders) in &mut open {
            let mut left = Vec::new();
            for names in folders.drain(..) {
                let Some(key) = names.get(round) else { continue };
                let (one, other) = (shown[*i].get(key), shown[*j].get(key));
                match (one, other) {
                    (Some(Shown::Object(one)), Some(Shown::Object(other))) if one == other => {
                        evidence[*i][*j].same = true;
                    }
                    (Some(Shown::Object(_)), Some(Shown::Object(_))) => {
                        match part(judge, vaults[*i], vaults[*j], key).await {
                            true => evidence[*i][*j].other = true,
                            false => left.push(names),
                        }
                    }
                    (Some(Shown::Locked(one)), Some(Shown::Locked(other))) => match one == other {
                        true => evidence[*i][*j].locked = true,
                        false => evidence[*i][*j].other = true,
                    },
                    _ => left.push(names),
                }
            }
            *folders = left;
        }
    }
    for (i, j) in (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j))) {
        if let (None, Some(one), Some(other)) = (judge, seen[i], seen[j]) {
            evidence[i][j].other |= disjoint((i, one), (j, other));
        }
    }
    let between = |i: usize, j: usize| evidence[i.min(j)][i.max(j)].kin();
    (0..count).map(|i| (0..count).map(|j| if i == j { Kin::Same } else { between(i, j) }).collect()).collect()
}

/// Whether two vaults hold objects, and none under a common name. Where names have a nonce, as those of servers' sets, one of them is
/// another database's.
pub(super) fn disjoint((i, one): (usize, &Seen), (j, other): (usize, &Seen)) -> bool {
    let has_more = |seen: &Seen, than: usize| seen.odd.get(than).is_some_and(|odd| !odd.names().is_empty());
    has_more(one, j) && has_more(other, i) && one.common.get(j).is_some_and(|common| common.folders().next().is_none())
}

/// Which vaults hold another history than the one that more of the vaults agree with; of equal ones that of the first vault counts.
pub(super) fn apart(kin: &[Vec<Kin>]) -> Vec<usize> {
    let count = |row: &Vec<Kin>| row.iter().filter(|kin| **kin == Kin::Same).count();
    let most = kin.iter().map(count).max();
    let Some(best) = kin.iter().find(|row| Some(count(row)) == most) else { return Vec::new() };
    best.iter().enumerate().filter(|(_, kin)| **kin == Kin::Other).map(|(i, _)| i).collect()
}

/// Whether two objects that differ tell that histories parted. A damaged one tells nothing; without an engine's judge names have a
/// nonce, so objects of one name are one object or a damaged one.
async fn part(judge: Option<&dyn Judge>, one: &Vault, other: &Vault, key: &ObjectKey) -> bool {
    let Some(judge) = judge else { return false };
    let sound = async |vault: &Vault| match timeout(PATIENCE, judge.sound(vault, key)).await {
        Ok(Ok(sound)) => sound,
        // Not known to be damaged.
        Ok(Err(_)) | Err(_) => true,
    };
    let (one, other) = futures::join!(sound(one), sound(other));
    one && other
}

/// What a vault holds under each name. What isn't shown in time isn't known.
async fn shown(vault: &Vault, keys: BTreeSet<ObjectKey>) -> BTreeMap<ObjectKey, Shown> {
    let one = |key: ObjectKey| async move {
        let shown = async {
            let Some(meta) = vault.head(&key).await? else { return Ok(Shown::Nothing) };
            match sample_of(vault, &key, meta.size).await {
                Ok(sample) => Ok(Shown::Object(Print::of(&sample))),
                Err(Error::Sealing { fault: Fault::NoKey, .. }) => Ok(Shown::Locked(meta.size)),
                Err(error) => Err(error),
            }
        };
        let shown: Result<Shown, Error> = shown.await;
        (key, shown.unwrap_or(Shown::Nothing))
    };
    let mut looks = stream::iter(keys.into_iter().map(one)).buffer_unordered(AT_ONCE);
    let mut all = BTreeMap::new();
    let until = tokio::time::Instant::now() + PATIENCE;
    while let Ok(Some((key, shown))) = tokio::time::timeout_at(until, looks.next()).await {
        all.insert(key, shown);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_vaults_hold_the_history() {
        use Kin::{Other, Same, Unknown};
        let (yes, no, may) = (Belongs::Yes, Belongs::No(Error::NotFound { object: "x".into() }), Belongs::Unknown);
        // Kin of the pairs 0-1, 0-2, 1-2.
        let table = |belongs: [&Belongs; 3], holds: [bool; 3], [a, b, c]: [Kin; 3]| {
            let kin = [vec![Same, a, b], vec![a, Same, c], vec![b, c, Same]];
            let looks = kin.into_iter().zip(belongs).zip(holds);
            looks.map(|((kin, belongs), holds)| Look { holds, belongs: belongs.clone(), unmet: false, kin }).collect()
        };
        let (all, none) = ([true; 3], [&may; 3]);
        let ours = |ours: [bool; 3]| Verdict::In(ours.to_vec());
        for (what, looks, expected) in [
            ("all agree", table(none, all, [Same, Same, Same]), ours(all)),
            ("the first is foreign", table(none, all, [Other, Other, Same]), Verdict::Unsure),
            ("nothing in common", table(none, all, [Unknown, Unknown, Same]), Verdict::Unsure),
            ("a prefix of both that parted", table(none, all, [Other, Same, Same]), Verdict::Unsure),
            ("by way of the third", table(none, all, [Unknown, Same, Same]), ours(all)),
            (
                "the first is empty",
                table(none, [false, true, true], [Unknown, Unknown, Same]),
                ours([false, true, true]),
            ),
            ("all are empty", table(none, [false; 3], [Unknown; 3]), ours([false; 3])),
            ("only one holds anything", table(none, [false, true, false], [Unknown; 3]), ours([false, true, false])),
            ("and it isn't ours", table([&may, &no, &may], [false, true, false], [Unknown; 3]), Verdict::Unsure),
            ("the record knows one", table([&may, &yes, &no], all, [Same, Other, Other]), ours([true, true, false])),
            ("the record knows all", table([&yes; 3], all, [Same; 3]), ours(all)),
            (
                "the record knows the older of those that parted",
                table([&yes, &may, &may], all, [Same, Other, Same]),
                ours([true, true, false]),
            ),
            ("the record knows none, and they agree", table([&no; 3], all, [Same; 3]), ours(all)),
        ] {
            let looks: Vec<Look> = looks;
            assert_eq!(which(&looks.iter().map(Some).collect::<Vec<_>>()), expected, "{what}");
        }
        for (kin, expected) in [
            ([Same, Same, Same], vec![]),
            ([Other, Other, Same], vec![0]),
            ([Same, Other, Other], vec![2]),
            ([Other, Other, Other], vec![1, 2]),
            ([Unknown, Unknown, Same], vec![]),
        ] {
            let [a, b, c] = kin;
            assert_eq!(apart(&[vec![Same, a, b], vec![a, Same, c], vec![b, c, Same]]), expected, "{kin:?}");
        }
        // The record began with old vaults, while the newest was away.
        let mut looks: Vec<Look> = table([&may, &yes, &yes], all, [Other, Other, Same]);
        looks[0].unmet = true;
        assert_eq!(which(&looks.iter().map(Some).collect::<Vec<_>>()), Verdict::Unsure);
        assert_eq!(which(&[None, Some(&looks[1]), Some(&looks[2])]), ours([false, true, true]), "while it is away");
        assert_eq!(which(&[None, None, None]), ours([false; 3]));
    }
}
