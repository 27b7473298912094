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
use tokio::time::{Instant, timeout, timeout_at};

use super::compare::compare;
use super::decide::{MOST_OF_FOLDER, Seen};
use super::differ::{Belongs, belongs_to};
use super::judge::Judge;
use super::prints::{Print, line, sample_of};
use super::record;
use crate::{Error, Fault, ObjectKey, Vault};

/// How long one vault may take to show what it holds under some names.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long all of them may take together.
const IN_ALL: Duration = Duration::from_secs(90);

/// A link of a chain is smaller.
const LARGEST_LINK: u64 = 1 << 20;

/// Requests to one vault at a time.
const AT_ONCE: usize = 8;

/// How two vaults stand to one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kin {
    /// They are of one history; one of them may be older.
    Same,
    /// They hold other sound objects under one name.
    Other,
    /// They have names in common, and could not be compared: objects could not be read, or not in time.
    Unread,
    /// They have no names in common.
    Unknown,
}

/// What a look at one vault of several showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Whether it holds any object that tells whose history it is. A lease and notes don't: a process that waits for its database, and one
    /// that begins to fill a new vault, write these first.
    pub holds: bool,
    /// What the record on this machine says of it.
    pub belongs: Belongs,
    /// Whether the record began without it: the vault was away, or didn't agree, and what it holds may be the newer history.
    pub unmet: bool,
    /// Whether it holds nothing of what the record names, but later names in the place of that: it may be the newer history, and the record
    /// the older one.
    pub beyond: bool,
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
            (Some(Kin::Unread), _) | (_, Some(Kin::Unread)) => Kin::Unread,
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
    let agree = ours.iter().all(|i| ours.iter().all(|j| kin(*i, *j) != Kin::Other));
    let sure = match known.is_empty() {
        // A vault that the record began without, or that is newer than the record, may hold what this machine never knew.
        false => holding.iter().all(|i| {
            let is_other = || known.iter().any(|j| kin(*i, *j) == Kin::Other);
            ours.contains(i) || look(*i).is_none_or(|look| !look.unmet && (!look.beyond || is_other()))
        }),
        // Vaults that agree may all be another database's.
        true => {
            ours.len() == holding.len() && !holding.iter().any(|i| is(i, |belongs| matches!(belongs, Belongs::No(_))))
        }
    };
    let sure = agree && sure;
    match sure {
        true => Verdict::In((0..looks.len()).map(|i| ours.contains(&i)).collect()),
        false => Verdict::Unsure,
    }
}

/// Why it can't be told which vaults hold the history: a clause without a full stop.
pub fn doubt(looks: &[Option<&Look>]) -> &'static str {
    let holding = || looks.iter().flatten().filter(|look| look.holds);
    let any = |kin: Kin| holding().any(|look| look.kin.contains(&kin));
    let (yes, no) = (
        holding().any(|look| look.belongs == Belongs::Yes),
        holding().any(|look| matches!(look.belongs, Belongs::No(_))),
    );
    match () {
        () if no && !yes => "this machine protected another history than its vaults hold",
        () if any(Kin::Other) => "its vaults hold different histories, and nothing tells which one is the database's",
        () if any(Kin::Unread) => "its vaults could not be compared, so nothing tells whether they hold one history",
        () => "its vaults have no object in common, and nothing tells which one is the database's",
    }
}

/// Whether nothing confirms that the vault that is taken holds the database's history: no record knows it, and the others are away.
pub fn is_unconfirmed(looks: &[Option<&Look>]) -> bool {
    let holding: Vec<&&Look> = looks.iter().flatten().filter(|look| look.holds).collect();
    let away = looks.iter().any(Option::is_none);
    away && holding.len() == 1 && holding.iter().all(|look| look.belongs != Belongs::Yes)
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
            let Some(record) = record else { return (Belongs::Unknown, false) };
            timeout(PATIENCE, belongs_to(&record, &vault)).await.unwrap_or((Belongs::Unknown, false))
        }
    };
    let belongs = join_all(vaults.iter().zip(&shown).map(of_one));
    let (belongs, kin) = futures::join!(belongs, kin_of(&all, &shown, judge));
    // What the record doesn't know may be the newer history as well.
    let unmet =
        |vault: &Vault| record.as_ref().is_some_and(|record| record.of(vault.url()).is_none_or(|noted| noted.unmet));
    let mut looks = Vec::new();
    for (((seen, vault), (belongs, beyond)), kin) in seen.into_iter().zip(vaults).zip(belongs).zip(kin) {
        looks.push(seen.map(|seen| Look { holds: seen.tells, belongs, unmet: unmet(vault), beyond, kin }));
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
    /// Objects differ, and it can't be told whether one of them is damaged.
    doubt: bool,
    /// Something under a common name could not be read.
    unread: bool,
}

