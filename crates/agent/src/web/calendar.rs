//! Which days can a database be restored to? Pure.

use std::time::Duration;

use seawall_core::{Moment, Proof, Timeline};

/// Weeks that are shown.
const WEEKS: i64 = 6;

const DAY: i64 = 86_400_000;

/// What is known of a day of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Day {
    /// Its number, counted from 1970-01-01.
    number: i64,
    /// Whether a range has a part of it.
    pub(super) is_restorable: bool,
    /// Points of ranges that lie within it.
    pub(super) points: u64,
    /// Whether a range goes beyond it, so that it has points that aren't counted.
    pub(super) has_more: bool,
    /// Holes that have a part of it.
    pub(super) holes: u64,
    /// Proofs that were made on it and hold.
    pub(super) proofs: u64,
    /// Proofs that were made on it and failed.
    pub(super) failed: u64,
}

impl Day {
    /// Its date.
    pub(super) fn date(&self) -> String {
        let text = self.begin().to_string();
        text.get(..10).unwrap_or(&text).to_owned()
    }

    fn begin(&self) -> Moment {
        Moment::from_millis(self.number.saturating_mul(DAY))
    }

    /// Its last millisecond.
    pub(super) fn end(&self) -> Moment {
        self.begin().after(Duration::from_millis(DAY.unsigned_abs() - 1))
    }
}

fn number(moment: Moment) -> i64 {
    moment.as_millis().div_euclid(DAY)
}

/// The days from a Monday some weeks ago to today.
pub(super) fn days(timeline: &Timeline, proofs: &[Proof], now: Moment) -> Vec<Day> {
    let today = number(now);
    // 1970-01-01 was a Thursday.
    let monday = today - (today + 3).rem_euclid(7);
    let first = monday - 7 * (WEEKS - 1);
    let mut days: Vec<Day> = (first..=today).map(|number| Day { number, ..Day::default() }).collect();
    // A range may end before it begins: a clock was set back.
    let within = |from: i64, to: i64| {
        let (from, to) = (from.min(to).max(first), from.max(to).min(today));
        let place = |number: i64| usize::try_from(number - first).unwrap_or(0);
        if from <= to { place(from)..place(to) + 1 } else { 0..0 }
    };
    for span in &timeline.spans {
        let (from, to) = (number(span.from.moment), number(span.to.moment));
        for day in &mut days[within(from, to)] {
            day.is_restorable = true;
            match from == to {
                true => day.points = day.points.saturating_add(span.points),
                false => day.has_more = true,
            }
        }
    }
    for hole in &timeline.holes {
        let to = number(hole.to.moment);
        let from = hole.from.as_ref().map_or(to, |from| number(from.moment));
        days[within(from, to)].iter_mut().for_each(|day| day.holes += 1);
    }
    for proof in proofs {
        let at = number(proof.at);
        for day in &mut days[within(at, at)] {
            match proof.holds() {
                true => day.proofs += 1,
                false => day.failed += u64::from(!proof.inconclusive),
            }
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use seawall_core::{Hole, Point, Span};

    use super::*;

    fn at(text: &str) -> Moment {
        format!("2026-{text}:00Z").parse().expect("a moment")
    }

    fn point(text: &str) -> Point {
        Point { position: text.into(), moment: at(text) }
    }

    fn span(from: &str, to: &str, points: u64) -> Span {
        Span { from: point(from), to: point(to), points }
    }

    #[test]
    fn what_days_have() {
        let timeline = Timeline {
            spans: vec![
                span("01-02T10:00", "01-02T11:00", 9),
                span("11-23T10:00", "11-24T09:00", 700),
                span("11-24T10:00", "11-24T11:00", 3),
                span("11-26T00:00", "11-26T00:00", 1),
                span("11-26T23:59", "11-26T12:00", 2),
            ],
            holes: vec![
                Hole {
                    from: Some(point("11-24T11:00")),
                    to: point("11-26T00:00"),
                    reason: String::new(),
                    restored: false,
                },
                Hole { from: None, to: point("11-23T10:00"), reason: String::new(), restored: false },
            ],
            ..Timeline::default()
        };
        let proof =
            |text: &str, holds: bool| Proof { at: at(text), point: holds.then(|| point(text)), ..Proof::default() };
        let failed = Proof { inconclusive: true, ..proof("11-25T01:00", false) };
        let proofs = [proof("11-25T00:00", true), proof("11-26T00:00", false), failed];
        let days = days(&timeline, &proofs, at("11-27T12:00"));
        assert_eq!((days.len(), days[0].date().as_str()), (40, "2026-10-19"), "a Monday");
        let plain = |day: &Day| {
            let Day { is_restorable, points, has_more, holes, proofs, failed, .. } = *day;
            (day.date()[5..].to_owned(), is_restorable, points, has_more, holes, (proofs, failed))
        };
        let seen: Vec<_> = days.iter().skip(34).map(plain).collect();
        let day = |date: &str| date.to_owned();
        assert_eq!(
            seen,
            [
                (day("11-22"), false, 0, false, 0, (0, 0)),
                (day("11-23"), true, 0, true, 1, (0, 0)),
                (day("11-24"), true, 3, true, 1, (0, 0)),
                (day("11-25"), false, 0, false, 1, (1, 0)),
                (day("11-26"), true, 3, false, 1, (0, 1)),
                (day("11-27"), false, 0, false, 0, (0, 0)),
            ]
        );
        assert_eq!(days[39].end().to_string(), "2026-11-27T23:59:59.999Z");
        assert!(days[..34].iter().all(|day| !day.is_restorable));
    }

    #[test]
    fn moments_far_outside_of_any_history_break_nothing() {
        let point = |millis| Point { position: String::new(), moment: Moment::from_millis(millis) };
        let wide = Span { from: point(i64::MIN), to: point(i64::MAX), points: 7 };
        let timeline = Timeline { spans: vec![wide], ..Timeline::default() };
        for now in [Moment::default(), at("11-27T12:00")] {
            assert!(days(&timeline, &[], now).iter().all(|day| day.is_restorable && day.has_more));
        }
    }
}
