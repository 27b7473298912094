//! An application acts while the engine is between two of its steps: each action at each step, and no commit is lost.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Phase, Shutdown, When};
use seawall_sqlite::probe::{Defect, Intruder, Step};
use tokio::time::{sleep, timeout};

use crate::world::{Content, SCHEMA, Scene, app, content_of, rows_of};

static STEPS: [Step; 11] = [
    Step::Opening,
    Step::Observed,
    Step::Scanned,
    Step::Stocked,
    Step::Reading,
    Step::Barred,
    Step::Captured,
    Step::Advancing,
    Step::LetGo,
    Step::Copied,
    Step::Released,
];

/// The actions, in this order: `commit` for a transaction, otherwise a checkpoint.
const ACTIONS: [&[&str]; 8] = [
    &["commit"],
    &["PASSIVE"],
    &["PASSIVE", "commit"],
    &["commit", "PASSIVE"],
    &["commit", "FULL", "commit"],
    &["commit", "RESTART", "commit"],
    &["commit", "TRUNCATE", "commit"],
    &["PASSIVE", "commit", "PASSIVE", "commit", "PASSIVE", "commit"],
];

/// Does one thing at one step, a few times.
struct Meddler {
    steps: &'static [Step],
    actions: &'static [&'static str],
    times: AtomicU32,
    app: Mutex<Connection>,
    states: Mutex<Vec<Content>>,
    defect: Option<Defect>,
}

impl Meddler {
    fn commit(&self, app: &Connection) {
        if app.execute_batch("BEGIN IMMEDIATE").is_err() {
            return;
        }
        app.execute("INSERT INTO t(v) VALUES(randomblob(700))", []).expect("inserted");
        app.execute("UPDATE t SET v = randomblob(300) WHERE id = 1", []).expect("updated");
        app.execute_batch("COMMIT").expect("committed");
        self.states.lock().unwrap_or_else(PoisonError::into_inner).push(rows_of(app));
    }
}

impl Intruder for Meddler {
    fn defect(&self) -> Option<Defect> {
        self.defect
    }

    fn at(&self, step: Step) {
        if !self.steps.contains(&step)
            || self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err()
        {
            return;
        }
        let app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        app.busy_timeout(Duration::ZERO).expect("set");
        for action in self.actions {
            match *action {
                "commit" => self.commit(&app),
                mode => drop(app.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))),
            }
        }
    }
}

/// A test of the test: without the barrier a commit slips in between the last capture and the end of the WAL, and is missed.
#[test]
fn forgetting_the_barrier_is_caught() {
    let passes = |defect| {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            runtime.expect("a runtime").block_on(act_at(
                &[Step::Captured, Step::Released],
                &["commit"],
                20,
                defect,
                Writers::Pause,
            ));
        };
        std::panic::catch_unwind(run).is_ok()
    };
    assert!(passes(None));
    assert!(!passes(Some(Defect::ForgetsTheBarrier)), "nothing saw that the barrier is missing");
}

#[tokio::test(start_paused = true)]
async fn the_application_acts_at_every_step() {
    for steps in STEPS.chunks(1) {
        for actions in ACTIONS {
            for times in [1, 4] {
                act_at(steps, actions, times, None, Writers::Pause).await;
            }
        }
    }
}

/// The same while the WAL is emptied under writers. Its content is read from the database file afterwards.
#[tokio::test(start_paused = true)]
async fn the_application_acts_at_every_step_of_a_busy_seal() {
    for steps in STEPS.chunks(1) {
        for actions in ACTIONS {
            act_at(steps, actions, 3, None, Writers::GoOn).await;
        }
    }
}

/// Whether the test writes so much that the WAL is emptied before it is captured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writers {
    Pause,
    GoOn,
}