impl Evidence {
    fn kin(self) -> Kin {
        match self {
            Self { other: true, .. } => Kin::Other,
            Self { doubt: true, .. } => Kin::Unread,
            Self { same: true, .. } | Self { locked: true, .. } => Kin::Same,
            Self { unread: true, .. } => Kin::Unread,
            Self { .. } => Kin::Unknown,
        }
    }
}

/// A folder that two vaults have, with its greatest common names, and how many of them showed other objects.
#[derive(Debug, Clone)]
struct Folder {
    names: Vec<ObjectKey>,
    other: usize,
}

/// How each vault stands to each other one. `seen` has `None` for a vault that could not be listed.
pub(super) async fn kin_of(vaults: &[&Vault], seen: &[Option<&Seen>], judge: Option<&dyn Judge>) -> Vec<Vec<Kin>> {
    let count = vaults.len();
    let until = Instant::now() + IN_ALL;
    let pairs: Vec<(usize, usize)> = (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j))).collect();
    // For each pair the folders that nothing is known of yet.
    let mut open: Vec<(usize, usize, Vec<Folder>)> = Vec::new();
    for (i, j) in pairs {
        let common = seen[i].filter(|_| seen[j].is_some()).and_then(|seen| seen.common.get(j));
        let folder =
            |names: &std::collections::VecDeque<ObjectKey>| Folder { names: names.iter().cloned().collect(), other: 0 };
        open.push((i, j, common.map(|common| common.folders().map(folder).collect()).unwrap_or_default()));
    }
    let mut evidence = vec![vec![Evidence::default(); count]; count];
    for round in 0..MOST_OF_FOLDER {
        let mut wanted: Vec<BTreeSet<ObjectKey>> = vec![BTreeSet::new(); count];
        for (i, j, folders) in &open {
            for key in folders.iter().filter_map(|folder| folder.names.get(round)) {
                wanted[*i].insert(key.clone());
                wanted[*j].insert(key.clone());
            }
        }
        if wanted.iter().all(BTreeSet::is_empty) {
            break;
        }
        let shown = join_all(vaults.iter().zip(wanted).map(|(vault, keys)| shown(vault, keys, until))).await;
        for (i, j, folders) in &mut open {
            let evidence = &mut evidence[*i][*j];
            let mut left = Vec::new();
            for mut folder in folders.drain(..) {
                // One such object is enough.
                if evidence.other {
                    break;
                }
                let Some(key) = folder.names.get(round).cloned() else {
                    left.push(folder);
                    continue;
                };
                match (shown[*i].get(&key), shown[*j].get(&key)) {
                    (Some(Shown::Object(one)), Some(Shown::Object(other))) if one == other => evidence.same = true,
                    (Some(Shown::Object(_)), Some(Shown::Object(_))) => {
                        match part(judge, vaults[*i], vaults[*j], &key, until).await {
                            Parted::Other => evidence.other = true,
                            Parted::Damaged => left.push(folder),
                            Parted::Unread => evidence.doubt = true,
                            Parted::Maybe => {
                                folder.other += 1;
                                match folder.other {
                                    1 => left.push(folder),
                                    _ => evidence.other = true,
                                }
                            }
                        }
                    }
                    (Some(Shown::Locked(one)), Some(Shown::Locked(other))) => match one == other {
                        true => evidence.locked = true,
                        false => evidence.other = true,
                    },
                    _ => {
                        evidence.unread = true;
                        left.push(folder);
                    }
                }
            }
            *folders = left;
        }
    }
    for (i, j, folders) in open {
        let evidence = &mut evidence[i][j];
        evidence.doubt |= folders.iter().any(|folder| folder.other > 0);
        let (Some(one), Some(other)) = (seen[i], seen[j]) else { continue };
        evidence.other |= parted_ways((i, one), (j, other));
        evidence.other |= judge.is_none() && !evidence.same && !evidence.locked && !evidence.unread && {
            // Where names have a nonce, as those of servers' sets, vaults that share no object are of different databases.
            !evidence.doubt && holds_more(one, j) && holds_more(other, i)
        };
    }
    let between = |i: usize, j: usize| evidence[i.min(j)][i.max(j)].kin();
    (0..count).map(|i| (0..count).map(|j| if i == j { Kin::Same } else { between(i, j) }).collect()).collect()
}

