//! Writes waiting entries: in slices that hold the write lock for a moment each, or in one transaction.
//!
//! Every entry is decided once more under the lock, because the application may have written since the decision was
//! prepared. In shadow mode, an entry's shadow and the application's own value change in the same transaction. A change
//! by the application that Seawall hasn't seen yet is recorded before another version is merged over it.
//!
//! A crash leaves the first slices written. They hold versions that would have won anyway, and the next run merges the
//! rest.

use std::cmp::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::Stamp;
use crate::environment::{Dbi, Env, Meaning, WriteTxn};
use crate::error::Error;
use crate::merge::spool::{Batch, Spool, Waiting};
use crate::merge::{Verdict, Version, decide};
use crate::schema::Schema;
use crate::schema::dupsort;
use crate::schema::flags::Flags;
use crate::schema::header::Stored;
use crate::schema::order::compare;
use crate::snapshot::Entry;

/// Bytes of entries that are taken out of the spool at once, without holding the lock.
const BATCH: usize = 4 << 20;

/// Entries between two looks at the clock.
const LOOK: usize = 32;

/// The shortest time that a slice writes before it commits, however slow the disk is.
const SHORTEST: Duration = Duration::from_millis(2);

/// How long Seawall leaves the lock free between two slices.
const PAUSE: Duration = Duration::from_millis(1);

/// A DBI that entries are written to; made if it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// The application's name of it.
    pub(crate) name: Vec<u8>,
    /// The flags of the application's DBI.
    pub(crate) flags: Flags,
    /// Whether it has to be made.
    pub(crate) missing: bool,
}

/// What the entries are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Versions from another instance. Deletions of unknown keys from before `cutoff` are left out. A change by the
    /// application that is found during the merge gets the time `now`.
    Merge { cutoff: Stamp, now: Stamp },
    /// Keys that the application changed, each with the time that its version gets.
    Capture,
    /// Deletions from before `cutoff`, which the sweep removes.
    Sweep { cutoff: Stamp },
}

/// How long a transaction holds the write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The longest that one transaction should take, its commit included.
    pub slice: Duration,
    /// Write everything of one snapshot in one transaction, however long it takes and however much memory liblmdb needs
    /// for its pages.
    pub whole: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { slice: Duration::from_millis(50), whole: false }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Keys that changed.
    pub entries: u64,
    /// Transactions, without those that changed nothing.
    pub transactions: u64,
    /// The longest time that the write lock was held.
    pub longest: Duration,
}

impl Applied {
    /// The sum of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            transactions: self.transactions + other.transactions,
            longest: self.longest.max(other.longest),
        }
    }
}

/// The last transaction up to which every change was sent, or received from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Tide(pub(crate) u64);

impl Tide {
    /// Counts a transaction of our own. The tide only moves if no other process wrote in between.
    pub(crate) fn own(&mut self, transaction: u64) {
        if self.0.checked_add(1) == Some(transaction) {
            self.0 = transaction;
        }
    }
}

/// Writes all waiting entries. `count` is called with the numbers of the transactions.
pub(crate) fn apply(
    env: &Env,
    schema: &Schema,
    tables: &[Table],
    mut spool: Spool,
    purpose: Purpose,
    pace: Pace,
    count: &mut dyn FnMut(u64),
) -> Result<Applied, Error> {
    let mut applied = Applied::default();
    loop {
        match write(env, schema, tables, spool.read()?, (purpose, pace), count, &mut applied) {
            // Start again: an entry that is written already doesn't win against itself.
            Err(error) if error.meaning() == Some(Meaning::MapFull) && env.make_room()? => {}
            done => return done.map(|()| applied),
        }
    }
}

