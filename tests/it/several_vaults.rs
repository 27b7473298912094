//! Several vaults for one database by the command line. Encrypted: each is away once, and each alone restores everything in the end. Plain:
//! one is swapped, or gets objects that aren't of its history, and the others go on.

use std::fs;
use std::path::{Path, PathBuf};

use seawall_tests::{App, Process, Random, Stand, model, wait};
use serde_json::Value;

const NAMES: [&str; 2] = ["one", "two"];

pub(crate) struct Scene {
    pub(crate) stand: Stand,
    pub(crate) app: App,
}

pub(crate) const THREE: [&str; 3] = ["v1", "v2", "v3"];

impl Scene {
    /// A database with plain vaults of these names.
    pub(crate) fn plain(names: &[&str]) -> Self {
        let stand = Stand::folder(Random::from_env().seed());
        let places: Vec<String> = names.iter().map(|name| stand.path(name).display().to_string()).collect();
        let text = format!(
            "socket: {{ path: s.sock }}\ndatabases:\n  - path: app.db\n    name: app\n    vaults: [{}]\n",
            places.join(", ")
        );
        fs::write(stand.path("seawall.yml"), text).unwrap();
        let app = stand.app();
        Self { stand, app }
    }

    pub(crate) fn new() -> Self {
        let stand = Stand::folder(Random::from_env().seed());
        let (secret, public) = seawall_vault::Identities::generate();
        fs::write(stand.path("owner.key"), format!("{}\n", secret.reveal())).unwrap();
        let text = format!(
            "socket: {{ path: s.sock }}\nencryption: {{ recipients: [{public}] }}\ndatabases:\n  - path: app.db\n    name: app\n    \
             vaults: [{}, {}]\n",
            stand.path("one").display(),
            stand.path("two").display()
        );
        fs::write(stand.path("seawall.yml"), text).unwrap();
        let app = stand.app();
        Self { stand, app }
    }

    pub(crate) fn begin(&self) -> Process {
        Process::spawn("seawall", self.stand.command().args(["replicate", "--config", "seawall.yml"]))
    }

    /// Commits, and waits until the process has shipped it.
    pub(crate) fn ship(&mut self, process: &mut Process) {
        self.app.commit(10);
        wait::until("the commits to be shipped", wait::SOON * 4, || {
            assert!(process.running(), "{}", process.stderr());
            (self.stand.seawall(&["sync", "app", "--wait"]).code() == 0).then_some(())
        });
    }

