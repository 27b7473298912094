//! Can the clock of this host be believed, or was it set ahead? Pure.
//!
//! Retention counts ages up to the newest object of a vault. Where the store has this host's clock, a jump of that clock makes
//! everything old at once. A jump back makes everything young, which deletes nothing.

use std::time::Duration;

use seawall_core::{Moment, Steady};

/// A jump that is shorter changes no age that matters.
const SHORT: Duration = Duration::from_secs(60);

/// After this time with the clock set ahead, a person would have noticed: it was put right.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// What is known of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched {
    /// When it was believed last, by both clocks.
    believed: (Moment, Steady),
    /// Since when it is seen to be ahead.
    ahead_since: Option<Steady>,
}

impl Watched {
    /// A clock that is believed now.
    pub(super) fn new(wall: Moment, steady: Steady) -> Self {
        Self { believed: (wall, steady), ahead_since: None }
    }

    /// Whether it is believed now. One that was set ahead isn't for as long as the jump, and at most for a day.
    pub(super) fn is_believed(&mut self, wall: Moment, steady: Steady) -> bool {
        let (then, since) = self.believed;
        let jump = steady.since(since).map_or(Duration::ZERO, |passed| wall.since(then.after(passed)));
        let is_over = jump < SHORT || {
            let seen = *self.ahead_since.get_or_insert(steady);
            steady.since(seen).is_none_or(|ahead| ahead >= jump.min(LONG))
        };
        if is_over {
            *self = Self::new(wall, steady);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;
    const YEAR: i64 = 365 * 24 * HOUR;

    #[test]
    fn a_clock_that_was_set_ahead_is_believed_when_it_stays_so() {
        type Row<'a> = (&'a str, &'a [(i64, i64, bool)]);
        // Seconds by the steady clock, how far the wall clock is ahead of it, and whether it is believed.
        let rows: [Row<'_>; 6] = [
            ("it goes well", &[(0, 0, true), (HOUR, 1, true), (300 * HOUR, 3, true)]),
            ("it drifts", &[(HOUR, 50, true), (2 * HOUR, 100, true), (3 * HOUR, 150, true)]),
            ("back, and ahead again", &[(HOUR, -YEAR, true), (2 * HOUR, 0, false), (26 * HOUR, 0, true)]),
            (
                "a year ahead, and put right",
                &[(HOUR, YEAR, false), (2 * HOUR, YEAR, false), (3 * HOUR, 0, true), (4 * HOUR, 0, true)],
            ),
            (
                "a year ahead, and that is right",
                &[(HOUR, YEAR, false), (24 * HOUR, YEAR, false), (25 * HOUR, YEAR, true), (26 * HOUR, YEAR, true)],
            ),
            (
                "an hour ahead, twice",
                &[(HOUR, HOUR, false), (2 * HOUR, HOUR, true), (3 * HOUR, 2 * HOUR, false), (4 * HOUR, 2 * HOUR, true)],
            ),
        ];
        for (what, readings) in rows {
            let wall = |second: i64| Moment::from_millis(second * 1000);
            let steady = |second: i64| Steady { boot: 1, millis: u64::try_from(second * 1000).expect("passed") };
            let mut watched = Watched::new(wall(YEAR), steady(0));
            for (second, ahead, expected) in readings {
                let believed = watched.is_believed(wall(YEAR + second + ahead), steady(*second));
                assert_eq!(believed, *expected, "{what}: {second} {ahead}");
            }
        }
    }
}
