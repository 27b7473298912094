//! The running engine, from its first base to its graceful end, with a fault at every call of the store and at every write to
//! the local disk, with a store that is away for too long, and beside another writer.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Failure, Phase, Point, Shutdown, When};
use seawall_sqlite::probe::Intruder;
use seawall_sqlite::{Options, Sqlite};
use seawall_testing::Gate;
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Fault, SimulatedStore};
use seawall_vault::{Policy, Vault};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::world::{Content, SCHEMA, Scene, app, content_of, insert, insert_beside};

/// More than any deadline of the engine and the vault; time is simulated.
const PATIENCE: Duration = Duration::from_secs(1200);

/// A database, a store with faults, and an engine that may run.
struct Stage {
    scene: Scene,
    store: SimulatedStore,
    intruder: Option<Arc<dyn Intruder>>,
    running: Option<Running>,
    /// How often the process had to be started again.
    restarts: usize,
}

struct Running {
    engine: Arc<Sqlite>,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Failure>>,
}

impl Stage {
    fn new() -> Self {
        Self::on(SimulatedStore::new(MemoryStore::new(), 7))
    }

    fn on(store: SimulatedStore) -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let scene = Scene::on(directory, Arc::new(store.truth().clone()));
        Self { scene, store, intruder: None, running: None, restarts: 0 }
    }

    fn start(&mut self) {
        self.start_with(Options { sync_interval: Duration::from_millis(200), ..self.scene.options() });
    }

    fn start_with(&mut self, options: Options) {
        let vault = Vault::new(Arc::new(self.store.clone()), Policy::default());
        let mut engine = self.scene.engine_on(vault, options, None);
        if let Some(intruder) = &self.intruder {
            engine = engine.with_intruder(intruder.clone());
        }
        let (engine, shutdown) = (Arc::new(engine), Shutdown::new());
        let (ours, theirs) = (engine.clone(), shutdown.clone());
        let task = tokio::spawn(async move { ours.run(&theirs).await });
        self.running = Some(Running { engine, shutdown, task });
    }

    /// As `kill -9` between two calls.
    async fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.task.abort();
        let _aborted = running.task.await;
        // A job on another thread comes to its end; no time passes before.
        sleep(Duration::from_millis(1)).await;
    }

    async fn stop(&mut self) -> Result<(), Failure> {
        let running = self.running.take().expect("it runs");
        running.shutdown.begin();
        timeout(PATIENCE, running.task).await.expect("a graceful stop is bounded").expect("no panic")
    }

    /// Whether the store answers no call any more, because the process that asked is taken for dead.
    fn crashed(&self) -> bool {
        let crash = |fault: &Option<Fault>| matches!(fault, Some(Fault::Crash | Fault::CrashAfter));
        self.store.calls().iter().filter(|call| crash(&call.fault)).count() > self.restarts
    }

    /// Waits until everything is protected, and compares it. A process that has crashed is started again.
    async fn all_is_there(&mut self, app: &Connection, what: &str) -> (Point, Content) {
        let waiting = async {
            loop {
                sleep(Duration::from_millis(250)).await;
                if self.crashed() {
                    self.kill().await;
                    self.store.revive();
                    self.restarts += 1;
                    self.start();
                }
                let running = self.running.as_ref().expect("it runs");
                assert!(!running.task.is_finished(), "{what}: it ended by itself");
                let Ok(status) = running.engine.status().await else { continue };
                if let (Phase::Protecting, 0, Some(point)) = (status.phase, status.lag_bytes, status.protected) {
                    return point;
                }
            }
        };
        let Ok(point) = timeout(PATIENCE, waiting).await else {
            let status = self.running.as_ref().expect("it runs").engine.status().await;
            panic!("{what}: not protected in time: {status:?}");
        };
        let (restored, content) = (self.scene.restore(When::Latest).await, content_of(app));
        assert!(restored.expect("restored") == content, "{what}: said to be protected, and not there");
        (point, content)
    }
}

