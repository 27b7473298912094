//! Databases of every shape, and applications that change them in unusual ways while they are replicated.

use std::fs;
use std::io::Read as _;
use std::time::Duration;

use seawall_tests::{App, Random, Stand, digest, model, wait};

#[test]
fn every_page_size_and_litestream_agrees() {
    let seed = Random::from_env().seed();
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let stand = Stand::folder(seed);
        let mut app = App::with_page_size(&stand.db(), seed, page_size);
        app.commit(20);
        let mut seawall = stand.replicate();
        stand.until_protected(&mut seawall);
        app.commit(100);
        app.sql("DELETE FROM rows WHERE id > 1000000");
        app.sql("CREATE TABLE clustered(k TEXT PRIMARY KEY, v) WITHOUT ROWID");
        app.sql("INSERT INTO clustered VALUES ('b', 1.5), ('a', NULL), ('c', x'00ff')");
        seawall.stop().ok();
        let source = digest::of(&stand.db());
        assert_eq!(digest::of(&stand.restore()), source, "pages of {page_size}");
        assert_eq!(digest::of(&stand.litestream_restore(&[])), source, "pages of {page_size}");
    }
}

#[test]
fn a_database_that_does_not_exist_yet_is_protected_once_it_does() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut seawall = stand.replicate();
    wait::until("seawall to wait", wait::SOON, || {
        assert!(seawall.running(), "seawall must wait for the database");
        (stand.status()["phase"] == "waiting").then_some(())
    });
    let mut app = stand.app();
    app.commit(40);
    stand.until_protected(&mut seawall);
    app.commit(40);
    seawall.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 80);
}

#[test]
fn a_database_that_is_replaced_goes_on_with_a_new_base() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(50);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    let before = stand.place.newest();
    app.kill_9();
    for name in ["app.db", "app.db-wal", "app.db-shm"] {
        let _ = fs::remove_file(stand.path(name));
    }
    let mut app = stand.app();
    assert_eq!(app.commit(30), 30);
    wait::until("the new database to be in the vault", wait::SOON * 3, || {
        assert!(seawall.running(), "seawall ended by itself");
        (stand.place.newest() > before && model::check(&stand.restore(), stand.seed) == 30).then_some(())
    });
    app.commit(5);
    seawall.stop().ok();
    stand.place.unbroken();
    assert_eq!(model::check(&stand.restore_txid(before), stand.seed), 50);
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), 35);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
}

#[test]
fn a_journal_mode_of_its_own_for_a_while() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(50);
    stand.replicate_once();
    app.sql("PRAGMA journal_mode = delete");
    app.commit(50);
    app.sql("PRAGMA journal_mode = wal");
    app.commit(50);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    app.commit(5);
    seawall.stop().ok();
    stand.place.unbroken();
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), 155);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
}

#[test]
fn a_page_size_that_changes() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(50);
    stand.replicate_once();
    app.sql("PRAGMA journal_mode = delete");
    app.sql("PRAGMA page_size = 1024");
    app.sql("VACUUM");
    app.sql("PRAGMA journal_mode = wal");
    app.commit(50);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    app.commit(5);
    seawall.stop().ok();
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), 105);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
}

#[test]
fn the_wal_stays_bounded_and_the_database_gets_nothing_of_ours() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let schema = "SELECT count(*) FROM sqlite_schema";
    let before = app.sql(schema);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    app.flood(Duration::from_micros(200));
    // Its writer never pauses. The WAL restarts all the same: its salts change.
    let salts = || {
        let mut header = [0; 24];
        fs::File::open(stand.path("app.db-wal")).and_then(|mut wal| wal.read_exact(&mut header)).ok()?;
        Some(header[16..].to_vec())
    };
    let mut seen = vec![salts()];
    wait::until("the WAL to begin anew twice", wait::SOON * 4, || {
        let salts = salts();
        if salts.is_some() && !seen.contains(&salts) {
            seen.push(salts);
        }
        (seen.len() > 2).then_some(())
    });
    app.rest();
    assert_eq!(app.sql(schema), before);
    seawall.stop().ok();
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), app.committed());
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
}

/// While a process reads an old state, the WAL can't be emptied. It grows, everything is shipped, no process waits, and
/// no complete copy is made. Once the reader has gone, the WAL is emptied.
#[test]
fn a_reader_that_never_ends_holds_up_nobody_else() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    let mut reader = App::start(&stand.db(), stand.seed);
    reader.sql("BEGIN");
    let seen = reader.sql("SELECT commits FROM progress");
    app.flood(Duration::from_micros(200));
    app.until(10_000);
    let committed = app.rest();
    stand.until_protected(&mut seawall);
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
    assert_eq!(reader.sql("SELECT commits FROM progress"), seen, "its state is as it was");
    assert_eq!(stand.place.files(9).len(), 1, "nothing but the first base");
    reader.sql("COMMIT");
    drop(reader);
    let wal = || fs::metadata(stand.path("app.db-wal")).map_or(0, |found| found.len());
    let before = wal();
    assert!(before > 96 << 20, "{before} bytes of WAL are too few for this test");
    wait::until("the WAL to be cut", wait::SOON * 2, || {
        app.commit(1);
        (wal() < before).then_some(())
    });
    seawall.stop().ok();
    stand.place.unbroken();
    assert_eq!(model::check(&stand.restore(), stand.seed), app.committed());
}

#[test]
fn the_applications_checkpoints_lose_nothing() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut seawall = stand.replicate();
    for round in 0..60 {
        app.commit(20);
        app.checkpoint(["PASSIVE", "FULL", "RESTART", "TRUNCATE"][round % 4]);
    }
    app.commit(1);
    seawall.stop().ok();
    stand.place.unbroken();
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), app.committed());
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
}
