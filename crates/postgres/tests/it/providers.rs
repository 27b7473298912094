//! Servers of providers, where no role is a superuser. A restore runs as a role with the grants of RDS, Cloud SQL or
//! Azure, on a stock server. The test can't have extra permissions that such a server grants beyond PostgreSQL's rules;
//! its refusals are those of a stock server. So each object is either restored exactly, or named.

use seawall_core::Kind;
use seawall_postgres::{DumpOptions, Format, RestoreOptions, World, dump};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, content, environment, leave, limits, occupy, options, recover, target};

/// For each provider, the role that its administrators are members of, and the statements that make such an
/// administrator.
const PROVIDERS: [(&str, &str); 3] = [
    (
        "rds_superuser",
        "CREATE ROLE rds_superuser; GRANT pg_monitor, pg_signal_backend TO rds_superuser WITH ADMIN OPTION",
    ),
    ("cloudsqlsuperuser", "CREATE ROLE cloudsqlsuperuser CREATEDB CREATEROLE; GRANT pg_monitor TO cloudsqlsuperuser"),
    ("azure_pg_admin", "CREATE ROLE azure_pg_admin CREATEDB CREATEROLE; GRANT pg_read_all_data TO azure_pg_admin"),
];

/// Objects that one provider allows and another refuses, and a table with rows.
const SHOP: &str = "
CREATE EXTENSION pg_stat_statements; CREATE EXTENSION pgcrypto; COMMENT ON EXTENSION pg_stat_statements IS 'ours';
CREATE TABLE t (a serial PRIMARY KEY, b text); INSERT INTO t (b) SELECT md5(i::text) FROM generate_series(1, 100) i;
CREATE FUNCTION e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER et ON ddl_command_start EXECUTE FUNCTION e(); COMMENT ON EVENT TRIGGER et IS 'e';
CREATE PUBLICATION everything FOR ALL TABLES; COMMENT ON PUBLICATION everything IS 'p'; CREATE PUBLICATION chosen FOR TABLE t;
CREATE SUBSCRIPTION sub CONNECTION 'dbname=nowhere password=x' PUBLICATION pub WITH (connect = false, slot_name = NONE);
GRANT EXECUTE ON FUNCTION pg_stat_statements_reset(oid, oid, bigint) TO reader;
ALTER DATABASE shop SET log_min_duration_statement = 7; ALTER DATABASE shop SET work_mem = '5MB';";

fn filled() -> Server {
    filled_of(15)
}

fn filled_of(major: u32) -> Server {
    let from = Server::start(major);
    from.sql("postgres", "CREATE ROLE reader");
    from.sql("postgres", "CREATE DATABASE shop");
    // The function has got another argument.
    let arguments = if major < 17 { "oid, oid, bigint" } else { "oid, oid, bigint, boolean" };
    // The build of version 18 that the tests fetch has no OpenSSL; both are trusted.
    let shop = if major < 18 { SHOP.to_owned() } else { SHOP.replace("pgcrypto", "hstore") };
    from.sql("shop", &shop.replace("oid, oid, bigint", arguments));
    from
}

/// An administrator as the provider makes one.
fn administrator(server: &Server, provider: &str, make: &str) {
    server.sql(
        "postgres",
        &format!(
            "{make}; CREATE ROLE reader; CREATE ROLE master LOGIN CREATEDB CREATEROLE; GRANT {provider} TO master"
        ),
    );
}

#[tokio::test]
async fn what_a_provider_refuses_is_named_and_everything_else_comes_back_in_version_15() {
    refused_by_providers(15).await;
}

#[tokio::test]
async fn what_a_provider_refuses_is_named_and_everything_else_comes_back_in_version_18() {
    refused_by_providers(18).await;
}

