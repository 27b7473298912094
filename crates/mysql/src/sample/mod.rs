//! Which rows are in a sample? Some rows of every table, by chance, and then all rows that these need: the rows that they refer to
//! by foreign keys, the rows that those refer to, until no more rows are added.
//!
//! Chance is a condition on the primary key, so the rows that it takes needn't be remembered, and the same rows give the same sample.
//! The keys of the other rows are kept in memory, because a session that only reads has no temporary tables. All of it is
//! asked for by one connection that holds a snapshot, and read by all of them.
//!
//! The room: `keys` (how is a row known by its primary key?), `foreign_keys` (which rows does a row need?).

mod foreign_keys;
mod keys;

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::{Sample, referring_first};

use crate::Error;
use crate::catalog::engines::Rows;
use crate::catalog::inventory::Table;
use crate::client::BEHIND;
use crate::client::{Connection, Filled, quote};
use crate::detail::TableName;
use crate::sample::foreign_keys::Key;
use crate::sample::keys::Primary;

/// A table with fewer rows is taken whole: such tables mostly define values of others.
const FEW: u64 = 1000;

/// How many keys a statement lists. A list of a thousand would be made a table by MariaDB.
const KEYS: usize = 500;

/// Room for keys on their way from the server.
const BUFFER: usize = 64 << 10;

/// The memory of a key beside its letters.
const KEY: usize = 64;

/// The rows that are taken from a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Every row.
    Whole,
    /// Some: those for which one of several conditions holds. No row fulfils two.
    Some {
        /// That chance takes a row.
        chance: String,
        /// That a row is one of some that are needed.
        needed: Vec<String>,
        /// Their approximate size in bytes.
        bytes: u64,
    },
}

/// A table of which some rows are taken.
#[derive(Debug)]
struct Taking {
    primary: Primary,
    /// Keys of rows that chance didn't take: those whose own needs aren't known yet, and the others.
    waiting: BTreeSet<String>,
    settled: BTreeSet<String>,
}

/// A sample in the making.
struct Choosing<'a> {
    tables: &'a [Table],
    /// None for tables that are taken whole.
    taking: Vec<Option<Taking>>,
    sample: Sample,
    /// Bytes of all keys, and how many there may be.
    bytes: usize,
    room: u64,
}

/// Chooses the rows of each of `tables`, within `room` bytes of memory. `expected` says how many foreign keys each table has by its
/// own statement.
pub(crate) async fn choose(
    connection: &mut Connection,
    tables: &[Table],
    expected: &BTreeMap<TableName, usize>,
    sample: Sample,
    room: u64,
) -> Result<Vec<Choice>, Error> {
    if sample.is_all() {
        return Ok(tables.iter().map(|_| Choice::Whole).collect());
    }
    let keys = foreign_keys::keys(connection, tables).await?;
    all_are_known(tables, &keys, expected)?;
    let mut taking = Vec::with_capacity(tables.len());
    for table in tables {
        taking.push(taken_in_part(connection, table).await?);
    }
    // A row that can't be looked up by an index is in the sample with all others of its table.
    for key in keys.iter().filter(|key| key.index.is_none()) {
        if let Some(place) = taking.get_mut(key.to) {
            *place = None;
        }
    }
    let mut choosing = Choosing { tables, taking, sample, bytes: 0, room };
    choosing.what_they_need(connection, &keys).await?;
    Ok(choosing.choices())
}

