//! Oracle's newest MySQL. It is no package of this distribution: where it isn't there, the run says so.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use seawall_archive::server::Prove as _;
use seawall_core::{NoProgress, When};
use seawall_mysql::{Limits, Prover, World};
use seawall_testing::from_template;
use seawall_vault::memory::MemoryStore;

use crate::restoring::{backup, environment, limits, options, recover, unfinished};
use crate::server::Server;
use crate::support::vault;

/// The folder of MySQL 9 that `test.sh` may have fetched.
fn folder() -> Option<PathBuf> {
    let folder = crate::mysql8::tools().join("mysql-9");
    let runs = Command::new(folder.join("bin/mysqld")).args(["--no-defaults", "--version"]).output();
    if runs.is_ok_and(|output| output.status.success()) {
        return Some(folder);
    }
    eprintln!("MySQL 9 isn't in {}, or can't run here: its tests did nothing", folder.display());
    None
}

/// Starts it with more options.
fn start_with(more: &[&str]) -> Option<Server> {
    let program = folder()?.join("bin/mysqld");
    let folder = tempfile::Builder::new().prefix("my").tempdir().expect("a folder");
    from_template("mysql-9", &program, &folder.path().join("data"), |data| {
        let mut install = Command::new(&program);
        install.args(["--no-defaults", "--initialize-insecure", "--user=root", "--secure-file-priv=NULL"]);
        install.arg(format!("--datadir={}", data.display()));
        assert!(install.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("mysqld runs").success());
    });
    let _ = std::fs::remove_file(folder.path().join("data/auto.cnf"));
    let options = ["--mysqlx=OFF", "--bind-address=127.0.0.1", "--local-infile=1", "--secure-file-priv=NULL"];
    let options: Vec<String> = options.into_iter().chain(more.iter().copied()).map(str::to_owned).collect();
    let client = vec!["mariadb".to_owned(), "--no-defaults".to_owned()];
    Some(Server::run(folder, &program, &options, client))
}

fn start() -> Option<Server> {
    start_with(&["--event-scheduler=OFF", "--log-bin-trust-function-creators=1"])
}

/// What MySQL 8.0.15 doesn't know yet.
pub(crate) const NEWER: &[(&str, &str)] = &[
    (
        "constrained",
        "CREATE TABLE t (a int, b int CHECK (b > 3) NOT ENFORCED, CONSTRAINT c2 CHECK (a < b), CONSTRAINT c3 CHECK (a <> 5) NOT ENFORCED, \
         UNIQUE KEY uu ((a + b)), inv int INVISIBLE DEFAULT 7, vis int AS (a * 2) VIRTUAL INVISIBLE); INSERT INTO t (a, b, inv) VALUES (1, 2, 3), (5, 6, 8);",
    ),
    (
        "keyless",
        "SET SESSION sql_generate_invisible_primary_key = 1; CREATE TABLE g (a int); INSERT INTO g VALUES (1), (2);",
    ),
    (
        "many_values",
        r#"CREATE TABLE m (id int PRIMARY KEY, j json, KEY mv ((CAST(j->'$[*]' AS UNSIGNED ARRAY))),
           KEY cs ((CAST(j->>'$.x' AS CHAR(20)) COLLATE utf8mb4_bin))); INSERT INTO m VALUES (1, '[1, 2, 3]'), (2, '{"x": "y"}');"#,
    ),
    (
        "vectors",
        "CREATE TABLE v (id int PRIMARY KEY, e vector(3), d vector(2048)); INSERT INTO v VALUES (1, TO_VECTOR('[1,2,3.5]'), NULL);",
    ),
    (
        "sets",
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); CREATE VIEW v AS SELECT a FROM t INTERSECT SELECT a FROM t EXCEPT SELECT 5; \
         CREATE VIEW q AS (TABLE t ORDER BY a DESC LIMIT 1);",
    ),
    (
        "dual",
        "CREATE TABLE cust (id int PRIMARY KEY, name varchar(10)); CREATE TABLE ord (oid int PRIMARY KEY, cid int, FOREIGN KEY (cid) REFERENCES cust (id)); \
         INSERT INTO cust VALUES (1, 'x'); INSERT INTO ord VALUES (10, 1); CREATE JSON RELATIONAL DUALITY VIEW dv AS SELECT json_duality_object( \
         '_id': id, 'name': name, 'orders': (SELECT json_arrayagg(json_duality_object(WITH(INSERT, UPDATE, DELETE) 'oid': oid)) FROM ord \
         WHERE ord.cid = cust.id)) FROM cust;",
    ),
    ("replica", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2031-01-01 00:00:00' DISABLE ON REPLICA DO SELECT 1;"),
    ("fixed", "CREATE TABLE t (a int); INSERT INTO t VALUES (1); ALTER DATABASE fixed READ ONLY = 1;"),
];

