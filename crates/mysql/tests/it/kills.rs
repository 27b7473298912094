//! Connections and servers that end in the middle.

use seawall_core::{Failure, Kind};
use seawall_mysql::testing::{Filled, Purpose};

use crate::server::Server;

const ROWS: &str = "SELECT seq, REPEAT('x', 1000) FROM mysql.seq_1_to_1000000";

#[tokio::test]
async fn a_session_that_is_killed_while_rows_come_says_so() {
    let server = Server::start();
    let mut connection = server.connect(Purpose::Rows).await;
    let id = connection.connection_id;
    let mut rows = connection.rows(ROWS).await.expect("rows");
    let mut buffer = Vec::with_capacity(1 << 20);
    rows.fill(&mut buffer).await.expect("filled");
    server.sql(&format!("KILL {id}"));
    let error = loop {
        buffer.clear();
        match rows.fill(&mut buffer).await {
            Ok((filled, _)) => assert_ne!(filled, Filled::Done, "the rows are not all"),
            Err(error) => break Failure::from(error),
        }
    };
    assert_eq!(error.kind, Kind::Unavailable, "{error:?}");
    assert!(["mysql.connection", "mysql.away", "mysql.cancelled"].contains(&error.code), "{error:?}");
}

#[tokio::test]
async fn a_session_that_is_killed_between_statements_says_so() {
    let server = Server::start();
    let mut connection = server.connect(Purpose::Statements).await;
    server.sql(&format!("KILL {}", connection.connection_id));
    server.wait("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()", "0");
    let failure = Failure::from(connection.query("SELECT 1").await.expect_err("killed"));
    assert_eq!(failure.kind, Kind::Unavailable, "{failure:?}");
}

#[tokio::test]
async fn a_server_that_is_killed_ends_rows_and_loads_with_an_error() {
    let mut server = Server::start();
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (x text)");
    let (mut reader, mut loader) = (server.connect(Purpose::Rows).await, server.connect(Purpose::Load).await);
    let mut rows = reader.rows(ROWS).await.expect("rows");
    let mut load = loader.load("LOAD DATA LOCAL INFILE 'seawall' INTO TABLE d.t").await.expect("begun");
    load.send(b"a\n".to_vec()).await.expect("sent");
    server.kill_9();
    let mut buffer = Vec::with_capacity(1 << 20);
    let read = loop {
        buffer.clear();
        match rows.fill(&mut buffer).await {
            Ok((filled, _)) => assert_ne!(filled, Filled::Done, "the rows are not all"),
            Err(error) => break Failure::from(error),
        }
    };
    assert_eq!((read.kind, read.code), (Kind::Unavailable, "mysql.connection"), "{read:?}");
    let loaded = Failure::from(load.finish().await.expect_err("killed"));
    assert_eq!((loaded.kind, loaded.code), (Kind::Unavailable, "mysql.connection"), "{loaded:?}");
}

/// Gives loads up on a server, within a transaction and without one.
pub(crate) async fn give_loads_up(server: &Server) {
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (x text)");
    let sql = "LOAD DATA LOCAL INFILE 'seawall' INTO TABLE d.t LINES TERMINATED BY '\\n'";
    for (transaction, aborts) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut connection = server.connect(Purpose::Load).await;
        let id = connection.connection_id;
        if transaction {
            connection.execute("START TRANSACTION").await.expect("begun");
        }
        let mut load = connection.load(sql).await.expect("begun");
        load.send(b"a\n".repeat(1 << 16)).await.expect("sent");
        if aborts {
            load.abort().await;
        }
        drop(connection);
        server.wait(&format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id}"), "0");
        assert_eq!(server.sql("SELECT COUNT(*) FROM d.t"), "0", "{transaction} {aborts}");
    }
}

#[tokio::test]
async fn a_load_that_is_given_up_leaves_nothing() {
    give_loads_up(&Server::start()).await;
}

#[tokio::test]
async fn closed_sessions_are_gone_on_return() {
    let server = Server::start();
    let connection = server.connect(Purpose::Statements).await;
    let id = connection.connection_id;
    connection.close().await;
    server.wait(&format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id}"), "0");
}
