//! A follower: after any trouble of the vault, the store or the follower itself, its file is a state of the database,
//! and in the end the newest one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Failure, FollowRequest, Followed, IntegrityCheck, NoProgress, Shutdown, When};
use seawall_ltx::merge_all;
use seawall_sqlite::{Options, Sqlite};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};

use crate::world::{SCHEMA, Scene, content, content_of, insert, insert_beside, until};

/// Longer than any deadline of the vault; time is simulated.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

fn request(output: &Path) -> FollowRequest {
    FollowRequest {
        output: output.to_owned(),
        force: false,
        integrity: IntegrityCheck::Quick,
        interval: Duration::from_millis(20),
        position_file: false,
    }
}

fn follower(scene: &Scene) -> Sqlite {
    scene.engine_with(Options::default(), None)
}

/// Follows while `work` is done, and until the file holds what the application's database holds then.
async fn follow_while(
    scene: &Scene,
    request: &FollowRequest,
    app: &Connection,
    work: impl AsyncFnOnce(),
) -> Result<Followed, Failure> {
    let (engine, shutdown) = (follower(scene), Shutdown::new());
    let driving = async {
        work().await;
        until("the follower has everything", async || equal(&request.output, app)).await;
        shutdown.begin();
    };
    let following = engine.follow(request, &shutdown, Arc::new(NoProgress));
    let ((), followed) = tokio::join!(driving, following);
    followed
}

async fn catch_up(scene: &Scene, output: &Path, app: &Connection) -> Followed {
    follow_while(scene, &request(output), app, async || {}).await.expect("followed")
}

fn equal(output: &Path, app: &Connection) -> bool {
    output.exists() && content(output) == content_of(app)
}

/// Page by page what a restore gives, but for what SQLite keeps for itself in the header.
async fn assert_like_a_restore(scene: &Scene, output: &Path) {
    let restored = scene.path(&format!("like-{}.db", output.file_name().expect("a name").to_string_lossy()));
    scene.restore_to(&restored, When::Latest).await.expect("restored");
    let plain = |path: &Path| {
        let mut bytes = std::fs::read(path).expect("read");
        for kept in [18..20, 24..32, 92..96] {
            bytes[kept].fill(0);
        }
        bytes
    };
    assert!(plain(output) == plain(&restored), "the file isn't what a restore gives");
    std::fs::remove_file(restored).expect("removed");
}

#[tokio::test]
async fn every_change_arrives_and_the_file_is_what_a_restore_gives() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 50, 3000);
    scene.point().await;
    let output = scene.path("standby.db");
    let work = async || {
        for round in 0..6 {
            insert(&app, 20, 2000);
            app.execute_batch("DELETE FROM t WHERE id % 3 = 0").expect("deleted");
            if round == 3 {
                app.execute_batch("VACUUM").expect("vacuumed");
            }
            scene.point().await;
            until("a change arrived", async || equal(&output, &app)).await;
        }
    };
    let followed = follow_while(&scene, &request(&output), &app, work).await.expect("followed");
    assert!(followed.steps >= 6, "{followed:?}");
    assert_like_a_restore(&scene, &output).await;
    for left in ["-wal", "-shm", "-journal", "-journal.tmp"] {
        assert!(!scene.path(&format!("standby.db{left}")).exists(), "{left} is left");
    }
    // It continues from its position, without making the file again.
    let before = std::fs::metadata(&output).map(|found| std::os::unix::fs::MetadataExt::ino(&found)).expect("there");
    insert(&app, 5, 100);
    scene.point().await;
    catch_up(&scene, &output, &app).await;
    let after = std::fs::metadata(&output).map(|found| std::os::unix::fs::MetadataExt::ino(&found)).expect("there");
    assert_eq!(before, after);
    assert_like_a_restore(&scene, &output).await;
}

