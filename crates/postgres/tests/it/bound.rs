//! Extensions that are bound to the name of their database: the restore makes them when the database has that name. A
//! failure there leaves the earlier database unchanged.

use seawall_core::{Failure, Kind, When};
use seawall_postgres::{Format, RestoreOptions, Restored};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::prove::proof;
use crate::server::Server;
use crate::support::{backup, backup_in, content, leave, nothing_stays, occupy, options, recover, vault};

/// The parts of pg_cron's script that matter here, without its library.
const CRON: [&str; 3] = [
    "pg_cron",
    "superuser = true",
    "DO $$ BEGIN IF current_database() <> current_setting('cron.database_name') THEN \
       RAISE EXCEPTION 'can only create extension in database %', current_setting('cron.database_name'); END IF; END $$; \
     CREATE SCHEMA cron; CREATE SEQUENCE cron.jobid_seq; \
     CREATE TABLE cron.job (jobid bigint PRIMARY KEY DEFAULT nextval('cron.jobid_seq'), command text, CHECK (command <> 'never')); \
     CREATE TABLE cron.run (job bigint REFERENCES cron.job, message text); \
     SELECT pg_catalog.pg_extension_config_dump('cron.run', ''); SELECT pg_catalog.pg_extension_config_dump('cron.job', ''); \
     SELECT pg_catalog.pg_extension_config_dump('cron.jobid_seq', '');",
];

/// An extension that Seawall doesn't know, and that accepts only a database named `shop`.
const UNKNOWN: [&str; 3] = [
    "unknown",
    "superuser = true",
    "DO $$ BEGIN IF current_database() <> 'shop' THEN RAISE EXCEPTION 'not here'; END IF; END $$; \
     CREATE SCHEMA unknown; CREATE TABLE unknown.t (a int); SELECT pg_catalog.pg_extension_config_dump('unknown.t', '');",
];

const SETTING: &str = "cron.database_name = 'shop'";

const SHOP: &str = "CREATE EXTENSION pg_cron; CREATE EXTENSION unknown; INSERT INTO unknown.t VALUES (7); \
     INSERT INTO cron.job (command) SELECT 'job ' || i FROM generate_series(1, 20) i; \
     INSERT INTO cron.run SELECT 1 + i % 20, repeat(md5(i::text), 4) FROM generate_series(1, 20000) i; \
     CREATE TABLE big AS SELECT i AS id, repeat(md5(i::text), 8) AS filler FROM generate_series(1, 20000) i; \
     ALTER TABLE big ADD PRIMARY KEY (id); CREATE TABLE small (id serial PRIMARY KEY, big int REFERENCES big); \
     INSERT INTO small (big) SELECT id FROM big LIMIT 10; \
     CREATE VIEW jobs AS SELECT * FROM cron.job; GRANT SELECT ON jobs TO alice; \
     CREATE MATERIALIZED VIEW filled AS SELECT count(*) FROM cron.job; CREATE INDEX filled_i ON filled (count); \
     CREATE TABLE like_a_job OF_TYPE; CREATE INDEX like_i ON like_a_job (command); \
     INSERT INTO like_a_job SELECT i, 'mine' FROM generate_series(1, 1000) i; \
     GRANT USAGE ON SCHEMA cron TO alice; GRANT SELECT ON cron.job TO alice; COMMENT ON EXTENSION pg_cron IS 'ours'; \
     SELECT lo_from_bytea(0, 'x') FROM generate_series(1, 5); \
     CREATE FUNCTION seen() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN IF tg_tag <> ''x'' THEN INSERT INTO public.small (big) VALUES (1); END IF; END'; \
     CREATE EVENT TRIGGER seen ON ddl_command_end EXECUTE FUNCTION seen(); \
     ALTER DATABASE shop SET work_mem TO '5MB'; COMMENT ON DATABASE shop IS 'the shop'";

fn start(major: u32) -> Server {
    Server::start_with_extensions(major, SETTING, &[CRON, UNKNOWN])
}

