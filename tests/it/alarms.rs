//! Alarms, silences and the doctor, by the real binary.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use seawall_core::{Clock as _, SystemClock};
use seawall_tests::{Place, Process, Random, Stand, wait};
use serde_json::Value;

/// A configuration for the stand's database, with a control socket and what else it says.
fn configure(stand: &Stand, more: &str) {
    let text =
        format!("socket: {{ path: s.sock }}\n{more}databases:\n  - path: app.db\n    vault: {}\n", stand.place.url());
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
}

fn protecting(stand: &Stand) -> Process {
    let mut seawall = Process::spawn("seawall", stand.command().arg("replicate"));
    stand.until_protected(&mut seawall);
    seawall
}

/// The codes of the alarms that `status` shows, each with whether it is silenced.
fn alarms(status: &Value) -> Vec<(String, bool)> {
    let all = status[0]["alarms"].as_array().into_iter().flatten();
    all.map(|alarm| (alarm["code"].as_str().unwrap().to_owned(), alarm["silenced_until"].is_string())).collect()
}

#[test]
fn an_alarm_fails_a_check_until_it_is_silenced_or_over() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    configure(&stand, "alarms: { severity: { alarm.stopped: critical } }\n");
    let mut seawall = protecting(&stand);
    stand.seawall(&["status", "--check"]).exits(0);
    stand.seawall(&["stop", "app"]).ok();
    let told = stand.seawall(&["status", "--check"]).exits(1);
    assert!(told.stdout.contains("app: critical[alarm.stopped]: protection was stopped by request"), "{told}");
    stand.seawall(&["status"]).exits(0);
    assert_eq!(stand.seawall(&["silence", "other", "--for", "1h"]).exits(4).stdout, "");
    stand.seawall(&["silence", "app", "--for", "31d"]).exits(2);
    stand.seawall(&["silence", "app", "--for", "1h"]).ok();
    let status = stand.seawall(&["status", "--check", "--json"]).exits(0).json();
    assert_eq!(alarms(&status), [("alarm.stopped".to_owned(), true)], "{status}");
    stand.seawall(&["silence", "app", "--end"]).ok();
    stand.seawall(&["status", "--check"]).exits(1);
    stand.seawall(&["start", "app"]).ok();
    wait::until("the alarm to be over", wait::SOON * 2, || {
        (stand.seawall(&["status", "--check"]).code() == 0).then_some(())
    });
    // A silence outlives the process, and can be made without one.
    seawall.stop().ok();
    let status = stand.seawall(&["status", "--check", "--json"]).exits(1).json();
    assert_eq!(alarms(&status), [("alarm.stopped".to_owned(), false)], "{status}");
    stand.seawall(&["silence", "app", "--for", "1h"]).ok();
    stand.seawall(&["status", "--check"]).exits(0);
    let mut seawall = protecting(&stand);
    let status = stand.seawall(&["status", "--json"]).ok().json();
    assert!(status[0]["silenced_until"].is_string(), "{status}");
    seawall.stop().ok();
}

