//! Failures of the local disk: a database without read permission, a full disk under the state folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;

use seawall_tests::{Process, Random, Stand, digest, model, protected, wait};

/// Somebody who is not the superuser, whom permissions don't bind.
const NOBODY: u32 = 65534;

#[test]
fn a_database_that_may_not_be_read_is_named_and_nothing_is_written() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let committed = app.commit(10);
    fs::set_permissions(stand.db(), PermissionsExt::from_mode(0o000)).unwrap();
    let folder = stand.path("");
    let mut command = stand.command();
    if rustix::process::geteuid().is_root() {
        let program = stand.path("seawall-of-nobody");
        fs::copy(command.get_program(), &program).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        command = Command::new(program);
        command.current_dir(&folder).env_clear().env("TMPDIR", &folder).env("HOME", &folder).uid(NOBODY).gid(NOBODY);
    }
    command.args(["replicate", "--once"]).arg(stand.db()).arg(stand.place.url());
    let output = Process::spawn("seawall of nobody", &mut command).wait(wait::SOON).exits(1);
    assert!(output.stderr.contains("[sqlite.io-denied]") && output.stderr.contains("app.db"), "{output}");
    assert_eq!(stand.place.newest(), 0);
    if rustix::process::geteuid().is_root() {
        chown(&folder, Some(0), Some(0)).unwrap();
        fs::remove_dir_all(stand.state()).unwrap();
    }
    fs::set_permissions(stand.db(), PermissionsExt::from_mode(0o644)).unwrap();
    stand.replicate_once();
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
}

/// `/dev/full` answers every write as a full disk does, without any privilege.
#[test]
fn a_full_disk_under_the_state_record_holds_nothing_up_and_the_status_stays_true() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    let mut seawall = stand.replicate();
    let before = stand.until_protected(&mut seawall);
    symlink("/dev/full", stand.state().join("state.tmp")).unwrap();
    app.commit(10);
    wait::until("more to be protected", wait::SOON, || {
        protected(&stand.status()).filter(|txid| *txid > before && stand.status()["lag_bytes"] == 0)
    });
    seawall.kill_9();
    let committed = app.commit(10);
    // The disk is still full. The record that was overwritten in place is whole.
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    fs::remove_file(stand.state().join("state.tmp")).unwrap();
    seawall.stop().ok();
    stand.place.unbroken();
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), committed);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
    assert_eq!(stand.place.files(9).len(), 1, "no base but the first was needed");
}

/// Only builds with debug assertions hold the engine's deliberate defects. The scripts in `packaging/` look for their words, so that no
/// package and no image holds them.
#[test]
fn packaging_looks_for_words_that_only_programs_of_tests_hold() {
    const WORDS: &str = "BEGIN; -- without a barrier";
    let script = |name: &str| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
        fs::read_to_string(folder.join(name)).unwrap()
    };
    assert!(script("binary.sh").contains(&format!("grep -q \"{WORDS}\"")));
    for name in ["build.sh", "image.sh"] {
        assert!(script(name).contains("refuse_test_build \"$binary\""), "{name}");
    }
    let engine = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/sqlite/src/live/checkpoint.rs");
    assert!(fs::read_to_string(engine).unwrap().contains(&format!("\"{WORDS}\"")));
}