#[tokio::test]
async fn a_reader_in_a_transaction_keeps_its_state_and_the_change_comes_behind_it() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 5, 100);
    scene.point().await;
    let output = scene.path("standby.db");
    let work = async || {
        until("the file is there", async || equal(&output, &app)).await;
        let reader = Connection::open(&output).expect("opened");
        reader.busy_timeout(Duration::from_secs(10)).expect("set");
        let rows = || reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0));
        reader.execute_batch("BEGIN").expect("begun");
        assert_eq!(rows(), Ok(5));
        insert(&app, 5, 100);
        scene.point().await;
        // The follower has had time for several attempts; the transaction doesn't see any of them.
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(rows(), Ok(5));
        }
        reader.execute_batch("COMMIT").expect("ended");
        until("the reader sees the change", async || rows() == Ok(10)).await;
    };
    follow_while(&scene, &request(&output), &app, work).await.expect("followed");
}

/// Compacts the captures `min` to `max` into level 1 and removes them.
fn compact(scene: &Scene, min: u64, max: u64) {
    let name = |min: u64, max: u64| format!("{min:016x}-{max:016x}.ltx");
    let level = |level: u8| scene.path("vault/ltx").join(level.to_string());
    let files: Vec<Vec<u8>> =
        (min..=max).map(|n| std::fs::read(level(0).join(name(n, n))).expect("a capture")).collect();
    let mut merged = Vec::new();
    merge_all(&files.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut merged).expect("merged");
    std::fs::create_dir_all(level(1)).expect("made");
    std::fs::write(level(1).join(name(min, max)), merged).expect("written");
    (min..=max).for_each(|n| std::fs::remove_file(level(0).join(name(n, n))).expect("removed"));
}

#[tokio::test]
async fn compacted_captures_are_bridged() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let output = scene.path("standby.db");
    scene.point().await;
    catch_up(&scene, &output, &app).await;
    for _ in 0..6 {
        insert(&app, 5, 900);
        scene.point().await;
    }
    // Captures 3 to 8; the first is in the middle of what level 1 holds, for a follower at 2 and for one at 4.
    let middle = scene.path("middle.db");
    catch_up(&scene, &middle, &app).await;
    compact(&scene, 3, 7);
    insert(&app, 5, 900);
    scene.point().await;
    for file in [&output, &middle] {
        catch_up(&scene, file, &app).await;
        assert_like_a_restore(&scene, file).await;
    }
}

#[tokio::test]
async fn a_base_is_bridged_where_nothing_else_is_left() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 20, 900);
    scene.point().await;
    let output = scene.path("standby.db");
    catch_up(&scene, &output, &app).await;
    insert(&app, 30, 900);
    scene.point().await;
    // An unobserved restart of the WAL: a new base, in level 9 and in level 0.
    app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpointed");
    insert(&app, 5, 900);
    scene.point().await;
    insert(&app, 5, 900);
    scene.point().await;
    let captures = scene.level(0);
    for name in &captures[..captures.len() - 1] {
        std::fs::remove_file(scene.path("vault/ltx/0").join(name)).expect("removed");
    }
    catch_up(&scene, &output, &app).await;
    assert_like_a_restore(&scene, &output).await;
}

#[tokio::test]
async fn another_page_size_is_followed() {
    let scene = Scene::new();
    let output = scene.path("standby.db");
    {
        let app = scene.app();
        app.execute_batch(SCHEMA).expect("schema");
        insert(&app, 50, 900);
        scene.point().await;
        catch_up(&scene, &output, &app).await;
    }
    let app = scene.app();
    app.execute_batch("PRAGMA journal_mode=delete; PRAGMA page_size=1024; VACUUM; PRAGMA journal_mode=wal")
        .expect("another page size");
    insert(&app, 5, 900);
    scene.point().await;
    catch_up(&scene, &output, &app).await;
    assert_like_a_restore(&scene, &output).await;
}

