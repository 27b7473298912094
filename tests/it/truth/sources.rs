//! Sources that aren't what they seem (I16): a database that was protected once never leaves the status silently.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};

use seawall_tests::{App, Place, Process, Random, Stand, digest, model, wait};
use serde_json::Value;

const FAREWELL: &str = "everything that was committed is in the vault";

fn stand() -> Stand {
    Stand::folder(Random::from_env().seed())
}

/// `seawall replicate SOURCE vault` with a control socket.
fn following(stand: &Stand, source: &str) -> Process {
    let mut command = stand.command();
    command.args(["replicate", source, "vault", "--socket", "s.sock"]);
    let process = Process::spawn("seawall", &mut command);
    wait::until("the process to listen", wait::SOON, || stand.path("s.sock").exists().then_some(()));
    process
}

/// The running process's report on each of its databases.
fn statuses(stand: &Stand) -> BTreeMap<String, Value> {
    let all = stand.seawall(&["status", "--socket", "s.sock", "--json"]).json();
    let named = |one: &Value| (one["name"].as_str().unwrap().to_owned(), one.clone());
    all.as_array().unwrap().iter().map(named).collect()
}

fn until_told(stand: &Stand, name: &str, code: &str) {
    wait::until(&format!("{code} of {name}"), wait::SOON * 3, || {
        let all = statuses(stand);
        (all.get(name)?["error"]["code"] == code).then_some(())
    });
}

fn sync(stand: &Stand, name: &str) {
    stand.seawall(&["sync", name, "--wait", "--socket", "s.sock"]).ok();
}

/// The newest state of a place below the vault, in a new file.
fn restored(stand: &Stand, below: &str) -> PathBuf {
    let back = stand.new_file();
    let place = Place::Folder(stand.path("vault").join(below));
    stand.seawall(&["restore", &place.url(), "-o", back.to_str().unwrap()]).ok();
    back
}

/// Points a link somewhere else in one step, as deployments do.
fn switch(link: &Path, target: &str) {
    let next = link.with_extension("next");
    symlink(target, &next).unwrap();
    std::fs::rename(&next, link).unwrap();
}

/// Ends an application without a checkpoint, and moves its WAL into the file, so that one file is copied.
fn close(mut app: App) {
    app.close();
    app.kill_9();
}

#[test]
fn a_folder_that_is_a_link_is_protected_where_it_leads_now() {
    let stand = stand();
    for release in ["releases/1", "releases/2"] {
        std::fs::create_dir_all(stand.path(release)).unwrap();
    }
    symlink("releases/1", stand.path("current")).unwrap();
    let mut first = App::start(&stand.path("releases/1/app.db"), 1);
    first.commit(20);
    let mut seawall = following(&stand, "current");
    wait::until("the database to be found", wait::SOON, || statuses(&stand).contains_key("app.db").then_some(()));
    sync(&stand, "app.db");
    let back = restored(&stand, "app.db");
    assert_eq!(digest::of(&back), digest::of(&stand.path("releases/1/app.db")));
    // Another release: another file under the name that is known, and a name that is new.
    let mut second = App::start(&stand.path("releases/2/app.db"), 2);
    let mut new = App::start(&stand.path("releases/2/new.db"), 3);
    second.commit(30);
    new.commit(5);
    switch(&stand.path("current"), "releases/2");
    wait::until("the new database to be found", wait::SOON, || statuses(&stand).contains_key("new.db").then_some(()));
    wait::until("the other release to be in the vault", wait::SOON * 2, || {
        let synced = stand.seawall(&["sync", "app.db", "--wait", "--socket", "s.sock"]);
        let same = || digest::of(&restored(&stand, "app.db")) == digest::of(&stand.path("releases/2/app.db"));
        (synced.code() == 0 && same()).then_some(())
    });
    sync(&stand, "new.db");
    assert_eq!(model::check(&restored(&stand, "new.db"), 3), 5);
    let ended = seawall.stop();
    assert!(ended.code() == 0 && ended.stderr.contains(FAREWELL), "{ended}");
}

