//! Digests of objects that have no room for them: stored separately, compared, and deleted with their objects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{NoProgress, Shutdown, StrongVerification, When};
use seawall_sqlite::{LevelPolicy, Retention, Sqlite, Upkeep};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};
use seawall_vault::{Digest, ObjectKey, Policy, Prefix, Scheme, Vault};

use crate::world::{HandClock, SCHEMA, Scene, content_of, insert};

/// More than is made in memory, so that it is streamed, in several parts.
const LARGE: (u32, u32) = (5, 1_000_000);

fn in_parts(scene: &Scene) -> Vault {
    Vault::new(scene.store.clone(), Policy { part_size: 1 << 20, ..Policy::default() })
}

fn engine(scene: &Scene, vault: &Vault) -> Sqlite {
    scene.engine_on(vault.clone(), scene.options(), None)
}

fn large(scene: &Scene) -> Connection {
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, LARGE.0, LARGE.1);
    app
}

async fn keys(vault: &Vault, prefix: &str) -> Vec<String> {
    let entries = vault.list(&Prefix::new(prefix).expect("a prefix"), None).await.expect("listed");
    entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect()
}

async fn strong(scene: &Scene, vault: &Vault) -> StrongVerification {
    engine(scene, vault).verify_strong(Arc::new(NoProgress)).await.expect("a verification")
}

fn key(text: &str) -> ObjectKey {
    ObjectKey::new(text).expect("a key")
}

fn record(format: u32, blake3: &str) -> String {
    format!("{{\"format\":{format},\"blake3\":\"{blake3}\"}}")
}

const BASE: &str = "0009/0000000000000001-0000000000000001.ltx";
const OF_THE_BASE: &str = "seawall/digests/9/0000000000000001-0000000000000001.json";

