//! Which objects are merged into one, and when?
//!
//! Pure: from the vault's content, the schedule and the present to the next job, to the time of the next job, or to
//! nothing (I6). After each window of a level's interval, the objects of the level below become one object. Windows
//! begin at multiples of the interval, shifted by a phase of the database's own, so that databases and hosts don't all
//! work in the same second. The shift is the same for all levels, so a long window ends together with a short one.

use std::time::Duration;

use seawall_core::Moment;
use seawall_ltx::Txid;

use crate::catalog::{Catalog, Dated};
use crate::layout::{Level, Stored};
use crate::options::LevelPolicy;
use crate::plan::{NoPlan, latest, plan};

/// The most objects that are merged into one: bounds memory and open streams.
pub(crate) const FAN_IN: usize = 128;

/// The intervals of one database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule<'a> {
    /// Of levels 1, 2, …
    pub(crate) levels: &'a [LevelPolicy],
    /// How often a complete copy is made if there are changes; `None` for never.
    pub(crate) bases: Option<Duration>,
    /// By how much windows are shifted, in milliseconds.
    pub(crate) phase: u64,
}

/// Objects to be merged into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// The level of the new object.
    pub(crate) level: Level,
    /// The inputs, in the order in which they are applied.
    pub(crate) inputs: Vec<Stored>,
}

/// The job that is due, lowest level first, so that a level is complete before the level above is made from it.
pub(crate) fn due(catalog: &Catalog, schedule: &Schedule<'_>, now: Moment) -> Option<Job> {
    let mut levels = schedule.steps();
    levels.find_map(|step| merge_job(catalog, schedule, step, now)).or_else(|| base_job(catalog, schedule, now))
}

/// A base up to the newest point; `None` when there is nothing after the newest base.
///
/// # Errors
/// When there is a gap before the newest object.
pub(crate) fn complete(catalog: &Catalog) -> Result<Option<Job>, NoPlan> {
    if first_change(catalog).is_none() {
        return Ok(None);
    }
    let chain = latest(&catalog.files())?;
    Ok(chain.map(|mut inputs| {
        inputs.truncate(FAN_IN);
        Job { level: Level::BASE, inputs }
    }))
}

/// When the next job is due, if nothing changes; `None` if there will be none.
pub(crate) fn next(catalog: &Catalog, schedule: &Schedule<'_>) -> Option<Moment> {
    let merges = schedule.steps().filter_map(|Step { from, to, interval }| {
        pending(catalog, from, to)
            .find(|dated| !dated.is_empty())
            .map(|first| schedule.window_end(first.moment, interval))
    });
    let base = schedule
        .bases
        .and_then(|interval| first_change(catalog).map(|first| schedule.window_end(first.moment, interval)));
    merges.chain(base).min()
}

/// One level made from the one below.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: Level,
    to: Level,
    interval: Duration,
}

impl Schedule<'_> {
    fn steps(&self) -> impl Iterator<Item = Step> {
        let levels = self.levels.iter().take(8).enumerate();
        levels.filter_map(|(below, level)| {
            Some(Step { from: Level::new(below)?, to: Level::new(below + 1)?, interval: level.interval })
        })
    }

    /// When the window ends that `moment` lies in.
    pub(crate) fn window_end(&self, moment: Moment, interval: Duration) -> Moment {
        let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
        let phase = i64::try_from(self.phase).unwrap_or(0);
        let into = (moment.as_millis().wrapping_sub(phase)).rem_euclid(interval);
        Moment::from_millis(moment.as_millis().saturating_add(interval - into))
    }
}

/// The objects of a level that the level above doesn't cover, without strangers.
fn pending(catalog: &Catalog, from: Level, to: Level) -> impl Iterator<Item = &Dated> {
    let reached = catalog.reached(to);
    let level = catalog.level(from);
    let behind = level.partition_point(|dated| Some(dated.file.max) <= reached);
    level[behind..].iter().filter(|dated| !catalog.is_apart(&dated.file))
}

