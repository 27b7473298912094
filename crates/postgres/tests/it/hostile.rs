//! An owner of a database who lays traps: a twin of every function, operator, type and table that our statements name, at
//! the head of the search path and in `public`. Each raises an error that the server's log shows. None is ever called.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{
    CopyFormat, DumpOptions, Dumped, Format, ProveOptions, Proved, RestoreOptions, World, dump, prove,
};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{content, environment, limits, options, recover, schema, target, vault};

/// The message of each twin.
const CALLED: &str = "hostile twin";

/// The text of every source file of the crate, without its tests.
fn sources() -> Vec<(PathBuf, String)> {
    let (mut folders, mut found) = (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).expect("text");
                let text = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                found.push((path, text));
            }
        }
    }
    found
}

/// The word that `text` begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Every name in `pg_catalog` that our statements use.
fn names() -> BTreeSet<String> {
    let of = |text: &str| text.split("pg_catalog.").skip(1).map(|rest| word(rest).to_owned()).collect::<Vec<_>>();
    let mut names: BTreeSet<String> = sources().iter().flat_map(|(_, text)| of(text)).collect();
    names.extend(["pg_authid", "pg_roles"].map(str::to_owned));
    names.remove("");
    names
}

/// Also finds unqualified names in new statements.
#[test]
fn every_name_that_our_statements_have_is_qualified() {
    let (mut bare, functions) = (Vec::new(), names());
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let mut wrong = Vec::new();
            for before in ["FROM pg_", "JOIN pg_", "ONLY pg_"] {
                let tables = line.split(before).skip(1).filter(|rest| !rest.starts_with("catalog."));
                wrong.extend(tables.map(|rest| format!("{before}{}", word(rest))));
            }
            for cast in ["regclass", "regtype", "regnamespace", "oid", "text", "tid"] {
                // Rust has paths that end in the other names.
                let is_sql = line.contains(['\'', '"']) && (cast.starts_with("reg") || line.contains("SELECT"));
                if line.contains(&format!("::{cast}")) && is_sql {
                    wrong.push(format!("::{cast}"));
                }
            }
            let calls = functions.iter().filter(|name| name.starts_with("pg_") || name.starts_with("has_"));
            for name in calls {
                let called = line.split(&format!("{name}(")).collect::<Vec<_>>();
                let is_bare =
                    |before: &&str| !before.ends_with("pg_catalog.") && before.ends_with([' ', '(', ',', '"']);
                if called.len() > 1 && called[..called.len() - 1].iter().any(is_bare) {
                    wrong.push(format!("{name}()"));
                }
            }
            bare.extend(wrong.into_iter().map(|what| format!("{}:{}: {what}", path.display(), number + 1)));
        }
    }
    assert!(bare.is_empty(), "search_path decides what these are; write pg_catalog before them: {bare:#?}");
}

/// Functions with argument types that match our calls better than those of the server's own functions.
const BETTER: [(&str, &str, &str); 14] = [
    ("pg_table_size", "oid", "bigint"),
    ("pg_relation_size", "oid", "bigint"),
    ("pg_relation_filenode", "oid", "oid"),
    ("pg_advisory_lock_shared", "integer", "void"),
    ("pg_advisory_unlock_shared", "integer", "boolean"),
    ("pg_advisory_unlock", "integer", "boolean"),
    ("pg_try_advisory_lock", "integer", "boolean"),
    ("pg_partition_tree", "oid", "oid"),
    ("json_agg", "name", "json"),
    ("json_agg", "bigint", "json"),
    ("format", "text, name, name", "text"),
    ("json_build_array", "name, text, boolean", "json"),
    ("setval", "text, bigint, boolean", "bigint"),
    ("set_config", "text, text, boolean", "text"),
];

/// The types whose operators get twins.
const TYPES: &str =
    "'{bool,\"char\",name,int2,int4,int8,text,oid,regclass,tid,pg_lsn,bytea,varchar,bpchar}'::regtype[]";

