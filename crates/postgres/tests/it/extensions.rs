//! Extensions whose own tables hold a user's rows: keys between them, and a mode that must be asked for.

use seawall_core::Failure;
use seawall_postgres::{CopyFormat, RestoreOptions, Restored};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::prove::proof;
use crate::server::Server;
use crate::support::{backup, backup_as, content, nothing_stays, options, recover, vault};

/// An extension that every role may make. Its larger tables refer to the smaller ones, and one table refers to later
/// rows of its own.
const LAYERS: [&str; 3] = [
    "layers",
    "superuser = false",
    "CREATE SCHEMA layers; SET LOCAL search_path = layers; CREATE TABLE layer (id int PRIMARY KEY, topology int, filler text); \
     CREATE TABLE topology (id int PRIMARY KEY, next int REFERENCES topology, kind int, filler text); \
     CREATE TABLE kind (id int PRIMARY KEY); \
     ALTER TABLE layer ADD FOREIGN KEY (topology) REFERENCES topology; ALTER TABLE topology ADD FOREIGN KEY (kind) REFERENCES kind; \
     SELECT pg_catalog.pg_extension_config_dump('layer', ''); SELECT pg_catalog.pg_extension_config_dump('topology', ''); \
     SELECT pg_catalog.pg_extension_config_dump('kind', '');",
];

const LAYERS_ROWS: &str = "CREATE EXTENSION layers; INSERT INTO layers.kind VALUES (1), (2); \
     INSERT INTO layers.topology SELECT i, nullif((i + 7000) % 30000, 0), 1 + i % 2, repeat(md5(i::text), 8) FROM generate_series(1, 29999) i; \
     INSERT INTO layers.layer SELECT i, 1 + i % 100, repeat(md5(i::text), 9) FROM generate_series(1, 40000) i; \
     CREATE TABLE users AS SELECT generate_series(1, 100) AS a";

