//! Each alarm that no other test ends: an engine raises it in the real program, with its cause and its next step, and it is over once the
//! cause is mended.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seawall_core::{Clock, Moment, NoProgress, Steady, SystemClock};
use seawall_mysql::{DumpOptions, World};
use seawall_tests::{Process, Random, Stand, wait};
use seawall_vault::testing::WebdavServer;
use seawall_vault::{Environment, Policy, Vault, VaultUrl};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::environment::put;
use crate::mysql::server::{Server, target};
use crate::several_vaults::Scene;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Writes a configuration with a control socket, these lines and one database.
fn configure(stand: &Stand, top: &str, database: &str) {
    let text =
        format!("socket: {{ path: s.sock }}\nsweep-interval: 1s\n{top}databases:\n  - {{ name: app, {database} }}\n");
    fs::write(stand.path("seawall.yml"), text).unwrap();
}

fn begin(stand: &Stand) -> Process {
    Process::spawn("seawall", stand.command().arg("replicate"))
}

/// The status of the configuration's database, and whether a check of it succeeds.
fn status(stand: &Stand) -> (Value, bool) {
    let told = stand.seawall(&["status", "--json", "--check"]);
    (told.json()[0].clone(), told.code() == 0)
}

fn alarm(status: &Value, code: &str) -> Option<Value> {
    status["alarms"].as_array()?.iter().find(|alarm| alarm["code"] == code).cloned()
}

/// Shows the last status of a test that waits in vain.
#[derive(Default)]
struct Last(Value);

impl Drop for Last {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last status: {:#}", self.0);
        }
    }
}

/// Waits until an alarm is raised. It has this severity, words of its cause, and a next step.
fn raised(stand: &Stand, code: &str, severity: &str, cause: &str) -> Value {
    let mut last = Last::default();
    let (status, found, is_well) = wait::until(code, wait::SOON * 2, || {
        let (status, is_well) = status(stand);
        last.0.clone_from(&status);
        let found = alarm(&status, code)?;
        Some((status, found, is_well))
    });
    assert_eq!(found["severity"], severity, "{found}");
    assert!(found["cause"].as_str().unwrap().contains(cause), "{cause}: {found}");
    assert!(found["next"].as_str().is_some_and(|next| next.len() > 10), "{found}");
    assert!(!is_well, "a check fails: {status}");
    status
}

/// Waits until an alarm is over, and the database is protected.
fn over(stand: &Stand, code: &str) -> Value {
    let mut last = Last::default();
    wait::until(&format!("the end of {code}"), wait::SOON * 2, || {
        let (status, _) = status(stand);
        last.0.clone_from(&status);
        (alarm(&status, code).is_none() && status["phase"] == "protecting").then_some(status)
    })
}

fn until_protected(stand: &Stand) {
    wait::until("the database to be protected", wait::SOON * 2, || {
        let (status, is_well) = status(stand);
        (is_well && status["protected"].is_object() && status["lag_bytes"] == 0).then_some(())
    });
}

#[test]
fn changes_that_wait_for_a_vault_that_is_away() {
    let lmdb = "lmdb: { instance: a, create: true, map-size: 64MiB, poll-interval: 50ms, retry-interval: 50ms }";
    for (file, more) in [("app.db", ""), ("shard", lmdb)] {
        let stand = Stand::folder(Random::from_env().seed());
        let mut app = stand.app();
        fs::create_dir(stand.path("shard")).unwrap();
        let mut commit = |value: &str| match more {
            "" => drop(app.commit(3)),
            _ => put(&stand.path("shard"), "k", value),
        };
        commit("1");
        configure(&stand, "alarms: { lag: 1s }\n", &format!("path: {file}, vault: vault, {more}"));
        let mut seawall = begin(&stand);
        until_protected(&stand);
        let (vault, away) = (stand.path("vault"), stand.path("away"));
        fs::rename(&vault, &away).unwrap();
        commit("2");
        let status = raised(&stand, "alarm.lag", "critical", "the oldest change that isn't in the vault waits for");
        assert!(status["lag_ms"].as_u64() > Some(1000), "{status}");
        fs::rename(&away, &vault).unwrap();
        over(&stand, "alarm.lag");
        seawall.stop().ok();
    }
}

