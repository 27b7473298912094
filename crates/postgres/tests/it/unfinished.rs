//! The database that a restore makes under another name first: no other role writes to it, and a restore refuses one
//! that isn't its own.

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

/// A restore that made everything but couldn't give the name, because a session is in the database to be replaced.
async fn all_but_the_name(vault: &Vault, server: &Server) -> String {
    server.sql("postgres", "CREATE DATABASE copy");
    let session = occupy(server, "copy");
    let failure = clean(vault, server).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use", "{failure:?}");
    leave(server, "copy", session);
    server.sql("postgres", "SELECT datname FROM pg_database WHERE datname ~ '^seawall-'")
}

/// The output of SQL in a session of the role `eve`; `None` if the role can't connect or the SQL fails.
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

/// The restoring role writes to the journal. Triggers on a journal of another role would run with the restoring role's
/// rights.
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

/// A database without its journal counts as whole only if its comment says so.
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

/// During the restore no other role may connect. Afterwards the database is as open as its source.
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

/// The state after a kill between the name and the owner: the notes and the databases belong to the restore.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_restore_notes_on_its_databases_gets_into_no_set() {
    let server = shop();
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let unfinished = all_but_the_name(&vault, &server).await;
    let aside = format!("replaced-by-{unfinished}");
    for sql in [
        format!("ALTER DATABASE copy RENAME TO \"{aside}\""),
        format!("ALTER DATABASE \"{unfinished}\" RENAME TO copy"),
        format!(
            "COMMENT ON DATABASE \"{aside}\" IS 'Seawall: another database has replaced it, and it may be dropped: {unfinished}'"
        ),
    ] {
        server.sql("postgres", &sql);
    }
    let whole = crate::support::vault(&MemoryStore::new());
    let dumped = backup(&server, &server.url(""), &whole).await.expect("backed up");
    assert_eq!(dumped.left_out, ["copy".to_owned(), aside]);
    assert_eq!(dumped.databases, ["postgres", "shop", "template1"]);
    let facts = "SELECT shobj_description(oid, 'pg_database'), datconnlimit FROM pg_database WHERE datname = ";
    assert!(server.sql("postgres", &format!("{facts} 'copy'")).ends_with("|0"));
    for format in [seawall_postgres::Format::Native, seawall_postgres::Format::Custom] {
        let alone = crate::support::vault(&MemoryStore::new());
        backup_in(format, &server, &server.url("copy"), &alone).await.expect("backed up");
        recover(&alone, &server.url("third"), &options(&server)).await.expect("restored");
        assert_eq!(server.sql("postgres", &format!("{facts} 'third'")), "|-1", "{format:?}");
        server.sql("postgres", "DROP DATABASE third");
    }
}

/// The state after an interrupted `DROP DATABASE` (since 15.4): the database can't be read, and can only be dropped.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_database_stops_no_backup_of_the_server_and_no_restore() {
    let server = shop();
    let invalid = |name: &str| {
        server.sql("postgres", &format!("UPDATE pg_database SET datconnlimit = -2 WHERE datname = '{name}'"))
    };
    for format in [seawall_postgres::Format::Native, seawall_postgres::Format::Custom] {
        let vault = vault(&MemoryStore::new());
        backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
        let unfinished = all_but_the_name(&vault, &server).await;
        // The restore's own one.
        invalid(&unfinished);
        clean(&vault, &server).await.expect("restored");
        assert_eq!(content(&server, "copy")[0], content(&server, "shop")[0], "{format:?}");
        // The one that it replaces.
        invalid("copy");
        let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("it is there");
        assert_eq!(failure.code, "postgres.not-ready", "{failure:?}");
        assert!(failure.next.contains("DROP DATABASE \"copy\";"), "{failure:?}");
        clean(&vault, &server).await.expect("restored");
        assert_eq!(content(&server, "copy")[0], content(&server, "shop")[0], "{format:?}");
        nothing_stays(&server, "copy");
        server.sql("postgres", "DROP DATABASE copy");
    }
    server.sql("postgres", "CREATE DATABASE gone");
    invalid("gone");
    let whole = vault(&MemoryStore::new());
    let dumped = backup(&server, &server.url(""), &whole).await.expect("backed up");
    assert_eq!((dumped.left_out, dumped.databases.contains(&"gone".to_owned())), (vec!["gone".to_owned()], false));
    // Those of a whole server.
    invalid("shop");
    let all = options(&server);
    let failure = recover(&whole, &server.url(""), &all).await.expect_err("it is there");
    assert!(failure.next.contains("DROP DATABASE \"shop\";"), "{failure:?}");
    recover(&whole, &server.url(""), &RestoreOptions { clean: true, ..all }).await.expect("restored");
    assert_eq!(server.sql("shop", "SELECT count(*) FROM t"), "1000");
}