/// Restores as a role that may not turn keys off.
async fn as_owner(vault: &Vault, server: &Server, database: &str) -> Result<Restored, Failure> {
    let options = RestoreOptions { owners: false, ..options(server) };
    recover(vault, &server.url_as("owner", database), &options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_an_extension_are_loaded_in_the_order_of_their_keys_by_a_role_that_may_not_turn_them_off() {
    for major in [15, 18] {
        let (from, to) =
            (Server::start_with_extensions(major, "", &[LAYERS]), Server::start_with_extensions(major, "", &[LAYERS]));
        from.sql("postgres", "CREATE DATABASE shop");
        from.sql("shop", LAYERS_ROWS);
        to.sql("postgres", "CREATE ROLE owner LOGIN CREATEDB");
        for copy in [CopyFormat::Text, CopyFormat::Binary] {
            let vault = vault(&MemoryStore::new());
            backup_as(copy, &from, &from.url("shop"), &vault).await.expect("backed up");
            as_owner(&vault, &to, "copy").await.expect("restored");
            let rows = "SELECT * FROM layers.topology ORDER BY 1";
            assert_eq!(to.sql("copy", rows), from.sql("shop", rows), "{major} {copy:?}");
            let rows = "SELECT * FROM layers.layer ORDER BY 1";
            assert_eq!(to.sql("copy", rows), from.sql("shop", rows), "{major} {copy:?}");
            nothing_stays(&to, "copy");
            to.sql("postgres", "DROP DATABASE copy");
            if copy == CopyFormat::Text {
                let proved = proof(&vault, &to, None).await.expect("proved");
                assert_eq!((proved.findings, proved.rows), (Vec::new(), 70_101));
            }
        }
        // Where somebody else made the extension.
        let vault = vault(&MemoryStore::new());
        backup(&from, &from.url("shop"), &vault).await.expect("backed up");
        to.sql("postgres", "CREATE DATABASE copy");
        to.sql("copy", "CREATE EXTENSION layers; GRANT USAGE ON SCHEMA layers TO owner; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA layers TO owner; \
                        GRANT CREATE ON DATABASE copy TO owner; GRANT CREATE ON SCHEMA public TO owner");
        as_owner(&vault, &to, "copy").await.expect("restored");
        let counts = "SELECT (SELECT count(*) FROM layers.layer), (SELECT count(*) FROM layers.topology), (SELECT count(*) FROM users)";
        assert_eq!(to.sql("copy", counts), "40000|29999|100");
        nothing_stays(&to, "copy");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_broke_off_at_a_key_of_an_extension_goes_on_in_the_same_order() {
    let server = Server::start_with_extensions(15, "", &[LAYERS]);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", LAYERS_ROWS);
    server.sql("shop", "SET session_replication_role = replica; DELETE FROM layers.kind WHERE id = 2");
    server.sql("postgres", "CREATE ROLE owner LOGIN CREATEDB");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let failure = as_owner(&vault, &server, "copy").await.expect_err("a row refers to nothing");
    assert_eq!(
        (failure.code, failure.object.as_str()),
        ("postgres.constraint", "layers.topology in database copy"),
        "{failure:?}"
    );
    // Somebody mends it, and the same command goes on in the order that it began in.
    let unfinished = server.sql("postgres", "SELECT datname FROM pg_database WHERE datname LIKE 'seawall-%'");
    server.sql(&unfinished, "INSERT INTO layers.kind VALUES (2)");
    let restored = as_owner(&vault, &server, "copy").await.expect("restored");
    assert!(restored.resumed);
    server.sql("shop", "INSERT INTO layers.kind VALUES (2)");
    assert_eq!(content(&server, "copy")[0], content(&server, "shop")[0]);
    nothing_stays(&server, "copy");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_an_extension_that_refer_to_each_other_are_refused_before_anything_is_made_or_come_back_without_keys()
{
    let circle = [
        "circle",
        "superuser = false\nschema = circle",
        "CREATE TABLE a (id int PRIMARY KEY, b int); CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a); \
         ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b; \
         SELECT pg_catalog.pg_extension_config_dump('a', ''); SELECT pg_catalog.pg_extension_config_dump('b', '');",
    ];
    for major in [15, 18] {
        let server = Server::start_with_extensions(major, "", &[circle]);
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql("shop", "CREATE EXTENSION circle; INSERT INTO circle.a VALUES (1); INSERT INTO circle.b VALUES (1, 1); UPDATE circle.a SET b = 1; CREATE TABLE t ()");
        server.sql("postgres", "CREATE ROLE owner LOGIN CREATEDB");
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        let failure = as_owner(&vault, &server, "copy").await.expect_err("there is no order");
        assert_eq!(failure.code, "postgres.circular-keys", "{failure:?}");
        assert!(failure.object.starts_with("tables circle.a, circle.b"), "{failure:?}");
        let unfinished = server.sql("postgres", "SELECT datname FROM pg_database WHERE datname LIKE 'seawall-%'");
        assert_eq!(
            server.sql(&unfinished, "SELECT to_regclass('public.t'), to_regclass('circle.a')"),
            "|",
            "nothing is made"
        );
        server.sql("postgres", &format!("DROP DATABASE \"{unfinished}\""));
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        nothing_stays(&server, "copy");
    }
}

/// An extension whose catalog accepts rows only in its restore mode, even if triggers are off.
const TIMESCALEDB: [&str; 3] = [
    "timescaledb",
    "superuser = true\nschema = timescale",
    "CREATE FUNCTION timescaledb_pre_restore() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN \
       EXECUTE format('ALTER DATABASE %I SET timescaledb.restoring = %L', current_database(), 'on'); \
       PERFORM set_config('timescaledb.restoring', 'on', false); RETURN true; END $$; \
     CREATE FUNCTION timescaledb_post_restore() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN \
       EXECUTE format('ALTER DATABASE %I RESET timescaledb.restoring', current_database()); \
       PERFORM set_config('timescaledb.restoring', 'off', false); RETURN true; END $$; \
     CREATE FUNCTION only_restoring() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
       IF current_setting('timescaledb.restoring', true) IS DISTINCT FROM 'on' THEN RAISE EXCEPTION 'not restoring'; END IF; RETURN NEW; END $$; \
     CREATE TABLE hypertable (id int PRIMARY KEY); CREATE TABLE chunk (id int PRIMARY KEY, hypertable int REFERENCES hypertable); \
     CREATE TRIGGER only_restoring BEFORE INSERT ON chunk FOR EACH ROW EXECUTE FUNCTION only_restoring(); \
     ALTER TABLE chunk ENABLE ALWAYS TRIGGER only_restoring; \
     SELECT pg_catalog.pg_extension_config_dump('chunk', ''); SELECT pg_catalog.pg_extension_config_dump('hypertable', '');",
];

#[tokio::test(flavor = "multi_thread")]
async fn timescaledb_is_told_that_a_restore_begins_and_that_it_ends_whatever_comes_of_it() {
    for major in [15, 18] {
        let server = Server::start_with_extensions(major, "", &[TIMESCALEDB]);
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql(
            "shop",
            "CREATE EXTENSION timescaledb; SELECT timescale.timescaledb_pre_restore(); INSERT INTO timescale.hypertable VALUES (1), (2); \
             INSERT INTO timescale.chunk SELECT i, 1 + i % 2 FROM generate_series(1, 1000) i; SELECT timescale.timescaledb_post_restore(); \
             CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int REFERENCES a); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); \
             CREATE TABLE called (name text); \
             CREATE FUNCTION public.timescaledb_pre_restore() RETURNS bool LANGUAGE sql AS 'INSERT INTO public.called VALUES (''before'') RETURNING true'; \
             CREATE FUNCTION public.timescaledb_post_restore() RETURNS bool LANGUAGE sql AS 'INSERT INTO public.called VALUES (''after'') RETURNING true'",
        );
        let mode = "SELECT count(*) FROM pg_db_role_setting WHERE setconfig::text ~ 'restoring'";
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"), "{major}");
        assert_eq!(server.sql("postgres", mode), "0");
        for to in [None, Some(server.url("postgres"))] {
            let proved = proof(&vault, &server, to.as_deref()).await.expect("proved");
            assert_eq!(proved.findings, Vec::new());
        }
        // Rows alone go into its catalog in the same mode.
        server.sql("copy", "TRUNCATE a, b, called, timescale.hypertable, timescale.chunk");
        let rows = RestoreOptions { data_only: true, ..options(&server) };
        recover(&vault, &server.url("copy"), &rows).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"), "{major}");
        assert_eq!(server.sql("postgres", mode), "0");
        // One that fails in a database that was there doesn't leave it so, and the same again goes on.
        server.sql("shop", "SET session_replication_role = replica; DELETE FROM a");
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        server.sql("postgres", "CREATE DATABASE place");
        let failure = recover(&vault, &server.url("place"), &options(&server)).await.expect_err("a key is broken");
        assert_eq!(failure.code, "postgres.constraint", "{failure:?}");
        assert_eq!(server.sql("postgres", mode), "0", "{major}");
        server.sql("place", "INSERT INTO a VALUES (1)");
        let restored = recover(&vault, &server.url("place"), &options(&server)).await.expect("restored");
        assert!(restored.resumed);
        let chunks = "SELECT count(*), sum(id) FROM timescale.chunk";
        assert_eq!(server.sql("place", chunks), server.sql("shop", chunks));
        assert_eq!(server.sql("postgres", mode), "0", "{major}");
        nothing_stays(&server, "place");
    }
}

/// An extension whose event trigger checks that the triggers named in its rows exist, as that of `periods` does.
const GUARD: [&str; 3] = [
    "guard",
    "superuser = true",
    "CREATE SCHEMA guard; CREATE TABLE guard.kept (name text); SELECT pg_catalog.pg_extension_config_dump('guard.kept', ''); \
     CREATE FUNCTION guard.look() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN IF EXISTS (SELECT FROM guard.kept k \
       WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgname = k.name)) THEN RAISE EXCEPTION 'a trigger is gone'; END IF; END $$; \
     CREATE EVENT TRIGGER look ON ddl_command_end EXECUTE FUNCTION guard.look();",
];

#[tokio::test(flavor = "multi_thread")]
async fn event_triggers_of_extensions_that_look_after_what_is_not_made_yet_are_off_until_it_is() {
    for major in [15, 18] {
        let server = Server::start_with_extensions(major, "", &[GUARD]);
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql(
            "shop",
            "CREATE EXTENSION guard; CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int REFERENCES t); INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); \
             CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; \
             CREATE TRIGGER watched BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); INSERT INTO guard.kept VALUES ('watched')",
        );
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"), "{major}");
        let keys = "SELECT conname, convalidated FROM pg_constraint WHERE contype IN ('p', 'f') ORDER BY 1";
        assert_eq!(server.sql("copy", keys), server.sql("shop", keys));
        assert!(server.try_sql("copy", "DROP TRIGGER watched ON t; CREATE TABLE v ()").is_none(), "it looks again");
        let proved = proof(&vault, &server, None).await.expect("proved");
        assert_eq!(proved.findings, Vec::new());
        nothing_stays(&server, "copy");
    }
}
