//! How far does the log go from a base on, and until when?

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use seawall_archive::log::{Contents, Log, LogFile, LogObject, Lsn, TimelineId};
use seawall_core::Moment;

use super::choose::Reach;
use crate::Error;

/// When objects of the log were written, by their timeline and the position behind their last byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written(BTreeMap<TimelineId, Times>);

/// The times of a timeline's objects: 16 bytes for each segment.
#[derive(Debug, Clone, Default)]
struct Times(BTreeMap<Lsn, Moment>);

/// Asks when the objects of a log were written.
pub(crate) async fn written(log: &Log) -> Result<Written, Error> {
    let mut entries = Box::pin(log.vault().entries(&log.prefix()?, None));
    let mut written = Written::default();
    let size = log.cluster().segment_size;
    while let Some(entry) = entries.try_next().await.map_err(seawall_archive::Error::from)? {
        let Some((_, object)) = LogObject::parse(&entry.key) else { continue };
        let end = match object {
            LogObject::File(LogFile::Segment(name)) => {
                name.start(size).and_then(|start| start.after(size.bytes().into()))
            }
            LogObject::Range { end, .. } => Some(end),
            LogObject::File(_) | LogObject::Hole { .. } | LogObject::Trimmed { .. } => None,
        };
        if let Some(end) = end {
            let times = &mut written.0.entry(object.timeline()).or_default().0;
            let time = times.entry(end).or_insert(entry.modified);
            // A range and the segment that took its place end alike: the earlier one had the bytes already.
            *time = (*time).min(entry.modified);
        }
    }
    Ok(written)
}

/// How far the log goes from a base on, along the newest timeline that goes on from it; `None` where it doesn't even begin.
pub(crate) fn reach(contents: &Contents, written: &Written, timeline: u32, start: Lsn, stop: Lsn) -> Option<Reach> {
    let its = TimelineId::new(timeline)?;
    let lines = contents.timelines.keys().rev().copied().filter(|line| *line >= its);
    let reaches = lines.filter_map(|line| {
        let history = contents.history(line)?;
        // It must come from the base's timeline, and have left it behind the base's end.
        let goes_on = line == its || history.switch_of(its).is_some_and(|switch| switch >= stop);
        let lsn = goes_on.then(|| contents.reach(line, start)).flatten()?;
        let until = contents.timelines.keys().filter(|one| **one == line || history.includes(**one));
        let until = until.filter_map(|one| written.0.get(one)?.0.range(..=lsn).next_back().map(|(_, at)| *at)).max()?;
        Some(Reach { timeline: line.number(), lsn, until })
    });
    // The newest line that has all of the base; otherwise what there is of it.
    let all: Vec<Reach> = reaches.collect();
    all.iter().find(|reach| reach.lsn >= stop).or(all.first()).copied()
}
