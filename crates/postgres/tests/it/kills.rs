//! Servers that are killed at random moments: incomplete results don't count, repeated commands reach the same result,
//! and nothing of ours stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall_archive::Catalog;
use seawall_core::{Failure, Kind, Moment, NoProgress};
use seawall_postgres::{CopyFormat, Restored};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;
use tokio::task::JoinHandle;

use crate::server::Server;
use crate::support::{
    backup, backup_as, chunks_loaded, content, nothing_stays, options, random, recover, says_whole, start_backup, vault,
};

/// A server whose database has many chunks, keys, a foreign key, large objects and an unlogged table.
fn filled(rows: u32) -> Server {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    let fill = format!(
        "CREATE TABLE big (id int PRIMARY KEY, filler text); \
         INSERT INTO big SELECT i, repeat(md5(i::text), 8) FROM generate_series(1, {rows}) i; \
         CREATE TABLE small (id serial PRIMARY KEY, big int REFERENCES big); INSERT INTO small (big) SELECT id FROM big LIMIT 100; \
         CREATE UNLOGGED TABLE cache (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text); \
         INSERT INTO cache (v) SELECT md5(i::text) FROM generate_series(1, {rows} / 3) i; \
         CREATE MATERIALIZED VIEW sums AS SELECT id % 10 AS k, count(*) FROM big GROUP BY 1; \
         CREATE INDEX big_filler ON big (md5(filler)); SELECT lo_from_bytea(0, decode(repeat('ab', 3000), 'hex')) FROM generate_series(1, 300)"
    );
    server.sql("shop", &fill);
    server
}

/// Whether a failure is one of those that a dying server causes.
fn died(failure: &Failure) -> bool {
    let known = ["postgres.connection", "postgres.away", "postgres.tool-failed", "postgres.cancelled"];
    failure.kind == Kind::Unavailable && known.contains(&failure.code)
}

/// A restore that runs while the test does something else.
fn start_restore(server: &Server, database: &str, vault: &Vault) -> JoinHandle<Result<Restored, Failure>> {
    let (url, vault, options) = (server.url(database), vault.clone(), options(server));
    tokio::spawn(async move { recover(&vault, &url, &options).await })
}

async fn findings(vault: &Vault) -> usize {
    let verified = seawall_archive::verify(vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    verified.findings.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_of_a_server_that_is_killed_at_random_moments_are_whole_or_dont_count() {
    let (mut random, mut server) = (random(), filled(60_000));
    let vault = vault(&MemoryStore::new());
    let started = Instant::now();
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let whole = started.elapsed();
    let mut made = 1;
    for _ in 0..5 {
        let moment = whole.mul_f64(random.f64());
        let run = start_backup(&server, &vault);
        std::thread::sleep(moment);
        server.kill_9();
        match run.await.expect("no panic") {
            Ok(_) => made += 1,
            Err(failure) => assert!(died(&failure), "{failure:?}"),
        }
        server.start_again();
        assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), made);
        nothing_stays(&server, "shop");
    }
    assert_eq!(findings(&vault).await, 0);
    // The crash has emptied the unlogged table, which is what the database holds now.
    server.sql(
        "shop",
        "DELETE FROM big WHERE id > 50000; INSERT INTO cache (v) VALUES ('again'); REFRESH MATERIALIZED VIEW sums",
    );
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_into_a_server_that_is_killed_at_random_moments_converge() {
    killed_restores(CopyFormat::Text, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_in_binary_into_a_server_that_is_killed_at_random_moments_converge() {
    killed_restores(CopyFormat::Binary, 3).await;
}

async fn killed_restores(copy: CopyFormat, kills: u32) {
    let (mut random, from, mut to) = (random(), filled(60_000), Server::start(15));
    let vault = vault(&MemoryStore::new());
    let dumped = backup_as(copy, &from, &from.url("shop"), &vault).await.expect("backed up");
    assert_eq!(dumped.as_text, vec![]);
    let started = Instant::now();
    recover(&vault, &to.url("first"), &options(&to)).await.expect("restored");
    let whole = started.elapsed();
    let there = "SELECT count(*) FROM pg_database WHERE datname = 'copy'";
    for _ in 0..kills {
        let moment = whole.mul_f64(random.f64());
        let run = start_restore(&to, "copy", &vault);
        std::thread::sleep(moment);
        to.kill_9();
        let done = run.await.expect("no panic");
        to.start_again();
        match done {
            Ok(_) => {
                // Whoever crashes after the end has lost what is unlogged, as PostgreSQL says: once more.
                to.sql("postgres", "DROP DATABASE copy");
            }
            Err(failure) => {
                assert!(died(&failure), "{failure:?}");
                // Its name may be there already, when the connection that gave it was the one that broke.
                if to.sql("postgres", there) == "1" {
                    to.sql("postgres", "DROP DATABASE copy");
                }
            }
        }
    }
    recover(&vault, &to.url("copy"), &options(&to)).await.expect("restored");
    assert_eq!(content(&to, "copy"), content(&from, "shop"));
    nothing_stays(&to, "copy");
}

/// A crash empties unlogged tables, but the journal still records their rows as loaded.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_unlogged_tables_that_a_crash_took_are_loaded_again() {
    let (from, mut to) = (filled(150_000), Server::start(15));
    let vault = vault(&MemoryStore::new());
    let dumped = backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    assert!(dumped.manifest.totals.chunks > 3);
    // Everything is loaded, and something is still being built.
    let ours = "SELECT datname FROM pg_database WHERE datname LIKE 'seawall-%'";
    for place in ["new", "there"] {
        if place == "there" {
            to.sql("postgres", "CREATE DATABASE there");
        }
        let run = start_restore(&to, place, &vault);
        let deadline = Instant::now() + Duration::from_secs(60);
        let unfinished = loop {
            assert!(Instant::now() < deadline && !run.is_finished(), "it was never loaded");
            let database = if place == "there" { place.to_owned() } else { to.sql("postgres", ours) };
            if !database.is_empty() && chunks_loaded(&to, &database) + 2 >= dumped.manifest.totals.chunks {
                break database;
            }
        };
        to.kill_9();
        let failure = run.await.expect("no panic").expect_err("the server died");
        assert!(died(&failure), "{failure:?}");
        to.start_again();
        let again = recover(&vault, &to.url(place), &options(&to)).await;
        if place == "there" {
            // What was there before is the user's to empty.
            let failure = again.expect_err("rows are gone");
            assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.emptied"));
            to.sql("postgres", "DROP DATABASE there");
            to.sql("postgres", "CREATE DATABASE there");
            recover(&vault, &to.url(place), &options(&to)).await.expect("restored");
        } else {
            assert!(!again.expect("restored").resumed, "it was begun anew");
            // And where all was done but for the name.
            to.sql("postgres", &format!("ALTER DATABASE {place} RENAME TO \"{unfinished}\""));
            to.sql("postgres", &says_whole(&unfinished));
            to.kill_9();
            to.start_again();
            assert!(!recover(&vault, &to.url(place), &options(&to)).await.expect("restored").resumed, "begun anew");
        }
        assert_eq!(content(&to, place), content(&from, "shop"), "{place}");
        nothing_stays(&to, place);
    }
}
