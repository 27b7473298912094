//! Which bases may go, and which part of the log does no base need? Pure: from what a vault holds, the policy and the
//! present. What holds whatever the policy:
//!
//! * The newest base that restores something stays, and the log from its start on. So do pinned bases.
//! * Every moment of the window that can be restored now can be restored afterwards: of each line of the log that reaches
//!   into the window, the newest base before the window stays, and the log from there on.
//! * A base outside the window stays as a point: with the log that it needs to be consistent, and no more.
//! * A part of the log that was written within the window and a grace stays, whatever it belongs to: a base that needs it may
//!   be in the making.
//! * The decision only gives a base up. Its objects, and the log that it needs, are deleted a grace later, so that a restore
//!   that reads them can finish. If the decision would be another one by then, the base counts again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seawall_archive::log::{Contents, History, LogFile, LogObject, Lsn, SegmentSize, TimelineId};
use seawall_archive::{RetentionPolicy, SetId};
use seawall_core::Moment;

use super::recover::choose::Reach;

/// The shortest time for which any part of the log stays, whatever the window: longer than a base takes.
const LOG_STAYS: Duration = Duration::from_secs(2 * 24 * 3600);

/// The facts about a base that retention decides on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its name.
    pub(crate) id: SetId,
    /// When its copy had ended, the first moment that it restores; not before it was begun by the clock of Seawall's host.
    pub(crate) ended: Moment,
    /// The timeline of the log that it needs.
    pub(crate) timeline: u32,
    /// Where recovery begins to read the log.
    pub(crate) start: Lsn,
    /// The end of what recovery must read.
    pub(crate) stop: Lsn,
    /// How far its log goes along each line that has all that the base needs. Empty if there is none, or if an object of the base is
    /// missing: then it restores nothing.
    pub(crate) reaches: Vec<Reach>,
    /// Whether retention gave it up before.
    pub(crate) retired: bool,
}

impl Candidate {
    /// Whether it restores something.
    pub(crate) fn restores(&self) -> bool {
        !self.reaches.is_empty()
    }
}

/// The bases to give up now. `bases` are all that are there.
pub(crate) fn removals(bases: &[Candidate], pins: &[SetId], policy: &RetentionPolicy, now: Moment) -> Vec<SetId> {
    let Some(window) = policy.window.filter(|_| policy.enabled) else { return Vec::new() };
    let mut bases: Vec<&Candidate> = bases.iter().filter(|base| !base.retired).collect();
    bases.sort_by_key(|base| (base.ended, base.id));
    let restorable: Vec<&Candidate> = bases.iter().copied().filter(|base| base.restores()).collect();
    let Some(newest) = restorable.last() else { return Vec::new() };
    let from = now.before(window);
    let moments: Vec<Moment> = restorable.iter().map(|base| base.ended).collect();
    let mut stay: BTreeSet<SetId> =
        policy.thinning.chosen(&moments).into_iter().filter_map(|at| restorable.get(at)).map(|base| base.id).collect();
    stay.insert(newest.id);
    stay.extend(pins);
    stay.extend(anchors(&restorable, from));
    bases.iter().filter(|base| base.ended < from && !stay.contains(&base.id)).map(|base| base.id).collect()
}

/// The bases that were given up and that would stay by today's decision. The base for which one was given up may have lost an object
/// or its log since, the clock may have been wrong, and a person may have pinned one at that moment or keeps more now.
pub(crate) fn returns(bases: &[Candidate], pins: &[SetId], policy: &RetentionPolicy, now: Moment) -> Vec<SetId> {
    let as_if_none_was: Vec<Candidate> =
        bases.iter().map(|base| Candidate { retired: false, ..base.clone() }).collect();
    let gone = removals(&as_if_none_was, pins, policy, now);
    bases.iter().filter(|base| base.retired && !gone.contains(&base.id)).map(|base| base.id).collect()
}

