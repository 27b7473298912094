//! Which ranges does the log have, and what is missing in it?

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use seawall_core::Moment;
use serde::{Deserialize, Serialize};

use super::{Cluster, History, Log, LogError, LogFile, LogObject, Lsn, SegmentSize, TimelineId};
use crate::manifest::read_document;

/// The most bytes of a record of a hole.
const LARGEST_HOLE: u64 = 64 << 10;

/// A part of the log without a gap: from its first position to the one after its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// The first position.
    pub start: Lsn,
    /// The position after the last byte.
    pub end: Lsn,
}

/// The record of a range that is lost, made when that was noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// Its timeline.
    pub timeline: TimelineId,
    /// The first position that is lost.
    pub start: Lsn,
    /// Where the log goes on.
    pub end: Lsn,
    /// When it was noticed.
    pub at: Moment,
    /// Why it is lost.
    pub cause: String,
}

/// A part of the log that is missing, although the log goes on behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The timeline on which it begins.
    pub timeline: TimelineId,
    /// The first position that is missing.
    pub start: Lsn,
    /// Where the log goes on.
    pub end: Lsn,
    /// Why, if that was recorded.
    pub cause: Option<String>,
}

/// What there is of one timeline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// Its parts, in their order, with gaps between them.
    pub spans: Vec<Span>,
    /// Whether its history file is there.
    pub has_history: bool,
    /// Objects.
    pub objects: u64,
    /// Bytes in the store.
    pub bytes: u64,
    /// When the newest object was written, by the store's clock.
    pub written: Option<Moment>,
    /// Retention deleted log before this position.
    pub trimmed: Option<Lsn>,
}

/// What the log of a cluster holds.
#[derive(Debug, Clone)]
pub struct Contents {
    /// Whose log it is.
    pub cluster: Cluster,
    /// Its timelines.
    pub timelines: BTreeMap<TimelineId, Held>,
    /// The histories of the timelines that have one. The first timeline needs none.
    pub histories: BTreeMap<TimelineId, History>,
    /// The records of what is lost.
    pub holes: Vec<Hole>,
}

impl Log {
    /// What the log holds: one listing, and each history file.
    ///
    /// # Errors
    /// When the vault can't be listed, or a history can't be read.
    pub async fn contents(&self) -> Result<Contents, LogError> {
        self.contents_beside(&mut |_, _| {}).await
    }

    /// The same; `see` is called with each object of the one listing, and with when its content is from.
    ///
    /// # Errors
    /// As [`Log::contents`].
    pub async fn contents_beside(&self, see: &mut (dyn FnMut(LogObject, Moment) + Send)) -> Result<Contents, LogError> {
        let (mut timelines, mut lost) = (BTreeMap::<TimelineId, Held>::new(), Vec::new());
        let mut entries = Box::pin(self.vault.entries(&self.prefix()?, None));
        while let Some(entry) = entries.try_next().await? {
            let Some((_, object)) = LogObject::parse(&entry.key) else { continue };
            if let LogObject::Hole { .. } = object {
                lost.push(entry.key.clone());
            }
            let held = timelines.entry(object.timeline()).or_default();
            held.add(object, self.cluster.segment_size);
            see(object, entry.modified);
            held.objects += 1;
            held.bytes += entry.size;
            held.written = held.written.max(Some(entry.modified));
        }
        timelines.values_mut().for_each(Held::join);
        let mut histories = BTreeMap::new();
        for timeline in timelines.iter().filter(|(_, held)| held.has_history).map(|(timeline, _)| *timeline) {
            histories.extend(self.history(timeline).await?.map(|history| (timeline, history)));
        }
        let mut holes = Vec::with_capacity(lost.len());
        for key in lost {
            let bytes = self.vault.read(&key, None, LARGEST_HOLE).await?;
            holes.push(read_document(&bytes, &self.vault.object(&key))?);
        }
        Ok(Contents { cluster: self.cluster, timelines, histories, holes })
    }
}

