//! A restore names everything that it lacks before it makes anything, with the statements that mend it. After these
//! statements, the restore succeeds.

use std::path::Path;

use seawall_archive::preflight::Lack;
use seawall_core::{Failure, Kind};
use seawall_postgres::{Format, RestoreOptions, Restored};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, backup_in, content, options, recover, schema, vault};

/// The findings of a dry run, as `seawall restore --dry-run` shows them.
async fn lacks(vault: &Vault, url: &str, options: &RestoreOptions) -> Vec<Lack> {
    let options = RestoreOptions { dry_run: true, ..options.clone() };
    recover(vault, url, &options).await.expect("a plan").lacks
}

/// The causes of these findings.
async fn causes(vault: &Vault, url: &str, options: &RestoreOptions) -> Vec<String> {
    lacks(vault, url, options).await.into_iter().map(|lack| lack.cause).collect()
}

/// Runs the advised statements in a database, without the remarks beside them.
fn mend(server: &Server, database: &str, lacks: &[Lack]) {
    for Lack { mend, .. } in lacks {
        server.sql(database, mend.split_once('(').map_or(mend, |(statements, _)| statements));
    }
}

async fn not_ready(vault: &Vault, url: &str, options: &RestoreOptions) -> Failure {
    let failure = recover(vault, url, options).await.expect_err("something is missing");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-ready"), "{failure:?}");
    failure
}

fn databases(server: &Server) -> String {
    server.sql("postgres", "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database")
}

#[tokio::test]
async fn roles_of_grants_policies_and_default_privileges_are_named_before_anything_is_made() {
    let (from, to) = (Server::start(15), Server::start(15));
    from.sql(
        "postgres",
        "CREATE ROLE grantee; CREATE ROLE \"the policy's\"; CREATE ROLE by_default; CREATE ROLE its_own",
    );
    from.sql("postgres", "CREATE ROLE \"to FROM x\"");
    from.sql("postgres", "CREATE DATABASE shop");
    from.sql(
        "shop",
        "CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE \"it's TO nobody\" AS SELECT 1 AS a; \
         GRANT SELECT ON t TO grantee; GRANT SELECT ON \"it's TO nobody\" TO \"to FROM x\"; \
         CREATE POLICY p ON t TO \"the policy's\" USING (EXISTS (SELECT FROM pg_class WHERE relname <> ' TO y')); \
         ALTER DEFAULT PRIVILEGES FOR ROLE its_own GRANT SELECT ON TABLES TO by_default",
    );
    let (vault, options) = (vault(&MemoryStore::new()), options(&to));
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    let missing = |names: &[&str]| names.iter().map(|name| format!("the role {name} is missing")).collect::<Vec<_>>();
    let (before, url) = (databases(&to), to.url("copy"));

    let all = ["by_default", "grantee", "its_own", "the policy's", "to FROM x"];
    assert_eq!(causes(&vault, &url, &options).await, missing(&all));
    not_ready(&vault, &url, &options).await;
    let without = RestoreOptions { owners: false, ..options.clone() };
    assert_eq!(causes(&vault, &url, &without).await, missing(&["the policy's"]));
    let table = |name: &str| RestoreOptions { tables: vec![name.to_owned()], ..options.clone() };
    assert_eq!(causes(&vault, &url, &table("t")).await, missing(&["grantee", "the policy's"]));
    assert_eq!(causes(&vault, &url, &table("it's TO nobody")).await, missing(&["to FROM x"]));
    assert_eq!(databases(&to), before, "nothing was made");

    mend(&to, "postgres", &lacks(&vault, &url, &options).await);
    assert_eq!(causes(&vault, &url, &options).await, [""; 0]);
    recover(&vault, &url, &options).await.expect("restored");
    assert_eq!(schema(&to, &to, "copy").replace("copy", "shop"), schema(&to, &from, "shop"));
}

