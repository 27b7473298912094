//! Where do the ranges and holes of a timeline, and the points of a curve, stand in a picture? Pure.

use seawall_core::{Moment, Timeline};

/// The width of the picture, in its own units.
pub(super) const WIDTH: u32 = 1000;

/// The narrowest bar that is still seen.
const NARROWEST: u32 = 3;

/// A bar: where it begins, and how wide it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) x: u32,
    pub(super) width: u32,
}

/// The bars of a timeline, from its first moment to its last one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Bars {
    /// What can be restored. Neighbours that touch in the picture are one bar, so there are at most [`WIDTH`].
    pub(super) spans: Vec<Bar>,
    /// What can't. They are drawn over the others, so that no hole hides behind a wide bar.
    pub(super) holes: Vec<Bar>,
    /// The first and the last moment; `None` for a timeline without any.
    pub(super) ends: Option<(Moment, Moment)>,
    /// Where the moment stands that was asked for, if it is between the ends.
    pub(super) mark: Option<u32>,
}

/// The bars of `timeline`, with a mark at a moment.
pub(super) fn bars(timeline: &Timeline, mark: Option<Moment>) -> Bars {
    let spans = timeline.spans.iter().map(|span| (span.from.moment.as_millis(), span.to.moment.as_millis()));
    let holes = timeline.holes.iter().map(|hole| {
        let to = hole.to.moment.as_millis();
        (hole.from.as_ref().map_or(to, |from| from.moment.as_millis()), to)
    });
    let (spans, holes): (Vec<_>, Vec<_>) = (spans.collect(), holes.collect());
    let ends = || spans.iter().chain(&holes).flat_map(|(from, to)| [*from, *to]);
    let (Some(first), Some(last)) = (ends().min(), ends().max()) else { return Bars::default() };
    let mark = mark.map(Moment::as_millis).filter(|at| (first..=last).contains(at));
    Bars {
        spans: joined(&spans, (first, last)),
        holes: joined(&holes, (first, last)),
        ends: Some((Moment::from_millis(first), Moment::from_millis(last))),
        mark: mark.map(|at| place(at, (first, last)).min(WIDTH - NARROWEST)),
    }
}

/// Where a moment between the ends stands.
fn place(at: i64, (first, last): (i64, i64)) -> u32 {
    let whole = u128::from(last.abs_diff(first)).max(1);
    u32::try_from(u128::from(at.abs_diff(first)) * u128::from(WIDTH) / whole).unwrap_or(WIDTH)
}

/// Ranges of time as bars, in their order in the picture.
fn joined(ranges: &[(i64, i64)], ends: (i64, i64)) -> Vec<Bar> {
    // A range may end before it begins: a clock was set back.
    let mut all: Vec<(u32, u32)> =
        ranges.iter().map(|(from, to)| (place(*from.min(to), ends), place(*from.max(to), ends))).collect();
    all.sort_unstable();
    let mut bars: Vec<Bar> = Vec::new();
    for (from, to) in all {
        let x = from.min(WIDTH - NARROWEST);
        let end = to.max(x + NARROWEST).min(WIDTH);
        match bars.last_mut() {
            Some(before) if before.x + before.width >= x => before.width = before.width.max(end - before.x),
            _ => bars.push(Bar { x, width: end - x }),
        }
    }
    bars
}

/// The height of the picture of a curve, in its own units.
pub(super) const HEIGHT: u32 = 100;