/// A database whose WAL was copied completely, so that nothing keeps it from being restarted; a base, captures and seals.
async fn act_at(
    steps: &'static [Step],
    actions: &'static [&'static str],
    times: u32,
    defect: Option<Defect>,
    writers: Writers,
) {
    let what = format!("{actions:?} at {steps:?}, {times} times");
    let scene = Scene::new();
    let connection = app(&scene.database());
    connection.execute_batch(&format!("PRAGMA synchronous=off; {SCHEMA}; INSERT INTO t(v) VALUES('')")).expect("made");
    connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").expect("copied");
    let states = Mutex::new(vec![rows_of(&connection)]);
    let (times, app) = (AtomicU32::new(times), Mutex::new(connection));
    let meddler = Arc::new(Meddler { steps, actions, times, app, states, defect });
    let mut options = scene.options();
    if writers == Writers::GoOn {
        (options.wal_limit, options.checkpoint_pages) = (200 << 10, 20);
    }
    let engine = Arc::new(scene.engine_with(options, None).with_intruder(meddler.clone()));
    let shutdown = Shutdown::new();
    let running = tokio::spawn({
        let (engine, shutdown) = (engine.clone(), shutdown.clone());
        async move { engine.run(&shutdown).await }
    });
    for _ in 0..4 {
        let caught_up = async {
            loop {
                sleep(Duration::from_millis(30)).await;
                assert!(!running.is_finished(), "{what}: it ended by itself");
                let Ok(status) = engine.status().await else { continue };
                if status.phase == Phase::Protecting && status.lag_bytes == 0 {
                    return;
                }
            }
        };
        timeout(Duration::from_secs(60), caught_up).await.unwrap_or_else(|_| panic!("{what}: it doesn't catch up"));
        let app = meddler.app.lock().unwrap_or_else(PoisonError::into_inner);
        (0..40).for_each(|_| meddler.commit(&app));
    }
    shutdown.begin();
    running.await.expect("no panic").expect("a graceful stop");
    let present = content_of(&meddler.app.lock().unwrap_or_else(PoisonError::into_inner));
    assert!(scene.restore(When::Latest).await.expect("restored") == present, "{what}: a commit is missing");
    let states = meddler.states.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let txids: BTreeSet<String> =
        scene.level(0).into_iter().chain(scene.level(9)).map(|name| name[17..33].to_owned()).collect();
    for txid in txids {
        let restored = scene.restore(When::Position(txid.clone())).await.expect("restored");
        assert!(states.contains(&restored), "{what}: {txid} is no state that there was");
    }
}

/// A local disk that blocks while the WAL is being emptied, at the copying or at the last write to the spool.
struct StuckDisk {
    copying: bool,
    state: Mutex<Stuck>,
    released: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stuck {
    Not,
    Now,
    NoLonger,
}

impl StuckDisk {
    fn state(&self) -> MutexGuard<'_, Stuck> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stand_still(&self) {
        let mut state = self.state();
        if *state == Stuck::Not {
            *state = Stuck::Now;
            drop(self.released.wait_while(state, |state| *state == Stuck::Now));
        }
    }

    fn release(&self) {
        *self.state() = Stuck::NoLonger;
        self.released.notify_all();
    }
}

impl Intruder for StuckDisk {
    fn at(&self, step: Step) {
        if self.copying && step == Step::LetGo {
            self.stand_still();
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let is_kept = path.extension().is_some_and(|end| end == "pages");
        if !self.copying && is_kept && path.parent().is_some_and(|parent| parent.ends_with("spool")) {
            self.stand_still();
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_do_not_wait_for_a_disk_that_stands_still() {
    for copying in [true, false] {
        let scene = Scene::new();
        let mut app = app(&scene.database());
        app.execute_batch(SCHEMA).expect("made");
        let disk = Arc::new(StuckDisk { copying, state: Mutex::new(Stuck::Not), released: Condvar::new() });
        let engine = Arc::new(scene.engine().with_intruder(disk.clone()));
        let shutdown = Shutdown::new();
        let running = tokio::spawn({
            let (engine, shutdown) = (engine.clone(), shutdown.clone());
            async move { engine.run(&shutdown).await }
        });
        let mut commit = || {
            app.busy_timeout(Duration::from_secs(60)).expect("set");
            let transaction = app.transaction().expect("begun");
            transaction.execute("INSERT INTO t(v) VALUES(randomblob(9000))", []).expect("inserted");
            transaction.commit().expect("committed");
        };
        let until_it_is_stuck = async {
            while *disk.state() == Stuck::Not {
                commit();
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(Duration::from_secs(60), until_it_is_stuck).await.expect("the WAL is emptied");
        // Only the end of the barrier allows these commits, because the disk still blocks.
        (0..20).for_each(|_| commit());
        assert!(*disk.state() == Stuck::Now, "copying {copying}: the disk went on");
        disk.release();
        shutdown.begin();
        running.await.expect("no panic").expect("a graceful stop");
        let expected = content_of(&app);
        assert!(
            scene.restore(When::Latest).await.expect("restored") == expected,
            "copying {copying}: a commit is missing"
        );
    }
}
