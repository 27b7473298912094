//! Encrypted vaults of servers and of LMDB environments, on a host without a key of the owner, by the command line. Days
//! pass by renaming the files of the host's keys, whose names say when they were made.

use std::path::{Path, PathBuf};

use seawall_tests::{Output, Process, Stand, wait};
use serde_json::Value;

use crate::environment::{get, put};
use crate::postgres::server::Server;

/// Debian's version.
const MAJOR: u32 = 15;

const DAY: i64 = 24 * 60 * 60 * 1000;

/// A number and a hash of all rows.
const CONTENT: &str = "SELECT count(*) || ' ' || sum(hashtextextended(t::text, 0)) FROM t";

/// Makes the owner's key in `owner.key`; returns its public key.
fn owner(stand: &Stand) -> String {
    let (secret, public) = seawall_vault::Identities::generate();
    std::fs::write(stand.path("owner.key"), format!("{}\n", secret.reveal())).unwrap();
    public
}

/// The files of the host's keys below a folder.
fn keys(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(files) = std::fs::read_dir(folder) else { return found };
    for file in files {
        let path = file.unwrap().path();
        if path.is_dir() {
            found.extend(keys(&path));
        } else if path.extension() == Some("key".as_ref()) {
            found.push(path);
        }
    }
    found
}

/// Lets days pass: every key of the host was made so much earlier.
fn pass(days: i64, folder: &Path) {
    for path in keys(folder) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some((millis, rest)) = name.split_once('-') else { continue };
        let millis: i64 = millis.parse().unwrap();
        std::fs::rename(&path, path.with_file_name(format!("{:014}-{rest}", millis - days * DAY))).unwrap();
    }
}