    pub(crate) fn vaults(&self) -> Vec<Value> {
        let status = self.stand.seawall(&["status", "--json"]).json();
        status[0]["vaults"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until so many vaults are in step.
    pub(crate) fn until_in_step(&self, count: usize) {
        wait::until("vaults to be in step", wait::SOON * 4, || {
            let vaults = self.vaults();
            (vaults.iter().filter(|vault| vault["in_step"] == true).count() == count).then_some(())
        });
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.stand.path(name)
    }

    /// A vault that is away: something else is in its place.
    pub(crate) fn take_away(&self, name: &str) {
        fs::rename(self.folder(name), self.folder(&format!("{name}.away"))).unwrap();
        fs::write(self.folder(name), "in the way").unwrap();
    }

    pub(crate) fn bring_back(&self, name: &str) {
        fs::remove_file(self.folder(name)).unwrap();
        fs::rename(self.folder(&format!("{name}.away")), self.folder(name)).unwrap();
    }

    /// Restores from this place, and checks each commit.
    fn restored(&self, from: &[&str]) -> String {
        let file = self.stand.new_file();
        let args = [&["restore"], from, &["--identity", "owner.key", "-o", file.to_str().unwrap()]].concat();
        let output = self.stand.seawall(&args).ok();
        assert_eq!(model::check(&file, self.stand.seed), self.app.committed(), "{output}");
        output.to_string()
    }

    /// Whether every LTX file of a vault is an age file.
    fn is_sealed(&self, name: &str) -> bool {
        fn files(folder: &Path) -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
        }
        let all = files(&self.folder(name).join("ltx"));
        !all.is_empty() && all.iter().all(|file| fs::read(file).unwrap().starts_with(b"age-encryption.org/v1"))
    }
}

#[test]
fn each_of_two_encrypted_vaults_is_away_once_and_has_everything_in_the_end() {
    let mut scene = Scene::new();
    let mut process = scene.begin();
    scene.ship(&mut process);
    scene.until_in_step(2);

    // The second is away: commits go on, also after a kill.
    scene.take_away("two");
    scene.ship(&mut process);
    scene.until_in_step(1);
    process.kill_9();
    let mut process = scene.begin();
    scene.ship(&mut process);
    scene.until_in_step(1);
    scene.restored(&["app", "--config", "seawall.yml"]);
    scene.bring_back("two");
    scene.until_in_step(2);
    scene.ship(&mut process);

    // The first is away: the second leads, and a restore by the database's name takes it.
    scene.take_away("one");
    scene.ship(&mut process);
    scene.until_in_step(1);
    let leads: Vec<_> = scene.vaults().into_iter().filter(|vault| vault["leads"] == true).collect();
    assert!(leads.len() == 1 && leads[0]["url"].as_str().unwrap().ends_with("two"), "{leads:?}");
    let told = scene.restored(&["app", "--config", "seawall.yml"]);
    assert!(told.contains("two"), "{told}");
    scene.bring_back("one");
    scene.until_in_step(2);
    scene.ship(&mut process);
    process.stop().ok();

    // Each alone restores everything, and nothing in it is plaintext.
    for name in NAMES {
        let folder = scene.folder(name);
        scene.restored(&[folder.to_str().unwrap()]);
        assert!(scene.is_sealed(name), "{name}");
        scene.stand.seawall(&["verify", folder.to_str().unwrap(), "--identity", "owner.key"]).ok();
        let plain = scene.stand.seawall(&["restore", folder.to_str().unwrap(), "-o", "plain.db"]);
        assert_ne!(plain.code(), 0, "without the key: {plain}");
    }
}

/// The vault of another database, with more and newer objects than the scenes have.
pub(crate) fn another() -> Scene {
    let mut other = Scene::plain(&["vault"]);
    let mut process = other.begin();
    (0..9).for_each(|_| other.ship(&mut process));
    process.stop().ok();
    other
}

/// Copies every file of a folder; one that is there already stays.
pub(crate) fn add(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match path.is_dir() {
            true => add(&path, &target),
            false if !target.exists() => drop(fs::copy(&path, &target).unwrap()),
            false => {}
        }
    }
}

/// Replaces all that is in a folder; the folder itself stays.
pub(crate) fn swap(from: &Path, to: &Path) {
    for entry in fs::read_dir(to).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    add(from, to);
}

impl Scene {
    /// Three vaults with a few commits, and the process that protects them.
    pub(crate) fn three() -> (Self, Process) {
        let mut scene = Self::plain(&THREE);
        let mut process = scene.begin();
        (0..3).for_each(|_| scene.ship(&mut process));
        scene.until_in_step(3);
        (scene, process)
    }

    /// Goes on with commits, and checks that one vault differs, that this is told at once, and that the others have everything.
    pub(crate) fn goes_on_without(&mut self, bad: &str, process: &mut Process) {
        (0..3).for_each(|_| self.ship(process));
        let differs = |vault: &Value| vault["error"]["code"] == "vault.differs";
        let vaults = wait::until("the vault to differ", wait::SOON * 4, || {
            let vaults = self.vaults();
            (vaults.iter().filter(|vault| differs(vault)).count() == 1).then_some(vaults)
        });
        for (vault, name) in vaults.iter().zip(THREE) {
            assert_eq!(differs(vault), name == bad, "{vaults:#?}");
            assert_eq!(vault["in_step"] == true, name != bad, "{vaults:#?}");
        }
        let status = self.stand.seawall(&["status", "--json"]).json();
        let alarms = status[0]["alarms"].as_array().cloned().unwrap_or_default();
        let told = alarms.iter().any(|alarm| alarm["code"] == "alarm.vault-differs" && alarm["severity"] == "critical");
        assert!(told, "{status:#}");
        self.good_vaults_hold_everything(bad);
        self.restored_plain(&["app", "--config", "seawall.yml"]);
    }

