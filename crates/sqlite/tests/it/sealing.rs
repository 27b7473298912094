//! What was let go and not shipped yet, when the process ends: the database file has it, and the list says where.

use std::fs;
use std::sync::Arc;

use rusqlite::Connection;
use seawall_core::{Engine, Phase, Shutdown, When};
use seawall_sqlite::{Options, Sqlite};
use seawall_vault::Error;
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};
use tokio::task::JoinHandle;

use crate::world::{SCHEMA, Scene, content_of, insert, names, until};

/// A WAL is emptied under writers from 512 KB on.
fn options(scene: &Scene) -> Options {
    Options { wal_limit: 1 << 20, ..scene.options() }
}

async fn protects(engine: &Sqlite) {
    let protects = async || engine.status().await.is_ok_and(|now| now.phase == Phase::Protecting);
    until("it protects", protects).await;
    // Behind the first look the place is proved, and the WAL may be emptied.
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
        let engine = Arc::new(self.scene.engine_with(options(&self.scene), None));
        let running = engine.clone();
        let task = tokio::spawn(async move { drop(running.run(&Shutdown::new()).await) });
        (engine, task)
    }

    /// Ends the process when the WAL was let go and what was in it is not in the vault: it waits for an answer of the store.
    async fn end_behind_a_seal(&self, fault: Fault) {
        self.end_behind_a_seal_with(&[fault], async || {}).await;
    }

    /// The same with faults at the first calls behind the seal, once `ends` is over.
    async fn end_behind_a_seal_with(&self, faults: &[Fault], ends: impl AsyncFn()) {
        let (engine, task) = self.start();
        protects(&engine).await;
        // A generation of which something is in the vault.
        insert(&self.app, 1, 10);
        engine.sync().await.expect("a point");
        let before = salts(&self.scene);
        let calls = self.store.call_count();
        for (call, fault) in (calls..).zip(faults) {
            self.store.fail_call(call, fault.clone());
        }
        insert(&self.app, 250, 3000);
        until("what was let go is shipped", async || self.store.call_count() > calls).await;
        ends().await;
        assert_eq!(names(&self.scene.state_dir().join("spool")).len(), 1, "listed, or spooled");
        insert(&self.app, 5, 3000);
        self.app.execute("UPDATE t SET v = randomblob(2000) WHERE id % 7 = 1", []).expect("updated");
        assert!(salts(&self.scene) != before, "the WAL was let go");
        task.abort();
        drop(task.await);
        // Whatever was running on its threads is over, and the hold with it.
        until("nothing is left of the engine", async || Arc::strong_count(&engine) == 1).await;
    }

    /// The next process: everything comes back. Answers whether it needed a base.
    async fn goes_on(self) -> bool {
        self.store.revive();
        let now = (self.scene.point().await, content_of(&self.app));
        insert(&self.app, 2, 100);
        self.scene.point().await;
        assert_eq!(self.scene.restore(When::Position(now.0.position)).await.expect("restored"), now.1);
        assert_eq!(self.scene.restore(When::Latest).await.expect("restored"), content_of(&self.app));
        assert_eq!(self.scene.verify().await.findings, []);
        assert_eq!(names(&self.scene.state_dir().join("spool")), [""; 0], "the spool is empty");
        // What a base bridges is noted as a hole.
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
        // Nobody can tell any more what was in the generations between.
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

/// A store that fails: what was let go is spooled as it will be in the vault, so that the hold can move on.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_behind_a_seal() {
    let stage = Stage::new().await;
    let denied = Error::Denied { object: "s3://bucket".into(), cause: "AccessDenied".into() };
    let spool = stage.scene.state_dir().join("spool");
    let ends = async || {
        let spooled = || names(&spool).iter().any(|name| name.ends_with(".ltx"));
        until("it is spooled", async || spooled()).await;
        assert!(!spool.join("sealed.pages").exists(), "it is listed and spooled");
    };
    stage.end_behind_a_seal_with(&[Fault::Fail(denied), Fault::Crash], ends).await;
    stage.app.execute_batch("UPDATE t SET v = randomblob(1000) WHERE id % 3 = 0").expect("updated");
    assert!(!stage.goes_on().await, "everything was there without a base");
}
