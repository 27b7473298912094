//! A process ends between a seal and its shipment: the database file has the pages, and the list has their numbers.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Phase, Shutdown, When};
use seawall_sqlite::probe::{Intruder, Step};
use seawall_sqlite::{Options, Sqlite};
use seawall_vault::Error;
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};
use tokio::task::JoinHandle;

use crate::world::{SCHEMA, Scene, content_of, insert, insert_beside, names, rows_of, until};

/// A WAL is emptied under writers from 512 KB on.
fn options(scene: &Scene) -> Options {
    Options { wal_limit: 1 << 20, ..scene.options() }
}

async fn protects(engine: &Sqlite) {
    let protects = async || engine.status().await.is_ok_and(|now| now.phase == Phase::Protecting);
    until("it protects", protects).await;
    // After the first look the place is proved, and the WAL may be emptied.
    engine.sync().await.expect("a point");
}

/// The generation of the WAL, by its header.
fn salts(scene: &Scene) -> Vec<u8> {
    let wal = fs::read(scene.path("app.db-wal")).expect("a WAL");
    wal.get(16..24).unwrap_or_default().to_vec()
}

struct Stage {
    scene: Scene,
    store: SimulatedStore,
    app: Connection,
}

impl Stage {
    /// A protected database.
    async fn new() -> Self {
        let store = SimulatedStore::new(MemoryStore::new(), 7);
        let directory = tempfile::tempdir().expect("a folder");
        let scene = Scene::on(directory, Arc::new(store.clone()));
        let app = scene.app();
        app.execute_batch("PRAGMA synchronous=off").expect("set");
        app.execute_batch(SCHEMA).expect("made");
        insert(&app, 60, 3000);
        scene.point().await;
        Self { scene, store, app }
    }

    fn start(&self) -> (Arc<Sqlite>, JoinHandle<()>) {
        Self::run(self.scene.engine_with(options(&self.scene), None))
    }

    fn start_with(&self, intruder: Arc<dyn Intruder>) -> (Arc<Sqlite>, JoinHandle<()>) {
        Self::run(self.scene.engine_with(options(&self.scene), None).with_intruder(intruder))
    }

    fn run(engine: Sqlite) -> (Arc<Sqlite>, JoinHandle<()>) {
        let engine = Arc::new(engine);
        let running = engine.clone();
        let task = tokio::spawn(async move { drop(running.run(&Shutdown::new()).await) });
        (engine, task)
    }

    /// Ends the process after the WAL was let go and before its content is in the vault: the process waits for the
    /// store's answer.
    async fn end_behind_a_seal(&self, fault: Fault) {
        self.end_behind_a_seal_with(&[fault], async || {}).await;
    }

    /// The same with faults at the first calls after the seal, once `ends` is over.
    async fn end_behind_a_seal_with(&self, faults: &[Fault], ends: impl AsyncFn()) {
        let (engine, task) = self.start();
        protects(&engine).await;
        // A generation with a capture in the vault.
        insert_beside(&self.app, 1, 10).await;
        engine.sync().await.expect("a point");
        let before = salts(&self.scene);
        let calls = self.store.call_count();
        for (call, fault) in (calls..).zip(faults) {
            self.store.fail_call(call, fault.clone());
        }
        insert_beside(&self.app, 250, 3000).await;
        until("what was let go is shipped", async || self.store.call_count() > calls).await;
        ends().await;
        assert!(!names(&self.scene.state_dir().join("spool")).is_empty(), "listed, spooled, or both");
        insert_beside(&self.app, 5, 3000).await;
        self.app.execute("UPDATE t SET v = randomblob(2000) WHERE id % 7 = 1", []).expect("updated");
        assert!(salts(&self.scene) != before, "the WAL was let go");
        task.abort();
        drop(task.await);
        // The work on its threads has ended, and so has the hold.
        until("nothing is left of the engine", async || Arc::strong_count(&engine) == 1).await;
    }

