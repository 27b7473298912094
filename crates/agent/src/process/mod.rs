//! How a process with its databases ends.
//!
//! One database's failure never stops another. A first signal asks for a graceful stop, in which every engine
//! ships what is committed within the shutdown timeout; the second, or the end of that time, drops whatever is
//! left, which leaves what a crash would leave and is always safe.

pub(crate) mod child;
pub(crate) mod logging;
pub(crate) mod protect;
pub(crate) mod signals;
pub(crate) mod supervisor;

use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Engine, Failure, Kind, Point, Shutdown};
use seawall_engines::ask;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many databases take a point at the same time.
const POINTS_AT_ONCE: usize = 4;

/// How one database fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<T> {
    /// The database's name.
    pub name: String,
    /// What came of it.
    pub result: Result<T, Failure>,
}

/// What is done besides taking a point. It counts as the point does: if it fails, the database failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Also {
    /// Make a complete copy of the point.
    pub complete: bool,
    /// Merge and delete what is due.
    pub maintain: bool,
}

/// Takes one point of every database, a few at a time. A stop at once ends the rest.
pub(crate) async fn take_points(
    engines: &[Arc<dyn Engine>],
    also: Also,
    shutdown: &Shutdown,
    bound: Duration,
) -> Vec<Outcome<Point>> {
    let permits = Arc::new(Semaphore::new(POINTS_AT_ONCE));
    let jobs = engines.iter().map(|engine| {
        let (engine, shutdown, permits) = (Arc::clone(engine), shutdown.clone(), Arc::clone(&permits));
        async move {
            let _permit = permits.acquire().await;
            let name = engine.describe().name;
            if shutdown.requested() {
                return Err(interrupted(&name));
            }
            let point = ask::protection(&*engine)?.take_point(&shutdown).await?;
            if let Some(maintenance) = engine.history().maintenance() {
                if also.complete {
                    maintenance.complete().await?;
                }
                if also.maintain {
                    maintenance.maintain(false).await?;
                }
            }
            Ok(point)
        }
    });
    collect(engines, jobs, shutdown, bound).await
}

/// Runs one job per engine to its end, to a stop at once, or to the end of the time a graceful stop may take.
async fn collect<T: Send + 'static>(
    engines: &[Arc<dyn Engine>],
    jobs: impl Iterator<Item = impl Future<Output = Result<T, Failure>> + Send + 'static>,
    shutdown: &Shutdown,
    bound: Duration,
) -> Vec<Outcome<T>> {
    let names: Vec<String> = engines.iter().map(|engine| engine.describe().name).collect();
    let mut results: Vec<Option<Result<T, Failure>>> = names.iter().map(|_| None).collect();
    let mut tasks = JoinSet::new();
    let mut indices = std::collections::HashMap::new();
    for (index, job) in jobs.enumerate() {
        indices.insert(tasks.spawn(job).id(), index);
    }

    let out_of_time = async {
        shutdown.graceful().await;
        tokio::time::sleep(bound).await;
    };
    tokio::pin!(out_of_time);
    let left_over = loop {
        let joined = tokio::select! {
            biased;
            () = shutdown.immediate() => break interrupted as fn(&str) -> Failure,
            joined = tasks.join_next_with_id() => joined,
            () = &mut out_of_time => break timed_out,
        };
        let (id, result) = match joined {
            None => break interrupted,
            Some(Ok((id, result))) => (id, result),
            Some(Err(error)) => (error.id(), Err(defect("a database"))),
        };
        if let Some(slot) = indices.get(&id).and_then(|index| results.get_mut(*index)) {
            *slot = Some(result);
        }
    };
    tasks.abort_all();

    let outcome = |(name, result): (String, Option<Result<T, Failure>>)| {
        let result = result.unwrap_or_else(|| Err(left_over(&name)));
        Outcome { name, result }
    };
    names.into_iter().zip(results).map(outcome).collect()
}

pub(crate) fn log_failure(name: &str, failure: &Failure) {
    tracing::error!(
        database = name,
        code = failure.code,
        object = failure.object,
        next = failure.next,
        "protection ended: {}",
        failure.cause
    );
}

pub(crate) fn interrupted(name: &str) -> Failure {
    Failure::new(
        Kind::Interrupted,
        "agent.interrupted",
        name,
        "stopped at once, before everything was shipped",
        "start it again; it goes on where it stopped",
    )
}

pub(crate) fn timed_out(name: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "agent.shutdown-timeout",
        name,
        "not everything was shipped within the shutdown timeout",
        "start it again and it goes on where it stopped; raise shutdown-timeout if the vault is slow",
    )
}

pub(crate) fn defect(name: &str) -> Failure {
    Failure::new(
        Kind::Internal,
        "agent.defect",
        name,
        "its task ended unexpectedly",
        "please report this with the log; the other databases go on",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Act, Stub};

    #[tokio::test(start_paused = true)]
    async fn points_of_all() {
        let acts = [Act::Work, Act::Fail, Act::Work, Act::Panic, Act::Work, Act::Work];
        let stub = |(index, act): (usize, &Act)| Arc::new(Stub::new(&format!("db{index}"), *act)) as Arc<dyn Engine>;
        let engines: Vec<_> = acts.iter().enumerate().map(stub).collect();
        let outcomes = take_points(&engines, Also::default(), &Shutdown::new(), Duration::from_secs(5)).await;
        let code = |outcome: &Outcome<Point>| outcome.result.as_ref().err().map_or("ok", |failure| failure.code);
        let codes: Vec<_> = outcomes.iter().map(code).collect();
        assert_eq!(codes, ["ok", "stub.failed", "ok", "agent.defect", "ok", "ok"]);
    }
}
