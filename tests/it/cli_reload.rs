//! A configuration that is read again while the process runs: by `config reload` and by SIGHUP.

use std::path::PathBuf;
use std::time::Duration;

use seawall_tests::{App, Output, Place, Process, Random, S3Server, Stand, digest, model, run, wait};
use serde_json::{Value, json};

/// Writes `seawall.yml` with a socket.
fn write(stand: &Stand, text: &str) {
    std::fs::write(stand.path("seawall.yml"), format!("socket: {{ path: s.sock }}\n{text}")).unwrap();
}

/// Items of `databases` with their files beside the configuration, each with more settings.
fn items(all: &[(&str, &str)]) -> String {
    let item = |(name, more): &(&str, &str)| format!("  - {{ path: {name}.db{more} }}\n");
    format!("vault: ./${{PLACE}}\ndatabases:\n{}", all.iter().map(item).collect::<String>())
}

/// `seawall`, with the variable that the configurations refer to.
fn seawall(stand: &Stand, args: &[&str]) -> Output {
    run("seawall", stand.command().env("PLACE", "vault").args(args))
}

/// `seawall replicate` with the configuration of the stand, found at its default place.
fn start(stand: &Stand, args: &[&str]) -> Process {
    let process = Process::spawn("seawall", stand.command().env("PLACE", "vault").arg("replicate").args(args));
    wait::until("the process to listen", wait::SOON, || {
        (seawall(stand, &["info", "--socket", "s.sock"]).code() == 0).then_some(())
    });
    process
}

/// `seawall config reload --json`, which must end with this code.
#[track_caller]
fn reload(stand: &Stand, code: i32) -> Value {
    seawall(stand, &["config", "reload", "--json"]).exits(code).json()
}

fn place(stand: &Stand, name: &str) -> Place {
    Place::Folder(stand.path("vault").join(name))
}

#[track_caller]
fn sync(stand: &Stand, name: &str) {
    wait::until("the database to be shipped", wait::SOON, || {
        let synced = seawall(stand, &["sync", name, "--wait", "--socket", "s.sock"]);
        (synced.code() == 0).then_some(())
    });
}

#[track_caller]
fn restored(stand: &Stand, place: &Place) -> PathBuf {
    let back = stand.new_file();
    seawall(stand, &["restore", &place.url(), "-o", back.to_str().unwrap()]).ok();
    back
}

/// The names of the databases that the process has.
fn names(stand: &Stand) -> Vec<String> {
    let list = seawall(stand, &["list", "--socket", "s.sock", "--json"]).ok().json();
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// The process's report on its configuration.
fn config(stand: &Stand) -> Value {
    seawall(stand, &["info", "--socket", "s.sock", "--json"]).ok().json()["config"].clone()
}

/// How many bases a database's vault has.
fn bases(place: &Place) -> usize {
    place.files(9).len()
}

#[test]
fn databases_come_go_and_change_and_a_busy_one_does_not_notice() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut apps: Vec<App> = ["busy", "goes", "changes", "comes"]
        .iter()
        .map(|name| App::start(&stand.path(&format!("{name}.db")), 1))
        .collect();
    write(&stand, &items(&[("busy", ""), ("goes", ""), ("changes", "")]));
    let mut process = start(&stand, &[]);
    for app in &mut apps {
        app.commit(10);
    }
    for name in ["busy", "goes", "changes"] {
        sync(&stand, name);
    }
    apps[0].flood(Duration::from_millis(2));
    let mut committed = 10;
    for round in 0..3 {
        // Commits from just before the removal are shipped.
        committed += 10;
        assert_eq!((apps[1].commit(10), apps[2].commit(10)), (committed, committed));
        let changes = format!(", sync-interval: {}s", 2 + round);
        write(&stand, &items(&[("busy", ""), ("changes", &changes), ("comes", "")]));
        let done = reload(&stand, 0);
        let told = [&done["status"], &done["added"], &done["removed"], &done["changed"], &done["same"]];
        let expected = [json!("reloaded"), json!(["comes"]), json!(["goes"]), json!(["changes"]), json!(1)];
        assert_eq!(told.map(Value::clone), expected, "{done}");
        assert_eq!(names(&stand), ["busy", "changes", "comes"]);
        assert_eq!(model::check(&restored(&stand, &place(&stand, "goes")), 1), committed);
        sync(&stand, "comes");
        write(&stand, &items(&[("busy", ""), ("goes", ""), ("changes", &changes)]));
        assert_eq!(reload(&stand, 0)["removed"], json!(["comes"]));
        assert_eq!(reload(&stand, 0)["status"], "unchanged");
        sync(&stand, "goes");
    }
    let busy = apps[0].rest();
    assert!(busy > 10, "it was busy");
    let last = apps[2].commit(5);
    for name in ["busy", "changes"] {
        sync(&stand, name);
        let (place, file) = (place(&stand, name), stand.path(&format!("{name}.db")));
        assert_eq!(digest::of(&restored(&stand, &place)), digest::of(&file), "{name}");
        // One history from its first base, without a hole.
        assert_eq!(bases(&place), 1, "{name}");
        place.unbroken();
    }
    assert_eq!(model::check(&restored(&stand, &place(&stand, "busy")), 1), busy);
    assert_eq!(model::check(&restored(&stand, &place(&stand, "changes")), 1), last);
    let timeline = seawall(&stand, &["timeline", &place(&stand, "busy").url(), "--json"]).ok().json();
    assert_eq!(timeline["holes"], json!([]), "{timeline}");
    process.stop().ok();
}

