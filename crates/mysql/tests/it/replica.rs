//! Backups of a replica under load: replayed from either position that the set records, the primary's binary log and its own give
//! the primary's last state.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall_mysql::testing::Purpose;
use seawall_mysql::{BinlogPlace, SetDetail};
use seawall_vault::memory::MemoryStore;

use crate::restoring::{everything, is_the_same, options as how, recover};
use crate::server::Server;
use crate::support::{Set, back_up, vault};

/// Sends everything of a server's binary logs from a place on to another server. A transaction that is there already, or that lacks
/// one before it, ends this with an error.
fn replay(from: &Server, place: &BinlogPlace, to: &Server) {
    let last = from.sql("SHOW MASTER STATUS");
    let last = last.split('\t').next().expect("a name");
    let logs = from.sql("SHOW BINARY LOGS");
    let logs = logs.lines().filter_map(|line| line.split('\t').next());
    let wanted: Vec<String> = logs
        .filter(|log| *log >= place.file.as_str() && *log <= last)
        .map(|log| from.file(&format!("data/{log}")))
        .collect();
    let mut reader = Command::new("mariadb-binlog");
    reader.arg("--no-defaults").arg(format!("--start-position={}", place.offset)).args(&wanted);
    let events = reader.stdin(Stdio::null()).output().expect("mariadb-binlog runs");
    assert!(events.status.success(), "{reader:?}: {}", String::from_utf8_lossy(&events.stderr));
    let script = to.file("events.sql");
    std::fs::write(&script, events.stdout).expect("written");
    to.sql(&format!("source {script}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_under_load_is_replayed_from_both_positions_of_its_set() {
    let log = ["--log-bin=bin", "--binlog-format=ROW", "--log-slave-updates=1"];
    let [primary, replica] =
        ["--server-id=1", "--server-id=2"].map(|id| Server::start_with(&[&log[..], &[id]].concat()));
    primary.sql(
        "CREATE USER repl@localhost IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE ON *.* TO repl@localhost; CREATE DATABASE shop; USE shop; \
         CREATE TABLE a (id int AUTO_INCREMENT PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY, v int); INSERT INTO b VALUES (1, 0)",
    );
    replica.sql(&format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='repl', MASTER_PASSWORD='r', MASTER_USE_GTID=no; START SLAVE",
        primary.port
    ));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, mut connection) = (Arc::clone(&stop), primary.connect(Purpose::Statements).await);
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                for sql in
                    ["START TRANSACTION", "INSERT INTO shop.a (v) VALUES (1)", "UPDATE shop.b SET v = v + 1", "COMMIT"]
                {
                    connection.execute(sql).await.expect("written");
                }
            }
        })
    };
    replica.wait("SELECT COUNT(*) > 100 FROM shop.a", "1");
    let mut sets = Vec::new();
    for _ in 0..6 {
        let store = MemoryStore::new();
        let dumped = back_up(&replica.url("shop"), &store).await.expect("backed up");
        let detail: SetDetail = Set::of(&store, &dumped).await.detail();
        sets.push((store, detail));
    }
    // An account that may not see it says so in the set.
    let (user, store) = ("backup", MemoryStore::new());
    replica.sql(
        "SET SESSION sql_log_bin = 0; CREATE USER backup; GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES ON shop.* TO backup; \
         GRANT RELOAD, BINLOG MONITOR ON *.* TO backup; GRANT SELECT ON mysql.proc TO backup",
    );
    for (grant, noted) in [("USAGE", 1), ("REPLICA MONITOR", 0)] {
        replica.sql(&format!("SET SESSION sql_log_bin = 0; GRANT {grant} ON *.* TO backup"));
        let dumped = back_up(&replica.socket(user, "shop"), &store).await.expect("backed up");
        let detail: SetDetail = Set::of(&store, &dumped).await.detail();
        let notes = detail.taken.notes.iter().filter(|note| note.contains("REPLICA MONITOR")).count();
        assert_eq!((notes, detail.taken.sources.len()), (noted, 1 - noted), "{:?}", detail.taken);
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.expect("it wrote");
    let last = primary.sql("SELECT MAX(id) FROM shop.a");
    replica.wait("SELECT MAX(id) FROM shop.a", &last);
    let (expected, mut rows) = (everything(&primary, "shop"), Vec::new());
    for (store, detail) in sets {
        let [source] = detail.taken.sources.as_slice() else { panic!("{:?}", detail.taken) };
        assert_eq!((source.port, source.host.as_str()), (primary.port, "127.0.0.1"));
        let own = detail.taken.position.as_ref().and_then(|position| position.binlog.clone()).expect("its own");
        for (from, place) in [(&primary, &source.binlog), (&replica, &own)] {
            let to = Server::start();
            recover(&vault(&store), &to.url("shop"), &how()).await.expect("restored");
            rows.push(to.sql("SELECT COUNT(*) FROM shop.a"));
            replay(from, place, &to);
            is_the_same(&everything(&to, "shop"), &expected);
        }
    }
    rows.dedup();
    assert!(rows.len() > 3, "it was written to meanwhile: {rows:?}");
}

