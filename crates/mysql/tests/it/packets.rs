//! Rows that are larger than `max_allowed_packet`, of the source and of the target.

use seawall_archive::Catalog;
use seawall_core::Kind;
use seawall_mysql::RestoreOptions;
use seawall_vault::memory::MemoryStore;

use crate::restoring::{backup, everything, is_the_same, options, recover, unfinished};
use crate::server::Server;
use crate::support::vault;

/// Rows of 20 MiB, and a limit of 1 MiB behind them.
const LARGE: &str = "CREATE DATABASE shop; USE shop; CREATE TABLE large (id int PRIMARY KEY, b longblob, j json); \
    INSERT INTO large VALUES (1, REPEAT('a\\0\\n', 7000000), '{}'), (2, '', CONCAT('[\"', REPEAT('ä', 9000000), '\"]')), (3, NULL, NULL); \
    CREATE TABLE small (id int PRIMARY KEY); INSERT INTO small VALUES (1), (2)";
const LIMIT: &str = "SET GLOBAL max_allowed_packet = 1048576";

/// The rows, as sums.
fn sums(server: &Server, database: &str) -> String {
    server.sql(&format!(
        "SELECT id, LENGTH(b), CRC32(b), LENGTH(j), CRC32(j) FROM {database}.large ORDER BY id; SELECT COUNT(*) FROM {database}.small"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_above_the_limit_of_both_servers_come_back() {
    let (from, to) = (Server::start(), Server::start());
    from.sql(LARGE);
    let (before, rows) = (everything(&from, "shop"), sums(&from, "shop"));
    from.sql(LIMIT);
    to.sql(LIMIT);
    let vault = vault(&MemoryStore::new());
    backup(&from.url("shop"), &vault).await.expect("backed up");
    // By INSERT each row is one statement: that is told before anything is written.
    to.sql("SET GLOBAL local_infile = OFF");
    let failure = recover(&vault, &to.url("copy"), &options()).await.expect_err("too large");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "mysql.not-ready"));
    assert!(
        failure.cause.contains("a row of large") && failure.next.contains("SET GLOBAL max_allowed_packet"),
        "{failure:?}"
    );
    assert_eq!(unfinished(&to), "");
    to.sql("SET GLOBAL local_infile = ON");
    recover(&vault, &to.url("copy"), &options()).await.expect("restored");
    assert_eq!(sums(&to, "copy"), rows);
    to.sql("SET GLOBAL max_allowed_packet = 67108864");
    is_the_same(&everything(&to, "copy"), &before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_json_value_above_the_limit_of_mysql_8_is_never_read_as_empty_and_comes_back_behind_a_change() {
    let (Some(from), Some(to)) = (crate::mysql8::start(), crate::mysql8::start()) else { return };
    from.sql(LARGE);
    let rows = sums(&from, "shop");
    from.sql(LIMIT);
    to.sql(LIMIT);
    let vault = vault(&MemoryStore::new());
    // The server tells the value as an empty text, with a warning.
    let failure = backup(&from.url("shop"), &vault).await.expect_err("it can't be read");
    assert_eq!((failure.kind, failure.code, &*failure.object), (Kind::Refused, "mysql.packet", "shop.large"));
    assert!(failure.next.contains("raise max_allowed_packet"), "{failure:?}");
    assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
    from.sql("SET GLOBAL max_allowed_packet = 67108864");
    backup(&from.url("shop"), &vault).await.expect("backed up");
    let dry_run = RestoreOptions { dry_run: true, ..options() };
    let plan = recover(&vault, &to.url("copy"), &dry_run).await.expect("a plan");
    assert!(plan.doubts.iter().any(|doubt| doubt.contains("a row of large")), "{:?}", plan.doubts);
    // Only the server knows which value it is. The restore goes on behind the change.
    let failure = recover(&vault, &to.url("copy"), &options()).await.expect_err("too large");
    assert_eq!(failure.kind, Kind::Refused, "{failure:?}");
    assert!(failure.next.contains("max_allowed_packet") && failure.next.contains("goes on"), "{failure:?}");
    to.sql("SET GLOBAL max_allowed_packet = 67108864");
    let restored = recover(&vault, &to.url("copy"), &options()).await.expect("restored");
    assert!(restored.resumed);
    assert_eq!(sums(&to, "copy"), rows);
}