    /// The next process: everything comes back. Answers whether it needed a base.
    async fn goes_on(self) -> bool {
        self.store.revive();
        let now = (self.scene.point().await, content_of(&self.app));
        insert_beside(&self.app, 2, 100).await;
        self.scene.point().await;
        assert_eq!(self.scene.restore(When::Position(now.0.position)).await.expect("restored"), now.1);
        assert_eq!(self.scene.restore(When::Latest).await.expect("restored"), content_of(&self.app));
        assert_eq!(self.scene.verify().await.findings, []);
        assert_eq!(names(&self.scene.state_dir().join("spool")), [""; 0], "the spool is empty");
        // A base records a hole.
        !self.scene.engine().timeline().await.expect("a timeline").holes.is_empty()
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_behind_a_seal_needs_no_base() {
    let stage = Stage::new().await;
    stage.end_behind_a_seal(Fault::Crash).await;
    assert!(!stage.goes_on().await, "everything was there without a base");
}

#[tokio::test(start_paused = true)]
async fn what_the_application_does_meanwhile_is_not_lost() {
    let twice = "PRAGMA wal_checkpoint(RESTART); INSERT INTO t(v) VALUES ('x')";
    let meanwhile: [(&str, bool); 7] = [
        ("UPDATE t SET v = randomblob(1000) WHERE id % 3 = 0", false),
        ("PRAGMA wal_checkpoint(PASSIVE)", false),
        ("DELETE FROM t WHERE id > 5; VACUUM", false),
        ("DELETE FROM t WHERE id > 5; VACUUM; PRAGMA wal_checkpoint(PASSIVE)", false),
        // The content of the generations in between is no longer known.
        (twice, true),
        ("PRAGMA wal_checkpoint(PASSIVE); INSERT INTO t(v) VALUES ('x')", true),
        ("PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t(v) VALUES ('x')", true),
    ];
    for (statements, base) in meanwhile {
        let stage = Stage::new().await;
        stage.end_behind_a_seal(Fault::Crash).await;
        stage.app.execute_batch(statements).unwrap_or_else(|e| panic!("{statements}: {e}"));
        assert_eq!(stage.goes_on().await, base, "a base after {statements}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_list_costs_a_base_and_nothing_else() {
    let stage = Stage::new().await;
    stage.end_behind_a_seal(Fault::Crash).await;
    let list = stage.scene.state_dir().join("spool/sealed.pages");
    let mut bytes = fs::read(&list).expect("a list");
    bytes[110] ^= 1;
    fs::write(&list, bytes).expect("damaged");
    assert!(stage.goes_on().await, "what was let go is nowhere else");
}

/// An object that is in the vault, but whose answer was lost: the list is older than the vault, and forgotten.
#[tokio::test(start_paused = true)]
async fn a_list_of_what_is_in_the_vault() {
    let stage = Stage::new().await;
    stage.end_behind_a_seal(Fault::CrashAfter).await;
    assert!(!stage.goes_on().await, "everything was there without a base");
}

/// A store that fails: the sealed pages are spooled as the object to be uploaded, so that the hold can move on.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_behind_a_seal() {
    let stage = Stage::new().await;
    let denied = Error::Denied { object: "s3://bucket".into(), cause: "AccessDenied".into() };
    let spool = stage.scene.state_dir().join("spool");
    let ends = async || {
        let spooled = || names(&spool).iter().any(|name| name.ends_with(".ltx"));
        until("it is spooled", async || spooled()).await;
        assert!(spool.join("sealed.pages").exists(), "the list went before the state record knew the place");
    };
    stage.end_behind_a_seal_with(&[Fault::Fail(denied), Fault::Crash], ends).await;
    stage.app.execute_batch("UPDATE t SET v = randomblob(1000) WHERE id % 3 = 0").expect("updated");
    assert!(!stage.goes_on().await, "everything was there without a base");
}

/// Blocks at the first page that is read for the spool.
#[derive(Default)]
struct SlowSpool {
    spooling: AtomicBool,
    stuck: AtomicBool,
    released: Mutex<bool>,
    bell: Condvar,
}

impl Intruder for SlowSpool {
    fn write(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".tmp") && name.starts_with("0000") {
            self.spooling.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
    fn at(&self, step: Step) {
        if step == Step::Reading && self.spooling.load(Ordering::SeqCst) && !self.stuck.swap(true, Ordering::SeqCst) {
            let guard = self.released.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.bell.wait_while(guard, |released| !*released));
        }
    }
}

impl SlowSpool {
    fn go_on(&self) {
        *self.released.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }
}

/// A session that ends (a stop in time, a WAL that outgrew its limit) while sealed pages are being spooled: the
/// spooling continues, and so does the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_while_it_spools() {
    let stage = Stage::new().await;
    let slow = Arc::new(SlowSpool::default());
    let (engine, task) = stage.start_with(slow.clone());
    protects(&engine).await;
    insert_beside(&stage.app, 1, 10).await;
    engine.sync().await.expect("a point");
    let denied = Error::Denied { object: "s3://bucket".into(), cause: "AccessDenied".into() };
    stage.store.forbid("put", denied);
    let mut states = vec![rows_of(&stage.app)];
    insert_beside(&stage.app, 250, 3000).await;
    states.push(rows_of(&stage.app));
    until("it spools", async || slow.stuck.load(Ordering::SeqCst)).await;
    insert_beside(&stage.app, 5, 3000).await;
    states.push(rows_of(&stage.app));
    task.abort();
    drop(task.await);
    stage.app.execute("UPDATE t SET v = randomblob(2000) WHERE id % 7 = 1", []).expect("updated");
    states.push(rows_of(&stage.app));
    stage.app.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).expect("asked for");
    slow.go_on();
    let spool = stage.scene.state_dir().join("spool");
    until("it is spooled", async || names(&spool).iter().all(|name| !name.ends_with(".tmp"))).await;
    drop(engine);
    stage.store.revive();
    let newest = stage.scene.point().await;
    states.push(rows_of(&stage.app));
    let newest = u64::from_str_radix(&newest.position, 16).expect("a TXID");
    for txid in 3..=newest {
        let restored = stage.scene.restore(When::Position(format!("{txid:016x}"))).await;
        assert!(states.contains(&restored.expect("restored")), "{txid} is no state of the database");
    }
}

/// A local disk that is full at the second write of each spooled object.
#[derive(Default)]
struct FullDisk(AtomicU32);

impl Intruder for FullDisk {
    fn write(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".tmp") && name.starts_with("0000") && self.0.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_not_filled_again_and_again() {
    let stage = Stage::new().await;
    let disk = Arc::new(FullDisk::default());
    let (engine, task) = stage.start_with(disk.clone());
    protects(&engine).await;
    insert_beside(&stage.app, 1, 10).await;
    engine.sync().await.expect("a point");
    let calls = stage.store.call_count();
    stage.store.forbid("put", Error::Denied { object: "s3://bucket".into(), cause: "AccessDenied".into() });
    insert_beside(&stage.app, 250, 3000).await;
    until("it tried a few times", async || stage.store.call_count() > calls + 5).await;
    assert_eq!(names(&stage.scene.state_dir().join("spool")), ["sealed.pages"]);
    assert_eq!(disk.0.load(Ordering::SeqCst), 2, "writes of the object");
    task.abort();
    drop(task.await);
    until("nothing is left of the engine", async || Arc::strong_count(&engine) == 1).await;
    assert!(!stage.goes_on().await, "everything was there without a base");
}

/// The listed pages are found again, and spooled because the vault refuses them. Then the process ends once more.
#[tokio::test(start_paused = true)]
async fn a_process_that_ends_twice_behind_a_seal() {
    let stage = Stage::new().await;
    stage.end_behind_a_seal(Fault::Crash).await;
    stage.store.revive();
    stage.store.forbid("put", Error::Denied { object: "s3://bucket".into(), cause: "AccessDenied".into() });
    stage.scene.engine().take_point(&Shutdown::new()).await.expect_err("refused");
    assert!(!stage.goes_on().await, "everything was there without a base");
}

/// Counts how often writers are kept out.
#[derive(Debug, Default)]
struct Barriers(AtomicU32);

impl Intruder for Barriers {
    fn at(&self, step: Step) {
        if step == Step::Barred {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A long reader, and more behind it than may be copied while writers wait: they aren't kept out for nothing.
#[tokio::test(start_paused = true)]
async fn a_long_reader_costs_writers_nothing() {
    let stage = Stage::new().await;
    let barriers = Arc::new(Barriers::default());
    let (engine, task) = stage.start_with(barriers.clone());
    protects(&engine).await;
    let reader = stage.scene.app();
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").expect("reads");
    for _ in 0..10 {
        insert_beside(&stage.app, 1000, 9000).await;
        engine.sync().await.expect("a point");
    }
    let before = barriers.0.load(Ordering::SeqCst);
    for _ in 0..5 {
        insert_beside(&stage.app, 1, 100).await;
        engine.sync().await.expect("a point");
    }
    assert!(barriers.0.load(Ordering::SeqCst) <= before + 5, "{} before, {barriers:?} now", before);
    task.abort();
    drop(task.await);
    assert_eq!(stage.scene.restore(When::Latest).await.expect("restored"), content_of(&stage.app));
}
