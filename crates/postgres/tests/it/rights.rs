//! Roles that don't see everything: an incomplete backup is refused by name, with the statement that grants access. The
//! role with the fewest accepted rights makes a complete set.

use std::path::Path;
use std::sync::Arc;

use seawall_archive::Catalog;
use seawall_core::{Failure, Kind, NoProgress};
use seawall_postgres::{DumpOptions, Format, RestoreOptions, World, dump};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, content, environment, limits, options, recover, roles, schema, target, vault};
use crate::whole_server;

/// Every kind of object, and a role for backups without any right.
fn filled(major: u32) -> Server {
    let server = Server::start(major);
    roles(&server);
    server.sql("postgres", "CREATE ROLE backup LOGIN");
    server.sql("postgres", "CREATE DATABASE shop OWNER alice");
    server.script("shop", &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/everything.sql"));
    server
}

/// The statements that a failure advises, without the remarks beside them.
fn advice(failure: &Failure) -> &str {
    failure.next.split_once('(').map_or(failure.next.as_str(), |(statements, _)| statements)
}

async fn denied(server: &Server, vault: &seawall_vault::Vault, database: &str) -> Failure {
    let failure = backup(server, &server.url_as("backup", database), vault).await.expect_err("something is hidden");
    assert_eq!((failure.kind, failure.code), (Kind::Denied, "postgres.permission"), "{failure:?}");
    assert_eq!(Catalog::read(vault).await.expect("read").sets().len(), 0);
    failure
}

async fn backed_up_by_the_least_privileged_role(major: u32) {
    let server = filled(major);
    let vault = vault(&MemoryStore::new());
    let failure = denied(&server, &vault, "shop").await;
    for hidden in ["it may not read ", "it may not read large objects", "rows of public.orders", "the subscription sub"]
    {
        assert!(failure.cause.contains(hidden), "{hidden}: {failure:?}");
    }
    assert_eq!(failure.object, "role backup in database shop");
    // What only a superuser sees goes; everything else is granted.
    server.sql(
        "shop",
        "DROP SUBSCRIPTION sub; ALTER USER MAPPING FOR alice SERVER remote OPTIONS (DROP \"user\", DROP password)",
    );
    let failure = denied(&server, &vault, "shop").await;
    let statements = "GRANT pg_read_all_data TO \"backup\"; ALTER ROLE \"backup\" BYPASSRLS;";
    assert_eq!(failure.next, statements);
    server.sql("postgres", statements);
    backup(&server, &server.url_as("backup", "shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    assert_eq!(
        schema(&server, &server, "copy").replace("copy", "shop"),
        schema(&server, &server, "shop").replace("copy", "shop")
    );
}

#[tokio::test]
async fn the_least_privileged_role_backs_up_every_kind_of_object_of_version_15() {
    backed_up_by_the_least_privileged_role(15).await;
}

#[tokio::test]
async fn the_least_privileged_role_backs_up_every_kind_of_object_of_version_18() {
    backed_up_by_the_least_privileged_role(18).await;
}

/// The role has every other right. Each kind of object that `pg_dump` leaves out without an error is refused by itself.
#[tokio::test]
async fn what_pg_dump_would_leave_out_is_refused_until_a_superuser_asks() {
    for hidden in [
        "CREATE SUBSCRIPTION sub CONNECTION 'dbname=nowhere' PUBLICATION pub WITH (connect = false, slot_name = NONE)",
        "CREATE EXTENSION postgres_fdw; CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw; \
         CREATE USER MAPPING FOR postgres SERVER remote OPTIONS (user 'u', password 'p')",
    ] {
        let server = Server::start(15);
        server
            .sql("postgres", "CREATE ROLE backup LOGIN; GRANT pg_read_all_data TO backup; ALTER ROLE backup BYPASSRLS");
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql("shop", &format!("CREATE TABLE t AS SELECT 1 AS a; {hidden}"));
        let vault = vault(&MemoryStore::new());
        let failure = denied(&server, &vault, "shop").await;
        assert!(failure.cause.starts_with("pg_dump shows a superuser alone the "), "{failure:?}");
        server.sql("postgres", advice(&failure));
        backup(&server, &server.url_as("backup", "shop"), &vault).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
    }
}

/// Rights on each table are enough, if the role also has them on each sequence and large object.
#[tokio::test]
async fn rights_that_are_granted_one_by_one_are_enough_when_none_is_missing() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE backup LOGIN");
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE SCHEMA closed; CREATE TABLE closed.t (a serial); INSERT INTO closed.t VALUES (7); SELECT lo_from_bytea(0, 'x')",
    );
    let vault = vault(&MemoryStore::new());
    for (grant, missing) in [
        (
            "GRANT SELECT ON closed.t TO backup",
            "it may not read closed.t, closed.t_a_seq; it may not read large objects",
        ),
        ("GRANT USAGE ON SCHEMA closed TO backup", "it may not read closed.t_a_seq; it may not read large objects"),
        ("GRANT SELECT ON SEQUENCE closed.t_a_seq TO backup", "it may not read large objects"),
    ] {
        server.sql("shop", grant);
        assert_eq!(denied(&server, &vault, "shop").await.cause, missing);
    }
    server.sql("shop", "GRANT SELECT ON pg_largeobject TO backup");
    backup(&server, &server.url_as("backup", "shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

#[tokio::test]
async fn the_least_privileged_role_backs_up_a_whole_server() {
    let (from, to) = (Server::start(15), Server::start(15));
    whole_server::fill(&from);
    from.sql("postgres", "CREATE ROLE backup LOGIN; GRANT pg_read_all_data TO backup; ALTER ROLE backup BYPASSRLS");
    let vault = vault(&MemoryStore::new());
    // PUBLIC may not connect to one of the databases.
    let failure = denied(&from, &vault, "").await;
    assert_eq!(failure.cause, "it may not connect to database shop");
    from.sql("postgres", advice(&failure));
    let dumped = backup(&from, &from.url_as("backup", ""), &vault).await.expect("backed up");
    assert_eq!(dumped.databases, whole_server::DATABASES);
    recover(&vault, &to.url(""), &options(&to)).await.expect("restored");
    assert_eq!(whole_server::globals(&to), whole_server::globals(&from));
    for database in whole_server::DATABASES {
        assert_eq!(content(&to, database), content(&from, database), "{database}");
    }
}

/// `pg_dump` opens each large object. `pg_read_all_data` doesn't allow that.
#[tokio::test]
async fn large_objects_that_pg_dump_may_not_open_are_named_before_it_is_asked() {
    for major in [15, 18] {
        let server = Server::start(major);
        server.sql("postgres", "CREATE ROLE \"b's\" LOGIN; GRANT pg_read_all_data TO \"b's\"");
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql(
            "shop",
            "SELECT lo_from_bytea(n, 'abc') FROM generate_series(41, 43) n; GRANT SELECT ON LARGE OBJECT 42 TO PUBLIC",
        );
        for (format, more) in [(Format::Custom, false), (Format::Plain, true), (Format::Directory, false)] {
            if more {
                server.sql("shop", "SELECT lo_from_bytea(n, 'abc') FROM generate_series(51, 70) n");
            }
            let vault = vault(&MemoryStore::new());
            let options = DumpOptions { limits: limits(&server), format, ..DumpOptions::default() };
            let url = target(&server.url_as("b's", "shop"));
            let world = World::real(environment());
            let made = async || Ok::<_, Failure>(dump(&url, &vault, &options, &world, Arc::new(NoProgress)).await?);
            if format != Format::Directory {
                let failure = made().await.expect_err("it may not open them");
                assert_eq!((failure.kind, failure.code), (Kind::Denied, "postgres.permission"), "{failure:?}");
                let all = (51..=70).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
                let which = if more { &all } else { "41, 43" };
                assert_eq!(failure.cause, format!("pg_dump opens each large object, and it may not open {which}"));
                server.sql("shop", failure.next.split_once(" (or leave").expect("a statement").0);
            }
            made().await.expect("backed up");
            let clean = RestoreOptions { clean: true, ..crate::support::options(&server) };
            recover(&vault, &server.url("copy"), &clean).await.expect("restored");
            assert_eq!(content(&server, "copy"), content(&server, "shop"));
        }
    }
}
