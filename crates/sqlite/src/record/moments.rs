//! Which moment does a change get?
//!
//! The wall clock's, as long as it runs as fast as the steady clock. A wall clock that jumps ahead isn't believed for ten
//! minutes: moments never decrease in a vault, so an hour too much would stay in the future for an hour after the clock was
//! set right. A wall clock that is set back is believed at once, and so is one that returns to where it was. Each jump is
//! reported (I17). Pure: the caller reads the clocks.

use std::fmt;
use std::time::Duration;

use seawall_core::{Moment, Steady};
use serde::{Deserialize, Serialize};

use crate::doubts::Doubtful;

/// The clock may differ from the expected time by this many milliseconds and a thousandth of the time that passed. Time
/// services correct clocks in small steps all the time.
const TOLERANCE: i64 = 2000;

/// A clock that jumped ahead is believed once it has stayed ahead for this time.
const PROBATION: Duration = Duration::from_secs(600);

/// What both clocks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) wall: Moment,
    pub(crate) steady: Steady,
}

impl Reading {
    /// The time that the wall clock would show at `now` if it had run on from here, and the tolerance. `None` if the machine
    /// was restarted since.
    fn expects(self, now: Steady) -> Option<(Moment, i64)> {
        let passed = now.since(self.steady)?;
        let millis = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
        Some((self.wall.after(passed), TOLERANCE.saturating_add(millis / 1000)))
    }

    /// How far the wall clock is ahead of the expected time, in milliseconds; 0 within the tolerance.
    fn drift(self, now: Reading) -> i64 {
        let Some((expected, tolerance)) = self.expects(now.steady) else { return 0 };
        let drift = now.wall.as_millis().saturating_sub(expected.as_millis());
        if drift.saturating_abs() <= tolerance { 0 } else { drift }
    }
}

/// What is believed of the clock. The state record keeps it, so that a restarted process believes the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Belief {
    /// The wall clock was right here.
    right: Reading,
    /// It was right here before it was set back.
    before: Option<Reading>,
    /// It has been ahead since this moment, by this many milliseconds.
    ahead: Option<(Steady, i64)>,
    /// The moment of the first point that was captured since the clock was set back or jumped ahead.
    #[serde(default)]
    first: Option<Moment>,
    /// The moments that turned out to be wrong, and aren't recorded in the vault yet.
    #[serde(default)]
    settled: Option<Settled>,
}

/// The clock was wrong up to a moment, if points were captured by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Settled {
    /// The moment of the first point that was captured meanwhile.
    first: Option<Moment>,
    /// For a clock that was believed late: the moment that it should have shown then. Later points are doubtful too.
    floor: Option<Moment>,
    until: Moment,
}

impl Settled {
    /// Both stretches as one.
    fn and(self, former: Option<Self>) -> Self {
        let Some(former) = former else { return self };
        let earlier = |one: Option<Moment>, other: Option<Moment>| one.into_iter().chain(other).min();
        Self {
            first: earlier(self.first, former.first),
            floor: earlier(self.floor, former.floor),
            until: self.until.max(former.until),
        }
    }

    /// Updates the stretch after a point was captured. `None` once no more point of the stretch can come.
    fn captured(self, moment: Moment) -> Option<Self> {
        let matters = self.first.is_some() || self.floor.is_some() || moment < self.until;
        matters.then_some(Self { first: self.first.or(Some(moment)), ..self })
    }

    fn doubtful(self) -> Option<Doubtful> {
        let from = self.first.map(|first| self.floor.map_or(first, |floor| floor.min(first)))?;
        Some(Doubtful { from, until: self.until, behind: false })
    }
}

/// The wall clock changed by another amount than the steady clock.
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

/// The answer of [`moment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// The moment of a change that is captured now.
    pub(crate) moment: Moment,
    /// The jump for which the clock isn't believed now.
    pub(crate) doubt: Option<Jump>,
    /// The jump that was noticed just now.
    pub(crate) jump: Option<Jump>,
    /// Whether the clock just returned to where it was before it was set back.
    pub(crate) returned: bool,
}

impl Belief {
    /// The first belief: the clock is right.
    pub(crate) fn at(now: Reading) -> Self {
        Self { right: now, before: None, ahead: None, first: None, settled: None }
    }

