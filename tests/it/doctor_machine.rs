//! What `seawall doctor` says of the machine: disks, limits, clocks, sources that are missing, and what is old. Each is broken, and the
//! answer is read.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use seawall_core::{Clock as _, SystemClock};
use seawall_tests::{Disk, LateClock, Place, Process, Random, Stand, run, wait};
use serde_json::Value;

use crate::alarms_raised::backup_at;
use crate::doctor::{configure, findings, protect, verdicts};
use crate::mysql::server::Server as Mysql;
use crate::postgres::server::Server as Postgres;

/// The finding of a check whose object ends so.
fn of_object(found: &[Value], object: &Path) -> Value {
    let is_it = |one: &&Value| one["object"] == object.to_str().unwrap();
    found.iter().find(is_it).unwrap_or_else(|| panic!("nothing of {}: {found:#?}", object.display())).clone()
}

#[test]
fn disks_without_room_and_state_that_cannot_be_written() {
    let mut stand = Stand::folder(Random::from_env().seed());
    let all = ["--no-vaults"];
    let place = |name: &str, mib| Disk::of_mib(mib, &stand.path(name));
    let (Some(small), Some(_little)) = (place("small", 16), place("little", 128)) else { return };
    let (full, little) = (stand.path("small"), stand.path("little"));
    stand.place = Place::Folder(little.clone());
    std::fs::write(full.join("app.db"), "").unwrap();
    let text =
        format!("databases:\n  - {{ path: small/app.db, state-dir: small/state, vault: '{}' }}\n", stand.place.url());
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let space = findings(&stand, "space", &all);
    assert_eq!(of_object(&space, &full)["verdict"], "wrong", "{space:#?}");
    assert_eq!(of_object(&space, &little)["verdict"], "warning", "the disk of the vault: {space:#?}");
    assert_eq!(verdicts(&findings(&stand, "state", &all)), [""; 0], "it can be made");

    // A disk that shows errors is made read-only by the kernel.
    std::fs::create_dir(full.join("state")).unwrap();
    assert_eq!(verdicts(&findings(&stand, "state", &all)), ["fine"]);
    small.make_read_only();
    let state = findings(&stand, "state", &all);
    assert_eq!(verdicts(&state), ["wrong"], "{state:?}");
    assert_eq!(state[0]["object"], full.join("state").to_str().unwrap());
}

#[test]
fn limits_are_those_of_the_process_that_runs() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let database = format!("{{ path: app.db, name: app, vault: '{}' }}", stand.place.url());
    let text = format!("socket: {{ path: s.sock }}\ndatabases:\n  - {database}\n");
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let all = ["--no-vaults"];
    let program = seawall_tests::seawall().display().to_string();
    let limited = |limit: &str, arguments: &str| {
        let mut command = stand.command();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{limit}; exec '{program}' {arguments}")]).current_dir(stand.path("")).env_clear();
        shell.envs(command.env("TMPDIR", stand.path("")).get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell
    };
    let files = || -> Value { of_object(&findings(&stand, "limits", &all), Path::new("open files")) };
    assert_eq!(files()["verdict"], "fine");
    assert!(files()["meaning"].as_str().unwrap().contains("a process that is started as this command was"));
    let mut seawall = Process::spawn("seawall", &mut limited("ulimit -n 300", "replicate"));
    let few = wait::until("the process to answer", wait::SOON, || {
        let found = files();
        found["meaning"]
            .as_str()
            .unwrap()
            .contains(&format!("process {} ", seawall.pid().as_raw_nonzero()))
            .then_some(found)
    });
    assert_eq!(few["verdict"], "warning", "this command may open more: {few}");
    assert!(few["meaning"].as_str().unwrap().contains("may open 300 files"), "{few}");
    seawall.stop();

    // A container's namespace has watches of its own.
    let told = run("sh", &mut limited("ulimit -n 301", "doctor --no-vaults --json")).json();
    let told = of_object(told.as_array().unwrap(), Path::new("open files"));
    assert!(told["verdict"] == "warning" && told["meaning"].as_str().unwrap().contains("may open 301 files"), "{told}");
    let shell = limited("echo 60 > /proc/sys/user/max_inotify_watches", "doctor --no-vaults --json");
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "sh"]).args(shell.get_args()).current_dir(stand.path("")).env_clear();
    unshare.envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let answer = run("unshare", &mut unshare);
    if !answer.stdout.starts_with('[') {
        eprintln!("left out: this user may not make a user namespace");
        return;
    }
    let told = of_object(answer.json().as_array().unwrap(), Path::new("file watches"));
    assert!(told["verdict"] == "warning" && told["meaning"].as_str().unwrap().contains("60 watches"), "{told}");
}