#[tokio::test]
async fn an_object_in_parts_is_compared_by_a_digest_of_its_own() {
    let (scene, _) = Scene::in_memory();
    let (app, vault) = (large(&scene), in_parts(&scene));
    engine(&scene, &vault).take_point(&Shutdown::new()).await.expect("a point");
    assert_eq!(keys(&vault, "seawall/digests").await, [OF_THE_BASE], "not of the small ones");
    let before = vault.counts();
    insert(&app, 3, 1000);
    engine(&scene, &vault).take_point(&Shutdown::new()).await.expect("a point");
    assert_eq!(vault.counts().put - before.put, 1, "a small object costs what it did");
    let found = strong(&scene, &vault).await;
    assert_eq!((found.compared, found.without_digest), (3, vec![]));
    assert_eq!(found.verification.findings, []);

    let digest = key(OF_THE_BASE);
    let kept = vault.read(&digest, None, 1000).await.expect("read");
    for (bytes, object, code, proved) in [
        (record(1, &Digest::of(b"another").to_string()), BASE, "sqlite.digest", false),
        (record(2, &Digest::of(b"another").to_string()), OF_THE_BASE, "sqlite.bad-digest", true),
        (record(1, "af13"), OF_THE_BASE, "sqlite.bad-digest", true),
        ("[".repeat(1000), OF_THE_BASE, "sqlite.bad-digest", true),
        (" ".repeat(2000), OF_THE_BASE, "sqlite.bad-digest", true),
        (String::new(), OF_THE_BASE, "sqlite.bad-digest", true),
    ] {
        vault.delete(std::slice::from_ref(&digest)).await.expect("deleted");
        vault.create(&digest, Bytes::from(bytes.clone()), None).await.expect("created");
        let found = strong(&scene, &vault).await.verification;
        let told: Vec<_> = found.findings.iter().map(|finding| (finding.object.as_str(), finding.code)).collect();
        assert_eq!(told, [(object, code)], "{bytes} {found:?}");
        assert_eq!(found.newest.is_some(), proved, "a damaged digest says nothing about its file: {bytes} {found:?}");
    }
    vault.delete(std::slice::from_ref(&digest)).await.expect("deleted");
    let found = strong(&scene, &vault).await;
    assert_eq!((found.compared, found.verification.findings), (2, vec![]));
    assert_eq!(found.without_digest, [BASE]);
    vault.create(&digest, kept, None).await.expect("created");
    assert_eq!(strong(&scene, &vault).await.compared, 3);
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

#[tokio::test]
async fn a_digest_that_somebody_left_behind_is_written_over() {
    let (scene, _) = Scene::in_memory();
    let (app, vault) = (large(&scene), in_parts(&scene));
    vault.create(&key(OF_THE_BASE), Bytes::from_static(b"of another object"), None).await.expect("created");
    engine(&scene, &vault).take_point(&Shutdown::new()).await.expect("a point");
    let found = strong(&scene, &vault).await;
    assert_eq!((found.compared, found.verification.findings), (2, vec![]));
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

#[tokio::test]
async fn digests_go_with_their_objects() {
    let (mut scene, _) = Scene::in_memory();
    scene.upkeep = Arc::new(Upkeep {
        levels: vec![LevelPolicy { interval: Duration::from_secs(30), keep: None }],
        base_interval: Some(Duration::from_secs(3600)),
        retention: Retention {
            window: Some(Duration::from_secs(3600)),
            grace: Duration::from_secs(60),
            ..Retention::default()
        },
        ..Upkeep::default()
    });
    let (app, vault) = (large(&scene), in_parts(&scene));
    for seconds in [1, 20, 4000, 100, 4000, 100, 100_000, 100] {
        scene.tick(seconds * 1000);
        insert(&app, LARGE.0, LARGE.1);
        app.execute_batch("DELETE FROM t WHERE id <= (SELECT max(id) - 5 FROM t)").expect("deleted");
        engine(&scene, &vault).take_point(&Shutdown::new()).await.expect("a point");
        engine(&scene, &vault).maintain(false).await.expect("maintained");
    }
    let objects: Vec<String> = keys(&vault, "").await.into_iter().filter(|key| key.ends_with(".ltx")).collect();
    let digests = keys(&vault, "seawall/digests").await;
    assert!(!digests.is_empty() && objects.len() < 10, "{objects:?}");
    for digest in &digests {
        let object = digest.replace("seawall/digests/", "000").replace(".json", ".ltx");
        assert!(objects.contains(&object), "{digest} speaks of nothing in {objects:?}");
    }
    let found = strong(&scene, &vault).await;
    assert_eq!((found.compared, found.without_digest), (objects.len() as u64, vec![]));
    assert_eq!(found.verification.findings, []);
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// A fault at every call of shipping a large object: the object in the vault is right, with or without a digest.
#[tokio::test(start_paused = true)]
async fn at_every_call_of_a_large_object() {
    for fault in [Fault::Error, Fault::LostAnswer] {
        let mut position = 0;
        while one_fault(&fault, position).await {
            position += 1;
        }
        assert!(position > 8, "only {position} calls");
    }
}

async fn one_fault(fault: &Fault, position: u64) -> bool {
    let what = format!("{fault:?} at call {position}");
    let clock = Arc::<HandClock>::default();
    let store = SimulatedStore::new(MemoryStore::with(Scheme::S3, clock.clone()), 7);
    let scene = Scene::at(tempfile::tempdir().expect("a folder"), clock, Arc::new(store.clone()));
    let (app, vault) = (large(&scene), in_parts(&scene));
    store.fail_call(position, fault.clone());
    engine(&scene, &vault).take_point(&Shutdown::new()).await.unwrap_or_else(|e| unreachable!("{what}: {e}"));
    let reached = store.call_count() > position;
    let found = strong(&scene, &vault).await;
    assert_eq!((found.compared, found.without_digest, found.verification.findings), (2, vec![], vec![]), "{what}");
    let restored = scene.restore(When::Latest).await;
    assert_eq!(restored.unwrap_or_else(|e| unreachable!("{what}: {e}")), content_of(&app), "{what}");
    reached
}

/// Where only digests can't be written, everything is protected all the same, and what can't be compared is named.
#[tokio::test(start_paused = true)]
async fn a_digest_that_cannot_be_kept_costs_nothing_but_itself() {
    let clock = Arc::<HandClock>::default();
    let store = SimulatedStore::new(MemoryStore::with(Scheme::S3, clock.clone()), 7);
    let scene = Scene::at(tempfile::tempdir().expect("a folder"), clock, Arc::new(store.clone()));
    let (app, vault) = (large(&scene), in_parts(&scene));
    // The calls up to the digest of the base are known from a run without faults.
    let calls = {
        let clock = Arc::<HandClock>::default();
        let store = SimulatedStore::new(MemoryStore::with(Scheme::S3, clock.clone()), 7);
        let scene = Scene::at(tempfile::tempdir().expect("a folder"), clock, Arc::new(store.clone()));
        let (_app, vault) = (large(&scene), in_parts(&scene));
        engine(&scene, &vault).take_point(&Shutdown::new()).await.expect("a point");
        store.calls()
    };
    let at = calls.iter().position(|call| call.object == OF_THE_BASE).expect("it is written") as u64;
    let denied = seawall_vault::Error::Denied { object: OF_THE_BASE.to_owned(), cause: "a policy".to_owned() };
    store.fail_call(at, Fault::Fail(denied));
    engine(&scene, &vault).take_point(&Shutdown::new()).await.expect("a point");
    let found = strong(&scene, &vault).await;
    assert_eq!((found.compared, found.verification.findings), (1, vec![]));
    assert_eq!(found.without_digest, [BASE]);
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}
