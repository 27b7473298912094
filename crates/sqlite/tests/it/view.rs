//! A view shows at every point, page by page, what a restore of that point gives; and what it can't show it refuses as a
//! restore does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Failure, When};
use seawall_sqlite::{DEFAULT_CACHE, LevelPolicy, Retention, Snapshot, Upkeep, View};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Prefix};

use crate::world::{SCHEMA, Scene, content_of, insert};

/// Every page of a snapshot, as the database file would have it.
async fn bytes_of(view: &View, snapshot: &Arc<Snapshot>) -> Result<Vec<u8>, Failure> {
    let mut reader = view.reader(snapshot.clone());
    let size = snapshot.page_size() as usize;
    let mut bytes = vec![0; size * snapshot.pages() as usize];
    for (number, page) in (1..).zip(bytes.chunks_exact_mut(size)) {
        if let Some(found) = reader.page(number).await? {
            page.copy_from_slice(&found);
        }
    }
    Ok(bytes)
}

async fn view_at(scene: &Scene, when: When) -> Result<(View, Arc<Snapshot>), Failure> {
    let view = View::new(scene.vault(), DEFAULT_CACHE);
    let snapshot = view.at(&when, scene.clock_now()).await?;
    Ok((view, snapshot))
}

/// What a restore of the point gives, or the code of its refusal.
async fn restored(scene: &Scene, when: &When) -> Result<Vec<u8>, &'static str> {
    let output = scene.path("as-restored.db");
    let done = scene.restore_to(&output, when.clone()).await.map_err(|failure| failure.code);
    let bytes = done.map(|_| std::fs::read(&output).expect("read"));
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _may_be_absent = std::fs::remove_file(format!("{}{suffix}", output.display()));
    }
    bytes
}

async fn viewed(scene: &Scene, when: &When) -> Result<Vec<u8>, &'static str> {
    let (view, snapshot) = view_at(scene, when.clone()).await.map_err(|failure| failure.code)?;
    bytes_of(&view, &snapshot).await.map_err(|failure| failure.code)
}

fn upkeep() -> Arc<Upkeep> {
    let level = |seconds| LevelPolicy { interval: Duration::from_secs(seconds), keep: None };
    Arc::new(Upkeep {
        levels: vec![level(5), level(20)],
        base_interval: Some(Duration::from_secs(60)),
        retention: Retention {
            window: Some(Duration::from_secs(120)),
            grace: Duration::from_secs(5),
            ..Retention::default()
        },
        ..Upkeep::default()
    })
}

/// One random change of the application.
fn change(app: &Connection, random: &mut fastrand::Rng) {
    match random.u8(..12) {
        0..6 => insert(app, random.u32(1..30), random.u32(1..3000)),
        6 | 7 => {
            app.execute("DELETE FROM t WHERE id % ?1 = 0", [random.u32(1..5)]).expect("deleted");
        }
        8 => app.execute_batch("VACUUM").expect("vacuumed"),
        9 => {
            app.execute("UPDATE t SET v = randomblob(900) WHERE id % 7 = ?1", [random.u32(..7)]).expect("updated");
        }
        _ => {
            let table = random.u8(..3);
            app.execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS x{table}(a); DROP TABLE x{table}; CREATE TABLE x{table}(a)"
            ))
            .expect("made");
            app.execute(&format!("INSERT INTO x{table} VALUES (randomblob(?1))"), [random.u32(..40_000)])
                .expect("filled");
        }
    }
}

