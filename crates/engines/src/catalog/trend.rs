//! How do sizes grow, how regular are points, and do they keep to their schedule? Pure: from moments and sizes to figures.

use std::time::Duration;

use seawall_archive::{Schedule, missed};
use seawall_core::Moment;

/// Milliseconds of a day.
const DAY: f64 = 86_400_000.0;

/// Complete copies that a trend needs.
const FEWEST: usize = 3;

/// The time that they must span: a trend of minutes says nothing about a month.
const SHORTEST: Duration = Duration::from_secs(6 * 3600);

/// The newest points whose regularity is judged: retention thins older ones out, so the time between those says nothing of the schedule.
const NEWEST: usize = 8;

/// How many times the usual interval make a gap.
const GAP: u32 = 2;

/// How much later than usual a point may be.
const GRACE: Duration = Duration::from_secs(3600);

/// Bytes a day by which complete copies grow: the slope of the line of least squares. `None` if there are too few of them.
pub(super) fn growth<'a>(copies: impl IntoIterator<Item = &'a (Moment, u64)>) -> Option<i64> {
    let copies: Vec<(Moment, u64)> = copies.into_iter().copied().collect();
    let (first, last) = (copies.iter().map(|(at, _)| *at).min()?, copies.iter().map(|(at, _)| *at).max()?);
    if copies.len() < FEWEST || last.since(first) < SHORTEST {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a trend needs no exact bytes")]
    let points: Vec<(f64, f64)> =
        copies.iter().map(|(at, size)| (at.since(first).as_millis() as f64 / DAY, *size as f64)).collect();
    #[expect(clippy::cast_precision_loss, reason = "there are few")]
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (day, size) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - day).powi(2)).sum();
    let slope: f64 = points.iter().map(|point| (point.0 - day) * (point.1 - size)).sum::<f64>() / spread;
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    slope.is_finite().then(|| slope.round() as i64)
}

/// The size in so many days, if it grows on as it did.
pub(super) fn forecast(now: u64, growth: i64, days: i64) -> u64 {
    now.saturating_add_signed(growth.saturating_mul(days))
}

/// How regular points are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rhythm {
    /// The time between two: by the schedule, or else the usual one, the median.
    pub(super) every: Duration,
    /// By the schedule: how many were due and weren't made. Without one: how often the time between two was more than twice as long.
    pub(super) gaps: u64,
    /// When the next one was due, with some grace, if that is over.
    pub(super) due: Option<Moment>,
}

/// The rhythm of the newest points, in order of time; `None` if there are fewer than three.
pub(super) fn rhythm(points: &[Moment], now: Moment) -> Option<Rhythm> {
    let points = points.get(points.len().saturating_sub(NEWEST)..)?;
    let mut between: Vec<Duration> = points.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    if between.len() + 1 < FEWEST {
        return None;
    }
    between.sort_unstable();
    let every = between[between.len() / 2];
    let gaps = between.iter().filter(|time| **time > every.saturating_mul(GAP)).count();
    let due = points.last()?.after(every.saturating_add(GRACE));
    Some(Rhythm { every, gaps: u64::try_from(gaps).unwrap_or(u64::MAX), due: (due < now).then_some(due) })
}

