//! Credentials that may do little, by a real server's own access control: without the right to delete, and for SQLite also
//! without the right to list.

use std::path::PathBuf;

use seawall_tests::{App, Output, Process, Random, Stand, digest, model, run, wait};
use seawall_vault::testing::S3Server;
use seawall_vault::{Environment, Policy, Prefix, Vault, VaultUrl};
use tokio::runtime::Runtime;

use crate::postgres::server::Server;
use crate::{environment, mysql};

/// The limited user of the server, and its key.
const USER: (&str, &str) = ("limited", "limited-secret");

/// What is enough to write objects and to read them by their names.
const WRITE: [&str; 3] = ["s3:PutObject", "s3:GetObject", "s3:AbortMultipartUpload"];

/// A number and a hash of all rows.
const CONTENT: &str = "SELECT count(*) || ' ' || sum(hashtextextended(t::text, 0)) FROM t";

/// A server with a limited user.
struct Bucket {
    server: S3Server,
    runtime: Runtime,
    prefix: String,
    _folder: tempfile::TempDir,
}

impl Bucket {
    fn start(on_objects: &[&str], on_bucket: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(S3Server::start_versioned("limited credentials", folder.path())).unwrap();
        server.add_user(USER.0, USER.1);
        runtime.block_on(server.allow(USER.0, on_objects, on_bucket));
        let prefix = format!("sites/{:016x}", Random::from_env().seed());
        Self { server, runtime, prefix, _folder: folder }
    }

    fn owner(&self) -> String {
        self.server.url(&self.prefix)
    }

    fn limited(&self) -> String {
        self.server.url_of(&self.prefix, USER.0, USER.1)
    }

    /// The names of all objects.
    fn names(&self) -> Vec<String> {
        names(&self.runtime, &self.owner())
    }
}

fn names(runtime: &Runtime, url: &str) -> Vec<String> {
    runtime.block_on(async {
        let url = VaultUrl::parse(url).unwrap();
        let vault = Vault::open(&url, &Environment::empty(), Policy::default()).await.unwrap();
        let entries = vault.list(&Prefix::all(), None).await.unwrap();
        entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect()
    })
}

fn once(stand: &Stand, url: &str) -> Output {
    run("seawall", stand.command().args(["replicate", "--once"]).arg(stand.db()).arg(url))
}

fn restored(stand: &Stand, url: &str) -> PathBuf {
    let file = stand.new_file();
    run("seawall", stand.command().args(["restore", url, "-o"]).arg(&file)).ok();
    file
}

/// Replicates twice with limited credentials after a first run with the owner's, and restores as the owner.
fn replicate_without_listing(stand: &Stand, app: &mut App, owner: &str, limited: &str) {
    app.commit(20);
    once(stand, owner).ok();
    for _ in 0..2 {
        app.commit(5);
        let mut process = Process::spawn("seawall", stand.command().arg("replicate").arg(stand.db()).arg(limited));
        stand.until_protected(&mut process);
        app.commit(5);
        let output = process.stop().ok();
        assert_eq!(output.stderr.matches("code=\"sqlite.may-not-list\"").count(), 1, "told once: {output}");
        assert_eq!(model::check(&restored(stand, owner), stand.seed), app.committed());
    }
    let timeline = run("seawall", stand.command().args(["timeline", owner, "--json"])).ok().json();
    assert_eq!(timeline["holes"], serde_json::json!([]), "the history goes on without a new base: {timeline}");
}

#[test]
fn sqlite_goes_on_without_the_rights_to_list_and_to_delete_on_s3() {
    let bucket = Bucket::start(&WRITE, &[]);
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let (owner, limited) = (bucket.owner(), bucket.limited());
    let refused = run("seawall", stand.command().args(["timeline", &limited]));
    assert!(refused.to_string().contains("vault.denied"), "the server's own access control refuses to list: {refused}");
    replicate_without_listing(&stand, &mut app, &owner, &limited);

    // A process is killed at any point; the record may be behind the vault then.
    let mut process = Process::spawn("seawall", stand.command().arg("replicate").arg(stand.db()).arg(&limited));
    stand.until_protected(&mut process);
    let record = stand.state().join("state.json");
    let before = std::fs::read(&record).unwrap();
    for _ in 0..3 {
        app.commit(1);
        stand.until_protected(&mut process);
    }
    process.kill_9();
    std::fs::write(&record, before).unwrap();
    app.commit(2);
    once(&stand, &limited).ok();
    assert_eq!(model::check(&restored(&stand, &owner), stand.seed), app.committed());
    assert_eq!(digest::of(&restored(&stand, &owner)), digest::of(&stand.db()));
    let timeline = run("seawall", stand.command().args(["timeline", &owner, "--json"])).ok().json();
    assert_eq!(timeline["holes"], serde_json::json!([]), "{timeline}");

    // The state is lost: nothing is guessed, and nothing is written that a history could be.
    let before = bucket.names();
    std::fs::remove_dir_all(stand.state()).unwrap();
    let committed = app.committed();
    app.commit(1);
    let refused = once(&stand, &limited);
    assert_eq!(refused.code(), 1, "{refused}");
    assert!(refused.stderr.contains("error[sqlite.may-not-list]"), "{refused}");
    assert!(refused.stderr.contains("seawall replicate --once"), "the next step is named: {refused}");
    let made = |name: &&String| !before.contains(name) && !name.contains("seawall/probe-");
    assert_eq!(bucket.names().iter().filter(made).count(), 0, "{refused}");
    assert_eq!(model::check(&restored(&stand, &owner), stand.seed), committed);

    // One run of the owner makes the limited credentials enough again.
    once(&stand, &owner).ok();
    app.commit(3);
    once(&stand, &limited).ok();
    assert_eq!(model::check(&restored(&stand, &owner), stand.seed), app.committed());

    // What the owner merges and deletes meanwhile is no obstacle.
    run("seawall", stand.command().args(["maintain", &owner, "--keep", "1s"])).ok();
    app.commit(3);
    once(&stand, &limited).ok();
    assert_eq!(model::check(&restored(&stand, &owner), stand.seed), app.committed());
}

