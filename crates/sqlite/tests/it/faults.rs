//! A fault at every call to the store: acknowledged commits are restored, and a restart continues.

use std::time::Duration;

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Kind, Shutdown, When};
use seawall_testing::invariants::{Seen, violations};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};

use crate::model::look;
use crate::world::{SCHEMA, Scene, content_of, insert};

/// Longer than any deadline of the vault; time is simulated.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

fn scene() -> (Scene, SimulatedStore) {
    let store = SimulatedStore::new(MemoryStore::new(), 7);
    let directory = tempfile::tempdir().expect("a folder");
    (Scene::on(directory, std::sync::Arc::new(store.clone())), store)
}

/// The work under faults, on a database that may have been protected before.
struct Work {
    prepare: fn(&Connection),
    /// Whether a point is taken before the faults.
    protected: bool,
    commit: fn(&Connection),
}

#[tokio::test(start_paused = true)]
async fn at_every_call_of_a_first_base() {
    every_call(Work { prepare: |_| {}, protected: false, commit: |app| insert(app, 5, 100) }).await;
}

#[tokio::test(start_paused = true)]
async fn at_every_call_of_a_small_capture() {
    every_call(Work { prepare: |_| {}, protected: true, commit: |app| insert(app, 5, 100) }).await;
}

/// More than is made in memory.
const STREAMED: Work = Work { prepare: |_| {}, protected: true, commit: |app| insert(app, 230, 20_000) };

#[tokio::test(start_paused = true)]
async fn at_every_call_of_a_streamed_capture_that_fails() {
    at_every_call(&STREAMED, &FAILURES).await;
}

#[tokio::test(start_paused = true)]
async fn at_every_call_of_a_streamed_capture_that_is_answered_badly() {
    at_every_call(&STREAMED, &BAD_ANSWERS).await;
}

#[tokio::test(start_paused = true)]
async fn at_every_call_of_a_streamed_capture_that_ends_the_process() {
    at_every_call(&STREAMED, &ENDS).await;
}

#[tokio::test(start_paused = true)]
async fn at_every_call_of_a_later_base() {
    let restart = |app: &Connection| {
        app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpointed");
        insert(app, 5, 100);
    };
    every_call(Work { prepare: |app| insert(app, 20, 3000), protected: true, commit: restart }).await;
}

const FAILURES: [Fault; 3] = [Fault::Error, Fault::LostAnswer, Fault::BrokenStream];
const BAD_ANSWERS: [Fault; 3] = [Fault::Duplicate, Fault::StaleList, Fault::Delay(Duration::from_secs(20))];
const ENDS: [Fault; 3] = [Fault::Hang, Fault::Crash, Fault::CrashAfter];

async fn every_call(work: Work) {
    for faults in [&FAILURES, &BAD_ANSWERS, &ENDS] {
        at_every_call(&work, faults).await;
    }
}

async fn at_every_call(work: &Work, faults: &[Fault]) {
    for fault in faults {
        let mut position = 0;
        while one_fault(work, fault.clone(), position).await {
            position += 1;
        }
        assert!(position >= 3, "only {position} calls");
    }
}

/// Runs `work` with a fault at the call of that position; answers whether there was such a call.
async fn one_fault(work: &Work, fault: Fault, position: u64) -> bool {
    let what = format!("{fault:?} at call {position}");
    let (scene, store) = scene();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    (work.prepare)(&app);
    let mut records = Vec::new();
    if work.protected {
        records.push((scene.point().await, content_of(&app)));
    }
    (work.commit)(&app);
    let first = store.call_count();
    store.fail_call(first + position, fault);
    scene.tick(1000);
    // The process may end with an error, or hang until it is killed. The next one continues.
    let shutdown = Shutdown::new();
    let attempt = tokio::time::timeout(PATIENCE, scene.engine().take_point(&shutdown)).await;
    let reached = store.call_count() > first + position;
    store.revive();
    let before = look(store.truth()).await;
    if let Ok(Ok(point)) = attempt {
        records.push((point, content_of(&app)));
    }
    let point = scene.engine().take_point(&shutdown).await.unwrap_or_else(|e| unreachable!("{what}: {e}"));
    records.push((point, content_of(&app)));
    insert(&app, 2, 100);
    records.push((scene.point().await, content_of(&app)));
    let told_holes = scene.engine().timeline().await.expect("a timeline").holes;
    for (point, record) in &records {
        let restored = scene.restore(When::Position(point.position.clone())).await;
        assert_eq!(&restored.unwrap_or_else(|e| unreachable!("{what}: {e}")), record, "{what}");
    }
    let newest = scene.restore(When::Latest).await.expect("restored");
    assert_eq!(newest, content_of(&app), "{what}");
    let restored = records.iter().rposition(|(_, record)| record == &newest).expect("a recorded state");
    let txid = |position: &str| u64::from_str_radix(position, 16).expect("a TXID");
    let violated = violations(&Seen {
        before: Some(&before),
        now: look(store.truth()).await,
        reported: records.last().map(|(point, _)| txid(&point.position)),
        states: Some((records.len() as u64 - 1, restored as u64)),
        told_holes: Some(told_holes.iter().map(|hole| txid(&hole.to.position)).collect()),
        ..Seen::default()
    });
    assert_eq!(violated, [], "{what}");
    assert_eq!(scene.verify().await.findings, [], "{what}");
    reached
}

/// Two writers that don't know of each other: the writer that loses a create-only write stops before its objects can
/// mix with the other's.
#[tokio::test]
async fn the_loser_of_a_race_stops() {
    let (scene, store) = scene();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    // The other host: a copy of the database and of the state directory at this moment.
    let other = Scene::on(tempfile::tempdir().expect("a folder"), std::sync::Arc::new(store));
    app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpointed");
    for file in ["app.db", ".app.db-seawall/state.json"] {
        std::fs::create_dir_all(other.state_dir()).expect("made");
        std::fs::copy(scene.path(file), other.path(file)).expect("copied");
    }
    let second = other.app();
    insert(&second, 9, 50);
    let theirs = (other.point().await, content_of(&second));
    insert(&app, 2, 50);
    let ours = scene.engine().take_point(&Shutdown::new()).await;
    match ours {
        // We came second and saw it: a new lineage with a base of its own.
        Ok(point) => {
            let restored = scene.restore(When::Position(point.position)).await.expect("restored");
            assert_eq!(restored, content_of(&app));
        }
        Err(stopped) => assert_eq!((stopped.kind, stopped.code), (Kind::Conflict, "sqlite.two-writers")),
    }
    assert_eq!(other.restore(When::Position(theirs.0.position)).await.expect("restored"), theirs.1);
}
