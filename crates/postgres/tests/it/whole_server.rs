//! Every database of a server with its roles, backed up and restored.

use std::sync::Arc;

use seawall_core::{Failure, Moment, NoProgress};
use seawall_postgres::{DumpOptions, Dumped, World, dump};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, content, environment, limits, options, recover, target, vault};

/// The objects of a server outside its databases. Names of databases and roles need quotes, and a third role granted
/// one membership.
const SERVER: &str = "
CREATE ROLE admin SUPERUSER LOGIN;
CREATE ROLE \"Bob's \"\"role\"\"\" LOGIN CREATEDB NOINHERIT CONNECTION LIMIT 3 VALID UNTIL '2031-02-03 04:05:06+00' PASSWORD 'secret';
CREATE ROLE alice LOGIN; CREATE ROLE staff; CREATE ROLE reader BYPASSRLS;
COMMENT ON ROLE alice IS 'it''s alice';
ALTER ROLE alice SET search_path TO \"$user\", 'a, b';
GRANT staff TO alice WITH ADMIN OPTION;
GRANT pg_read_all_data TO reader;
GRANT SET ON PARAMETER session_replication_role TO alice;";

pub(crate) fn fill(server: &Server) {
    server.sql("postgres", SERVER);
    server.sql("postgres", "SET ROLE alice; GRANT staff TO \"Bob's \"\"role\"\"\"");
    for statement in [
        "CREATE DATABASE shop OWNER alice CONNECTION LIMIT 7",
        "CREATE DATABASE \"b \u{1f418}; \"\"x\"\"\" ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
        "CREATE DATABASE empty IS_TEMPLATE true",
        "ALTER DATABASE shop SET work_mem TO '5MB'",
        "ALTER ROLE alice IN DATABASE shop SET work_mem TO '6MB'",
        "COMMENT ON DATABASE empty IS 'nothing'",
        "REVOKE ALL ON DATABASE shop FROM PUBLIC",
        "ALTER DATABASE postgres SET statement_timeout TO '1h'",
        "ALTER ROLE ALL SET work_mem TO '7MB'",
    ] {
        server.sql("postgres", statement);
    }
    server.sql("shop", "CREATE TABLE t (a serial PRIMARY KEY, b text); INSERT INTO t (b) SELECT md5(i::text) FROM generate_series(1, 40000) i; \
                        ALTER TABLE t OWNER TO alice; GRANT SELECT ON t TO staff; SELECT lo_from_bytea(0, 'x')");
    server.sql("b \u{1f418}; \"x\"", "CREATE TABLE t (a text); INSERT INTO t VALUES ('\u{e4}\u{f6}')");
    server.sql("template1", "CREATE TABLE in_every_new_database (a int); INSERT INTO in_every_new_database VALUES (1)");
}

/// The roles with their properties, and the databases of a server.
pub(crate) fn globals(server: &Server) -> Vec<String> {
    let version = server.sql("postgres", "SHOW server_version_num").parse::<u32>().expect("a number");
    let how = if version >= 160_000 { ", inherit_option, set_option, grantor::regrole" } else { "" };
    let members = format!(
        "SELECT roleid::regrole, member::regrole, admin_option{how} FROM pg_auth_members \
         WHERE member::regrole::text !~ '^pg_' ORDER BY 1, 2"
    );
    [
        "SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, \
         rolconnlimit, rolvaliduntil, rolconfig, shobj_description(oid, 'pg_authid') FROM pg_roles \
         WHERE rolname !~ '^pg_' ORDER BY 1",
        &members,
        "SELECT parname, paracl FROM pg_parameter_acl ORDER BY 1",
        "SELECT setconfig FROM pg_db_role_setting WHERE setrole = 0 AND setdatabase = 0",
        "SELECT datname, datistemplate, datallowconn, datconnlimit, pg_encoding_to_char(encoding), datcollate FROM pg_database ORDER BY 1",
    ]
    .map(|sql| server.sql("postgres", sql))
    .to_vec()
}

pub(crate) const DATABASES: [&str; 5] = ["b \u{1f418}; \"x\"", "empty", "postgres", "shop", "template1"];