/// The newest base before `from` of each line of the log that goes on behind `from`. `restorable` are in the order of time.
fn anchors<'a>(restorable: &'a [&Candidate], from: Moment) -> impl Iterator<Item = SetId> + 'a {
    let mut newest: BTreeMap<(u32, Lsn), SetId> = BTreeMap::new();
    for base in restorable.iter().filter(|base| base.ended <= from) {
        for reach in base.reaches.iter().filter(|reach| reach.until >= from) {
            newest.insert((reach.timeline, reach.lsn), base.id);
        }
    }
    newest.into_values()
}

/// What of the log is needed.
#[derive(Debug)]
pub(crate) struct Needed<'a> {
    contents: &'a Contents,
    stretches: Vec<Stretch>,
}

/// What one base needs of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    timeline: TimelineId,
    start: Lsn,
    /// Where it ends; `None` if the base restores every moment behind it as well.
    end: Option<Lsn>,
}

impl<'a> Needed<'a> {
    /// What the bases that are there need. Without a base that restores something, everything is.
    pub(crate) fn of(
        contents: &'a Contents,
        bases: &[Candidate],
        policy: &RetentionPolicy,
        now: Moment,
    ) -> Option<Self> {
        let window = policy.window.filter(|_| policy.enabled)?;
        let mut all: Vec<&Candidate> = bases.iter().collect();
        all.sort_by_key(|base| (base.ended, base.id));
        let restorable: Vec<&Candidate> = all.iter().copied().filter(|base| base.restores()).collect();
        let newest = restorable.iter().rev().find(|base| !base.retired)?.id;
        // What left the window during the grace may be being restored.
        let from = now.before(window).before(policy.grace);
        let anchors: BTreeSet<SetId> = anchors(&restorable, from).collect();
        let stretch = |base: &&Candidate| {
            let goes_on = base.ended > from || base.retired || base.id == newest || anchors.contains(&base.id);
            let timeline = TimelineId::new(base.timeline)?;
            Some(Stretch { timeline, start: base.start, end: (!goes_on).then_some(base.stop) })
        };
        // A base without a timeline can't be judged.
        let stretches: Option<Vec<Stretch>> = all.iter().map(stretch).collect();
        Some(Self { contents, stretches: stretches? })
    }

    /// Whether an object of the log is needed. `written` is when the store got it.
    pub(crate) fn has(&self, object: LogObject, written: Moment, policy: &RetentionPolicy, now: Moment) -> bool {
        let young =
            policy.window.is_none_or(|window| written >= now.before(window.max(LOG_STAYS)).before(policy.grace));
        let Some((timeline, start, end)) = extent(object, self.contents.cluster.segment_size) else { return true };
        young || self.stretches.iter().any(|stretch| self.overlaps(stretch, timeline, start, end))
    }

    /// Whether a base needs something of a part of the log.
    fn overlaps(&self, stretch: &Stretch, timeline: TimelineId, start: Lsn, end: Lsn) -> bool {
        if end <= stretch.start || stretch.end.is_some_and(|stop| start >= stop) {
            return false;
        }
        if timeline == stretch.timeline {
            return true;
        }
        let (Some(its), Some(bases)) = (self.history(timeline), self.history(stretch.timeline)) else { return true };
        match (its.switch_of(stretch.timeline), bases.switch_of(timeline)) {
            // It came from the base's timeline, and left it behind the base's start.
            (Some(left), _) => left > stretch.start,
            // The base's timeline came from it.
            (_, Some(left)) => start < left,
            _ => false,
        }
    }

    fn history(&self, timeline: TimelineId) -> Option<History> {
        self.contents.history(timeline)
    }
}

