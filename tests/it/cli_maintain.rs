//! Retention, pins and `maintain`, with the real binary.

use std::fs;
use std::time::Duration;

use seawall_tests::{NoDeletes, Place, Process, Random, Stand, model, wait};

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

    // A pin keeps an object that retention would delete. Without the pin there is nothing left to do the second time.
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

/// A store that refuses to delete: protection and merging continue, nothing fails, and each process tries once and
/// reports it once.
#[test]
fn credentials_that_may_not_delete_on_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    let Place::Bucket(server, _) = &stand.place else { unreachable!() };
    let proxy = NoDeletes::before(server);
    let yml = |name: &str, more: &str| {
        let url = proxy.url(&stand.place);
        let file = stand.path(name);
        fs::write(&file, format!("{more}databases:\n  - {{ path: app.db, vault: '{url}' }}\n")).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let all = yml("all.yml", "retention: { enabled: false }\nlevels: [{ interval: 1h }]\n");
    let short = "levels: [{ interval: 1s }]\nl0-retention: 1s\nretention: { keep: 1s, grace: 0s }\n";
    let few = yml("few.yml", short);
    let mut app = stand.app();
    for _ in 0..4 {
        app.commit(5);
        stand.seawall(&["replicate", "--once", "--config", &all]).ok();
    }
    let before = stand.place.files(0);
    let said = |text: &str| text.matches("code=\"sqlite.may-not-delete\"").count();
    let (output, asked) = wait::until("something to be old enough to be deleted", wait::SOON, || {
        let before = proxy.refused();
        let output = stand.seawall(&["maintain", "--json", "--config", &few, "app"]).ok();
        let asked = proxy.refused() - before;
        (asked > 0).then_some((output, asked))
    });
    assert_eq!((said(&output.stderr), asked), (1, 1), "{output}");
    assert_eq!(output.json()["removed"], serde_json::json!([]), "{output}");
    assert!(before.iter().all(|file| stand.place.files(0).contains(file)), "everything is still there");
    let committed = app.commit(5);
    let mut process = Process::spawn("seawall", stand.command().args(["replicate", "--config", &few]));
    stand.until_protected(&mut process);
    let output = process.stop().ok();
    assert!(said(&output.stderr) <= 1, "{output}");
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
    assert_eq!(model::check(&stand.litestream_restore(&[]), stand.seed), committed);
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