impl Held {
    fn add(&mut self, object: LogObject, size: SegmentSize) {
        let span = match object {
            LogObject::File(LogFile::Segment(name)) => {
                name.start(size).map(|start| (start, start.after(size.bytes().into())))
            }
            LogObject::Range { start, end, .. } => Some((start, Some(end))),
            LogObject::File(LogFile::History(_)) => {
                self.has_history = true;
                None
            }
            LogObject::Trimmed { end, .. } => {
                self.trimmed = self.trimmed.max(Some(end));
                None
            }
            LogObject::File(LogFile::Partial(_) | LogFile::Backup(..)) | LogObject::Hole { .. } => None,
        };
        let Some((start, Some(end))) = span else { return };
        match self.spans.last_mut() {
            // Names are in the order of positions, mostly: so few spans are in memory.
            Some(last) if last.end == start => last.end = end,
            _ => self.spans.push(Span { start, end }),
        }
    }

    fn join(&mut self) {
        self.spans.sort_unstable();
        let mut joined: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in self.spans.drain(..) {
            match joined.last_mut() {
                Some(last) if last.end >= span.start => last.end = last.end.max(span.end),
                _ => joined.push(span),
            }
        }
        self.spans = joined;
    }

    /// The gaps between its parts.
    pub fn gaps(&self) -> impl Iterator<Item = Span> {
        self.spans.windows(2).filter_map(|pair| match pair {
            [before, after] => Some(Span { start: before.end, end: after.start }),
            _ => None,
        })
    }
}

impl Contents {
    /// The history of a timeline, if it is there or isn't needed.
    pub fn history(&self, timeline: TimelineId) -> Option<History> {
        match timeline.number() {
            1 => Some(History::first(timeline)),
            _ => self.histories.get(&timeline).cloned(),
        }
    }

    /// The newest timeline of which there is anything.
    pub fn newest(&self) -> Option<TimelineId> {
        self.timelines.keys().next_back().copied()
    }

    /// The position up to which retention deleted log of a timeline or of its ancestors.
    pub fn trimmed(&self, timeline: TimelineId) -> Option<Lsn> {
        let own = |timeline: TimelineId| self.timelines.get(&timeline).and_then(|held| held.trimmed);
        let history = self.history(timeline);
        let ancestors = history.iter().flat_map(|history| &history.ancestors);
        // What a timeline has behind the position where it was left is no part of the later one.
        let before = ancestors.filter_map(|ancestor| Some(own(ancestor.timeline)?.min(ancestor.switch)));
        before.chain(own(timeline)).max()
    }

