//! Dump, restore, compare.

use std::path::PathBuf;
use std::sync::Arc;

use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{
    CopyFormat, DumpOptions, Dumped, Format, Limits, RestoreOptions, Restored, Target, World, dump, restore,
};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Environment, Policy, Vault};

use crate::server::Server;

pub(crate) fn vault(store: &MemoryStore) -> Vault {
    Vault::new(Arc::new(store.clone()), Policy { seed: 1, ..Policy::default() })
}

pub(crate) fn environment() -> Environment {
    [("PATH".to_owned(), std::env::var("PATH").expect("a PATH"))].into_iter().collect()
}

pub(crate) fn target(url: &str) -> Target {
    Target::parse(url, &environment()).expect("a target")
}

/// A server whose database has this many rows in chunks, keys and a foreign key, and large objects.
pub(crate) fn shop(rows: u32, objects: u32) -> Server {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        &format!(
            "CREATE TABLE big (id int PRIMARY KEY, filler text); \
         INSERT INTO big SELECT i, repeat(md5(i::text), 8) FROM generate_series(1, {rows}) i; \
         CREATE TABLE small (id serial PRIMARY KEY, big int REFERENCES big); INSERT INTO small (big) SELECT id FROM big LIMIT 100; \
         CREATE INDEX big_filler ON big (md5(filler)); SELECT lo_from_bytea(0, 'x') FROM generate_series(1, {objects})"
        ),
    );
    server
}

/// A small limit for memory, so that little content makes many frames and chunks.
pub(crate) fn limits(server: &Server) -> Limits {
    Limits { jobs: 3, memory: 32 << 20, bindir: Some(PathBuf::from(server.bin())), ..Limits::default() }
}

pub(crate) async fn backup(server: &Server, url: &str, vault: &Vault) -> Result<Dumped, Failure> {
    backup_as(CopyFormat::Text, server, url, vault).await
}

/// A backup whose rows are read in one of COPY's formats.
pub(crate) async fn backup_as(copy: CopyFormat, server: &Server, url: &str, vault: &Vault) -> Result<Dumped, Failure> {
    let options = DumpOptions { limits: limits(server), copy, ..DumpOptions::default() };
    let world = World::real(environment());
    Ok(dump(&target(url), vault, &options, &world, Arc::new(NoProgress)).await?)
}

/// A backup in one of the formats of sets.
pub(crate) async fn backup_in(format: Format, server: &Server, url: &str, vault: &Vault) -> Result<Dumped, Failure> {
    let options = DumpOptions { limits: limits(server), format, ..DumpOptions::default() };
    let world = World::real(environment());
    Ok(dump(&target(url), vault, &options, &world, Arc::new(NoProgress)).await?)
}

/// Both formats of COPY.
pub(crate) const FORMATS: [CopyFormat; 2] = [CopyFormat::Text, CopyFormat::Binary];

/// A backup of `shop` that runs while the test does something else.
pub(crate) fn start_backup(server: &Server, vault: &Vault) -> tokio::task::JoinHandle<Result<Dumped, Failure>> {
    let (url, vault, limits) = (server.url("shop"), vault.clone(), limits(server));
    let options = DumpOptions { limits, ..DumpOptions::default() };
    let world = World::real(environment());
    tokio::spawn(async move { Ok(dump(&target(&url), &vault, &options, &world, Arc::new(NoProgress)).await?) })
}

pub(crate) fn options(server: &Server) -> RestoreOptions {
    RestoreOptions {
        when: When::Latest,
        clean: false,
        tables: Vec::new(),
        data_only: false,
        owners: true,
        definers: Vec::new(),
        without_superuser: false,
        database: None,
        dry_run: false,
        limits: limits(server),
    }
}