/// The same, until the map is full.
fn write(
    env: &Env,
    schema: &Schema,
    tables: &[Table],
    mut waiting: Waiting,
    (purpose, pace): (Purpose, Pace),
    count: &mut dyn FnMut(u64),
    applied: &mut Applied,
) -> Result<(), Error> {
    let (mut batch, mut from) = (Batch::default(), 0);
    let mut commit = Duration::ZERO;
    let mut first = tables.iter().any(|table| table.missing);
    loop {
        if from == batch.len() {
            waiting.fill(&mut batch, BATCH)?;
            from = 0;
            if batch.len() == 0 && !first {
                return Ok(());
            }
        }
        give_way(applied);
        let mut slice = Slice::begin(env, schema, tables, purpose)?;
        let locked = Instant::now();
        let budget = pace.slice.saturating_sub(commit).max(SHORTEST);
        loop {
            from += slice.write(batch.entries(from), (!pace.whole).then(|| locked + budget))?;
            if !pace.whole || from < batch.len() {
                break;
            }
            waiting.fill(&mut batch, BATCH)?;
            from = 0;
            if batch.len() == 0 {
                break;
            }
        }
        first = false;
        let committing = Instant::now();
        let entries = slice.entries;
        if slice.commit(count)? {
            applied.entries += entries;
            applied.transactions += 1;
            // The next commit is expected to take as long as the last one.
            commit = committing.elapsed().min(pace.slice / 2);
        }
        applied.longest = applied.longest.max(locked.elapsed());
    }
}

/// Gives an application that waits for the write lock a chance to take it, before every slice but the first. The lock
/// isn't fair: a process that takes it again at once keeps all others out as long as it has entries to write.
pub(crate) fn give_way(applied: &Applied) {
    if applied.transactions > 0 {
        #[expect(clippy::disallowed_methods, reason = "on a thread that may block, for a moment")]
        std::thread::sleep(PAUSE);
    }
}

/// The handles of a table within one transaction.
struct Open {
    name: Vec<u8>,
    main: Dbi,
    versions: Dbi,
    /// The last key of `main`, and the last key of `versions`.
    ends: (End, End),
}

/// The last key of a DBI, as long as new entries come after it.
#[derive(Default)]
enum End {
    /// Not read yet.
    #[default]
    Unknown,
    /// The last key, or a key after it; empty if the DBI has none.
    Key(Vec<u8>),
    /// Not needed any more: entries come before it.
    Inside,
}

impl End {
    /// Whether a key sorts after all keys in `dbi`.
    fn is_before(&mut self, txn: &WriteTxn<'_>, dbi: Dbi, key: &[u8]) -> Result<bool, Error> {
        if matches!(self, Self::Unknown) {
            let last = txn.cursor(dbi)?.last()?;
            *self = Self::Key(last.map(|(key, _)| key.to_vec()).unwrap_or_default());
        }
        let Self::Key(last) = self else { return Ok(false) };
        let before = last.is_empty() || compare(dbi.flags(), last, key) == Ordering::Less;
        if !before {
            *self = Self::Inside;
        }
        Ok(before)
    }

    /// Notes that a key was added after all others.
    fn moved(&mut self, key: &[u8]) {
        if let Self::Key(last) = self {
            last.clear();
            last.extend_from_slice(key);
        }
    }
}

/// One write transaction.
struct Slice<'a> {
    schema: &'a Schema,
    purpose: Purpose,
    txn: WriteTxn<'a>,
    tables: Vec<Open>,
    value: Vec<u8>,
    entries: u64,
}

impl<'a> Slice<'a> {
    fn begin(env: &'a Env, schema: &'a Schema, tables: &[Table], purpose: Purpose) -> Result<Self, Error> {
        let mut txn = env.write()?;
        let mut open = Vec::with_capacity(tables.len());
        for table in tables {
            let main = txn.create(&table.name, table.flags)?;
            schema.admit(env.path(), &table.name, main.flags())?;
            let versions = if schema.native {
                main
            } else {
                txn.create(&schema.versions(&table.name), schema.version_flags(main.flags()))?
            };
            open.push(Open { name: table.name.clone(), main, versions, ends: Default::default() });
        }
        Ok(Self { schema, purpose, txn, tables: open, value: Vec::new(), entries: 0 })
    }

