//! The steps after the rows, and the remains of an interrupted restore, which don't hinder the next one.

use seawall_core::Kind;
use seawall_postgres::{Format, RestoreOptions};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{
    backup, backup_in, content, journal, leave, nothing_stays, occupy, options, recover, schema, vault,
};

fn shop(major: u32, sql: &str) -> Server {
    let server = Server::start(major);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", sql);
    server
}

#[tokio::test]
async fn a_view_that_cannot_be_refreshed_is_left_without_rows_and_named() {
    let server = shop(
        15,
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE MATERIALIZED VIEW good AS SELECT a FROM t; \
         CREATE MATERIALIZED VIEW bad AS SELECT 10 / a AS x FROM t; CREATE MATERIALIZED VIEW above AS SELECT x FROM bad; \
         CREATE UNIQUE INDEX ON bad (x); INSERT INTO t VALUES (0)",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let restored = recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    let named: Vec<&str> = restored.unfilled.iter().map(|(view, _)| view.as_str()).collect();
    assert_eq!(named, ["\"public\".\"bad\"", "\"public\".\"above\""]);
    assert!(restored.unfilled[0].1.contains("division by zero"), "{:?}", restored.unfilled);
    let filled =
        "SELECT string_agg(relname || ' ' || relispopulated, ', ' ORDER BY relname) FROM pg_class WHERE relkind = 'm'";
    assert_eq!(server.sql("copy", filled), "above false, bad false, good true");
    assert_eq!(server.sql("copy", "SELECT string_agg(a::text, ' ' ORDER BY a) FROM good"), "0 1");
    assert_eq!(server.sql("copy", "SELECT count(*), sum(a) FROM t"), "2|1");
    assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
    nothing_stays(&server, "copy");
}

/// Views that can't be filled again, and the server's message for each. The query of `away` reads a file. Most others
/// raise an error of a class that servers also use themselves.
const UNFILLED: [(&str, &str); 6] = [
    ("above", "has not been populated"),
    ("away", "could not open file"),
    ("internal", "as a C function says it"),
    ("slow", "canceling statement due to statement timeout"),
    ("system", "this host has no such thing"),
    ("undefined", "could not load library"),
];

fn views_on(file: &str) -> String {
    let raising =
        [("internal", "XX000"), ("slow", "57014"), ("system", "58000"), ("undefined", "58P02")].map(|(name, code)| {
            let says = UNFILLED.iter().find(|(view, _)| *view == name).expect("listed").1;
            format!("CREATE MATERIALIZED VIEW {name} AS SELECT works_at_home('{code}', '{says}') AS a")
        });
    format!(
        "CREATE TABLE t AS SELECT 1 AS a; COPY t TO '{file}'; \
         CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw; \
         CREATE FOREIGN TABLE lines (a int) SERVER files OPTIONS (filename '{file}'); \
         CREATE TABLE place AS SELECT true AS is_home; \
         CREATE FUNCTION works_at_home(code text, says text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN \
         IF NOT (SELECT is_home FROM public.place) THEN RAISE '%', says USING ERRCODE = code; END IF; RETURN 1; END $$; \
         CREATE MATERIALIZED VIEW away AS SELECT a FROM lines; CREATE MATERIALIZED VIEW above AS SELECT a FROM away; \
         CREATE MATERIALIZED VIEW works AS SELECT a FROM t; {}; UPDATE place SET is_home = false",
        raising.join("; ")
    )
}

#[tokio::test]
async fn a_view_whose_query_fails_each_time_ends_no_restore_whatever_sqlstate_it_fails_with() {
    let server = shop(15, "");
    let file = format!("{}/lines", server.folder_of_its_own("files"));
    server.sql("shop", &views_on(&file));
    std::fs::remove_file(&file).expect("removed");
    for format in [Format::Native, Format::Custom] {
        let vault = vault(&MemoryStore::new());
        crate::support::backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
        let restored = recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        let mut named = [restored.unfilled, restored.refused].concat();
        named.sort();
        assert_eq!(named.len(), UNFILLED.len(), "{format:?}: {named:?}");
        for ((view, cause), (name, says)) in named.iter().zip(UNFILLED) {
            assert!(view.contains(name) && cause.contains(says), "{format:?}: {named:?}");
        }
        let filled = "SELECT string_agg(relname, ' ') FROM pg_class WHERE relkind = 'm' AND relispopulated";
        assert_eq!(server.sql("copy", filled), "works");
        assert_eq!(content(&server, "copy")[0], content(&server, "shop")[0], "tables have their rows");
        nothing_stays(&server, "copy");
        server.sql("postgres", "DROP DATABASE copy");
    }
}

/// An event trigger that writes dropped objects into a table, and one that refuses every drop.
const EVENT_TRIGGERS: &str = "
CREATE TABLE drops (at timestamptz, what text); CREATE TABLE t AS SELECT 1 AS a; CREATE MATERIALIZED VIEW mv AS SELECT a FROM t;
CREATE FUNCTION log_drop() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.drops SELECT now(), object_identity FROM pg_event_trigger_dropped_objects(); END $$;
CREATE FUNCTION no_drop() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'nothing is dropped here'; END $$;
CREATE FUNCTION log_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.drops VALUES (now(), tg_tag); END $$;
CREATE EVENT TRIGGER log_drop ON sql_drop EXECUTE FUNCTION log_drop();
CREATE EVENT TRIGGER log_ddl ON ddl_command_end EXECUTE FUNCTION log_ddl();
COMMENT ON EVENT TRIGGER log_drop IS 'what was dropped';
CREATE EVENT TRIGGER no_drop ON sql_drop EXECUTE FUNCTION no_drop();
ALTER EVENT TRIGGER no_drop ENABLE ALWAYS";

#[tokio::test]
async fn event_triggers_see_nothing_of_a_restore() {
    let from = shop(15, EVENT_TRIGGERS);
    // Before version 17 all that a superuser can turn off for itself still leaves these.
    from.sql(
        "shop",
        "ALTER EVENT TRIGGER log_ddl ENABLE REPLICA; ALTER EVENT TRIGGER log_drop ENABLE ALWAYS; TRUNCATE drops",
    );
    for major in [15, 18] {
        let to = Server::start(major);
        for format in [Format::Native, Format::Custom, Format::Directory, Format::Plain] {
            let (vault, options) = (vault(&MemoryStore::new()), options(&to));
            backup_in(format, &from, &from.url("shop"), &vault).await.expect("backed up");
            let copy = format!("copy_{}", format.name());
            recover(&vault, &to.url(&copy), &options).await.expect("restored");
            assert_eq!(content(&to, &copy), content(&from, "shop"), "{major} {format:?}");
            let triggers = "SELECT evtname, evtevent, evtfoid::regproc, evtenabled, obj_description(oid) FROM pg_event_trigger ORDER BY 1";
            assert_eq!(to.sql(&copy, triggers), from.sql("shop", triggers));
            nothing_stays(&to, &copy);
            // The same into a database that is there.
            to.sql("postgres", "CREATE DATABASE empty");
            recover(&vault, &to.url("empty"), &options).await.expect("restored");
            assert_eq!(content(&to, "empty"), content(&from, "shop"), "{major} {format:?}");
            assert_eq!(to.sql("empty", triggers), from.sql("shop", triggers));
            to.sql("postgres", "DROP DATABASE empty");
        }
    }
}

/// The journal is removed together with the last steps, event triggers included. A resume after that only gives the
/// name.
#[tokio::test]
async fn a_restore_that_fails_at_its_event_triggers_goes_on_with_them() {
    let server = shop(15, EVENT_TRIGGERS);
    server.sql("shop", "TRUNCATE drops");
    let (vault, options) = (vault(&MemoryStore::new()), options(&server));
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    // Somebody's trigger of the same name stands in the way of the last step.
    server.sql("postgres", "CREATE DATABASE copy");
    server.sql(
        "copy",
        "CREATE SCHEMA other; CREATE FUNCTION other.f() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; \
         CREATE EVENT TRIGGER no_drop ON table_rewrite EXECUTE FUNCTION other.f()",
    );
    let failure = recover(&vault, &server.url("copy"), &options).await.expect_err("the name is taken");
    assert_eq!(failure.kind, Kind::Refused, "{failure:?}");
    assert!(journal(&server, "copy").is_some(), "it isn't done");
    assert_eq!(server.sql("copy", "SELECT string_agg(evtname, ' ') FROM pg_event_trigger"), "no_drop");
    server.sql("copy", "DROP EVENT TRIGGER no_drop; DROP SCHEMA other CASCADE");
    assert!(recover(&vault, &server.url("copy"), &options).await.expect("restored").resumed);
    assert_eq!(content(&server, "copy")[..5], content(&server, "shop")[..5]);
    assert_eq!(server.sql("copy", "SELECT count(*) FROM pg_event_trigger"), "3");
    nothing_stays(&server, "copy");
}

#[tokio::test]
async fn rows_that_refer_to_partitioned_tables_come_back_alone() {
    for major in [15, 18] {
        let server = shop(
            major,
            "CREATE TABLE pk (id int PRIMARY KEY) PARTITION BY RANGE (id); \
             CREATE TABLE pk1 PARTITION OF pk FOR VALUES FROM (0) TO (10); \
             CREATE TABLE pk2 PARTITION OF pk FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id); \
             CREATE TABLE pk21 PARTITION OF pk2 FOR VALUES FROM (10) TO (20); \
             CREATE TABLE fk (id int REFERENCES pk); \
             CREATE TABLE parts (id int REFERENCES pk) PARTITION BY RANGE (id); \
             CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (15); \
             CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (15) TO (20); \
             INSERT INTO pk VALUES (1), (11), (16); INSERT INTO fk VALUES (1), (11); INSERT INTO parts VALUES (1), (11), (16)",
        );
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        let (before, rows) = (content(&server, "shop"), RestoreOptions { data_only: true, ..options(&server) });
        server.sql("shop", "TRUNCATE fk, parts, pk");
        recover(&vault, &server.url("shop"), &rows).await.expect("nothing is wrong");
        assert_eq!(content(&server, "shop"), before, "{major}");
        // And what is wrong is still found, in a partition too.
        server.sql("shop", "TRUNCATE fk, parts, pk; INSERT INTO pk VALUES (1), (11)");
        let rows = RestoreOptions { tables: vec!["parts".into()], ..rows };
        let failure = recover(&vault, &server.url("shop"), &rows).await.expect_err("16 isn't there");
        assert_eq!(failure.code, "postgres.constraint", "{failure:?}");
    }
}

#[tokio::test]
async fn the_journal_of_a_restore_that_is_not_done_is_left_out_of_backups_and_named() {
    let server = shop(
        15,
        "CREATE TABLE t AS SELECT 1 AS a; CREATE SCHEMA seawall_restore; CREATE TABLE seawall_restore.journal (step text PRIMARY KEY)",
    );
    let ours = ("shop".to_owned(), "seawall_restore".to_owned());
    for format in [Format::Native, Format::Custom, Format::Directory, Format::Plain] {
        let vault = vault(&MemoryStore::new());
        let dumped = crate::support::backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
        assert_eq!(dumped.journals, std::slice::from_ref(&ours), "{format:?}");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(server.sql("copy", "SELECT a FROM t"), "1");
        nothing_stays(&server, "copy");
        server.sql("postgres", "DROP DATABASE copy");
    }
    // A role that may read the user's tables alone is enough.
    server.sql("shop", "CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader");
    backup(&server, &server.url_as("reader", "shop"), &vault(&MemoryStore::new())).await.expect("backed up");
}

#[tokio::test]
async fn a_users_schema_with_the_name_of_a_journal_is_backed_up_and_restored() {
    for more in [
        "CREATE TABLE seawall_restore.orders AS SELECT 7 AS a",
        "CREATE FUNCTION seawall_restore.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE seawall_restore.mood AS ENUM ('a')",
        "CREATE VIEW seawall_restore.v AS SELECT step FROM seawall_restore.journal",
        "ALTER TABLE seawall_restore.journal ADD COLUMN another int",
    ] {
        let server =
            shop(15, "CREATE SCHEMA seawall_restore; CREATE TABLE seawall_restore.journal (step text PRIMARY KEY)");
        server.sql("shop", &format!("INSERT INTO seawall_restore.journal VALUES ('mine'); {more}"));
        let vault = vault(&MemoryStore::new());
        let dumped = backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        assert_eq!(dumped.journals, [], "{more}");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"), "{more}");
        assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
    }
}

/// The previous version recorded no rows of chunks, and its journal's schema had a fixed name. A database that it began
/// counts as unfinished.
#[tokio::test]
async fn what_an_older_version_has_begun_is_begun_anew_or_refused() {
    let server = shop(15, "CREATE TABLE t AS SELECT generate_series(1, 100) AS a; CREATE INDEX ON t (a)");
    let (vault, clean) = (vault(&MemoryStore::new()), RestoreOptions { clean: true, ..options(&server) });
    let id = backup(&server, &server.url("shop"), &vault).await.expect("backed up").manifest.id;
    let begun = format!(
        "CREATE SCHEMA seawall_restore; CREATE TABLE seawall_restore.journal (step text PRIMARY KEY); \
         INSERT INTO seawall_restore.journal VALUES ('set {id}'), ('schema'), ('chunk 1')"
    );
    server.sql("postgres", "CREATE DATABASE copy");
    let session = occupy(&server, "copy");
    let failure = recover(&vault, &server.url("copy"), &clean).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use");
    leave(&server, "copy", session);
    let ours = server.sql("postgres", "SELECT datname FROM pg_database WHERE datname LIKE 'seawall-%'");
    for lost in ["DELETE FROM t WHERE a > 50; DROP INDEX t_a_idx", "DROP TABLE t"] {
        server.sql(&ours, &format!("{begun}; {lost}"));
        let restored = recover(&vault, &server.url("copy"), &clean).await.expect("restored");
        assert!(!restored.resumed, "it was begun anew");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
        nothing_stays(&server, "copy");
        server.sql("postgres", &format!("CREATE DATABASE \"{ours}\" TEMPLATE copy"));
    }
    server.sql("postgres", &format!("DROP DATABASE \"{ours}\""));
    // In a database that is the user's, the user makes room.
    server.sql("copy", &begun);
    let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("half of it is there");
    assert_eq!(failure.code, "postgres.other-restore");
    assert!(failure.cause.contains("an older version"), "{failure:?}");
    server.sql("copy", "DROP TABLE t; DROP SCHEMA seawall_restore CASCADE");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

/// As in the restore of a native set, but the view is among the server's refusals.
#[tokio::test]
async fn a_view_that_cannot_be_refreshed_ends_no_restore_in_the_formats_of_pg_dump() {
    let server = shop(
        15,
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE MATERIALIZED VIEW bad AS SELECT 10 / a AS x FROM t; \
         CREATE MATERIALIZED VIEW good AS SELECT a FROM t; CREATE UNIQUE INDEX ON bad (x); INSERT INTO t VALUES (0)",
    );
    for format in [Format::Custom, Format::Directory, Format::Plain] {
        let vault = vault(&MemoryStore::new());
        crate::support::backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
        // The second run finds everything but the name, and names the view all the same.
        server.sql("postgres", "CREATE DATABASE copy");
        let clean = RestoreOptions { clean: true, ..options(&server) };
        let session = occupy(&server, "copy");
        let failure = recover(&vault, &server.url("copy"), &clean).await.expect_err("in use");
        assert_eq!(failure.code, "postgres.in-use");
        leave(&server, "copy", session);
        let restored = recover(&vault, &server.url("copy"), &clean).await.expect("restored");
        let named: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
        assert_eq!(named, ["REFRESH MATERIALIZED VIEW public.bad"], "{format:?}");
        assert!(restored.refused[0].1.contains("division by zero"), "{:?}", restored.refused);
        assert_eq!(server.sql("copy", "SELECT string_agg(a::text, ' ' ORDER BY a) FROM good"), "0 1");
        assert_eq!(server.sql("copy", "SELECT count(*), sum(a) FROM t"), "2|1");
        assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
        nothing_stays(&server, "copy");
        server.sql("postgres", "DROP DATABASE copy");
    }
}
