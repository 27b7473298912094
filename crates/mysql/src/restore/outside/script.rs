//! Reads a script statement by statement, and refuses what no script of one database has.

use futures::StreamExt as _;
use seawall_core::{Failure, Kind, Progress};
use seawall_dumps::Pieces;

use crate::Error;
use crate::schema::meant::{Judge, Meant, Modes, NOT_OF_A_DUMP, Server};
use crate::schema::script::{LARGEST, Refusal, Scanner};

/// A script that is read statement by statement.
pub(super) struct Script {
    pieces: futures::stream::BoxStream<'static, Result<Vec<u8>, Failure>>,
    pub(super) object: String,
    scanner: Scanner,
    limit: usize,
    judge: Judge,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
    /// The database that it says it is of.
    database: Option<String>,
    /// Statements so far.
    pub(super) statements: u64,
    /// Whether a server says how large a statement may be.
    has_server: bool,
}

impl Script {
    /// A script that no server runs.
    pub(super) fn new(pieces: Pieces) -> Self {
        Self::with(pieces, None, LARGEST)
    }

    /// A script that a server runs, which takes statements of less than `limit` bytes.
    pub(super) fn of(pieces: Pieces, server: Server, limit: u64) -> Self {
        Self::with(pieces, Some(server), usize::try_from(limit).unwrap_or(usize::MAX))
    }

    fn with(pieces: Pieces, server: Option<Server>, limit: usize) -> Self {
        let object = pieces.object().to_owned();
        Self {
            pieces: pieces.stream(),
            object,
            scanner: Scanner::with_limit(limit),
            limit,
            judge: Judge::new(server),
            piece: Vec::new(),
            at: 0,
            ended: false,
            database: None,
            statements: 0,
            has_server: server.is_some(),
        }
    }

    /// The line at hand, from 1.
    pub(super) fn line(&self) -> u64 {
        self.scanner.number()
    }

    /// What quotes mean behind the statement that was returned last.
    pub(super) fn modes(&self) -> Modes {
        self.judge.modes()
    }

    /// The next statement, with its meaning; `None` at the end of a script that is whole.
    pub(super) async fn next(&mut self, progress: &dyn Progress) -> Result<Option<(Vec<u8>, Meant)>, Error> {
        loop {
            if let Some(statement) = self.scanner.statement().map_err(|refusal| self.refused(&refusal))? {
                let meant = self.judge.judge(&statement);
                self.scanner.modes = self.judge.modes();
                self.check(&statement, &meant)?;
                self.statements += 1;
                return Ok(Some((statement, meant)));
            }
            let rest = self.piece.get(self.at..).unwrap_or_default();
            if !rest.is_empty() {
                self.at += self.scanner.feed(rest);
                continue;
            }
            if self.ended {
                return match (self.scanner.is_between(), self.statements) {
                    (true, 0) => Err(self.wrong("dump.cut-off", "no statement is in it")),
                    (true, _) => Ok(None),
                    (false, _) => Err(self.damaged("it ends within a statement")),
                };
            }
            match self.pieces.next().await.transpose().map_err(|failure| Error::File(Box::new(failure)))? {
                Some(piece) => {
                    progress.advance(piece.len() as u64);
                    (self.piece, self.at) = (piece, 0);
                }
                None => {
                    self.scanner.end();
                    self.ended = true;
                }
            }
        }
    }

    /// Refuses a statement that no script of a database has, and a second database.
    fn check(&mut self, statement: &[u8], meant: &Meant) -> Result<(), Error> {
        let refused = |object, cause, next: &str| {
            Err(Error::Refused { code: "mysql.statement", object, cause, next: next.to_owned() })
        };
        match meant {
            Meant::Unknown(reason) => refused(
                self.about(statement),
                match *reason == NOT_OF_A_DUMP {
                    true => format!("it is no statement that a script of one database has: {reason}"),
                    false => format!("Seawall doesn't run it: {reason}"),
                },
                "if you trust the script, remove the statement from it, or give the script to the server's own client; else don't use it",
            ),
            Meant::Database(named) => {
                let first = self.database.get_or_insert_with(|| named.clone()).clone();
                if first == *named {
                    return Ok(());
                }
                refused(
                    self.about(statement),
                    format!("the script is of several databases: {first} and {named}"),
                    "make a script for each database, or give this one to the server's own client",
                )
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, refusal: &Refusal) -> Error {
        let refused = |code, line: &u64, cause: &str, next: &str| {
            let (object, cause, next) = (self.object.clone(), format!("line {line} {cause}"), next.to_owned());
            Error::Refused { code, object, cause, next }
        };
        match refusal {
            Refusal::Wrong(line, cause) => self.damaged(&format!("line {line}: {cause}")),
            Refusal::Command(line) => refused(
                "mysql.client-command",
                line,
                "is a command for the server's client, which no backup program writes",
                "don't give it to that client; look at that line",
            ),
            Refusal::Large(line) if self.has_server => refused(
                "mysql.packet",
                line,
                &format!("is of a statement with more than the {} bytes that the server takes", self.limit),
                "raise max_allowed_packet on the server, then start again",
            ),
            Refusal::Large(line) => refused(
                "mysql.packet",
                line,
                "is of a statement with more than 64 MiB, which isn't read without a server",
                "restore it with --to: there the server's max_allowed_packet is the limit",
            ),
        }
    }

    pub(super) fn damaged(&self, cause: &str) -> Error {
        self.wrong("dump.damaged", cause)
    }

    fn wrong(&self, code: &'static str, cause: &str) -> Error {
        let next = "take another copy of the backup, or another backup";
        Error::File(Box::new(Failure::new(Kind::Corrupt, code, &self.object, cause, next)))
    }

    /// A statement for messages: its line and its first words, without values.
    pub(super) fn about(&self, statement: &[u8]) -> String {
        about(&self.object, self.line(), statement)
    }
}

/// A statement for messages: its line and its first words, without values.
pub(super) fn about(object: &str, line: u64, statement: &[u8]) -> String {
    let end = statement.iter().position(|byte| matches!(byte, b'\'' | b'"' | b'(' | b'\n')).unwrap_or(statement.len());
    let shown = String::from_utf8_lossy(statement.get(..end.min(80)).unwrap_or_default()).trim().to_owned();
    format!("line {line} of {object}: {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_without_values() {
        assert_eq!(about("f", 3, b"INSERT INTO `t` VALUES ('secret')"), "line 3 of f: INSERT INTO `t` VALUES");
    }
}
