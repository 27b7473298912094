//! A vault in a versioned bucket, after an attack: `--as-stored-at` gives back what the bucket held before. The attacker has
//! the host's key, which may read, write and delete objects, but can't remove versions.

use std::path::Path;
use std::time::Duration;

use seawall_tests::{Output, Random, Stand, digest, model, run, wait};
use seawall_vault::testing::S3Server;
use seawall_vault::{Access, Environment, ObjectKey, Policy, Prefix, Vault, VaultUrl};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::environment::{DBI, put, with};
use crate::postgres::server::Server;

/// Debian's version of PostgreSQL.
const MAJOR: u32 = 15;

/// The host's key.
const HOST: (&str, &str) = ("host", "the-key-of-the-host");

/// The object that says how a vault is encrypted.
const MARKER: &str = "seawall/encryption.json";

/// What the host may do with the objects of its vault.
const OBJECTS: &[&str] = &["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"];

/// A bucket that keeps versions, with a key of the host's and all rights for its owner.
struct Bucket {
    server: S3Server,
    runtime: Runtime,
    _folder: TempDir,
}

impl Bucket {
    fn start(what: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(S3Server::start_versioned(what, folder.path())).unwrap();
        runtime.block_on(server.keep_versions());
        server.add_user(HOST.0, HOST.1);
        let bucket = Self { server, runtime, _folder: folder };
        bucket.allow(OBJECTS, "");
        bucket
    }

    /// Lets the host list the bucket, and do this with its objects, but nothing with the objects of `denied`.
    fn allow(&self, objects: &[&str], denied: &str) {
        let statement = |effect: &str, actions: &[&str], below: &str| {
            let resource = format!("arn:aws:s3:::bucket{below}");
            serde_json::json!({"Effect": effect, "Principal": {"AWS": [HOST.0]}, "Action": actions, "Resource": [resource]})
        };
        let mut statements = vec![statement("Allow", &["s3:ListBucket"], ""), statement("Allow", objects, "/*")];
        if !denied.is_empty() {
            statements.push(statement("Deny", objects, denied));
        }
        let policy = serde_json::json!({"Version": "2012-10-17", "Statement": statements}).to_string();
        self.runtime.block_on(self.server.put_in("bucket", None, "policy", &policy, &[]));
    }

    /// A vault with the host's key, and the same with the owner's.
    fn urls(&self, path: &str) -> (String, String) {
        (self.server.url_of(path, HOST.0, HOST.1), self.server.url(path))
    }

    fn open(&self, url: &str) -> Vault {
        let url = VaultUrl::parse(url).unwrap();
        let policy = Policy { access: Access::Names, ..Policy::default() };
        self.runtime.block_on(Vault::open(&url, &Environment::empty(), policy)).unwrap()
    }

    /// Overwrites every object and deletes most of them, and writes objects of its own. The attacker has this URL's key.
    fn attack(&self, url: &str) {
        let vault = self.open(url);
        self.runtime.block_on(async {
            let names = vault.list(&Prefix::all(), None).await.unwrap();
            assert!(!names.is_empty());
            for (index, entry) in names.iter().enumerate() {
                if index % 3 != 0 {
                    vault.put(&entry.key, "garbage".into(), None).await.unwrap();
                }
                if index % 3 != 1 {
                    vault.delete(std::slice::from_ref(&entry.key)).await.unwrap();
                }
            }
            let later = "0000/000000000000ffff-000000000000ffff.ltx".parse().unwrap();
            vault.put(&later, "garbage".into(), None).await.unwrap();
        });
    }

    fn overwrite(&self, url: &str, name: &str, bytes: &[u8]) {
        let (vault, key) = (self.open(url), ObjectKey::new(name).unwrap());
        self.runtime.block_on(vault.put(&key, bytes.to_vec().into(), None)).unwrap();
    }

    fn delete(&self, url: &str, name: &str) {
        let (vault, key) = (self.open(url), ObjectKey::new(name).unwrap());
        self.runtime.block_on(vault.delete(&[key])).unwrap();
    }

    fn read(&self, url: &str, name: &str) -> Vec<u8> {
        let (vault, key) = (self.open(url), ObjectKey::new(name).unwrap());
        self.runtime.block_on(vault.read(&key, None, 1 << 20)).unwrap().to_vec()
    }

    /// All names and their sizes.
    fn names(&self, url: &str) -> Vec<(String, u64)> {
        let listed = self.runtime.block_on(self.open(url).list(&Prefix::all(), None)).unwrap();
        listed.into_iter().map(|entry| (entry.key.to_string(), entry.size)).collect()
    }
}

