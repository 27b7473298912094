//! The host of the model: the application, the engine that starts, stops and is killed, the disk, and the store.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::abilities::*;
use seawall_core::{Failure, Phase, Shutdown, When};
use seawall_sqlite::probe::{Defect, Intruder, Step};
use seawall_sqlite::{Options, Sqlite};
use seawall_testing::invariants::{self, Look, Seen};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Chances, Fault, SimulatedStore};
use seawall_vault::{ObjectKey, Policy, Prefix, PutOptions, Scheme, Store, Vault};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::application::Application;
use super::history::{compare, look, newest_base, objects};
use crate::world::{HandClock, Scene};

/// More than any deadline of the engine and the vault; time is simulated.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Time in which a running process has looked at its vault, if it uploads anything.
const LOOK: Duration = Duration::from_secs(11 * 60);

/// Everything that a seed plays with.
pub(crate) struct Host {
    seed: u64,
    rng: fastrand::Rng,
    scene: Scene,
    store: SimulatedStore,
    meddler: Arc<Meddler>,
    running: Option<Running>,
    /// The newest TXID that was said to be protected.
    protected: u64,
    /// The vault at the last look.
    seen: Look,
    /// The objects that were deleted from the vault.
    lost: BTreeSet<u64>,
    /// Whether listings may have been old.
    stale: bool,
    /// Whether objects are damaged during a running process, and up to which TXID that may show.
    vandal: bool,
    harmed: u64,
}

struct Running {
    engine: Arc<Sqlite>,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Failure>>,
}

/// Acts between the engine's steps, and answers for the disk.
struct Meddler {
    app: Mutex<Application>,
    rng: Mutex<fastrand::Rng>,
    busy: AtomicBool,
    disk_full: AtomicBool,
    defect: Option<Defect>,
    grips: bool,
    log: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Intruder for Meddler {
    fn at(&self, step: Step) {
        let one_in = if step == Step::Reading { 100 } else { 5 };
        if !self.busy.load(Ordering::SeqCst) || lock(&self.rng).u32(0..one_in) > 0 {
            return;
        }
        // The application may be at it by itself just now, and waiting for us.
        if let Ok(mut app) = self.app.try_lock() {
            let done = app.interfere();
            lock(&self.log).push(format!("  {step:?}: {done}"));
        }
    }

    fn write(&self, _: &Path) -> io::Result<()> {
        if self.disk_full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn has_grips(&self) -> bool {
        self.grips
    }

    fn defect(&self) -> Option<Defect> {
        self.defect
    }
}

impl Host {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_defect(seed, None)
    }

    /// With an engine that is wrong in one way.
    pub(crate) fn with_defect(seed: u64, defect: Option<Defect>) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let directory = tempfile::tempdir().expect("a folder");
        let scheme = if rng.bool() { Scheme::File } else { Scheme::S3 };
        let memory = MemoryStore::with(scheme, Arc::<HandClock>::default());
        let store = SimulatedStore::new(memory, rng.u64(..));
        let app = Application::new(&directory.path().join("app.db"), rng.u64(..));
        let meddler = Meddler {
            app: Mutex::new(app),
            rng: Mutex::new(rng.fork()),
            busy: AtomicBool::new(rng.u8(0..4) > 0),
            disk_full: AtomicBool::new(false),
            defect,
            grips: !seed.is_multiple_of(4),
            log: Mutex::default(),
        };
        let scene = Scene::on(directory, Arc::new(store.truth().clone()));
        let meddler = Arc::new(meddler);
        let (running, lost, seen) = (None, BTreeSet::new(), Look::default());
        let (vandal, harmed) = (false, 0);
        Self { seed, rng, scene, store, meddler, running, protected: 0, seen, lost, stale: false, vandal, harmed }
    }

    /// With a vandal who deletes, cuts and replaces objects during a running process.
    pub(crate) fn with_a_vandal(seed: u64) -> Self {
        let mut host = Self::new(seed);
        host.vandal = true;
        host
    }

    fn options(&mut self) -> Options {
        let sync_interval = Duration::from_millis([20, 200, 1000][self.rng.usize(0..3)]);
        Options {
            busy_timeout: Duration::from_millis(2),
            // Nothing tells this engine of writes, so it polls. A look at the vault is due every eleven minutes: 33,000 polls at 20 ms.
            sync_interval: if self.vandal { sync_interval.max(Duration::from_secs(1)) } else { sync_interval },
            checkpoint_pages: [1, 10, 50, 1000][self.rng.usize(0..4)],
            wal_limit: [1 << 16, 1 << 20, 1 << 30][self.rng.usize(0..3)],
            ..self.scene.options()
        }
    }

