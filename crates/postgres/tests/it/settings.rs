//! Settings of a server, a role and a database don't change what is backed up, restored and proved (I19).

use std::sync::Arc;

use seawall_core::{NoProgress, When};
use seawall_postgres::{DumpOptions, Format, ProveOptions, World, dump, prove};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, content, environment, limits, options, recover, schema, target, vault};

/// Settings that change how text is read or written, or what a session may do, each with the value that changes most.
const ODD: [(&str, &str); 27] = [
    ("standard_conforming_strings", "off"),
    ("backslash_quote", "off"),
    ("escape_string_warning", "off"),
    ("quote_all_identifiers", "on"),
    ("DateStyle", "'SQL, DMY'"),
    ("IntervalStyle", "sql_standard"),
    ("TimeZone", "'Asia/Kolkata'"),
    ("timezone_abbreviations", "'India'"),
    ("extra_float_digits", "-10"),
    ("bytea_output", "escape"),
    ("xmloption", "document"),
    ("xmlbinary", "hex"),
    ("array_nulls", "off"),
    ("transform_null_equals", "on"),
    ("default_text_search_config", "'pg_catalog.german'"),
    ("row_security", "off"),
    ("session_replication_role", "replica"),
    ("check_function_bodies", "on"),
    ("client_encoding", "LATIN1"),
    ("lock_timeout", "1"),
    ("idle_in_transaction_session_timeout", "1"),
    ("default_transaction_read_only", "on"),
    ("default_transaction_isolation", "serializable"),
    ("default_transaction_deferrable", "on"),
    ("synchronize_seqscans", "on"),
    ("gin_fuzzy_search_limit", "1"),
    ("search_path", "pg_temp, elsewhere"),
];

/// Further settings of these kinds that a session may change. They change no content, or each object records its own
/// value.
const HARMLESS: &str = "client_min_messages default_table_access_method default_tablespace default_toast_compression \
     gin_pending_list_limit idle_session_timeout lc_messages lc_monetary lc_numeric lc_time lo_compat_privileges \
     restrict_nonsystem_relation_kind statement_timeout temp_tablespaces transaction_deferrable transaction_isolation \
     transaction_read_only transaction_timeout createrole_self_grant event_triggers icu_validation_level \
     allow_system_table_mods";

/// Content whose text depends on settings.
const CONTENT: &str = r#"
CREATE TABLE odd (id int PRIMARY KEY, path text DEFAULT E'C:\\temp', code text CHECK (code NOT LIKE E'%\\\\'), note text,
  at timestamptz DEFAULT '2024-03-31 01:30:00+01', day date DEFAULT '2024-02-01', wait interval DEFAULT '-1 day +02:03',
  share float8 DEFAULT 0.1234567890123456, raw bytea DEFAULT '\x005c27ff', doc xml, many text[]);
COMMENT ON TABLE odd IS E'in C:\\temp, it''s'; COMMENT ON COLUMN odd.path IS E'\\';
CREATE UNIQUE INDEX one ON odd (code) WHERE code LIKE E'A\\_%';
CREATE VIEW paths AS SELECT path || E'\\n' AS p, at > '2024-01-01 00:00:00+05:30'::timestamptz AS late FROM odd WHERE note <> E'\\';
CREATE FUNCTION slashes(text) RETURNS text LANGUAGE sql AS $$ SELECT $1 || E'\\' $$;
CREATE TABLE days (at timestamptz, x text) PARTITION BY RANGE (at);
CREATE TABLE day_1 PARTITION OF days FOR VALUES FROM ('2024-01-01 00:00:00+01') TO ('2024-01-02 00:00:00+01');
INSERT INTO days VALUES ('2024-01-01 12:00:00+00', E'a\\b');
CREATE TABLE parts (odd int REFERENCES odd, since timestamptz);
INSERT INTO odd (id, code, note, doc, many) VALUES (1, 'A_1', E'a\\b\n', 'no document', '{NULL, "NULL", x}');
INSERT INTO odd (id, code, wait) VALUES (2, 'B', '1 mon -2 days +03:04:05.678');
INSERT INTO parts VALUES (1, '2024-07-01 12:00:00+02'); CREATE MATERIALIZED VIEW seen AS SELECT * FROM paths;
CREATE TABLE audit (id int); CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit VALUES (1); RETURN NEW; END $$;
CREATE TRIGGER log AFTER INSERT ON odd FOR EACH ROW EXECUTE FUNCTION log();
"#;

