//! Databases that come, go, fail and hang.

use super::*;
use crate::process::Outcome;
use crate::testing::{Stubs, database};

const BOUND: Duration = Duration::from_secs(5);

async fn fleet(names: &[&str], shutdown: &Shutdown) -> Fleet {
    let fleet = Fleet::new(Arc::new(Stubs), shutdown.clone());
    for name in names {
        let member = Member::open(&Stubs, database(name), Origin::Configured, false).await;
        fleet.admit(member).expect("taken in");
    }
    fleet.start_all();
    fleet
}

fn codes(outcomes: &[Outcome<Option<Point>>]) -> Vec<(&str, &str)> {
    let code = |outcome: &Outcome<_>| outcome.result.as_ref().err().map_or("ok", |failure: &Failure| failure.code);
    outcomes.iter().map(|outcome| (outcome.name.as_str(), code(outcome))).collect()
}

#[tokio::test(start_paused = true)]
async fn one_failure_stops_nobody_else() {
    let shutdown = Shutdown::new();
    let fleet = fleet(&["work-1", "fail", "panic", "unopened", "work-2"], &shutdown).await;
    let run = fleet.run(BOUND, false);
    tokio::pin!(run);
    assert!(tokio::time::timeout(Duration::from_secs(60), &mut run).await.is_err(), "the others ended as well");
    shutdown.begin();
    let outcomes = run.await;
    let expected = [
        ("work-1", "ok"),
        ("fail", "stub.failed"),
        ("panic", "agent.defect"),
        ("unopened", "stub.unopened"),
        ("work-2", "ok"),
    ];
    assert_eq!(codes(&outcomes), expected);
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_is_bounded() {
    let shutdown = Shutdown::new();
    let fleet = fleet(&["work", "stubborn"], &shutdown).await;
    tokio::task::yield_now().await;
    shutdown.begin();
    let began = tokio::time::Instant::now();
    let outcomes = fleet.run(BOUND, true).await;
    assert_eq!(codes(&outcomes), [("work", "ok"), ("stubborn", "agent.shutdown-timeout")]);
    assert_eq!(began.elapsed(), BOUND);
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_at_once() {
    let shutdown = Shutdown::new();
    let fleet = fleet(&["stubborn"], &shutdown).await;
    shutdown.abort();
    assert_eq!(codes(&fleet.run(BOUND, false).await), [("stubborn", "agent.interrupted")]);
}

#[tokio::test(start_paused = true)]
async fn all_given_up_ends_the_run_unless_more_may_come() {
    for lasting in [false, true] {
        let shutdown = Shutdown::new();
        let fleet = fleet(&["fail-1", "fail-2"], &shutdown).await;
        let run = tokio::time::timeout(Duration::from_secs(60), fleet.run(BOUND, lasting)).await;
        assert_eq!(run.is_err(), lasting);
        if let Ok(outcomes) = run {
            assert_eq!(codes(&outcomes), [("fail-1", "stub.failed"), ("fail-2", "stub.failed")]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn databases_come_and_go() {
    let shutdown = Shutdown::new();
    let fleet = fleet(&["work-1"], &shutdown).await;
    fleet.add(database("work-2"), Origin::Registered).await.expect("added");
    let added = fleet.find("work-2").expect("a member");
    assert!(added.running && added.origin == Origin::Registered);
    for (clashing, what) in [("path", "file"), ("name", "name"), ("vault", "place")] {
        let (mut config, other) = (database("work-3"), database("work-2"));
        match clashing {
            "path" => config.engine = other.engine,
            "name" => config.name = other.name,
            _ => config.vault = other.vault,
        }
        let failure = fleet.add(config, Origin::Registered).await.expect_err("a clash");
        assert!(failure.code == "agent.duplicate" && failure.cause.contains(what), "{failure}");
    }
    let source = database("work-2").source();
    assert_eq!(fleet.start(&source).await, Ok(false), "it runs already");
    assert_eq!(fleet.stop(&source, BOUND).await, Ok(true));
    assert_eq!(fleet.stop(&source, BOUND).await, Ok(false), "it is stopped already");
    assert!(fleet.find("work-2").is_some_and(|member| !member.running && member.failure.is_none()));
    assert_eq!(fleet.start(&source).await, Ok(true));
    let point = fleet.remove(&source, BOUND).await.expect("removed").expect("a point");
    assert_eq!(point.position, "0000000000000001");
    assert_eq!(fleet.remove(&source, BOUND).await.map_err(|failure| failure.code), Err("agent.unknown-database"));
    assert_eq!(fleet.start(&source).await.map_err(|failure| failure.code), Err("agent.unknown-database"));
    shutdown.begin();
    assert_eq!(codes(&fleet.run(BOUND, true).await), [("work-1", "ok")]);
    let late = fleet.add(database("work-4"), Origin::Found).await;
    assert_eq!(late.map_err(|failure| failure.code), Err("agent.stopping"));
}

#[tokio::test(start_paused = true)]
async fn one_that_will_not_stop_is_gone_all_the_same() {
    let shutdown = Shutdown::new();
    let fleet = fleet(&["stubborn-1", "stubborn-2"], &shutdown).await;
    let stopped = fleet.stop(&database("stubborn-1").source(), BOUND).await;
    assert_eq!(stopped.map_err(|failure| failure.code), Err("agent.shutdown-timeout"));
    let removed = fleet.remove(&database("stubborn-2").source(), BOUND).await;
    assert_eq!(removed.map_err(|failure| failure.code), Err("agent.shutdown-timeout"));
    assert_eq!(fleet.len(), 1);
    assert_eq!(codes(&fleet.run(BOUND, false).await), [("stubborn-1", "agent.shutdown-timeout")]);
}

#[tokio::test(start_paused = true)]
async fn one_that_ended_is_started_again() {
    let shutdown = Shutdown::new();
    let fleet = fleet(&["fail", "unopened"], &shutdown).await;
    while fleet.find("fail").is_some_and(|member| member.running) {
        tokio::task::yield_now().await;
    }
    assert_eq!(fleet.find("fail").and_then(|member| member.failure).map(|failure| failure.code), Some("stub.failed"));
    assert_eq!(fleet.start(&database("fail").source()).await, Ok(true));
    let unopened = fleet.start(&database("unopened").source()).await;
    assert_eq!(unopened.map_err(|failure| failure.code), Err("stub.unopened"));
}

/// An engine that is opened without its file would begin a new database.
#[tokio::test]
async fn one_that_could_not_be_restored_is_not_started_without_a_restore() {
    let fleet = Fleet::new(Arc::new(Stubs), Shutdown::new());
    for name in ["fail", "slow"] {
        let mut config = database(name);
        config.restore_if_missing = true;
        let engine = Err(starting(name));
        fleet.admit(Member { config, origin: Origin::Configured, engine }).expect("taken in");
    }
    assert_eq!(fleet.start(&database("fail").source()).await.map_err(|failure| failure.code), Err("stub.failed"));
    let seen = fleet.find("fail").expect("a member");
    assert!(!seen.running && !seen.coming && seen.engine.is_none());
    assert_eq!(seen.failure.map(|failure| failure.code), Some("stub.failed"));
    // The one who asks may go away, and one that is restored can be let go.
    let slow = database("slow").source();
    let coming = || fleet.find("slow").is_some_and(|seen| seen.coming);
    let began = async {
        while !coming() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        started = fleet.start(&slow) => panic!("{started:?}"),
        () = began => {}
    }
    assert!(!coming());
    let (started, removed) = tokio::join!(fleet.start(&slow), async {
        while !coming() {
            tokio::task::yield_now().await;
        }
        assert_eq!(fleet.start(&slow).await.map_err(|failure| failure.code), Err("agent.starting"));
        fleet.remove(&slow, BOUND).await
    });
    assert_eq!((started.map_err(|failure| failure.code), removed), (Err(UNKNOWN), Ok(None)));
}

/// A reload may be dropped while it restores a database whose settings it changed.
#[tokio::test]
async fn an_exchange_that_is_dropped_leaves_the_former_database_at_rest() {
    let fleet = fleet(&["slow"], &Shutdown::new()).await;
    let mut config = database("slow");
    config.restore_if_missing = true;
    let began = async {
        while !fleet.find("slow").is_some_and(|seen| seen.coming) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        exchanged = fleet.exchange(config, Origin::Configured, BOUND) => panic!("{exchanged:?}"),
        () = began => {}
    }
    assert!(fleet.find("slow").is_some_and(|seen| !seen.running && !seen.coming));
    assert_eq!(fleet.start(&database("slow").source()).await, Ok(true));
}

/// A request that was not yet told of the stop would leave a task behind that belongs to no member.
#[tokio::test(start_paused = true)]
async fn one_that_is_started_while_it_is_removed_is_gone_with_its_task() {
    let fleet = fleet(&["work-1", "work-2"], &Shutdown::new()).await;
    let source = database("work-1").source();
    let start_again = async {
        while fleet.start(&source).await == Ok(false) {
            tokio::task::yield_now().await;
        }
    };
    // Polls the start first, each time.
    let ((), removed) = futures::future::join(start_again, fleet.remove(&source, BOUND)).await;
    assert!(removed.is_ok_and(|point| point.is_some()));
    assert_eq!((fleet.find("work-1").is_none(), fleet.entries().running), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn one_that_two_requests_stop_in_vain_counts_once() {
    let fleet = fleet(&["stubborn", "work"], &Shutdown::new()).await;
    tokio::task::yield_now().await;
    let source = database("stubborn").source();
    let stopped = tokio::join!(fleet.stop(&source, BOUND), fleet.stop(&source, BOUND));
    assert!(stopped.0.is_err() && stopped.1.is_err());
    assert_eq!(fleet.entries().running, 1);
}