fn failed(output: &Output, code: &str, names: &str) {
    assert_ne!(output.code(), 0, "{output}");
    assert!(output.stderr.contains(&format!("error[{code}]")) && output.stderr.contains(names), "{code}: {output}");
}

/// A moment behind everything that the server has stored; its clock has whole seconds.
fn moment() -> String {
    let now = jiff::Timestamp::now();
    let passed = || jiff::Timestamp::now() > now + Duration::from_millis(1100);
    wait::until("the next second", wait::SOON, || passed().then_some(()));
    now.to_string()
}

#[test]
fn what_the_bucket_held_before_an_attack_is_restored() {
    let bucket = Bucket::start("an attack on a versioned bucket");
    let stand = Stand::folder(Random::from_env().seed());
    let (host, url) = bucket.urls("sites/attacked");
    let db = stand.db();
    let once = || run("seawall", stand.command().args(["replicate", "--once"]).arg(&db).arg(&host)).ok();
    let mut app = stand.app();
    app.commit(30);
    once();
    app.commit(5);
    once();
    let before = digest::of(&db);
    let at = moment();
    app.commit(1);
    bucket.attack(&host);

    let verify = |args: &[&str]| run("seawall", stand.command().args(["verify", &url]).args(args));
    assert_ne!(verify(&[]).code(), 0, "the present is destroyed");
    verify(&["--as-stored-at", &at]).ok();
    let timeline = run("seawall", stand.command().args(["timeline", &url, "--json", "--as-stored-at", &at]));
    assert_eq!(timeline.json()["holes"], serde_json::json!([]));

    let file = stand.new_file();
    run("seawall", stand.command().args(["restore", &url, "-o"]).arg(&file).args(["--as-stored-at", &at])).ok();
    assert_eq!(model::check(&file, stand.seed), 35);
    assert_eq!(digest::of(&file), before);

    // By its name in a configuration. The state record on this machine knows later points, which the vault lost.
    let config = stand.path("seawall.yml");
    let text = format!("databases:\n  - name: app\n    path: {}\n    vault: {url:?}\n", db.display());
    std::fs::write(&config, text).unwrap();
    let file = stand.new_file();
    let args = ["--as-stored-at", &at, "--config", config.to_str().unwrap(), "-o", file.to_str().unwrap()];
    run("seawall", stand.command().args(["restore", "app"]).args(args)).ok();
    assert_eq!(digest::of(&file), before);

    let folder = stand.path("other");
    std::fs::create_dir(&folder).unwrap();
    let refused = run("seawall", stand.command().arg("timeline").arg(&folder).args(["--as-stored-at", "1 hour ago"]));
    assert!(refused.to_string().contains("vault.no-versions"), "{refused}");
}

#[test]
fn an_encrypted_vault_whose_marker_was_attacked() {
    let bucket = Bucket::start("an attack on an encrypted vault");
    let stand = Stand::folder(Random::from_env().seed());
    let (host, url) = bucket.urls("sealed");
    let (db, key, keys) = (stand.db(), stand.path("owner.key"), seawall_vault::Identities::generate());
    std::fs::write(&key, format!("{}\n", keys.0.reveal())).unwrap();
    let (key, db_text) = (key.to_str().unwrap(), db.to_str().unwrap());
    let write = || stand.seawall(&["replicate", "--once", "--recipient", &keys.1, db_text, &host]);
    let mut app = stand.app();
    app.commit(30);
    write().ok();
    app.commit(5);
    write().ok();
    let (before, at, marker) = (digest::of(&db), moment(), bucket.read(&url, MARKER));
    app.commit(3);

    // The reader names the object, the moment before the attack can be read, and the writer writes nothing at all.
    let check = |code: &str| {
        let stored = bucket.names(&url);
        let file = stand.new_file();
        let restore = |more: &[&str]| {
            let args = ["restore", &url, "-o", file.to_str().unwrap(), "--identity", key];
            stand.seawall(&[&args[..], more].concat())
        };
        let refused = restore(&[]);
        failed(&refused, code, MARKER);
        assert!(refused.stderr.contains("--as-stored-at"), "{refused}");
        failed(&write(), code, MARKER);
        assert_eq!(bucket.names(&url), stored, "nothing was written");
        stand.seawall(&["verify", &url, "--identity", key, "--as-stored-at", &at]).ok();
        restore(&["--as-stored-at", &at]).ok();
        assert_eq!(model::check(&file, stand.seed), 35);
        assert_eq!(digest::of(&file), before);
    };
    bucket.overwrite(&host, MARKER, b"garbage");
    check("vault.encryption");
    bucket.delete(&host, MARKER);
    check("vault.encryption");

    // The marker is back, and a policy hides it from the host.
    bucket.overwrite(&url, MARKER, &marker);
    bucket.allow(OBJECTS, "/sealed/seawall/encryption.json");
    let stored = bucket.names(&url);
    failed(&write(), "vault.denied", MARKER);
    assert_eq!(bucket.names(&url), stored, "nothing was written");
    bucket.allow(OBJECTS, "");
    write().ok();
    let file = stand.new_file();
    stand.seawall(&["restore", &url, "-o", file.to_str().unwrap(), "--identity", key]).ok();
    assert_eq!(digest::of(&file), digest::of(&db));

    // Everything is attacked.
    let (before, at) = (digest::of(&db), moment());
    bucket.attack(&host);
    let file = stand.new_file();
    let args = ["restore", &url, "-o", file.to_str().unwrap(), "--identity", key, "--as-stored-at", &at];
    stand.seawall(&args).ok();
    assert_eq!(digest::of(&file), before);
}