#[tokio::test(flavor = "multi_thread")]
async fn everything_of_mysql_9s_catalog_comes_back_and_is_proved() {
    let gtid =
        ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin", "--server-id=3", "--event-scheduler=OFF"];
    let (Some(source), Some(target)) = (start_with(&gtid), start_with(&gtid)) else { return };
    crate::sweep::fill(&source, NEWER);
    let vault = vault(&MemoryStore::default());
    backup(&source.url(""), &vault).await.expect("a backup");
    let restored = recover(&vault, &target.url(""), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    let lost = crate::sweep::lost(&source, &target, NEWER);
    assert!(lost.is_empty() && unfinished(&target).is_empty(), "{lost:#?}");
    // The program is a script beside a tree of its own, which the server of a proof can read as a folder of libraries.
    let tree = folder().expect("it").join("root/usr").display().to_string();
    let path = environment().get("PATH").expect("a PATH").to_owned();
    let environment = [("PATH".to_owned(), path), ("LD_LIBRARY_PATH".to_owned(), tree)].into_iter().collect();
    let prover = Prover { to: None, world: World::real(environment) };
    let limits = Limits { bindir: folder().map(|folder| folder.join("bin")), ..limits() };
    let proved = prover.prove(&vault, &When::Latest, &limits, Arc::new(NoProgress)).await.expect("a proof");
    assert!(proved.findings.is_empty(), "{:?}", proved.findings);
    assert!(proved.server.starts_with("MySQL 9") && proved.databases == NEWER.len() as u64, "{proved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_taken_away_need_a_target_that_takes_them_away() {
    let (Some(source), Some(target)) = (start(), start()) else { return };
    source.sql(
        "SET GLOBAL partial_revokes = ON; CREATE DATABASE d; CREATE ROLE ro; \
         CREATE USER app IDENTIFIED BY 'x' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2 ATTRIBUTE '{\"a\": 1}'; GRANT ro TO app; \
         ALTER USER app DEFAULT ROLE ro; GRANT SELECT ON *.* TO app; REVOKE SELECT ON d.* FROM app; CREATE USER boss COMMENT 'hello'; \
         GRANT SYSTEM_USER ON *.* TO boss",
    );
    let vault = vault(&MemoryStore::default());
    backup(&source.url(""), &vault).await.expect("a backup");
    let failure = recover(&vault, &target.url(""), &options()).await.expect_err("it would have more rights");
    assert_eq!(
        (failure.code, target.sql("SELECT COUNT(*) FROM mysql.user WHERE user = 'app'")),
        ("mysql.not-ready", "0".to_owned())
    );
    assert!(failure.next.contains("SET GLOBAL partial_revokes = ON;"), "{failure:?}");
    target.sql("SET GLOBAL partial_revokes = ON");
    let restored = recover(&vault, &target.url(""), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    assert_eq!(crate::sweep::globals(&target), crate::sweep::globals(&source));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_of_routines_is_no_gap_without_a_word() {
    let Some(server) = start() else { return };
    server.sql("CREATE DATABASE d; CREATE LIBRARY d.l LANGUAGE JAVASCRIPT AS 'export function f(n) { return n; }'");
    let failure = backup(&server.url("d"), &vault(&MemoryStore::default())).await.expect_err("it can't be kept");
    assert_eq!((failure.code, failure.object.as_str()), ("mysql.unsupported", "d.l"), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_both_have_crosses_to_mysql_9_and_back() {
    let Some(nine) = start() else { return };
    let others = [Some(Server::start()), crate::mysql8::start_with(&["--log-bin-trust-function-creators=1"])];
    for other in others.iter().flatten() {
        crate::crossing::cross(other, &nine).await;
        crate::crossing::cross(&nine, other).await;
    }
}
