//! One run of the whole process: restore what is missing, then protect everything, or take one point of each, with
//! the application as a child where one is given.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Engine, Failure, IntegrityCheck, Kind, NoProgress, Point, RestoreRequest, Shutdown, When};
use tokio::sync::watch;

use crate::child::{self, ExecCommand};
use crate::process::{self, Ended, Outcome};
use crate::signals::Stop;

/// A database that takes part.
#[derive(Clone)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its engine, or why there is none. One that can't be opened stops nobody else.
    pub engine: Result<Arc<dyn Engine>, Failure>,
    /// The file to restore first when it is missing; `None` leaves a missing file alone.
    pub restore: Option<PathBuf>,
}

/// What to do with the members.
#[derive(Debug, Clone)]
pub struct Job {
    /// Take one point of each and end, instead of going on until a stop.
    pub once: bool,
    /// The program to run under protection.
    pub exec: Option<ExecCommand>,
    /// How long a graceful stop may take.
    pub bound: Duration,
}

/// How a run ended.
#[derive(Debug)]
pub struct Summary {
    /// Each member with the last point that is durable, in the order they were given.
    pub outcomes: Vec<Outcome<Option<Point>>>,
    /// The program's exit code, or why it could not run. `None` where there was none, or it was never started.
    pub child: Option<Result<u8, Failure>>,
}

/// Does the job until it is done or `shutdown`. `first` tells of the first signal, which a child gets to see before
/// the databases stop.
pub async fn protect(
    mut members: Vec<Member>,
    job: &Job,
    shutdown: &Shutdown,
    mut first: watch::Receiver<Option<Stop>>,
) -> Summary {
    // Where there is nothing to restore a signal that came already doesn't count here: what is committed is shipped.
    let restored = tokio::select! {
        biased;
        () = restore_missing(&mut members) => true,
        () = stopped(&mut first, shutdown) => false,
    };
    if !restored {
        return Summary { outcomes: members.into_iter().map(interrupted).collect(), child: None };
    }
    let lost = members.iter().filter(|member| member.restore.as_ref().is_some_and(|file| !exists(file)));
    let unrestored = lost.filter_map(|member| member.engine.as_ref().err()).next();
    if let (Some(_), Some(failure)) = (&job.exec, unrestored) {
        // The application would make a new database in place of the one that could not be restored.
        tracing::error!(code = failure.code, object = failure.object, "the program is not started");
        let outcomes = members.into_iter().map(not_started).collect();
        return Summary { outcomes, child: None };
    }
    let engines: Vec<_> = members.iter().filter_map(|member| member.engine.as_ref().ok().map(Arc::clone)).collect();
    let (results, child) = if job.once {
        let points = process::take_points(&engines, shutdown, job.bound).await;
        (points.into_iter().map(|outcome| outcome.result.map(Some)).collect(), None)
    } else {
        run(&engines, job, shutdown, first).await
    };
    Summary { outcomes: merge(members, results), child }
}

type Results = Vec<Result<Option<Point>, Failure>>;

async fn run(
    engines: &[Arc<dyn Engine>],
    job: &Job,
    shutdown: &Shutdown,
    mut first: watch::Receiver<Option<Stop>>,
) -> (Results, Option<Result<u8, Failure>>) {
    let ended = Ended::none_of(engines.len());
    let child = async {
        let command = job.exec.as_ref()?;
        tokio::select! {
            biased;
            () = stopped(&mut first, shutdown) => {
                shutdown.begin();
                return None;
            }
            () = child::settled(engines, &ended, shutdown) => {}
        }
        let code = child::run(command, shutdown, first, job.bound).await;
        shutdown.begin();
        Some(code)
    };
    let (outcomes, child) = tokio::join!(process::run(engines, shutdown, job.bound, &ended), child);
    let mut results = Results::with_capacity(outcomes.len());
    for (outcome, engine) in outcomes.into_iter().zip(engines) {
        results.push(match outcome.result {
            Ok(()) => Ok(engine.status().await.ok().and_then(|status| status.protected)),
            Err(failure) => Err(failure),
        });
    }
    (results, child)
}

/// Restores every member whose file is missing and whose vault has something. A vault without anything is a new
/// start; any other failure takes the member out, because a fresh database would contradict what the vault holds.
async fn restore_missing(members: &mut [Member]) {
    for member in members {
        let (Ok(engine), Some(output)) = (&member.engine, &member.restore) else { continue };
        if exists(output) {
            continue;
        }
        let request = RestoreRequest {
            output: output.clone(),
            when: When::Latest,
            force: false,
            dry_run: false,
            integrity: IntegrityCheck::None,
        };
        match engine.restore(&request, Arc::new(NoProgress)).await {
            Ok(restored) => tracing::info!(
                database = member.name,
                point = restored.point.position,
                bytes = restored.bytes,
                "restored the missing database"
            ),
            Err(failure) if failure.kind == Kind::NotFound => {
                tracing::info!(database = member.name, "the vault holds nothing to restore; this is a new start");
            }
            Err(failure) => {
                process::log_failure(&member.name, &failure);
                member.engine = Err(failure);
            }
        }
    }
}

