//! Proofs: a restored set is compared with the set, and everything that differs is named.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_archive::{Chunk, SetReader};
use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{ProveOptions, Proved, World, prove};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Prefix, Store as _, Vault};

use crate::server::Server;
use crate::support::{backup, environment, limits, nothing_stays, roles, target, vault};
use crate::whole_server;

pub(crate) async fn proof(vault: &Vault, server: &Server, to: Option<&str>) -> Result<Proved, Failure> {
    let options = ProveOptions { when: When::Latest, to: to.map(target), limits: limits(server) };
    Ok(prove(vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// A server whose database has every kind of object.
fn filled(major: u32) -> Server {
    let server = Server::start(major);
    roles(&server);
    server.sql("postgres", "CREATE DATABASE shop OWNER alice");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/everything.sql");
    server.script("shop", &fixture);
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_proved_on_a_server_of_its_own_and_nothing_stays() {
    for major in [15, 18] {
        let server = filled(major);
        let vault = vault(&MemoryStore::new());
        let dumped = backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        let proved = proof(&vault, &server, None).await.expect("proved");
        assert_eq!(proved.findings, Vec::new());
        assert_eq!((proved.manifest.id, proved.server_version / 10_000), (dumped.manifest.id, major));
        assert!(proved.tables > 10 && proved.objects > 100, "{proved:?}");
        assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database"), "4", "this one was left alone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_proved_on_a_server_that_is_named_and_nothing_stays_whatever_comes_of_it() {
    let server = filled(15);
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let left = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database";
    let proved = proof(&vault, &server, Some(&server.url("postgres"))).await.expect("proved");
    assert_eq!((proved.findings, server.sql("postgres", left).as_str()), (vec![], "postgres shop template0 template1"));
    let bare = Server::start(15);
    let failure = proof(&vault, &bare, Some(&bare.url("postgres"))).await.expect_err("roles are missing");
    assert_eq!(failure.code, "postgres.not-ready");
    assert_eq!(bare.sql("postgres", left), "postgres template0 template1");
}

/// One database is a template, one has a connection limit and one has another encoding. The superuser has another name.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_a_whole_server_is_proved_database_by_database_and_nothing_stays() {
    for major in [15, 18] {
        let server = Server::start(major);
        whole_server::fill(&server);
        server.sql(
            "shop",
            "CREATE FUNCTION on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; \
             CREATE EVENT TRIGGER ddl ON ddl_command_end EXECUTE FUNCTION on_ddl(); ALTER EVENT TRIGGER ddl OWNER TO admin; \
             CREATE UNLOGGED TABLE cache AS SELECT 1 AS a",
        );
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url(""), &vault).await.expect("backed up");
        let there = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database";
        let before = server.sql("postgres", there);
        for to in [None, Some(server.url("postgres"))] {
            let proved = proof(&vault, &server, to.as_deref()).await.expect("proved");
            assert_eq!(proved.findings, Vec::new());
            assert_eq!((proved.databases, proved.server_version / 10_000), (5, major));
            assert!(proved.tables >= 4, "{proved:?}");
            assert_eq!(server.sql("postgres", there), before);
        }
        nothing_stays(&server, "postgres");
    }
}

/// The error names the database of the server's set whose rows are damaged.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_a_whole_server_that_lost_a_chunk_is_not_proved() {
    let server = Server::start(15);
    whole_server::fill(&server);
    let store = MemoryStore::new();
    let vault = vault(&store);
    backup(&server, &server.url(""), &vault).await.expect("backed up");
    let page = store.list(&Prefix::all(), None, 1000).await.expect("memory");
    let chunk = page.entries.iter().map(|entry| &entry.key).filter(|key| key.as_str().ends_with(".zst")).max();
    let chunk = chunk.expect("chunks").clone();
    vault.delete(std::slice::from_ref(&chunk)).await.expect("deleted");
    let failure = proof(&vault, &server, Some(&server.url("postgres"))).await.expect_err("a chunk is gone");
    assert!(failure.object.ends_with(chunk.as_str()), "{failure:?}");
    nothing_stays(&server, "postgres");
    assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname ~ 'proof'"), "0");
}

/// Damages one chunk with rows of `shop` in the set of a whole server.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_rows_of_a_whole_server_are_named_with_their_database() {
    let server = Server::start(15);
    whole_server::fill(&server);
    let store = MemoryStore::new();
    let vault = vault(&store);
    let set = backup(&server, &server.url(""), &vault).await.expect("backed up").manifest;
    let reader = SetReader::open(vault.clone(), set).await.expect("opened");
    let of_shop = |item: u32| reader.index().items[item as usize].database.as_deref() == Some("shop");
    let rows = |chunk: &Chunk| chunk.frames.iter().any(|frame| frame.rows > 1000 && of_shop(frame.item));
    let number = reader.index().chunks.iter().position(rows).expect("rows of shop");
    let object = reader.object(u32::try_from(number).expect("a number")).expect("a name");
    let page = store.list(&Prefix::all(), None, 1000).await.expect("memory");
    let key = page.entries.iter().map(|entry| &entry.key).find(|key| object.ends_with(key.as_str())).expect("a chunk");
    let body = store.get(key, None).await.expect("memory");
    let mut bytes = body.stream.try_collect::<Vec<_>>().await.expect("memory").concat();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    vault.put(key, bytes.into(), None).await.expect("put");
    for to in [None, Some(server.url("postgres"))] {
        let failure = proof(&vault, &server, to.as_deref()).await.expect_err("rows are damaged");
        assert_eq!((failure.code, &failure.object), ("archive.corrupt", &object), "{failure:?}");
        assert!(failure.cause.ends_with(" (read for database shop)"), "{failure:?}");
        nothing_stays(&server, "postgres");
    }
}

/// Role and server read and write values with other settings, and the values still come back unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_role_change_no_value() {
    let (from, to) = (Server::start(15), Server::start(15));
    from.sql("postgres", "CREATE DATABASE shop");
    from.sql(
        "shop",
        "CREATE TABLE odd (at timestamptz, many text[], price money, wait interval, doc xml, note text); \
         INSERT INTO odd VALUES ('2024-03-31 01:30:00+01', '{NULL, \"NULL\", x}', 12.34, '-1 day +02:03', 'no document', E'a\\\\b\\n')",
    );
    for setting in [
        "timezone = 'Asia/Kolkata'",
        "array_nulls = off",
        "intervalstyle = sql_standard",
        "datestyle = 'SQL, DMY'",
        "xmloption = document",
        "standard_conforming_strings = off",
        "extra_float_digits = -10",
        "bytea_output = escape",
    ] {
        to.sql("postgres", &format!("ALTER ROLE postgres SET {setting}"));
    }
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    let proved = proof(&vault, &to, Some(&to.url("postgres"))).await.expect("proved");
    assert_eq!(proved.findings, Vec::new());
    backup(&to, &to.url("postgres"), &crate::support::vault(&MemoryStore::new())).await.expect("backed up");
}

/// Changes the restored database before it is compared. The proof must name the change.
#[tokio::test(flavor = "multi_thread")]
async fn what_differs_is_named() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE t AS SELECT i FROM generate_series(1, 100) i; CREATE TABLE u AS SELECT 1 AS a; GRANT SELECT ON t TO PUBLIC",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let (folder, limits) = crate::artefacts::programs(&server, "exec $REAL \"$@\"");
    // They come when the rows are loaded and `pg_restore` is asked for the grants. Before, there is nothing to change.
    let psql = format!("{} -XqAt -h {} -U postgres", server.bin().join("psql").display(), server.folder().display());
    let port = server.sql("postgres", "SHOW port");
    let unfinished = "SELECT datname FROM pg_database WHERE datname LIKE 'seawall_proof_%_unfinished'";
    let meddle = "UPDATE t SET i = 1000 WHERE i = 7; DROP TABLE u; CREATE VIEW v AS SELECT 1";
    let script = format!(
        "#!/bin/sh\nname=$({psql} -p {port} -d postgres -c \"{unfinished}\" < /dev/null)\n\
         [ -n \"$name\" ] && {psql} -p {port} -d \"$name\" -c '{meddle}' < /dev/null > /dev/null 2>&1\n\
         exec {} \"$@\"\n",
        server.bin().join("pg_restore").display()
    );
    std::fs::write(folder.path().join("pg_restore"), script).expect("written");
    let options = ProveOptions { when: When::Latest, to: Some(target(&server.url("postgres"))), limits };
    let proved = prove(&vault, &options, &World::real(environment()), Arc::new(NoProgress)).await.expect("compared");
    let objects: Vec<&str> = proved.findings.iter().map(|finding| finding.object.as_str()).collect();
    assert_eq!(objects, ["table public.u", "view public.v", "public.t", "public.u"]);
    assert!(proved.findings.iter().all(|finding| finding.code == "postgres.different"), "{:?}", proved.findings);
}
