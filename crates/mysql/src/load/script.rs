//! Rows of a script: one table behind another, each in one transaction with its note.

use super::{Lines, Load};
use crate::Error;
use crate::artefact::Script;
use crate::artefact::read::{Reading, Rows};
use crate::catalog::engines::{Rows as Kept, rows_of};
use crate::client::Connection;
use crate::client::quote::qualified;
use crate::load::statement::Into;

/// The rows of a table are noted as the only chunk of its own.
const ALL: [u32; 1] = [0];

impl Lines for Rows<'_, '_> {
    async fn next(&mut self, mut spare: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        spare.clear();
        Ok(self.read(&mut spare).await?.then_some(spare))
    }
}

impl Load<'_> {
    /// Loads every table of a script that the journal doesn't have. The script's tables are the last of `items`.
    pub(crate) async fn run_script(&self, connection: &mut Connection, script: &Script) -> Result<(), Error> {
        let first = self.items.len().saturating_sub(script.sections.len());
        let mut loader = self.session.open(self.target).await?;
        let mut reading = Reading::new(script, self.reader);
        for (place, section) in (first..).zip(&script.sections) {
            let item = u32::try_from(place).unwrap_or(u32::MAX);
            let is_wanted = self.wanted.get(place).copied().unwrap_or(false);
            if !is_wanted || self.is_loaded(connection, item, section.rows).await? {
                self.progress.advance(section.end - section.start);
                continue;
            }
            let name = qualified(self.database, &section.table);
            let about = format!("{}.{}", self.database, section.table);
            let into = Into {
                database: self.database,
                table: &section.table,
                columns: &section.columns,
                mariadb: self.session.mariadb,
            };
            loader.execute("START TRANSACTION").await?;
            self.is_a_table(&mut loader, item).await?;
            let taken = if section.rows == 0 {
                0
            } else {
                let mut rows = reading.rows(section).await?;
                self.send(&mut loader, &into, &mut rows, item, &about).await?
            };
            if taken != section.rows {
                let cause = format!("the server took {taken} rows, and the script has {}", section.rows);
                return Err(Error::Different { object: about, cause });
            }
            self.is_a_table(&mut loader, item).await?;
            let journal = self.journal.part(&format!("table {name}"));
            loader.execute(&journal.note_chunks(&ALL)).await?;
            loader.execute("COMMIT").await?;
        }
        loader.close().await;
        for (place, section) in (first..).zip(&script.sections) {
            let item = u32::try_from(place).unwrap_or(u32::MAX);
            let is_wanted = self.wanted.get(place).copied().unwrap_or(false);
            let loaded = if is_wanted { self.count(connection, item).await? } else { section.rows };
            if loaded != section.rows {
                let object = format!("{}.{}", self.database, section.table);
                let cause = format!("it has {loaded} rows, and {} in the set", section.rows);
                return Err(Error::Different { object, cause });
            }
        }
        Ok(())
    }

    /// Whether a table has its rows already. One whose engine knows no transactions is emptied if it may have some of them.
    async fn is_loaded(&self, connection: &mut Connection, item: u32, rows: u64) -> Result<bool, Error> {
        let Some(table) = self.table(item) else { return Ok(true) };
        let name = qualified(self.database, table.name);
        let journal = self.journal.part(&format!("table {name}"));
        let is_noted = !journal.chunks().is_empty();
        if rows_of(table.engine) == Kept::Snapshot {
            return Ok(is_noted);
        }
        if is_noted && self.count(connection, item).await? == rows {
            return Ok(true);
        }
        if is_noted {
            connection.execute(&journal.forget_chunks(&ALL)).await?;
        }
        self.empty(connection, &name).await?;
        Ok(false)
    }
}
