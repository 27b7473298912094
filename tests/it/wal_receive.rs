//! `seawall wal receive` beside real servers. Every test ends in a recovered server whose rows are compared with what was
//! recorded.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seawall_tests::{Process, Random, run, seawall, wait};

use crate::postgres::server::Server;
use crate::wal::{
    LATE, SUMS, VERSIONS, as_owner, fetch, fetch_from, push_into, recover, scratch, stops, until_archived,
};

const CONFIGURATION: &str = "wal_level = replica\nmax_wal_senders = 8\nmax_replication_slots = 8\nwal_keep_size = 0\n";

/// A server, and a vault in a folder that its user can write.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) vault: PathBuf,
    transactions: u32,
}

impl Site {
    pub(crate) fn start(major: u32, more: &str) -> Self {
        let server = Server::start_with(major, &format!("{CONFIGURATION}{more}"));
        server.sql("postgres", "CREATE TABLE t (tx int, n int, filler text)");
        let vault = PathBuf::from(server.folder_of_its_own("vault"));
        Self { server, vault, transactions: 0 }
    }

    pub(crate) fn receive(&self) -> Process {
        receive(&self.server, &self.vault)
    }

    /// Commits so many transactions of a few rows.
    pub(crate) fn commit(&mut self, transactions: u32) {
        for _ in 0..transactions {
            self.transactions += 1;
            let tx = self.transactions;
            let sql = format!(
                "INSERT INTO t SELECT {tx}, n, repeat(md5((n * {tx})::text), 50) FROM generate_series(1, {tx} % 7 + 1) n"
            );
            self.server.sql("postgres", &sql);
        }
    }

    pub(crate) fn sums(&self) -> String {
        self.server.sql("postgres", SUMS)
    }

    /// Waits until the vault has everything that is committed.
    pub(crate) fn until_stored(&self) {
        until_stored(&self.server);
    }

    fn objects(&self, ending: &str) -> Vec<String> {
        objects(&self.vault, ending)
    }
}

pub(crate) fn receive(server: &Server, vault: &Path) -> Process {
    let mut command = as_owner(&seawall());
    command.current_dir("/tmp").args(["wal", "receive", &server.url("postgres")]).arg(vault);
    Process::spawn("seawall", &mut command)
}

fn until_stored(server: &Server) {
    let end = server.sql("postgres", "SELECT pg_current_wal_lsn()");
    let sql =
        format!("SELECT count(*) FROM pg_stat_replication WHERE application_name = 'seawall' AND flush_lsn >= '{end}'");
    wait::until("the vault to have the log", LATE, || (server.sql("postgres", &sql) == "1").then_some(()));
    let applied =
        "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'seawall' AND replay_lsn IS NOT NULL";
    assert_eq!(server.sql("postgres", applied), "0", "nothing is said to be applied");
}

fn list(vault: &Path) -> seawall_tests::Output {
    run("wal list", std::process::Command::new(seawall()).args(["wal", "list"]).arg(vault))
}

/// The names of a vault's objects with this ending, below a timeline.
pub(crate) fn objects(vault: &Path, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![vault.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            match entry.file_type().expect("a type").is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.file_name().to_string_lossy().into_owned()),
            }
        }
    }
    found.retain(|name| name.ends_with(ending));
    found.sort();
    found
}

#[test]
fn received_log_recovers_to_the_last_commit() {
    for major in VERSIONS {
        let mut site = Site::start(major, "");
        site.commit(3);
        let mut receiver = site.receive();
        site.until_stored();
        let base = site.server.base();
        site.commit(20);
        site.until_stored();
        assert!(!site.objects(".zst").is_empty());
        let sums = site.sums();
        // Everything is lost but the vault.
        receiver.kill_9();
        site.server.kill();
        list(&site.vault).exits(0);
        assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums, "{major}");
    }
}

