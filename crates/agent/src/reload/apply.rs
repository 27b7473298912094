//! Carrying a new configuration out. What fails here is told, and fails alone.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use seawall_core::Failure;

use super::changes::Held;
use super::settings::in_force;
use super::{NotReloaded, Plan, Reloaded, Running};
use crate::control::Actions;
use crate::fleet::{self, Fleet};
use crate::logging;

/// How many databases are stopped and started again at the same time.
const AT_ONCE: usize = 16;

/// Lets the process follow `plan`.
pub(super) async fn apply(plan: Plan, actions: &Arc<Actions>, running: &mut Running) -> Reloaded {
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
    for config in &changes.removed {
        tracing::info!(database = config.name, "the configuration doesn't name it any more: no longer protected");
    }
    failed.extend(exchange(fleet, alone, within).await);
    for one in &changes.same {
        fleet.name_origin(&one.config.source(), one.origin);
    }
    let mut added: Vec<String> = changes.added.iter().map(|one| one.config.name.clone()).collect();
    for Held { config, origin } in together.into_iter().chain(changes.added) {
        let name = config.name.clone();
        failed.extend(fleet.bring(config, origin).await.err().map(|failure| NotReloaded::new(name, failure)));
    }
    for (name, result) in running.followers.enter(&job.directories).await {
        failed.extend(result.err().map(|failure| NotReloaded::new(name.clone(), failure)));
        added.push(name);
        untouched = false;
    }

    let job = in_force(&running.job, job);
    fleet.live(job.bound, job.is_lasting());
    logging::set_level(job.log.0);
    actions.set_registering(job.registering.clone());
    let refused = running.offered.change(&job.services, actions, &running.shutdown).await;
    failed.extend(refused.into_iter().map(|(key, failure)| NotReloaded::new(key.to_owned(), failure)));
    running.job = job;

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

/// Stops each database and starts it with its new settings.
async fn exchange(fleet: &Fleet, changed: Vec<Held>, within: std::time::Duration) -> Vec<NotReloaded> {
    let still = fleet.hold_still().await;
    let still = &still;
    let each = stream::iter(changed).map(|Held { config, origin }| async move {
        let name = config.name.clone();
        let done: Result<(), Failure> = fleet.exchange(still, config, origin, within).await;
        done.err().map(|failure| NotReloaded::new(name, failure))
    });
    each.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
}
