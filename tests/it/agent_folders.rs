//! Folders of databases: a database that appears, disappears or is replaced while the process runs is protected, each
//! in its own place.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use seawall_tests::{App, Place, Process, Random, Stand, digest, model, wait};

/// A stand with a folder `data`, and `seawall replicate ./data ./vault` with more arguments.
fn following(stand: &Stand, args: &[&str]) -> Process {
    let mut command = stand.command();
    command.args(["replicate", "data", "vault", "--socket", "s.sock"]).args(args);
    let process = Process::spawn("seawall", &mut command);
    wait::until("the process to listen", wait::SOON, || stand.path("s.sock").exists().then_some(()));
    process
}

fn stand() -> Stand {
    let stand = Stand::folder(Random::from_env().seed());
    std::fs::create_dir(stand.path("data")).unwrap();
    stand
}

fn vault(stand: &Stand, name: &str) -> Place {
    Place::Folder(stand.path("vault").join(name))
}

fn sync(stand: &Stand, name: &str) {
    stand.seawall(&["sync", name, "--wait", "--socket", "s.sock"]).ok();
}

/// The names of the databases that the process knows.
fn names(stand: &Stand) -> BTreeSet<String> {
    let list = stand.seawall(&["list", "--socket", "s.sock", "--json"]).ok().json();
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

fn until_known(stand: &Stand, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    wait::until(&format!("{expected:?} to be known"), wait::SOON, || (names(stand) == expected).then_some(()));
}

fn restored(stand: &Stand, name: &str) -> PathBuf {
    let back = stand.new_file();
    stand.seawall(&["restore", &vault(stand, name).url(), "-o", back.to_str().unwrap()]).ok();
    back
}

/// Green lights over a file that has no row of its own would be a lie.
#[test]
fn what_cannot_be_protected_of_a_folder_is_told() {
    let stand = stand();
    let data = stand.path("data");
    let mut first = App::start(&data.join("first.db"), 1);
    let committed = first.commit(10);
    // Root may read everything, unless it gives that up.
    let usual = stand.command();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-dac_override,-dac_read_search"]).arg(usual.get_program());
    command.args(["replicate", "data", "vault", "--socket", "s.sock"]).current_dir(usual.get_current_dir().unwrap());
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let (strange, closed) = (data.join("new\nline.db"), data.join("closed.db"));
    std::fs::copy(data.join("first.db"), &closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    let mut seawall = Process::spawn("seawall", &mut command);
    wait::until("the process to listen", wait::SOON, || stand.path("s.sock").exists().then_some(()));
    until_known(&stand, &["first.db"]);
    let alarm = || {
        let output = stand.seawall(&["status", "--check", "--json", "--socket", "s.sock"]);
        let all = output.json();
        let folder = all.as_array().unwrap().iter().find(|one| one["engine"] == "folder").cloned();
        (output.code(), folder.map(|folder| folder["alarms"][0].clone()).unwrap_or_default())
    };
    let until = |what: &str, code: i32, text: &str| {
        wait::until(what, wait::SOON, || {
            let (exit, alarm) = alarm();
            let told = alarm["cause"].as_str().unwrap_or_default();
            (exit == code && told.contains(text) && (told.is_empty() == text.is_empty())).then_some(())
        });
    };
    until("a warning of what can't be read", 3, "closed.db: this user may not read it");
    std::fs::copy(data.join("first.db"), &strange).unwrap();
    until("a critical alarm of what can't be named", 1, "agent.unprotected");
    std::fs::remove_file(&strange).unwrap();
    until("the warning alone", 3, "agent.unread");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o600)).unwrap();
    until_known(&stand, &["closed.db", "first.db"]);
    until("nothing to be told", 0, "");
    sync(&stand, "first.db");
    sync(&stand, "closed.db");
    seawall.stop();
    assert_eq!(model::check(&restored(&stand, "first.db"), 1), committed);
    assert_eq!(digest::of(&restored(&stand, "closed.db")), digest::of(&closed));
}