/// The rhythm of the newest points, in order of time, by the schedule that the newest one records; `None` if there are none.
pub(super) fn rhythm_by(schedule: &Schedule, points: &[Moment], now: Moment) -> Option<Rhythm> {
    let newest = *points.last()?;
    let points = points.get(points.len().saturating_sub(NEWEST)..)?;
    let next = schedule.after(newest)?;
    let every = schedule.after(next)?.since(next);
    let gaps = missed(schedule, points).iter().map(|gap| gap.missing).sum();
    let due = next.after(GRACE);
    Some(Rhythm { every, gaps, due: (due < now).then_some(due) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_says_what_is_missing_and_what_is_due() {
        let at = |text: &str| text.parse::<Moment>().expect("RFC 3339");
        let daily = Schedule::parse("0 3 * * *", "a").expect("a schedule");
        let day = Duration::from_secs(24 * 3600);
        for (points, now, expected) in [
            (&[][..], "2026-11-22T12:00:00Z", None),
            // One is enough.
            (&["2026-11-22T03:00:05Z"][..], "2026-11-23T03:59:00Z", Some((0, None))),
            (&["2026-11-22T03:00:05Z"], "2026-11-23T04:00:01Z", Some((0, Some("2026-11-23T04:00:00Z")))),
            // One that a person asked for in between changes nothing.
            (&["2026-11-22T03:00:05Z", "2026-11-22T17:00:00Z"], "2026-11-23T03:30:00Z", Some((0, None))),
            (
                &["2026-11-17T03:00:05Z", "2026-11-18T03:00:05Z", "2026-11-21T03:00:05Z"],
                "2026-11-21T12:00:00Z",
                Some((2, None)),
            ),
            // A clock that was wrong.
            (&["2027-11-22T03:00:05Z"], "2026-11-22T12:00:00Z", Some((0, None))),
        ] {
            let points: Vec<Moment> = points.iter().map(|text| at(text)).collect();
            let expected = expected.map(|(gaps, due)| Rhythm { every: day, gaps, due: due.map(at) });
            assert_eq!(rhythm_by(&daily, &points, at(now)), expected, "{points:?} at {now}");
        }
        let weekdays = Schedule::parse("0 3 * * MON-FRI", "a").expect("a schedule");
        let friday = [at("2026-11-20T03:00:05Z")];
        assert_eq!(rhythm_by(&weekdays, &friday, at("2026-11-22T12:00:00Z")).and_then(|found| found.due), None);
    }

    fn hour(hour: i64) -> Moment {
        Moment::from_millis(hour * 3_600_000)
    }

    #[test]
    fn growth_of_a_day() {
        for (copies, expected) in [
            (&[][..], None),
            (&[(0, 100), (24, 200)][..], None),
            (&[(0, 100), (1, 200), (2, 300)][..], None),
            (&[(0, 100), (24, 200), (48, 300)][..], Some(100)),
            (&[(48, 300), (0, 100), (24, 200)][..], Some(100)),
            (&[(0, 300), (24, 200), (48, 100)][..], Some(-100)),
            (&[(0, 100), (24, 100), (48, 100)][..], Some(0)),
            (&[(0, 0), (12, 50), (24, u64::MAX), (48, 200)][..], Some(i64::MAX / 2)),
        ] {
            let copies: Vec<_> = copies.iter().map(|(at, size)| (hour(*at), *size)).collect();
            let found = growth(&copies);
            match expected {
                Some(large) if large > 1 << 50 => assert!(found.is_some(), "{copies:?}"),
                expected => assert_eq!(found, expected, "{copies:?}"),
            }
        }
        assert_eq!(growth(&[(hour(1), 5), (hour(1), 6), (hour(1), 7)]), None);
        assert_eq!((forecast(1000, -100, 30), forecast(1000, 10, 30)), (0, 1300));
    }

    #[test]
    fn rhythms() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        for (points, now, expected) in [
            (&[][..], 0, None),
            (&[0, 24][..], 25, None),
            (&[0, 24, 48][..], 50, Some((hours(24), 0, None))),
            (&[0, 24, 48][..], 73, Some((hours(24), 0, None))),
            (&[0, 24, 48][..], 74, Some((hours(24), 0, Some(hour(73))))),
            (&[0, 24, 48, 120, 144][..], 150, Some((hours(24), 1, None))),
            // Thinned out to weeks, and before that to months.
            (
                &[0, 720, 1440, 1608, 1776, 1944, 1968, 1992, 2016, 2040, 2064, 2088, 2112][..],
                2140,
                Some((hours(24), 0, Some(hour(2137)))),
            ),
        ] {
            let points: Vec<Moment> = points.iter().map(|at| hour(*at)).collect();
            let expected = expected.map(|(every, gaps, due)| Rhythm { every, gaps, due });
            assert_eq!(rhythm(&points, hour(now)), expected, "{points:?} at {now}");
        }
    }
}
