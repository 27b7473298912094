//! The checks of what can be restored: holes, backups that weren't made, and sets that no restore finds. Facts come from the vaults;
//! pure functions judge them.

use std::time::Duration;

use seawall_agent::config::{Config, DatabaseConfig, EngineConfig};
use seawall_agent::{Opener, unusable};
use seawall_archive::{Catalog, RetentionPolicy, Schedule, Unlinked, unlinked};
use seawall_core::{Failure, Hole, Moment, PlannedObject, Timeline};

use super::finding::Finding;
use super::places::{Away, each, place};
use crate::edge::Edge;
use crate::{runtime, table};

const CHECK: &str = "timeline";

/// A hole that is older is known by now.
const OLD_HOLE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Holes and gaps that are told one by one.
const SHOWN: usize = 3;

/// Pairs of points before a gap that tell whether the schedule was today's by then.
const PAIRS: usize = 3;

/// A backup writes its index and its link within moments. A set that waits for its link for longer doesn't get one.
const LINKED_WITHIN: Duration = Duration::from_secs(3600);

/// Retention deletes what an interrupted backup left after seven days; a day later it should have.
const REMOVED_WITHIN: Duration = Duration::from_secs(8 * 24 * 3600);

/// Looks at the history of each database. Places that are `away` aren't asked again.
///
/// # Errors
/// When the command is interrupted, or its keys can't be read.
pub(super) fn of_all(config: &Config, edge: &Edge, now: Moment, away: &mut Away) -> Result<Vec<Finding>, Failure> {
    let opener = edge.opener(1)?;
    let look = |database| of_one(database, &opener, now);
    let of_place = |database: &DatabaseConfig| place(&database.vault);
    let answers = runtime::run(async { Ok(each(&config.databases, of_place, away, look).await) })?;
    let told = |(database, answer): (&DatabaseConfig, Result<Vec<Finding>, Failure>)| {
        answer.unwrap_or_else(|failure| {
            let meaning = format!("its history can't be read: {} ({})", failure.cause, failure.code);
            vec![Finding::wrong(CHECK, &database.name, meaning, failure.next)]
        })
    };
    Ok(config.databases.iter().zip(answers).flat_map(told).collect())
}

async fn of_one(database: &DatabaseConfig, opener: &Opener, now: Moment) -> Result<Vec<Finding>, Failure> {
    let name = &database.name;
    let server = match &database.engine {
        EngineConfig::Server(server) => Some(server),
        EngineConfig::Sqlite(_) | EngineConfig::Lmdb(_) | EngineConfig::Cluster(_) => None,
    };
    let (vault, engine) = opener.database_and_vault(database).await?;
    let timeline = engine.history().timeline().await?;
    let mut found = Vec::new();
    if let Some(server) = server {
        let faults = Catalog::read(&vault).await?.findings();
        found.extend(faults.iter().map(|fault| {
            let next = format!("seawall verify '{name}'; if the backup is lost, and you know why: seawall maintain '{name}' --acknowledge NUMBER");
            Finding::wrong("chain", name, format!("{}: {} ({})", fault.object, fault.cause, fault.code), next)
        }));
        let moments: Vec<Moment> = timeline.spans.iter().map(|span| span.to.moment).collect();
        found.extend(of_gaps(name, &missed(&server.schedule, &server.retention, &moments, now)));
        found.extend(unlinked(&vault).await?.iter().filter_map(|set| of_unlinked(name, set, now)));
    } else {
        found.extend(of_holes(name, &timeline.holes, now));
    }
    if let EngineConfig::Sqlite(_) = &database.engine {
        found.extend(of_unusable(name, &unusable(&vault).await?));
    }
    if found.is_empty() {
        found.push(of_whole(name, server.is_some(), &timeline));
    }
    Ok(found)
}

/// A history without a fault, if there is one.
fn of_whole(name: &str, is_server: bool, timeline: &Timeline) -> Finding {
    match (timeline.spans.first(), timeline.newest()) {
        (Some(oldest), Some(newest)) => {
            let meaning = format!("no new hole and no missing backup from {} to {}", oldest.from.moment, newest.moment);
            Finding::fine(CHECK, name, meaning)
        }
        _ => {
            let meaning = "nothing is in its vault yet, so nothing can be restored";
            let next = match is_server {
                true => format!("seawall backup '{name}'"),
                false => "seawall replicate, or: systemctl start seawall".to_owned(),
            };
            Finding::warning(CHECK, name, meaning, next)
        }
    }
}

