//! Properties beside rows and objects: dropped objects of a new database, grants by their grantors, settings, security
//! labels, tablespaces. Every test compares the restored properties with the original ones.

use seawall_core::NoProgress;
use seawall_postgres::{DumpOptions, Format, RestoreOptions, World, dump, prove};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;
use std::sync::Arc;

use crate::server::Server;
use crate::support::{backup, content, environment, limits, options, recover, roles, schema, target, vault};

async fn backup_in(format: Format, server: &Server, database: &str, vault: &Vault) {
    let options = DumpOptions { limits: limits(server), format, ..DumpOptions::default() };
    let url = target(&server.url(database));
    dump(&url, vault, &options, &World::real(environment()), Arc::new(NoProgress)).await.expect("backed up");
}

const USUAL: &str = "SELECT (SELECT string_agg(nspname, ' ' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_'), \
                     (SELECT string_agg(extname, ' ') FROM pg_extension)";

async fn what_was_dropped_stays_dropped(major: u32) {
    let (server, other) = (Server::start(major), Server::start(major));
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE SCHEMA app; CREATE TABLE app.t AS SELECT 1 AS a; DROP SCHEMA public; DROP EXTENSION plpgsql",
    );
    assert_eq!(server.sql("shop", USUAL), "app information_schema|");
    for format in [Format::Native, Format::Custom, Format::Plain] {
        let vault = vault(&MemoryStore::new());
        backup_in(format, &server, "shop", &vault).await;
        let name = format!("{format:?}");
        let restored = recover(&vault, &server.url(&name), &options(&server)).await.expect("restored");
        assert_eq!(restored.refused, []);
        assert_eq!(server.sql(&name, USUAL), "app information_schema|", "{format:?}");
        let how = seawall_postgres::ProveOptions {
            when: seawall_core::When::Latest,
            to: Some(target(&server.url(""))),
            limits: limits(&server),
        };
        let proved = prove(&vault, &how, &World::real(environment()), Arc::new(NoProgress)).await.expect("proved");
        assert_eq!(proved.findings, [], "{format:?}");
    }
    // A whole server: also of a database that is there already and in which there is nothing else.
    server.sql("template1", "DROP EXTENSION plpgsql");
    server.sql("postgres", "DROP SCHEMA public");
    for database in ["Native", "Custom", "Plain"] {
        server.sql("postgres", &format!("DROP DATABASE \"{database}\""));
    }
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url(""), &vault).await.expect("backed up");
    recover(&vault, &other.url(""), &options(&other)).await.expect("restored");
    for database in ["shop", "postgres", "template1"] {
        assert_eq!(other.sql(database, USUAL), server.sql(database, USUAL), "{database}");
    }
}

#[tokio::test]
async fn what_was_dropped_of_a_new_database_stays_dropped_in_version_15() {
    what_was_dropped_stays_dropped(15).await;
}

#[tokio::test]
async fn what_was_dropped_of_a_new_database_stays_dropped_in_version_18() {
    what_was_dropped_stays_dropped(18).await;
}

#[tokio::test]
async fn the_schema_public_comes_back_with_its_owner_grants_and_comment() {
    for major in [15, 18] {
        let server = Server::start(major);
        roles(&server);
        for (name, change) in [
            ("owner", "ALTER SCHEMA public OWNER TO alice"),
            ("grants", "REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT CREATE ON SCHEMA public TO reader"),
            ("comment", "COMMENT ON SCHEMA public IS 'ours'"),
            ("silent", "COMMENT ON SCHEMA public IS NULL"),
            ("anew", "DROP SCHEMA public; CREATE SCHEMA public"),
        ] {
            server.sql("postgres", &format!("CREATE DATABASE {name}"));
            server.sql(
                name,
                &format!(
                    "CREATE TABLE t AS SELECT 1 AS a; {}",
                    change.replace("public; CREATE", "public CASCADE; CREATE")
                ),
            );
            let vault = vault(&MemoryStore::new());
            backup(&server, &server.url(name), &vault).await.expect("backed up");
            recover(&vault, &server.url("copy"), &RestoreOptions { clean: true, ..options(&server) })
                .await
                .expect("restored");
            let is = "SELECT nspname, nspowner::regrole, \
                      (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(coalesce(nspacl, acldefault('n', nspowner))) a), \
                      coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = 'public'";
            assert_eq!(server.sql("copy", is), server.sql(name, is), "{name} in {major}");
            assert_eq!(content(&server, "copy"), content(&server, name), "{name}");
        }
    }
}