#[test]
fn the_first_start_without_the_right_to_list_is_refused_on_s3() {
    let bucket = Bucket::start(&WRITE, &[]);
    let stand = Stand::folder(Random::from_env().seed());
    stand.app().commit(3);
    let refused = once(&stand, &bucket.limited());
    assert_eq!(refused.code(), 1, "{refused}");
    assert!(refused.stderr.contains("error[sqlite.may-not-list]"), "{refused}");
    // Wrong keys are something else.
    let wrong = bucket.server.url_of(&bucket.prefix, USER.0, "wrong");
    let refused = once(&stand, &wrong);
    assert!(refused.stderr.contains("error[vault.denied]"), "{refused}");
}

/// Without the right to read, a lost answer could not be settled, so nothing is written.
#[test]
fn credentials_that_may_only_write_are_refused_on_s3() {
    let bucket = Bucket::start(&["s3:PutObject"], &[]);
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    once(&stand, &bucket.owner()).ok();
    let committed = app.committed();
    app.commit(3);
    let refused = once(&stand, &bucket.limited());
    assert_eq!(refused.code(), 1, "{refused}");
    assert!(refused.stderr.contains("error[vault.denied]"), "{refused}");
    assert_eq!(model::check(&restored(&stand, &bucket.owner()), stand.seed), committed);
}

/// An encrypted vault stays encrypted, whatever the credentials hide.
#[test]
fn an_encrypted_vault_without_the_right_to_list_on_s3() {
    let bucket = Bucket::start(&WRITE, &[]);
    let stand = Stand::folder(Random::from_env().seed());
    let (secret, public) = seawall_vault::Identities::generate();
    std::fs::write(stand.path("owner.key"), format!("{}\n", secret.reveal())).unwrap();
    let mut app = stand.app();
    app.commit(10);
    let sealed = |url: &str| {
        let mut command = stand.command();
        command.args(["replicate", "--once", "--recipient", &public]).arg(stand.db()).arg(url);
        run("seawall", &mut command)
    };
    let refused = sealed(&bucket.limited());
    assert_ne!(refused.code(), 0, "the marker can't be seen: {refused}");
    assert_eq!(bucket.names(), Vec::<String>::new(), "{refused}");
    sealed(&bucket.owner()).ok();
    app.commit(10);
    sealed(&bucket.limited()).ok();
    let plain = once(&stand, &bucket.limited());
    assert!(plain.stderr.contains("error[vault.encrypted]"), "{plain}");
    let file = stand.new_file();
    let owner = bucket.owner();
    let mut restore = stand.command();
    restore.args(["restore", &owner, "--identity", "owner.key", "-o"]).arg(&file);
    run("seawall", &mut restore).ok();
    assert_eq!(model::check(&file, stand.seed), app.committed());
}

