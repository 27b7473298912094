//! Other recipients for an encrypted vault, while a process writes to it, and after the command was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use seawall_tests::{Output, Process, Random, Stand, digest, model, run, wait};
use serde_json::Value;

use crate::environment::{get, put};
use crate::postgres::server::Server;

/// A stand whose vault is encrypted for one key, and another key.
struct Scene {
    stand: Stand,
    old: (PathBuf, String),
    new: (PathBuf, String),
    both: PathBuf,
}

impl Scene {
    fn new(stand: Stand) -> Self {
        let key = |name: &str| {
            let (secret, public) = seawall_vault::Identities::generate();
            let file = stand.path(name);
            fs::write(&file, format!("{}\n", secret.reveal())).unwrap();
            (file, public)
        };
        let (old, new, both) = (key("old.key"), key("new.key"), stand.path("both.keys"));
        fs::write(&both, [fs::read(&old.0).unwrap(), fs::read(&new.0).unwrap()].concat()).unwrap();
        let url = stand.place.url();
        stand.seawall(&["vault", "init", &url, "--recipient", &old.1, "--identity", text(&old.0)]).ok();
        Self { stand, old, new, both }
    }

    fn replicate(&self, recipient: &str) -> Process {
        self.stand.replicate_with(&["--recipient", recipient])
    }

    /// The command that leaves the new key alone.
    fn command(&self) -> Command {
        let mut command = self.stand.command();
        command.args(["vault", "rekey", &self.stand.place.url(), "--identity", text(&self.both), "--json"]);
        command.args(["--recipient", &self.new.1, "--remove", &self.old.1, "--rewrite"]);
        command
    }

    fn rekey(&self) -> Value {
        run("seawall", &mut self.command()).ok().json()
    }

    fn marker(&self) -> PathBuf {
        self.stand.place.root().join("seawall/encryption.json")
    }

    fn recipients(&self) -> Value {
        let marker: Value = serde_json::from_slice(&fs::read(self.marker()).unwrap()).unwrap();
        marker["recipients"].clone()
    }

    fn restored(&self, args: &[&str]) -> PathBuf {
        self.stand.restore_with(&[&["--identity", text(&self.new.0)], args].concat())
    }

