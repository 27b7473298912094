//! Restarts, lost state, replaced files, other writers: either the history continues, or a new base and a hole show
//! that it didn't.

use std::fs;

use seawall_core::abilities::*;
use seawall_core::{Kind, Moment, Shutdown, When};

use crate::world::{SCHEMA, Scene, app, content_of, insert, names};

#[tokio::test]
async fn lost_state_is_found_again_in_the_vault() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    insert(&app, 3, 100);
    scene.point().await;
    fs::remove_dir_all(scene.state_dir()).expect("removed");
    insert(&app, 3, 100);
    scene.point().await;
    assert_eq!(scene.level(9).len(), 1, "no new base");
    assert_eq!(scene.level(0).last().map(String::as_str), Some("0000000000000004-0000000000000004.ltx"));
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

#[tokio::test]
async fn a_wal_restarted_behind_our_back_is_a_hole() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    insert(&app, 3, 100);
    let before = (scene.point().await, content_of(&app));
    insert(&app, 1, 100);
    app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpointed");
    insert(&app, 2, 100);
    scene.tick(60_000);
    let after = (scene.point().await, content_of(&app));
    assert_eq!(scene.level(9).len(), 2);
    for (point, record) in [&before, &after] {
        assert_eq!(&scene.restore(When::Position(point.position.clone())).await.expect("restored"), record);
    }
    let timeline = scene.engine().timeline().await.expect("a timeline");
    assert_eq!(timeline.spans.len(), 2);
    assert_eq!(timeline.holes.len(), 1);
    assert_eq!((timeline.holes[0].from.as_ref(), &timeline.holes[0].to), (Some(&before.0), &after.0));
    let inside = Moment::from_millis(before.0.moment.as_millis() + 30_000);
    let refused = scene.restore(When::Moment(inside)).await.expect_err("a hole");
    assert_eq!((refused.kind, refused.code), (Kind::Refused, "sqlite.unreachable"));
    assert!(refused.next.contains(&before.0.position), "{}", refused.next);
    assert_eq!(&scene.restore(When::Moment(before.0.moment)).await.expect("restored"), &before.1);
}

#[tokio::test]
async fn a_replaced_database_begins_with_a_base() {
    let scene = Scene::new();
    let old = scene.app();
    old.execute_batch(SCHEMA).expect("schema");
    insert(&old, 3, 100);
    scene.point().await;
    drop(old);
    for file in ["app.db", "app.db-wal", "app.db-shm"] {
        let _may_be_absent = fs::remove_file(scene.path(file));
    }
    let new = scene.app();
    new.execute_batch(SCHEMA).expect("schema");
    insert(&new, 9, 50);
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&new));
    assert_eq!(scene.level(9).len(), 2);
}

#[tokio::test]
async fn another_page_size_begins_with_a_base() {
    let scene = Scene::new();
    let one = scene.app();
    one.execute_batch(SCHEMA).expect("schema");
    insert(&one, 30, 500);
    scene.point().await;
    one.execute_batch("PRAGMA journal_mode=delete; PRAGMA page_size=1024; VACUUM; PRAGMA journal_mode=wal")
        .expect("changed");
    insert(&one, 1, 1);
    scene.point().await;
    insert(&one, 1, 1);
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&one));
}

#[tokio::test]
async fn a_vault_that_lost_objects_never_sees_a_txid_twice() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    for _ in 0..3 {
        insert(&app, 1, 100);
        scene.point().await;
    }
    let newest = scene.level(0).pop().expect("a file");
    assert_eq!(newest, "0000000000000004-0000000000000004.ltx");
    fs::remove_file(scene.path("vault/ltx/0").join(&newest)).expect("removed");
    insert(&app, 1, 100);
    let lost = scene.engine().take_point(&Shutdown::new()).await.expect_err("an acknowledged object is gone");
    assert_eq!((lost.kind, lost.code), (Kind::Corrupt, "sqlite.lost"));
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app), "it is protected all the same");
    let point = scene.point().await;
    assert_eq!(point.position, "0000000000000005");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

#[tokio::test]
async fn a_clock_set_back_keeps_moments_in_order() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let first = scene.point().await;
    scene.jump(-3_600_000);
    insert(&app, 1, 100);
    let second = scene.point().await;
    assert!(second.moment >= first.moment);
    // Both have one moment, and only their ids tell them apart.
    let refused = scene.restore(When::Moment(second.moment)).await.expect_err("in doubt");
    assert_eq!(refused.code, "sqlite.moments-in-doubt");
    assert_eq!(scene.restore(When::Position(second.position)).await.expect("restored"), content_of(&app));
}

#[tokio::test]
async fn a_second_one_on_the_same_database_or_vault_is_refused() {
    let scene = Scene::new();
    let app_connection = scene.app();
    app_connection.execute_batch(SCHEMA).expect("schema");
    let shutdown = Shutdown::new();
    let engine = scene.watching();
    let running = engine.run(&shutdown);
    let others = async {
        crate::world::until("it protects", async || engine.status().await.is_ok_and(|s| s.protected.is_some())).await;
        let same = scene.engine().take_point(&Shutdown::new()).await.expect_err("the database is locked");
        let other = scene.path("other.db");
        app(&other).execute_batch(SCHEMA).expect("schema");
        let options = seawall_sqlite::Options { path: Some(other), ..scene.options() };
        let vault = scene.engine_with(options, None).take_point(&Shutdown::new()).await;
        let vault = vault.expect_err("the vault is locked");
        for refused in [same, vault] {
            assert_eq!((refused.kind, refused.code), (Kind::Conflict, "sqlite.locked"));
        }
        shutdown.begin();
    };
    let (run, ()) = tokio::join!(running, others);
    run.expect("a graceful stop");
}

#[tokio::test]
async fn what_is_no_database_is_named() {
    let scene = Scene::new();
    let code = async || scene.engine().take_point(&Shutdown::new()).await.expect_err("no database").code;
    assert_eq!(code().await, "sqlite.missing");
    fs::write(scene.database(), b"").expect("written");
    assert_eq!(code().await, "sqlite.empty");
    fs::write(scene.database(), [b'x'; 5000]).expect("written");
    assert_eq!(code().await, "sqlite.not-a-database");
    fs::remove_file(scene.database()).expect("removed");
    fs::create_dir(scene.database()).expect("made");
    assert_eq!(code().await, "sqlite.not-a-database");
    assert_eq!(names(&scene.path("vault")), Vec::<String>::new());
}