    /// What is missing: between parts of a timeline, between a timeline and the one that it came from, and what was recorded as lost
    /// and didn't come since. What is before everything that is there isn't missing, nor is what retention deleted.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for (timeline, held) in &self.timelines {
            let within = held.gaps().map(|Span { start, end }| Gap { timeline: *timeline, start, end, cause: None });
            let found = within.chain(self.gap_before(*timeline, held));
            // Each with the timeline on which the log goes on.
            gaps.extend(found.map(|gap| (*timeline, gap)));
        }
        for hole in &self.holes {
            let is_its = |(_, gap): &&mut (TimelineId, Gap)| {
                let overlaps = hole.start < gap.end && gap.start < hole.end;
                hole.start == gap.start || (hole.timeline == gap.timeline && overlaps)
            };
            let mut its = gaps.iter_mut().filter(is_its).peekable();
            if its.peek().is_some() {
                its.for_each(|(_, gap)| gap.cause = Some(hole.cause.clone()));
                continue;
            }
            let all = || self.timelines.values().flat_map(|held| &held.spans);
            let is_filled = all().any(|span| span.start <= hole.start && hole.end <= span.end);
            if !is_filled && all().any(|span| span.end <= hole.start) {
                let Hole { timeline, start, end, .. } = *hole;
                gaps.push((timeline, Gap { timeline, start, end, cause: Some(hole.cause.clone()) }));
            }
        }
        let remains = |(on, gap): &(TimelineId, Gap)| self.trimmed(*on).is_none_or(|trimmed| gap.end > trimmed);
        let mut gaps: Vec<Gap> = gaps.into_iter().filter(remains).map(|(_, gap)| gap).collect();
        gaps.sort_by_key(|gap| (gap.timeline, gap.start, gap.end));
        gaps
    }

    /// What is missing between a timeline and what is there of those that it came from.
    fn gap_before(&self, timeline: TimelineId, held: &Held) -> Option<Gap> {
        let first = held.spans.first()?.start;
        let history = self.history(timeline)?;
        let began = history.ancestors.last()?.switch;
        let (before, end) = history.ancestors.iter().rev().find_map(|ancestor| {
            let spans = &self.timelines.get(&ancestor.timeline)?.spans;
            let last = spans.iter().rfind(|span| span.start < ancestor.switch)?;
            Some((ancestor.timeline, last.end.min(ancestor.switch)))
        })?;
        let on = if end < began { before } else { timeline };
        (end < first).then_some(Gap { timeline: on, start: end, end: first, cause: None })
    }

    /// The newest timeline, if it is later than `timeline` and isn't reached from it at `at`: it left that timeline before, at the
    /// position, or didn't come from it.
    pub fn left(&self, timeline: TimelineId, at: Lsn) -> Option<(TimelineId, Option<Lsn>)> {
        let newest = self.newest().filter(|newest| *newest > timeline)?;
        let switch = self.history(newest).and_then(|history| history.switch_of(timeline));
        switch.is_none_or(|switch| switch < at).then_some((newest, switch))
    }

    /// How far a recovery gets that begins at `from` and follows the line of `target`: the position after the last byte that
    /// is there without a gap. `None` if there is nothing at `from`, or the history of `target` is missing.
    pub fn reach(&self, target: TimelineId, from: Lsn) -> Option<Lsn> {
        let history = self.history(target)?;
        let stretches = history.ancestors.iter().map(|ancestor| (ancestor.timeline, Some(ancestor.switch)));
        let stretches = stretches.chain([(target, None)]).filter(|(_, until)| until.is_none_or(|until| until > from));
        let mut reached = None;
        for (timeline, until) in stretches {
            let at = reached.unwrap_or(from);
            let spans = self.timelines.get(&timeline).map(|held| held.spans.as_slice()).unwrap_or_default();
            let span = spans.iter().find(|span| span.start <= at && at < span.end);
            let end = span.map(|span| until.map_or(span.end, |until| until.min(span.end)));
            reached = end.or(reached);
            // The next timeline begins with a copy of the segment in which it left this one.
            let copied = until.map(|until| until.segment_start(self.cluster.segment_size));
            if copied.is_none_or(|copied| end.unwrap_or(at) < copied) {
                break;
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{SegmentName, SystemId};

    const SIZE: u64 = 16 << 20;

    fn id(number: u32) -> TimelineId {
        TimelineId::new(number).expect("a timeline")
    }

    fn size() -> SegmentSize {
        SegmentSize::new(16 << 20).expect("a size")
    }

    fn segment(timeline: u32, number: u64) -> LogObject {
        let name = SegmentName::of(id(timeline), Lsn::new(number * SIZE), size());
        LogObject::File(LogFile::Segment(name))
    }

    fn range(timeline: u32, start: u64, end: u64) -> LogObject {
        LogObject::Range { timeline: id(timeline), start: Lsn::new(start), end: Lsn::new(end) }
    }

    fn held(objects: &[LogObject]) -> Held {
        let mut held = Held::default();
        objects.iter().for_each(|object| held.add(*object, size()));
        held.join();
        held
    }

    fn spans(held: &Held) -> Vec<(u64, u64)> {
        held.spans.iter().map(|span| (span.start.byte(), span.end.byte())).collect()
    }

    #[test]
    fn ranges_and_segments_make_spans() {
        let all =
            [range(1, 3 * SIZE, 3 * SIZE + 10), range(1, 3 * SIZE + 8, 3 * SIZE + 20), segment(1, 1), segment(1, 2)];
        assert_eq!(spans(&held(&all)), [(SIZE, 3 * SIZE + 20)]);
        let gap = held(&[segment(1, 1), segment(1, 3)]);
        assert_eq!(spans(&gap), [(SIZE, 2 * SIZE), (3 * SIZE, 4 * SIZE)]);
        assert_eq!(gap.gaps().collect::<Vec<_>>(), [Span { start: Lsn::new(2 * SIZE), end: Lsn::new(3 * SIZE) }]);
    }

    #[test]
    fn what_is_missing() {
        let switch = 4 * SIZE + 0x150;
        let text = format!("1\t0/{switch:X}\tpromoted\n");
        let history = History::parse(id(2), text.as_bytes()).expect("a history");
        let hole = |timeline: u32, start: u64, end: u64| Hole {
            timeline: id(timeline),
            start: Lsn::new(start),
            end: Lsn::new(end),
            at: Moment::from_millis(0),
            cause: "lost".to_owned(),
        };
        let told = |first: &[LogObject], second: &[LogObject], holes: &[Hole]| {
            let contents = Contents {
                cluster: Cluster { system: SystemId::new(7), segment_size: size() },
                timelines: [(id(1), held(first)), (id(2), held(second))].into(),
                histories: [(id(2), history.clone())].into(),
                holes: holes.to_vec(),
            };
            let gaps = contents.gaps().into_iter();
            gaps.map(|gap| (gap.timeline.number(), gap.start.byte(), gap.end.byte(), gap.cause.is_some())).collect()
        };
        type Row = (Vec<LogObject>, Vec<LogObject>, Vec<Hole>, Vec<(u32, u64, u64, bool)>);
        let rows: Vec<Row> = vec![
            // The old timeline up to its last whole segment, and up to the switch.
            (vec![segment(1, 2), segment(1, 3)], vec![segment(2, 4)], vec![], vec![]),
            (vec![segment(1, 3), range(1, 4 * SIZE, switch)], vec![segment(2, 4)], vec![], vec![]),
            // It goes on in a server that was demoted.
            (vec![segment(1, 3), segment(1, 4), segment(1, 5)], vec![segment(2, 4)], vec![], vec![]),
            // Torn between the timelines.
            (vec![segment(1, 1)], vec![segment(2, 4)], vec![], vec![(1, 2 * SIZE, 4 * SIZE, false)]),
            (
                vec![segment(1, 1), segment(1, 7)],
                vec![segment(2, 4)],
                vec![hole(1, 2 * SIZE, 4 * SIZE)],
                vec![(1, 2 * SIZE, 4 * SIZE, true), (1, 2 * SIZE, 7 * SIZE, true)],
            ),
            (
                vec![segment(1, 3), range(1, 4 * SIZE, switch)],
                vec![segment(2, 6)],
                vec![],
                vec![(2, switch, 6 * SIZE, false)],
            ),
            // The log begins on the second timeline.
            (vec![], vec![segment(2, 6)], vec![], vec![]),
            // Recorded on the timeline on which the log goes on; recorded, and filled since; recorded, and all before it deleted.
            (
                vec![segment(1, 1)],
                vec![segment(2, 6)],
                vec![hole(2, 2 * SIZE, 6 * SIZE)],
                vec![(1, 2 * SIZE, 6 * SIZE, true)],
            ),
            (vec![segment(1, 1), segment(1, 2), segment(1, 3)], vec![], vec![hole(1, 2 * SIZE, 3 * SIZE)], vec![]),
            (vec![segment(1, 3)], vec![], vec![hole(1, 2 * SIZE, 3 * SIZE)], vec![]),
            // Recorded, and nothing came behind it so far.
            (vec![segment(1, 1)], vec![], vec![hole(1, 2 * SIZE, 5 * SIZE)], vec![(1, 2 * SIZE, 5 * SIZE, true)]),
        ];
        for (nth, (first, second, holes, expected)) in rows.into_iter().enumerate() {
            let found: Vec<(u32, u64, u64, bool)> = told(&first, &second, &holes);
            assert_eq!(found, expected, "{nth}");
        }
        // Retention deleted what was before the second segment.
        for (trimmed, expected) in [(4 * SIZE, 0), (4 * SIZE - 1, 1)] {
            let trimmed = Held { trimmed: Some(Lsn::new(trimmed)), ..held(&[segment(1, 1), segment(1, 4)]) };
            let contents = Contents {
                cluster: Cluster { system: SystemId::new(7), segment_size: size() },
                timelines: [(id(1), trimmed)].into(),
                histories: BTreeMap::new(),
                holes: Vec::new(),
            };
            assert_eq!(contents.gaps().len(), expected);
        }
    }

    #[test]
    fn what_retention_deleted_of_one_timeline_hides_nothing_of_another() {
        // Timeline 2 left 1 within segment 4. Timeline 3 left 1 within segment 2.
        let history = |number: u32, switch: u64| {
            let text = format!("1\t0/{switch:X}\tpromoted\n");
            (id(number), History::parse(id(number), text.as_bytes()).expect("a history"))
        };
        let first = held(&[segment(1, 1), segment(1, 2), segment(1, 3), segment(1, 4)]);
        let second = held(&[segment(2, 4), segment(2, 6)]);
        for (trimmed, expected) in [
            ([0, 0, 0], 1),
            // The old timeline went on, and its log was deleted.
            ([9 * SIZE, 0, 0], 1),
            ([0, 0, 9 * SIZE], 1),
            ([0, 6 * SIZE, 0], 0),
            ([0, 6 * SIZE - 1, 0], 1),
        ] {
            let with = |held: &Held, nth: usize| {
                let trimmed = Some(Lsn::new(trimmed[nth])).filter(|_| trimmed[nth] > 0);
                Held { trimmed, ..held.clone() }
            };
            let third = held(&[segment(3, 2)]);
            let contents = Contents {
                cluster: Cluster { system: SystemId::new(7), segment_size: size() },
                timelines: [(id(1), with(&first, 0)), (id(2), with(&second, 1)), (id(3), with(&third, 2))].into(),
                histories: [history(2, 4 * SIZE + 0x150), history(3, 2 * SIZE + 0x150)].into(),
                holes: Vec::new(),
            };
            let gaps: Vec<(u32, u64)> =
                contents.gaps().iter().map(|gap| (gap.timeline.number(), gap.start.byte() / SIZE)).collect();
            assert_eq!(gaps, vec![(2, 5); expected], "{trimmed:?}");
        }
    }

    #[test]
    fn a_timeline_that_was_left_is_known_by_its_position() {
        let history = History::parse(id(3), b"1\t0/5000150\tx\n").expect("a history");
        let contents = Contents {
            cluster: Cluster { system: SystemId::new(7), segment_size: size() },
            timelines: [1, 3].map(|number| (id(number), Held::default())).into(),
            histories: [(id(3), history)].into(),
            holes: Vec::new(),
        };
        let switch = Lsn::new(0x500_0150);
        for (timeline, at, expected) in [
            (1, 0x500_0150, None),
            (1, 0x500_0151, Some(Some(switch))),
            (2, 0x400_0000, Some(None)),
            (3, 0x900_0000, None),
            (4, 0x900_0000, None),
        ] {
            let found = contents.left(id(timeline), Lsn::new(at));
            assert_eq!(found, expected.map(|switch| (id(3), switch)), "{timeline} at {at:X}");
        }
    }

    #[test]
    fn how_far_a_recovery_gets() {
        let cluster = Cluster { system: SystemId::new(7), segment_size: size() };
        let switch = 4 * SIZE + 0x150;
        let history = |number: u32| {
            let text = format!("1\t0/{switch:X}\tpromoted\n");
            History::parse(id(number), text.as_bytes()).expect("a history")
        };
        let contents = |first: &[LogObject], second: &[LogObject]| Contents {
            cluster,
            timelines: [(id(1), held(first)), (id(2), held(second))].into(),
            histories: [(id(2), history(2))].into(),
            holes: Vec::new(),
        };
        let one = [segment(1, 1), segment(1, 2), segment(1, 3)];
        for (first, second, target, from, expected) in [
            (&one[..], &[][..], 1, SIZE, Some(4 * SIZE)),
            (&one, &[segment(2, 4)], 2, SIZE, Some(5 * SIZE)),
            (&[segment(1, 3), segment(1, 4)], &[segment(2, 4)], 2, 3 * SIZE, Some(5 * SIZE)),
            // The old timeline goes on: that isn't part of the new one.
            (&[segment(1, 3), segment(1, 4), segment(1, 5)], &[], 2, 3 * SIZE, Some(switch)),
            (
                &[segment(1, 3), range(1, 4 * SIZE, switch)],
                &[segment(2, 4), segment(2, 6)],
                2,
                3 * SIZE,
                Some(5 * SIZE),
            ),
            (&[segment(1, 3), segment(1, 5)], &[], 1, 3 * SIZE, Some(4 * SIZE)),
            (&one, &[segment(2, 4)], 2, 4 * SIZE + 0x200, Some(5 * SIZE)),
            (&one, &[], 1, 7 * SIZE, None),
            (&one, &[], 3, SIZE, None),
        ] {
            let reached = contents(first, second).reach(id(target), Lsn::new(from));
            assert_eq!(reached, expected.map(Lsn::new), "{target} from {from}");
        }
    }
}