#[test]
fn a_link_that_is_switched_is_a_replaced_file() {
    let stand = stand();
    for release in ["releases/1", "releases/2"] {
        std::fs::create_dir_all(stand.path(release)).unwrap();
    }
    symlink("releases/1", stand.path("current")).unwrap();
    let mut first = App::start(&stand.path("releases/1/app.db"), 1);
    first.commit(20);
    let mut seawall = following(&stand, "current/app.db");
    sync(&stand, "app.db");
    assert_eq!(digest::of(&restored(&stand, "")), digest::of(&stand.path("releases/1/app.db")));
    let mut second = App::start(&stand.path("releases/2/app.db"), 2);
    second.commit(30);
    switch(&stand.path("current"), "releases/2");
    wait::until("the other file to be in the vault", wait::SOON * 2, || {
        assert!(seawall.running(), "{}", seawall.stderr());
        let synced = stand.seawall(&["sync", "app.db", "--wait", "--socket", "s.sock"]);
        let same = || digest::of(&restored(&stand, "")) == digest::of(&stand.path("releases/2/app.db"));
        (synced.code() == 0 && same()).then_some(())
    });
    let committed = second.commit(7);
    let ended = seawall.stop();
    assert!(ended.code() == 0 && ended.stderr.contains(FAREWELL), "{ended}");
    assert_eq!(model::check(&restored(&stand, ""), 2), committed);
    assert!(ended.stderr.contains("[sqlite.vanished]"), "the switch is told: {ended}");
}

#[test]
fn a_member_whose_header_is_damaged_stays_in_the_status() {
    let stand = stand();
    std::fs::create_dir(stand.path("data")).unwrap();
    let mut apps: Vec<App> =
        ["a.db", "b.db"].iter().zip(1..).map(|(name, seed)| App::start(&stand.path("data").join(name), seed)).collect();
    for app in &mut apps {
        app.commit(12);
    }
    let mut seawall = following(&stand, "data");
    for name in ["a.db", "b.db"] {
        wait::until("the databases to be found", wait::SOON, || statuses(&stand).contains_key(name).then_some(()));
        sync(&stand, name);
    }
    seawall.stop().ok();
    close(apps.pop().unwrap());
    let file = std::fs::OpenOptions::new().write(true).open(stand.path("data/b.db")).unwrap();
    file.write_all_at(b"encrypted, maybe", 0).unwrap();
    std::fs::write(stand.path("data/never.db"), "never was a database").unwrap();
    let mut seawall = following(&stand, "data");
    until_told(&stand, "b.db", "sqlite.not-a-database");
    assert_eq!(statuses(&stand)["b.db"]["phase"], "failing");
    assert!(!statuses(&stand).contains_key("never.db"));
    let committed = apps[0].commit(3);
    sync(&stand, "a.db");
    let ended = seawall.stop();
    assert!(ended.code() == 3 && !ended.stderr.contains(FAREWELL), "{ended}");
    assert_eq!(model::check(&restored(&stand, "a.db"), 1), committed);
    assert_eq!(model::check(&restored(&stand, "b.db"), 2), 12);
}

#[test]
fn a_file_with_a_second_name_is_told_and_nothing_is_claimed_of_it() {
    let stand = stand();
    let mut app = stand.app();
    app.commit(5);
    let mut seawall = following(&stand, "app.db");
    sync(&stand, "app.db");
    std::fs::create_dir(stand.path("other")).unwrap();
    std::fs::hard_link(stand.db(), stand.path("other/app.db")).unwrap();
    // A change makes the process look; otherwise the sweep does.
    let committed = app.commit(1);
    until_told(&stand, "app.db", "sqlite.several-names");
    assert_eq!(statuses(&stand)["app.db"]["phase"], "failing");
    let synced = stand.seawall(&["sync", "app.db", "--wait", "--socket", "s.sock"]);
    assert!(synced.code() != 0 && synced.stderr.contains("[sqlite.several-names]"), "{synced}");
    // Visible commits are shipped all the same.
    assert_eq!(model::check(&restored(&stand, ""), stand.seed), committed);
    let ended = seawall.stop();
    assert!(ended.code() == 1 && !ended.stderr.contains(FAREWELL), "{ended}");
    let once = stand.replicate_with(&["--once"]).wait(wait::SOON * 4);
    assert!(once.code() == 1 && once.stderr.contains("[sqlite.several-names]"), "{once}");
    // With one name again, it continues by itself.
    std::fs::remove_file(stand.path("other/app.db")).unwrap();
    let mut seawall = following(&stand, "app.db");
    let committed = app.commit(4);
    sync(&stand, "app.db");
    let ended = seawall.stop();
    assert!(ended.code() == 0 && ended.stderr.contains(FAREWELL), "{ended}");
    assert_eq!(model::check(&restored(&stand, ""), stand.seed), committed);
}