/// All pairs, in order.
fn pairs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    with(path, |env| {
        let mut txn = env.read().unwrap();
        let Some(dbi) = txn.open(DBI).unwrap() else { return Vec::new() };
        let (mut cursor, mut pairs) = (txn.cursor(dbi).unwrap(), Vec::new());
        while let Some((key, value)) = cursor.next().unwrap() {
            pairs.push((key.to_vec(), value.to_vec()));
        }
        pairs
    })
}

#[test]
fn an_lmdb_environment_is_restored_from_before_an_attack() {
    let bucket = Bucket::start("an attack on snapshots of LMDB");
    let stand = Stand::folder(Random::from_env().seed());
    let (host, url) = bucket.urls("shard");
    let env = stand.path("env");
    std::fs::create_dir(&env).unwrap();
    let text = format!(
        "socket: {{ path: s.sock }}\ndatabases:\n  - path: env\n    name: shard\n    vault: {host:?}\n    lmdb: {{ instance: a, \
         create: true, map-size: 64MiB, poll-interval: 50ms, list-interval: 50ms, retry-interval: 50ms }}\n"
    );
    std::fs::write(stand.path("seawall.yml"), &text).unwrap();
    std::fs::write(stand.path("owner.yml"), text.replace(&host, &url)).unwrap();
    for n in 0..20 {
        put(&env, &format!("key {n}"), "value");
    }
    stand.seawall(&["replicate", "--config", "seawall.yml", "--once"]).ok();
    let (before, at) = (pairs(&env), moment());
    assert_eq!(before.len(), 20);
    put(&env, "key 3", "after the attack");
    bucket.attack(&host);

    let restore = ["restore", "shard", "--config", "owner.yml", "-o"];
    let refused = stand.seawall(&[&restore[..], &["present"]].concat());
    assert_ne!(refused.code(), 0, "the present is destroyed: {refused}");
    let verified = stand.seawall(&["verify", &url, "--as-stored-at", &at]).ok();
    assert!(verified.stdout.contains("the bucket keeps earlier versions"), "{verified}");
    stand.seawall(&[&restore[..], &["back", "--as-stored-at", &at]].concat()).ok();
    assert_eq!(pairs(&stand.path("back")), before);
}

#[test]
fn a_set_of_postgresql_is_restored_from_before_an_attack() {
    const CONTENT: &str = "SELECT count(*) || ' ' || sum(hashtextextended(t::text, 0)) FROM t";
    let bucket = Bucket::start("an attack on sets");
    let (stand, server) = (Stand::folder(Random::from_env().seed()), Server::start(MAJOR));
    let (host, url) = bucket.urls("shop");
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT i, md5(i::text) AS m FROM generate_series(1, 5000) i");
    stand.seawall(&["backup", &server.url("shop"), &host]).ok();
    let (before, at) = (server.sql("shop", CONTENT), moment());
    server.sql("shop", "DELETE FROM t WHERE i % 2 = 0");
    bucket.attack(&host);

    let refused = stand.seawall(&["restore", &url, "--to", &server.url("present")]);
    assert_ne!(refused.code(), 0, "the present is destroyed: {refused}");
    let verified = stand.seawall(&["verify", &url, "--as-stored-at", &at]).ok();
    assert!(verified.stdout.contains("the bucket keeps earlier versions"), "{verified}");
    stand.seawall(&["restore", &url, "--to", &server.url("back"), "--as-stored-at", &at]).ok();
    assert_eq!(server.sql("back", CONTENT), before);
}
