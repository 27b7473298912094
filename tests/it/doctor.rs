//! What `seawall doctor` says of servers, units, histories and processes without a control socket: each is broken, and the answer
//! is read.

use std::path::Path;

use seawall_tests::{Place, Process, Random, Stand, wait};
use serde_json::Value;

use crate::mysql::server::Server as Mysql;
use crate::postgres::server::Server as Postgres;

/// The findings of one check, by object.
pub(crate) fn findings(stand: &Stand, check: &str, arguments: &[&str]) -> Vec<Value> {
    let told = stand.seawall(&[&["doctor", "--json"], arguments].concat());
    let all = told.json();
    // The text says what the document says.
    let text = stand.seawall(&[&["doctor"], arguments].concat()).stdout;
    let of_check: Vec<Value> =
        all.as_array().unwrap().iter().filter(|finding| finding["check"] == check).cloned().collect();
    for finding in &of_check {
        let (verdict, next) = (finding["verdict"].as_str().unwrap(), finding["next"].as_str().unwrap());
        assert!(text.contains(&format!("{verdict} [{check}] ")), "{text}");
        assert_eq!(next.is_empty(), verdict == "fine", "{finding}");
        assert!(text.contains(next), "{text}");
    }
    of_check
}

pub(crate) fn verdicts(findings: &[Value]) -> Vec<&str> {
    findings.iter().map(|finding| finding["verdict"].as_str().unwrap()).collect()
}

/// Configures backups of a server's database, with further keys of it.
pub(crate) fn configure(stand: &Stand, url: &str, more: &str) {
    let vault = stand.place.url();
    let text = format!(
        "databases:\n  - name: shop\n    url: \"{url}\"\n    schedule: \"0 3 * * *\"\n    vault: {vault}\n{more}"
    );
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
}

#[test]
fn postgres_grants_and_tools_are_named_with_what_mends_them() {
    let (stand, server) = (Stand::folder(1), Postgres::start(15));
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE orders (id int); CREATE ROLE keeper LOGIN");
    let url = server.url_as("keeper", "shop");
    configure(&stand, &url, "");
    let all = ["--no-vaults"];
    assert_eq!(verdicts(&findings(&stand, "connection", &all)), ["fine"]);
    let grants = findings(&stand, "grants", &all);
    assert_eq!(verdicts(&grants), ["wrong"], "{grants:?}");
    assert!(grants[0]["meaning"].as_str().unwrap().contains("it may not read public.orders"), "{grants:?}");
    stand.seawall(&["doctor", "--no-vaults"]).exits(2);

    // The statement is what mends it.
    server.sql("shop", grants[0]["next"].as_str().unwrap());
    assert_eq!(verdicts(&findings(&stand, "grants", &all)), ["fine"]);
    assert_eq!(verdicts(&findings(&stand, "tools", &all)), ["fine", "fine"]);

    // Without PostgreSQL's programs there is no backup, and no proof of the schedule.
    let empty = stand.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let proves = "    prove: { schedule: \"0 5 * * *\" }\n    backup: { pg-bindir: empty }\n";
    configure(&stand, &url, proves);
    let tools = findings(&stand, "tools", &all);
    assert_eq!(verdicts(&tools), ["wrong", "warning"], "{tools:?}");
    assert!(tools[0]["meaning"].as_str().unwrap().contains("pg_dump"), "{tools:?}");
    assert!(tools[1]["meaning"].as_str().unwrap().contains("initdb"), "{tools:?}");

    drop(server);
    let connection = findings(&stand, "connection", &all);
    assert_eq!(verdicts(&connection), ["wrong"], "{connection:?}");
}

#[test]
fn mysql_grants_are_named_with_what_mends_them() {
    let (stand, server) = (Stand::folder(2), Mysql::start());
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id int); CREATE USER keeper@'%' IDENTIFIED BY 'pw'; GRANT SELECT ON shop.* TO keeper@'%'");
    configure(&stand, &server.socket("keeper:pw", "shop"), "");
    let all = ["--no-vaults"];
    assert_eq!(verdicts(&findings(&stand, "connection", &all)), ["fine"]);
    let grants = findings(&stand, "grants", &all);
    assert_eq!(verdicts(&grants), ["wrong"], "{grants:?}");
    let mend = grants[0]["next"].as_str().unwrap();
    assert!(mend.starts_with("GRANT SHOW VIEW, TRIGGER, EVENT ON `shop`.* TO `keeper`@`%`;"), "{mend}");
    server.sql(mend);
    assert_eq!(verdicts(&findings(&stand, "grants", &all)), ["fine"]);
    assert_eq!(verdicts(&findings(&stand, "tools", &all)), ["fine"]);
}

/// The file of a link of the chain.
fn link(vault: &Path, number: u32) -> std::path::PathBuf {
    vault.join(format!("chain/{number:08}.json"))
}

