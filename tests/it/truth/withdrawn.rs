//! What a running process needs and loses: its credentials, and the watches that tell it of changes.

use std::process::Command;

use seawall_tests::{Process, Random, Stand, digest, model, run, wait};
use seawall_vault::testing::S3Server;

/// The rights of a process that protects.
const OBJECTS: [&str; 4] = ["s3:PutObject", "s3:GetObject", "s3:DeleteObject", "s3:AbortMultipartUpload"];
const BUCKET: [&str; 1] = ["s3:ListBucket"];

#[test]
fn credentials_that_are_withdrawn_under_a_process_are_told_and_work_again_on_s3() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(S3Server::start_versioned("withdrawn credentials", folder.path())).unwrap();
    server.add_user("limited", "limited-secret");
    let allow = |objects: &[&str], bucket: &[&str]| runtime.block_on(server.allow("limited", objects, bucket));
    allow(&OBJECTS, &BUCKET);
    let stand = Stand::folder(Random::from_env().seed());
    let prefix = format!("sites/{:016x}", stand.seed);
    let (owner, limited) = (server.url(&prefix), server.url_of(&prefix, "limited", "limited-secret"));
    let text = format!(
        "sweep-interval: 1s\nvalidation: {{ active: 1s, interval: 1h }}\nalarms: {{ lag: 1s }}\nsocket: {{ path: s.sock }}\n\
         databases:\n  - {{ name: app, path: app.db, vault: '{limited}' }}\n"
    );
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let restored = || {
        let file = stand.new_file();
        run("seawall", stand.command().args(["restore", &owner, "-o"]).arg(&file)).ok();
        file
    };
    let mut app = stand.app();
    let before = app.commit(10);
    let mut process = Process::spawn("seawall", stand.command().args(["replicate", "--config", "seawall.yml"]));
    stand.until_protected(&mut process);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    allow(&["s3:GetObjectVersion"], &[]);
    let committed = app.commit(10);
    wait::until("the refusal to be told", wait::SOON * 4, || {
        assert!(process.running(), "it ended: {}", process.stderr());
        let now = stand.seawall(&["status", "--json", "--check"]);
        let status = now.json()[0].clone();
        let alarms = status["alarms"].to_string();
        let told = status["error"]["code"] == "vault.denied" && alarms.contains("alarm.failing");
        (told && now.code() == 1 && status["lag_bytes"].as_u64() > Some(0)).then_some(())
    });
    assert_ne!(stand.seawall(&["sync", "app", "--wait"]).code(), 0);
    assert_eq!(model::check(&restored(), stand.seed), before, "what it said was protected is");
    allow(&OBJECTS, &BUCKET);
    stand.until_protected(&mut process);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    process.stop().ok();
    assert_eq!(model::check(&restored(), stand.seed), committed);
}

/// The kernel has no watch left. Commits are seen all the same, in time for what the status says.
#[test]
fn a_process_without_inotify_watches_still_sees_commits() {
    let limit = "echo 0 > /proc/sys/user/max_inotify_watches";
    let unshare = ["--user", "--map-root-user", "sh", "-c"];
    let possible = Command::new("unshare").args(unshare).arg(limit).output().is_ok_and(|done| done.status.success());
    if !possible {
        eprintln!("left out: this user may not make a user namespace");
        return;
    }
    let stand = Stand::folder(Random::from_env().seed());
    std::fs::create_dir(stand.path("data")).unwrap();
    let text = format!(
        "sweep-interval: 1s\nsocket: {{ path: s.sock }}\ndatabases:\n  - {{ name: app, path: app.db, vault: '{}' }}\n  \
         - {{ dir: data, vault: folder }}\n",
        stand.place.url()
    );
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let mut app = stand.app();
    app.commit(10);
    let seawall = stand.command();
    let run = format!("{limit}; exec {} replicate --config seawall.yml", seawall.get_program().to_str().unwrap());
    let mut command = Command::new("unshare");
    command.args(unshare).arg(run).current_dir(stand.path(""));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", stand.path(""));
    let mut process = Process::spawn("seawall", &mut command);
    stand.until_protected(&mut process);
    for _ in 0..3 {
        let committed = app.commit(5);
        // Nobody asks the process to look: it has to see the commits by itself.
        wait::until("the commits to be in the vault", wait::SOON * 2, || {
            assert!(process.running(), "it ended: {}", process.stderr());
            (model::check(&stand.restore(), stand.seed) == committed).then_some(())
        });
    }
    assert_eq!(digest::of(&stand.restore()), digest::of(&stand.db()));
    // A database that comes into a folder is found too.
    let mut new = seawall_tests::App::start(&stand.path("data/new.db"), 7);
    let committed = new.commit(5);
    wait::until("the new database", wait::SOON * 2, || {
        let file = stand.new_file();
        let url = stand.path("folder/new.db");
        let restored = seawall_tests::run("seawall", stand.command().arg("restore").arg(url).arg("-o").arg(&file));
        (restored.code() == 0 && model::check(&file, 7) == committed).then_some(())
    });
    assert!(process.stderr().contains("inotify") || process.stderr().contains("watch"), "{}", process.stderr());
    process.stop().ok();
}
