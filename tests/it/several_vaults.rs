//! Several vaults for one database, encrypted, by the command line: each is away once, and each alone restores everything in the end.

use std::fs;
use std::path::{Path, PathBuf};

use seawall_tests::{App, Process, Random, Stand, model, wait};
use serde_json::Value;

const NAMES: [&str; 2] = ["one", "two"];

struct Scene {
    stand: Stand,
    app: App,
}

impl Scene {
    fn new() -> Self {
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

    fn begin(&self) -> Process {
        Process::spawn("seawall", self.stand.command().args(["replicate", "--config", "seawall.yml"]))
    }

    /// Commits, and waits until the process has shipped it.
    fn ship(&mut self, process: &mut Process) {
        self.app.commit(10);
        wait::until("the commits to be shipped", wait::SOON * 4, || {
            assert!(process.running(), "{}", process.stderr());
            (self.stand.seawall(&["sync", "app", "--wait"]).code() == 0).then_some(())
        });
    }

    fn vaults(&self) -> Vec<Value> {
        let status = self.stand.seawall(&["status", "--json"]).json();
        status[0]["vaults"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until so many vaults are in step.
    fn until_in_step(&self, count: usize) {
        wait::until("vaults to be in step", wait::SOON * 4, || {
            let vaults = self.vaults();
            (vaults.iter().filter(|vault| vault["in_step"] == true).count() == count).then_some(())
        });
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.stand.path(name)
    }

    /// A vault that is away: something else is in its place.
    fn take_away(&self, name: &str) {
        fs::rename(self.folder(name), self.folder(&format!("{name}.away"))).unwrap();
        fs::write(self.folder(name), "in the way").unwrap();
    }

    fn bring_back(&self, name: &str) {
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