#[tokio::test]
async fn grants_to_who_restores_and_by_others_than_the_owner_come_back() {
    for major in [15, 18] {
        let server = Server::start(major);
        roles(&server);
        server.sql("postgres", "CREATE DATABASE shop OWNER alice");
        server.sql(
            "shop",
            "GRANT CONNECT ON DATABASE shop TO postgres; GRANT CREATE ON DATABASE shop TO reader WITH GRANT OPTION; \
             SET ROLE reader; GRANT CREATE ON DATABASE shop TO \"Bob's \"\"role\"\"\"; RESET ROLE; \
             SELECT lo_from_bytea(7, 'x'); ALTER LARGE OBJECT 7 OWNER TO alice; \
             GRANT SELECT ON LARGE OBJECT 7 TO postgres; GRANT UPDATE ON LARGE OBJECT 7 TO reader WITH GRANT OPTION; \
             SET ROLE reader; GRANT UPDATE ON LARGE OBJECT 7 TO PUBLIC; RESET ROLE; \
             CREATE TABLE t AS SELECT 1 AS a",
        );
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        assert!(content(&server, "copy").concat().contains("postgres=c/alice"), "{:?}", content(&server, "copy"));
        assert!(content(&server, "copy").concat().contains("=w/reader"), "{:?}", content(&server, "copy"));
    }
}

#[tokio::test]
async fn quotes_in_a_list_of_names_come_back() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE al");
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE SCHEMA \"a\"\"b\"; CREATE TABLE \"a\"\"b\".t AS SELECT 1 AS x; \
         ALTER DATABASE shop SET search_path = 'a\"b', '$user', 'c, d', ''; \
         ALTER ROLE al IN DATABASE shop SET search_path = '\"'",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
    assert_eq!(server.sql("copy", "SELECT x FROM t"), "1");
}

/// Only a superuser may set this setting, and another role restores it.
#[tokio::test]
async fn a_setting_that_the_server_refuses_is_named_and_everything_else_comes_back() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE restorer LOGIN CREATEDB");
    server.sql("postgres", "CREATE DATABASE shop OWNER restorer");
    server.sql(
        "shop",
        "CREATE TABLE t AS SELECT 1 AS a; ALTER TABLE t OWNER TO restorer; \
         ALTER DATABASE shop SET log_min_duration_statement = 7; ALTER DATABASE shop SET work_mem = '5MB'",
    );
    for format in [Format::Native, Format::Custom] {
        let vault = vault(&MemoryStore::new());
        backup_in(format, &server, "shop", &vault).await;
        let clean = RestoreOptions { clean: true, ..options(&server) };
        let restored = recover(&vault, &server.url_as("restorer", "copy"), &clean).await.expect("restored");
        let names: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
        assert_eq!(names, ["setting log_min_duration_statement of database copy"]);
        assert!(restored.refused[0].1.contains("42501"), "{restored:?}");
        let settings = "SELECT s.setconfig FROM pg_db_role_setting s JOIN pg_database d ON d.oid = setdatabase WHERE datname = 'copy'";
        assert_eq!(server.sql("copy", settings), "{work_mem=5MB}");
        assert_eq!(server.sql("copy", "SELECT a FROM t"), "1");
    }
}