/// Random changes of a database of any page size, merged and thinned out as they come; every point reads as it restores.
async fn compare(seed: u64) {
    eprintln!("SEAWALL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut scene, _) = Scene::in_memory();
    let size = 512 << random.u32(..8);
    Connection::open(scene.database())
        .and_then(|app| app.execute_batch(&format!("PRAGMA page_size = {size}; VACUUM")))
        .expect("a page size");
    if random.bool() {
        scene.upkeep = upkeep();
    }
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let (mut points, mut follower) = (Vec::new(), None);
    for _ in 0..random.u32(3..25) {
        for _ in 0..random.u8(1..3) {
            change(&app, &mut random);
        }
        scene.tick(random.i64(0..8000));
        points.push(scene.point().await);
        match &follower {
            None => follower = Some(view_at(&scene, When::Latest).await.expect("a view").0),
            // Some are left out, so that a view must catch up.
            Some(view) if random.bool() => {
                view.advance().await.expect("advanced");
            }
            Some(_) => {}
        }
    }
    for _ in 0..6 {
        let point = &points[random.usize(..points.len())];
        let whens = [When::Position(point.position.clone()), When::Moment(point.moment)];
        for when in whens {
            let expected = restored(&scene, &when).await;
            assert!(viewed(&scene, &when).await == expected, "{when:?}: {:?}", expected.map(|bytes| bytes.len()));
        }
    }
    let expected = restored(&scene, &When::Latest).await.expect("the newest point");
    assert!(viewed(&scene, &When::Latest).await == Ok(expected.clone()), "the newest point");
    let view = follower.expect("a view");
    view.advance().await.expect("advanced");
    view.advance().await.expect("advanced");
    let newest = view.newest().expect("a snapshot");
    assert_eq!(Some(&newest.point().position), points.last().map(|point| &point.position));
    assert!(bytes_of(&view, &newest).await.expect("read") == expected, "what a view followed");
}

#[tokio::test]
async fn every_point_reads_as_it_restores() {
    for seed in 1..9 {
        compare(seed).await;
    }
    compare(seawall_testing::seed()).await;
}

/// A database of some megabytes in random rows, with captures behind its base.
async fn large(scene: &Scene) -> Connection {
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3000, 3000);
    scene.point().await;
    for _ in 0..5 {
        insert(&app, 2, 500);
        scene.point().await;
    }
    app
}

#[tokio::test]
async fn few_requests_open_it_and_a_scan_joins_its_ranges() {
    let (scene, _) = Scene::in_memory();
    let _app = large(&scene).await;
    let vault = scene.vault();
    let view = View::new(vault.clone(), DEFAULT_CACHE);
    let snapshot = view.at(&When::Latest, scene.clock_now()).await.expect("a view");
    let opened = vault.counts();
    // One listing of all levels, and one that looks for files of Litestream before 0.5.
    assert_eq!(opened.list, 2);
    assert!(opened.get <= 12 && opened.bytes_down < 300_000, "{opened:?}");
    let mut reader = view.reader(snapshot.clone());
    reader.page(1).await.expect("read");
    reader.page(2).await.expect("read");
    reader.page(1).await.expect("read");
    assert!(vault.counts().get <= opened.get + 2);
    let before = vault.counts();
    let bytes = bytes_of(&view, &snapshot).await.expect("read");
    assert!(bytes.len() > 9_000_000);
    let (gets, down) = (vault.counts().get - before.get, vault.counts().bytes_down - before.bytes_down);
    assert!(gets < 40, "{gets} requests for {} pages", snapshot.pages());
    assert!(down < 12_000_000, "{down} bytes");
    assert!(Ok(bytes) == restored(&scene, &When::Latest).await);
    // A small cache costs requests, and no error.
    let tight = View::new(vault.clone(), 20_000);
    let snapshot = tight.at(&When::Latest, scene.clock_now()).await.expect("a view");
    assert!(
        bytes_of(&tight, &snapshot).await.expect("read") == bytes_of(&view, &snapshot_of(&view)).await.expect("read")
    );
}

fn snapshot_of(view: &View) -> Arc<Snapshot> {
    view.newest().expect("a snapshot")
}

