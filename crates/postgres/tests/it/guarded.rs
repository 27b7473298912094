//! Code of a set that the server of a proof runs: checks, generated columns, indexes, views, functions with their
//! owner's rights. All of it tries to get out, and the server refuses it. The proof of an otherwise sound set passes.

use std::path::Path;
use std::sync::Arc;

use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{Format, ProveOptions, Proved, World, prove};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::artefacts::{self, programs};
use crate::server::Server;
use crate::support::{backup_in, environment, limits, vault};

/// Attempts that need the rights of a superuser, or access to the server's files.
const ATTEMPTS: [&str; 17] = [
    "COPY (SELECT 1) TO PROGRAM ''touch {loot}''",
    "COPY (SELECT 1) TO ''{loot}''",
    "COPY taken FROM PROGRAM ''env; cat /proc/*/environ''",
    "SELECT pg_read_file(''/etc/passwd'')",
    "SELECT pg_read_binary_file(''/proc/self/environ'')",
    "SELECT pg_ls_dir(''/'')",
    "SELECT lo_export(7, ''{loot}'')",
    "SELECT lo_import(''/etc/passwd'')",
    "UPDATE pg_authid SET rolsuper = true",
    "ALTER ROLE app SUPERUSER",
    "ALTER ROLE postgres SUPERUSER",
    "CREATE ROLE mine SUPERUSER",
    "GRANT pg_execute_server_program TO app",
    "CREATE FUNCTION public.run(cstring) RETURNS int LANGUAGE c AS ''/lib/x86_64-linux-gnu/libc.so.6'', ''system''",
    "CREATE EXTENSION file_fdw SCHEMA public",
    "CREATE SUBSCRIPTION out CONNECTION ''host=127.0.0.1'' PUBLICATION p WITH (connect = false)",
    "SET session_authorization = postgres",
];

/// Fills a database of `app`. In a proof, all of its code that PostgreSQL evaluates makes every attempt; in the source
/// it does nothing.
fn fill(server: &Server, loot: &Path) {
    server.sql("postgres", "CREATE ROLE app LOGIN; CREATE ROLE mid");
    server.sql("postgres", "CREATE DATABASE shop OWNER app");
    let list = ATTEMPTS.map(|one| format!("'{one}'")).join(", ").replace("{loot}", &loot.display().to_string());
    let sql = format!(
        "GRANT CREATE ON SCHEMA public TO app; SET ROLE app; CREATE TABLE public.taken (a text); \
         CREATE FUNCTION public.attempt(source text) RETURNS boolean LANGUAGE plpgsql AS $$ DECLARE what text; BEGIN \
         IF current_database() NOT LIKE 'seawall%' THEN RETURN true; END IF; SET statement_timeout = 0; \
         FOREACH what IN ARRAY ARRAY[{list}] LOOP \
           DECLARE refused boolean := false; BEGIN \
             BEGIN EXECUTE what; EXCEPTION WHEN insufficient_privilege THEN refused := true; END; \
             IF NOT refused THEN RAISE EXCEPTION 'done by %: %', source, what; END IF; \
           END; \
         END LOOP; RETURN true; END $$; \
         CREATE FUNCTION public.quiet(source text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ \
         BEGIN PERFORM public.attempt(source); RETURN 1; END $$; \
         CREATE DOMAIN public.tried AS text CHECK (public.attempt('domain')); \
         CREATE TABLE public.t (a int CHECK (public.attempt('check')), b public.tried, \
           c int GENERATED ALWAYS AS (public.quiet('generated column') + a) STORED); \
         INSERT INTO public.t VALUES (1, 'x'); CREATE INDEX ON public.t ((public.quiet('index') + a)); \
         CREATE INDEX ON public.t (a) WHERE public.quiet('predicate') = 1; \
         CREATE MATERIALIZED VIEW public.v AS SELECT public.attempt('view'); \
         CREATE TABLE public.parts (a public.tried) PARTITION BY LIST (a); \
         CREATE TABLE public.part PARTITION OF public.parts FOR VALUES IN ('y'); INSERT INTO public.parts VALUES ('y'); \
         CREATE FUNCTION public.add(public.tried, text) RETURNS public.tried LANGUAGE sql AS 'SELECT $1'; \
         CREATE AGGREGATE public.sum_of(text) (SFUNC = public.add, STYPE = public.tried, INITCOND = 'z'); \
         RESET ROLE; \
         CREATE FUNCTION public.definer() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ \
         BEGIN RETURN public.attempt('definer'); END $$; \
         CREATE TABLE public.d (a int CHECK (public.definer())); ALTER TABLE public.d OWNER TO app; INSERT INTO public.d VALUES (1); \
         CREATE FUNCTION public.on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ \
         BEGIN PERFORM public.attempt('event trigger'); END $$; ALTER FUNCTION public.on_ddl() OWNER TO app; \
         CREATE FUNCTION public.validate(text[], oid) RETURNS void LANGUAGE plpgsql AS $$ \
         BEGIN PERFORM public.attempt('validator'); END $$; ALTER FUNCTION public.validate OWNER TO app; \
         CREATE FOREIGN DATA WRAPPER far VALIDATOR public.validate OPTIONS (a 'b'); CREATE SERVER away FOREIGN DATA WRAPPER far; \
         SELECT lo_from_bytea(7, 'large'); GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_file(text) TO app; CREATE EVENT TRIGGER ends ON ddl_command_end EXECUTE FUNCTION public.on_ddl(); \
         ALTER EVENT TRIGGER ends ENABLE ALWAYS; \
         GRANT EXECUTE ON FUNCTION pg_catalog.pg_ls_dir(text) TO mid WITH GRANT OPTION; SET ROLE mid; \
         GRANT EXECUTE ON FUNCTION pg_catalog.pg_ls_dir(text) TO app; RESET ROLE"
    );
    server.sql("shop", &sql);
    server.sql("shop", READ_WHILE_MADE);
}

