//! "Protecting", of a vault that isn't there any more: emptied, renamed, unmounted, or with a base less.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use seawall_tests::{Disk, Place, Process, Random, Stand, digest, model, wait};

pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A configuration that looks as often as a test can wait, with more lines at the top.
pub(super) fn replicate(stand: &Stand, top: &str) -> Process {
    let file = stand.path("seawall.yml");
    let text = format!(
        "{top}\nsweep-interval: 1s\nvalidation: {{ active: 1s, interval: 1h }}\nsocket: {{ path: {} }}\n\
         databases:\n  - {{ name: app, path: {}, vault: '{}' }}\n",
        stand.path("s.sock").display(),
        stand.db().display(),
        stand.place.url(),
    );
    fs::write(&file, text).unwrap();
    Process::spawn("seawall", stand.command().args(["replicate", "--config"]).arg(&file))
}

pub(super) fn sync(stand: &Stand) -> seawall_tests::Output {
    stand.seawall(&["sync", "app", "--wait", "--socket", stand.path("s.sock").to_str().unwrap()])
}

/// Waits until the status shows `code`.
pub(super) fn until_told(stand: &Stand, code: &str) {
    wait::until(code, PATIENCE, || (stand.status()["error"]["code"] == code).then_some(()));
}

/// A restore gives the application's state.
pub(super) fn all_comes_back(stand: &Stand, committed: u64) {
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), committed);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
}

fn objects(stand: &Stand) -> PathBuf {
    match &stand.place {
        Place::Folder(path) => path.clone(),
        Place::Bucket(server, prefix) => server.objects().join(prefix),
    }
}

#[test]
fn an_emptied_folder_is_told_and_protected_anew() {
    emptied(&Stand::folder(Random::from_env().seed()));
}

#[test]
fn an_emptied_bucket_is_told_and_protected_anew_on_s3() {
    emptied(&Stand::bucket(Random::from_env().seed()));
}

fn emptied(stand: &Stand) {
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = replicate(stand, "");
    stand.until_protected(&mut seawall);
    sync(stand).ok();
    empty(&objects(stand));
    let committed = app.commit(10);
    until_told(stand, "sqlite.lost");
    stand.until_protected(&mut seawall);
    sync(stand).ok();
    all_comes_back(stand, committed);

    // A caller that asks at that very moment gets the error, and so does a caller that stops it.
    let base = fs::read_dir(stand.place.level(9)).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&base).unwrap();
    let asked = sync(stand).exits(1);
    assert!(asked.stderr.contains("sqlite.lost"), "{asked}");
    stand.until_protected(&mut seawall);
    sync(stand).ok();
    all_comes_back(stand, committed);
    empty(&objects(stand));
    let ended = seawall.stop().exits(1);
    assert!(!ended.stderr.contains("everything that was committed is in the vault"), "{ended}");
}

#[test]
fn a_renamed_folder_is_told_and_nothing_is_made_in_its_place() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = replicate(&stand, "");
    stand.until_protected(&mut seawall);
    let (vault, aside) = (objects(&stand), stand.path("aside"));
    fs::rename(&vault, &aside).unwrap();
    until_told(&stand, "vault.vanished");
    let committed = app.commit(10);
    let asked = sync(&stand).exits(1);
    assert!(asked.stderr.contains("vault.vanished"), "{asked}");
    assert_eq!(stand.status()["phase"], "failing");
    assert!(!vault.exists());
    fs::rename(&aside, &vault).unwrap();
    stand.until_protected(&mut seawall);
    sync(&stand).ok();
    all_comes_back(&stand, committed);
    assert_eq!(stand.place.files(9).len(), 1, "no other base was needed");
    seawall.stop().ok();
}

#[test]
fn an_unmounted_disk_is_told_and_nothing_is_written_underneath() {
    let mut stand = Stand::folder(Random::from_env().seed());
    let disk = stand.path("disk");
    let Some(mounted) = Disk::of_mib(64, &disk) else { return };
    stand.place = Place::Folder(disk.join("app"));
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = replicate(&stand, "");
    stand.until_protected(&mut seawall);
    drop(mounted);
    until_told(&stand, "vault.vanished");
    app.commit(10);
    sync(&stand).exits(1);
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "something was written underneath");

    // Another disk, and empty: a base of all that there is.
    let mounted = Disk::of_mib(64, &disk).unwrap();
    fs::create_dir(disk.join("app")).unwrap();
    let committed = app.commit(10);
    wait::until("a base", PATIENCE, || (!stand.place.files(9).is_empty()).then_some(()));
    stand.until_protected(&mut seawall);
    sync(&stand).ok();
    all_comes_back(&stand, committed);
    seawall.stop().ok();
    drop(mounted);
}

