//! From where is the log asked for, and may it be? Pure: facts of the server and the vault in, a decision out.

use seawall_archive::log::{Cluster, Contents, History, Lsn, SegmentSize, TimelineId};

/// What is known before the log is asked for.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    /// The server's cluster.
    pub(super) server: Cluster,
    /// The server's timeline with its ancestors.
    pub(super) history: &'a History,
    /// How far the server's log goes.
    pub(super) flushed: Lsn,
    /// What the vault holds of this cluster's log.
    pub(super) contents: &'a Contents,
    /// Whether the server said that the log which follows the vault's is removed already.
    pub(super) removed: bool,
    /// From where on the server keeps its log for us.
    pub(super) kept: Lsn,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The log is asked for.
    Stream(Start),
    /// The server is on a timeline that was left: a later one is in the vault.
    Demoted {
        /// The later timeline.
        newest: TimelineId,
        /// Where that one left the server's timeline, if it came from it.
        switch: Option<Lsn>,
    },
    /// The server's log ends before the vault's.
    Behind {
        /// How far the vault's goes on this timeline.
        ours: Lsn,
    },
}

/// From where the log is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    /// Its timeline.
    pub(super) timeline: TimelineId,
    /// The begin of a segment.
    pub(super) from: Lsn,
    /// Up to here the vault has it.
    pub(super) durable: Lsn,
    /// Whether the vault has the bytes from `from` to `durable` on this timeline.
    pub(super) continues: bool,
    /// What is lost: from the end of the vault's log to where the server's begins.
    pub(super) hole: Option<(Lsn, Lsn)>,
}

/// Decides.
pub(super) fn decide(facts: &Facts<'_>) -> Decision {
    let Facts { server, history, flushed, contents, removed, kept } = facts;
    let (own, size) = (history.timeline, server.segment_size);
    if let Some(newest) = contents.newest().filter(|newest| *newest > own) {
        let switch = contents.history(newest).and_then(|newest| newest.switch_of(own));
        return Decision::Demoted { newest, switch };
    }
    let frontier = frontier(contents, history);
    let Some((timeline, durable)) = frontier.filter(|_| !removed) else {
        return Decision::Stream(anew(history, *kept, size, frontier));
    };
    if timeline == own && durable > *flushed {
        return Decision::Behind { ours: durable };
    }
    Decision::Stream(following(history, timeline, durable, size))
}

/// Where the log goes on that ends at `durable` on `timeline`.
pub(super) fn following(history: &History, timeline: TimelineId, durable: Lsn, size: SegmentSize) -> Start {
    let from = durable.segment_start(size);
    match (history.switch_of(timeline), history.child_of(timeline)) {
        // All of the timeline is there: the next one begins with a copy of this segment.
        (Some(switch), Some(child)) if switch <= durable => {
            let from = switch.segment_start(size);
            Start { timeline: child, from, durable: switch, continues: false, hole: None }
        }
        _ => Start { timeline, from, durable, continues: true, hole: None },
    }
}

/// A start where the server's log begins.
fn anew(history: &History, kept: Lsn, size: SegmentSize, frontier: Option<(TimelineId, Lsn)>) -> Start {
    let then = history.ancestors.iter().find(|ancestor| ancestor.switch > kept);
    let timeline = then.map_or(history.timeline, |ancestor| ancestor.timeline);
    let from = kept.segment_start(size);
    let hole = frontier.map(|(_, durable)| (durable, from)).filter(|(durable, from)| durable < from);
    Start { timeline, from, durable: from, continues: false, hole }
}

