//! The running process: one future per database, until all are asked to stop.
//!
//! One database's failure never stops another. A first signal asks for a graceful stop, in which every engine
//! ships what is committed within the shutdown timeout; the second, or the end of that time, drops whatever is
//! left, which leaves what a crash would leave and is always safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_core::{Engine, Failure, Kind, Point, Shutdown};
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

/// Which engines have come to their end, for whoever waits for something from them.
#[derive(Debug, Clone)]
pub(crate) struct Ended(Arc<[AtomicBool]>);

impl Ended {
    /// None of `count` engines.
    pub(crate) fn none_of(count: usize) -> Self {
        Self((0..count).map(|_| AtomicBool::new(false)).collect())
    }

    /// Whether an engine has.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|ended| ended.load(Ordering::Relaxed))
    }

    fn set(&self, index: usize) {
        if let Some(ended) = self.0.get(index) {
            ended.store(true, Ordering::Relaxed);
        }
    }
}

/// Protects every database until `shutdown`, and at most `bound` after it was asked for.
///
/// Returns how each fared, in the order of `engines`. Returns early when every one of them has given up.
pub(crate) async fn run(
    engines: &[Arc<dyn Engine>],
    shutdown: &Shutdown,
    bound: Duration,
    ended: &Ended,
) -> Vec<Outcome<()>> {
    let jobs = engines.iter().enumerate().map(|(index, engine)| {
        let (engine, shutdown, ended) = (Arc::clone(engine), shutdown.clone(), ended.clone());
        async move {
            let result = engine.run(&shutdown).await;
            ended.set(index);
            if let Err(failure) = &result {
                log_failure(&engine.describe().name, failure);
            }
            result
        }
    });
    collect(engines, jobs, shutdown, bound).await
}

/// Takes one point of every database, a few at a time. A stop at once ends the rest.
pub(crate) async fn take_points(
    engines: &[Arc<dyn Engine>],
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
            engine.take_point(&shutdown).await
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
            Some(Err(error)) => (error.id(), Err(defect(&error.to_string()))),
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

fn timed_out(name: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "agent.shutdown-timeout",
        name,
        "not everything was shipped within the shutdown timeout",
        "start it again and it goes on where it stopped; raise shutdown-timeout if the vault is slow",
    )
}

fn defect(what: &str) -> Failure {
    Failure::new(
        Kind::Internal,
        "agent.defect",
        "seawall",
        format!("a database's task ended unexpectedly: {what}"),
        "please report this with the log; the other databases go on",
    )
}

#[cfg(test)]
mod tests {
    use super::{run as run_all, *};
    use crate::testing::{Act, Stub};

    fn engines(acts: &[Act]) -> Vec<Arc<dyn Engine>> {
        let stub = |(index, act): (usize, &Act)| Arc::new(Stub::new(&format!("db{index}"), *act)) as Arc<dyn Engine>;
        acts.iter().enumerate().map(stub).collect()
    }

    async fn run(engines: &[Arc<dyn Engine>], shutdown: &Shutdown, bound: Duration) -> Vec<Outcome<()>> {
        run_all(engines, shutdown, bound, &Ended::none_of(engines.len())).await
    }

    fn codes<T>(outcomes: &[Outcome<T>]) -> Vec<&'static str> {
        outcomes.iter().map(|outcome| outcome.result.as_ref().err().map_or("ok", |failure| failure.code)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_failure_stops_nobody_else() {
        let shutdown = Shutdown::new();
        let engines = engines(&[Act::Work, Act::Fail, Act::Panic, Act::Work]);
        let run = run(&engines, &shutdown, Duration::from_secs(5));
        tokio::pin!(run);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut run).await.is_err(), "the others ended as well");
        shutdown.begin();
        assert_eq!(codes(&run.await), ["ok", "stub.failed", "agent.defect", "ok"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_graceful_stop_is_bounded() {
        let shutdown = Shutdown::new();
        let engines = engines(&[Act::Work, Act::Stubborn]);
        shutdown.begin();
        let began = tokio::time::Instant::now();
        let outcomes = run(&engines, &shutdown, Duration::from_secs(5)).await;
        assert_eq!(codes(&outcomes), ["ok", "agent.shutdown-timeout"]);
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_signal_ends_at_once() {
        let shutdown = Shutdown::new();
        let engines = engines(&[Act::Stubborn]);
        let run = run(&engines, &shutdown, Duration::from_secs(5));
        shutdown.begin();
        shutdown.abort();
        assert_eq!(codes(&run.await), ["agent.interrupted"]);
    }

    #[tokio::test(start_paused = true)]
    async fn all_given_up_ends_the_run() {
        let outcomes = run(&engines(&[Act::Fail, Act::Fail]), &Shutdown::new(), Duration::from_secs(5)).await;
        assert_eq!(codes(&outcomes), ["stub.failed", "stub.failed"]);
    }

    #[tokio::test(start_paused = true)]
    async fn points_of_all() {
        let acts = [Act::Work, Act::Fail, Act::Work, Act::Work, Act::Work, Act::Work];
        let outcomes = take_points(&engines(&acts), &Shutdown::new(), Duration::from_secs(5)).await;
        assert_eq!(codes(&outcomes), ["ok", "stub.failed", "ok", "ok", "ok", "ok"]);
    }
}
