//! Which moment does a change get?
//!
//! The wall clock says, as long as it goes as fast as the steady clock does. One that jumped ahead isn't believed for ten minutes,
//! because moments never decrease in a vault: those of an hour ahead would stand in the future for an hour after the
//! clock was set right. One that was set back is believed at once, and so is one that returns to where it was. Either is told
//! (I17). Pure: no clock is asked here.

use std::fmt;
use std::time::Duration;

use seawall_core::{Moment, Steady};
use serde::{Deserialize, Serialize};

/// How far the clock may be from where it is expected: this, and a thousandth of the time that passed, in milliseconds.
/// Clocks are set right in small steps all the time.
const TOLERANCE: i64 = 2000;

/// How long a clock that jumped ahead must stand there to be believed.
const PROBATION: Duration = Duration::from_secs(600);

/// What both clocks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) wall: Moment,
    pub(crate) steady: Steady,
}

impl Reading {
    /// What the wall clock would say at `now`, had it gone on from here; `None` where the machine was started anew since.
    fn expects(self, now: Steady) -> Option<(Moment, i64)> {
        let passed = now.since(self.steady)?;
        let millis = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
        Some((self.wall.after(passed), TOLERANCE.saturating_add(millis / 1000)))
    }

    /// How far the wall clock is ahead of where it is expected, in milliseconds; 0 where it is there.
    fn drift(self, now: Reading) -> i64 {
        let Some((expected, tolerance)) = self.expects(now.steady) else { return 0 };
        let drift = now.wall.as_millis().saturating_sub(expected.as_millis());
        if drift.saturating_abs() <= tolerance { 0 } else { drift }
    }
}

/// What is believed of the clock. Kept in the state record, so that a restart believes the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Belief {
    /// The wall clock was right here.
    right: Reading,
    /// It was right here before it was set back.
    before: Option<Reading>,
    /// It has been ahead since this moment, by this many milliseconds.
    ahead: Option<(Steady, i64)>,
}

/// The clock went another way than time does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jump {
    /// It is ahead by this, and isn't believed.
    Ahead(Duration),
    /// It has been ahead for so long that it is believed now.
    Accepted(Duration),
    /// It was set back.
    Back(Duration),
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ahead(by) => write!(
                f,
                "the clock jumped ahead by {} s; until it has stood there for {} minutes, changes get the moment that it should say",
                by.as_secs(),
                PROBATION.as_secs() / 60
            ),
            Self::Accepted(by) => write!(f, "the clock has stayed ahead by {} s, and is believed now", by.as_secs()),
            Self::Back(by) => write!(f, "the clock was set back by {} s", by.as_secs()),
        }
    }
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// The moment of a change that is captured now.
    pub(crate) moment: Moment,
    /// What the clock does, while it isn't believed.
    pub(crate) doubt: Option<Jump>,
    /// What it did just now.
    pub(crate) jump: Option<Jump>,
    /// Whether it came back just now to where it was before it was set back.
    pub(crate) returned: bool,
}

/// A stretch of time of which it isn't known which changes were made in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Doubtful {
    pub(crate) from: Moment,
    pub(crate) until: Moment,
}

impl Doubtful {
    /// Whether moments between two points, of these moments, are in doubt.
    pub(crate) fn touches(self, was: Moment, says: Moment) -> bool {
        was < self.until && says > self.from
    }
}

impl Belief {
    /// Nothing is known of the clock but what it says.
    pub(crate) fn at(now: Reading) -> Self {
        Self { right: now, before: None, ahead: None }
    }

    /// The moment by this belief, however the wall clock stands.
    pub(crate) fn moment(&self, now: Reading) -> Moment {
        match self.right.drift(now) {
            ahead if ahead > 0 => self.right.expects(now.steady).map_or(now.wall, |(expected, _)| expected),
            _ => now.wall,
        }
    }
}

/// Which moment is it, and what is believed from now on?
///
/// | the wall clock is | moment | believed |
/// |---|---|---|
/// | where it is expected, or the machine was started anew | the clock's | the clock |
/// | where it was expected before it was set back | the clock's | the clock |
/// | ahead, for less than ten minutes | the expected one | as before |
/// | ahead by the same, for longer | the clock's | the clock |
/// | behind | the clock's | the clock |
pub(crate) fn moment(belief: Belief, now: Reading) -> (Belief, Now) {
    let drift = belief.right.drift(now);
    let by = Duration::from_millis(drift.unsigned_abs());
    let clock = |jump| Now { moment: now.wall, doubt: None, jump, returned: false };
    if drift == 0 {
        return (Belief { right: now, ahead: None, ..belief }, clock(None));
    }
    if drift < 0 {
        // The older belief is the better one, if the clock went back in several steps.
        let before = belief.before.or(Some(belief.right));
        return (Belief { right: now, before, ahead: None }, clock(Some(Jump::Back(by))));
    }
    if belief.before.is_some_and(|before| before.expects(now.steady).is_some() && before.drift(now) == 0) {
        return (Belief::at(now), Now { returned: true, ..clock(None) });
    }
    let same = belief
        .ahead
        .filter(|(_, former)| former.abs_diff(drift) <= drift.unsigned_abs() / 100 + TOLERANCE.unsigned_abs());
    match same {
        Some((since, _)) if now.steady.since(since).is_some_and(|stood| stood >= PROBATION) => {
            (Belief { right: now, ahead: None, ..belief }, clock(Some(Jump::Accepted(by))))
        }
        _ => {
            let expected = belief.moment(now);
            let (jump, doubt) = (Jump::Ahead(by), Some(Jump::Ahead(by)));
            let ahead = same.or(Some((now.steady, drift)));
            let jump = same.is_none().then_some(jump);
            (Belief { ahead, ..belief }, Now { moment: expected, doubt, jump, returned: false })
        }
    }
}