/// How far the vault has the log on the way to the server's timeline.
pub(super) fn frontier(contents: &Contents, history: &History) -> Option<(TimelineId, Lsn)> {
    let line = history.ancestors.iter().map(|ancestor| (ancestor.timeline, Some(ancestor.switch)));
    let line: Vec<_> = line.chain([(history.timeline, None)]).collect();
    line.into_iter().rev().find_map(|(timeline, switch)| {
        let end = contents.timelines.get(&timeline)?.spans.last()?.end;
        Some((timeline, switch.map_or(end, |switch| switch.min(end))))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seawall_archive::log::{Held, Span, SystemId};

    use super::*;

    const SIZE: u64 = 16 << 20;

    fn id(number: u32) -> TimelineId {
        TimelineId::new(number).expect("a timeline")
    }

    fn cluster() -> Cluster {
        Cluster { system: SystemId::new(7), segment_size: SegmentSize::new(16 << 20).expect("a size") }
    }

    fn history(number: u32, text: &str) -> History {
        if text.is_empty() {
            History::first(id(number))
        } else {
            History::parse(id(number), text.as_bytes()).expect("a history")
        }
    }

    /// Contents: for each timeline its spans in bytes, and the histories.
    fn contents(spans: &[(u32, u64, u64)], histories: &[(u32, &str)]) -> Contents {
        let mut timelines: BTreeMap<TimelineId, Held> = BTreeMap::new();
        for (timeline, start, end) in spans {
            let span = Span { start: Lsn::new(*start), end: Lsn::new(*end) };
            timelines.entry(id(*timeline)).or_default().spans.push(span);
        }
        let histories = histories.iter().map(|(number, text)| (id(*number), history(*number, text))).collect();
        Contents { cluster: cluster(), timelines, histories, holes: Vec::new() }
    }

    fn stream(timeline: u32, from: u64, durable: u64, continues: bool, hole: Option<(u64, u64)>) -> Decision {
        let hole = hole.map(|(start, end)| (Lsn::new(start), Lsn::new(end)));
        let (from, durable) = (Lsn::new(from), Lsn::new(durable));
        Decision::Stream(Start { timeline: id(timeline), from, durable, continues, hole })
    }

    #[test]
    fn decisions() {
        let left = "1\t0/4000150\tpromoted\n";
        let switch = 4 * SIZE + 0x150;
        let kept = 9 * SIZE + 77;
        let at = |number: u32, text: &'static str, flushed: u64| (history(number, text), flushed);
        type Row<'a> = (&'a str, (History, u64), Contents, bool, Decision);
        let rows: Vec<Row<'_>> = vec![
            (
                "the first time: where the slot begins",
                at(1, "", kept),
                contents(&[], &[]),
                false,
                stream(1, 9 * SIZE, 9 * SIZE, false, None),
            ),
            (
                "in the middle of a segment",
                at(1, "", kept),
                contents(&[(1, SIZE, 5 * SIZE + 100)], &[]),
                false,
                stream(1, 5 * SIZE, 5 * SIZE + 100, true, None),
            ),
            (
                "at the border of a segment",
                at(1, "", kept),
                contents(&[(1, SIZE, 5 * SIZE)], &[]),
                false,
                stream(1, 5 * SIZE, 5 * SIZE, true, None),
            ),
            (
                "it was removed",
                at(1, "", kept),
                contents(&[(1, SIZE, 5 * SIZE + 100)], &[]),
                true,
                stream(1, 9 * SIZE, 9 * SIZE, false, Some((5 * SIZE + 100, 9 * SIZE))),
            ),
            (
                "the first time, and the slot is older than the promotion",
                at(2, left, 3 * SIZE),
                contents(&[], &[]),
                false,
                stream(2, 9 * SIZE, 9 * SIZE, false, None),
            ),
            (
                "promoted, and the rest of the old timeline is missing",
                at(2, left, kept),
                contents(&[(1, SIZE, 3 * SIZE + 1)], &[]),
                false,
                stream(1, 3 * SIZE, 3 * SIZE + 1, true, None),
            ),
            (
                "promoted, and all of the old timeline is there",
                at(2, left, kept),
                contents(&[(1, SIZE, switch)], &[]),
                false,
                stream(2, 4 * SIZE, switch, false, None),
            ),
            (
                "promoted, and the old server had more",
                at(2, left, kept),
                contents(&[(1, SIZE, 6 * SIZE)], &[]),
                false,
                stream(2, 4 * SIZE, switch, false, None),
            ),
            (
                "on the new timeline",
                at(2, left, kept),
                contents(&[(1, SIZE, switch), (2, 4 * SIZE, 5 * SIZE + 9)], &[(2, left)]),
                false,
                stream(2, 5 * SIZE, 5 * SIZE + 9, true, None),
            ),
            (
                "the demoted node",
                at(1, "", kept),
                contents(&[(1, SIZE, switch), (2, 4 * SIZE, 5 * SIZE)], &[(2, left)]),
                false,
                Decision::Demoted { newest: id(2), switch: Some(Lsn::new(switch)) },
            ),
            (
                "another branch",
                at(3, "1\t0/2000000\tx\n", kept),
                contents(&[(4, 4 * SIZE, 5 * SIZE)], &[(4, "1\t0/4000000\tx\n")]),
                false,
                Decision::Demoted { newest: id(4), switch: None },
            ),
            (
                "a server that lost its end",
                at(1, "", 5 * SIZE),
                contents(&[(1, SIZE, 5 * SIZE + 100)], &[]),
                false,
                Decision::Behind { ours: Lsn::new(5 * SIZE + 100) },
            ),
            (
                "twice promoted, nothing of the second",
                at(3, "1\t0/4000150\tx\n2\t0/4000150\ty\n", kept),
                contents(&[(1, SIZE, switch)], &[]),
                false,
                stream(2, 4 * SIZE, switch, false, None),
            ),
        ];
        for (what, (history, flushed), contents, removed, expected) in rows {
            let (flushed, kept) = (Lsn::new(flushed), Lsn::new(kept));
            let facts = Facts { server: cluster(), history: &history, flushed, contents: &contents, removed, kept };
            assert_eq!(decide(&facts), expected, "{what}");
        }
    }
}