/// Insists that the account sees every foreign key: a sample that misses one wouldn't be whole.
fn all_are_known(tables: &[Table], keys: &[Key], expected: &BTreeMap<TableName, usize>) -> Result<(), Error> {
    for (place, table) in tables.iter().enumerate() {
        let known = keys.iter().filter(|key| key.from == place).count();
        let wanted = expected.get(&table.name).copied().unwrap_or(known);
        if known != wanted {
            return Err(Error::Denied {
                object: table.name.to_string(),
                cause: format!(
                    "it refers {wanted} times to tables of the sample, and the server tells of {known} of them"
                ),
                next: "grant the account SELECT on all tables, or use it with a server whose names are in one case"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

/// How a table's rows are told apart, if not all are taken: it has many, of one moment, and a key of its own.
async fn taken_in_part(connection: &mut Connection, table: &Table) -> Result<Option<Taking>, Error> {
    let column = |name: &String| table.columns.iter().find(|column| column.name == *name);
    let Some(primary) = Primary::of(table.primary.iter().map(column)) else { return Ok(None) };
    if table.versioned || table.rows() != Rows::Snapshot {
        return Ok(None);
    }
    let sql = format!(
        "SELECT COUNT(*) FROM (SELECT 1 FROM {} FORCE INDEX (`PRIMARY`) LIMIT {FEW}) AS some_rows",
        table.sql()
    );
    let rows = connection.one(&sql).await.map_err(|error| error.about(table.name.to_string()))?.number(0);
    connection.execute(BEHIND).await?;
    Ok((rows >= FEW).then(|| Taking { primary, waiting: BTreeSet::new(), settled: BTreeSet::new() }))
}

impl Choosing<'_> {
    /// Adds the rows that the chosen rows need, until no more are added.
    async fn what_they_need(&mut self, connection: &mut Connection, keys: &[Key]) -> Result<(), Error> {
        for key in keys {
            let chance = self.taking.get(key.from).and_then(Option::as_ref);
            let chance = chance.map(|taking| taking.primary.chance("given", self.sample.per_million()));
            self.follow(connection, key, chance.as_deref()).await?;
        }
        let needs: Vec<Vec<usize>> = (0..self.tables.len())
            .map(|place| keys.iter().filter(|key| key.from == place).map(|key| key.to).collect())
            .collect();
        let order = referring_first(&needs);
        while let Some(place) = order.iter().copied().find(|place| self.waits(*place)) {
            let Some(Some(taking)) = self.taking.get_mut(place) else { break };
            let mut batch = Vec::with_capacity(KEYS);
            while batch.len() < KEYS
                && let Some(key) = taking.waiting.pop_first()
            {
                batch.push(key);
            }
            let condition = taking.primary.among("given", batch.iter());
            taking.settled.extend(batch);
            for key in keys.iter().filter(|key| key.from == place) {
                self.follow(connection, key, Some(&condition)).await?;
            }
        }
        Ok(())
    }

    fn waits(&self, place: usize) -> bool {
        matches!(self.taking.get(place), Some(Some(taking)) if !taking.waiting.is_empty())
    }

    /// Takes the rows to which some rows of a table refer, or all of them.
    async fn follow(&mut self, connection: &mut Connection, key: &Key, given: Option<&str>) -> Result<(), Error> {
        let (Some(from), Some(to)) = (self.tables.get(key.from), self.tables.get(key.to)) else { return Ok(()) };
        let (Some(Some(taking)), Some(index)) = (self.taking.get_mut(key.to), &key.index) else { return Ok(()) };
        // The index that each read names is refused by the server for a view.
        let own = if from.primary.is_empty() { "USE INDEX ()" } else { "FORCE INDEX (`PRIMARY`)" };
        let given = given.map_or(String::new(), |given| format!("{given} AND "));
        let sql = format!(
            "SELECT DISTINCT {} FROM {} AS given {own} JOIN {} AS needed FORCE INDEX ({}) ON {} WHERE {given}NOT ({})",
            taking.primary.asked("needed"),
            from.sql(),
            to.sql(),
            quote::name(index),
            key.condition(),
            taking.primary.chance("needed", self.sample.per_million())
        );
        let about = |error: Error| error.about(format!("{}, to which {} refers", to.name, from.name));
        let strange = || Error::Protocol {
            object: to.name.to_string(),
            cause: "the server tells a primary key in a way that isn't understood".to_owned(),
        };
        let mut rows = connection.rows(&sql).await.map_err(about)?;
        let mut buffer = Vec::with_capacity(BUFFER);
        loop {
            let (filled, _) = rows.fill(&mut buffer).await.map_err(about)?;
            if filled == Filled::Within {
                return Err(strange());
            }
            let text = std::str::from_utf8(&buffer).map_err(|_| strange())?;
            for line in text.lines() {
                let key = taking.primary.read(line).ok_or_else(strange)?;
                if taking.settled.contains(&key) || taking.waiting.contains(&key) {
                    continue;
                }
                self.bytes += key.len() + KEY;
                if self.bytes as u64 > self.room {
                    return Err(too_large(to, self.room));
                }
                taking.waiting.insert(key);
            }
            buffer.clear();
            if filled == Filled::Done {
                break;
            }
        }
        connection.execute(BEHIND).await.map(drop)
    }

    /// What is read of each table.
    fn choices(&self) -> Vec<Choice> {
        let choice = |(table, taking): (&Table, &Option<Taking>)| {
            let Some(taking) = taking else { return Choice::Whole };
            let keys: Vec<&String> = taking.settled.iter().collect();
            let share = u128::from(table.bytes) * u128::from(self.sample.per_million()) / 1_000_000;
            Choice::Some {
                chance: taking.primary.chance("", self.sample.per_million()),
                needed: keys.chunks(KEYS).map(|keys| taking.primary.among("", keys.iter().copied())).collect(),
                bytes: u64::try_from(share).unwrap_or(table.bytes),
            }
        };
        self.tables.iter().zip(&self.taking).map(choice).collect()
    }
}

fn too_large(table: &Table, room: u64) -> Error {
    Error::Refused {
        code: "mysql.sample-too-large",
        object: table.name.to_string(),
        cause: format!(
            "the keys of the rows that the sample needs are more than can be remembered in {room} bytes, which is what --memory \
             leaves for it"
        ),
        next: "give a smaller --sample, or more --memory".to_owned(),
    }
}
