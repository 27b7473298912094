//! Another program writes over the database file itself, so that the same file has other content: while the engine runs, while it
//! doesn't, and when the engine is killed before a new base is in the vault. A restore must always give what SQLite reads.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use seawall_core::abilities::*;
use seawall_core::{Phase, Shutdown, When};
use seawall_sqlite::Sqlite;
use seawall_sqlite::probe::{Intruder, Step};

use crate::world::{SCHEMA, Scene, content, content_of, insert, insert_beside, until};

/// How a program writes over a file.
#[derive(Debug, Clone, Copy)]
enum How {
    /// `dd conv=notrunc`, `rsync --inplace`.
    InPlace,
    /// `cp`: the file is cut first.
    Cut,
}

/// A database in its second state, and a copy of the file in its first state. Both have the same size, and the same rows on
/// each page.
struct Stage {
    scene: Scene,
    earlier: Vec<u8>,
}

impl Stage {
    fn new() -> Self {
        let scene = Scene::new();
        let app = scene.app();
        app.execute_batch(SCHEMA).expect("schema");
        insert(&app, 300, 500);
        app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpointed");
        let earlier = fs::read(scene.database()).expect("a backup");
        app.execute_batch("UPDATE t SET v = randomblob(500); PRAGMA wal_checkpoint(TRUNCATE)").expect("changed");
        assert_eq!(fs::metadata(scene.database()).expect("there").len(), earlier.len() as u64);
        Self { scene, earlier }
    }

    fn write_over(&self, how: How) {
        let inode = || fs::metadata(self.scene.database()).expect("there").ino();
        let before = inode();
        // Wait for more than a tick of the file system's clock after the last write.
        std::thread::sleep(Duration::from_millis(20));
        match how {
            How::InPlace => {
                let file = fs::OpenOptions::new().write(true).open(self.scene.database()).expect("the same file");
                file.write_all_at(&self.earlier, 0).expect("written over");
            }
            How::Cut => fs::write(self.scene.database(), &self.earlier).expect("written over"),
        }
        assert_eq!(inode(), before, "the same file");
    }

    /// Checks that a restore gives the content that SQLite reads, and not the earlier content.
    async fn comes_back(&self, what: &str) {
        let restored = self.scene.restore(When::Latest).await.expect("restored");
        assert_eq!(restored, content(&self.scene.database()), "{what}");
    }

    /// Runs an engine, and lets something happen meanwhile.
    async fn run(&self, meanwhile: impl AsyncFnOnce(&Sqlite)) {
        let (engine, shutdown) = (self.scene.watching(), Shutdown::new());
        let story = async {
            protected(&engine).await;
            meanwhile(&engine).await;
            shutdown.begin();
        };
        let (run, ()) = tokio::join!(engine.run(&shutdown), story);
        assert_eq!(run, Ok(()));
    }
}

/// Waits until every commit is in the vault.
async fn protected(engine: &Sqlite) {
    until("it protects", async || engine.status().await.is_ok_and(|now| now.phase == Phase::Protecting)).await;
    engine.sync().await.expect("in the vault");
}

fn change(app: &Connection) {
    app.execute_batch("UPDATE t SET v = randomblob(500) WHERE id = 7").expect("committed");
}

/// The fate of the WAL between a stop and the next start.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wal {
    /// It stays, with frames in it.
    Stays,
    /// The application's last connection copies it into the file and removes it.
    IsCopied,
    /// The program that writes over the file removes it.
    IsRemoved,
    /// It stays, and the application continues with it.
    GoesOn,
}

const CASES: [(How, Wal); 8] = [
    (How::InPlace, Wal::Stays),
    (How::InPlace, Wal::IsCopied),
    (How::InPlace, Wal::IsRemoved),
    (How::InPlace, Wal::GoesOn),
    (How::Cut, Wal::Stays),
    (How::Cut, Wal::IsCopied),
    (How::Cut, Wal::IsRemoved),
    (How::Cut, Wal::GoesOn),
];

/// Writes over the file, after `stop` has stopped its protection.
async fn behind_its_back(stage: &Stage, (how, wal): (How, Wal), app: Connection, stop: impl AsyncFnOnce()) {
    if wal == Wal::IsCopied {
        stop().await;
        drop(app);
    } else {
        drop(app);
        stop().await;
    }
    let side = |suffix: &str| stage.scene.path(&format!("app.db{suffix}"));
    assert_eq!(side("-wal").exists(), wal != Wal::IsCopied);
    if wal == Wal::IsRemoved {
        fs::remove_file(side("-wal")).expect("removed");
        let _may_be_gone = fs::remove_file(side("-shm"));
    }
    stage.write_over(how);
}

#[tokio::test]
async fn content_that_is_written_over_the_file_begins_with_a_base() {
    for how in [How::InPlace, How::Cut] {
        let stage = Stage::new();
        let scene = &stage.scene;
        stage
            .run(async |engine| {
                stage.write_over(how);
                until("another base", async || scene.level(9).len() == 2).await;
                protected(engine).await;
                stage.comes_back("written over").await;
                let app = scene.app();
                insert_beside(&app, 1, 100).await;
                engine.sync().await.expect("in the vault");
                assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
                assert_eq!(engine.timeline().await.expect("a timeline").holes.len(), 1);
            })
            .await;
        assert_eq!(scene.level(9).len(), 2, "no base more");
    }
}