/// Since version 16 a role may get the right to subscribe (`pg_create_subscription`).
#[tokio::test]
async fn a_member_of_pg_create_subscription_subscribes_again() {
    let (from, to) = (filled_of(18), Server::start(18));
    from.sql("shop", "DROP EVENT TRIGGER et; DROP PUBLICATION everything");
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    to.sql(
        "postgres",
        "CREATE ROLE reader; CREATE ROLE restorer LOGIN CREATEDB; GRANT pg_create_subscription TO restorer",
    );
    let tried = RestoreOptions { owners: false, without_superuser: true, ..options(&to) };
    let dry = RestoreOptions { dry_run: true, ..tried.clone() };
    let planned = recover(&vault, &to.url_as("restorer", "copy"), &dry).await.expect("planned");
    assert!(!planned.doubts.iter().any(|doubt| doubt.contains("sub")), "{planned:?}");
    let restored = recover(&vault, &to.url_as("restorer", "copy"), &tried).await.expect("restored");
    let names: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
    assert!(!names.iter().any(|name| name.starts_with("subscription")), "{restored:?}");
    let subscriptions =
        "SELECT subname, subpublications, subenabled, subslotname, pg_get_userbyid(subowner) FROM pg_subscription";
    assert_eq!(to.sql("copy", subscriptions), "sub|{pub}|f||restorer");
    assert_eq!(to.sql("copy", "SELECT count(*) FROM t"), "100");
}

async fn refused_by_providers(major: u32) {
    let from = filled_of(major);
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    for (provider, make) in PROVIDERS {
        let to = Server::start(major);
        administrator(&to, provider, make);
        let options = RestoreOptions { owners: false, ..options(&to) };
        let dry = RestoreOptions { dry_run: true, ..options.clone() };
        let planned = recover(&vault, &to.url_as("master", "copy"), &dry).await.expect("planned");
        assert_eq!(planned.lacks, [], "{provider}");
        assert_eq!(planned.doubts.len(), 4, "{:?}", planned.doubts);
        let restored = recover(&vault, &to.url_as("master", "copy"), &options).await.expect("restored");
        let names: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
        let expected = [
            "extension pg_stat_statements",
            "publication everything",
            "subscription sub",
            "event triggers",
            "setting log_min_duration_statement of database copy",
        ];
        let mut sorted = (names.clone(), expected.to_vec());
        sorted.0.sort_unstable();
        sorted.1.sort_unstable();
        assert_eq!(sorted.0, sorted.1, "{provider}: {restored:?}");
        assert!(restored.refused.iter().all(|(_, cause)| cause.contains("[SQLSTATE 42501]")), "{restored:?}");
        assert_eq!(
            to.sql("copy", "SELECT count(*), md5(string_agg(b, '' ORDER BY a)) FROM t"),
            from.sql("shop", "SELECT count(*), md5(string_agg(b, '' ORDER BY a)) FROM t")
        );
        assert_eq!(
            to.sql("copy", "SELECT string_agg(extname, ' ' ORDER BY extname) FROM pg_extension"),
            if major < 18 { "pgcrypto plpgsql" } else { "hstore plpgsql" }
        );
        assert_eq!(to.sql("copy", "SELECT string_agg(pubname, ' ') FROM pg_publication"), "chosen");
    }
}