/// The verdicts of one check.
fn verdicts(stand: &Stand, check: &str, exit: i32) -> Vec<String> {
    let findings = stand.seawall(&["doctor", "--json"]).exits(exit).json();
    let of_check = findings.as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    of_check.map(|finding| finding["verdict"].as_str().unwrap().to_owned()).collect()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_doctor_names_what_is_broken_and_the_command_that_mends_it() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    stand.seawall(&["doctor"]).exits(2);
    configure(&stand, "");
    assert_eq!(verdicts(&stand, "process", 2), ["wrong"]);
    let mut seawall = protecting(&stand);
    let well = stand.seawall(&["doctor"]).exits(0);
    assert!(well.stdout.contains(": 0 wrong, 0 to look after\n"), "{well}");

    // A secret that others may read.
    let config = stand.path("seawall.yml");
    configure(&stand, "mcp-token: 0123456789abcdef0123\n");
    set_mode(&config, 0o644);
    assert_eq!(verdicts(&stand, "permissions", 1), ["warning"]);
    set_mode(&config, 0o600);
    assert_eq!(verdicts(&stand, "permissions", 0), ["fine"]);

    // What a killed run left.
    let left = stand.path("app.db.0123456789abcdef.tmp");
    std::fs::write(&left, b"half").unwrap();
    assert_eq!(verdicts(&stand, "leftovers", 0), [""; 0]);
    assert!(Command::new("touch").args(["-d", "2 days ago"]).arg(&left).status().unwrap().success());
    let told = stand.seawall(&["doctor"]).exits(1);
    let mend = told.stdout.lines().find_map(|line| line.trim().strip_prefix("next: rm ")).map(str::to_owned);
    assert_eq!(mend, Some(format!("'{}'", left.display())), "{told}");
    std::fs::remove_file(&left).unwrap();

    // A database that was stopped.
    stand.seawall(&["stop", "app"]).ok();
    assert_eq!(verdicts(&stand, "protection", 2), ["wrong"]);
    seawall.stop().ok();

    // A file that isn't a database, one in another journal mode, and none.
    std::fs::write(stand.path("other.db"), b"-- a dump of the database").unwrap();
    for (path, made, verdict) in [
        ("other.db", None, "wrong"),
        ("old.db", Some("PRAGMA journal_mode=delete; CREATE TABLE t(x)"), "warning"),
        ("none.db", None, "warning"),
    ] {
        if let Some(sql) = made {
            rusqlite::Connection::open(stand.path(path)).unwrap().execute_batch(sql).unwrap();
        }
        let text = format!("databases:\n  - path: {path}\n    vault: {}\n", stand.place.url());
        std::fs::write(&config, text).unwrap();
        let found = stand.seawall(&["doctor", "--no-vaults", "--json"]).exits(2).json();
        let source = found.as_array().unwrap().iter().find(|finding| finding["check"] == "source").unwrap();
        assert_eq!(source["verdict"], verdict, "{source}");
        assert_ne!(source["next"], "", "{source}");
    }

    // A vault that can't be one, and a configuration that can't be read.
    std::fs::write(stand.path("file"), b"in the way").unwrap();
    std::fs::write(&config, "databases:\n  - path: app.db\n    vault: ./file/vault\n").unwrap();
    assert_eq!(verdicts(&stand, "vault", 2), ["wrong"]);
    std::fs::write(&config, "databases:\n  - path: app.db\n    vualt: ./v\n").unwrap();
    assert_eq!(verdicts(&stand, "configuration", 2), ["wrong"]);
}

#[test]
fn a_hole_is_told_also_after_a_restart_and_credentials_before_they_end() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    configure(&stand, "");
    protecting(&stand).stop().ok();
    // Nothing looks while the application commits and begins its WAL anew.
    app.commit(5);
    app.checkpoint("TRUNCATE");
    app.commit(1);
    let is_told = || {
        let status = stand.seawall(&["status", "--json"]).ok().json();
        let told = alarms(&status).iter().any(|(code, _)| code == "alarm.hole");
        assert_eq!(told, status[0]["hole"]["reason"].is_string(), "{status}");
        told
    };
    let mut seawall = protecting(&stand);
    wait::until("the hole to be told", wait::SOON * 2, || is_told().then_some(()));
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    let status = stand.seawall(&["status", "--json"]).ok().json();
    assert_eq!(status[0]["hole"], timeline["holes"][0], "{timeline}");
    seawall.stop().ok();
    assert!(is_told());
    let mut seawall = protecting(&stand);
    assert!(is_told());
    configure(&stand, "alarms: { hole: off }\n");
    stand.seawall(&["config", "reload"]).ok();
    let status = stand.seawall(&["status", "--json"]).ok().json();
    assert!(alarms(&status).is_empty(), "{status}");
    seawall.stop().ok();
}

