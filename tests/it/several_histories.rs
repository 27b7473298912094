//! Several vaults that don't hold one history, on a host that knows nothing of them: a restore by the database's name takes none of
//! them for the right one unless that can be told, and what it restores is what was committed.

use std::fs;
use std::path::Path;

use seawall_tests::{Output, Process, model, wait};

use crate::several_vaults::{Scene, THREE, add, another, swap};

impl Scene {
    /// A configuration of another host with the same vaults: there is no state beside its database.
    fn on_another_host(&self, names: &[&str]) -> &'static str {
        let places: Vec<String> = names.iter().map(|name| self.stand.path(name).display().to_string()).collect();
        fs::create_dir_all(self.stand.path("other")).unwrap();
        let text = format!(
            "socket: {{ path: o.sock }}\ndatabases:\n  - path: other/app.db\n    name: app\n    vaults: [{}]\n",
            places.join(", ")
        );
        fs::write(self.stand.path("other.yml"), text).unwrap();
        "other.yml"
    }

    fn asked(&self, config: &str, more: &[&str]) -> (Output, std::path::PathBuf) {
        let file = self.stand.new_file();
        let args = [&["restore", "app", "--config", config, "-o", file.to_str().unwrap()], more].concat();
        (self.stand.seawall(&args), file)
    }

    /// A restore by name takes none of the vaults, and names each.
    fn refuses(&self, config: &str, more: &[&str]) {
        let (output, file) = self.asked(config, more);
        let told = output.to_string();
        assert!(output.code() != 0 && told.contains("vault.unsure") && !file.exists(), "{told}");
        for name in THREE {
            assert!(told.contains(self.stand.path(name).to_str().unwrap()), "{name}: {told}");
        }
        assert!(told.contains("newest point") && told.contains("seawall restore URL"), "{told}");
    }

    /// What is restored has every commit.
    fn restores(&self, config: &str) -> String {
        let (output, file) = self.asked(config, &[]);
        let output = output.ok();
        assert_eq!(model::check(&file, self.stand.seed), self.app.committed(), "{output}");
        output.to_string()
    }

    fn restores_from(&self, name: &str) -> u64 {
        let file = self.stand.new_file();
        let folder = self.folder(name);
        self.stand.seawall(&["restore", folder.to_str().unwrap(), "-o", file.to_str().unwrap()]).ok();
        model::check(&file, self.stand.seed)
    }
}

#[test]
fn a_foreign_vault_with_a_newer_time_is_never_taken_for_the_database() {
    let (scene, mut process) = Scene::three();
    process.stop().ok();
    // Committed later, so all of its times are later.
    let other = another();
    for bad in ["v1", "v3"] {
        let good = if bad == "v1" { "v3" } else { "v1" };
        swap(&other.folder("vault"), &scene.folder(bad));
        let config = scene.on_another_host(&THREE);
        scene.refuses(config, &[]);
        scene.refuses(config, &["--at", "1 second ago"]);
        let timeline = scene.stand.seawall(&["timeline", "app", "--config", config]);
        assert!(timeline.code() != 0 && timeline.to_string().contains("vault.unsure"), "{timeline}");
        assert_eq!(scene.restores_from("v2"), scene.app.committed());
        // This host's state knows the history.
        let told = scene.restores("seawall.yml");
        assert!(told.contains("passed over"), "{told}");
        swap(&scene.folder(good), &scene.folder(bad));
        scene.restores(config);
    }
}

/// Same names, same sizes: only the bytes tell, and no vault is the right one because it comes first.
#[test]
fn a_foreign_vault_of_equal_sizes_is_never_taken_for_the_database() {
    let (scene, mut process) = Scene::three();
    process.stop().ok();
    let other = Scene::three();
    let (other, mut its_process) = other;
    its_process.stop().ok();
    swap(&other.folder("v1"), &scene.folder("v1"));
    scene.refuses(scene.on_another_host(&THREE), &[]);
    assert_eq!(scene.restores_from("v2"), scene.app.committed());
    scene.restores("seawall.yml");
}

