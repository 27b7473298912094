//! Finds what the application changed in an environment whose versions are kept in shadows.
//!
//! The application's DBIs are compared with their shadows: side by side where both have the same order, else by looking
//! the keys of each up in the other. Differences wait in a [`Spool`], and [`crate::merge::apply`] records them. This module
//! writes nothing to the environment.

pub(crate) mod cut;
pub(crate) mod dump;
pub(crate) mod fill;
pub(crate) mod shape;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use crate::Stamp;
use crate::capture::cut::{Cut, Cuts, Cutting, Shapes};
use crate::capture::shape::{Compressed, Piece};
use crate::environment::{Dbi, Env, ReadTxn};
use crate::error::Error;
use crate::merge::apply::Table;
use crate::merge::seek::Seeker;
use crate::merge::spool::Spool;
use crate::schema::dupsort;
use crate::schema::flags::Flags;
use crate::schema::header::Stored;
use crate::schema::order::compare;
use crate::schema::{Schema, Tables};
use crate::snapshot::Entry;

/// The times that changes get when they are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moments {
    /// For DBIs that have a shadow.
    pub(crate) known: Stamp,
    /// For DBIs that have no shadow yet: the age of their keys is unknown.
    pub(crate) fresh: Stamp,
}

/// What the application changed.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The DBIs that the entries belong to.
    pub(crate) tables: Vec<Table>,
    /// Keys, each with the value that the application has now.
    pub(crate) spool: Spool,
    /// The last transaction that the comparison saw.
    pub(crate) transaction: u64,
    /// How the shadows were cut during the comparison, if that was requested and possible.
    pub(crate) cuts: Cuts,
}

/// Compares every DBI with its shadow. If the pieces of the `last` snapshot are given, shadows are cut on the way.
pub(crate) fn changes(
    env: &Env,
    schema: &Schema,
    moments: Moments,
    (folder, limit): (&Path, u64),
    last: Option<&Shapes>,
) -> Result<Changes, Error> {
    let mut txn = env.read()?;
    let transaction = txn.id();
    let cuts = Cuts { transaction, dbis: BTreeMap::new() };
    let mut found = Changes { tables: Vec::new(), spool: Spool::new(folder, limit), transaction, cuts };
    for name in schema.names(txn.names()?) {
        let Tables { main: Some(main), versions } = Tables::open(schema, &mut txn, &name)? else { continue };
        let number = u16::try_from(found.tables.len())
            .map_err(|_| Error::schema(env.path(), &name, "there are too many DBIs"))?;
        let stamp = if versions.is_some() { moments.known } else { moments.fresh };
        let before = last.map(|last| last.get(&name).map_or(&[][..], Vec::as_slice));
        let pair = Pair { txn: &txn, name: &name, main, versions, number, stamp, before };
        if let Some(cut) = pair.compare(&mut found.spool)? {
            found.cuts.dbis.insert(name.clone(), cut);
        }
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
    /// The pieces that the shadow had in the last snapshot, if it is to be cut.
    before: Option<&'a [(Piece, Compressed)]>,
}

impl Pair<'_> {
    fn dups(&self) -> bool {
        self.main.flags().contains(Flags::DUPSORT)
    }

    fn wrong(&self, what: &'static str) -> Error {
        Error::schema(self.txn.env().path(), self.name, what)
    }

    fn compare(&self, spool: &mut Spool) -> Result<Option<Cut>, Error> {
        match self.versions {
            Some(versions) if !self.dups() && !self.main.flags().contains(Flags::REVERSE_KEY) => {
                self.side_by_side(versions, spool)
            }
            _ => {
                self.added(spool)?;
                self.removed(spool)?;
                Ok(None)
            }
        }
    }

    /// Walks both at once, which have the same order.
    fn side_by_side(&self, versions: Dbi, spool: &mut Spool) -> Result<Option<Cut>, Error> {
        let mut cutting = self.before.map(|before| Cutting::new(versions, before));
        let (mut main, mut shadow) = (self.txn.cursor(self.main)?, self.txn.cursor(versions)?);
        let (mut ours, mut known) = (main.first()?, shadow.first()?);
        loop {
            let side = match (ours, known) {
                (None, None) => return Ok(cutting.map(Cutting::finish)),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, _)), Some((shadow, _))) => compare(self.main.flags(), key, shadow),
            };
            let version = match known.filter(|_| side != Ordering::Less) {
                Some((key, bytes)) => Some((key, self.parse(bytes)?)),
                None => None,
            };
            let there = ours.filter(|_| side != Ordering::Greater);
            let changed = self.changed(there, version.as_ref());
            if let Some(entry) = &changed {
                spool.push(self.number, entry)?;
            }
            if let Some(cutting) = &mut cutting {
                if let Some((key, stored)) = &version {
                    cutting.take(key, stored);
                }
                if changed.is_some() {
                    cutting.changes();
                }
            }
            if there.is_some() {
                ours = main.next()?;
            }
            if version.is_some() {
                known = shadow.next()?;
            }
        }
    }

    /// What has to be recorded for a key, from the application's value and the shadow's.
    fn changed<'b>(
        &self,
        there: Option<(&'b [u8], &'b [u8])>,
        version: Option<&(&'b [u8], Stored<'b>)>,
    ) -> Option<Entry<'b>> {
        let live = version.filter(|(_, stored)| !stored.deleted);
        match (there, live) {
            (Some((_, value)), Some((_, stored))) if stored.value == value => None,
            (Some((key, value)), _) => Some(Entry { key, value, stamp: self.stamp, deleted: false }),
            (None, Some((key, _))) => Some(Entry { key, value: &[], stamp: self.stamp, deleted: true }),
            (None, None) => None,
        }
    }

    /// Finds keys that the application has and the shadow doesn't.
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

    /// Finds keys that the shadow has and the application doesn't any more.
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