/// How far the newest moment of a history is ahead of the present: its changes were captured while a clock said so.
pub(crate) fn in_the_future(newest: Moment, now: Moment) -> Option<Duration> {
    Some(newest.since(now)).filter(|ahead| ahead.as_millis() > TOLERANCE.unsigned_abs().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;

    fn reading(wall: i64, steady: i64) -> Reading {
        let steady = Steady { boot: 1, millis: u64::try_from(steady).expect("it only goes on") };
        Reading { wall: Moment::from_millis(wall), steady }
    }

    fn ahead(seconds: u64) -> Jump {
        Jump::Ahead(Duration::from_secs(seconds))
    }

    fn back(seconds: u64) -> Jump {
        Jump::Back(Duration::from_secs(seconds))
    }

    /// Each story begins with both clocks at 0; a row is what both say then, the moment, and what is told.
    #[test]
    fn stories_of_clocks() {
        let accepted = Jump::Accepted(Duration::from_secs(3600));
        for (story, rows) in [
            ("as time goes", vec![(SECOND, SECOND, SECOND, None), (HOUR + 3 * SECOND, HOUR, HOUR + 3 * SECOND, None)]),
            (
                "set right in small steps",
                vec![(11_000, 10_000, 11_000, None), (22_500, 20_000, 22_500, None), (34_000, 30_000, 34_000, None)],
            ),
            (
                "ahead and back",
                vec![
                    (HOUR + SECOND, SECOND, SECOND, Some(ahead(3600))),
                    (HOUR + MINUTE, MINUTE, MINUTE, None),
                    (2 * MINUTE, 2 * MINUTE, 2 * MINUTE, None),
                ],
            ),
            (
                "ahead for good",
                vec![
                    (HOUR + SECOND, SECOND, SECOND, Some(ahead(3600))),
                    (HOUR + 9 * MINUTE, 9 * MINUTE, 9 * MINUTE, None),
                    (HOUR + 11 * MINUTE, 11 * MINUTE, HOUR + 11 * MINUTE, Some(accepted)),
                    (HOUR + 12 * MINUTE, 12 * MINUTE, HOUR + 12 * MINUTE, None),
                ],
            ),
            (
                "ahead twice",
                vec![
                    (HOUR, 0, 0, Some(ahead(3600))),
                    (3 * HOUR + 11 * MINUTE, 11 * MINUTE, 11 * MINUTE, Some(ahead(3 * 3600))),
                ],
            ),
            (
                "back, and right again",
                vec![
                    (SECOND - HOUR, SECOND, SECOND - HOUR, Some(back(3600))),
                    (MINUTE - HOUR, MINUTE, MINUTE - HOUR, None),
                    (2 * MINUTE, 2 * MINUTE, 2 * MINUTE, None),
                ],
            ),
        ] {
            let mut belief = Belief::at(reading(0, 0));
            for (wall, steady, expected, told) in rows {
                let (next, now) = moment(belief, reading(wall, steady));
                assert_eq!((now.moment, now.jump), (Moment::from_millis(expected), told), "{story}: {wall} {steady}");
                belief = next;
            }
        }
    }

    #[test]
    fn a_machine_that_was_started_anew_says_nothing_about_the_clock() {
        let belief = Belief::at(reading(0, HOUR));
        let now = Reading { steady: Steady { boot: 2, millis: 5 }, ..reading(9 * HOUR, 0) };
        let (next, answer) = moment(belief, now);
        assert_eq!((next, answer.moment, answer.jump), (Belief::at(now), now.wall, None));
    }

    /// A clock that ran an hour ahead gave moments from 13:00 on, and was set right at 12:10.
    #[test]
    fn which_moments_are_in_doubt() {
        let minutes = |minutes: i64| Moment::from_millis(minutes * MINUTE);
        let doubtful = Doubtful { from: minutes(12 * 60 + 10), until: minutes(13 * 60 + 5) };
        for (was, says, expected) in [
            (11 * 60, 12 * 60, false),
            (12 * 60, 13 * 60, true),
            (13 * 60, 13 * 60 + 5, true),
            (12 * 60, 14 * 60, true),
            (13 * 60 + 5, 14 * 60, false),
        ] {
            assert_eq!(doubtful.touches(minutes(was), minutes(says)), expected, "{was} {says}");
        }
    }

    #[test]
    fn a_history_ahead_of_its_clock() {
        let at = Moment::from_millis;
        assert_eq!((in_the_future(at(5000), at(9000)), in_the_future(at(5000), at(4000))), (None, None));
        assert_eq!(in_the_future(at(HOUR), at(0)), Some(Duration::from_secs(3600)));
    }
}
