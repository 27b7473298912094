//! Reading rows into a set, with several connections that see one state.
//!
//! The room: `base` (a whole set), `ladder` (by which way do snapshots show one state?), `locks` (opens them), `blocked` (who holds up
//! a lock?), `position` (where is that in the binary log?), `ready` (what would
//! refuse a backup or a proof?), `plan` (in which pieces is a table read?), `keys`, `cut` and
//! `scale` (at which values is it cut?), `same` (was that the table of the definition?), `exchanged` (was a partition exchanged?),
//! `script` (rows into an artefact).

pub(crate) mod base;
pub(crate) mod blocked;
pub(crate) mod cut;
pub(crate) mod exchanged;
pub(crate) mod keys;
pub(crate) mod ladder;
pub(crate) mod locks;
pub(crate) mod plan;
pub(crate) mod position;
pub(crate) mod ready;
pub(crate) mod same;
pub(crate) mod scale;
pub(crate) mod script;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use futures::future::try_join_all;
use seawall_archive::{Content, Lane, SetWriter, Stage};
use tokio::time::Instant;

use crate::Error;
use crate::catalog::engines::Rows;
use crate::catalog::facts::Facts;
use crate::catalog::inventory::{History, Table};
use crate::client::{BEHIND, Connection, Filled};
use crate::detail::{ItemDetail, TableName};
use crate::dump::base::json;
use crate::dump::plan::Work;
use crate::dump::same::Same;

/// A table's rows in the set.
struct Item {
    number: u32,
    history: History,
}

/// All connections that read, and what they share.
pub(crate) struct Readers<'a> {
    writer: &'a SetWriter,
    facts: &'a Facts,
    tables: &'a [Table],
    same: &'a Same,
    items: Vec<Item>,
    /// What snapshots show.
    queue: Mutex<VecDeque<Work>>,
    /// What only the connection reads that holds writers out.
    kept: Vec<Work>,
}

impl<'a> Readers<'a> {
    /// Readers of tables with rows of their own, in the pieces of `work`. `kept` says whether the tables without snapshots are locked.
    pub(crate) fn new(
        writer: &'a SetWriter,
        whole: bool,
        facts: &'a Facts,
        tables: &'a [Table],
        same: &'a Same,
        work: Vec<Work>,
        kept: bool,
    ) -> Result<Self, Error> {
        let mut items = Vec::with_capacity(tables.len());
        for table in tables {
            let history = table.history(facts.takes_history);
            let detail = ItemDetail::Table {
                name: table.name.name.clone(),
                engine: table.engine.clone(),
                columns: table.read(history).iter().map(crate::catalog::columns::Column::detail).collect(),
                history: history == History::Kept,
            };
            let of = if whole { writer.of(&table.name.database) } else { writer.clone() };
            let number = of.item(table.name.to_string(), Content::Lines, json(&detail)?);
            of.expect(number, table.bytes);
            items.push(Item { number, history });
        }
        let is_kept = |work: &Work| kept && tables.get(work.table).is_some_and(|table| table.rows() == Rows::Current);
        let (kept, queue): (Vec<Work>, Vec<Work>) = work.into_iter().partition(is_kept);
        Ok(Self { writer, facts, tables, same, items, queue: Mutex::new(queue.into()), kept })
    }

    /// Reads everything. The first connection begins with the tables that `keeper` holds, so that their writers can go on.
    pub(crate) async fn run(&self, snapshots: Vec<Connection>, keeper: Option<Connection>) -> Result<(), Error> {
        let mut keeper = keeper;
        try_join_all(snapshots.into_iter().map(|snapshot| self.reader(snapshot, keeper.take()))).await?;
        Ok(())
    }

    async fn reader(&self, mut snapshot: Connection, keeper: Option<Connection>) -> Result<(), Error> {
        let mut lane = self.writer.lane();
        if let Some(mut keeper) = keeper {
            for work in &self.kept {
                self.read(&mut keeper, &mut lane, work).await?;
            }
            keeper.execute("UNLOCK TABLES").await?;
            keeper.close().await;
        }
        loop {
            let _turn = self.writer.turn().await;
            let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(work) = next else { break };
            self.read(&mut snapshot, &mut lane, &work).await?;
            if let Some(table) = self.tables.get(work.table) {
                self.same.check(&table.name).await?;
            }
            snapshot.execute(BEHIND).await?;
        }
        snapshot.close().await;
        Ok(lane.finish().await?)
    }

    /// Reads one piece into a lane.
    async fn read(&self, connection: &mut Connection, lane: &mut Lane, work: &Work) -> Result<(), Error> {
        let (Some(table), Some(item)) = (self.tables.get(work.table), self.items.get(work.table)) else {
            return Err(Error::Internal("a piece of no table".to_owned()));
        };
        let sql = plan::select(table, item.history, &work.part, self.facts.mariadb);
        lane.begin(item.number, work.bytes).await?;
        let about = |error: Error| error.about(table.name.to_string());
        let mut rows = connection.rows(&sql).await.map_err(about)?;
        loop {
            let mut buffer = lane.buffer().await?;
            let started = Instant::now();
            let (filled, count) = rows.fill(&mut buffer).await.map_err(about)?;
            lane.waited(Stage::Server, started.elapsed());
            if buffer.is_empty() {
                lane.unused(buffer);
            } else if filled == Filled::Within {
                lane.push_open(item.number, count, buffer).await?;
            } else {
                lane.push(item.number, count, buffer).await?;
            }
            if filled == Filled::Done {
                break;
            }
        }
        let warnings = rows.done().map_or(0, |done| done.warnings);
        if warnings == 0 {
            return Ok(());
        }
        let warnings = connection.warnings().await?;
        warnings
            .iter()
            .find_map(|row| refused(&table.name, row.text(0), row.number(1), &row.lossy(2)))
            .map_or(Ok(()), Err)
    }
}

/// What is wrong with rows for which the server gave a warning: it has changed a value. MySQL tells a value of JSON that is larger than
/// its limit as an empty text. Pure.
fn refused(table: &TableName, level: &str, number: u64, message: &str) -> Option<Error> {
    if level == "Note" {
        return None;
    }
    let (code, next) = match number {
        1301 => {
            ("mysql.packet", "raise max_allowed_packet on the server above twice the largest value, then start again")
        }
        _ => ("mysql.refused", "see what the server says of these rows"),
    };
    Some(Error::Refused {
        code,
        object: table.to_string(),
        cause: format!("the server doesn't tell a value as it is: {message} [warning {number}]"),
        next: next.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_the_server_changes_ends_the_backup() {
        let table = TableName { database: "shop".into(), name: "t".into() };
        let code = |level, number| match refused(&table, level, number, "larger than") {
            Some(Error::Refused { code, object, .. }) if object == "shop.t" => Some(code),
            _ => None,
        };
        for (level, number, expected) in [
            ("Note", 1051, None),
            ("Warning", 1301, Some("mysql.packet")),
            ("Warning", 1292, Some("mysql.refused")),
            ("Error", 1301, Some("mysql.packet")),
        ] {
            assert_eq!(code(level, number), expected, "{level} {number}");
        }
    }
}
