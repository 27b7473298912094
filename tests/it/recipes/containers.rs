//! Docker Compose, Kubernetes and Fly.io. No container runs here: the containers' own command lines, read from the page's files, are
//! run on this machine in the order that the files say.

use std::fs;

use saphyr::Yaml;
use seawall_tests::{App, Output, Random, digest, model, run, wait};

use super::page::{self, Page, texts};
use super::{check, host::Host};

/// What the page's containers run.
struct Containers {
    /// Before everything, to its end.
    restore: Vec<String>,
    /// The protection.
    seawall: Vec<String>,
    /// Whether the application may start.
    probe: Vec<String>,
    /// Back to an earlier moment, where that is a container of its own.
    back: Option<Vec<String>>,
}

/// Runs a container's words.
fn run_words(host: &Host, words: &[String]) -> Output {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    host.sh(&quoted.join(" "))
}

impl Containers {
    /// Starts what comes before the application.
    #[track_caller]
    fn up(&self, host: &mut Host) {
        run_words(host, &self.restore).ok();
        assert_eq!(self.seawall[0], "seawall");
        host.start_with(&self.seawall[1..].iter().map(String::as_str).collect::<Vec<_>>());
        run_words(host, &self.probe).ok();
    }

    /// Carries out the page's lines.
    fn carry_out(&self, host: &mut Host, lines: &[String]) {
        for line in lines {
            if line.starts_with("docker compose up")
                || line.ends_with("statefulset.yml")
                || line.ends_with("--replicas=1")
            {
                self.up(host);
            } else if line.starts_with("docker compose stop") || line.ends_with("--replicas=0") {
                host.stop();
            } else if line.ends_with("-f restore.yml") {
                run_words(host, self.back.as_ref().unwrap()).ok();
            } else if line.contains("seawall doctor") {
                // No host of systemd: a finding to look after is fine, a wrong one isn't.
                let told = host.sh("seawall doctor");
                assert!(told.code() < 2, "{told}");
            } else if line.contains("config check") {
                host.sh("seawall config check").ok();
            } else if !["kubectl create ", "kubectl wait ", "kubectl delete "]
                .iter()
                .any(|start| line.starts_with(start))
            {
                if line.ends_with("--check") {
                    settled(host);
                }
                host.carry_all_out(std::slice::from_ref(line));
            }
        }
    }
}

/// Waits until nothing is on its way any more, so that no alarm of the first moments is told.
fn settled(host: &Host) {
    wait::until("status --check", wait::SOON, || (host.sh("seawall status --check").code() == 0).then_some(()));
}

/// From the first start to the restore on a new machine.
fn carry_out(page: &Page, mut host: Host, containers: &Containers) {
    check(page);
    let seed = Random::from_env().seed();
    let file = host.path("/data/app.db");
    fs::create_dir_all(host.path("/data")).unwrap();
    // An empty vault is the first start.
    containers.up(&mut host);
    assert!(!file.exists());
    let mut app = App::start(&file, seed);
    let earlier = app.commit(20);
    host.settle(&["app"]);
    let moment = host.moment.clone();
    wait::pass(std::time::Duration::from_millis(20));
    host.stop();
    // The commands of the start, on a host that has a database.
    containers.carry_out(&mut host, &page.commands("Start").concat());
    let newest = app.commit(15);
    host.settle(&["app"]);
    let recorded = digest::of(&file);
    drop(app);

    host.lose(&["/data"]);
    let blocks = page.commands("Restore");
    let [restores @ .., earlier_moment] = &*blocks else { panic!("two blocks") };
    if !restores[0][0].starts_with("docker") {
        containers.up(&mut host);
    }
    containers.carry_out(&mut host, &restores.concat());
    assert_eq!((model::check(&file, seed), digest::of(&file)), (newest, recorded));
    // A second start finds the file, and leaves it.
    host.stop();
    containers.up(&mut host);
    assert_eq!(model::check(&file, seed), newest);

    host.moment = moment;
    containers.carry_out(&mut host, earlier_moment);
    assert_eq!(model::check(&file, seed), earlier);

    // Where the vault can't be read, the application isn't started.
    host.lose(&["/data"]);
    let vault = host.path("store/backups/shop");
    spoil(&vault);
    assert_ne!(run_words(&host, &containers.restore).code(), 0);
    assert!(!file.exists());
}

