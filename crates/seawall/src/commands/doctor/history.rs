//! The checks of what can be restored: holes, backups that weren't made, and sets that no restore finds. Facts come from the vaults;
//! pure functions judge them.

use std::collections::BTreeSet;
use std::time::Duration;

use seawall_agent::config::{Config, DatabaseConfig, EngineConfig};
use seawall_agent::{Opener, Orphans, Unusable, Why, unusable};
use seawall_archive::{Catalog, Gap, Unlinked, missed, unlinked};
use seawall_core::{Failure, Hole, Moment, Timeline};

use super::finding::Finding;
use super::places::{Away, each, place};
use crate::edge::Edge;
use crate::{runtime, table};

const CHECK: &str = "timeline";

/// A database that is protected for less time needn't have been proved.
const NEW: Duration = Duration::from_secs(24 * 3600);

/// A hole that is older is known by now.
const OLD_HOLE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Holes and gaps that are told one by one.
const SHOWN: usize = 3;

/// A backup writes its index and its link within moments. A set that waits for its link for longer doesn't get one.
const LINKED_WITHIN: Duration = Duration::from_secs(3600);

/// Retention deletes what an interrupted backup left after seven days; a day later it should have.
const REMOVED_WITHIN: Duration = Duration::from_secs(8 * 24 * 3600);

/// Looks at the history of each database. Of those called `read_back` it is known that a proof or a check read them back. Places that are `away` aren't asked again.
///
/// # Errors
/// When the command is interrupted, or its keys can't be read.
pub(super) fn of_all(
    config: &Config,
    edge: &Edge,
    (now, read_back): (Moment, &BTreeSet<String>),
    away: &mut Away,
) -> Result<Vec<Finding>, Failure> {
    let opener = edge.opener(1)?;
    let look = |database| of_one(database, &opener, (now, read_back));
    let of_place = |database: &DatabaseConfig| place(&database.vault);
    // Each vault of a database has a history of its own.
    let alone: Vec<DatabaseConfig> = config.databases.iter().flat_map(DatabaseConfig::each).collect();
    let several: BTreeSet<&str> =
        config.databases.iter().filter(|one| !one.beside.is_empty()).map(|one| one.name.as_str()).collect();
    let answers = runtime::run(async { Ok(each(&alone, of_place, away, look).await) })?;
    let told = |(database, answer): (&DatabaseConfig, Result<Vec<Finding>, Failure>)| {
        let mut found = answer.unwrap_or_else(|failure| {
            let meaning = format!("its history can't be read: {} ({})", failure.cause, failure.code);
            vec![Finding::wrong(CHECK, &database.name, meaning, failure.next)]
        });
        if several.contains(database.name.as_str()) {
            found.iter_mut().for_each(|finding| finding.object = format!("{} in {}", finding.object, database.vault));
        }
        found
    };
    Ok(alone.iter().zip(answers).flat_map(told).collect())
}

async fn of_one(
    database: &DatabaseConfig,
    opener: &Opener,
    (now, read_back): (Moment, &BTreeSet<String>),
) -> Result<Vec<Finding>, Failure> {
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
        // Retention thins out what is older.
        let window = server.retention.window.filter(|_| server.retention.enabled);
        let is_complete = |moment: &Moment| window.is_none_or(|window| *moment >= now.before(window));
        let moments: Vec<Moment> =
            timeline.spans.iter().map(|span| span.to.moment).filter(|moment| is_complete(moment)).collect();
        found.extend(of_gaps(name, &missed(&server.schedule, &moments)));
        found.extend(unlinked(&vault).await?.iter().filter_map(|set| of_unlinked(name, set, now)));
    } else {
        found.extend(of_holes(name, &timeline.holes, now));
    }
    match &database.engine {
        EngineConfig::Sqlite(_) => found.extend(of_unusable(name, unusable(&vault).await?.as_ref())),
        EngineConfig::Lmdb(config) => {
            let orphans = opener.orphans_of_environment(&vault, database, config).await?;
            found.extend(orphans.iter().map(|orphans| of_orphans(name, orphans)));
        }
        EngineConfig::Server(_) | EngineConfig::Cluster(_) => {}
    }
    if found.is_empty() {
        found.push(of_whole(name, server.is_some(), &timeline));
    }
    let begun = timeline.spans.first().map(|span| span.from.moment);
    // With a schedule of proofs, its alarms say it.
    if database.prove.is_none() && !read_back.contains(name) && begun.is_some_and(|begun| now.since(begun) > NEW) {
        let proofs = opener.proofs(database).await?.proofs;
        found.extend(of_proofs(name, proofs.iter().any(|proof| !proof.inconclusive)));
    }
    Ok(found)
}