/// A superuser's restore admits no plain role until it is done. A plain role that repeats the restore is told who began
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_role_that_repeats_the_restore_of_a_superuser_is_told_whose_it_is() {
    let server = shop();
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    server.sql("postgres", "CREATE DATABASE copy OWNER eve");
    let plain = RestoreOptions { owners: false, clean: true, ..options(&server) };
    let session = occupy(&server, "copy");
    let failure = recover(&vault, &server.url("copy"), &plain).await.expect_err("in use");
    assert_eq!(failure.code, "postgres.in-use", "{failure:?}");
    leave(&server, "copy", session);
    let unfinished = server.sql("postgres", "SELECT datname FROM pg_database WHERE datname ~ '^seawall-'");
    let told = |failure: &Failure, name: &str| {
        assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.other-role"), "{failure:?}");
        assert!(failure.object.contains(name) && failure.cause.contains("\"postgres\""), "{failure:?}");
        assert!(failure.next.contains(&format!("DROP DATABASE \"{name}\"")), "{failure:?}");
    };
    let url = server.url_as("eve", "copy");
    told(&recover(&vault, &url, &plain).await.expect_err("it is the superuser's"), &unfinished);
    // Also behind a kill between the name and the owner.
    server.sql("postgres", "ALTER DATABASE copy RENAME TO other");
    server.sql("postgres", &format!("ALTER DATABASE \"{unfinished}\" RENAME TO copy"));
    told(&recover(&vault, &url, &plain).await.expect_err("it is the superuser's"), "copy");
    server.sql("postgres", "DROP DATABASE copy");
    recover(&vault, &url, &plain).await.expect("restored");
    assert_eq!(content(&server, "copy")[0], content(&server, "shop")[0]);
}

/// A killed restore of a native set may have put the original database aside. The restore of an artefact replaces that
/// original, and not the database that the killed restore made.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_of_an_artefact_takes_back_the_names_that_a_killed_restore_gave() {
    let server = shop();
    let native = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &native).await.expect("backed up");
    let custom = vault(&MemoryStore::new());
    backup_in(seawall_postgres::Format::Custom, &server, &server.url("shop"), &custom).await.expect("backed up");
    let unfinished = all_but_the_name(&native, &server).await;
    server.sql("copy", "CREATE TABLE mine AS SELECT 1 AS a");
    for rename in [format!("copy RENAME TO \"replaced-by-{unfinished}\""), format!("\"{unfinished}\" RENAME TO copy")] {
        server.sql("postgres", &format!("ALTER DATABASE {rename}"));
    }
    let failure = recover(&custom, &server.url("copy"), &options(&server)).await.expect_err("something is there");
    assert_eq!(failure.code, "postgres.not-empty", "{failure:?}");
    assert_eq!(server.sql("copy", "SELECT a FROM mine"), "1", "what was there has its name");
    clean(&custom, &server).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    let left = "SELECT string_agg(datname, ' ') FROM pg_database WHERE datname ~ 'seawall'";
    assert_eq!(server.sql("postgres", left), unfinished, "the native restore can go on with its own");
}