/// The first process that opens a database rebuilds its wal-index. The counts then look like those of a failed checkpoint.
#[tokio::test]
async fn content_is_written_over_behind_a_wal_index_that_was_made_anew() {
    let stage = Stage::new();
    let app = stage.scene.app();
    stage
        .run(async |engine| {
            change(&app);
            engine.sync().await.expect("in the vault");
            drop(app);
        })
        .await;
    stage
        .run(async |engine| {
            assert_eq!(stage.scene.level(9).len(), 1, "it goes on");
            stage.write_over(How::InPlace);
            until("another base", async || stage.scene.level(9).len() == 2).await;
            protected(engine).await;
            stage.comes_back("written over").await;
        })
        .await;
}

#[tokio::test]
async fn content_is_written_over_between_a_stop_and_a_start() {
    for case in CASES {
        let stage = Stage::new();
        let (engine, shutdown) = (Arc::new(stage.scene.watching()), Shutdown::new());
        let (ours, theirs) = (engine.clone(), shutdown.clone());
        let running = tokio::spawn(async move { ours.run(&theirs).await });
        protected(&engine).await;
        let app = stage.scene.app();
        change(&app);
        engine.sync().await.expect("in the vault");
        let stop = async || {
            shutdown.begin();
            assert_eq!(running.await.expect("no panic"), Ok(()));
        };
        behind_its_back(&stage, case, app, stop).await;
        let app = (case.1 == Wal::GoesOn).then(|| stage.scene.app());
        app.iter().for_each(change);
        stage.run(async |_| stage.comes_back(&format!("{case:?}")).await).await;
        assert_eq!(stage.scene.level(9).len(), 2, "{case:?}");
        stage.run(async |_| stage.comes_back(&format!("{case:?}, once more")).await).await;
        assert_eq!(stage.scene.level(9).len(), 2, "no base more: {case:?}");
    }
}

#[tokio::test]
async fn content_is_written_over_between_two_points() {
    for case in CASES {
        let stage = Stage::new();
        let app = stage.scene.app();
        change(&app);
        stage.scene.point().await;
        change(&app);
        if case.1 != Wal::IsCopied {
            // Like a killed process: it leaves the WAL.
            app.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("set");
        }
        behind_its_back(&stage, case, app, async || drop(stage.scene.point().await)).await;
        let app = (case.1 == Wal::GoesOn).then(|| stage.scene.app());
        app.iter().for_each(change);
        stage.scene.point().await;
        assert_eq!(stage.scene.level(9).len(), 2, "{case:?}");
        stage.scene.point().await;
        assert_eq!(stage.scene.level(9).len(), 2, "no base more: {case:?}");
        // The comparison reads the file and, as the last user, copies the WAL. So it comes last.
        stage.comes_back(&format!("{case:?}")).await;
    }
}

/// Stops the engine for good when a base has begun.
#[derive(Default)]
struct Killer {
    armed: AtomicBool,
    reached: AtomicU32,
    goes_on: (Mutex<bool>, Condvar),
}

impl Intruder for Killer {
    fn at(&self, step: Step) {
        if step == Step::Stocked && self.armed.load(Ordering::SeqCst) {
            self.reached.fetch_add(1, Ordering::SeqCst);
            let waiting = self.goes_on.0.lock().expect("whole");
            drop(self.goes_on.1.wait_while(waiting, |goes_on| !*goes_on).expect("whole"));
        }
    }
}

#[tokio::test]
async fn an_engine_is_killed_before_the_base_of_what_was_written_over_is_in_the_vault() {
    for how in [How::InPlace, How::Cut] {
        let stage = Stage::new();
        let (killer, shutdown) = (Arc::<Killer>::default(), Shutdown::new());
        let engine = Arc::new(stage.scene.watching().with_intruder(killer.clone()));
        let (ours, theirs) = (engine.clone(), shutdown.clone());
        let running = tokio::spawn(async move { ours.run(&theirs).await });
        protected(&engine).await;
        let app = stage.scene.app();
        change(&app);
        engine.sync().await.expect("in the vault");
        drop(app);
        killer.armed.store(true, Ordering::SeqCst);
        stage.write_over(how);
        until("a base has begun", async || killer.reached.load(Ordering::SeqCst) > 0).await;
        running.abort();
        drop(running.await);
        *killer.goes_on.0.lock().expect("whole") = true;
        killer.goes_on.1.notify_all();
        drop(engine);
        assert_eq!(stage.scene.level(9).len(), 1, "no base yet");
        until("it is gone", async || !seawall_sqlite::is_protected(&stage.scene.state_dir())).await;
        stage.run(async |_| stage.comes_back(&format!("{how:?}")).await).await;
        assert_eq!(stage.scene.level(9).len(), 2, "{how:?}");
    }
}

/// A restart that finds an unchanged file continues without a base, also if the WAL was emptied just before.
#[tokio::test]
async fn a_file_that_only_checkpoints_wrote_to_needs_no_base() {
    let stage = Stage::new();
    for round in 0..4 {
        let app = stage.scene.app();
        stage
            .run(async |engine| {
                for _ in 0..=round {
                    // Enough frames for a seal.
                    app.execute_batch("UPDATE t SET v = randomblob(500)").expect("committed");
                    engine.sync().await.expect("in the vault");
                }
                drop(app);
            })
            .await;
        assert_eq!(stage.scene.level(9).len(), 1, "round {round}");
    }
    stage.comes_back("emptied").await;
}
