//! Everything that Litestream writes, we restore, from every level of its vault.

use std::time::Duration;

use seawall_tests::{Random, Stand, digest, model, wait};

/// Levels that fill within seconds, and a level 0 that is emptied behind them.
const QUICK_LEVELS: &str = "levels: [{interval: 1s}, {interval: 2s}, {interval: 4s}]\n\
                            snapshot: {interval: 3s, retention: 1h}\n\
                            l0-retention: 2s\n\
                            l0-retention-check-interval: 1s";

#[test]
fn from_every_level_of_a_folder() {
    from_every_level(&Stand::folder(Random::from_env().seed()));
}

#[test]
fn from_every_level_on_s3() {
    from_every_level(&Stand::bucket(Random::from_env().seed()));
}

fn from_every_level(stand: &Stand) {
    let mut random = Random::from_env();
    let mut app = stand.app();
    app.sql("CREATE TABLE ballast(id INTEGER PRIMARY KEY, noise BLOB)");
    app.commit(10);
    let mut litestream = stand.litestream(QUICK_LEVELS);
    app.flood(Duration::from_millis(1));
    wait::until("two files in each level", wait::SOON * 2, || {
        [1, 2, 3, 9].iter().all(|level| stand.place.files(*level).len() >= 2).then_some(())
    });
    app.rest();
    app.sql("INSERT INTO ballast SELECT id, randomblob(2000) FROM rows LIMIT 1000");
    app.commit(10);
    app.sql("DELETE FROM ballast");
    app.sql("VACUUM");
    app.commit(10);
    let committed = app.committed();
    litestream.stop().ok();

    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), committed);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    assert!(timeline["spans"].as_array().is_some_and(|spans| !spans.is_empty()), "{timeline}");
    stand.seawall(&["verify", &stand.place.url()]).ok();

    let mut ends: Vec<u64> = [0, 1, 2, 3, 9].iter().flat_map(|l| stand.place.files(*l)).map(|(_, max)| max).collect();
    ends.sort_unstable();
    ends.dedup();
    for txid in random.sample(&ends, 12) {
        let (ours, theirs) = (stand.restore_txid(txid), stand.litestream_restore_txid(txid));
        assert_eq!(digest::of_file(&ours), digest::of_file(&theirs), "transaction {txid} of {ends:?}");
        model::check(&ours, stand.seed);
    }
}
