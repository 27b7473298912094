//! The sweep over objects of a server outside its databases: roles, memberships, settings, tablespaces, rights on
//! parameters, comments, and the properties of databases. In each column of each shared catalog, a restored server
//! equals one that `pg_dumpall` and `psql` made from the same source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use seawall_core::NoProgress;
use seawall_postgres::{DumpOptions, World, dump};
use seawall_vault::memory::MemoryStore;
use serde_json::Value;

use crate::server::{Server, output};
use crate::support::{environment, limits, options, recover, target, vault};

/// Columns that aren't compared, and why.
const NOT_COMPARED: [(&str, &str, &str); 10] = [
    ("pg_authid", "oid", "a number alone"),
    ("pg_auth_members", "oid", "a number alone"),
    ("pg_tablespace", "oid", "a number alone"),
    ("pg_parameter_acl", "oid", "a number alone"),
    ("pg_database", "oid", "a number alone"),
    ("pg_database", "datfrozenxid", "transactions of the server"),
    ("pg_database", "datminmxid", "transactions of the server"),
    ("pg_database", "datcollversion", "that of the libraries of the host"),
    ("pg_shdescription", "classoid", "said with the object"),
    ("pg_database", "dathasloginevt", "set by the trigger alone"),
];

/// Columns with the same value in all objects of the fixture, each with the reason.
const ALIKE: [(&str, &str, &str); 5] = [
    ("pg_database", "datallowconn", "what takes no connections can't be backed up, which a backup says"),
    ("pg_database", "daticulocale", "version 18 of the tests is built without ICU"),
    ("pg_database", "daticurules", "version 18 of the tests is built without ICU"),
    ("pg_database", "datlocale", "said by the sweep over one database"),
    ("pg_database", "datlocprovider", "said by the sweep over one database"),
];

const ROLES: &str = r#"
CREATE ROLE plain; CREATE ROLE a; CREATE ROLE b LOGIN; CREATE ROLE c; CREATE ROLE "d's ""role""";
CREATE ROLE mighty SUPERUSER NOINHERIT CREATEROLE CREATEDB LOGIN REPLICATION BYPASSRLS CONNECTION LIMIT 3
  VALID UNTIL '2031-02-03 04:05:06+00' PASSWORD 'it''s secret';
CREATE ROLE "for ever" LOGIN VALID UNTIL 'infinity' PASSWORD 'md50123456789abcdef0123456789abcdef';
COMMENT ON ROLE a IS E'it''s \\ a\nin two lines'; COMMENT ON ROLE "for ever" IS 'ü';
ALTER ROLE b SET search_path = "$user", "a, b", "c ""d"""; ALTER ROLE b SET app.word = E'it''s\n"two" lines, \\ = x';
ALTER ROLE b SET work_mem = '5MB'; ALTER ROLE ALL SET app.every = 'one'; ALTER ROLE b SET temp_tablespaces = 'fast', 'slow';
ALTER ROLE a SET log_min_duration_statement = 7; ALTER ROLE "for ever" SET app.empty = '';
GRANT a TO b WITH ADMIN OPTION; GRANT c TO "d's ""role"""; GRANT a TO postgres; GRANT pg_monitor TO c WITH ADMIN OPTION;
GRANT plain TO pg_monitor; SET ROLE b; GRANT a TO c; GRANT a TO plain; RESET ROLE;
ALTER TABLESPACE fast OWNER TO b; ALTER TABLESPACE fast SET (random_page_cost = 1.5, effective_io_concurrency = 7);
COMMENT ON TABLESPACE fast IS 'it''s fast'; GRANT CREATE ON TABLESPACE fast TO c WITH GRANT OPTION;
SET ROLE c; GRANT CREATE ON TABLESPACE fast TO plain; RESET ROLE; GRANT CREATE ON TABLESPACE slow TO PUBLIC;
GRANT SET ON PARAMETER work_mem TO c WITH GRANT OPTION; SET ROLE c; GRANT SET ON PARAMETER work_mem TO plain; RESET ROLE;
GRANT ALTER SYSTEM ON PARAMETER "my.own" TO PUBLIC; GRANT SET, ALTER SYSTEM ON PARAMETER log_statement TO "d's ""role""";
"#;

/// The objects that need version 16 or later.
const ROLES_16: &str = r#"
GRANT c TO "for ever" WITH INHERIT FALSE, SET FALSE; GRANT c TO mighty WITH ADMIN TRUE, INHERIT TRUE, SET FALSE;
GRANT a TO plain WITH INHERIT TRUE, SET FALSE GRANTED BY postgres; GRANT a TO c WITH ADMIN TRUE;
SET ROLE c; GRANT a TO "for ever"; RESET ROLE;
"#;

