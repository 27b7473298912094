//! Seawall restores everything that Litestream writes, from every level of its vault.

use std::time::Duration;

use seawall_tests::{Random, Stand, digest, model, run, wait};

/// Levels that fill within seconds, and a level 0 that is emptied soon after.
const QUICK_LEVELS: &str = "levels: [{interval: 1s}, {interval: 2s}, {interval: 4s}]\n\
                            snapshot: {interval: 3s, retention: 1h}\n\
                            l0-retention: 2s\n\
                            l0-retention-check-interval: 1s";

#[test]
fn from_every_level_of_a_folder() {
    let mut random = Random::from_env();
    from_every_level(&Stand::folder(random.seed()), &mut random);
}

#[test]
fn from_every_level_on_s3() {
    let mut random = Random::from_env();
    from_every_level(&Stand::bucket(random.seed()), &mut random);
}

fn from_every_level(stand: &Stand, random: &mut Random) {
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
    let mut compared = 0;
    for txid in random.sample(&ends, 16) {
        compared += usize::from(same_decision(stand, txid));
    }
    assert!(compared > 2, "next to nothing of {ends:?} can be restored");
}

/// Restores a transaction with both programs: to the same bytes, or with neither. (Litestream empties its level 0
/// without regard to where the files of level 1 end, so some transactions there can't be reached.)
fn same_decision(stand: &Stand, txid: u64) -> bool {
    let (ours, theirs, at) = (stand.new_file(), stand.new_file(), format!("{txid:016x}"));
    let mut command = stand.litestream_command();
    command.args(["restore", "-config"]).arg(stand.litestream_yml("")).args(["-txid", &at, "-o"]);
    let reached = run("litestream", command.arg(&theirs).arg(stand.db())).code() == 0;
    let output = stand.seawall(&["restore", &stand.place.url(), "-o", ours.to_str().unwrap(), "--at", &at]);
    assert_eq!(output.code() == 0, reached, "litestream decides otherwise: {output}");
    assert_eq!(ours.exists(), reached, "{output}");
    if reached {
        assert_eq!(digest::of_file(&ours), digest::of_file(&theirs), "transaction {txid}");
        model::check(&ours, stand.seed);
    }
    reached
}