fn source(major: u32) -> Server {
    let server = Server::start(major);
    server.sql("postgres", "CREATE ROLE keeper SUPERUSER LOGIN");
    server.sql("postgres", "CREATE DATABASE shop");
    // The build of version 18 that the tests fetch has no XML.
    let content = if major == 15 { CONTENT.to_owned() } else { CONTENT.replace("doc xml", "doc text") };
    server.sql("shop", &content);
    server
}

/// Sets all odd values for `whose`: `ROLE keeper`, `DATABASE shop`.
fn set(server: &Server, whose: &str) {
    let all = ODD.map(|(name, value)| format!("ALTER {whose} SET {name} = {value};"));
    server.sql("postgres", &all.concat());
}

/// A setting that this test doesn't know may change the content that the test compares.
#[test]
fn every_setting_of_text_and_of_statements_is_known() {
    for major in [15, 18] {
        let server = Server::start(major);
        let there = server.sql(
            "postgres",
            "SELECT name FROM pg_settings WHERE context IN ('user', 'superuser') AND name !~ '^vacuum_' \
             AND category ~ 'Locale and Formatting|Compatibility|Statement Behavior'",
        );
        let is_known =
            |name: &&str| ODD.iter().any(|(odd, _)| odd == name) || HARMLESS.split(' ').any(|one| one == *name);
        let unknown: Vec<&str> = there.lines().filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "version {major}: {unknown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_roles_and_databases_change_nothing_that_is_restored() {
    for (major, formats) in [(15, &[Format::Native, Format::Custom, Format::Plain][..]), (18, &[Format::Native][..])] {
        let (from, to) = (source(major), Server::start(major));
        to.sql("postgres", "CREATE ROLE keeper SUPERUSER LOGIN");
        let wanted = (schema(&from, &from, "shop"), content(&from, "shop"));
        for (number, format) in formats.iter().enumerate() {
            for (step, (here, there)) in
                [("ROLE keeper", None), ("DATABASE shop", None), ("ROLE keeper", Some("ROLE keeper"))]
                    .into_iter()
                    .enumerate()
            {
                set(&from, here);
                if let Some(there) = there {
                    set(&to, there);
                }
                let vault = vault(&MemoryStore::new());
                let all = DumpOptions { limits: limits(&from), format: *format, ..DumpOptions::default() };
                let (world, progress) = (World::real(environment()), Arc::new(NoProgress));
                dump(&target(&from.url_as("keeper", "shop")), &vault, &all, &world, progress).await.expect("backed up");
                for server in ["keeper", "shop"] {
                    let whose = if server == "keeper" { "ROLE" } else { "DATABASE" };
                    from.sql("postgres", &format!("ALTER {whose} {server} RESET ALL"));
                }
                let name = format!("copy_{number}_{step}");
                recover(&vault, &to.url_as("keeper", &name), &options(&to)).await.expect("restored");
                let proving = ProveOptions {
                    when: When::Latest,
                    to: Some(target(&to.url_as("keeper", "postgres"))),
                    limits: limits(&to),
                };
                let proved = prove(&vault, &proving, &World::real(environment()), Arc::new(NoProgress)).await;
                assert_eq!(proved.expect("proved").findings, Vec::new(), "{major} {format:?} {here} {there:?}");
                to.sql("postgres", &format!("ALTER DATABASE {name} RESET ALL; ALTER ROLE keeper RESET ALL"));
                let found = (schema(&from, &to, &name), content(&to, &name));
                assert_eq!(found.0, wanted.0, "{major} {format:?} {here} {there:?}");
                assert_eq!(found.1[..5], wanted.1[..5], "{major} {format:?} {here} {there:?}");
            }
        }
    }
}

/// The restore finds a foreign key by its name in the catalog, however the target quotes names.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_are_checked_where_every_name_is_quoted() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (a int REFERENCES a); \
         CREATE TABLE \"b c\" (a int); ALTER TABLE \"b c\" ADD CONSTRAINT d FOREIGN KEY (a) REFERENCES a NOT VALID; \
         CREATE TABLE \"B.\"\"x\" (a int CONSTRAINT \"c d\" REFERENCES a, b int CONSTRAINT \"e\n\" REFERENCES a); \
         CREATE TABLE system_user (a int REFERENCES a)",
    );
    let keys =
        "SELECT conrelid::regclass::text, conname, convalidated FROM pg_constraint WHERE contype = 'f' ORDER BY 1, 2";
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let other = Server::start_with(18, "quote_all_identifiers = on");
    for server in [&server, &other] {
        recover(&vault, &server.url("copy"), &options(server)).await.expect("restored");
    }
    assert_eq!(server.sql("copy", keys), server.sql("shop", keys));
    let validated = "SELECT count(*) FILTER (WHERE convalidated), count(*) FROM pg_constraint WHERE contype = 'f'";
    assert_eq!(other.sql("copy", validated), "4|5");
}