async fn there_and_back(major: u32) {
    let (from, to) = (Server::start(major), Server::start(major));
    fill(&from);
    let vault = vault(&MemoryStore::new());
    let dumped = backup(&from, &from.url(""), &vault).await.expect("backed up");
    assert_eq!(dumped.databases, DATABASES);
    let verified = seawall_archive::verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    assert_eq!(verified.findings, Vec::new());

    let mut dry = options(&from);
    dry.dry_run = true;
    let planned = recover(&vault, &to.url(""), &dry).await.expect("planned");
    assert_eq!((planned.lacks, planned.databases.len()), (Vec::new(), 5));
    assert_eq!(to.sql("postgres", "SELECT count(*) FROM pg_database"), "3", "nothing was made");
    let restored = recover(&vault, &to.url(""), &options(&from)).await.expect("restored");
    assert_eq!(restored.roles, ["admin", "Bob's \"role\"", "alice", "staff", "reader"]);
    assert_eq!(restored.kept, Vec::new());
    assert_eq!(globals(&to), globals(&from));
    for database in DATABASES {
        assert_eq!(content(&to, database), content(&from, database), "{database}");
    }
    to.sql("postgres", "CREATE DATABASE another");
    assert_eq!(to.sql("another", "SELECT a FROM in_every_new_database"), "1", "template1 is what it was");
    let left = "SELECT count(*) FROM pg_database WHERE datname ~ 'seawall|replaced'";
    assert_eq!(to.sql("postgres", left), "0");
}

#[tokio::test]
async fn a_whole_server_comes_back_in_version_15() {
    there_and_back(15).await;
}

#[tokio::test]
async fn a_whole_server_comes_back_in_version_18() {
    there_and_back(18).await;
}

#[tokio::test]
async fn one_database_of_a_whole_server_comes_back_under_any_name() {
    let (from, to) = (Server::start(15), Server::start(18));
    fill(&from);
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url(""), &vault).await.expect("backed up");
    // What is missing is named as the server had it.
    let failure = recover(&vault, &to.url("shop"), &options(&from)).await.expect_err("roles are missing");
    assert_eq!(failure.code, "postgres.not-ready");
    assert!(failure.next.contains("CREATE ROLE \"alice\" LOGIN;"), "{}", failure.next);
    to.sql("postgres", "CREATE ROLE alice LOGIN; CREATE ROLE staff");
    let restored = recover(&vault, &to.url("shop"), &options(&from)).await.expect("restored");
    assert_eq!((restored.manifest.totals.rows, restored.databases), (40_001, vec!["shop".to_owned()]));
    assert_eq!(content(&to, "shop"), content(&from, "shop"));
    let named = |name: &str| {
        let mut options = options(&from);
        options.database = Some(name.to_owned());
        options
    };
    recover(&vault, &to.url("elsewhere"), &named("b \u{1f418}; \"x\"")).await.expect("restored");
    assert_eq!(to.sql("elsewhere", "SELECT a FROM t"), "\u{e4}\u{f6}");
    for (url, options) in [(to.url("copy"), options(&from)), (to.url("copy"), named("nothing"))] {
        let failure = recover(&vault, &url, &options).await.expect_err("there is no such database");
        assert_eq!(failure.code, "postgres.which-database");
        assert!(failure.next.contains("shop"), "{}", failure.next);
    }
}

#[tokio::test]
async fn a_whole_server_is_restored_beside_nothing_or_with_clean_in_one_moment() {
    let server = Server::start(15);
    fill(&server);
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url(""), &vault).await.expect("backed up");
    let before = (globals(&server), content(&server, "shop"));
    server.sql("shop", "DELETE FROM t WHERE a > 5");
    server.sql("postgres", "ALTER ROLE reader NOBYPASSRLS");
    let failure = recover(&vault, &server.url(""), &options(&server)).await.expect_err("not empty");
    assert_eq!(failure.code, "postgres.not-ready");
    assert!(failure.cause.contains("in database shop, public.t"), "{}", failure.cause);
    assert_eq!(server.sql("shop", "SELECT count(*) FROM t"), "5", "nothing was touched");
    let mut clean = options(&server);
    clean.clean = true;
    let restored = recover(&vault, &server.url(""), &clean).await.expect("replaced");
    assert_eq!(restored.kept, [("role reader".to_owned(), "the set has BYPASSRLS".to_owned())]);
    server.sql("postgres", "ALTER ROLE reader BYPASSRLS");
    assert_eq!((globals(&server), content(&server, "shop")), before);
}

