//! Ways to miss a commit, or to take something else for a commit. Each was found by trying to break the engine.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::sync::Arc;

use seawall_core::abilities::*;
use seawall_core::{Kind, Moment, Phase, Shutdown, When};
use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid};
use seawall_sqlite::{Options, Sqlite};

use crate::world::{SCHEMA, Scene, app, content_of, insert, insert_beside, until};

/// Runs an engine beside `work`, then stops it gracefully.
async fn while_running(engine: Sqlite, work: impl AsyncFnOnce(&Sqlite)) -> Result<(), seawall_core::Failure> {
    let (engine, shutdown) = (Arc::new(engine), Shutdown::new());
    let running = tokio::spawn({
        let (engine, shutdown) = (engine.clone(), shutdown.clone());
        async move { engine.run(&shutdown).await }
    });
    protecting(&engine).await;
    work(&engine).await;
    shutdown.begin();
    running.await.expect("no panic")
}

async fn protecting(engine: &Sqlite) {
    until("it protects", async || engine.status().await.is_ok_and(|status| status.phase == Phase::Protecting)).await;
}

/// Older versions of SQLite lose commits when a WAL is restarted at the wrong moment (#1432, #1436).
#[test]
fn the_sqlite_that_is_built_in_restarts_a_wal_safely() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

/// SQLite puts the WAL beside the real file.
#[tokio::test]
async fn a_database_behind_a_symbolic_link() {
    let scene = Scene::new();
    fs::create_dir(scene.path("real")).expect("made");
    let real = app(&scene.path("real/app.db"));
    real.execute_batch(SCHEMA).expect("schema");
    symlink(scene.path("real/app.db"), scene.database()).expect("linked");
    while_running(scene.watching(), async |_| insert_beside(&real, 5, 100).await).await.expect("a graceful stop");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&real));
    let link = scene.path("link.db");
    fs::write(scene.path("real/restored.db"), b"").expect("written");
    symlink(scene.path("real/restored.db"), &link).expect("linked");
    scene.restore_to(&link, When::Latest).await.expect("restored");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink(), "a link stays a link");
}

/// A writer that is killed between its frames and their publication leaves frames that look like a commit.
#[tokio::test]
async fn frames_that_were_never_published() {
    let scene = Scene::new();
    let app_connection = scene.app();
    app_connection.execute_batch(SCHEMA).expect("schema");
    insert(&app_connection, 3, 100);
    scene.point().await;
    // The frames of the killed writer: made in a copy, and put behind the end of the real WAL.
    fs::create_dir(scene.path("copy")).expect("made");
    for file in ["app.db", "app.db-wal"] {
        fs::copy(scene.path(file), scene.path("copy").join(file)).expect("copied");
    }
    let length = fs::metadata(scene.path("app.db-wal")).expect("a WAL").len();
    let killed = app(&scene.path("copy/app.db"));
    insert(&killed, 50, 3000);
    let phantom = fs::read(scene.path("copy/app.db-wal")).expect("a WAL");
    assert!(phantom.len() as u64 > length);
    let wal = OpenOptions::new().write(true).open(scene.path("app.db-wal")).expect("opened");
    wal.write_all_at(&phantom[length as usize..], length).expect("written");
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app_connection));
    // The next commit overwrites some of them.
    insert(&app_connection, 1, 100);
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app_connection));
    assert_eq!(scene.level(9).len(), 1, "nothing was lost, so no base is needed");
}

/// A person deletes "left-over" side files while we hold them. Our lock then protects nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn side_files_removed_while_running() {
    let scene = Scene::new();
    let first = scene.app();
    first.execute_batch(SCHEMA).expect("schema");
    insert(&first, 30, 1000);
    first.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpointed");
    while_running(scene.watching(), async |engine| {
        insert(&first, 30, 1000);
        until("it caught up", async || engine.status().await.is_ok_and(|status| status.lag_bytes == 0)).await;
        for file in ["app.db-wal", "app.db-shm"] {
            fs::remove_file(scene.path(file)).expect("removed");
        }
        let copied = scene.path("moved.db");
        fs::copy(scene.database(), &copied).expect("copied");
        fs::rename(&copied, scene.database()).expect("renamed");
        let second = scene.app();
        insert(&second, 30, 500);
        let expected = content_of(&second);
        until("the new file is protected", async || {
            scene.restore(When::Latest).await.is_ok_and(|restored| restored == expected)
        })
        .await;
    })
    .await
    .expect("a graceful stop");
    assert_eq!(scene.verify().await.findings, []);
}

