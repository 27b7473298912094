//! How far does the log go from a base on, and until when?

use std::collections::BTreeMap;

use seawall_archive::log::{Contents, Log, LogFile, LogObject, Lsn, SegmentSize, TimelineId};
use seawall_core::Moment;

use super::choose::Reach;
use crate::Error;

/// When objects of the log were written, by their timeline and the position behind their last byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written(BTreeMap<TimelineId, Times>);

/// The times of a timeline's objects: 16 bytes for each segment.
#[derive(Debug, Clone, Default)]
struct Times {
    ends: BTreeMap<Lsn, Moment>,
    /// The first one of all.
    first: Option<Moment>,
}

/// What a log holds, and when its objects were written: from one listing.
pub(crate) async fn survey(log: &Log) -> Result<(Contents, Written), Error> {
    let mut written = Written::default();
    let size = log.cluster().segment_size;
    let contents = log.contents_beside(&mut |object, at| written.add(object, at, size)).await?;
    Ok((contents, written))
}

impl Written {
    pub(crate) fn add(&mut self, object: LogObject, at: Moment, size: SegmentSize) {
        let end = match object {
            LogObject::File(LogFile::Segment(name)) => {
                name.start(size).and_then(|start| start.after(size.bytes().into()))
            }
            LogObject::Range { end, .. } => Some(end),
            LogObject::File(_) | LogObject::Hole { .. } | LogObject::Trimmed { .. } => None,
        };
        let times = self.0.entry(object.timeline()).or_default();
        times.first = Some(times.first.map_or(at, |first| first.min(at)));
        if let Some(end) = end {
            let time = times.ends.entry(end).or_insert(at);
            // A range and the segment that took its place end alike: the earlier one had the bytes already.
            *time = (*time).min(at);
        }
    }

    /// When the first object of a timeline was written.
    pub(crate) fn begun(&self, timeline: TimelineId) -> Option<Moment> {
        self.0.get(&timeline).and_then(|times| times.first)
    }

    /// When the last object was written that ends at `position` or before.
    fn until(&self, timeline: TimelineId, position: Lsn) -> Option<Moment> {
        self.0.get(&timeline)?.ends.range(..=position).next_back().map(|(_, at)| *at)
    }
}

/// How far the log goes from a base on, along the newest timeline that goes on from it; `None` where it doesn't even begin.
pub(crate) fn reach(contents: &Contents, written: &Written, timeline: u32, start: Lsn, stop: Lsn) -> Option<Reach> {
    let all = reaches(contents, written, timeline, start, stop);
    // The newest line that has all of the base; otherwise what there is of it.
    all.iter().find(|reach| reach.lsn >= stop).or(all.first()).copied()
}

/// How far the log goes from a base on along each timeline that goes on from it, the newest first.
pub(crate) fn reaches(contents: &Contents, written: &Written, timeline: u32, start: Lsn, stop: Lsn) -> Vec<Reach> {
    let Some(its) = TimelineId::new(timeline) else { return Vec::new() };
    let lines = contents.timelines.keys().rev().copied().filter(|line| *line >= its);
    let reaches = lines.filter_map(|line| {
        let history = contents.history(line)?;
        // It must come from the base's timeline, and have left it behind the base's end.
        let goes_on = line == its || history.switch_of(its).is_some_and(|switch| switch >= stop);
        let lsn = goes_on.then(|| contents.reach(line, start)).flatten()?;
        // What an older timeline has behind the position where it was left is no part of it.
        let parts = history.ancestors.iter().map(|ancestor| (ancestor.timeline, ancestor.switch));
        let parts: Vec<(TimelineId, Lsn)> = parts.chain([(line, Lsn::new(u64::MAX))]).collect();
        let until = parts.iter().filter_map(|(one, switch)| written.until(*one, lsn.min(*switch))).max()?;
        let goes_on_behind = |(one, switch): &(TimelineId, Lsn)| {
            let last = contents.timelines.get(one).and_then(|held| held.spans.last());
            let lost =
                |hole: &seawall_archive::log::Hole| hole.timeline == *one && hole.start >= lsn && hole.start < *switch;
            last.is_some_and(|span| span.end.min(*switch) > lsn) || contents.holes.iter().any(lost)
        };
        let is_end = !parts.iter().any(goes_on_behind);
        Some(Reach { timeline: line.number(), lsn, until, is_end })
    });
    reaches.collect()
}
