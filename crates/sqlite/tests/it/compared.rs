//! The content of a live database is recorded at a point, and a proof compares what it restores with it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Checked, Failure, Level, NoProgress, Point, ProofRequest, Shutdown, When};
use seawall_ltx::{Checksum, Encoder, Header};
use seawall_sqlite::{Options, Sqlite};
use tokio::task::JoinHandle;

use crate::world::{SCHEMA, Scene, app, insert, names, until};

/// A protection that runs.
struct Running {
    engine: Arc<Sqlite>,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Failure>>,
}

impl Running {
    async fn begin(scene: &Scene) -> Self {
        let (engine, shutdown) = (Arc::new(scene.watching()), Shutdown::new());
        let (ours, theirs) = (engine.clone(), shutdown.clone());
        let task = tokio::spawn(async move { ours.run(&theirs).await });
        let running = Self { engine, shutdown, task };
        until("it is protected", async || running.engine.sync().await.is_ok()).await;
        running
    }

    async fn record(&self) -> Point {
        self.engine.record_content().await.expect("recorded").expect("a point")
    }

    async fn stop(self) {
        self.shutdown.begin();
        self.task.await.expect("no panic").expect("a graceful stop");
    }
}

/// A proof that knows the vault alone.
async fn prove(scene: &Scene, when: When, level: Level) -> Checked {
    let scratch = tempfile::tempdir().expect("a folder");
    let request = ProofRequest {
        when,
        level,
        scratch: scratch.path().to_owned(),
        spare: 0,
        fresh: Arc::default(),
        isolated: false,
    };
    let engine = scene.engine_with(Options::default(), None);
    engine.proofs().expect("proofs").prove(&request, Arc::new(NoProgress)).await.expect("a proof")
}

fn at(point: &Point) -> When {
    When::Position(point.position.clone())
}

/// Something that changes the size and the free pages of a database.
fn change(app: &Connection, random: &mut fastrand::Rng) {
    let statement = match random.u8(..10) {
        0 => "VACUUM".to_owned(),
        1 => "DELETE FROM t".to_owned(),
        2 => "DELETE FROM t WHERE id % 3 = 0; PRAGMA incremental_vacuum".to_owned(),
        3 => "PRAGMA wal_checkpoint(PASSIVE)".to_owned(),
        4 => "PRAGMA wal_checkpoint(TRUNCATE)".to_owned(),
        // Pages that are free when the transaction ends are new, and in no frame of the WAL.
        5 => "BEGIN IMMEDIATE; CREATE TABLE passing(x); INSERT INTO passing SELECT randomblob(3000) FROM t; DROP TABLE passing; COMMIT"
            .to_owned(),
        6 => "BEGIN IMMEDIATE; INSERT INTO t(v) VALUES (randomblob(50000)); ROLLBACK".to_owned(),
        _ => format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {}) \
             INSERT INTO t(v) SELECT randomblob({}) FROM n",
            random.u32(1..60),
            random.u32(1..5000)
        ),
    };
    // A checkpoint may find the database busy.
    match app.execute_batch(&statement) {
        Err(error) if error.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseBusy) => {
            panic!("{statement}: {error}")
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_changes_the_restored_pages_are_those_of_the_database() {
    for seed in 0..6 {
        let (scene, mut random) = (Scene::new(), fastrand::Rng::with_seed(seed));
        let connection = app(&scene.database());
        let page = [512, 1024, 4096][seed as usize % 3];
        let vacuum = seed % 2 * 2;
        // The page size of an empty database changes only with a VACUUM outside WAL mode.
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode=delete; PRAGMA page_size={page}; PRAGMA auto_vacuum={vacuum}; VACUUM; PRAGMA journal_mode=wal"
            ))
            .expect("set");
        connection.execute_batch(SCHEMA).expect("schema");
        insert(&connection, 20, 1000);
        let running = Running::begin(&scene).await;
        // A checkpoint that is to cut the WAL waits for our hold in vain.
        let patience = Duration::from_millis(100);
        connection.busy_timeout(patience).expect("set");
        let (over, database) = (Arc::new(AtomicBool::new(false)), scene.database());
        let mut own = random.fork();
        let ended = over.clone();
        let busy = thread::spawn(move || {
            let app = app(&database);
            app.busy_timeout(patience).expect("set");
            while !ended.load(Ordering::Relaxed) {
                change(&app, &mut own);
                thread::sleep(Duration::from_millis(own.u64(..20)));
            }
        });
        for round in 0..25 {
            change(&connection, &mut random);
            let point = running.record().await;
            let checked = prove(&scene, at(&point), Level::Content).await;
            assert_eq!(
                (&checked.faults[..], checked.reachable),
                (&[][..], Level::Content),
                "{seed} {round}: {checked:?}"
            );
            assert_eq!(checked.point, Some(point));
        }
        over.store(true, Ordering::Relaxed);
        busy.join().expect("no panic");
        let point = running.record().await;
        assert_eq!(running.record().await, point, "nothing was committed");
        running.stop().await;
        let checked = prove(&scene, When::Latest, Level::Content).await;
        assert_eq!((&checked.faults[..], checked.reachable), (&[][..], Level::Content), "{seed}: {checked:?}");
        assert_eq!(checked.point, Some(point));
        let kept = names(&scene.path("vault/seawall/sums")).len();
        assert!((2..=8).contains(&kept), "{kept}: old ones are removed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_point_shortly_before_the_newest_is_proved_in_its_place() {
    let scene = Scene::new();
    let connection = scene.app();
    connection.execute_batch(SCHEMA).expect("schema");
    let running = Running::begin(&scene).await;
    let recorded = running.record().await;
    insert(&connection, 3, 100);
    scene.tick(3_000_000);
    let newest = running.engine.sync().await.expect("shipped");
    assert_ne!(newest, recorded);
    let checked = prove(&scene, When::Latest, Level::Content).await;
    assert_eq!((checked.point, checked.reachable), (Some(recorded.clone()), Level::Content));
    // The objects after it are read too.
    let capture = scene.path("vault/ltx/0").join(format!("{0}-{0}.ltx", newest.position));
    let bytes = fs::read(&capture).expect("read");
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&capture, &damaged).expect("written");
    let checked = prove(&scene, When::Latest, Level::Content).await;
    assert!(checked.faults.iter().any(|fault| fault.object.contains(&newest.position)), "{checked:?}");
    fs::write(&capture, &bytes).expect("written");
    // Below that level, and of another point, nothing is compared.
    assert_eq!(prove(&scene, When::Latest, Level::Engine).await.point, Some(newest.clone()));
    let checked = prove(&scene, at(&newest), Level::Content).await;
    assert_eq!((checked.point, checked.reachable), (Some(newest), Level::Engine));
    assert!(checked.doubts.concat().contains("no checksum of the whole database was recorded"), "{:?}", checked.doubts);
    // A point of long ago isn't the newest.
    insert(&connection, 3, 100);
    scene.tick(1_000_000);
    let newest = running.engine.sync().await.expect("shipped");
    let checked = prove(&scene, When::Latest, Level::Content).await;
    assert_eq!((checked.point, checked.reachable), (Some(newest), Level::Engine));
    running.stop().await;
    // Another process records without a base, also after one that was killed.
    let running = Running::begin(&scene).await;
    let recorded = running.record().await;
    running.task.abort();
    let checked = prove(&scene, When::Latest, Level::Content).await;
    assert_eq!((checked.point, checked.reachable), (Some(recorded), Level::Content));
}