/// The host of the vault has another time.
#[test]
fn a_clock_that_is_not_the_stores_is_told_with_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    let Place::Bucket(server, _) = &stand.place else { panic!("a bucket") };
    let late = LateClock::before(server);
    let configure = |vault: &str| {
        let text = format!("databases:\n  - {{ path: app.db, vault: '{vault}' }}\n");
        std::fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    configure(&stand.place.url());
    assert_eq!(verdicts(&findings(&stand, "clock", &[])), [""; 0]);
    configure(&late.url(&stand.place));
    let clock = findings(&stand, "clock", &[]);
    assert_eq!(verdicts(&clock), ["wrong"], "{clock:?}");
    assert!(clock[0]["meaning"].as_str().unwrap().contains("ahead of the clock of "), "{clock:?}");
}

#[test]
fn an_environment_that_is_missing_and_a_cluster_whose_user_may_not_copy_it() {
    let stand = Stand::folder(Random::from_env().seed());
    let all = ["--no-vaults"];
    let text = "databases:\n  - { path: shard, vault: store, lmdb: { instance: a } }\n";
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let source = findings(&stand, "source", &all);
    assert_eq!(verdicts(&source), ["warning"], "{source:?}");
    std::fs::create_dir(stand.path("shard")).unwrap();
    crate::environment::put(&stand.path("shard"), "k", "1");
    assert_eq!(verdicts(&findings(&stand, "source", &all)), ["fine"]);

    let server = Postgres::start(15);
    server.sql("postgres", "CREATE ROLE keeper LOGIN");
    let configure = |role: &str| {
        let url = server.url_as(role, "");
        let more = "continuous: { base: \"0 2 * * SUN\" }";
        let text = format!("databases:\n  - {{ name: all, url: '{url}', vault: store, {more} }}\n");
        std::fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    configure("keeper");
    assert_eq!(verdicts(&findings(&stand, "connection", &all)), ["fine"]);
    let grants = findings(&stand, "grants", &all);
    assert!(!grants.is_empty() && verdicts(&grants).iter().all(|one| *one == "wrong"), "{grants:?}");
    drop(server);
    assert_eq!(verdicts(&findings(&stand, "connection", &all)), ["wrong"]);
}

#[test]
fn mysql_days_without_a_backup_are_gaps() {
    let (stand, server) = (Stand::folder(2), Mysql::start());
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a int PRIMARY KEY)");
    configure(&stand, &server.url("shop"), "");
    let Place::Folder(vault) = &stand.place else { panic!("a folder") };
    let days = |days: u64| SystemClock.now().before(Duration::from_secs(days * 86_400));
    backup_at(&server, "shop", vault, days(2));
    backup_at(&server, "shop", vault, days(1));
    assert_eq!(verdicts(&findings(&stand, "gaps", &[])), [""; 0]);
    let folder = stand.path("gaps");
    backup_at(&server, "shop", &folder, days(6));
    backup_at(&server, "shop", &folder, days(5));
    backup_at(&server, "shop", &folder, days(1));
    let text = std::fs::read_to_string(stand.path("seawall.yml")).unwrap();
    std::fs::write(stand.path("seawall.yml"), text.replace(&stand.place.url(), "./gaps")).unwrap();
    let gaps = findings(&stand, "gaps", &[]);
    assert_eq!(verdicts(&gaps), ["warning"], "{gaps:?}");
    assert!(gaps[0]["meaning"].as_str().unwrap().contains("3 missing"), "{gaps:?}");
}

