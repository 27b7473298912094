//! Seawall continues where Litestream stopped, and Litestream where Seawall stopped, in one unbroken level 0.

use std::time::Duration;

use seawall_tests::{App, Random, Stand, digest, model, wait};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Tool {
    Seawall,
    Litestream,
}
use Tool::{Litestream, Seawall};

#[test]
fn in_turns_with_commits_while_neither_runs() {
    in_turns(
        &Stand::folder(Random::from_env().seed()),
        &[Litestream, Seawall, Litestream, Seawall, Seawall, Litestream],
    );
}

#[test]
fn in_turns_beginning_with_seawall() {
    in_turns(&Stand::folder(Random::from_env().seed()), &[Seawall, Litestream, Seawall, Litestream]);
}

#[test]
fn in_turns_on_s3() {
    in_turns(&Stand::bucket(Random::from_env().seed()), &[Seawall, Litestream, Seawall, Litestream, Seawall]);
}

/// The programs take turns. Before each turn the application commits while neither program runs. Every second time it
/// also closes the database, so that SQLite makes a checkpoint and removes the WAL.
fn in_turns(stand: &Stand, turns: &[Tool]) {
    let mut app = stand.app();
    app.commit(20);
    for (number, tool) in turns.iter().enumerate() {
        app.commit(7);
        if number % 2 == 1 {
            app.close();
            app.open();
            app.commit(1);
        }
        eprintln!("turn {number}: {tool:?}");
        run_for_a_while(stand, &mut app, *tool);
        agree(stand, &app);
    }
}

fn run_for_a_while(stand: &Stand, app: &mut App, tool: Tool) {
    let before = stand.place.newest();
    let mut process = match tool {
        Seawall => stand.replicate(),
        Litestream => stand.litestream(""),
    };
    app.commit(1);
    wait::until("the first transaction of this turn", wait::SOON, || {
        assert!(process.running(), "{tool:?} ended by itself");
        (stand.place.newest() > before).then_some(())
    });
    app.flood(Duration::from_millis(1));
    let goal = app.committed() + 200;
    app.until(goal);
    app.rest();
    process.stop().ok();
}

/// Level 0 has no break, and both programs restore the application's state.
fn agree(stand: &Stand, app: &App) {
    let (first, last) = stand.place.unbroken();
    assert!(first <= 2 && last >= first, "level 0 holds {first} to {last}");
    let source = digest::without_litestream_tables(&stand.db());
    for (name, back) in [("seawall", stand.restore()), ("litestream", stand.litestream_restore(&[]))] {
        assert_eq!(model::check(&back, stand.seed), app.committed(), "{name}");
        assert_eq!(digest::without_litestream_tables(&back), source, "{name}");
    }
}

#[test]
fn litestream_takes_over_after_a_first_base_without_any_commit() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    assert_eq!(stand.place.files(9), [(1, 1)]);
    assert_eq!(stand.place.files(0), [(2, 2)]);
    agree(&stand, &app);
    for _ in 0..2 {
        run_for_a_while(&stand, &mut app, Litestream);
        agree(&stand, &app);
    }
    run_for_a_while(&stand, &mut app, Seawall);
    agree(&stand, &app);
}

#[test]
fn seawall_takes_over_after_litestreams_first_snapshot_without_any_commit() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    let mut litestream = stand.litestream("");
    wait::until("the first snapshot", wait::SOON, || (stand.place.newest() > 0).then_some(()));
    litestream.stop().ok();
    let before = stand.place.newest();
    let mut seawall = stand.replicate();
    assert!(stand.until_protected(&mut seawall) >= before);
    seawall.stop().ok();
    agree(&stand, &app);
    run_for_a_while(&stand, &mut app, Seawall);
    agree(&stand, &app);
}

#[test]
fn once_in_turns_with_litestream_once() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    for _ in 0..3 {
        app.commit(10);
        stand.replicate_once();
        agree(&stand, &app);
        app.commit(10);
        stand.litestream_once();
        agree(&stand, &app);
    }
    for tool in [Seawall, Litestream] {
        run_for_a_while(&stand, &mut app, tool);
        agree(&stand, &app);
    }
}

#[test]
fn litestreams_local_state_may_be_gone_and_so_may_ours() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    for tool in [Seawall, Litestream, Seawall, Litestream] {
        run_for_a_while(&stand, &mut app, tool);
        for state in [stand.state(), stand.path(".app.db-litestream")] {
            if state.exists() {
                std::fs::remove_dir_all(state).unwrap();
            }
        }
        app.commit(5);
        run_for_a_while(&stand, &mut app, tool);
        agree(&stand, &app);
    }
}