/// A whole life: the first base, a capture, a seal, a base after the file was replaced, the end. Every state that was said to
/// be protected is compared in the end.
async fn life(stage: &mut Stage, what: &str) {
    let database = stage.scene.database();
    let mut app_connection = app(&database);
    app_connection.execute_batch(SCHEMA).expect("schema");
    let mut records = Vec::new();
    stage.start();
    records.push(stage.all_is_there(&app_connection, what).await);
    stage.scene.tick(1000);
    insert_beside(&app_connection, 3, 100).await;
    records.push(stage.all_is_there(&app_connection, what).await);
    insert_beside(&app_connection, 60, 4000).await;
    records.push(stage.all_is_there(&app_connection, what).await);
    insert_beside(&app_connection, 2, 100).await;
    records.push(stage.all_is_there(&app_connection, what).await);
    let incoming = stage.scene.path("incoming.db");
    app_connection.execute("VACUUM INTO ?1", [incoming.to_str().expect("text")]).expect("copied");
    drop(app_connection);
    for file in ["app.db-wal", "app.db-shm"] {
        fs::remove_file(stage.scene.path(file)).expect("removed");
    }
    fs::rename(&incoming, &database).expect("renamed");
    app_connection = app(&database);
    insert_beside(&app_connection, 5, 100).await;
    records.push(stage.all_is_there(&app_connection, what).await);
    insert_beside(&app_connection, 5, 100).await;
    if stage.stop().await.is_err() {
        // Once, by a fault at the end. It continues from there.
        stage.store.revive();
        stage.restarts = 1;
        stage.start();
        records.push(stage.all_is_there(&app_connection, what).await);
        stage.stop().await.expect("no fault any more");
    }
    for (point, record) in &records {
        let restored = stage.scene.restore(When::Position(point.position.clone())).await;
        assert!(&restored.expect("restored") == record, "{what}: {} is another state", point.position);
    }
    assert_eq!(stage.scene.restore(When::Latest).await.expect("restored"), content_of(&app_connection), "{what}");
    assert_eq!(stage.scene.verify().await.findings, [], "{what}");
}

