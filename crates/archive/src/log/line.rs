//! Is this segment part of what is recovered? Pure.
//!
//! A timeline may go on after another one left it: in a server that was demoted and didn't stop, or in the original of a
//! restored copy. PostgreSQL reads such segments if it is given them, and then recovers what the promoted server never had.

use super::{History, Lsn, TimelineId};

/// The timeline that is recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The newest one, as PostgreSQL does by default.
    Latest,
    /// This one.
    Of(TimelineId),
}

/// What a segment is for the timeline that is recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Part of it.
    Within,
    /// Part of it up to this position, where the next timeline begins.
    Until(Lsn),
    /// No part of it: it begins at or after this position, where the next timeline begins.
    Beyond(Lsn),
    /// No part of it: the timeline didn't come from the segment's one.
    Beside,
}

/// Where the bytes from `start` to `end` of `timeline` are, seen from the timeline of `history`.
pub(super) fn place(history: &History, timeline: TimelineId, start: Lsn, end: Lsn) -> Place {
    match history.switch_of(timeline) {
        _ if timeline == history.timeline => Place::Within,
        None => Place::Beside,
        Some(switch) if end <= switch => Place::Within,
        Some(switch) if start < switch => Place::Until(switch),
        Some(switch) => Place::Beyond(switch),
    }
}

/// Whether a recovery of the timeline of `history` up to `until` needs something of `timeline` between `start` and `end`.
pub(super) fn is_needed(history: &History, timeline: TimelineId, (start, end): (Lsn, Lsn), until: Lsn) -> bool {
    let Some(begin) = history.begin_of(timeline) else { return false };
    let left = history.switch_of(timeline).unwrap_or(until);
    begin.max(start) < end.min(until).min(left)
}

/// What is done with a request for a segment that the vault has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is given.
    Give,
    /// It is given up to this position, with zeros behind it.
    GiveUntil(Lsn),
    /// It isn't part of the timeline that was named.
    Absent(Lsn),
    /// It isn't given: which timeline is recovered has to be named.
    Unclear(Lsn),
    /// It isn't given: the timeline that is recovered didn't come from it.
    Refuse,
}

/// Decides. `named` says that the user named the timeline; `goes_on`, that the segment's timeline has log after the segment
/// in which it was left.
pub(super) fn answer(place: Place, named: bool, goes_on: bool) -> Answer {
    match (place, named) {
        (Place::Within, _) => Answer::Give,
        (Place::Until(switch), true) => Answer::GiveUntil(switch),
        (Place::Until(switch), false) if goes_on => Answer::Unclear(switch),
        (Place::Until(switch), false) => Answer::GiveUntil(switch),
        (Place::Beyond(switch), true) => Answer::Absent(switch),
        // The server may recover the old timeline. If the answer were an absence, it would open without the rest.
        (Place::Beyond(switch), false) => Answer::Unclear(switch),
        (Place::Beside, _) => Answer::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> TimelineId {
        TimelineId::new(number).expect("a timeline")
    }

    #[test]
    fn places_and_answers() {
        // Timeline 3 came from 1 at 0/5000150; timeline 2 is another branch.
        let history = History::parse(id(3), b"1\t0/5000150\tx\n").expect("a history");
        let at = |byte: u64| Lsn::new(byte);
        let switch = at(0x500_0150);
        for (timeline, segment, expected, named, goes_on, answered) in [
            (3, 5, Place::Within, false, false, Answer::Give),
            (1, 4, Place::Within, false, true, Answer::Give),
            (1, 5, Place::Until(switch), false, false, Answer::GiveUntil(switch)),
            (1, 5, Place::Until(switch), false, true, Answer::Unclear(switch)),
            (1, 5, Place::Until(switch), true, true, Answer::GiveUntil(switch)),
            (1, 6, Place::Beyond(switch), false, true, Answer::Unclear(switch)),
            (1, 6, Place::Beyond(switch), true, true, Answer::Absent(switch)),
            (2, 5, Place::Beside, true, false, Answer::Refuse),
            (4, 5, Place::Beside, false, false, Answer::Refuse),
        ] {
            let (start, end) = (at(segment << 24), at((segment + 1) << 24));
            let found = place(&history, id(timeline), start, end);
            assert_eq!(found, expected, "{timeline} {segment}");
            assert_eq!(answer(found, named, goes_on), answered, "{timeline} {segment} {named} {goes_on}");
        }
        // Timeline 1 is needed up to the switch, 3 from there on, and neither of them behind the end of the restore.
        for (timeline, from, to, until, expected) in [
            (1, 0x400_0000, 0x500_0000, 0x700_0100, true),
            (1, 0x500_0000, 0x600_0000, 0x700_0100, true),
            (1, 0x500_0150, 0x600_0000, 0x700_0100, false),
            (1, 0x600_0000, 0x700_0000, 0x700_0100, false),
            (1, 0x400_0000, 0x500_0000, 0x400_0000, false),
            (3, 0x400_0000, 0x500_0000, 0x700_0100, false),
            (3, 0x500_0000, 0x600_0000, 0x700_0100, true),
            (3, 0x500_0000, 0x600_0000, 0x500_0150, false),
            (3, 0x700_0000, 0x800_0000, 0x700_0100, true),
            (3, 0x700_0100, 0x800_0000, 0x700_0100, false),
            (2, 0x500_0000, 0x600_0000, 0x700_0100, false),
        ] {
            let found = is_needed(&history, id(timeline), (at(from), at(to)), at(until));
            assert_eq!(found, expected, "{timeline} from {from:X} to {to:X} until {until:X}");
        }
        // At the border of a segment nothing is cut.
        let border = History::parse(id(2), b"1\t0/5000000\tx\n").expect("a history");
        assert_eq!(place(&border, id(1), at(0x400_0000), at(0x500_0000)), Place::Within);
        assert_eq!(place(&border, id(1), at(0x500_0000), at(0x600_0000)), Place::Beyond(at(0x500_0000)));
    }
}