    fn engine(&mut self) -> Sqlite {
        let options = self.options();
        let vault = Vault::new(Arc::new(self.store.clone()), Policy::default());
        self.scene.engine_on(vault, options, None).with_intruder(self.meddler.clone())
    }

    fn say(&mut self, what: impl Into<String>) {
        lock(&self.meddler.log).push(what.into());
    }

    /// One random step, and a look at the reported protection.
    pub(crate) async fn step(&mut self) {
        self.scene.tick(self.rng.i64(0..3000));
        if self.vandal && self.rng.u8(0..12) == 0 {
            self.harm_the_vault().await;
            return self.observe().await;
        }
        match self.rng.u8(0..100) {
            0..45 => {
                let alone = self.running.is_none();
                let done = lock(&self.meddler.app).act(alone);
                self.say(done);
            }
            45..60 => self.pass().await,
            60..72 => self.start_or_end().await,
            72..80 => self.trouble_with_the_store(),
            80..84 => self.trouble_with_the_disk(),
            84..87 => self.jump(),
            87..90 => self.lose_local_state(),
            90..92 => self.lose_newest_object().await,
            92..97 => self.catch_up().await,
            _ => self.calm_down(),
        }
        self.observe().await;
    }

    /// Lets the engine work: for a time, or for some of its steps while the application continues.
    async fn pass(&mut self) {
        if self.rng.bool() {
            let time = Duration::from_millis([1, 20, 500, 10_000, 100_000][self.rng.usize(0..5)]);
            self.say(format!("{time:?} pass"));
            sleep(time).await;
            return;
        }
        for _ in 0..self.rng.u8(0..60) {
            tokio::task::yield_now().await;
        }
        self.say("some steps");
    }

    async fn start_or_end(&mut self) {
        match self.running.take() {
            Some(running) if self.rng.bool() => self.kill(running).await,
            Some(running) => self.stop(running).await,
            None if self.rng.bool() => self.take_point().await,
            None => self.start(),
        }
    }

    fn start(&mut self) {
        let (engine, shutdown) = (Arc::new(self.engine()), Shutdown::new());
        let (ours, theirs) = (engine.clone(), shutdown.clone());
        let task = tokio::spawn(async move { ours.run(&theirs).await });
        self.say("start");
        self.running = Some(Running { engine, shutdown, task });
    }

    /// Like `kill -9` between two calls: nothing more is done, and calls under way are never answered.
    async fn kill(&mut self, running: Running) {
        running.task.abort();
        let _ = running.task.await;
        drop(running.engine);
        // A job on another thread comes to its end; no time passes before.
        sleep(Duration::from_millis(1)).await;
        self.end_of_the_process();
        self.say("kill");
    }

    /// What the store does to another process has nothing to do with it.
    fn end_of_the_process(&mut self) {
        self.store.revive();
        if self.rng.u8(0..4) == 0 {
            self.trouble_with_the_store();
        }
    }

    async fn stop(&mut self, running: Running) {
        let busy = self.meddler.busy.swap(false, Ordering::SeqCst);
        running.shutdown.begin();
        let ended = tokio::time::timeout(PATIENCE, running.task).await.expect("a graceful stop is bounded");
        self.meddler.busy.store(busy, Ordering::SeqCst);
        match ended.expect("no panic") {
            Ok(()) => {
                self.say("stop");
                self.all_is_there().await;
            }
            Err(failure) => self.excuse("stop", &failure),
        }
    }

    /// A failure that can be, while the store or the disk make trouble.
    fn excuse(&mut self, what: &str, failure: &Failure) {
        self.say(format!("{what}: {failure}"));
        let excused = self.stale && failure.code == "sqlite.two-writers";
        let never = ["sqlite.two-writers", "sqlite.internal", "sqlite.locked"];
        assert!(excused || !never.contains(&failure.code), "{failure}");
    }

    async fn take_point(&mut self) {
        let engine = self.engine();
        let busy = self.meddler.busy.swap(false, Ordering::SeqCst);
        let taken = tokio::time::timeout(PATIENCE, engine.take_point(&Shutdown::new())).await;
        drop(engine);
        self.meddler.busy.store(busy, Ordering::SeqCst);
        sleep(Duration::from_millis(1)).await;
        self.end_of_the_process();
        match taken {
            Ok(Ok(point)) => {
                self.say(format!("point {}", point.position));
                self.all_is_there().await;
            }
            Ok(Err(failure)) => self.excuse("no point", &failure),
            Err(_) => self.say("no point: it hangs"),
        }
    }