#[test]
fn a_backup_without_its_link_and_a_broken_chain_are_found() {
    let (stand, server) = (Stand::folder(3), Postgres::start(15));
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE orders AS SELECT generate_series(1, 10) id");
    configure(&stand, &server.url("shop"), "");
    for _ in 0..3 {
        stand.seawall(&["backup", "shop"]).ok();
    }
    assert_eq!(verdicts(&findings(&stand, "timeline", &[])), ["fine"]);
    let Place::Folder(vault) = &stand.place else { panic!("a folder") };

    // A link in the middle is lost, with which a restore finds the backup.
    let timeline = stand.seawall(&["timeline", "shop", "--json"]).ok().json();
    let lost = timeline["spans"][1]["to"]["position"].as_str().unwrap();
    let bytes = std::fs::read(link(vault, 2)).unwrap();
    std::fs::remove_file(link(vault, 2)).unwrap();
    let chain = findings(&stand, "chain", &[]);
    assert_eq!(verdicts(&chain), ["wrong"], "{chain:?}");
    assert!(chain[0]["meaning"].as_str().unwrap().contains("chain/00000002.json"), "{chain:?}");
    let orphans = findings(&stand, "orphans", &[]);
    assert_eq!(verdicts(&orphans), ["warning"], "{orphans:?}");
    assert_eq!(orphans[0]["object"], format!("shop: sets/{lost}/"));

    // It comes back from a copy, and everything is well again.
    std::fs::write(link(vault, 2), &bytes).unwrap();
    assert_eq!(verdicts(&findings(&stand, "orphans", &[])), [""; 0]);
    assert_eq!(verdicts(&findings(&stand, "timeline", &[])), ["fine"]);
    std::fs::remove_file(link(vault, 2)).unwrap();
    stand.seawall(&["maintain", "shop", "--acknowledge", "2"]).ok();
    assert_eq!(verdicts(&findings(&stand, "chain", &[])), [""; 0]);
    assert_eq!(verdicts(&findings(&stand, "orphans", &[])), ["warning"], "its objects are still there");

    // A vault without a point is no history without faults.
    let text = std::fs::read_to_string(stand.path("seawall.yml")).unwrap();
    std::fs::write(stand.path("seawall.yml"), text.replace(&stand.place.url(), "./empty")).unwrap();
    let nothing = findings(&stand, "timeline", &[]);
    assert_eq!(verdicts(&nothing), ["warning"], "{nothing:?}");
    stand.seawall(&["backup", "shop"]).ok();
    assert_eq!(verdicts(&findings(&stand, "timeline", &[])), ["fine"]);
}

/// Configures the stand's database, with further keys of the process.
pub(crate) fn protect(stand: &Stand, more: &str) -> Process {
    let text = format!("{more}databases:\n  - path: app.db\n    vault: {}\n", stand.place.url());
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let mut seawall = Process::spawn("seawall", stand.command().arg("replicate"));
    stand.until_protected(&mut seawall);
    seawall
}

#[test]
fn a_process_without_a_control_socket_is_seen_by_its_locks() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let mut seawall = protect(&stand, "");
    wait::until("the doctor to see the process", wait::SOON, || (stand.seawall(&["doctor"]).code() == 0).then_some(()));
    let process = findings(&stand, "process", &[]);
    assert!(process[0]["meaning"].as_str().unwrap().contains("protects 1 of 1 database"), "{process:?}");
    assert_eq!(verdicts(&findings(&stand, "protection", &[])), ["fine"]);

    // A database more, of which the process doesn't know.
    let text = std::fs::read_to_string(stand.path("seawall.yml")).unwrap();
    let more = "  - path: new.db\n    vault: ./new\n";
    std::fs::write(stand.path("seawall.yml"), format!("{text}{more}")).unwrap();
    let all = ["--no-vaults"];
    assert_eq!(verdicts(&findings(&stand, "process", &all)), ["warning"]);
    let protection = findings(&stand, "protection", &all);
    let told: Vec<_> =
        protection.iter().map(|one| (one["object"].as_str().unwrap(), one["verdict"].as_str().unwrap())).collect();
    assert_eq!(told.len(), 2, "{protection:?}");
    assert!(told.iter().any(|(name, verdict)| name.contains("new") && *verdict == "warning"), "{protection:?}");

    // The configuration asks for a socket now, and the process has none.
    std::fs::write(stand.path("seawall.yml"), format!("socket: {{ path: s.sock }}\n{text}")).unwrap();
    assert_eq!(verdicts(&findings(&stand, "process", &[])), ["warning"]);
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    seawall.stop().ok();
    assert_eq!(verdicts(&findings(&stand, "process", &[])), ["wrong"]);
}

