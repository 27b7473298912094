//! `seawall backup --physical` and `seawall restore` of clusters of real servers, under load. Every test ends in a recovered
//! server whose rows are compared with what was recorded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_tests::{Output, Process, run, seawall as program, wait};
use serde_json::Value;

use crate::postgres::server::{self, Server, output};
use crate::wal::{self, SUMS, VERSIONS};

/// A server that archives its log into a vault beside it, and whose role `seawall` may make bases.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) vault: PathBuf,
    transactions: u32,
}

/// The functions that a base is read with.
pub(crate) const FUNCTIONS: [&str; 5] = [
    "pg_backup_start(text, boolean)",
    "pg_backup_stop(boolean)",
    "pg_read_binary_file(text, bigint, bigint, boolean)",
    "pg_ls_dir(text, boolean, boolean)",
    "pg_stat_file(text, boolean)",
];

/// The program as the server's user runs it: the server archives into the same vault.
pub(crate) fn seawall(arguments: &[&str]) -> std::process::Command {
    let mut command = server::command(&program().canonicalize().expect("a program"));
    command.current_dir("/tmp").args(arguments);
    command
}

impl Site {
    pub(crate) fn start(major: u32) -> Self {
        Self::with(major, "")
    }

    pub(crate) fn with(major: u32, settings: &str) -> Self {
        let archiving = |folder: &Path| {
            let program = program().canonicalize().expect("a program");
            let push = format!("{} wal push %p --vault {}", program.display(), folder.join("vault").display());
            format!("wal_level = replica\narchive_mode = on\narchive_command = '{push}'\n{settings}\n")
        };
        let server = Server::start_on(major, 5432, archiving).expect("the server gets ready");
        server.sql("postgres", "CREATE TABLE t (tx int, n int, filler text); CREATE ROLE seawall LOGIN");
        server.sql("postgres", &format!("GRANT EXECUTE ON FUNCTION {} TO seawall", FUNCTIONS.join(", ")));
        let vault = server.folder().join("vault");
        Self { server, vault, transactions: 0 }
    }

    /// Commits so many transactions of a few rows.
    pub(crate) fn commit(&mut self, transactions: u32) {
        wal::commit(&self.server, &mut self.transactions, transactions);
    }

    /// Makes the tablespace `fast`, with the table `s` and an index in it; returns its folder.
    pub(crate) fn tablespace(&self) -> String {
        let place = self.server.folder_of_its_own("fast");
        self.server.sql("postgres", &format!("CREATE TABLESPACE fast LOCATION '{place}'"));
        self.server.sql(
            "postgres",
            "CREATE TABLE s TABLESPACE fast AS SELECT i, md5(i::text) m FROM generate_series(1, 20000) i; CREATE INDEX ON s (m)",
        );
        place
    }

    pub(crate) fn sums(&self) -> String {
        self.server.sql("postgres", SUMS)
    }

    /// Ends the segment, and waits until the vault has it.
    pub(crate) fn archive(&self) {
        // An empty segment isn't ended.
        self.server.sql("postgres", "SELECT pg_create_restore_point('archived')");
        let name = self.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
        wal::until_archived(&self.server, &name);
    }

    /// Makes a base with the least rights.
    pub(crate) fn base(&self) -> Value {
        let made = self.base_with(&[]).ok().json();
        assert!(made["damaged"].as_array().is_some_and(Vec::is_empty), "{made}");
        made
    }

    pub(crate) fn base_with(&self, more: &[&str]) -> Output {
        let (url, vault) = (self.server.url_as("seawall", "postgres"), self.vault.display().to_string());
        let arguments = [&["backup", &url, &vault, "--physical", "--jobs", "2", "--json"], more].concat();
        run("seawall", &mut seawall(&arguments))
    }

    pub(crate) fn restore(&self, to: &Path, more: &[&str]) -> Output {
        let (vault, to) = (self.vault.display().to_string(), to.display().to_string());
        run("seawall", &mut seawall(&[&["restore", &vault, "-o", &to, "--json"], more].concat()))
    }

    /// Restores, starts a server there, and waits until it has recovered.
    pub(crate) fn recovered(&self, more: &[&str]) -> Server {
        Server::restored(&self.server, |data| self.restore(data, more).ok_quietly()).expect("it recovers")
    }

