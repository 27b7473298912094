//! `seawall copy`, with the real binary: what is copied is restored and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_lmdb::{Env, EnvOptions, Flags};
use seawall_tests::{Place, Process, Random, S3Server, Stand, model, run, wait};
use serde_json::Value;

use crate::postgres::{CONTENT, shop};

/// A vault of `runs` runs, with ten commits each.
fn vault(runs: u64) -> Stand {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    for _ in 0..runs {
        app.commit(10);
        stand.replicate_once();
    }
    stand
}

/// Every file below a folder, with its content.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut all, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.push((path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    all.sort();
    all
}

fn copy(stand: &Stand, to: &str, more: &[&str]) -> Value {
    let args = ["copy", &stand.place.url(), to, "--json"];
    stand.seawall(&[&args[..], more].concat()).ok().json()
}

fn restore(stand: &Stand, from: &str) -> u64 {
    let file = stand.new_file();
    stand.seawall(&["restore", from, "-o", file.to_str().unwrap()]).ok();
    model::check(&file, stand.seed)
}

#[test]
fn a_folder_is_copied_and_a_second_run_copies_what_is_missing() {
    let stand = vault(3);
    let planned = copy(&stand, "copy", &["--dry-run"]);
    assert!(!stand.path("copy").exists(), "{planned}");
    let done = copy(&stand, "copy", &[]);
    assert_eq!(done["copied"], planned["copied"]);
    assert_eq!(files(&stand.path("copy")), files(&stand.path("vault")));
    assert_eq!(restore(&stand, "./copy"), 30);
    let again = copy(&stand, "copy", &[]);
    assert_eq!((again["copied"]["objects"].as_u64(), &again["present"]), (Some(0), &done["copied"]));

    let mut app = stand.app();
    app.commit(5);
    stand.replicate_once();
    let more = copy(&stand, "copy", &[]);
    assert!(more["copied"]["objects"].as_u64() > Some(0), "{more}");
    let newest = stand.seawall(&["timeline", "./vault", "--json"]).ok().json()["spans"][0]["to"].clone();
    assert_eq!(more["databases"][0]["newest"], newest);
    assert_eq!(restore(&stand, "./copy"), 35);
}

