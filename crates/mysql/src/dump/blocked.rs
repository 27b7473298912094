//! Who holds up a lock? Looked at before a global lock is asked for, because everybody else would wait behind it, and after a lock
//! wasn't free in time.

use crate::Error;
use crate::client::{Connection, Row};

/// A statement that has run for so many seconds is one that a global lock would wait for.
pub(crate) const LONG: u64 = 3;

/// The most letters of a statement that are told.
const SHOWN: usize = 120;

/// A session of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    id: u64,
    user: String,
    command: String,
    seconds: u64,
    statement: String,
}

impl Session {
    fn of(row: &Row) -> Self {
        Self {
            id: row.number(0),
            user: row.lossy(1),
            command: row.text(2).to_owned(),
            // A thread of replication may have a negative time.
            seconds: row.number(3),
            statement: row.lossy(4),
        }
    }
}

/// The session whose statement has run longest, at least `seconds`, without ours and the server's own. Pure.
pub(crate) fn longest<'a>(sessions: &'a [Session], ours: &[u32], seconds: u64) -> Option<&'a Session> {
    let is_idle = |command: &str| {
        matches!(command, "Sleep" | "Daemon" | "Connect" | "Binlog Dump" | "Binlog Dump GTID" | "Killed" | "Error")
            || command.starts_with("Slave_")
    };
    let counts = |session: &&Session| {
        !is_idle(&session.command)
            && !matches!(&*session.user, "system user" | "event_scheduler" | "unauthenticated user")
            && !session.statement.is_empty()
            && session.seconds >= seconds
            && !ours.iter().any(|id| u64::from(*id) == session.id)
    };
    sessions.iter().filter(counts).max_by_key(|session| (session.seconds, std::cmp::Reverse(session.id)))
}

/// What is told of a session. Pure.
fn told(session: &Session) -> String {
    let mut statement: String = session.statement.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = statement.char_indices().nth(SHOWN) {
        statement.truncate(end);
        statement.push('…');
    }
    let Session { id, user, seconds, .. } = session;
    match statement.is_empty() {
        true => format!("session {id} of user {user} has had a transaction open for {seconds} s"),
        false => format!("session {id} of user {user} has run for {seconds} s: {statement}"),
    }
}

/// The failure of a lock that isn't free. Pure.
pub(crate) fn failure(server: &str, lock: &str, by: Option<&Session>) -> Error {
    let (cause, next) = match by {
        Some(session) => (
            format!("{lock} isn't free: {}", told(session)),
            format!("wait until it ends, or KILL {}, then start again", session.id),
        ),
        None => (
            format!("{lock} isn't free, and no session that this account sees holds it up"),
            "GRANT PROCESS to the account to have the session named, or look with SHOW PROCESSLIST, then start again"
                .to_owned(),
        ),
    };
    Error::Blocked { object: server.to_owned(), cause, next }
}

/// The sessions that the account sees.
pub(crate) async fn sessions(connection: &mut Connection) -> Result<Vec<Session>, Error> {
    let sql = "SELECT id, user, command, time, info FROM information_schema.processlist";
    Ok(connection.query(sql).await?.iter().map(Session::of).collect())
}

/// The session that most likely holds up a lock: the longest statement, or else the oldest transaction.
pub(crate) async fn holder(connection: &mut Connection, ours: &[u32]) -> Option<Session> {
    let all = sessions(connection).await.ok()?;
    if let Some(session) = longest(&all, ours, 1) {
        return Some(session.clone());
    }
    let sql = "SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()) FROM information_schema.innodb_trx \
               WHERE trx_mysql_thread_id <> 0 ORDER BY trx_started";
    // Without the right to see transactions, the statements alone tell.
    let transactions = connection.query(sql).await.unwrap_or_default();
    let oldest = transactions.iter().find(|row| !ours.iter().any(|id| u64::from(*id) == row.number(0)));
    let of = oldest.and_then(|row| all.iter().find(|session| session.id == row.number(0)).zip(Some(row.number(1))));
    match of {
        Some((session, seconds)) => Some(Session { seconds, ..session.clone() }),
        None => longest(&all, ours, 0).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64, user: &str, command: &str, seconds: u64, statement: &str) -> Session {
        Session { id, user: user.into(), command: command.into(), seconds, statement: statement.into() }
    }

    #[test]
    fn the_longest_statement_of_another_session() {
        let all = [
            session(1, "system user", "Slave_SQL", 900, "waiting"),
            session(2, "app", "Sleep", 800, ""),
            session(3, "app", "Query", 5, "SELECT 1"),
            session(4, "us", "Query", 50, "SELECT 2"),
            session(5, "app", "Execute", 7, "UPDATE x"),
            session(6, "replica", "Binlog Dump", 999, "x"),
        ];
        for (ours, seconds, expected) in
            [(&[4][..], 3, Some(5)), (&[4, 5], 3, Some(3)), (&[4, 5], 6, None), (&[], 3, Some(4))]
        {
            assert_eq!(longest(&all, ours, seconds).map(|session| session.id), expected);
        }
    }

    #[test]
    fn the_failure_names_statement_and_user() {
        let long = format!("SELECT\n  '{}'", "é".repeat(500));
        let by = session(7, "report", "Query", 120, &long);
        let Error::Blocked { cause, next, .. } = failure("s", "the global read lock", Some(&by)) else {
            panic!("another")
        };
        assert!(
            cause.starts_with("the global read lock isn't free: session 7 of user report has run for 120 s: SELECT 'é")
        );
        assert!(cause.chars().count() < 300 && cause.ends_with('…'));
        assert!(next.contains("KILL 7"));
        assert!(told(&session(7, "u", "Sleep", 9, "")).contains("transaction open for 9 s"));
        assert!(failure("s", "l", None).to_string().contains("no session"));
    }
}
