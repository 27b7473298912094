//! When is what done for a cluster that is protected continuously? Facts of the last look and the last base; no I/O.

use std::time::Duration;

use seawall_archive::log::Lsn;
use seawall_archive::{Schedule, SetId};
use seawall_core::Moment;
use tokio::time::Instant;

use super::history::Known;
use super::judge;

/// The longest sleep: a clock that was set is noticed after this time. The vault is looked at as often.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// The vault of a cluster that writes nothing is looked at as often: a look lists all of the log.
const AT_REST: Duration = Duration::from_secs(24 * 3600);

/// After this time the vault is looked at again, while the log of a new base is on its way.
pub(super) const SOON: Duration = Duration::from_secs(15);

/// What comes next.
#[derive(Debug)]
pub(super) struct Plan {
    /// When the server is asked whether it is a standby; `None` where that says nothing.
    pub(super) ask_at: Option<Instant>,
    /// When the vault is looked at.
    pub(super) look_at: Instant,
    /// Looks in a row that failed.
    pub(super) failed_looks: u32,
    /// Whether one succeeded. No base is made before.
    pub(super) has_looked: bool,
    /// When the last look found a base that leads to the log's end, and how far the log was stored then, if it streamed. A seam takes
    /// it back.
    pub(super) led: Option<(Instant, Option<Lsn>)>,
    /// Whether the last look contradicts that, and the next one has to confirm it.
    pub(super) is_doubted: bool,
    /// Bases in a row whose log didn't come.
    pub(super) lost: u32,
    /// When the newest base was begun; `None` if none leads to the log's end, and one is due.
    pub(super) last: Option<Moment>,
    /// Whether a base is due, whatever the schedule says.
    pub(super) is_forced: bool,
    /// The end of the log that a base needs which was made since a base last led to the log's end, and when it was made.
    pub(super) made: Option<(Lsn, Instant)>,
    /// Bases in a row that failed.
    pub(super) failures: u32,
    /// Until then no base is tried again.
    pub(super) not_before: Option<Instant>,
    /// When retention has more to do; `None` until this process has received log or made a base.
    pub(super) upkeep_at: Option<Moment>,
    /// Whether the log streamed in this process.
    pub(super) has_streamed: bool,
    /// When a look last found that the server, which pushes its log, still writes the segment in which the newest base's log ends.
    pub(super) written_at: Option<Instant>,
    /// The manifests that were read.
    pub(super) known: Known,
}

impl Plan {
    /// Only a look is planned.
    pub(super) fn new() -> Self {
        Self {
            ask_at: None,
            look_at: Instant::now(),
            failed_looks: 0,
            has_looked: false,
            led: None,
            is_doubted: false,
            lost: 0,
            last: None,
            is_forced: false,
            made: None,
            failures: 0,
            not_before: None,
            upkeep_at: None,
            has_streamed: false,
            written_at: None,
            known: Known::default(),
        }
    }

    /// When the server is asked or the vault is looked at.
    pub(super) fn next_look(&self) -> Instant {
        self.ask_at.map_or(self.look_at, |ask| ask.min(self.look_at))
    }

    /// How long until something is due. The wall clock may be set, so the wait is bounded.
    pub(super) fn wait(&self, schedule: &Schedule, now: Moment) -> Duration {
        let look = self.next_look().saturating_duration_since(Instant::now());
        let upkeep = self.upkeep_at.map_or(LONGEST_SLEEP, |upkeep| upkeep.since(now));
        self.until_base(schedule, now).min(look).min(upkeep).min(LONGEST_SLEEP)
    }

    /// Whether a look can wait: since the last one a base led to the log's end, and nothing was added to the log.
    pub(super) fn may_rest(&self, durable: Lsn) -> bool {
        self.led.is_some_and(|(at, then)| then == Some(durable) && at.elapsed() < AT_REST) && !self.is_doubted
    }

    /// How long until a base is due.
    pub(super) fn until_base(&self, schedule: &Schedule, now: Moment) -> Duration {
        if !self.has_looked {
            return LONGEST_SLEEP;
        }
        let last = self.last.filter(|_| !self.is_forced);
        let backoff = self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        judge::due(schedule, last, now).since(now).max(backoff)
    }

    /// A base was made.
    pub(super) fn made(&mut self, id: SetId, stop: Lsn, now: Moment) {
        (self.failures, self.not_before, self.is_forced) = (0, None, false);
        self.last = Some(id.moment());
        self.made = Some((stop, Instant::now()));
        (self.look_at, self.upkeep_at) = (Instant::now() + SOON, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn how_long_until_something_is_due() {
        let schedule = Schedule::parse("0 3 * * *", "a").expect("a schedule");
        let now: Moment = "2026-11-22T02:30:00Z".parse().expect("RFC 3339");
        let (half_an_hour, second) = (Duration::from_secs(1800), Duration::from_secs(1));
        let at = Instant::now();
        let looked = || Plan {
            look_at: at + LONGEST_SLEEP,
            has_looked: true,
            last: Some(now.before(half_an_hour)),
            ..Plan::new()
        };
        let far = "2027-11-22T12:00:00Z".parse().expect("RFC 3339");
        for (nth, plan, expected) in [
            (0, Plan::new(), Duration::ZERO),
            // No base is made before a look succeeded.
            (1, Plan { look_at: at + second, ..Plan::new() }, second),
            (2, looked(), half_an_hour),
            (3, Plan { last: None, ..looked() }, Duration::ZERO),
            (4, Plan { is_forced: true, ..looked() }, Duration::ZERO),
            (5, Plan { last: None, not_before: Some(at + second), ..looked() }, second),
            (6, Plan { upkeep_at: Some(now), ..looked() }, Duration::ZERO),
            (7, Plan { upkeep_at: Some(now.after(second)), ..looked() }, second),
            // Made while the clock was wrong by a year.
            (8, Plan { last: Some(far), ..looked() }, Duration::ZERO),
            (9, Plan { last: Some(now.after(half_an_hour)), ..looked() }, half_an_hour),
            (10, Plan { upkeep_at: Some(far), ..looked() }, half_an_hour),
        ] {
            assert_eq!(plan.wait(&schedule, now), expected, "{nth}");
        }
        let mut plan = Plan { is_forced: true, failures: 3, not_before: Some(at + second), ..looked() };
        plan.made(SetId::new(now, 1), Lsn::new(7), now);
        assert_eq!(plan.wait(&schedule, now), Duration::ZERO, "retention follows a base");
        plan.upkeep_at = None;
        assert_eq!(plan.wait(&schedule, now), SOON, "and a look");
        assert_eq!(plan.until_base(&schedule, now), half_an_hour);
    }
}
