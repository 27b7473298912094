//! Another program writes over the database file itself (I16): what is restored is what SQLite reads, also if Seawall is killed
//! at any moment meanwhile.

use std::fs;
use std::time::Duration;

use seawall_tests::{App, Random, Stand, digest, wait};

/// A stand with a state of the file that is older than the present one.
fn two_states() -> (Stand, Vec<u8>) {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(100);
    app.checkpoint("TRUNCATE");
    let earlier = fs::read(stand.db()).unwrap();
    app.commit(20);
    app.close();
    (stand, earlier)
}

/// `cp earlier app.db`: the same file, cut first.
fn copy_over(stand: &Stand, earlier: &[u8]) {
    std::thread::sleep(Duration::from_millis(20));
    fs::write(stand.db(), earlier).unwrap();
}

fn comes_back(stand: &Stand, what: &str) {
    assert_eq!(digest::of(&stand.restore()), digest::of(&stand.db()), "{what}");
}

#[test]
fn a_file_is_written_over_and_seawall_is_killed_at_any_moment() {
    for millis in [0, 2, 5, 10, 20, 40, 80, 160] {
        let (stand, earlier) = two_states();
        let mut seawall = stand.replicate();
        stand.until_protected(&mut seawall);
        copy_over(&stand, &earlier);
        std::thread::sleep(Duration::from_millis(millis));
        seawall.kill_9();
        if millis % 4 == 0 {
            stand.replicate_once();
        } else {
            let mut again = stand.replicate();
            stand.until_protected(&mut again);
            again.stop().ok();
        }
        comes_back(&stand, &format!("killed after {millis} ms"));
        assert!(stand.place.files(9).len() <= 3, "bases: {:?}", stand.place.files(9));
    }
}

#[test]
fn a_file_is_written_over_while_seawall_is_stopped() {
    let (stand, earlier) = two_states();
    let mut app = App::start(&stand.db(), stand.seed);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    app.close();
    let later = fs::read(stand.db()).unwrap();
    copy_over(&stand, &earlier);
    stand.replicate_once();
    comes_back(&stand, "stopped");
    let bases = stand.place.files(9).len();
    // Between two points.
    copy_over(&stand, &later);
    stand.replicate_once();
    comes_back(&stand, "between two points");
    assert_eq!(stand.place.files(9).len(), bases + 1);
}

/// An application goes on with a WAL that has no name any more.
#[test]
fn a_wal_that_was_deleted_while_it_was_used_is_told_until_the_application_is_restarted() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(stand.path(&format!("app.db{suffix}"))).unwrap();
    }
    let told = |code: &str| {
        wait::until(code, wait::SOON * 5, || {
            let now = stand.status();
            (now["error"]["code"] == code && now["phase"] == "failing").then_some(())
        });
    };
    told("sqlite.deleted-wal");
    app.commit(5);
    // It stays so, and over a restart.
    std::thread::sleep(Duration::from_secs(2));
    told("sqlite.deleted-wal");
    let ended = seawall.stop();
    assert!(ended.code() != 0 && ended.stderr.contains("[sqlite.deleted-wal]"), "{ended}");
    let once = stand.replicate_with(&["--once"]).wait(wait::SOON * 4);
    assert!(once.code() != 0 && once.stderr.contains("[sqlite.deleted-wal]"), "{once}");
    let mut seawall = stand.replicate();
    told("sqlite.deleted-wal");
    app.close();
    app.open();
    let committed = app.commit(5);
    wait::until("everything to be protected", wait::SOON * 5, || {
        let now = stand.status();
        (now["phase"] == "protecting" && now["lag_bytes"] == 0 && now["error"].is_null()).then_some(())
    });
    assert!(committed > 0);
    seawall.stop().ok();
    comes_back(&stand, "the application uses the WAL that has a name");
}

/// Only the WAL was deleted: the wal-index tells of frames that nobody can read.
#[test]
fn a_wal_that_was_deleted_alone_is_told() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    fs::remove_file(stand.path("app.db-wal")).unwrap();
    wait::until("it to be told", wait::SOON * 5, || (stand.status()["phase"] == "failing").then_some(()));
    app.commit(5);
    std::thread::sleep(Duration::from_secs(2));
    let now = stand.status();
    assert!(now["phase"] == "failing" && !now["error"].is_null(), "{now}");
    assert!(seawall.stop().code() != 0);
}

#[test]
fn a_vault_that_was_emptied_between_two_runs_is_told_and_begun_anew() {
    for away in ["vault", "vault/ltx"] {
        let stand = Stand::folder(Random::from_env().seed());
        let mut app = stand.app();
        app.commit(20);
        stand.replicate_once();
        // The vault's own folder stays: one that is missing may be on a disk that isn't mounted (`watched.rs`).
        let remove = || {
            fs::remove_dir_all(stand.path(away)).unwrap();
            fs::create_dir_all(stand.place.root()).unwrap();
        };
        remove();
        let once = stand.replicate_with(&["--once"]).wait(wait::SOON * 4);
        assert!(once.code() != 0 && once.stderr.contains("[sqlite.lost]"), "{once}");
        comes_back(&stand, away);
        stand.replicate_once();
        let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
        assert_eq!(timeline["holes"].as_array().map(Vec::len), Some(1), "{timeline}");
        // The same of a process that goes on.
        remove();
        app.commit(3);
        let mut seawall = stand.replicate();
        wait::until("the loss to be told", wait::SOON * 2, || {
            let now = stand.status();
            (now["error"]["code"] == "sqlite.lost" && now["phase"] == "protecting").then_some(())
        });
        comes_back(&stand, away);
        seawall.stop().ok();
    }
}
