//! From where is the log asked for, and may it be? Pure: facts of the server and the vault in, a decision out.

use seawall_archive::log::{Cluster, Contents, History, Hole, Lsn, SegmentSize, TimelineId};

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
    /// A timeline that the user says is followed, although the vault has a later one.
    pub(super) follows: Option<TimelineId>,
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
    /// What is lost: the timeline on which the vault's log ends, its end, and where the log goes on.
    pub(super) hole: Option<(TimelineId, Lsn, Lsn)>,
}

impl Start {
    /// Whether the log is asked for from where the slot keeps it. Only then a refusal says that the slot keeps nothing: behind a gap
    /// of the vault's log the server may lack the next part too, and the slot still keeps what is newer.
    pub(super) fn begins_at(&self, kept: Lsn, size: SegmentSize) -> bool {
        self.from == kept.segment_start(size)
    }
}

/// Decides.
pub(super) fn decide(facts: &Facts<'_>) -> Decision {
    let Facts { server, history, flushed, contents, removed, kept, follows } = facts;
    let (own, size) = (history.timeline, server.segment_size);
    if let Some(newest) = contents.newest().filter(|newest| *newest > own && *follows != Some(own)) {
        let switch = contents.history(newest).and_then(|newest| newest.switch_of(own));
        return Decision::Demoted { newest, switch };
    }
    let ours = contents.timelines.get(&own).and_then(|held| held.spans.last()).map(|span| span.end);
    if let Some(ours) = ours.filter(|ours| ours > flushed) {
        return Decision::Behind { ours };
    }
    let Some(frontier) = frontier(contents, history, None) else {
        return Decision::Stream(anew(history, *kept, size));
    };
    if !removed {
        return Decision::Stream(following(history, frontier.timeline, frontier.end, size));
    }
    // The log goes on where the server's begins, or where the vault's does behind the gap.
    let kept_from = kept.segment_start(size);
    let begins = if kept_from > frontier.end { Some(kept_from) } else { None };
    let (resumes, start) = match (frontier.behind, begins) {
        (Some(behind), begins) if begins.is_none_or(|begins| behind <= begins) => {
            let next = self::frontier(contents, history, Some(behind));
            let next = next.map_or((line_at(history, behind), behind), |next| (next.timeline, next.end));
            (behind, following(history, next.0, next.1, size))
        }
        _ => (kept_from, anew(history, *kept, size)),
    };
    let hole = (frontier.end < resumes).then_some((frontier.timeline, frontier.end, resumes));
    Decision::Stream(Start { hole, ..start })
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
fn anew(history: &History, kept: Lsn, size: SegmentSize) -> Start {
    let from = kept.segment_start(size);
    Start { timeline: line_at(history, kept), from, durable: from, continues: false, hole: None }
}

/// The timeline that a position is on, on the way to the server's timeline.
fn line_at(history: &History, position: Lsn) -> TimelineId {
    let then = history.ancestors.iter().find(|ancestor| ancestor.switch > position);
    then.map_or(history.timeline, |ancestor| ancestor.timeline)
}

/// Where the vault's log ends on the way to the server's timeline, before its first gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frontier {
    timeline: TimelineId,
    /// The position after the last byte before the gap.
    end: Lsn,
    /// Where the vault's log goes on behind the gap, if it does.
    behind: Option<Lsn>,
}