#[test]
fn a_changed_one_goes_on_without_a_base_while_its_application_commits() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = App::start(&stand.path("app.db"), 1);
    let with = |milliseconds: u32| write(&stand, &items(&[("app", &format!(", sync-interval: {milliseconds}ms"))]));
    with(100);
    let mut process = start(&stand, &[]);
    sync(&stand, "app");
    // So many commits that the application copies its WAL, and restarts it as soon as nothing keeps it from that.
    app.flood(Duration::from_micros(200));
    for nth in 1..=20 {
        with(100 + nth);
        assert_eq!(reload(&stand, 0)["changed"], json!(["app"]));
        app.until(app.committed() + 100);
    }
    let committed = app.rest();
    sync(&stand, "app");
    let place = place(&stand, "app");
    assert_eq!(model::check(&restored(&stand, &place), 1), committed);
    assert_eq!(bases(&place), 1, "{}", process.stderr());
    place.unbroken();
    process.stop().ok();
}

#[test]
fn an_error_changes_nothing_and_is_told_wherever_one_looks() {
    let stand = Stand::folder(Random::from_env().seed());
    let (mut app, file) = (App::start(&stand.path("app.db"), 1), stand.path("seawall.yml"));
    write(&stand, &items(&[("app", "")]));
    let mut process = start(&stand, &[]);
    sync(&stand, "app");
    let loaded_at = config(&stand)["loaded_at"].clone();
    assert!(loaded_at.is_string());
    let mut count = 0;
    for (text, code) in [
        (items(&[("app", ", colour: red")]), "config.unknown-key"),
        (items(&[("app", ""), ("app", "")]), "config.duplicate"),
        ("vault: ${UNSET}\ndatabases: [{ path: app.db }]\n".to_owned(), "config.undefined-variable"),
        ("databases: [\n".to_owned(), "config.syntax"),
    ] {
        write(&stand, &text);
        for by_signal in [true, false] {
            count += 1;
            if by_signal {
                process.hang_up();
                wait::until("the signal to be heard", wait::SOON, || {
                    (config(&stand)["error"]["count"] == count).then_some(())
                });
            } else {
                assert_eq!(reload(&stand, 2)["error"]["code"], code);
            }
            let config = config(&stand);
            assert_eq!((&config["error"]["code"], &config["error"]["count"]), (&json!(code), &json!(count)));
            assert_eq!(config["loaded_at"], loaded_at);
        }
        let shown = seawall(&stand, &["status"]).ok().stdout;
        assert!(shown.contains("protecting") && shown.contains(&format!("error[{code}]")), "{shown}");
        assert!(process.stderr().contains(code), "it is in the log");
    }
    // A file that is gone is an error too, wherever another configuration may be.
    std::fs::remove_file(&file).unwrap();
    let gone = seawall(&stand, &["config", "reload", "--socket", "s.sock", "--json"]).exits(2).json();
    assert_eq!(gone["error"]["code"], "config.unreadable");
    assert_eq!(names(&stand), ["app"]);
    let committed = app.commit(10);
    sync(&stand, "app");
    assert_eq!(model::check(&restored(&stand, &place(&stand, "app")), 1), committed);
    // Corrected, the error is gone. SIGHUP does the same as the command.
    write(&stand, &items(&[("app", ""), ("other", "")]));
    process.hang_up();
    wait::until("the other", wait::SOON, || (names(&stand) == ["app", "other"]).then_some(()));
    wait::until("no error", wait::SOON, || config(&stand)["error"].is_null().then_some(()));
    assert_ne!(config(&stand)["loaded_at"], loaded_at);
    assert_eq!(bases(&place(&stand, "app")), 1);
    process.stop().ok();
}