const DATABASES: [&str; 12] = [
    "CREATE DATABASE shop OWNER b TABLESPACE slow CONNECTION LIMIT 5 IS_TEMPLATE true",
    "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER libc",
    "COMMENT ON DATABASE shop IS 'it''s the shop'",
    "REVOKE ALL ON DATABASE shop FROM PUBLIC; GRANT CONNECT ON DATABASE shop TO c WITH GRANT OPTION; \
     SET ROLE c; GRANT CONNECT ON DATABASE shop TO plain; RESET ROLE; GRANT TEMPORARY ON DATABASE shop TO a",
    "ALTER DATABASE shop SET search_path = \"$user\", \"a, b\"; ALTER DATABASE shop SET app.word = E'it''s\n\\\\'",
    "ALTER ROLE b IN DATABASE shop SET work_mem = '6MB'; ALTER ROLE b IN DATABASE latin SET DateStyle = 'SQL, DMY'",
    "ALTER DATABASE postgres OWNER TO b; COMMENT ON DATABASE postgres IS 'ours'; ALTER DATABASE postgres SET statement_timeout = '1h'",
    "GRANT CREATE ON DATABASE postgres TO plain; REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC",
    "COMMENT ON DATABASE template1 IS 'ours as well'; ALTER DATABASE template1 SET app.word = 'x'",
    "GRANT CONNECT ON DATABASE template1 TO plain; ALTER DATABASE template1 CONNECTION LIMIT 9",
    "COMMENT ON TABLESPACE slow IS 'slow'",
    "ALTER DATABASE latin WITH IS_TEMPLATE false",
];

const SPACES: [&str; 2] = ["fast", "slow"];

/// A server with its tablespaces, made by hand.
fn bare(major: u32) -> Server {
    let server = Server::start(major);
    for name in SPACES {
        let folder = server.folder_of_its_own(name);
        server.sql("postgres", &format!("CREATE TABLESPACE {name} LOCATION '{folder}'"));
    }
    server
}

fn filled(major: u32) -> Server {
    let server = bare(major);
    server.sql("postgres", ROLES);
    if major >= 16 {
        server.sql("postgres", ROLES_16);
    }
    for statement in DATABASES {
        server.sql("postgres", statement);
    }
    server.sql("shop", "CREATE TABLE public.t AS SELECT generate_series(1, 10) AS a; ALTER TABLE public.t OWNER TO b");
    server
}

/// Each row of each shared catalog, with names instead of object ids.
type Rows = BTreeMap<String, Vec<BTreeMap<String, Value>>>;

fn rows(server: &Server) -> Rows {
    let list = |column: &str| format!("(SELECT jsonb_agg(x::text ORDER BY x::text) FROM unnest({column}) x)");
    let name = |column: &str| format!("(SELECT rolname FROM pg_authid WHERE oid = {column})");
    let database = "(SELECT datname FROM pg_database d WHERE d.oid = setdatabase)";
    let object = "CASE classoid WHEN 'pg_authid'::regclass THEN (SELECT 'role ' || rolname FROM pg_authid WHERE oid = objoid) \
                  WHEN 'pg_tablespace'::regclass THEN (SELECT 'tablespace ' || spcname FROM pg_tablespace WHERE oid = objoid) \
                  WHEN 'pg_database'::regclass THEN (SELECT 'database ' || datname FROM pg_database WHERE oid = objoid) END";
    let space = "(SELECT spcname FROM pg_tablespace s WHERE s.oid = dattablespace)";
    let replaced: [(&str, Vec<(&str, String)>); 7] = [
        ("pg_authid", vec![]),
        ("pg_auth_members", vec![("roleid", name("roleid")), ("member", name("member")), ("grantor", name("grantor"))]),
        (
            "pg_db_role_setting",
            vec![
                ("setdatabase", database.to_owned()),
                ("setrole", name("setrole")),
                ("setconfig", "to_jsonb(setconfig)".to_owned()),
            ],
        ),
        (
            "pg_tablespace",
            vec![("spcowner", name("spcowner")), ("spcacl", list("spcacl")), ("spcoptions", list("spcoptions"))],
        ),
        ("pg_parameter_acl", vec![("paracl", list("paracl"))]),
        ("pg_shdescription", vec![("objoid", object.to_owned())]),
        (
            "pg_database",
            vec![("datdba", name("datdba")), ("dattablespace", space.to_owned()), ("datacl", list("datacl"))],
        ),
    ];
    let mut all = Rows::new();
    for (catalog, columns) in replaced {
        let objects: Vec<String> = columns.iter().map(|(column, sql)| format!("'{column}', {sql}")).collect();
        let sql = format!(
            "SELECT row FROM (SELECT to_jsonb(x) || jsonb_build_object({}) AS row FROM {catalog} x) r \
             WHERE row->>'rolname' IS NULL OR row->>'rolname' !~ '^pg_' ORDER BY row::text",
            objects.join(", ")
        );
        let mut found = Vec::new();
        for line in server.sql("postgres", &sql).lines() {
            let mut row: BTreeMap<String, Value> = serde_json::from_str(line).expect("JSON");
            row.retain(|column, _| !NOT_COMPARED.iter().any(|(of, which, _)| (*of, *which) == (catalog, column)));
            found.push(row);
        }
        found.sort_by_key(|row| format!("{row:?}"));
        all.insert(catalog.to_owned(), found);
    }
    all
}

