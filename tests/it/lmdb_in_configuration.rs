//! An LMDB environment in a `seawall.yml`: a database like the others.

use std::path::PathBuf;
use std::process::Command;

use seawall_tests::{Output, Process, run, seawall, wait};
use serde_json::Value;
use tempfile::TempDir;

use crate::environment::{get, put};

struct Host {
    dir: TempDir,
}

impl Host {
    /// Two configurations, `a.yml` and `b.yml`, of one vault; the first also has a SQLite database.
    fn new() -> Self {
        let dir = TempDir::with_prefix("seawall-lmdb-").unwrap();
        for instance in ["a", "b"] {
            let often = "poll-interval: 50ms, list-interval: 50ms, retry-interval: 50ms";
            let text = format!(
                "socket: {{ path: {instance}.sock }}\ndatabases:\n  - path: {instance}/shard\n    name: shard\n    \
                 vault: store\n    restore-if-missing: true\n    lmdb: {{ instance: {instance}, create: true, map-size: 64MiB, {often} }}\n"
            );
            std::fs::write(dir.path().join(format!("{instance}.yml")), text).unwrap();
            std::fs::create_dir(dir.path().join(instance)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(seawall());
        command.current_dir(self.dir.path()).env_clear().env("HOME", self.dir.path()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        run("seawall", &mut self.command(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.run(&args).ok().json()
    }
}

#[test]
fn an_environment_is_a_database_like_the_others() {
    let host = Host::new();
    let (a, b) = (host.path("a/shard"), host.path("b/shard"));
    put(&a, "k", "1");
    let checked = host.json(&["config", "check", "--config", "a.yml"]);
    assert_eq!(checked["databases"][0]["engine"], "lmdb");
    let mut first = Process::spawn("a", &mut host.command(&["replicate", "--config", "a.yml"]));
    wait::until("the first snapshot", wait::SOON, || {
        let status = host.run(&["status", "--config", "a.yml", "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).ok()?;
        (status[0]["phase"] == "protecting" && !status[0]["protected"].is_null()).then_some(())
    });
    let point = host.json(&["timeline", "shard", "--config", "a.yml"])["spans"][0]["to"].clone();
    put(&a, "k", "2");
    host.run(&["sync", "shard", "--wait", "--config", "a.yml"]).ok();
    let timeline = host.json(&["timeline", "shard", "--config", "a.yml"]);
    assert_eq!((timeline["spans"].as_array().unwrap().len(), &timeline["levels"][0]["level"]), (2, &"a".into()));

    // A second process of one environment is refused.
    let refused = host.run(&["replicate", "--config", "a.yml", "--once"]).exits(1);
    assert!(refused.stderr.contains("lmdb.locked"), "{refused}");
    let as_before = "storage:\n  type: fs\n  options:\n    root_path: store\nlmdbs:\n  shard:\n    path: a/shard\n";
    std::fs::write(host.path("lightningstream.yaml"), as_before).unwrap();
    let refused = host.run(&["lmdb", "sync", "--instance", "a", "--only-once"]).exits(1);
    assert!(refused.stderr.contains("lmdb.locked"), "{refused}");
    let mut second = Process::spawn("b", &mut host.command(&["replicate", "--config", "b.yml"]));
    wait::until("the second to have it", wait::SOON, || {
        (b.join("data.mdb").exists() && get(&b, "k").as_deref() == Some("2")).then_some(())
    });
    put(&b, "from b", "3");
    wait::until("the first to have what the second wrote", wait::SOON, || get(&a, "from b"));
    for process in [&mut first, &mut second] {
        process.terminate();
        process.wait(wait::SOON).ok();
    }
    let stopped = host.json(&["status", "--config", "a.yml"]);
    assert_eq!((&stopped[0]["phase"], &stopped[0]["engine"]), (&"stopped".into(), &"lmdb".into()));

    for at in [point["position"].as_str().unwrap(), point["moment"].as_str().unwrap()] {
        let back = host.path("back");
        let restored = host.json(&["restore", "shard", "--config", "a.yml", "-o", "back", "--at", at]);
        assert_eq!(restored["point"], point);
        assert_eq!((get(&back, "k"), get(&back, "from b")), (Some("1".into()), None));
        host.run(&["restore", "shard", "--config", "a.yml", "-o", "back", "--force"]).ok();
        assert_eq!((get(&back, "k"), get(&back, "from b")), (Some("2".into()), Some("3".into())));
        std::fs::remove_dir_all(back).unwrap();
    }
    let verified = host.json(&["verify", "shard", "--config", "a.yml", "--strong"]);
    assert_eq!(verified["findings"], serde_json::json!([]), "{verified}");
    assert!(verified["compared"].as_u64().unwrap() >= 3, "{verified}");
    assert_eq!(host.json(&["verify", "./store"])["objects"], verified["objects"]);
    assert_eq!(host.json(&["timeline", "./store"])["levels"].as_array().unwrap().len(), 2);
    let refused = host.run(&["restore", "./store", "-o", "x"]).exits(2);
    assert!(refused.stderr.contains("lmdb.unknown-schema"), "{refused}");

    // The lost environment comes back by itself.
    std::fs::remove_dir_all(&b).unwrap();
    host.run(&["replicate", "--config", "b.yml", "--once"]).ok();
    assert_eq!((get(&b, "k"), get(&b, "from b")), (Some("2".into()), Some("3".into())));
}