#[test]
fn databases_come_go_and_get_other_names() {
    let stand = stand();
    let data = stand.path("data");
    let mut first = App::start(&data.join("first.db"), 1);
    first.commit(10);
    let mut seawall = following(&stand, &["--recursive"]);
    until_known(&stand, &["first.db"]);
    // A new one, and one in a new folder.
    let mut second = App::start(&data.join("second.db"), 2);
    std::fs::create_dir_all(data.join("eu/west")).unwrap();
    let mut third = App::start(&data.join("eu/west/third.db"), 3);
    until_known(&stand, &["first.db", "second.db", "eu/west/third.db"]);
    for (name, app, seed) in
        [("first.db", &mut first, 1), ("second.db", &mut second, 2), ("eu/west/third.db", &mut third, 3)]
    {
        let committed = app.commit(20);
        sync(&stand, name);
        let back = restored(&stand, name);
        assert_eq!(model::check(&back, seed), committed, "{name}");
        assert_eq!(digest::of(&back), digest::of(&data.join(name)), "{name}");
    }
    // A database that is stopped, closed and renamed begins a new history under its new name, and the old history
    // stays. The application closes it last, so its WAL is in the file.
    stand.seawall(&["stop", "second.db", "--socket", "s.sock"]).ok();
    second.close();
    second.kill_9();
    std::fs::rename(data.join("second.db"), data.join("renamed.db")).unwrap();
    until_known(&stand, &["first.db", "renamed.db", "eu/west/third.db"]);
    let mut renamed = App::start(&data.join("renamed.db"), 2);
    let committed = renamed.commit(5);
    sync(&stand, "renamed.db");
    assert_eq!(model::check(&restored(&stand, "renamed.db"), 2), committed);
    assert_eq!(model::check(&restored(&stand, "second.db"), 2), committed - 5);
    // A database that is removed is no longer protected, and its vault stays.
    first.kill_9();
    for end in ["", "-wal", "-shm"] {
        let _maybe_not_there = std::fs::remove_file(data.join(format!("first.db{end}")));
    }
    until_known(&stand, &["renamed.db", "eu/west/third.db"]);
    assert_eq!(model::check(&restored(&stand, "first.db"), 1), 30);
    seawall.stop().ok();
}

#[test]
fn a_replaced_database_goes_on_with_a_base() {
    let stand = stand();
    let db = stand.path("data/app.db");
    let mut app = App::start(&db, 1);
    app.commit(10);
    let mut seawall = following(&stand, &[]);
    until_known(&stand, &["app.db"]);
    sync(&stand, "app.db");
    app.close();
    app.kill_9();
    let mut other = App::start(&stand.path("other.db"), 2);
    let committed = other.commit(30);
    other.close();
    other.kill_9();
    for end in ["-wal", "-shm"] {
        let _maybe_not_there = std::fs::remove_file(stand.path(&format!("data/app.db{end}")));
    }
    std::fs::rename(stand.path("other.db"), &db).unwrap();
    wait::until("the other content to be there", wait::SOON, || {
        let status = stand.seawall(&["sync", "app.db", "--wait", "--socket", "s.sock"]);
        (status.code() == 0 && has(&restored(&stand, "app.db"), 2, committed)).then_some(())
    });
    assert_eq!(names(&stand).len(), 1);
    seawall.stop().ok();
}

/// Whether a database is the model's after so many commits.
fn has(path: &Path, seed: u64, commits: u64) -> bool {
    let db = digest::open(path);
    model::commits(&db).is_ok_and(|found| found == commits)
        && std::panic::catch_unwind(|| model::check(path, seed)).is_ok()
}

