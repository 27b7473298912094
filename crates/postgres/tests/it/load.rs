//! A database with writers while it is backed up.

use std::process::Stdio;

use seawall_vault::memory::MemoryStore;

use crate::server::{Server, output};
use crate::support::{backup, options, recover, vault};

#[tokio::test(flavor = "multi_thread")]
async fn sums_agree_when_a_backup_is_taken_under_load() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    let mut fill = server.tool("pgbench");
    fill.args(["-i", "-q", "-s", "4", "shop"]);
    output(fill);
    let mut load = server.tool("pgbench");
    load.args(["-n", "-c", "4", "-T", "60", "shop"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = load.spawn().expect("pgbench runs");
    let history = || server.sql("shop", "SELECT count(*) FROM pgbench_history").parse::<u64>().expect("a number");
    let vault = vault(&MemoryStore::new());
    let mut before = history();
    for _ in 0..3 {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while history() < before + 50 {
            assert!(std::time::Instant::now() < deadline, "the load doesn't write");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        before = history();
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    }
    load.kill().expect("ended");
    load.wait().expect("ended");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT sum(delta) FROM pgbench_history) = (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT count(*) FROM pgbench_accounts), (SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND connamespace = 'public'::regnamespace)";
    assert_eq!(server.sql("copy", sums), "t|t|t|400000|3");
    let restored: u64 = server.sql("copy", "SELECT count(*) FROM pgbench_history").parse().expect("a number");
    assert!(restored >= before, "{restored} {before}");
}
