//! When is which part of the log stored? Pure.

use std::time::Duration;

/// What waits to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Whether something is being stored now.
    pub(super) busy: bool,
    /// Complete segments.
    pub(super) segments: usize,
    /// Bytes of a segment that isn't complete.
    pub(super) bytes: usize,
    /// How long ago the last range began to be stored; `None` if none was yet.
    pub(super) since: Option<Duration>,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Nothing, until something comes or is done.
    Rest,
    /// The oldest complete segment is stored.
    Segment,
    /// The bytes so far are stored as a range.
    Range,
    /// The same, after this time.
    Later(Duration),
}

/// Decides. The first bytes after silence are stored at once, and then a range in each `interval`. `ending` says that no more
/// comes, so that nothing is waited for.
pub(super) fn pace(waiting: Waiting, interval: Duration, ending: bool) -> Pace {
    let left = waiting.since.map_or(Duration::ZERO, |since| interval.saturating_sub(since));
    match waiting {
        Waiting { busy: true, .. } => Pace::Rest,
        Waiting { segments: 1.., .. } => Pace::Segment,
        Waiting { bytes: 0, .. } => Pace::Rest,
        _ if ending || left.is_zero() => Pace::Range,
        _ => Pace::Later(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces() {
        let ms = Duration::from_millis;
        let waiting =
            |busy, segments, bytes, since: Option<u64>| Waiting { busy, segments, bytes, since: since.map(ms) };
        for (waiting, ending, expected) in [
            (waiting(false, 0, 0, None), false, Pace::Rest),
            (waiting(false, 0, 1, None), false, Pace::Range),
            (waiting(false, 0, 1, Some(5000)), false, Pace::Range),
            (waiting(false, 0, 1, Some(300)), false, Pace::Later(ms(700))),
            (waiting(false, 0, 1, Some(300)), true, Pace::Range),
            (waiting(true, 0, 1, None), true, Pace::Rest),
            (waiting(true, 2, 1, None), false, Pace::Rest),
            (waiting(false, 2, 1, None), false, Pace::Segment),
            (waiting(false, 1, 0, Some(0)), true, Pace::Segment),
            (waiting(false, 0, 0, Some(0)), true, Pace::Rest),
        ] {
            assert_eq!(pace(waiting, ms(1000), ending), expected, "{waiting:?} {ending}");
        }
    }
}