/// Nothing proved the database for a long time, and nothing read its vault back for more than 35 days.
#[test]
fn old_proofs_and_readings_are_told() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    protect(&stand, "").stop().ok();
    stand.seawall(&["verify", "app"]).ok();
    let long_ago = |file: &str, key: &str| {
        let file = stand.state().join(file);
        let mut note: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert!(note[key].is_string(), "{note}");
        note[key] = "2026-01-01T00:00:00.000Z".into();
        std::fs::write(&file, note.to_string()).unwrap();
    };
    // No proof can be made, for the program of the user's before it goes on and on.
    let never = "prove: { schedule: \"H 5 1 1 *\" }\nhooks: { before-proof: 'sleep 600', shell: true, timeout: 20m }\n";
    let mut seawall = protect(&stand, never);
    let unproved = stand.state().join("unproved.json");
    wait::until("it to be noted", wait::SOON, || unproved.exists().then_some(()));
    assert_eq!(verdicts(&findings(&stand, "content", &[])), [""; 0]);
    let age = || -> Vec<Value> {
        let all = findings(&stand, "alarm", &[]);
        all.into_iter().filter(|one| one["meaning"].as_str().unwrap().contains("alarm.proof-age")).collect()
    };
    assert_eq!(age(), [Value::Null; 0]);
    seawall.stop();
    long_ago("unproved.json", "since");
    long_ago("read.json", "content_read_at");
    let mut seawall = protect(&stand, never);
    let content = findings(&stand, "content", &[]);
    assert_eq!(verdicts(&content), ["warning"], "{content:?}");
    assert_eq!(verdicts(&age()), ["wrong"], "{:?}", age());
    seawall.stop();
    // A reading mends one of the two.
    stand.seawall(&["verify", "app"]).ok();
    let mut seawall = protect(&stand, never);
    assert_eq!(verdicts(&findings(&stand, "content", &[])), [""; 0]);
    seawall.stop();
}

/// The program was updated, and the process is still the old one.
#[test]
fn a_process_of_another_version_is_told() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let mut seawall = protect(&stand, "socket: { path: real.sock }\n");
    let (real, old) = (stand.path("real.sock"), stand.path("old.sock"));
    let version = stand.seawall(&["info", "--json", "--socket", real.to_str().unwrap()]).ok().json()["version"].clone();
    let version = version.as_str().unwrap().to_owned();
    let listener = UnixListener::bind(&old).unwrap();
    // A process between the two that tells another version, of equal length.
    let before = "9".repeat(version.len());
    let to = real.clone();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (mut client, mut server) = (client, UnixStream::connect(&to).unwrap());
            let (mut asked, mut asks) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (version, before) = (version.clone(), before.clone());
            thread::spawn(move || std::io::copy(&mut asked, &mut asks));
            thread::spawn(move || {
                let mut answer = vec![0; 1 << 16];
                while let Some(length) = server.read(&mut answer).ok().filter(|length| *length > 0) {
                    let text = String::from_utf8_lossy(&answer[..length]).replace(&version, &before);
                    if client.write_all(text.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    assert_eq!(verdicts(&findings(&stand, "process", &["--no-vaults"])), ["fine"]);
    let process = findings(&stand, "process", &["--no-vaults", "--socket", old.to_str().unwrap()]);
    assert_eq!(verdicts(&process), ["warning"], "{process:?}");
    assert!(process[0]["next"].as_str().unwrap().contains("restart"), "{process:?}");
    seawall.stop().ok();
}
