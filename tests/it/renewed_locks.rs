//! `object-lock-keep`: the objects of the newest point stay locked, and retention leaves alone what is locked.

use seawall_core::{Clock as _, Moment, SystemClock};
use seawall_tests::{App, Process, Random, Stand, model, run, wait};
use seawall_vault::testing::{BUCKET, S3Server};
use seawall_vault::{Environment, Policy, Prefix, Vault, VaultUrl};
use serde_json::Value;

const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Writes a configuration that keeps almost nothing of the history.
fn configured(stand: &Stand, url: &str) -> String {
    let short = "levels: [{ interval: 1s }]\nl0-retention: 1s\nretention: { keep: 1s, grace: 0s }\n";
    let file = stand.path("seawall.yml");
    std::fs::write(&file, format!("{short}databases:\n  - {{ path: app.db, vault: '{url}' }}\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

fn maintain(stand: &Stand, config: &str, more: &[&str]) -> Value {
    run("seawall", stand.command().args(["maintain", "app", "--json", "--config", config]).args(more)).ok().json()
}

/// Two points, the second with a complete copy of its own.
fn two_points(stand: &Stand, app: &mut App, config: &str) {
    for _ in 0..2 {
        app.commit(5);
        run("seawall", stand.command().args(["replicate", "--once", "--config", config])).ok();
    }
    maintain(stand, config, &["--base"]);
}

#[test]
fn what_the_newest_point_needs_is_locked_and_stays_on_s3() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let server = runtime.block_on(S3Server::start_versioned("renewed locks", folder.path())).unwrap();
    runtime.block_on(server.add_locking("locked", "GOVERNANCE", None));
    let seed = Random::from_env().seed();
    let url = |name: &str, more: &str| server.url(name).replacen(BUCKET, "locked", 1) + more;
    let stands = [Stand::folder(seed), Stand::folder(seed)];
    let urls = [url("renewed", "&object-lock-keep=30d"), url("plain", "")];
    let mut apps = [stands[0].app(), stands[1].app()];
    let configs = [configured(&stands[0], &urls[0]), configured(&stands[1], &urls[1])];
    let list = |url: &str| -> Vec<String> {
        let url = VaultUrl::parse(url).unwrap();
        let listed = runtime.block_on(async {
            let vault = Vault::open(&url, &Environment::empty(), Policy::default()).await.unwrap();
            vault.list(&Prefix::all(), None).await.unwrap()
        });
        let names = listed.into_iter().map(|entry| entry.key.to_string());
        names.filter(|name| name.ends_with(".ltx")).collect()
    };

    for number in [0, 1] {
        two_points(&stands[number], &mut apps[number], &configs[number]);
    }
    let locked = maintain(&stands[0], &configs[0], &[])["locked_until"].as_str().unwrap().parse::<Moment>().unwrap();
    assert!(locked >= SystemClock.now().after(30 * DAY - 60 * std::time::Duration::from_secs(60)), "{locked}");
    assert!(maintain(&stands[1], &configs[1], &[]).get("locked_until").is_none());
    let locks = |number: usize| {
        let verified = run("seawall", stands[number].command().args(["verify", "--json", &urls[number]])).ok().json();
        (verified["locks"]["locked"].clone(), verified["locks"]["objects"].clone())
    };
    assert_eq!(locks(0).0, locks(0).1);
    assert_eq!(locks(1).0, 0);
    let base = |number: usize| list(&urls[number]).into_iter().filter(|name| name.starts_with("0009/")).max().unwrap();
    let bases = [base(0), base(1)];

    // The same history without locks loses this base.
    for number in [0, 1] {
        two_points(&stands[number], &mut apps[number], &configs[number]);
    }
    wait::until("the base to be deleted that isn't locked", wait::SOON * 2, || {
        maintain(&stands[0], &configs[0], &[]);
        maintain(&stands[1], &configs[1], &[]);
        (!list(&urls[1]).contains(&bases[1])).then_some(())
    });
    maintain(&stands[0], &configs[0], &[]);
    let left = list(&urls[0]);
    assert!(left.contains(&bases[0]), "a locked base was deleted: {} isn't in {left:?}", bases[0]);
    for number in [0, 1] {
        let file = stands[number].new_file();
        run("seawall", stands[number].command().args(["restore", &urls[number], "-o"]).arg(&file)).ok();
        assert_eq!(model::check(&file, seed), apps[number].committed());
    }
}

#[test]
fn a_process_whose_locks_are_not_renewed_says_so_on_s3() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let server = runtime.block_on(S3Server::start_versioned("locks that can't be renewed", folder.path())).unwrap();
    runtime.block_on(server.add_locking("locked", "GOVERNANCE", None));
    let stand = Stand::folder(Random::from_env().seed());
    stand.app().commit(5);
    for (url, is_told) in [
        (server.url("app") + "&object-lock-keep=30d", true),
        (server.url("app").replacen(BUCKET, "locked", 1) + "&object-lock-keep=30d", false),
    ] {
        // The objects are there when the process begins.
        run("seawall", stand.command().args(["replicate", "--once"]).arg(stand.db()).arg(&url)).ok();
        let mut process = Process::spawn("seawall", stand.command().arg("replicate").arg(stand.db()).arg(&url));
        stand.until_protected(&mut process);
        let told = || stand.seawall(&["status", "--json", stand.db().to_str().unwrap()]).json().to_string();
        if is_told {
            wait::until("the alarm", wait::SOON, || {
                let told = told();
                (told.contains("alarm.locks-not-renewed") && told.contains("renewed-locks")).then_some(())
            });
        } else {
            wait::until("the lock", wait::SOON, || {
                let verified = run("seawall", stand.command().args(["verify", "--json", &url])).ok().json();
                let locks = &verified["locks"];
                (locks["locked"] == locks["objects"] && locks["objects"] != 0).then_some(())
            });
            assert!(!told().contains("renewed-locks"));
        }
        process.stop().ok();
    }
}