    /// A vault of another database is named by a restore that doesn't take it.
    fn a_restore_names_the_other_database(&self) {
        let told = self.restored_plain(&["app", "--config", "seawall.yml"]);
        assert!(told.contains("passed over"), "{told}");
    }

    fn good_vaults_hold_everything(&self, bad: &str) {
        for name in THREE.into_iter().filter(|name| *name != bad) {
            let folder = self.folder(name);
            self.stand.seawall(&["verify", folder.to_str().unwrap()]).ok();
            self.restored_plain(&[folder.to_str().unwrap()]);
        }
    }

    fn restored_plain(&self, from: &[&str]) -> String {
        let file = self.stand.new_file();
        let output = self.stand.seawall(&[&["restore"], from, &["-o", file.to_str().unwrap()]].concat()).ok();
        assert_eq!(model::check(&file, self.stand.seed), self.app.committed(), "{output}");
        output.to_string()
    }

    /// All names in a vault with their sizes.
    fn files(&self, name: &str) -> Vec<(PathBuf, u64)> {
        fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let each = |path: PathBuf| match path.is_dir() {
                true => files(&path),
                false => vec![(path.clone(), fs::metadata(&path).unwrap().len())],
            };
            entries.flat_map(each).collect()
        }
        let mut all = files(&self.folder(name));
        all.sort();
        all
    }
}

#[test]
fn objects_of_another_database_in_one_vault_never_get_into_the_others() {
    let other = another();
    let (mut scene, mut process) = Scene::three();
    process.stop().ok();
    add(&other.folder("vault"), &scene.folder("v2"));
    let before = scene.files("v2");
    let mut process = scene.begin();
    scene.goes_on_without("v2", &mut process);
    assert_eq!(scene.files("v2"), before, "nothing is written there");
    // Somebody looked, and moved it away: it catches up by itself.
    for entry in fs::read_dir(scene.folder("v2")).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    process.stop().ok();
    let mut process = scene.begin();
    scene.ship(&mut process);
    scene.until_in_step(3);
    process.stop().ok();
    scene.good_vaults_hold_everything("none");
}

#[test]
fn junk_in_one_vault_never_gets_into_the_others() {
    for bad in ["v1", "v2"] {
        let (mut scene, mut process) = Scene::three();
        process.stop().ok();
        let log = scene.folder(bad).join("ltx/0");
        fs::write(log.join("0000000000000003-0000000000000003.ltx"), [7; 100]).unwrap();
        fs::write(log.join("0000000000000050-0000000000000050.ltx"), vec![8; 3 << 20]).unwrap();
        let mut process = scene.begin();
        scene.goes_on_without(bad, &mut process);
        process.stop().ok();
        for name in THREE.into_iter().filter(|name| *name != bad) {
            assert!(!scene.folder(name).join("ltx/0/0000000000000050-0000000000000050.ltx").exists(), "{name}");
        }
    }
}

#[test]
fn a_vault_that_is_swapped_while_it_leads_is_left_alone() {
    let other = another();
    let (mut scene, mut process) = Scene::three();
    swap(&other.folder("vault"), &scene.folder("v1"));
    let before = scene.files("v1");
    scene.goes_on_without("v1", &mut process);
    assert_eq!(scene.files("v1"), before, "nothing is written there");
    process.stop().ok();
    // Also after a restart.
    let mut process = scene.begin();
    scene.goes_on_without("v1", &mut process);
    process.stop().ok();
}

