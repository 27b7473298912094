//! Which objects may be deleted?
//!
//! Pure: from the vault's content, the policy and the present to the objects that may be deleted, each with the reason,
//! or to the time when there will be some. Three promises hold for every policy:
//!
//! * The newest state, and every point that the policy promises, can be restored afterwards. The newest base stays, and
//!   so does the newest object of every level.
//! * A restore that was planned within the last `grace` finds its objects. An object goes only if its replacement has
//!   existed for that long, and no point that was promised within that time needs it.
//! * Only LTX files go, by exactly known names.
//! * No object goes while the store keeps it locked.
//!
//! The promised points are: every point at the end of an object whose level keeps it (`l0` and [`LevelPolicy::keep`]),
//! if it isn't older than `window`; bases chosen by the calendar (`hourly` to `yearly`) and by number (`minimum`), each
//! for its own point only; and pinned points.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seawall_core::Moment;
use seawall_ltx::Txid;

use crate::catalog::{Catalog, Dated};
use crate::layout::{Level, Stored};
use crate::options::{LevelPolicy, Retention};
use crate::plan::plan;

/// Why an object may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A higher level holds the same changes, and its own level doesn't keep it any longer.
    Merged,
    /// It leads to no point that is kept: a newer base is older than the whole window.
    Outdated,
}

impl Why {
    /// The reason for people, in one sentence without a full stop.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Merged => "merged into a higher level",
            Self::Outdated => "older than what is kept",
        }
    }
}

/// An object that may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) file: Stored,
    pub(crate) why: Why,
}

/// Until when the store keeps objects locked. No deletion of a locked object is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoreLocks {
    /// How long each new object is locked.
    pub(crate) span: Duration,
    /// The ends of locks that last longer, as far as the store was asked: Seawall renewed them, or a person set them.
    pub(crate) ends: BTreeMap<(u8, Txid, Txid), Moment>,
}

impl StoreLocks {
    /// When the lock of an object ends.
    fn end(&self, dated: &Dated) -> Moment {
        let own = self.ends.get(&dated.file.key_parts()).copied();
        dated.written.after(self.span).max(own.unwrap_or(dated.written))
    }

    /// When the last lock ends, of all objects that one object of a higher level covers.
    fn end_of_parts(&self, level: Level, by: &Dated) -> Option<Moment> {
        let covered = |min: &Txid, max: &Txid| by.file.min <= *min && *max <= by.file.max;
        let parts = self.ends.iter().filter(|((of, min, max), _)| *of == level.number() && covered(min, max));
        parts.map(|(_, end)| *end).max()
    }

    fn is_empty(&self) -> bool {
        self.span.is_zero() && self.ends.is_empty()
    }
}

/// A policy and the facts that it is applied to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) policy: &'a Retention,
    pub(crate) levels: &'a [LevelPolicy],
    /// Points that stay whatever the policy says.
    pub(crate) pins: &'a [Txid],
    pub(crate) locks: &'a StoreLocks,
}

/// The objects that may be deleted now: level by level, oldest first.
pub(crate) fn removals(question: &Question<'_>, now: Moment) -> Vec<Removal> {
    if !question.policy.enabled {
        return Vec::new();
    }
    let floor = floor(question, now);
    let pinned = question.pinned();
    let logs = question.logs().filter_map(|(dated, keep)| {
        let why = if floor.is_some_and(|floor| dated.file.max <= floor.file.max) {
            (question.locks.end(dated) <= now).then_some(Why::Outdated)?
        } else {
            let due = question.merged_until(dated, keep)?;
            (due <= now).then_some(Why::Merged)?
        };
        Some(Removal { file: dated.file, why })
    });
    let kept = question.kept_bases(now);
    let behind_floor = |dated: &&Dated| floor.is_some_and(|floor| dated.file.max < floor.file.max);
    let bases = question.catalog.bases().filter(behind_floor).filter(|dated| !kept.contains(&dated.file.max));
    let bases = bases.filter(|dated| question.locks.end(dated) <= now);
    let bases = bases.map(|dated| Removal { file: dated.file, why: Why::Outdated });
    logs.chain(bases).filter(|removal| !pinned.contains(&removal.file.key_parts())).collect()
}

/// When an object may be deleted, if nothing changes: the present if one may be deleted now, `None` if none ever may.
pub(crate) fn next(question: &Question<'_>, now: Moment) -> Option<Moment> {
    if !question.policy.enabled {
        return None;
    }
    let pinned = question.pinned();
    let logs = question.logs().filter(|(dated, _)| !pinned.contains(&dated.file.key_parts()));
    let merged = logs.filter_map(|(dated, keep)| question.merged_until(dated, keep)).min();
    // All other changes of the answer come with a base that becomes the floor, or that has existed for a grace period.
    let changes = question.catalog.bases().flat_map(|base| {
        [question.floor_from(base), Some(base.written.after(question.policy.grace))].into_iter().flatten()
    });
    let changes: BTreeSet<Moment> = changes.chain(question.unlocked()).map(|due| due.max(now)).collect();
    let earlier = |due: &Moment| merged.is_none_or(|merged| *due < merged);
    let outdated = changes.into_iter().filter(earlier).find(|due| !removals(question, *due).is_empty());
    outdated.into_iter().chain(merged).min().map(|due| due.max(now))
}