    /// The object of a segment.
    pub(crate) fn log(&self, segment: &str) -> PathBuf {
        wal::object(&self.server, &self.vault, segment)
    }

    /// The objects of bases, below the vault, by their ends.
    pub(crate) fn objects(&self, end: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![self.vault.join("physical")];
        while let Some(folder) = left.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path() {
                    path if path.is_dir() => left.push(path),
                    path if path.to_string_lossy().contains("/bases/") && path.to_string_lossy().ends_with(end) => {
                        found.push(path)
                    }
                    _ => {}
                }
            }
        }
        found.sort();
        found
    }
}

/// What an [`Output`] is asked for alone.
trait Quietly {
    fn ok_quietly(self);
}

impl Quietly for Output {
    fn ok_quietly(self) {
        self.ok();
    }
}

/// Load on a server until this is dropped.
struct Load(Process);

impl Load {
    fn on(server: &Server) -> Self {
        let mut make = server.tool("pgbench");
        make.args(["-i", "-q", "-s", "3", "postgres"]).stderr(std::process::Stdio::null());
        output(make);
        let mut bench = server.tool("pgbench");
        bench.args(["-n", "-c", "2", "-T", "600", "postgres"]);
        Self(Process::spawn("pgbench", &mut bench))
    }

    fn end(mut self) {
        self.0.kill_9();
    }
}

/// What must hold of pgbench's tables in every state: each transaction adds the same to all of them.
const BALANCE: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) \
                       AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) \
                       AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";

fn bytes(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn verified(server: &Server, data: &Path) {
    let mut verify = server::command(&server.bin().join("pg_verifybackup"));
    verify.arg("--no-parse-wal").arg(data);
    output(verify);
}

#[test]
fn cluster_under_load_is_recovered_to_the_newest_a_time_a_position_a_transaction_and_a_name() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        let load = Load::on(&site.server);
        site.commit(20);
        let base = site.base();
        let mut marks = Vec::new();
        for nth in 0..2 {
            site.commit(10);
            site.server.sql("postgres", &format!("SELECT pg_create_restore_point('mark {nth}')"));
            let lsn = site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()");
            let time = site.server.sql(
                "postgres",
                "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')",
            );
            let sums = site.sums();
            wait::pass(Duration::from_millis(20));
            let xid = site
                .server
                .sql("postgres", "BEGIN; INSERT INTO t VALUES (-1, 0, ''); SELECT pg_current_xact_id(); COMMIT");
            marks.push((sums, lsn, time, xid));
            site.commit(5);
            site.archive();
        }
        load.end();
        site.commit(3);
        let newest = site.sums();
        site.archive();
        let pgbench = "SELECT count(*), sum(hashtextextended(h::text, 0)) FROM pgbench_history h";
        let history = site.server.sql("postgres", pgbench);
        let recovered = Server::restored(&site.server, |data| {
            let restored = site.restore(data, &[]).ok().json();
            assert_eq!(restored["base"], base["id"], "{restored}");
            verified(&site.server, data);
        })
        .expect("it recovers");
        assert_eq!(recovered.sql("postgres", SUMS), newest, "{major}: the newest");
        assert_eq!(recovered.sql("postgres", pgbench), history, "{major}");
        assert_eq!(recovered.sql("postgres", BALANCE), "t");
        assert_eq!(recovered.sql("postgres", "SHOW archive_mode"), "off");
        drop(recovered);
        for (nth, (sums, lsn, time, xid)) in marks.iter().enumerate() {
            let with = format!("{sums} ");
            for (arguments, is_at_the_mark) in [
                (&["--at", time.as_str()][..], true),
                (&["--target", &format!("lsn:{lsn}")], true),
                (&["--target", &format!("name:mark {nth}")], true),
                (&["--target", &format!("xid:{xid}")], false),
            ] {
                let recovered = site.recovered(arguments);
                let found = recovered.sql("postgres", SUMS);
                let before = recovered.sql("postgres", &SUMS.replace("FROM t", "FROM t WHERE tx <> -1"));
                let expected = sums.split(' ').filter(|sum| !sum.starts_with("-1:")).collect::<Vec<_>>().join(" ");
                assert_eq!(before, expected, "{major} {arguments:?} {with}");
                assert_eq!(&found == sums, is_at_the_mark, "{major} {arguments:?}");
                assert_eq!(recovered.sql("postgres", BALANCE), "t");
            }
        }
    }
}

