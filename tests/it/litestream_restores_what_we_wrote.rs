//! Litestream restores everything that Seawall writes: the newest state and single transactions, by id and by time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use seawall_tests::{App, Place, Random, Stand, digest, model, run};

/// Many rows of noise beside the writer's own.
const BALLAST: &str = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
                       INSERT INTO ballast SELECT i, randomblob(3000) FROM n";

#[test]
fn after_thousands_of_commits_a_vacuum_and_a_shrink() {
    let mut random = Random::from_env();
    let stand = Stand::folder(random.seed());
    write_a_history(&stand);
    compare(&stand, &mut random);
}

#[test]
fn after_thousands_of_commits_a_vacuum_and_a_shrink_on_s3() {
    let mut random = Random::from_env();
    let stand = Stand::bucket(random.seed());
    write_a_history(&stand);
    compare(&stand, &mut random);
    metadata_says_when(&stand);
    by_timestamp(&stand, &mut random);
}

#[test]
fn by_timestamp_in_a_folder() {
    let mut random = Random::from_env();
    let stand = Stand::folder(random.seed());
    let mut app = stand.app();
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    app.flood(Duration::from_millis(20));
    app.until(150);
    app.rest();
    seawall.stop().ok();
    by_timestamp(&stand, &mut random);
}

#[test]
fn every_single_transaction() {
    let mut random = Random::from_env();
    let stand = Stand::folder(random.seed());
    let mut app = stand.app();
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    for _ in 0..12 {
        app.commit(1 + random.below(20));
        stand.until_protected(&mut seawall);
    }
    seawall.stop().ok();
    let mut committed = 0;
    let (_, last) = stand.place.unbroken();
    for txid in 1..=last {
        committed = same_at(&stand, txid, committed);
    }
    assert_eq!(committed, app.committed());
}

#[test]
fn the_ltx_tool_verifies_every_object_that_we_wrote() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    app.flood(Duration::from_millis(5));
    app.until(300);
    app.rest();
    app.sql("VACUUM");
    seawall.stop().ok();
    let mut objects = Vec::new();
    for level in [0, 9] {
        objects.extend(stand.place.files(level).iter().map(|(min, max)| stand.place.object(level, *min, *max)));
    }
    assert!(objects.len() > 3);
    run("ltx", stand.ltx_tool_command().arg("verify").args(objects)).ok();
}

/// Thousands of commits, growth, deletions, a vacuum, a shrink, checkpoints by the application; all replicated.
fn write_a_history(stand: &Stand) {
    let mut app = stand.app();
    app.commit(50);
    let mut seawall = stand.replicate();
    flood(&mut app, 2000);
    app.sql("CREATE TABLE ballast(id INTEGER PRIMARY KEY, noise BLOB)");
    app.sql(BALLAST);
    app.commit(100);
    app.sql("DELETE FROM ballast WHERE id % 3 > 0");
    app.commit(20);
    app.sql("VACUUM");
    flood(&mut app, 1500);
    app.sql("DROP TABLE ballast");
    app.commit(5);
    app.sql("VACUUM");
    app.commit(100);
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        app.checkpoint(mode);
        app.commit(10);
    }
    flood(&mut app, 300);
    // However fast the machine is: some transactions of their own.
    for _ in 0..6 {
        stand.until_protected(&mut seawall);
        app.commit(5);
    }
    seawall.stop().ok();
    assert!(app.committed() > 3900);
    let source = digest::of(&stand.db());
    assert_eq!(digest::of(&stand.litestream_restore(&[])), source);
    assert_eq!(digest::of(&stand.restore()), source);
}

fn flood(app: &mut App, commits: u64) {
    let goal = app.committed() + commits;
    app.flood(Duration::ZERO);
    app.until(goal);
    app.rest();
}

fn compare(stand: &Stand, random: &mut Random) {
    let (first, last) = stand.place.unbroken();
    assert_eq!(first, 2, "the first base is level 9 1-1, and level 0 begins behind it");
    assert_eq!(stand.place.files(9).first(), Some(&(1, 1)));
    let mut committed = 0;
    for txid in random.sample(&(1..=last).collect::<Vec<_>>(), 10) {
        committed = same_at(stand, txid, committed);
    }
}

/// Restores a transaction with both programs: to the same bytes, and to a state no older than the one before.
fn same_at(stand: &Stand, txid: u64, before: u64) -> u64 {
    let (ours, theirs) = (stand.restore_txid(txid), stand.litestream_restore_txid(txid));
    assert_eq!(digest::of_file(&ours), digest::of_file(&theirs), "transaction {txid}");
    let committed = model::check(&ours, stand.seed);
    assert!(committed >= before, "transaction {txid} holds {committed} commits, an earlier one {before}");
    fs::remove_file(ours).unwrap();
    fs::remove_file(theirs).unwrap();
    committed
}

/// The timestamp in an LTX file's header, in milliseconds.
fn timestamp(file: &Path) -> i64 {
    let bytes = fs::read(file).unwrap();
    i64::from_be_bytes(bytes[32..40].try_into().unwrap())
}

fn sqlite<T: rusqlite::types::FromSql>(sql: &str, parameter: impl rusqlite::ToSql) -> T {
    rusqlite::Connection::open_in_memory().unwrap().query_row(sql, [parameter], |row| row.get(0)).unwrap()
}

fn metadata_says_when(stand: &Stand) {
    let Place::Bucket(server, prefix) = &stand.place else { panic!("this is about buckets") };
    for level in [0, 9] {
        for (min, max) in stand.place.files(level) {
            let key = format!("{prefix}/{level:04x}/{}", seawall_tests::file_name(min, max));
            let metadata = server.metadata(Path::new(&key));
            let text = metadata["litestream-timestamp"].as_str().unwrap_or_else(|| panic!("{key}: {metadata}"));
            let millis: i64 = sqlite("SELECT CAST(round(1000 * unixepoch(?1, 'subsec')) AS INTEGER)", text);
            assert_eq!(millis, timestamp(&stand.place.object(level, min, max)), "{key}");
        }
    }
}

/// Restores moments between two transactions with both programs: to the state of the transaction before the moment.
fn by_timestamp(stand: &Stand, random: &mut Random) {
    let times: Vec<(u64, i64)> =
        stand.place.files(0).iter().map(|(min, max)| (*max, timestamp(&stand.place.object(0, *min, *max)))).collect();
    assert!(times.is_sorted_by_key(|(_, time)| *time), "later transactions have later times: {times:?}");
    let apart: Vec<_> = times.windows(2).filter(|pair| pair[1].1 - pair[0].1 > 2).map(|pair| pair[0]).collect();
    assert!(apart.len() > 2, "too few transactions: {times:?}");
    for (txid, time) in random.sample(&apart, 4) {
        let when: String = sqlite("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', ?1 / 1000.0, 'unixepoch')", time + 1);
        let expected = digest::of_file(&stand.litestream_restore_txid(txid));
        let theirs = stand.litestream_restore(&["-timestamp", &when]);
        assert_eq!(digest::of_file(&theirs), expected, "litestream at {when}, transaction {txid}");
        assert_eq!(digest::of_file(&stand.restore_with(&["--at", &when])), expected, "seawall at {when}");
    }
}