/// The provider made the extension beforehand, and other roles may not comment on it.
#[tokio::test]
async fn a_database_with_a_providers_extensions_is_empty() {
    let from = filled();
    let to = Server::start(15);
    administrator(&to, PROVIDERS[0].0, PROVIDERS[0].1);
    for (format, name) in [(Format::Native, "native"), (Format::Custom, "custom")] {
        from.sql("shop", "DROP EVENT TRIGGER IF EXISTS et; DROP PUBLICATION IF EXISTS everything");
        if from.sql("shop", "SELECT count(*) FROM pg_subscription") == "1" {
            from.sql("shop", "DROP SUBSCRIPTION sub");
        }
        let vault = vault(&MemoryStore::new());
        let dump_options = DumpOptions { limits: limits(&from), format, ..DumpOptions::default() };
        let url = target(&from.url("shop"));
        let world = World::real(environment());
        dump(&url, &vault, &dump_options, &world, std::sync::Arc::new(seawall_core::NoProgress))
            .await
            .expect("backed up");
        to.sql("postgres", &format!("CREATE DATABASE {name} OWNER master"));
        to.sql(name, "CREATE EXTENSION pg_stat_statements; GRANT ALL ON SCHEMA public TO master");
        let options = RestoreOptions { owners: false, ..options(&to) };
        let restored = recover(&vault, &to.url_as("master", name), &options).await.expect("restored");
        let names: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
        let comment = if format == Format::Native {
            "comment on EXTENSION pg_stat_statements"
        } else {
            "COMMENT ON EXTENSION pg_stat_statements IS"
        };
        assert_eq!(names, [comment]);
        assert_eq!(to.sql(name, "SELECT count(*) FROM t"), "100");
        // The comment that the extension has by itself isn't missed.
        from.sql("shop", "COMMENT ON EXTENSION pg_stat_statements IS 'track planning and execution statistics of all SQL statements executed'");
        if format == Format::Native {
            let vault = self::vault(&MemoryStore::new());
            backup(&from, &from.url("shop"), &vault).await.expect("backed up");
            to.sql("postgres", "CREATE DATABASE again OWNER master");
            to.sql("again", "CREATE EXTENSION pg_stat_statements");
            let restored = recover(&vault, &to.url_as("master", "again"), &options).await.expect("restored");
            assert_eq!(restored.refused, []);
            from.sql("shop", "COMMENT ON EXTENSION pg_stat_statements IS 'ours'");
        }
    }
}

fn vault(store: &MemoryStore) -> seawall_vault::Vault {
    crate::support::vault(store)
}

/// Without a provider's role, the restore refuses the extension at the beginning. On request it tries to make it. If
/// other objects need the refused extension, the restore ends before any row.
#[tokio::test]
async fn what_is_needed_of_a_refused_extension_ends_the_restore_by_name() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE restorer LOGIN CREATEDB");
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE EXTENSION postgres_fdw; CREATE EXTENSION dblink; CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw; \
         CREATE FOREIGN TABLE far (a int) SERVER s; CREATE TABLE t AS SELECT 1 AS a",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let url = server.url_as("restorer", "copy");
    let without = RestoreOptions { owners: false, ..options(&server) };
    let failure = recover(&vault, &url, &without).await.expect_err("superusers make it");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-ready"));
    assert!(failure.next.contains("--without-superuser"), "{failure:?}");
    let tried = RestoreOptions { without_superuser: true, ..without };
    let failure = recover(&vault, &url, &tried).await.expect_err("it is needed");
    assert_eq!(failure.code, "postgres.permission", "{failure:?}");
    assert!(failure.object.starts_with("extension postgres_fdw, needed by server s"), "{failure:?}");
    assert!(failure.object.ends_with(" in database copy"), "{failure:?}");
}

