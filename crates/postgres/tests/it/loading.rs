//! Rows that can't simply be copied into the table that they were read from.

use seawall_postgres::{CopyFormat, ProveOptions, RestoreOptions, World, prove};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{
    FORMATS, backup, backup_as, content, environment, limits, nothing_stays, options, recover, target, vault,
};

fn shop(server: &Server, sql: &str) {
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", sql);
}

/// Proves the newest set on a server.
async fn proved(vault: &Vault, server: &Server) {
    let (when, to) = (seawall_core::When::Latest, Some(target(&server.url("postgres"))));
    let options = ProveOptions { when, to, limits: limits(server) };
    let (world, progress) = (World::real(environment()), std::sync::Arc::new(seawall_core::NoProgress));
    let proved = prove(vault, &options, &world, progress).await.expect("proved");
    assert_eq!(proved.findings, [], "{:?}", proved.findings);
}

/// Enums are hashed by their object ids, which differ between databases.
const BY_ENUM: &str = "
CREATE TYPE state AS ENUM ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');
CREATE TABLE p (s state, v int, filler text) PARTITION BY HASH (s);
CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE q (region int, s state) PARTITION BY RANGE (region);
CREATE TABLE q0 PARTITION OF q FOR VALUES FROM (0) TO (10) PARTITION BY HASH (s);
CREATE TABLE q00 PARTITION OF q0 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE q01 PARTITION OF q0 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE q1 PARTITION OF q FOR VALUES FROM (10) TO (20);
INSERT INTO p SELECT s, i, repeat(md5(i::text), 4) FROM unnest(enum_range(NULL::state)) s, generate_series(1, 4000) i;
INSERT INTO q SELECT i, s FROM unnest(enum_range(NULL::state)) s, generate_series(0, 19) i";

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_partitions_by_the_hash_of_an_enum_come_back_through_their_parent() {
    let (from, to) = (Server::start(15), Server::start(18));
    shop(&from, BY_ENUM);
    let sums = "SELECT (SELECT count(*) || ' ' || sum(hashtextextended(s || ' ' || v || filler, 0)) FROM p), \
                (SELECT count(*) || ' ' || sum(hashtextextended(s || ' ' || region, 0)) FROM q), (SELECT count(*) FROM q1)";
    for copy in FORMATS {
        let vault = vault(&MemoryStore::new());
        backup_as(copy, &from, &from.url("shop"), &vault).await.expect("backed up");
        for server in [&from, &to] {
            // Other types before it give the enum other numbers, and its labels with it.
            server.sql("postgres", "CREATE TYPE spare AS ENUM ('x', 'y', 'z', 'zz', 'zzz'); DROP TYPE spare");
            recover(&vault, &server.url("copy"), &options(server)).await.expect("restored");
            assert_eq!(server.sql("copy", sums), from.sql("shop", sums), "{copy:?}");
            proved(&vault, server).await;
            // Each row is where a query looks for it.
            let found =
                "SELECT count(*) FROM unnest(enum_range(NULL::state)) e WHERE EXISTS (SELECT FROM p WHERE s = e)";
            assert_eq!(server.sql("copy", found), "8");
            let rows = RestoreOptions { data_only: true, ..options(server) };
            server.sql("copy", "TRUNCATE p, q");
            recover(&vault, &server.url("copy"), &rows).await.expect("rows alone");
            assert_eq!(server.sql("copy", sums), from.sql("shop", sums), "{copy:?}");
            server.sql("copy", "DROP TABLE p");
            let table = RestoreOptions { tables: vec!["p".into()], ..options(server) };
            recover(&vault, &server.url("copy"), &table).await.expect("a table");
            assert_eq!(server.sql("copy", sums), from.sql("shop", sums), "{copy:?}");
            // A partition by itself takes its own rows.
            let part = RestoreOptions { tables: vec!["p1".into()], ..options(server) };
            recover(&vault, &server.url("part"), &part).await.expect("a partition");
            let of_p1 = "SELECT count(*), sum(hashtextextended(s || ' ' || v || filler, 0)) FROM p1";
            assert_eq!(server.sql("part", of_p1), from.sql("shop", of_p1));
            nothing_stays(server, "copy");
            server.sql("postgres", "DROP DATABASE copy; ");
            server.sql("postgres", "DROP DATABASE part; ");
        }
    }
}