/// Damages every object of a vault.
fn spoil(folder: &std::path::Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => spoil(&path),
            path => fs::write(path, "junk").unwrap(),
        }
    }
}

#[test]
fn docker_compose_restores_protects_and_starts_in_this_order() {
    let page = Page::read("docker-compose");
    let compose = page.yaml("compose.yml");
    let [restore, seawall, app] = ["restore", "seawall", "app"].map(|name| &compose["services"][name]);
    let condition = |service: &Yaml<'_>, on: &str| service["depends_on"][on]["condition"].as_str().unwrap().to_owned();
    assert_eq!(condition(seawall, "restore"), "service_completed_successfully");
    assert_eq!(condition(app, "seawall"), "service_healthy");
    for service in [restore, seawall, app] {
        // The folder and never the file, and one user for all.
        assert_eq!(service["volumes"][0].as_str(), Some("data:/data"));
        assert_eq!(service["user"].as_str(), Some("65532:65532"));
    }
    // The image's entry point is the program.
    let of_image = |service: &Yaml<'_>| {
        assert!(
            service["image"].as_str().unwrap().starts_with("seawall:")
                && service.as_mapping_get("entrypoint").is_none()
        );
        [vec!["seawall".to_owned()], texts(&service["command"])].concat()
    };
    let (restore, seawall_words) = (of_image(restore), of_image(seawall));
    let probe = texts(&seawall["healthcheck"]["test"])[1..].to_vec();
    let containers = Containers { restore, seawall: seawall_words, probe, back: None };
    carry_out(&page, Host::with(&page), &containers);
}

