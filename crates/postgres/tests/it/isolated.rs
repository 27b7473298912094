//! The server that is started for a proof reaches nothing of this machine. A function inside it tries to. Only superusers can make
//! this function, because it reads any file: it is the server's own function for `lo_import`.
//!
//! What it says goes nowhere but to the log of this host. It can choose the SQLSTATE of its error, and tells by that what it got.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{ProveOptions, Proved, World, prove};
use seawall_vault::memory::MemoryStore;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::server::Server;
use crate::support::{backup, environment, limits, vault};

/// The variable with the other process's task.
const TASK: &str = "SEAWALL_TEST_ISOLATED";

/// The variable with the file that holds a secret.
const FILE: &str = "SEAWALL_CANARY_FILE";

/// A value that only our environment and that file have.
const CANARY: &str = "a-secret-of-the-vault";

/// A database with a check that, in a proof, tries to read each of these files. It ends with the SQLSTATE `GOT01` if it could read
/// one, and with `NONE0` if it could read none.
fn look(files: &[String]) -> String {
    let files: Vec<String> = files.iter().map(|file| format!("'{file}'")).collect();
    format!(
        "CREATE FUNCTION public.import(text) RETURNS oid LANGUAGE internal STRICT AS 'be_lo_import';
CREATE FUNCTION public.look(int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE name text; object oid; said text := ''; code text := 'NONE0';
BEGIN
  IF current_database() NOT LIKE 'seawall%' THEN RETURN true; END IF;
  FOREACH name IN ARRAY ARRAY[{}] LOOP
    BEGIN
      object := public.import(name);
      said := said || encode(lo_get(object), 'escape');
      code := 'GOT01';
    EXCEPTION WHEN insufficient_privilege OR undefined_file THEN NULL;
    END;
  END LOOP;
  RAISE EXCEPTION 'what {CANARY}s there are: %', said USING ERRCODE = code, HINT = said, DETAIL = '{CANARY}';
END $$;
CREATE TABLE t (a int CHECK (public.look(a))); INSERT INTO t VALUES (1)",
        files.join(", ")
    )
}

async fn proof(sql: &str, isolated: bool) -> Result<Proved, Failure> {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", sql);
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let limits = seawall_postgres::Limits { isolated, ..limits(&server) };
    let options = ProveOptions { when: When::Latest, to: None, limits };
    Ok(prove(&vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// Runs a task in another process, whose environment has a secret.
fn run(task: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("spy.yml");
    std::fs::write(&file, CANARY).expect("written");
    // The user of the server could read it, but for its walls.
    for (path, mode) in [(folder.path(), 0o755), (file.as_path(), 0o644)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set");
    }
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "isolated::in_another_process", "--ignored", "--nocapture"]);
    program.env(TASK, task).env("SEAWALL_CANARY", CANARY).env(FILE, &file);
    let done = program.output().expect("a program");
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Refuses system calls to this thread, and to what it starts.
fn refuse(calls: &[i64]) {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let machine = std::env::consts::ARCH.try_into().expect("a known machine");
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, machine).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("it counts");
}

#[tokio::test]
#[ignore = "the other process of the tests below"]
async fn in_another_process() {
    let task = std::env::var(TASK).expect("a task");
    match task.as_str() {
        "plain" => {}
        // As a unit with RestrictNamespaces=yes.
        "without namespaces" => refuse(&[libc::SYS_unshare, libc::SYS_setns]),
        // As a kernel without Landlock: a call that a filter refuses isn't there.
        "without landlock" => refuse(&[444, 445, 446]),
        other => panic!("{other}"),
    }
    if task == "without landlock" {
        let refused = proof("CREATE TABLE t AS SELECT 1 AS a", true).await.expect_err("it isn't isolated");
        assert!(refused.code == "proof.not-isolated" && refused.next.contains("prove.isolated: false"), "{refused:?}");
        let proved = proof("CREATE TABLE t AS SELECT 1 AS a", false).await.expect("the owner says so");
        assert!(proved.not_isolated.is_some_and(|what| what.contains("Landlock")), "{proved:?}");
        return;
    }
    let proved = proof("CREATE TABLE t AS SELECT 1 AS a", true).await.expect("proved");
    assert_eq!((proved.not_isolated, proved.findings.len()), (None, 0));
    let ours = std::process::id();
    let file = std::env::var(FILE).expect("a file");
    let files = [
        file,
        format!("/proc/{ours}/environ"),
        "/proc/self/environ".into(),
        "/proc/1/cmdline".into(),
        "/etc/shadow".into(),
    ];
    let failure = proof(&look(&files), true).await.expect_err("it tells");
    assert!(failure.cause.contains("[SQLSTATE NONE0]"), "{failure:?}");
    assert!(!format!("{failure:?}").contains(CANARY), "its words stay here: {failure:?}");
    // The counterpart: what it may read, it reads.
    let failure = proof(&look(&["/etc/passwd".to_owned()]), true).await.expect_err("it tells");
    assert!(failure.cause.contains("[SQLSTATE GOT01]") && !format!("{failure:?}").contains("root:"), "{failure:?}");
}

#[test]
fn the_server_of_a_proof_reads_no_file_of_ours_and_nothing_of_our_environment() {
    run("plain");
}

#[test]
fn it_reads_nothing_either_where_there_are_no_namespaces() {
    run("without namespaces");
}

#[test]
fn where_it_can_not_be_kept_apart_no_proof_is_made_unless_the_owner_says_so() {
    run("without landlock");
}