#[test]
fn an_older_vault_an_empty_one_and_a_file_in_the_place_of_one_are_no_obstacle() {
    let (mut scene, mut process) = Scene::three();
    process.stop().ok();
    let old = scene.folder("old");
    add(&scene.folder("v1"), &old);
    let mut process = scene.begin();
    scene.ship(&mut process);
    scene.until_in_step(3);
    process.stop().ok();
    let config = scene.on_another_host(&THREE);
    swap(&old, &scene.folder("v1"));
    let told = scene.restores(config);
    assert!(!told.contains("passed over"), "{told}");
    // One is empty, and a file is in the place of another.
    swap(&scene.folder("v3"), &scene.folder("v1"));
    for entry in fs::read_dir(scene.folder("v2")).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    scene.take_away("v3");
    let told = scene.restores(config);
    let of = |name: &str| told.lines().find(|line| line.contains(&format!("{}:", scene.folder(name).display())));
    assert!(of("v2").is_some_and(|line| line.contains("holds nothing")), "{told}");
    assert!(of("v3").is_some_and(|line| line.contains("passed over")), "{told}");
    // The only one that holds anything can't be reached: that isn't a database without a backup.
    scene.take_away("v1");
    let (output, _) = scene.asked(config, &[]);
    assert!(output.code() != 0 && output.to_string().contains("vault.all-away"), "{output}");
}