#[test]
fn a_copy_in_a_bucket_is_restored_by_us_and_by_litestream_on_s3() {
    let stand = vault(3);
    let bucket = Place::Bucket(Box::new(S3Server::start()), "moved/app".into());
    let url = bucket.url();
    let seawall = |args: &[&str]| {
        let mut command = stand.command();
        command.env("AWS_ACCESS_KEY_ID", S3Server::ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", S3Server::SECRET_KEY);
        run("seawall", command.args(args))
    };
    let done = seawall(&["copy", "vault", &url, "--json"]).ok().json();
    assert_eq!(done["databases"][0]["findings"], serde_json::json!([]), "{done}");
    assert_eq!(bucket.files(0), stand.place.files(0));
    let back = stand.new_file();
    seawall(&["restore", &url, "-o", back.to_str().unwrap()]).ok();
    assert_eq!(model::check(&back, stand.seed), 30);

    let config = stand.path("litestream.yml");
    let text = format!("dbs:\n  - path: {}\n    replica:\n{}", stand.db().display(), bucket.yaml(6));
    fs::write(&config, text).unwrap();
    let back = stand.new_file();
    let mut command: Command = stand.litestream_command();
    command.args(["restore", "-config"]).arg(&config).arg("-o").arg(&back).arg(stand.db());
    run("litestream", &mut command).ok();
    assert_eq!(model::check(&back, stand.seed), 30);

    // And back into a folder.
    seawall(&["copy", &url, "home"]).ok();
    assert_eq!(files(&stand.path("home")), files(&stand.path("vault")));
}

#[test]
fn a_copy_that_is_killed_is_continued() {
    let stand = vault(12);
    let all = files(&stand.path("vault")).len();
    let mut process = Process::spawn("seawall", stand.command().args(["copy", "vault", "copy"]));
    wait::until("the copy to begin", wait::SOON, || {
        (stand.path("copy/ltx").exists() || !process.running()).then_some(())
    });
    process.kill_9();
    let done = copy(&stand, "copy", &[]);
    let count = |what: &str| done[what]["objects"].as_u64().unwrap();
    assert_eq!(usize::try_from(count("copied") + count("present")).unwrap(), all, "{done}");
    assert_eq!(restore(&stand, "./copy"), 120);
    // What a copy that ended before its last objects left is restored up to there, and continued.
    let mut newest: Vec<PathBuf> = files(&stand.path("copy/ltx/0")).into_iter().map(|(path, _)| path).collect();
    fs::remove_file(stand.path("copy/ltx/0").join(newest.pop().unwrap())).unwrap();
    assert_eq!(copy(&stand, "copy", &[])["copied"]["objects"], 1);
    assert_eq!(files(&stand.path("copy")), files(&stand.path("vault")));
}

#[test]
fn a_part_of_the_history() {
    let stand = vault(4);
    let levels = stand.place.files(0);
    let (_, at) = levels[levels.len() / 2];
    let position = format!("{at:016x}");
    let expected = model::check(&stand.restore_txid(at), stand.seed);
    let done = copy(&stand, "at", &["--at", &position]);
    assert_eq!(done["databases"][0]["newest"]["position"], position.as_str(), "{done}");
    assert_eq!(restore(&stand, "./at"), expected);

    let done = copy(&stand, "since", &["--since", &position]);
    assert!(done["databases"][0]["earliest"]["position"].as_str().unwrap() <= position.as_str(), "{done}");
    assert_eq!(restore(&stand, "./since"), 40);
    let file = stand.new_file();
    stand.seawall(&["restore", "./since", "--at", &position, "-o", file.to_str().unwrap()]).ok();
    assert_eq!(model::check(&file, stand.seed), expected);
}

#[test]
fn a_damaged_object_is_named_and_the_copy_is_not_sound() {
    let stand = vault(3);
    let (min, max) = stand.place.files(0)[1];
    let object = stand.place.object(0, min, max);
    let mut bytes = fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&object, bytes).unwrap();
    let name = object.file_name().unwrap().to_str().unwrap().to_owned();
    let output = stand.seawall(&["copy", "vault", "copy"]).exits(1);
    assert!(format!("{}{}", output.stdout, output.stderr).contains(&name), "{output}");
}

