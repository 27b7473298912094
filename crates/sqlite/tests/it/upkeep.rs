//! Merging and deleting from a user's view: the objects in the vault, the restored states, and the requests to the
//! store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::abilities::*;
use seawall_core::{Phase, Shutdown, When};
use seawall_sqlite::{LevelPolicy, Retention, Upkeep};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};
use seawall_vault::{
    Access, Error, HostKeys, Identities, NoPrompt, ObjectKey, Policy, Prompt, Recipients, Scheme, SealedStore, Sealing,
    Store, Vault,
};

use crate::world::{SCHEMA, Scene, content_of, insert, insert_beside, until};

const DAY: i64 = 24 * 3600 * 1000;

fn upkeep() -> Upkeep {
    let level = |seconds| LevelPolicy { interval: Duration::from_secs(seconds), keep: None };
    Upkeep {
        levels: vec![level(30), level(300)],
        base_interval: Some(Duration::from_secs(3600)),
        retention: Retention {
            window: Some(Duration::from_secs(3600)),
            grace: Duration::from_secs(60),
            ..Retention::default()
        },
        ..Upkeep::default()
    }
}

fn scene_on_a_simulated_store() -> (Scene, SimulatedStore) {
    let clock = Arc::<crate::world::HandClock>::default();
    let store = SimulatedStore::new(MemoryStore::with(Scheme::S3, clock.clone()), 7);
    let directory = tempfile::tempdir().expect("a folder");
    let mut scene = Scene::at(directory, clock, Arc::new(store.clone()));
    scene.upkeep = Arc::new(upkeep());
    (scene, store)
}

#[tokio::test]
async fn a_vault_comes_to_rest_and_stays_small() {
    let mut scene = Scene::new();
    scene.upkeep = Arc::new(upkeep());
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    for _ in 0..40 {
        scene.tick(10_000);
        insert(&app, 3, 2000);
        scene.point().await;
    }
    assert!(scene.level(1).len() > 5 && !scene.level(2).is_empty(), "{:?} {:?}", scene.level(1), scene.level(2));
    assert!(scene.level(0).len() < 41, "{:?}", scene.level(0));
    for _ in 0..5 {
        scene.tick(DAY);
        scene.point().await;
    }
    let left = [0, 1, 2, 3, 9].map(|level| scene.level(level).len());
    assert_eq!(left, [1, 1, 1, 0, 1], "the newest of each level");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    assert_eq!(scene.verify().await.findings, []);
    let again = scene.engine().maintain(false).await.expect("nothing");
    assert_eq!((again.made, again.removed), (vec![], vec![]));
}

#[tokio::test]
async fn a_rehearsal_says_what_will_be_done_and_does_nothing() {
    let mut scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    for _ in 0..30 {
        scene.tick(20_000);
        insert(&app, 1, 100);
        let frozen = Upkeep { levels: vec![], base_interval: None, ..upkeep() };
        scene.upkeep = Arc::new(frozen);
        scene.point().await;
    }
    scene.upkeep = Arc::new(upkeep());
    scene.tick(DAY);
    let before = [0, 1, 2, 9].map(|level| scene.level(level));
    let told = scene.engine().maintain(true).await.expect("a rehearsal");
    assert_eq!([0, 1, 2, 9].map(|level| scene.level(level)), before);
    let done = scene.engine().maintain(false).await.expect("done");
    let keys = |made: &[seawall_core::MadeObject]| made.iter().map(|m| m.object.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&told.made), keys(&done.made));
    assert!(done.made.len() > 20);
    assert_eq!(done.removed, told.removed, "what was made just now can't replace anything yet");
    scene.tick(120_000);
    let removed = scene.engine().maintain(false).await.expect("done").removed;
    assert!(removed.len() > 40, "{removed:?}");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// An object of another database under the name of a capture.