#[test]
fn what_needs_a_restart_is_said() {
    let stand = Stand::folder(Random::from_env().seed());
    let _app = App::start(&stand.path("app.db"), 1);
    write(&stand, &items(&[("app", "")]));
    let mut process = start(&stand, &[]);
    let more = "upload-limit: 10MiB\nsweep-interval: 5m\nmetrics-addr: 127.0.0.1:0\nlogging: { level: debug }\n";
    write(&stand, &format!("{more}{}", items(&[("app", "")])));
    for settings in [json!(["logging.level", "metrics-addr"]), json!([])] {
        let done = reload(&stand, 3);
        assert_eq!((&done["settings"], &done["same"]), (&settings, &json!(1)), "{done}");
        assert_eq!(done["needs_restart"], json!(["sweep-interval", "upload-limit"]));
    }
    assert_eq!(config(&stand)["needs_restart"], json!(["sweep-interval", "upload-limit"]));
    assert!(process.stderr().contains("metrics: listening"));
    // A database that can't be opened fails alone.
    write(
        &stand,
        &items(&[("app", ""), ("s3", ", vault: 's3://b/x', s3: { region: eu, sse-customer-key-path: /nowhere }")]),
    );
    let done = reload(&stand, 3);
    assert_eq!((&done["failed"][0]["name"], &done["added"]), (&json!("s3"), &json!(["s3"])), "{done}");
    assert!(done["failed"][0]["error"]["code"].is_string(), "{done}");
    write(&stand, &items(&[("app", "")]));
    let done = reload(&stand, 0);
    assert_eq!((&done["removed"], &done["needs_restart"]), (&json!(["s3"]), &json!([])), "{done}");
    process.stop().ok();
}

#[test]
fn without_a_configuration_there_is_nothing_to_read_again() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut process = stand.replicate_with(&["--socket", "s.sock"]);
    stand.until_protected(&mut process);
    process.hang_up();
    wait::until("the signal to be heard", wait::SOON, || process.stderr().contains("SIGHUP").then_some(()));
    let refused = seawall(&stand, &["config", "reload", "--socket", "s.sock", "--json"]).exits(1).json();
    assert_eq!(refused["error"]["code"], "agent.no-configuration");
    assert_eq!(config(&stand), Value::Null);
    let committed = app.commit(5);
    process.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
}

#[test]
fn the_program_of_exec_gets_no_sighup() {
    let stand = Stand::folder(Random::from_env().seed());
    let _app = App::start(&stand.path("app.db"), 1);
    write(&stand, &items(&[("app", "")]));
    let script = "trap 'echo hung up >told' HUP\ntrap 'exit 7' TERM\necho >ready\nwhile :; do sleep 0.05; done\n";
    std::fs::write(stand.path("child.sh"), script).unwrap();
    let mut process = start(&stand, &["--exec", "/bin/sh child.sh"]);
    wait::until("the child", wait::SOON, || stand.path("ready").exists().then_some(()));
    write(&stand, &items(&[("app", ""), ("other", "")]));
    process.hang_up();
    wait::until("the other", wait::SOON, || (names(&stand) == ["app", "other"]).then_some(()));
    process.stop().exits(7);
    assert!(!stand.path("told").exists(), "SIGHUP is about our configuration");
}

