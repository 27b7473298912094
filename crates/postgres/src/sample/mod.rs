//! Which rows are in a sample? Random rows of every table, and then all rows that these need: the rows that they refer
//! to by foreign keys, the rows that those refer to, until no more rows are added.
//!
//! The connection that holds the snapshot asks for all of it, one statement after another. The place (`ctid`) of a row
//! stays valid while the snapshot is held. A standby has no temporary tables, so the places are kept in memory here.
//! The server's own random function chooses rows with a fixed seed: the same rows at the same places give the same
//! sample.
//!
//! The room: `foreign_keys` (which rows does a row need?), `taken` (which rows are in the sample already?).

pub(crate) mod foreign_keys;
pub(crate) mod taken;

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::Sample;

use crate::catalog::inventory::Table;
use crate::client::{Connection, Filled, Row};
use crate::sample::foreign_keys::{Column, ForeignKey, Heir, Key, Needs};
use crate::sample::taken::{Groups, RowAddress, Taken};
use crate::{CopyFormat, Error};

/// A table with fewer rows is taken whole, with all that inherits from it: such tables mostly define values of others.
const FEW: u64 = 1000;

/// How many tables are counted with one statement.
const TABLES: usize = 100;

/// About how many places a statement lists.
const PLACES: usize = 10_000;

/// For statements that look up some thousand rows, thousands of times. A referenced key has an index, but otherwise the
/// server would read the whole of a smaller table each time.
const LOOK_UP: &str = "SET LOCAL jit = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; \
                       SET LOCAL max_parallel_workers_per_gather = 0";

/// Room for places on their way from the server.
const BUFFER: usize = 64 << 10;

/// The rows taken from a table.
#[derive(Debug)]
pub(crate) enum Choice {
    /// Every row.
    Whole,
    /// Some.
    Some {
        /// Which.
        rows: Taken,
        /// Their approximate size in bytes.
        bytes: u64,
    },
}

impl Choice {
    /// How many rows were chosen one by one.
    fn rows(&self) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Some { rows, .. } => rows.rows(),
        }
    }

    /// The pieces in which its rows are read.
    pub(crate) fn pieces(&self) -> Vec<Groups> {
        match self {
            Self::Whole => Vec::new(),
            Self::Some { rows, .. } => rows.pieces(PLACES),
        }
    }

    /// The places in a piece, as SQL.
    pub(crate) fn places(&self, groups: Groups) -> Option<String> {
        match self {
            Self::Whole => None,
            Self::Some { rows, .. } => Some(rows.list(groups)),
        }
    }
}

/// A sample in the making.
struct Choosing<'a> {
    tables: &'a [Table],
    /// The place of each table in `tables`, by its number.
    places: BTreeMap<u64, usize>,
    choices: Vec<Choice>,
    /// Bytes that all places take, and how many they may take.
    bytes: usize,
    room: u64,
}

/// Chooses the rows of each of `tables`, within `room` bytes of memory.
pub(crate) async fn choose(
    connection: &mut Connection,
    tables: &[Table],
    sample: Sample,
    room: u64,
) -> Result<Vec<Choice>, Error> {
    if sample.is_all() {
        return Ok(tables.iter().map(|_| Choice::Whole).collect());
    }
    let page_size = connection.one("SHOW block_size").await?.number(0);
    let heirs = heirs(connection).await?;
    let numbers: Vec<u64> = tables.iter().map(|table| table.oid).collect();
    let needs = foreign_keys::needs(&numbers, &foreign_keys(connection).await?, &heirs);
    let few = few(connection, tables, &foreign_keys::families(&numbers, &heirs)).await?;
    let choice = |table: &Table| match can_be_sampled(table) && !few.contains(&table.oid) {
        true => Choice::Some { rows: Taken::new(page_size), bytes: 0 },
        false => Choice::Whole,
    };
    let mut choices: Vec<Choice> = tables.iter().map(choice).collect();
    for need in needs.keys.iter().flatten().filter(|key| !key.is_safe).flat_map(|key| &key.needs) {
        choices[*need] = Choice::Whole;
    }
    // A key isn't queried if a query of one of its tables would run functions of others. Then all tables that it
    // refers to are taken whole.
    for (place, key) in needs.keys.iter().enumerate().flat_map(|(place, keys)| keys.iter().map(move |key| (place, key)))
    {
        if key.needs.iter().chain([&place]).any(|table| tables[*table].evaluates) {
            key.needs.iter().for_each(|need| choices[*need] = Choice::Whole);
        }
    }
    let mut choosing = Choosing {
        tables,
        places: numbers.iter().enumerate().map(|(place, number)| (*number, place)).collect(),
        choices,
        bytes: 0,
        room,
    };
    choosing.by_chance(connection, sample).await?;
    let by_chance: Vec<u64> = choosing.choices.iter().map(Choice::rows).collect();
    choosing.what_they_need(connection, &needs).await?;
    choosing.estimate(sample, &by_chance);
    Ok(choosing.choices)
}