    fn refused(&self, key: &Path) -> Output {
        let (url, file) = (self.stand.place.url(), self.stand.new_file());
        let args = ["restore", &url, "-o", text(&file), "--identity", text(key)];
        self.stand.seawall(&args)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn failed(output: &Output, code: &str) {
    assert_ne!(output.code(), 0, "{output}");
    assert!(output.stderr.contains(&format!("error[{code}]")), "{code}: {output}");
}

/// Changes the key of a vault that a process writes to; the command is killed once.
fn while_a_process_writes(scene: &Scene) {
    let Scene { stand, old, new, .. } = scene;
    let mut app = stand.app();
    app.sql("CREATE TABLE ballast(noise BLOB)");
    app.sql("INSERT INTO ballast VALUES (randomblob(300000))");
    let mut writer = scene.replicate(&old.1);
    app.commit(40);
    let early = stand.until_protected(&mut writer);
    let then = digest::of(&stand.db());
    for _ in 0..5 {
        app.commit(5);
        stand.until_protected(&mut writer);
    }
    app.flood(Duration::from_millis(20));

    // Killed as soon as the list is the new one.
    let mut first = Process::spawn("seawall", &mut scene.command());
    let listed = serde_json::json!([new.1]);
    wait::until("the list to be the new one", wait::SOON * 2, || (scene.recipients() == listed).then_some(()));
    first.kill_9();
    // Both keys together open everything at that moment, too.
    let between = stand.restore_with(&["--identity", text(&scene.both)]);
    assert!(model::check(&between, stand.seed) >= 65);

    let done = scene.rekey();
    assert_eq!((&done["left"], &done["proved"]), (&0.into(), &true.into()), "{done}");
    assert!(done["rewritten"].as_u64().unwrap() + done["already"].as_u64().unwrap() > 5, "{done}");

    // The process notices, says so, and has everything when it is told.
    wait::until("the writer to stop", wait::SOON * 4, || {
        if !writer.running() {
            return writer.stderr().contains("vault.recipients").then_some(());
        }
        let status = run("seawall", stand.command().args(["status", "--json"]).arg(stand.db()));
        status.stdout.contains("vault.recipients").then_some(())
    });
    writer.kill_9();
    let last = app.rest();
    let mut writer = scene.replicate(&new.1);
    stand.until_protected(&mut writer);
    let now = digest::of(&stand.db());
    let done = scene.rekey();
    assert_eq!(done["left"], 0, "{done}");
    let done = scene.rekey();
    assert_eq!((&done["left"], &done["rewritten"], &done["records"]), (&0.into(), &0.into(), &0.into()), "{done}");
    writer.kill_9();

    let file = scene.restored(&[]);
    assert_eq!((digest::of(&file), model::check(&file, stand.seed)), (now, last));
    let file = scene.restored(&["--at", &format!("{early:016x}")]);
    assert_eq!((digest::of(&file), model::check(&file, stand.seed)), (then, 40));
    failed(&scene.refused(&old.0), "vault.no-key");
    stand.seawall(&["verify", &stand.place.url(), "--identity", text(&new.0)]).ok();
}

#[test]
fn a_vault_gets_another_key_while_a_process_writes() {
    while_a_process_writes(&Scene::new(Stand::folder(Random::from_env().seed())));
}

#[test]
fn a_vault_in_s3_gets_another_key_while_a_process_writes() {
    while_a_process_writes(&Scene::new(Stand::bucket(Random::from_env().seed())));
}

#[test]
fn a_recipient_goes_only_by_name() {
    let scene = Scene::new(Stand::folder(Random::from_env().seed()));
    let Scene { stand, old, new, both } = &scene;
    let mut app = stand.app();
    app.commit(10);
    let once = |recipients: &[&str]| {
        let named: Vec<&str> = recipients.iter().flat_map(|name| ["--recipient", name]).collect();
        stand.replicate_with(&[&["--once"], &named[..]].concat()).wait(wait::SOON * 4)
    };
    once(&[&old.1]).ok();
    let url = stand.place.url();
    let rekey =
        |key: &Path, args: &[&str]| stand.seawall(&[&["vault", "rekey", &url, "--identity", text(key)], args].concat());
    let before = fs::read(scene.marker()).unwrap();
    failed(&rekey(both, &["--recipient", &new.1]), "vault.recipient-goes");
    failed(&rekey(both, &["--recipient", &new.1, "--remove", &new.1]), "usage.arguments");
    failed(&rekey(&new.0, &["--recipient", &old.1, "--recipient", &new.1]), "vault.no-key");
    failed(&stand.seawall(&["vault", "rekey", &url, "--recipient", &new.1]), "usage.arguments");
    let plain = stand.path("plain");
    stand.seawall(&["replicate", "--once", text(&stand.db()), text(&plain)]).ok();
    failed(
        &stand.seawall(&["vault", "rekey", text(&plain), "--identity", text(both), "--recipient", &new.1]),
        "vault.not-encrypted",
    );
    assert_eq!(fs::read(scene.marker()).unwrap(), before);

    // A second recipient, without rewriting: what was there is for the first alone.
    let added = rekey(&old.0, &["--recipient", &old.1, "--recipient", &new.1]).ok();
    assert!(added.stdout.contains("(new)") && !added.stdout.contains("not proved"), "{added}");
    failed(&scene.refused(&new.0), "vault.no-key");
    app.commit(5);
    failed(&once(&[&old.1]), "vault.recipients");
    once(&[&old.1, &new.1]).ok();
    let file = stand.restore_with(&["--identity", text(&old.0)]);
    assert_eq!(digest::of(&file), digest::of(&stand.db()));
    // The first one goes, and what that can't do is said.
    let gone = rekey(&old.0, &["--recipient", &new.1, "--remove", &old.1, "--rewrite"]).ok();
    assert!(gone.stdout.contains("not proved") && gone.stdout.contains("copied everything"), "{gone}");
    assert_eq!(digest::of(&scene.restored(&[])), digest::of(&stand.db()));
    failed(&scene.refused(&old.0), "vault.no-key");
}

/// Two people, or a person and a job that was forgotten, ask for the same at once.
#[test]
fn two_commands_at_once_leave_one_list_and_lose_nothing() {
    let scene = Scene::new(Stand::folder(Random::from_env().seed()));
    let Scene { stand, old, new, .. } = &scene;
    let mut app = stand.app();
    let mut writer = scene.replicate(&old.1);
    for _ in 0..4 {
        app.commit(10);
        stand.until_protected(&mut writer);
    }
    writer.stop().ok();
    let mut two = [(); 2].map(|()| Process::spawn("seawall", &mut scene.command()));
    let ended = two.each_mut().map(|process| process.wait(wait::SOON * 4));
    for output in &ended {
        // A command that found the other in its way says so. Nothing else is an answer.
        let is_told = output.code() == 0 || output.stderr.contains("error[");
        assert!(is_told && !output.stderr.contains("panicked"), "{output}");
    }
    // What either left undone, the next one does.
    let done = scene.rekey();
    assert_eq!((&done["left"], &done["proved"]), (&0.into(), &true.into()), "{done}");
    assert_eq!(scene.recipients(), serde_json::json!([new.1]));
    assert_eq!(model::check(&scene.restored(&[]), stand.seed), app.committed());
    failed(&scene.refused(&old.0), "vault.no-key");
    stand.seawall(&["verify", &stand.place.url(), "--identity", text(&new.0)]).ok();
}

#[test]
fn sets_of_a_server_get_another_key() {
    let scene = Scene::new(Stand::folder(Random::from_env().seed()));
    let Scene { stand, old, new, .. } = &scene;
    let (server, url) = (Server::start(15), stand.place.url());
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT i, md5(i::text) AS m FROM generate_series(1, 2000) i");
    let backup = |key: &str| stand.seawall(&["backup", &server.url("shop"), &url, "--recipient", key]);
    let content = "SELECT count(*) || ' ' || sum(hashtextextended(t::text, 0)) FROM t";
    backup(&old.1).ok();
    let first = server.sql("shop", content);
    let position = stand.seawall(&["timeline", &url, "--identity", text(&old.0), "--json"]).ok().json();
    let position = position["spans"][0]["to"]["position"].as_str().unwrap().to_owned();
    server.sql("shop", "INSERT INTO t VALUES (0, 'later')");
    backup(&old.1).ok();
    assert_eq!(scene.rekey()["left"], 0);
    failed(&backup(&old.1), "vault.recipients");
    server.sql("shop", "INSERT INTO t VALUES (-1, 'latest')");
    backup(&new.1).ok();
    for (at, database, expected) in [(&position[..], "first", first), ("latest", "last", server.sql("shop", content))] {
        let to = server.url(database);
        stand.seawall(&["restore", &url, "--to", &to, "--at", at, "--identity", text(&new.0)]).ok();
        assert_eq!(server.sql(database, content), expected, "{database}");
    }
    let refused = stand.seawall(&["restore", &url, "--to", &server.url("none"), "--identity", text(&old.0)]);
    failed(&refused, "vault.no-key");
    stand.seawall(&["verify", &url, "--identity", text(&new.0)]).ok();
}

#[test]
fn snapshots_of_lmdb_get_another_key() {
    let scene = Scene::new(Stand::folder(Random::from_env().seed()));
    let Scene { stand, old, new, .. } = &scene;
    let (environment, url) = (stand.path("env"), stand.place.url());
    fs::create_dir(&environment).unwrap();
    let once = |public: &str, secret: &Path| {
        let config = format!(
            "encryption: {{ recipients: [{public}], identity: {} }}\ndatabases:\n  - path: env\n    name: shard\n    vault: {url}\n    \
             lmdb: {{ instance: a, create: true, map-size: 64MiB }}\n",
            secret.display()
        );
        fs::write(stand.path("seawall.yml"), config).unwrap();
        stand.seawall(&["replicate", "--config", "seawall.yml", "--once"])
    };
    put(&environment, "k", "first");
    once(&old.1, &old.0).ok();
    assert_eq!(scene.rekey()["left"], 0);
    put(&environment, "k", "second");
    failed(&once(&old.1, &old.0), "vault.recipients");
    once(&new.1, &new.0).ok();
    stand.seawall(&["restore", "shard", "--config", "seawall.yml", "-o", "back"]).ok();
    assert_eq!(get(&stand.path("back"), "k").as_deref(), Some("second"));
    stand.seawall(&["verify", "shard", "--config", "seawall.yml"]).ok();
}