    /// The moment by this belief, whatever the wall clock shows.
    pub(crate) fn moment(&self, now: Reading) -> Moment {
        match self.right.drift(now) {
            ahead if ahead > 0 => self.right.expects(now.steady).map_or(now.wall, |(expected, _)| expected),
            _ => now.wall,
        }
    }

    /// Updates the belief after a point of this moment was captured.
    pub(crate) fn captured(self, moment: Moment) -> Self {
        let wrong = self.before.is_some() || self.ahead.is_some();
        Self {
            first: if wrong { self.first.or(Some(moment)) } else { None },
            settled: self.settled.and_then(|settled| settled.captured(moment)),
            ..self
        }
    }

    /// Whether the clock was set back, and hasn't returned since.
    pub(crate) fn is_set_back(&self) -> bool {
        self.before.is_some()
    }

    /// The same belief about the clock, without the knowledge of points.
    pub(crate) fn without_points(self) -> Self {
        Self { first: None, settled: None, ..self }
    }

    /// Which moments turned out to be wrong.
    pub(crate) fn settled(&self) -> Option<Doubtful> {
        self.settled.and_then(Settled::doubtful)
    }

    /// Updates the belief after [`settled`](Self::settled) was recorded.
    pub(crate) fn is_recorded(self) -> Self {
        Self { settled: None, ..self }
    }

    fn settle(&self, first: Option<Moment>, floor: Option<Moment>, until: Moment) -> Option<Settled> {
        Some(Settled { first, floor, until }.and(self.settled))
    }

    /// Whether the wall clock shows the time that it would show if it had not been set back. `by` is its last jump.
    fn returned(&self, now: Reading, by: Duration) -> bool {
        // The tolerance grows with time. But a jump that is far smaller than the way back leads to another time.
        let near = (by / 10).saturating_add(Duration::from_millis(TOLERANCE.unsigned_abs()));
        self.before.is_some_and(|before| {
            let expected = before.expects(now.steady).map(|(expected, _)| expected);
            before.drift(now) == 0
                && expected.is_some_and(|expected| expected.since(now.wall).max(now.wall.since(expected)) <= near)
        })
    }