#[test]
fn a_litestream_yml_is_read_again_too() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut apps: Vec<App> = ["a", "b"].iter().map(|name| App::start(&stand.path(&format!("{name}.db")), 1)).collect();
    let config = |all: &[&str]| {
        let item = |name: &&str| format!("  - path: {name}.db\n    replica:\n      path: vault/{name}\n");
        let text: String = all.iter().map(item).collect();
        let text = format!("socket: {{ enabled: true, path: $PLACE/../s.sock }}\ndbs:\n{text}");
        std::fs::write(stand.path("litestream.yml"), text).unwrap();
    };
    config(&["a"]);
    std::fs::create_dir_all(stand.path("vault")).unwrap();
    let mut process = start(&stand, &["--config", "litestream.yml"]);
    apps[0].commit(5);
    sync(&stand, "a.db");
    config(&["a", "b"]);
    let done = seawall(&stand, &["config", "reload", "--config", "litestream.yml", "--json"]).ok().json();
    assert_eq!(done["added"], json!([stand.path("b.db")]), "{done}");
    let committed = apps[1].commit(7);
    sync(&stand, "b.db");
    assert_eq!(model::check(&restored(&stand, &place(&stand, "b")), 1), committed);
    assert_eq!(bases(&place(&stand, "a")), 1);
    process.stop().ok();
}

#[test]
fn what_was_registered_and_found_is_not_lost() {
    let stand = Stand::folder(Random::from_env().seed());
    std::fs::create_dir(stand.path("data")).unwrap();
    let mut apps: Vec<App> =
        ["app.db", "more.db", "data/x.db"].iter().map(|name| App::start(&stand.path(name), 1)).collect();
    let folder = "  - { dir: data, pattern: '*.db' }\n";
    write(&stand, &format!("{}{folder}", items(&[("app", "")])));
    let mut process = start(&stand, &[]);
    let register = ["register", "more.db", "--name", "more", "--socket", "s.sock"];
    seawall(&stand, &register).ok();
    for name in ["app", "more", "data/x.db"] {
        sync(&stand, name);
    }
    for pages in [500, 700] {
        let more = format!(", checkpoint-pages: {pages}");
        write(&stand, &format!("{}{folder}", items(&[("app", &more)])));
        let done = reload(&stand, 0);
        assert_eq!((&done["changed"], &done["same"]), (&json!(["app"]), &json!(2)), "{done}");
        assert_eq!(names(&stand), ["app", "data/x.db", "more"]);
    }
    let committed: Vec<u64> = apps.iter_mut().map(|app| app.commit(9)).collect();
    for (name, committed) in ["app", "more", "data/x.db"].iter().zip(committed) {
        sync(&stand, name);
        let place = place(&stand, name);
        assert_eq!(model::check(&restored(&stand, &place), 1), committed, "{name}");
        assert_eq!(bases(&place), 1, "{name}");
    }
    process.stop().ok();
}

#[test]
fn keys_in_files_are_read_again_without_a_reload_on_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    let mut app = stand.app();
    let (id, key) = (stand.path("id"), stand.path("key"));
    let spoil = |spoiled: bool| {
        std::fs::write(&id, S3Server::ACCESS_KEY).unwrap();
        std::fs::write(&key, format!("{}{}\n", S3Server::SECRET_KEY, if spoiled { "x" } else { "" })).unwrap();
    };
    spoil(false);
    let config = format!(
        "s3: {{ access-key-id-file: id, secret-access-key-file: key }}\ndatabases: [{{ path: app.db, vault: '{}' }}]\n",
        stand.place.url()
    );
    write(&stand, &config);
    let mut process = start(&stand, &[]);
    stand.until_protected(&mut process);
    let before = config_of(&stand);
    for round in 1..=2 {
        // As between two steps of a renewal: the keys are wrong for a while.
        spoil(true);
        let committed = wait::until("the keys to be refused", Duration::from_secs(60), || {
            let committed = app.commit(1);
            (stand.status()["error"]["code"] == "vault.denied").then_some(committed)
        });
        spoil(false);
        stand.until_protected(&mut process);
        assert!(model::check(&stand.restore(), stand.seed) >= committed, "round {round}");
    }
    assert_eq!(config_of(&stand), before, "nothing was reloaded");
    assert_eq!(bases(&stand.place), 1);
    process.stop().ok();
}

fn config_of(stand: &Stand) -> Value {
    config(stand)["loaded_at"].clone()
}