#[test]
fn cluster_second_base_sends_what_changed_and_each_base_is_whole() {
    let mut site = Site::start(15);
    site.server.sql(
        "postgres",
        "CREATE TABLE big (id int PRIMARY KEY, filler text) WITH (fillfactor = 90); \
         INSERT INTO big SELECT i, string_agg(md5(i * 20.5 + j || 'x'), '') FROM generate_series(1, 60000) i, \
         generate_series(1, 16) j GROUP BY i ORDER BY i; \
         CREATE TABLE cut AS SELECT * FROM big WHERE id < 5000; CREATE TABLE gone AS SELECT * FROM big WHERE id < 5000; \
         CREATE TABLE full_ AS SELECT * FROM big WHERE id < 9000",
    );
    // What later readers would note in the pages is in them.
    site.server.sql("postgres", "VACUUM (FREEZE, ANALYZE)");
    site.server.sql("postgres", "CHECKPOINT");
    site.commit(5);
    let first = site.base();
    // A hundredth of the pages, together; and what makes new files.
    site.server.sql("postgres", "UPDATE big SET filler = upper(filler) WHERE id BETWEEN 1000 AND 1500");
    site.server.sql("postgres", "CHECKPOINT");
    let second = site.base();
    assert_eq!(second["before"], first["id"]);
    let share = bytes(&second["totals"]["sent"]) * 100 / bytes(&first["totals"]["sent"]);
    assert!(share <= 8, "{share} % of {} were sent again: {second}", first["totals"]["sent"]);
    site.server.sql(
        "postgres",
        "TRUNCATE cut; INSERT INTO cut SELECT id, 'again' FROM big WHERE id < 100; DROP TABLE gone; \
         CREATE TABLE gone AS SELECT id + 1 AS id, filler FROM big WHERE id < 3000; DELETE FROM full_ WHERE id % 2 = 0",
    );
    site.server.sql("postgres", "VACUUM FULL full_");
    site.commit(5);
    let third = site.base();
    site.archive();
    let all = "SELECT (SELECT sum(hashtextextended(b::text, 0)) FROM big b), (SELECT sum(hashtextextended(b::text, 0)) FROM cut b), \
               (SELECT sum(hashtextextended(b::text, 0)) FROM gone b), (SELECT sum(hashtextextended(b::text, 0)) FROM full_ b)";
    let (now, sums) = (site.server.sql("postgres", all), site.sums());
    // From each base, the log leads to the same state.
    for base in [&first, &second, &third] {
        let id = base["id"].as_str().expect("a name");
        let third_stop = third["stop"].as_str().expect("a position");
        let recovered = site.recovered(&["--at", id, "--target", &format!("lsn:{third_stop}")]);
        assert_eq!(recovered.sql("postgres", all), now, "{id}");
        assert_eq!(recovered.sql("postgres", SUMS), sums, "{id}");
        let check = "SELECT count(*) FROM (SELECT verify_heapam(oid) FROM pg_class WHERE relkind = 'r') x";
        recovered.sql("postgres", "CREATE EXTENSION amcheck");
        assert_eq!(recovered.sql("postgres", check), "0");
    }
    // The end of a base itself.
    let recovered = site.recovered(&["--at", third["id"].as_str().expect("a name")]);
    assert_eq!(recovered.sql("postgres", all), now);
}

#[test]
fn cluster_tablespaces_and_unlogged_tables_come_back() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        let place = site.tablespace();
        site.server.sql(
            "postgres",
            "CREATE UNLOGGED TABLE u AS SELECT i FROM generate_series(1, 50000) i; CREATE TABLE empty (i int)",
        );
        site.commit(10);
        site.base();
        site.server.sql("postgres", "INSERT INTO s SELECT i, md5(i::text) FROM generate_series(20001, 21000) i");
        site.archive();
        let all = "SELECT count(*), sum(hashtextextended(s::text, 0)) FROM s";
        let (now, sums) = (site.server.sql("postgres", all), site.sums());
        let free = site.server.folder().join("new");
        // The source's own folder isn't empty.
        let there = site.server.folder().join("refused");
        let refused = site.restore(&there, &[]);
        assert!(refused.exits(1).json()["error"]["code"] == "postgres.folder-in-use" && !there.exists());
        let mapping = format!("{place}={}", free.display());
        let recovered = Server::restored(&site.server, |data| {
            site.restore(data, &["--tablespace", &mapping]).ok();
            verified(&site.server, data);
        })
        .expect("it recovers");
        assert_eq!(recovered.sql("postgres", all), now);
        assert_eq!(recovered.sql("postgres", SUMS), sums);
        assert_eq!(recovered.sql("postgres", "SELECT count(*) FROM u"), "0", "what a crash empties");
        let location =
            recovered.sql("postgres", "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = 'fast'");
        assert_eq!(location, free.display().to_string());
    }
}