#[test]
fn protection_that_stopped_because_another_process_protects() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    configure(&stand, "", "path: app.db, vault: vault, state-dir: other");
    let mut other = begin(&stand);
    until_protected(&stand);
    fs::rename(stand.path("seawall.yml"), stand.path("other.yml")).unwrap();
    configure(&stand, "", "path: app.db, vault: vault");
    let text = fs::read_to_string(stand.path("seawall.yml")).unwrap();
    fs::write(stand.path("seawall.yml"), text.replace("s.sock", "t.sock")).unwrap();
    let mut seawall = begin(&stand);
    raised(&stand, "alarm.halted", "critical", "protection has stopped until a person acts: ");
    other.stop().ok();
    stand.seawall(&["start", "app"]).ok();
    over(&stand, "alarm.halted");
    app.commit(1);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    seawall.stop().ok();
}

/// A frame of the WAL that is in the vault already is damaged: nothing is lost, and the disk may be ill.
#[test]
fn an_error_with_which_protection_goes_on() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    configure(&stand, "", "path: app.db, vault: vault");
    let mut seawall = begin(&stand);
    until_protected(&stand);
    app.commit(1);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    let wal = stand.path("app.db-wal");
    let flip = || {
        use std::os::unix::fs::FileExt as _;
        let file = fs::OpenOptions::new().read(true).write(true).open(&wal).unwrap();
        let (mut byte, last) = ([0], file.metadata().unwrap().len() - 100);
        file.read_exact_at(&mut byte, last).unwrap();
        file.write_all_at(&[byte[0] ^ 1], last).unwrap();
    };
    flip();
    raised(&stand, "alarm.error", "warning", "protection goes on with an error: ");
    flip();
    app.commit(1);
    over(&stand, "alarm.error");
    seawall.stop().ok();
}

#[test]
fn one_of_two_vaults_that_is_away() {
    let mut scene = Scene::plain(&["v1", "v2"]);
    let file = scene.stand.path("seawall.yml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + "alarms: { vault-behind: 1s }\n").unwrap();
    let mut seawall = scene.begin();
    scene.ship(&mut seawall);
    scene.until_in_step(2);
    scene.take_away("v2");
    scene.ship(&mut seawall);
    let status = raised(&scene.stand, "alarm.vault-behind", "warning", "v2 is behind for ");
    assert_eq!(status["phase"], "protecting", "the other vault is enough: {status}");
    scene.bring_back("v2");
    over(&scene.stand, "alarm.vault-behind");
    seawall.stop().ok();
}

#[test]
fn a_store_without_conditional_writes() {
    let folder = tempfile::tempdir().unwrap();
    let server = runtime().block_on(WebdavServer::nginx("a weak vault", folder.path())).unwrap();
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let database = format!("path: app.db, vault: '{}'", server.url("harbour/app"));
    configure(&stand, "", &database);
    let mut seawall = begin(&stand);
    raised(&stand, "alarm.vault-weak", "warning", "the vault has no create-only: ");
    configure(&stand, "alarms: { severity: { alarm.vault-weak: off } }\n", &database);
    stand.seawall(&["config", "reload"]).ok();
    over(&stand, "alarm.vault-weak");
    seawall.stop().ok();
}

/// A snapshot is lost: protection goes on, and the vault isn't what it was.
#[test]
fn a_snapshot_of_an_environment_that_is_gone() {
    let stand = Stand::folder(Random::from_env().seed());
    fs::create_dir(stand.path("shard")).unwrap();
    put(&stand.path("shard"), "k", "1");
    let lmdb = "lmdb: { instance: a, create: true, map-size: 64MiB, poll-interval: 50ms, list-interval: 50ms }";
    configure(&stand, "", &format!("path: shard, vault: vault, {lmdb}"));
    let mut seawall = begin(&stand);
    until_protected(&stand);
    for entry in fs::read_dir(stand.path("vault")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("__a__") {
            fs::remove_file(path).unwrap();
        }
    }
    let status = raised(&stand, "alarm.unsafe", "critical", "(lmdb.lost)");
    assert_eq!(status["phase"], "protecting", "{status}");
    seawall.stop().ok();
}

/// A host's clock that stands still, and may be wrong.
#[derive(Debug)]
struct Still(Moment);

impl Clock for Still {
    fn now(&self) -> Moment {
        self.0
    }

    fn steady(&self) -> Steady {
        Steady { boot: 0, millis: 0 }
    }
}

const DAY: Duration = Duration::from_secs(86_400);

/// A backup of a database that is made while the clock says `moment`.
pub(crate) fn backup_at(server: &Server, database: &str, vault: &Path, moment: Moment) {
    let world = World { clock: Arc::new(Still(moment)), environment: Environment::empty(), nonce: 7 };
    let url = VaultUrl::parse(&format!("file://{}", vault.display())).unwrap();
    runtime().block_on(async {
        let vault = Vault::open(&url, &Environment::empty(), Policy::default()).await.unwrap();
        let options = DumpOptions::default();
        let source = target(&server.url(database));
        seawall_mysql::dump(&source, &vault, &options, &world, Arc::new(NoProgress)).await.unwrap();
    });
}

fn shop() -> Server {
    let server = Server::start();
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a int PRIMARY KEY); INSERT INTO shop.t VALUES (1), (2)");
    server
}