#[test]
fn databases_beyond_the_limit_of_open_files_are_told_and_leave_the_others_alone() {
    const COUNT: usize = 100;
    // Of 64 files 48 are kept for everything else; four are kept for each database.
    const ROOM: usize = 4;
    let stand = stand();
    std::fs::create_dir(stand.path("data")).unwrap();
    let mut app = App::start(&stand.path("template.db"), 7);
    let committed = app.commit(3);
    close(app);
    for n in 0..COUNT {
        std::fs::copy(stand.path("template.db"), stand.path(&format!("data/{n}.db"))).unwrap();
    }
    let config = format!(
        "sweep-interval: 1s\ndatabases:\n  - dir: {}\n    vault: {}\n",
        stand.path("data").display(),
        stand.path("vault").display()
    );
    std::fs::write(stand.path("seawall.yml"), config).unwrap();
    let start = || {
        let command = stand.command();
        let program = command.get_program().to_str().unwrap().to_owned();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("ulimit -n 64; exec {program} replicate --config seawall.yml")]);
        shell.current_dir(command.get_current_dir().unwrap()).env_clear();
        shell.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        Process::spawn("seawall", &mut shell)
    };
    let protected = || {
        (0..COUNT)
            .filter(|n| {
                std::fs::read_dir(stand.path(&format!("vault/{n}.db/ltx/0"))).is_ok_and(|found| found.count() > 0)
            })
            .count()
    };
    let mut seawall = start();
    wait::until("as many to be protected as there is room for", wait::SOON * 2, || {
        assert!(seawall.running(), "{}", seawall.stderr());
        (protected() == ROOM && seawall.stderr().matches("[sqlite.no-room]").count() >= COUNT - ROOM).then_some(())
    });
    let start_says = "so few files may be open that there is room for 4 databases";
    assert!(seawall.stderr().contains(start_says), "{}", seawall.stderr());
    // The others take nothing from them.
    let one = (0..COUNT).find(|n| stand.path(&format!("vault/{n}.db/ltx/0")).exists()).unwrap();
    let before = std::fs::read_dir(stand.path(&format!("vault/{one}.db/ltx/0"))).unwrap().count();
    let mut app = App::start(&stand.path(&format!("data/{one}.db")), 7);
    app.commit(1);
    wait::until("the commit of one that has room", wait::SOON, || {
        (std::fs::read_dir(stand.path(&format!("vault/{one}.db/ltx/0"))).unwrap().count() > before).then_some(())
    });
    app.kill_9();
    let ended = seawall.stop();
    assert!([1, 3].contains(&ended.code()) && !ended.stderr.contains(FAREWELL), "{ended}");
    assert!(!ended.stderr.contains("gone: no longer protected") && !ended.stderr.contains("os error 24"), "{ended}");
    assert_eq!(protected(), ROOM);
    // They are tried again: once the others are gone and there is room, the last one is protected.
    let mut seawall = start();
    wait::until("those without room to be told", wait::SOON * 2, || {
        (seawall.stderr().matches("[sqlite.no-room]").count() >= COUNT - ROOM).then_some(())
    });
    let last = (0..COUNT).rfind(|n| !stand.path(&format!("vault/{n}.db/ltx/0")).exists()).unwrap();
    for n in (0..COUNT).filter(|n| *n != last) {
        std::fs::remove_file(stand.path(&format!("data/{n}.db"))).unwrap();
    }
    wait::until("the last one to be protected", wait::SOON * 4, || {
        assert!(seawall.running(), "{}", seawall.stderr());
        stand.path(&format!("vault/{last}.db/ltx/0/0000000000000002-0000000000000002.ltx")).exists().then_some(())
    });
    let ended = seawall.stop();
    let of_the_last = |line: &str| line.contains("gone:") && line.contains(&format!("data/{last}.db"));
    assert!(!ended.stderr.lines().any(of_the_last), "{ended}");
    assert!(ended.code() == 0 && ended.stderr.contains(FAREWELL), "{ended}");
    assert_eq!(model::check(&restored(&stand, &format!("{last}.db")), 7), committed);
}