#[test]
fn received_segments_are_the_servers_and_replace_their_ranges() {
    let mut site = Site::start(18, "");
    let mut receiver = site.receive();
    site.until_stored();
    let base = site.server.base();
    let mut names = Vec::new();
    for _ in 0..3 {
        site.commit(3);
        site.until_stored();
        names.push(site.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())"));
        site.commit(1);
        site.until_stored();
    }
    let folder = scratch();
    for name in &names {
        let there = || site.objects(".zst").contains(&format!("{name}.zst")).then_some(());
        wait::until(&format!("{name} as one object"), LATE, there);
        let to = folder.path().join(name);
        fetch(&site.vault, name, &to, &[]).ok();
        let own = std::fs::read(site.server.folder().join("data/pg_wal").join(name)).expect("in pg_wal");
        assert!(std::fs::read(&to).expect("read") == own, "{name}");
    }
    let last = u64::from_str_radix(&names.last().expect("a name")[16..], 16).expect("hex");
    let left = || {
        let ranges = site.objects(".zst").into_iter().filter(|name| name.contains('-'));
        let old = ranges.filter(|name| u64::from_str_radix(&name[..16], 16).expect("hex") >> 24 <= last).count();
        (old == 0).then_some(())
    };
    wait::until("the ranges of complete segments to go", LATE, left);
    let sums = site.sums();
    site.until_stored();
    receiver.stop().ok();
    assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn received_log_survives_kills_of_the_receiver_under_load() {
    let mut random = Random::from_env();
    for major in VERSIONS {
        let site = Site::start(major, "");
        let mut receiver = site.receive();
        site.until_stored();
        let base = site.server.base();
        let mut load = site.server.tool("pgbench");
        load.args(["-i", "-q", "-s", "1", "postgres"]).stderr(std::process::Stdio::null());
        assert!(load.status().expect("pgbench runs").success());
        let mut bench = site.server.tool("pgbench");
        bench.args(["-n", "-c", "4", "-T", "12", "postgres"]);
        bench.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut bench = bench.spawn().expect("pgbench runs");
        let mut kills = 0;
        while bench.try_wait().expect("a child").is_none() {
            wait::pass(Duration::from_millis(random.below(2500)));
            receiver.kill_9();
            receiver = site.receive();
            kills += 1;
        }
        assert!(kills > 2, "{kills}");
        site.until_stored();
        let sum = "SELECT (SELECT sum(abalance) || ' ' || sum(hashtextextended(a::text, 0)) FROM pgbench_accounts a), \
                   (SELECT sum(bbalance) FROM pgbench_branches), (SELECT count(*) || ' ' || sum(delta) FROM pgbench_history)";
        let sums = site.server.sql("postgres", sum);
        receiver.kill_9();
        assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", sum), sums, "{major}");
    }
}

#[test]
fn received_log_waits_for_a_store_that_is_away_and_for_a_server_that_restarts() {
    let mut site = Site::start(15, "");
    let mut receiver = site.receive();
    site.until_stored();
    let base = site.server.base();
    site.commit(5);
    site.until_stored();
    let aside = site.server.folder().join("aside");
    std::fs::rename(&site.vault, &aside).expect("moved");
    std::fs::write(&site.vault, "no folder").expect("written");
    // Commits don't wait for the vault.
    site.commit(10);
    let failed = || receiver.stderr().contains("the log isn't received").then_some(());
    wait::until("a failure", LATE, failed);
    std::fs::remove_file(&site.vault).expect("removed");
    std::fs::rename(&aside, &site.vault).expect("moved back");
    site.until_stored();
    site.server.kill_9();
    site.server.start_again();
    site.commit(10);
    site.until_stored();
    let sums = site.sums();
    receiver.stop().ok();
    assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn received_log_goes_on_behind_orderly_restarts_of_the_server() {
    for major in VERSIONS {
        let mut site = Site::start(major, "");
        let mut receiver = site.receive();
        site.until_stored();
        let base = site.server.base();
        for _ in 0..2 {
            site.commit(5);
            site.server.stop();
            site.server.start_again();
            // The waits between sessions are a second at first.
            let begun = Instant::now();
            let streams = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'seawall'";
            wait::until("the stream", LATE, || (site.server.sql("postgres", streams) == "1").then_some(()));
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        }
        assert!(!receiver.stderr().contains("postgres.protocol"), "{}", receiver.stderr());
        site.commit(5);
        site.until_stored();
        let sums = site.sums();
        receiver.stop().ok();
        assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
    }
}

#[test]
fn received_log_follows_a_promotion_and_refuses_the_demoted_server() {
    for major in VERSIONS {
        let mut old = Site::start(major, "");
        old.commit(3);
        let standby = Server::standby_of(&old.server);
        let mut receiver = receive(&standby, &old.vault);
        let base = old.server.base();
        old.commit(5);
        let end = old.server.sql("postgres", "SELECT pg_current_wal_lsn()");
        let stored = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'seawall' AND flush_lsn >= '{end}'"
        );
        wait::until("the standby's log", LATE, || (standby.sql("postgres", &stored) == "1").then_some(()));
        standby.sql("postgres", "SELECT pg_promote()");
        for tx in 1001..1010 {
            standby.sql("postgres", &format!("INSERT INTO t VALUES ({tx}, 1, repeat('new', {tx}))"));
        }
        until_stored(&standby);
        let sums = standby.sql("postgres", SUMS);
        receiver.stop().ok();
        assert_eq!(objects(&old.vault, ".history"), ["00000002.history"]);
        // The old server goes on: its log is another branch.
        old.commit(5);
        let before = objects(&old.vault, "");
        let mut refused = old.receive();
        let told = || refused.stderr().contains("log.demoted").then_some(());
        wait::until("the refusal", LATE, told);
        refused.stop();
        assert_eq!(objects(&old.vault, ""), before, "nothing of it is in the vault");
        assert_eq!(recover(&base, &fetch_from(&old.vault, "")).sql("postgres", SUMS), sums, "{major}");
    }
}

#[test]
fn a_receiver_of_the_old_server_ends_its_session_when_the_promoted_one_ships_into_the_vault() {
    let mut old = Site::start(18, "");
    let standby = Server::standby_of(&old.server);
    let mut receiver = old.receive();
    old.until_stored();
    let base = old.server.base();
    old.commit(3);
    old.until_stored();
    let end = old.server.sql("postgres", "SELECT pg_current_wal_lsn()");
    let there = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    wait::until("the standby's log", LATE, || (standby.sql("postgres", &there) == "t").then_some(()));
    standby.sql("postgres", "SELECT pg_promote()");
    standby.sql("postgres", "INSERT INTO t VALUES (1001, 1, 'new')");
    let mut new = receive(&standby, &old.vault);
    until_stored(&standby);
    // Both servers take writes.
    wait::until("the old one to be refused", LATE, || {
        old.commit(1);
        receiver.stderr().contains("log.demoted").then_some(())
    });
    receiver.stop();
    until_stored(&standby);
    let sums = standby.sql("postgres", SUMS);
    new.stop().ok();
    assert_eq!(recover(&base, &fetch_from(&old.vault, "")).sql("postgres", SUMS), sums);
}

/// What has a server archive into a vault from now on, and waits until it does.
fn archive_into(server: &Server, vault: &Path) {
    let command = push_into(vault);
    server.sql("postgres", &format!("ALTER SYSTEM SET archive_command = '{command}'"));
    server.sql("postgres", "SELECT pg_reload_conf()");
    let set = || (server.sql("postgres", "SHOW archive_command") == command).then_some(());
    wait::until("the setting", wait::SOON, set);
}

/// Ends a segment with something in it. Returns its name.
fn end_segment(server: &Server) -> String {
    server.sql("postgres", "SELECT pg_create_restore_point('ended')");
    server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())")
}