fn damage(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    let at = at.min(bytes.len() - 1);
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// The greatest objects tell whether histories parted. A damaged one tells nothing, and the other vaults have it.
#[test]
fn a_damaged_object_of_one_vault_is_no_other_history() {
    let (scene, mut process) = Scene::three();
    process.stop().ok();
    let log = scene.folder("v1").join("ltx/0");
    let mut files: Vec<_> = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let config = scene.on_another_host(&THREE);
    for at in [64, 200, usize::MAX] {
        damage(files.last().unwrap(), at);
        scene.restores(config);
    }
    fs::write(files.last().unwrap(), b"junk").unwrap();
    scene.restores(config);
}

/// The newest vault is away while a new host begins: what its record knows is no proof against that vault.
#[test]
fn what_a_new_host_began_upon_is_no_proof_against_a_vault_that_was_away() {
    let (mut scene, mut process) = Scene::three();
    process.stop().ok();
    let old = scene.folder("old");
    add(&scene.folder("v1"), &old);
    let mut process = scene.begin();
    (0..3).for_each(|_| scene.ship(&mut process));
    scene.until_in_step(3);
    process.stop().ok();
    swap(&old, &scene.folder("v2"));
    swap(&old, &scene.folder("v3"));
    scene.take_away("v1");
    // A new host restores what it can, and goes on.
    let config = scene.on_another_host(&THREE);
    scene.stand.seawall(&["restore", "app", "--config", config, "-o", "other/app.db"]).ok();
    let db = scene.stand.path("other/app.db");
    let mut process = Process::spawn("seawall", scene.stand.command().args(["replicate", "--config", config]));
    rusqlite::Connection::open(&db).unwrap().execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE later (x)").unwrap();
    wait::until("the commit to be shipped", wait::SOON * 4, || {
        assert!(process.running(), "{}", process.stderr());
        let synced = scene.stand.seawall(&["sync", "app", "--wait", "--socket", "o.sock"]);
        (synced.code() == 0).then_some(())
    });
    process.stop().ok();
    fs::remove_file(scene.folder("v1")).unwrap();
    fs::rename(scene.folder("v1.away"), scene.folder("v1")).unwrap();
    scene.refuses(config, &[]);
    assert_eq!(scene.restores_from("v1"), scene.app.committed(), "nothing was written over");
}

/// The vaults of servers hold sets, whose names have a nonce: a foreign vault has none of ours.
#[test]
fn postgres_a_foreign_vault_of_a_server_is_never_restored_by_name() {
    let server = crate::postgres::server::Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("postgres", "CREATE DATABASE other");
    server.sql("shop", "CREATE TABLE t AS SELECT i FROM generate_series(1, 100) i");
    server.sql("other", "CREATE TABLE t AS SELECT i FROM generate_series(1, 7) i");
    let stand = seawall_tests::Stand::folder(seawall_tests::Random::from_env().seed());
    let configure = |database: &str, vaults: &str| {
        let text = format!(
            "databases:\n  - url: {}\n    name: shop\n    schedule: \"0 3 1 1 *\"\n    vaults: [{vaults}]\n",
            server.url(database)
        );
        fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    let names = ["v1", "v2", "v3"].map(|name| stand.path(name).display().to_string());
    configure("shop", &names.join(", "));
    stand.seawall(&["backup", "shop"]).ok();
    server.sql("shop", "INSERT INTO t SELECT i FROM generate_series(101, 200) i");
    stand.seawall(&["backup", "shop"]).ok();
    let restored = |from: &str, into: &str| {
        let output = stand.seawall(&["restore", from, "--to", &server.url(into)]).ok().to_string();
        (server.sql(into, "SELECT count(*) FROM t"), output)
    };
    assert_eq!(restored("shop", "back1").0, "200");

    // Later backups of another database, in the place of one vault.
    configure("other", stand.path("foreign").to_str().unwrap());
    stand.seawall(&["backup", "shop"]).ok();
    for bad in ["v1", "v3"] {
        let kept = stand.path(&format!("{bad}.kept"));
        add(&stand.path(bad), &kept);
        swap(&stand.path("foreign"), &stand.path(bad));
        configure("shop", &names.join(", "));
        let refused = stand.seawall(&["restore", "shop", "--to", &server.url("back2")]);
        let told = refused.to_string();
        assert!(refused.code() != 0 && told.contains("vault.unsure"), "{told}");
        assert!(names.iter().all(|name| told.contains(name)), "{told}");
        let refused = stand.seawall(&["restore", "shop", "--at", "1 second ago", "--to", &server.url("back2")]);
        assert!(refused.to_string().contains("vault.unsure"), "{refused}");
        swap(&kept, &stand.path(bad));
    }
    assert_eq!(restored(&names[1], "back3").0, "200");
    // One is empty.
    fs::create_dir_all(stand.path("nothing")).unwrap();
    swap(&stand.path("nothing"), &stand.path("v1"));
    let (count, told) = restored("shop", "back4");
    assert!(count == "200" && told.contains("passed over"), "{told}");
}

/// What the service noted on its host tells commands which vaults are the database's.
#[test]
fn postgres_commands_read_what_the_service_noted() {
    let server = crate::postgres::server::Server::start(15);
    for (database, count) in [("shop", 100), ("other", 7)] {
        server.sql("postgres", &format!("CREATE DATABASE {database}"));
        server.sql(database, &format!("CREATE TABLE t AS SELECT i FROM generate_series(1, {count}) i"));
    }
    let stand = seawall_tests::Stand::folder(seawall_tests::Random::from_env().seed());
    let configure = |database: &str, vaults: &str| {
        let text = format!(
            "databases:\n  - url: {}\n    name: shop\n    schedule: \"0 3 1 1 *\"\n    vaults: [{vaults}]\n",
            server.url(database)
        );
        fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    let names = ["v1", "v2"].map(|name| stand.path(name).display().to_string());
    configure("other", stand.path("foreign").to_str().unwrap());
    stand.seawall(&["backup", "shop"]).ok();
    configure("shop", &names.join(", "));
    stand.seawall(&["replicate", "--once", "--config", "seawall.yml"]).ok();
    swap(&stand.path("foreign"), &stand.path("v1"));
    let told = stand.seawall(&["restore", "shop", "--to", &server.url("back")]).ok().to_string();
    assert_eq!(server.sql("back", "SELECT count(*) FROM t"), "100", "{told}");
    assert!(told.contains("passed over") && told.contains(&names[0]), "{told}");
    // A host that knows nothing of them.
    let state = stand.path(".local/state/seawall/shop.vaults.json");
    fs::remove_file(&state).unwrap_or_else(|error| panic!("{}: {error}", state.display()));
    let refused = stand.seawall(&["restore", "shop", "--to", &server.url("back2")]);
    assert!(refused.code() != 0 && refused.to_string().contains("vault.unsure"), "{refused}");
}

/// A host that takes over restores from no vault by guess, and begins anew only if every vault says that it holds nothing.
#[test]
fn a_missing_database_is_restored_from_the_right_vault_or_not_at_all() {
    let (scene, mut process) = Scene::three();
    process.stop().ok();
    let config = scene.on_another_host(&["v1", "v2"]);
    let begin = || scene.stand.seawall(&["replicate", "--once", "--restore-if-missing", "--config", config]);
    let refuses = |why: &str| {
        let output = begin();
        assert!(output.code() != 0 && output.to_string().contains(why), "{why}: {output}");
        assert!(!scene.stand.path("other/app.db").exists(), "{output}");
    };
    // One is another database's.
    let ours = scene.folder("ours");
    add(&scene.folder("v1"), &ours);
    swap(&another().folder("vault"), &scene.folder("v1"));
    refuses("vault.unsure");
    // One was emptied, and the other is away.
    for entry in fs::read_dir(scene.folder("v1")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    scene.take_away("v2");
    refuses("vault.all-away");
}