/// The TXID up to which the log of the window was deleted; `None` if the window reaches back to the beginning.
pub(crate) fn floor_at(question: &Question<'_>, now: Moment) -> Option<Txid> {
    floor(question, now).map(|base| base.file.max)
}

/// The newest base that is older than the whole window: every point of the window can be restored from it on.
fn floor<'a>(question: &Question<'a>, now: Moment) -> Option<&'a Dated> {
    question.catalog.bases().rev().find(|base| question.floor_from(base).is_some_and(|due| due <= now))
}

impl<'a> Question<'a> {
    /// From when on `base` can be the floor.
    fn floor_from(&self, base: &Dated) -> Option<Moment> {
        let aged = base.moment.after(self.policy.window?);
        Some(aged.max(base.written).after(self.policy.grace))
    }

    /// When locks end: for each base, of the first object that it outdates and its own, and of all objects.
    fn unlocked(&self) -> impl Iterator<Item = Moment> {
        let all = || self.catalog.all().filter(|_| !self.locks.is_empty());
        let bases = self.catalog.bases().filter(|_| !self.locks.is_empty());
        let end = |dated: &Dated| self.locks.end(dated);
        let first = move |base: &Dated| all().filter(|dated| dated.file.max <= base.file.max).map(end).min();
        let of_bases: Vec<Moment> = bases.flat_map(|base| first(base).into_iter().chain([end(base)])).collect();
        let last = all().map(end).max();
        of_bases.into_iter().chain(last).chain(self.locks.ends.values().copied())
    }

    /// Files below level 9 that may ever be deleted, each with how long its level keeps it after it was merged (`None`:
    /// without limit).
    fn logs(&self) -> impl Iterator<Item = (&'a Dated, Option<Duration>)> {
        let exempt = self.policy.l0.is_none();
        let keeps = self.keeps();
        let levels = Level::all().filter(move |level| *level != Level::BASE && !(exempt && *level == Level::LOG));
        let catalog = self.catalog;
        levels.flat_map(move |level| {
            let keep = keeps[usize::from(level.number())];
            // The newest stays: a program that continues the level, also Litestream, begins after it.
            let older = catalog.level(level).split_last().map_or(&[][..], |(_, older)| older);
            older.iter().map(move |dated| (dated, keep))
        })
    }

    /// How long each level keeps merged objects. No level keeps them shorter than the level below, because its points
    /// are reached through the levels above.
    fn keeps(&self) -> [Option<Duration>; 9] {
        let mut keeps = [None; 9];
        keeps[0] = self.policy.l0;
        let mut least = self.policy.l0.unwrap_or_default();
        for (keep, level) in keeps.iter_mut().skip(1).zip(self.levels) {
            *keep = level.keep.map(|keep| keep.max(least));
            least = keep.unwrap_or(Duration::MAX);
        }
        keeps
    }

    /// When a file may be deleted because a file of a higher level covers it; `None` if there is none.
    ///
    /// All files that one higher file covers are deleted together: without one of them, the points of the others would
    /// be unreachable.
    fn merged_until(&self, dated: &Dated, keep: Option<Duration>) -> Option<Moment> {
        let (keep, level) = (keep?, usize::from(dated.file.level.number()));
        let covers = |above: Level| {
            let files = self.catalog.level(above);
            let at = files.partition_point(|by| by.file.max < dated.file.max);
            files.get(at).filter(|by| by.file.min <= dated.file.min)
        };
        let above = (level + 1..9).filter_map(Level::new).filter_map(covers);
        // The parts were written before the merged object, so their locks end before its own would, if no lock was renewed.
        let free = |by: &Dated| {
            let written = by.written.max(dated.written);
            written.after(self.locks.span).max(self.locks.end_of_parts(dated.file.level, by).unwrap_or(written))
        };
        above.map(|by| by.moment.after(keep).max(free(by)).after(self.policy.grace)).min()
    }

    /// All objects that a restore of a pinned point reads.
    fn pinned(&self) -> BTreeSet<(u8, Txid, Txid)> {
        if self.pins.is_empty() {
            return BTreeSet::new();
        }
        let files = self.catalog.files();
        let chains = self.pins.iter().filter_map(|pin| plan(&files, *pin).ok());
        chains.flatten().map(|file| file.key_parts()).collect()
    }

    /// Bases that stay by the calendar and by number. A base that was chosen a grace period ago still stays, so no base
    /// is deleted in the moment in which a newer one replaces it.
    fn kept_bases(&self, now: Moment) -> BTreeSet<Txid> {
        let bases: Vec<&Dated> = self.catalog.bases().collect();
        let known = |base: &&Dated| base.written.after(self.policy.grace) <= now;
        let earlier: Vec<&Dated> = bases.iter().copied().filter(known).collect();
        let mut kept = self.policy.chosen(&bases);
        kept.extend(self.policy.chosen(&earlier));
        kept
    }
}

impl Retention {
    /// The bases that the calendar and the minimum choose. `bases` are in order, oldest first.
    fn chosen(&self, bases: &[&Dated]) -> BTreeSet<Txid> {
        let moments: Vec<Moment> = bases.iter().map(|base| base.moment).collect();
        self.thinning().chosen(&moments).into_iter().map(|place| bases[place].file.max).collect()
    }
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