/// Whether a vault has objects that another one lacks, or has with another size.
pub(super) fn holds_more(seen: &Seen, than: usize) -> bool {
    seen.odd.get(than).is_some_and(|odd| !odd.names().is_empty())
}

/// Whether each of two vaults went on without the other: each has a name in some line that is greater than all of the other's there.
/// An older vault never has.
fn parted_ways((i, one): (usize, &Seen), (j, other): (usize, &Seen)) -> bool {
    one.ahead.get(j) == Some(&true) && other.ahead.get(i) == Some(&true)
}

/// Which vaults hold another history than the one that more of the vaults agree with. `None`: as many vaults agree with another one.
pub(super) fn apart(kin: &[Vec<Kin>]) -> Option<Vec<usize>> {
    let count = |row: &Vec<Kin>| row.iter().filter(|kin| **kin == Kin::Same).count();
    let Some(most) = kin.iter().map(count).max() else { return Some(Vec::new()) };
    let best = kin.iter().position(|row| count(row) == most)?;
    let others: Vec<usize> = (0..kin.len()).filter(|j| kin[best].get(*j) == Some(&Kin::Other)).collect();
    let tie = others.iter().any(|j| count(&kin[*j]) == most);
    (!tie).then_some(others)
}

/// What two objects that differ under one name tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parted {
    /// Both are sound: histories parted.
    Other,
    /// One is damaged: nothing.
    Damaged,
    /// One may be damaged. Two such names of one folder tell that histories parted.
    Maybe,
    /// They could not be read in time.
    Unread,
}

/// Whether two objects that differ tell that histories parted. A damaged one tells nothing. Without an engine's judge most names have a
/// nonce, so objects of one name are one object or a damaged one; links of a chain and segments of a log have none.
async fn part(judge: Option<&dyn Judge>, one: &Vault, other: &Vault, key: &ObjectKey, until: Instant) -> Parted {
    let sound = async |vault: &Vault| match judge {
        Some(judge) => judge.sound(vault, key).await,
        None => is_json(vault, key).await,
    };
    let sound = async |vault: &Vault| timeout_at(until, timeout(PATIENCE, sound(vault))).await.ok()?.ok()?.ok();
    match (judge, key.as_str().split('/').next()) {
        (Some(_), _) | (None, Some("chain")) => match futures::join!(sound(one), sound(other)) {
            (Some(true), Some(true)) => Parted::Other,
            (Some(false), _) | (_, Some(false)) => Parted::Damaged,
            (None, _) | (_, None) => Parted::Unread,
        },
        (None, _) if line(key).is_some_and(|line| line.ends_with("/log")) => Parted::Maybe,
        (None, _) => Parted::Damaged,
    }
}

/// Whether a link of a chain can be understood.
async fn is_json(vault: &Vault, key: &ObjectKey) -> Result<bool, Error> {
    let bytes = vault.read(key, None, LARGEST_LINK).await?;
    Ok(serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok())
}