/// A database whose objects belong to several roles, and that has objects which need a right of their own.
fn owned(server: &Server) {
    server.sql("postgres", "CREATE ROLE alice; CREATE ROLE \"Bob's\"; CREATE ROLE reader");
    server.sql("postgres", "CREATE DATABASE shop OWNER alice");
    server.sql(
        "shop",
        "CREATE SCHEMA s AUTHORIZATION alice; CREATE SCHEMA b AUTHORIZATION \"Bob's\"; \
         CREATE TABLE s.t (a serial PRIMARY KEY, b text); INSERT INTO s.t (b) VALUES ('x'); ALTER TABLE s.t OWNER TO alice; \
         CREATE VIEW b.v AS SELECT 1 AS a; ALTER VIEW b.v OWNER TO \"Bob's\"; GRANT SELECT ON s.t TO reader; \
         SELECT lo_from_bytea(77, 'x'); ALTER LARGE OBJECT 77 OWNER TO \"Bob's\"; \
         ALTER DEFAULT PRIVILEGES FOR ROLE alice GRANT SELECT ON TABLES TO reader",
    );
}

async fn rights_that_are_missing_are_named(major: u32) {
    let (from, to) = (Server::start(15), Server::start(major));
    owned(&from);
    if major == 15 {
        // One that needs no superuser. The other version's programs come without any.
        from.sql("shop", "CREATE EXTENSION pgcrypto");
    }
    to.sql("postgres", "CREATE ROLE alice; CREATE ROLE \"Bob's\"; CREATE ROLE reader; CREATE ROLE restorer LOGIN");
    let (vault, options) = (vault(&MemoryStore::new()), options(&to));
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    let (before, url) = (databases(&to), to.url_as("restorer", "copy"));
    let lacks = lacks(&vault, &url, &options).await;
    let mends: Vec<&str> = lacks.iter().map(|lack| lack.mend.as_str()).collect();
    let grant = "GRANT \"Bob's\", \"alice\" TO \"restorer\"; (or leave owners and grants out with --no-owner)";
    assert_eq!(mends, ["ALTER ROLE \"restorer\" CREATEDB;", grant], "{lacks:?}");
    assert_eq!(lacks[1].cause, "\"restorer\" may not make something belong to Bob's, alice");
    not_ready(&vault, &url, &options).await;
    let without = RestoreOptions { owners: false, ..options.clone() };
    assert_eq!(causes(&vault, &url, &without).await, ["\"restorer\" may not make databases"]);
    assert_eq!(databases(&to), before, "nothing was made");

    mend(&to, "postgres", &lacks);
    recover(&vault, &url, &options).await.expect("restored");
    assert_eq!(content(&to, "copy"), content(&from, "shop"));
    assert_eq!(schema(&to, &to, "copy").replace("copy", "shop"), schema(&to, &from, "shop"));
}

#[tokio::test]
async fn rights_that_are_missing_are_named_with_the_grant_on_version_15() {
    rights_that_are_missing_are_named(15).await;
}

#[tokio::test]
async fn rights_that_are_missing_are_named_with_the_grant_on_version_18() {
    rights_that_are_missing_are_named(18).await;
}

#[tokio::test]
async fn what_needs_a_superuser_is_named_by_object() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE restorer LOGIN CREATEDB; CREATE ROLE alice; GRANT alice TO restorer");
    server.sql("postgres", "CREATE DATABASE shop OWNER restorer");
    server.sql(
        "shop",
        "CREATE EXTENSION dblink; CREATE EXTENSION pgcrypto; CREATE PUBLICATION everything FOR ALL TABLES; \
         CREATE FUNCTION e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; \
         CREATE EVENT TRIGGER et ON ddl_command_start EXECUTE FUNCTION e(); \
         CREATE TABLE t AS SELECT 1 AS a; ALTER TABLE t OWNER TO alice; \
         ALTER FUNCTION e() OWNER TO restorer; ALTER PUBLICATION everything OWNER TO postgres",
    );
    let (vault, options) = (vault(&MemoryStore::new()), options(&server));
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let url = server.url_as("restorer", "copy");
    let expected = [
        "\"restorer\" may not make something belong to postgres",
        "\"restorer\" may not give what has no right to be made there to alice in schema public",
        "\"restorer\" may not make the extension dblink",
        "\"restorer\" may not make, as superusers alone may, the publication everything, event trigger et",
    ];
    assert_eq!(causes(&vault, &url, &options).await, expected);
    // The table of contents says the same.
    for format in [Format::Custom, Format::Directory] {
        let vault = crate::support::vault(&MemoryStore::new());
        backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
        assert_eq!(causes(&vault, &url, &options).await, expected, "{format:?}");
        not_ready(&vault, &url, &options).await;
        let without = RestoreOptions { owners: false, ..options.clone() };
        assert_eq!(causes(&vault, &url, &without).await, expected[2..], "{format:?}");
    }
    assert!(!databases(&server).contains("seawall"), "nothing was made");
    not_ready(&vault, &url, &options).await;
    recover(&vault, &server.url("copy"), &options).await.expect("a superuser restores it");
    // A table alone needs none of it, but for its owner's right in the schema.
    let table = RestoreOptions { tables: vec!["t".to_owned()], owners: false, ..options };
    recover(&vault, &server.url_as("restorer", "table"), &table).await.expect("restored");
    assert_eq!(server.sql("table", "SELECT tableowner, a FROM t, pg_tables WHERE tablename = 't'"), "restorer|1");
}