/// Whether a table can be sampled. Only the heap has places. The condition of an extension's configuration already
/// chooses its rows. And a query must not run functions of others.
fn can_be_sampled(table: &Table) -> bool {
    table.heap && table.condition.is_none() && !table.evaluates
}

impl Choosing<'_> {
    /// Takes the share of each table.
    async fn by_chance(&mut self, connection: &mut Connection, sample: Sample) -> Result<(), Error> {
        for place in 0..self.tables.len() {
            if matches!(self.choices[place], Choice::Whole) {
                continue;
            }
            let table = &self.tables[place];
            let sql = by_chance(&table.sql(), sample);
            self.take(connection, &sql).await.map_err(|error| error.about(table.shown()))?;
        }
        Ok(())
    }

    /// Adds the rows that the chosen rows need, until no more are added.
    async fn what_they_need(&mut self, connection: &mut Connection, needs: &Needs) -> Result<(), Error> {
        for (place, keys) in needs.keys.iter().enumerate() {
            if matches!(self.choices[place], Choice::Whole) {
                self.of_keys(connection, place, keys, None).await?;
            }
        }
        connection.execute(LOOK_UP).await?;
        let waits = |choices: &[Choice], place: usize| match &choices[place] {
            Choice::Some { rows, .. } => rows.waits(),
            Choice::Whole => false,
        };
        while let Some(place) = needs.order.iter().copied().find(|place| waits(&self.choices, *place)) {
            loop {
                let before = self.bytes_of(place);
                let Choice::Some { rows, .. } = &mut self.choices[place] else { break };
                let Some(places) = rows.settle(PLACES) else { break };
                self.bytes = self.bytes - before + self.bytes_of(place);
                self.of_keys(connection, place, &needs.keys[place], Some(&places)).await?;
            }
        }
        Ok(())
    }

    /// Adds the rows that some rows of a table need, or that all of them need.
    async fn of_keys(
        &mut self,
        connection: &mut Connection,
        place: usize,
        keys: &[Key],
        places: Option<&str>,
    ) -> Result<(), Error> {
        let table = &self.tables[place];
        for key in keys {
            // A table that is taken whole needs no lookup.
            if key.needs.iter().all(|need| matches!(self.choices[*need], Choice::Whole)) {
                continue;
            }
            let sql = key.query(&table.sql(), places);
            self.take(connection, &sql).await.map_err(|error| error.about(table.shown()))?;
        }
        Ok(())
    }

    /// Takes the rows that a query names by number of table and place.
    async fn take(&mut self, connection: &mut Connection, query: &str) -> Result<(), Error> {
        let (mut lines, mut buffer) = (
            connection.copy_out(&format!("COPY ({query}) TO STDOUT"), CopyFormat::Text).await?,
            Vec::with_capacity(BUFFER),
        );
        loop {
            let (filled, _) = lines.fill(&mut buffer).await?;
            for line in buffer.split_inclusive(|byte| *byte == b'\n') {
                let Some((table, place)) = parse(line) else {
                    let cause = "it names a row in a way that isn't understood".to_owned();
                    return Err(Error::Protocol { object: "the server".to_owned(), cause });
                };
                self.take_one(table, place)?;
            }
            buffer.clear();
            if filled == Filled::Done {
                return Ok(());
            }
        }
    }

    fn take_one(&mut self, table: u64, place: RowAddress) -> Result<(), Error> {
        // A table that isn't in the set comes with an extension.
        let Some(at) = self.places.get(&table).copied() else { return Ok(()) };
        let before = self.bytes_of(at);
        let Choice::Some { rows, .. } = &mut self.choices[at] else { return Ok(()) };
        if rows.take(place).is_none() {
            let cause = format!("it has a row at ({},{}), where none can be", place.page, place.number);
            return Err(Error::Protocol { object: self.tables[at].shown(), cause });
        }
        self.bytes = self.bytes - before + self.bytes_of(at);
        if self.bytes as u64 > self.room { Err(self.too_large(at)) } else { Ok(()) }
    }

    fn bytes_of(&self, place: usize) -> usize {
        match &self.choices[place] {
            Choice::Whole => 0,
            Choice::Some { rows, .. } => rows.bytes(),
        }
    }

    /// Estimates bytes, from the rows that chance alone took.
    fn estimate(&mut self, sample: Sample, by_chance: &[u64]) {
        for ((table, choice), by_chance) in self.tables.iter().zip(&mut self.choices).zip(by_chance) {
            if let Choice::Some { rows, bytes } = choice {
                let share = f64::from(sample.per_million()) / 1e6;
                let estimate = table.bytes as f64 * share * rows.rows() as f64 / (*by_chance).max(1) as f64;
                *bytes = (estimate as u64).min(table.bytes);
            }
        }
    }

    fn too_large(&self, place: usize) -> Error {
        let (its, all): (u64, u64) = (self.choices[place].rows(), self.choices.iter().map(Choice::rows).sum());
        Error::Refused {
            code: "postgres.sample-too-large",
            object: self.tables[place].shown(),
            cause: format!(
                "{all} rows of the sample, {its} of them of this table, are more than can be remembered in {} bytes, \
                 which is what --memory leaves for it",
                self.room
            ),
            next: "give a smaller --sample, or more --memory".to_owned(),
        }
    }
}

