//! An idle database: the next sweep finds damage to its files, without any event.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{Phase, Shutdown, Status, When};
use seawall_sqlite::Sqlite;

use crate::world::{SCHEMA, Scene, content_of, insert, insert_beside, until};

/// A database whose commits are all in the vault, and a way to its WAL that raises no event: its name in another folder.
struct Silence {
    scene: Scene,
    app: Connection,
    engine: Arc<Sqlite>,
    wal: File,
}

impl Silence {
    async fn status(&self) -> Option<Status> {
        self.engine.status().await.ok()
    }

    async fn until_told(&self, code: &str) {
        until(code, async || {
            let error = self.status().await.and_then(|status| status.error);
            error.is_some_and(|error| error.code == code)
        })
        .await;
    }

    async fn until_protected(&self) {
        until("everything is protected", async || {
            let status = self.status().await;
            status.is_some_and(|now| now.phase == Phase::Protecting && now.lag_bytes == 0 && now.error.is_none())
        })
        .await;
    }

    /// Where the last frame begins.
    fn last_frame(&self) -> u64 {
        self.wal.metadata().expect("there").len() - (24 + 4096)
    }

    async fn what_was_captured_comes_back(&self) {
        assert_eq!(self.scene.restore(When::Latest).await.expect("restored"), content_of(&self.app));
    }
}

/// Lets `act` do something to a silent database.
async fn in_silence(act: impl AsyncFnOnce(&mut Silence)) {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3, 3000);
    let elsewhere = scene.path("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    fs::hard_link(scene.path("app.db-wal"), elsewhere.join("wal")).expect("linked");
    let wal = OpenOptions::new().read(true).write(true).open(elsewhere.join("wal")).expect("opened");
    let engine = Arc::new(scene.watching());
    let shutdown = Shutdown::new();
    let mut silence = Silence { scene, app, engine: engine.clone(), wal };
    let script = async {
        until("the first base", async || silence.status().await.is_some_and(|now| now.protected.is_some())).await;
        insert_beside(&silence.app, 2, 2000).await;
        silence.until_protected().await;
        act(&mut silence).await;
        shutdown.begin();
    };
    let (ran, ()) = tokio::join!(engine.run(&shutdown), script);
    // A database whose WAL was destroyed can't end gracefully.
    drop(ran);
}

#[tokio::test]
async fn a_page_that_was_overwritten_in_the_wal_is_told_and_protection_goes_on() {
    in_silence(async |silence| {
        let page = silence.last_frame() + 24 + 4000;
        let mut byte = [0];
        silence.wal.read_exact_at(&mut byte, page).expect("read");
        silence.wal.write_all_at(&[!byte[0]], page).expect("written");
        silence.until_told("sqlite.damaged-wal").await;
        assert_eq!(silence.status().await.expect("a status").phase, Phase::Protecting);
        silence.wal.write_all_at(&byte, page).expect("mended");
        insert_beside(&silence.app, 1, 100).await;
        silence.until_protected().await;
        silence.what_was_captured_comes_back().await;
        assert_eq!(silence.scene.level(9).len(), 1, "no other base was needed");
    })
    .await;
}

#[tokio::test]
async fn a_frame_that_was_overwritten_in_the_wal_is_told() {
    in_silence(async |silence| {
        let frame = silence.last_frame();
        let mut head = [0; 24];
        silence.wal.read_exact_at(&mut head, frame).expect("read");
        silence.wal.write_all_at(&[0x5a; 24], frame).expect("written");
        silence.until_told("sqlite.damaged-wal").await;
        silence.wal.write_all_at(&head, frame).expect("mended");
        silence.until_protected().await;
        insert_beside(&silence.app, 1, 100).await;
        silence.until_protected().await;
        silence.what_was_captured_comes_back().await;
    })
    .await;
}

#[tokio::test]
async fn a_wal_that_was_cut_under_its_users_is_told() {
    for length in [0, 100, 5000] {
        in_silence(async |silence| {
            let content = content_of(&silence.app);
            silence.wal.set_len(length).expect("cut");
            silence.until_told("sqlite.damaged-wal").await;
            let restored = silence.scene.restore(When::Latest).await.expect("restored");
            assert_eq!(restored, content, "cut to {length}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_state_record_that_was_deleted_comes_back_with_its_lock() {
    in_silence(async |silence| {
        // A file that is being written there can get in the way. It is removed the next time.
        until("the folder is gone", async || fs::remove_dir_all(silence.scene.state_dir()).is_ok()).await;
        silence.until_protected().await;
        until("the lock stands again", async || seawall_sqlite::is_protected(&silence.scene.state_dir())).await;
    })
    .await;
}
