//! `continuous:` in a configuration, beside real servers: the log is received, bases are made by their schedule, and a restore by
//! the cluster's name recovers to the last commit. Every test ends in a recovered server whose rows are compared with what was
//! recorded.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use seawall_tests::{Output, Process, run, wait};
use serde_json::Value;

use crate::postgres::server::Server;
use crate::postgres_cluster::{FUNCTIONS, seawall};
use crate::wal::{self, LATE, SUMS, VERSIONS};

/// A server, a vault in a folder that its user can write, and a configuration of both.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) vault: PathBuf,
    pub(crate) config: PathBuf,
    transactions: u32,
    /// Variables of the program.
    environment: Vec<(&'static str, String)>,
}

impl Site {
    /// `more` is what the configuration says of the cluster beside its place.
    pub(crate) fn start(major: u32, settings: &str, more: &str) -> Self {
        Self::of(Self::server(major, settings), more)
    }

    /// A server with the role that protects it.
    pub(crate) fn server(major: u32, settings: &str) -> Server {
        let server = Server::start_with(major, &format!("wal_level = replica\nmax_wal_senders = 4\n{settings}"));
        server.sql("postgres", "CREATE TABLE t (tx int, n int, filler text); CREATE ROLE seawall LOGIN REPLICATION");
        server.sql("postgres", &format!("GRANT EXECUTE ON FUNCTION {} TO seawall", FUNCTIONS.join(", ")));
        server
    }

    /// A configuration of a server.
    fn of(server: Server, more: &str) -> Self {
        let vault = server.folder_of_its_own("vault");
        let url = server.url_as("seawall", "postgres");
        Self::at(server, &url, &vault, more, &[])
    }