#[test]
fn kubernetes_restores_protects_and_starts_in_this_order() {
    let page = Page::read("kubernetes");
    let (set, pod) = (page.yaml("statefulset.yml"), page.yaml("restore.yml"));
    assert_eq!(set["spec"]["replicas"].as_integer(), Some(1));
    let claim = &set["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["spec"]["accessModes"][0].as_str(), Some("ReadWriteOncePod"));
    let of_pod = &set["spec"]["template"]["spec"];
    let [restore, seawall] = [&of_pod["initContainers"][0], &of_pod["initContainers"][1]];
    assert_eq!((restore["name"].as_str(), seawall["name"].as_str()), (Some("restore"), Some("seawall")));
    assert_eq!(seawall["restartPolicy"].as_str(), Some("Always"), "a native sidecar");
    let back = &pod["spec"]["containers"][0];
    for container in [restore, seawall, back] {
        assert_eq!(container["env"][0]["value"].as_str(), Some("/etc/seawall/seawall.yml"));
        assert_eq!(container["volumeMounts"][0]["mountPath"].as_str(), Some("/data"));
    }
    let claimed = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"].as_str();
    assert_eq!(claimed, Some("data-shop-0"), "the claim of the pod: template, set, number");
    let containers = Containers {
        restore: texts(&restore["command"]),
        seawall: texts(&seawall["command"]),
        probe: texts(&seawall["startupProbe"]["exec"]["command"]),
        back: Some(texts(&back["command"])),
    };
    carry_out(&page, Host::with_config_at(&page, "/etc/seawall/seawall.yml"), &containers);
}

/// A server that notes how many rows it finds at its start, and adds rows until it is told to end.
const SERVER: &str = r#"#!/usr/bin/env python3
import signal, sqlite3, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
db = sqlite3.connect("/data/app.db", isolation_level=None, timeout=20)
db.execute("PRAGMA journal_mode = wal")
db.execute("CREATE TABLE IF NOT EXISTS rows(id INTEGER PRIMARY KEY, content TEXT)")
count = lambda: db.execute("SELECT count(*) FROM rows").fetchone()[0]
with open("/run/found", "w") as found:
    found.write(str(count()))
while True:
    db.execute("INSERT INTO rows SELECT 1 + count(*), 'row ' || (1 + count(*)) FROM rows")
    time.sleep(0.01)
"#;

/// The rows of a server's database, each of which must be whole.
fn rows(file: &std::path::Path) -> i64 {
    let db = digest::open(file);
    digest::check_integrity(&db, file);
    let sum = "SELECT count(*), coalesce(max(id), 0), coalesce(sum(content = 'row ' || id), 0) FROM rows";
    let (count, highest, whole): (i64, i64, i64) =
        db.query_row(sum, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!((count, count), (highest, whole));
    count
}

#[test]
fn fly_restores_before_the_program_starts() {
    use std::os::unix::fs::PermissionsExt as _;
    let page = Page::read("fly");
    check(&page);
    let mut host = Host::with(&page);
    // Python reads TOML since 3.11.
    host.write("/srv/fly.toml", page.file("fly.toml"));
    let script = "import json, sys, tomllib; print(json.dumps(tomllib.load(open(sys.argv[1], 'rb'))))";
    let toml = run("tomllib", host.command("python3").args(["-c", script]).arg(host.path("/srv/fly.toml"))).ok().json();
    assert_eq!((&toml["kill_signal"], &toml["kill_timeout"]), (&"SIGTERM".into(), &90.into()));
    assert_eq!(toml["mounts"]["destination"], "/data");
    let words = page.block("dockerfile").lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let words: Vec<String> = serde_json::from_str(words).unwrap();
    let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    host.write("bin/myserver", SERVER);
    fs::set_permissions(host.path("bin/myserver"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(host.path("/data")).unwrap();
    let (file, found) = (host.path("/data/app.db"), host.path("/run/found"));
    let found_by_the_server = || -> Option<i64> { fs::read_to_string(&found).ok()?.parse().ok() };

    // The first start: an empty vault.
    host.start_with(&words);
    wait::until("some rows", wait::SOON, || (file.exists() && found_by_the_server() == Some(0)).then_some(()));
    wait::until("more rows", wait::SOON, || (rows(&file) > 20).then_some(()));
    for line in page.commands("Start").concat().iter().filter(|line| page::seawall_part(line).is_some()) {
        if line.contains("--check") {
            settled(&host);
        }
        host.carry_all_out(std::slice::from_ref(line));
    }
    host.settle(&["app"]);
    let sure = rows(&file);
    let blocks = page.commands("Restore");
    host.carry_all_out(&blocks[1]);
    let earlier = rows(&host.path("/data/earlier.db"));
    assert!(earlier > 20 && earlier <= sure, "{earlier} of {sure}");
    fs::remove_file(host.path("/data/earlier.db")).unwrap();
    host.stop();
    let all = rows(&file);
    assert!(all >= sure);

    // The volume is lost.
    host.lose(&["/data"]);
    fs::remove_file(&found).unwrap();
    host.start_with(&words);
    assert_eq!(wait::until("the server", wait::SOON, found_by_the_server), all);
    for line in blocks[0].iter().filter(|line| page::seawall_part(line).is_some()) {
        if line.contains("--check") {
            settled(&host);
        }
        host.carry_all_out(std::slice::from_ref(line));
    }
    host.stop();
    // What the server added since then is in the vault as well.
    let back = host.path("back.db");
    host.sh(&format!("seawall restore app -o {}", back.display())).ok();
    assert_eq!(digest::of(&back), digest::of(&file));
    assert!(rows(&file) >= all);

    // A vault that can't be read: the server isn't started.
    host.lose(&["/data"]);
    fs::remove_file(&found).unwrap();
    let vault = host.path("store/shop-backups/shop");
    spoil(&vault);
    let ended = run("seawall", host.command("seawall").args(&words));
    assert_ne!(ended.code(), 0, "{ended}");
    assert!(!found.exists() && !file.exists());
}