async fn at_every_call(faults: &[Fault]) {
    for fault in faults {
        let mut position = 0;
        loop {
            let mut stage = Stage::new();
            stage.store.fail_call(position, fault.clone());
            life(&mut stage, &format!("{fault:?} at call {position}")).await;
            if stage.store.call_count() <= position {
                break;
            }
            position += 1;
        }
        assert!(position > 20, "only {position} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn at_every_call_that_fails() {
    at_every_call(&[Fault::Error, Fault::LostAnswer, Fault::BrokenStream]).await;
}

#[tokio::test(start_paused = true)]
async fn at_every_call_that_is_answered_badly() {
    at_every_call(&[Fault::Duplicate, Fault::StaleList, Fault::Delay(Duration::from_secs(20))]).await;
}

#[tokio::test(start_paused = true)]
async fn at_every_call_that_hangs_or_ends_the_process() {
    at_every_call(&[Fault::Hang, Fault::Crash, Fault::CrashAfter]).await;
}

/// A disk that is full from one write on, for so many writes.
struct FullDisk {
    from: u64,
    writes: u64,
    count: AtomicU64,
}

impl Intruder for FullDisk {
    fn write(&self, _: &Path) -> io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let full = (self.from..self.from + self.writes).contains(&number);
        if full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_at_every_write() {
    for writes in [1, 12] {
        let mut from = 0;
        loop {
            let disk = Arc::new(FullDisk { from, writes, count: AtomicU64::new(0) });
            let mut stage = Stage { intruder: Some(disk.clone()), ..Stage::new() };
            life(&mut stage, &format!("full for {writes} writes from write {from}")).await;
            if disk.count.load(Ordering::SeqCst) <= from {
                break;
            }
            from += 1;
        }
        assert!(from > 8, "only {from} writes");
    }
}

/// A machine that refuses to open and to read, from one time on, for so many times.
struct Shortage {
    from: u64,
    times: u64,
    answer: rustix::io::Errno,
    count: AtomicU64,
}

impl Intruder for Shortage {
    fn read(&self, _: &Path) -> io::Result<()> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let short = (self.from..self.from + self.times).contains(&number);
        if short { Err(self.answer.into()) } else { Ok(()) }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        self.read(path)
    }
}

/// No descriptor left, a disk that fails, files that can't be read: the shortage passes, and the history continues
/// without a base.
#[tokio::test(start_paused = true)]
async fn a_shortage_that_passes_costs_no_base() {
    use rustix::io::Errno;
    for (answer, times, step) in [(Errno::IO, 1, 5), (Errno::MFILE, 15, 23), (Errno::ACCESS, 30, 71)] {
        let mut from = 0;
        loop {
            let what = format!("{answer} {times} times from {from}");
            let shortage = Arc::new(Shortage { from, times, answer, count: AtomicU64::new(0) });
            let mut stage = Stage { intruder: Some(shortage.clone()), ..Stage::new() };
            let app = stage.scene.app();
            app.execute_batch(SCHEMA).expect("schema");
            stage.start();
            let mut records = vec![stage.all_is_there(&app, &what).await];
            for (rows, bytes) in [(3, 100), (60, 4000), (2, 100)] {
                insert_beside(&app, rows, bytes).await;
                records.push(stage.all_is_there(&app, &what).await);
            }
            insert_beside(&app, 1, 100).await;
            if stage.stop().await.is_err() {
                // The shortage outlasted the time that a stop may take.
                stage.start();
                stage.all_is_there(&app, &what).await;
                stage.stop().await.unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            for (point, record) in &records {
                let restored = stage.scene.restore(When::Position(point.position.clone())).await;
                assert!(&restored.expect("restored") == record, "{what}: {} is another state", point.position);
            }
            assert_eq!(stage.scene.restore(When::Latest).await.expect("restored"), content_of(&app), "{what}");
            assert_eq!(stage.scene.verify().await.findings, [], "{what}");
            let timeline = stage.scene.engine().timeline().await.expect("a timeline");
            assert_eq!(timeline.holes, [], "{what}");
            if shortage.count.load(Ordering::SeqCst) <= from {
                break;
            }
            from += step;
        }
        assert!(from > 100, "only {from} times");
    }
}

/// The store is away until the WAL has grown past its limit. The application continues and gets its checkpoints back,
/// and protection continues by itself, with a hole.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_longer_than_the_wal_limit() {
    let mut stage = Stage::new();
    let app = stage.scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let options = Options { wal_limit: 256 << 10, sync_interval: Duration::from_millis(200), ..stage.scene.options() };
    stage.start_with(options);
    let before = stage.all_is_there(&app, "before").await;
    stage.store.fail_from(stage.store.call_count());
    let code = async |stage: &Stage| {
        let status = stage.running.as_ref().expect("it runs").engine.status().await;
        status.ok().and_then(|status| status.error).map(|error| error.code)
    };
    let gave_up = async {
        while code(&stage).await.as_deref() != Some("sqlite.gave-up") {
            insert_beside(&app, 5, 4000).await;
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(PATIENCE, gave_up).await.expect("protection is given up");
    let checkpoint = || app.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    assert_eq!(checkpoint(), Ok(0), "the application is not held up");
    insert_beside(&app, 5, 100).await;
    stage.store.revive();
    let after = stage.all_is_there(&app, "after").await;
    stage.stop().await.expect("a graceful stop");
    for (point, record) in [&before, &after] {
        assert_eq!(&stage.scene.restore(When::Position(point.position.clone())).await.expect("restored"), record);
    }
    assert_eq!(stage.scene.engine().timeline().await.expect("a timeline").holes.len(), 1);
}

/// Two hosts with one vault prefix: the loser stops with a code, and their objects never mix.
#[tokio::test(start_paused = true)]
async fn two_hosts_that_write_to_one_prefix() {
    for seed in 0..20 {
        let store = SimulatedStore::new(MemoryStore::new(), seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut hosts = [Stage::on(store.clone()), Stage::on(store.clone())];
        let apps = [hosts[0].scene.app(), hosts[1].scene.app()];
        let mut states: [Vec<Content>; 2] = Default::default();
        for (app, states) in apps.iter().zip(&mut states) {
            app.execute_batch(SCHEMA).expect("schema");
            states.push(content_of(app));
        }
        hosts[0].start();
        sleep(Duration::from_millis(rng.u64(0..2000))).await;
        hosts[1].start();
        let ended = |hosts: &[Stage; 2]| {
            hosts.iter().position(|host| host.running.as_ref().is_some_and(|r| r.task.is_finished()))
        };
        let contest = async {
            while ended(&hosts).is_none() {
                let one = rng.usize(0..2);
                insert_beside(&apps[one], rng.u32(1..30), rng.u32(1..2000)).await;
                states[one].push(content_of(&apps[one]));
                sleep(Duration::from_millis(rng.u64(0..500))).await;
            }
        };
        timeout(PATIENCE, contest).await.expect("one of them gives way");
        let loser = ended(&hosts).expect("one has ended");
        let stopped = hosts[loser].running.take().expect("it ran").task.await.expect("no panic");
        assert_eq!(stopped.expect_err("it lost").code, "sqlite.two-writers", "seed {seed}");
        let winner = &mut hosts[1 - loser];
        winner.all_is_there(&apps[1 - loser], &format!("seed {seed}")).await;
        winner.stop().await.expect("a graceful stop");
        let timeline = winner.scene.engine().timeline().await.expect("a timeline");
        let newest = u64::from_str_radix(&timeline.newest().expect("a point").position, 16).expect("a TXID");
        for txid in 1..=newest {
            let restored = winner.scene.restore(When::Position(format!("{txid:016x}"))).await.expect("restored");
            assert!(states.iter().flatten().any(|state| *state == restored), "seed {seed}: {txid} is nobody's state");
        }
    }
}

#[tokio::test]
async fn a_copy_that_is_being_made_tells_how_far_it_is() {
    let scene = Scene::new();
    let app_connection = app(&scene.database());
    app_connection.execute_batch(SCHEMA).expect("schema");
    insert(&app_connection, 60, 100_000);
    let gate = Gate::before(&MemoryStore::new());
    gate.set(false);
    let vault = Vault::new(Arc::new(gate.clone()), Policy::default());
    let engine = Arc::new(scene.engine_on(vault, scene.options(), None));
    let (shutdown, ours) = (Shutdown::new(), engine.clone());
    let theirs = shutdown.clone();
    let task = tokio::spawn(async move { ours.run(&theirs).await });
    let until = async |wanted: Phase| loop {
        sleep(Duration::from_millis(20)).await;
        let Ok(status) = engine.status().await else { continue };
        if status.phase == wanted && status.progress.is_some() == (wanted == Phase::Base) {
            return status.progress;
        }
    };
    let underway = timeout(PATIENCE, until(Phase::Base)).await.expect("it copies").expect("its progress");
    let number = |sql| app_connection.query_row(sql, [], |row| row.get::<_, u32>(0)).expect("a number");
    let total = u64::from(number("PRAGMA page_count")) * u64::from(number("PRAGMA page_size"));
    assert_eq!((underway.stage.as_str(), underway.total_bytes), ("base", Some(total)));
    assert!(underway.done_bytes <= total, "{underway:?}");
    gate.set(true);
    timeout(PATIENCE, until(Phase::Protecting)).await.expect("it is protected");
    shutdown.begin();
    timeout(PATIENCE, task).await.expect("a bounded end").expect("no panic").expect("a graceful end");
}

/// A proof asks for the content while the store is away: protection is given up at the limit all the same, and goes on afterwards.
#[tokio::test(start_paused = true)]
async fn a_question_for_the_content_does_not_outlast_the_wal_limit() {
    let mut stage = Stage::new();
    let app = stage.scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let options = Options { wal_limit: 256 << 10, sync_interval: Duration::from_millis(200), ..stage.scene.options() };
    stage.start_with(options);
    stage.all_is_there(&app, "before").await;
    stage.store.fail_from(stage.store.call_count());
    let engine = stage.running.as_ref().expect("it runs").engine.clone();
    let asked = tokio::spawn({
        let engine = engine.clone();
        async move { engine.record_content().await }
    });
    insert_beside(&app, 1, 100).await;
    let gave_up = async {
        loop {
            let status = engine.status().await.ok().and_then(|status| status.error).map(|error| error.code);
            if status.as_deref() == Some("sqlite.gave-up") {
                break;
            }
            insert_beside(&app, 5, 4000).await;
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(PATIENCE, gave_up).await.expect("protection is given up");
    stage.store.revive();
    // The session that asked is gone; the next one may answer, or the question was refused with it.
    let _answered = timeout(PATIENCE, asked).await.expect("it is answered").expect("no panic");
    stage.all_is_there(&app, "after").await;
    timeout(PATIENCE, engine.record_content()).await.expect("in time").expect("recorded");
    stage.stop().await.expect("a graceful stop");
}