/// The backups of a server's database by a schedule of each day.
fn configure_shop(stand: &Stand, server: &Server, more: &str) {
    let top = "alarms: { backup-overdue: 1s }\n";
    configure(stand, top, &format!("url: '{}', vault: vault, schedule: '0 3 * * *'{more}", server.url("shop")));
}

/// The server accepts connections and answers nothing, as one whose disk hangs.
#[test]
fn mysql_a_backup_that_hangs_and_is_late() {
    let (stand, server) = (Stand::folder(1), shop());
    backup_at(&server, "shop", &stand.path("vault"), SystemClock.now().before(DAY * 2));
    configure_shop(&stand, &server, "");
    let pid: i32 = fs::read_to_string(server.file("pid")).unwrap().trim().parse().unwrap();
    let signal = |signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    signal(Signal::STOP);
    let mut seawall = begin(&stand);
    let cause = "a backup should have been made 1 d";
    let status = raised(&stand, "alarm.backup-overdue", "critical", cause);
    assert!(status["lag_ms"].as_u64() > Some(3_600_000), "{status}");
    signal(Signal::CONT);
    let status = over(&stand, "alarm.backup-overdue");
    let moment: Moment = status["protected"]["moment"].as_str().unwrap().parse().unwrap();
    assert!(SystemClock.now().since(moment) < DAY, "{status}");
    seawall.stop().ok();
}

/// The user's program that runs before it never ends.
#[test]
fn mysql_a_first_backup_that_does_not_begin() {
    let (stand, server) = (Stand::folder(1), shop());
    configure_shop(&stand, &server, ", hooks: { before-backup: 'sleep 600', shell: true, timeout: 20m }");
    let mut seawall = begin(&stand);
    raised(&stand, "alarm.backup-overdue", "critical", "the first backup hasn't moved for ");
    configure_shop(&stand, &server, "");
    stand.seawall(&["config", "reload"]).ok();
    over(&stand, "alarm.backup-overdue");
    seawall.stop().ok();
}

#[test]
fn mysql_a_chain_that_lacks_a_link_and_retention_that_fails() {
    let (stand, server) = (Stand::folder(1), shop());
    configure_shop(&stand, &server, ", retention: { keep: 1ms, minimum: 1, grace: 1ms }");
    for _ in 0..3 {
        stand.seawall(&["backup", "app"]).ok();
    }
    let (link, away) = (stand.path("vault/chain/00000002.json"), stand.path("away.json"));
    fs::rename(&link, &away).unwrap();
    let mut seawall = begin(&stand);
    let told = raised(&stand, "alarm.chain", "critical", "chain/00000002.json");
    assert_eq!(told["upkeep"]["code"], "archive.alarm", "{told}");
    fs::rename(&away, &link).unwrap();
    // Behind the next backup retention looks again.
    stand.seawall(&["sync", "app", "--wait"]).ok();
    over(&stand, "alarm.chain");

    // Pins can't be listed: a link leads to itself.
    let pins = stand.path("vault/pins");
    std::os::unix::fs::symlink("pins", &pins).unwrap();
    let told = wait::until("retention to fail again and again", wait::SOON * 2, || {
        stand.seawall(&["sync", "app", "--wait"]).ok();
        let (status, _) = status(&stand);
        alarm(&status, "alarm.retention").map(|_| status)
    });
    assert_eq!((&told["phase"], &told["upkeep"]["count"]), (&"protecting".into(), &3.into()), "{told}");
    raised(&stand, "alarm.retention", "warning", "merging or deleting in the vault fails again and again: ");
    fs::remove_file(&pins).unwrap();
    stand.seawall(&["sync", "app", "--wait"]).ok();
    over(&stand, "alarm.retention");
    seawall.stop().ok();
}
