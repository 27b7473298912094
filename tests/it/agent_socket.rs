//! The control socket: a running process is asked, by our commands and as Litestream's users do.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use seawall_tests::{App, Process, Random, Stand, ask_socket, digest, model, wait};
use serde_json::{Value, json};

/// `seawall replicate` for the stand's database, with a socket `s.sock`.
fn listening(stand: &Stand) -> Process {
    let process = stand.replicate_with(&["--socket", "s.sock"]);
    until_it_listens(stand);
    process
}

fn until_it_listens(stand: &Stand) {
    wait::until("the process to listen", wait::SOON, || {
        (stand.seawall(&["info", "--socket", "s.sock"]).code() == 0).then_some(())
    });
}

/// Runs a command that asks the process, and returns its JSON.
#[track_caller]
fn ask(stand: &Stand, args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.extend(["--socket", "s.sock", "--json"]);
    stand.seawall(&all).ok().json()
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn what_is_committed_is_shipped_when_asked() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut seawall = listening(&stand);
    let db = stand.db();
    for round in 1..=5 {
        let committed = app.commit(20);
        let synced = ask(&stand, &["sync", "app.db", "--wait"]);
        assert_eq!(synced["path"], text(&db), "{synced}");
        assert_eq!(synced["txid"], stand.place.newest(), "{synced}");
        let back = stand.restore();
        assert_eq!(model::check(&back, stand.seed), committed, "round {round}");
        assert_eq!(digest::of(&back), digest::of(&db));
    }
    assert_eq!(ask(&stand, &["sync", "app.db", "--wait"])["status"], "no_change");
    let mode = std::fs::metadata(stand.path("s.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    seawall.stop().ok();
    assert!(!stand.path("s.sock").exists(), "it goes with its process");
    let gone = stand.seawall(&["list", "--socket", "s.sock", "--json"]).exits(4).json();
    assert_eq!(gone["error"]["code"], "agent.no-process");
}

#[test]
fn a_stopped_database_is_not_shipped_until_it_is_started() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut seawall = listening(&stand);
    stand.until_protected(&mut seawall);
    app.commit(10);
    let stopped = ask(&stand, &["stop", "app.db"]);
    assert_eq!(stopped["status"], "stopped");
    let before = stand.place.newest();
    assert_eq!(stopped["txid"], before, "what was committed before is there");
    assert_eq!(model::check(&stand.restore(), stand.seed), 10);
    app.commit(10);
    let status = ask(&stand, &["status"]);
    assert_eq!(status[0]["phase"], "stopped", "{status}");
    assert_eq!(ask(&stand, &["list"])[0]["status"], "stopped");
    let refused = stand.seawall(&["sync", "app.db", "--socket", "s.sock", "--json"]).exits(1).json();
    assert_eq!(refused["error"]["code"], "agent.not-running");
    assert_eq!(stand.place.newest(), before);
    assert_eq!(ask(&stand, &["start", "app.db"])["status"], "started");
    ask(&stand, &["sync", "app.db", "--wait"]);
    assert_eq!(model::check(&stand.restore(), stand.seed), 20);
    stand.place.unbroken();
    seawall.stop().ok();
}

#[test]
fn a_registered_database_survives_a_restart() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut first = stand.app();
    let mut seawall = listening(&stand);
    let path = stand.path("second.db");
    let mut second = App::start(&path, stand.seed + 1);
    let vault = stand.path("second-vault");
    let registered = ask(&stand, &["register", "second.db", "./second-vault"]);
    assert_eq!(registered["status"], "registered");
    assert_eq!(ask(&stand, &["register", "second.db", "./second-vault"])["status"], "already_registered");
    for kill in [false, true] {
        let committed = (first.commit(10), second.commit(10));
        if kill {
            seawall.kill_9();
        } else {
            ask(&stand, &["sync", "second.db", "--wait"]);
            seawall.stop().ok();
        }
        seawall = listening(&stand);
        let list = ask(&stand, &["list"]);
        let origins: Vec<_> = list.as_array().unwrap().iter().map(|one| one["origin"].clone()).collect();
        assert_eq!(origins, ["configured", "registered"], "{list}");
        ask(&stand, &["sync", "app.db", "--wait"]);
        ask(&stand, &["sync", "second.db", "--wait"]);
        assert_eq!(model::check(&stand.restore(), stand.seed), committed.0);
        let back = stand.new_file();
        stand.seawall(&["restore", text(&vault), "-o", text(&back)]).ok();
        assert_eq!(model::check(&back, stand.seed + 1), committed.1);
        assert_eq!(digest::of(&back), digest::of(&path));
    }
    assert_eq!(ask(&stand, &["unregister", "second.db"])["status"], "unregistered");
    assert_eq!(ask(&stand, &["unregister", "second.db"])["status"], "already_unregistered");
    seawall.stop().ok();
    let mut seawall = listening(&stand);
    assert_eq!(ask(&stand, &["list"]).as_array().unwrap().len(), 1);
    seawall.stop().ok();
}

