//! Reads a snapshot and compares it with an environment: is it whole, does it fit, and which of its versions win?
//!
//! This module writes nothing to the environment. Winning versions wait in a [`Spool`] until the whole snapshot was
//! read, so that a damaged snapshot changes nothing. No transaction is open while bytes arrive: entries are gathered,
//! and each batch is compared in a short read transaction.

use std::io::Read;
use std::path::PathBuf;

use crate::Stamp;
use crate::environment::{Env, ReadTxn};
use crate::error::{Error, snapshot_problem};
use crate::merge::apply::Table;
use crate::merge::belongs::belongs;
use crate::merge::seek::Seeker;
use crate::merge::spool::{Batch, Spool};
use crate::merge::{Verdict, Version, decide};
use crate::schema::dupsort;
use crate::schema::flags::Flags;
use crate::schema::header::Stored;
use crate::schema::{Schema, Tables, is_private};
use crate::snapshot::{Database, Item, Limits, Preamble, Rule, SnapshotName, SnapshotReader};

/// Bytes of entries that are compared in one read transaction.
const GATHER: usize = 512 << 10;

/// How to read a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Survey {
    /// The object, for people.
    pub(crate) object: String,
    /// What the content must belong to.
    pub(crate) name: Option<SnapshotName>,
    /// Deletions of unknown keys from before this are left out.
    pub(crate) cutoff: Stamp,
    /// The limits that the snapshot must keep.
    pub(crate) limits: Limits,
    /// The folder for the spool's file.
    pub(crate) folder: PathBuf,
    /// Its bound in bytes.
    pub(crate) spool: u64,
}

/// What a snapshot would change.
#[derive(Debug)]
pub(crate) struct Winners {
    /// Who wrote the snapshot.
    pub(crate) preamble: Preamble,
    /// The DBIs that the entries belong to.
    pub(crate) tables: Vec<Table>,
    /// Versions that are newer than the environment's.
    pub(crate) spool: Spool,
    /// Entries in the snapshot.
    pub(crate) entries: u64,
}

/// A DBI of the snapshot that is being read.
struct Target {
    table: u16,
    dups: bool,
    /// The length that all keys of a DBI with integer keys must have; 0 before the first key.
    integers: Option<usize>,
}

/// Reads all of a snapshot.
pub(crate) fn survey(env: &Env, schema: &Schema, source: impl Read, how: &Survey) -> Result<Winners, Error> {
    let mut reader = SnapshotReader::new(source, how.limits);
    let mut tables = Vec::new();
    let mut spool = Spool::new(&how.folder, how.spool);
    let (mut batch, mut target, mut entries) = (Batch::default(), None::<Target>, 0);
    loop {
        let at = reader.offset();
        let refuse = |rule: Rule| Error::Snapshot { object: how.object.clone(), fault: rule.at(at) };
        match reader.next().map_err(|problem| snapshot_problem(&how.object, problem))? {
            None => break,
            Some(Item::Database(preamble, database)) => {
                compare(env, schema, &tables, &mut batch, how.cutoff, &mut spool)?;
                target = choose(env, schema, &mut tables, preamble, database, &how.object, refuse)?;
            }
            Some(Item::Entry(_, entry)) => {
                entries += 1;
                let Some(target) = &mut target else { continue };
                target.check(entry.key, entry.value, entry.deleted).map_err(refuse)?;
                batch.push(target.table, &entry);
                if batch.bytes() >= GATHER {
                    compare(env, schema, &tables, &mut batch, how.cutoff, &mut spool)?;
                }
            }
        }
    }
    compare(env, schema, &tables, &mut batch, how.cutoff, &mut spool)?;
    if let Some(name) = &how.name {
        belongs(&reader.preamble().meta, name, &how.object)?;
    }
    Ok(Winners { preamble: reader.preamble().clone(), tables, spool, entries })
}