/// The traps, as statements that make statements. `{names}` are the names that our statements use.
const TRAPS: &str = r#"
SET ROLE app;
CREATE SCHEMA evil;
CREATE FUNCTION evil.trap() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hostile twin: trap'; END $$;
SELECT format('CREATE FUNCTION %I.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', schema, name, arguments, result,
              format('BEGIN RAISE EXCEPTION ''hostile twin: function %s(%s)''; END', name, arguments))
FROM unnest('{evil,public}'::text[]) schema, (
  SELECT proname::text, oidvectortypes(proargtypes),
         CASE WHEN proretset THEN 'SETOF ' ELSE '' END || format_type(prorettype, NULL)
  FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind IN ('f', 'a') AND proname = ANY ('{names}')
  AND NOT (proargtypes::oid[] || prorettype) && '{internal,cstring,"\"any\""}'::regtype[]::oid[]
  AND (prokind = 'f' OR proargtypes::text <> '')
  UNION VALUES {better}) AS f (name, arguments, result)
\gexec
SELECT format('CREATE FUNCTION %I.op_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L;
               CREATE OPERATOR %I.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = %I.op_%s)',
              schema, oid, oprleft::regtype, oprright::regtype, oprresult::regtype,
              format('BEGIN RAISE EXCEPTION ''hostile twin: operator %s''; END', oid::regoperator),
              schema, oprname, oprleft::regtype, oprright::regtype, schema, oid)
FROM unnest('{evil,public}'::text[]) schema, pg_operator
WHERE oprleft = ANY ({types}) AND oprright = ANY ({types})
AND oprname = ANY ('{=,<>,<,>,<=,>=,~,!~,||,+,-,*,/,&&,<@,@>}')
\gexec
SELECT format('CREATE DOMAIN evil.%I AS %s CHECK (evil.trap())', typname, oid::regtype)
FROM pg_type WHERE oid = ANY ({types}) OR typname IN ('json', 'money', 'regtype', 'regnamespace')
\gexec
SELECT format('CREATE VIEW %I.%I AS SELECT * FROM pg_catalog.%I WHERE evil.trap()', schema, relname, relname)
FROM unnest('{evil,public}'::text[]) schema, pg_class
WHERE relnamespace = 'pg_catalog'::regnamespace AND relname = ANY ('{names}') AND relkind IN ('r', 'v')
AND 'anyarray'::regtype <> ALL (SELECT atttypid FROM pg_attribute WHERE attrelid = pg_class.oid)
\gexec
SELECT 'SELECT 1'
"#;

/// A server with the superuser `keeper`, who backs up and restores. The search path of `keeper`'s sessions begins with
/// the traps.
fn besieged(major: u32) -> Server {
    let server = Server::start_with(major, "log_min_messages = error");
    server.sql("postgres", "CREATE ROLE keeper SUPERUSER LOGIN; CREATE ROLE app LOGIN");
    server.sql("postgres", "ALTER ROLE keeper SET search_path = evil, pg_catalog, public");
    server
}

