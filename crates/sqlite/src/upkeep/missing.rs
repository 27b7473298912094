//! Which objects are missing from a vault, and do they matter?
//!
//! Pure: from this process's knowledge of a vault and a listing to the loss. Objects may be missing for good reasons: a
//! second process merges and deletes by the same policy, and a bucket has lifecycle rules. So two things count:
//!
//! * **The newest state.** If it can be restored from the listed objects, nothing of it was lost, even if objects are
//!   missing.
//! * **The points that the policy keeps.** An object of the past is lost if all of these hold: the point at its end
//!   can't be restored from other objects, no merged object covers it, and the policy wouldn't have deleted it by now.

use std::collections::{BTreeMap, BTreeSet};

use seawall_core::Moment;
use seawall_ltx::Txid;

use crate::catalog::{Catalog, Dated};
use crate::layout::{Level, Stored};
use crate::plan::{plan, stretches};
use crate::retention::{self, Question};

/// The result of a look at a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sight {
    /// No object that counts is missing.
    Whole,
    /// These are missing, or have another size. The newest state can be restored all the same.
    Past(Vec<Stored>),
    /// These are missing, or have another size, and the newest state can't be restored any more.
    Newest(Vec<Stored>),
}

/// Are known objects lost, if `listed` is the whole listing and everything up to `newest` was acknowledged? `policy`
/// and `now` tell which objects may have been deleted.
pub(crate) fn judge(
    known: &Catalog,
    newest: Option<Txid>,
    listed: &[Dated],
    policy: &Question<'_>,
    now: Moment,
) -> Sight {
    let gone = differing(known.all(), listed);
    let sound = sound(listed, &gone);
    if newest.is_some_and(|newest| plan(&sound, newest).is_err()) {
        return Sight::Newest(gone);
    }
    if gone.is_empty() {
        return Sight::Whole;
    }
    // The process that deleted may know of objects that we don't.
    let mut both = known.clone();
    listed.iter().for_each(|dated| both.add(*dated));
    let question = Question { catalog: &both, ..*policy };
    let deleted = retention::removals(&question, now);
    let may_go: BTreeSet<_> = deleted.iter().map(|removal| removal.file.key_parts()).collect();
    let points: BTreeSet<Txid> = stretches(&sound).concat().into_iter().collect();
    let excused = |file: &Stored| {
        let merged = |other: &Stored| other.level > file.level && other.level < Level::BASE;
        let holds = |other: &Stored| merged(other) && other.min <= file.min && other.max >= file.max;
        !policy.policy.enabled
            || points.contains(&file.max)
            || may_go.contains(&file.key_parts())
            || sound.iter().any(holds)
    };
    let lost: Vec<Stored> = gone.into_iter().filter(|file| !excused(file)).collect();
    if lost.is_empty() { Sight::Whole } else { Sight::Past(lost) }
}

/// The known objects that a listing lacks, or has with another size.
pub(crate) fn differing<'a>(known: impl IntoIterator<Item = &'a Dated>, listed: &[Dated]) -> Vec<Stored> {
    let sizes: BTreeMap<_, u64> = listed.iter().map(|dated| (dated.file.key_parts(), dated.file.size)).collect();
    let known = known.into_iter().map(|dated| dated.file);
    known.filter(|file| sizes.get(&file.key_parts()) != Some(&file.size)).collect()
}

/// The listed objects without the `distrusted` ones.
pub(crate) fn sound(listed: &[Dated], distrusted: &[Stored]) -> Vec<Stored> {
    let distrusted: BTreeSet<_> = distrusted.iter().map(Stored::key_parts).collect();
    let files = listed.iter().map(|dated| dated.file);
    files.filter(|file| !distrusted.contains(&file.key_parts())).collect()
}