    /// Updates the belief after the machine was restarted. Its clock may have been set meanwhile.
    fn after_a_boot(&self, now: Reading) -> Self {
        let latest = match (self.before, self.ahead) {
            // The points captured since may be later by as much as the clock was behind.
            (Some(before), _) => {
                let right = before.expects(self.right.steady).map(|(expected, _)| expected);
                right.map(|right| before.wall.after(right.since(self.right.wall)))
            }
            (None, Some((since, by))) => {
                let expected = self.right.expects(since).map(|(expected, _)| expected);
                expected.map(|expected| expected.after(Duration::from_millis(by.unsigned_abs())).after(PROBATION))
            }
            (None, None) => None,
        };
        let until =
            latest.map(|latest| latest.min(now.wall)).filter(|until| self.first.is_some_and(|first| first < *until));
        let settled = until.map_or(self.settled, |until| self.settle(self.first, None, until));
        Self { settled, ..Self::at(now) }
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
    if belief.right.expects(now.steady).is_none() {
        return (belief.after_a_boot(now), clock(None));
    }
    if drift == 0 {
        // If the clock had only been ahead, the captured points got the right moments.
        let first = belief.first.filter(|_| belief.before.is_some());
        return (Belief { right: now, ahead: None, first, ..belief }, clock(None));
    }
    if drift < 0 {
        // The older belief is the better one, if the clock went back in several steps.
        let before = belief.before.or(Some(belief.right));
        return (Belief { right: now, before, ahead: None, ..belief }, clock(Some(Jump::Back(by))));
    }
    if belief.returned(now, by) {
        let settled = belief.settle(belief.first, None, now.wall);
        return (Belief { settled, ..Belief::at(now) }, Now { returned: true, ..clock(None) });
    }
    let same = belief
        .ahead
        .filter(|(_, former)| former.abs_diff(drift) <= drift.unsigned_abs() / 100 + TOLERANCE.unsigned_abs());
    match same {
        Some((since, _)) if now.steady.since(since).is_some_and(|stood| stood >= PROBATION) => {
            let settled = belief.settle(belief.first, Some(belief.moment(now)), now.wall);
            let first = belief.first.filter(|_| belief.before.is_some());
            (Belief { right: now, ahead: None, first, settled, ..belief }, clock(Some(Jump::Accepted(by))))
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

/// How far the newest moment of a history is in the future; `None` within the tolerance. Its changes were captured by a clock
/// that was ahead.
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

    fn clock(hours: i64, minutes: i64) -> Moment {
        Moment::from_millis(hours * HOUR + minutes * MINUTE)
    }

    fn doubtful(from: Moment, until: Moment) -> Doubtful {
        Doubtful { from, until, behind: false }
    }

    /// What happens in a story, and what is to be recorded at its end.
    enum Event {
        /// Both clocks say so many minutes since the start.
        Says(i64, i64),
        /// The machine is started anew: the wall clock says so many minutes.
        Boots(i64),
        /// A point with the moment of so many minutes is in the vault.
        Point(i64),
    }

    #[test]
    fn what_turns_out_to_have_been_wrong() {
        use Event::{Boots, Point, Says};
        for (story, events, expected) in [
            ("back and right again, at rest", vec![Says(-60, 0), Says(10, 10)], None),
            ("back and right again", vec![Says(-59, 1), Point(0), Point(0), Says(30, 30)], Some((0, 30))),
            ("back, beyond the newest point", vec![Says(-59, 1), Point(-55), Says(30, 30)], Some((-55, 30))),
            ("back, and the point came later", vec![Says(-60, 0), Says(30, 30), Point(0), Point(31)], Some((0, 30))),
            ("back, and nothing was captured", vec![Says(-60, 0), Says(30, 30), Point(31)], None),
            ("back in two steps", vec![Says(-60, 0), Point(0), Says(-115, 5), Says(10, 10)], Some((0, 10))),
            ("back for good", vec![Says(-60, 0), Point(0), Says(-30, 30), Point(0)], None),
            ("ahead and right again", vec![Says(60, 0), Point(0), Says(5, 5)], None),
            ("ahead for good", vec![Says(60, 0), Point(0), Says(65, 5), Says(71, 11)], Some((0, 71))),
            ("ahead for good, at rest", vec![Says(60, 0), Says(71, 11)], None),
            ("ahead for good, then a point", vec![Says(60, 0), Says(71, 11), Point(72)], Some((11, 71))),
            ("ahead, back, right again", vec![Says(60, 0), Says(-55, 5), Point(0), Says(10, 10)], Some((0, 10))),
            (
                "ahead for good, and back after all",
                vec![Says(60, 0), Point(0), Says(71, 11), Says(15, 15), Point(71)],
                Some((0, 71)),
            ),
            (
                "twice back",
                vec![Says(-60, 0), Point(0), Says(9, 9), Says(-50, 10), Point(9), Says(20, 20)],
                Some((0, 20)),
            ),
            ("a boot while it stood behind", vec![Says(-60, 0), Point(0), Boots(30), Point(31)], Some((0, 30))),
            ("a boot long after it was set back", vec![Says(-60, 0), Point(0), Boots(9000)], Some((0, 60))),
            ("a boot while it stood ahead", vec![Says(60, 0), Point(3), Boots(300)], Some((3, 70))),
            ("a boot, at rest", vec![Says(-60, 0), Boots(30), Point(31)], None),
            (
                "a smaller jump long after",
                vec![Says(-60, 0), Point(0), Says(99_940, 100_000), Says(99_950, 100_001)],
                None,
            ),
        ] {
            let mut belief = Belief::at(reading(0, 0));
            for event in events {
                belief = match event {
                    Says(wall, steady) => moment(belief, reading(wall * MINUTE, steady * MINUTE)).0,
                    Boots(wall) => {
                        let steady = Steady { boot: 2, millis: 7 };
                        moment(belief, Reading { steady, ..reading(wall * MINUTE, 0) }).0
                    }
                    Point(at) => belief.captured(Moment::from_millis(at * MINUTE)),
                };
            }
            let expected = expected.map(|(from, until)| doubtful(clock(0, from), clock(0, until)));
            assert_eq!(belief.settled(), expected, "{story}");
            assert_eq!(belief.is_recorded().settled(), None, "{story}");
        }
    }

    #[test]
    fn a_history_ahead_of_its_clock() {
        let at = Moment::from_millis;
        assert_eq!((in_the_future(at(5000), at(9000)), in_the_future(at(5000), at(4000))), (None, None));
        assert_eq!(in_the_future(at(HOUR), at(0)), Some(Duration::from_secs(3600)));
    }
}