#[test]
fn a_database_that_is_cut_is_told_while_it_runs_and_at_the_next_start() {
    let stand = stand();
    let mut app = stand.app();
    let committed = app.commit(40);
    let mut seawall = following(&stand, "app.db");
    sync(&stand, "app.db");
    app.kill_9();
    std::fs::OpenOptions::new().write(true).open(stand.db()).unwrap().set_len(0).unwrap();
    until_told(&stand, "app.db", "sqlite.cut");
    assert_eq!(statuses(&stand)["app.db"]["phase"], "failing");
    let ended = seawall.stop();
    assert!(ended.code() == 1 && !ended.stderr.contains(FAREWELL), "{ended}");
    let mut seawall = following(&stand, "app.db");
    until_told(&stand, "app.db", "sqlite.cut");
    let ended = seawall.stop();
    assert!(ended.code() == 1 && !ended.stderr.contains(FAREWELL), "{ended}");
    let once = stand.replicate_with(&["--once"]).wait(wait::SOON * 4);
    assert!(once.code() != 0 && !once.stderr.contains(FAREWELL), "{once}");
    assert_eq!(model::check(&restored(&stand, ""), stand.seed), committed);
    // After the cut file was replaced by a restore, it continues.
    for end in ["", "-wal", "-shm"] {
        let _maybe_not_there = std::fs::remove_file(stand.path(&format!("app.db{end}")));
    }
    std::fs::copy(restored(&stand, ""), stand.db()).unwrap();
    let mut app = stand.app();
    let mut seawall = following(&stand, "app.db");
    let committed = app.commit(5);
    sync(&stand, "app.db");
    seawall.stop().ok();
    assert_eq!(model::check(&restored(&stand, ""), stand.seed), committed);
}

#[test]
fn nothing_is_claimed_where_nothing_is_protected() {
    let stand = stand();
    std::fs::create_dir(stand.path("empty")).unwrap();
    let mut seawall = following(&stand, "empty");
    let ended = seawall.stop();
    assert!(!ended.stderr.contains(FAREWELL) && ended.stderr.contains("nothing was protected"), "{ended}");
    assert!(ended.stderr.contains("agent.nothing-found"), "{ended}");
    let mut seawall = following(&stand, "not-there-yet.db");
    wait::until("it waits", wait::SOON, || (statuses(&stand).values().next()?["phase"] == "waiting").then_some(()));
    let ended = seawall.stop();
    assert!(!ended.stderr.contains(FAREWELL) && ended.stderr.contains("nothing to protect yet"), "{ended}");
    // A database that was protected and is gone isn't one that never was.
    let mut app = stand.app();
    let committed = app.commit(9);
    let mut seawall = following(&stand, "app.db");
    sync(&stand, "app.db");
    app.kill_9();
    for end in ["", "-wal", "-shm"] {
        let _maybe_not_there = std::fs::remove_file(stand.path(&format!("app.db{end}")));
    }
    until_told(&stand, "app.db", "sqlite.missing");
    let ended = seawall.stop();
    assert!(ended.code() == 4 && !ended.stderr.contains(FAREWELL), "{ended}");
    assert_eq!(model::check(&restored(&stand, ""), stand.seed), committed);
}