/// Functions with constants of a type that has checks, in defaults and in bodies of statements: PostgreSQL evaluates
/// these while it makes the function. Each function also has a property for which a superuser is or may be needed.
const READ_WHILE_MADE: &str = "
SET ROLE app;
CREATE TABLE public.none (); INSERT INTO public.none DEFAULT VALUES; CREATE INDEX ON public.none ((public.quiet('no column')));
CREATE TYPE public.pair AS (a public.tried, b int);
CREATE FUNCTION public.with_setting(a public.tried[] DEFAULT '{x}') RETURNS int LANGUAGE plpgsql
  SET work_mem TO '1MB' SET search_path TO 'a', 'b c' AS $$ BEGIN RETURN 1; END $$;
CREATE FUNCTION public.with_statements(a int, OUT b int) LANGUAGE sql SET work_mem TO '1MB'
  BEGIN ATOMIC SELECT 'x'; SELECT CASE WHEN '(x,1)'::public.pair IS NULL THEN 1 ELSE cardinality('{x}'::public.tried[]) END; END;
CREATE PROCEDURE public.procedure(INOUT a public.tried[] DEFAULT '{x}') LANGUAGE plpgsql SET work_mem TO '1MB' AS $$ BEGIN END $$;
RESET ROLE;
CREATE FUNCTION public.leakproof(a int, b public.tried[] DEFAULT ARRAY['x', 'y, z']::public.tried[], VARIADIC c public.pair[] DEFAULT '{\"(x,1)\"}')
  RETURNS TABLE(d int) LANGUAGE sql LEAKPROOF COST 7 ROWS 3 SET log_statement TO 'none' AS 'SELECT 1';
ALTER FUNCTION public.leakproof OWNER TO app;
CREATE FUNCTION public.internal_one(a text, INOUT b public.tried[] DEFAULT '{x}', OUT c int, VARIADIC d int[] DEFAULT '{1}')
  LANGUAGE internal STRICT SET work_mem TO '2MB' AS 'lower';
CREATE FUNCTION public.handler() RETURNS language_handler LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_call_handler';
CREATE FUNCTION public.validator(oid) RETURNS void LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_validator';
CREATE TRUSTED LANGUAGE ours HANDLER public.handler VALIDATOR public.validator;
SET ROLE app;
CREATE FUNCTION public.in_ours(a public.tried[] DEFAULT '{x}') RETURNS int LANGUAGE ours AS $$ BEGIN RETURN 1; END $$";

