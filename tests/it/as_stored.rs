//! A vault in a versioned bucket, after an attack: `--as-stored-at` gives back what the bucket held before.

use std::time::Duration;

use seawall_tests::{Random, Stand, digest, model, run, wait};
use seawall_vault::testing::S3Server;
use seawall_vault::{Environment, Policy, Prefix, Vault, VaultUrl};

/// A moment behind everything that the server has stored; its clock has whole seconds.
fn moment() -> String {
    let now = jiff::Timestamp::now();
    let passed = || jiff::Timestamp::now() > now + Duration::from_millis(1100);
    wait::until("the next second", wait::SOON, || passed().then_some(()));
    now.to_string()
}

/// Overwrites, deletes and adds objects, as somebody who may write to the bucket can.
async fn attack(url: &str) {
    let vault = Vault::open(&VaultUrl::parse(url).unwrap(), &Environment::empty(), Policy::default()).await.unwrap();
    let names = vault.list(&Prefix::all(), None).await.unwrap();
    assert!(names.len() > 2, "{names:?}");
    for (index, entry) in names.iter().enumerate() {
        match index % 3 {
            0 => vault.delete(std::slice::from_ref(&entry.key)).await.unwrap(),
            1 => vault.put(&entry.key, "garbage".into(), None).await.unwrap(),
            _ => {
                vault.put(&entry.key, "garbage".into(), None).await.unwrap();
                vault.delete(std::slice::from_ref(&entry.key)).await.unwrap();
            }
        }
    }
    let later = "0000/000000000000ffff-000000000000ffff.ltx".parse().unwrap();
    vault.put(&later, "garbage".into(), None).await.unwrap();
}

#[test]
fn what_the_bucket_held_before_an_attack_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(S3Server::start_versioned("an attack on a versioned bucket", folder.path())).unwrap();
    runtime.block_on(server.keep_versions());
    let stand = Stand::folder(Random::from_env().seed());
    let url = server.url("sites/attacked");
    let db = stand.db();
    let once = || run("seawall", stand.command().args(["replicate", "--once"]).arg(&db).arg(&url)).ok();
    let mut app = stand.app();
    app.commit(30);
    once();
    app.commit(5);
    once();
    let before = digest::of(&db);
    let at = moment();
    app.commit(1);
    runtime.block_on(attack(&url));

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