/// An application that cuts its WAL (`journal_size_limit`) hides where the old generation ended.
#[tokio::test]
async fn a_wal_that_was_cut_behind_the_captured_place() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(&format!("PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit=32768; {SCHEMA}")).expect("set");
    insert(&app, 1, 10);
    scene.point().await;
    // Captured up to a frame that the limit cuts in two, or leaves whole as the last one.
    for rows in 0..7 {
        insert(&app, 1, rows * 100);
    }
    scene.point().await;
    for _ in 0..40 {
        insert(&app, 1, 3000);
    }
    app.execute_batch("PRAGMA wal_checkpoint(RESTART)").expect("checkpointed");
    insert(&app, 1, 10);
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// A WAL that was cut to nothing while in use: the file alone doesn't hold all commits, so no base is taken from it.
#[tokio::test]
async fn a_wal_that_was_cut_to_nothing_is_no_reason_for_a_base() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 30, 3000);
    app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpointed");
    let update = || app.execute("UPDATE t SET v = randomblob(3000) WHERE id = 7", []).expect("updated");
    update();
    scene.point().await;
    let captured = content_of(&app);
    update();
    let wal = fs::OpenOptions::new().write(true).open(scene.path("app.db-wal")).expect("a WAL");
    wal.set_len(0).expect("cut");
    for _ in 0..3 {
        scene.tick(1000);
        let refused = scene.engine().take_point(&Shutdown::new()).await.expect_err("it can't be captured");
        assert_eq!(refused.code, "sqlite.damaged-wal");
    }
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), captured);
    assert_eq!(scene.engine().timeline().await.expect("a timeline").holes, []);
}

/// An application's RESTART checkpoint begins a generation in the wal-index alone: the file still shows the old one, with
/// commits that were never captured.
#[tokio::test]
async fn a_generation_that_ended_without_a_successor() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3, 100);
    scene.point().await;
    insert(&app, 3, 100);
    app.execute_batch("PRAGMA wal_checkpoint(RESTART)").expect("checkpointed");
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    insert(&app, 3, 100);
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// Captures that were spooled for one vault must not get into another.
#[tokio::test]
async fn a_spool_of_another_history() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    insert(&app, 20, 2000);
    scene.point().await;
    let name = scene.level(0).pop().expect("a capture");
    assert_eq!(name, "0000000000000003-0000000000000003.ltx");
    // Another vault, at the TXID before the spooled capture.
    let other = Scene::new();
    let theirs = other.app();
    theirs.execute_batch(SCHEMA).expect("schema");
    insert(&theirs, 4, 100);
    other.point().await;
    fs::create_dir_all(other.state_dir().join("spool")).expect("made");
    fs::copy(scene.path("vault/ltx/0").join(&name), other.state_dir().join("spool").join(&name)).expect("copied");
    other.point().await;
    assert_eq!(other.restore(When::Latest).await.expect("restored"), content_of(&theirs));
    assert_eq!(other.level(0).len(), 1, "the foreign capture did not get in");
}

/// Between a sealed checkpoint and its upload: the next start ships the spool.
#[tokio::test]
async fn a_spooled_capture_is_shipped_by_the_next_start() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 1, 10);
    scene.point().await;
    insert(&app, 5, 100);
    scene.point().await;
    insert(&app, 5, 100);
    let spooled = (scene.point().await, content_of(&app));
    let name = scene.level(0).pop().expect("a capture");
    fs::create_dir_all(scene.state_dir().join("spool")).expect("made");
    fs::rename(scene.path("vault/ltx/0").join(&name), scene.state_dir().join("spool").join(&name)).expect("moved");
    fs::remove_file(scene.state_dir().join("state.json")).expect("removed");
    insert(&app, 5, 100);
    scene.point().await;
    assert_eq!(scene.restore(When::Position(spooled.0.position)).await.expect("restored"), spooled.1);
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    assert_eq!(scene.level(9).len(), 1, "no new base");
}

#[tokio::test]
async fn a_damaged_newest_capture_is_mended_by_a_base() {
    for length in [0, 50] {
        let scene = Scene::new();
        let app = scene.app();
        app.execute_batch(SCHEMA).expect("schema");
        scene.point().await;
        insert(&app, 3, 100);
        scene.point().await;
        let newest = scene.path("vault/ltx/0").join(scene.level(0).pop().expect("a capture"));
        let bytes = fs::read(&newest).expect("read");
        fs::write(&newest, &bytes[..length]).expect("cut");
        insert(&app, 3, 100);
        scene.point().await;
        assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    }
}

/// Litestream's VFS writes captures without a WAL position. A process that continues from one takes a base, and doesn't
/// stop.
#[tokio::test]
async fn a_newest_capture_that_says_nothing_of_the_wal() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3, 100);
    let before = scene.point().await;
    let newest = Txid(u64::from_str_radix(&before.position, 16).expect("a TXID") + 1);
    app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
    let file = fs::read(scene.database()).expect("read");
    let size = PageSize::new(4096).expect("a page size");
    let pages = u32::try_from(file.len() / 4096).expect("a few");
    let mut header = Header::new(size, pages, newest, newest);
    (header.no_checksum, header.timestamp_ms) = (true, before.moment.as_millis() + 1);
    let mut object = Vec::new();
    let mut encoder = Encoder::new(header, &mut object).expect("a header");
    encoder.push(PageNo(1), &file[..4096], &mut object).expect("a page");
    encoder.finish(Checksum::NONE, &mut object).expect("an end");
    fs::write(scene.path(&format!("vault/ltx/0/{newest}-{newest}.ltx")), object).expect("written");
    insert(&app, 3, 100);
    let point = scene.point().await;
    assert!(point.position > newest.to_string(), "{point:?}");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    let bases = scene.level(9);
    assert_eq!(bases.last().map(|name| name.contains(&point.position)), Some(true), "a base behind it: {bases:?}");
}

