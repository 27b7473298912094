//! `seawall wal push` and `seawall wal fetch` as the `archive_command` and `restore_command` of real servers. Every
//! test ends in a recovered server whose rows are compared with what was recorded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use seawall_tests::{Output, Random, run, seawall, wait};

use crate::postgres::server::{Base, Server, is_root, output};

/// The versions of the tests: Debian's, and the newest.
pub(crate) const VERSIONS: [u32; 2] = [15, 18];

/// How long a server may take to archive or to recover.
pub(crate) const LATE: Duration = Duration::from_secs(120);

/// The number of rows and a hash of all, for each transaction.
pub(crate) const SUMS: &str = "SELECT coalesce(string_agg(s, ' '), '') FROM (SELECT tx || ':' || count(*) || ':' || sum(hashtextextended(t::text, 0)) AS s \
                    FROM t GROUP BY tx ORDER BY tx) x";

/// A server that archives into a vault beside it.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) vault: PathBuf,
    transactions: u32,
}

/// The program, where the server's user can run it.
pub(crate) fn program() -> String {
    seawall().canonicalize().expect("a program").display().to_string()
}

pub(crate) fn push_into(vault: &Path) -> String {
    format!("{} wal push %p --vault {}", program(), vault.display())
}

pub(crate) fn fetch_from(vault: &Path, more: &str) -> String {
    format!("restore_command = '{} wal fetch %f %p --vault {} {more}'\n", program(), vault.display())
}

impl Site {
    pub(crate) fn start(major: u32) -> Self {
        Self::with(major, "")
    }

    fn with(major: u32, flags: &str) -> Self {
        let archiving = |folder: &Path| {
            let push = push_into(&folder.join("vault"));
            format!(
                "wal_level = replica\narchive_mode = on\narchive_command = '{push} {flags}'\narchive_timeout = 0\nmax_wal_senders = 5\n"
            )
        };
        let server = Server::start_on(major, 5432, archiving).expect("the server gets ready");
        server.sql("postgres", "CREATE TABLE t (tx int, n int, filler text)");
        let vault = server.folder().join("vault");
        Self { server, vault, transactions: 0 }
    }

    /// Commits so many transactions of a few rows.
    pub(crate) fn commit(&mut self, transactions: u32) {
        commit(&self.server, &mut self.transactions, transactions);
    }

    pub(crate) fn sums(&self) -> String {
        self.server.sql("postgres", SUMS)
    }

    fn segment(&self) -> String {
        self.server.sql("postgres", "SELECT pg_walfile_name(pg_current_wal_lsn())")
    }

    /// Ends the segment, and waits until the vault has it. Returns its name.
    pub(crate) fn archive(&self) -> String {
        let name = self.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
        self.until_archived(&name);
        name
    }

    fn until_archived(&self, name: &str) {
        until_archived(&self.server, name);
    }

    pub(crate) fn object(&self, name: &str) -> PathBuf {
        object(&self.server, &self.vault, name)
    }

    /// Recovers a base to what `target` says, and waits until it is promoted.
    pub(crate) fn recover(&self, base: &Base, target: &str) -> Server {
        recover(base, &format!("{}{target}", fetch_from(&self.vault, "")))
    }

    pub(crate) fn fetch(&self, name: &str, to: &Path, more: &[&str]) -> Output {
        fetch(&self.vault, name, to, more)
    }
}

/// Commits so many more transactions of a few rows. `done` counts them.
pub(crate) fn commit(server: &Server, done: &mut u32, transactions: u32) {
    for _ in 0..transactions {
        *done += 1;
        let tx = *done;
        let sql = format!(
            "INSERT INTO t SELECT {tx}, n, repeat(md5((n * {tx})::text), 20) FROM generate_series(1, {tx} % 7 + 1) n"
        );
        server.sql("postgres", &sql);
    }
}

/// Waits until the server has archived a segment.
pub(crate) fn until_archived(server: &Server, name: &str) {
    let sql = format!("SELECT last_archived_wal >= '{name}' FROM pg_stat_archiver");
    let ready = || (server.sql("postgres", &sql) == "t").then_some(());
    wait::until(&format!("{name} to be archived"), LATE, ready);
}

/// The object of a segment of the server's log.
pub(crate) fn object(server: &Server, vault: &Path, segment: &str) -> PathBuf {
    let system = server.sql("postgres", "SELECT system_identifier FROM pg_control_system()");
    vault.join(format!("physical/{system}/log/{}/{segment}.zst", &segment[..8]))
}