#[tokio::test]
async fn a_file_that_somebody_wrote_to_is_left_alone() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 5, 100);
    scene.point().await;
    let output = scene.path("standby.db");
    catch_up(&scene, &output, &app).await;
    let stranger = Connection::open(&output).expect("opened");
    insert(&stranger, 1, 100);
    let written = content_of(&stranger);
    drop(stranger);
    insert(&app, 5, 100);
    scene.point().await;
    let refused = follower(&scene).follow(&request(&output), &Shutdown::new(), Arc::new(NoProgress)).await;
    assert_eq!(refused.expect_err("refused").code, "sqlite.diverged");
    assert_eq!(content(&output), written);
    let forced = FollowRequest { force: true, ..request(&output) };
    follow_while(&scene, &forced, &app, async || {}).await.expect("followed");
    assert_like_a_restore(&scene, &output).await;
}

#[tokio::test]
async fn a_stranger_is_noticed_while_following_too() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    let output = scene.path("standby.db");
    let (engine, shutdown, request) = (follower(&scene), Shutdown::new(), request(&output));
    let driving = async {
        until("the file is there", async || equal(&output, &app)).await;
        let stranger = Connection::open(&output).expect("opened");
        stranger.busy_timeout(Duration::from_secs(10)).expect("set");
        insert_beside(&stranger, 1, 100).await;
        insert(&app, 5, 100);
        scene.point().await;
        content_of(&stranger)
    };
    let (written, followed) = tokio::join!(driving, engine.follow(&request, &shutdown, Arc::new(NoProgress)));
    assert_eq!(followed.expect_err("refused").code, "sqlite.diverged");
    assert_eq!(content(&output), written);
}

#[tokio::test(start_paused = true)]
async fn a_vault_that_ends_before_the_file_is_told() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    insert(&app, 5, 100);
    scene.point().await;
    let output = scene.path("standby.db");
    catch_up(&scene, &output, &app).await;
    let record = content(&output);
    let newest = scene.level(0).pop().expect("a capture");
    std::fs::remove_file(scene.path("vault/ltx/0").join(newest)).expect("removed");
    let refused = follower(&scene).follow(&request(&output), &Shutdown::new(), Arc::new(NoProgress)).await;
    assert_eq!(refused.expect_err("refused").code, "sqlite.went-back");
    assert_eq!(content(&output), record);
}

#[tokio::test]
async fn a_file_that_follows_nothing_is_refused() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    let output = scene.path("standby.db");
    scene.restore_to(&output, When::Latest).await.expect("restored");
    let before = std::fs::read(&output).expect("read");
    let refused = follower(&scene).follow(&request(&output), &Shutdown::new(), Arc::new(NoProgress)).await;
    assert_eq!(refused.expect_err("refused").code, "sqlite.target-exists");
    assert_eq!(std::fs::read(&output).expect("read"), before);
}

fn simulated() -> (Scene, SimulatedStore) {
    let store = SimulatedStore::new(MemoryStore::new(), 7);
    let directory = tempfile::tempdir().expect("a folder");
    (Scene::on(directory, Arc::new(store.clone())), store)
}