fn fill(server: &Server) {
    server.sql("postgres", "CREATE ROLE alice");
    server.sql("postgres", "CREATE DATABASE shop OWNER alice");
    server.sql(
        "shop",
        &SHOP
            .replace("like_a_job OF_TYPE", "like_a_job (LIKE cron.job, whole cron.job)")
            .replace("SELECT i, 'mine'", "SELECT i, 'mine', NULL"),
    );
}

/// The content that every restore must have: also the parts that wait for the name, with their comments and grants.
fn everything(server: &Server) -> Vec<String> {
    let mut all = content(server, "shop");
    for sql in [
        "SELECT extname, extversion, obj_description(oid, 'pg_extension') FROM pg_extension ORDER BY 1",
        "SELECT n.nspname, n.nspacl FROM pg_namespace n WHERE nspname IN ('cron', 'public') ORDER BY 1",
        "SELECT c.oid::regclass, c.relacl FROM pg_class c WHERE c.relnamespace::regnamespace::text IN ('cron', 'public', 'unknown') ORDER BY c.oid::regclass::text",
        "SELECT evtname, evtenabled FROM pg_event_trigger",
    ] {
        all.push(server.sql("shop", sql));
    }
    all
}

fn databases(server: &Server) -> String {
    server.sql("postgres", "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database")
}