pub(crate) fn fetch(vault: &Path, name: &str, to: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(seawall());
    command.current_dir("/tmp").args(["wal", "fetch", name]).arg(to).arg("--vault").arg(vault).args(more);
    run("wal fetch", &mut command)
}

fn push(vault: &Path, file: &Path) -> Output {
    let mut command = Command::new(seawall());
    run("wal push", command.args(["wal", "push"]).arg(file).arg("--vault").arg(vault))
}

pub(crate) fn recover(base: &Base, configuration: &str) -> Server {
    let server = Server::recover(base, "recovery.signal", configuration).expect("it recovers");
    let ready = || (server.sql("postgres", "SELECT pg_is_in_recovery()") == "f").then_some(());
    wait::until("the recovery to end", LATE, ready);
    server
}

/// A recovery that stops before its end. Returns the server's log.
pub(crate) fn stops(base: &Base, configuration: &str) -> String {
    let server = match Server::recover(base, "recovery.signal", configuration) {
        Err(log) => return log,
        // It takes connections before it comes to what it can't restore.
        Ok(server) => server,
    };
    let stopped = || server.log().contains("could not restore file").then_some(());
    wait::until("the recovery to stop", LATE, stopped);
    assert_ne!(server.try_sql("postgres", "SELECT pg_is_in_recovery()").as_deref(), Some("f"), "it isn't open");
    server.log()
}

pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn wal_is_archived_and_recovered_to_the_newest_and_to_any_target() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(20);
        let base = site.server.base();
        site.commit(20);
        let mut marks = Vec::new();
        for nth in 0..4 {
            let sums = site.sums();
            let lsn = site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()");
            site.server.sql("postgres", &format!("SELECT pg_create_restore_point('mark {nth}')"));
            wait::pass(Duration::from_millis(5));
            let time = site.server.sql("postgres", "SELECT clock_timestamp()");
            wait::pass(Duration::from_millis(5));
            let xid = site
                .server
                .sql("postgres", "BEGIN; INSERT INTO t VALUES (-1, 0, ''); SELECT pg_current_xact_id(); COMMIT");
            marks.push((sums, lsn, time, xid, nth));
            site.commit(10);
            if nth % 2 == 0 {
                site.archive();
            }
        }
        let newest = site.sums();
        site.archive();
        assert_eq!(site.recover(&base, "").sql("postgres", SUMS), newest, "{major}: the newest");
        for (sums, lsn, time, xid, nth) in marks {
            let target = match nth {
                0 => format!("recovery_target_lsn = '{lsn}'"),
                1 => format!("recovery_target_time = '{time}'"),
                2 => format!("recovery_target_xid = '{xid}'\nrecovery_target_inclusive = off"),
                _ => format!("recovery_target_name = 'mark {nth}'"),
            };
            let found = site.recover(&base, &format!("{target}\nrecovery_target_action = promote"));
            assert_eq!(found.sql("postgres", SUMS), sums, "{major}: {target}");
        }
    }
}

#[test]
fn wal_that_comes_back_is_what_the_server_and_pg_receivewal_have() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        let received = site.server.folder_of_its_own("received");
        site.server.sql("postgres", "SELECT pg_create_physical_replication_slot('beside', true)");
        site.server.sql("postgres", "SELECT pg_switch_wal()");
        site.commit(5);
        let first = site.archive();
        site.commit(5);
        let end = site.server.sql("postgres", "SELECT pg_switch_wal()");
        let second = site.server.sql("postgres", &format!("SELECT pg_walfile_name('{end}')"));
        site.until_archived(&second);
        // Beyond the border, so that pg_receivewal ends the segment.
        site.commit(1);
        let end = site.server.sql("postgres", "SELECT pg_current_wal_lsn()");
        let mut receive = site.server.tool("pg_receivewal");
        output({
            receive.args(["-D", &received, "--slot", "beside", "--no-loop", "--endpos", &end]);
            receive
        });
        site.server.sql("postgres", "SELECT pg_drop_replication_slot('beside')");
        let folder = scratch();
        for name in [&first, &second] {
            let to = folder.path().join(name);
            site.fetch(name, &to, &[]).ok();
            let bytes = std::fs::read(&to).expect("read");
            assert!(bytes == std::fs::read(Path::new(&received).join(name)).expect("received"), "{major}: {name}");
            assert_eq!(bytes.len(), 16 << 20);
            let own = site.server.folder().join("data/pg_wal").join(name);
            if let Ok(own) = std::fs::read(own) {
                assert!(bytes == own, "{major}: {name} in pg_wal");
            }
            let mut dump = Command::new(site.server.bin().join("pg_waldump"));
            let dumped = dump.arg("--quiet").arg(&to).output().expect("pg_waldump runs");
            let said = String::from_utf8_lossy(&dumped.stderr).into_owned();
            // The records of a segment that isn't the last one go on in the next.
            assert!(dumped.status.success() || said.contains("invalid record length"), "{major}: {said}");
            let mut zstd = Command::new("zstd");
            let unpacked = zstd.args(["-q", "-d", "-c"]).arg(site.object(name)).output().expect("zstd runs");
            assert!(unpacked.stdout == bytes, "{major}: {name} by hand");
        }
    }
}

