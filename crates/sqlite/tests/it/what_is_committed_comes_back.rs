//! Points, moments, shapes of databases: a restore gives exactly the committed content.

use std::sync::Arc;

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{IntegrityCheck, Kind, Moment, NoProgress, Phase, RestoreRequest, Shutdown, When};

use crate::world::{SCHEMA, START, Scene, content_of, insert, insert_beside, until};

#[tokio::test]
async fn every_point_equals_its_record() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let mut records = Vec::new();
    for round in 0..12 {
        insert(&app, 1 + round * 3, 700);
        if round == 5 {
            app.execute_batch("DELETE FROM t WHERE id > 5; VACUUM").expect("shrunk");
        }
        records.push((scene.point().await, content_of(&app)));
    }
    assert_eq!(scene.level(9), ["0000000000000001-0000000000000001.ltx"]);
    assert_eq!(scene.level(0).len(), 12);
    for (point, record) in &records {
        assert_eq!(&scene.restore(When::Position(point.position.clone())).await.expect("restored"), record);
        assert_eq!(&scene.restore(When::Moment(point.moment)).await.expect("restored"), record);
        let later = Moment::from_millis(point.moment.as_millis() + 999);
        assert_eq!(&scene.restore(When::Moment(later)).await.expect("restored"), record);
    }
    assert_eq!(&scene.restore(When::Latest).await.expect("restored"), &records[11].1);
    assert_eq!(scene.verify().await.findings, []);
    let timeline = scene.engine().timeline().await.expect("a timeline");
    assert_eq!((timeline.spans.len(), timeline.holes.len()), (1, 0));
    assert_eq!(timeline.spans[0].points, 13);
    let early = scene.restore(When::Moment(Moment::from_millis(START))).await.expect_err("before all");
    assert_eq!((early.kind, early.code), (Kind::Refused, "sqlite.unreachable"));
}

#[tokio::test]
async fn nothing_new_makes_no_object() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let first = scene.point().await;
    assert_eq!(scene.level(0), ["0000000000000002-0000000000000002.ltx"]);
    assert_eq!(scene.point().await, first);
    assert_eq!(scene.level(0).len(), 1);
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// Asking the store about each object takes too long for a user (#930).
#[tokio::test]
async fn a_moment_is_found_by_a_few_requests_of_many() {
    let (scene, _) = Scene::in_memory();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let mut states = Vec::new();
    for _ in 0..60 {
        insert(&app, 1, 10);
        states.push((scene.point().await, content_of(&app)));
    }
    let (point, content) = states.swap_remove(30);
    let engine = scene.engine();
    let request = RestoreRequest {
        output: scene.path("not-made.db"),
        when: When::Moment(point.moment),
        force: false,
        dry_run: true,
        integrity: IntegrityCheck::None,
    };
    let planned = engine.restore(&request, Arc::new(NoProgress)).await.expect("a plan");
    assert_eq!(planned.point.position, point.position);
    let asked = engine.figures().requests;
    // Beside the search the header of each object that leads there, to see that all belong together.
    let planned = planned.objects.len() as u64;
    assert!(asked.get + asked.head <= 16 + planned && asked.list <= 12, "{planned} objects: {asked:?}");
    assert_eq!(scene.restore(When::Moment(point.moment)).await.expect("restored"), content);
}

#[tokio::test]
async fn page_sizes_and_shapes() {
    for page_size in [512, 1024, 4096, 16384, 65536] {
        let scene = Scene::new();
        let app = Connection::open(scene.database()).expect("opened");
        app.execute_batch(&format!("PRAGMA page_size={page_size}; PRAGMA journal_mode=wal; {SCHEMA}")).expect("made");
        scene.point().await;
        insert(&app, 40, 3000);
        scene.point().await;
        app.execute_batch("DELETE FROM t WHERE id % 2; PRAGMA incremental_vacuum; VACUUM").expect("shrunk");
        scene.point().await;
        insert(&app, 300, 100);
        scene.point().await;
        assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app), "page size {page_size}");
    }
}

/// A rollback-journal database becomes a WAL database, and nothing else changes in it.
#[tokio::test]
async fn a_database_without_wal() {
    let scene = Scene::new();
    let app = Connection::open(scene.database()).expect("opened");
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 10, 10);
    let before = content_of(&app);
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), before);
    assert_eq!(content_of(&app), before);
}

#[tokio::test]
async fn a_large_base_and_a_large_transaction_are_streamed() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 1200, 10_000);
    scene.point().await;
    insert(&app, 900, 10_000);
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// The running process: it keeps up with a writer across many seals, stops gracefully, and everything that it reported
/// as protected is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_engine_keeps_up_and_stops_gracefully() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let engine = std::sync::Arc::new(scene.watching());
    let shutdown = Shutdown::new();
    let running = tokio::spawn({
        let (engine, shutdown) = (engine.clone(), shutdown.clone());
        async move { engine.run(&shutdown).await }
    });
    until("it protects", async || engine.status().await.is_ok_and(|status| status.phase == Phase::Protecting)).await;
    for round in 0..300 {
        insert(&app, 3, 2000);
        if round % 50 == 0 {
            scene.tick(1000);
            until("it caught up", async || engine.status().await.is_ok_and(|status| status.lag_bytes == 0)).await;
        }
    }
    insert(&app, 1, 1);
    shutdown.begin();
    running.await.expect("no panic").expect("a graceful stop");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    assert_eq!(scene.level(9).len(), 1, "no base but the first was needed");
    let wal = std::fs::read(scene.path("app.db-wal")).expect("a WAL");
    assert_ne!(wal[12..16], [0; 4], "the WAL was emptied and begun anew");
    let status = engine.status().await.expect("a status");
    assert_eq!((status.phase, status.lag_bytes), (Phase::Stopped, 0));
    assert_eq!(scene.verify().await.findings, []);
}

#[tokio::test]
async fn asking_ships_now_and_tells_the_point() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    // Without a request, the next object comes an hour after the first.
    let options = seawall_sqlite::Options { sync_interval: std::time::Duration::from_secs(3600), ..scene.options() };
    let engine = scene.engine_with(options, None);
    let refused = engine.sync().await.expect_err("it doesn't run");
    assert_eq!((refused.kind, refused.code), (Kind::Unavailable, "sqlite.not-running"));
    let shutdown = Shutdown::new();
    let asking = async {
        until("it protects", async || engine.status().await.is_ok_and(|s| s.phase == Phase::Protecting)).await;
        let mut points = Vec::new();
        for _ in 0..3 {
            insert_beside(&app, 3, 500).await;
            points.push(engine.sync().await.expect("a point"));
            assert_eq!(engine.status().await.expect("a status").lag_bytes, 0);
            let back = scene.restore(When::Latest).await.expect("restored");
            assert_eq!(back, content_of(&app));
        }
        assert_eq!(engine.sync().await.as_ref(), Ok(&points[2]), "nothing new, the same point");
        let figures = engine.figures();
        assert_eq!((figures.captures.done, figures.bases.done, figures.idle), (3, 1, true));
        assert!(figures.captures.bytes > 0 && figures.requests.put >= 5, "{figures:?}");
        shutdown.begin();
    };
    let (ended, ()) = tokio::join!(engine.run(&shutdown), asking);
    assert_eq!(ended, Ok(()));
}
