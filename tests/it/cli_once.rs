//! `replicate --once` and `--restore-if-missing`.

use std::fs;

use rusqlite::Connection;
use seawall_tests::{Random, Stand, digest, model};

#[test]
fn once_ships_what_is_committed_and_a_second_time_changes_nothing() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(40);
    stand.replicate_once();
    assert_eq!(model::check(&stand.restore(), stand.seed), 40);
    let files = (stand.place.files(0), stand.place.files(9));
    stand.replicate_once();
    assert_eq!((stand.place.files(0), stand.place.files(9)), files, "nothing was committed in between");
    app.commit(1);
    stand.replicate_once();
    assert_eq!(stand.place.newest(), files.0.last().unwrap().1 + 1, "one transaction more");
    assert_eq!(model::check(&stand.restore(), stand.seed), 41);
    assert_eq!(stand.place.files(9), files.1, "no base was needed");
}

/// The application closes the file, which leaves no WAL, and Seawall comes right after. Nothing is written between its runs.
#[test]
fn a_file_that_was_written_right_before_its_first_base_gets_no_hole() {
    let stand = Stand::folder(Random::from_env().seed());
    let database = Connection::open(stand.db()).unwrap();
    database.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES (1);").unwrap();
    database.close().unwrap();
    stand.replicate_once();
    let files = (stand.place.files(0), stand.place.files(9));
    stand.replicate_once();
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    assert_eq!((stand.place.files(0), stand.place.files(9)), files, "nothing was written in between");
    // What is written now is the first generation of a WAL, and goes on from the base.
    let database = Connection::open(stand.db()).unwrap();
    database.execute_batch("INSERT INTO t VALUES (2);").unwrap();
    stand.replicate_once();
    assert_eq!((stand.place.newest(), stand.place.files(9)), (files.0.last().unwrap().1 + 1, files.1));
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    assert_eq!((timeline["holes"].as_array().unwrap().len(), timeline["spans"].as_array().unwrap().len()), (0, 1));
    assert_eq!(digest::of(&stand.restore()), digest::of(&stand.db()));
}

#[test]
fn once_from_a_configuration_with_one_database_gone_is_partly_done() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(5);
    let config = stand.path("litestream.yml");
    fs::write(
        &config,
        format!(
            "dbs:\n  - path: {}\n    replica: {{path: {}}}\n  - path: {}\n    replica: {{path: {}}}\n",
            stand.db().display(),
            stand.path("vault").display(),
            stand.path("none/none.db").display(),
            stand.path("other").display()
        ),
    )
    .unwrap();
    stand.seawall(&["replicate", "--once", "--config", config.to_str().unwrap()]).exits(3);
    assert_eq!(model::check(&stand.restore(), stand.seed), 5);
}

#[test]
fn a_missing_database_is_restored_first_and_an_existing_one_is_left_alone() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(40);
    stand.replicate_once();
    let before = digest::of(&stand.db());
    app.commit(2);
    stand.replicate_with(&["--once", "--restore-if-missing"]).wait(seawall_tests::wait::SOON * 2).ok();
    assert_eq!(model::check(&stand.db(), stand.seed), 42, "an existing database is left alone");
    app.kill_9();
    for name in ["app.db", "app.db-wal", "app.db-shm"] {
        let _ = fs::remove_file(stand.path(name));
    }
    assert_ne!(before, "");
    let mut seawall = stand.replicate_with(&["--restore-if-missing"]);
    stand.until_protected(&mut seawall);
    assert_eq!(model::check(&stand.db(), stand.seed), 42);
    let mut app = stand.app();
    app.commit(8);
    seawall.stop().ok();
    stand.place.unbroken();
    assert_eq!(model::check(&stand.restore(), stand.seed), 50);
}

#[test]
fn with_an_empty_vault_there_is_nothing_to_restore_and_it_goes_on() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut seawall = stand.replicate_with(&["--restore-if-missing"]);
    let mut app = stand.app();
    app.commit(8);
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 8);
}
