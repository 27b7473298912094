//! A vault that changes during a running protection: the engine notices and reports it, and protection starts over by
//! itself with the points that can be restored (I15).

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Failure, Phase, Shutdown, Status, When};
use seawall_sqlite::{LevelPolicy, Options, Retention, Sqlite, Upkeep};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Chances, SimulatedStore};
use seawall_vault::{Error, ObjectKey, Policy, Prefix, PutOptions, Store, Vault};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::world::{SCHEMA, Scene, content_of, insert, insert_beside, names, until};

const MINUTE: Duration = Duration::from_secs(60);

/// A protection on a simulated bucket, in simulated time.
struct Stage {
    scene: Scene,
    store: SimulatedStore,
    app: Connection,
    engine: Arc<Sqlite>,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Failure>>,
}

impl Stage {
    async fn new(sync_interval: Duration) -> Self {
        let store = SimulatedStore::new(MemoryStore::new(), 7);
        let directory = tempfile::tempdir().expect("a folder");
        let scene = Scene::on(directory, Arc::new(store.truth().clone()));
        let app = scene.app();
        app.execute_batch(SCHEMA).expect("schema");
        let vault = Vault::new(Arc::new(store.clone()), Policy::default());
        let options = Options { sync_interval, ..scene.options() };
        let engine = Arc::new(scene.engine_on(vault, options, None));
        let shutdown = Shutdown::new();
        let (ours, theirs) = (engine.clone(), shutdown.clone());
        let task = tokio::spawn(async move { ours.run(&theirs).await });
        let mut stage = Self { scene, store, app, engine, shutdown, task };
        stage.until_protected().await;
        stage.commit_three().await;
        stage
    }

    async fn commit_three(&mut self) {
        for _ in 0..3 {
            self.scene.tick(1000);
            insert_beside(&self.app, 2, 500).await;
            self.engine.sync().await.expect("a point");
        }
    }

    /// A commit, without waiting for its shipment.
    async fn commit_one(&self) {
        self.scene.tick(1000);
        insert_beside(&self.app, 1, 100).await;
    }

    async fn status(&self) -> Status {
        self.engine.status().await.expect("a status")
    }

    async fn code(&self) -> Option<String> {
        self.status().await.error.map(|error| error.code)
    }

    /// How long it takes until the status tells `code`.
    async fn until_told(&self, code: &str, within: Duration) -> Duration {
        let began = Instant::now();
        let waiting = async {
            while self.code().await.as_deref() != Some(code) {
                sleep(Duration::from_millis(100)).await;
            }
        };
        let Ok(()) = timeout(within, waiting).await else { panic!("not told: {:?}", self.status().await) };
        began.elapsed()
    }

    async fn until_protected(&self) {
        let waiting = async {
            loop {
                sleep(Duration::from_secs(1)).await;
                let status = self.engine.status().await;
                if status.is_ok_and(|status| status.phase == Phase::Protecting && status.lag_bytes == 0) {
                    break;
                }
            }
        };
        timeout(20 * MINUTE, waiting).await.expect("protected in time");
    }

    async fn keys(&self) -> Vec<ObjectKey> {
        let page = self.store.truth().list(&Prefix::all(), None, 1000).await.expect("listed");
        page.entries.into_iter().map(|entry| entry.key).filter(|key| key.as_str().ends_with(".ltx")).collect()
    }

    /// Deletes the objects whose names begin so. Returns their number.
    async fn delete(&self, prefix: &str) -> usize {
        let keys: Vec<_> = self.keys().await.into_iter().filter(|key| key.as_str().starts_with(prefix)).collect();
        self.store.truth().delete(&keys).await.expect("deleted");
        keys.len()
    }

    async fn everything_comes_back(&self) {
        assert_eq!(self.scene.restore(When::Latest).await.expect("restored"), content_of(&self.app));
    }

    async fn stop(self) -> Result<(), Failure> {
        self.shutdown.begin();
        self.task.await.expect("no panic")
    }
}

const NEWEST: &str = "0000/0000000000000005";

