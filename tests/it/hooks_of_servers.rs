//! Hooks around backups, proofs and restores of a server, by the command line and by a running process.

use std::fs;

use seawall_tests::{Output, Process, Random, Stand, wait};

use crate::postgres::server::Server;

const HOOKS: [&str; 7] =
    ["before-backup", "after-backup", "before-proof", "after-proof", "before-restore", "after-restore", "on-failure"];

struct Scene {
    stand: Stand,
    server: Server,
}

impl Scene {
    fn new() -> Self {
        let (stand, server) = (Stand::folder(Random::from_env().seed()), Server::start(15));
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql("shop", "CREATE TABLE t AS SELECT i FROM generate_series(1, 100) i");
        Self { stand, server }
    }

    /// A configuration whose hooks write a line each. `before` is what else the hook before a backup does.
    fn configure(&self, schedule: &str, before: &str) {
        let notes = self.stand.path("notes");
        let note = format!(
            "echo \"$SEAWALL_HOOK $SEAWALL_OPERATION $SEAWALL_DATABASE $SEAWALL_ERROR_CODE\" >> {0}; env > {0}.env",
            notes.display()
        );
        let mut hooks = String::new();
        for hook in HOOKS {
            let more = if hook == "before-backup" { before } else { "true" };
            hooks += &format!("  {hook}: |\n    {note}; {more}\n");
        }
        let text = format!(
            "socket: {{ path: s.sock }}\nhooks:\n  shell: true\n{hooks}databases:\n  - url: {}\n    name: shop\n    \
             vault: {}\n    schedule: \"{schedule}\"\n",
            self.server.url("shop"),
            self.stand.place.url()
        );
        fs::write(self.stand.path("seawall.yml"), text).unwrap();
    }

    fn seawall(&self, args: &[&str]) -> Output {
        self.stand.seawall(&[args, &["--config", "seawall.yml"]].concat())
    }

    /// The lines since the last call.
    fn notes(&self) -> Vec<String> {
        let path = self.stand.path("notes");
        let text = fs::read_to_string(&path).unwrap_or_default();
        drop(fs::remove_file(path));
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn sets(&self) -> usize {
        let listed = self.stand.seawall(&["timeline", &self.stand.place.url(), "--json"]);
        if listed.code() == 0 { listed.json()["spans"].as_array().unwrap().len() } else { 0 }
    }
}

#[test]
fn postgres_hooks_run_around_backups_proofs_and_restores() {
    let scene = Scene::new();
    scene.configure("0 3 1 1 *", "true");
    scene.seawall(&["backup", "shop"]).ok();
    assert_eq!(scene.notes(), ["before-backup backup shop", "after-backup backup shop"]);
    scene.seawall(&["verify", "shop", "--restore"]).ok();
    assert_eq!(scene.notes(), ["before-proof proof shop", "after-proof proof shop"]);
    scene.seawall(&["restore", "shop", "--to", &scene.server.url("back")]).ok();
    assert_eq!(scene.notes(), ["before-restore restore shop", "after-restore restore shop"]);
    assert_eq!(scene.server.sql("back", "SELECT count(*) FROM t"), "100");

    // A hook that fails before a backup refuses it; a server that is away makes one fail.
    scene.configure("0 3 1 1 *", "false");
    let refused = scene.seawall(&["backup", "shop"]).exits(1);
    assert!(refused.stderr.contains("error[hook.refused]"), "{refused}");
    assert_eq!(scene.notes(), ["before-backup backup shop", "on-failure backup shop hook.refused"]);
    assert_eq!(scene.sets(), 1, "nothing was backed up");
    scene.configure("0 3 1 1 *", "true");
    scene.server.sql("postgres", "ALTER DATABASE shop RENAME TO other");
    let failed = scene.seawall(&["backup", "shop"]).exits(4);
    let notes = scene.notes();
    let code = notes[1].strip_prefix("on-failure backup shop ").unwrap();
    assert!(notes.len() == 2 && failed.stderr.contains(&format!("error[{code}]")), "{notes:?} {failed}");
}

#[test]
fn postgres_hooks_run_around_the_backups_of_a_running_process() {
    let scene = Scene::new();
    scene.configure("* * * * *", "true");
    let mut process = Process::spawn("seawall", scene.stand.command().args(["replicate", "--config", "seawall.yml"]));
    // A database without a set is backed up at once.
    wait::until("a backup with its hooks", wait::SOON * 8, || {
        assert!(process.running(), "{}", process.stderr());
        let text = fs::read_to_string(scene.stand.path("notes")).unwrap_or_default();
        text.contains("after-backup backup shop").then_some(())
    });
    // The hook writes its line first, and then its variables.
    wait::until("the hook's variables", wait::SOON * 2, || {
        let told = fs::read_to_string(scene.stand.path("notes.env")).unwrap_or_default();
        (told.contains("SEAWALL_SOURCE=postgresql://") && told.contains("SEAWALL_VAULT=file://")).then_some(())
    });
    process.stop().ok();
    assert!(scene.sets() >= 1);
}