/// Finds it, from `floor` on. What is recorded as lost, and everything before it, isn't looked for: a server removes its oldest log
/// first.
fn frontier(contents: &Contents, history: &History, floor: Option<Lsn>) -> Option<Frontier> {
    let size = contents.cluster.segment_size;
    let line = history.ancestors.iter().map(|ancestor| (ancestor.timeline, Some(ancestor.switch)));
    let line: Vec<_> = line.chain([(history.timeline, None)]).collect();
    let is_on_the_line = |hole: &&Hole| match history.switch_of(hole.timeline) {
        Some(switch) => hole.start < switch,
        None => hole.timeline == history.timeline,
    };
    let recorded = contents.holes.iter().filter(is_on_the_line).map(|hole| hole.end).max();
    let floor = floor.max(recorded);
    // The parts of each timeline that belong to the line, from the floor on, and where their timeline began.
    let began = std::iter::once(None).chain(line.iter().map(|(_, switch)| *switch));
    let spans = line.iter().zip(began).flat_map(|((timeline, switch), began)| {
        let held = contents.timelines.get(timeline);
        // Retention deletes the oldest log, which isn't asked for again.
        let floor = floor.max(held.and_then(|held| held.trimmed));
        let all = held.map(|held| held.spans.as_slice()).unwrap_or_default();
        all.iter().filter_map(move |span| {
            let end = switch.map_or(span.end, |switch| switch.min(span.end));
            let start = floor.map_or(span.start, |floor| floor.max(span.start));
            (start < end).then_some((*timeline, began, start, end))
        })
    });
    let mut found = floor.map(|floor| (line_at(history, floor), floor));
    for (timeline, began, start, end) in spans {
        let Some((before, reached)) = found else {
            found = Some((timeline, end));
            continue;
        };
        let is_next = match began.filter(|_| before != timeline) {
            // A timeline begins with a copy of the segment in which it left the one before.
            Some(began) => reached >= began.segment_start(size) && start <= began,
            None => start <= reached,
        };
        if !is_next {
            return Some(Frontier { timeline: before, end: reached, behind: Some(start) });
        }
        found = Some((timeline, end.max(reached)));
    }
    found.map(|(timeline, end)| Frontier { timeline, end, behind: None })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seawall_archive::log::{Held, Span, SystemId};
    use seawall_core::Moment;

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
        with_holes(spans, histories, &[])
    }

    /// The same, and what is recorded as lost.
    fn with_holes(spans: &[(u32, u64, u64)], histories: &[(u32, &str)], holes: &[(u32, u64, u64)]) -> Contents {
        let mut timelines: BTreeMap<TimelineId, Held> = BTreeMap::new();
        for (timeline, start, end) in spans {
            let span = Span { start: Lsn::new(*start), end: Lsn::new(*end) };
            timelines.entry(id(*timeline)).or_default().spans.push(span);
        }
        let histories = histories.iter().map(|(number, text)| (id(*number), history(*number, text))).collect();
        let hole = |(timeline, start, end): &(u32, u64, u64)| Hole {
            timeline: id(*timeline),
            start: Lsn::new(*start),
            end: Lsn::new(*end),
            at: Moment::from_millis(0),
            cause: String::new(),
        };
        Contents { cluster: cluster(), timelines, histories, holes: holes.iter().map(hole).collect() }
    }

    fn stream(timeline: u32, from: u64, durable: u64, continues: bool, hole: Option<(u32, u64, u64)>) -> Decision {
        let hole = hole.map(|(timeline, start, end)| (id(timeline), Lsn::new(start), Lsn::new(end)));
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
        let mut rows: Vec<Row<'_>> = vec![
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
                stream(1, 9 * SIZE, 9 * SIZE, false, Some((1, 5 * SIZE + 100, 9 * SIZE))),
            ),
            (
                "a gap that the server can still fill: it begins before what was pushed meanwhile",
                at(1, "", kept),
                contents(&[(1, SIZE, 3 * SIZE + 100), (1, 6 * SIZE, 9 * SIZE)], &[]),
                false,
                stream(1, 3 * SIZE, 3 * SIZE + 100, true, None),
            ),
            (
                "a gap that the server can't fill: on behind what is there",
                at(1, "", kept),
                contents(&[(1, SIZE, 3 * SIZE + 100), (1, 6 * SIZE, 8 * SIZE + 5)], &[]),
                true,
                stream(1, 8 * SIZE, 8 * SIZE + 5, true, Some((1, 3 * SIZE + 100, 6 * SIZE))),
            ),
            (
                "a gap of which the server can fill a part",
                at(1, "", 14 * SIZE),
                contents(&[(1, SIZE, 3 * SIZE + 100), (1, 12 * SIZE, 13 * SIZE)], &[]),
                true,
                stream(1, 9 * SIZE, 9 * SIZE, false, Some((1, 3 * SIZE + 100, 9 * SIZE))),
            ),
            (
                "a gap that is recorded, and another one behind it",
                at(1, "", kept),
                with_holes(
                    &[(1, SIZE, 3 * SIZE), (1, 5 * SIZE, 6 * SIZE + 7), (1, 8 * SIZE, 9 * SIZE)],
                    &[],
                    &[(1, 3 * SIZE, 5 * SIZE)],
                ),
                false,
                stream(1, 6 * SIZE, 6 * SIZE + 7, true, None),
            ),
            (
                "a gap that is recorded, and nothing came behind it so far",
                at(1, "", kept),
                with_holes(&[(1, SIZE, 3 * SIZE)], &[], &[(1, 3 * SIZE, 5 * SIZE)]),
                false,
                stream(1, 5 * SIZE, 5 * SIZE, true, None),
            ),
            (
                "the first time, and the slot is behind the promotion",
                at(2, left, kept),
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
                "promoted, the rest of the old timeline is missing, and the new server pushed already",
                at(2, left, kept),
                contents(&[(1, SIZE, 2 * SIZE + 1), (2, 4 * SIZE, 8 * SIZE)], &[(2, left)]),
                false,
                stream(1, 2 * SIZE, 2 * SIZE + 1, true, None),
            ),
            (
                "the same, and the server lacks it",
                at(2, left, kept),
                contents(&[(1, SIZE, 2 * SIZE + 1), (2, 4 * SIZE, 8 * SIZE + 1)], &[(2, left)]),
                true,
                stream(2, 8 * SIZE, 8 * SIZE + 1, true, Some((1, 2 * SIZE + 1, 4 * SIZE))),
            ),
            (
                "that is recorded",
                at(2, left, kept),
                with_holes(
                    &[(1, SIZE, 2 * SIZE + 1), (2, 4 * SIZE, 8 * SIZE + 1)],
                    &[(2, left)],
                    &[(1, 2 * SIZE + 1, 4 * SIZE)],
                ),
                false,
                stream(2, 8 * SIZE, 8 * SIZE + 1, true, None),
            ),
            (
                "what the demoted server lost is no gap of ours",
                at(2, left, kept),
                with_holes(&[(1, SIZE, 2 * SIZE), (1, 7 * SIZE, 8 * SIZE)], &[], &[(1, 5 * SIZE, 7 * SIZE)]),
                false,
                stream(1, 2 * SIZE, 2 * SIZE, true, None),
            ),
            (
                "promoted, and the first segment of the new timeline is missing",
                at(2, left, kept),
                contents(&[(1, SIZE, switch), (2, 5 * SIZE, 8 * SIZE)], &[(2, left)]),
                false,
                stream(2, 4 * SIZE, switch, false, None),
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
                "promoted, and what the slot keeps is before the promotion",
                (history(2, "1\t0/A000150\tx\n"), 11 * SIZE),
                contents(&[], &[]),
                false,
                stream(1, 9 * SIZE, 9 * SIZE, false, None),
            ),
            (
                "a hole that ends before the promotion",
                (history(2, "1\t0/A000150\tx\n"), 11 * SIZE),
                contents(&[(1, SIZE, 2 * SIZE)], &[]),
                true,
                stream(1, 9 * SIZE, 9 * SIZE, false, Some((1, 2 * SIZE, 9 * SIZE))),
            ),
            (
                "a hole that ends behind the promotion",
                at(2, left, kept),
                contents(&[(1, SIZE, 2 * SIZE)], &[]),
                true,
                stream(2, 9 * SIZE, 9 * SIZE, false, Some((1, 2 * SIZE, 9 * SIZE))),
            ),
            (
                "on the new timeline",
                at(2, left, kept),
                contents(&[(1, SIZE, switch), (2, 4 * SIZE, 5 * SIZE + 9)], &[(2, left)]),
                false,
                stream(2, 5 * SIZE, 5 * SIZE + 9, true, None),
            ),
            (
                "on the new timeline, as archive_command has it: the last segment of the old one has no end",
                at(2, left, kept),
                contents(&[(1, SIZE, 4 * SIZE), (2, 4 * SIZE, 5 * SIZE + 9)], &[(2, left)]),
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
            (
                "twice promoted within one segment: the third timeline begins with a copy of it",
                at(3, "1\t0/4000150\tx\n2\t0/4000250\ty\n", kept),
                contents(&[(1, SIZE, 4 * SIZE), (3, 4 * SIZE, 8 * SIZE + 1)], &[]),
                false,
                stream(3, 8 * SIZE, 8 * SIZE + 1, true, None),
            ),
        ];
        let mut trimmed = contents(&[(1, SIZE, 2 * SIZE), (1, 4 * SIZE, 5 * SIZE + 9)], &[]);
        trimmed.timelines.values_mut().for_each(|held| held.trimmed = Some(Lsn::new(4 * SIZE)));
        let deleted = "what retention deleted isn't asked for";
        rows.push((deleted, at(1, "", kept), trimmed, false, stream(1, 5 * SIZE, 5 * SIZE + 9, true, None)));
        for (what, (history, flushed), contents, removed, expected) in rows {
            let (flushed, kept, server) = (Lsn::new(flushed), Lsn::new(kept), cluster());
            let contents = &contents;
            let facts = Facts { server, history: &history, flushed, contents, removed, kept, follows: None };
            assert_eq!(decide(&facts), expected, "{what}");
            // A gap that can't be filled is recorded, and the same isn't asked for again.
            if let Decision::Stream(Start { hole: Some((timeline, start, end)), .. }) = expected {
                let (at, cause) = (Moment::from_millis(0), String::new());
                let holes = vec![Hole { timeline, start, end, at, cause }];
                let recorded = Contents { holes, ..contents.clone() };
                let again = decide(&Facts { contents: &recorded, removed: false, ..facts });
                assert!(
                    matches!(again, Decision::Stream(again) if again.durable >= end && again.hole.is_none()),
                    "{what}"
                );
            }
        }
    }

    #[test]
    fn only_a_start_where_the_slot_begins_says_that_it_keeps_nothing() {
        let (history, server) = (history(1, ""), cluster());
        let (flushed, kept) = (Lsn::new(9 * SIZE + 77), Lsn::new(9 * SIZE + 77));
        for (spans, expected) in [
            (&[(1, SIZE, 3 * SIZE)][..], true),
            // The vault's log goes on behind the gap, and has another one before what the slot keeps.
            (&[(1, SIZE, 3 * SIZE), (1, 5 * SIZE, 6 * SIZE)], false),
        ] {
            let contents = contents(spans, &[]);
            let facts =
                Facts { server, history: &history, flushed, contents: &contents, removed: true, kept, follows: None };
            let Decision::Stream(start) = decide(&facts) else { panic!("{spans:?}") };
            assert_eq!(start.begins_at(kept, server.segment_size), expected, "{spans:?}");
        }
    }

    #[test]
    fn a_branch_in_the_vault_that_is_not_followed_stops_nobody_who_says_so() {
        let left = "1\t0/4000150\tpromoted\n";
        let (history, server) = (history(1, ""), cluster());
        let contents = contents(&[(1, SIZE, 5 * SIZE + 100), (2, 4 * SIZE, 8 * SIZE)], &[(2, left)]);
        let (flushed, kept) = (Lsn::new(9 * SIZE), Lsn::new(5 * SIZE));
        for (follows, expected) in [
            (None, Decision::Demoted { newest: id(2), switch: Some(Lsn::new(4 * SIZE + 0x150)) }),
            (Some(id(1)), stream(1, 5 * SIZE, 5 * SIZE + 100, true, None)),
            (Some(id(2)), Decision::Demoted { newest: id(2), switch: Some(Lsn::new(4 * SIZE + 0x150)) }),
        ] {
            let facts =
                Facts { server, history: &history, flushed, contents: &contents, removed: false, kept, follows };
            assert_eq!(decide(&facts), expected, "{follows:?}");
        }
    }
}