/// Each transaction of the load adds one row, so that the rows of a set are the number of its last transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_of_mysql_8_with_gtids_has_both_positions_to_the_transaction() {
    let gtid = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=bin"];
    let start = |id: &str| crate::mysql8::start_with(&[&gtid[..], &[id]].concat());
    let (Some(primary), Some(replica)) = (start("--server-id=1"), start("--server-id=2")) else { return };
    primary.sql(
        "CREATE USER repl@localhost IDENTIFIED WITH mysql_native_password BY 'r'; GRANT REPLICATION SLAVE ON *.* TO repl@localhost; \
         CREATE DATABASE shop; CREATE TABLE shop.a (id int AUTO_INCREMENT PRIMARY KEY, v int)",
    );
    let executed = primary.sql("SELECT @@GLOBAL.gtid_executed");
    let (server, before) = executed.rsplit_once('-').expect("a set of one server");
    let before: u64 = before.parse().expect("a number");
    replica.sql(&format!(
        "CHANGE MASTER TO MASTER_HOST='localhost', MASTER_PORT={}, MASTER_USER='repl', MASTER_PASSWORD='r', MASTER_AUTO_POSITION=1; \
         START SLAVE",
        primary.port
    ));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, mut connection) = (Arc::clone(&stop), primary.connect(Purpose::Statements).await);
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                connection.execute("INSERT INTO shop.a (v) VALUES (1)").await.expect("written");
            }
        })
    };
    replica.wait("SELECT COUNT(*) > 100 FROM shop.a", "1");
    let mut sets = Vec::new();
    for _ in 0..6 {
        let store = MemoryStore::new();
        let dumped = back_up(&replica.url("shop"), &store).await.expect("backed up");
        sets.push((Set::of(&store, &dumped).await, store));
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.expect("it wrote");
    let mut rows = Vec::new();
    for (set, store) in &sets {
        let taken = set.detail::<SetDetail>().taken;
        let to = format!("copy_{}", rows.len());
        recover(&vault(store), &primary.url(&to), &how()).await.expect("restored");
        let count: u64 = primary.sql(&format!("SELECT COUNT(*) FROM {to}.a")).parse().expect("a number");
        let position = taken.position.expect("a position");
        assert_eq!(position.gtid, Some(format!("{server}-{}", before + count)), "{:?}", position);
        let [source] = taken.sources.as_slice() else { panic!("{:?}", taken.sources) };
        let BinlogPlace { file, offset } = &source.binlog;
        let next = primary.sql(&format!("SHOW BINLOG EVENTS IN '{file}' FROM {offset} LIMIT 1"));
        let uuid = server.split(':').next().expect("an identity");
        assert!(next.contains(&format!("SET @@SESSION.GTID_NEXT= '{uuid}:{}'", before + count + 1)), "{count}: {next}");
        rows.push(count);
    }
    rows.dedup();
    assert!(rows.len() > 3, "it was written to meanwhile: {rows:?}");
}