#[tokio::test]
async fn rows_alone_fire_no_trigger_whatever_it_is_set_to() {
    for major in [15, 18] {
        let server = Server::start(major);
        shop(
            &server,
            "CREATE TABLE t (a int); CREATE TABLE part (a int) PARTITION BY RANGE (a); CREATE TABLE part1 PARTITION OF part DEFAULT; \
             CREATE FUNCTION bump() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.a + 1000; RETURN NEW; END $$; \
             CREATE TABLE seen (what text); CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (tg_name); RETURN NULL; END $$; \
             INSERT INTO t SELECT generate_series(1, 5000); INSERT INTO part SELECT generate_series(1, 10); \
             CREATE TRIGGER bump BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION bump(); ALTER TABLE t ENABLE ALWAYS TRIGGER bump; \
             CREATE TRIGGER \"See it\" AFTER INSERT ON t EXECUTE FUNCTION see(); ALTER TABLE t ENABLE REPLICA TRIGGER \"See it\"; \
             CREATE TRIGGER off BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION bump(); ALTER TABLE t DISABLE TRIGGER off; \
             CREATE TRIGGER bump BEFORE INSERT ON part FOR EACH ROW EXECUTE FUNCTION bump(); ALTER TABLE part1 ENABLE ALWAYS TRIGGER bump; \
             CREATE ROLE loader LOGIN; GRANT ALL ON t, part, part1, seen TO loader; GRANT CREATE ON DATABASE shop TO loader; \
             GRANT SET ON PARAMETER session_replication_role TO loader",
        );
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        let before = content(&server, "shop");
        let states = "SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger ORDER BY 1, 2";
        let set = server.sql("shop", states);
        let rows = RestoreOptions { data_only: true, ..options(&server) };
        server.sql("shop", "TRUNCATE t, part");
        let failure = recover(&vault, &server.url_as("loader", "shop"), &rows).await.expect_err("not its owner");
        assert_eq!(failure.code, "postgres.fires-always", "{failure:?}");
        assert!(failure.object.contains("bump of public."), "{failure:?}");
        assert_eq!(server.sql("shop", "SELECT count(*) FROM t"), "0");
        // The superuser doesn't go on with the journal of a plain role.
        let failure = recover(&vault, &server.url("shop"), &rows).await.expect_err("another role's journal");
        assert_eq!(failure.code, "postgres.not-ours", "{failure:?}");
        server.sql("shop", &format!("DROP {} CASCADE", failure.object));
        recover(&vault, &server.url("shop"), &rows).await.expect("restored");
        assert_eq!(content(&server, "shop"), before, "{major}");
        assert_eq!(server.sql("shop", states), set, "each trigger is set as it was");
        nothing_stays(&server, "shop");
    }
}

#[tokio::test]
async fn tables_of_an_extension_with_keys_between_them_come_back_in_any_order() {
    let with_extension = || {
        Server::start_on(18, 5432, |folder| {
            let files = folder.join("share/extension");
            std::fs::create_dir_all(&files).expect("a folder");
            let script = "CREATE TABLE topology (id int PRIMARY KEY, self int REFERENCES topology); \
                 CREATE TABLE layer (id int, topology int REFERENCES topology, filler text); \
                 CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.filler := NEW.filler || '!'; RETURN NEW; END $$; \
                 CREATE TRIGGER fill BEFORE INSERT ON layer FOR EACH ROW EXECUTE FUNCTION fill(); \
                 SELECT pg_catalog.pg_extension_config_dump('layer', ''); SELECT pg_catalog.pg_extension_config_dump('topology', '');";
            std::fs::write(files.join("layers.control"), "default_version = '1.0'\nrelocatable = false\nschema = layers\n").expect("written");
            std::fs::write(files.join("layers--1.0.sql"), script).expect("written");
            format!("extension_control_path = '$system:{}'", folder.join("share").display())
        })
        .expect("the server gets ready")
    };
    let (from, to) = (with_extension(), with_extension());
    shop(
        &from,
        "CREATE EXTENSION layers; INSERT INTO layers.topology SELECT i, i - 1 FROM generate_series(2, 3) i WHERE false; \
         INSERT INTO layers.topology VALUES (1, 1), (2, 1); \
         INSERT INTO layers.layer SELECT i, 1 + i % 2, repeat('x', 100) FROM generate_series(1, 20000) i; \
         CREATE TABLE users AS SELECT generate_series(1, 100) AS a",
    );
    for copy in [CopyFormat::Text, CopyFormat::Binary] {
        let vault = vault(&MemoryStore::new());
        backup_as(copy, &from, &from.url("shop"), &vault).await.expect("backed up");
        recover(&vault, &to.url("copy"), &options(&to)).await.expect("restored");
        assert_eq!(content(&to, "copy"), content(&from, "shop"), "{copy:?}");
        proved(&vault, &to).await;
        nothing_stays(&to, "copy");
        to.sql("postgres", "DROP DATABASE copy");
    }
    // What contradicts a key is found, though the key was off.
    from.sql("shop", "SET session_replication_role = replica; DELETE FROM layers.topology WHERE id = 2");
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    let failure = recover(&vault, &to.url("copy"), &options(&to)).await.expect_err("a row refers to nothing");
    assert_eq!(failure.code, "postgres.constraint");
    assert!(failure.object.contains("layer_topology_fkey"), "{failure:?}");
}

