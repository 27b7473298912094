//! Proofs that pass sound sets, name the differences of others, and leave nothing behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall_archive::names::ProofName;
use seawall_core::NoProgress;
use seawall_postgres::{CopyFormat, DumpOptions, Format, World, dump};
use seawall_vault::memory::MemoryStore;

use crate::prove::proof;
use crate::server::Server;
use crate::support::{backup, environment, limits, nothing_stays, target, vault};

/// If a child's table is made in one statement, its columns are in another order. A view gets names for its columns.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_whose_parent_got_a_column_later_is_proved() {
    for major in [15, 18] {
        let server = Server::start(major);
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql(
            "shop",
            "CREATE TABLE a (x int); CREATE TABLE b (y int) INHERITS (a); ALTER TABLE a ADD z int; INSERT INTO b VALUES (1, 2, 3); \
             CREATE TABLE p (i int, t text) PARTITION BY LIST (i); CREATE TABLE q (t text, gone int, i int); ALTER TABLE q DROP gone; \
             ALTER TABLE p ATTACH PARTITION q FOR VALUES IN (1); INSERT INTO p VALUES (1, 'a'); \
             CREATE FUNCTION f() RETURNS TABLE (a text) LANGUAGE sql BEGIN ATOMIC SELECT 'x'; END; \
             CREATE SCHEMA \"s.t\"; CREATE TABLE \"s.t\".u AS SELECT 1 AS a; CREATE SCHEMA s; CREATE TABLE s.\"t.u\" AS SELECT 2 AS a",
        );
        for copy in [CopyFormat::Text, CopyFormat::Binary] {
            let vault = vault(&MemoryStore::new());
            crate::support::backup_as(copy, &server, &server.url("shop"), &vault).await.expect("backed up");
            for to in [None, Some(server.url("postgres"))] {
                let proved = proof(&vault, &server, to.as_deref()).await.expect("proved");
                assert_eq!((proved.findings, proved.rows), (Vec::new(), 4), "{major} {copy:?}");
            }
        }
    }
}

/// In the comments of a script `pg_dump` writes a line break as a space.
#[tokio::test(flavor = "multi_thread")]
async fn names_with_line_breaks_are_proved_in_every_format() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE SEQUENCE \"s\nq\"; SELECT nextval('\"s\nq\"'); CREATE SEQUENCE \"it's \\ it\"; SELECT setval('\"it''s \\ it\"', 7); \
         CREATE TABLE \"t\n-- Name: x; Type: TABLE; Schema: y; Owner: z\" AS SELECT 1 AS \"c\nd\"; CREATE MATERIALIZED VIEW \"m\nv\" AS SELECT 1 AS a",
    );
    for format in [Format::Native, Format::Custom, Format::Plain, Format::Directory] {
        let vault = vault(&MemoryStore::new());
        let options = DumpOptions { limits: limits(&server), format, ..DumpOptions::default() };
        let world = World::real(environment());
        dump(&target(&server.url("shop")), &vault, &options, &world, Arc::new(NoProgress)).await.expect("backed up");
        let proved = proof(&vault, &server, Some(&server.url("postgres"))).await.expect("proved");
        assert_eq!((proved.findings, proved.rows), (Vec::new(), 1), "{format:?}");
    }
    nothing_stays(&server, "postgres");
}

/// A proof that ends without cleaning up, as by SIGKILL.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_proof_leaves_is_not_backed_up_and_the_next_proof_removes_it() {
    let server = Arc::new(Server::start(15));
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE t AS SELECT i FROM generate_series(1, 300000) i; CREATE PUBLICATION p FOR TABLE t; \
         CREATE SUBSCRIPTION s CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false, slot_name = 'slot')",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let left = "SELECT string_agg(datname, ' ') FROM pg_database WHERE datname LIKE 'seawall%'";
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut remains = String::new();
    while remains.is_empty() {
        assert!(Instant::now() < deadline, "no proof was interrupted");
        let (vault, other) = (vault.clone(), Arc::clone(&server));
        let killed = tokio::spawn(async move {
            let url = other.url("postgres");
            proof(&vault, &other, Some(&url)).await.map(drop)
        });
        while !killed.is_finished() && server.sql("postgres", left).is_empty() {
            tokio::task::yield_now().await;
        }
        killed.abort();
        let _ = killed.await;
        remains = server.sql("postgres", left);
    }
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'seawall'";
    while server.sql("postgres", sessions) != "0" {
        assert!(Instant::now() < deadline, "a session stays");
    }
    // A name that only looks like one of a proof's is a user's.
    server.sql("postgres", "CREATE DATABASE seawall_proof_00000001");
    let whole = crate::support::vault(&MemoryStore::new());
    let dumped = backup(&server, &server.url(""), &whole).await.expect("backed up");
    assert_eq!(dumped.left_out, [remains]);
    assert!(dumped.databases.contains(&"seawall_proof_00000001".to_owned()), "{:?}", dumped.databases);
    let proved = proof(&vault, &server, Some(&server.url("postgres"))).await.expect("proved");
    assert_eq!(proved.findings, Vec::new());
    assert_eq!(server.sql("postgres", left), "seawall_proof_00000001");
    server.sql("postgres", "DROP DATABASE seawall_proof_00000001");
    nothing_stays(&server, "postgres");
}

/// A proof closes its database when it makes it, and may be killed before it opens it.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_database_of_a_killed_proof_is_not_backed_up() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    let closed = ProofName::unfinished(&ProofName::new(7).whole()).expect("a name");
    server.sql("postgres", &format!("CREATE DATABASE {closed} ALLOW_CONNECTIONS false"));
    let dumped = backup(&server, &server.url(""), &vault(&MemoryStore::new())).await.expect("backed up");
    assert_eq!(dumped.left_out, [closed]);
    assert!(dumped.databases.contains(&"shop".to_owned()), "{:?}", dumped.databases);
}

/// A running proof keeps its database, however many others begin.
#[tokio::test(flavor = "multi_thread")]
async fn proofs_at_work_leave_each_other_alone() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT i FROM generate_series(1, 100000) i");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let url = server.url("postgres");
    let proofs = (0..3).map(|_| proof(&vault, &server, Some(&url)));
    for proved in futures::future::join_all(proofs).await {
        assert_eq!(proved.expect("proved").findings, Vec::new());
    }
    nothing_stays(&server, "postgres");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_a_whole_server_names_the_database() {
    let (server, bare) = (Server::start(15), Server::start(15));
    server.sql("postgres", "CREATE ROLE alice");
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t (a int); ALTER TABLE t OWNER TO alice");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url(""), &vault).await.expect("backed up");
    let failure = proof(&vault, &bare, Some(&bare.url("postgres"))).await.expect_err("a role is missing");
    assert_eq!(failure.code, "postgres.not-ready");
    assert!(failure.object.ends_with(" in database shop"), "{failure:?}");
    nothing_stays(&bare, "postgres");
}
