//! LMDB environments whose vault, snapshots or data file aren't what they were.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use seawall_tests::{Output, Process, run, seawall, wait};
use serde_json::Value;
use tempfile::TempDir;

use super::copy_folder;
use crate::environment::{get, put};

/// Two hosts with an environment each, `a/shard` and `b/shard`, and one vault.
struct Hosts(TempDir);

impl Hosts {
    fn new() -> Self {
        let hosts = Self(TempDir::with_prefix("seawall-lmdb-").unwrap());
        for instance in ["a", "b"] {
            hosts.configure(instance, instance);
            fs::create_dir(hosts.path(instance)).unwrap();
        }
        hosts
    }

    /// Writes `HOST.yml`, in which the host says that it is `instance`.
    fn configure(&self, host: &str, instance: &str) {
        let text = format!(
            "socket: {{ path: {host}.sock }}\nsweep-interval: 1s\nvalidation: {{ active: 1s, interval: 1s }}\ndatabases:\n  \
             - path: {host}/shard\n    name: shard\n    vault: store\n    lmdb: {{ instance: {instance}, create: true, \
             map-size: 64MiB, poll-interval: 50ms, list-interval: 50ms, retry-interval: 50ms }}\n"
        );
        fs::write(self.path(&format!("{host}.yml")), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, host: &str, args: &[&str]) -> Command {
        let mut command = Command::new(seawall());
        command.current_dir(self.0.path()).env_clear().env("HOME", self.0.path()).env("TMPDIR", self.0.path());
        command.args(args).args(["--config", &format!("{host}.yml")]);
        command
    }

    fn run(&self, host: &str, args: &[&str]) -> Output {
        run("seawall", &mut self.command(host, args))
    }

    fn start(&self, host: &str) -> Process {
        Process::spawn(host, &mut self.command(host, &["replicate"]))
    }

    fn once(&self, host: &str) -> Output {
        self.run(host, &["replicate", "--once"])
    }

    fn put(&self, host: &str, key: &str, value: &str) {
        put(&self.path(host).join("shard"), key, value);
    }

    fn status(&self, host: &str) -> Value {
        let status = self.run(host, &["status", "--json"]);
        serde_json::from_str::<Value>(&status.stdout).map_or(Value::Null, |all| all[0].clone())
    }

    fn until_told(&self, host: &str, code: &str) {
        wait::until(code, wait::SOON * 4, || (self.status(host)["error"]["code"] == code).then_some(()));
    }

    fn sync(&self, host: &str) {
        self.run(host, &["sync", "shard", "--wait"]).ok();
    }

    /// Snapshots of an instance, oldest first.
    fn snapshots(&self, instance: &str) -> Vec<PathBuf> {
        let names = fs::read_dir(self.path("store")).into_iter().flatten().flatten().map(|entry| entry.path());
        let of = format!("shard__{instance}__");
        let mut all: Vec<_> = names.filter(|path| path.to_string_lossy().contains(&of)).collect();
        all.sort();
        all
    }

    /// The value of a key in a restore of the newest state.
    fn restored(&self, key: &str) -> Option<String> {
        let back = self.path("back");
        if back.exists() {
            fs::remove_dir_all(&back).unwrap();
        }
        self.run("a", &["restore", "shard", "-o", "back"]).ok();
        get(&back, key)
    }
}

#[test]
fn a_vault_that_becomes_an_older_copy_is_told_and_gets_the_newest_state_again() {
    let hosts = Hosts::new();
    hosts.put("a", "k", "1");
    let mut process = hosts.start("a");
    wait::until("a snapshot", wait::SOON, || (!hosts.snapshots("a").is_empty()).then_some(()));
    hosts.sync("a");
    let yesterday = hosts.snapshots("a");
    fs::create_dir(hosts.path("yesterday")).unwrap();
    for name in &yesterday {
        fs::copy(name, hosts.path("yesterday").join(name.file_name().unwrap())).unwrap();
    }
    hosts.put("a", "k", "2");
    hosts.sync("a");
    for gone in hosts.snapshots("a") {
        fs::remove_file(gone).unwrap();
    }
    for name in &yesterday {
        fs::copy(hosts.path("yesterday").join(name.file_name().unwrap()), name).unwrap();
    }
    hosts.until_told("a", "lmdb.lost");
    wait::until("the newest state", wait::SOON * 2, || (hosts.restored("k").as_deref() == Some("2")).then_some(()));
    process.stop();
    // Between two runs it is the same.
    hosts.put("a", "k", "3");
    hosts.once("a").ok();
    for gone in hosts.snapshots("a") {
        fs::remove_file(gone).unwrap();
    }
    for name in &yesterday {
        fs::copy(hosts.path("yesterday").join(name.file_name().unwrap()), name).unwrap();
    }
    let told = hosts.once("a");
    assert!(told.code() == 0 || told.stderr.contains("lmdb.lost"), "{told}");
    assert_eq!(hosts.restored("k").as_deref(), Some("3"), "{told}");
}

#[test]
fn a_snapshot_of_another_instance_or_database_under_this_name_is_named_and_not_merged() {
    let hosts = Hosts::new();
    for host in ["a", "b"] {
        hosts.put(host, host, "1");
        hosts.once(host).ok();
    }
    let (a, b) = (hosts.snapshots("a").pop().unwrap(), hosts.snapshots("b").pop().unwrap());
    let whole = fs::read(&a).unwrap();
    fs::copy(&b, &a).unwrap();
    let found = hosts.run("b", &["verify", "shard", "--json"]).exits(1).json();
    let name = a.file_name().unwrap().to_str().unwrap();
    let named = found["findings"].as_array().unwrap().iter().any(|finding| {
        finding["code"] == "lmdb.foreign-snapshot" && finding["object"].as_str().unwrap().ends_with(name)
    });
    assert!(named, "{found}");
    // No other snapshot of its instance serves. What is restored is told to lack it, and holds what `b` had received before.
    let told = hosts.run("b", &["restore", "shard", "-o", "lacking"]).ok();
    assert!(told.stderr.contains("lmdb.foreign-snapshot") && told.stderr.contains(name), "{told}");
    assert!(told.stderr.contains("if there is one"), "{told}");
    let lacking = hosts.path("lacking");
    assert_eq!((get(&lacking, "a"), get(&lacking, "b")), (Some("1".to_owned()), Some("1".to_owned())));
    fs::write(&a, whole).unwrap();
    assert_eq!(hosts.restored("a").as_deref(), Some("1"));
    hosts.run("b", &["verify", "shard"]).ok();
}

/// A copy of yesterday's data file, put back while nothing ran: the vault knows more than the environment.
#[test]
fn a_data_file_of_yesterday_takes_nothing_from_the_vault() {
    let hosts = Hosts::new();
    hosts.put("a", "k", "1");
    hosts.once("a").ok();
    copy_folder(&hosts.path("a/shard"), &hosts.path("yesterday"));
    hosts.put("a", "k", "2");
    hosts.put("a", "new", "3");
    hosts.once("a").ok();
    copy_folder(&hosts.path("yesterday"), &hosts.path("a/shard"));
    let told = hosts.once("a");
    let (k, new) = (hosts.restored("k"), hosts.restored("new"));
    assert_eq!((k.as_deref(), new.as_deref()), (Some("2"), Some("3")), "{told}");
    // A key that was written after the copy was put back counts, as newer.
    hosts.put("a", "k", "4");
    hosts.once("a").ok();
    assert_eq!((hosts.restored("k").as_deref(), hosts.restored("new").as_deref()), (Some("4"), Some("3")));
}

/// A host was cloned: both say that they are instance `a`. Each would hide the other's changes.
#[test]
fn a_second_host_of_the_same_instance_is_told_by_both() {
    let hosts = Hosts::new();
    hosts.put("a", "k", "1");
    hosts.once("a").ok();
    copy_folder(&hosts.path("a"), &hosts.path("b"));
    hosts.configure("b", "a");
    let (mut first, mut second) = (hosts.start("a"), hosts.start("b"));
    let mut turn = 0;
    wait::until("one of the two to tell", wait::SOON * 4, || {
        turn += 1;
        hosts.put("a", &format!("a-{turn}"), "1");
        hosts.put("b", &format!("b-{turn}"), "1");
        wait::pass(std::time::Duration::from_millis(100));
        ["a", "b"].iter().any(|host| hosts.status(host)["error"]["code"] == "lmdb.two-writers").then_some(())
    });
    let ended = [first.stop(), second.stop()];
    let told = |ended: &Output| ended.code() != 0 && ended.stderr.contains("lmdb.two-writers");
    assert!(ended.iter().any(told), "{} {}", ended[0], ended[1]);
    assert_eq!(hosts.restored("k").as_deref(), Some("1"));
}