#[test]
fn a_storm_of_a_thousand_new_databases_is_protected() {
    const COUNT: usize = 1000;
    let stand = stand();
    let mut seawall = following(&stand, &[]);
    let (template, data) = (stand.path("template.db"), stand.path("data"));
    let mut app = App::start(&template, 7);
    let committed = app.commit(3);
    app.close();
    app.kill_9();
    let began = Instant::now();
    for n in 0..COUNT {
        std::fs::copy(&template, data.join(format!("{n}.db"))).unwrap();
    }
    let files =
        |n: usize| std::fs::read_dir(stand.path("vault").join(format!("{n}.db/ltx/0"))).map_or(0, Iterator::count);
    wait::until("all to be protected", wait::SOON * 4, || {
        assert!(seawall.running(), "{}", seawall.stderr());
        (0..COUNT).all(|n| files(n) > 0).then_some(())
    });
    eprintln!("{COUNT} new databases were protected within {:?}", began.elapsed());
    for n in [0, 1, COUNT / 2, COUNT - 1] {
        assert_eq!(model::check(&restored(&stand, &format!("{n}.db")), 7), committed);
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid(&stand))).unwrap().count();
    assert!(threads <= 12, "{threads} threads");
    seawall.stop().ok();
}

fn pid(stand: &Stand) -> u64 {
    stand.seawall(&["info", "--socket", "s.sock", "--json"]).ok().json()["pid"].as_u64().unwrap()
}

#[test]
fn a_new_database_is_known_within_a_second() {
    let stand = stand();
    let mut seawall = following(&stand, &[]);
    let mut slowest = Duration::ZERO;
    for n in 0..5 {
        let name = format!("{n}.db");
        let mut app = App::start(&stand.path("data").join(&name), n);
        let began = Instant::now();
        wait::until("a base", wait::SOON, || (vault(&stand, &name).newest() > 0).then_some(()));
        slowest = slowest.max(began.elapsed());
        let committed = app.commit(3);
        sync(&stand, &name);
        assert_eq!(model::check(&restored(&stand, &name), n), committed);
    }
    // On a machine that does nothing else it is some tens of milliseconds.
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    seawall.stop().ok();
}

#[test]
fn once_protects_what_is_there() {
    let stand = stand();
    let mut seeds = Vec::new();
    for (seed, name) in ["a.db", "b.db", "c.sqlite", "deep/d.db"].into_iter().enumerate() {
        let path = stand.path("data").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut app = App::start(&path, seed as u64);
        app.commit(4);
        seeds.push((name, seed as u64, app));
    }
    std::fs::write(stand.path("data/note.db"), "this is no database").unwrap();
    stand.seawall(&["replicate", "data", "vault", "--once", "--pattern", "*.db", "--recursive"]).ok();
    for (name, seed, _app) in &seeds {
        if name.ends_with(".db") {
            assert_eq!(model::check(&restored(&stand, name), *seed), 4, "{name}");
        } else {
            assert_eq!(vault(&stand, name).newest(), 0);
        }
    }
    assert!(!stand.path("vault/note.db").exists());
}

#[test]
fn litestream_restores_what_a_folder_of_litestream_yml_made() {
    let stand = stand();
    let config = stand.path("litestream.yml");
    let (data, replica) = (stand.path("data"), stand.path("replica"));
    let text = format!(
        "dbs:\n  - dir: {}\n    pattern: '*.db'\n    recursive: true\n    watch: true\n    replica:\n      type: file\n      path: {}\n",
        data.display(),
        replica.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut app = App::start(&data.join("a.db"), 1);
    app.commit(10);
    let mut command = stand.command();
    let mut seawall = Process::spawn("seawall", command.arg("replicate").arg("--config").arg(&config));
    std::fs::create_dir(data.join("sub")).unwrap();
    let mut late = App::start(&data.join("sub/b.db"), 2);
    late.commit(5);
    let place = |name: &str| Place::Folder(replica.join(name));
    wait::until("both to be protected", wait::SOON, || {
        (place("a.db").newest() > 0 && place("sub/b.db").newest() > 0).then_some(())
    });
    seawall.stop().ok();
    for (name, seed, commits) in [("a.db", 1, 10), ("sub/b.db", 2, 5)] {
        let back = stand.new_file();
        let mut command: Command = stand.litestream_command();
        let url = format!("file://{}", replica.join(name).display());
        seawall_tests::run("litestream", command.args(["restore", "-o"]).arg(&back).arg(url)).ok();
        assert_eq!(model::check(&back, seed), commits, "{name}");
        assert_eq!(digest::of(&back), digest::of(&data.join(name)));
    }
}