/// A role with the grant option made the grant. The restore makes it as that role. If the restoring role can't become
/// that role, the lack is named at the beginning.
#[tokio::test]
async fn grants_by_others_are_made_as_them_or_named_before() {
    for major in [15, 18] {
        let server = Server::start(major);
        server.sql("postgres", "CREATE ROLE restorer LOGIN CREATEDB; CREATE ROLE \"a's\"; CREATE ROLE b; CREATE ROLE own; GRANT own TO restorer");
        server.sql("postgres", "CREATE DATABASE shop OWNER own");
        server.sql(
            "shop",
            "SET ROLE own; CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO \"a's\"; CREATE TABLE s.t AS SELECT 7 AS x; \
             GRANT SELECT ON s.t TO \"a's\" WITH GRANT OPTION; \
             SET ROLE \"a's\"; GRANT SELECT ON s.t TO b; RESET ROLE; COMMENT ON TABLE s.t IS 'SET SESSION AUTHORIZATION x;'; \
             GRANT CREATE ON DATABASE shop TO \"a's\" WITH GRANT OPTION; \
             SET ROLE \"a's\"; GRANT CREATE ON DATABASE shop TO b",
        );
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        let url = server.url_as("restorer", "copy");
        let failure = recover(&vault, &url, &options(&server)).await.expect_err("it may not grant as that role");
        assert_eq!(failure.cause, "\"restorer\" may not grant as a's");
        server.sql("postgres", failure.next.split_once('(').expect("a statement").0);
        let restored = recover(&vault, &url, &options(&server)).await.expect("restored");
        assert_eq!(restored.refused, []);
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        let grants = "SELECT array_to_string(relacl, ' ') FROM pg_class WHERE relname = 't'";
        assert_eq!(server.sql("copy", grants), server.sql("shop", grants));
        assert!(
            server.sql("copy", grants).contains("b=r/a's") || server.sql("copy", grants).contains("b=r/\"a's\""),
            "{}",
            server.sql("copy", grants)
        );
    }
}

/// A statement that fails among many is named with its object and database.
#[tokio::test]
async fn a_statement_of_the_schema_that_fails_is_named() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE restorer LOGIN CREATEDB");
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE one (a int); CREATE CAST (bigint AS text) WITH INOUT; CREATE TABLE two (a int)");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let without = RestoreOptions { owners: false, without_superuser: true, ..options(&server) };
    let failure = recover(&vault, &server.url_as("restorer", "copy"), &without).await.expect_err("it may not");
    assert_eq!(
        (failure.code, failure.object.as_str()),
        ("postgres.permission", "cast CAST (bigint AS text): CREATE CAST (bigint AS text) WITH INOUT in database copy"),
        "{failure:?}"
    );
    // The superuser has no trouble with it.
    recover(&vault, &server.url("whole"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "whole"), content(&server, "shop"));
}

/// Everything is made, but the name can't be given. The resume only gives the name, and still reports the server's
/// refusals.
#[tokio::test]
async fn what_was_refused_is_told_again_by_the_resume_that_only_gives_the_name() {
    let (from, to) = (filled(), Server::start(15));
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    administrator(&to, PROVIDERS[0].0, PROVIDERS[0].1);
    to.sql("postgres", "CREATE DATABASE copy OWNER master");
    let clean = RestoreOptions { owners: false, clean: true, ..options(&to) };
    let session = occupy(&to, "copy");
    let failure = recover(&vault, &to.url_as("master", "copy"), &clean).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use", "{failure:?}");
    leave(&to, "copy", session);
    let restored = recover(&vault, &to.url_as("master", "copy"), &clean).await.expect("restored");
    assert!(restored.resumed);
    let mut names: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "event trigger et",
        "extension pg_stat_statements",
        "publication everything",
        "setting log_min_duration_statement of database copy",
        "subscription sub",
    ];
    assert_eq!(names, expected);
    assert_eq!(content(&to, "copy")[0], content(&from, "shop")[0]);
}

