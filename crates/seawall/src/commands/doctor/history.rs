//! The checks of what can be restored: holes, backups that weren't made, and sets that no restore finds. Facts come from the vaults;
//! pure functions judge them.

use std::time::Duration;

use seawall_agent::config::{Config, DatabaseConfig, EngineConfig};
use seawall_agent::{Opener, unusable};
use seawall_archive::{Catalog, Gap, Unlinked, missed, unlinked};
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
    use seawall_core::Point;

    use super::super::finding::Verdict::Warning;
    use super::*;

    fn at(text: &str) -> Moment {
        text.parse().expect("RFC 3339")
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