/// The tests have no provider of labels, so the test writes the labels into the catalogs where a provider would.
#[tokio::test]
async fn security_labels_without_their_provider_are_named() {
    let (from, to) = (Server::start_with(15, "allow_system_table_mods = on"), Server::start(15));
    from.sql("postgres", "CREATE ROLE al");
    from.sql("postgres", "CREATE DATABASE shop");
    from.sql("shop", "CREATE TABLE t AS SELECT 1 AS a; SELECT lo_from_bytea(7, 'x')");
    let folder = from.folder_of_its_own("fast");
    from.sql("postgres", &format!("CREATE TABLESPACE fast LOCATION '{folder}'"));
    from.sql(
        "shop",
        "INSERT INTO pg_shseclabel SELECT oid, 'pg_authid'::regclass, 'dummy', 'secret' FROM pg_roles WHERE rolname = 'al'; \
         INSERT INTO pg_shseclabel SELECT oid, 'pg_database'::regclass, 'dummy', 'it''s' FROM pg_database WHERE datname = 'shop'; \
         INSERT INTO pg_shseclabel SELECT oid, 'pg_tablespace'::regclass, 'dummy', 'f' FROM pg_tablespace WHERE spcname = 'fast'; \
         INSERT INTO pg_seclabel VALUES (7, 'pg_largeobject'::regclass, 0, 'dummy', 'lo')",
    );
    let folder = to.folder_of_its_own("fast");
    to.sql("postgres", &format!("CREATE TABLESPACE fast LOCATION '{folder}'"));
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url(""), &vault).await.expect("backed up");
    let restored = recover(&vault, &to.url(""), &options(&to)).await.expect("restored");
    let names: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
    let on = |what: &str| format!("security label of dummy on {what}");
    assert_eq!(names, ["role al", "tablespace fast", "large object 7 in database shop", "database shop"].map(on));
    assert!(restored.refused.iter().all(|(_, cause)| cause.contains("\"dummy\" is not loaded")), "{restored:?}");
    assert_eq!(content(&to, "shop"), content(&from, "shop"));
    assert_eq!(schema(&to, &to, "shop"), schema(&from, &from, "shop"));
}

#[tokio::test]
async fn tablespaces_that_were_made_as_advised_get_everything_back() {
    for major in [15, 18] {
        let (from, to) = (Server::start(major), Server::start(major));
        roles(&from);
        let folder = from.folder_of_its_own("ts1");
        from.sql(
            "postgres",
            &format!("CREATE TABLESPACE ts1 OWNER alice LOCATION '{folder}' WITH (random_page_cost = 1.5)"),
        );
        from.sql(
            "postgres",
            "GRANT CREATE ON TABLESPACE ts1 TO reader WITH GRANT OPTION; COMMENT ON TABLESPACE ts1 IS 'it''s fast'; \
             SET ROLE reader; GRANT CREATE ON TABLESPACE ts1 TO \"Bob's \"\"role\"\"\"",
        );
        from.sql("postgres", "CREATE DATABASE shop TABLESPACE ts1");
        let vault = vault(&MemoryStore::new());
        backup(&from, &from.url(""), &vault).await.expect("backed up");
        let failure = recover(&vault, &to.url(""), &options(&to)).await.expect_err("it is missing");
        let mend = failure.next.split_once(" (its").expect("a command").0;
        to.sql("postgres", &mend.replace(&folder, &to.folder_of_its_own("ts1")));
        let restored = recover(&vault, &to.url(""), &options(&to)).await.expect("restored");
        assert_eq!((restored.kept, restored.refused), (vec![], vec![]));
        let is = "SELECT spcname, spcowner::regrole, spcoptions, spcacl, shobj_description(oid, 'pg_tablespace') \
                  FROM pg_tablespace WHERE spcname = 'ts1'";
        assert_eq!(to.sql("postgres", is), from.sql("postgres", is));
        // One that is somebody's already stays, and is named.
        to.sql("postgres", "COMMENT ON TABLESPACE ts1 IS 'mine'");
        let clean = RestoreOptions { clean: true, ..options(&to) };
        let restored = recover(&vault, &to.url(""), &clean).await.expect("restored");
        assert_eq!(restored.kept, [("tablespace ts1".to_owned(), "the set has another comment".to_owned())]);
    }
}