impl Target {
    /// Checks that a DBI can take a key.
    fn check(&mut self, key: &[u8], value: &[u8], deleted: bool) -> Result<(), Rule> {
        if self.dups {
            return if deleted { dupsort::split(key).map(drop) } else { dupsort::fits(key, value) };
        }
        let Some(expected) = &mut self.integers else { return Ok(()) };
        if *expected == 0 {
            *expected = key.len();
        }
        if key.len() == *expected && matches!(key.len(), 4 | 8) { Ok(()) } else { Err(Rule::IntegerKey) }
    }
}

/// Finds the table of a snapshot's DBI, or adds it to the tables to be made; `None` if the DBI doesn't take part.
fn choose(
    env: &Env,
    schema: &Schema,
    tables: &mut Vec<Table>,
    preamble: &Preamble,
    database: &Database,
    object: &str,
    refuse: impl Fn(Rule) -> Error,
) -> Result<Option<Target>, Error> {
    if is_private(&database.name) {
        return Ok(None);
    }
    schema.accepts(preamble.format, database.flags, &database.transform).map_err(&refuse)?;
    let hack = !database.transform.is_empty();
    let mut txn = env.read()?;
    let found = Tables::open(schema, &mut txn, &database.name)?;
    let (flags, missing) = match found.main {
        Some(main) => (main.flags(), false),
        None => {
            let flags = schema.flags_for(&database.name, preamble.format, database.flags);
            let unknown =
                || Error::UnknownFlags { object: object.to_owned(), dbi: crate::error::shown(&database.name) };
            (flags.ok_or_else(unknown)?, true)
        }
    };
    if flags.contains(Flags::DUPSORT) != hack {
        return Err(refuse(Rule::Dupsort));
    }
    let integers = match found.main {
        _ if !flags.contains(Flags::INTEGER_KEY) => None,
        Some(main) => Some(txn.cursor(main)?.first()?.map_or(0, |(key, _)| key.len())),
        None => Some(0),
    };
    let table = match tables.iter().position(|table| table.name == database.name) {
        Some(at) => at,
        None => {
            let made = tables.iter().filter(|table| table.missing).count();
            if missing && count(schema, &mut txn)? + made >= env.max_dbs() as usize {
                return Err(refuse(Rule::TooManyDbis));
            }
            tables.push(Table { name: database.name.clone(), flags, missing });
            tables.len() - 1
        }
    };
    let table = u16::try_from(table).map_err(|_| refuse(Rule::TooManyDbis))?;
    Ok(Some(Target { table, dups: hack, integers }))
}

fn count(schema: &Schema, txn: &mut ReadTxn<'_>) -> Result<usize, Error> {
    Ok(schema.names(txn.names()?).len())
}

/// Keeps the entries of a batch that win against the environment's versions. All belong to one table.
fn compare(
    env: &Env,
    schema: &Schema,
    tables: &[Table],
    batch: &mut Batch,
    cutoff: Stamp,
    spool: &mut Spool,
) -> Result<(), Error> {
    let Some(table) = batch.entries(0).next().and_then(|(table, _)| tables.get(usize::from(table))) else {
        return Ok(());
    };
    let mut txn = env.read()?;
    let versions = Tables::open(schema, &mut txn, &table.name)?.versions;
    let mut seeker = match versions {
        Some(dbi) => Some(Seeker::new(txn.cursor(dbi)?, dbi.flags())),
        None => None,
    };
    for (table_number, entry) in batch.entries(0) {
        let current = match &mut seeker {
            Some(seeker) => seeker.find(entry.key)?,
            None => None,
        };
        let stored = current.map(Stored::parse).transpose();
        let stored = stored.map_err(|what| Error::schema(env.path(), &table.name, what))?;
        let old = stored.map(|old| Version { stamp: old.stamp, value: old.value, deleted: old.deleted });
        let new = Version { stamp: entry.stamp, value: entry.value, deleted: entry.deleted };
        if decide(old.as_ref(), &new, cutoff) == Verdict::Take {
            spool.push(table_number, &entry)?;
        }
    }
    batch.clear();
    Ok(())
}
