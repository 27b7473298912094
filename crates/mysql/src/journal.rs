//! Which steps of a restore are done: a table in the unfinished database, so that a restore that was interrupted anywhere goes
//! on, and loads each row exactly once.
//!
//! The journal says what is done, never what is planned: a resume may have other settings. The note of rows is written in the
//! transaction that loads them. The server commits a statement that makes or changes a table by itself, so each such step
//! can be done twice: it looks first whether it is done already.
//!
//! One session at a time works with a journal. It holds a lock of the server's (`GET_LOCK`), which ends with the session.

use std::collections::BTreeSet;

use seawall_archive::Digest;
use seawall_archive::load::Notes;

use crate::Error;
use crate::client::Connection;
use crate::client::quote::{qualified, text};

/// What the journal's name begins with.
const PREFIX: &str = "seawall-journal-";

/// The name of the journal's table, for a restore of this title. No table of a set is called so.
pub(crate) fn name(title: &str) -> String {
    format!("{PREFIX}{}", &Digest::of(title.as_bytes()).to_string()[..16])
}

/// The steps that are done.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    /// The database that it is in.
    pub(crate) database: String,
    /// Its table's name.
    pub(crate) name: String,
    notes: Notes,
}

impl Journal {
    /// The journal of a restore of this title in a database: begun, or found. `None` where `create` is false and there is none.
    pub(crate) async fn open(
        connection: &mut Connection,
        database: &str,
        title: &str,
        create: bool,
    ) -> Result<Option<Self>, Error> {
        let name = name(title);
        let there = format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            text(database),
            text(&name)
        );
        let mut journal = Self { database: database.to_owned(), name, notes: Notes::default() };
        if connection.query(&there).await?.is_empty() {
            if !create {
                return Ok(None);
            }
            let make = format!(
                "CREATE TABLE {} (id BINARY(16) NOT NULL PRIMARY KEY, step LONGTEXT CHARACTER SET utf8mb4 NOT NULL) \
                 ENGINE=InnoDB CHARACTER SET utf8mb4 \
                 COMMENT='Seawall: what is done of a restore under way. It goes when the restore is done.'",
                journal.sql()
            );
            connection.execute(&make).await.map_err(|error| error.about(format!("database {database}")))?;
        }
        journal.read(connection).await?;
        if !journal.notes.is_of(title) {
            // A run that was interrupted at once began it, or none did: the first note is the title.
            connection.execute(&journal.insert(title)).await?;
            journal.read(connection).await?;
        }
        Ok(Some(journal))
    }

    /// Holds the lock of this restore, or says that another session does. It ends with the session.
    pub(crate) async fn hold(connection: &mut Connection, database: &str) -> Result<(), Error> {
        let lock = format!("SELECT GET_LOCK({}, 0)", text(database));
        if connection.one(&lock).await?.number(0) == 1 {
            return Ok(());
        }
        let by = connection.one(&format!("SELECT IS_USED_LOCK({})", text(database))).await?.number(0);
        Err(Error::Refused {
            code: "mysql.restore-running",
            object: format!("database {database}"),
            cause: format!("session {by} of the server restores the same set into the same database"),
            next: format!(
                "wait until it ends; if its machine was lost, the server may not have noticed: then KILL {by} on the server"
            ),
        })
    }

    /// Reads what is noted by now.
    pub(crate) async fn read(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let steps = connection.query(&format!("SELECT step FROM {}", self.sql())).await?;
        let steps: BTreeSet<String> = steps.iter().map(|row| row.text(0).to_owned()).collect();
        self.notes = self.notes.anew(steps);
        Ok(())
    }

    fn sql(&self) -> String {
        qualified(&self.database, &self.name)
    }

    /// Whether an earlier run has done anything.
    pub(crate) fn is_resumed(&self) -> bool {
        self.notes.is_resumed()
    }

    /// The same journal for a part of the restore, whose steps have names of their own.
    pub(crate) fn part(&self, part: &str) -> Self {
        Self { notes: self.notes.part(part), ..self.clone() }
    }

    /// Whether a step is done.
    pub(crate) fn has(&self, step: &str) -> bool {
        self.notes.has(step)
    }

    /// The chunks that are loaded.
    pub(crate) fn chunks(&self) -> BTreeSet<u32> {
        self.notes.chunks()
    }

    /// Notes a step.
    pub(crate) async fn note(&mut self, connection: &mut Connection, step: &str) -> Result<(), Error> {
        connection.execute(&self.insert(&self.notes.step(step))).await?;
        self.read(connection).await
    }

    /// The statement that notes chunks as loaded, to be run in the transaction that loads them. It fails where one is noted.
    pub(crate) fn note_chunks(&self, chunks: &[u32]) -> String {
        let notes: Vec<String> = chunks.iter().map(|number| value(&self.notes.chunk(*number))).collect();
        format!("INSERT INTO {} VALUES {}", self.sql(), notes.join(", "))
    }

    /// The statement that takes the notes of chunks back.
    pub(crate) fn forget_chunks(&self, chunks: &[u32]) -> String {
        let ids: Vec<String> = chunks.iter().map(|number| id(&self.notes.chunk(*number))).collect();
        format!("DELETE FROM {} WHERE id IN ({})", self.sql(), ids.join(", "))
    }

    fn insert(&self, note: &str) -> String {
        format!("INSERT INTO {} VALUES {}", self.sql(), value(note))
    }
}

/// A note as a row.
fn value(note: &str) -> String {
    format!("({}, {})", id(note), text(note))
}

/// The key of a note: notes may be longer than a key.
fn id(note: &str) -> String {
    format!("_binary 0x{}", &Digest::of(note.as_bytes()).to_string()[..32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_become_rows() {
        let journal = Journal { database: "d".into(), name: name("set 1"), notes: Notes::default() };
        assert_eq!(journal.name.len(), 32);
        let part = journal.part("table `t`");
        let insert = part.note_chunks(&[1, 2]);
        assert!(insert.starts_with(&format!("INSERT INTO `d`.`{}` VALUES (_binary 0x", journal.name)), "{insert}");
        assert!(insert.contains("'table `t`: chunk 1')") && insert.ends_with("'table `t`: chunk 2')"), "{insert}");
        assert_ne!(journal.note_chunks(&[1]), part.note_chunks(&[1]));
    }
}
