//! `verify --restore` of files: a real restore whose result every host finds in the vault.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use seawall_tests::{Output, Process, Random, Stand, file_name, run, seawall, wait};
use serde_json::Value;
use tempfile::TempDir;

use crate::environment::put;

fn flip_a_bit(path: &PathBuf) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_proof_of_sqlite_is_recorded_in_the_vault() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(200);
    let mut process = stand.replicate();
    stand.until_protected(&mut process);
    app.commit(20);
    stand.until_protected(&mut process);
    process.stop().ok();
    stand.place.remove_merged();
    let (url, scratch) = (stand.place.url(), stand.path("scratch"));
    fs::create_dir(&scratch).unwrap();
    let prove = ["verify", &url, "--restore", "--scratch", scratch.to_str().unwrap(), "--json"];

    let proved = stand.seawall(&prove).ok().json();
    let record = &proved["record"];
    assert_eq!((&record["level"], &record["faults"]), (&"engine".into(), &Value::Array(Vec::new())), "{proved}");
    assert!(
        record["restored_bytes"].as_u64().unwrap() > 4096 && record["read_bytes"].as_u64().unwrap() > 0,
        "{proved}"
    );
    assert!(record["doubts"].to_string().contains("no checksum of the whole database"), "{proved}");
    assert!(proved["recorded"].as_str().unwrap().starts_with("seawall/proofs/"), "{proved}");
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "the scratch folder is gone");
    // The vault alone tells of it: no state of this host is asked.
    assert_eq!(stand.seawall(&["timeline", &url, "--json"]).ok().json()["proofs"][0], *record);
    let shown = stand.seawall(&["timeline", &url]).ok();
    assert!(shown.stdout.contains("restored ") && shown.stdout.contains("level engine"), "{shown}");
    stand.seawall(&["verify", &url]).ok();
    // What that proof compared needn't be read a second time, but for the newest object.
    let again = stand.seawall(&[&prove[..], &["--fresh", "30d"]].concat()).ok().json();
    let read = |proved: &Value| proved["record"]["read_bytes"].as_u64().unwrap();
    let fresh = again["record"]["fresh_bytes"].as_u64().unwrap();
    assert!(fresh > 0 && read(&again) < read(&proved), "{again}");
    assert_eq!((&again["record"]["faults"], &again["record"]["level"]), (&record["faults"], &record["level"]));
    // An object that was written over is compared again, whatever its size: it may be a forged one.
    let base = stand.place.object(9, 1, 1);
    fs::write(&base, fs::read(&base).unwrap()).unwrap();
    let anew = stand.seawall(&[&prove[..], &["--fresh", "30d"]].concat()).ok().json();
    let left = anew["record"]["fresh_bytes"].as_u64().unwrap();
    assert!(left + fs::metadata(&base).unwrap().len() <= fresh, "{anew}");
    // Other moments too, and never for longer than may be.
    let others = stand.seawall(&[&prove[..], &["--moments", "3"]].concat()).ok().json();
    assert!(!others["record"]["moments"].as_array().unwrap().is_empty(), "{others}");
    assert_eq!(others["record"]["faults"], Value::Array(Vec::new()), "{others}");
    let late = stand.seawall(&[&prove[..], &["--within", "1ms"]].concat()).exits(1).json();
    assert_eq!(late["error"]["code"], "proof.too-long", "{late}");
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "the scratch folder is gone");
    let timeline = stand.seawall(&["timeline", &url, "--json"]).ok().json();
    assert_eq!((&timeline["proofs"][0]["inconclusive"], &timeline["proofs"][1]), (&true.into(), &others["record"]));

    flip_a_bit(&stand.place.object(9, 1, 1));
    // The restore reads every object, also a fresh one.
    let failed = stand.seawall(&[&prove[..], &["--fresh", "30d"]].concat()).exits(1).json();
    let named = failed["record"]["faults"].to_string();
    assert!(named.contains(&file_name(1, 1)), "{failed}");
    // A record of a stranger is left out, and told.
    let (newest, _) = failed["recorded"].as_str().unwrap().rsplit_once('-').unwrap();
    let hostile = stand.place.root().join(format!("{newest}-00000001.json"));
    fs::write(hostile, "{}").unwrap();
    let timeline = stand.seawall(&["timeline", &url, "--json"]).ok().json();
    assert_eq!(timeline["proofs"][0], failed["record"], "{timeline}");
    assert_eq!(timeline["doubts"].as_array().unwrap().len(), 1, "{timeline}");
    let shown = stand.seawall(&["timeline", &url]).ok();
    assert!(shown.stdout.contains("failed") && shown.stdout.contains(&file_name(1, 1)), "{shown}");
}

