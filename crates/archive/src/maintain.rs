//! Carries out retention: a link of the chain retires sets, and a grace period later their objects are deleted. Only
//! objects with exactly Seawall's names, of sets that the chain has retired, are ever deleted. If the chain has an
//! alarm, nothing is deleted. Sets of links that no key at hand opens stay.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::TryStreamExt as _;
use seawall_core::{Maintained, Moment, PlannedObject, RemovedObject};
use seawall_vault::{ObjectKey, Prefix, Vault};

use crate::chain::{Record, Retired, Retirement};
use crate::layout::{self, Name};
use crate::pins::pins;
use crate::retention::{Candidate, RetentionPolicy, removals};
use crate::{Catalog, Error, Manifest, SetId};

/// Keys that are deleted with one call.
const AT_ONCE: usize = 1000;

/// After this time, chunks that have neither an index nor a link belong to an interrupted backup: no backup holds a
/// snapshot for so long.
const LEFT_OVER: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long to wait where what is due by this host's clock isn't due by the store's.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// What maintenance did, and when more is due.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaintenancePass {
    /// What was retired and deleted.
    pub done: Maintained,
    /// When the next retired objects may be deleted.
    pub next: Option<Moment>,
    /// How many links no key at hand opens. Their sets were left alone.
    pub sealed: usize,
    /// The store's refusal, if the credentials may not delete. What was to be deleted stays.
    pub denied: Option<seawall_vault::Error>,
}

impl MaintenancePass {
    /// The same, with the next pass behind `now`, the present of this host. Retention counts ages up to the newest object of the
    /// vault. So while nothing is written, a pass doesn't do what is due by this host's clock, and the next one mustn't follow it
    /// without a pause.
    #[must_use]
    pub fn later_than(self, now: Moment) -> Self {
        let next = self.next.map(|next| if next > now { next } else { now.after(LOOK_AGAIN) });
        Self { next, ..self }
    }
}

/// The objects of one set, as they are listed.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Size of the index, if it is there.
    pub(crate) index: Option<u64>,
    chunks: u64,
    pub(crate) bytes: u64,
    /// When the store last wrote one of the objects.
    pub(crate) written: Moment,
}

impl Listed {
    /// Whether every object that the manifest names exists. Chunks of an abandoned attempt may exist too.
    fn has(&self, manifest: &Manifest) -> bool {
        let totals = manifest.totals;
        self.index == Some(manifest.index.bytes) && self.chunks >= totals.chunks && self.bytes >= totals.stored
    }
}

/// Retires the sets that the policy doesn't keep, and deletes the sets that were retired a grace period ago. With
/// `dry_run` it only reports them.
pub async fn maintain(
    vault: &Vault,
    policy: &RetentionPolicy,
    now: Moment,
    nonce: u64,
    dry_run: bool,
) -> Result<MaintenancePass, Error> {
    let mut catalog = Catalog::read(vault).await?;
    if let Some(finding) = catalog.findings().first() {
        return Err(Error::Alarm {
            object: vault.object(&ObjectKey::new(finding.object.clone())?),
            cause: format!("{}: {}", finding.code, finding.cause),
        });
    }
    let here = now;
    let now = catalog.newest_written().map_or(now, |written| now.min(written));
    let listed = list(vault).await?;
    let done = Maintained { dry_run, ..Maintained::default() };
    let mut upkeep = MaintenancePass { done, next: None, sealed: catalog.sealed(), denied: None };
    if policy.enabled {
        let lock = vault.protection().await?.span();
        let deleted = async {
            delete_retired(vault, &catalog, &listed, policy, now, lock, &mut upkeep).await?;
            delete_left_over(vault, &catalog, &listed, now, lock, &mut upkeep).await
        };
        let deleted: Result<(), Error> = deleted.await;
        match deleted {
            Err(Error::Vault(cause @ seawall_vault::Error::Denied { .. })) => {
                // The last one was noted before it was tried.
                upkeep.done.removed.pop();
                upkeep.denied = Some(cause);
            }
            done => done?,
        }
    }

    let retired = due(&catalog, &listed, &pins(vault).await?, policy, now);
    for set in &retired {
        let bytes = listed.get(&set.id).map_or(0, |listed| listed.bytes);
        let object = PlannedObject { key: format!("sets/{}/", set.id), bytes };
        let reason = "older than what is kept; deleted when the grace is over";
        upkeep.done.retired.push(RemovedObject { object, reason });
    }
    if retired.is_empty() || dry_run {
        return Ok(upkeep.later_than(here));
    }
    catalog.add(Record::Retirement(Retirement { at: now, nonce, retired })).await?;
    let over = now.after(policy.grace);
    upkeep.next = Some(upkeep.next.map_or(over, |next| next.min(over)));
    Ok(upkeep.later_than(here))
}