/// The machine restarts, and the disk of the vault isn't mounted any more, or not yet.
#[test]
fn a_disk_that_is_not_mounted_at_the_start_is_told_and_nothing_is_written_underneath() {
    for below in ["app", ""] {
        let mut stand = Stand::folder(Random::from_env().seed());
        let disk = stand.path("disk");
        let Some(mounted) = Disk::of_mib(64, &disk) else { return };
        stand.place = Place::Folder(disk.join(below));
        let mut app = stand.app();
        app.commit(20);
        let mut seawall = replicate(&stand, "");
        stand.until_protected(&mut seawall);
        seawall.stop().ok();
        let copy = stand.path("copy");
        let of_disk = |from: &Path, to: &Path| {
            Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap().success()
        };
        fs::create_dir(&copy).unwrap();
        assert!(of_disk(&disk, &copy));
        drop(mounted);

        // Neither a process nor a command takes what is there for a vault, even where a file says that nothing is mounted.
        fs::write(disk.join(".not-mounted"), "").unwrap();
        let mut seawall = replicate(&stand, "");
        until_told(&stand, "vault.vanished");
        let committed = app.commit(10);
        sync(&stand).exits(1);
        let told = stand.seawall(&["timeline", "app"]).exits(1);
        assert!(told.stderr.contains("isn't mounted") && told.stderr.contains("vault-place.json"), "{told}");
        assert!(told.stderr.contains(&format!("nothing is mounted at {}", disk.display())), "{told}");
        let doctor = stand.seawall(&["doctor"]).exits(2);
        assert!(doctor.stdout.contains("vault.vanished"), "{doctor}");
        let underneath: Vec<_> = fs::read_dir(&disk).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(underneath, [".not-mounted"], "something was written underneath");

        // It is mounted, and everything goes on by itself.
        let mounted = Disk::of_mib(64, &disk).unwrap();
        assert!(of_disk(&copy, &disk));
        stand.until_protected(&mut seawall);
        sync(&stand).ok();
        all_comes_back(&stand, committed);
        seawall.stop().ok();
        drop(mounted);

        // The owner begins anew on the system's own disk, as the message says.
        fs::remove_file(disk.join(".not-mounted")).unwrap();
        fs::remove_file(stand.state().join("vault-place.json")).unwrap();
        let mut seawall = replicate(&stand, "");
        stand.until_protected(&mut seawall);
        sync(&stand).ok();
        all_comes_back(&stand, committed);
    }
}

/// A unit of systemd mounts the folders that it may write to over themselves, whether the disk under them is mounted or not.
#[test]
fn a_mount_over_a_folder_hides_no_disk_that_is_not_mounted() {
    let mut stand = Stand::folder(Random::from_env().seed());
    let (disk, vault) = (stand.path("disk"), stand.path("disk/seawall"));
    let bind = || {
        fs::create_dir_all(&vault).unwrap();
        Disk::over_itself(&vault).unwrap()
    };
    let Some(mounted) = Disk::of_mib(64, &disk) else { return };
    stand.place = Place::Folder(vault.clone());
    let mut app = stand.app();
    app.commit(20);
    let bound = bind();
    let mut seawall = replicate(&stand, "");
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    let note = stand.state().join("vault-place.json");
    let noted = || -> String { fs::read_to_string(&note).unwrap() };
    let with_mount = noted();
    assert!(with_mount.contains(&format!("\"mount\":\"{}\"", disk.display())), "{with_mount}");
    // Outside of the unit nothing is mounted over it. Both notes are the same.
    drop(bound);
    app.commit(2);
    let mut seawall = replicate(&stand, "");
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    assert_eq!(noted(), with_mount);
    drop(mounted);

    let bound = bind();
    let mut seawall = replicate(&stand, "");
    until_told(&stand, "vault.vanished");
    assert_eq!(fs::read_dir(&vault).unwrap().count(), 0, "something was written underneath");
    assert_eq!(noted(), with_mount);
    seawall.stop();
    drop(bound);
}

#[test]
fn a_folder_that_is_missing_at_the_start_is_told_and_not_made() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = replicate(&stand, "");
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    let (vault, aside) = (objects(&stand), stand.path("aside"));
    fs::rename(&vault, &aside).unwrap();
    let mut seawall = replicate(&stand, "");
    until_told(&stand, "vault.vanished");
    let committed = app.commit(10);
    sync(&stand).exits(1);
    assert!(!vault.exists());
    fs::rename(&aside, &vault).unwrap();
    stand.until_protected(&mut seawall);
    sync(&stand).ok();
    all_comes_back(&stand, committed);
    seawall.stop().ok();
}

#[test]
fn a_bucket_that_does_not_exist_ends_a_first_start_on_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(5);
    let url = stand.place.url().replacen("harbour", "harbor", 1);
    let mut seawall = Process::spawn("seawall", stand.command().arg("replicate").arg(stand.db()).arg(url));
    let ended = seawall.wait(PATIENCE);
    assert!(ended.code() != 0 && ended.stderr.contains("vault.missing"), "{ended}");
}

/// The program would make a new database, and believe it protected.
#[test]
fn a_program_is_not_started_beside_a_bucket_that_does_not_exist_on_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    let url = stand.place.url().replacen("harbour", "harbor", 1);
    let (started, missing) = (stand.state().with_file_name("started"), stand.state().with_file_name("missing.db"));
    let mut command = stand.command();
    command.arg("replicate").arg(&missing).arg(url).arg("--restore-if-missing");
    command.arg("--exec").arg(format!("touch {}", started.display()));
    let ended = Process::spawn("seawall", &mut command).wait(PATIENCE);
    assert!(ended.code() != 0 && ended.stderr.contains("vault.missing"), "{ended}");
    assert!(!started.exists(), "{ended}");
}

#[test]
fn a_process_that_is_stopped_is_told_soon() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(5);
    let mut seawall = replicate(&stand, "");
    stand.until_protected(&mut seawall);
    sync(&stand).ok();
    kill_process(seawall.pid(), Signal::STOP).unwrap();
    let began = std::time::Instant::now();
    let asked = sync(&stand).exits(1);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(asked.stderr.contains("doesn't answer"), "{asked}");
    kill_process(seawall.pid(), Signal::CONT).unwrap();
    sync(&stand).ok();
    all_comes_back(&stand, 5);
    seawall.stop().ok();
}
