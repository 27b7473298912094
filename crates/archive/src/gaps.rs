//! Which backups were due and weren't made? Pure: from moments and a schedule to stretches.

use seawall_core::Moment;

use crate::Schedule;

/// Pairs of points before a gap that tell whether the schedule was today's by then.
const PAIRS: usize = 3;

/// A stretch in which backups are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The point before it.
    pub from: Moment,
    /// The point behind it.
    pub to: Moment,
    /// Backups that were due in it and weren't made.
    pub missing: u64,
}

/// More backups than these that are missing between two points are as good as countless.
const MOST: u64 = 10_000;

/// Where backups are missing: between two points, which are in order of time, more than one was due by a schedule. The caller leaves out
/// stretches that retention thins out. That the newest is overdue now is an alarm of its own.
///
/// The schedule may have been another one earlier, and retention may have thinned points out. So a gap counts only if one of the last
/// `PAIRS` pairs of points before it fits the schedule: exactly one backup was due between the two. Daily backups from before a change to an
/// hourly schedule don't.
pub fn missed(schedule: &Schedule, moments: &[Moment]) -> Vec<Gap> {
    let pairs = moments.iter().zip(moments.iter().skip(1));
    let due_between = |(before, behind): (&Moment, &Moment)| {
        let mut due = schedule.after(*before);
        let mut count: u64 = 0;
        while let Some(moment) = due.filter(|moment| moment <= behind && count < MOST) {
            count += 1;
            due = schedule.after(moment);
        }
        (*before, *behind, count)
    };
    // Two points between which none was due, as one that was asked for, tell nothing of the schedule.
    let pairs: Vec<(Moment, Moment, u64)> = pairs.map(due_between).filter(|(.., count)| *count > 0).collect();
    let fits_before = |at: usize| pairs[at.saturating_sub(PAIRS)..at].iter().any(|(.., count)| *count == 1);
    let gaps = pairs.iter().enumerate().filter(|(at, (.., count))| *count > 1 && fits_before(*at));
    // The last one that was due was made, perhaps late.
    gaps.map(|(_, (from, to, count))| Gap { from: *from, to: *to, missing: count - 1 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        text.parse().expect("RFC 3339")
    }

    #[test]
    fn backups_that_were_due_and_not_made() {
        let daily = Schedule::parse("0 3 * * *", "a").expect("a schedule");
        for (moments, expected) in [
            (&[][..], vec![]),
            (&["2026-11-22T03:00:05Z"][..], vec![]),
            (&["2026-11-20T03:00:05Z", "2026-11-21T03:00:05Z"], vec![]),
            // Made late, because the machine was off.
            (&["2026-11-20T03:00:05Z", "2026-11-21T17:00:00Z", "2026-11-22T03:00:01Z"], vec![]),
            (
                &["2026-11-18T03:00:05Z", "2026-11-19T03:00:05Z", "2026-11-19T09:00:00Z", "2026-11-22T03:00:05Z"],
                vec![2],
            ),
            (
                &["2026-11-17T03:00:05Z", "2026-11-18T03:00:05Z", "2026-11-20T03:00:05Z", "2026-11-22T03:00:05Z"],
                vec![1, 1],
            ),
            // Nothing before them fits: the schedule may have been another one.
            (&["2026-11-18T03:00:05Z", "2026-11-20T03:00:05Z", "2026-11-22T03:00:05Z"], vec![]),
            (&["2026-11-19T03:00:05Z", "2026-11-19T09:00:00Z", "2026-11-22T03:00:05Z"], vec![]),
            // A clock that was set back.
            (&["2026-11-21T03:00:05Z", "2026-11-20T03:00:05Z"], vec![]),
        ] {
            let moments: Vec<Moment> = moments.iter().map(|text| at(text)).collect();
            let gaps = missed(&daily, &moments);
            assert_eq!(gaps.iter().map(|gap| gap.missing).collect::<Vec<_>>(), expected, "{moments:?}");
        }
    }

    #[test]
    fn a_schedule_that_was_changed_makes_no_gaps() {
        let moments = |hours: &[i64]| -> Vec<Moment> {
            let first = at("2026-11-10T00:00:05Z").as_millis();
            hours.iter().map(|hour| Moment::from_millis(first + hour * 3_600_000)).collect()
        };
        for (schedule, hours, expected) in [
            // From daily to hourly, and later an outage of three hours.
            ("0 * * * *", &[0, 24, 48, 72, 73, 74, 75][..], vec![]),
            ("0 * * * *", &[0, 24, 48, 72, 73, 74, 75, 79], vec![3]),
            ("0 * * * *", &[0, 1, 2, 6, 9, 10], vec![3, 2]),
            // From hourly to daily.
            ("0 0 * * *", &[0, 1, 2, 3, 24, 48, 72], vec![]),
            ("0 0 * * *", &[0, 1, 2, 3, 24, 48, 120], vec![2]),
            // Hourly, daily for a time, and hourly again: only three pairs are near an hourly one.
            ("0 * * * *", &[0, 1, 24, 48, 72, 96, 120, 144, 145], vec![22, 23, 23]),
        ] {
            let schedule = Schedule::parse(schedule, "a").expect("a schedule");
            let gaps = missed(&schedule, &moments(hours));
            assert_eq!(gaps.iter().map(|gap| gap.missing).collect::<Vec<_>>(), expected, "{hours:?}");
        }
    }
}