/// The lowest object that reaches past all known objects: another writer made it.
pub(crate) fn stray(known: &Catalog, listed: &[Dated]) -> Option<Stored> {
    let newest: Option<Txid> = known.all().map(|dated| dated.file.max).max();
    let beyond = listed.iter().map(|dated| dated.file).filter(|file| Some(file.max) > newest);
    beyond.min_by_key(|file| (file.max, file.level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::dated;
    use crate::options::{LevelPolicy, Retention, Upkeep};
    use crate::retention::StoreLocks;

    const DAY: i64 = 24 * 3600;

    fn catalog() -> Vec<Dated> {
        let mut all = vec![dated(9, 1, 1, 0), dated(9, 1, 4, DAY)];
        all.extend((2..=8).map(|txid| dated(0, txid, txid, DAY + i64::try_from(txid).expect("small"))));
        all.push(dated(1, 2, 4, DAY));
        all.push(dated(1, 5, 6, DAY + 6));
        all
    }

    /// The loss without the objects that `gone` names, some seconds after the newest object.
    fn without(gone: &[(u8, u64, u64)], enabled: bool, later: i64) -> (&'static str, Vec<(u8, u64, u64)>) {
        let known = Catalog::new(catalog());
        let parts = |file: &Stored| (file.level.number(), file.min.0, file.max.0);
        let listed: Vec<Dated> = catalog().into_iter().filter(|dated| !gone.contains(&parts(&dated.file))).collect();
        let retention = Retention { enabled, ..Retention::default() };
        let Upkeep { levels, .. } = Upkeep::default();
        let levels: Vec<LevelPolicy> = levels;
        let policy =
            Question { catalog: &known, policy: &retention, levels: &levels, pins: &[], locks: &StoreLocks::default() };
        let now = Moment::from_millis((DAY + 8 + later) * 1000);
        let name = |files: Vec<Stored>| files.iter().map(parts).collect();
        match judge(&known, Some(Txid(8)), &listed, &policy, now) {
            Sight::Whole => ("whole", Vec::new()),
            Sight::Past(files) => ("past", name(files)),
            Sight::Newest(files) => ("newest", name(files)),
        }
    }

    #[test]
    fn what_counts() {
        let all: Vec<_> = catalog().iter().map(|d| (d.file.level.number(), d.file.min.0, d.file.max.0)).collect();
        for (gone, later, expected) in [
            (&[][..], 0, ("whole", vec![])),
            // The newest capture, or one on the way to it.
            (&[(0, 8, 8)], 0, ("newest", vec![(0, 8, 8)])),
            (&[(0, 7, 7)], 0, ("newest", vec![(0, 7, 7)])),
            // Merged, and so perhaps deleted by another process.
            (&[(0, 5, 5), (0, 6, 6)], 0, ("whole", vec![])),
            (&[(0, 3, 3), (1, 2, 4)], 0, ("past", vec![(0, 3, 3)])),
            (&[(1, 5, 6)], 0, ("whole", vec![])),
            (&[(1, 5, 6), (0, 5, 5)], 0, ("newest", vec![(0, 5, 5), (1, 5, 6)])),
            // The newest base: the one before it leads to the same states.
            (&[(9, 1, 4)], 0, ("whole", vec![])),
            (&[(9, 1, 4), (1, 2, 4), (0, 3, 3)], 0, ("newest", vec![(0, 3, 3), (1, 2, 4), (9, 1, 4)])),
            (&[(9, 1, 1), (9, 1, 4)], 0, ("newest", vec![(9, 1, 1), (9, 1, 4)])),
            (&[(9, 1, 1)], 0, ("past", vec![(9, 1, 1)])),
            // Older than the window, and there is a newer base.
            (&[(9, 1, 1)], 9 * DAY, ("whole", vec![])),
            (&all, 0, ("newest", all.clone())),
        ] {
            let (kind, mut lost) = without(gone, true, later);
            lost.sort_unstable();
            let mut expected = expected;
            expected.1.sort_unstable();
            assert_eq!((kind, lost), expected, "{gone:?} {later}");
        }
        assert_eq!(without(&[(9, 1, 1)], false, 0), ("whole", vec![]), "the bucket's own rules delete");
        assert_eq!(without(&[(0, 8, 8)], false, 0).0, "newest");
        let (nothing, retention) = (Catalog::default(), Retention::default());
        let locks = StoreLocks::default();
        let policy = Question { catalog: &nothing, policy: &retention, levels: &[], pins: &[], locks: &locks };
        assert_eq!(judge(&nothing, None, &[], &policy, Moment::default()), Sight::Whole);
        assert_eq!(judge(&nothing, Some(Txid(2)), &[], &policy, Moment::default()), Sight::Newest(Vec::new()));
    }

    #[test]
    fn what_has_another_size_is_not_what_was_written() {
        let known = Catalog::new(catalog());
        let mut listed = catalog();
        assert!(differing(known.all(), &listed).is_empty());
        listed[0].file.size = 0;
        assert_eq!(differing(known.all(), &listed), [catalog()[0].file]);
        assert_eq!(sound(&listed, &[catalog()[0].file]).len(), listed.len() - 1);
    }

    #[test]
    fn what_reaches_past_everything_is_somebody_elses() {
        let known = Catalog::new(catalog());
        let mut listed = catalog();
        assert_eq!(stray(&known, &listed), None);
        listed.extend([dated(0, 99, 99, 0), dated(1, 20, 30, 0), dated(0, 3, 3, 0)]);
        assert_eq!(stray(&known, &listed), Some(dated(1, 20, 30, 0).file));
        assert_eq!(stray(&Catalog::default(), &[]), None);
    }
}
