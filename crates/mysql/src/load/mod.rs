//! Rows back into tables: one transaction for each unit of chunks, noted in the journal by the same transaction.
//!
//! Which chunks make one transaction, `seawall_archive::load` decides. A table whose engine knows no transactions is loaded as a
//! whole: it is emptied first, and noted when all of it is there. A resume empties it again unless it is noted.
//!
//! Rows go through `LOAD DATA LOCAL INFILE`. A server that doesn't allow it takes them by `INSERT`.
//!
//! The room: `statement` (which statement takes the rows?), `script` (rows of a script), `orphans` (which
//! rows contradict a foreign key?).

pub(crate) mod orphans;
mod script;
pub(crate) mod statement;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::try_join_all;
use seawall_archive::load::{Frames, Lacking, Stored, Unit, lacking, units};
use seawall_archive::{Frame, SetReader};
use seawall_core::Progress;

use crate::Error;
use crate::catalog::engines::{Rows, rows_of};
use crate::client::quote::{qualified, text};
use crate::client::{Connection, Done, Purpose, Target};
use crate::detail::{ColumnDetail, ItemDetail};
use crate::journal::Journal;
use crate::load::statement::{Into, is_harmless};

/// How many bytes of rows an `INSERT` has, if the server takes so many.
const INSERT: u64 = 1 << 20;

/// How often a unit is tried whose transaction another one is in the way of.
const ATTEMPTS: u32 = 5;

/// What is loaded, and by whom.
pub(crate) struct Load<'a> {
    pub(crate) target: &'a Target,
    /// The database whose tables take the rows.
    pub(crate) database: &'a str,
    pub(crate) reader: &'a Arc<SetReader>,
    /// What each item is; none for those of other databases.
    pub(crate) items: &'a [Option<ItemDetail>],
    /// Whether the rows of each are loaded.
    pub(crate) wanted: Vec<bool>,
    /// What is loaded already.
    pub(crate) journal: &'a Journal,
    pub(crate) session: Session,
    /// Whether the tables were there before: others may put something else in their places.
    pub(crate) is_found: bool,
    /// Columns of a table with an enumeration that may lack a value of the source's.
    pub(crate) doubtful: BTreeSet<(String, String)>,
    pub(crate) progress: &'a dyn Progress,
}

/// What sessions that load are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    /// Whether the target is a MariaDB.
    pub(crate) mariadb: bool,
    /// Whether the server allows `LOAD DATA LOCAL`.
    pub(crate) infile: bool,
    /// Whether it takes back the history of rows.
    pub(crate) takes_history: bool,
}

impl Session {
    /// A session that loads. Nothing of it checks what the source has checked: the rows are one state of it.
    async fn open(self, target: &Target) -> Result<Connection, Error> {
        let purpose = if self.infile { Purpose::Load } else { Purpose::Statements };
        let mut connection = Connection::open_for(target, purpose).await?;
        // Dates that can't be are loaded as they are.
        let mut sets =
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', SESSION foreign_key_checks = 0, \
                        SESSION max_error_count = 65535"
                .to_owned();
        if self.mariadb {
            sets.push_str(", SESSION check_constraint_checks = 0");
        } else {
            // MariaDB fills an empty table under a lock of its own where this is off, and others wait.
            sets.push_str(", SESSION unique_checks = 0");
        }
        if self.takes_history {
            sets.push_str(", SESSION system_versioning_insert_history = 1");
        }
        connection.execute(&sets).await?;
        Ok(connection)
    }
}

/// A table's rows, as its item describes them.
struct Table<'a> {
    name: &'a str,
    engine: &'a str,
    columns: &'a [ColumnDetail],
    history: bool,
}