#[test]
fn a_unit_that_would_not_run_or_not_write_is_told() {
    // What lies below /dev, as the folder of temporary files may, can be written under any unit.
    let stand = Stand::folder_in(Path::new("/var/tmp"), Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let mut seawall = protect(&stand, "");
    let (config, unit) = (stand.path("seawall.yml"), stand.path("seawall.service"));
    let program = seawall_tests::seawall();
    let write = |more: &str| {
        let exec = format!("{} replicate --config {}", program.display(), config.display());
        std::fs::write(&unit, format!("[Service]\nExecStart={exec}\n{more}\n")).unwrap();
    };
    let arguments = ["--unit", "seawall.service", "--no-vaults"];
    write("");
    assert_eq!(verdicts(&findings(&stand, "unit", &arguments)), ["fine"]);
    write("ProtectSystem=strict");
    let found = findings(&stand, "unit", &arguments);
    assert!(!found.is_empty() && verdicts(&found).iter().all(|verdict| *verdict == "wrong"), "{found:?}");
    let folder = stand.path("app.db").parent().unwrap().display().to_string();
    assert!(
        found.iter().any(|one| one["next"].as_str().unwrap().contains(&format!("ReadWritePaths={folder} "))),
        "{found:?}"
    );
    write(&format!("ProtectSystem=strict\nReadWritePaths={folder}"));
    assert_eq!(verdicts(&findings(&stand, "unit", &arguments)), ["fine"]);

    // A file of variables with a secret that others may read, and one that is gone.
    std::fs::write(stand.path("env"), "AWS_SECRET_ACCESS_KEY=hush\n").unwrap();
    write(&format!("EnvironmentFile={}", stand.path("env").display()));
    let permissions = findings(&stand, "permissions", &arguments);
    assert_eq!(verdicts(&permissions), ["fine", "warning"], "{permissions:?}");
    std::fs::remove_file(stand.path("env")).unwrap();
    assert_eq!(verdicts(&findings(&stand, "unit", &arguments)), ["wrong"]);
    let exec = format!("/nowhere/seawall replicate --config {}", config.display());
    std::fs::write(&unit, format!("[Service]\nExecStart={exec}\n")).unwrap();
    assert_eq!(verdicts(&findings(&stand, "unit", &arguments)), ["wrong"]);
    std::fs::remove_file(&unit).unwrap();
    assert_eq!(verdicts(&findings(&stand, "unit", &arguments)), ["wrong"]);
    seawall.stop().ok();
}

/// The disk of the vault isn't mounted. A doctor who made its folder would let the process begin the vault anew on another disk.
#[test]
fn a_folder_that_is_missing_is_not_made() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let mut seawall = protect(&stand, "");
    seawall.stop().ok();
    let Place::Folder(vault) = &stand.place else { panic!("a folder") };
    let away = stand.path("away");
    std::fs::rename(vault, &away).unwrap();
    let told = findings(&stand, "vault", &[]);
    assert_eq!(verdicts(&told), ["wrong"], "{told:?}");
    assert!(told[0]["meaning"].as_str().unwrap().contains("vault.vanished"), "{told:?}");
    // On a machine that never wrote there, the vault may be a new one.
    let (notes, lost) = (stand.state().join("vault-place.json"), stand.path("lost"));
    std::fs::rename(&notes, &lost).unwrap();
    assert_eq!(verdicts(&findings(&stand, "vault", &[])), ["warning"]);
    std::fs::rename(&lost, &notes).unwrap();
    assert!(!vault.exists(), "the doctor changes nothing");
    std::fs::rename(&away, vault).unwrap();
    assert_eq!(verdicts(&findings(&stand, "vault", &[])), ["fine"]);
}

