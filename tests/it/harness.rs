//! Tests of the harness itself, with the peers' own programs: a fault that it would report of `seawall`, it reports of
//! them.

use std::time::Duration;

use seawall_tests::{Random, Stand, digest, model, wait};

#[test]
fn the_writers_state_is_what_the_model_says() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    assert_eq!(app.commit(57), 57);
    app.flood(Duration::ZERO);
    app.until(300);
    let committed = app.rest();
    assert!(committed >= 300);
    app.sql("VACUUM");
    app.close();
    app.open();
    assert_eq!(app.committed(), committed);
    assert_eq!(app.sql("PRAGMA journal_mode"), "wal");
    assert_eq!(model::check(&stand.db(), stand.seed), committed);
}

#[test]
fn the_model_sees_a_lost_row_and_a_torn_row() {
    let stand = Stand::folder(7);
    let mut app = stand.app();
    for spoil in ["DELETE FROM rows WHERE id = 3", "UPDATE rows SET version = version + 1 WHERE id = 5"] {
        app.commit(20);
        app.sql("BEGIN");
        app.sql(spoil);
        app.sql("COMMIT");
        let (db, seed) = (stand.db(), stand.seed);
        assert!(std::panic::catch_unwind(|| model::check(&db, seed)).is_err(), "{spoil} was not seen");
    }
}

#[test]
fn the_digest_sees_content_and_not_layout() {
    let stand = Stand::folder(8);
    let mut app = stand.app();
    app.commit(200);
    let before = digest::of(&stand.db());
    app.sql("VACUUM");
    assert_eq!(digest::of(&stand.db()), before);
    app.sql("CREATE TABLE _litestream_seq(id INTEGER PRIMARY KEY, seq INTEGER)");
    assert_ne!(digest::of(&stand.db()), before);
    assert_eq!(digest::without_litestream_tables(&stand.db()), before);
    app.sql("UPDATE rows SET content = x'00' WHERE id = 9");
    assert_ne!(digest::without_litestream_tables(&stand.db()), before);
}

#[test]
fn litestream_round_trip_through_a_folder() {
    litestream_round_trip(&Stand::folder(Random::from_env().seed()));
}

#[test]
fn litestream_round_trip_through_s3() {
    litestream_round_trip(&Stand::bucket(Random::from_env().seed()));
}

fn litestream_round_trip(stand: &Stand) {
    let mut app = stand.app();
    app.commit(10);
    let mut litestream = stand.litestream("");
    app.flood(Duration::from_millis(2));
    wait::until("a few transactions", wait::SOON, || (stand.place.newest() > 4).then_some(()));
    let committed = app.rest();
    litestream.stop().ok();
    stand.place.unbroken();
    let back = stand.litestream_restore(&[]);
    assert_eq!(model::check(&back, stand.seed), committed);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
}
