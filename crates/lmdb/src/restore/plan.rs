//! Which snapshots make up the state of a moment, and what can be restored at all?
//!
//! A moment applies to the whole fleet: of every instance, the newest snapshot that isn't later. If a snapshot is
//! named, it is restored alone, whatever the other instances had then.

use seawall_core::{LevelSummary, Moment, Point, Span, Timeline, When};

use crate::Stamp;
use crate::peers::latest::Listed;

/// The snapshots that may be used. Of each instance the newest counts, or an earlier one if the newest is damaged.
pub(crate) fn until(listed: &[Listed], when: &When) -> Vec<Listed> {
    let meant = |snapshot: &&Listed| match when {
        When::Latest => true,
        When::Moment(moment) => self::moment(snapshot.name.stamp) <= *moment,
        When::Position(key) => snapshot.key == *key,
    };
    listed.iter().filter(meant).cloned().collect()
}

/// The point of a snapshot.
pub(crate) fn point(snapshot: &Listed) -> Point {
    Point { position: snapshot.key.clone(), moment: moment(snapshot.name.stamp) }
}

/// The latest of several snapshots.
pub(crate) fn latest<'a>(snapshots: impl IntoIterator<Item = &'a Listed>) -> Option<&'a Listed> {
    snapshots.into_iter().max_by_key(|snapshot| (snapshot.name.stamp, &snapshot.key))
}

/// The point of the latest of several snapshots.
pub(crate) fn newest_point<'a>(snapshots: impl IntoIterator<Item = &'a Listed>) -> Option<Point> {
    latest(snapshots).map(point)
}

/// Every snapshot is a point by itself; each instance is shown as a level.
pub(crate) fn timeline(listed: &[Listed]) -> Timeline {
    let mut all: Vec<&Listed> = listed.iter().collect();
    all.sort_by_key(|snapshot| (snapshot.name.stamp, &snapshot.key));
    let spans = all.iter().map(|snapshot| Span { from: point(snapshot), to: point(snapshot), points: 1 }).collect();
    let mut levels: Vec<LevelSummary> = Vec::new();
    for snapshot in all {
        let instance = &snapshot.name.instance;
        match levels.iter_mut().find(|level| level.level == *instance) {
            Some(level) => {
                level.objects += 1;
                level.bytes = level.bytes.saturating_add(snapshot.bytes);
            }
            None => levels.push(LevelSummary { level: instance.clone(), objects: 1, bytes: snapshot.bytes }),
        }
    }
    levels.sort_by(|a, b| a.level.cmp(&b.level));
    Timeline { spans, levels, ..Timeline::default() }
}

/// What to say of snapshots that don't count because a clock was wrong.
pub(crate) fn of_misdated(names: &[String]) -> Option<String> {
    let first = names.first()?;
    let more = if names.len() > 1 { format!(" (and {} more)", names.len() - 1) } else { String::new() };
    Some(format!(
        "{first}{more} is of the future, and its instance sent others after it: the clock of its host was wrong, so it doesn't count"
    ))
}

/// A stamp as a [`Moment`], which the other crates use.
pub(crate) fn moment(stamp: Stamp) -> Moment {
    Moment::from_millis(i64::try_from(stamp.0 / 1_000_000).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::latest::{newest, snapshots};

    const NAMES: [(&str, u64); 4] = [
        ("main__a__20260615-100000-000000000__GX.pb.gz", 10),
        ("main__a__20260615-110000-123456789__GX.pb.gz", 20),
        ("main__b__20260615-103000-000000000__GX.pb.gz", 5),
        ("main__b__20260615-120000-000000000__GX.pb.gz", 7),
    ];

    #[test]
    fn which_snapshots_make_a_moment() {
        let listed = snapshots("main", NAMES);
        for (at, expected) in [
            ("2026-06-15T09:59:59Z", &[][..]),
            ("2026-06-15T10:00:00Z", &[0]),
            ("2026-06-15T10:59:59Z", &[0, 2]),
            ("2026-06-15T11:00:00.122Z", &[0, 2]),
            ("2026-06-15T11:00:00.123Z", &[1, 2]),
            ("2027-01-01T00:00:00Z", &[1, 3]),
        ] {
            let chosen = until(&listed, &When::Moment(at.parse().expect("a moment")));
            let keys: Vec<String> = newest(&chosen, &Default::default()).into_values().map(|s| s.key).collect();
            let expected: Vec<String> = expected.iter().map(|at: &usize| NAMES[*at].0.to_owned()).collect();
            assert_eq!(keys, expected, "{at}");
        }
        assert_eq!(until(&listed, &When::Latest).len(), 4);
        let one = until(&listed, &When::Position(NAMES[2].0.to_owned()));
        assert_eq!(one.iter().map(|snapshot| snapshot.key.as_str()).collect::<Vec<_>>(), [NAMES[2].0]);
        assert_eq!(newest_point(&listed).expect("a point").position, NAMES[3].0);
        assert_eq!(newest_point(&[]), None);
    }

    #[test]
    fn the_timeline_has_every_snapshot() {
        let timeline = timeline(&snapshots("main", NAMES));
        let positions: Vec<_> = timeline.spans.iter().map(|span| span.to.position.as_str()).collect();
        assert_eq!(positions, [NAMES[0].0, NAMES[2].0, NAMES[1].0, NAMES[3].0]);
        let level = |name: &str, objects, bytes| LevelSummary { level: name.to_owned(), objects, bytes };
        assert_eq!(timeline.levels, [level("a", 2, 30), level("b", 2, 12)]);
    }
}
