//! Levels and retention beside Litestream: each program restores and continues what the other merged and deleted.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use seawall_tests::{App, Place, Process, Random, Stand, digest, model, wait};

/// Short windows, so that a test sees several levels.
const LEVELS: &str = "levels: [{ interval: 1s }, { interval: 3s }]\nsnapshot: { interval: 6s, retention: 5s }\n\
                      l0-retention: 2s\nl0-retention-check-interval: 1s\n";

/// Starts `seawall replicate` with Litestream's own configuration file.
fn seawall(stand: &Stand) -> Process {
    let config = stand.litestream_yml(LEVELS);
    Process::spawn("seawall", stand.command().args(["replicate", "--config"]).arg(config))
}

fn litestream(stand: &Stand) -> Process {
    stand.litestream(LEVELS)
}

/// Commits until the level holds this many more objects than before.
fn until_level(stand: &Stand, app: &mut App, process: &mut Process, level: u8, more: usize) {
    let newest = |stand: &Stand| stand.place.files(level).last().map_or(0, |file| file.1);
    for _ in 0..more {
        let before = newest(stand);
        app.flood(Duration::from_millis(20));
        wait::until(&format!("another object of level {level}"), wait::SOON * 3, || {
            assert!(process.running(), "it ended by itself");
            (newest(stand) > before).then_some(())
        });
        app.rest();
    }
}

/// Both programs restore the application's state, and every point that both list.
fn agree(stand: &Stand, app: &App) {
    let source = digest::without_litestream_tables(&stand.db());
    for (name, back) in [("seawall", stand.restore()), ("litestream", stand.litestream_restore(&[]))] {
        assert_eq!(model::check(&back, stand.seed), app.committed(), "{name}");
        assert_eq!(digest::without_litestream_tables(&back), source, "{name}");
    }
    stand.seawall(&["verify", &stand.place.url()]).ok();
}

fn same_at_every_object(stand: &Stand, level: u8) {
    let first_base = stand.place.files(9).first().map_or(0, |base| base.1);
    let ends: Vec<u64> = stand.place.files(level).iter().map(|file| file.1).filter(|end| *end > first_base).collect();
    assert!(!ends.is_empty(), "level {level} holds nothing behind the first base");
    let mut committed = 0;
    for txid in ends.into_iter().rev().take(4).collect::<Vec<_>>().into_iter().rev() {
        let (ours, theirs) = (stand.restore_txid(txid), stand.litestream_restore_txid(txid));
        assert_eq!(digest::of_file(&ours), digest::of_file(&theirs), "level {level}, transaction {txid}");
        let now = model::check(&ours, stand.seed);
        assert!(now >= committed, "transaction {txid} holds {now} commits, an earlier one {committed}");
        committed = now;
        for back in [ours, theirs] {
            fs::remove_file(back).unwrap();
        }
    }
}

#[test]
fn litestream_restores_our_levels() {
    let stand = Stand::folder(Random::from_env().seed());
    ours(&stand);
}

#[test]
fn litestream_restores_our_levels_on_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    ours(&stand);
}

fn ours(stand: &Stand) {
    let mut app = stand.app();
    app.commit(50);
    let mut process = seawall(stand);
    until_level(stand, &mut app, &mut process, 2, 3);
    until_level(stand, &mut app, &mut process, 9, 1);
    app.sql("VACUUM");
    until_level(stand, &mut app, &mut process, 1, 2);
    process.stop().ok();
    for level in [1, 2] {
        same_at_every_object(stand, level);
    }
    agree(stand, &app);
    listed_by_litestream(stand);
}

/// `litestream ltx -level all` reads our levels.
fn listed_by_litestream(stand: &Stand) {
    let config = stand.litestream_yml("");
    let mut command = stand.litestream_command();
    command.args(["ltx", "-level", "all", "-config"]).arg(config).arg(stand.db());
    let listed = seawall_tests::run("litestream", &mut command).ok().stdout;
    for level in [0, 1, 2, 9] {
        for (min, max) in stand.place.files(level) {
            let (min, max) = (format!("{min:016x}"), format!("{max:016x}"));
            assert!(listed.lines().any(|line| line.contains(&min) && line.contains(&max)), "{min}-{max}:\n{listed}");
        }
    }
}

#[test]
fn the_ltx_tool_verifies_what_we_merged() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(50);
    let mut process = seawall(&stand);
    until_level(&stand, &mut app, &mut process, 9, 2);
    process.stop().ok();
    let object = |level: u8| stand.place.files(level).into_iter().map(move |(min, max)| (level, min, max));
    let files: Vec<PathBuf> =
        [1, 2, 9].into_iter().flat_map(object).map(|(level, min, max)| stand.place.object(level, min, max)).collect();
    assert!(files.len() > 3, "{files:?}");
    seawall_tests::run("ltx", stand.ltx_tool_command().arg("verify").args(files)).ok();
}

#[test]
fn either_continues_the_others_levels() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(50);
    for turn in 0..4 {
        let mut process = if turn % 2 == 0 { litestream(&stand) } else { seawall(&stand) };
        app.commit(5);
        until_level(&stand, &mut app, &mut process, 2, 2);
        process.stop().ok();
        agree(&stand, &app);
        app.commit(3);
    }
    contiguous(&stand.place, 1);
    contiguous(&stand.place, 2);
}

fn contiguous(place: &Place, level: u8) {
    for pair in place.files(level).windows(2) {
        assert!(pair[1].0 <= pair[0].1 + 1, "level {level}: nothing between {:?} and {:?}", pair[0], pair[1]);
    }
}