#[test]
fn a_gap_before_segments_that_were_pushed_is_received_while_the_server_has_it() {
    let mut site = Site::start(15, "archive_mode = on\narchive_command = '/bin/true'\n");
    let mut receiver = site.receive();
    site.until_stored();
    let base = site.server.base();
    site.commit(3);
    site.until_stored();
    receiver.stop().ok();
    for _ in 0..3 {
        site.commit(2);
        end_segment(&site.server);
    }
    // From here on the server archives by itself; nothing stored what was written meanwhile.
    archive_into(&site.server, &site.vault);
    site.commit(2);
    let name = end_segment(&site.server);
    until_archived(&site.server, &name);
    let listed = list(&site.vault).exits(1);
    assert!(listed.stdout.contains("missing"), "{listed}");
    let mut receiver = site.receive();
    site.commit(2);
    site.until_stored();
    let sums = site.sums();
    receiver.stop().ok();
    list(&site.vault).exits(0);
    assert!(site.objects(".hole").is_empty());
    assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn the_end_of_the_old_timeline_is_received_from_the_promoted_server_that_archives_already() {
    let mut old = Site::start(18, "wal_keep_size = '1GB'\narchive_mode = on\narchive_command = '/bin/true'\n");
    let standby = Server::standby_of(&old.server);
    let mut receiver = old.receive();
    let base = old.server.base();
    old.commit(3);
    old.until_stored();
    receiver.stop().ok();
    for _ in 0..3 {
        old.commit(2);
        end_segment(&old.server);
    }
    let end = old.server.sql("postgres", "SELECT pg_current_wal_lsn()");
    let there = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    wait::until("the standby's log", LATE, || (standby.sql("postgres", &there) == "t").then_some(()));
    archive_into(&standby, &old.vault);
    standby.sql("postgres", "SELECT pg_promote()");
    standby.sql("postgres", "INSERT INTO t VALUES (1001, 1, 'new')");
    let name = end_segment(&standby);
    until_archived(&standby, &name);
    let listed = list(&old.vault).exits(1);
    assert!(listed.stdout.contains("missing"), "{listed}");
    let mut receiver = receive(&standby, &old.vault);
    standby.sql("postgres", "INSERT INTO t VALUES (1002, 1, 'newer')");
    until_stored(&standby);
    let sums = standby.sql("postgres", SUMS);
    receiver.stop().ok();
    list(&old.vault).exits(0);
    assert_eq!(recover(&base, &fetch_from(&old.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn a_server_without_the_histories_of_older_timelines_is_received() {
    let mut first = Site::start(15, "");
    first.commit(2);
    let second = Server::standby_of(&first.server);
    second.sql("postgres", "SELECT pg_promote()");
    let third = Server::standby_of(&second);
    third.sql("postgres", "SELECT pg_promote()");
    let _ = std::fs::remove_file(third.folder().join("data/pg_wal/00000002.history"));
    let vault = PathBuf::from(third.folder_of_its_own("vault"));
    let mut receiver = receive(&third, &vault);
    until_stored(&third);
    let base = third.base();
    third.sql("postgres", "INSERT INTO t VALUES (1001, 1, 'new')");
    until_stored(&third);
    let sums = third.sql("postgres", SUMS);
    receiver.kill_9();
    assert_eq!(objects(&vault, ".history"), ["00000003.history"]);
    let named = "recovery_target_timeline = '3'\n";
    assert_eq!(recover(&base, &format!("{}{named}", fetch_from(&vault, "--timeline 3"))).sql("postgres", SUMS), sums);
    // It begins again where it was.
    let mut receiver = receive(&third, &vault);
    third.sql("postgres", "INSERT INTO t VALUES (1002, 1, 'newer')");
    until_stored(&third);
    let sums = third.sql("postgres", SUMS);
    receiver.stop().ok();
    assert!(objects(&vault, ".hole").is_empty());
    assert_eq!(recover(&base, &format!("{}{named}", fetch_from(&vault, "--timeline 3"))).sql("postgres", SUMS), sums);
}

#[test]
fn a_branch_that_nobody_follows_does_not_keep_a_server_from_being_received() {
    let mut site = Site::start(15, "");
    let mut receiver = site.receive();
    site.until_stored();
    let base = site.server.base();
    site.commit(3);
    site.until_stored();
    receiver.stop().ok();
    // A copy for a test is promoted, and archives into the same vault.
    let archiving = format!("archive_mode = on\narchive_command = '{}'\n", push_into(&site.vault));
    let copy = recover(&base, &format!("{}{archiving}", fetch_from(&site.vault, "")));
    copy.sql("postgres", "INSERT INTO t VALUES (1001, 1, 'test')");
    let name = end_segment(&copy);
    until_archived(&copy, &name);
    drop(copy);
    site.commit(3);
    let mut refused = site.receive();
    wait::until("the refusal", LATE, || refused.stderr().contains("log.demoted").then_some(()));
    refused.stop();
    let mut command = as_owner(&seawall());
    command.current_dir("/tmp").args(["wal", "receive", "--timeline", "1", &site.server.url("postgres")]);
    let mut receiver = Process::spawn("seawall", command.arg(&site.vault));
    site.commit(3);
    site.until_stored();
    let sums = site.sums();
    receiver.stop().ok();
    let first = format!("{}recovery_target_timeline = '1'\n", fetch_from(&site.vault, "--timeline 1"));
    assert_eq!(recover(&base, &first).sql("postgres", SUMS), sums);
}

#[test]
fn another_cluster_is_not_received() {
    let mut site = Site::start(15, "");
    let mut receiver = site.receive();
    site.until_stored();
    let base = site.server.base();
    site.commit(3);
    let other = Server::start_with(18, CONFIGURATION);
    let mut command = as_owner(&seawall());
    command.current_dir("/tmp").args(["wal", "receive", &other.url("postgres")]).arg(&site.vault);
    let refused = run("seawall", &mut command).exits(1);
    assert!(refused.stderr.contains("error[log.other-cluster]"), "{refused}");
    site.until_stored();
    let sums = site.sums();
    receiver.stop().ok();
    assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn a_slot_that_was_dropped_is_a_hole_that_no_recovery_crosses() {
    let mut site = Site::start(18, "max_wal_size = '32MB'\nmin_wal_size = '32MB'\n");
    let mut receiver = site.receive();
    site.until_stored();
    let early = site.server.base();
    site.commit(3);
    site.until_stored();
    receiver.stop().ok();
    let gone = "SELECT count(*) FROM pg_replication_slots WHERE active";
    wait::until("the slot to be free", LATE, || (site.server.sql("postgres", gone) == "0").then_some(()));
    site.server.sql("postgres", "SELECT pg_drop_replication_slot('seawall')");
    for _ in 0..12 {
        site.commit(1);
        site.server.sql("postgres", "SELECT pg_switch_wal()");
        site.server.sql("postgres", "CHECKPOINT");
    }
    let mut receiver = site.receive();
    site.until_stored();
    assert_eq!(site.objects(".hole").len(), 1, "{:?}", site.objects(""));
    let late = site.server.base();
    site.commit(3);
    site.until_stored();
    let sums = site.sums();
    receiver.stop().ok();
    let listed = list(&site.vault).exits(1);
    assert!(listed.stdout.contains("the server removed it before the vault had it"), "{listed}");
    let error = stops(&early, &fetch_from(&site.vault, ""));
    assert!(error.contains("could not restore file"), "{error}");
    assert_eq!(recover(&late, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn a_synchronous_commit_is_in_the_vault_when_it_returns() {
    let mut site = Site::start(15, "");
    let mut receiver = site.receive();
    site.until_stored();
    let base = site.server.base();
    site.server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'seawall'");
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    let synchronous = "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'seawall'";
    wait::until("commits to wait", LATE, || (site.server.sql("postgres", synchronous) == "sync").then_some(()));
    site.commit(5);
    receiver.kill_9();
    let transactions = site.transactions;
    site.server.kill();
    let recovered = recover(&base, &format!("{}synchronous_standby_names = ''\n", fetch_from(&site.vault, "")));
    assert_eq!(recovered.sql("postgres", "SELECT count(DISTINCT tx) FROM t"), transactions.to_string());
}