#[test]
fn a_proof_of_lmdb_is_recorded_below_its_name() {
    let dir = TempDir::with_prefix("seawall-proof-").unwrap();
    for instance in ["a", "b"] {
        let text = format!(
            "databases:\n  - path: {instance}/shard\n    name: shard\n    vault: store\n    \
             lmdb: {{ instance: {instance}, create: true, map-size: 64MiB }}\n"
        );
        fs::write(dir.path().join(format!("{instance}.yml")), text).unwrap();
        fs::create_dir(dir.path().join(instance)).unwrap();
    }
    let called = |args: &[&str]| -> Output {
        let mut command = Command::new(seawall());
        command.current_dir(dir.path()).env_clear().env("HOME", dir.path()).env("TMPDIR", dir.path()).args(args);
        run("seawall", &mut command)
    };
    // Most of a snapshot is this value, and not its index.
    let mut random = Random::from_env();
    let large: String = (0..2000).map(|_| format!("{:016x}", random.below(u64::MAX))).collect();
    put(&dir.path().join("b/shard"), "large", &large);
    // Two instances, so that the restored state is merged from two snapshots.
    for instance in ["a", "b"] {
        for key in ["both", instance] {
            put(&dir.path().join(instance).join("shard"), key, instance);
        }
        called(&["replicate", "--config", &format!("{instance}.yml"), "--once"]).ok();
    }
    let prove = ["verify", "shard", "--restore", "--config", "a.yml", "--json"];
    let proved = called(&prove).ok().json();
    let record = &proved["record"];
    assert_eq!((&record["engine"], &record["faults"]), (&"lmdb".into(), &Value::Array(Vec::new())), "{proved}");
    assert_eq!(record["objects"], 2, "{proved}");
    assert!(proved["recorded"].as_str().unwrap().starts_with("seawall/proofs/shard/"), "{proved}");
    for source in [&["shard", "--config", "b.yml"][..], &["./store"]] {
        let timeline = called(&[&["timeline", "--json"], source].concat()).ok().json();
        assert_eq!(timeline["proofs"][0], *record, "{timeline}");
    }
    assert_eq!(called(&["verify", "./store", "--json"]).ok().json()["objects"], 2);
    let again = called(&[&prove[..], &["--fresh", "1d"]].concat()).ok().json();
    let bytes = |key: &str| again["record"][key].as_u64().unwrap();
    assert!(bytes("fresh_bytes") > 16_000, "both snapshots are fresh: {again}");
    assert!(bytes("read_bytes") < record["read_bytes"].as_u64().unwrap(), "{again}");
    // Below that level only the comparison reads all of both.
    let less = called(&[&prove[..], &["--fresh", "1d", "--level", "engine"]].concat()).ok().json();
    assert_eq!(less["record"]["fresh_bytes"], 0, "{less}");

    let snapshot = fs::read_dir(dir.path().join("store")).unwrap().map(|entry| entry.unwrap().path());
    let snapshot =
        snapshot.filter(|path| path.is_file()).find(|path| path.to_string_lossy().contains("__b__")).unwrap();
    let bytes = fs::read(&snapshot).unwrap();
    // The footer is an empty member of 42 bytes: everything else reads well without it.
    fs::write(&snapshot, &bytes[..bytes.len() - 42]).unwrap();
    assert_eq!(called(&prove).exits(1).json()["record"]["faults"][0]["code"], "lmdb.index");
    // A restore passes over a damaged snapshot. So it is read again, although it was fresh: its size is the same.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 3] ^= 1;
    fs::write(&snapshot, damaged).unwrap();
    let passed = called(&[&prove[..], &["--fresh", "1d"]].concat()).exits(1).json();
    let name = snapshot.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(passed["record"]["faults"].to_string().contains(&name), "{passed}");
    fs::write(&snapshot, &bytes[..bytes.len() / 2]).unwrap();
    let failed = called(&prove).exits(1).json();
    let faults = failed["record"]["faults"].as_array().unwrap();
    assert!(faults.iter().any(|fault| fault["object"].as_str().unwrap().contains(&name)), "{failed}");
    assert_eq!(called(&["timeline", "./store", "--json"]).ok().json()["proofs"][0], failed["record"]);
}

/// What `status` says of the stand's database once it fits.
fn status_when(stand: &Stand, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    wait::until(what, wait::SOON * 4, || {
        let status = stand.seawall(&["status", "--json"]).ok().json()[0].clone();
        fits(&status).then_some(status)
    })
}