#[test]
fn places_that_are_refused() {
    let stand = vault(1);
    let refused = |args: &[&str], exit: i32, code: &str| {
        let output = stand.seawall(&[&["copy"][..], args].concat()).exits(exit);
        assert!(output.stderr.contains(code), "{code}: {output}");
    };
    refused(&["vault", "vault"], 1, "copy.same-place");
    refused(&["vault", "vault/inside"], 1, "copy.same-place");
    refused(&["./nowhere", "copy"], 4, "copy.empty");
    fs::create_dir(stand.path("empty")).unwrap();
    refused(&["empty", "copy"], 4, "copy.empty");

    // Another database, a different object of the same name, another writer, a held lease.
    let other = vault(1);
    let theirs = other.path("vault").to_str().unwrap().to_owned();
    let before = files(&other.path("vault"));
    refused(&["vault", &theirs], 1, "copy.differs");
    assert_eq!(files(&other.path("vault")), before);
    copy(&stand, "copy", &[]);
    let ahead = "ltx/0/00000000000000ff-00000000000000ff.ltx";
    fs::write(stand.path("copy").join(ahead), "x").unwrap();
    refused(&["vault", "copy"], 1, "copy.ahead");
    fs::create_dir(stand.path("held")).unwrap();
    fs::write(stand.path("held/lock.json"), r#"{"generation":1,"expires_at":"2999-01-01T00:00:00Z","owner":"x"}"#)
        .unwrap();
    refused(&["vault", "held"], 1, "copy.in-use");
    assert!(!stand.path("held/ltx").exists());
}

#[test]
fn an_lmdb_environment_is_copied_and_restored() {
    let stand = Stand::folder(1);
    for name in ["a", "b"] {
        fs::create_dir(stand.path(name)).unwrap();
        let vault = if name == "a" { "vault" } else { "copy" };
        let text = format!(
            "databases:\n  - path: {name}/shard\n    name: shard\n    vault: {vault}\n    \
             lmdb: {{ instance: {name}, create: true, map-size: 64MiB }}\n"
        );
        fs::write(stand.path(&format!("{name}.yml")), text).unwrap();
    }
    let options = EnvOptions { create: true, map_size: Some(64 << 20), ..EnvOptions::default() };
    {
        let env = Env::open(&stand.path("a/shard"), &options).unwrap();
        let mut txn = env.write().unwrap();
        let dbi = txn.create(b"d", Flags::default()).unwrap();
        txn.put(dbi, b"k", b"v").unwrap();
        txn.commit().unwrap();
    }
    stand.seawall(&["replicate", "--once", "--config", "a.yml"]).ok();
    let done = copy(&stand, "copy", &[]);
    assert!(done["databases"][0]["newest"].is_object(), "{done}");
    stand.seawall(&["restore", "--config", "b.yml", "shard"]).ok();
    let env = Env::open(&stand.path("b/shard"), &options).unwrap();
    let mut txn = env.read().unwrap();
    let dbi = txn.open(b"d").unwrap().unwrap();
    assert_eq!(txn.get(dbi, b"k").unwrap().map(<[u8]>::to_vec), Some(b"v".to_vec()));
}

#[test]
fn sets_of_postgres_are_copied_and_restored() {
    let (stand, server) = (Stand::folder(1), shop(500));
    for _ in 0..2 {
        stand.seawall(&["backup", &server.url("shop"), "vault"]).ok();
    }
    copy(&stand, "copy", &[]);
    assert_eq!(files(&stand.path("copy")), files(&stand.path("vault")));
    stand.seawall(&["restore", "./copy", "--to", &server.url("again")]).ok();
    assert_eq!(server.sql("again", CONTENT), server.sql("shop", CONTENT));
}

#[test]
fn an_encrypted_vault_stays_encrypted_unless_it_is_asked_for() {
    const SECRET: &str = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";
    const PUBLIC: &str = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    stand.replicate_with(&["--once", "--recipient", PUBLIC]).wait(wait::SOON * 4).ok();
    fs::write(stand.path("key.txt"), format!("{SECRET}\n")).unwrap();
    let restored = |from: &str, more: &[&str]| {
        let file = stand.new_file();
        stand.seawall(&[&["restore", from, "-o", file.to_str().unwrap()][..], more].concat()).ok();
        model::check(&file, stand.seed)
    };
    // Without a key only the bytes are compared.
    assert_eq!(copy(&stand, "copy", &[])["opened"], false);
    assert_eq!(files(&stand.path("copy")), files(&stand.path("vault")));
    assert_eq!(restored("./copy", &["--identity", "key.txt"]), 10);
    assert_eq!(copy(&stand, "copy", &["--identity", "key.txt"])["opened"], true);
    // Objects of SQLite have other names in a bucket.
    let output =
        stand.seawall(&["copy", "vault", "s3://bucket/x?endpoint=http://127.0.0.1:1&region=us-east-1"]).exits(1);
    assert!(!output.stderr.is_empty(), "{output}");
    // A plain copy needs the key, and a word.
    stand.seawall(&["copy", "vault", "plain", "--decrypt"]).exits(2);
    copy(&stand, "plain", &["--decrypt", "--identity", "key.txt"]);
    assert_eq!(restored("./plain", &[]), 10);
    // And a plain vault is encrypted, sealed anew for another place.
    let args = ["copy", "plain", "sealed", "--recipient", PUBLIC, "--identity", "key.txt"];
    stand.seawall(&args).ok();
    assert_eq!(restored("./sealed", &["--identity", "key.txt"]), 10);
    let output = stand.seawall(&["copy", "plain", "copy"]).exits(1);
    assert!(output.stderr.contains("copy.encrypted"), "{output}");
}
