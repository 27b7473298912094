//! Finding what the application changed in an environment whose versions are kept in shadows.
//!
//! The application's DBIs are compared with their shadows, side by side where both have one order, else each with lookups
//! in the other; what differs waits in a [`Spool`], and is recorded by [`crate::apply`]. Nothing is written here.

use std::cmp::Ordering;
use std::path::Path;

use crate::Stamp;
use crate::apply::Table;
use crate::dupsort;
use crate::environment::{Dbi, Env, ReadTxn};
use crate::error::Error;
use crate::flags::Flags;
use crate::header::Stored;
use crate::order::compare;
use crate::schema::{Schema, Tables};
use crate::seek::Seeker;
use crate::snapshot::Entry;
use crate::spool::Spool;

/// When changes that come to light are said to have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moments {
    /// For DBIs that have a shadow.
    pub(crate) known: Stamp,
    /// For DBIs that have none yet: nobody knows how old they are.
    pub(crate) fresh: Stamp,
}

/// What the application changed.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The DBIs that the entries belong to.
    pub(crate) tables: Vec<Table>,
    /// Keys, each with the value that the application has now.
    pub(crate) spool: Spool,
    /// The transaction that was looked at.
    pub(crate) transaction: u64,
}

/// Compares every DBI with its shadow.
pub(crate) fn changes(
    env: &Env,
    schema: &Schema,
    moments: Moments,
    folder: &Path,
    limit: u64,
) -> Result<Changes, Error> {
    let mut txn = env.read()?;
    let mut found = Changes { tables: Vec::new(), spool: Spool::new(folder, limit), transaction: txn.id() };
    for name in schema.names(txn.names()?) {
        let Tables { main: Some(main), versions } = Tables::open(schema, &mut txn, &name)? else { continue };
        let number = u16::try_from(found.tables.len())
            .map_err(|_| Error::schema(env.path(), &name, "there are too many DBIs"))?;
        let stamp = if versions.is_some() { moments.known } else { moments.fresh };
        let pair = Pair { txn: &txn, name: &name, main, versions, number, stamp };
        pair.compare(&mut found.spool)?;
        found.tables.push(Table { name, flags: main.flags(), missing: versions.is_none() });
    }
    Ok(found)
}

/// A DBI and its shadow.
struct Pair<'a> {
    txn: &'a ReadTxn<'a>,
    name: &'a [u8],
    main: Dbi,
    versions: Option<Dbi>,
    number: u16,
    stamp: Stamp,
}

impl Pair<'_> {
    fn dups(&self) -> bool {
        self.main.flags().contains(Flags::DUPSORT)
    }

    fn wrong(&self, what: &'static str) -> Error {
        Error::schema(self.txn.env().path(), self.name, what)
    }

    fn compare(&self, spool: &mut Spool) -> Result<(), Error> {
        match self.versions {
            Some(versions) if !self.dups() && !self.main.flags().contains(Flags::REVERSE_KEY) => {
                self.side_by_side(versions, spool)
            }
            _ => {
                self.added(spool)?;
                self.removed(spool)
            }
        }
    }

    /// Both at once, which have the same order.
    fn side_by_side(&self, versions: Dbi, spool: &mut Spool) -> Result<(), Error> {
        let (mut main, mut shadow) = (self.txn.cursor(self.main)?, self.txn.cursor(versions)?);
        let (mut ours, mut known) = (main.first()?, shadow.first()?);
        let live = |key, value| Entry { key, value, stamp: self.stamp, deleted: false };
        loop {
            let side = match (ours, known) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, _)), Some((shadow, _))) => compare(self.main.flags(), key, shadow),
            };
            if let Some((key, value)) = ours.filter(|_| side != Ordering::Greater) {
                let same = match known.filter(|_| side == Ordering::Equal) {
                    Some((_, bytes)) => {
                        let shadow = self.parse(bytes)?;
                        !shadow.deleted && shadow.value == value
                    }
                    None => false,
                };
                if !same {
                    spool.push(self.number, &live(key, value))?;
                }
                ours = main.next()?;
            }
            if let Some((key, bytes)) = known.filter(|_| side != Ordering::Less) {
                if side == Ordering::Greater && !self.parse(bytes)?.deleted {
                    spool.push(self.number, &Entry { key, value: &[], stamp: self.stamp, deleted: true })?;
                }
                known = shadow.next()?;
            }
        }
    }

    /// What the application has and the shadow hasn't.
    fn added(&self, spool: &mut Spool) -> Result<(), Error> {
        let mut seeker = match self.versions {
            Some(dbi) => Some(Seeker::new(self.txn.cursor(dbi)?, dbi.flags())),
            None => None,
        };
        let mut cursor = self.txn.cursor(self.main)?;
        let (mut joined, mut last) = (Vec::new(), Vec::new());
        let mut next = cursor.first()?;
        while let Some((key, value)) = next {
            let key = if self.dups() {
                if !dupsort::join(key, value, &mut joined) {
                    return Err(self.wrong("a key is too long for dupsort_hack"));
                }
                if joined <= last {
                    return Err(self.wrong("dupsort_hack can't tell two of its values apart"));
                }
                last.clone_from(&joined);
                joined.as_slice()
            } else {
                key
            };
            let shadow = match &mut seeker {
                Some(seeker) => seeker.find(key)?.map(|bytes| self.parse(bytes)).transpose()?,
                None => None,
            };
            if !shadow.is_some_and(|shadow| !shadow.deleted && shadow.value == value) {
                spool.push(self.number, &Entry { key, value, stamp: self.stamp, deleted: false })?;
            }
            next = cursor.next()?;
        }
        Ok(())
    }

    /// What the shadow has and the application hasn't any more.
    fn removed(&self, spool: &mut Spool) -> Result<(), Error> {
        let Some(versions) = self.versions else { return Ok(()) };
        let mut cursor = self.txn.cursor(versions)?;
        let mut main = self.txn.cursor(self.main)?;
        let mut seeker = Seeker::new(self.txn.cursor(self.main)?, self.main.flags());
        let mut next = cursor.next()?;
        while let Some((key, bytes)) = next {
            let shadow = self.parse(bytes)?;
            let there = if shadow.deleted {
                true
            } else if self.dups() {
                let plain = dupsort::split(key).map_err(|_| self.wrong("its shadow has a key of another kind"))?;
                main.has_value(plain, shadow.value)?
            } else {
                seeker.find(key)?.is_some()
            };
            if !there {
                spool.push(self.number, &Entry { key, value: &[], stamp: self.stamp, deleted: true })?;
            }
            next = cursor.next()?;
        }
        Ok(())
    }

    fn parse<'b>(&self, bytes: &'b [u8]) -> Result<Stored<'b>, Error> {
        Stored::parse(bytes).map_err(|what| self.wrong(what))
    }
}