#[test]
fn cluster_restored_and_started_says_what_it_reached() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(10);
        site.base();
        site.commit(5);
        let (sums, lsn) = (site.sums(), site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()"));
        site.commit(5);
        site.archive();
        let bindir = site.server.bin().display().to_string();
        let recovered = Server::restored(&site.server, |data| {
            let target = format!("lsn:{lsn}");
            let restored = site.restore(data, &["--target", &target, "--start", "--pg-bindir", &bindir]).ok().json();
            assert_eq!(restored["reached"]["timeline"], 2, "{restored}");
            assert!(restored["reached"]["moment"].is_string(), "{restored}");
            assert!(!data.join("postmaster.pid").exists() && !data.join("recovery.signal").exists());
        })
        .expect("it starts");
        assert_eq!(recovered.sql("postgres", SUMS), sums, "{major}");
        // Nothing of the recovery is left, and a standby that takes the settings over follows the server.
        assert!(!recovered.data().join("seawall.recovery").exists());
        followed(&recovered, &sums);
    }
}

/// Makes a standby of a server that has these sums, and waits until it has what the server gets then.
fn followed(server: &Server, sums: &str) {
    let standby = Server::standby_of(server);
    server.sql("postgres", "CREATE TABLE later AS SELECT 7 AS n");
    let there = || standby.try_sql("postgres", "SELECT n FROM later").filter(|n| n == "7");
    wait::until("the standby to follow", Duration::from_secs(60), there);
    assert_eq!(standby.sql("postgres", SUMS), sums);
}

#[test]
fn cluster_standby_of_a_restored_server_follows_it_when_the_recovery_was_ended_by_the_statements() {
    let mut site = Site::start(18);
    site.commit(10);
    site.base();
    site.commit(5);
    let (sums, lsn) = (site.sums(), site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()"));
    site.commit(5);
    site.archive();
    let mut told = String::new();
    let recovered = Server::restored(&site.server, |data| {
        let (vault, to, target) = (site.vault.display().to_string(), data.display().to_string(), format!("lsn:{lsn}"));
        told = run("seawall", &mut seawall(&["restore", &vault, "-o", &to, "--target", &target])).ok().stdout.clone();
    })
    .expect("it recovers");
    assert_eq!(recovered.sql("postgres", SUMS), sums);
    let (_, statements) = told.split_once("for the recovery alone: ").expect("statements");
    let statements: Vec<&str> = statements.lines().next().expect("a line").split_terminator(';').collect();
    assert_eq!(statements.len(), 10, "{told}");
    for statement in statements {
        recovered.sql("postgres", statement);
    }
    std::fs::remove_file(recovered.data().join("seawall.recovery")).expect("removed");
    followed(&recovered, &sums);
}

#[test]
fn cluster_timeline_and_verify_tell_of_bases_and_log_together() {
    let mut site = Site::start(15);
    site.commit(5);
    let base = site.base();
    site.commit(5);
    site.archive();
    let vault = site.vault.display().to_string();
    let timeline = run("seawall", &mut seawall(&["timeline", &vault, "--json"])).ok().json();
    assert_eq!(timeline["spans"].as_array().map(Vec::len), Some(1), "{timeline}");
    assert_eq!(timeline["spans"][0]["from"]["position"], base["id"], "{timeline}");
    let verified = run("seawall", &mut seawall(&["verify", &vault, "--json"])).ok().json();
    assert!(verified["findings"].as_array().is_some_and(Vec::is_empty), "{verified}");
    assert!(bytes(&verified["objects"]) > 3, "{verified}");
    let fleet = run("seawall", &mut seawall(&["fleet", &vault, "--json"])).json();
    assert_eq!(fleet["databases"][0]["engine"], "postgres", "{fleet}");
    assert_eq!(fleet["foreign_objects"], 0, "{fleet}");
}
