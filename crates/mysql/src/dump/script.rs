//! Makes a script: one stream of bytes, so one connection reads all tables, one behind another.

use seawall_archive::{Content, Lane, SetWriter, Stage};
use tokio::time::Instant;

use crate::Error;
use crate::artefact::Section;
use crate::artefact::script::Source;
use crate::artefact::values::Inserts;
use crate::catalog::columns::Column;
use crate::catalog::engines::Rows;
use crate::catalog::facts::Facts;
use crate::catalog::inventory::{History, Table};
use crate::client::BEHIND;
use crate::client::{Connection, Filled};
use crate::detail::ItemDetail;
use crate::dump::base::json;
use crate::dump::plan::{self, Part};
use crate::dump::same::Same;

/// How much is taken from the server at once.
const PIECE: usize = 256 << 10;

/// What is written, and from where.
pub(crate) struct Writing<'a> {
    pub(crate) writer: &'a SetWriter,
    pub(crate) facts: &'a Facts,
    pub(crate) tables: &'a [Table],
    pub(crate) same: &'a Same,
    pub(crate) source: Source<'a>,
}

/// The script as far as it is written.
struct Sink {
    lane: Lane,
    item: u32,
    buffer: Vec<u8>,
    written: u64,
}

impl Sink {
    async fn put(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        self.written += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = self.buffer.capacity() - self.buffer.len();
            if room == 0 {
                let next = self.lane.buffer().await?;
                let full = std::mem::replace(&mut self.buffer, next);
                if full.is_empty() {
                    self.lane.unused(full);
                } else {
                    self.lane.push(self.item, 0, full).await?;
                }
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(room));
            self.buffer.extend_from_slice(part);
            bytes = rest;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), Error> {
        self.lane.push(self.item, 0, self.buffer).await?;
        Ok(self.lane.finish().await?)
    }
}

impl Writing<'_> {
    /// Writes the script, and where its rows are. `keeper` holds writers of tables without snapshots out; these come first, so that
    /// the writers can go on.
    pub(crate) async fn run(&self, mut snapshot: Connection, keeper: Option<Connection>) -> Result<(), Error> {
        let (before, behind) = (self.source.before()?, self.source.behind()?);
        let item = self.writer.item("database.sql", Content::Artefact, json(&ItemDetail::Script)?);
        self.writer.expect(item, self.tables.iter().map(|table| table.bytes).sum());
        let mut lane = self.writer.lane();
        let buffer = lane.buffer().await?;
        let mut sink = Sink { lane, item, buffer, written: 0 };
        sink.put(&before).await?;
        let mut sections = Vec::with_capacity(self.tables.len());
        let is_kept = |table: &&Table| keeper.is_some() && table.rows() == Rows::Current;
        let (kept, others): (Vec<&Table>, Vec<&Table>) = self.tables.iter().partition(is_kept);
        if let Some(mut keeper) = keeper {
            for table in kept {
                sections.push(self.section(&mut keeper, table, &mut sink).await?);
            }
            keeper.execute("UNLOCK TABLES").await?;
            keeper.close().await;
        }
        for table in others {
            sections.push(self.section(&mut snapshot, table, &mut sink).await?);
            snapshot.execute(BEHIND).await?;
        }
        snapshot.close().await;
        sink.put(&behind).await?;
        sink.finish().await?;
        Ok(self.writer.document("rows.json", json(&ItemDetail::Sections)?, &sections).await?)
    }

    /// Writes the rows of a table.
    async fn section(&self, connection: &mut Connection, table: &Table, sink: &mut Sink) -> Result<Section, Error> {
        let history = table.history(self.facts.takes_history);
        let columns: Vec<_> = table.read(history).iter().map(Column::detail).collect();
        let about = |error: Error| error.about(table.name.to_string());
        let strange = |cause: &str| Error::Different { object: table.name.to_string(), cause: cause.to_owned() };
        let start = sink.written;
        let mut inserts = Inserts::new(&table.name.name, &columns, self.facts.mariadb);
        let sql = plan::select(table, history, &Part::Whole, self.facts.mariadb);
        let mut rows = connection.rows(&sql).await.map_err(about)?;
        let (mut lines, mut out) = (Vec::with_capacity(PIECE), Vec::with_capacity(2 * PIECE));
        loop {
            let started = Instant::now();
            let (filled, _) = rows.fill(&mut lines).await.map_err(about)?;
            sink.lane.waited(Stage::Server, started.elapsed());
            inserts.take(&lines, &mut out).map_err(strange)?;
            lines.clear();
            if filled == Filled::Done {
                inserts.end(&mut out).map_err(strange)?;
            }
            sink.put(&out).await?;
            out.clear();
            if filled == Filled::Done {
                break;
            }
        }
        drop(rows);
        self.same.check(&table.name).await?;
        Ok(Section {
            table: table.name.name.clone(),
            engine: table.engine.clone(),
            columns,
            history: history == History::Kept,
            start,
            end: sink.written,
            rows: inserts.rows(),
        })
    }
}
