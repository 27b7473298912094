//! A restore while another process merges and deletes between its plan and its reading.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::abilities::*;
use seawall_core::{IntegrityCheck, Progress, RestoreRequest, When};
use seawall_sqlite::{LevelPolicy, Options, Retention, Upkeep};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};
use seawall_vault::{Error, FileStore, Policy, Vault};

use crate::world::{SCHEMA, Scene, content, content_of, insert, names};

/// Replaces the vault by another one after the restore was planned.
struct Swap {
    vault: PathBuf,
    other: PathBuf,
}

impl Progress for Swap {
    fn begin(&self, _what: &str, _total: Option<u64>) {
        if self.other.exists() {
            std::fs::remove_dir_all(&self.vault).expect("removed");
            std::fs::rename(&self.other, &self.vault).expect("swapped");
        }
    }

    fn advance(&self, _bytes: u64) {}

    fn finish(&self) {}
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a kind").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

fn request(output: &Path) -> RestoreRequest {
    RestoreRequest {
        output: output.to_owned(),
        when: When::Latest,
        force: false,
        dry_run: false,
        integrity: IntegrityCheck::Full,
    }
}

/// Everything that was planned with is merged and deleted after the proof, which keeps small objects in memory: these are larger.
#[tokio::test]
async fn what_was_planned_with_is_merged_and_deleted_meanwhile() {
    let mut scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    for _ in 0..12 {
        insert(&app, 2, 200_000);
        scene.point().await;
    }
    let (vault, other, output) = (scene.path("vault"), scene.path("other"), scene.path("back.db"));
    copy(&vault, &other);
    // Who restores has written nothing there.
    scene.store = Arc::new(FileStore::new(vault.clone()));
    scene.tick(3600 * 1000);
    let level = |seconds| LevelPolicy { interval: Duration::from_secs(seconds), keep: None };
    let upkeep = Upkeep {
        levels: vec![level(30)],
        base_interval: None,
        retention: Retention { grace: Duration::ZERO, ..Retention::default() },
        ..Upkeep::default()
    };
    let options = Options { path: None, upkeep: Arc::new(upkeep), ..scene.options() };
    let merging =
        scene.engine_on(Vault::new(Arc::new(FileStore::new(other.clone())), Policy::default()), options, None);
    merging.maintain(false).await.expect("merged");
    let level_0 = names(&other.join("ltx/0"));
    assert!(level_0.len() == 1 && !names(&other.join("ltx/1")).is_empty(), "{level_0:?}");
    let swap = Arc::new(Swap { vault, other: other.clone() });
    let restored = scene.engine().restore(&request(&output), swap).await.expect("restored");
    assert!(!other.exists(), "it was planned before");
    assert!(restored.objects.iter().any(|object| object.key.starts_with("ltx/1/")), "{:?}", restored.objects);
    assert_eq!(content(&output), content_of(&app));
}

/// An object that a listing shows and a request doesn't find, whichever call of the restore it is.
#[tokio::test]
async fn any_object_may_vanish_once() {
    let store = SimulatedStore::new(MemoryStore::new(), 3);
    let scene = Scene::on(tempfile::tempdir().expect("a folder"), Arc::new(store.clone()));
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    for _ in 0..4 {
        insert(&app, 2, 3000);
        scene.point().await;
    }
    let gone = |object: &str| Fault::Fail(Error::NotFound { object: object.to_owned() });
    for position in 0.. {
        let first = store.call_count();
        store.fail_call(first + position, gone("it"));
        let restored = scene.restore(When::Latest).await.unwrap_or_else(|e| unreachable!("call {position}: {e}"));
        assert_eq!(restored, content_of(&app), "call {position}");
        if store.call_count() <= first + position {
            assert!(position >= 7, "only {position} calls");
            break;
        }
    }
}

/// One that is gone for good is told by name, in a bounded number of attempts.
#[tokio::test]
async fn what_is_gone_for_good_is_told() {
    let store = SimulatedStore::new(MemoryStore::new(), 4);
    let scene = Scene::on(tempfile::tempdir().expect("a folder"), Arc::new(store.clone()));
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    store.forbid("get", Error::NotFound { object: "the/object".into() });
    let failure = scene.restore(When::Latest).await.expect_err("it can't be read");
    assert!(failure.to_string().contains("the/object"), "{failure}");
    assert!(store.calls().iter().filter(|call| call.operation == "get").count() < 20);
    store.revive();
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}