#[test]
fn litestreams_requests_get_litestreams_answers() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut seawall = listening(&stand);
    stand.until_protected(&mut seawall);
    app.commit(5);
    let db = stand.db();
    let (db, socket) = (text(&db), stand.path("s.sock"));
    let post = |target: &str, body: Value| {
        let (status, body) = ask_socket(&socket, "POST", target, &body.to_string());
        (status, serde_json::from_str::<Value>(&body).unwrap_or_default())
    };
    let get = |target: &str| {
        let (status, body) = ask_socket(&socket, "GET", target, "");
        (status, serde_json::from_str::<Value>(&body).unwrap_or_default())
    };
    let (status, synced) = post("/sync", json!({ "path": db, "wait": true }));
    let newest = stand.place.newest();
    assert_eq!((status, &synced["txid"], &synced["replicated_txid"]), (200, &json!(newest), &json!(newest)));
    // An event may have had the commits shipped before the request came.
    assert!(["synced", "no_change"].contains(&synced["status"].as_str().unwrap()), "{synced}");
    assert_eq!(get(&format!("/txid?path={db}")), (200, json!({ "txid": newest })));
    let (_, list) = get("/list");
    assert_eq!((&list["databases"][0]["path"], &list["databases"][0]["status"]), (&json!(db), &json!("replicating")));
    assert!(list["databases"][0]["last_sync_at"].as_str().is_some(), "{list}");
    let (_, info) = get("/info");
    assert_eq!(info["database_count"], 1);
    assert!(info["pid"].is_u64() && info["uptime_seconds"].is_u64() && info["started_at"].is_string(), "{info}");
    assert_eq!(get("/debug/sync-status").1["databases"][0]["path"], db);
    let (path, vault) = (stand.path("new.db"), format!("file://{}", stand.path("new-vault").display()));
    let (status, registered) = post("/register", json!({ "path": text(&path), "replica_url": vault }));
    assert_eq!((status, &registered["status"], &registered["path"]), (200, &json!("registered"), &json!(text(&path))));
    let unregister = json!({ "path": text(&path), "timeout": 30 });
    assert_eq!(post("/unregister", unregister.clone()).1["status"], "unregistered");
    assert_eq!(post("/unregister", unregister).1["status"], "already_unregistered");
    assert_eq!(post("/stop", json!({ "path": db, "timeout": 30 })).1["status"], "stopped");
    assert_eq!(post("/stop", json!({ "path": db })).1["status"], "already_stopped");
    assert_eq!(post("/start", json!({ "path": db })).1["status"], "started");
    assert_eq!(post("/start", json!({ "path": db })).1["status"], "already_running");
    for (status, answer) in [
        post("/sync", json!({ "path": "/nowhere.db" })),
        post("/start", json!({ "path": "/nowhere.db" })),
        post("/register", json!({ "path": "relative.db", "replica_url": vault })),
        post("/register", json!({ "path": "/x.db", "replica_url": "gopher://x" })),
        post("/sync", json!({ "wait": true })),
    ] {
        assert!(status >= 400 && answer["error"].as_str().is_some_and(|error| !error.is_empty()), "{status} {answer}");
    }
    let (status, answer) = post("/sync", json!({ "wait": true }));
    assert_eq!((status, &answer["failure"]["code"]), (400, &json!("agent.request")), "{answer}");
    assert_eq!(get("/debug/pprof/").0, 404);
    assert_eq!(ask_socket(&socket, "PUT", "/info", "").0, 405);
    assert!(seawall.running());
    seawall.stop().ok();
}

#[test]
fn a_second_process_does_not_take_the_socket_away() {
    let stand = Stand::folder(Random::from_env().seed());
    let _app = stand.app();
    let mut seawall = listening(&stand);
    let pid = ask(&stand, &["info"])["pid"].clone();
    let other = stand.path("other.db");
    let _other = App::start(&other, stand.seed);
    let mut command = stand.command();
    command.args(["replicate", "--socket", "s.sock"]).arg(&other).arg(stand.path("other-vault"));
    let mut second = Process::spawn("seawall", &mut command);
    wait::until("the second to say so", wait::SOON, || second.stderr().contains("agent.listen").then_some(()));
    wait::until("it to protect all the same", wait::SOON, || stand.path("other-vault/ltx/0").exists().then_some(()));
    assert_eq!(ask(&stand, &["info"])["pid"], pid);
    second.stop().ok();
    assert_eq!(ask(&stand, &["info"])["pid"], pid, "its end doesn't take it away either");
    // A crash leaves the socket file. The next process replaces it.
    seawall.kill_9();
    assert!(stand.path("s.sock").exists());
    wait::pass(Duration::from_millis(10));
    let mut seawall = listening(&stand);
    assert_ne!(ask(&stand, &["info"])["pid"], pid);
    seawall.stop().ok();
}