    /// The newest state in the vault is the database's.
    async fn all_is_there(&mut self) {
        let newest = self.scene.restore(When::Latest).await.expect("restored");
        let app = lock(&self.meddler.app);
        let (state, record) = app.records().present();
        assert!(record == &newest, "the newest point is not state {state}: {newest:?}");
    }

    fn trouble_with_the_store(&mut self) {
        let next = self.store.call_count();
        let chances = Chances {
            error: 50,
            lost_answer: 50,
            duplicate: 50,
            stale_list: 50,
            broken_stream: 50,
            delay: 50,
            longest_delay: Duration::from_secs(40),
        };
        let fault = match self.rng.u8(0..9) {
            0 => Fault::Error,
            1 => Fault::LostAnswer,
            2 => Fault::BrokenStream,
            3 => Fault::Duplicate,
            4 => Fault::StaleList,
            5 => Fault::Hang,
            6 => Fault::Crash,
            7 => Fault::CrashAfter,
            _ => Fault::Delay(Duration::from_secs(20)),
        };
        let kind = self.rng.u8(0..8);
        self.stale |= kind == 1 || fault == Fault::StaleList;
        match kind {
            0 => self.store.fail_from(next),
            1 => drop(self.store.clone().with_chances(chances)),
            _ => self.store.fail_call(next + self.rng.u64(0..30), fault.clone()),
        }
        self.say(format!("trouble with the store: {fault:?}"));
    }

    fn trouble_with_the_disk(&mut self) {
        let full = !self.meddler.disk_full.fetch_xor(true, Ordering::SeqCst);
        self.say(format!("disk full: {full}"));
    }

    fn calm_down(&mut self) {
        self.store.revive();
        self.meddler.disk_full.store(false, Ordering::SeqCst);
        self.say("all is well");
    }

    fn jump(&mut self) {
        let millis = [-3_600_000, 3_600_000, -1, 86_400_000][self.rng.usize(0..4)];
        self.scene.jump(millis);
        self.say(format!("the clock jumps by {millis} ms"));
    }

    fn lose_local_state(&mut self) {
        let _may_be_absent = fs::remove_dir_all(self.scene.state_dir());
        self.protected = 0;
        self.say("local state lost");
    }

    /// Deletes the newest capture in the vault, if it is not a base.
    async fn lose_newest_object(&mut self) {
        let truth = self.store.truth().clone();
        let Some((txid, key)) = objects(&truth).await.pop_last() else { return };
        let copy = key.as_str().replace(&format!("{txid:016x}-{txid:016x}"), &format!("{:016x}-{txid:016x}", 1));
        let copy = copy.replace("0000/", "0009/").replace("ltx/0", "ltx/9");
        let copy = ObjectKey::new(copy).expect("a key");
        if self.running.is_some() || txid < 3 || truth.head(&copy).await.is_ok() {
            return;
        }
        truth.delete(&[key]).await.expect("deleted")[0].clone().expect("deleted");
        self.lost.insert(txid);
        self.say(format!("object {txid} lost"));
    }

