//! The limits of a proof: a check that never ends, or that fills the disk, is a failure with a reason. The server and
//! its folder are removed, even if no process waits for them.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{Format, Limits, ProveOptions, Proved, World, prove};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;
use tokio::task::JoinHandle;

use crate::server::{Server, is_root, output};
use crate::support::{backup_in, environment, limits, vault};

/// A server with a database whose check runs `deed`, but only in a proof.
fn filled(deed: &str) -> Server {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        &format!(
            "CREATE TABLE junk (a text); CREATE FUNCTION public.deed(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
             IF current_database() NOT LIKE 'seawall%' THEN RETURN true; END IF; \
             SET statement_timeout = 0; {deed} RETURN true; END $$; \
             CREATE TABLE t (a int CHECK (public.deed(a))); INSERT INTO t VALUES (1)"
        ),
    );
    server
}

async fn set(server: &Server, format: Format) -> Vault {
    let vault = vault(&MemoryStore::new());
    backup_in(format, server, &server.url("shop"), &vault).await.expect("backed up");
    vault
}

fn start(server: &Server, vault: &Vault, time: Option<Duration>) -> JoinHandle<Result<Proved, Failure>> {
    let limits = Limits { proof: time, ..limits(server) };
    let (vault, options) = (vault.clone(), ProveOptions { when: When::Latest, to: None, limits });
    tokio::spawn(async move { Ok(prove(&vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?) })
}

/// The folders of proofs whose servers this process started.
fn folders() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for task in std::fs::read_dir("/proc/self/task").expect("tasks").flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            let folder = line.split('\0').find(|word| word.contains("/seawall-proof-") && !word.contains('='));
            found.extend(folder.map(PathBuf::from));
        }
    }
    found
}

/// Waits until a condition holds.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the folders and every process that worked in one of them are gone.
async fn gone(folders: &BTreeSet<PathBuf>) {
    assert!(!folders.is_empty());
    until("a folder stays", || folders.iter().all(|folder| !folder.exists())).await;
    let works = |process: &Path| {
        let place = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        folders.iter().any(|folder| place.starts_with(folder))
    };
    let all = || std::fs::read_dir("/proc").expect("/proc").flatten();
    until("a process stays", || !all().any(|process| works(&process.path()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_never_ends_is_a_failure_and_nothing_stays() {
    let server = filled("LOOP END LOOP;");
    for format in [Format::Native, Format::Plain] {
        let vault = set(&server, format).await;
        let proof = start(&server, &vault, Some(Duration::from_secs(5)));
        until("no server starts", || !folders().is_empty()).await;
        let folders = folders();
        let failure = proof.await.expect("no panic").expect_err("it never ends");
        assert_eq!(failure.code, "postgres.proof-limit", "{failure:?}");
        assert!(failure.cause.starts_with("it took longer than 5 seconds"), "{failure:?}");
        gone(&folders).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_fills_the_disk_is_a_failure_and_nothing_stays() {
    let server = filled("INSERT INTO public.junk SELECT md5(i::text) || md5(i::text) FROM generate_series(1, 1e12) i;");
    let vault = set(&server, Format::Native).await;
    let proof = start(&server, &vault, None);
    until("no server starts", || !folders().is_empty()).await;
    let folders = folders();
    let failure = proof.await.expect("no panic").expect_err("it fills the disk");
    assert_eq!(failure.code, "postgres.proof-limit", "{failure:?}");
    assert!(failure.cause.contains("bytes to the disk"), "{failure:?}");
    gone(&folders).await;
}

/// One proof is cancelled in the middle, and another was killed and left its folder.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_of_a_proof_that_is_given_up_and_the_next_one_removes_what_was_left() {
    let server = filled("LOOP END LOOP;");
    let vault = set(&server, Format::Native).await;
    let mut builder = tempfile::Builder::new();
    builder.prefix("seawall-proof-").rand_bytes(12).permissions(Permissions::from_mode(0o700));
    let left = builder.tempdir().expect("a folder").keep();
    std::fs::write(left.join("log"), "of a killed server").expect("written");
    if is_root() {
        let mut chown = std::process::Command::new("chown");
        chown.args(["-R", "nobody"]).arg(&left);
        output(chown);
    }
    let proof = start(&server, &vault, None);
    until("no server starts", || !folders().is_empty()).await;
    assert!(!left.exists(), "what was left is removed first");
    let folders = folders();
    proof.abort();
    gone(&folders).await;
}
