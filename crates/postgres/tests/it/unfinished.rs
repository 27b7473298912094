//! The database that a restore makes under another name first: nobody else writes into it, and what isn't the restore's own is
//! refused.

use seawall_core::{Failure, Kind};
use seawall_postgres::{RestoreOptions, Restored};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{
    backup, backup_in, chunks_loaded, content, leave, nothing_stays, occupy, options, recover, schema, vault,
};

/// A server with a database, and a role that may make databases.
fn shop() -> Server {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE eve LOGIN CREATEDB; CREATE ROLE app");
    server.sql("postgres", "CREATE DATABASE shop OWNER app");
    server.sql(
        "shop",
        "CREATE TABLE t AS SELECT i AS a FROM generate_series(1, 1000) i; CREATE INDEX ON t (a); COMMENT ON DATABASE shop IS 'the shop'",
    );
    server
}

async fn clean(vault: &Vault, server: &Server) -> Result<Restored, Failure> {
    recover(vault, &server.url("copy"), &RestoreOptions { clean: true, ..options(server) }).await
}

/// A restore that has made all but the name, because somebody is in the database that it replaces.
async fn all_but_the_name(vault: &Vault, server: &Server) -> String {
    server.sql("postgres", "CREATE DATABASE copy");
    let session = occupy(server, "copy");
    let failure = clean(vault, server).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use", "{failure:?}");
    leave(server, "copy", session);
    server.sql("postgres", "SELECT datname FROM pg_database WHERE datname ~ '^seawall-'")
}

/// What a role's session of its own prints; nothing if it can't be had.
fn as_eve(server: &Server, database: &str, sql: &str) -> Option<String> {
    let mut psql = server.tool("psql");
    psql.env("PGUSER", "eve").args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]);
    let output = psql.output().expect("psql runs");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn refused(failure: &Failure, unfinished: &str) {
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-ours"), "{failure:?}");
    assert!(failure.object.contains(unfinished), "{failure:?}");
    assert!(failure.next.contains(&format!("DROP DATABASE \"{unfinished}\"")), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_another_role_has_made_under_the_name_of_an_unfinished_one_is_refused() {
    let server = shop();
    for format in [seawall_postgres::Format::Native, seawall_postgres::Format::Custom] {
        let vault = vault(&MemoryStore::new());
        backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
        let unfinished = all_but_the_name(&vault, &server).await;
        let journal = "CREATE SCHEMA seawall_restore_01234567; CREATE TABLE seawall_restore_01234567.journal (step text PRIMARY KEY)";
        for content in ["CREATE TABLE hers AS SELECT 1 AS a", "SELECT 1", journal] {
            server.sql("postgres", &format!("DROP DATABASE \"{unfinished}\""));
            as_eve(&server, "postgres", &format!("CREATE DATABASE \"{unfinished}\"")).expect("she may");
            as_eve(&server, &unfinished, content).expect("it is hers");
            // Her word that it is whole is hers as well.
            as_eve(&server, "postgres", &crate::support::says_whole(&unfinished)).expect("it is hers");
            let failure = clean(&vault, &server).await.expect_err("it is another role's");
            refused(&failure, &unfinished);
        }
        server.sql("postgres", &format!("DROP DATABASE \"{unfinished}\""));
        clean(&vault, &server).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
        nothing_stays(&server, "copy");
        server.sql("postgres", "DROP DATABASE copy");
    }
}

/// The journal is written to by the role that restores: what hangs on it would run with that role's rights.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_of_another_role_is_neither_read_nor_written() {
    let server = shop();
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let title = format!("set {}", only_set(&vault).await);
    let name = format!("seawall_restore_{}", &seawall_archive::Digest::of(title.as_bytes()).to_string()[..8]);
    server.sql("postgres", "CREATE DATABASE hers OWNER eve");
    let forged = format!(
        "CREATE SCHEMA {name}; CREATE TABLE {name}.journal (step text PRIMARY KEY); \
         CREATE TABLE {name}.loaded (chunk int8, item int8, rows int8, PRIMARY KEY (chunk, item)); \
         CREATE UNLOGGED TABLE {name}.uncrashed (since text); INSERT INTO {name}.uncrashed VALUES ('x'); \
         INSERT INTO {name}.journal VALUES ('{title}'); \
         CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN ALTER ROLE eve SUPERUSER; RETURN NEW; END$$; \
         CREATE TRIGGER t AFTER INSERT ON {name}.journal EXECUTE FUNCTION public.f(); ALTER TABLE {name}.journal ENABLE ALWAYS TRIGGER t"
    );
    as_eve(&server, "hers", &format!("CREATE SCHEMA IF NOT EXISTS public; {forged}")).expect("it is hers");
    let failure = recover(&vault, &server.url("hers"), &options(&server)).await.expect_err("it is another role's");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-ours"), "{failure:?}");
    assert!(failure.object.contains(&name), "{failure:?}");
    assert_eq!(server.sql("postgres", "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'"), "f");
}

async fn only_set(vault: &Vault) -> String {
    let catalog = seawall_archive::Catalog::read(vault).await.expect("read");
    catalog.sets().first().expect("a set").1.id.to_string()
}

/// A database without its journal is whole only if that is noted of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_made_database_whose_journal_is_gone_does_not_count_as_whole() {
    let server = shop();
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let unfinished = all_but_the_name(&vault, &server).await;
    server.sql(&unfinished, "DROP INDEX t_a_idx");
    for comment in ["NULL", "'the shop'"] {
        server.sql("postgres", &format!("COMMENT ON DATABASE \"{unfinished}\" IS {comment}"));
        let failure = clean(&vault, &server).await.expect_err("nothing says that it is whole");
        refused(&failure, &unfinished);
    }
    server.sql("postgres", &format!("DROP DATABASE \"{unfinished}\""));
    clean(&vault, &server).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    nothing_stays(&server, "copy");
}