#[tokio::test]
async fn a_database_that_may_not_be_replaced_or_filled_is_named_before() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE alice LOGIN; CREATE ROLE restorer LOGIN CREATEDB");
    server.sql("postgres", "CREATE DATABASE shop OWNER restorer");
    server.sql("shop", "CREATE TABLE t AS SELECT 1 AS a; ALTER TABLE t OWNER TO restorer");
    server.sql("postgres", "CREATE DATABASE theirs OWNER alice");
    let (vault, options) = (vault(&MemoryStore::new()), options(&server));
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let url = server.url_as("restorer", "theirs");
    let filled = lacks(&vault, &url, &options).await;
    let mends: Vec<&str> = filled.iter().map(|lack| lack.mend.as_str()).collect();
    assert_eq!(
        mends,
        ["GRANT CREATE ON DATABASE \"theirs\" TO \"restorer\";", "GRANT CREATE ON SCHEMA \"public\" TO \"restorer\";"]
    );
    not_ready(&vault, &url, &options).await;
    mend(&server, "theirs", &filled);
    recover(&vault, &url, &options).await.expect("filled");
    assert_eq!(server.sql("theirs", "SELECT a FROM t"), "1");

    let clean = RestoreOptions { clean: true, ..options.clone() };
    let denied = lacks(&vault, &url, &clean).await;
    assert_eq!(
        denied,
        [Lack::new(
            "\"restorer\" may not drop the database theirs, which belongs to alice",
            "GRANT \"alice\" TO \"restorer\";"
        )]
    );
    not_ready(&vault, &url, &clean).await;
    mend(&server, "postgres", &denied);
    recover(&vault, &url, &clean).await.expect("replaced");

    // A subscription ends with no session.
    let subscription =
        "CREATE SUBSCRIPTION sub CONNECTION 'dbname=nowhere' PUBLICATION pub WITH (connect = false, slot_name = NONE)";
    server.sql("theirs", subscription);
    let lacks = lacks(&vault, &server.url("theirs"), &clean).await;
    assert_eq!(lacks.len(), 1, "{lacks:?}");
    assert!(lacks[0].cause.ends_with("because it has the subscription sub"), "{lacks:?}");
    assert!(not_ready(&vault, &server.url("theirs"), &clean).await.next.starts_with("DROP SUBSCRIPTION \"sub\";"));
    mend(&server, "theirs", &lacks);
    recover(&vault, &server.url("theirs"), &clean).await.expect("replaced");
}