fn merge_job(catalog: &Catalog, schedule: &Schedule<'_>, step: Step, now: Moment) -> Option<Job> {
    // Empty objects wait for the first changes after them.
    let first = pending(catalog, step.from, step.to).find(|dated| !dated.is_empty())?;
    let end = schedule.window_end(first.moment, step.interval);
    if now < end {
        return None;
    }
    let mut inputs: Vec<Stored> = Vec::new();
    for dated in pending(catalog, step.from, step.to).take_while(|dated| dated.moment < end) {
        match inputs.last() {
            None => inputs.push(dated.file),
            // It begins earlier and reaches farther than all inputs before it.
            Some(_) if inputs.iter().all(|file| file.min >= dated.file.min) => inputs = vec![dated.file],
            Some(last) if dated.file.max == last.max => {}
            Some(last) if continues(last, &dated.file) && !is_cut(catalog, last, &dated.file) => {
                inputs.push(dated.file);
            }
            Some(_) => break,
        }
        if inputs.len() == FAN_IN {
            break;
        }
    }
    Some(Job { level: step.to, inputs })
}

/// Whether `next` can be applied after `last`.
fn continues(last: &Stored, next: &Stored) -> bool {
    next.min.0 <= last.max.0.saturating_add(1)
}

/// Whether a base begins between two objects. Objects before and after it aren't merged: the page size may differ, and
/// the hole that the base may end must be visible at every level (I3).
fn is_cut(catalog: &Catalog, last: &Stored, next: &Stored) -> bool {
    let bases = catalog.level(Level::BASE);
    let at = bases.partition_point(|base| base.file.max <= last.max);
    bases.get(at).is_some_and(|base| base.is_base() && base.file.max == next.min)
}

/// The oldest object with changes after the newest base.
fn first_change(catalog: &Catalog) -> Option<&Dated> {
    let newest = catalog.bases().next_back()?.file.max;
    let behind = Level::all().filter(|level| *level != Level::BASE).filter_map(|level| {
        let files = catalog.level(level);
        files[files.partition_point(|dated| dated.file.max <= newest)..].iter().find(|dated| !dated.is_empty())
    });
    behind.min_by_key(|dated| dated.moment)
}

