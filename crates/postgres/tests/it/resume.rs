//! A restore that is interrupted and started again with other settings ends in the same content (I21): other `--jobs`,
//! other `--memory`, another spelling of the host. On another server it begins again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall_postgres::{CopyFormat, Limits, RestoreOptions};
use seawall_testing::Gate;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Policy, Vault};

use crate::server::Server;
use crate::support::{FORMATS, backup_as, chunks_loaded, content, nothing_stays, options, recover};

/// A server whose database has eight tables of several chunks each, one row that spans chunks, and small tables that
/// share a chunk.
fn filled() -> Server {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    let random = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 60) WHERE i > 0)";
    let large: String = (1..=8)
        .map(|n| format!("CREATE TABLE t{n} AS SELECT i, {random} AS f FROM generate_series(1, 1500) i;"))
        .collect();
    let small: String =
        (1..=20).map(|n| format!("CREATE TABLE s{n} AS SELECT generate_series(1, {n}) AS i;")).collect();
    let long =
        "CREATE TABLE long AS SELECT (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 90000)) AS f";
    server.sql(
        "shop",
        &format!("{large} {small} {long}; ALTER TABLE t1 ADD PRIMARY KEY (i); SELECT lo_from_bytea(7, 'x')"),
    );
    server
}

async fn backed_up(copy: CopyFormat, from: &Server) -> (Gate, Vault, u64) {
    let gate = Gate::before(&MemoryStore::new());
    let vault = Vault::new(Arc::new(gate.clone()), Policy { seed: 1, ..Policy::default() });
    let dumped = backup_as(copy, from, &from.url("shop"), &vault).await.expect("backed up");
    assert!(dumped.manifest.totals.chunks > 16, "{}", dumped.manifest.totals.chunks);
    (gate, vault, dumped.manifest.totals.chunks)
}

fn with(server: &Server, jobs: usize, memory: u64) -> RestoreOptions {
    let limits = Limits { jobs, memory: memory << 20, bindir: Some(PathBuf::from(server.bin())), ..Limits::default() };
    RestoreOptions { limits, ..options(server) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_with_fewer_jobs_loads_every_row() {
    let server = filled();
    let (gate, vault, chunks) = backed_up(CopyFormat::Text, &server).await;
    let (url, many) = (server.url("copy"), with(&server, 8, 64));
    // Eight connections load tables by the chunk; some of the chunks that they read are the schema's.
    let some = chunks / 2;
    gate.allow(usize::try_from(some + 6).expect("few"));
    let run = tokio::spawn({
        let (vault, url) = (vault.clone(), url.clone());
        async move { recover(&vault, &url, &many).await }
    });
    let unfinished = "SELECT datname FROM pg_database WHERE datname LIKE 'seawall-%'";
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline && !run.is_finished(), "half of the chunks are never loaded");
        let database = server.sql("postgres", unfinished);
        if !database.is_empty() && chunks_loaded(&server, &database) >= some {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    run.abort();
    gate.allow(usize::MAX);
    // One connection would load each table at once.
    let restored = recover(&vault, &url, &with(&server, 1, 64)).await.expect("restored");
    assert!(restored.resumed);
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    nothing_stays(&server, "copy");
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_with_other_jobs_memory_host_and_version_end_in_the_same_content() {
    let (from, other) = (filled(), Server::start(18));
    let elsewhere = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder");
    let link = elsewhere.path().join("socket");
    std::os::unix::fs::symlink(from.folder(), &link).expect("a link");
    let expected = content(&from, "shop");
    for copy in FORMATS {
        let (gate, vault, chunks) = backed_up(copy, &from).await;
        let urls = [from.url("copy"), from.url("copy").replace(&spelled(from.folder()), &spelled(&link))];
        assert_ne!(urls[0], urls[1]);
        let (mut allowed, mut tries, mut left) = (3, 0, vec![(&from, &urls[..]), (&other, &[][..])]);
        while !left.is_empty() {
            let (jobs, memory) = [(8, 64), (1, 32), (3, 128), (2, 48)][tries % 4];
            let mut still = Vec::new();
            for (server, urls) in left {
                let url = if urls.is_empty() { server.url("copy") } else { urls[tries % 2].clone() };
                gate.allow(allowed);
                let (vault, options) = (vault.clone(), with(server, jobs, memory));
                let mut run = tokio::spawn(async move { recover(&vault, &url, &options).await });
                tokio::select! {
                    done = &mut run => {
                        let restored = done.expect("no panic").expect("restored");
                        assert!(restored.resumed && tries > 2, "{tries}");
                        continue;
                    }
                    () = gate.stopped() => run.abort(),
                }
                let _ = run.await;
                still.push((server, urls));
            }
            left = still;
            tries += 1;
            allowed += 4;
            assert!(allowed < 3 * usize::try_from(chunks).expect("few") + 40, "it never ends");
        }
        gate.allow(usize::MAX);
        for server in [&from, &other] {
            assert_eq!(content(server, "copy"), expected, "{copy:?}");
            nothing_stays(server, "copy");
            server.sql("postgres", "DROP DATABASE copy");
        }
    }
}

/// The path of a folder, encoded for a URL.
fn spelled(folder: &std::path::Path) -> String {
    folder.display().to_string().replace('/', "%2F")
}