/// A session must be in another database to make, rename or drop a database. Any other database is enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_database_postgres_is_restored_to_and_proved_on() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT generate_series(1, 100) AS a");
    let vault = vault(&MemoryStore::new());
    server.sql("template1", "DROP DATABASE postgres");
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let all = options(&server);
    recover(&vault, &server.url("copy"), &all).await.expect("restored");
    let again = seawall_postgres::RestoreOptions { clean: true, ..all.clone() };
    recover(&vault, &server.url("copy"), &again).await.expect("replaced");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    // Nor one that takes connections but those.
    server.sql("shop", "ALTER DATABASE template1 ALLOW_CONNECTIONS false");
    recover(&vault, &server.url("copy"), &again).await.expect("replaced");
    let proving = ProveOptions { when: When::Latest, to: Some(target(&server.url("shop"))), limits: limits(&server) };
    let proved = prove(&vault, &proving, &World::real(environment()), Arc::new(NoProgress)).await.expect("proved");
    assert_eq!(proved.findings, Vec::new());
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    // And one alone can't be replaced: that is known before anything is done.
    server.sql("shop", "DROP DATABASE copy");
    let failure = recover(&vault, &server.url("shop"), &again).await.expect_err("there is no other database");
    assert_eq!(failure.code, "postgres.not-ready", "{failure:?}");
    assert_eq!(server.sql("shop", "SELECT count(*) FROM t"), "100");
}

/// The same for a whole server and for `pg_dump`'s own formats: if no other database is left at the end, the restore
/// doesn't begin.
#[tokio::test]
async fn a_server_with_no_other_database_is_refused_before_anything_is_made() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("postgres", "CREATE TABLE in_the_way (a int)");
    server.sql("shop", "CREATE TABLE t AS SELECT generate_series(1, 100) AS a");
    let again = seawall_postgres::RestoreOptions { clean: true, ..options(&server) };
    let mut vaults = Vec::new();
    for (url, format) in [("", Format::Native), ("shop", Format::Custom), ("shop", Format::Plain)] {
        let vault = vault(&MemoryStore::new());
        crate::support::backup_in(format, &server, &server.url(url), &vault).await.expect("backed up");
        vaults.push((vault, url, format));
    }
    server.sql("shop", "ALTER DATABASE template1 ALLOW_CONNECTIONS false; INSERT INTO t VALUES (7)");
    for (vault, url, format) in vaults {
        let failure = recover(&vault, &server.url(url), &again).await.expect_err("there is no other database");
        assert_eq!(failure.code, "postgres.not-ready", "{format:?} {failure:?}");
        assert_eq!(server.sql("shop", "SELECT count(*) FROM t"), "101", "{format:?}");
        let made = "SELECT count(*) FROM pg_database WHERE datname ~ 'seawall'";
        assert_eq!(server.sql("shop", made), "0", "{format:?}: nothing was made");
        if url.is_empty() {
            server.sql("shop", "DROP DATABASE postgres");
        }
    }
}