/// No process answers at a socket, so the doctor reads the records of proofs itself. What it can't read, it says.
#[test]
fn proofs_that_cannot_be_read_are_told() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let mut seawall = protect(&stand, "prove: { schedule: \"H 5 1 1 *\" }\n");
    let unread = || {
        let told = findings(&stand, "alarm", &[]);
        let is_unread = |finding: &&Value| finding["meaning"].as_str().unwrap().contains("its proofs can't be read");
        told.iter().filter(is_unread).map(|finding| finding["verdict"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(unread(), [""; 0]);
    let Place::Folder(vault) = &stand.place else { panic!("a folder") };
    let away = stand.path("away");
    std::fs::rename(vault, &away).unwrap();
    assert_eq!(unread(), ["warning"]);
    std::fs::rename(&away, vault).unwrap();
    assert_eq!(unread(), [""; 0]);
    seawall.stop().ok();
}

/// An object is missing, and nothing behind it can be restored.
#[test]
fn objects_that_no_restore_can_use_are_orphans() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    for _ in 0..4 {
        app.commit(2);
        protect(&stand, "").stop().ok();
    }
    stand.place.remove_merged();
    assert_eq!(verdicts(&findings(&stand, "orphans", &[])), [""; 0]);
    let (_, newest) = stand.place.unbroken();
    let missing = stand.place.object(0, newest - 1, newest - 1);
    let bytes = std::fs::read(&missing).unwrap();
    std::fs::remove_file(&missing).unwrap();
    let told = findings(&stand, "orphans", &[]);
    assert_eq!(verdicts(&told), ["warning"], "{told:?}");
    assert!(told[0]["object"].as_str().unwrap().ends_with(&seawall_tests::file_name(newest, newest)), "{told:?}");
    std::fs::write(&missing, bytes).unwrap();
    assert_eq!(verdicts(&findings(&stand, "orphans", &[])), [""; 0]);
}

/// The application wrote while nothing protected it, and cut its WAL: what was committed in between is unknown.
#[test]
fn a_new_hole_is_told() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    protect(&stand, "").stop().ok();
    assert_eq!(verdicts(&findings(&stand, "timeline", &[])), ["fine"]);
    app.commit(3);
    app.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    app.commit(3);
    protect(&stand, "").stop().ok();
    let told = findings(&stand, "timeline", &[]);
    assert_eq!(verdicts(&told), ["warning"], "{told:?}");
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    let reason = timeline["holes"][0]["reason"].as_str().unwrap();
    assert!(told[0]["meaning"].as_str().unwrap().contains(reason), "{told:?} {timeline}");
}

/// What nothing uses in the vault of an LMDB environment.
#[test]
fn objects_of_environments_that_nothing_uses_are_orphans() {
    let stand = Stand::folder(Random::from_env().seed());
    let cleanup = "cleanup: { interval: 5m, must-keep: 10m }";
    let text = format!(
        "databases:\n  - path: shard\n    name: shard\n    vault: ./store\n    lmdb: {{ instance: a, create: true, {cleanup} }}\n"
    );
    std::fs::write(stand.path("seawall.yml"), &text).unwrap();
    std::fs::create_dir(stand.path("shard")).unwrap();
    crate::environment::put(&stand.path("shard"), "k", "1");
    stand.seawall(&["replicate", "--once"]).ok();
    assert_eq!(verdicts(&findings(&stand, "orphans", &[])), [""; 0]);
    // What no instance reads, and what would be the newest until its moment comes.
    let store = stand.path("store");
    for name in ["shard__b.pb.gz", "shard__b__20990801-080000-000000000__GX.pb.gz"] {
        std::fs::write(store.join(name), "x").unwrap();
        let told = findings(&stand, "orphans", &[]);
        assert_eq!(verdicts(&told), ["warning"], "{told:?}");
        assert_eq!(told[0]["object"], format!("shard: {name}"));
        std::fs::remove_file(store.join(name)).unwrap();
    }
    // A young one that was replaced is no orphan: `cleanup` has a day.
    crate::environment::put(&stand.path("shard"), "k", "2");
    stand.seawall(&["replicate", "--once"]).ok();
    assert_eq!(verdicts(&findings(&stand, "orphans", &[])), [""; 0]);
}

/// Folders of databases, whose disk may not be mounted, and the place of proofs.
#[test]
fn folders_and_places_of_proofs_are_looked_at() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let configure = |dir: &str, scratch: &str| {
        let text = format!(
            "databases:\n  - dir: {dir}\n    pattern: '*.db'\n    vault: {}\n    prove: {{ schedule: \"0 5 * * *\", scratch: {scratch} }}\n",
            stand.place.url()
        );
        std::fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    let (all, here) = (["--no-vaults"], stand.path("."));
    configure(here.to_str().unwrap(), here.to_str().unwrap());
    assert_eq!(verdicts(&findings(&stand, "folder", &all)), ["fine"]);
    assert_eq!(findings(&stand, "scratch", &all).len(), 1);
    let source = findings(&stand, "source", &all);
    assert!(source.iter().any(|one| one["object"].as_str().unwrap().ends_with("app.db")), "{source:?}");
    // A killed proof left what it had restored.
    let left = stand.path("seawall-proof-abcdefghijkl");
    std::fs::create_dir_all(left.join("restored.db")).unwrap();
    let leftovers = findings(&stand, "leftovers", &all);
    assert_eq!(verdicts(&leftovers), ["warning"], "{leftovers:?}");
    std::fs::remove_dir_all(&left).unwrap();

    let (empty, nowhere) = (stand.path("empty"), stand.path("nowhere"));
    std::fs::create_dir(&empty).unwrap();
    configure(empty.to_str().unwrap(), nowhere.to_str().unwrap());
    assert_eq!(verdicts(&findings(&stand, "folder", &all)), ["warning"]);
    configure(nowhere.to_str().unwrap(), nowhere.to_str().unwrap());
    assert_eq!(verdicts(&findings(&stand, "folder", &all)), ["wrong"]);
}
