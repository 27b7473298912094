//! `replicate --exec`: the application runs under protection, and its end is the end.

use std::time::Duration;

use seawall_tests::{Random, Stand, model, wait};

/// A shell command that commits through the sqlite that every stand has: the writer itself, fed by a pipe.
fn writes(stand: &Stand, commits: u32, then: &str) -> String {
    let writer = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("seawall-test-writer");
    let script = stand.path("child.sh");
    std::fs::write(
        &script,
        format!(
            "echo commit {commits} | {} {} {} 4096 >{}\n{then}\n",
            writer.display(),
            stand.db().display(),
            stand.seed,
            stand.path("child.out").display()
        ),
    )
    .unwrap();
    format!("/bin/sh {}", script.display())
}

#[test]
fn the_childs_last_commit_is_shipped_and_its_code_is_ours() {
    for code in [0, 7] {
        let stand = Stand::folder(Random::from_env().seed());
        let child = writes(&stand, 30, &format!("exit {code}"));
        stand.replicate_with(&["--exec", &child]).wait(wait::SOON * 2).exits(code);
        assert_eq!(model::check(&stand.restore(), stand.seed), 30);
    }
}

#[test]
fn sigterm_is_passed_on_and_waited_for() {
    let stand = Stand::folder(Random::from_env().seed());
    let ready = stand.path("ready");
    let then = format!(
        "trap 'echo told >{}; exit 0' TERM\necho >{}\nwhile true; do sleep 0.05; done",
        stand.path("told").display(),
        ready.display()
    );
    let mut seawall = stand.replicate_with(&["--exec", &writes(&stand, 20, &then)]);
    wait::until("the child", wait::SOON, || {
        assert!(seawall.running(), "seawall ended by itself");
        ready.exists().then_some(())
    });
    seawall.terminate();
    seawall.wait(wait::SOON).ok();
    assert!(stand.path("told").exists(), "the child was told");
    assert_eq!(model::check(&stand.restore(), stand.seed), 20);
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(5);
    let output = stand.replicate_with(&["--exec", "/no/such/program"]).wait(Duration::from_secs(30));
    assert!(output.code() != 0 && output.stderr.contains("/no/such/program"), "{output}");
}

#[test]
fn the_child_finds_its_database_restored() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(15);
    stand.replicate_once();
    app.kill_9();
    for name in ["app.db", "app.db-wal", "app.db-shm"] {
        let _ = std::fs::remove_file(stand.path(name));
    }
    let child = writes(&stand, 5, "exit 0");
    stand.replicate_with(&["--restore-if-missing", "--exec", &child]).wait(wait::SOON * 2).exits(0);
    assert_eq!(model::check(&stand.restore(), stand.seed), 20);
    stand.place.unbroken();
}