#[test]
fn credentials_that_end_soon_are_told_on_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    configure(&stand, "");
    let soon = SystemClock.now().after(Duration::from_secs(3600)).to_string();
    let mut command = stand.command();
    command.arg("replicate").env("AWS_SESSION_TOKEN", "temporary").env("AWS_CREDENTIAL_EXPIRATION", &soon);
    // This server takes no temporary credentials at all, so the database isn't protected. Their end is told all the same.
    let mut seawall = Process::spawn("seawall", &mut command);
    let status = wait::until("the end of the credentials to be told", wait::SOON * 2, || {
        assert!(seawall.running(), "{}", seawall.stderr());
        let status = stand.seawall(&["status", "--json"]).json();
        alarms(&status).contains(&("alarm.credentials".to_owned(), false)).then_some(status)
    });
    assert_eq!(status[0]["credentials_end"], soon, "{status}");
    seawall.kill_9();
}

/// The user restored, so the hole is no surprise: it is told as what it is.
#[test]
fn a_hole_that_a_restore_made_says_so() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    configure(&stand, "");
    protecting(&stand).stop().ok();
    drop(app);
    stand.seawall(&["restore", "app", "--force"]).ok();
    let mut app = stand.app();
    let mut seawall = protecting(&stand);
    let status = stand.seawall(&["status", "--json"]).ok().json();
    let alarm = &status[0]["alarms"][0];
    assert_eq!(alarm["code"], "alarm.hole", "{status}");
    assert!(alarm["cause"].as_str().unwrap().contains("restored with Seawall"), "{alarm}");
    assert!(alarm["next"].as_str().unwrap().contains("if the restore was meant"), "{alarm}");
    seawall.stop().ok();
    let timeline = stand.seawall(&["timeline", "app", "--json"]).ok().json();
    assert_eq!(timeline["holes"][0]["restored"], true, "{timeline}");

    // The next hole is another one.
    app.commit(3);
    app.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    app.commit(3);
    let mut seawall = protecting(&stand);
    seawall.stop().ok();
    let timeline = stand.seawall(&["timeline", "app", "--json"]).ok().json();
    let holes = timeline["holes"].as_array().unwrap();
    assert_eq!((holes.len(), holes[1]["restored"].is_null()), (2, true), "{timeline}");
}

/// A restore explains the base that follows it, whatever that base is for, and no hole of a later day.
#[test]
fn a_hole_long_after_a_restore_is_not_the_restores() {
    let mut stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    configure(&stand, "");
    protecting(&stand).stop().ok();
    drop(app);
    stand.seawall(&["restore", "app", "--force"]).ok();
    let (note, aside) = (stand.state().join("restored.json"), stand.path("aside.json"));
    std::fs::copy(&note, &aside).unwrap();
    // The vault is a new one, so that there is no hole.
    stand.place = Place::Folder(stand.path("another"));
    configure(&stand, "");
    let mut app = stand.app();
    app.commit(1);
    protecting(&stand).stop().ok();
    assert!(!note.exists(), "the first base ends it");
    // A process that was killed between its base and the note leaves it to the next one.
    std::fs::copy(&aside, &note).unwrap();
    protecting(&stand).stop().ok();
    assert!(!note.exists(), "to go on without a base ends it");
    let timeline = stand.seawall(&["timeline", "app", "--json"]).ok().json();
    assert_eq!(timeline["holes"].as_array().map(Vec::len), Some(0), "{timeline}");

    app.commit(3);
    app.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    app.commit(3);
    protecting(&stand).stop().ok();
    let timeline = stand.seawall(&["timeline", "app", "--json"]).ok().json();
    let holes = timeline["holes"].as_array().unwrap();
    assert_eq!((holes.len(), holes[0]["restored"].is_null()), (1, true), "{timeline}");
}