impl Load<'_> {
    fn table(&self, item: u32) -> Option<Table<'_>> {
        match self.items.get(item as usize)? {
            Some(ItemDetail::Table { name, engine, columns, history }) => {
                Some(Table { name, engine, columns, history: *history })
            }
            _ => None,
        }
    }

    /// Whether the rows of an item are loaded in transactions.
    fn is_transactional(&self, item: u32) -> bool {
        self.table(item).is_some_and(|table| rows_of(table.engine) == Rows::Snapshot)
    }

    fn items(&self) -> impl Iterator<Item = (u32, bool)> {
        (0..).zip(self.wanted.iter().copied())
    }

    /// Loads every unit that the journal doesn't have, with `jobs` connections.
    pub(crate) async fn run(&self, connection: &mut Connection, jobs: usize) -> Result<(), Error> {
        let (index, done) = (self.reader.index(), self.journal.chunks());
        let in_transactions: Vec<bool> =
            self.items().map(|(item, wanted)| wanted && self.is_transactional(item)).collect();
        let passed = (0..).zip(&index.chunks).filter(|(number, _)| done.contains(number));
        let is_one = |frame: &&Frame| is(&in_transactions, frame.item);
        self.progress.advance(passed.flat_map(|(_, chunk)| &chunk.frames).filter(is_one).map(|frame| frame.raw).sum());
        let left: VecDeque<Unit> = units(index, &in_transactions, &[], &done, jobs).into();
        let jobs = jobs.min(left.len());
        let left = Mutex::new(left);
        try_join_all((0..jobs).map(|_| self.worker(&left, &in_transactions))).await?;
        for (item, wanted) in self.items() {
            if wanted && !self.is_transactional(item) && self.table(item).is_some() {
                self.load_whole(connection, item).await?;
            }
        }
        self.check(connection, &in_transactions).await
    }

    async fn worker(&self, left: &Mutex<VecDeque<Unit>>, wanted: &[bool]) -> Result<(), Error> {
        let mut attempts = 0;
        loop {
            let mut connection = self.session.open(self.target).await?;
            let mut frames = Frames::new(self.reader, left, wanted);
            let failed = loop {
                let Some(unit) = frames.unit() else {
                    connection.close().await;
                    return Ok(());
                };
                match self.load(&mut connection, &unit, &mut frames, self.journal).await {
                    Ok(()) => {}
                    Err(error) => break (unit, error),
                }
            };
            // Another transaction was in the way: all of this one is undone, and done again.
            let (unit, error) = failed;
            if !matches!(error.number(), Some(1205 | 1213)) || attempts == ATTEMPTS {
                return Err(error);
            }
            attempts += 1;
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            left.extend(frames.unit());
            left.push_back(unit);
        }
    }

    /// Loads a unit, in one transaction.
    async fn load(
        &self,
        connection: &mut Connection,
        unit: &Unit,
        frames: &mut Frames<'_>,
        journal: &Journal,
    ) -> Result<(), Error> {
        connection.execute("START TRANSACTION").await?;
        let mut next = frames.next().await?;
        while let Some(first) = next {
            let item = first.frame.item;
            self.is_a_table(connection, item).await?;
            next = self.copy(connection, first, frames).await?;
            // Until the transaction ends, the server lets no other object take the name: what is a table now was one before.
            self.is_a_table(connection, item).await?;
        }
        connection.execute(&journal.note_chunks(&unit.chunks)).await?;
        connection.execute("COMMIT").await.map(drop)
    }

    /// Insists that a name that was there before is still that of a table. A view in its place would have the rows written
    /// elsewhere, with our rights.
    async fn is_a_table(&self, connection: &mut Connection, item: u32) -> Result<(), Error> {
        let Some(table) = self.table(item).filter(|_| self.is_found) else { return Ok(()) };
        let sql = format!(
            "SELECT table_type FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            text(self.database),
            text(table.name)
        );
        let rows = connection.query(&sql).await?;
        if rows.iter().any(|row| matches!(row.text(0), "BASE TABLE" | "SYSTEM VERSIONED")) {
            return Ok(());
        }
        connection.execute("ROLLBACK").await?;
        Err(Error::Refused {
            code: "mysql.not-ready",
            object: format!("{}.{}", self.database, table.name),
            cause: "it is no table any more".to_owned(),
            next: "look who changes the database, then start again".to_owned(),
        })
    }

    /// Loads all rows of a table whose engine knows no transactions, unless they are there.
    async fn load_whole(&self, connection: &mut Connection, item: u32) -> Result<(), Error> {
        let Some(table) = self.table(item) else { return Ok(()) };
        let name = qualified(self.database, table.name);
        let journal = self.journal.part(&format!("table {name}"));
        let holds = |frames: &[Frame]| frames.iter().any(|frame| frame.item == item);
        let chunks: Vec<u32> = (0..)
            .zip(&self.reader.index().chunks)
            .filter(|(_, chunk)| holds(&chunk.frames))
            .map(|(number, _)| number)
            .collect();
        let frames = self.reader.index().chunks.iter().flat_map(|chunk| &chunk.frames);
        let expected: u64 = frames.filter(|frame| frame.item == item).map(|frame| frame.rows).sum();
        let done = journal.chunks();
        if chunks.iter().all(|number| done.contains(number)) && self.count(connection, item).await? == expected {
            self.progress.advance(self.reader.size(item));
            return Ok(());
        }
        // A crash of the server empties some engines' tables, so that the notes alone don't count.
        if !done.is_empty() {
            connection.execute(&journal.forget_chunks(&chunks)).await?;
        }
        self.empty(connection, &name).await?;
        if chunks.is_empty() {
            return Ok(());
        }
        let wanted: Vec<bool> = self.items().map(|(other, _)| other == item).collect();
        let left = Mutex::new(VecDeque::from([Unit { chunks, frozen: Vec::new() }]));
        let mut loader = self.session.open(self.target).await?;
        let mut frames = Frames::new(self.reader, &left, &wanted);
        while let Some(unit) = frames.unit() {
            self.load(&mut loader, &unit, &mut frames, &journal).await?;
        }
        loader.close().await;
        Ok(())
    }

    /// Empties a table. TRUNCATE also mends a table that a crash of the server has damaged. Some engines don't know it, and some take no
    /// row away at all: an empty table needs nothing.
    async fn empty(&self, connection: &mut Connection, name: &str) -> Result<(), Error> {
        match connection.execute(&format!("TRUNCATE TABLE {name}")).await {
            Err(error) if error.server().is_some() => {}
            done => return done.map(drop),
        }
        if connection.query(&format!("SELECT 1 FROM {name} LIMIT 1")).await?.is_empty() {
            return Ok(());
        }
        connection.execute(&format!("DELETE FROM {name}")).await.map(drop).map_err(|error| error.about(name))
    }

    /// Loads frames of one item, one behind another, and returns the first that isn't one of them.
    async fn copy(
        &self,
        connection: &mut Connection,
        first: Stored,
        frames: &mut Frames<'_>,
    ) -> Result<Option<Stored>, Error> {
        let item = first.frame.item;
        let Some(table) = self.table(item) else { return Ok(frames.next().await?) };
        let into =
            Into { database: self.database, table: table.name, columns: table.columns, mariadb: self.session.mariadb };
        let about = format!("{}.{}", self.database, table.name);
        let mut feed = Feed { first: Some(first), reader: self.reader, frames, item, rows: 0 };
        let taken = self.send(connection, &into, &mut feed, item, &about).await?;
        if taken != feed.rows {
            let cause = format!("the server took {taken} rows of a unit, and it holds {}", feed.rows);
            return Err(Error::Different { object: about, cause });
        }
        Ok(feed.first)
    }

    /// Sends rows into a table, and returns how many the server took.
    async fn send(
        &self,
        connection: &mut Connection,
        into: &Into<'_>,
        lines: &mut impl Lines,
        item: u32,
        about: &str,
    ) -> Result<u64, Error> {
        let failed = |error: Error| error.about(about);
        if self.session.infile && !into.needs_insert() {
            return self.by_load(connection, into, lines, item, about).await.map_err(failed);
        }
        // The texts of these statements are bytes, and those of all others are not.
        connection.execute("SET NAMES binary").await?;
        let taken = self.by_insert(connection, into, lines, item, about).await.map_err(failed)?;
        connection.execute("SET NAMES utf8mb4").await?;
        Ok(taken)
    }

    async fn by_load(
        &self,
        connection: &mut Connection,
        into: &Into<'_>,
        lines: &mut impl Lines,
        item: u32,
        about: &str,
    ) -> Result<u64, Error> {
        let mut loading = connection.load(&into.load()).await?;
        let (mut ready, mut spare): (Option<Vec<u8>>, Vec<Vec<u8>>) = (None, Vec::new());
        loop {
            // One frame is decompressed while the one before it is sent.
            let kept = spare.pop().unwrap_or_default();
            let send = async {
                let Some(raw) = ready.take() else { return Ok::<_, Error>(None) };
                let size = raw.len() as u64;
                let raw = loading.send(raw).await?;
                self.advance(about, item, size);
                Ok(Some(raw))
            };
            let (decoded, sent) = tokio::try_join!(lines.next(kept), send)?;
            spare.extend(sent);
            ready = decoded;
            if ready.is_none() {
                break;
            }
        }
        let done = loading.finish().await?;
        self.look_at_warnings(connection, &done, into, about).await?;
        Ok(done.affected)
    }

    async fn by_insert(
        &self,
        connection: &mut Connection,
        into: &Into<'_>,
        lines: &mut impl Lines,
        item: u32,
        about: &str,
    ) -> Result<u64, Error> {
        let begin = into.insert().into_bytes();
        let most = usize::try_from(INSERT.min(connection.max_packet / 2)).unwrap_or(usize::MAX);
        let (mut sql, mut taken) = (begin.clone(), 0);
        let (mut line, mut kept) = (Vec::new(), Vec::new());
        while let Some(raw) = lines.next(std::mem::take(&mut kept)).await? {
            for piece in raw.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                // A row may go on in the next frame.
                let Some(whole) = line.strip_suffix(b"\n") else { continue };
                if sql.len() > begin.len() {
                    sql.extend_from_slice(b", ");
                }
                into.values(whole, &mut sql).ok_or_else(|| Error::Different {
                    object: about.to_owned(),
                    cause: "a row of the set hasn't as many values as its table has columns".to_owned(),
                })?;
                line.clear();
                if sql.len() >= most {
                    taken += self.insert(connection, &sql, into, about).await?;
                    sql.truncate(begin.len());
                }
            }
            self.advance(about, item, raw.len() as u64);
            kept = raw;
        }
        if sql.len() > begin.len() {
            taken += self.insert(connection, &sql, into, about).await?;
        }
        Ok(taken)
    }

    async fn insert(
        &self,
        connection: &mut Connection,
        sql: &[u8],
        into: &Into<'_>,
        about: &str,
    ) -> Result<u64, Error> {
        let done = connection.execute_bytes(sql).await?;
        self.look_at_warnings(connection, &done, into, about).await?;
        Ok(done.affected)
    }

    /// Insists that no value was changed on its way. The server changes what a column can't hold, and warns.
    async fn look_at_warnings(
        &self,
        connection: &mut Connection,
        done: &Done,
        into: &Into<'_>,
        about: &str,
    ) -> Result<(), Error> {
        if done.warnings == 0 {
            return Ok(());
        }
        let is_sure = |column: &&ColumnDetail| {
            column.r#type == "enum" && !self.doubtful.contains(&(into.table.to_owned(), column.name.clone()))
        };
        let enumerations: Vec<&str> = into.columns.iter().filter(is_sure).map(|column| column.name.as_str()).collect();
        for warning in connection.warnings().await? {
            let (level, number, message) = (warning.text(0), warning.text(1), warning.lossy(2));
            if !is_harmless(level, number, &message, &enumerations) {
                let cause = format!("the server took a row only in part: {message} [error {number}]");
                return Err(Error::Different { object: about.to_owned(), cause });
            }
        }
        Ok(())
    }

    fn advance(&self, about: &str, item: u32, bytes: u64) {
        self.progress.advance(bytes);
        self.progress.part(about, Some(self.reader.size(item)), bytes);
    }

    /// The rows of an item's table.
    async fn count(&self, connection: &mut Connection, item: u32) -> Result<u64, Error> {
        let Some(table) = self.table(item) else { return Ok(0) };
        let all = if table.history { " FOR SYSTEM_TIME ALL" } else { "" };
        let name = qualified(self.database, table.name);
        Ok(connection.one(&format!("SELECT COUNT(*) FROM {name}{all}")).await?.number(0))
    }

    /// Insists that all is loaded: every wanted chunk is noted, and each table has as many rows as in the set.
    async fn check(&self, connection: &mut Connection, in_transactions: &[bool]) -> Result<(), Error> {
        let mut journal = self.journal.clone();
        journal.read(connection).await?;
        let mut rows = BTreeMap::new();
        for (item, wanted) in self.items() {
            if wanted && self.table(item).is_some() {
                rows.insert(item, self.count(connection, item).await?);
            }
        }
        let all = journal.chunks();
        let mut missing = lacking(self.reader.index(), in_transactions, &all, &rows);
        for (item, wanted) in self.items().filter(|(item, wanted)| *wanted && !is(in_transactions, *item)) {
            let Some(table) = self.table(item).filter(|_| wanted && missing.is_none()) else { continue };
            let only: Vec<bool> = self.items().map(|(other, _)| other == item).collect();
            let noted = journal.part(&format!("table {}", qualified(self.database, table.name))).chunks();
            missing = lacking(self.reader.index(), &only, &noted, &rows);
        }
        let too_many = |(item, rows): (&u32, &u64)| {
            (self.reader.size(*item) == 0 && *rows > 0).then_some(Lacking { item: *item, loaded: *rows, expected: 0 })
        };
        let missing = missing.or_else(|| rows.iter().find_map(too_many));
        let Some(Lacking { item, loaded, expected }) = missing else { return Ok(()) };
        let object = self.table(item).map_or_else(String::new, |table| format!("{}.{}", self.database, table.name));
        let cause = format!("it has {loaded} rows, and {expected} in the set");
        Err(Error::Different { object, cause })
    }
}

fn is(list: &[bool], item: u32) -> bool {
    list.get(item as usize).copied().unwrap_or(false)
}

/// Rows as lines.
trait Lines {
    /// The next piece, in `spare`; none behind the last one. It may begin and end within a row.
    async fn next(&mut self, spare: Vec<u8>) -> Result<Option<Vec<u8>>, Error>;
}

/// The frames of one item, one behind another.
struct Feed<'a, 'f> {
    reader: &'a Arc<SetReader>,
    /// The frame that comes next, of any item.
    first: Option<Stored>,
    frames: &'a mut Frames<'f>,
    item: u32,
    /// Rows of the frames that were given.
    rows: u64,
}

impl Lines for Feed<'_, '_> {
    async fn next(&mut self, spare: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        let item = self.item;
        let Some(stored) = self.first.take_if(|stored| stored.frame.item == item) else { return Ok(None) };
        self.rows += stored.frame.rows;
        let raw = stored.decode(self.reader, spare).await?;
        self.first = self.frames.next().await?;
        Ok(Some(raw))
    }
}
