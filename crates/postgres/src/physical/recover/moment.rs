//! What the log itself says of a moment: when a timeline began, and whether a transaction ended after a moment.
//!
//! A server that recovers to a moment stops at the first transaction that ended later, and refuses to open if there is none. So where
//! the log has none, the whole log is what there was at the moment, as far as the vault knows.

use std::path::Path;

use seawall_archive::log::{Fetched, History, Line, Log, LogError, LogFile, Lsn, SegmentName, TimelineId};
use seawall_core::Moment;

use super::super::records::{Event, events};
use super::choose::{Candidate, Choice};
use crate::Error;

/// Bytes of the next segment that complete the last record of a segment.
const MORE: usize = 64 << 10;

/// When a timeline began, by the clock of the server that began it; `None` if the log doesn't say.
pub(super) async fn begun(log: &Log, timeline: TimelineId) -> Result<Option<Moment>, Error> {
    let Some(history) = log.history(timeline).await? else { return Ok(None) };
    let Some(switch) = history.ancestors.last().map(|ancestor| ancestor.switch) else { return Ok(None) };
    let size = log.cluster().segment_size;
    let start = switch.segment_start(size);
    let Some(bytes) = segment(log, timeline, timeline, start).await? else { return Ok(None) };
    let first = move || {
        let (mut began, mut ended) = (None, None);
        events(&bytes, start, size.bytes() as usize, switch, |_, event| match event {
            Event::Began(moment) if ended.is_none() => {
                began.get_or_insert(moment);
            }
            Event::Ended(moment) => {
                ended.get_or_insert(moment);
            }
            Event::Began(_) | Event::Tablespace { .. } => {}
        });
        Ok::<_, Error>(began.map(|began| at_the_latest(began, ended)))
    };
    seawall_core::blocking(first).await
}

/// When a timeline had begun for certain. A server that recovered to a point notes whole seconds, without what is behind the comma: so
/// it began within that second, and before its first transaction ended. Pure.
fn at_the_latest(began: Moment, first_ended: Option<Moment>) -> Moment {
    if began.as_millis() % 1000 != 0 {
        return began;
    }
    let latest = Moment::from_millis(began.as_millis().saturating_add(999));
    first_ended.map_or(latest, |ended| latest.min(ended.max(began)))
}

/// Whether a transaction ended after `moment`, up to where the log of a way goes. The log is read from there back to the last
/// transactions that it has, at most to the end of a base.
pub(super) async fn ended_after(log: &Log, base: &Candidate, way: &Choice, moment: Moment) -> Result<bool, Error> {
    let Some(line) = TimelineId::new(way.reach.timeline) else { return Ok(false) };
    let history = log.history(line).await?.unwrap_or_else(|| History::first(line));
    let size = log.cluster().segment_size;
    let (bytes, until, least) = (u64::from(size.bytes()), way.reach.lsn, base.stop.segment_start(size));
    let mut start = Lsn::new(until.byte().saturating_sub(1)).segment_start(size);
    let mut behind: Vec<u8> = Vec::new();
    loop {
        let mut found = None;
        for timeline in on(&history, start, bytes) {
            found = segment(log, line, timeline, start).await?;
            if found.is_some() {
                break;
            }
        }
        if let Some(mut content) = found {
            let first = content.get(..MORE.min(content.len())).unwrap_or_default().to_vec();
            content.append(&mut behind);
            behind = first;
            let look = move || {
                let (mut any, mut after) = (false, false);
                events(&content, start, size.bytes() as usize, start, |at, event| {
                    if let Event::Ended(ended) = event
                        && at < until
                    {
                        any = true;
                        after |= ended > moment;
                    }
                });
                Ok::<_, Error>((any, after))
            };
            let (any, after) = seawall_core::blocking(look).await?;
            if any {
                return Ok(after);
            }
        }
        if start <= least {
            return Ok(false);
        }
        start = Lsn::new(start.byte().saturating_sub(bytes));
    }
}

/// The timelines that may have the segment at `start`, the newest first. `bytes` is the size of a segment.
pub(in super::super) fn on(history: &History, start: Lsn, bytes: u64) -> Vec<TimelineId> {
    let end = start.after(bytes).unwrap_or(start);
    let mut began = Lsn::default();
    let mut found = Vec::new();
    for ancestor in &history.ancestors {
        if began < end && start < ancestor.switch {
            found.push(ancestor.timeline);
        }
        began = ancestor.switch;
    }
    if began < end {
        found.push(history.timeline);
    }
    found.reverse();
    found
}

/// The bytes of a segment, as a server gets them that recovers `line`.
async fn segment(log: &Log, line: TimelineId, timeline: TimelineId, start: Lsn) -> Result<Option<Vec<u8>>, Error> {
    let name = SegmentName::of(timeline, start, log.cluster().segment_size);
    let fetched = match log.fetch(LogFile::Segment(name), Line::Of(line)).await {
        Ok(fetched) => fetched,
        Err(LogError::Absent { .. } | LogError::Hole { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let unpack = move || unpacked(&fetched, &name.to_string());
    Ok(Some(seawall_core::blocking(unpack).await?))
}

fn unpacked(fetched: &Fetched, name: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    fetched.write_to(&mut bytes, Path::new(name))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use seawall_archive::log::Ancestor;

    use super::*;

    #[test]
    fn a_timeline_began_within_the_second_that_its_server_noted() {
        for (began, ended, expected) in [
            (5000, None, 5999),
            (5000, Some(5400), 5400),
            (5000, Some(9000), 5999),
            // The clock was set back.
            (5000, Some(4000), 5000),
            (5123, Some(5400), 5123),
        ] {
            let at = Moment::from_millis;
            assert_eq!(at_the_latest(at(began), ended.map(at)), at(expected), "{began} {ended:?}");
        }
    }

    #[test]
    fn which_timelines_may_have_a_segment() {
        let id = |number| TimelineId::new(number).expect("a timeline");
        let ancestor = |number, switch| Ancestor { timeline: id(number), switch: Lsn::new(switch) };
        let history = History { timeline: id(4), ancestors: vec![ancestor(1, 25), ancestor(2, 28), ancestor(3, 40)] };
        for (start, expected) in [(0, &[1][..]), (10, &[1]), (20, &[3, 2, 1]), (30, &[3]), (40, &[4]), (50, &[4])] {
            let found: Vec<u32> = on(&history, Lsn::new(start), 10).into_iter().map(TimelineId::number).collect();
            assert_eq!(found, expected, "{start}");
        }
    }
}
