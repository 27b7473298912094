//! Settings of the server, of `init_connect` and of the owner don't change what a session does.

use seawall_mysql::testing::{Connection, Purpose};

use crate::server::{Server, target};

#[tokio::test]
async fn a_session_has_our_settings_whatever_the_server_has() {
    let server = Server::start_with(&[
        "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,STRICT_ALL_TABLES",
        "--init-connect=SET autocommit = 0, sql_select_limit = 1, sql_quote_show_create = 0, time_zone = '+05:00', sql_safe_updates = 1; START TRANSACTION; SET NAMES latin1",
        "--max-statement-time=1",
        "--default-time-zone=+03:00",
        "--lock-wait-timeout=1",
        "--net-write-timeout=1",
        "--wait-timeout=1",
        "--old-mode=UTF8_IS_UTF8MB3",
        "--transaction-isolation=READ-UNCOMMITTED",
        "--idle-transaction-timeout=1",
    ]);
    server.sql(
        "CREATE USER plain; CREATE DATABASE d; CREATE TABLE d.t (i int) WITH SYSTEM VERSIONING; GRANT ALL ON d.* TO plain; \
         INSERT INTO d.t VALUES (1), (2); SET GLOBAL system_versioning_asof = '2001-01-01'",
    );
    for purpose in [Purpose::Statements, Purpose::Rows, Purpose::Load] {
        let url = server.tcp("plain", "");
        let mut connection = Connection::open_for(&target(&url), purpose).await.expect("connected");
        let row = connection
            .one(
                "SELECT @@autocommit, @@in_transaction, @@sql_mode, @@time_zone, @@max_statement_time + 0, @@lock_wait_timeout, \
                 @@net_write_timeout, @@wait_timeout, @@old_mode, @@tx_isolation, @@idle_transaction_timeout, \
                 @@sql_quote_show_create, @@character_set_client, @@character_set_connection, @@character_set_results",
            )
            .await
            .expect("asked");
        let values: Vec<&str> = (0..14).map(|column| row.text(column)).collect();
        let year = "31536000";
        let expected = [
            "1",
            "0",
            "NO_AUTO_VALUE_ON_ZERO",
            "+00:00",
            "0.000000",
            "60",
            "3600",
            year,
            "",
            "REPEATABLE-READ",
            "0",
            "1",
            "utf8mb4",
            "utf8mb4",
        ];
        assert_eq!(values, expected, "{purpose:?}");
        assert_eq!(row.optional(14), (purpose != Purpose::Rows).then_some("utf8mb4"));
        assert_eq!(connection.query("SELECT * FROM d.t").await.expect("rows").len(), 2, "all rows, as of now");
        connection.close().await;
    }
}
