//! One of several vaults is emptied, set back, swapped, or gets another database's objects, while Seawall runs: that is found, the
//! others go on, and what can be read afterwards is what was committed.

use std::fs;
use std::path::Path;

use seawall_tests::{Process, Stand, model, wait};
use serde_json::Value;

use crate::several_vaults::{Scene, THREE, add, another, swap};

/// Deletes all that is in a folder; the folder itself stays.
fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
}

impl Scene {
    /// The same, with looks at the vaults each second.
    fn looking(self) -> Self {
        let file = self.stand.path("seawall.yml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text + "alarms: { vault-look: 1s }\n").unwrap();
        self
    }

    fn three_looking() -> (Self, Process) {
        let mut scene = Self::plain(&THREE).looking();
        let mut process = scene.begin();
        (0..3).for_each(|_| scene.ship(&mut process));
        scene.until_in_step(3);
        (scene, process)
    }

    /// Waits until it was found that a vault lacks what it had, and until it has it again; and the alarm says so.
    fn until_found_and_whole(&mut self, name: &str, process: &mut Process) {
        let count = self.vaults().len();
        wait::until("the loss to be found, and mended", wait::SOON * 4, || {
            assert!(process.running(), "{}", process.stderr());
            let vaults = self.vaults();
            let found = |vault: &&Value| vault["url"].as_str().unwrap().ends_with(name) && !vault["set_back"].is_null();
            let whole = vaults.iter().filter(|vault| vault["in_step"] == true).count() == count;
            (whole && vaults.iter().any(|vault| found(&vault))).then_some(())
        });
        let status = self.stand.seawall(&["status", "--json"]).json();
        let alarms = status[0]["alarms"].as_array().cloned().unwrap_or_default();
        assert!(alarms.iter().any(|alarm| alarm["code"] == "alarm.vault-set-back"), "{status:#}");
    }

    fn whole_in(&self, name: &str) {
        let folder = self.folder(name);
        self.stand.seawall(&["verify", folder.to_str().unwrap()]).ok();
        let file = self.stand.new_file();
        self.stand.seawall(&["restore", folder.to_str().unwrap(), "-o", file.to_str().unwrap()]).ok();
        assert_eq!(model::check(&file, self.stand.seed), self.app.committed(), "{name}");
    }
}

#[test]
fn a_vault_that_is_emptied_while_seawall_runs_is_filled_again() {
    for name in ["v1", "v2"] {
        let (mut scene, mut process) = Scene::three_looking();
        empty(&scene.folder(name));
        // It takes what is new, as if nothing were missing.
        scene.ship(&mut process);
        scene.until_found_and_whole(name, &mut process);
        scene.ship(&mut process);
        process.stop().ok();
        THREE.iter().for_each(|name| scene.whole_in(name));
    }
}

#[test]
fn a_vault_that_is_set_back_while_seawall_runs_gets_what_it_lost() {
    let (mut scene, mut process) = Scene::three_looking();
    let old = scene.folder("old");
    add(&scene.folder("v2"), &old);
    (0..3).for_each(|_| scene.ship(&mut process));
    swap(&old, &scene.folder("v2"));
    scene.ship(&mut process);
    scene.until_found_and_whole("v2", &mut process);
    scene.ship(&mut process);
    process.stop().ok();
    THREE.iter().for_each(|name| scene.whole_in(name));
}

/// The other database's vault has fewer objects: each next name is free there.
#[test]
fn a_vault_that_is_swapped_for_a_smaller_one_while_seawall_runs_is_left_alone() {
    let mut other = Scene::plain(&["vault"]);
    let mut its_process = other.begin();
    other.ship(&mut its_process);
    its_process.stop().ok();
    let (mut scene, mut process) = Scene::three_looking();
    (0..3).for_each(|_| scene.ship(&mut process));
    swap(&other.folder("vault"), &scene.folder("v2"));
    scene.goes_on_without("v2", &mut process);
    process.stop().ok();
}

#[test]
fn names_beyond_ours_that_are_copied_into_one_vault_end_nothing() {
    let other = another();
    for bad in ["v1", "v2"] {
        let (mut scene, mut process) = Scene::three_looking();
        add(&other.folder("vault"), &scene.folder(bad));
        scene.goes_on_without(bad, &mut process);
        assert!(process.running(), "{}", process.stderr());
        process.stop().ok();
    }
}

/// An encrypted vault gets back also what tells another host how it is read.
#[test]
fn an_encrypted_vault_that_is_emptied_can_be_read_elsewhere_again() {
    for name in ["one", "two"] {
        let mut scene = Scene::new().looking();
        let mut process = scene.begin();
        (0..3).for_each(|_| scene.ship(&mut process));
        scene.until_in_step(2);
        empty(&scene.folder(name));
        scene.ship(&mut process);
        scene.until_found_and_whole(name, &mut process);
        scene.ship(&mut process);
        process.stop().ok();
        for name in ["one", "two"] {
            // A host that has nothing but the owner's key.
            let elsewhere = Stand::folder(scene.stand.seed);
            add(&scene.folder(name), &elsewhere.path("copy"));
            fs::copy(scene.stand.path("owner.key"), elsewhere.path("owner.key")).unwrap();
            elsewhere.seawall(&["restore", "copy", "--identity", "owner.key", "-o", "back.db"]).ok();
            assert_eq!(model::check(&elsewhere.path("back.db"), scene.stand.seed), scene.app.committed(), "{name}");
            elsewhere.seawall(&["verify", "copy", "--identity", "owner.key"]).ok();
        }
    }
}

/// For the same owner, of another database: the host has no key of the owner, and still tells it from its own.
#[test]
fn an_encrypted_vault_that_is_swapped_for_another_of_the_same_owner_is_left_alone() {
    let mut other = Scene::new();
    let mut its_process = other.begin();
    (0..3).for_each(|_| other.ship(&mut its_process));
    its_process.stop().ok();
    for running in [true, false] {
        let mut scene = Scene::new().looking();
        fs::copy(other.stand.path("owner.key"), scene.stand.path("owner.key")).unwrap();
        let text = fs::read_to_string(other.stand.path("seawall.yml")).unwrap();
        let text = text.replace(other.stand.path("").to_str().unwrap(), scene.stand.path("").to_str().unwrap());
        fs::write(scene.stand.path("seawall.yml"), text + "alarms: { vault-look: 1s }\n").unwrap();
        let mut process = scene.begin();
        (0..3).for_each(|_| scene.ship(&mut process));
        scene.until_in_step(2);
        if !running {
            process.kill_9();
        }
        swap(&other.folder("one"), &scene.folder("two"));
        if !running {
            process = scene.begin();
        }
        (0..2).for_each(|_| scene.ship(&mut process));
        wait::until("the vault to differ", wait::SOON * 4, || {
            let vaults = scene.vaults();
            vaults.iter().any(|vault| vault["error"]["code"] == "vault.differs").then_some(())
        });
        process.stop().ok();
        let elsewhere = Stand::folder(scene.stand.seed);
        add(&scene.folder("one"), &elsewhere.path("copy"));
        elsewhere
            .seawall(&[
                "restore",
                "copy",
                "--identity",
                scene.stand.path("owner.key").to_str().unwrap(),
                "-o",
                "back.db",
            ])
            .ok();
        assert_eq!(model::check(&elsewhere.path("back.db"), scene.stand.seed), scene.app.committed());
        let told =
            scene.stand.seawall(&["restore", "app", "--identity", "owner.key", "-o", "back.db"]).ok().to_string();
        assert!(told.contains("passed over"), "{told}");
        assert_eq!(model::check(&scene.stand.path("back.db"), scene.stand.seed), scene.app.committed(), "{told}");
    }
}

/// What the record names was merged and deleted while the second vault was left out. That one is older, and catches up.
#[test]
fn a_vault_that_was_left_out_and_is_put_back_catches_up() {
    let mut scene = Scene::plain(&["v1", "v2"]).looking();
    let file = scene.stand.path("seawall.yml");
    let both =
        fs::read_to_string(&file).unwrap() + "levels: [{ interval: 1s }]\nl0-retention: 1s\nretention: { grace: 0s }\n";
    let one = both.replace(&format!(", {}", scene.folder("v2").display()), "");
    assert_ne!(one, both);
    fs::write(&file, &both).unwrap();
    let mut process = scene.begin();
    (0..3).for_each(|_| scene.ship(&mut process));
    scene.until_in_step(2);
    process.stop().ok();
    let captures = fs::read_dir(scene.folder("v1").join("ltx/0")).unwrap();
    let newest = captures.map(|entry| entry.unwrap().path()).max().unwrap();

    fs::write(&file, &one).unwrap();
    let mut process = scene.begin();
    wait::until("the newest capture of the record to be merged and deleted", wait::SOON * 4, || {
        scene.ship(&mut process);
        (!newest.exists()).then_some(())
    });
    process.stop().ok();

    fs::write(&file, &both).unwrap();
    let mut process = scene.begin();
    scene.ship(&mut process);
    scene.until_in_step(2);
    let vaults = scene.vaults();
    assert!(vaults.iter().all(|vault| vault["set_back"].is_null() && vault["error"].is_null()), "{vaults:#?}");
    assert_eq!(vaults[0]["leads"], true, "{vaults:#?}");
    process.stop().ok();
    ["v1", "v2"].iter().for_each(|name| scene.whole_in(name));
}
