//! A server behind a cable that a test cuts or stalls, and the small database of tests that end runs anywhere.

use seawall_core::{Failure, Kind};
use seawall_testing::Cable;

use crate::server::Server;

/// A cable to a server's socket, and the folder in which its other end is.
pub(crate) struct Link {
    folder: tempfile::TempDir,
    pub(crate) cable: Cable,
}

/// Whether a client's bytes begin a statement: the first packet of a command, and the command is a query.
fn is_statement(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, _, 0, 3, ..])
}

impl Link {
    pub(crate) fn to(server: &Server) -> Self {
        let folder = tempfile::Builder::new().prefix("cable").tempdir().expect("a folder");
        let cable = Cable::new(&folder.path().join("s.sock"), server.file("s.sock").as_ref(), is_statement);
        Self { folder, cable }
    }

    /// The URL of a database through the cable, as the superuser.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("mysql://root@localhost/{database}?socket={}", self.folder.path().join("s.sock").display())
    }
}

/// Random numbers that can be repeated.
pub(crate) fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(seawall_testing::seed())
}

/// Whether a failure says that the connection broke.
pub(crate) fn broke(failure: &Failure) -> bool {
    failure.kind == Kind::Unavailable && ["mysql.connection", "mysql.away", "mysql.cancelled"].contains(&failure.code)
}

/// A small database with tables of engines with and without transactions, and objects of each kind.
const SMALL: &str = "CREATE DATABASE shop; USE shop; \
    CREATE TABLE a (id int AUTO_INCREMENT PRIMARY KEY, v text, KEY (v(9))); INSERT INTO a (v) VALUES ('x'), ('y'), (NULL); \
    CREATE TABLE b (id int PRIMARY KEY, a int, FOREIGN KEY (a) REFERENCES a (id)); INSERT INTO b VALUES (7, 2), (8, 3); \
    CREATE TABLE no_key (v varchar(9)); INSERT INTO no_key VALUES ('p'), ('p'), ('q'); \
    CREATE TABLE plain (id int PRIMARY KEY, v blob) ENGINE=MyISAM; INSERT INTO plain VALUES (1, 0x00FF), (2, ''); \
    CREATE VIEW w AS SELECT v FROM a; CREATE FUNCTION f() RETURNS int DETERMINISTIC RETURN 1; \
    CREATE TRIGGER t BEFORE INSERT ON no_key FOR EACH ROW SET NEW.v = 'changed'; \
    CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DO DO 1";

/// Makes the small database.
pub(crate) fn make_small(server: &Server) {
    server.sql(SMALL);
}

/// Insists that no session of ours is left, nor a lock that anybody would meet.
pub(crate) fn nothing_is_held(server: &Server) {
    let left = "SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID() \
                AND user NOT IN ('system user', 'event_scheduler') AND command <> 'Daemon'";
    server.wait(left, "0");
    // Every write and every change of a definition meets one of these.
    server.sql(
        "SET SESSION lock_wait_timeout = 1; LOCK TABLES shop.a WRITE, shop.b WRITE, shop.no_key WRITE, shop.plain WRITE; \
         UNLOCK TABLES",
    );
    assert_eq!(server.sql("SELECT COUNT(*) FROM information_schema.innodb_trx"), "0");
}