#[tokio::test(start_paused = true)]
async fn what_is_deleted_from_a_bucket_is_told_within_minutes_and_protection_begins_anew() {
    // The base, a capture on the way, the newest one, and everything.
    for (gone, objects) in [("0009/", 1), ("0000/0000000000000003", 1), (NEWEST, 1), ("", 5)] {
        let stage = Stage::new(Duration::from_millis(200)).await;
        assert_eq!(stage.keys().await.len(), 5);
        assert_eq!(stage.delete(gone).await, objects, "{gone}");
        stage.commit_one().await;
        let took = stage.until_told("sqlite.lost", 11 * MINUTE).await;
        assert!(took > MINUTE, "{gone}: a listing at most every ten minutes, and it took {took:?}");
        stage.until_protected().await;
        stage.everything_comes_back().await;
        let timeline = stage.engine.timeline().await.expect("a timeline");
        let hole = timeline.holes.last().expect("a hole");
        assert!(hole.reason.contains("missing from the vault"), "{gone}: {hole:?}");
        let from = hole.from.as_ref().map(|point| point.position.clone());
        match gone {
            "0009/" | "" => assert_eq!(from, None, "nothing before it can be restored"),
            NEWEST => assert_eq!(from.as_deref(), Some("0000000000000004")),
            _ => assert_eq!(from.as_deref(), Some("0000000000000002")),
        }
        // The error stays until a later look has found everything.
        assert_eq!(stage.code().await.as_deref(), Some("sqlite.lost"));
        sleep(11 * MINUTE).await;
        assert_eq!(stage.code().await, None);
        assert_eq!(stage.engine.figures().bases.done, 2, "{gone}");
        stage.stop().await.expect("a graceful end");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_cut_is_as_good_as_none() {
    let stage = Stage::new(Duration::from_millis(200)).await;
    let base = stage.keys().await.into_iter().find(|key| key.as_str().starts_with("0009/")).expect("a base");
    let cut = Bytes::from_static(b"LTX1");
    stage.store.truth().put(&base, cut, &PutOptions::default()).await.expect("overwritten");
    stage.commit_one().await;
    stage.until_told("sqlite.lost", 11 * MINUTE).await;
    stage.until_protected().await;
    stage.everything_comes_back().await;
    stage.stop().await.expect("a graceful end");
}

/// The header and the end of such an object are as they were: only reading all of it tells.
#[tokio::test(start_paused = true)]
async fn a_byte_that_changed_within_an_object_is_told() {
    let stage = Stage::new(Duration::from_millis(200)).await;
    stage.commit_one().await;
    sleep(11 * MINUTE).await;
    let base = stage.keys().await.into_iter().find(|key| key.as_str().starts_with("0009/")).expect("a base");
    let vault = Vault::new(Arc::new(stage.store.clone()), Policy::default());
    let mut bytes = vault.read(&base, None, 1 << 24).await.expect("a base").to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    stage.store.truth().put(&base, bytes.into(), &PutOptions::default()).await.expect("overwritten");
    stage.commit_one().await;
    stage.until_told("sqlite.lost", 11 * MINUTE).await;
    stage.until_protected().await;
    stage.everything_comes_back().await;
    stage.stop().await.expect("a graceful end");
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_point_or_for_the_end_is_told_the_truth() {
    let stage = Stage::new(Duration::from_millis(200)).await;
    stage.delete("0009/").await;
    let failure = stage.engine.sync().await.expect_err("it can't be restored");
    assert_eq!(failure.code, "sqlite.lost");
    stage.until_protected().await;
    stage.engine.sync().await.expect("a base was taken");
    stage.everything_comes_back().await;

    stage.delete("").await;
    let failure = stage.stop().await.expect_err("nothing is there");
    assert_eq!(failure.code, "sqlite.lost");
}

#[tokio::test(start_paused = true)]
async fn an_idle_database_costs_a_listing_a_day_and_is_told_of_a_loss_by_it() {
    let stage = Stage::new(MINUTE).await;
    sleep(15 * MINUTE).await;
    let before = stage.engine.figures().requests;
    sleep(23 * 60 * MINUTE).await;
    assert_eq!(stage.engine.figures().requests, before, "no request in a day");
    stage.delete("0009/").await;
    stage.until_told("sqlite.lost", 120 * MINUTE).await;
    stage.until_protected().await;
    stage.everything_comes_back().await;
    stage.stop().await.expect("a graceful end");
}

#[tokio::test(start_paused = true)]
async fn an_active_database_costs_some_listings_an_hour() {
    let mut stage = Stage::new(Duration::from_millis(200)).await;
    let before = stage.engine.figures().requests.list;
    for _ in 0..60 {
        stage.scene.tick(60_000);
        insert_beside(&stage.app, 1, 100).await;
        sleep(MINUTE).await;
    }
    let lists = stage.engine.figures().requests.list - before;
    assert!((10..=14).contains(&lists), "two levels every ten minutes: {lists}");
    stage.commit_three().await;
    stage.stop().await.expect("a graceful end");
}

#[tokio::test(start_paused = true)]
async fn an_old_listing_is_no_loss() {
    let mut stage = Stage::new(Duration::from_millis(200)).await;
    for _ in 0..3 {
        drop(stage.store.clone().with_chances(Chances { stale_list: 1000, ..Chances::default() }));
        sleep(11 * MINUTE).await;
        assert_eq!(stage.code().await, None);
        stage.store.revive();
        stage.commit_three().await;
    }
    assert_eq!(stage.engine.figures().bases.done, 1);
    stage.everything_comes_back().await;
    stage.stop().await.expect("a graceful end");
}

#[tokio::test(start_paused = true)]
async fn what_another_process_merges_and_deletes_is_no_loss() {
    let mut stage = Stage::new(Duration::from_millis(200)).await;
    let level = LevelPolicy { interval: Duration::from_secs(1), keep: None };
    let retention = Retention { l0: Some(Duration::ZERO), grace: Duration::ZERO, ..Retention::default() };
    let upkeep = Upkeep { levels: vec![level], base_interval: None, retention, ..Upkeep::default() };
    let options = Options { path: None, upkeep: Arc::new(upkeep), ..stage.scene.options() };
    stage.scene.tick(3_600_000);
    let done = stage.scene.engine_with(options, None).maintain(false).await.expect("upkeep");
    assert!(!done.made.is_empty() && !done.removed.is_empty(), "{done:?}");
    stage.commit_three().await;
    sleep(11 * MINUTE).await;
    assert_eq!(stage.code().await, None);
    assert_eq!(stage.engine.figures().bases.done, 1);
    stage.everything_comes_back().await;
    stage.stop().await.expect("a graceful end");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_somebody_else_in_the_way_is_told() {
    let stage = Stage::new(Duration::from_millis(200)).await;
    let stray = ObjectKey::new("0000/0000000000000063-0000000000000063.ltx").expect("a key");
    let truth = stage.store.truth();
    truth.put(&stray, Bytes::from_static(b"somebody else's"), &PutOptions::default()).await.expect("put");
    stage.commit_one().await;
    stage.until_told("sqlite.stray", 11 * MINUTE).await;
    assert_eq!(stage.engine.sync().await.map_err(|failure| failure.code), Err("sqlite.stray"));
    truth.delete(std::slice::from_ref(&stray)).await.expect("deleted");
    stage.until_protected().await;
    stage.engine.sync().await.expect("a point");
    until("it is over", async || stage.code().await.is_none()).await;
    stage.everything_comes_back().await;
    stage.stop().await.expect("a graceful end");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_never_was_there_ends_it_and_one_that_vanishes_is_waited_for() {
    let missing = || Error::Missing { object: "memory".into(), cause: "the bucket does not exist".into() };
    let stage = Stage::new(Duration::from_millis(200)).await;
    for operation in ["put", "list"] {
        stage.store.forbid(operation, missing());
        insert_beside(&stage.app, 1, 100).await;
        stage.until_told("vault.missing", 30 * MINUTE).await;
        assert_eq!(stage.status().await.phase, Phase::Failing);
        stage.store.revive();
        stage.until_protected().await;
        stage.everything_comes_back().await;
        assert_eq!(stage.code().await, None);
    }
    assert_eq!(stage.engine.figures().bases.done, 1);
    stage.stop().await.expect("a graceful end");

    let store = SimulatedStore::new(MemoryStore::new(), 7);
    store.forbid("list", missing());
    let scene = Scene::on(tempfile::tempdir().expect("a folder"), Arc::new(store));
    scene.app().execute_batch(SCHEMA).expect("schema");
    let engine = scene.engine();
    let ended = timeout(MINUTE, engine.run(&Shutdown::new())).await.expect("at once");
    assert_eq!(ended.map_err(|failure| failure.code), Err("vault.missing"));
}

/// Lets `act` do something to the folder of a running protection at which nothing happens.
async fn with_a_folder(act: impl AsyncFnOnce(&Scene, &Connection, &Sqlite)) {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3, 300);
    let engine = scene.watching();
    let shutdown = Shutdown::new();
    let script = async {
        until_green(&engine).await;
        insert_beside(&app, 3, 300).await;
        engine.sync().await.expect("a point");
        act(&scene, &app, &engine).await;
        shutdown.begin();
    };
    let (ran, ()) = tokio::join!(engine.run(&shutdown), script);
    ran.expect("a graceful end");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

async fn until_green(engine: &Sqlite) {
    until("it is protected", async || {
        let status = engine.status().await;
        status.is_ok_and(|now| now.phase == Phase::Protecting && now.lag_bytes == 0)
    })
    .await;
}

async fn until_told(engine: &Sqlite, code: &str) {
    until(code, async || {
        let error = engine.status().await.ok().and_then(|status| status.error);
        error.is_some_and(|error| error.code == code)
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_is_renamed_is_told_without_a_commit_and_nothing_is_made_in_its_place() {
    with_a_folder(async |scene, app, engine| {
        let (vault, aside) = (scene.path("vault"), scene.path("aside"));
        fs::rename(&vault, &aside).expect("renamed");
        until_told(engine, "vault.vanished").await;
        assert_eq!(engine.status().await.expect("a status").phase, Phase::Failing);
        insert_beside(app, 5, 300).await;
        let asked = timeout(Duration::from_secs(60), engine.sync()).await.expect("an answer");
        assert_eq!(asked.map_err(|failure| failure.code), Err("vault.vanished"));
        assert!(!vault.exists());
        fs::rename(&aside, &vault).expect("back");
        until_green(engine).await;
        assert_eq!(engine.status().await.expect("a status").error, None);
        assert_eq!(scene.level(9).len(), 1, "no other base was needed");
    })
    .await;
}

#[tokio::test]
async fn a_folder_in_whose_place_another_stands_is_told_and_begun_anew() {
    with_a_folder(async |scene, app, engine| {
        let (vault, aside) = (scene.path("vault"), scene.path("aside"));
        let before = names(&scene.path("vault/ltx/0"));
        fs::rename(&vault, &aside).expect("renamed");
        fs::create_dir(&vault).expect("made");
        until_told(engine, "vault.replaced").await;
        until_green(engine).await;
        insert_beside(app, 5, 300).await;
        engine.sync().await.expect("a point");
        assert_eq!(names(&aside.join("ltx/0")), before, "the former one is as it was");
        assert_eq!(scene.level(9).len(), 1);
        let timeline = engine.timeline().await.expect("a timeline");
        assert_eq!(timeline.holes.len(), 1, "{timeline:?}");
    })
    .await;
}

#[tokio::test]
async fn an_object_that_is_deleted_from_the_folder_of_an_idle_database_is_noticed_by_the_sweep() {
    with_a_folder(async |scene, _, engine| {
        let base = names(&scene.path("vault/ltx/9")).pop().expect("a base");
        fs::remove_file(scene.path("vault/ltx/9").join(base)).expect("removed");
        until_told(engine, "sqlite.lost").await;
        until_green(engine).await;
    })
    .await;
}
