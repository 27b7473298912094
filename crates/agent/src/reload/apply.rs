//! Carries a new configuration out. A failure here is reported, and affects only its own database or setting.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use seawall_core::Failure;

use super::changes::Held;
use super::settings::in_force;
use super::{NotReloaded, Plan, Reloaded, Running};
use crate::control::Actions;
use crate::fleet::{self, Coming, Fleet};
use crate::process::logging;

/// How many databases are stopped and started again at the same time.
const AT_ONCE: usize = 16;

/// How many new databases are opened at the same time. The fleet bounds how many are restored.
const NEW_AT_ONCE: usize = 4;

/// Lets the process follow `plan`. Registrations wait only until every new database has its name and place.
pub(super) async fn apply(
    plan: Plan,
    actions: &Arc<Actions>,
    running: &mut Running,
    registrations: tokio::sync::MutexGuard<'_, ()>,
) -> Reloaded {
    let Plan { job, warnings, held, changes, settings, read_at } = plan;
    let fleet = actions.fleet();
    let within = running.job.bound;
    let mut untouched = changes.is_empty() && settings.now.is_empty();
    // A configuration may exchange every database for another.
    let _stay = fleet.hold();
    let mut failed = Vec::new();
    running.followers.keep(&job.directories).await;

    let (alone, together) = changes.split(&held);
    let leaving = changes.removed.iter().chain(together.iter().map(|one| &one.config));
    let gone = join_all(leaving.map(|config| async move {
        let source = config.source();
        (source.to_string(), fleet.remove(&source, within).await)
    }));
    for (source, ended) in gone.await {
        match ended {
            Err(failure) if failure.code != fleet::UNKNOWN => failed.push(NotReloaded::new(source, failure)),
            _ => {}
        }
    }
    for one in &together {
        tracing::warn!(
            database = one.config.name,
            vault = one.config.place(),
            "it gets the name or the place of another database: its protection there begins with a new base"
        );
    }
    for config in &changes.removed {
        tracing::info!(database = config.name, "the configuration doesn't name it any more: no longer protected");
    }
    let mut settings = settings;
    for one in &changes.same {
        fleet.name_origin(&one.config.source(), one.origin);
        for key in fleet.adjust(&one.config) {
            untouched = false;
            if !settings.now.contains(&key) {
                settings.now.push(key);
            }
        }
    }
    actions.proofs().look_again();
    let mut added: Vec<String> = changes.added.iter().map(|one| one.config.name.clone()).collect();
    let (mut coming, mut later) = (Vec::new(), Vec::new());
    for one in together.into_iter().chain(changes.added) {
        let name = one.config.name.clone();
        match fleet.expect(one.config.clone(), one.origin) {
            Ok(new) => coming.push((name, new)),
            // A database that is exchanged below may still have the name or the place.
            Err(failure) if failure.code == fleet::DUPLICATE => later.push(one),
            Err(failure) => failed.push(NotReloaded::new(name, failure)),
        }
    }
    let job = in_force(&running.job, job);
    fleet.live(job.bound, job.is_lasting());
    logging::set_level(job.log.0);
    actions.set_registering(job.registering.clone());
    let refused = running.offered.change(&job.services, actions, &running.shutdown).await;
    failed.extend(refused.into_iter().map(|(key, failure)| NotReloaded::new(key.to_owned(), failure)));
    running.job = job;
    drop(registrations);

    let Running { followers, job, .. } = running;
    let rest = async {
        // First the databases that get a name or a place from another database, because a folder could take it.
        let mut refused = exchange(fleet, alone, within).await;
        let mut coming = Vec::new();
        for Held { config, origin } in later {
            let name = config.name.clone();
            match fleet.expect(config, origin) {
                Ok(new) => coming.push((name, new)),
                Err(failure) => refused.push(NotReloaded::new(name, failure)),
            }
        }
        let (unprotected, found) = tokio::join!(arrive(coming), followers.enter(&job.directories));
        refused.extend(unprotected);
        (refused, found)
    };
    let (unprotected, (refused, found)) = tokio::join!(arrive(coming), rest);
    failed.extend(refused.into_iter().chain(unprotected));
    for (name, result) in found {
        let hangs = result.as_ref().is_err_and(|failure| failure.code == fleet::HANGS);
        failed.extend(result.err().map(|failure| NotReloaded::new(name.clone(), failure)));
        if !hangs {
            added.push(name);
            untouched = false;
        }
    }

    let names = |all: &[Held]| all.iter().map(|one| one.config.name.clone()).collect();
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    Reloaded {
        status: if untouched { "unchanged" } else { "reloaded" }.to_owned(),
        file: running.job.configuration.as_ref().map(|file| file.display().to_string()).unwrap_or_default(),
        loaded_at: read_at,
        added,
        changed: names(&changes.changed),
        removed: changes.removed.iter().map(|config| config.name.clone()).collect(),
        same: changes.same.len(),
        settings: texts(&settings.now),
        needs_restart: texts(&settings.restart),
        failed,
        warnings,
    }
}

/// Opens, restores and starts new databases. A long restore holds up no other database.
async fn arrive(coming: Vec<(String, Coming)>) -> Vec<NotReloaded> {
    let opened = stream::iter(coming).map(|(name, new)| async move {
        let member = new.open().await;
        (name, new, member)
    });
    let arrived = opened.buffer_unordered(NEW_AT_ONCE).map(|(name, new, member)| async move {
        let done: Result<(), Failure> = new.finish(member).await;
        done.err().map(|failure| NotReloaded::new(name, failure))
    });
    arrived.buffer_unordered(usize::MAX).filter_map(std::future::ready).collect().await
}

/// Stops each database and starts it with its new settings.
async fn exchange(fleet: &Fleet, changed: Vec<Held>, within: std::time::Duration) -> Vec<NotReloaded> {
    let each = stream::iter(changed).map(|Held { config, origin }| async move {
        let name = config.name.clone();
        let done: Result<(), Failure> = fleet.exchange(config, origin, within).await;
        done.err().map(|failure| NotReloaded::new(name, failure))
    });
    each.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
}