/// Exchanges the last byte of a page in an object. All checksums of the object fit, and it has no digest.
fn forge(object: &Path, page: u32) {
    let bytes = fs::read(object).expect("read");
    let header = Header::parse(&bytes).expect("a header");
    let mut forged = Vec::new();
    let mut encoder = Encoder::new(header, &mut forged).expect("begun");
    let mut pages = Vec::new();
    seawall_ltx::decode_all(&bytes, |number, content| pages.push((number, content.to_vec()))).expect("decoded");
    for (number, mut content) in pages {
        if number.0 == page {
            *content.last_mut().expect("a byte") ^= 1;
        }
        encoder.push(number, &content, &mut forged).expect("written");
    }
    encoder.finish(Checksum::NONE, &mut forged).expect("finished");
    assert_ne!(forged, bytes, "page {page} is in it");
    fs::remove_file(object).expect("removed");
    fs::write(object, forged).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_with_another_valid_content_is_found() {
    let scene = Scene::new();
    let connection = scene.app();
    connection.execute_batch(SCHEMA).expect("schema");
    let running = Running::begin(&scene).await;
    // The last page is in the middle of a long value.
    insert(&connection, 1, 100_000);
    let point = running.record().await;
    running.stop().await;
    let pages: u32 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("counted");
    forge(&scene.path("vault/ltx/0").join(format!("{0}-{0}.ltx", point.position)), pages - 2);
    let checked = prove(&scene, When::Latest, Level::Engine).await;
    assert_eq!(checked.faults, [], "SQLite sees nothing");
    let checked = prove(&scene, When::Latest, Level::Content).await;
    let [fault] = &checked.faults[..] else { panic!("{checked:?}") };
    assert_eq!(fault.code, "sqlite.different");
    // What was put in place of the record isn't believed, and isn't taken for one.
    let record = scene.path("vault/seawall/sums").join(format!("{}.json", point.position));
    let kept = fs::read_to_string(&record).expect("read");
    let (before, _) = kept.split_once("\"tag\":").expect("a tag");
    let other = format!("{before}\"tag\":7}}");
    for (text, doubt) in [("{}", "no checksum of the whole database was recorded"), (&other, "is of another history")] {
        fs::write(&record, text).expect("written");
        let checked = prove(&scene, When::Latest, Level::Content).await;
        assert_eq!((&checked.faults[..], checked.reachable), (&[][..], Level::Engine));
        assert!(checked.doubts.concat().contains(doubt), "{:?}", checked.doubts);
    }
}

#[tokio::test]
async fn without_a_protection_nothing_is_recorded() {
    let scene = Scene::new();
    scene.app().execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    let failure = scene.engine().record_content().await.expect_err("it doesn't run");
    assert_eq!(failure.code, "sqlite.not-running");
}