/// A base of everything before the end of the last finished window of its interval.
fn base_job(catalog: &Catalog, schedule: &Schedule<'_>, now: Moment) -> Option<Job> {
    let interval = schedule.bases?;
    let first = first_change(catalog)?;
    if now < schedule.window_end(first.moment, interval) {
        return None;
    }
    let over = schedule.window_end(now, interval).before(interval);
    let newest = catalog.bases().next_back()?.file.max;
    let changes = catalog.all().filter(|dated| dated.file.level != Level::BASE && dated.moment < over);
    let target: Txid = changes.map(|dated| dated.file.max).max().filter(|target| *target > newest)?;
    // A chain with a gap gives no base. Then the session makes one from the database.
    let mut inputs = plan(&catalog.files(), target).ok()?;
    // Only without a schedule of levels there are more: then it takes several bases to come that far.
    inputs.truncate(FAN_IN);
    let whole = inputs.iter().all(|file| !catalog.is_apart(file));
    whole.then_some(Job { level: Level::BASE, inputs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::dated;

    const LEVELS: [LevelPolicy; 2] = [
        LevelPolicy { interval: Duration::from_secs(30), keep: None },
        LevelPolicy { interval: Duration::from_secs(300), keep: None },
    ];

    fn schedule() -> Schedule<'static> {
        Schedule { levels: &LEVELS, bases: Some(Duration::from_secs(3600)), phase: 0 }
    }

    fn at(seconds: i64) -> Moment {
        Moment::from_millis(seconds * 1000)
    }

    type Told = (u8, Vec<(u64, u64)>);

    fn told(job: Option<Job>) -> Option<Told> {
        job.map(|job| (job.level.number(), job.inputs.iter().map(|file| (file.min.0, file.max.0)).collect()))
    }

    fn due_at(catalog: &Catalog, seconds: i64) -> Option<Told> {
        told(due(catalog, &schedule(), at(seconds)))
    }

    #[test]
    fn nothing_to_do_has_no_deadline() {
        let schedule = schedule();
        for files in [
            vec![],
            vec![dated(9, 1, 1, 1)],
            vec![dated(9, 1, 2, 1), dated(0, 2, 2, 1), dated(1, 2, 2, 1), dated(2, 2, 2, 1)],
        ] {
            let catalog = Catalog::new(files);
            assert_eq!((due(&catalog, &schedule, at(1_000_000)), next(&catalog, &schedule)), (None, None));
        }
    }

    #[test]
    fn a_window_is_merged_once_it_is_over() {
        let mut catalog = Catalog::new([
            dated(9, 1, 1, 1),
            dated(0, 2, 2, 2),
            dated(0, 3, 3, 29),
            dated(0, 4, 4, 30),
            dated(0, 5, 5, 299),
        ]);
        assert_eq!(next(&catalog, &schedule()), Some(at(30)));
        assert_eq!(due_at(&catalog, 29), None);
        assert_eq!(due_at(&catalog, 30), Some((1, vec![(2, 2), (3, 3)])));
        catalog.add(dated(1, 2, 3, 29));
        assert_eq!((due_at(&catalog, 59), next(&catalog, &schedule())), (None, Some(at(60))));
        assert_eq!(due_at(&catalog, 60), Some((1, vec![(4, 4)])));
        catalog.add(dated(1, 4, 4, 30));
        catalog.add(dated(1, 5, 5, 299));
        assert_eq!(next(&catalog, &schedule()), Some(at(300)));
        assert_eq!(due_at(&catalog, 300), Some((2, vec![(2, 3), (4, 4), (5, 5)])));
        catalog.add(dated(2, 2, 5, 299));
        assert_eq!((due_at(&catalog, 3599), next(&catalog, &schedule())), (None, Some(at(3600))));
        assert_eq!(due_at(&catalog, 3600), Some((9, vec![(1, 1), (2, 5)])));
        catalog.add(dated(9, 1, 5, 299));
        assert_eq!((due_at(&catalog, 9999), next(&catalog, &schedule())), (None, None));
    }

    /// The empty capture after a first base costs an idle database nothing, and is merged with the first changes.
    #[test]
    fn what_is_empty_waits_for_changes() {
        let mut empty = dated(0, 2, 2, 1);
        empty.file.size = 131;
        let mut catalog = Catalog::new([dated(9, 1, 1, 1), empty]);
        assert_eq!((due_at(&catalog, 1_000_000), next(&catalog, &schedule())), (None, None));
        catalog.add(dated(0, 3, 3, 9000));
        assert_eq!((due_at(&catalog, 9001), next(&catalog, &schedule())), (None, Some(at(9030))));
        assert_eq!(due_at(&catalog, 9030), Some((1, vec![(2, 2), (3, 3)])));
    }

    /// After a pause: window by window, so that the points between them stay.
    #[test]
    fn a_backlog_is_merged_window_by_window() {
        let catalog = Catalog::new([dated(9, 1, 1, 1), dated(0, 2, 2, 2), dated(0, 3, 3, 31), dated(0, 4, 4, 100_000)]);
        assert_eq!(due_at(&catalog, 1_000_000), Some((1, vec![(2, 2)])));
    }

    #[test]
    fn what_a_merge_must_not_cross() {
        let gap = [dated(9, 1, 1, 1), dated(0, 2, 2, 2), dated(0, 4, 4, 4)];
        assert_eq!(due_at(&Catalog::new(gap), 99), Some((1, vec![(2, 2)])));
        let base = [dated(9, 1, 1, 1), dated(0, 2, 2, 2), dated(9, 1, 3, 3), dated(0, 3, 3, 3), dated(0, 4, 4, 4)];
        assert_eq!(due_at(&Catalog::new(base), 99), Some((1, vec![(2, 2)])));
        let behind = base.into_iter().chain([dated(1, 2, 2, 2)]);
        assert_eq!(due_at(&Catalog::new(behind), 99), Some((1, vec![(3, 3), (4, 4)])));
        let many = (2..1000).map(|n| dated(0, n, n, 1));
        assert_eq!(due_at(&Catalog::new(many), 99).map(|(_, inputs)| inputs.len()), Some(FAN_IN));
    }

    /// Objects before a stranger are merged, and objects after the base that ends it. Nothing is merged across it.
    #[test]
    fn a_stranger_stops_only_what_it_touches() {
        let files = [
            dated(9, 1, 1, 1),
            dated(0, 2, 2, 2),
            dated(0, 3, 3, 3),
            dated(0, 4, 4, 4),
            dated(0, 5, 5, 5),
            dated(9, 1, 6, 6),
            dated(0, 6, 6, 6),
            dated(0, 7, 7, 7),
        ];
        let mut catalog = Catalog::new(files);
        catalog.set_apart(dated(0, 4, 4, 4).file);
        assert_eq!(due_at(&catalog, 99), Some((1, vec![(2, 2), (3, 3)])));
        catalog.add(dated(1, 2, 3, 3));
        assert_eq!(due_at(&catalog, 99), Some((1, vec![(6, 6), (7, 7)])));
        catalog.add(dated(1, 6, 7, 7));
        assert_eq!(due_at(&catalog, 99), None);
        // Without a base after the stranger, nothing after it is merged.
        let mut catalog = Catalog::new(files.into_iter().filter(|dated| dated.file.max < Txid(6)));
        catalog.set_apart(dated(0, 4, 4, 4).file);
        catalog.add(dated(1, 2, 3, 3));
        assert_eq!(due_at(&catalog, 99), None);
        catalog.add(dated(2, 2, 3, 3));
        assert_eq!(due_at(&catalog, 3600), None, "no base of it either");
    }

    #[test]
    fn overlaps_are_taken_as_they_are() {
        let redundant = [dated(1, 2, 4, 2), dated(1, 3, 4, 2), dated(1, 4, 9, 3)];
        assert_eq!(due_at(&Catalog::new(redundant), 300), Some((2, vec![(2, 4), (4, 9)])));
        let swallowing = [dated(1, 3, 4, 2), dated(1, 2, 9, 3), dated(1, 10, 11, 4)];
        assert_eq!(due_at(&Catalog::new(swallowing), 300), Some((2, vec![(2, 9), (10, 11)])));
        let straddling = [dated(1, 2, 5, 1), dated(2, 2, 4, 1)];
        assert_eq!(due_at(&Catalog::new(straddling), 300), Some((2, vec![(2, 5)])));
    }

    #[test]
    fn a_base_is_made_of_what_is_over() {
        let log = |n: u64, seconds: i64| [0, 1, 2].map(|level| dated(level, n, n, seconds));
        let mut files = vec![dated(9, 1, 1, 1)];
        files.extend(log(2, 3000).into_iter().chain(log(3, 3700)));
        let catalog = Catalog::new(files.clone());
        assert_eq!(due_at(&catalog, 3599), None);
        assert_eq!(due_at(&catalog, 3800), Some((9, vec![(1, 1), (2, 2)])));
        assert_eq!(due_at(&catalog, 7200), Some((9, vec![(1, 1), (2, 2), (3, 3)])));
        let never = Schedule { bases: None, ..schedule() };
        assert_eq!((due(&catalog, &never, at(99_999)), next(&catalog, &never)), (None, None));
        files.remove(0);
        assert_eq!(due_at(&Catalog::new(files), 99_999), None, "nothing to begin with");
    }

    #[test]
    fn a_base_of_everything_that_is_there() {
        let complete = |files: &[Dated]| complete(&Catalog::new(files.iter().copied())).map(told);
        let mut empty = dated(0, 2, 2, 1);
        empty.file.size = 131;
        let mut files = vec![dated(9, 1, 1, 1), empty];
        assert_eq!(complete(&files), Ok(None), "nothing changed");
        files.extend([dated(0, 3, 3, 2), dated(0, 4, 4, 3)]);
        assert_eq!(complete(&files), Ok(Some((9, vec![(1, 1), (2, 2), (3, 3), (4, 4)]))));
        files.push(dated(9, 1, 4, 3));
        assert_eq!(complete(&files), Ok(None), "it is there");
        files.push(dated(0, 6, 6, 4));
        assert_eq!(complete(&files), Err(NoPlan::Gap { reached: Txid(4) }));
        let many: Vec<Dated> = [dated(9, 1, 1, 1)].into_iter().chain((2..1000).map(|n| dated(0, n, n, 1))).collect();
        assert_eq!(complete(&many).map(|job| job.map(|(_, inputs)| inputs.len())), Ok(Some(FAN_IN)));
    }

    #[test]
    fn phases_shift_windows_and_keep_them_nested() {
        for phase in [0, 1, 29_999, 123_456_789] {
            let schedule = Schedule { phase, ..schedule() };
            let (short, long) = (Duration::from_secs(30), Duration::from_secs(300));
            for millis in [-1, 0, 1, 29_999, 30_000, 1_800_000_000_123] {
                let moment = Moment::from_millis(millis);
                let end = schedule.window_end(moment, short);
                assert!(end > moment && end.since(moment) <= short);
                let last = Moment::from_millis(schedule.window_end(moment, long).as_millis() - 1);
                assert_eq!(schedule.window_end(last, short), schedule.window_end(moment, long), "{phase} {millis}");
            }
        }
    }
}
