//! Retention, pins and `maintain`, with the real binary.

use std::fs;
use std::time::Duration;

use seawall_tests::{Process, Random, Stand, model, wait};

#[test]
fn what_is_old_goes_and_what_is_left_is_whole() {
    let stand = Stand::folder(Random::from_env().seed());
    let config = stand.path("seawall.yml");
    let text = format!(
        "levels: [{{ interval: 1s }}]\nsnapshot: {{ interval: 2s }}\nl0-retention: 1s\n\
         retention: {{ keep: 2s, grace: 1s }}\ndatabases:\n  - path: {}\n    vault: {}\n    sync-interval: 100ms\n",
        stand.db().display(),
        stand.place.url(),
    );
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let mut app = stand.app();
    app.commit(20);
    let mut process = Process::spawn("seawall", stand.command().args(["replicate", "--config", config]));
    app.flood(Duration::from_millis(20));
    wait::until("the first base to be deleted", wait::SOON * 6, || {
        assert!(process.running(), "it ended by itself");
        let bases = stand.place.files(9);
        (bases.len() > 1 && bases.first() != Some(&(1, 1))).then_some(())
    });
    app.rest();
    process.stop().ok();
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    for hole in timeline["holes"].as_array().unwrap() {
        assert_eq!(hole["reason"], "the points in between are not kept any longer", "{timeline}");
    }
    assert_eq!(model::check(&stand.restore(), stand.seed), app.committed());
    stand.seawall(&["verify", &stand.place.url()]).ok();

    // A pin holds what retention would let go; without it nothing is left to do the second time.
    let pinned = stand.seawall(&["pin", "--config", config, "app", "--json"]).ok().json();
    let position = pinned["position"].as_str().unwrap().to_owned();
    let record = app.committed();
    app.commit(10);
    stand.seawall(&["replicate", "--config", config, "--once"]).ok();
    let due = || stand.seawall(&["maintain", "--config", config, "app", "--json"]).ok().json();
    wait::until("nothing more to be due", wait::SOON * 2, || {
        let done = due();
        (done["made"].as_array().unwrap().is_empty() && done["removed"].as_array().unwrap().is_empty()).then_some(())
    });
    assert_eq!(model::check(&stand.restore_with(&["--at", &position]), stand.seed), record);
    assert_eq!(model::check(&stand.restore(), stand.seed), app.committed());
    stand.seawall(&["pin", "--config", config, "app", "--at", &position, "--remove"]).ok();
    stand.seawall(&["pin", "--config", config, "app", "--at", &position, "--remove"]).exits(4);
}

#[test]
fn a_place_alone_has_no_policy() {
    let stand = Stand::folder(1);
    let mut app = stand.app();
    app.commit(5);
    stand.replicate_once();
    let url = stand.place.url();
    let output = stand.seawall(&["maintain", &url]).exits(2);
    assert!(output.stderr.contains("usage.no-policy"), "{output}");
    stand.seawall(&["maintain", &url, "--keep", "long"]).exits(2);
    let done = stand.seawall(&["maintain", &url, "--keep", "7d", "--dry-run", "--json"]).ok().json();
    assert_eq!((done["dry_run"].as_bool(), done["removed"].as_array().map(Vec::len)), (Some(true), Some(0)));
}
