//! The status says when the content of the vault was last read back.

use std::sync::Arc;
use std::time::Duration;

use seawall_core::abilities::*;
use seawall_core::{IntegrityCheck, Moment, NoProgress, RestoreRequest, Shutdown, When};
use seawall_sqlite::{Sqlite, Upkeep};

use crate::world::{SCHEMA, Scene, content, content_of, insert, until};

async fn read_at(engine: &Sqlite) -> Option<Moment> {
    engine.status().await.expect("a status").content_read_at
}

fn request(scene: &Scene, when: When) -> RestoreRequest {
    let output = scene.path("restored.db");
    RestoreRequest { output, when, force: true, dry_run: false, integrity: IntegrityCheck::Full }
}

#[tokio::test]
async fn what_reads_everything_is_noted_and_what_reads_a_part_is_not() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3, 300);
    let first = scene.point().await;
    insert(&app, 3, 300);
    scene.point().await;
    let engine = scene.engine();
    assert_eq!(read_at(&engine).await, None, "never");
    let restore = async |when: When, dry_run: bool| {
        let request = RestoreRequest { dry_run, ..request(&scene, when) };
        scene.engine().restore(&request, Arc::new(NoProgress)).await.expect("restored");
    };
    scene.tick(1000);
    restore(When::Position(first.position.clone()), false).await;
    restore(When::Latest, true).await;
    assert_eq!(read_at(&engine).await, None, "a part, and a plan");
    restore(When::Latest, false).await;
    assert_eq!(read_at(&engine).await, Some(scene.clock_now()));
    assert_eq!(content(&scene.path("restored.db")), content_of(&app));
    scene.tick(1000);
    assert_eq!(scene.verify().await.findings, []);
    let verified = scene.clock_now();
    assert_eq!(read_at(&engine).await, Some(verified));
    scene.tick(1000);
    engine.verify_strong(Arc::new(NoProgress)).await.expect("verified");
    let verified = Some(scene.clock_now());
    assert_eq!(read_at(&engine).await, verified);
    // The damaged object was read, and is wrong.
    let capture = scene.path("vault/ltx/0").join(scene.level(0).pop().expect("a capture"));
    let mut bytes = std::fs::read(&capture).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&capture, bytes).expect("flipped");
    scene.tick(1000);
    assert_ne!(scene.verify().await.findings, []);
    assert_eq!(read_at(&engine).await, verified);
}

/// The running process hears of it by its sweep, and by its own merges.
#[tokio::test]
async fn a_running_protection_tells_what_another_process_read_and_what_it_merged() {
    let mut scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3, 300);
    scene.point().await;
    let (engine, shutdown) = (scene.watching(), Shutdown::new());
    let story = async {
        until("it is protected", async || engine.known_status().await.is_ok_and(|status| status.protected.is_some()))
            .await;
        scene.verify().await;
        let verified = Some(scene.clock_now());
        until("the reading is told", async || {
            engine.known_status().await.is_ok_and(|status| status.content_read_at == verified)
        })
        .await;
        shutdown.begin();
    };
    let (run, ()) = tokio::join!(engine.run(&shutdown), story);
    assert_eq!(run, Ok(()));
    scene.upkeep =
        Arc::new(Upkeep { base_interval: Some(Duration::from_secs(60)), ..Arc::unwrap_or_clone(scene.upkeep.clone()) });
    insert(&app, 3, 300);
    scene.point().await;
    scene.tick(120_000);
    let made = scene.engine().maintain(false).await.expect("merged").made;
    assert_eq!(made.len(), 1, "a base of everything");
    assert_eq!(read_at(&scene.engine()).await, Some(scene.clock_now()));
}
