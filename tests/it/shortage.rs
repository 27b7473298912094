//! Passing shortages of a machine: file descriptors, here those of the running process itself.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use seawall_tests::{Process, Random, Stand, digest, model, wait};

/// Limits the number of files that a process may open. Returns the earlier limit.
fn allow(pid: Pid, files: Option<u64>) -> Option<u64> {
    let now = prlimit(Some(pid), Resource::Nofile, Rlimit { current: files, maximum: hard(pid) }).unwrap();
    now.current
}

fn hard(pid: Pid) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().ok()
}

#[test]
fn a_process_without_descriptors_holds_the_wal_and_goes_on_when_it_has_some() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut seawall: Process = stand.replicate();
    let before = stand.until_protected(&mut seawall);
    let former = allow(seawall.pid(), Some(3));
    app.commit(20);
    wait::until("the shortage to be told", wait::SOON, || {
        assert!(seawall.running(), "seawall ended by itself");
        seawall
            .stderr()
            .contains("[sqlite.too-many-files]")
            .then_some(())
            .or_else(|| (stand.status()["lag_bytes"].as_u64() > Some(0)).then_some(()))
    });
    // An application with SQLite's defaults does this by itself. Without the hold it would be a hole.
    app.checkpoint("RESTART");
    let committed = app.commit(20);
    assert_eq!(stand.place.newest(), before, "nothing can be written");
    allow(seawall.pid(), former);
    stand.until_protected(&mut seawall);
    app.commit(3);
    seawall.stop().ok();
    stand.place.unbroken();
    assert_eq!(stand.place.files(9).len(), 1, "no base but the first was needed");
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), committed + 3);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
}