/// A grant by another role is made as that role. `SET ROLE` is enough for a member of it.
#[tokio::test]
async fn grants_by_others_come_back_by_a_member_of_their_roles() {
    for major in [15, 18] {
        let server = Server::start(major);
        server.sql(
            "postgres",
            "CREATE ROLE restorer LOGIN CREATEDB; CREATE ROLE alice; CREATE ROLE mid; CREATE ROLE reader",
        );
        server.sql("postgres", "GRANT alice TO restorer");
        server.sql("postgres", "CREATE DATABASE shop OWNER restorer");
        server.sql(
            "shop",
            "CREATE SCHEMA s AUTHORIZATION alice; GRANT USAGE ON SCHEMA s TO mid; SET ROLE alice; CREATE TABLE s.t AS SELECT 1 AS a; \
             GRANT SELECT ON s.t TO mid WITH GRANT OPTION; SET ROLE mid; GRANT SELECT ON s.t TO reader",
        );
        let rights = "SELECT relacl FROM pg_class WHERE relname = 't'";
        for format in [Format::Native, Format::Custom, Format::Directory, Format::Plain] {
            let (vault, options) = (vault(&MemoryStore::new()), options(&server));
            backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
            let copy = format!("copy_{}", format.name());
            let url = server.url_as("restorer", &copy);
            // A script alone doesn't say so before it comes to the grant.
            if format != Format::Plain {
                let lacks = lacks(&vault, &url, &options).await;
                let causes: Vec<&str> = lacks.iter().map(|lack| lack.cause.as_str()).collect();
                assert_eq!(causes, ["\"restorer\" may not grant as mid"], "{format:?}");
            }
            server.sql("postgres", "GRANT mid TO restorer");
            recover(&vault, &url, &options).await.expect("restored");
            assert_eq!(server.sql(&copy, rights), server.sql("shop", rights), "{format:?}");
            server.sql("postgres", "REVOKE mid FROM restorer");
        }
    }
}

#[tokio::test]
async fn rows_alone_are_refused_by_what_is_in_their_way() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE loader LOGIN; GRANT SET ON PARAMETER session_replication_role TO loader");
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT 1 AS a; CREATE SCHEMA s; CREATE TABLE s.u AS SELECT 2 AS a");
    let (vault, options) = (vault(&MemoryStore::new()), options(&server));
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    server.sql("postgres", "CREATE DATABASE other");
    server.sql("other", "GRANT CREATE ON DATABASE other TO loader; CREATE SCHEMA s; CREATE TABLE s.u (a int)");
    let rows = RestoreOptions { data_only: true, ..options.clone() };
    let url = server.url_as("loader", "other");
    let found = lacks(&vault, &url, &rows).await;
    let found_causes: Vec<&str> = found.iter().map(|lack| lack.cause.as_str()).collect();
    let absent = "--data-only needs tables that are there, and there is no public.t";
    assert_eq!(found_causes, [absent, "\"loader\" may not add rows to s.u"]);
    server.sql("other", "CREATE TABLE t (a int); GRANT SELECT, INSERT ON t TO loader; INSERT INTO t VALUES (7)");
    mend(&server, "other", &found[1..]);

    let way = [Lack::new(r#""public"."t" has rows already"#, r#"TRUNCATE "public"."t"; or name another database"#)];
    assert_eq!(lacks(&vault, &url, &rows).await, way);
    let failure = recover(&vault, &url, &rows).await.expect_err("rows are there");
    assert_eq!((failure.code, failure.next.as_str()), ("postgres.not-empty", way[0].mend.as_str()));
    let table = RestoreOptions { tables: vec!["t".to_owned()], ..options.clone() };
    let failure = recover(&vault, &server.url("other"), &table).await.expect_err("the table is there");
    assert_eq!(
        (failure.code, failure.next.as_str()),
        ("postgres.not-empty", r#"DROP TABLE "public"."t"; or name another database"#)
    );
    let failure = recover(&vault, &server.url("other"), &options).await.expect_err("something is there");
    assert!(failure.next.ends_with("replace this one with --clean"), "{failure:?}");
    server.sql("other", "TRUNCATE t");
    recover(&vault, &url, &rows).await.expect("loaded");
    assert_eq!(server.sql("other", "SELECT t.a, u.a FROM t, s.u"), "1|2");
}

/// The failure names the unfinished database. Nothing treats that database as a user's, and the restore continues in it
/// once the cause is mended.
#[tokio::test]
async fn a_restore_that_fails_names_what_stays_and_goes_on_there_once_it_is_mended() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE FUNCTION inner_f(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)'; \
         CREATE FUNCTION outer_f(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT inner_f($1)'; \
         CREATE TABLE t AS SELECT 'x' AS a; CREATE INDEX by_function ON t (outer_f(a))",
    );
    let (vault, options) = (vault(&MemoryStore::new()), options(&server));
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let failure = recover(&vault, &server.url("copy"), &options).await.expect_err("the function finds nothing");
    assert_eq!(
        (failure.code, failure.object.as_str()),
        ("postgres.refused", "index by_function in database copy"),
        "{failure:?}"
    );
    assert!(
        failure.cause.contains("42883") && failure.next.contains("ALTER FUNCTION … SET search_path"),
        "{failure:?}"
    );
    let left = server.sql("postgres", "SELECT datname FROM pg_database WHERE datname ~ '^seawall-'");
    assert!(failure.next.ends_with(&format!("or until DROP DATABASE \"{left}\";")), "{left}: {failure:?}");

    let store = self::vault_of_its_own();
    let dumped = backup(&server, &server.url(""), &store).await.expect("backed up");
    assert_eq!((dumped.left_out, dumped.databases.contains(&left)), (vec![left.clone()], false));
    // Its name alone tells: an interrupted call may have come no further than to make it, or to the end of the journal.
    server.sql("postgres", &format!("ALTER DATABASE \"{left}\" RENAME TO aside"));
    server.sql("postgres", &format!("CREATE DATABASE \"{left}\""));
    let dumped = backup(&server, &server.url(""), &store).await.expect("backed up");
    assert_eq!((dumped.left_out, dumped.databases.contains(&left)), (vec![left.clone()], false));
    server.sql("postgres", &format!("DROP DATABASE \"{left}\""));
    // What an older version has called so, its journal tells, and the restore goes on in it.
    let before = left.rsplit_once('-').expect("a digest").0.to_owned();
    server.sql("postgres", &format!("ALTER DATABASE aside RENAME TO \"{before}\""));
    let dumped = backup(&server, &server.url(""), &store).await.expect("backed up");
    assert_eq!(dumped.left_out, std::slice::from_ref(&before));
    // Without the journal such a one is a database like any other.
    server.sql("postgres", "CREATE DATABASE \"seawall-0123456789abcdef\"");
    let dumped = backup(&server, &server.url(""), &store).await.expect("backed up");
    assert!(dumped.databases.contains(&"seawall-0123456789abcdef".to_owned()), "{dumped:?}");

    server.sql(&before, "ALTER FUNCTION public.outer_f(text) SET search_path = public");
    let Restored { resumed, .. } = recover(&vault, &server.url("copy"), &options).await.expect("restored");
    assert!(resumed);
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    assert_eq!(server.sql("copy", "SELECT outer_f(a) FROM t"), "X");
}

