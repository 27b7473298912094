//! Rolling deployments: the new process waits until the old one has shipped everything, and then continues. Each
//! process has a temporary folder of its own, as on a machine of its own, so that no lock on the host decides.

use std::process::Command;
use std::time::Duration;

use seawall_tests::{App, Process, Random, Stand, model, run, wait};

/// `seawall replicate` of a machine of its own: its own database file, the same vault.
fn on_machine(stand: &Stand, name: &str, more: &[&str]) -> Process {
    let folder = stand.path(name);
    std::fs::create_dir_all(folder.join("tmp")).unwrap();
    let mut command: Command = stand.command();
    command.env("TMPDIR", folder.join("tmp")).args(["replicate", "--lease", "--restore-if-missing"]).args(more);
    command.arg(folder.join("app.db")).arg(stand.place.url());
    Process::spawn(name, &mut command)
}

/// The same with two vaults: the place of the stand, and another folder.
fn with_two_vaults(stand: &Stand, name: &str) -> Process {
    let folder = stand.path(name);
    std::fs::create_dir_all(folder.join("tmp")).unwrap();
    let (file, config) = (folder.join("app.db"), folder.join("seawall.yml"));
    let text = format!(
        "lease: {{}}\ndatabases:\n  - path: {}\n    name: app\n    restore-if-missing: true\n    vaults: [{}, {}]\n",
        file.display(),
        stand.place.url(),
        stand.path("nas").display()
    );
    std::fs::write(&config, text).unwrap();
    let mut command: Command = stand.command();
    command.env("TMPDIR", folder.join("tmp")).args(["replicate", "--log-type", "json", "--config"]).arg(config);
    Process::spawn(name, &mut command)
}

fn until_it_says(process: &mut Process, what: &str, limit: Duration) {
    wait::until(what, limit, || {
        let said = process.stderr();
        assert!(process.running(), "{said}");
        said.contains(what).then_some(())
    });
}

#[test]
fn a_rolling_deployment_hands_over_without_losing_a_commit() {
    hand_over(&Stand::folder(Random::from_env().seed()), alone);
}

#[test]
fn a_rolling_deployment_hands_over_without_losing_a_commit_on_s3() {
    hand_over(&Stand::bucket(Random::from_env().seed()), alone);
}

/// The first process begins a new database: its lease is all that both vaults hold then.
#[test]
fn a_rolling_deployment_over_two_vaults_hands_over_without_losing_a_commit() {
    let stand = Stand::folder(Random::from_env().seed());
    let committed = hand_over(&stand, with_two_vaults);
    let (file, second) = (stand.new_file(), stand.path("nas"));
    stand.seawall(&["restore", second.to_str().unwrap(), "-o", file.to_str().unwrap()]).ok();
    assert_eq!(model::check(&file, stand.seed), committed);
}

fn alone(stand: &Stand, name: &str) -> Process {
    on_machine(stand, name, &["--log-type", "json"])
}

fn hand_over(stand: &Stand, start: fn(&Stand, &str) -> Process) -> u64 {
    let mut committed = 0;
    let mut before: Option<(Process, App)> = None;
    for (round, name) in ["one", "two", "three"].into_iter().enumerate() {
        let mut process = start(stand, name);
        let file = stand.path(name).join("app.db");
        if let Some((mut old, mut app)) = before.take() {
            until_it_says(&mut process, "agent.lease-held", wait::SOON);
            // The old process continues meanwhile, up to its end.
            committed = app.commit(20);
            assert!(!file.exists(), "it restores what the old one has left, and not before");
            drop(app);
            old.stop().ok();
        }
        until_it_says(&mut process, "has the lease", wait::SOON);
        if round > 0 {
            wait::until("the database to be restored", wait::SOON, || file.exists().then_some(()));
            assert_eq!(model::check(&file, stand.seed), committed);
        }
        let mut app = App::start(&file, stand.seed);
        committed = app.commit(20);
        until_shipped(stand, &mut process, committed);
        before = Some((process, app));
    }
    let (mut last, app) = before.take().unwrap();
    drop(app);
    last.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
    assert_eq!(
        model::check(&stand.litestream_restore(&[]), stand.seed),
        committed,
        "the lease is no concern of others"
    );
    stand.seawall(&["verify", &stand.place.url()]).ok();
    committed
}

fn until_shipped(stand: &Stand, process: &mut Process, committed: u64) {
    wait::until("everything to be in the vault", wait::SOON, || {
        assert!(process.running());
        let file = stand.new_file();
        let mut command = stand.command();
        command.arg("restore").arg(stand.place.url()).arg("-o").arg(&file);
        let there = run("seawall", &mut command).code() == 0 && model::check(&file, stand.seed) == committed;
        there.then_some(())
    });
}

/// A killed process can't give its lease back. The lease expires, and the vault never has two writers.
#[test]
fn a_killed_holder_is_followed_after_its_lease() {
    let stand = Stand::folder(Random::from_env().seed());
    let config = |name: &str| {
        let file = stand.path(&format!("{name}.yml"));
        let text = "lease: { ttl: 3s }\ndatabases:\n  - { path: app.db, vault: vault, name: app }\n";
        std::fs::write(&file, text).unwrap();
        file
    };
    let start = |name: &str| {
        let mut command = stand.command();
        Process::spawn(name, command.args(["replicate", "--config"]).arg(config(name)))
    };
    let mut app = stand.app();
    let mut first = start("first");
    stand.until_protected(&mut first);
    let mut second = start("second");
    until_it_says(&mut second, "agent.lease-held", wait::SOON);
    first.kill_9();
    let committed = app.commit(20);
    until_it_says(&mut second, "has the lease", wait::SOON);
    stand.until_protected(&mut second);
    second.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
    stand.place.unbroken();
}