#[test]
fn an_lmdb_environment_sends_without_the_right_to_delete_on_s3() {
    let bucket = Bucket::start(&WRITE, &["s3:ListBucket"]);
    let stand = Stand::folder(Random::from_env().seed());
    let env = stand.path("env");
    std::fs::create_dir(&env).unwrap();
    let put = |value: &str| environment::put(&env, "k", value);
    put("first");
    let config = |file: &str, url: &str| {
        let text = format!(
            "socket: {{ path: s.sock }}\ndatabases:\n  - path: env\n    name: shard\n    vault: '{url}'\n    lmdb: {{ instance: a, create: \
         true, map-size: 64MiB, poll-interval: 50ms, list-interval: 50ms, retry-interval: 50ms, send-only: true, cleanup: {{ \
         interval: 100ms, must-keep: 100ms }} }}\n",
        );
        std::fs::write(stand.path(file), text).unwrap();
    };
    config("seawall.yml", &bucket.limited());
    config("owner.yml", &bucket.owner());
    let mut running = Process::spawn("seawall", stand.command().args(["replicate", "--config", "seawall.yml"]));
    let sent = || bucket.names().iter().filter(|name| name.contains("shard__a__")).count();
    for (nth, value) in ["second", "third", "fourth"].into_iter().enumerate() {
        wait::until("a snapshot", wait::SOON, || (sent() > nth).then_some(()));
        put(value);
    }
    wait::until("the last snapshot", wait::SOON, || (sent() > 3).then_some(()));
    wait::until("the refusal", wait::SOON, || running.stderr().contains("lmdb.may-not-delete").then_some(()));
    let output = running.stop().ok();
    assert_eq!(output.stderr.matches("code=\"lmdb.may-not-delete\"").count(), 1, "told once: {output}");
    assert!(!output.stderr.contains("trying again"), "it is no failure: {output}");
    stand.seawall(&["restore", "shard", "--config", "owner.yml", "-o", "back"]).ok();
    assert_eq!(environment::get(&stand.path("back"), "k").as_deref(), Some("fourth"));
}

/// The statements of a test on a server, whose source database is `shop` and whose restored one is `back`.
struct Source<'a> {
    url: String,
    back: String,
    add: &'a dyn Fn(i32),
    /// What the rows of this database sum up to.
    content: &'a dyn Fn(&str) -> String,
}

fn backed_up_without_the_right_to_delete(source: &Source<'_>) {
    let bucket = Bucket::start(&WRITE, &["s3:ListBucket"]);
    let stand = Stand::folder(Random::from_env().seed());
    let config = |file: &str, url: &str| {
        let text = format!(
            "socket: {{ path: s.sock }}\ndatabases:\n  - url: {}\n    name: shop\n    vault: '{url}'\n    schedule: \"0 3 1 1 *\"\n    \
             retention: {{ keep: 1ms, minimum: 1, grace: 1ms }}\n",
            source.url
        );
        std::fs::write(stand.path(file), text).unwrap();
    };
    config("limited.yml", &bucket.limited());
    config("owner.yml", &bucket.owner());
    for day in 0..3 {
        (source.add)(day);
        stand.seawall(&["backup", "shop", "--config", "limited.yml"]).ok();
    }
    let maintain = |config: &str| stand.seawall(&["maintain", "shop", "--config", config, "--json"]).ok();
    // The time of the newest link counts, which this server tells in whole seconds. So a set is retired, and its grace over,
    // only some backups later.
    let refused = wait::until("the grace to be over", wait::SOON, || {
        stand.seawall(&["backup", "shop", "--config", "limited.yml"]).ok();
        let before = bucket.names();
        let done = maintain("limited.yml");
        let after = bucket.names();
        assert!(before.iter().all(|name| after.contains(name)), "nothing was deleted: {done}");
        done.stderr.contains("archive.may-not-delete").then_some(done)
    });
    assert_eq!(refused.json()["removed"], serde_json::json!([]), "{refused}");
    // The owner deletes what was retired with the limited credentials.
    let mut removed = 0;
    wait::until("two sets to be deleted", wait::SOON, || {
        stand.seawall(&["backup", "shop", "--config", "limited.yml"]).ok();
        removed += maintain("owner.yml").json()["removed"].as_array().map_or(0, Vec::len);
        (removed >= 4).then_some(())
    });
    (source.add)(-1);
    stand.seawall(&["backup", "shop", "--config", "limited.yml"]).ok();
    stand.seawall(&["restore", &bucket.owner(), "--to", &source.back]).ok();
    assert_eq!((source.content)("back"), (source.content)("shop"));
}

#[test]
fn postgres_is_backed_up_without_the_right_to_delete_on_s3() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT i, md5(i::text) AS m FROM generate_series(1, 1000) i");
    backed_up_without_the_right_to_delete(&Source {
        url: server.url("shop"),
        back: server.url("back"),
        add: &|day| drop(server.sql("shop", &format!("INSERT INTO t VALUES ({day}, 'day')"))),
        content: &|database| server.sql(database, CONTENT),
    });
}

#[test]
fn mysql_is_backed_up_without_the_right_to_delete_on_s3() {
    let server = mysql::server::Server::start();
    server.sql("CREATE DATABASE shop; USE shop; CREATE TABLE t AS SELECT seq AS i, md5(seq) AS m FROM seq_1_to_1000");
    backed_up_without_the_right_to_delete(&Source {
        url: server.url("shop"),
        back: server.url("back"),
        add: &|day| drop(server.sql(&format!("INSERT INTO shop.t VALUES ({}, 'day')", day + 2000))),
        content: &|database| server.sql(&format!("SELECT count(*), sum(crc32(concat(i, m))) FROM {database}.t")),
    });
}