    /// A configuration of a server at a URL and of a vault.
    pub(crate) fn at(
        server: Server,
        url: &str,
        vault: &str,
        more: &str,
        environment: &[(&'static str, String)],
    ) -> Self {
        let folder = PathBuf::from(server.folder_of_its_own("config"));
        let (socket, config) = (folder.join("control"), folder.join("seawall.yml"));
        let text = format!(
            "socket: {{ path: {} }}\ndatabases:\n  - name: shop\n    url: \"{url}\"\n    vault: \"{vault}\"\n{more}",
            socket.display()
        );
        std::fs::write(&config, text).expect("a configuration");
        Self { server, vault: PathBuf::from(vault), config, transactions: 0, environment: environment.to_vec() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = seawall(arguments);
        command.env("HOME", self.server.folder()).arg("--config").arg(&self.config);
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        command
    }

    pub(crate) fn seawall(&self, arguments: &[&str]) -> Output {
        run("seawall", &mut self.command(arguments))
    }

    pub(crate) fn protect(&self) -> Process {
        Process::spawn("seawall", &mut self.command(&["replicate"]))
    }

    pub(crate) fn status(&self) -> Option<Value> {
        let output = self.seawall(&["status", "--json"]);
        serde_json::from_str::<Value>(&output.stdout).ok()?.get(0).cloned()
    }

    /// Waits until a base is there and the log is in step.
    pub(crate) fn until_protected(&self) -> Value {
        wait::until("the cluster to be protected", LATE, || {
            self.status().filter(|status| status["phase"] == "protecting" && status["lag_ms"] == 0)
        })
    }

    pub(crate) fn commit(&mut self, transactions: u32) {
        wal::commit(&self.server, &mut self.transactions, transactions);
    }

    pub(crate) fn sums(&self) -> String {
        self.server.sql("postgres", SUMS)
    }

    pub(crate) fn bases(&self) -> usize {
        let listed =
            |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let clusters: Vec<PathBuf> = listed(&self.vault.join("physical")).collect();
        let bases = clusters.iter().flat_map(|cluster| listed(&cluster.join("bases")));
        bases.filter(|base| base.join("manifest.json").is_file()).count()
    }

    /// Ends a test: what is committed is shipped, the process is stopped, and a server that recovers has the same rows.
    pub(crate) fn all_comes_back(&self, mut process: Process) {
        self.seawall(&["sync", "shop", "--wait"]).ok();
        let sums = self.sums();
        process.stop().ok();
        assert_eq!(self.recovered(&[]).sql("postgres", SUMS), sums);
    }

    pub(crate) fn recovered(&self, more: &[&str]) -> Server {
        let restore = |data: &Path| {
            let to = data.display().to_string();
            self.seawall(&[&["restore", "shop", "-o", &to], more].concat()).ok();
        };
        Server::restored(&self.server, restore).expect("it recovers")
    }

    /// The same, by the configuration that lies in the current folder. The server that recovers runs in another one.
    fn recovered_by_the_default_configuration(&self) -> Server {
        let restore = |data: &Path| {
            let mut command = seawall(&["restore", "shop", "-o", &data.display().to_string()]);
            command.env("HOME", self.server.folder()).current_dir(self.config.parent().expect("a folder"));
            run("seawall", &mut command).ok();
        };
        Server::restored(&self.server, restore).expect("it recovers")
    }
}

pub(crate) const CONTINUOUS: &str = "    continuous: { base: \"0 2 * * SUN\" }\n";

#[test]
fn a_cluster_of_a_configuration_is_protected_to_the_last_commit() {
    for major in VERSIONS {
        let mut site = Site::start(major, "", CONTINUOUS);
        site.commit(3);
        let mut process = site.protect();
        let status = site.until_protected();
        // Without a bound the server's disk could fill, and the status says so.
        assert_eq!(status["error"]["code"], "postgres.slot-unbounded", "{status}");
        let alarms = status["alarms"].as_array().expect("alarms");
        assert!(alarms.iter().any(|alarm| alarm["code"] == "alarm.slot-unbounded"), "{status}");
        assert_eq!(site.bases(), 1);
        site.commit(20);
        let synced = site.seawall(&["sync", "shop", "--wait", "--json"]).ok().json();
        assert!(synced["position"].as_str().is_some_and(|position| position.contains('/')), "{synced}");
        let sums = site.sums();
        process.kill_9();
        site.server.kill();
        let recovered = site.recovered_by_the_default_configuration();
        assert_eq!(recovered.sql("postgres", SUMS), sums);
        drop(recovered);
        // A start makes no second base, and goes on.
        site.server.start_again();
        let mut process = site.protect();
        site.until_protected();
        site.commit(2);
        site.seawall(&["sync", "shop", "--wait"]).ok();
        assert_eq!(site.bases(), 1);
        let made = site.seawall(&["backup", "shop"]).ok();
        assert!(made.stdout.contains("changed since"), "{}", made.stdout);
        assert_eq!(site.bases(), 2);
        site.seawall(&["sync", "shop", "--wait"]).ok();
        let sums = site.sums();
        let timeline = site.seawall(&["timeline", "shop", "--json"]).ok().json();
        assert_eq!(timeline["spans"].as_array().map(Vec::len), Some(1), "{timeline}");
        process.stop().ok();
        assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
    }
}

#[test]
fn after_a_hole_a_base_is_made_at_once() {
    let settings = "wal_keep_size = 0\nmax_slot_wal_keep_size = '64MB'\n";
    let mut site = Site::start(18, settings, CONTINUOUS);
    let mut process = site.protect();
    let status = site.until_protected();
    assert!(status["error"].is_null(), "{status}");
    site.commit(3);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    process.stop().ok();
    // While no process runs, the slot is dropped and its log is removed.
    site.server.sql("postgres", "SELECT pg_drop_replication_slot('seawall')");
    for _ in 0..3 {
        site.commit(1);
        site.server.sql("postgres", "SELECT pg_switch_wal()");
        site.server.sql("postgres", "CHECKPOINT");
    }
    let mut process = site.protect();
    let made = || {
        let status = site.status()?;
        let bases = site.bases();
        // What is behind the hole isn't protected without it.
        assert!(bases == 2 || status["phase"] != "protecting", "{status}");
        (bases == 2).then_some(())
    };
    wait::until("a base behind the hole", LATE, made);
    let status = site.until_protected();
    let alarms = status["alarms"].as_array().expect("alarms");
    assert!(alarms.iter().any(|alarm| alarm["code"] == "alarm.hole"), "{status}");
    site.commit(2);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    let sums = site.sums();
    let timeline = site.seawall(&["timeline", "shop", "--json"]).ok().json();
    assert_eq!(timeline["holes"].as_array().map(Vec::len), Some(1), "{timeline}");
    assert_eq!(site.bases(), 2);
    let doctor = site.seawall(&["doctor", "--json"]).json();
    let told = doctor.as_array().expect("findings").iter().find(|finding| finding["check"] == "timeline");
    let told = told.unwrap_or_else(|| panic!("no finding of the timeline: {doctor}"));
    let reason = timeline["holes"][0]["reason"].as_str().expect("a reason");
    assert_eq!((told["object"].as_str(), told["verdict"].as_str()), (Some("shop"), Some("warning")), "{told}");
    assert!(told["meaning"].as_str().is_some_and(|meaning| meaning.contains(reason)), "{told}");
    process.stop().ok();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn a_cluster_whose_server_is_restarted_in_order_goes_on_within_seconds() {
    let mut site = Site::start(18, "max_slot_wal_keep_size = '1GB'\n", CONTINUOUS);
    let mut process = site.protect();
    site.until_protected();
    site.commit(3);
    site.server.stop();
    site.server.start_again();
    let begun = Instant::now();
    site.commit(3);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let status = site.until_protected();
    assert!(status["error"].is_null(), "{status}");
    assert!(!process.stderr().contains("postgres.protocol"), "{}", process.stderr());
    assert_eq!(site.bases(), 1);
    let sums = site.sums();
    process.stop().ok();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn a_vault_that_is_emptied_behind_the_process_gets_a_base_at_once() {
    let mut site = Site::start(18, "max_slot_wal_keep_size = '1GB'\n", CONTINUOUS);
    let mut process = site.protect();
    site.until_protected();
    site.commit(3);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    std::fs::remove_dir_all(site.vault.join("physical")).expect("removed");
    wait::until("the loss to be noticed", LATE, || {
        site.commit(1);
        process.stderr().contains("are gone").then_some(())
    });
    let made = || {
        let before = site.bases();
        let status = site.status()?;
        // Without a base nothing is protected.
        assert!(before + site.bases() > 0 || status["phase"] != "protecting", "{status}");
        (before == 1).then_some(())
    };
    wait::until("another base", LATE, made);
    site.commit(3);
    site.until_protected();
    site.all_comes_back(process);
}

/// Packs and parts of indexes that a vault has.
fn packs(site: &Site) -> Vec<PathBuf> {
    let listed = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let clusters: Vec<PathBuf> = listed(&site.vault.join("physical")).collect();
    let bases: Vec<PathBuf> = clusters.iter().flat_map(|cluster| listed(&cluster.join("bases"))).collect();
    let objects = bases.iter().flat_map(|base| listed(base));
    objects.filter(|object| object.extension().is_some_and(|end| end == "zst")).collect()
}

#[test]
fn a_base_whose_packs_are_gone_protects_nothing_and_another_one_is_made() {
    let mut site = Site::start(18, "max_slot_wal_keep_size = '1GB'\n", CONTINUOUS);
    let mut process = site.protect();
    site.until_protected();
    site.commit(3);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    process.stop().ok();
    let objects = packs(&site);
    assert!(!objects.is_empty());
    for object in &objects {
        std::fs::remove_file(object).expect("removed");
    }
    // The manifest and the log are all there, and nothing is restored.
    let timeline = site.seawall(&["timeline", "shop", "--json"]).json();
    assert_eq!(timeline["spans"].as_array().map(Vec::len), Some(0), "{timeline}");
    assert!(timeline["doubts"].to_string().contains(".zst"), "{timeline}");
    let status = site.status().expect("a status");
    assert!(status["protected"].is_null(), "{status}");
    let none = site.server.folder().join("none").display().to_string();
    for arguments in [&["--dry-run"][..], &[]] {
        let refused = site.seawall(&[&["restore", "shop", "-o", &none, "--json"], arguments].concat());
        assert_ne!(refused.code(), 0);
        let refused = refused.json();
        assert_eq!(refused["error"]["code"], "archive.corrupt", "{refused}");
        assert!(refused["error"]["object"].as_str().is_some_and(|object| object.ends_with(".zst")), "{refused}");
        assert!(!Path::new(&none).exists());
    }
    // The first look of a process tells it, and what is missing is sent again.
    let mut process = site.protect();
    wait::until("another base", LATE, || (site.bases() == 2).then_some(()));
    let told = process.stderr();
    assert!(told.contains("postgres.base-gone") && told.contains(".zst"), "{told}");
    let status = site.until_protected();
    assert!(status["error"].is_null(), "{status}");
    site.commit(3);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    // The first base still restores nothing, which is told.
    let timeline = site.seawall(&["timeline", "shop", "--json"]).exits(3).json();
    assert_eq!(timeline["spans"].as_array().map(Vec::len), Some(1), "{timeline}");
    let sums = site.sums();
    process.stop().ok();
    site.server.kill();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn a_slot_that_is_left_behind_is_told_with_the_statement() {
    let mut site = Site::start(18, "max_slot_wal_keep_size = '1GB'\n", CONTINUOUS);
    let mut process = site.protect();
    site.until_protected();
    process.stop().ok();
    let text = std::fs::read_to_string(&site.config).expect("a configuration");
    std::fs::write(&site.config, text.replace("{ base:", "{ slot: another, base:")).expect("written");
    let mut process = site.protect();
    site.commit(1);
    let told = || site.status().filter(|status| status["error"]["code"] == "postgres.slot-left");
    let status = wait::until("the slot to be told", LATE, told);
    let statement = "SELECT pg_drop_replication_slot('seawall')";
    assert!(status["error"]["next"].as_str().is_some_and(|next| next.contains(statement)), "{status}");
    let doctor = site.seawall(&["doctor", "--json"]).json();
    let finding = |finding: &&Value| finding["check"] == "settings" && finding.to_string().contains(statement);
    assert!(doctor.as_array().expect("findings").iter().any(|one| finding(&one)), "{doctor}");
    process.stop().ok();
    site.server.sql("postgres", statement);
    let process = site.protect();
    let status = site.until_protected();
    assert!(status["error"].is_null(), "{status}");
    site.commit(2);
    site.all_comes_back(process);
}

#[test]
fn variables_of_the_configuration_reach_the_server_that_recovers() {
    let server = Site::server(18, "max_slot_wal_keep_size = '1GB'\n");
    let (url, vault) = (server.url_as("seawall", "postgres"), server.folder_of_its_own("vault"));
    let variables = [("SHOPS_PLACE", vault), ("SHOPS_CHANNEL", "http://127.0.0.1:9/x".to_owned())];
    let mut site = Site::at(server, &url, "${SHOPS_PLACE}", CONTINUOUS, &variables);
    let text = std::fs::read_to_string(&site.config).expect("a configuration");
    let channel = "notify:\n  - { type: webhook, url: \"${SHOPS_CHANNEL}\" }\n";
    std::fs::write(&site.config, format!("{channel}{text}")).expect("written");
    let process = site.protect();
    site.until_protected();
    site.commit(3);
    site.all_comes_back(process);
}

#[test]
fn behind_a_failover_to_a_server_that_lacks_the_end_of_the_newest_base_one_is_made() {
    let settings = "max_slot_wal_keep_size = '1GB'\n";
    let mut site = Site::start(18, settings, CONTINUOUS);
    let standby = Server::standby_of(&site.server);
    let mut process = site.protect();
    site.until_protected();
    site.commit(3);
    let end = site.server.sql("postgres", "SELECT pg_current_wal_lsn()");
    let there = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    wait::until("the standby's log", LATE, || (standby.sql("postgres", &there) == "t").then_some(()));
    standby.sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
    standby.sql("postgres", "SELECT pg_reload_conf()");
    let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
    wait::until("the standby to be alone", LATE, || (standby.sql("postgres", receivers) == "0").then_some(()));
    // What the standby lacks, and a base behind it.
    site.commit(3);
    site.seawall(&["backup", "shop"]).ok();
    site.seawall(&["sync", "shop", "--wait"]).ok();
    process.stop().ok();
    let text = std::fs::read_to_string(&site.config).expect("a configuration");
    let url = |server: &Server| server.url_as("seawall", "postgres");
    std::fs::write(&site.config, text.replace(&url(&site.server), &url(&standby))).expect("written");
    site.server.kill();
    // The vault is in the old server's folder.
    let _old = std::mem::replace(&mut site.server, standby);
    site.server.sql("postgres", "SELECT pg_promote()");
    let process = site.protect();
    let made = || {
        let status = site.status()?;
        let bases = site.bases();
        assert!(bases == 3 || status["phase"] != "protecting", "{status}");
        (bases == 3).then_some(())
    };
    wait::until("a base on the new timeline", LATE, made);
    site.until_protected();
    site.commit(3);
    site.all_comes_back(process);
}

#[test]
fn behind_a_slot_that_was_made_anew_a_base_is_made_although_the_log_has_no_hole() {
    let mut site = Site::start(18, "max_slot_wal_keep_size = '1GB'\nwal_keep_size = '512MB'\n", CONTINUOUS);
    site.commit(3);
    let mut process = site.protect();
    site.until_protected();
    process.stop().ok();
    assert_eq!(site.bases(), 1);
    site.server.sql("postgres", "SELECT pg_drop_replication_slot('seawall')");
    site.commit(3);
    let mut process = site.protect();
    wait::until("another base", LATE, || (site.bases() == 2).then_some(()));
    let status = site.until_protected();
    assert!(status["hole"].is_null() && status["error"].is_null(), "{status}");
    site.commit(3);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    let sums = site.sums();
    process.kill_9();
    site.server.kill();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn a_standby_whose_log_is_shipped_is_not_alone() {
    let program = seawall_tests::seawall().canonicalize().expect("a program");
    let mut shipped = PathBuf::new();
    let archiving = |folder: &Path| {
        shipped = folder.join("shipped");
        let push = format!("{} wal push %p --vault {}", program.display(), shipped.display());
        format!("wal_level = replica\narchive_mode = on\narchive_command = '{push}'\nmax_wal_senders = 4\n")
    };
    let primary = Server::start_on(18, 5432, archiving).expect("the server gets ready");
    primary.sql("postgres", "CREATE TABLE t (tx int, n int, filler text); CREATE ROLE seawall LOGIN REPLICATION");
    // Whether it has a primary to receive from, only those may see who may read all settings.
    primary.sql("postgres", "GRANT pg_read_all_settings TO seawall");
    primary.sql("postgres", &format!("GRANT EXECUTE ON FUNCTION {} TO seawall", FUNCTIONS.join(", ")));
    let base = primary.base();
    let mut done = 0;
    wal::commit(&primary, &mut done, 1);
    let name = primary.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    wal::until_archived(&primary, &name);
    let restore = format!("restore_command = '{} wal fetch %f %p --vault {}'\n", program.display(), shipped.display());
    let standby = Server::recover(&base, "standby.signal", &format!("{restore}max_slot_wal_keep_size = '1GB'\n"));
    let mut site = Site::of(standby.expect("it starts"), CONTINUOUS);
    site.transactions = done;
    let mut process = site.protect();
    wal::commit(&primary, &mut site.transactions, 3);
    let name = primary.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    wal::until_archived(&primary, &name);
    let sums = primary.sql("postgres", SUMS);
    wait::until("the standby's rows", LATE, || (site.server.sql("postgres", SUMS) == sums).then_some(()));
    site.until_protected();
    let end = site.server.sql("postgres", "SELECT pg_last_wal_replay_lsn()");
    let there = format!("SELECT flush_lsn >= '{end}' FROM pg_stat_replication WHERE application_name = 'seawall'");
    wait::until("the log", LATE, || (site.server.sql("postgres", &there) == "t").then_some(()));
    let status = site.until_protected();
    assert!(status["error"].is_null(), "{status}");
    process.stop().ok();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn a_standby_that_lost_its_primary_is_not_in_step() {
    let mut primary = Site::server(18, "max_slot_wal_keep_size = '1GB'\n");
    primary.sql("postgres", "GRANT pg_read_all_settings TO seawall");
    let mut site = Site::of(Server::standby_of(&primary), CONTINUOUS);
    // As those have it that get log from an archive while their primary is away.
    site.server.sql("postgres", "ALTER SYSTEM SET restore_command = '/bin/false'");
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    let mut process = site.protect();
    wal::commit(&primary, &mut site.transactions, 3);
    let status = site.until_protected();
    assert!(status["error"].is_null(), "{status}");
    let end = primary.sql("postgres", "SELECT pg_current_wal_lsn()");
    let there = format!("SELECT flush_lsn >= '{end}' FROM pg_stat_replication WHERE application_name = 'seawall'");
    wait::until("the log", LATE, || (site.server.sql("postgres", &there) == "t").then_some(()));
    let sums = primary.sql("postgres", SUMS);
    primary.kill();
    let told = || site.status().filter(|status| status["error"]["code"] == "postgres.standby-alone");
    let status = wait::until("the loss to be told", LATE, told);
    assert_ne!(status["lag_ms"], 0, "{status}");
    process.stop().ok();
    // A process that never saw it receive anything tells it too.
    let mut process = site.protect();
    wait::until("the loss to be told again", LATE, told);
    process.stop().ok();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn a_pushed_log_and_bases_by_schedule_recover_too() {
    let program = seawall_tests::seawall().canonicalize().expect("a program");
    let archiving = |folder: &Path| {
        let push = format!("{} wal push %p --vault {}", program.display(), folder.join("vault").display());
        format!("wal_level = replica\narchive_mode = on\narchive_command = '{push}'\n")
    };
    let server = Server::start_on(18, 5432, archiving).expect("the server gets ready");
    server.sql("postgres", "CREATE TABLE t (tx int, n int, filler text); CREATE ROLE seawall LOGIN");
    server.sql("postgres", &format!("GRANT EXECUTE ON FUNCTION {} TO seawall", FUNCTIONS.join(", ")));
    let vault = server.folder().join("vault");
    let folder = PathBuf::from(server.folder_of_its_own("config"));
    let config = folder.join("seawall.yml");
    let url = server.url_as("seawall", "postgres");
    let text = format!(
        "socket: {{ path: {} }}\ndatabases:\n  - name: shop\n    url: \"{url}\"\n    vault: {}\n    continuous: {{ base: \"0 2 * * SUN\", log: pushed }}\n",
        folder.join("control").display(),
        vault.display()
    );
    std::fs::write(&config, text).expect("a configuration");
    let mut site = Site { server, vault, config, transactions: 0, environment: Vec::new() };
    let mut process = site.protect();
    wait::until("the first base", LATE, || (site.bases() == 1).then_some(()));
    site.commit(9);
    let name = site.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    wal::until_archived(&site.server, &name);
    // A look at the vault finds that the log of the base has come.
    let status = site.until_protected();
    assert!(status["error"].is_null(), "{status}");
    let sums = site.sums();
    process.stop().ok();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn commits_that_wait_too_long_are_told_and_go_on_by_the_statement_that_is_told() {
    let settings = "max_slot_wal_keep_size = '1GB'\nsynchronous_standby_names = 'seawall'\n";
    let more = "    continuous: { base: \"0 2 * * SUN\", synchronous: true, commit-wait: 2s }\n";
    let server = Site::server(18, "max_slot_wal_keep_size = '1GB'\n");
    std::fs::OpenOptions::new()
        .append(true)
        .open(server.data().join("postgresql.auto.conf"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, settings.as_bytes()))
        .expect("settings");
    let mut site = Site::of(server, more);
    let mut process = site.protect();
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    let waits = "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'seawall'";
    wait::until("commits to wait", LATE, || (site.server.sql("postgres", waits) == "sync").then_some(()));
    site.until_protected();
    site.commit(3);
    // The vault's disk is gone: a commit waits.
    let aside = site.vault.with_extension("aside");
    std::fs::rename(&site.vault, &aside).expect("moved");
    std::fs::write(&site.vault, "no folder").expect("written");
    let mut psql = site.server.tool("psql");
    psql.args(["-XqAt", "-d", "postgres", "-c", "INSERT INTO t VALUES (1001, 1, 'waits')"]);
    let mut waiting = psql.spawn().expect("psql runs");
    let told = || site.status().filter(|status| status["error"]["code"] == "postgres.commits-wait");
    let status = wait::until("the wait to be told", LATE, told);
    let alarms = status["alarms"].as_array().expect("alarms");
    assert!(alarms.iter().any(|alarm| alarm["code"] == "alarm.commits-wait"), "{status}");
    assert!(waiting.try_wait().expect("a child").is_none(), "it waits");
    // The statement that is told, as it stands there.
    let next = status["error"]["next"].as_str().expect("a next step");
    let statements = next.split_once("as a superuser: ").expect("statements").1;
    for statement in statements.split(';') {
        site.server.sql("postgres", statement);
    }
    assert!(waiting.wait().expect("a child").success());
    std::fs::remove_file(&site.vault).expect("removed");
    std::fs::rename(&aside, &site.vault).expect("moved back");
    let status = wait::until("the protection to go on", LATE, || {
        let status = site.status().filter(|status| status["phase"] == "protecting" && status["lag_ms"] == 0)?;
        // The process has heard of the setting, and says that commits don't wait any more.
        (status["error"]["code"] == "postgres.not-synchronous").then_some(status)
    });
    assert!(!status["alarms"].to_string().contains("alarm.commits-wait"), "{status}");
    let sums = site.sums();
    process.kill_9();
    site.server.kill();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn commits_wait_for_the_vault_where_they_are_to() {
    let settings = "max_slot_wal_keep_size = '1GB'\n";
    let more = "    continuous: { base: \"0 2 * * SUN\", synchronous: true }\n";
    let mut site = Site::start(15, settings, more);
    let mut process = site.protect();
    let status = site.until_protected();
    assert_eq!(status["error"]["code"], "postgres.not-synchronous", "{status}");
    site.server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'seawall'");
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    let waits = "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'seawall'";
    wait::until("commits to wait", LATE, || (site.server.sql("postgres", waits) == "sync").then_some(()));
    site.commit(10);
    // Whatever was committed is in the vault, without a word to the process.
    let sums = site.sums();
    process.kill_9();
    site.server.kill();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}