#[tokio::test]
async fn a_moment_behind_a_gap_is_refused() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let mut points = Vec::new();
    for _ in 0..5 {
        insert(&app, 1, 100);
        points.push(scene.point().await);
    }
    fs::remove_file(scene.path("vault/ltx/0/0000000000000004-0000000000000004.ltx")).expect("removed");
    let later = Moment::from_millis(points[4].moment.as_millis() + 1000);
    let refused = scene.restore(When::Moment(later)).await.expect_err("a gap");
    assert_eq!((refused.kind, refused.code), (Kind::Refused, "sqlite.unreachable"));
    scene.restore(When::Moment(points[1].moment)).await.expect("before the gap");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_directory_deleted_while_running() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    while_running(scene.watching(), async |engine| {
        // The engine may write into it meanwhile.
        until("it is removed", async || fs::remove_dir_all(scene.state_dir()).is_ok()).await;
        insert(&app, 3, 100);
        protecting(engine).await;
        let second = scene.engine().take_point(&Shutdown::new()).await.expect_err("the first one still runs");
        assert_eq!(second.code, "sqlite.locked");
        insert(&app, 3, 100);
    })
    .await
    .expect("a graceful stop");
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    assert_eq!(scene.level(9).len(), 1);
}

/// A restore that can't take its name leaves the old database unchanged, with its WAL.
#[tokio::test]
async fn a_restore_that_fails_at_the_end_destroys_nothing() {
    let scene = Scene::new();
    let app_connection = scene.app();
    app_connection.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    fs::create_dir(scene.path("old.db")).expect("made");
    let wal = scene.path("old.db-wal");
    fs::write(&wal, b"a WAL").expect("written");
    let request = seawall_core::RestoreRequest {
        output: scene.path("old.db"),
        when: When::Latest,
        force: true,
        dry_run: false,
        integrity: seawall_core::IntegrityCheck::None,
    };
    let engine = scene.engine_with(Options::default(), None);
    engine.restore(&request, Arc::new(seawall_core::NoProgress)).await.expect_err("it is a directory");
    assert_eq!(fs::read(&wal).expect("still there"), b"a WAL");
}

/// A store may keep the beginning of an object whose upload broke off with its writer, and call it whole.
#[tokio::test]
async fn the_newest_object_was_cut_by_the_store() {
    let lengths: [fn(u64) -> u64; 4] = [|_| 100, |_| 101, |length| length / 2, |length| length - 1];
    for left in lengths {
        let scene = Scene::new();
        let app = scene.app();
        app.execute_batch(SCHEMA).expect("schema");
        insert(&app, 3, 100);
        scene.point().await;
        let whole = content_of(&app);
        insert(&app, 5, 3000);
        let cut = scene.point().await;
        let newest = scene.path("vault/ltx/0").join(scene.level(0).last().expect("an object"));
        let length = left(fs::metadata(&newest).expect("there").len());
        OpenOptions::new().write(true).open(&newest).expect("opened").set_len(length).expect("cut");
        // Commits from here on are restored, and so are those before.
        insert(&app, 1, 100);
        let point = scene.point().await;
        assert!(point.position > cut.position);
        assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app), "{length} bytes");
        let before = When::Moment(Moment::from_millis(cut.moment.as_millis() - 1));
        assert_eq!(scene.restore(before).await.expect("restored"), whole, "{length} bytes");
    }
}

/// SQLite doesn't look at checksums when it reads, so a damaged frame stays unnoticed in the application.
#[tokio::test]
async fn a_committed_frame_is_damaged() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3, 100);
    let before = scene.point().await;
    let known = content_of(&app);
    insert(&app, 1, 3000);
    let wal = OpenOptions::new().read(true).write(true).open(scene.path("app.db-wal")).expect("opened");
    let last = wal.metadata().expect("there").len() - 1;
    let mut byte = [0];
    wal.read_exact_at(&mut byte, last).expect("read");
    wal.write_all_at(&[byte[0] ^ 1], last).expect("written");
    let told = scene.engine().take_point(&Shutdown::new()).await.expect_err("it is damaged");
    assert_eq!(told.code, "sqlite.damaged-wal");
    // Once the damaged page is in the database file, it is the application's content.
    app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("copied");
    insert(&app, 1, 100);
    scene.point().await;
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    assert_eq!(scene.restore(When::Position(before.position)).await.expect("restored"), known);
}