#[test]
fn a_vault_that_was_swapped_never_leads_after_a_restart() {
    let other = another();
    for (bad, killed) in [("v2", false), ("v1", true)] {
        let (mut scene, mut process) = Scene::three();
        if killed {
            process.kill_9()
        } else {
            drop(process.stop().ok())
        }
        swap(&other.folder("vault"), &scene.folder(bad));
        let mut process = scene.begin();
        scene.goes_on_without(bad, &mut process);
        scene.a_restore_names_the_other_database();
        process.stop().ok();
    }
}

/// No process runs, so no start has judged the vaults: the restore itself passes the bad ones over.
#[test]
fn a_restore_by_name_takes_a_vault_that_can_be_read_and_is_of_its_database() {
    let other = another();
    let (scene, mut process) = Scene::three();
    process.stop().ok();
    swap(&other.folder("vault"), &scene.folder("v1"));
    fs::write(scene.folder("v2").join("ltx/0/0000000000000050-0000000000000050.ltx"), vec![8; 3 << 20]).unwrap();
    let told = scene.restored_plain(&["app", "--config", "seawall.yml"]);
    assert!(told.contains("v1") && told.contains("v2") && told.contains("from ") && told.contains("v3"), "{told}");
    // Junk everywhere: each restores what came before it.
    for name in ["v1", "v3"] {
        swap(&scene.folder("v2"), &scene.folder(name));
    }
    let file = scene.stand.new_file();
    let output = scene.stand.seawall(&["restore", "app", "--config", "seawall.yml", "-o", file.to_str().unwrap()]);
    let alone = scene.stand.new_file();
    let folder = scene.folder("v1");
    let restored = scene.stand.seawall(&["restore", folder.to_str().unwrap(), "-o", alone.to_str().unwrap()]);
    assert_eq!(output.code(), restored.code(), "{output}\n{restored}");
    assert!(!output.to_string().contains("vault.all-away"), "{output}");
}

/// As short retention leaves a vault: a complete copy with what came after it, and nothing before.
fn forget_the_past(vault: &Path) {
    let files = |level: &str| {
        let entries =
            fs::read_dir(vault.join("ltx").join(level)).map(|entries| entries.map(|entry| entry.unwrap().path()));
        let mut all: Vec<PathBuf> = entries.map(Iterator::collect).unwrap_or_default();
        all.sort();
        all
    };
    for level in ["0", "9"] {
        let mut all = files(level);
        let last = all.pop().expect("an object");
        assert!(level == "0" || all.len() == 1, "a later complete copy: {last:?}");
        all.iter().for_each(|file| fs::remove_file(file).unwrap());
    }
    for level in ["1", "2", "3"] {
        files(level).iter().for_each(|file| fs::remove_file(file).unwrap());
    }
}

/// The objects of a stranger end before the oldest ones of the others, as a part that was deleted there would.
#[test]
fn a_vault_that_ends_before_the_others_begin_is_of_another_database_all_the_same() {
    let mut other = Scene::plain(&["vault"]);
    let mut process = other.begin();
    other.ship(&mut process);
    process.stop().ok();
    let (mut scene, mut process) = Scene::three();
    (0..4).for_each(|_| scene.ship(&mut process));
    process.stop().ok();
    scene.stand.seawall(&["maintain", "app", "--base", "--config", "seawall.yml"]).ok();
    for name in THREE {
        forget_the_past(&scene.folder(name));
    }
    swap(&other.folder("vault"), &scene.folder("v1"));
    let before = scene.files("v1");
    let mut process = scene.begin();
    scene.goes_on_without("v1", &mut process);
    assert_eq!(scene.files("v1"), before, "nothing is written or deleted there");
    process.stop().ok();
}
