//! One state, whatever is written meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seawall_mysql::testing::{Connection, Purpose};
use seawall_mysql::{Method, SetDetail};
use seawall_vault::memory::MemoryStore;

use crate::server::{Server, target};
use crate::support::{Set, back_up};

/// Moves values from one table to the other, and adds rows to both, until it is told to stop.
async fn write(url: String, stop: Arc<AtomicBool>, done: Arc<AtomicU64>, seed: u64) {
    let mut connection = Connection::open_for(&target(&url), Purpose::Statements).await.expect("connected");
    let mut random = fastrand::Rng::with_seed(seed);
    while !stop.load(Ordering::Relaxed) {
        let (by, row) = (random.i64(-9..9), random.u64(1..1000));
        for sql in [
            "START TRANSACTION".to_owned(),
            format!("UPDATE big SET v = v + {by} WHERE id = {row}"),
            format!("UPDATE small SET v = v - {by} WHERE id = {row}"),
            "INSERT INTO log_a () VALUES ()".to_owned(),
            "INSERT INTO log_b () VALUES ()".to_owned(),
            "COMMIT".to_owned(),
        ] {
            connection.execute(&sql).await.expect("written");
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Two tables whose sum doesn't change, one of them large enough to be read in pieces.
const TABLES: &str = "CREATE DATABASE shop; USE shop; \
    CREATE TABLE big (id int PRIMARY KEY, v bigint, filler varchar(2000)); CREATE TABLE small (id int PRIMARY KEY, v bigint); \
    CREATE TABLE log_a (id int AUTO_INCREMENT PRIMARY KEY); CREATE TABLE log_b (id int AUTO_INCREMENT PRIMARY KEY); \
    INSERT INTO big SELECT seq, 0, REPEAT(MD5(seq), 60) FROM seq_1_to_40000; \
    INSERT INTO small SELECT seq, 0 FROM seq_1_to_1000; INSERT INTO big VALUES (2147483647, 0, ''); ANALYZE TABLE big";

/// Checks that a set holds one state, and returns its detail.
async fn is_one_state(set: &Set) -> SetDetail {
    let sum = |lines: Vec<String>| -> i64 {
        lines.iter().map(|line| line.split('\t').nth(1).expect("v").parse::<i64>().expect("a number")).sum()
    };
    let big = set.lines("shop.big").await;
    assert_eq!(big.len(), 40_001);
    assert_eq!(sum(big) + sum(set.lines("shop.small").await), 0);
    assert_eq!(set.lines("shop.log_a").await.len(), set.lines("shop.log_b").await.len());
    set.detail()
}

/// Backs up under a writing load, by an account with these rights.
async fn under_load(server: &Server, grants: &[&str]) -> (SetDetail, u64) {
    server.sql(TABLES);
    server.sql("CREATE USER backup");
    for grant in grants {
        server.sql(grant);
    }
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> =
        (0..2).map(|n| tokio::spawn(write(server.url("shop"), Arc::clone(&stop), Arc::clone(&done), n))).collect();
    let store = MemoryStore::new();
    let before = done.load(Ordering::Relaxed);
    let dumped = back_up(&server.socket("backup", "shop"), &store).await.expect("backed up");
    let meanwhile = done.load(Ordering::Relaxed) - before;
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("it wrote");
    }
    let set = Set::of(&store, &dumped).await;
    let detail = is_one_state(&set).await;
    (detail, meanwhile)
}

const READ: &str = "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON shop.* TO backup; GRANT SELECT ON mysql.proc TO backup";

#[tokio::test(flavor = "multi_thread")]
async fn a_split_table_and_another_are_one_state_under_load() {
    let server = Server::start_with(&["--log-bin", "--server-id=3"]);
    server.sql("SET GLOBAL log_output = 'TABLE', general_log = 1");
    let (detail, meanwhile) = under_load(&server, &[READ, "GRANT RELOAD, LOCK TABLES ON *.* TO backup"]).await;
    assert_eq!((detail.taken.method, detail.taken.snapshots), (Method::BackupStage, 3));
    assert!(detail.taken.notes.is_empty(), "{:?}", detail.taken.notes);
    assert!(detail.taken.position.is_some() && meanwhile > 0, "{meanwhile}");
    let asked =
        "SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE 'SELECT%FROM `shop`.`big` FORCE INDEX%WHERE%'";
    assert!(server.sql(asked).parse::<u32>().expect("a number") > 1, "read in pieces");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reload_tables_are_locked() {
    let server = Server::start_with(&["--log-bin", "--server-id=3"]);
    let (detail, _) = under_load(&server, &[READ, "GRANT LOCK TABLES ON shop.* TO backup"]).await;
    assert_eq!((detail.taken.method, detail.taken.snapshots), (Method::TableLocks, 3));
    assert!(detail.taken.notes[0].contains("without RELOAD"), "{:?}", detail.taken.notes);
    assert!(detail.taken.position.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_lock_it_is_one_position_or_one_snapshot() {
    let server = Server::start_with(&["--log-bin", "--server-id=3"]);
    let (detail, _) = under_load(&server, &[READ]).await;
    assert!(matches!(detail.taken.method, Method::SamePosition | Method::OneSnapshot), "{:?}", detail.taken);
    assert!(!detail.taken.notes.is_empty() && detail.taken.position.is_some(), "{:?}", detail.taken);
    let silent = Server::start();
    let (detail, _) = under_load(&silent, &[READ]).await;
    assert_eq!((detail.taken.method, detail.taken.snapshots), (Method::OneSnapshot, 1));
    assert_eq!(detail.taken.position, None, "there is no binary log");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_without_snapshots_are_held_or_named() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE shop; USE shop; CREATE TABLE a (id int) ENGINE=MyISAM; CREATE TABLE b (id int) ENGINE=Aria; \
         CREATE TABLE c (id int) ENGINE=MEMORY; CREATE TABLE i (id int); CREATE USER backup",
    );
    server.sql(READ);
    server.sql("GRANT RELOAD ON *.* TO backup");
    for (grant, named) in [("GRANT USAGE ON *.* TO backup", 3), ("GRANT LOCK TABLES ON shop.* TO backup", 0)] {
        server.sql(grant);
        let stop = Arc::new(AtomicBool::new(false));
        let (url, stopped) = (server.url("shop"), Arc::clone(&stop));
        let writer = tokio::spawn(async move {
            let mut connection = Connection::open_for(&target(&url), Purpose::Statements).await.expect("connected");
            while !stopped.load(Ordering::Relaxed) {
                for table in ["a", "b", "c"] {
                    connection.execute(&format!("INSERT INTO {table} VALUES (1)")).await.expect("written");
                }
            }
        });
        // The lock is asked for while commits wait, so for a second only: a server without time for it gets its tables named.
        let deadline = Instant::now() + Duration::from_secs(60);
        let (set, detail) = loop {
            let store = MemoryStore::new();
            let dumped = back_up(&server.socket("backup", "shop"), &store).await.expect("backed up");
            let set = Set::of(&store, &dumped).await;
            let detail: SetDetail = set.detail();
            let count = detail.taken.not_consistent.len();
            assert!(count == 0 || count == 3 && !detail.taken.notes.is_empty(), "{:?}", detail.taken);
            if count == named || Instant::now() > deadline {
                break (set, detail);
            }
        };
        stop.store(true, Ordering::Relaxed);
        writer.await.expect("it wrote");
        assert_eq!(detail.taken.not_consistent.len(), named, "{:?}", detail.taken);
        if named == 0 {
            let (a, b, c) = (set.lines("shop.a").await, set.lines("shop.b").await, set.lines("shop.c").await);
            assert!(a.len() - b.len() <= 1 && b.len() - c.len() <= 1, "{} {} {}", a.len(), b.len(), c.len());
        }
    }
}

/// MySQL 8: the global read lock, the lock of the instance, and GTIDs.
#[tokio::test(flavor = "multi_thread")]
async fn mysql_8_under_load() {
    let Some(server) = crate::mysql8::start() else { return };
    server.sql(
        "CREATE DATABASE shop; USE shop; CREATE TABLE small (id int PRIMARY KEY AUTO_INCREMENT, v bigint, j json, f float, b bit(3), \
         g geometry SRID 4326, n int AS (v + 1) VIRTUAL); CREATE TABLE big (id int PRIMARY KEY, v bigint); \
         CREATE TABLE log_a (id int AUTO_INCREMENT PRIMARY KEY); CREATE TABLE log_b (id int AUTO_INCREMENT PRIMARY KEY); \
         CREATE TABLE old (id int) ENGINE=MyISAM; INSERT INTO old VALUES (1); \
         INSERT INTO small (v, j, f, b) VALUES (0, '{\"a\": 1}', -0e0, b'101'); INSERT INTO big VALUES (1, 0); \
         CREATE VIEW v1 AS SELECT * FROM small; CREATE FUNCTION f() RETURNS int DETERMINISTIC RETURN 1; \
         CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1; CREATE TRIGGER t BEFORE INSERT ON old FOR EACH ROW SET NEW.id = 1; \
         CREATE ROLE r; CREATE USER backup; GRANT r TO backup; \
         GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, RELOAD, LOCK TABLES, REPLICATION CLIENT ON *.* TO backup; \
         GRANT BACKUP_ADMIN ON *.* TO backup",
    );
    let store = MemoryStore::new();
    let dumped = back_up(&server.socket("backup", "shop"), &store).await.expect("backed up");
    let set = Set::of(&store, &dumped).await;
    let detail: SetDetail = set.detail();
    assert_eq!((detail.taken.method, &*detail.server.family), (Method::GlobalLock, "mysql"));
    assert!(detail.taken.notes.is_empty() && detail.taken.not_consistent.is_empty(), "{:?}", detail.taken);
    assert_eq!(set.lines("shop.small").await, ["1\t0\t{\"a\": 1}\t-0\t\u{5}\t\\N"]);
    assert_eq!(set.lines("shop.old").await, ["1"]);
    let schema = set.schema(None).await;
    assert_eq!((schema.views.len(), schema.routines.len(), schema.events.len(), schema.triggers.len()), (1, 1, 1, 1));
    let store = MemoryStore::new();
    let dumped = back_up(&server.socket("backup", ""), &store).await.expect("backed up");
    let globals: seawall_mysql::Globals = Set::of(&store, &dumped).await.document(None, "globals.json").await;
    let names: Vec<&str> = globals.accounts.iter().map(|account| &*account.name).collect();
    assert_eq!(names, ["backup", "r", "root"]);
}