#[test]
fn a_database_is_proved_by_itself_and_a_proof_that_fails_is_an_alarm() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(200);
    let configure = |prove: &str| {
        let text = format!(
            "socket: {{ path: s.sock }}\nprove: {prove}\ndatabases:\n  - path: app.db\n    vault: {}\n",
            stand.place.url()
        );
        fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    let (scratch, records) = (stand.path("scratch"), stand.place.root().join("seawall/proofs"));
    fs::create_dir(&scratch).unwrap();
    let yearly = format!("{{ schedule: \"H 5 1 1 *\", level: engine, within: 10m, scratch: {} }}", scratch.display());
    configure(&yearly);
    let begin = || Process::spawn("seawall", stand.command().arg("replicate"));
    let is_record = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let count = || fs::read_dir(&records).unwrap().map(|entry| entry.unwrap().path()).filter(is_record).count();

    // A stop ends a proof that is being made, here while a program of the user's runs before it.
    let held = stand.path("held");
    let hook = format!("{{ before-proof: 'touch {} && sleep 600', shell: true, timeout: 20m }}", held.display());
    configure(&format!("{yearly}\nhooks: {hook}"));
    let mut process = begin();
    wait::until("a proof to begin", wait::SOON * 4, || held.exists().then_some(()));
    process.stop().ok();
    assert!(!records.exists(), "nothing is known of a proof that was stopped");
    configure(&yearly);
    // Since when there is none is known to this machine, however often the process restarts.
    let unproved = stand.state().join("unproved.json");
    let since = fs::read(&unproved).unwrap();
    let text = "{\"format\":1,\"since\":\"2026-01-01T00:00:00.000Z\"}";
    fs::write(&unproved, text).unwrap();
    let late = stand.seawall(&["status", "--json"]).ok().json()[0]["alarms"].to_string();
    assert!(late.contains("alarm.proof-age") && late.contains("2026-01-01"), "{late}");
    fs::write(&unproved, since).unwrap();
    // A schedule that is taken out, and comes back in a year, begins to count anew.
    configure("false");
    let mut process = begin();
    stand.until_protected(&mut process);
    process.stop().ok();
    assert!(!unproved.exists());
    configure(&yearly);

    // A database that was never proved is due at once.
    let mut process = begin();
    let proved = status_when(&stand, "a proof", |status| status["proof"].is_object());
    let proof = &proved["proof"];
    assert_eq!((&proof["level"], &proof["faults"]), (&"engine".into(), &Value::Array(Vec::new())), "{proved}");
    assert!(proof["restored_bytes"].as_u64().unwrap() > 4096, "{proved}");
    assert_eq!(stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json()["proofs"][0], *proof);
    assert!(stand.seawall(&["status"]).ok().stdout.contains("\napp: restored "));
    assert_eq!((count(), fs::read_dir(&scratch).unwrap().count()), (1, 0));
    // A process that is told so, and one that is started anew.
    configure("false");
    let reloaded = stand.seawall(&["config", "reload", "--json"]).ok().json();
    assert_eq!(reloaded["settings"], serde_json::json!(["prove"]), "{reloaded}");
    assert!(stand.seawall(&["status", "--json"]).ok().json()[0]["proof"].is_null());
    process.stop().ok();
    configure(&yearly);
    let mut process = begin();
    let again = status_when(&stand, "the record", |status| status["proof"].is_object());
    assert_eq!((&again["proof"], count()), (proof, 1), "it isn't due again");
    wait::until("the note to go", wait::SOON, || (!unproved.exists()).then_some(()));
    process.stop().ok();
    // Without a process the vault tells of it. Where it can't be read, the status says so.
    assert_eq!(stand.seawall(&["status", "--json"]).ok().json()[0]["proof"], *proof);
    let (vault, away) = (stand.place.root(), stand.path("away"));
    fs::rename(&vault, &away).unwrap();
    let untold = stand.seawall(&["status"]).ok();
    for said in ["warning[alarm.proof-unknown]: its proofs can't be read: ", "(vault.vanished)"] {
        assert!(untold.stdout.contains(said), "{untold}");
    }
    let untold = stand.seawall(&["status", "--json"]).ok().json();
    assert!(untold[0]["alarms"].to_string().contains("alarm.proof-unknown"), "{untold}");
    fs::rename(&away, &vault).unwrap();

    // A vault without records, in which every object is damaged.
    fs::remove_dir_all(&records).unwrap();
    let levels = (0..=9).map(|level| stand.place.level(level)).filter(|level| level.is_dir());
    for object in levels.flat_map(|level| fs::read_dir(level).unwrap()) {
        flip_a_bit(&object.unwrap().path());
    }
    let mut process = begin();
    let failed = status_when(&stand, "a failed proof", |status| status["proof"].is_object());
    let alarms = failed["alarms"].as_array().unwrap();
    assert!(alarms.iter().any(|alarm| alarm["code"] == "alarm.proof-failed"), "{failed}");
    stand.seawall(&["status", "--check"]).exits(1);
    process.stop().ok();
    let alone = stand.seawall(&["status", "--json"]).ok().json()[0]["alarms"].to_string();
    assert!(alone.contains("alarm.proof-failed"), "{alone}");
}