/// The points of a curve through values, from the first moment to the last one and from 0 to the largest value: `x,y x,y`. `None` for
/// fewer than two moments.
pub(super) fn curve(values: &[(Moment, u64)]) -> Option<String> {
    let ((first, _), (last, _)) = (values.first()?, values.last()?);
    let ends = (first.as_millis(), last.as_millis());
    if ends.0 >= ends.1 {
        return None;
    }
    let most = u128::from(values.iter().map(|(_, value)| *value).max()?).max(1);
    let points = values.iter().map(|(at, value)| {
        let height = u32::try_from(u128::from(*value) * u128::from(HEIGHT) / most).unwrap_or(HEIGHT);
        format!("{},{}", place(at.as_millis().clamp(ends.0, ends.1), ends), HEIGHT - height.min(HEIGHT))
    });
    Some(points.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use seawall_core::{Hole, Point, Span};

    use super::*;

    fn timeline(spans: &[(i64, i64)], holes: &[(Option<i64>, i64)]) -> Timeline {
        let point = |at: i64| Point { position: at.to_string(), moment: Moment::from_millis(at) };
        Timeline {
            spans: spans.iter().map(|(from, to)| Span { from: point(*from), to: point(*to), points: 1 }).collect(),
            holes: holes
                .iter()
                .map(|(from, to)| Hole {
                    from: from.map(point),
                    to: point(*to),
                    reason: String::new(),
                    restored: false,
                })
                .collect(),
            ..Timeline::default()
        }
    }

    #[test]
    fn where_bars_stand() {
        for (spans, holes, expected) in [
            (&[][..], &[][..], (&[][..], &[][..])),
            (&[(5, 5)], &[], (&[(0, 3)], &[])),
            (&[(0, 100)], &[], (&[(0, 1000)], &[])),
            (&[(0, 50), (60, 100)], &[(Some(50), 60)], (&[(0, 500), (600, 400)], &[(500, 100)])),
            // In the picture these two touch; the hole is seen all the same.
            (&[(0, 5000), (5001, 10_000)], &[(Some(5000), 5001)], (&[(0, 1000)], &[(500, 3)])),
            (&[(10, 20)], &[(None, 10)], (&[(0, 1000)], &[(0, 3)])),
            (&[(0, 100), (100, 100)], &[], (&[(0, 1000)], &[])),
            // A clock that was set back, and moments far outside of any history.
            (&[(100, 0)], &[], (&[(0, 1000)], &[])),
            (&[(i64::MIN, i64::MAX)], &[], (&[(0, 1000)], &[])),
        ] {
            let found = bars(&timeline(spans, holes), None);
            let plain = |bars: &[Bar]| bars.iter().map(|bar| (bar.x, bar.width)).collect::<Vec<_>>();
            assert_eq!(
                (plain(&found.spans), plain(&found.holes)),
                (expected.0.to_vec(), expected.1.to_vec()),
                "{spans:?}"
            );
        }
    }

    #[test]
    fn a_mark_stands_inside() {
        let timeline = timeline(&[(0, 100)], &[]);
        for (at, expected) in [(0, Some(0)), (50, Some(500)), (100, Some(997)), (101, None), (-1, None)] {
            assert_eq!(bars(&timeline, Some(Moment::from_millis(at))).mark, expected, "{at}");
        }
        assert_eq!(bars(&Timeline::default(), Some(Moment::default())), Bars::default());
    }

    #[test]
    fn curves() {
        for (values, expected) in [
            (&[][..], None),
            (&[(5, 9)], None),
            (&[(5, 9), (5, 8)], None),
            (&[(9, 1), (5, 8)], None),
            (&[(0, 0), (10, 0)], Some("0,100 1000,100")),
            (&[(0, 1), (5, 4), (10, 2)], Some("0,75 500,0 1000,50")),
            (&[(0, u64::MAX), (1, 0)], Some("0,0 1000,100")),
        ] {
            let values: Vec<_> = values.iter().map(|(at, value)| (Moment::from_millis(*at), *value)).collect();
            assert_eq!(curve(&values).as_deref(), expected, "{values:?}");
        }
    }

    #[test]
    fn many_ranges_are_few_bars_inside_the_picture() {
        let spans: Vec<(i64, i64)> = (0..100_000).map(|n| (n * 10, n * 10 + 1)).collect();
        let found = bars(&timeline(&spans, &[]), None);
        assert!(found.spans.len() <= WIDTH as usize && !found.spans.is_empty());
        assert!(found.spans.iter().all(|bar| bar.x + bar.width <= WIDTH && bar.width >= 1));
    }
}