/// The lines that only one of the two has.
fn lines(rows: &Rows) -> BTreeSet<String> {
    rows.iter().flat_map(|(catalog, rows)| rows.iter().map(move |row| format!("{catalog} {row:?}"))).collect()
}

/// Restores a server with `pg_dumpall` and `psql`.
fn by_psql(from: &Server) -> Server {
    let to = bare(
        from.sql("postgres", "SELECT current_setting('server_version_num')::int / 10000").parse().expect("a version"),
    );
    let script = to.folder().join("all.sql");
    let mut dump = from.tool("pg_dumpall");
    // Without it the properties of `postgres` and `template1` are left out.
    dump.arg("--clean").arg("-f").arg(&script);
    output(dump);
    let text = std::fs::read_to_string(&script).expect("read");
    // Those are there, in folders of their own.
    let line = |line: &str| match line.strip_prefix("CREATE TABLESPACE ").and_then(|rest| rest.split_once(" LOCATION "))
    {
        Some((owned, _)) => format!("ALTER TABLESPACE {};\n", owned.replacen(" OWNER ", " OWNER TO ", 1)),
        None if line.starts_with("DROP TABLESPACE ") => String::new(),
        None => format!("{line}\n"),
    };
    let text: String = text.lines().map(line).collect();
    std::fs::write(&script, text).expect("written");
    let mut psql = to.tool("psql");
    psql.args(["-Xq", "-o", "/dev/null", "-d", "template1", "-f"]).arg(&script);
    // The first superuser is there already.
    psql.output().expect("psql runs");
    to
}

async fn sweep(major: u32) {
    let from = filled(major);
    let source = rows(&from);
    let mut alike = BTreeSet::new();
    for (catalog, rows) in &source {
        for column in rows.iter().flat_map(BTreeMap::keys) {
            let values: BTreeSet<String> =
                rows.iter().map(|row| row.get(column).map(Value::to_string).unwrap_or_default()).collect();
            let is_excused = ALIKE.iter().any(|(of, which, _)| of == catalog && which == column);
            if values.len() < 2 && !is_excused {
                alike.insert((catalog.clone(), column.clone()));
            }
        }
    }
    assert_eq!(alike, BTreeSet::new(), "the fixture needs an object that differs in these columns");
    let stock = by_psql(&from);
    let vault = vault(&MemoryStore::new());
    let all = DumpOptions { limits: limits(&from), role_passwords: true, ..DumpOptions::default() };
    let (world, progress) = (World::real(environment()), Arc::new(NoProgress));
    dump(&target(&from.url("")), &vault, &all, &world, progress).await.expect("backed up");
    let to = bare(major);
    let restored = recover(&vault, &to.url(""), &options(&to)).await.expect("restored");
    assert_eq!((restored.kept, restored.refused), (Vec::new(), Vec::new()));
    let (expected, found) = (lines(&rows(&stock)), lines(&rows(&to)));
    let without_grantors = |lines: BTreeSet<String>| -> BTreeSet<String> {
        // Before version 16 nothing depends on who made somebody a member.
        let plain = |line: String| match line.strip_prefix("pg_auth_members ") {
            Some(row) if major < 16 => {
                row.split(", ").filter(|part| !part.contains("\"grantor\"")).collect::<Vec<_>>().join(", ")
            }
            _ => line,
        };
        lines.into_iter().map(plain).collect()
    };
    let (expected, found) = (without_grantors(expected), without_grantors(found));
    let lost: Vec<&String> = expected.difference(&found).collect();
    // `ALTER ROLE ALL SET` is left out by pg_dumpall.
    let is_of_all = |line: &&String| line.contains("\"setdatabase\": Null, \"setrole\": Null");
    let more: Vec<&String> = found.difference(&expected).filter(|line| !is_of_all(line)).collect();
    assert!(lost.is_empty() && more.is_empty(), "version {major}: lost {lost:#?}, and has {more:#?}");
    // Of the source as well, but for what names the folders.
    let source = without_grantors(lines(&source));
    let differ: Vec<&String> = source.symmetric_difference(&found).collect();
    assert_eq!(differ, Vec::<&String>::new(), "version {major}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_a_server_comes_back_as_by_pg_dumpall_in_version_15() {
    sweep(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_a_server_comes_back_as_by_pg_dumpall_in_version_18() {
    sweep(18).await;
}