fn spans(timeline: &Value) -> usize {
    timeline["spans"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_server_is_backed_up_and_retained_for_days_without_the_owners_key() {
    let (stand, server) = (Stand::folder(41), Server::start(MAJOR));
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT i, md5(i::text) AS m FROM generate_series(1, 5000) i");
    let (public, vault, state) = (owner(&stand), stand.place.url(), stand.path(".local/state/seawall/keys"));
    let config = |retention: &str| {
        let text = format!(
            "socket: {{ path: s.sock }}\nencryption: {{ recipients: [{public}] }}\ndatabases:\n  - url: {}\n    name: shop\n    \
             vault: {vault}\n    schedule: \"0 3 1 1 *\"\n    retention: {{ {retention} }}\n",
            server.url("shop")
        );
        std::fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    config("keep: 10000d");
    let mut states: Vec<(String, String)> = Vec::new();
    for day in 0..6 {
        server.sql("shop", &format!("INSERT INTO t VALUES ({day}, 'day {day}'); DELETE FROM t WHERE i = 100 + {day}"));
        let made = stand.seawall(&["backup", "shop", "--config", "seawall.yml", "--json"]).ok().json();
        states.push((made["id"].as_str().unwrap().to_owned(), server.sql("shop", CONTENT)));
        pass(2, &state);
    }
    // The keys of the first days are gone, and the host still knows the whole chain.
    assert!(keys(&state).len() <= 4, "{:?}", keys(&state));
    let timeline = stand.seawall(&["timeline", "shop", "--config", "seawall.yml", "--json"]).ok().json();
    assert_eq!((spans(&timeline), &timeline["holes"]), (6, &Value::Array(vec![])), "{timeline}");
    let refused = stand.seawall(&["restore", &vault, "--to", &server.url("no")]).exits(2);
    assert!(refused.stderr.contains("error[vault.encrypted]"), "{refused}");
    let (first, _) = &states[0];
    let to = server.url("no");
    let refused = stand.seawall(&["restore", "shop", "--config", "seawall.yml", "--to", &to, "--at", first]).exits(2);
    assert!(refused.stderr.contains("error[vault.encrypted]"), "a thief of the host reads no older history: {refused}");

    // Retention decides on sets that the host can't open any more.
    config("keep: 1ms, minimum: 2, grace: 1ms");
    let retired = stand.seawall(&["maintain", "shop", "--config", "seawall.yml", "--json"]).ok().json();
    assert_eq!(retired["retired"].as_array().map(Vec::len), Some(4), "{retired}");
    wait::until("the grace to be over", wait::SOON, || {
        let done = stand.seawall(&["maintain", "shop", "--config", "seawall.yml", "--json"]).ok().json();
        (done["removed"].as_array().map(Vec::len) == Some(8)).then_some(())
    });

    // The owner finds a chain without a fault, and in it the recorded states.
    let read = |args: &[&str]| -> Output { stand.seawall(&[args, &["--identity", "owner.key"]].concat()) };
    let verified = read(&["verify", &vault, "--json"]).ok().json();
    assert_eq!(verified["findings"], Value::Array(vec![]), "{verified}");
    for (nth, (id, content)) in states.iter().enumerate().skip(4) {
        let database = format!("back{nth}");
        read(&["restore", &vault, "--to", &server.url(&database), "--at", id]).ok();
        assert_eq!(server.sql(&database, CONTENT), *content, "{id}");
    }

    // The host loses its keys: it goes on, leaves alone what it can't read, and says so.
    std::fs::remove_dir_all(&state).unwrap();
    server.sql("shop", "INSERT INTO t VALUES (-1, 'later')");
    let made = stand.seawall(&["backup", "shop", "--config", "seawall.yml", "--json"]).ok().json();
    let done = stand.seawall(&["maintain", "shop", "--config", "seawall.yml", "--json"]).ok().json();
    assert_eq!(done["retired"], Value::Array(vec![]), "{done}");
    let timeline = read(&["timeline", &vault, "--json"]).ok().json();
    assert_eq!((spans(&timeline), &timeline["holes"]), (3, &Value::Array(vec![])), "{timeline}");
    let verified = read(&["verify", &vault, "--json"]).ok().json();
    assert_eq!(verified["findings"], Value::Array(vec![]), "{verified}");
    let id = made["id"].as_str().unwrap();
    read(&["restore", &vault, "--to", &server.url("later"), "--at", id]).ok();
    assert_eq!(server.sql("later", CONTENT), server.sql("shop", CONTENT));
}

#[test]
fn an_lmdb_environment_that_only_sends_needs_no_key_of_the_owner() {
    let stand = Stand::folder(42);
    let (public, vault, env) = (owner(&stand), stand.place.url(), stand.path("env"));
    std::fs::create_dir(&env).unwrap();
    let config = |how: &str| {
        let text = format!(
            "socket: {{ path: s.sock }}\nencryption: {{ recipients: [{public}] }}\ndatabases:\n  - path: env\n    name: shard\n    \
             vault: {vault}\n    lmdb: {{ instance: a, create: true, map-size: 64MiB, poll-interval: 50ms, list-interval: 50ms, \
             retry-interval: 50ms, {how} }}\n"
        );
        std::fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    let once = || stand.seawall(&["replicate", "--config", "seawall.yml", "--once"]);
    config("receive-only: false");
    let refused = once().exits(2);
    assert!(refused.stderr.contains("error[config.encryption]"), "{refused}");
    assert!(refused.stderr.contains("an instance that receives") && refused.stderr.contains("send-only"), "{refused}");
    let checked = stand.seawall(&["config", "check", "--config", "seawall.yml"]).exits(2);
    assert!(checked.stderr.contains("error[config.encryption]"), "{checked}");

    config("send-only: true");
    let state = stand.path("env/data.mdb-seawall-keys");
    for day in 0..5 {
        put(&env, "day", &day.to_string());
        put(&env, &format!("key {day}"), "x");
        once().ok();
        pass(2, &state);
    }
    assert!(keys(&state).len() <= 3, "{:?}", keys(&state));
    // A running process goes on, also over a restart.
    let command = || {
        let mut command = stand.command();
        command.args(["replicate", "--config", "seawall.yml"]);
        command
    };
    let sent = || {
        std::fs::read_dir(stand.place.root())
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("shard__a__"))
            .count()
    };
    for value in ["running", "again"] {
        let mut running = Process::spawn("seawall", &mut command());
        let before = sent();
        wait::until("a snapshot", wait::SOON, || (sent() > before).then_some(()));
        put(&env, "day", value);
        running.stop().ok();
    }

    let read = |args: &[&str]| stand.seawall(&[args, &["--identity", "owner.key"]].concat());
    read(&["verify", &vault]).ok();
    read(&["restore", "shard", "--config", "seawall.yml", "-o", "back"]).ok();
    let back = stand.path("back");
    let target = if back.is_dir() { back } else { stand.path("back") };
    assert_eq!(get(&target, "day").as_deref(), Some("again"));
    for day in 0..5 {
        assert_eq!(get(&target, &format!("key {day}")).as_deref(), Some("x"), "{day}");
    }

    // The environment is lost. An empty one doesn't take the place of what it had sent.
    std::fs::remove_dir_all(&env).unwrap();
    std::fs::create_dir(&env).unwrap();
    put(&env, "other", "y");
    let before = sent();
    let refused = once().exits(1);
    assert!(refused.stderr.contains("lmdb.not-the-sender"), "{refused}");
    assert_eq!(sent(), before);
    read(&["restore", "shard", "--config", "seawall.yml", "-o", "again"]).ok();
    assert_eq!(get(&stand.path("again"), "day").as_deref(), Some("again"));
}
