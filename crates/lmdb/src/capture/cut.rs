//! Cuts the versions of a DBI into pieces: all versions, or only the pieces that changed since the last look.
//!
//! With shadows, a look for changes reads every version anyway ([`crate::capture`]), and cuts the versions as it reads
//! them. The changes that it finds are recorded after that. If no other process wrote in between, only the pieces with
//! a change have to be cut again. The result equals cutting everything.

use std::collections::{BTreeMap, BTreeSet};

use crate::capture::shape::{Compressed, Cutter, Piece};
use crate::environment::{Dbi, ReadTxn};
use crate::error::Error;
use crate::schema::header::Stored;
use crate::schema::order::compare;
use crate::snapshot::Entry;
use crate::snapshot::encode::entry_size;

/// The pieces of the last snapshot, by DBI.
pub(crate) type Shapes = BTreeMap<Vec<u8>, Vec<(Piece, Compressed)>>;

/// All DBIs as they were cut during the comparison.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// The last transaction that the cut accounts for: what the look saw, and what was recorded after it.
    pub(crate) transaction: u64,
    pub(crate) dbis: BTreeMap<Vec<u8>, Cut>,
}

/// A DBI as it was cut during the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    pieces: Vec<Piece>,
    /// The pieces that are going to change.
    changed: BTreeSet<usize>,
}

/// Cuts versions while they are compared.
pub(crate) struct Cutting<'b> {
    cutter: Cutter<'b>,
    versions: Dbi,
    changed: BTreeSet<usize>,
}

impl<'b> Cutting<'b> {
    pub(crate) fn new(versions: Dbi, before: &'b [(Piece, Compressed)]) -> Self {
        Self { cutter: Cutter::new(before), versions, changed: BTreeSet::new() }
    }

    /// Takes the next version.
    pub(crate) fn take(&mut self, key: &[u8], stored: &Stored<'_>) {
        take(&mut self.cutter, self.versions, key, stored, size(key, stored));
    }

    /// Marks a change at the version that was taken last, or directly after it.
    pub(crate) fn changes(&mut self) {
        let (piece, entries) = self.cutter.open();
        self.changed.insert(piece);
        if entries <= 1 {
            // Whether the entry begins a piece depends on its size.
            self.changed.insert(piece.saturating_sub(1));
        }
    }

    pub(crate) fn finish(self) -> Cut {
        Cut { pieces: self.cutter.finish(), changed: self.changed }
    }
}

/// Cuts a DBI of versions. `known` is an earlier cut; then only the pieces that are marked there are cut again.
pub(crate) fn cut(
    txn: &ReadTxn<'_>,
    name: &[u8],
    versions: Option<Dbi>,
    before: &[(Piece, Compressed)],
    known: Option<&Cut>,
) -> Result<Vec<Piece>, Error> {
    let Some(versions) = versions else { return Ok(Vec::new()) };
    let dbi = Versions { txn, name, versions, before };
    match known {
        Some(known) if known.changed.len() < known.pieces.len() / 8 => dbi.again(known),
        _ => dbi.all(),
    }
}

/// A DBI of versions that is to be cut.
struct Versions<'a> {
    txn: &'a ReadTxn<'a>,
    name: &'a [u8],
    versions: Dbi,
    before: &'a [(Piece, Compressed)],
}

impl Versions<'_> {
    fn all(&self) -> Result<Vec<Piece>, Error> {
        let mut cutter = Cutter::new(self.before);
        let mut cursor = self.txn.cursor(self.versions)?;
        let mut next = cursor.next()?;
        while let Some((key, bytes)) = next {
            let stored = parse(self.txn, self.name, bytes)?;
            take(&mut cutter, self.versions, key, &stored, size(key, &stored));
            next = cursor.next()?;
        }
        Ok(cutter.finish())
    }

    fn again(&self, known: &Cut) -> Result<Vec<Piece>, Error> {
        let mut pieces = Vec::with_capacity(known.pieces.len());
        let mut cursor = self.txn.cursor(self.versions)?;
        let mut at = 0;
        while let Some(piece) = known.pieces.get(at) {
            if !known.changed.contains(&at) {
                pieces.push(piece.clone());
                at += 1;
                continue;
            }
            let mut cutter = Cutter::new(self.before);
            // A key may have been added before the first one.
            let mut next = if at == 0 { cursor.first()? } else { cursor.from(&piece.first)? };
            at += 1;
            while let Some((key, bytes)) = next {
                let stored = parse(self.txn, self.name, bytes)?;
                let size = size(key, &stored);
                let is_behind = |piece: &Piece| compare(self.versions.flags(), &piece.first, key).is_lt();
                while known.pieces.get(at).is_some_and(is_behind) {
                    at += 1;
                }
                // From here on the earlier cut holds again.
                let same = known.pieces.get(at).is_some_and(|piece| piece.first == key) && !known.changed.contains(&at);
                if same && cutter.ends_before(key, size) {
                    break;
                }
                take(&mut cutter, self.versions, key, &stored, size);
                next = cursor.next()?;
            }
            if next.is_none() {
                at = known.pieces.len();
            }
            pieces.extend(cutter.finish());
        }
        Ok(pieces)
    }
}

