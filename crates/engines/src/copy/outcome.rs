//! Can a copy restore what was asked for? And does a process hold its place? Decided from facts.

use seawall_core::{Moment, Point};
use serde::Deserialize;

use super::{CopiedDatabase, Part};

/// A database with its oldest and its newest point.
pub(super) type Points = (String, Option<Point>, Option<Point>);

/// Compares the points of the copy with those of the vault before and after the copy. The vault's writer may have added
/// points and taken old ones away meanwhile.
pub(super) fn judge(part: &Part, before: &[Points], after: &[Points], copied: &[CopiedDatabase]) -> Result<(), String> {
    for (name, earliest, newest) in before {
        let Some(newest) = newest else { continue };
        let shown = if name.is_empty() { String::new() } else { format!("{name}: ") };
        let Some(copy) = copied.iter().find(|copy| copy.name == *name) else {
            return Err(format!("{shown}the copy holds no such database"));
        };
        let Some(last) = &copy.newest else { return Err(format!("{shown}nothing can be restored from the copy")) };
        let is_there = match part {
            Part::At(_) => last.position == newest.position,
            Part::All | Part::Since(_) => last.moment >= newest.moment,
        };
        if !is_there {
            return Err(format!(
                "{shown}the newest point is {} ({}), and {} ({}) was asked for",
                last.moment, last.position, newest.moment, newest.position
            ));
        }
        let since = after.iter().find(|(other, ..)| other == name).and_then(|(_, earliest, _)| earliest.as_ref());
        let expected = earliest.as_ref().map(|point| point.moment).max(since.map(|point| point.moment));
        let first = copy.earliest.as_ref().map(|point| point.moment);
        if first > expected {
            let text = |moment: Option<Moment>| moment.map_or_else(|| "none".to_owned(), |moment| moment.to_string());
            return Err(format!("{shown}the oldest point is {}, and {} was asked for", text(first), text(expected)));
        }
    }
    Ok(())
}

/// A lease as far as it matters here.
#[derive(Deserialize)]
struct Lease {
    expires_at: Moment,
}

/// Whether a lease still holds. One that can't be understood does.
pub(super) fn holds(lease: &[u8], now: Moment) -> bool {
    serde_json::from_slice::<Lease>(lease).map_or(true, |lease| lease.expires_at > now)
}

#[cfg(test)]
mod tests {
    use seawall_core::When;

    use super::*;

    fn point(n: i64) -> Point {
        Point { position: format!("{n:016x}"), moment: Moment::from_millis(n * 1000) }
    }

    #[test]
    fn what_a_copy_must_restore() {
        let points = |from: i64, to: i64| vec![(String::new(), Some(point(from)), Some(point(to)))];
        let at = Part::At(When::Latest);
        for (part, before, after, copy, is_good) in [
            (&Part::All, (1, 9), (1, 9), Some((1, 9)), true),
            (&Part::All, (1, 9), (1, 9), Some((1, 8)), false),
            (&Part::All, (1, 9), (1, 9), Some((2, 9)), false),
            // The writer goes on, and retention takes old points away.
            (&Part::All, (1, 9), (3, 12), Some((3, 10)), true),
            (&Part::All, (1, 9), (3, 12), Some((4, 10)), false),
            (&Part::All, (1, 9), (1, 9), None, false),
            (&at, (5, 5), (5, 5), Some((1, 5)), true),
            (&at, (5, 5), (5, 5), Some((1, 6)), false),
            (&Part::Since(When::Latest), (5, 5), (5, 5), Some((1, 6)), true),
        ] {
            let copied = copy.map(|(from, to)| CopiedDatabase {
                name: String::new(),
                earliest: Some(point(from)),
                newest: Some(point(to)),
                findings: Vec::new(),
            });
            let (before, after) = (points(before.0, before.1), points(after.0, after.1));
            let copied: Vec<CopiedDatabase> = copied.into_iter().collect();
            assert_eq!(judge(part, &before, &after, &copied).is_ok(), is_good, "{part:?} {before:?} {copied:?}");
        }
        assert_eq!(judge(&Part::All, &[(String::new(), None, None)], &[], &[]), Ok(()));
    }

    #[test]
    fn leases() {
        let now: Moment = "2026-11-21T10:00:00Z".parse().expect("a moment");
        for (text, expected) in [
            (r#"{"generation":1,"expires_at":"2026-11-21T10:00:30Z","owner":"x"}"#, true),
            (r#"{"generation":1,"expires_at":"2026-11-21T09:59:59Z","owner":"x"}"#, false),
            ("{}", true),
            ("", true),
        ] {
            assert_eq!(holds(text.as_bytes(), now), expected, "{text}");
        }
    }
}