    /// Writes entries until the deadline; returns how many.
    fn write<'b>(
        &mut self,
        entries: impl Iterator<Item = (u16, Entry<'b>)>,
        deadline: Option<Instant>,
    ) -> Result<usize, Error> {
        let mut taken = 0;
        for (table, entry) in entries {
            let at = usize::from(table);
            let changed = match self.purpose {
                Purpose::Sweep { cutoff } => self.sweep(at, &entry, cutoff)?,
                _ if self.schema.native => self.native(at, &entry)?,
                _ => self.shadow(at, &entry)?,
            };
            self.entries += u64::from(changed);
            taken += 1;
            if taken % LOOK == 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
        }
        Ok(taken)
    }

    /// Commits, if anything changed: an empty transaction has no number of its own.
    fn commit(self, count: &mut dyn FnMut(u64)) -> Result<bool, Error> {
        if !self.txn.changed() {
            return Ok(false);
        }
        let transaction = self.txn.id();
        self.txn.commit()?;
        count(transaction);
        Ok(true)
    }

    fn cutoff(&self) -> Stamp {
        if let Purpose::Merge { cutoff, .. } = self.purpose { cutoff } else { Stamp(0) }
    }

    /// Removes a deletion, if the key is still deleted. The application's DBI hasn't had the key since the deletion.
    fn sweep(&mut self, table: usize, entry: &Entry<'_>, cutoff: Stamp) -> Result<bool, Error> {
        let Some(open) = self.tables.get(table) else { return Ok(false) };
        let Some(bytes) = self.txn.get(open.versions, entry.key)? else { return Ok(false) };
        let version = self.version(open, bytes)?;
        if !version.deleted || version.stamp >= cutoff {
            return Ok(false);
        }
        self.txn.delete(open.versions, entry.key)
    }

    /// Merges an entry into a DBI with headers; returns whether it changed anything.
    fn native(&mut self, table: usize, entry: &Entry<'_>) -> Result<bool, Error> {
        let Some(open) = self.tables.get_mut(table) else { return Ok(false) };
        let append = open.ends.1.is_before(&self.txn, open.versions, entry.key)?;
        let Some(open) = self.tables.get(table) else { return Ok(false) };
        let new = Version { stamp: entry.stamp, value: entry.value, deleted: entry.deleted };
        let current = if append { None } else { self.txn.get(open.versions, entry.key)? };
        let old = current.map(|bytes| self.version(open, bytes)).transpose()?;
        if decide(old.as_ref(), &new, self.cutoff()) == Verdict::Keep {
            return Ok(false);
        }
        self.put_version(table, entry.key, &new, append)?;
        Ok(true)
    }