/// What a follower costs: at one look a second one read a second, and a listing of one object now and then.
#[tokio::test(start_paused = true)]
async fn an_idle_hour_costs_one_read_a_second_and_hardly_a_listing() {
    let (scene, store) = simulated();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    let output = scene.path("standby.db");
    let request = FollowRequest { interval: Duration::from_secs(1), ..request(&output) };
    let mut from = 0;
    let work = async || {
        until("the file is there", async || equal(&output, &app)).await;
        from = store.call_count() as usize;
        tokio::time::sleep(Duration::from_secs(3600)).await;
    };
    follow_while(&scene, &request, &app, work).await.expect("followed");
    let calls = store.calls();
    let count = |operation: &str| calls[from..].iter().filter(|call| call.operation == operation).count();
    assert!((3500..=3620).contains(&count("get")), "{} reads", count("get"));
    assert!(count("list") <= 30, "{} listings", count("list"));
    assert_eq!(count("put") + count("head") + count("delete"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_away_is_followed_again() {
    let (scene, store) = simulated();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    let output = scene.path("standby.db");
    let work = async || {
        until("the file is there", async || equal(&output, &app)).await;
        store.fail_from(0);
        tokio::time::sleep(Duration::from_secs(600)).await;
        store.revive();
        insert(&app, 5, 100);
        scene.point().await;
    };
    follow_while(&scene, &request(&output), &app, work).await.expect("followed");
    assert_like_a_restore(&scene, &output).await;
}

// A follower only reads: an answer that is lost is a request that is lost.

#[tokio::test(start_paused = true)]
async fn at_every_call_of_a_start() {
    for fault in [Fault::Error, Fault::BrokenStream, Fault::Hang, Fault::Crash] {
        let mut position = 0;
        while one_fault(fault.clone(), position, false).await {
            position += 1;
        }
        assert!(position >= 8, "only {position} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn at_every_call_of_going_on() {
    for fault in [Fault::Error, Fault::StaleList, Fault::Delay(Duration::from_secs(20)), Fault::Crash] {
        let mut position = 0;
        while one_fault(fault.clone(), position, true).await {
            position += 1;
        }
        assert!(position >= 5, "only {position} calls");
    }
}

/// Follows with a fault at this call, ends the follower at any stage, and starts another one. Returns whether there was
/// such a call.
async fn one_fault(fault: Fault, position: u64, goes_on: bool) -> bool {
    let what = format!("{fault:?} at call {position}");
    let (scene, store) = simulated();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 5, 500);
    scene.point().await;
    let output = scene.path("standby.db");
    if goes_on {
        catch_up(&scene, &output, &app).await;
    }
    let mut records = vec![content_of(&app)];
    for _ in 0..2 {
        insert(&app, 5, 500);
        scene.point().await;
        records.push(content_of(&app));
    }
    let first = store.call_count();
    store.fail_call(first + position, fault);
    let work = async || until("everything or the fault", async || equal(&output, &app) || crashed(&store)).await;
    let (engine, shutdown, request) = (follower(&scene), Shutdown::new(), request(&output));
    let attempt = {
        let driving = async {
            work().await;
            // A look or two at a vault with nothing new, so that they meet the fault too.
            tokio::time::sleep(Duration::from_millis(30)).await;
            shutdown.begin();
        };
        let following = engine.follow(&request, &shutdown, Arc::new(NoProgress));
        tokio::time::timeout(PATIENCE, async { tokio::join!(driving, following) }).await
    };
    let reached = store.call_count() > first + position;
    if !crashed(&store)
        && let Ok(((), Err(failure))) = attempt
    {
        unreachable!("{what}: {failure}");
    }
    store.revive();
    // Whatever it left is a state of the database.
    if output.exists() {
        let left = content(&output);
        assert!(records.contains(&left), "{what}: no state of the database");
    }
    catch_up(&scene, &output, &app).await;
    reached
}

fn crashed(store: &SimulatedStore) -> bool {
    store.calls().iter().any(|call| call.fault == Some(Fault::Crash))
}

/// The folder of a vault tells of a new object by an event: nothing is asked in between.
#[tokio::test]
async fn a_folder_tells_by_events() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    let output: PathBuf = scene.path("standby.db");
    let watcher = seawall_sqlite::Watcher::start(Duration::from_secs(3600)).expect("inotify");
    let engine = scene.engine_with(Options::default(), Some(watcher));
    // Looking by the clock would take an hour.
    let request = FollowRequest { interval: Duration::from_secs(3600), ..request(&output) };
    let shutdown = Shutdown::new();
    let driving = async {
        for _ in 0..5 {
            insert(&app, 3, 200);
            scene.point().await;
            until("a change arrived", async || equal(&output, &app)).await;
        }
        shutdown.begin();
    };
    let ((), followed) = tokio::join!(driving, engine.follow(&request, &shutdown, Arc::new(NoProgress)));
    followed.expect("followed");
    assert_like_a_restore(&scene, &output).await;
}