/// The query for a share of a table's rows.
fn by_chance(table: &str, sample: Sample) -> String {
    let percent = sample.percent();
    format!("SELECT tableoid, ctid FROM ONLY {table} TABLESAMPLE pg_catalog.bernoulli ({percent}) REPEATABLE (0)")
}

/// A line of COPY: the number of a table, and a place.
fn parse(line: &[u8]) -> Option<(u64, RowAddress)> {
    let line = line.strip_suffix(b"\n")?;
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let table = std::str::from_utf8(&line[..tab]).ok()?.parse().ok()?;
    Some((table, RowAddress::parse(&line[tab + 1..])?))
}

/// Tables that have few rows, with all that inherits from the same.
async fn few(connection: &mut Connection, tables: &[Table], families: &[u64]) -> Result<BTreeSet<u64>, Error> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let all: Vec<(&Table, u64)> = tables.iter().zip(families.iter().copied()).collect();
    let asked: Vec<(&Table, u64)> = all.iter().filter(|(table, _)| !table.evaluates).copied().collect();
    for some in asked.chunks(TABLES) {
        let count = |(table, family): &(&Table, u64)| {
            format!("SELECT {family}, pg_catalog.count(*) FROM (SELECT FROM ONLY {} LIMIT {FEW}) AS rows", table.sql())
        };
        let sql = some.iter().map(count).collect::<Vec<_>>().join(" UNION ALL ");
        for row in connection.query(&sql).await? {
            *counts.entry(row.number(0)).or_default() += row.number(1);
        }
    }
    let is_few = |(_, family): &&(&Table, u64)| counts.get(family).is_none_or(|rows| *rows < FEW);
    Ok(all.iter().filter(is_few).map(|(table, _)| table.oid).collect())
}