/// What a vault holds under each name. What isn't shown in time isn't known.
async fn shown(vault: &Vault, keys: BTreeSet<ObjectKey>, until: Instant) -> BTreeMap<ObjectKey, Shown> {
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
    let until = until.min(Instant::now() + PATIENCE);
    while let Ok(Some((key, shown))) = timeout_at(until, looks.next()).await {
        all.insert(key, shown);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_vaults_hold_the_history() {
        use Kin::{Other, Same, Unknown, Unread};
        let (yes, no, may) = (Belongs::Yes, Belongs::No(Error::NotFound { object: "x".into() }), Belongs::Unknown);
        // Kin of the pairs 0-1, 0-2, 1-2.
        let table = |belongs: [&Belongs; 3], holds: [bool; 3], [a, b, c]: [Kin; 3]| {
            let kin = [vec![Same, a, b], vec![a, Same, c], vec![b, c, Same]];
            let looks = kin.into_iter().zip(belongs).zip(holds);
            looks
                .map(|((kin, belongs), holds)| Look {
                    holds,
                    belongs: belongs.clone(),
                    unmet: false,
                    beyond: false,
                    kin,
                })
                .collect()
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
            ("the record knows none, and they agree", table([&no; 3], all, [Same; 3]), Verdict::Unsure),
            ("the record contradicts one of them", table([&no, &may, &may], all, [Same; 3]), Verdict::Unsure),
            ("a known prefix of two that parted", table([&yes, &may, &may], all, [Same, Same, Other]), Verdict::Unsure),
            ("two known ones that parted", table([&yes, &yes, &may], all, [Other, Same, Unknown]), Verdict::Unsure),
            ("one could not be compared", table(none, all, [Unread, Unread, Same]), Verdict::Unsure),
            (
                "one could not be compared with a known one",
                table([&may, &yes, &yes], all, [Unread, Unread, Same]),
                ours([false, true, true]),
            ),
        ] {
            let looks: Vec<Look> = looks;
            assert_eq!(which(&looks.iter().map(Some).collect::<Vec<_>>()), expected, "{what}");
        }
        for (kin, expected) in [
            ([Same, Same, Same], Some(vec![])),
            ([Other, Other, Same], Some(vec![0])),
            ([Same, Other, Other], Some(vec![2])),
            ([Other, Other, Other], None),
            ([Unknown, Other, Unknown], None),
            ([Unknown, Unknown, Same], Some(vec![])),
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
        // The record is older than what the first one holds, unless that is another database's.
        for (kin, beyond, expected) in [
            ([Unknown, Unknown, Same], false, ours([false, true, true])),
            ([Unknown, Unknown, Same], true, Verdict::Unsure),
            ([Unread, Unread, Same], true, Verdict::Unsure),
            ([Other, Other, Same], true, ours([false, true, true])),
            ([Same, Unknown, Same], true, ours(all)),
        ] {
            let mut looks: Vec<Look> = table([&may, &yes, &yes], all, kin);
            looks[0].beyond = beyond;
            assert_eq!(which(&looks.iter().map(Some).collect::<Vec<_>>()), expected, "{kin:?} {beyond}");
        }
        assert_eq!(apart(&[vec![Same, Other], vec![Other, Same]]), None);
        assert_eq!(apart(&[]), Some(vec![]));
    }

    #[test]
    fn what_is_said_of_a_doubt() {
        use Kin::{Other, Same, Unknown, Unread};
        let no = || Belongs::No(Error::NotFound { object: "x".into() });
        let look = |belongs: Belongs, kin: Kin| {
            let kin = vec![Same, kin];
            Look { holds: true, belongs, unmet: false, beyond: false, kin }
        };
        for (looks, expected) in [
            ([look(no(), Same), look(no(), Same)], "this machine protected another"),
            ([look(Belongs::Unknown, Other), look(Belongs::Unknown, Other)], "its vaults hold different"),
            ([look(Belongs::Yes, Other), look(no(), Other)], "its vaults hold different"),
            ([look(Belongs::Unknown, Unread), look(Belongs::Unknown, Unread)], "its vaults could not be compared"),
            ([look(Belongs::Unknown, Unknown), look(Belongs::Unknown, Unknown)], "its vaults have no object in common"),
        ] {
            let doubt = doubt(&looks.each_ref().map(Some));
            assert!(doubt.starts_with(expected), "{doubt}");
        }
        let one = look(Belongs::Unknown, Unknown);
        assert!(is_unconfirmed(&[None, Some(&one)]));
        assert!(!is_unconfirmed(&[Some(&one), Some(&one)]));
        assert!(!is_unconfirmed(&[None, Some(&look(Belongs::Yes, Unknown))]));
        assert!(!is_unconfirmed(&[None, None]));
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(name).expect("a key")
    }

    /// How two vaults with these objects stand to one another, without a judge.
    async fn kin(one: &[(&str, &str)], other: &[(&str, &str)]) -> Kin {
        let vault = async |objects: &[(&str, &str)]| {
            let vault = Vault::new(std::sync::Arc::new(crate::memory::MemoryStore::new()), crate::Policy::default());
            for (name, text) in objects {
                vault.put(&key(name), text.to_string().into(), None).await.expect("put");
            }
            vault
        };
        let (one, other) = (vault(one).await, vault(other).await);
        let vaults = [&one, &other];
        let seen: Vec<Seen> = compare(&vaults).await.into_iter().map(|seen| seen.expect("seen")).collect();
        kin_of(&vaults, &seen.iter().map(Some).collect::<Vec<_>>(), None).await[0][1]
    }

    /// Links of a chain and segments of a log have no nonce: every server has the same names.
    #[tokio::test]
    async fn names_of_servers_without_a_nonce() {
        let links = |count: usize, of: &str| -> Vec<(String, String)> {
            (1..=count).map(|i| (format!("chain/{i:08}.json"), format!("\"{of} {i}\""))).collect()
        };
        let with = |links: &[(String, String)], more: &[(&str, &str)]| -> Vec<(String, String)> {
            let more = more.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            links.iter().cloned().chain(more).collect()
        };
        let segment = |nth: usize| format!("physical/7/log/00000001/{nth:024}.zst");
        let log = |texts: [&str; 3]| -> Vec<(String, String)> {
            texts.iter().enumerate().map(|(nth, text)| (segment(nth), (*text).to_owned())).collect()
        };
        let many: Vec<String> = (0..40).map(|nth| format!("sets/{nth:03}/x")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "one")).collect();
        let sets = [("sets/1/x", "one"), ("sets/2/x", "two")];
        for (what, one, other, expected) in [
            ("another server", with(&links(3, "b"), &[("sets/9/x", "b")]), with(&links(9, "a"), &sets), Kin::Other),
            ("a fork with equal sets", with(&links(3, "b"), &sets), with(&links(3, "a"), &sets), Kin::Other),
            ("an older one", with(&links(3, "a"), &sets[..1]), with(&links(9, "a"), &sets), Kin::Same),
            (
                "a damaged link",
                with(&links(2, "a"), &[("chain/00000003.json", "{"), ("sets/1/x", "one")]),
                with(&links(3, "a"), &sets),
                Kin::Same,
            ),
            ("a damaged set", with(&links(2, "a"), &[("sets/1/x", "!")]), with(&links(2, "a"), &sets), Kin::Same),
            ("other sets alone", with(&[], &[("sets/9/x", "b")]), with(&[], &sets), Kin::Other),
            ("nothing", Vec::new(), with(&[], &sets), Kin::Unknown),
            ("a fork behind many sets", with(&links(3, "b"), &many), with(&links(3, "a"), &many), Kin::Other),
            ("a log", log(["1", "2", "3"]), log(["1", "2", "3"]), Kin::Same),
            ("another log", log(["a", "b", "c"]), log(["1", "2", "3"]), Kin::Other),
            ("a log with a damaged segment", log(["1", "2", "!"]), log(["1", "2", "3"]), Kin::Same),
            ("one segment that differs", vec![(segment(0), "a".into())], vec![(segment(0), "b".into())], Kin::Unread),
            (
                "an older one with a range of its own",
                with(&log(["1", "2", "3"])[..2], &[("physical/7/log/00000001/9-a.zst", "4"), ("sets/1/x", "one")]),
                with(&log(["1", "2", "3"]), &sets),
                Kin::Same,
            ),
            (
                "each went on without the other",
                with(&[], &[("sets/1/x", "one"), ("chain/00000009.json", "1")]),
                with(&[], &[("sets/1/x", "one"), ("sets/2/x", "two"), ("chain/00000008.json", "2")]),
                Kin::Other,
            ),
        ] {
            let one: Vec<(&str, &str)> = one.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            let other: Vec<(&str, &str)> = other.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            assert_eq!(kin(&one, &other).await, expected, "{what}");
        }
    }

    /// A new database whose process has the lease, and a new vault that is being filled.
    #[tokio::test]
    async fn a_lease_and_notes_are_nothing() {
        let vault = async |names: &[&str]| {
            let vault = Vault::new(std::sync::Arc::new(crate::memory::MemoryStore::new()), crate::Policy::default());
            for name in names {
                vault.put(&key(name), "x".into(), None).await.expect("put");
            }
            vault
        };
        let full = ["lock.json", "ltx/0/1", "seawall/floors/1.json"];
        let (first, new) = (["lock.json", "seawall/floors/1.json"], ["seawall/holes/1.json", "seawall/digests/1"]);
        for (what, one, other, holds) in [
            ("a new database", &first[..], &first[..], [false, false]),
            ("a new vault", &full, &new, [true, false]),
            ("a new vault that comes first", &new, &full, [false, true]),
            ("its first object has come", &full, &full, [true, true]),
        ] {
            let looks = look(&[vault(one).await, vault(other).await], None, None).await;
            let looks: Vec<Look> = looks.into_iter().map(|look| look.expect("a look")).collect();
            assert_eq!([looks[0].holds, looks[1].holds], holds, "{what}");
            let verdict = which(&looks.iter().map(Some).collect::<Vec<_>>());
            assert_eq!(verdict, Verdict::In(holds.to_vec()), "{what}");
        }
    }
}