/// The part of the log that an object has or speaks of; `None` for histories and records of
/// retention, which always stay.
pub(crate) fn extent(object: LogObject, size: SegmentSize) -> Option<(TimelineId, Lsn, Lsn)> {
    let segment = |name: seawall_archive::log::SegmentName| {
        let start = name.start(size)?;
        Some((name.timeline, start, start.after(size.bytes().into())?))
    };
    match object {
        LogObject::File(LogFile::Segment(name) | LogFile::Partial(name) | LogFile::Backup(name, _)) => segment(name),
        LogObject::Range { timeline, start, end } | LogObject::Hole { timeline, start, end } => {
            Some((timeline, start, end))
        }
        LogObject::File(LogFile::History(_)) | LogObject::Trimmed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use seawall_archive::log::{Cluster, Held, SegmentName, Span, SystemId};
    use seawall_core::Thinning;

    use super::*;

    const HOUR: i64 = 3_600_000;
    const SIZE: u64 = 16 << 20;

    fn at(hour: i64) -> Moment {
        Moment::from_millis(hour * HOUR)
    }

    fn id(hour: i64) -> SetId {
        SetId::new(at(hour), 1)
    }

    fn timeline(number: u32) -> TimelineId {
        TimelineId::new(number).expect("a timeline")
    }

    /// A line of the log that goes to a segment, written at an hour.
    fn way((timeline, segment, until): (u32, u64, i64)) -> Reach {
        Reach { timeline, lsn: Lsn::new(segment * SIZE), until: at(until), is_end: true }
    }

    /// A base of an hour, which needs the segment of this number, and whose line of the log goes to a segment, written at an hour.
    fn base(hour: i64, on: u32, segment: u64, reach: Option<(u32, u64, i64)>) -> Candidate {
        Candidate {
            id: id(hour),
            ended: at(hour),
            timeline: on,
            start: Lsn::new(segment * SIZE + 0x28),
            stop: Lsn::new(segment * SIZE + 0x100),
            reaches: reach.map(way).into_iter().collect(),
            retired: false,
        }
    }

    fn policy(hours: u64, thinning: Thinning) -> RetentionPolicy {
        let window = Some(Duration::from_secs(hours * 3600));
        RetentionPolicy { enabled: true, window, thinning, grace: Duration::from_secs(3600) }
    }

    fn gone(bases: &[Candidate], pins: &[i64], policy: &RetentionPolicy, now: i64) -> Vec<i64> {
        let pins: Vec<SetId> = pins.iter().map(|hour| id(*hour)).collect();
        let gone = removals(bases, &pins, policy, at(now));
        bases.iter().filter(|base| gone.contains(&base.id)).map(|base| base.ended.as_millis() / HOUR).collect()
    }

    #[test]
    fn each_moment_of_the_window_can_still_be_restored() {
        let one_line = |hour: i64| base(hour, 1, u64::try_from(hour).unwrap_or(0), Some((1, 400, 400)));
        let daily: Vec<Candidate> = (1..=16).map(|day| one_line(day * 24)).collect();
        let plain = policy(100, Thinning::default());
        // The window begins at hour 300; the base of hour 288 restores it.
        assert_eq!(gone(&daily, &[], &plain, 400), (1..=11).map(|day| day * 24).collect::<Vec<_>>());
        assert_eq!(gone(&daily, &[24, 48], &plain, 400), (3..=11).map(|day| day * 24).collect::<Vec<_>>());
        let weekly = policy(100, Thinning { weekly: 2, ..Thinning::default() });
        // The first day of 1970 was a Thursday: the last base of the week before the last one is that of hour 240.
        let without_sunday: Vec<i64> = (1..=11).map(|day| day * 24).filter(|hour| *hour != 240).collect();
        assert_eq!(gone(&daily, &[], &weekly, 400), without_sunday);
        let off = RetentionPolicy { enabled: false, ..plain.clone() };
        let forever = RetentionPolicy { window: None, ..plain.clone() };
        for keeps_all in [off, forever] {
            assert!(gone(&daily, &[], &keeps_all, 400).is_empty());
        }
        // Long after the last base, the last one stays.
        assert_eq!(gone(&daily, &[], &plain, 9000).len(), 15);
        let given_up = [Candidate { retired: true, ..one_line(1) }, one_line(2)];
        assert!(gone(&given_up, &[], &plain, 9000).is_empty());
        assert!(gone(&[], &[], &plain, 400).is_empty());
    }

    #[test]
    fn lines_of_the_log_are_kept_apart() {
        let plain = policy(100, Thinning::default());
        // A base without its log restores nothing, and replaces none that does.
        let without = [base(10, 1, 1, Some((1, 9, 400))), base(200, 1, 5, None)];
        assert_eq!(gone(&without, &[], &plain, 400), [200]);
        let nothing = [base(10, 1, 1, None), base(20, 1, 2, None)];
        assert!(gone(&nothing, &[], &plain, 400).is_empty());
        // A hole: moments of the window before it need the base before the window, although a newer base is behind it.
        let hole = [base(10, 1, 1, Some((1, 9, 350))), base(360, 1, 12, Some((1, 20, 400)))];
        assert!(gone(&hole, &[], &plain, 400).is_empty());
        // The hole left the window.
        let old = [base(10, 1, 1, Some((1, 9, 250))), base(260, 1, 12, Some((1, 20, 400)))];
        assert_eq!(gone(&old, &[], &plain, 400), [10]);
        // A lost branch that ends in the window stays restorable, and goes when it has left it.
        let branch = [
            base(10, 1, 1, Some((2, 20, 400))),
            base(200, 1, 7, Some((1, 9, 310))),
            base(315, 2, 15, Some((2, 20, 400))),
        ];
        assert!(gone(&branch, &[], &plain, 400).is_empty());
        assert_eq!(gone(&branch, &[], &plain, 420), [10, 200]);
        // The old primary goes on, and its log is still received. Only a base from before the switch restores it.
        let both = |hour: i64, segment: u64| Candidate {
            reaches: vec![way((2, 20, 400)), way((1, 15, 390))],
            ..base(hour, 1, segment, None)
        };
        let two = [both(10, 1), both(200, 6), base(250, 2, 8, Some((2, 20, 400))), base(290, 2, 9, Some((2, 20, 400)))];
        assert_eq!(gone(&two, &[], &plain, 400), [10, 250]);
        assert_eq!(gone(&two, &[], &plain, 500), [10, 200, 250]);
    }

    #[test]
    fn what_was_given_up_counts_again_if_it_would_stay_today() {
        let plain = policy(100, Thinning::default());
        let base = |hour: i64, reach: i64| base(hour, 1, u64::try_from(hour).unwrap_or(0), Some((1, 400, reach)));
        let given_up = |hour: i64, reach: i64| Candidate { retired: true, ..base(hour, reach) };
        let lost = |hour: i64| Candidate { reaches: Vec::new(), ..base(hour, 0) };
        type Row<'a> = (&'a str, Vec<Candidate>, &'a [i64], RetentionPolicy, i64, &'a [i64]);
        let rows: [Row<'_>; 9] = [
            ("as it was decided", vec![given_up(10, 400), base(200, 400)], &[], plain.clone(), 400, &[]),
            ("the newer one lost an object", vec![given_up(10, 400), lost(200)], &[], plain.clone(), 400, &[10]),
            ("the newer one is gone", vec![given_up(10, 400), given_up(20, 400)], &[], plain.clone(), 400, &[20]),
            (
                "an old one that is left doesn't restore the window",
                vec![base(5, 400), given_up(10, 400), lost(200)],
                &[],
                plain.clone(),
                400,
                &[10],
            ),
            ("pinned meanwhile", vec![given_up(10, 400), base(200, 400)], &[10], plain.clone(), 400, &[10]),
            ("the clock was ahead", vec![given_up(10, 400), base(20, 400)], &[], plain.clone(), 50, &[10]),
            (
                "more is kept",
                vec![given_up(10, 400), base(200, 400)],
                &[],
                RetentionPolicy { window: None, ..plain.clone() },
                400,
                &[10],
            ),
            (
                "one of each week is kept",
                vec![given_up(10, 400), base(200, 400)],
                &[],
                policy(100, Thinning { weekly: 9, ..Thinning::default() }),
                400,
                &[10],
            ),
            ("nothing restores anything", vec![Candidate { retired: true, ..lost(10) }], &[], plain, 400, &[10]),
        ];
        for (what, bases, pins, policy, now, expected) in rows {
            let pins: Vec<SetId> = pins.iter().map(|hour| id(*hour)).collect();
            let expected: Vec<SetId> = expected.iter().map(|hour| id(*hour)).collect();
            assert_eq!(returns(&bases, &pins, &policy, at(now)), expected, "{what}");
        }
    }

    fn contents(histories: &[(u32, &str)]) -> Contents {
        let cluster = Cluster { system: SystemId::new(7), segment_size: SegmentSize::new(16 << 20).expect("a size") };
        let history = |(number, text): &(u32, &str)| {
            let id = timeline(*number);
            (id, History::parse(id, text.as_bytes()).expect("a history"))
        };
        let span = Span { start: Lsn::new(0), end: Lsn::new(1) };
        let held = Held { spans: vec![span], ..Held::default() };
        Contents {
            cluster,
            timelines: [(timeline(1), held)].into(),
            histories: histories.iter().map(history).collect(),
            holes: Vec::new(),
        }
    }

    fn segment(on: u32, number: u64) -> LogObject {
        let size = SegmentSize::new(16 << 20).expect("a size");
        LogObject::File(LogFile::Segment(SegmentName::of(timeline(on), Lsn::new(number * SIZE), size)))
    }

    #[test]
    fn the_log_that_a_base_needs_stays() {
        let plain = policy(100, Thinning { weekly: 9, ..Thinning::default() });
        // Timeline 2 left 1 within segment 9; timeline 3 left 1 within segment 4.
        let contents = contents(&[(2, "1\t0/9000150\tx\n"), (3, "1\t0/4000150\tx\n")]);
        // The window begins at hour 300: base 2 is a point, base 6 restores the window, base 11 is newer.
        let bases = [
            base(10, 1, 2, Some((2, 20, 400))),
            base(200, 1, 6, Some((2, 20, 400))),
            base(390, 2, 11, Some((2, 20, 400))),
        ];
        let needed = Needed::of(&contents, &bases, &plain, at(400)).expect("a newest base");
        for (on, number, expected) in [
            (1, 1, false),
            (1, 2, true),
            (1, 3, false),
            (1, 5, false),
            (1, 6, true),
            (1, 9, true),
            // What the lost branch of timeline 1 went on with can be restored from base 6.
            (1, 14, true),
            (2, 9, true),
            (2, 15, true),
            // Timeline 3 left before the base.
            (3, 8, false),
            // A timeline without a history may be anything.
            (4, 8, true),
            (4, 1, false),
        ] {
            let has = needed.has(segment(on, number), at(100), &plain, at(400));
            assert_eq!(has, expected, "{on} {number}");
            assert!(needed.has(segment(on, number), at(350), &plain, at(400)), "it is younger than the window");
        }
        assert!(needed.has(LogObject::File(LogFile::History(timeline(3))), at(0), &plain, at(400)));
        let hole = LogObject::Hole { timeline: timeline(1), start: Lsn::new(SIZE), end: Lsn::new(2 * SIZE) };
        assert!(!needed.has(hole, at(0), &plain, at(400)));
        // A base that was given up has its log until it is deleted.
        let mut given_up = bases.clone();
        given_up[0].retired = true;
        let needed = Needed::of(&contents, &given_up, &plain, at(400)).expect("a newest base");
        assert!(needed.has(segment(1, 3), at(100), &plain, at(400)));
        // Without a base that restores something, nothing goes.
        let nothing = bases.clone().map(|base| Candidate { reaches: Vec::new(), ..base });
        assert!(Needed::of(&contents, &nothing, &plain, at(400)).is_none());
        let forever = RetentionPolicy { window: None, ..plain };
        assert!(Needed::of(&contents, &bases, &forever, at(400)).is_none());
    }

    #[test]
    fn a_window_that_is_short_keeps_the_log_of_two_days() {
        let short = policy(1, Thinning::default());
        let contents = contents(&[]);
        let bases = [base(10, 1, 2, Some((1, 20, 400))), base(399, 1, 11, Some((1, 20, 400)))];
        let needed = Needed::of(&contents, &bases[1..], &short, at(400)).expect("a newest base");
        for (written, expected) in [(352, true), (350, false)] {
            assert_eq!(needed.has(segment(1, 3), at(written), &short, at(400)), expected, "{written}");
        }
        assert_eq!(gone(&bases, &[], &short, 400), [10]);
    }
}
