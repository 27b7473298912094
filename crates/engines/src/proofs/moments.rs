//! Which moments of a timeline does a proof restore beside the newest point? A pure function, given random numbers.
//!
//! Each stretch of points is as likely as it holds points, so that a long quiet time doesn't hide a short busy one. A moment is drawn
//! within a stretch, never in a hole.

use seawall_core::{Moment, Timeline};

/// Draws at most `count` moments. `below` returns a random number below its argument.
pub(super) fn moments(timeline: &Timeline, count: u32, mut below: impl FnMut(u64) -> u64) -> Vec<Moment> {
    let newest = timeline.newest().cloned();
    // The newest point is proved anyway.
    let weights: Vec<u64> = timeline
        .spans
        .iter()
        .map(|span| span.points.saturating_sub(u64::from(Some(&span.to) == newest.as_ref())))
        .collect();
    let total = weights.iter().fold(0, |total: u64, weight| total.saturating_add(*weight));
    let mut chosen: Vec<Moment> = Vec::new();
    // A timeline with few points gives the same one often.
    for _ in 0..count.saturating_mul(8) {
        if chosen.len() >= count as usize || total == 0 {
            break;
        }
        let mut nth = below(total);
        let mut spans = timeline.spans.iter().zip(&weights);
        let found = spans.find(|(_, weight)| match nth.checked_sub(**weight) {
            Some(rest) => {
                nth = rest;
                false
            }
            None => true,
        });
        let Some((span, _)) = found else { continue };
        let (from, to) = (span.from.moment.as_millis(), span.to.moment.as_millis());
        let width = u64::try_from(to.saturating_sub(from)).unwrap_or(0);
        let within = if width == 0 { 0 } else { i64::try_from(below(width)).unwrap_or(0) };
        let at = Moment::from_millis(from.saturating_add(within));
        if !chosen.contains(&at) {
            chosen.push(at);
        }
    }
    chosen
}

/// Whether a timeline still holds a moment that was drawn from it.
pub(super) fn holds(timeline: &Timeline, at: Moment) -> bool {
    timeline.spans.iter().any(|span| span.from.moment <= at && at <= span.to.moment)
}

#[cfg(test)]
mod tests {
    use seawall_core::{Hole, Point, Span};

    use super::*;

    fn point(second: i64) -> Point {
        Point { position: format!("{second:04}"), moment: Moment::from_millis(second * 1000) }
    }

    fn span(from: i64, to: i64, points: u64) -> Span {
        Span { from: point(from), to: point(to), points }
    }

    fn timeline(spans: Vec<Span>) -> Timeline {
        Timeline { spans, ..Timeline::default() }
    }

    #[test]
    fn moments_are_never_in_a_hole() {
        let hole = Hole { from: Some(point(10)), to: point(50), reason: "it wasn't seen".into(), restored: false };
        let with_hole =
            Timeline { holes: vec![hole], ..timeline(vec![span(1, 10, 9), span(50, 60, 5), span(70, 70, 1)]) };
        let mut seed = 7_u64;
        let mut below = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % most
        };
        let (mut early, mut late) = (0, 0);
        for _ in 0..200 {
            for at in moments(&with_hole, 3, &mut below) {
                match at.as_millis() {
                    1_000..10_000 => early += 1,
                    50_000..60_000 => late += 1,
                    other => panic!("{other}"),
                }
            }
        }
        assert!(early > 200 && late > 100, "{early} {late}");
    }

    #[test]
    fn what_there_is_is_drawn_once() {
        let sets = timeline(vec![span(1, 1, 1), span(2, 2, 1), span(3, 3, 1)]);
        let mut next = 0;
        let mut below = |most| {
            next += 1;
            next % most
        };
        let mut drawn = moments(&sets, 24, &mut below);
        drawn.sort_unstable();
        assert_eq!(drawn, [Moment::from_millis(1000), Moment::from_millis(2000)]);
        for none in [timeline(Vec::new()), timeline(vec![span(4, 4, 1)]), timeline(vec![span(4, 4, 0)])] {
            assert_eq!(moments(&none, 3, &mut below), []);
        }
        assert_eq!(moments(&sets, 0, below), []);
    }

    #[test]
    fn what_is_gone_is_known() {
        let there = timeline(vec![span(1, 5, 4), span(9, 9, 1)]);
        for (second, expected) in [(4, true), (7, false), (9, true), (10, false)] {
            assert_eq!(holds(&there, Moment::from_millis(second * 1000)), expected, "{second}");
        }
    }
}