pub(crate) async fn recover(vault: &Vault, url: &str, options: &RestoreOptions) -> Result<Restored, Failure> {
    Ok(restore(vault, &target(url), options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// The schema of a database. The `pg_dump` of `tools` writes it, so that two versions are asked alike.
pub(crate) fn schema(tools: &Server, server: &Server, database: &str) -> String {
    let mut dump = server.tool("pg_dump");
    let program = tools.bin().join("pg_dump");
    let arguments = ["--schema-only", "--quote-all-identifiers", "-d", database];
    let mut other = std::process::Command::new(program);
    for (name, value) in dump.get_envs() {
        if let Some(value) = value {
            other.env(name, value);
        }
    }
    dump = other;
    dump.args(arguments);
    let text = crate::server::output(dump);
    // An older pg_dump takes the versions that a server keeps of its columns for options.
    let is_version = |line: &str| line.starts_with("ALTER TABLE ONLY") && line.contains(" SET (pg_attver=");
    let says =
        |line: &&str| !line.starts_with("--") && !line.starts_with('\\') && !line.is_empty() && !is_version(line);
    text.lines().filter(says).map(|line| format!("{line}\n")).collect()
}

/// The content of a database: for each table the number of rows and a hash that doesn't depend on their order;
/// sequences; large objects. Temporary tables are those of a session that may be ending just now.
pub(crate) fn content(server: &Server, database: &str) -> Vec<String> {
    let list = "SELECT format('SELECT %L, count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM ONLY %s t', \
                c.oid::regclass, c.oid::regclass) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema') \
                ORDER BY c.oid::regclass::text";
    let mut found = vec![server.generated(database, list)];
    let views = "SELECT format('SELECT %L, count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM %s t', \
                 oid::regclass, oid::regclass) FROM pg_class WHERE relkind = 'm' AND relispopulated ORDER BY oid::regclass::text";
    found.push(server.generated(database, views));
    let unfilled = "SELECT oid::regclass FROM pg_class WHERE relkind = 'm' AND NOT relispopulated ORDER BY 1";
    found.push(server.sql(database, unfilled));
    let sequences = "SELECT format('SELECT %L, last_value, is_called FROM %s', oid::regclass, oid::regclass) \
                     FROM pg_class WHERE relkind = 'S' ORDER BY oid::regclass::text";
    found.push(server.generated(database, sequences));
    let objects = "SELECT oid, pg_get_userbyid(lomowner), \
                   (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(lomacl) a), \
                   md5(lo_get(oid)), obj_description(oid, 'pg_largeobject') FROM pg_largeobject_metadata ORDER BY oid";
    found.push(server.sql(database, objects));
    let database_itself = "SELECT pg_get_userbyid(datdba), shobj_description(oid, 'pg_database'), \
                   (SELECT string_agg(s.setrole::regrole || array_to_string(s.setconfig, ','), ' ' ORDER BY 1) \
                    FROM pg_db_role_setting s WHERE s.setdatabase = d.oid), \
                   (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(coalesce(datacl, acldefault('d', datdba))) a) \
                   FROM pg_database d WHERE datname = current_database()";
    found.push(server.sql(database, database_itself));
    found
}

/// The schema of the journal of an unfinished restore.
pub(crate) fn journal(server: &Server, database: &str) -> Option<String> {
    let sql = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^seawall_restore' AND to_regclass(nspname || '.journal') IS NOT NULL";
    server.try_sql(database, sql).filter(|name| !name.is_empty())
}

/// The number of chunks that a restore's journal records as loaded.
pub(crate) fn chunks_loaded(server: &Server, database: &str) -> u64 {
    let Some(schema) = journal(server, database) else { return 0 };
    let sql = format!("SELECT count(*) FROM {schema}.journal WHERE step LIKE 'chunk %'");
    server.try_sql(database, &sql).and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Opens a session in a database, so that it can't be replaced.
pub(crate) fn occupy(server: &Server, database: &str) -> std::process::Child {
    let mut psql = server.tool("psql");
    psql.args(["-d", database, "-c", "SELECT pg_sleep(600)"]).stdout(std::process::Stdio::null());
    let session = psql.stderr(std::process::Stdio::null()).spawn().expect("psql runs");
    let there = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND query LIKE '%pg_sleep%' AND state = 'active' AND pid <> pg_backend_pid()"
    );
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.sql("postgres", &there) != "1" {
        assert!(std::time::Instant::now() < deadline, "the session doesn't come");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    session
}

/// Ends that session.
pub(crate) fn leave(server: &Server, database: &str, mut session: std::process::Child) {
    server.sql("postgres", &format!("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid()"));
    session.wait().expect("ended");
}

/// Makes the roles that the fixtures use. They belong to the cluster, not to the database.
pub(crate) fn roles(server: &Server) {
    server.sql("postgres", "CREATE ROLE alice; CREATE ROLE \"Bob's \"\"role\"\"\"; CREATE ROLE reader");
}

/// Random numbers from a seed that is printed, and that `SEAWALL_SEED` repeats.
pub(crate) fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(seawall_testing::seed())
}

/// Waits until the server has seen that the connections of an interrupted run are gone, and its sessions have ended.
pub(crate) fn no_session_stays(server: &Server) {
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'seawall' OR datname LIKE 'seawall-%'";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while server.sql("postgres", sessions) != "0" {
        assert!(std::time::Instant::now() < deadline, "a session stays");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Checks that a server, and one of its databases, hold nothing of ours: no schema, no unfinished database, no session
/// with its locks, no exported snapshot.
pub(crate) fn nothing_stays(server: &Server, database: &str) {
    no_session_stays(server);
    let schemas = "SELECT string_agg(nspname, ' ') FROM pg_namespace WHERE nspname ~ 'seawall|^pg_(toast_)?temp_'";
    assert_eq!(server.sql(database, schemas), "", "schemas");
    let rest = "SELECT (SELECT count(*) FROM pg_database WHERE datname ~ 'seawall'), (SELECT count(*) FROM pg_ls_dir('pg_snapshots')), \
                (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM pg_prepared_xacts), \
                (SELECT count(*) FROM pg_replication_slots)";
    assert_eq!(server.sql("postgres", rest), "0|0|0|0|0", "databases, snapshots, locks, prepared transactions, slots");
}

/// A query for the tables without planner statistics, among those whose `pg_class` row `c` fulfils `condition`.
pub(crate) fn without_statistics(condition: &str) -> String {
    format!(
        "SELECT coalesce(string_agg(c.oid::regclass::text, ' '), '') FROM pg_class c \
         WHERE c.relkind IN ('r', 'm', 'p') AND c.relpersistence <> 't' AND c.relnatts > 0 AND c.reltuples <> 0 \
         AND NOT EXISTS (SELECT FROM pg_statistic s WHERE s.starelid = c.oid) AND {condition}"
    )
}

/// The statement with which a restore marks a database that lacks only its name.
pub(crate) fn says_whole(unfinished: &str) -> String {
    format!(
        "COMMENT ON DATABASE \"{unfinished}\" IS 'Seawall: all of it is made, and its name comes next: {unfinished}'"
    )
}