async fn proof(server: &Server, vault: &Vault) -> Result<Proved, Failure> {
    let options = ProveOptions { when: When::Latest, to: None, limits: limits(server) };
    Ok(prove(vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// A folder in which every user may write.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("loot").tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("open to all");
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_proof_runs_tries_to_get_out_and_is_refused() {
    for (major, formats) in [
        (15, [Format::Native, Format::Custom, Format::Plain]),
        (18, [Format::Native, Format::Directory, Format::Plain]),
    ] {
        let (server, folder) = (Server::start(major), open_folder());
        let loot = folder.path().join("found");
        fill(&server, &loot);
        for format in formats {
            let vault = vault(&MemoryStore::new());
            backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
            let proved = proof(&server, &vault).await.expect("proved");
            assert_eq!(proved.findings, Vec::new(), "{major} {format:?}");
            assert!(!loot.exists(), "{major} {format:?}");
        }
    }
}

/// An attacker who can write into a vault can change a script. Here a statement looks like a comment, and hides a
/// second statement where a backslash escapes. The server refuses it.
#[tokio::test(flavor = "multi_thread")]
async fn a_comment_with_a_statement_behind_it_is_not_run_by_a_superuser() {
    let (server, folder) = (Server::start(15), open_folder());
    let (loot, more) = (folder.path().join("found"), folder.path().join("more"));
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT 1 AS a");
    let hostile = format!(
        "SET standard_conforming_strings = off;\nCOMMENT ON TABLE public.t IS '\\''; COPY (SELECT 1) TO PROGRAM 'touch {}'; --';\n",
        loot.display()
    );
    std::fs::write(&more, hostile).expect("written");
    let (_programs, limits) = programs(&server, &format!("$REAL \"$@\" && cat {}", more.display()));
    let vault = vault(&MemoryStore::new());
    artefacts::backup(&server.url("shop"), &vault, limits, Format::Plain).await.expect("backed up");
    let failure = proof(&server, &vault).await.expect_err("two statements in one");
    assert!(failure.cause.contains("[SQLSTATE 42601]"), "{failure:?}");
    assert!(!loot.exists());
}

/// Backs up with a `pg_dump` whose script ends in additional statements.
async fn backup_with_more(server: &Server, more: &str) -> Vault {
    let (folder, vault) = (open_folder(), vault(&MemoryStore::new()));
    let file = folder.path().join("more");
    std::fs::write(&file, more).expect("written");
    let (_programs, limits) = programs(server, &format!("$REAL \"$@\" && cat {}", file.display()));
    artefacts::backup(&server.url("shop"), &vault, limits, Format::Plain).await.expect("backed up");
    vault
}

/// Each of the two roles runs its statements that were kept for the end.
#[tokio::test(flavor = "multi_thread")]
async fn no_statement_that_waits_for_the_end_of_a_proof_is_passed_over() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE FUNCTION on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; \
         CREATE EVENT TRIGGER ends ON ddl_command_end EXECUTE FUNCTION on_ddl()",
    );
    let vault = backup_with_more(&server, "ALTER EVENT TRIGGER ends OWNER TO pg_monitor;\n").await;
    let failure = proof(&server, &vault).await.expect_err("it isn't a superuser's to run, and no other role may");
    assert_eq!(failure.code, "postgres.permission", "{failure:?}");
    assert!(failure.object.contains("ALTER EVENT TRIGGER ends"), "{failure:?}");
}

/// `pg_dump` writes event triggers last. An attacker who can write into a vault can put one before a grant, which the
/// trigger would see.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_trigger_sees_a_grant_of_a_superuser_s() {
    let folder = open_folder();
    for major in [15, 18] {
        let (server, loot) = (Server::start(major), folder.path().join(major.to_string()));
        server.sql("postgres", "CREATE ROLE app");
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql("shop", "CREATE TABLE t AS SELECT 1 AS a; ALTER TABLE t OWNER TO app");
        let hostile = format!(
            "CREATE FUNCTION public.on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF current_setting('is_superuser') = 'on' THEN COPY (SELECT 1) TO PROGRAM 'touch {}'; END IF; END $$;\n\
             CREATE EVENT TRIGGER ends ON ddl_command_end EXECUTE FUNCTION public.on_ddl();\n\
             GRANT EXECUTE ON FUNCTION pg_catalog.pg_ls_dir(text) TO app;\n",
            loot.display()
        );
        let vault = backup_with_more(&server, &hostile).await;
        // What it finds is another matter.
        let proved = proof(&server, &vault).await;
        assert!(!loot.exists(), "{major}: {proved:?}");
        proved.expect("it ran to its end");
    }
}

/// The counterpart: PostgreSQL calls the check, with a role that lacks the rights.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_check_is_refused_is_told() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    for (number, function) in [
        "BEGIN PERFORM pg_read_file('/etc/passwd'); RETURN true; END",
        "BEGIN COPY (SELECT 1) TO PROGRAM 'true'; RETURN true; END",
        "BEGIN IF current_setting('is_superuser') = 'off' AND session_user LIKE 'seawall\\_loader\\_%' THEN \
         RAISE insufficient_privilege; END IF; RETURN true; END",
    ]
    .into_iter()
    .enumerate()
    {
        let table = format!("t{number}");
        server.sql(
            "shop",
            &format!(
                "CREATE OR REPLACE FUNCTION try(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$; \
                 CREATE TABLE {table} (a int CHECK (public.try(a))); INSERT INTO {table} VALUES (1); \
                 CREATE OR REPLACE FUNCTION try(int) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$ {function} $$"
            ),
        );
        for format in [Format::Native, Format::Plain] {
            let vault = vault(&MemoryStore::new());
            backup_in(format, &server, &server.url("shop"), &vault).await.expect("backed up");
            let failure = proof(&server, &vault).await.expect_err("the check fails");
            assert_eq!(failure.code, "postgres.permission", "{failure:?}");
            assert!(
                failure.cause.contains("[SQLSTATE 42501]") && failure.next.contains("--to"),
                "{format:?}: {failure:?}"
            );
        }
        server.sql("shop", &format!("DROP TABLE {table}"));
    }
}