#[tokio::test]
async fn a_look_that_finds_nothing_is_one_request_and_no_listing() {
    let (scene, _) = Scene::in_memory();
    let app = large(&scene).await;
    let vault = scene.vault();
    let view = View::new(vault.clone(), DEFAULT_CACHE);
    let first = view.at(&When::Latest, scene.clock_now()).await.expect("a view");
    let before = vault.counts();
    for _ in 0..10 {
        assert!(!view.advance().await.expect("asked"));
    }
    let after = vault.counts();
    assert_eq!((after.get - before.get, after.list - before.list), (10, 0));
    let old = bytes_of(&view, &first).await.expect("read");
    insert(&app, 10, 3000);
    app.execute_batch("DELETE FROM t WHERE id < 2900; VACUUM").expect("shrunk");
    scene.point().await;
    assert!(view.advance().await.expect("asked"));
    let newest = snapshot_of(&view);
    assert!(newest.pages() < first.pages());
    assert!(Ok(bytes_of(&view, &newest).await.expect("read")) == restored(&scene, &When::Latest).await);
    // A reader that began before keeps its state.
    assert!(bytes_of(&view, &first).await.expect("read") == old);
}

#[tokio::test]
async fn a_copy_on_the_local_disk_serves_what_has_not_changed() {
    let (scene, _) = Scene::in_memory();
    let app = large(&scene).await;
    let vault = scene.vault();
    // Too small a cache to hide where pages come from.
    let view = View::new(vault.clone(), 20_000);
    let first = view.at(&When::Latest, scene.clock_now()).await.expect("a view");
    let progress = Arc::new(seawall_core::NoProgress);
    view.copy_to_disk(scene.directory.path(), progress.clone(), 1).await.expect("copied");
    let before = vault.counts();
    let old = bytes_of(&view, &first).await.expect("read");
    assert_eq!(vault.counts().get, before.get, "everything is here");
    assert!(Ok(old.clone()) == restored(&scene, &When::Latest).await);
    app.execute_batch("UPDATE t SET v = randomblob(3000) WHERE id % 100 = 0").expect("changed");
    scene.point().await;
    assert!(view.advance().await.expect("asked"));
    let before = vault.counts();
    let newest = snapshot_of(&view);
    assert!(Ok(bytes_of(&view, &newest).await.expect("read")) == restored(&scene, &When::Latest).await);
    assert!(vault.counts().get > before.get, "what changed is in the vault");
    assert!(bytes_of(&view, &first).await.expect("read") == old);
    let missing = view.copy_to_disk(&scene.path("nosuch"), progress, 1).await.expect_err("no folder");
    assert_eq!(missing.code, "sqlite.io-missing");
}

/// All objects of a level, but for the newest.
async fn delete_level(scene: &Scene, level: u8) -> usize {
    let vault = scene.vault();
    let entries = vault.list(&Prefix::new(format!("{level:04x}/")).expect("a prefix"), None).await.expect("listed");
    let mut keys: Vec<ObjectKey> = entries.into_iter().map(|entry| entry.key).collect();
    keys.pop();
    vault.delete(&keys).await.expect("deleted");
    keys.len()
}

#[tokio::test]
async fn objects_that_vanish_under_a_reader_are_replaced_or_the_read_is_refused() {
    let (mut scene, _) = Scene::in_memory();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 400, 2000);
    scene.point().await;
    for _ in 0..4 {
        // Captures too large to be kept in memory.
        insert(&app, 200, 3000);
        scene.point().await;
    }
    let expected = restored(&scene, &When::Latest).await.expect("restored");
    let (view, snapshot) = view_at(&scene, When::Latest).await.expect("a view");
    let (early, past) = view_at(&scene, When::Position("0000000000000003".into())).await.expect("a view");
    let level = LevelPolicy { interval: Duration::from_secs(600), keep: None };
    scene.upkeep = Arc::new(Upkeep { levels: vec![level], ..Upkeep::default() });
    scene.tick(3_600_000);
    let made = scene.engine().maintain(false).await.expect("merged").made;
    assert!(!made.is_empty());
    assert!(delete_level(&scene, 0).await >= 3);
    // The newest point is also the end of the merged object.
    assert!(bytes_of(&view, &snapshot).await.expect("planned again") == expected);
    // A point inside it is gone. Nothing is mixed.
    let refused = bytes_of(&early, &past).await.expect_err("it is gone");
    assert_eq!(refused.code, "sqlite.point-gone");
}

