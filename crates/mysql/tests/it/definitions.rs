//! Definitions that change behind the snapshot: the server refuses to read such a table (error 1412).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use seawall_archive::Catalog;
use seawall_core::{Failure, Kind, NoProgress};
use seawall_mysql::{DumpOptions, Limits, World, dump};
use seawall_testing::{Forwarding, Hooks};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Policy, Vault};

use crate::link::make_small;
use crate::restoring::{environment, everything, is_the_same, options, recover};
use crate::server::{Server, target};

/// The statement for the change of a number.
type Change = fn(u32) -> String;

/// Changes a table whenever an object is written, some times.
struct Changes {
    server: Arc<Server>,
    sql: Change,
    left: AtomicU32,
    done: AtomicU32,
}

#[derive(Clone)]
struct Changing(Arc<Changes>);

impl std::fmt::Debug for Changing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changing").finish_non_exhaustive()
    }
}

#[async_trait]
impl Hooks for Changing {
    async fn before_put(&self, _key: &ObjectKey, _body: &Bytes) -> bool {
        let Changes { server, sql, left, done } = &*self.0;
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            let number = done.fetch_add(1, Ordering::SeqCst);
            server.sql(&sql(number));
        }
        true
    }
}

/// A vault whose objects change tables, so many times.
fn changing(server: &Arc<Server>, times: u32, sql: Change) -> (Arc<Changes>, Vault) {
    let (server, left, done) = (Arc::clone(server), AtomicU32::new(times), AtomicU32::new(0));
    let changes = Arc::new(Changes { server, sql, left, done });
    let store = Forwarding { inner: MemoryStore::new(), hooks: Changing(Arc::clone(&changes)) };
    (changes, Vault::new(Arc::new(store), Policy { seed: 1, ..Policy::default() }))
}

async fn back_up(server: &Server, user: &str, vault: &Vault) -> Result<(), Failure> {
    // One connection: it reads the large table first, and the changing table behind it.
    let options =
        DumpOptions { limits: Limits { jobs: 1, memory: 24 << 20, ..Limits::default() }, ..DumpOptions::default() };
    let world = World::real(environment());
    Ok(dump(&target(&server.socket(user, "shop")), vault, &options, &world, Arc::new(NoProgress)).await.map(drop)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_changes_behind_the_snapshot_is_read_anew_and_named_if_it_never_stands_still() {
    let server = Arc::new(Server::start());
    make_small(&server);
    server.sql(
        "USE shop; CREATE TABLE big (id int PRIMARY KEY, filler blob); \
         INSERT INTO big SELECT seq, RANDOM_BYTES(900) FROM seq_1_to_40000; ANALYZE TABLE big",
    );
    for (times, succeeds) in [(1, true), (2, true), (u32::MAX, false)] {
        let (changes, vault) = changing(&server, times, |number| {
            format!("ALTER TABLE shop.a ADD COLUMN c{number} int DEFAULT {number}, FORCE")
        });
        let backed_up = back_up(&server, "root", &vault).await;
        if !succeeds {
            let failure = backed_up.expect_err("it never stands still");
            // The last change hits the third attempt while it reads definitions, or while it reads rows.
            let Failure { kind, code, object, .. } = &failure;
            let reading = (*kind, *code, &**object) == (Kind::Unavailable, "mysql.conflict", "shop.a")
                && failure.cause.contains("1412");
            let beginning = (*kind, *code, &**object) == (Kind::Refused, "mysql.changing", "table shop.a");
            assert!((reading || beginning) && failure.next.contains("no definition"), "{failure:?}");
            assert!(changes.done.load(Ordering::SeqCst) >= 3);
            assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
            changes.left.store(0, Ordering::SeqCst);
            back_up(&server, "root", &vault).await.expect("backed up");
        } else {
            backed_up.expect("begun anew");
            assert_eq!(changes.done.load(Ordering::SeqCst), times);
        }
        let before = everything(&server, "shop");
        recover(&vault, &server.url("copy"), &options()).await.expect("restored");
        is_the_same(&everything(&server, "copy"), &before);
        server.sql("DROP DATABASE copy; ALTER TABLE shop.a DROP COLUMN IF EXISTS c0, DROP COLUMN IF EXISTS c1");
        server.sql("DROP TABLE IF EXISTS shop.b; DROP TABLE shop.a; CREATE TABLE shop.a (id int PRIMARY KEY, v text); INSERT INTO shop.a VALUES (1, 'x')");
    }
}

/// Tables and columns that exchange their names: the server goes on to read them, and gives the other's values.
async fn exchanged(server: Server, user: &str) {
    let server = Arc::new(server);
    let ten = "(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)";
    server.sql(&format!(
        "CREATE DATABASE shop; USE shop; CREATE TABLE x (id int PRIMARY KEY, v int, w int); INSERT INTO x VALUES (1, 2, 3); \
         CREATE TABLE big (id int PRIMARY KEY, filler blob); \
         INSERT INTO big SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n, CONCAT(RANDOM_BYTES(900), RANDOM_BYTES(900), RANDOM_BYTES(900)) \
         FROM {ten} a, {ten} b, {ten} c, {ten} d; \
         CREATE TABLE y LIKE x; INSERT INTO y VALUES (4, 5, 6); CREATE TABLE x_0 (id int PRIMARY KEY); INSERT INTO x_0 VALUES (1), (2); \
         CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20)); \
         INSERT INTO parts VALUES (3), (13); ANALYZE TABLE big; DO SLEEP(1)"
    ));
    let of_tables = |_| "RENAME TABLE shop.x TO shop.z, shop.y TO shop.x, shop.z TO shop.y".to_owned();
    let of_columns = |_| "ALTER TABLE shop.x CHANGE v w int, CHANGE w v int".to_owned();
    let of_partitions = |_| "ALTER TABLE shop.parts EXCHANGE PARTITION p0 WITH TABLE shop.x_0".to_owned();
    let all: [(Change, u32); 3] = [(of_tables, 2), (of_columns, 2), (of_partitions, 1)];
    for (sql, most) in all {
        for times in 1..=most {
            let (changes, vault) = changing(&server, times, sql);
            back_up(&server, user, &vault).await.expect("begun anew");
            assert_eq!(changes.done.load(Ordering::SeqCst), times);
            recover(&vault, &server.url("copy"), &options()).await.expect("restored");
            is_the_same(&everything(&server, "copy"), &everything(&server, "shop"));
            server.sql("DROP DATABASE copy");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_columns_and_partitions_that_are_exchanged_are_read_anew() {
    exchanged(Server::start(), "root").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_columns_and_partitions_of_mysql_8_that_are_exchanged_are_read_anew() {
    let Some(server) = crate::mysql8::start() else { return };
    // An account that may hold up changes of definitions would have them wait.
    server.sql("CREATE USER plain; GRANT ALL ON *.* TO plain; REVOKE BACKUP_ADMIN ON *.* FROM plain");
    exchanged(server, "plain").await;
}