/// The resume also reports grants that the server skipped and labels whose provider is missing.
#[tokio::test]
async fn grants_and_labels_that_were_passed_over_are_told_again_by_the_resume_that_only_gives_the_name() {
    let (from, to) = (Server::start_with(15, "allow_system_table_mods = on"), Server::start(15));
    for server in [&from, &to] {
        server.sql("postgres", "CREATE ROLE own LOGIN CREATEDB; CREATE ROLE reader");
    }
    from.sql("postgres", "CREATE DATABASE shop OWNER own");
    from.sql(
        "shop",
        "CREATE TABLE t AS SELECT 1 AS a; ALTER TABLE t OWNER TO own; REVOKE ALL ON SCHEMA public FROM PUBLIC; \
         GRANT CREATE ON SCHEMA public TO reader; SELECT lo_from_bytea(7, 'x'); ALTER LARGE OBJECT 7 OWNER TO own; \
         INSERT INTO pg_seclabel VALUES (7, 'pg_largeobject'::regclass, 0, 'dummy', 'lo'), \
         ('t'::regclass, 'pg_class'::regclass, 0, 'dummy', 'of t')",
    );
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    to.sql("postgres", "CREATE DATABASE copy OWNER own");
    let names = |refused: &[(String, String)]| {
        let mut names: Vec<String> = refused.iter().map(|(what, _)| what.clone()).collect();
        names.sort_unstable();
        names
    };
    // The superuser owns the schema public, so that what `own` grants there is passed over.
    let clean = RestoreOptions { clean: true, ..options(&to) };
    let told = recover(&vault, &to.url_as("own", "once"), &options(&to)).await.expect("restored");
    let wanted = names(&told.refused);
    for what in ["security label of dummy on large object 7", "security label on TABLE t"] {
        assert!(wanted.contains(&what.to_owned()), "{wanted:?}");
    }
    let session = occupy(&to, "copy");
    let failure = recover(&vault, &to.url_as("own", "copy"), &clean).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use", "{failure:?}");
    leave(&to, "copy", session);
    let restored = recover(&vault, &to.url_as("own", "copy"), &clean).await.expect("restored");
    assert!(restored.resumed);
    assert_eq!(names(&restored.refused), wanted);
    assert_eq!(content(&to, "copy")[0], content(&from, "shop")[0]);
}

/// A superuser doesn't continue a plain role's restore, because that role could have written anything into the
/// database. The superuser continues once the database belongs to them, and makes the steps that the first role left
/// out.
#[tokio::test]
async fn a_superuser_goes_on_with_what_a_plain_role_began_only_where_it_was_given_to_him() {
    let (from, to) = (filled(), Server::start(15));
    from.sql(
        "shop",
        "CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN \
         IF session_user <> 'postgres' THEN RAISE EXCEPTION 'not for %', session_user; END IF; RETURN $1; END $$; \
         CREATE INDEX ON t (f(a)); COMMENT ON EXTENSION pgcrypto IS 'mine'",
    );
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    administrator(&to, PROVIDERS[0].0, PROVIDERS[0].1);
    let options = RestoreOptions { owners: false, ..options(&to) };
    recover(&vault, &to.url_as("master", "copy"), &options).await.expect_err("the index isn't for this role");
    let failure = recover(&vault, &to.url("copy"), &options).await.expect_err("it is another role's");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-ours"), "{failure:?}");
    let unfinished = to.sql("postgres", "SELECT datname FROM pg_database WHERE datname ~ '^seawall-'");
    assert!(failure.next.contains(&format!("DROP DATABASE \"{unfinished}\"")), "{failure:?}");
    to.sql("postgres", &format!("ALTER DATABASE \"{unfinished}\" OWNER TO postgres"));
    let failure = recover(&vault, &to.url("copy"), &options).await.expect_err("its journal is another role's");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-ours"), "{failure:?}");
    to.sql(&unfinished, "REASSIGN OWNED BY master TO postgres");
    let restored = recover(&vault, &to.url("copy"), &options).await.expect("restored");
    assert!(restored.resumed);
    let names: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(names, ["extension pg_stat_statements"], "what the first role left out stays out, and is named");
    for there in [
        "SELECT string_agg(pubname, ' ' ORDER BY pubname) FROM pg_publication",
        "SELECT string_agg(evtname, ' ') FROM pg_event_trigger",
        "SELECT count(*) FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
        "SELECT obj_description(oid, 'pg_extension') FROM pg_extension WHERE extname = 'pgcrypto'",
    ] {
        assert_eq!(to.sql("copy", there), from.sql("shop", there), "{there}");
    }
    assert_eq!(content(&to, "copy")[0], content(&from, "shop")[0]);
}
