//! A restore that is interrupted and started again with other settings: it ends in the same content, or is refused by name.

use std::sync::Arc;

use seawall_mysql::RestoreOptions;
use seawall_mysql::testing::Purpose;
use seawall_testing::Gate;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Policy, Vault};

use crate::link::{make_small, random};
use crate::restoring::{backup, everything, is_the_same, options, recover, unfinished};
use crate::server::Server;
use crate::support::vault;

fn with(jobs: usize, memory: u64, clean: bool) -> RestoreOptions {
    let mut options = RestoreOptions { clean, ..options() };
    options.limits.jobs = jobs;
    options.limits.memory = memory << 20;
    options
}

/// A server whose database has tables of several chunks each, a row that spans chunks, and small tables that share a chunk.
fn filled() -> Server {
    let server = Server::start();
    let random = "CONCAT(RANDOM_BYTES(1000), RANDOM_BYTES(1000), RANDOM_BYTES(1000))";
    let large: String = (1..=4)
        .map(|n| format!("CREATE TABLE t{n} (id int PRIMARY KEY, f blob) ENGINE={}; INSERT INTO t{n} SELECT seq, {random} FROM seq_1_to_2500; ", if n == 4 { "MyISAM" } else { "InnoDB" }))
        .collect();
    let small: String = (1..=20)
        .map(|n| format!("CREATE TABLE s{n} (i int); INSERT INTO s{n} SELECT seq FROM seq_1_to_{n}; "))
        .collect();
    server.sql(&format!(
        "CREATE DATABASE shop; USE shop; {large} {small} CREATE TABLE pieces (f blob); INSERT INTO pieces SELECT RANDOM_BYTES(1000) FROM seq_1_to_9000; \
         SET SESSION group_concat_max_len = 20000000; CREATE TABLE long_one (f longblob); \
         INSERT INTO long_one SELECT GROUP_CONCAT(f SEPARATOR '') FROM pieces; DROP TABLE pieces; CREATE TABLE no_key (f int); INSERT INTO no_key VALUES (1), (1)"
    ));
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_with_other_jobs_memory_and_spelling_end_in_the_same_content() {
    let (mut random, server) = (random(), filled());
    let gate = Gate::before(&MemoryStore::new());
    let vault = Vault::new(Arc::new(gate.clone()), Policy { seed: 1, ..Policy::default() });
    let dumped = backup(&server.url("shop"), &vault).await.expect("backed up");
    let chunks = usize::try_from(dumped.manifest.totals.chunks).expect("few");
    assert!(chunks > 10, "{chunks}");
    let expected = everything(&server, "shop");
    let urls = [server.url("copy"), server.tcp("root", "copy?ssl-mode=DISABLED")];
    let (mut tries, mut resumed) = (0, false);
    loop {
        let how = with([8, 1, 3, 2][random.usize(0..4)], [32, 48, 64, 128][random.usize(0..4)], false);
        gate.allow(3 + tries * 3);
        let (of, url) = (vault.clone(), urls[tries % 2].clone());
        let mut run = tokio::spawn(async move { recover(&of, &url, &how).await });
        let done = tokio::select! {
            done = &mut run => Some(done.expect("no panic")),
            () = gate.stopped() => None,
        };
        run.abort();
        server.wait("SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon'", "1");
        match done {
            Some(Ok(restored)) => {
                resumed |= restored.resumed;
                break;
            }
            Some(Err(failure)) => panic!("{failure:?}"),
            None => tries += 1,
        }
        assert!(tries < 30, "nothing is ever loaded");
    }
    assert!(tries > 1 && resumed, "{tries} {resumed}");
    is_the_same(&everything(&server, "copy"), &expected);
    assert_eq!(unfinished(&server), "");
}

/// It was to replace a database, and ended when it was about to. Without `--clean` it doesn't mix with what is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_to_replace_a_database_doesnt_go_on_beside_its_tables() {
    let server = Server::start();
    make_small(&server);
    let vault = vault(&MemoryStore::new());
    backup(&server.url("shop"), &vault).await.expect("backed up");
    server.sql("CREATE DATABASE copy; CREATE TABLE copy.precious (a int); INSERT INTO copy.precious VALUES (7)");
    let mut reader = server.connect(Purpose::Statements).await;
    reader.execute("START TRANSACTION").await.expect("begun");
    reader.query("SELECT * FROM copy.precious").await.expect("read");
    let run = tokio::spawn({
        let (vault, url) = (vault.clone(), server.url("copy"));
        async move { recover(&vault, &url, &with(2, 32, true)).await.map(drop) }
    });
    let dropping = "FROM information_schema.processlist WHERE info LIKE 'DROP DATABASE%' AND state LIKE 'Waiting%'";
    server.wait(&format!("SELECT COUNT(*) {dropping}"), "1");
    server.sql(&format!("KILL {}", server.sql(&format!("SELECT id {dropping}"))));
    run.await.expect("no panic").expect_err("killed");
    reader.execute("COMMIT").await.expect("ended");
    let failure = recover(&vault, &server.url("copy"), &with(1, 32, false)).await.expect_err("it is in the way");
    assert_eq!(failure.code, "mysql.not-ready", "{failure:?}");
    assert_eq!(server.sql("SHOW TABLES FROM copy; SELECT a FROM copy.precious"), "precious\n7");
    let restored = recover(&vault, &server.url("copy"), &with(1, 32, true)).await.expect("restored");
    assert!(restored.resumed);
    is_the_same(&everything(&server, "copy"), &everything(&server, "shop"));
    assert_eq!(unfinished(&server), "");
}

/// What is restored differs, so it isn't the same restore: neither touches what the other has begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_of_something_else_goes_on_with_none_of_it() {
    let server = filled();
    let gate = Gate::before(&MemoryStore::new());
    let vault = Vault::new(Arc::new(gate.clone()), Policy { seed: 1, ..Policy::default() });
    backup(&server.url("shop"), &vault).await.expect("backed up");
    let begun = with(3, 32, false);
    gate.allow(6);
    let run = tokio::spawn({
        let (vault, url) = (vault.clone(), server.url("copy"));
        async move { recover(&vault, &url, &begun).await.map(drop) }
    });
    gate.stopped().await;
    run.abort();
    gate.allow(usize::MAX);
    server.wait("SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon'", "1");
    let stays = unfinished(&server);
    assert_eq!(stays.lines().count(), 1, "{stays}");
    let some = RestoreOptions { tables: vec!["t1".to_owned(), "no_key".to_owned()], ..with(1, 32, false) };
    let restored = recover(&vault, &server.url("copy"), &some).await.expect("restored");
    assert!(!restored.resumed);
    assert_eq!(server.sql("SHOW TABLES FROM copy"), "no_key\nt1");
    assert_eq!(unfinished(&server), stays);
    let failure = recover(&vault, &server.url("copy"), &with(1, 32, false)).await.expect_err("it is in the way");
    assert_eq!(failure.code, "mysql.not-ready", "{failure:?}");
    server.sql("DROP DATABASE copy");
    let restored = recover(&vault, &server.url("copy"), &with(1, 32, false)).await.expect("restored");
    assert!(restored.resumed);
    is_the_same(&everything(&server, "copy"), &everything(&server, "shop"));
    assert_eq!(unfinished(&server), "");
}