/// The sets that the policy doesn't keep. A set whose clock was wrong has two moments, its own and a corrected one, and goes only if the
/// policy keeps it by neither.
fn due(
    catalog: &Catalog,
    listed: &BTreeMap<SetId, Listed>,
    pins: &[SetId],
    policy: &RetentionPolicy,
    now: Moment,
) -> Vec<Retired> {
    let sets = catalog.sets();
    let gone_by = |moment: &dyn Fn(&Manifest) -> Moment| -> BTreeSet<SetId> {
        let candidate = |manifest: &Manifest| Candidate {
            id: manifest.id,
            point: moment(manifest),
            whole: listed.get(&manifest.id).is_some_and(|listed| listed.has(manifest)),
        };
        let mut all: Vec<Candidate> = sets.iter().map(|(_, manifest)| candidate(manifest)).collect();
        all.sort_by_key(|set| (set.point, set.id));
        removals(&all, pins, policy, now).into_iter().collect()
    };
    let (corrected, told) = (gone_by(&|manifest| manifest.point), gone_by(&|manifest| catalog.told(manifest)));
    sets.iter()
        .filter(|(_, manifest)| corrected.contains(&manifest.id) && told.contains(&manifest.id))
        .map(|(found, manifest)| Retired {
            number: found.link.number,
            id: manifest.id,
            blake3: found.blake3,
            rule: policy.rule(),
        })
        .collect()
}

/// Deletes the objects of sets that were retired a grace period ago: chunks and index first, the link last. So the next
/// call finds what an interrupted call left.
async fn delete_retired(
    vault: &Vault,
    catalog: &Catalog,
    listed: &BTreeMap<SetId, Listed>,
    policy: &RetentionPolicy,
    now: Moment,
    lock: Duration,
    upkeep: &mut MaintenancePass,
) -> Result<(), Error> {
    let all: Vec<(Moment, Retired)> = catalog.retired().map(|(at, retired)| (at, retired.clone())).collect();
    for (at, retired) in all {
        // A link of this number with another digest isn't the retired link.
        let has_link = catalog.has_link(retired.number, &retired.blake3);
        let objects = listed.get(&retired.id);
        if !has_link && objects.is_none() {
            continue;
        }
        let written = objects.map_or(at, |objects| objects.written);
        let mut over = deleted_from(at, written, lock, policy.grace);
        if over <= now {
            // Locks may last longer than the bucket's own setting says: they were renewed, or set by hand.
            let kept = vault.locked_until(&[layout::link(retired.number)?, layout::index(retired.id)?], now).await?;
            over = kept.into_iter().flatten().fold(over, Moment::max);
        }
        if over > now {
            upkeep.next = Some(upkeep.next.map_or(over, |next| next.min(over)));
            continue;
        }
        delete_set(vault, retired.id, objects, "retired, and the grace is over", &mut upkeep.done).await?;
        if has_link {
            let key = layout::link(retired.number)?;
            let object = PlannedObject { key: key.as_str().to_owned(), bytes: 0 };
            upkeep.done.removed.push(RemovedObject { object, reason: "retired, and the grace is over" });
            if !upkeep.done.dry_run {
                vault.delete(&[key]).await?;
            }
        }
    }
    Ok(())
}