    fn version<'b>(&self, open: &Open, bytes: &'b [u8]) -> Result<Version<'b>, Error> {
        let stored = Stored::parse(bytes).map_err(|what| Error::schema(self.txn.env().path(), &open.name, what))?;
        Ok(Version { stamp: stored.stamp, value: stored.value, deleted: stored.deleted })
    }

    fn put_version(&mut self, table: usize, key: &[u8], new: &Version<'_>, append: bool) -> Result<(), Error> {
        let Some(open) = self.tables.get_mut(table) else { return Ok(()) };
        let stored = Stored { stamp: new.stamp, transaction: self.txn.id(), deleted: new.deleted, value: new.value };
        stored.write(self.schema.padding, &mut self.value);
        if append {
            open.ends.1.moved(key);
            self.txn.append(open.versions, key, &self.value)
        } else {
            self.txn.put(open.versions, key, &self.value)
        }
    }

    /// Records the application's own value in the shadow if they differ, then merges an entry into both.
    fn shadow(&mut self, table: usize, entry: &Entry<'_>) -> Result<bool, Error> {
        let Some(open) = self.tables.get_mut(table) else { return Ok(false) };
        let (main, dups) = (open.main, open.main.flags().contains(Flags::DUPSORT));
        let append = open.ends.1.is_before(&self.txn, open.versions, entry.key)?;
        let append_main = !dups && open.ends.0.is_before(&self.txn, main, entry.key)?;
        let Some(open) = self.tables.get(table) else { return Ok(false) };
        let current = if append { None } else { self.txn.get(open.versions, entry.key)? };
        let shadow = current.map(|bytes| self.version(open, bytes)).transpose()?;
        let known = shadow.filter(|version| !version.deleted).map(|version| version.value);
        let foreign = |_| Error::schema(self.txn.env().path(), &open.name, "its shadow has a key of another kind");
        let key = if dups { dupsort::split(entry.key).map_err(foreign)? } else { entry.key };
        let value = if dups {
            let candidate = known.or((!entry.deleted).then_some(entry.value));
            let there = match candidate {
                Some(value) => self.txn.cursor(main)?.has_value(key, value)?,
                None => false,
            };
            candidate.filter(|_| there)
        } else if append_main {
            None
        } else {
            self.txn.get(main, key)?
        };
        let local = (value != known).then(|| local_version(shadow.as_ref(), value, self.stamp_for(entry)));
        let new = Version { stamp: entry.stamp, value: entry.value, deleted: entry.deleted };
        let takes = match self.purpose {
            Purpose::Capture | Purpose::Sweep { .. } => false,
            Purpose::Merge { cutoff, .. } => decide(local.as_ref().or(shadow.as_ref()), &new, cutoff) == Verdict::Take,
        };
        let changed = takes || local.is_some();
        if takes {
            // The application's value is removed if it differs; of duplicates, only the value that the entry names.
            let (was, same) = (value.map(<[u8]>::to_vec), value == Some(new.value) && !new.deleted);
            self.put_version(table, entry.key, &new, append)?;
            if append_main && !new.deleted {
                self.append_main(table, key, new.value)?;
            } else if !same {
                self.put_main(main, key, was.as_deref(), &new, dups)?;
            }
        } else if let Some(local) = local {
            let value = local.value.to_vec();
            self.put_version(table, entry.key, &Version { value: &value, ..local }, append)?;
        }
        Ok(changed)
    }

    /// The time that a change by the application gets.
    fn stamp_for(&self, entry: &Entry<'_>) -> Stamp {
        if let Purpose::Merge { now, .. } = self.purpose { now } else { entry.stamp }
    }

    fn append_main(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let Some(open) = self.tables.get_mut(table) else { return Ok(()) };
        open.ends.0.moved(key);
        self.txn.append(open.main, key, value)
    }

    fn put_main(
        &mut self,
        main: Dbi,
        key: &[u8],
        was: Option<&[u8]>,
        new: &Version<'_>,
        dups: bool,
    ) -> Result<(), Error> {
        match was {
            Some(was) if dups => drop(self.txn.delete_value(main, key, was)?),
            Some(_) if new.deleted => drop(self.txn.delete(main, key)?),
            _ => {}
        }
        if new.deleted { Ok(()) } else { self.txn.put(main, key, new.value) }
    }
}

/// The version for a change that the application made without a header. It is newer than the version that it changed,
/// whatever the clocks say.
fn local_version<'a>(shadow: Option<&Version<'_>>, value: Option<&'a [u8]>, stamp: Stamp) -> Version<'a> {
    let after = shadow.map_or(Stamp(0), |shadow| Stamp(shadow.stamp.0.saturating_add(1)));
    Version { stamp: stamp.max(after), value: value.unwrap_or_default(), deleted: value.is_none() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_newer_than_what_it_was_made_on() {
        let ahead = Version { stamp: Stamp(900), value: b"other", deleted: false };
        for (shadow, value, stamp, expected) in [
            (None, Some(&b"v"[..]), 7, (7, false)),
            (None, Some(b"v"), 0, (0, false)),
            (Some(&ahead), Some(b"v"), 1000, (1000, false)),
            (Some(&ahead), Some(b"v"), 7, (901, false)),
            (Some(&ahead), None, 7, (901, true)),
        ] {
            let version = local_version(shadow, value, Stamp(stamp));
            assert_eq!((version.stamp.0, version.deleted), expected);
        }
    }

    #[test]
    fn only_an_unbroken_row_of_our_own_transactions_counts() {
        let mut tide = Tide(5);
        tide.own(6);
        tide.own(7);
        assert_eq!(tide, Tide(7));
        tide.own(9);
        tide.own(10);
        assert_eq!(tide, Tide(7), "somebody else wrote 8");
    }
}
