//! The first shadow of a DBI: a copy of the DBI with headers, in slices that hold the write lock for a moment each.
//!
//! No version exists yet that an entry could lose against, so nothing is compared and no spool is needed. If the
//! application writes a key that the copy has passed already, the copy misses the change; [`crate::capture`] finds it
//! like any other. A crash leaves the first part of the copy, and the next run finds the rest as changes.

use tokio::time::Instant;

use crate::Stamp;
use crate::environment::{Dbi, Env, Meaning, WriteTxn};
use crate::error::Error;
use crate::merge::apply::{Applied, Pace, give_way};
use crate::schema::flags::Flags;
use crate::schema::header::Stored;
use crate::schema::{Schema, Tables};

/// The most entries that are read before they are written.
const GATHER: usize = 256;

/// The most bytes of these entries, unless a single entry has more.
const BYTES: usize = 256 << 10;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Filled {
    /// What the copy wrote.
    pub(crate) applied: Applied,
    /// Whether this copy made the first shadow of every DBI.
    pub(crate) all: bool,
}

/// Makes shadows of the DBIs that have none. If one of the shadows would have another order than its DBI, it copies
/// nothing and leaves all to the comparison. `count` is called with the numbers of the transactions.
pub(crate) fn shadows(
    env: &Env,
    schema: &Schema,
    stamp: Stamp,
    pace: Pace,
    count: &mut dyn FnMut(u64),
) -> Result<Filled, Error> {
    let mut names = Vec::new();
    let mut filled = Filled { applied: Applied::default(), all: true };
    {
        let mut txn = env.read()?;
        for name in schema.names(txn.names()?) {
            let Tables { main: Some(main), versions } = Tables::open(schema, &mut txn, &name)? else { continue };
            let other = main.flags().contains(Flags::DUPSORT) || main.flags().contains(Flags::REVERSE_KEY);
            match versions {
                Some(_) => filled.all = false,
                // Copy every DBI or none: then the first shadows of a small environment come in one transaction, as
                // Lightning Stream's do.
                None if other => return Ok(Filled::default()),
                None => names.push(name),
            }
        }
    }
    let mut copy = Copy { env, schema, names, stamp, pace, at: Copied::default(), value: Vec::new() };
    while copy.at.dbi < copy.names.len() {
        give_way(&filled.applied);
        match copy.slice(&mut filled.applied, count) {
            Err(error) if error.meaning() == Some(Meaning::MapFull) && env.make_room()? => {}
            done => done?,
        }
    }
    Ok(filled)
}

/// DBIs that are being copied.
struct Copy<'a> {
    env: &'a Env,
    schema: &'a Schema,
    names: Vec<Vec<u8>>,
    stamp: Stamp,
    pace: Pace,
    /// How far the copy is.
    at: Copied,
    value: Vec<u8>,
}

/// How far the copy is.
#[derive(Debug, Clone, Default)]
struct Copied {
    /// The number of the DBI.
    dbi: usize,
    /// The last key of it that was copied.
    key: Vec<u8>,
}

/// Keys and values of some entries.
#[derive(Default)]
struct Gathered {
    data: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Copy<'_> {
    /// Copies for as long as the lock may be held.
    fn slice(&mut self, applied: &mut Applied, count: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let mut txn = self.env.write()?;
        let locked = Instant::now();
        let (mut gathered, mut at, mut entries) = (Gathered::default(), self.at.clone(), 0);
        // Half of the time is kept for the commit.
        while locked.elapsed() < self.pace.slice / 2
            && let Some(name) = self.names.get(at.dbi).cloned()
        {
            gathered.clear();
            if let Some(main) = txn.open(&name)? {
                let flags = self.schema.version_flags(main.flags());
                let shadow = txn.create(&self.schema.versions(&name), flags)?;
                gathered.read(&txn, main, &mut at.key)?;
                self.append(&mut txn, shadow, &gathered)?;
            }
            entries += gathered.ends.len() as u64;
            if gathered.ends.is_empty() {
                at = Copied { dbi: at.dbi + 1, key: Vec::new() };
            }
        }
        let (transaction, changed) = (txn.id(), txn.changed());
        txn.commit()?;
        self.at = at;
        if changed {
            count(transaction);
            applied.entries += entries;
            applied.transactions += 1;
        }
        applied.longest = applied.longest.max(locked.elapsed());
        Ok(())
    }

    fn append(&mut self, txn: &mut WriteTxn<'_>, shadow: Dbi, gathered: &Gathered) -> Result<(), Error> {
        let mut start = 0;
        for (key, end) in &gathered.ends {
            let (Some(key), Some(value)) = (gathered.data.get(start..*key), gathered.data.get(*key..*end)) else {
                return Ok(());
            };
            let stored = Stored { stamp: self.stamp, transaction: txn.id(), deleted: false, value };
            stored.write(self.schema.padding, &mut self.value);
            txn.append(shadow, key, &self.value)?;
            start = *end;
        }
        Ok(())
    }
}

impl Gathered {
    fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }

    /// Reads the entries after `at` and advances `at`.
    fn read(&mut self, txn: &WriteTxn<'_>, main: Dbi, at: &mut Vec<u8>) -> Result<(), Error> {
        let mut cursor = txn.cursor(main)?;
        let mut next = if at.is_empty() { cursor.first()? } else { cursor.from(at)? };
        if next.is_some_and(|(key, _)| key == at.as_slice()) {
            next = cursor.next()?;
        }
        let mut last = None;
        while let Some((key, value)) = next.filter(|_| self.ends.len() < GATHER && self.data.len() < BYTES) {
            self.data.extend_from_slice(key);
            let end = self.data.len();
            self.data.extend_from_slice(value);
            self.ends.push((end, self.data.len()));
            last = Some(key);
            next = cursor.next()?;
        }
        if let Some(last) = last {
            at.clear();
            at.extend_from_slice(last);
        }
        Ok(())
    }
}
