//! A database with every kind of object, backed up and restored.

use std::path::Path;

use seawall_core::Moment;
use seawall_postgres::CopyFormat;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{FORMATS, backup, backup_as, content, options, recover, roles, schema, vault, without_statistics};

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/everything.sql")
}

fn filled(major: u32) -> Server {
    let server = Server::start(major);
    roles(&server);
    server.sql("postgres", "CREATE DATABASE shop OWNER alice");
    server.script("shop", &fixture());
    server
}

/// Backs up `shop` from one server, restores it on another one, and compares the two databases.
async fn there_and_back(copy: CopyFormat, from: &Server, to: &Server, newest: &Server) {
    let store = MemoryStore::new();
    let vault = vault(&store);
    let dumped = backup_as(copy, from, &from.url("shop"), &vault).await.expect("backed up");
    let as_text: Vec<_> =
        dumped.as_text.iter().map(|table| format!("{} {} {}", table.table, table.column, table.r#type)).collect();
    match copy {
        CopyFormat::Text => assert!(as_text.is_empty()),
        CopyFormat::Binary => assert_eq!(as_text, ["public.orders p public.pair"]),
    }
    assert!(dumped.manifest.totals.chunks > 3, "{:?}", dumped.manifest.totals);
    let before = content(from, "shop");
    let restored = recover(&vault, &to.url("copy"), &options(newest)).await.expect("restored");
    // Its owner mustn't call the function of an index, neither there nor here.
    let without: Vec<&str> = restored.without_statistics.iter().map(|(table, _)| table.as_str()).collect();
    assert_eq!(without, ["public.orders"]);
    assert_eq!(content(to, "copy"), before);
    assert_eq!(
        schema(newest, to, "copy").replace("copy", "shop"),
        schema(newest, from, "shop").replace("copy", "shop")
    );
    let verification =
        seawall_archive::verify(&vault, Moment::default(), std::sync::Arc::new(seawall_core::NoProgress), 2);
    assert_eq!(verification.await.expect("verified").findings, Vec::new());
    let left = to.sql("copy", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'seawall%'");
    assert_eq!(left, "0", "nothing of ours stays");
    assert_eq!(to.sql("copy", &without_statistics("NOT c.relisshared AND c.relname <> 'pg_statistic'")), "orders");
    assert_eq!(to.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'seawall%'"), "0");
}

/// Drops the restored database.
fn forget(server: &Server) {
    server.sql("copy", "DROP SUBSCRIPTION IF EXISTS sub");
    server.sql("postgres", "DROP DATABASE copy");
}

#[tokio::test]
async fn everything_comes_back_in_version_15() {
    let server = filled(15);
    // The other server is built without ICU.
    server.sql("shop", "CREATE COLLATION numeric (provider = icu, locale = 'de-u-kn-true'); \
                        CREATE TABLE by_number (a text COLLATE numeric PRIMARY KEY); INSERT INTO by_number VALUES ('a10'), ('a9')");
    for copy in FORMATS {
        there_and_back(copy, &server, &server, &server).await;
        forget(&server);
    }
}

#[tokio::test]
async fn everything_comes_back_in_version_18() {
    let server = filled(18);
    for copy in FORMATS {
        there_and_back(copy, &server, &server, &server).await;
        forget(&server);
    }
}

#[tokio::test]
async fn everything_of_version_15_comes_back_in_18() {
    let (old, new) = (filled(15), Server::start(18));
    roles(&new);
    for copy in FORMATS {
        let vault = vault(&MemoryStore::new());
        backup_as(copy, &old, &old.url("shop"), &vault).await.expect("backed up");
        recover(&vault, &new.url("copy"), &options(&old)).await.expect("restored");
        assert_eq!(content(&new, "copy"), content(&old, "shop"));
        forget(&new);
    }
}

#[tokio::test]
async fn an_older_server_is_refused_before_anything_is_done() {
    let (old, new) = (Server::start(15), Server::start(18));
    new.sql("postgres", "CREATE DATABASE shop");
    let vault = vault(&MemoryStore::new());
    backup(&new, &new.url("shop"), &vault).await.expect("backed up");
    let failure = recover(&vault, &old.url("copy"), &options(&new)).await.expect_err("older");
    assert_eq!(failure.code, "postgres.not-ready");
    assert!(failure.cause.contains("version 15, older than the 18"), "{}", failure.cause);
    assert_eq!(old.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname NOT LIKE 'template%'"), "1");
}

#[tokio::test]
async fn what_the_target_lacks_is_named_with_the_command_that_mends_it() {
    let (from, to) = (filled(15), Server::start(15));
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    let failure = recover(&vault, &to.url("copy"), &options(&to)).await.expect_err("roles are missing");
    assert_eq!(failure.code, "postgres.not-ready");
    assert!(failure.next.contains("CREATE ROLE \"alice\";"), "{}", failure.next);
    // Without owners and grants it needs none of them; policies and mappings still name roles.
    roles(&to);
    let mut without = options(&to);
    without.owners = false;
    recover(&vault, &to.url("copy"), &without).await.expect("restored");
    let owner = "SELECT relowner::regrole, relacl IS NULL FROM pg_class WHERE relname = 'orders'";
    assert_eq!(to.sql("copy", owner), "postgres|t");
    assert_eq!(to.sql("copy", "SELECT count(*) FROM orders"), "5000");
}

#[tokio::test]
async fn an_empty_database_comes_back_empty() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    let vault = vault(&MemoryStore::new());
    let dumped = backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    assert_eq!(dumped.manifest.totals.rows, 0);
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

#[tokio::test]
async fn an_existing_database_must_be_empty_or_is_replaced_in_one_moment() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("postgres", "CREATE DATABASE copy");
    server.sql("shop", "CREATE TABLE t AS SELECT 1 AS a");
    server.sql("copy", "CREATE TABLE other AS SELECT 2 AS a");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("not empty");
    assert_eq!(failure.code, "postgres.not-empty");
    assert_eq!(server.sql("copy", "SELECT a FROM other"), "2", "nothing was touched");
    let mut clean = options(&server);
    clean.clean = true;
    let mut psql = server.tool("psql");
    psql.args(["-d", "copy", "-c", "SELECT pg_sleep(600)"]).stdout(std::process::Stdio::null());
    let mut session = psql.spawn().expect("psql runs");
    let there =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = 'copy' AND query LIKE '%pg_sleep%' AND state = 'active'";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while server.sql("postgres", there) != "1" {
        assert!(std::time::Instant::now() < deadline, "the session doesn't come");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let failure = recover(&vault, &server.url("copy"), &clean).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use");
    assert_eq!(server.sql("copy", "SELECT a FROM other"), "2", "nothing was touched");
    server.sql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'copy'");
    session.wait().expect("ended");
    recover(&vault, &server.url("copy"), &clean).await.expect("replaced");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    server.sql("postgres", "CREATE DATABASE ready");
    recover(&vault, &server.url("ready"), &options(&server)).await.expect("into an empty one");
    assert_eq!(server.sql("ready", "SELECT a FROM t"), "1");
}

#[tokio::test]
async fn what_only_version_18_has_comes_back() {
    let server = Server::start(18);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE rooms (id int4range, valid daterange, PRIMARY KEY (id, valid WITHOUT OVERLAPS)); \
         CREATE TABLE stays (id int PRIMARY KEY, room int4range, during daterange, nights int GENERATED ALWAYS AS (upper(during) - lower(during)) VIRTUAL, \
         FOREIGN KEY (room, PERIOD during) REFERENCES rooms (id, PERIOD valid)); \
         CREATE TABLE guests (id int, stay int REFERENCES stays NOT ENFORCED, age int CHECK (age > 17) NOT ENFORCED, name text); \
         INSERT INTO guests VALUES (1, 99, 5, NULL); ALTER TABLE guests ADD CONSTRAINT named NOT NULL name NOT VALID; \
         INSERT INTO rooms VALUES ('[1,2)', '[2024-01-01,2024-02-01)'); INSERT INTO stays VALUES (1, '[1,2)', '[2024-01-20,2024-01-25)')",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
    assert_eq!(server.sql("copy", "SELECT nights FROM stays"), "5");
}

/// A database in SQL_ASCII doesn't say which encoding its bytes have, so they must not be converted.
#[tokio::test]
async fn bytes_of_a_database_without_an_encoding_come_back() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    server.sql(
        "shop",
        "CREATE TABLE notes (id int PRIMARY KEY, note text); \
         INSERT INTO notes SELECT i, convert_from('\\xe9ff', 'SQL_ASCII') || i FROM generate_series(1, 100) i; \
         DO $$ BEGIN EXECUTE format('COMMENT ON TABLE notes IS %L', convert_from('\\xe9', 'SQL_ASCII')); \
         EXECUTE format('CREATE INDEX partly ON notes (id) WHERE note <> %L', convert_from('\\xe8', 'SQL_ASCII')); END $$",
    );
    let bytes = "SELECT (SELECT md5(string_agg(note::bytea, '' ORDER BY id)) FROM notes), obj_description('notes'::regclass)::bytea, \
                 (SELECT indexdef::bytea FROM pg_indexes WHERE indexname = 'partly')";
    let before = server.sql("shop", bytes);
    assert!(before.contains("e8") && before.contains("\\xe9"), "{before}");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(server.sql("copy", bytes), before);
}

#[tokio::test]
async fn an_invalid_index_is_named_and_everything_else_comes_back() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (1); CREATE INDEX t_a ON t (a); CREATE INDEX \"b \u{e4}\" ON t (a)");
    server.sql("shop", "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '\"b \u{e4}\"'::regclass");
    let vault = vault(&MemoryStore::new());
    let dumped = backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    assert_eq!(dumped.invalid, [("shop".to_owned(), "public.\"b \u{e4}\"".to_owned())]);
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    assert_eq!(server.sql("copy", "SELECT string_agg(indexname, ' ') FROM pg_indexes WHERE tablename = 't'"), "t_a");
}