/// A database whose owner laid traps.
fn trapped(major: u32) -> Server {
    let server = besieged(major);
    server.sql("postgres", "CREATE DATABASE shop OWNER app");
    server.sql(
        "shop",
        "SET ROLE app; CREATE SCHEMA stock; CREATE TABLE stock.brands (id int PRIMARY KEY, name text); \
         INSERT INTO stock.brands SELECT i, 'brand ' || i FROM generate_series(1, 3000) i; \
         CREATE TABLE stock.goods (id serial PRIMARY KEY, brand int REFERENCES stock.brands, tags text[], at timestamptz); \
         INSERT INTO stock.goods (brand, tags, at) SELECT i % 3000 + 1, ARRAY['a', NULL], '2024-01-01' \
         FROM generate_series(1, 9000) i; \
         CREATE INDEX ON stock.goods (brand, at); CREATE VIEW stock.few AS SELECT * FROM stock.goods WHERE id < 10; \
         CREATE MATERIALIZED VIEW stock.counts AS SELECT brand, count(*) AS n FROM stock.goods GROUP BY brand; \
         CREATE TABLE stock.parts (a int, b text) PARTITION BY LIST (a); \
         CREATE TABLE stock.part PARTITION OF stock.parts FOR VALUES IN (1); INSERT INTO stock.parts VALUES (1, 'x'); \
         ALTER TABLE stock.goods ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON stock.goods USING (id > 5); \
         SELECT lo_from_bytea(7, 'large'); COMMENT ON TABLE stock.goods IS 'all'; GRANT SELECT ON stock.goods TO PUBLIC",
    );
    // Of a trusted extension the owner of the database may have the server make what is the superuser's.
    server.sql("shop", "GRANT CREATE ON SCHEMA public TO app; CREATE EXTENSION citext SCHEMA stock");
    let list = |names: Vec<String>| format!("{{{}}}", names.join(","));
    let better = BETTER.map(|(name, arguments, result)| format!("('{name}', '{arguments}', '{result}')"));
    let traps = TRAPS.replace("{names}", &list(names().into_iter().collect()));
    let traps = traps.replace("{types}", TYPES).replace("{better}", &better.join(", "));
    server.generated("shop", &traps);
    server.sql("shop", "SET ROLE app; ALTER DATABASE shop SET search_path = evil, pg_catalog, public");
    // The tests' own sessions stay out of the traps.
    server.sql("postgres", "ALTER ROLE postgres IN DATABASE shop SET search_path = pg_catalog, public");
    server
}

fn url(server: &Server, database: &str) -> String {
    server.url_as("keeper", database)
}