#[tokio::test]
async fn a_stranger_stops_only_the_merges_that_it_touches() {
    let (mut scene, other) = (Scene::new(), Scene::new());
    let app = scene.app();
    for (scene, app) in [(&scene, &app), (&other, &other.app())] {
        app.execute_batch(SCHEMA).expect("schema");
        for _ in 0..6 {
            scene.tick(1000);
            insert(app, 1, 700);
            scene.point().await;
        }
    }
    let names = scene.level(0);
    let planted = format!("vault/ltx/0/{}", names[3]);
    std::fs::copy(other.path(&planted), scene.path(&planted)).expect("planted");
    let frozen = std::mem::replace(&mut scene.upkeep, Arc::new(Upkeep { base_interval: None, ..upkeep() }));
    scene.tick(120_000);
    let refused = scene.engine().maintain(false).await.expect_err("a stranger");
    assert_eq!(refused.code, "sqlite.mixed");
    assert!(refused.object.ends_with(&names[3]) && refused.next.contains("delete it"), "{refused:?}");
    let range = |name: &String| {
        let (min, max) = name.strip_suffix(".ltx").and_then(|name| name.split_once('-')).expect("a name");
        [min, max].map(|text| u64::from_str_radix(text, 16).expect("a TXID"))
    };
    let of = |names: &[String]| names.iter().map(range).collect::<Vec<_>>();
    let stranger = range(&names[3])[0];
    let merged = |scene: &Scene| of(&scene.level(1));
    assert_eq!(merged(&scene).last().map(|[_, max]| *max), Some(stranger - 1), "what is before it");
    // The next start begins with a base after it, and merging continues there.
    scene.upkeep = frozen;
    let last = range(names.last().expect("a capture"))[1];
    for _ in 0..3 {
        scene.tick(1000);
        insert(&app, 1, 700);
        scene.point().await;
    }
    assert_eq!(of(&scene.level(9)).last(), Some(&[1, last + 1]), "a base behind it");
    scene.upkeep = Arc::new(Upkeep { base_interval: None, ..upkeep() });
    scene.tick(120_000);
    assert_eq!(scene.engine().maintain(false).await.map_err(|failure| failure.code), Err("sqlite.mixed"));
    let merged = merged(&scene);
    assert!(merged.iter().all(|[min, max]| *max < stranger || *min > last), "{merged:?}");
    assert_eq!(merged.last().map(|[_, max]| *max), scene.level(0).last().map(|name| range(name)[1]), "{merged:?}");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// A fault at every call of upkeep that merges, makes a base and deletes: nothing that is promised is lost.
async fn at_every_call(faults: &[Fault]) {
    for fault in faults {
        let mut position = 0;
        while one_fault(fault.clone(), position).await {
            position += 1;
        }
        assert!(position >= 12, "only {position} calls");
    }
}

async fn one_fault(fault: Fault, position: u64) -> bool {
    let what = format!("{fault:?} at call {position}");
    let (mut scene, store) = scene_on_a_simulated_store();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let active =
        std::mem::replace(&mut scene.upkeep, Arc::new(Upkeep { levels: vec![], base_interval: None, ..upkeep() }));
    for seconds in [10, 4000, 10, 10, 40] {
        scene.tick(seconds * 1000);
        insert(&app, 2, 1500);
        scene.point().await;
    }
    scene.upkeep = active;
    // Another engine did half of the work before, so that there is something to delete as well.
    scene.engine().maintain(false).await.expect("merged");
    scene.tick(5 * 3600 * 1000);
    insert(&app, 2, 1500);
    let point = scene.engine().take_point(&Shutdown::new()).await.expect("a point");
    scene.tick(3600 * 1000);
    let record = content_of(&app);

    let first = store.call_count();
    store.fail_call(first + position, fault);
    let attempt = tokio::time::timeout(Duration::from_secs(24 * 3600), scene.engine().maintain(false)).await;
    let reached = store.call_count() > first + position;
    store.revive();
    drop(attempt);
    let restored = scene.restore(When::Latest).await.unwrap_or_else(|e| unreachable!("{what}: {e}"));
    assert_eq!(restored, record, "{what}");
    // The next run does the rest, and the one after it nothing.
    scene.engine().maintain(false).await.unwrap_or_else(|e| unreachable!("{what}: {e}"));
    scene.tick(120_000);
    scene.engine().maintain(false).await.unwrap_or_else(|e| unreachable!("{what}: {e}"));
    let again = scene.engine().maintain(false).await.unwrap_or_else(|e| unreachable!("{what}: {e}"));
    assert_eq!((again.made, again.removed), (vec![], vec![]), "{what}");
    let restored = scene.restore(When::Position(point.position.clone())).await;
    assert_eq!(restored.unwrap_or_else(|e| unreachable!("{what}: {e}")), record, "{what}");
    assert_eq!(scene.verify().await.findings, [], "{what}");
    reached
}

#[tokio::test(start_paused = true)]
async fn at_every_call_that_fails() {
    at_every_call(&[Fault::Error, Fault::LostAnswer, Fault::BrokenStream]).await;
}

#[tokio::test(start_paused = true)]
async fn at_every_call_that_is_answered_badly() {
    at_every_call(&[Fault::Duplicate, Fault::Delay(Duration::from_secs(20))]).await;
}

#[tokio::test(start_paused = true)]
async fn at_every_call_that_ends_the_process() {
    at_every_call(&[Fault::Hang, Fault::Crash, Fault::CrashAfter]).await;
}

/// Credentials that may not delete: protection and merging continue, and deletions aren't tried again and again.
#[tokio::test]
async fn credentials_that_may_not_delete() {
    let (scene, store) = scene_on_a_simulated_store();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    for _ in 0..5 {
        scene.tick(1_000_000);
        insert(&app, 1, 10);
        scene.point().await;
    }
    scene.tick(DAY);
    let engine = scene.engine();
    store.forbid("delete", Error::Denied { object: "s3://bucket".into(), cause: "AccessDenied".into() });
    let done = engine.maintain(false).await.expect("no failure");
    assert_eq!(done.removed, []);
    let deletions = |store: &SimulatedStore| store.calls().iter().filter(|call| call.operation == "delete").count();
    let tried = deletions(&store);
    engine.maintain(false).await.expect("no failure");
    assert_eq!(deletions(&store), tried, "it was tried once");
    insert(&app, 1, 10);
    let point = scene.point().await;
    assert_eq!(scene.restore(When::Position(point.position)).await.expect("restored"), content_of(&app));
}

/// Objects that can't be merged don't hold up captures, and the status shows the error until a merge succeeds. Frequent
/// questions for the status are answered from memory, without reading the record on the disk.
#[tokio::test]
async fn what_goes_wrong_in_the_upkeep_is_in_the_status() {
    let (mut scene, store) = scene_on_a_simulated_store();
    let level = |millis| LevelPolicy { interval: Duration::from_millis(millis), keep: None };
    scene.upkeep = Arc::new(Upkeep { levels: vec![level(100)], base_interval: None, ..upkeep() });
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let engine = scene.watching();
    let shutdown = Shutdown::new();
    let error = async || engine.status().await.ok().and_then(|status| status.error).map(|error| error.code);
    let captures = || engine.figures().captures.done;
    let script = async {
        insert_beside(&app, 1, 10).await;
        until("the first base", async || {
            engine.status().await.is_ok_and(|status| status.phase == Phase::Protecting && status.lag_bytes == 0)
        })
        .await;
        store.forbid("get", Error::Denied { object: "s3://bucket".into(), cause: "AccessDenied".into() });
        // Too large to be kept in memory until it is merged.
        insert_beside(&app, 1, 400_000).await;
        until("the status says it", async || {
            scene.tick(50);
            error().await.as_deref() == Some("vault.denied")
        })
        .await;
        let before = captures();
        insert_beside(&app, 1, 10).await;
        until("a capture beside it", async || captures() > before && engine.figures().idle).await;
        // A checkpoint may write to the file after the capture that the status tells of.
        until("the size of the file is known", async || {
            let size = std::fs::metadata(scene.database()).ok().map(|found| found.len());
            engine.known_status().await.is_ok_and(|known| known.source_bytes == size)
        })
        .await;
        let known = engine.known_status().await.expect("a status");
        assert_eq!((known.phase, known.lag_bytes), (Phase::Protecting, 0));
        assert_eq!(known.error.map(|error| error.code).as_deref(), Some("vault.denied"));
        store.revive();
        engine.maintain(false).await.expect("it goes well again");
        until("the status says that too", async || error().await.is_none()).await;
        until("it is at rest", async || engine.figures().idle).await;
        std::fs::write(scene.state_dir().join("state.json"), b"damage").expect("written");
        assert!(engine.status().await.is_err(), "this one looks");
        assert_eq!(engine.known_status().await.map(|status| status.error), Ok(None));
        shutdown.begin();
    };
    let (ran, ()) = tokio::join!(engine.run(&shutdown), script);
    ran.expect("a graceful end");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// `validation.interval`: an object that disappears from the vault is noticed in time, shown in the status, and
/// replaced.
#[tokio::test]
async fn validation_notices_what_is_missing_from_the_vault() {
    let (mut scene, store) = scene_on_a_simulated_store();
    let validation_interval = Some(Duration::from_millis(200));
    scene.upkeep = Arc::new(Upkeep { levels: vec![], base_interval: None, validation_interval, ..upkeep() });
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let engine = scene.watching();
    let shutdown = Shutdown::new();
    let mut records = Vec::new();
    let script = async {
        until("it protects", async || engine.status().await.is_ok_and(|status| status.phase == Phase::Protecting))
            .await;
        for _ in 0..4 {
            insert_beside(&app, 1, 10).await;
            let point = engine.sync().await.expect("a point");
            records.push((point, content_of(&app)));
            scene.tick(1000);
        }
        let error = async || engine.status().await.ok().and_then(|status| status.error).map(|error| error.code);
        let lists = || engine.figures().requests.list;
        let before = lists();
        until("it is looked at twice", async || {
            scene.tick(50);
            lists() > before + 20
        })
        .await;
        assert_eq!(error().await, None, "nothing is missing");
        let gone = format!("0000/{0}-{0}.ltx", records[2].0.position);
        let truth = Vault::new(Arc::new(store.truth().clone()), Policy::default());
        truth.delete(&[ObjectKey::new(gone).expect("a key")]).await.expect("deleted");
        until("it is noticed", async || error().await.as_deref() == Some("sqlite.lost")).await;
        until("it is protected anew", async || {
            engine
                .status()
                .await
                .is_ok_and(|status| status.phase == Phase::Protecting && engine.figures().bases.done == 2)
        })
        .await;
        shutdown.begin();
    };
    let (ran, ()) = tokio::join!(engine.run(&shutdown), script);
    ran.expect("a graceful end");
    let (point, record) = &records[1];
    assert_eq!(scene.restore(When::Position(point.position.clone())).await.as_ref(), Ok(record));
    assert_eq!(scene.restore(When::Latest).await, Ok(content_of(&app)));
}

/// `verify-compaction`: a gap before a merged object is reported, and the merged object stays.
#[tokio::test]
async fn a_gap_before_a_merged_object_is_told() {
    for verify_compaction in [false, true] {
        let (mut scene, _) = scene_on_a_simulated_store();
        let active = Upkeep { verify_compaction, base_interval: None, ..upkeep() };
        scene.upkeep = Arc::new(Upkeep { levels: vec![], base_interval: None, ..upkeep() });
        let app = scene.app();
        app.execute_batch(SCHEMA).expect("schema");
        let mut points = Vec::new();
        for _ in 0..5 {
            insert(&app, 1, 10);
            points.push((scene.point().await, content_of(&app)));
            scene.tick(40_000);
        }
        let gone = format!("0000/{0}-{0}.ltx", points[2].0.position);
        scene.vault().delete(&[ObjectKey::new(gone).expect("a key")]).await.expect("deleted");
        scene.upkeep = Arc::new(active);
        let done = scene.engine().maintain(false).await.map(drop).map_err(|failure| failure.code);
        let expected = if verify_compaction { Err("sqlite.corrupt") } else { Ok(()) };
        assert_eq!(done, expected, "verify-compaction: {verify_compaction}");
        let (point, record) = &points[1];
        assert_eq!(scene.restore(When::Position(point.position.clone())).await.as_ref(), Ok(record));
    }
}

/// A host forgets the keys of what it wrote two days ago. When a base is due and the one before it opens no more, the running process
/// takes a base from the database, and merges go on.
#[tokio::test]
async fn a_history_that_the_host_can_not_read_any_more_gets_a_base() {
    let (secret, public) = Identities::generate();
    let clock = Arc::<crate::world::HandClock>::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with(Scheme::S3, clock.clone()));
    let access = |recipients: bool, identities| {
        let recipients = recipients.then(|| Recipients::read([&public], Path::new("")).expect("a recipient"));
        let keys = HostKeys::new(None, clock.clone());
        Access::Sealed(Arc::new(Sealing::new(recipients, identities, keys)))
    };
    let host = Arc::new(SealedStore::new(store.clone(), access(true, Identities::none())));
    let mut scene = Scene::at(tempfile::tempdir().expect("a folder"), clock.clone(), host);
    scene.upkeep = Arc::new(Upkeep { base_interval: Some(Duration::from_secs(200 * 3600)), ..upkeep() });
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let engine = scene.watching();
    let shutdown = Shutdown::new();
    let script = async {
        insert_beside(&app, 1, 10).await;
        engine.sync().await.expect("a point");
        let bases = engine.figures().bases.done;
        // Each day a new key is made, and on the fourth the first one is forgotten.
        until("a base from the database", async || {
            insert_beside(&app, 1, 10).await;
            let _asked = engine.sync().await;
            scene.tick(DAY + 3_600_000);
            tokio::time::sleep(Duration::from_millis(100)).await;
            engine.figures().bases.done > bases
        })
        .await;
        let merges = engine.figures().compactions[1].done;
        until("merges go on", async || {
            insert_beside(&app, 1, 10).await;
            scene.tick(30_000);
            let _asked = engine.sync().await;
            engine.figures().compactions[1].done > merges
        })
        .await;
        engine.sync().await.expect("a point");
        shutdown.begin();
    };
    let (ran, ()) = tokio::join!(engine.run(&shutdown), script);
    ran.expect("a graceful end");
    let prompt: Arc<dyn Prompt> = Arc::new(NoPrompt);
    let owner = Identities::parse(&secret, "the key", &prompt).expect("an identity");
    scene.store = Arc::new(SealedStore::new(store, access(false, owner)));
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// While it protects, it merges by itself when time has come, and asks nothing of the store when nothing changes.
#[tokio::test]
async fn a_running_protection_merges_and_then_rests() {
    let (mut scene, store) = scene_on_a_simulated_store();
    let level = |millis| LevelPolicy { interval: Duration::from_millis(millis), keep: None };
    scene.upkeep = Arc::new(Upkeep { levels: vec![level(100)], base_interval: None, ..upkeep() });
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let engine = scene.watching();
    let shutdown = Shutdown::new();
    let script = async {
        insert_beside(&app, 1, 10).await;
        until("the first capture", async || {
            store.calls().iter().any(|call| call.operation == "put" && call.object.starts_with("0000/"))
        })
        .await;
        // The first capture is empty where the base holds everything, and waits for changes.
        insert_beside(&app, 1, 10).await;
        let merged = async || {
            scene.tick(50);
            store.calls().iter().any(|call| call.operation == "put" && call.object.starts_with("0001/"))
        };
        until("something is merged", merged).await;
        let mut calls = 0;
        until("nothing more is asked of the store", async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            std::mem::replace(&mut calls, store.call_count()) == store.call_count()
        })
        .await;
        shutdown.begin();
    };
    let (ran, ()) = tokio::join!(engine.run(&shutdown), script);
    ran.expect("a graceful end");
    let read: Vec<_> = store.calls().into_iter().filter(|call| call.operation == "get").collect();
    assert_eq!(read.len(), 0, "what was written just now is merged without reading it: {read:?}");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}