#[tokio::test]
async fn large_objects_are_as_long_as_they_were_whatever_their_last_page_holds() {
    let (from, to) = (Server::start(15), Server::start(18));
    let truncated =
        |oid: u32, size: u64| format!("BEGIN; SELECT lo_truncate64(lo_open({oid}, 131072), {size}); COMMIT;");
    from.sql("postgres", "CREATE DATABASE shop");
    let mut sql = String::new();
    for (oid, bytes, sizes) in [
        (1, "abc", &[4096][..]),
        (2, "abc", &[0]),
        (3, "abc", &[2048]),
        (4, "abc", &[2048, 8192, 10_000]),
        (5, "abc", &[4096, 6144, 8192]),
        (6, "", &[]),
        (7, "abc", &[1 << 40]),
        (8, "abc", &[4_398_046_509_056]),
    ] {
        sql.push_str(&format!("SELECT lo_from_bytea({oid}, '{bytes}');"));
        sizes.iter().for_each(|size| sql.push_str(&truncated(oid, *size)));
    }
    from.sql("shop", &sql);
    let lengths = "SELECT oid, (SELECT lo_lseek64(fd, 0, 2) FROM (SELECT lo_open(oid, 262144) AS fd OFFSET 0) f) FROM pg_largeobject_metadata ORDER BY 1";
    let pages = "SELECT loid, pageno, data FROM pg_largeobject ORDER BY 1, 2";
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &to.url("copy"), &options(&to)).await.expect("restored");
    assert_eq!(to.sql("copy", lengths), from.sql("shop", lengths));
    assert_eq!(to.sql("copy", pages), from.sql("shop", pages));
    proved(&vault, &to).await;
    nothing_stays(&to, "copy");
}

/// Changes a table that the restore has looked at and now waits for.
fn meanwhile(server: &Server, lock: &str, change: &str) -> std::thread::JoinHandle<Option<String>> {
    let sql = format!(
        "SET deadlock_timeout = '10ms'; BEGIN; LOCK TABLE public.t IN {lock} MODE; \
         DO $$ BEGIN FOR i IN 1..6000 LOOP EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted); \
         PERFORM pg_sleep(0.01); END LOOP; END $$; {change}; COMMIT"
    );
    let mut psql = server.tool("psql");
    psql.args(["-Xqd", "shop", "-v", "ON_ERROR_STOP=1", "-c", &sql]);
    let session = std::thread::spawn(move || {
        let done = psql.output().expect("psql runs");
        (!done.status.success()).then(|| String::from_utf8_lossy(&done.stderr).into_owned())
    });
    let held = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE relname = 't' AND granted";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.sql("shop", held) == "0" {
        assert!(std::time::Instant::now() < deadline, "the session doesn't come");
    }
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_becomes_a_view_meanwhile_is_neither_read_nor_written_to() {
    let server = Server::start(15);
    shop(
        &server,
        "CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 1000); CREATE TABLE called (what text); \
         CREATE FUNCTION trap() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the view was read'; END $$; \
         CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let rows = RestoreOptions { data_only: true, ..options(&server) };
    let read = "ALTER TABLE t RENAME TO real; CREATE VIEW t AS SELECT public.trap() AS a";
    let written = "ALTER TABLE t RENAME TO real; CREATE VIEW t AS SELECT a FROM real; \
                   CREATE TRIGGER swallow INSTEAD OF INSERT ON t FOR EACH ROW EXECUTE FUNCTION swallow()";
    // While it is looked whether a table has rows.
    server.sql("shop", "TRUNCATE t");
    let session = meanwhile(&server, "ACCESS EXCLUSIVE", read);
    let failure = recover(&vault, &server.url("shop"), &rows).await.expect_err("a view");
    assert_eq!(session.join().expect("ended"), None);
    assert_eq!((failure.code, failure.object.as_str()), ("postgres.not-ready", "public.t"), "{failure:?}");
    server.sql("shop", "DROP VIEW t; ALTER TABLE real RENAME TO t");
    // While its rows are loaded: whoever would put a view in its place waits for the transaction that loads.
    let session = meanwhile(&server, "SHARE", written);
    recover(&vault, &server.url("shop"), &rows).await.expect("restored");
    let refused = session.join().expect("ended").expect("it doesn't come to that");
    assert!(refused.contains("deadlock detected"), "{refused}");
    assert_eq!(server.sql("shop", "SELECT count(*), sum(a) FROM ONLY t"), "1000|500500");
    nothing_stays(&server, "shop");
}