fn vault_of_its_own() -> Vault {
    vault(&MemoryStore::new())
}

#[tokio::test]
async fn what_a_standby_has_nothing_of_is_named_and_everything_else_is_backed_up_from_it() {
    let primary = Server::start(15);
    primary.sql("postgres", "CREATE DATABASE shop");
    primary.sql(
        "shop",
        "CREATE TABLE t AS SELECT 1 AS a; CREATE UNLOGGED TABLE u AS SELECT 2 AS a; CREATE UNLOGGED SEQUENCE s",
    );
    let standby = Server::standby_of(&primary);
    let (vault, options) = (vault(&MemoryStore::new()), options(&primary));
    let failure = backup(&standby, &standby.url("shop"), &vault).await.expect_err("some of it isn't here");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.unsupported"), "{failure:?}");
    assert!(failure.cause.ends_with("of what is unlogged: public.s, public.u"), "{failure:?}");
    assert!(failure.next.starts_with("back up the primary"), "{failure:?}");

    primary.sql("shop", "ALTER TABLE u SET LOGGED; ALTER SEQUENCE s SET LOGGED");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while standby.sql("shop", "SELECT count(*) FROM pg_class WHERE relpersistence = 'u'") != "0" {
        assert!(std::time::Instant::now() < deadline, "the standby doesn't follow");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    backup(&standby, &standby.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &primary.url("copy"), &options).await.expect("restored");
    assert_eq!(content(&primary, "copy"), content(&primary, "shop"));
}

/// The role and the database of [`everything.sql`] exist already, so the restore reports no lacks.
#[tokio::test]
async fn a_superuser_with_all_roles_lacks_nothing_for_every_kind_of_object() {
    let server = Server::start(15);
    crate::support::roles(&server);
    server.sql("postgres", "CREATE DATABASE shop OWNER alice");
    server.script("shop", &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/everything.sql"));
    let (vault, options) = (vault(&MemoryStore::new()), options(&server));
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    assert_eq!(lacks(&vault, &server.url("copy"), &options).await, []);
}