#[tokio::test]
async fn damaged_objects_are_refused() {
    let (scene, store) = Scene::in_memory();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 400, 3000);
    scene.point().await;
    let vault = scene.vault();
    let key = ObjectKey::new("0009/0000000000000001-0000000000000001.ltx").expect("a key");
    let whole = vault.read(&key, None, 1 << 24).await.expect("the base");
    assert!(whole.len() > 256 << 10, "{}", whole.len());
    let index = seawall_ltx::Index::parse(&whole, whole.len() as u64).expect("an index");
    let frame = usize::try_from(index.entries()[40].offset).expect("an offset");
    let end = whole.len();
    let index_size = usize::from_be_bytes(whole[end - 24..end - 16].try_into().expect("8 bytes"));
    let entries = end - 24 - index_size;
    type Damage = Box<dyn Fn(&mut Vec<u8>)>;
    let damages: Vec<(&str, Damage)> = vec![
        ("another page where the index says", Box::new(move |bytes| bytes[frame + 3] ^= 1)),
        ("a frame that can't be decompressed", Box::new(move |bytes| bytes[frame + 10..frame + 200].fill(0xff))),
        ("a length that lies", Box::new(move |bytes| bytes[frame + 9] ^= 7)),
        ("an index of a huge size", Box::new(move |bytes| bytes[end - 24..end - 16].fill(0xff))),
        ("an index beyond the file", Box::new(move |bytes| bytes[end - 20..end - 18].fill(0x7f))),
        ("an index whose offsets lie", Box::new(move |bytes| bytes[entries + 1] ^= 0x20)),
        ("an index of noise", Box::new(move |bytes| bytes[entries..end - 24].fill(0xa5))),
        ("an object that was cut", Box::new(|bytes| bytes.truncate(300_000))),
        ("an object without its header", Box::new(|bytes| bytes[..100].fill(0))),
    ];
    for (what, damage) in damages {
        let mut bytes = whole.to_vec();
        damage(&mut bytes);
        vault.put(&key, Bytes::from(bytes), None).await.expect("written");
        // The twin of the base tells the same of this point, and would be read in its place.
        let twin = ObjectKey::new("0000/0000000000000001-0000000000000001.ltx").expect("a key");
        vault.delete(&[twin]).await.expect("deleted");
        let code = viewed(&scene, &When::Latest).await.map(|bytes| bytes.len()).expect_err(what);
        assert!(["sqlite.corrupt", "sqlite.corrupt-object", "vault.out-of-range"].contains(&code), "{what}: {code}");
    }
    drop((store, app));
}

#[tokio::test]
async fn what_is_not_there_is_refused_as_a_restore_refuses_it() {
    let (scene, _): (Scene, MemoryStore) = Scene::in_memory();
    assert_eq!(viewed(&scene, &When::Latest).await, Err("sqlite.nothing-there"));
    let app = large(&scene).await;
    let point = scene.point().await;
    for when in [
        When::Position("00000000000000ff".into()),
        When::Position("nonsense".into()),
        When::Moment(seawall_core::Moment::from_millis(1000)),
    ] {
        let (seen, restored) = (viewed(&scene, &when).await, restored(&scene, &when).await);
        assert!(seen == restored && seen.is_err(), "{when:?}: {:?}", seen.map(|bytes| bytes.len()));
    }
    // A gap: the newest state isn't the newest that is there.
    let missing = ObjectKey::new("0000/0000000000000004-0000000000000004.ltx").expect("a key");
    scene.vault().delete(&[missing]).await.expect("deleted");
    for when in [When::Latest, When::Position(point.position.clone()), When::Moment(point.moment)] {
        let (seen, restored) = (viewed(&scene, &when).await, restored(&scene, &when).await);
        assert!(seen == restored && seen.is_err(), "{when:?}: {:?}", seen.map(|bytes| bytes.len()));
    }
    let before = When::Position("0000000000000003".into());
    assert!(viewed(&scene, &before).await == restored(&scene, &before).await);
    assert!(content_of(&app).contains_key("t"));
}
