//! An application for the demo. It commits to a real SQLite database and records the state after each commit, so that a
//! restored database can be compared with a recorded state.

use std::hash::{DefaultHasher, Hasher as _};
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};
use seawall_core::{Failure, Kind};

/// A state of the database: the number of commits, and a digest over every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) commits: u64,
    pub(crate) digest: u64,
}

/// The application.
#[derive(Debug)]
pub(crate) struct Writer {
    connection: Connection,
    path: String,
    states: Vec<State>,
}

impl Writer {
    /// Makes a database.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let path = path.display().to_string();
        let connection = Connection::open(&path).and_then(|connection| {
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", "normal")?;
            connection.busy_timeout(std::time::Duration::from_secs(5))?;
            connection.execute_batch(
                "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, cents INTEGER);
                 CREATE TABLE totals (orders INTEGER, cents INTEGER);
                 INSERT INTO totals VALUES (0, 0);",
            )?;
            Ok(connection)
        });
        let connection = connection.map_err(|error| broken(&path, &error))?;
        Ok(Self { connection, path, states: vec![State { commits: 0, digest: 0 }] })
    }

    /// Commits one order, and the totals that belong to it.
    pub(crate) fn commit(&mut self) -> Result<(), Failure> {
        let last = self.state();
        let id = last.commits + 1;
        let (customer, cents) = (format!("customer {}", id % 97), id.wrapping_mul(7919) % 100_000);
        let write = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            transaction
                .execute("INSERT INTO orders VALUES (?1, ?2, ?3)", params![id as i64, customer, cents as i64])?;
            transaction.execute("UPDATE totals SET orders = orders + 1, cents = cents + ?1", [cents as i64])?;
            transaction.commit()
        };
        write(&mut self.connection).map_err(|error| broken(&self.path, &error))?;
        self.states.push(State { commits: id, digest: chain(last.digest, id, &customer, cents) });
        Ok(())
    }

    /// The present state.
    pub(crate) fn state(&self) -> State {
        self.states.last().copied().unwrap_or(State { commits: 0, digest: 0 })
    }

    /// Whether the database ever held exactly `state`.
    pub(crate) fn was(&self, state: State) -> bool {
        usize::try_from(state.commits).ok().and_then(|index| self.states.get(index)) == Some(&state)
    }
}

/// Reads a restored database. Runs SQLite's own check, reads every order, and compares the totals with the orders.
pub(crate) fn read(path: &Path) -> Result<State, Failure> {
    let name = path.display().to_string();
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let (state, cents, totals, check) =
        connection.and_then(|connection| inspect(&connection)).map_err(|error| broken(&name, &error))?;
    if check != "ok" {
        return Err(differs(&name, &format!("SQLite finds it damaged: {check}")));
    }
    if totals != (state.commits, cents) {
        return Err(differs(&name, "it holds half a commit: totals and orders don't agree"));
    }
    Ok(state)
}

type Inspected = (State, u64, (u64, u64), String);

fn inspect(connection: &Connection) -> rusqlite::Result<Inspected> {
    let check = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let totals: (i64, i64) =
        connection.query_row("SELECT orders, cents FROM totals", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut statement = connection.prepare("SELECT id, customer, cents FROM orders ORDER BY id")?;
    let mut rows = statement.query([])?;
    let (mut state, mut sum) = (State { commits: 0, digest: 0 }, 0_u64);
    while let Some(row) = rows.next()? {
        let (id, customer, cents): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (id, cents) = (id.cast_unsigned(), cents.cast_unsigned());
        state = State { commits: state.commits + 1, digest: chain(state.digest, id, &customer, cents) };
        sum = sum.wrapping_add(cents);
    }
    Ok((state, sum, (totals.0.cast_unsigned(), totals.1.cast_unsigned()), check))
}

fn chain(before: u64, id: u64, customer: &str, cents: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(before);
    hasher.write_u64(id);
    hasher.write(customer.as_bytes());
    hasher.write_u64(cents);
    hasher.finish()
}

fn broken(path: &str, error: &rusqlite::Error) -> Failure {
    Failure::new(Kind::Unavailable, "demo.sqlite", path, error.to_string(), "check that there is space in this folder")
}

/// The demo's verdict when something isn't as it must be.
pub(crate) fn differs(object: &str, cause: &str) -> Failure {
    Failure::new(
        Kind::Corrupt,
        "demo.differs",
        object,
        cause,
        "please report this, with the folders that the demo made",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_recognised_and_a_forgery_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("app.db");
        let mut writer = Writer::create(&path).expect("a database");
        for _ in 0..10 {
            writer.commit().expect("a commit");
        }
        assert_eq!(read(&path).expect("a state"), writer.state());
        assert!(writer.was(State { commits: 0, digest: 0 }));
        assert!(writer.was(writer.state()));
        assert!(!writer.was(State { commits: 10, digest: 1 }));
        assert!(!writer.was(State { commits: 11, digest: writer.state().digest }));
        let connection = Connection::open(&path).expect("a connection");
        connection.execute("UPDATE orders SET customer = 'nobody' WHERE id = 3", []).expect("an update");
        assert!(!writer.was(read(&path).expect("a state")));
        connection.execute("DELETE FROM orders WHERE id = 10", []).expect("a deletion");
        assert_eq!(read(&path).map_err(|failure| failure.code), Err("demo.differs"));
    }
}