    /// Deletes an object, cuts it, or overwrites it with another one, while a process protects the database. After its
    /// next look protection has started over: the newest state can be restored.
    async fn harm_the_vault(&mut self) {
        self.catch_up().await;
        let (truth, busy) = (self.store.truth().clone(), self.meddler.busy.swap(false, Ordering::SeqCst));
        let all: Vec<_> = truth.list(&Prefix::all(), None, 10_000).await.expect("listed").entries;
        let all: Vec<_> = all.into_iter().filter(|entry| entry.key.as_str().ends_with(".ltx")).collect();
        let victim = &all[self.rng.usize(0..all.len())];
        let whole = async |key: &ObjectKey| {
            let vault = Vault::new(Arc::new(truth.clone()), Policy::default());
            vault.read(key, None, 1 << 30).await.expect("read")
        };
        let (what, bytes) = match self.rng.u8(0..3) {
            0 => ("deleted", None),
            1 => ("cut", Some(whole(&victim.key).await.slice(..usize::try_from(victim.size / 2).expect("small")))),
            // With the same size and time nothing but reading tells.
            _ => match all.iter().find(|other| other.size != victim.size) {
                Some(other) => ("replaced", Some(whole(&other.key).await)),
                None => ("deleted", None),
            },
        };
        truth.delete(std::slice::from_ref(&victim.key)).await.expect("deleted")[0].clone().expect("deleted");
        if let Some(bytes) = bytes {
            truth.put(&victim.key, bytes, &PutOptions::default()).await.expect("put");
        }
        self.say(format!("{} {what}", victim.key));
        // Something is uploaded, so that the next look is due.
        lock(&self.meddler.app).commit_now();
        let newest = objects(&truth).await.into_keys().max().unwrap_or(0);
        sleep(LOOK).await;
        let anew = async {
            loop {
                let newest = self.scene.restore(When::Latest).await;
                let there = newest.is_ok_and(|newest| *lock(&self.meddler.app).records().present().1 == newest);
                if there {
                    break;
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, anew).await.expect("protection begins anew");
        // Captures from before the look continue from damaged objects, up to the base that starts over.
        self.harmed = newest_base(&truth).await.map_or(newest, |base| newest.max(base - 1));
        self.meddler.busy.store(busy, Ordering::SeqCst);
        self.catch_up().await;
        // The vandal's changes don't count as the engine's.
        self.seen = look(&truth).await;
    }

    /// With nothing in its way, a running engine has everything in the vault soon, and says so.
    async fn catch_up(&mut self) {
        self.calm_down();
        let busy = self.meddler.busy.swap(false, Ordering::SeqCst);
        lock(&self.meddler.app).settle();
        let caught_up = async {
            loop {
                self.ended_by_itself().await;
                if self.running.is_none() {
                    self.start();
                }
                sleep(Duration::from_millis(100)).await;
                let Some(running) = self.running.as_ref().filter(|running| !running.task.is_finished()) else {
                    continue;
                };
                let Ok(status) = running.engine.status().await else { continue };
                if status.phase == Phase::Protecting && status.lag_bytes == 0 {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, caught_up).await.expect("it catches up");
        self.all_is_there().await;
        self.meddler.busy.store(busy, Ordering::SeqCst);
        self.say("caught up");
    }

    /// The engine runs until it is stopped. Only with an old listing of the vault it may meet objects of its own, and
    /// must stop there.
    async fn ended_by_itself(&mut self) {
        let Some(running) = self.running.take_if(|running| running.task.is_finished()) else { return };
        match running.task.await.expect("no panic") {
            Err(failure) if self.stale && failure.code == "sqlite.two-writers" => self.say("stopped by an old listing"),
            ended => panic!("the engine ended by itself: {ended:?}"),
        }
    }

    /// Everything that is reported as protected is in the vault, and never less than before.
    async fn observe(&mut self) {
        self.ended_by_itself().await;
        let status = self.scene.engine().status().await;
        let now = look(self.store.truth()).await;
        let reported = status.as_ref().ok().and_then(|status| status.protected.as_ref());
        let reported = reported.and_then(|point| u64::from_str_radix(&point.position, 16).ok());
        let taken_away = self.lost.iter().copied().chain(1..=self.harmed).collect();
        invariants::check(&Seen {
            before: Some(&self.seen),
            now: now.clone(),
            reported,
            taken_away,
            ..Seen::default()
        });
        self.seen = now;
        let Ok(status) = status else { return };
        let Some(point) = status.protected else { return };
        let told = u64::from_str_radix(&point.position, 16).expect("a TXID");
        assert!(told >= self.protected, "protected went back from {} to {told}", self.protected);
        let there = objects(self.store.truth()).await;
        let excused = self.lost.contains(&told) || told <= self.harmed;
        assert!(there.contains_key(&told) || excused, "{told} is not in the vault");
        self.protected = told;
    }

    /// Brings everything to a good end and compares all of it.
    pub(crate) async fn finish(mut self) {
        self.calm_down();
        self.meddler.busy.store(false, Ordering::SeqCst);
        if let Some(running) = self.running.take() {
            self.stop(running).await;
        }
        lock(&self.meddler.app).settle();
        self.take_point().await;
        self.all_is_there().await;
        let (truth, mut rng) = (self.store.truth().clone(), self.rng.fork());
        let records = lock(&self.meddler.app).records().clone();
        compare(&self.scene, &truth, &records, (&self.lost, self.harmed), &mut rng).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:\n{}", self.seed, lock(&self.meddler.log).join("\n"));
        }
    }
}