#[test]
fn wal_of_another_cluster_is_refused_both_ways() {
    let mut ours = Site::start(15);
    ours.commit(5);
    let base = ours.server.base();
    ours.commit(5);
    let name = ours.archive();
    let sums = ours.sums();
    let object = std::fs::read(ours.object(&name)).expect("an object");

    // Another cluster archives into the same vault: it is refused, and goes on committing.
    let mut theirs = Site::start(18);
    let command = format!("ALTER SYSTEM SET archive_command = '{}'", push_into(&ours.vault));
    theirs.server.sql("postgres", &command);
    theirs.server.sql("postgres", "SELECT pg_reload_conf()");
    // Wait for the setting, then for a failure.
    let set = || {
        (theirs.server.sql("postgres", "SHOW archive_command").contains(&*ours.vault.to_string_lossy())).then_some(())
    };
    wait::until("the setting", wait::SOON, set);
    theirs.commit(3);
    theirs.server.sql("postgres", "SELECT pg_switch_wal()");
    let failed = "SELECT failed_count > 0 FROM pg_stat_archiver";
    wait::until("a refusal", LATE, || (theirs.server.sql("postgres", failed) == "t").then_some(()));
    theirs.commit(3);
    let segment = theirs.segment();
    let refused = push(&ours.vault, &theirs.server.folder().join("data/pg_wal").join(&segment)).exits(1);
    assert!(refused.stderr.contains("error[log.other-cluster]"), "{refused}");
    assert!(std::fs::read(ours.object(&name)).expect("an object") == object, "nothing was written over");

    // Its data directory gets nothing out of the vault.
    let folder = scratch();
    let to = folder.path().join("RECOVERYXLOG");
    let system = theirs.server.sql("postgres", "SELECT system_identifier FROM pg_control_system()");
    let refused = ours.fetch(&name, &to, &["--system", &system]).exits(126);
    assert!(refused.stderr.contains("error[log.other-cluster]"), "{refused}");
    let mut here = Command::new(seawall());
    here.current_dir(theirs.server.folder().join("data")).args(["wal", "fetch", &name]).arg(&to);
    let refused = run("wal fetch", here.arg("--vault").arg(&ours.vault)).exits(126);
    assert!(refused.stderr.contains("error[log.other-cluster]"), "{refused}");
    assert!(!to.exists());
    assert_eq!(ours.recover(&base, "").sql("postgres", SUMS), sums);
}

#[test]
fn wal_survives_a_push_that_is_killed_at_any_moment() {
    let mut random = Random::from_env();
    let mut site = Site::start(15);
    site.commit(5);
    let base = site.server.base();
    // From here on the server's own attempts fail, and ours are killed.
    site.server.sql("postgres", "ALTER SYSTEM SET archive_command = 'false'");
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    let mut names = Vec::new();
    for _ in 0..4 {
        site.commit(6);
        names.push(site.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())"));
    }
    let sums = site.sums();
    let mut killed = 0;
    for name in &names {
        let file = site.server.folder().join("data/pg_wal").join(name);
        for _ in 0..12 {
            let mut command = as_owner(&seawall());
            command.args(["wal", "push"]).arg(&file).arg("--vault").arg(&site.vault);
            let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
            wait::pass(Duration::from_micros(random.below(30_000)));
            killed += u32::from(process.try_wait().expect("a child").is_none());
            let _ = process.kill();
            process.wait().expect("ended");
        }
    }
    assert!(killed > 5, "{killed} were killed");
    let command = format!("ALTER SYSTEM SET archive_command = '{}'", push_into(&site.vault));
    site.server.sql("postgres", &command);
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    site.until_archived(names.last().expect("a name"));
    assert_eq!(site.recover(&base, "").sql("postgres", SUMS), sums);
}