fn take(cutter: &mut Cutter<'_>, versions: Dbi, key: &[u8], stored: &Stored<'_>, size: u64) {
    cutter.take(key, stored, size, |other| compare(versions.flags(), key, other).is_ge());
}

fn size(key: &[u8], stored: &Stored<'_>) -> u64 {
    entry_size(&entry(key, stored))
}

/// A version as it stands in a snapshot.
pub(crate) fn entry<'a>(key: &'a [u8], stored: &Stored<'a>) -> Entry<'a> {
    Entry { key, value: stored.value, stamp: stored.stamp, deleted: stored.deleted }
}

/// A version as it stands in the environment.
pub(crate) fn parse<'b>(txn: &ReadTxn<'_>, name: &[u8], bytes: &'b [u8]) -> Result<Stored<'b>, Error> {
    Stored::parse(bytes).map_err(|what| Error::schema(txn.env().path(), name, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::{Author, Local, Settings};
    use crate::schema::flags::Flags;
    use crate::schema::{Schema, Tables};
    use crate::{EnvOptions, Stamp};

    /// Cuts everything, as if nothing was known.
    fn all(local: &Local, schema: &Schema) -> Vec<Piece> {
        let mut txn = local.env().read().expect("a transaction");
        let versions = Tables::open(schema, &mut txn, b"d").expect("opened").versions;
        let plain = |piece: Piece| Piece { kept: None, ..piece };
        cut(&txn, b"d", versions, &[], None).expect("cut").into_iter().map(plain).collect()
    }

    /// The result equals cutting everything, also where pieces begin and end with a change, and at both ends of the
    /// DBI.
    #[test]
    fn what_is_cut_again_is_cut_as_all_would_be() {
        for flags in [Flags::default(), Flags::INTEGER_KEY] {
            let folder = tempfile::tempdir().expect("a folder");
            let schema = Schema { native: false, dupsort_hack: false, padding: false, create_flags: BTreeMap::new() };
            let options = EnvOptions { create: true, map_size: Some(1 << 30), ..EnvOptions::default() };
            let mut local = Local::open(folder.path(), &options, Settings::new(schema.clone())).expect("opened");
            let author = Author { instance: "a".into(), hostname: "h".into(), database: "d".into() };
            let mut random = fastrand::Rng::with_seed(7);
            let key = |n: u32| if flags == Flags::default() { n.to_be_bytes() } else { n.to_ne_bytes() };
            let write = |local: &Local, keys: &[u32], length: usize| {
                let mut txn = local.env().write().expect("a transaction");
                let dbi = txn.create(b"d", flags).expect("made");
                for n in keys {
                    match length {
                        0 => drop(txn.delete(dbi, &key(*n)).expect("deleted")),
                        _ => txn.put(dbi, &key(*n), &vec![*n as u8; length]).expect("put"),
                    }
                }
                txn.commit().expect("committed");
            };
            write(&local, &(1000..13_000).map(|n| 2 * n).collect::<Vec<_>>(), 1500);
            let (mut kept, mut again) = (0, 0);
            for round in 0..40_u64 {
                let snapshot = |local: &mut Local| {
                    let dumped = local.snapshot(&author, &|| Stamp(1000 + round)).expect("taken");
                    let pieces = dumped.shapes.get(&b"d"[..]).map(Vec::as_slice).unwrap_or_default();
                    (
                        dumped.kept,
                        pieces.iter().map(|(piece, _)| Piece { kept: None, ..piece.clone() }).collect::<Vec<_>>(),
                    )
                };
                let (bytes, pieces) = snapshot(&mut local);
                assert_eq!(pieces, all(&local, &schema), "{flags} round {round}");
                (kept, again) = (kept + bytes, again + u64::from(bytes > 0));
                let number = |key: &[u8]| {
                    let bytes = key.try_into().expect("four bytes");
                    if flags == Flags::default() { u32::from_be_bytes(bytes) } else { u32::from_ne_bytes(bytes) }
                };
                let first = number(&pieces[random.usize(..pieces.len())].first);
                let n = match random.u32(..6) {
                    0 => first,
                    1 => first - 1,
                    2 => 5 + random.u32(..900),
                    3 => 30_000 + random.u32(..500),
                    _ => random.u32(2000..26_000),
                };
                write(&local, &[n, first + 2][..random.usize(1..=2)], [0, 1, 1500, 9000, 300_000][random.usize(..5)]);
            }
            assert!(again > 30 && kept > 0, "{again} of 40 snapshots took pieces of the one before");
        }
    }
}