/// Each of two environments has its turn.
#[test]
fn environments_are_proved_by_themselves() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut text =
        "socket: { path: s.sock }\nprove: { schedule: \"H 5 1 1 *\", level: content, moments: 1 }\ndatabases:\n"
            .to_owned();
    for name in ["one", "two"] {
        let lmdb = "lmdb: { instance: a, create: true, map-size: 64MiB, poll-interval: 50ms }";
        text += &format!("  - {{ name: {name}, path: data/{name}, vault: store, {lmdb} }}\n");
        fs::create_dir_all(stand.path("data").join(name)).unwrap();
    }
    fs::write(stand.path("seawall.yml"), text).unwrap();
    for value in ["1", "2"] {
        ["one", "two"].iter().for_each(|name| put(&stand.path("data").join(name), "k", value));
        stand.seawall(&["replicate", "--once"]).ok();
    }
    let mut process = Process::spawn("seawall", stand.command().arg("replicate"));
    let statuses = wait::until("a proof of each", wait::SOON * 4, || {
        let all = stand.seawall(&["status", "--json"]).ok().json().as_array().unwrap().clone();
        all.iter().all(|status| status["proof"].is_object()).then_some(all)
    });
    process.stop().ok();
    for status in statuses {
        let proof = &status["proof"];
        assert_eq!((&proof["engine"], &proof["level"]), (&"lmdb".into(), &"content".into()), "{proof}");
        assert_eq!(proof["faults"], Value::Array(Vec::new()), "{proof}");
        let name = status["name"].as_str().unwrap();
        assert_eq!(stand.seawall(&["timeline", name, "--json"]).ok().json()["proofs"][0], *proof);
    }
}

/// A process proves a database that is written to meanwhile, to the level `content`.
fn content_is_proved(stand: &Stand, encryption: &str, identity: &[&str]) {
    let mut app = stand.app();
    app.commit(200);
    let scratch = stand.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let text = format!(
        "socket: {{ path: s.sock }}\n{encryption}prove: {{ schedule: \"H 5 1 1 *\", within: 10m, scratch: {} }}\n\
         databases:\n  - path: app.db\n    vault: {}\n",
        scratch.display(),
        stand.place.url()
    );
    fs::write(stand.path("seawall.yml"), text).unwrap();
    let begin = || Process::spawn("seawall", stand.command().arg("replicate"));
    let mut proved = || {
        wait::until("a proof", wait::SOON * 4, || {
            app.commit(3);
            // It may be behind just then.
            let status = stand.seawall(&["status", "--json"]).json()[0].clone();
            status["proof"].is_object().then(|| status["proof"].clone())
        })
    };
    let mut process = begin();
    let proof = proved();
    assert_eq!((&proof["level"], &proof["faults"]), (&"content".into(), &Value::Array(Vec::new())), "{proof}");
    process.kill_9();
    // The vault alone is enough to compare.
    let verified = stand.seawall(&[&["verify", &stand.place.url(), "--restore", "--json"], identity].concat());
    let verified = verified.ok().json();
    let record = &verified["record"];
    assert_eq!((&record["level"], &record["point"]), (&"content".into(), &proof["point"]), "{verified}");
    fs::remove_dir_all(stand.place.root().join("seawall/proofs")).unwrap();
    // A process that follows one that was killed.
    let mut process = begin();
    let again = proved();
    assert_eq!((&again["level"], &again["faults"]), (&"content".into(), &Value::Array(Vec::new())), "{again}");
    assert_ne!(again["point"], proof["point"]);
    process.stop().ok();
}

#[test]
fn a_busy_database_is_proved_to_its_content() {
    content_is_proved(&Stand::folder(Random::from_env().seed()), "", &[]);
}

#[test]
fn a_busy_database_is_proved_to_its_content_on_s3() {
    content_is_proved(&Stand::bucket(Random::from_env().seed()), "", &[]);
}

#[test]
fn a_busy_database_in_an_encrypted_vault_is_proved_to_its_content() {
    let stand = Stand::folder(Random::from_env().seed());
    let key = stand.path("owner.key").display().to_string();
    let made = stand.seawall(&["vault", "init", &stand.place.url(), "--generate", "-o", &key, "--json"]).ok().json();
    let recipient = made["recipients"][0].as_str().unwrap();
    let encryption = format!("encryption: {{ recipients: [{recipient}], identity: {key} }}\n");
    content_is_proved(&stand, &encryption, &["--identity", &key]);
}