/// Sets settings for all sessions of a server, or resets them.
fn server_wide(server: &Server, settings: &[(&str, &str)], on: bool) {
    for (name, value) in settings {
        let sql = if on { format!("ALTER SYSTEM SET {name} = {value}") } else { format!("ALTER SYSTEM RESET {name}") };
        let mut psql = server.tool("psql");
        psql.env("PGOPTIONS", "-c statement_timeout=0 -c default_transaction_read_only=off -c search_path=pg_catalog");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", &sql]);
        crate::server::output(psql);
    }
    server.sql("postgres", "SELECT pg_reload_conf()");
    let wanted = if on { "1" } else { "0" };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.sql("postgres", "SHOW gin_fuzzy_search_limit") != wanted {
        assert!(std::time::Instant::now() < deadline, "the server doesn't read its configuration");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The same for a whole server, in `postgresql.conf`, with settings that break scripts: objects keep their tablespaces,
/// and no limit ends a session of ours.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_server_change_nothing_that_is_restored() {
    for (major, formats) in [
        (15, &[Format::Native, Format::Custom, Format::Plain, Format::Directory][..]),
        (18, &[Format::Native, Format::Plain][..]),
    ] {
        let (from, to) = (source(major), Server::start(major));
        to.sql("postgres", "CREATE ROLE keeper SUPERUSER LOGIN");
        from.sql("shop", "CREATE TABLE wide (a text COMPRESSION pglz, b text); INSERT INTO wide VALUES (repeat('x', 9000), repeat('y', 9000))");
        for server in [&from, &to] {
            let folder = server.folder_of_its_own("odd");
            server.sql("postgres", &format!("CREATE TABLESPACE odd LOCATION '{folder}'"));
        }
        let mut odd: Vec<(&str, &str)> = ODD.to_vec();
        odd.extend([
            ("statement_timeout", "'2s'"),
            ("idle_session_timeout", "'2s'"),
            ("default_tablespace", "odd"),
            ("temp_tablespaces", "odd"),
            ("lo_compat_privileges", "on"),
            ("default_toast_compression", "pglz"),
            ("allow_system_table_mods", "on"),
            ("client_min_messages", "error"),
            ("lc_monetary", "'C.UTF-8'"),
            ("lc_numeric", "'C.UTF-8'"),
            ("vacuum_freeze_min_age", "0"),
            ("default_statistics_target", "1"),
            ("ignore_checksum_failure", "on"),
            ("zero_damaged_pages", "on"),
        ]);
        if major >= 18 {
            odd.extend([
                ("transaction_timeout", "'2s'"),
                ("event_triggers", "off"),
                ("createrole_self_grant", "'set, inherit'"),
            ]);
            odd.push(("restrict_nonsystem_relation_kind", "'view, foreign-table'"));
        }
        // The build of version 18 that the tests fetch has no XML.
        odd.retain(|(name, _)| major < 18 || !name.starts_with("xml"));
        let wanted = (schema(&from, &from, "shop"), content(&from, "shop"));
        for (number, format) in formats.iter().enumerate() {
            for (step, (here, there)) in [(true, false), (false, true), (true, true)].into_iter().enumerate() {
                let (server, database) = (from.url_as("keeper", "shop"), format!("copy_{number}_{step}"));
                let vault = vault(&MemoryStore::new());
                let all = DumpOptions { limits: limits(&from), format: *format, ..DumpOptions::default() };
                let (world, progress) = (World::real(environment()), Arc::new(NoProgress));
                if here {
                    server_wide(&from, &odd, true);
                }
                let dumped = dump(&target(&server), &vault, &all, &world, progress).await;
                if here {
                    server_wide(&from, &odd, false);
                }
                dumped.expect("backed up");
                if there {
                    server_wide(&to, &odd, true);
                }
                let restored = recover(&vault, &to.url_as("keeper", &database), &options(&to)).await;
                let proving = ProveOptions {
                    when: When::Latest,
                    to: Some(target(&to.url_as("keeper", "postgres"))),
                    limits: limits(&to),
                };
                let proved = prove(&vault, &proving, &World::real(environment()), Arc::new(NoProgress)).await;
                if there {
                    server_wide(&to, &odd, false);
                }
                let what = format!("{major} {format:?} {here} {there}");
                assert_eq!(restored.expect("restored").refused, [], "{what}");
                assert_eq!(proved.expect("proved").findings, Vec::new(), "{what}");
                let found = (schema(&from, &to, &database), content(&to, &database));
                assert_eq!(found.0, wanted.0, "{what}");
                assert_eq!(found.1[..5], wanted.1[..5], "{what}");
            }
        }
    }
}

/// A server that reads damaged pages as empty loses rows without an error.
#[tokio::test]
async fn rows_on_damaged_pages_are_not_lost_without_a_word() {
    let mut server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("postgres", "CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader");
    server.sql(
        "shop",
        "CREATE TABLE t AS SELECT i AS a, repeat('x', 500) AS b FROM generate_series(1, 1000) i; CHECKPOINT",
    );
    let file = server.folder().join("data").join(server.sql("shop", "SELECT pg_relation_filepath('t')"));
    server.kill_9();
    let mut bytes = std::fs::read(&file).expect("read");
    bytes[3 * 8192..3 * 8192 + 24].fill(0xff);
    std::fs::write(&file, bytes).expect("written");
    server.start_again();
    server.sql("postgres", "ALTER SYSTEM SET zero_damaged_pages = on");
    server.sql("postgres", "SELECT pg_reload_conf()");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.sql("postgres", "SHOW zero_damaged_pages") != "on" {
        assert!(std::time::Instant::now() < deadline, "the server doesn't read its configuration");
    }
    for format in [Format::Native, Format::Custom, Format::Plain] {
        let vault = vault(&MemoryStore::new());
        let backup = |role: &str| {
            let all = DumpOptions { limits: limits(&server), format, ..DumpOptions::default() };
            (target(&server.url_as(role, "shop")), all)
        };
        let (url, all) = backup("reader");
        let world = World::real(environment());
        let failed = dump(&url, &vault, &all, &world, Arc::new(NoProgress)).await;
        let failure = seawall_core::Failure::from(failed.expect_err("it may not turn it off"));
        assert_eq!(failure.code, "postgres.hides-damage", "{format:?} {failure:?}");
        let (url, all) = backup("postgres");
        let failed = dump(&url, &vault, &all, &world, Arc::new(NoProgress)).await;
        let failure = seawall_core::Failure::from(failed.expect_err("a page is damaged"));
        assert!(failure.cause.contains("invalid page in block 3"), "{format:?} {failure:?}");
    }
    // With it on, a part of the rows is gone, and nothing says so.
    let rows: u32 = server.sql("shop", "SELECT count(*) FROM t").parse().expect("a number");
    assert!(rows < 1000, "{rows}");
}

/// Older versions let `pg_dump` write string constants with the server's setting of `standard_conforming_strings`.
#[tokio::test]
async fn a_set_that_was_written_with_backslashes_that_escape_is_restored_as_it_was() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE t AS SELECT 1 AS a; CREATE INDEX i ON t (a); COMMENT ON TABLE t IS E'a\\\\b'; \
         COMMENT ON INDEX i IS E'it\\'s \\\\'; CREATE INDEX j ON t (a) WHERE a::text <> E'x\\\\y'",
    );
    let pg_dump = "PGOPTIONS=\"$(echo \"$PGOPTIONS\" | sed 's/-c standard_conforming_strings=[a-z]*//') -c standard_conforming_strings=off\" exec $REAL \"$@\"";
    let (_folder, limits) = crate::artefacts::programs(&server, pg_dump);
    let vault = vault(&MemoryStore::new());
    crate::artefacts::backup(&server.url("shop"), &vault, limits, seawall_postgres::Format::Native)
        .await
        .expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
}