#[tokio::test]
async fn a_restore_of_a_server_that_was_interrupted_goes_on() {
    let (from, to) = (Server::start(15), Server::start(15));
    fill(&from);
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url(""), &vault).await.expect("backed up");
    // Somebody is in the database that is to be replaced: everything is made, and has no name yet.
    let mut psql = to.tool("psql");
    psql.args(["-d", "template1", "-c", "SELECT pg_sleep(600)"]).stdout(std::process::Stdio::null());
    let mut session = psql.spawn().expect("psql runs");
    let there = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'template1' AND query LIKE '%pg_sleep%' AND state = 'active'";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while to.sql("postgres", there) != "1" {
        assert!(std::time::Instant::now() < deadline, "the session doesn't come");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut without = options(&from);
    without.clean = true;
    let failure = recover(&vault, &to.url(""), &without).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use");
    to.sql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'template1' AND pid <> pg_backend_pid()");
    session.wait().expect("ended");
    recover(&vault, &to.url(""), &without).await.expect("restored");
    assert_eq!(globals(&to), globals(&from));
    for database in DATABASES {
        assert_eq!(content(&to, database), content(&from, database), "{database}");
    }
}

async fn backup_with(server: &Server, vault: &Vault, passwords: bool, excluded: &[&str]) -> Result<Dumped, Failure> {
    let options = DumpOptions {
        limits: limits(server),
        role_passwords: passwords,
        excluded: excluded.iter().map(|name| (*name).to_owned()).collect(),
        ..DumpOptions::default()
    };
    Ok(dump(&target(&server.url("")), vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

#[tokio::test]
async fn passwords_come_along_only_if_they_are_asked_for() {
    let password = "SELECT rolname, rolpassword FROM pg_authid WHERE rolname !~ '^pg_' ORDER BY 1";
    for passwords in [false, true] {
        let (from, to) = (Server::start(15), Server::start(15));
        from.sql("postgres", "CREATE ROLE app LOGIN PASSWORD 'secret'; CREATE ROLE old LOGIN PASSWORD 'md50123456789abcdef0123456789abcdef'");
        let store = MemoryStore::new();
        let vault = vault(&store);
        backup_with(&from, &vault, passwords, &[]).await.expect("backed up");
        recover(&vault, &to.url(""), &options(&from)).await.expect("restored");
        let has = if passwords { from.sql("postgres", password) } else { "app|\nold|\npostgres|".to_owned() };
        assert_eq!(to.sql("postgres", password), has);
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_read_is_named_and_may_be_left_out() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE closed ALLOW_CONNECTIONS false");
    let vault = vault(&MemoryStore::new());
    let failure = backup_with(&server, &vault, false, &[]).await.expect_err("it can't be read");
    assert_eq!((failure.code, &*failure.object), ("postgres.unreadable-database", "database closed"));
    let failure = backup_with(&server, &vault, false, &["clsed"]).await.expect_err("there is none");
    assert_eq!((failure.code, &*failure.object), ("postgres.url", "clsed"));
    let dumped = backup_with(&server, &vault, false, &["closed", "template1"]).await.expect("left out");
    assert_eq!(dumped.databases, ["postgres"]);
}

#[tokio::test]
async fn tablespaces_that_are_missing_are_named_with_their_folder() {
    let (from, to) = (Server::start(15), Server::start(15));
    let folder = from.folder_of_its_own("fast");
    from.sql("postgres", &format!("CREATE TABLESPACE fast LOCATION '{folder}' WITH (random_page_cost = 1.1)"));
    from.sql("postgres", "CREATE DATABASE shop TABLESPACE fast");
    from.sql("shop", "CREATE TABLE t AS SELECT 1 AS a");
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url(""), &vault).await.expect("backed up");
    let failure = recover(&vault, &to.url(""), &options(&from)).await.expect_err("there is none");
    assert_eq!(failure.code, "postgres.not-ready");
    let mend = format!("CREATE TABLESPACE \"fast\" LOCATION '{folder}' WITH (\"random_page_cost\" = '1.1');");
    assert!(failure.next.contains(&mend), "{}", failure.next);
    let other = to.folder_of_its_own("fast");
    to.sql("postgres", &mend.replace(&folder, &other));
    recover(&vault, &to.url(""), &options(&from)).await.expect("restored");
    let space =
        "SELECT spcname FROM pg_tablespace s JOIN pg_database d ON d.dattablespace = s.oid WHERE datname = 'shop'";
    assert_eq!(to.sql("postgres", space), "fast");
    assert_eq!(to.sql("shop", "SELECT a FROM t"), "1");
}