async fn clean(vault: &Vault, server: &Server) -> Result<Restored, Failure> {
    recover(vault, &server.url("shop"), &RestoreOptions { clean: true, ..options(server) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_is_bound_to_the_name_of_its_database_comes_back_with_all_that_needs_it() {
    for major in [15, 18] {
        let (from, to) = (start(major), start(major));
        fill(&from);
        to.sql("postgres", "CREATE ROLE alice");
        let vault = vault(&MemoryStore::new());
        backup(&from, &from.url("shop"), &vault).await.expect("backed up");
        let dry = RestoreOptions { dry_run: true, ..options(&to) };
        let planned = recover(&vault, &to.url("shop"), &dry).await.expect("planned");
        assert_eq!((planned.lacks, planned.later), (Vec::new(), vec!["extension pg_cron".to_owned()]));
        assert_eq!(databases(&to), "postgres template0 template1");
        let restored = recover(&vault, &to.url("shop"), &options(&to)).await.expect("restored");
        assert_eq!((restored.refused, restored.unfilled), (Vec::new(), Vec::new()), "{major}");
        assert_eq!(restored.later, ["extension pg_cron", "extension unknown"]);
        assert_eq!(everything(&to), everything(&from), "{major}");
        nothing_stays(&to, "shop");
        // In place of the one that is there.
        to.sql("shop", "DELETE FROM cron.run; CREATE TABLE public.other (a int)");
        clean(&vault, &to).await.expect("restored");
        assert_eq!(everything(&to), everything(&from), "{major}");
        nothing_stays(&to, "shop");
        // And into an empty one, which has its name from the start.
        to.sql("postgres", "DROP DATABASE shop");
        to.sql("postgres", "CREATE DATABASE shop");
        let restored = recover(&vault, &to.url("shop"), &options(&to)).await.expect("restored");
        assert_eq!(restored.later, Vec::<String>::new());
        assert_eq!(everything(&to)[0], everything(&from)[0], "{major}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_names_another_database_is_refused_before_anything_is_made() {
    let server = Server::start_with_extensions(15, SETTING, &[CRON, UNKNOWN]);
    let unset = Server::start_with_extensions(15, "", &[CRON, UNKNOWN]);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE EXTENSION pg_cron; CREATE TABLE t (a int)");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    for (server, name, mend) in [
        (&server, "copy", "restore into shop; or cron.database_name = 'copy' in postgresql.conf, and a restart"),
        (
            &unset,
            "shop",
            "shared_preload_libraries = 'pg_cron' and cron.database_name = 'shop' in postgresql.conf, and a restart",
        ),
    ] {
        let before = databases(server);
        let failure = recover(&vault, &server.url(name), &options(server)).await.expect_err("another name");
        assert_eq!(failure.code, "postgres.not-ready");
        assert!(failure.next.contains(mend), "{failure:?}");
        assert_eq!(databases(server), before);
    }
    // A proof on a named server can't have the name.
    let failure = proof(&vault, &server, Some(&server.url("postgres"))).await.expect_err("another name");
    assert!(failure.next.contains("leave out --to"), "{failure:?}");
    nothing_stays(&server, "shop");
    // pg_dump's own formats are replayed under another name, or into an empty database.
    let custom = crate::support::vault(&MemoryStore::new());
    backup_in(Format::Custom, &server, &server.url("shop"), &custom).await.expect("backed up");
    server.sql("postgres", "DROP DATABASE shop");
    let failure = recover(&custom, &server.url("shop"), &options(&server)).await.expect_err("another name first");
    assert!(failure.next.contains("CREATE DATABASE \"shop\";"), "{failure:?}");
    server.sql("postgres", "CREATE DATABASE shop");
    recover(&custom, &server.url("shop"), &options(&server)).await.expect("restored");
    assert_eq!(server.sql("shop", "SELECT extname FROM pg_extension WHERE extname = 'pg_cron'"), "pg_cron");
    let proved = proof(&custom, &server, None).await.expect("proved");
    assert_eq!(proved.findings, Vec::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_with_an_extension_that_is_bound_to_a_name_is_proved_on_a_server_of_its_own() {
    for major in [15, 18] {
        let server = start(major);
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql(
            "shop",
            "CREATE EXTENSION pg_cron; INSERT INTO cron.job (command) VALUES ('x'); INSERT INTO cron.run VALUES (1, 'y'); CREATE TABLE t AS SELECT 1 AS a",
        );
        for url in [server.url("shop"), server.url("")] {
            let vault = vault(&MemoryStore::new());
            backup(&server, &url, &vault).await.expect("backed up");
            let proved = proof(&vault, &server, None).await.expect("proved");
            assert_eq!((proved.findings, proved.rows), (Vec::new(), 3), "{major} {url}");
        }
    }
}

/// Adds a job that the server refuses, so that loading the waiting rows fails.
const NEVER: &str = "ALTER TABLE cron.job DROP CONSTRAINT job_command_check; INSERT INTO cron.job (command) VALUES ('never'); REFRESH MATERIALIZED VIEW filled";

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_in_what_waited_leaves_what_was_there_and_the_same_again_goes_on() {
    for major in [15, 18] {
        let (from, to) = (start(major), start(major));
        fill(&from);
        let vault = vault(&MemoryStore::new());
        to.sql("postgres", "CREATE ROLE alice");
        let dumped = backup(&from, &from.url("shop"), &vault).await.expect("backed up");
        let sound = When::Position(dumped.manifest.id.to_string());
        from.sql("shop", NEVER);
        backup(&from, &from.url("shop"), &vault).await.expect("backed up");
        // Where nothing was there, nothing is there.
        let failure = recover(&vault, &to.url("shop"), &options(&to)).await.expect_err("a row that isn't taken");
        assert_eq!(
            (failure.code, failure.object.as_str()),
            ("postgres.constraint", "cron.job in database shop"),
            "{failure:?}"
        );
        let unfinished =
            to.sql("postgres", "SELECT string_agg(datname, ' ') FROM pg_database WHERE datname ~ '^seawall'");
        assert_eq!(databases(&to), format!("postgres {unfinished} template0 template1"));
        // The same again fails in the same way, and goes on when the cause is mended.
        let again = recover(&vault, &to.url("shop"), &options(&to)).await.expect_err("as before");
        assert_eq!((again.code, again.object), (failure.code, failure.object));
        to.sql(&unfinished, "ALTER TABLE cron.job DROP CONSTRAINT job_command_check");
        let restored = recover(&vault, &to.url("shop"), &options(&to)).await.expect("restored");
        assert!(restored.resumed);
        assert_eq!(everything(&to), everything(&from), "{major}");
        // Where a database was there, it is as it was.
        let sound = RestoreOptions { when: sound, clean: true, ..options(&to) };
        recover(&vault, &to.url("shop"), &sound).await.expect("restored");
        to.sql("shop", "ALTER EVENT TRIGGER seen DISABLE; CREATE TABLE mine AS SELECT 1 AS a");
        let before = everything(&to);
        let failure = clean(&vault, &to).await.expect_err("a row that isn't taken");
        assert_eq!(failure.code, "postgres.constraint", "{failure:?}");
        assert_eq!(everything(&to), before, "{major}");
        assert!(!databases(&to).contains("replaced"), "{}", databases(&to));
    }
}

/// Waits until the query returns 1.
async fn until(server: &Server, count: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.sql("postgres", count) != "1" {
        assert!(std::time::Instant::now() < deadline, "it doesn't come: {count}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A session that holds the advisory lock which every session of a restore holds.
async fn under_way(server: &Server, database: &str) -> std::process::Child {
    let mut psql = server.tool("psql");
    psql.args(["-d", database, "-c", "SELECT pg_advisory_lock_shared(6203921), pg_sleep(600)"]);
    psql.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let session = psql.spawn().expect("psql runs");
    until(server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 6203921 AND granted").await;
    session
}

/// Tests each state in which a kill can leave the names of the databases. The next try takes the names back, and
/// continues.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_killed_restore_gave_are_taken_back_by_the_next_one() {
    let (from, to) = (start(15), start(15));
    fill(&from);
    to.sql("postgres", "CREATE ROLE alice");
    let vault = vault(&MemoryStore::new());
    from.sql("shop", NEVER);
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    to.sql("postgres", "CREATE DATABASE shop");
    to.sql("shop", "CREATE TABLE mine AS SELECT 1 AS a");
    clean(&vault, &to).await.expect_err("a row that isn't taken");
    let unfinished = to.sql("postgres", "SELECT string_agg(datname, ' ') FROM pg_database WHERE datname ~ '^seawall'");
    let give = format!(
        "ALTER DATABASE shop RENAME TO \"replaced-by-{unfinished}\"; ALTER DATABASE \"{unfinished}\" RENAME TO shop"
    );
    // It fails in the same way, so that what was there is there in the end.
    to.sql("postgres", &give);
    assert!(to.try_sql("shop", "SELECT a FROM mine").is_none(), "it isn't what was there");
    let session = occupy(&to, "shop");
    let failure = clean(&vault, &to).await.expect_err("a row that isn't taken");
    assert_eq!(failure.code, "postgres.constraint", "{failure:?}");
    leave(&to, "shop", session);
    assert_eq!(to.sql("shop", "SELECT a FROM mine"), "1");
    // Names of a restore that is still under way stay until it ends.
    to.sql("postgres", &give);
    let mut other = under_way(&to, "shop").await;
    let (failure, ()) = tokio::join!(clean(&vault, &to), async {
        until(&to, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop' AND query LIKE '%pg_try_advisory_lock(6203921)%'").await;
        assert!(databases(&to).contains("replaced"), "{}", databases(&to));
        to.sql(
            "postgres",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'shop' AND query LIKE '%pg_sleep%'",
        );
    });
    other.wait().expect("ended");
    assert_eq!(failure.expect_err("a row that isn't taken").code, "postgres.constraint");
    assert_eq!(to.sql("shop", "SELECT a FROM mine"), "1");
    // A restore of another set takes them back as well, and then does its own work.
    to.sql("postgres", &give);
    from.sql("shop", "DELETE FROM cron.job WHERE command = 'never'");
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    clean(&vault, &to).await.expect("restored");
    assert_eq!(everything(&to)[0], everything(&from)[0]);
    assert_eq!(databases(&to), format!("postgres {unfinished} shop template0 template1"));
    to.sql("postgres", &format!("DROP DATABASE \"{unfinished}\""));
    nothing_stays(&to, "shop");
}

/// The database that was put aside may be the only whole one. Without a note that says otherwise, a restore never drops
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_put_aside_stays_where_nothing_says_that_the_new_one_is_whole() {
    let (from, to) = (start(15), start(15));
    fill(&from);
    to.sql("postgres", "CREATE ROLE alice");
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    from.sql("shop", NEVER);
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    to.sql("postgres", "CREATE DATABASE shop");
    to.sql("shop", "CREATE TABLE mine AS SELECT 1 AS a");
    clean(&vault, &to).await.expect_err("a row that isn't taken");
    let unfinished = to.sql("postgres", "SELECT string_agg(datname, ' ') FROM pg_database WHERE datname ~ '^seawall'");
    // As a kill leaves it while what waited is made.
    to.sql(
        "postgres",
        &format!(
            "ALTER DATABASE shop RENAME TO \"replaced-by-{unfinished}\"; ALTER DATABASE \"{unfinished}\" RENAME TO shop"
        ),
    );
    let rows = RestoreOptions { data_only: true, ..options(&to) };
    let failure = recover(&vault, &to.url("shop"), &rows).await.expect_err("another restore is in it");
    assert_eq!(failure.code, "postgres.other-restore", "{failure:?}");
    assert!(failure.next.contains("repeat that restore") && !failure.next.contains("DROP SCHEMA"), "{failure:?}");
    // Somebody drops the journal all the same.
    let journal = crate::support::journal(&to, "shop").expect("its journal");
    to.sql("shop", &format!("DROP SCHEMA {journal} CASCADE"));
    let failure = clean(&vault, &to).await.expect_err("which of them is whole isn't known");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-undone"), "{failure:?}");
    let back = format!("DROP DATABASE \"shop\"; ALTER DATABASE \"replaced-by-{unfinished}\" RENAME TO \"shop\"");
    assert!(failure.next.contains(&back), "{failure:?}");
    assert_eq!(to.sql(&format!("replaced-by-{unfinished}"), "SELECT a FROM mine"), "1");
    for statement in back.split("; ") {
        to.sql("postgres", statement);
    }
    let failure = clean(&vault, &to).await.expect_err("a row that isn't taken");
    assert_eq!(failure.code, "postgres.constraint", "{failure:?}");
    assert_eq!(to.sql("shop", "SELECT a FROM mine"), "1");
}

/// The restore is killed after the waiting parts are made, and before the database goes to its owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_whole_and_has_its_name_is_opened_by_the_next_restore() {
    let (from, to) = (start(15), start(15));
    fill(&from);
    to.sql("postgres", "CREATE ROLE alice");
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    to.sql("postgres", "CREATE DATABASE shop");
    to.sql("shop", "CREATE TABLE mine AS SELECT 1 AS a");
    let session = occupy(&to, "shop");
    clean(&vault, &to).await.expect_err("in use");
    let unfinished = to.sql("postgres", "SELECT string_agg(datname, ' ') FROM pg_database WHERE datname ~ '^seawall'");
    leave(&to, "shop", session);
    let before = to.sql("postgres", "SELECT oid FROM pg_database WHERE datname = 'shop'");
    clean(&vault, &to).await.expect("restored");
    let made = to.sql("postgres", "SELECT oid FROM pg_database WHERE datname = 'shop'");
    assert_ne!(before, made);
    to.sql("postgres", &format!("CREATE DATABASE \"replaced-by-{unfinished}\""));
    let whole = crate::support::says_whole(&unfinished).replace(&format!("DATABASE \"{unfinished}\""), "DATABASE shop");
    to.sql(
        "postgres",
        &format!("ALTER DATABASE shop OWNER TO postgres; ALTER DATABASE shop CONNECTION LIMIT 0; {whole}"),
    );
    let restored = clean(&vault, &to).await.expect("restored");
    assert!(restored.resumed);
    assert_eq!(to.sql("postgres", "SELECT oid FROM pg_database WHERE datname = 'shop'"), made, "it wasn't made again");
    assert_eq!(everything(&to), everything(&from));
    assert_eq!(to.sql("postgres", "SELECT datconnlimit FROM pg_database WHERE datname = 'shop'"), "-1");
    assert_eq!(databases(&to), "postgres shop template0 template1");
    nothing_stays(&to, "shop");
}

/// An owner writes names into a journal of their own. The restore renames nothing because of it.
#[tokio::test(flavor = "multi_thread")]
async fn names_in_a_journal_of_the_databases_owner_are_not_believed() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE app LOGIN");
    server.sql("postgres", "CREATE DATABASE shop OWNER app");
    server.sql("shop", "CREATE TABLE t AS SELECT 1 AS a");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let forged = r#"named [{"made":"seawall-0123456789abcdef","name":"shop","replaces":false}]"#;
    server.sql(
        "shop",
        &format!(
            "SET ROLE app; CREATE SCHEMA seawall_restore_01234567; CREATE TABLE seawall_restore_01234567.journal (step text PRIMARY KEY); \
             INSERT INTO seawall_restore_01234567.journal VALUES ('{forged}')"
        ),
    );
    clean(&vault, &server).await.expect("restored");
    assert_eq!(databases(&server), "postgres shop template0 template1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_server_with_a_database_that_has_a_bound_extension_comes_back_or_stays_as_it_was() {
    for major in [15, 18] {
        let (from, to) = (start(major), start(major));
        fill(&from);
        from.sql("postgres", "CREATE DATABASE aside");
        from.sql("aside", "CREATE TABLE t AS SELECT 5 AS a");
        from.sql("postgres", "CREATE TABLE in_postgres AS SELECT 6 AS a");
        let vault = vault(&MemoryStore::new());
        backup(&from, &from.url(""), &vault).await.expect("backed up");
        let dry = RestoreOptions { dry_run: true, ..options(&to) };
        let planned = recover(&vault, &to.url(""), &dry).await.expect("planned");
        assert_eq!(planned.later, ["extension pg_cron in database shop"]);
        let restored = recover(&vault, &to.url(""), &options(&to)).await.expect("restored");
        assert_eq!(restored.later, ["extension pg_cron in database shop", "extension unknown in database shop"]);
        assert_eq!(everything(&to), everything(&from), "{major}");
        assert_eq!(
            (to.sql("aside", "SELECT a FROM t"), to.sql("postgres", "SELECT a FROM in_postgres")),
            ("5".to_owned(), "6".to_owned())
        );
        nothing_stays(&to, "shop");
        // One that can't be finished leaves each database as it was.
        from.sql("shop", NEVER);
        backup(&from, &from.url(""), &vault).await.expect("backed up");
        to.sql("aside", "UPDATE t SET a = 55");
        to.sql("postgres", "UPDATE in_postgres SET a = 66");
        let before = everything(&to);
        let all = RestoreOptions { clean: true, ..options(&to) };
        let failure = recover(&vault, &to.url(""), &all).await.expect_err("a row that isn't taken");
        assert_eq!(
            (failure.code, failure.object.as_str()),
            ("postgres.constraint", "cron.job in database shop"),
            "{failure:?}"
        );
        assert_eq!(everything(&to), before, "{major}");
        assert_eq!(
            (to.sql("aside", "SELECT a FROM t"), to.sql("postgres", "SELECT a FROM in_postgres")),
            ("55".to_owned(), "66".to_owned())
        );
        assert!(!databases(&to).contains("replaced"), "{}", databases(&to));
        // And goes on when the cause is mended.
        let find = "SELECT datname FROM pg_database WHERE datname ~ '^seawall'";
        for database in to.sql("postgres", find).lines() {
            let _ = to.try_sql(database, "ALTER TABLE cron.job DROP CONSTRAINT job_command_check");
        }
        recover(&vault, &to.url(""), &all).await.expect("restored");
        assert_eq!(everything(&to), everything(&from), "{major}");
        assert_eq!(to.sql("aside", "SELECT a FROM t"), "5");
        nothing_stays(&to, "shop");
    }
}