/// Holes of a file's history. One that a restore made is expected, so it isn't told.
fn of_holes(name: &str, holes: &[Hole], now: Moment) -> Vec<Finding> {
    let new: Vec<&Hole> = holes.iter().filter(|hole| !hole.restored && now.since(hole.to.moment) < OLD_HOLE).collect();
    let tell = |hole: &&Hole| {
        let from = hole.from.as_ref().map_or_else(|| "the beginning".to_owned(), |point| point.moment.to_string());
        let meaning = format!("nothing between {from} and {} can be restored: {}", hole.to.moment, hole.reason);
        let next = format!("remove the cause, and choose other moments in a restore: seawall timeline '{name}'");
        Finding::warning(CHECK, name, meaning, next)
    };
    some(name, new.len(), "hole", new.iter().rev().take(SHOWN).map(tell).collect())
}

/// A stretch in which backups are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    from: Moment,
    to: Moment,
    /// Backups that were due in it and weren't made.
    missing: u64,
}

/// Where backups are missing: between two points more than one was due by today's schedule. Stretches that retention thins out tell
/// nothing. That the newest is overdue now is an alarm of its own.
///
/// No vault records which schedule it had. So a gap counts only if one of the last [`PAIRS`] pairs of points before it fits today's:
/// exactly one backup was due between the two. Daily backups from before a change to an hourly schedule don't.
fn missed(schedule: &Schedule, retention: &RetentionPolicy, moments: &[Moment], now: Moment) -> Vec<Gap> {
    /// More are as good as countless.
    const MOST: u64 = 10_000;
    let window = retention.window.filter(|_| retention.enabled);
    let from = window.map_or(Moment::from_millis(i64::MIN), |window| now.before(window));
    let pairs = moments.iter().zip(moments.iter().skip(1)).filter(|(before, _)| **before >= from);
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

fn of_gaps(name: &str, gaps: &[Gap]) -> Vec<Finding> {
    let tell = |gap: &Gap| {
        let Gap { from, to, missing } = gap;
        let meaning = format!("by today's schedule more backups were due between {from} and {to}: {missing} missing");
        let next =
            "look into the log of that time, and let the process run when a backup is due: systemctl status seawall";
        Finding::warning("gaps", name, meaning, next)
    };
    some(name, gaps.len(), "gap", gaps.iter().rev().take(SHOWN).map(tell).collect())
}

/// These findings, and how many more there are.
fn some(name: &str, all: usize, what: &str, mut shown: Vec<Finding>) -> Vec<Finding> {
    if let Some(last) = shown.last_mut().filter(|_| all > SHOWN) {
        last.meaning +=
            &format!("; earlier than that: {} (seawall timeline '{name}')", table::count(all - SHOWN, what));
    }
    shown
}

/// Objects of a SQLite database that no restore can use.
fn of_unusable(name: &str, objects: &[PlannedObject]) -> Option<Finding> {
    let first = objects.first()?;
    let bytes = table::bytes(objects.iter().map(|object| object.bytes).sum());
    let count = table::count(objects.len(), "object");
    let meaning = format!("no restore can use {count} ({bytes}), because objects before them are missing");
    let next = format!(
        "look for the missing objects in copies of the vault, and put them back; the objects are named by: seawall verify '{name}'"
    );
    Some(Finding::warning("orphans", format!("{name}: {}", first.key), meaning, next))
}

/// A set that no link names, if that isn't the backup that is being made.
fn of_unlinked(name: &str, set: &Unlinked, now: Moment) -> Option<Finding> {
    let Unlinked { id, bytes, has_index, written, is_passed } = set;
    let (age, object) = (now.since(*written), format!("{name}: sets/{id}/"));
    let bytes = table::bytes(*bytes);
    if *has_index && (*is_passed || age > LINKED_WITHIN) {
        let meaning =
            format!("no link of the chain names this backup ({bytes}), so no restore finds it and nothing deletes it");
        let next = format!(
            "look for its link in copies of the vault (chain/*.json); if there is none, delete sets/{id}/ with the store's own tool"
        );
        return Some(Finding::warning("orphans", object, meaning, next));
    }
    (!has_index && age > REMOVED_WITHIN).then(|| {
        let meaning = format!("a backup that was interrupted left it ({bytes}), and retention didn't delete it");
        Finding::warning("orphans", object, meaning, format!("seawall maintain '{name}'"))
    })
}

#[cfg(test)]
mod tests {
    use seawall_core::{Point, Thinning};

    use super::super::finding::Verdict::Warning;
    use super::*;

    fn at(text: &str) -> Moment {
        text.parse().expect("RFC 3339")
    }

    fn retention(window_days: Option<u64>) -> RetentionPolicy {
        RetentionPolicy {
            enabled: true,
            window: window_days.map(|days| Duration::from_secs(days * 86_400)),
            thinning: Thinning::default(),
            grace: Duration::ZERO,
        }
    }

    #[test]
    fn backups_that_were_due_and_not_made() {
        let daily = Schedule::parse("0 3 * * *", "a").expect("a schedule");
        let now = at("2026-11-22T12:00:00Z");
        for (days, moments, expected) in [
            (None, &[][..], vec![]),
            (None, &["2026-11-22T03:00:05Z"][..], vec![]),
            (None, &["2026-11-20T03:00:05Z", "2026-11-21T03:00:05Z"], vec![]),
            // Made late, because the machine was off.
            (None, &["2026-11-20T03:00:05Z", "2026-11-21T17:00:00Z", "2026-11-22T03:00:01Z"], vec![]),
            (
                None,
                &["2026-11-18T03:00:05Z", "2026-11-19T03:00:05Z", "2026-11-19T09:00:00Z", "2026-11-22T03:00:05Z"],
                vec![2],
            ),
            (
                None,
                &["2026-11-17T03:00:05Z", "2026-11-18T03:00:05Z", "2026-11-20T03:00:05Z", "2026-11-22T03:00:05Z"],
                vec![1, 1],
            ),
            // Nothing before them fits: the schedule may have been another one.
            (None, &["2026-11-18T03:00:05Z", "2026-11-20T03:00:05Z", "2026-11-22T03:00:05Z"], vec![]),
            (None, &["2026-11-19T03:00:05Z", "2026-11-19T09:00:00Z", "2026-11-22T03:00:05Z"], vec![]),
            // Thinned out.
            (Some(3), &["2026-11-01T03:00:05Z", "2026-11-20T03:00:05Z", "2026-11-21T03:00:05Z"], vec![]),
            // A clock that was set back.
            (None, &["2026-11-21T03:00:05Z", "2026-11-20T03:00:05Z"], vec![]),
        ] {
            let moments: Vec<Moment> = moments.iter().map(|text| at(text)).collect();
            let gaps = missed(&daily, &retention(days), &moments, now);
            assert_eq!(gaps.iter().map(|gap| gap.missing).collect::<Vec<_>>(), expected, "{moments:?}");
            assert_eq!(of_gaps("a", &gaps).len(), expected.len());
        }
    }

    #[test]
    fn a_schedule_that_was_changed_makes_no_gaps() {
        let now = at("2026-11-22T12:00:00Z");
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
            let gaps = missed(&schedule, &retention(None), &moments(hours), now);
            assert_eq!(gaps.iter().map(|gap| gap.missing).collect::<Vec<_>>(), expected, "{hours:?}");
        }
    }

    #[test]
    fn new_holes_are_told() {
        let now = at("2026-11-22T12:00:00Z");
        let of_restore = |days: u64, restored| {
            let to = Point { position: "9".into(), moment: now.before(Duration::from_secs(days * 86_400)) };
            Hole { from: None, to, reason: "the WAL was replaced".into(), restored }
        };
        let hole = |days| of_restore(days, false);
        for (holes, expected) in [
            (vec![], 0),
            (vec![hole(29)], 1),
            (vec![hole(30)], 0),
            (vec![hole(4), hole(3), hole(2), hole(1)], SHOWN),
            // Its user expects it.
            (vec![of_restore(1, true)], 0),
            (vec![of_restore(2, true), hole(1)], 1),
        ] {
            let found = of_holes("app", &holes, now);
            assert_eq!(found.len(), expected, "{found:?}");
            assert!(found.iter().all(|finding| finding.verdict == Warning));
            assert_eq!(
                found.iter().filter(|finding| finding.meaning.contains("earlier than that: 1 hole")).count(),
                usize::from(holes.len() > SHOWN)
            );
        }
    }

    #[test]
    fn objects_that_no_restore_can_use_are_told_together() {
        assert_eq!(of_unusable("app", &[]), None);
        let objects = [5, 6].map(|number| PlannedObject { key: format!("ltx/0/{number}.ltx"), bytes: 512 });
        let found = of_unusable("app", &objects).expect("a finding");
        assert_eq!((found.check, found.verdict, &*found.object), ("orphans", Warning, "app: ltx/0/5.ltx"));
        assert!(found.meaning.contains("2 objects (1.0 KiB)"), "{found:?}");
    }

    #[test]
    fn a_backup_that_is_being_made_is_no_orphan() {
        let now = at("2026-11-22T12:00:00Z");
        let id = seawall_archive::SetId::new(now, 1);
        for (has_index, is_passed, seconds, expected) in [
            (true, false, 3600, false),
            (true, false, 3601, true),
            (true, true, 1, true),
            (false, true, 3601, false),
            (false, true, 8 * 86_400, false),
            (false, false, 8 * 86_400 + 1, true),
        ] {
            let written = now.before(Duration::from_secs(seconds));
            let set = Unlinked { id, bytes: 1, has_index, written, is_passed };
            assert_eq!(of_unlinked("shop", &set, now).is_some(), expected, "{set:?}");
        }
    }
}