/// A command of the user who runs the server.
pub(crate) fn as_owner(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
    command
}

#[test]
fn wal_waits_for_a_store_that_is_away() {
    let mut site = Site::start(18);
    site.commit(5);
    let base = site.server.base();
    site.commit(5);
    site.archive();
    // The disk of the vault is gone, and comes back.
    let aside = site.server.folder().join("aside");
    std::fs::rename(&site.vault, &aside).expect("moved");
    std::fs::write(&site.vault, "no folder").expect("written");
    site.commit(5);
    let name = site.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    let failed = "SELECT failed_count > 0 FROM pg_stat_archiver";
    wait::until("a failure", LATE, || (site.server.sql("postgres", failed) == "t").then_some(()));
    site.commit(5);
    // A recovery now must not take the failure for the end of the log.
    let error = stops(&base, &fetch_from(&site.vault, ""));
    assert!(error.contains("could not restore file"), "{error}");
    std::fs::remove_file(&site.vault).expect("removed");
    std::fs::rename(&aside, &site.vault).expect("moved back");
    site.until_archived(&name);
    let sums = site.sums();
    site.archive();
    assert_eq!(site.recover(&base, "").sql("postgres", SUMS), sums);
}

#[test]
fn wal_fetch_calls_only_a_proved_absence_an_absence() {
    let mut site = Site::start(15);
    site.commit(5);
    let base = site.server.base();
    site.commit(5);
    let first = site.archive();
    site.commit(5);
    let second = site.archive();
    let sums = site.sums();
    let folder = scratch();
    let to = folder.path().join("RECOVERYXLOG");
    let refused = |output: Output, code: &str| {
        let output = output.exits(126);
        assert!(output.stderr.contains(&format!("error[{code}]")), "{output}");
        assert!(
            !to.exists() && std::fs::read_dir(folder.path()).expect("a folder").next().is_none(),
            "nothing is left"
        );
    };
    let absent = site.fetch("0000000100000000000000FF", &to, &[]).exits(1);
    assert!(absent.stderr.contains("error[log.absent]"), "{absent}");
    site.fetch("00000002.history", &to, &[]).exits(1);
    // Wrong usage, a wrong place, a place without a log, a wrong file.
    let mut bare = Command::new(seawall());
    refused(run("wal fetch", bare.args(["wal", "fetch", &first])), "usage.arguments");
    let mut option = Command::new(seawall());
    refused(run("wal fetch", option.args(["wal", "fetch", &first, "x", "--vualt", "y"])), "usage.arguments");
    refused(site.fetch("RECOVERYXLOG", &to, &[]), "usage.wal-file");
    refused(site.fetch(&first, &to, &["--timeline", "0"]), "usage.arguments");
    refused(fetch(&folder.path().join("nothing"), &first, &to, &[]), "log.none");
    let empty = scratch();
    refused(fetch(empty.path(), &first, &to, &[]), "log.none");
    // A hole, and damage.
    let object = site.object(&first);
    let aside = site.vault.join("aside");
    std::fs::rename(&object, &aside).expect("moved");
    refused(site.fetch(&first, &to, &[]), "log.hole");
    let mut damaged = std::fs::read(&aside).expect("read");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&object, damaged).expect("written");
    refused(site.fetch(&first, &to, &[]), "archive.corrupt");
    // A server that meets damage stops, and one that meets a hole.
    let error = stops(&base, &fetch_from(&site.vault, ""));
    assert!(error.contains("could not restore file") && error.contains("archive.corrupt"), "{error}");
    std::fs::remove_file(&object).expect("removed");
    let error = stops(&base, &fetch_from(&site.vault, ""));
    assert!(error.contains("could not restore file") && error.contains("log.hole"), "{error}");
    std::fs::rename(&aside, &object).expect("moved back");
    // A target that can't be written.
    let nowhere = folder.path().join("no/such/folder/RECOVERYXLOG");
    let output = site.fetch(&second, &nowhere, &[]).exits(126);
    assert!(output.stderr.contains("error[log.io]"), "{output}");
    site.fetch(&second, &to, &[]).ok();
    assert_eq!(site.recover(&base, "").sql("postgres", SUMS), sums);
}