/// What to say of a database without a schedule of proofs, which may have been proved all the same.
fn of_proofs(name: &str, is_proved: bool) -> Option<Finding> {
    let meaning =
        "no restore of it was ever proved, and nothing read its vault back: that it can be restored is a hope";
    let next = format!(
        "prove it now: seawall verify --restore '{name}'; and by a schedule, in its item: prove: {{ schedule: \"H 5 * * *\" }}"
    );
    (!is_proved).then(|| Finding::warning("proof", name, meaning, next))
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

/// Objects of an LMDB environment that should not be in its vault.
fn of_orphans(name: &str, orphans: &Orphans) -> Finding {
    let Orphans { why, first, count, bytes } = orphans;
    let count = |noun: &str| table::count(usize::try_from(*count).unwrap_or(usize::MAX), noun);
    let bytes = table::bytes(*bytes);
    let (meaning, next) = match why {
        Why::Strange => (
            format!("{} ({bytes}) named like its snapshots, which no instance reads or deletes", count("object")),
            "find out what wrote it, and delete it with the store's own tool".to_owned(),
        ),
        Why::Misdated => (
            format!(
                "{} ({bytes}) of the future: the clock of their host was wrong. Lightning Stream takes them for the newest ones, and so does Seawall until their instance sends another",
                count("snapshot")
            ),
            "set the clock of that host (timedatectl set-ntp true); once its instance has sent another snapshot, delete them with the store's own tool".to_owned(),
        ),
        Why::Newer => (
            format!(
                "{} ({bytes}) have had a newer one of their instance for more than a day longer than `cleanup` keeps them, and weren't deleted",
                count("snapshot")
            ),
            format!(
                "let the process with this `cleanup` run, with credentials that may delete; look for `lmdb.may-not-delete` in its log: seawall status '{name}'"
            ),
        ),
        Why::Gone => (
            format!(
                "{} ({bytes}) of an instance that is gone for longer than `gone-after`: `cleanup` deletes it once its content is in a snapshot of this host, and didn't",
                count("last snapshot")
            ),
            format!(
                "see whether it is damaged, and whether this host merges: seawall verify '{name}'; if it is damaged, delete it with the store's own tool"
            ),
        ),
    };
    Finding::warning("orphans", format!("{name}: {first}"), meaning, next)
}

/// Objects of a SQLite database that no restore can use.
fn of_unusable(name: &str, unusable: Option<&Unusable>) -> Option<Finding> {
    let Unusable { first, count, bytes } = unusable?;
    let bytes = table::bytes(*bytes);
    let count = table::count(usize::try_from(*count).unwrap_or(usize::MAX), "object");
    let meaning = format!("no restore can use {count} ({bytes}), because objects before them are missing");
    let next = format!(
        "look for the missing objects in copies of the vault, and put them back; the objects are named by: seawall verify '{name}'"
    );
    Some(Finding::warning("orphans", format!("{name}: {first}"), meaning, next))
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
        assert_eq!(of_proofs("app", true), None);
        assert!(of_proofs("app", false).is_some_and(|one| one.verdict == Warning && one.next.contains("H 5 * * *")));
        assert_eq!(of_unusable("app", None), None);
        let unusable = Unusable { first: "ltx/0/5.ltx".into(), count: 2, bytes: 1024 };
        let found = of_unusable("app", Some(&unusable)).expect("a finding");
        assert_eq!((found.check, found.verdict, &*found.object), ("orphans", Warning, "app: ltx/0/5.ltx"));
        assert!(found.meaning.contains("2 objects (1.0 KiB)"), "{found:?}");
    }

    #[test]
    fn each_kind_of_orphan_of_an_environment_has_its_own_next_step() {
        let mut told: Vec<(String, String)> = Vec::new();
        for why in [Why::Strange, Why::Misdated, Why::Newer, Why::Gone] {
            let found = of_orphans("dns", &Orphans { why, first: "dns__a".into(), count: 3, bytes: 2048 });
            assert_eq!((found.check, found.verdict, &*found.object), ("orphans", Warning, "dns: dns__a"));
            assert!(found.meaning.contains('3') && found.meaning.contains("2.0 KiB"), "{found:?}");
            assert!(!told.contains(&(found.meaning.clone(), found.next.clone())));
            told.push((found.meaning, found.next));
        }
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