async fn backup(server: &Server, url: &str, vault: &Vault, change: DumpOptions) -> Result<Dumped, Failure> {
    let options = DumpOptions { limits: limits(server), ..change };
    Ok(dump(&target(url), vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

async fn proof(server: &Server, vault: &Vault, to: Option<String>) -> Result<Proved, Failure> {
    let options = ProveOptions { when: When::Latest, to: to.map(|url| target(&url)), limits: limits(server) };
    Ok(prove(vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// Checks that no trap was called so far, and that the traps work.
fn nothing_was_called(server: &Server, database: &str) {
    let log = server.log();
    let called: Vec<&str> = log.lines().filter(|line| line.contains(CALLED)).collect();
    assert!(called.is_empty(), "{called:#?}\n{log}");
    for question in
        ["SELECT pg_is_in_recovery()", "SELECT 1 WHERE 1 = 1", "TABLE pg_class", "SELECT 'a'::text", "SHOW search_path"]
    {
        let mut psql = server.tool("psql");
        psql.env("PGUSER", "keeper").args(["-Xqc", question, database]);
        let failed = !psql.output().expect("psql runs").status.success();
        assert_eq!(failed, question != "SHOW search_path", "a trap that isn't one: {question}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_twin_of_what_we_call_is_called_when_a_set_is_made_restored_and_proved() {
    let sample = Some("20%".parse().expect("a share"));
    for (major, changes) in [
        (18, vec![DumpOptions::default()]),
        (
            15,
            vec![
                DumpOptions { copy: CopyFormat::Binary, ..DumpOptions::default() },
                DumpOptions { sample, ..DumpOptions::default() },
                DumpOptions { format: Format::Custom, ..DumpOptions::default() },
            ],
        ),
    ] {
        let server = trapped(major);
        for (number, change) in changes.into_iter().enumerate() {
            let (vault, is_whole) = (vault(&MemoryStore::new()), change.sample.is_none());
            backup(&server, &url(&server, "shop"), &vault, change).await.expect("backed up");
            // Of a sample the proof is the same.
            for to in [None, Some(url(&server, "postgres"))].into_iter().filter(|_| is_whole) {
                let proved = proof(&server, &vault, to).await.expect("proved");
                assert_eq!(proved.findings, Vec::new());
            }
            let copy = format!("copy{number}");
            recover(&vault, &url(&server, &copy), &options(&server)).await.expect("restored");
            if is_whole {
                assert_eq!(content(&server, &copy)[..5], content(&server, "shop")[..5]);
                assert_eq!(schema(&server, &server, &copy), schema(&server, &server, "shop"));
            }
        }
        nothing_was_called(&server, "shop");
    }
}

/// A foreign key may compare with a conversion that a user wrote. A sample then takes the whole table that the key
/// refers to, and compares nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_sample_calls_no_conversion_that_a_user_has_written() {
    let server = besieged(15);
    server.sql("postgres", "CREATE DATABASE shop OWNER app");
    server.sql(
        "shop",
        "GRANT CREATE ON SCHEMA public TO app; SET ROLE app; CREATE TYPE size AS ENUM ('s', 'm'); \
         CREATE FUNCTION public.number(size) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ \
         BEGIN IF current_user <> 'app' THEN RAISE EXCEPTION 'hostile twin: cast'; END IF; RETURN 1; END $$; \
         CREATE CAST (size AS int) WITH FUNCTION public.number(size) AS IMPLICIT; \
         CREATE TABLE sizes (id int PRIMARY KEY); INSERT INTO sizes SELECT generate_series(1, 3000); \
         CREATE TABLE goods (size size REFERENCES sizes); INSERT INTO goods SELECT 's' FROM generate_series(1, 5000)",
    );
    let vault = vault(&MemoryStore::new());
    let change = DumpOptions { sample: Some("10%".parse().expect("a share")), ..DumpOptions::default() };
    backup(&server, &url(&server, "shop"), &vault, change).await.expect("taken");
    assert!(!server.log().contains(CALLED), "{}", server.log());
}

/// Planning a query of a table calls immutable functions of its indexes and statistics, with the rights of the role
/// that asks.
#[tokio::test(flavor = "multi_thread")]
async fn no_function_of_an_index_is_called_when_a_set_is_made() {
    for major in [15, 18] {
        let server = besieged(major);
        server.sql("postgres", "CREATE DATABASE shop OWNER app");
        server.sql(
            "shop",
            "GRANT CREATE ON SCHEMA public TO app; SET ROLE app; \
             CREATE FUNCTION public.same(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ \
             BEGIN IF current_setting('is_superuser') = 'on' THEN RAISE EXCEPTION 'hostile twin: index'; END IF; RETURN $1; END $$; \
             CREATE OPERATOR public.@@@ (RIGHTARG = int, FUNCTION = public.same); \
             CREATE TABLE large (a int, b text); ALTER TABLE large ALTER b SET STORAGE EXTERNAL; \
             INSERT INTO large SELECT i, repeat('x', 8000) FROM generate_series(1, 9000) i; \
             CREATE INDEX ON large ((public.same(1) + a)); \
             CREATE TABLE things (a int PRIMARY KEY); INSERT INTO things SELECT generate_series(1, 3000); \
             CREATE INDEX ON things (a) WHERE OPERATOR(public.@@@) 1 = 1; \
             CREATE TABLE counted (a int REFERENCES things, b int); INSERT INTO counted SELECT i, i FROM generate_series(1, 3000) i; \
             CREATE STATISTICS public.s ON (public.same(1) + a), (a + b) FROM counted; \
             CREATE TABLE referred (a int REFERENCES things); INSERT INTO referred SELECT generate_series(1, 3000); \
             CREATE TABLE none (); INSERT INTO none DEFAULT VALUES; CREATE INDEX ON none ((public.same(1))); \
             CREATE TABLE made (a int GENERATED ALWAYS AS (1) STORED); INSERT INTO made DEFAULT VALUES; \
             CREATE INDEX ON made ((public.same(1) + a))",
        );
        for copy in [CopyFormat::Text, CopyFormat::Binary] {
            for sample in [None, Some("20%".parse().expect("a share"))] {
                let vault = vault(&MemoryStore::new());
                let change = DumpOptions { sample, copy, ..DumpOptions::default() };
                backup(&server, &url(&server, "shop"), &vault, change).await.expect("backed up");
                assert!(!server.log().contains(CALLED), "{}", server.log());
                let proved = proof(&server, &vault, None).await.expect("proved");
                assert_eq!(proved.findings, []);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_twin_is_called_by_restores_of_parts_and_into_databases_with_traps() {
    let server = trapped(15);
    let vault = vault(&MemoryStore::new());
    backup(&server, &url(&server, "shop"), &vault, DumpOptions::default()).await.expect("backed up");
    let all = options(&server);
    let before = content(&server, "shop");
    // A plan, and rows into tables that the traps are beside.
    let plan = RestoreOptions { dry_run: true, clean: true, ..all.clone() };
    recover(&vault, &url(&server, "shop"), &plan).await.expect("planned");
    server.sql("shop", "TRUNCATE stock.goods, stock.brands, stock.parts; SELECT lo_unlink(7)");
    let rows = RestoreOptions { data_only: true, ..all.clone() };
    recover(&vault, &url(&server, "shop"), &rows).await.expect("rows restored");
    assert_eq!(content(&server, "shop")[0], before[0]);
    // One table, where there was one.
    server.sql("shop", "DROP VIEW stock.few; DROP MATERIALIZED VIEW stock.counts; DROP TABLE stock.goods");
    let one = RestoreOptions { tables: vec!["stock.goods".to_owned()], ..all.clone() };
    recover(&vault, &url(&server, "shop"), &one).await.expect("a table restored");
    assert_eq!(content(&server, "shop")[0], before[0]);
    // In the place of the database with the traps.
    let clean = RestoreOptions { clean: true, ..all };
    recover(&vault, &url(&server, "shop"), &clean).await.expect("replaced");
    assert_eq!(content(&server, "shop")[..5], before[..5]);
    nothing_was_called(&server, "shop");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_twin_is_called_by_a_backup_of_a_whole_server() {
    let server = trapped(15);
    let vault = vault(&MemoryStore::new());
    backup(&server, &url(&server, ""), &vault, DumpOptions::default()).await.expect("backed up");
    let other = besieged(15);
    recover(&vault, &url(&other, ""), &RestoreOptions { clean: true, ..options(&other) }).await.expect("restored");
    assert_eq!(content(&other, "shop"), content(&server, "shop"));
    assert_eq!(proof(&server, &vault, None).await.expect("proved").findings, Vec::new());
    nothing_was_called(&server, "shop");
    nothing_was_called(&other, "shop");
}

/// The whole attack of CVE-2018-1058: functions that match better than the server's own, and the owner's search path.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_database_gets_no_rights_by_a_backup() {
    for setting in ["'$user', public", "evil, pg_catalog"] {
        let server = Server::start(15);
        server.sql("postgres", "CREATE ROLE app LOGIN");
        server.sql("postgres", "CREATE DATABASE shop OWNER app");
        let become_it = "IF current_setting('is_superuser') = 'on' THEN EXECUTE 'ALTER ROLE app SUPERUSER'; END IF;";
        server.sql(
            "shop",
            &format!(
                "GRANT CREATE ON SCHEMA public TO app; SET ROLE app; CREATE SCHEMA evil; CREATE TABLE t AS SELECT 1 AS a; \
                 CREATE FUNCTION public.pg_table_size(oid) RETURNS bigint LANGUAGE plpgsql AS $$ \
                 BEGIN {become_it} RETURN pg_catalog.pg_table_size($1::regclass); END $$; \
                 CREATE FUNCTION evil.pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql AS $$ \
                 BEGIN {become_it} RETURN pg_catalog.pg_is_in_recovery(); END $$; \
                 CREATE FUNCTION public.pg_advisory_lock_shared(integer) RETURNS void LANGUAGE plpgsql AS $$ \
                 BEGIN {become_it} PERFORM pg_catalog.pg_advisory_lock_shared($1::bigint); END $$; \
                 ALTER DATABASE shop SET search_path = {setting}"
            ),
        );
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault, DumpOptions::default()).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        server.sql("shop", "TRUNCATE public.t");
        let rows = RestoreOptions { data_only: true, ..options(&server) };
        recover(&vault, &server.url("shop"), &rows).await.expect("rows restored");
        assert_eq!(server.sql("postgres", "SELECT rolsuper FROM pg_roles WHERE rolname = 'app'"), "f");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
    }
}