/// While it is loaded nobody else gets in; afterwards it is as open as its source.
#[tokio::test(flavor = "multi_thread")]
async fn no_other_plain_role_connects_to_a_database_that_has_not_got_its_name() {
    let server = shop();
    server.sql("postgres", "CREATE ROLE restorer LOGIN CREATEDB");
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let unfinished = all_but_the_name(&vault, &server).await;
    assert_eq!(as_eve(&server, &unfinished, "SELECT 1"), None);
    assert!(clean(&vault, &server).await.expect("restored").resumed);
    assert_eq!(as_eve(&server, "copy", "SELECT 1").as_deref(), Some("1"));
    let columns = "SELECT datacl, datconnlimit, datistemplate, pg_get_userbyid(datdba), shobj_description(oid, 'pg_database') \
                   FROM pg_database WHERE datname IN ('shop', 'copy')";
    assert_eq!(server.sql("postgres", columns), ["|-1|f|app|the shop"; 2].join("\n"));
    // A plain role does it by its grants, with several sessions.
    server.sql("postgres", "DROP DATABASE copy");
    server.sql("postgres", "CREATE DATABASE copy OWNER restorer");
    let mut plain = RestoreOptions { owners: false, clean: true, ..options(&server) };
    plain.limits.jobs = 4;
    let session = occupy(&server, "copy");
    let url = server.url_as("restorer", "copy");
    let failure = recover(&vault, &url, &plain).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use", "{failure:?}");
    leave(&server, "copy", session);
    let unfinished = server.sql("postgres", "SELECT datname FROM pg_database WHERE datname ~ '^seawall-'");
    assert_eq!(chunks_loaded(&server, &unfinished), 0, "its journal is gone");
    assert_eq!(as_eve(&server, &unfinished, "SELECT 1"), None);
    assert!(recover(&vault, &url, &plain).await.expect("restored").resumed);
    assert_eq!(as_eve(&server, "copy", "SELECT 1").as_deref(), Some("1"));
    assert_eq!(content(&server, "copy")[0], content(&server, "shop")[0]);
    nothing_stays(&server, "copy");
}