/// From when on a set or a base may be deleted that was retired at `at`, and whose last object was written at `written`: a grace
/// after the retirement, and not while the store keeps its objects locked.
pub fn deleted_from(at: Moment, written: Moment, lock: Duration, grace: Duration) -> Moment {
    let unlocked = if lock.is_zero() { at } else { written.after(lock) };
    at.max(unlocked).after(grace)
}

/// Deletes chunks that an interrupted backup left long ago. A set with an index stays, because only its link may have
/// been lost.
async fn delete_left_over(
    vault: &Vault,
    catalog: &Catalog,
    listed: &BTreeMap<SetId, Listed>,
    now: Moment,
    lock: Duration,
    upkeep: &mut MaintenancePass,
) -> Result<(), Error> {
    let known: BTreeSet<SetId> = catalog.known().collect();
    for (id, objects) in listed {
        // A link that can't be opened may be this set's.
        let may_be_known = catalog.sealed_until().is_some_and(|until| id.moment() <= until);
        if known.contains(id) || may_be_known || objects.index.is_some() {
            continue;
        }
        if objects.written.max(id.moment()).after(LEFT_OVER.max(lock)) < now {
            delete_set(vault, *id, Some(objects), "left by a backup that was interrupted", &mut upkeep.done).await?;
        }
    }
    Ok(())
}

/// Deletes the chunks and the index of a set.
async fn delete_set(
    vault: &Vault,
    id: SetId,
    objects: Option<&Listed>,
    reason: &'static str,
    done: &mut Maintained,
) -> Result<(), Error> {
    let Some(objects) = objects else { return Ok(()) };
    let object = PlannedObject { key: format!("sets/{id}/"), bytes: objects.bytes };
    done.removed.push(RemovedObject { object, reason });
    if done.dry_run {
        return Ok(());
    }
    let prefix = Prefix::new(format!("sets/{id}/"))?;
    let mut entries = Box::pin(vault.entries(&prefix, None));
    let mut some = Vec::with_capacity(AT_ONCE);
    while let Some(entry) = entries.try_next().await? {
        if matches!(Name::parse(&entry.key), Some(Name::Index(its) | Name::Chunk(its, _)) if its == id) {
            some.push(entry.key);
        }
        if some.len() == AT_ONCE {
            vault.delete(&some).await?;
            some.clear();
        }
    }
    Ok(vault.delete(&some).await?)
}

/// Objects with Seawall's names below `sets/`, by set.
pub(crate) async fn list(vault: &Vault) -> Result<BTreeMap<SetId, Listed>, Error> {
    let mut sets: BTreeMap<SetId, Listed> = BTreeMap::new();
    let mut entries = Box::pin(vault.entries(&layout::sets()?, None));
    while let Some(entry) = entries.try_next().await? {
        let (id, is_index) = match Name::parse(&entry.key) {
            Some(Name::Index(id)) => (id, true),
            Some(Name::Chunk(id, _)) => (id, false),
            _ => continue,
        };
        let listed = sets.entry(id).or_default();
        listed.written = listed.written.max(entry.written);
        if is_index {
            listed.index = Some(entry.size);
        } else {
            listed.chunks += 1;
            listed.bytes += entry.size;
        }
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_set_stays() {
        let at = |seconds: i64| Moment::from_millis(seconds * 1000);
        for (retired, written, lock, grace, expected) in
            [(100, 50, 0, 10, 110), (100, 900, 0, 10, 110), (100, 50, 20, 10, 110), (100, 50, 500, 10, 560)]
        {
            let (lock, grace) = (Duration::from_secs(lock), Duration::from_secs(grace));
            assert_eq!(deleted_from(at(retired), at(written), lock, grace), at(expected));
        }
    }
}
