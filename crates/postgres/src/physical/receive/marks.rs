//! Until when does the vault have everything that the server had? Pure.

use std::collections::VecDeque;
use std::time::Duration;

use seawall_archive::log::Lsn;
use seawall_core::Moment;

/// The shortest time between two marks, as long as there are few.
const APART: Duration = Duration::from_millis(50);

/// The most marks. When there are so many, each second one is forgotten, and new ones are twice as far apart.
const MOST: usize = 1024;

/// When the server's log went how far, for what the vault doesn't have yet.
#[derive(Debug)]
pub(super) struct Marks {
    marks: VecDeque<(Lsn, Moment)>,
    /// The shortest time between two marks now.
    apart: Duration,
    /// How far the server's log goes.
    server: Lsn,
    /// What the session before left: how far the server's log went when this one began, and since when the vault lacks some of it.
    left: Option<(Lsn, Moment)>,
}

impl Default for Marks {
    fn default() -> Self {
        Self { marks: VecDeque::new(), apart: APART, server: Lsn::default(), left: None }
    }
}

impl Marks {
    /// The marks of a session that begins while the vault lacks something, `since` then, of what the server has up to `server`.
    pub(super) fn behind(server: Lsn, since: Option<Moment>) -> Self {
        Self { left: since.map(|since| (server, since)), ..Self::default() }
    }

    /// The server's log went to `server` at `now`.
    pub(super) fn add(&mut self, server: Lsn, now: Moment) {
        if server <= self.server {
            return;
        }
        self.server = server;
        if self.marks.back().is_some_and(|(_, last)| now.since(*last) < self.apart) {
            return;
        }
        if self.marks.len() == MOST {
            let mut nth = 0;
            self.marks.retain(|_| {
                nth += 1;
                nth % 2 == 0
            });
            self.apart *= 2;
        }
        self.marks.push_back((server, now));
    }

    /// Since when the vault lacks something of what the server had, as far as [`Marks::passed`] knows.
    pub(super) fn waits_since(&self) -> Option<Moment> {
        self.left.or_else(|| self.marks.front().copied()).map(|(_, at)| at)
    }

    /// The moment until which everything is in the vault, which has the log up to `durable`; `None` if nothing new is known.
    pub(super) fn passed(&mut self, durable: Lsn, now: Moment) -> Option<Moment> {
        self.left = self.left.filter(|(server, _)| durable < *server);
        if durable >= self.server && self.server > Lsn::default() {
            self.marks.clear();
            self.apart = APART;
            return Some(now);
        }
        let mut passed = None;
        while let Some((_, at)) = self.marks.front().filter(|(lsn, _)| *lsn <= durable) {
            passed = Some(*at);
            self.marks.pop_front();
        }
        if self.marks.is_empty() && durable < self.server {
            // What came shortly after the last mark has none of its own, and waits.
            self.marks.push_back((self.server, now));
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn under_load_the_moment_advances_with_the_vault() {
        let mut marks = Marks::default();
        assert_eq!(marks.passed(Lsn::new(5), at(0)), None, "the server has said nothing");
        for (server, ms) in [(100, 1000), (150, 1010), (200, 1100), (300, 1200), (300, 1300)] {
            marks.add(Lsn::new(server), at(ms));
        }
        for (durable, now, expected) in [
            (99, 1400, None),
            (100, 1400, Some(1000)),
            (150, 1500, None),
            (250, 1500, Some(1100)),
            (300, 1600, Some(1600)),
            // Nothing new came: all of it is there.
            (300, 9000, Some(9000)),
        ] {
            assert_eq!(marks.passed(Lsn::new(durable), at(now)), expected.map(at), "{durable}");
        }
    }

    #[test]
    fn since_when_something_waits() {
        let mut marks = Marks::default();
        for (server, durable, ms, expected) in [
            (0, 0, 500, None),
            (100, 0, 1000, Some(1000)),
            // Too short after the last one for a mark of its own.
            (150, 0, 1010, Some(1000)),
            (150, 100, 1200, Some(1200)),
            (300, 100, 1300, Some(1200)),
            (300, 150, 1400, Some(1300)),
            (300, 300, 1500, None),
            (310, 300, 9000, Some(9000)),
        ] {
            marks.add(Lsn::new(server), at(ms));
            marks.passed(Lsn::new(durable), at(ms));
            assert_eq!(marks.waits_since(), expected.map(at), "{server} {durable} {ms}");
        }
    }

    #[test]
    fn a_session_goes_on_waiting_until_what_the_one_before_left_is_stored() {
        let mut marks = Marks::behind(Lsn::new(200), Some(at(1000)));
        for (server, durable, ms, expected) in [
            (0, 100, 5000, Some(1000)),
            (250, 199, 5100, Some(1000)),
            (250, 200, 5200, Some(5100)),
            (250, 250, 5300, None),
        ] {
            marks.add(Lsn::new(server), at(ms));
            marks.passed(Lsn::new(durable), at(ms));
            assert_eq!(marks.waits_since(), expected.map(at), "{server} {durable} {ms}");
        }
        // What it left tells nothing of what the server did meanwhile.
        let mut marks = Marks::behind(Lsn::new(200), Some(at(1000)));
        assert_eq!(marks.passed(Lsn::new(200), at(5000)), None);
        assert_eq!((marks.waits_since(), Marks::behind(Lsn::new(200), None).waits_since()), (None, None));
    }

    #[test]
    fn a_vault_that_is_away_for_long_needs_no_more_memory() {
        let mut marks = Marks::default();
        for nth in 1..100_000 {
            marks.add(Lsn::new(nth), at(i64::try_from(nth).unwrap_or(0) * 100));
        }
        assert!(marks.marks.len() <= MOST);
        let passed = marks.passed(Lsn::new(50_000), at(99_999_999)).expect("a moment");
        assert!(passed <= at(5_000_000) && passed > at(4_000_000), "{passed}");
    }
}