fn exists(file: &Path) -> bool {
    std::fs::symlink_metadata(file).is_ok()
}

/// Returns at the first signal, or when a stop is asked for otherwise.
async fn stopped(first: &mut watch::Receiver<Option<Stop>>, shutdown: &Shutdown) {
    tokio::select! {
        () = shutdown.graceful() => {}
        Ok(_) = first.wait_for(Option::is_some) => {}
    }
}

/// Puts the results of the members that took part in between the failures of those that didn't.
fn merge(members: Vec<Member>, results: Results) -> Vec<Outcome<Option<Point>>> {
    let mut results = results.into_iter();
    let outcome = |member: Member| {
        let result = member.engine.and_then(|_| results.next().unwrap_or(Ok(None)));
        Outcome { name: member.name, result }
    };
    members.into_iter().map(outcome).collect()
}

fn interrupted(member: Member) -> Outcome<Option<Point>> {
    let failure = process::interrupted(&member.name);
    Outcome { name: member.name, result: member.engine.and(Err(failure)) }
}

fn not_started(member: Member) -> Outcome<Option<Point>> {
    let failure = Failure::new(
        Kind::Unavailable,
        "agent.not-started",
        &member.name,
        "not protected, because the program was not started",
        "cure what keeps the other database from being restored, then start again",
    );
    Outcome { name: member.name, result: member.engine.and(Err(failure)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Act, Stub};

    fn member(name: &str, act: Act) -> Member {
        Member { name: name.into(), engine: Ok(Arc::new(Stub::new(name, act))), restore: None }
    }

    fn missing(name: &str, act: Act) -> Member {
        Member { restore: Some("/nowhere/at/all.db".into()), ..member(name, act) }
    }

    fn unopened(name: &str) -> Member {
        let failure = Failure::new(Kind::Denied, "stub.unopened", name, "it was told to", "nothing");
        Member { name: name.into(), engine: Err(failure), restore: None }
    }

    fn job(once: bool, exec: Option<&str>) -> Job {
        let exec = exec.map(|line| ExecCommand::parse(line).expect("a command"));
        Job { once, exec, bound: Duration::from_secs(5) }
    }

    async fn protected(members: Vec<Member>, job: &Job, signal: Option<Stop>) -> (Vec<String>, Option<u8>) {
        let shutdown = Shutdown::new();
        let first = watch::Sender::new(signal);
        let summary = protect(members, job, &shutdown, first.subscribe()).await;
        let told = |outcome: Outcome<Option<Point>>| match outcome.result {
            Ok(point) => point.map_or("none".into(), |point| point.position),
            Err(failure) => failure.code.to_owned(),
        };
        (summary.outcomes.into_iter().map(told).collect(), summary.child.and_then(Result::ok))
    }

    const POINT: &str = "0000000000000001";

    #[tokio::test]
    async fn once_takes_a_point_of_each() {
        let members = vec![member("a", Act::Work), unopened("b"), member("c", Act::Fail), missing("d", Act::Work)];
        let (told, child) = protected(members, &job(true, None), None).await;
        assert_eq!(told, [POINT, "stub.unopened", "stub.failed", POINT]);
        assert_eq!(child, None);
    }

    #[tokio::test]
    async fn the_childs_end_ends_all() {
        let members = vec![member("a", Act::Work), member("b", Act::Fail), unopened("c")];
        let (told, child) = protected(members, &job(false, Some("sh -c 'exit 5'")), None).await;
        assert_eq!(told, [POINT, "stub.failed", "stub.unopened"]);
        assert_eq!(child, Some(5));
    }

    #[tokio::test]
    async fn no_child_beside_a_database_that_could_not_be_restored() {
        let members = vec![member("a", Act::Work), missing("b", Act::Fail)];
        let (told, child) = protected(members, &job(false, Some("true")), None).await;
        assert_eq!(told, ["agent.not-started", "stub.failed"]);
        assert_eq!(child, None);
    }

    #[tokio::test]
    async fn a_signal_before_the_child_starts() {
        let (told, child) =
            protected(vec![member("a", Act::Work)], &job(false, Some("sleep 100")), Some(Stop::Terminate)).await;
        assert!(told == [POINT] || told == ["agent.interrupted"], "{told:?}");
        assert_eq!(child, None);
    }
}