/// Partitions and inheriting tables, with their parent; for several parents the first.
async fn heirs(connection: &mut Connection) -> Result<Vec<Heir>, Error> {
    let sql = "SELECT i.inhrelid, i.inhparent, c.relkind = 'p' FROM pg_catalog.pg_inherits i \
               JOIN pg_catalog.pg_class c ON c.oid = i.inhparent \
               WHERE c.relkind IN ('r', 'p') ORDER BY i.inhrelid, i.inhseqno";
    let heir = |row: &Row| Heir { table: row.number(0), of: row.number(1), is_partition: row.flag(2) };
    Ok(connection.query(sql).await?.iter().map(heir).collect())
}

/// Foreign keys, without those that only represent another one at a partition. Keys that aren't enforced are included,
/// because a row is more useful with the row that it refers to, if that exists. The last two columns: whether an
/// operator of the key is a function that no superuser owns, and whether any conversion of the database is.
const FOREIGN_KEYS: &str = "
SELECT k.conrelid, k.confrelid, n.nspname, c.relname, c.relkind = 'p', (
  SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
    'from', f.attname, 'to', t.attname, 'operator', pg_catalog.json_build_array(o_n.nspname, o.oprname),
    'from_type', CASE WHEN f.atttypid <> o.oprright AND r.typtype <> 'p'
    THEN pg_catalog.json_build_array(r_n.nspname, r.typname) END,
    'to_type', CASE WHEN t.atttypid <> o.oprleft AND l.typtype <> 'p'
    THEN pg_catalog.json_build_array(l_n.nspname, l.typname) END,
    'collation', CASE WHEN t.attcollation NOT IN (0, f.attcollation)
    THEN pg_catalog.json_build_array(x_n.nspname, x.collname) END) ORDER BY u.at)
  FROM unnest(k.conkey, k.confkey, k.conpfeqop) WITH ORDINALITY AS u (\"from\", \"to\", operator, at)
  JOIN pg_catalog.pg_attribute f ON f.attrelid = k.conrelid AND f.attnum = u.\"from\"
  JOIN pg_catalog.pg_attribute t ON t.attrelid = k.confrelid AND t.attnum = u.\"to\"
  JOIN pg_catalog.pg_operator o ON o.oid = u.operator JOIN pg_catalog.pg_namespace o_n ON o_n.oid = o.oprnamespace
  JOIN pg_catalog.pg_type l ON l.oid = o.oprleft JOIN pg_catalog.pg_namespace l_n ON l_n.oid = l.typnamespace
  JOIN pg_catalog.pg_type r ON r.oid = o.oprright JOIN pg_catalog.pg_namespace r_n ON r_n.oid = r.typnamespace
  LEFT JOIN pg_catalog.pg_collation x ON x.oid = t.attcollation
  LEFT JOIN pg_catalog.pg_namespace x_n ON x_n.oid = x.collnamespace)
  , EXISTS (SELECT FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
            JOIN pg_catalog.pg_roles w ON w.oid = p.proowner WHERE o.oid = ANY (k.conpfeqop) AND NOT w.rolsuper)
  , EXISTS (SELECT FROM pg_catalog.pg_cast x JOIN pg_catalog.pg_proc p ON p.oid = x.castfunc
            JOIN pg_catalog.pg_roles w ON w.oid = p.proowner WHERE NOT w.rolsuper)
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.confrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'f' AND k.conparentid = 0
ORDER BY k.oid";

async fn foreign_keys(connection: &mut Connection) -> Result<Vec<ForeignKey>, Error> {
    let rows = connection.query(FOREIGN_KEYS).await?;
    rows.iter().map(foreign_key).collect()
}

fn foreign_key(row: &Row) -> Result<ForeignKey, Error> {
    let columns: Vec<Column> = serde_json::from_str(row.text(5))
        .map_err(|error| Error::Internal(format!("the columns of a foreign key: {error}")))?;
    Ok(ForeignKey {
        from: row.number(0),
        to: row.number(1),
        to_name: (row.text(2).to_owned(), row.text(3).to_owned()),
        to_is_partitioned: row.flag(4),
        calls_users: row.flag(6) || (row.flag(7) && columns.iter().any(Column::is_converted)),
        columns,
    })
}
