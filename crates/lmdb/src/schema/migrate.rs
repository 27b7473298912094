//! Which times does a DBI take over from another one? For schemas that moved to new DBIs, whose entries would otherwise
//! all be new.
//!
//! Times are only raised, and values stay. A key that the source knows as deleted may become a deletion in the target,
//! if the target doesn't have the key. All happens in one write transaction: a crash leaves all of it or nothing.

use crate::Stamp;
use crate::environment::{Dbi, Env, WriteTxn};
use crate::error::Error;
use crate::schema::flags::Flags;
use crate::schema::header::Stored;

/// Bytes of keys that are read before they are written.
const GATHER: usize = 1 << 20;

/// What to migrate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// The DBI that has the times: values with a header, or with 8 bytes of time as before version 0.3.
    pub from: Vec<u8>,
    /// The DBI that takes the times over: values with a header.
    pub to: Vec<u8>,
    /// Add deletions of keys that the source knows as deleted and the target doesn't know.
    pub add_deletions: bool,
    /// Succeed without a change if the source doesn't exist.
    pub may_be_missing: bool,
}

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Migrated {
    /// Entries of the source.
    pub entries: u64,
    /// Entries whose time was raised.
    pub raised: u64,
    /// Deletions that were added.
    pub deletions: u64,
}

/// How the source's values begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heads {
    /// With a header.
    Full,
    /// With a time.
    Time,
}

/// What is known of a key in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    stamp: Stamp,
    deleted: bool,
}

/// What to do with a key in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Leave,
    Raise,
    Delete,
}

/// Decides what to do with a key.
fn step(known: Known, target: Option<&Stored<'_>>, add_deletions: bool) -> Step {
    match target {
        Some(target) if known.stamp > target.stamp => Step::Raise,
        None if known.deleted && add_deletions => Step::Delete,
        _ => Step::Leave,
    }
}

/// Reads a value of the source; `None` if it has no valid header or time.
fn known(heads: Heads, bytes: &[u8]) -> Option<Known> {
    match heads {
        Heads::Full => Stored::parse(bytes).ok().map(|stored| Known { stamp: stored.stamp, deleted: stored.deleted }),
        Heads::Time => {
            let (stamp, value) = bytes.split_first_chunk::<8>()?;
            Some(Known { stamp: Stamp(u64::from_be_bytes(*stamp)), deleted: value.is_empty() })
        }
    }
}

/// Carries the migration out.
///
/// # Errors
/// If a DBI doesn't exist or has no times. Then nothing was changed.
pub fn migrate(env: &Env, migration: &Migration) -> Result<Migrated, Error> {
    let mut txn = env.write()?;
    let mut done = Migrated::default();
    let missing = |name: &[u8]| Error::schema(env.path(), name, "there is no such DBI");
    let Some(from) = txn.open(&migration.from)? else {
        return if migration.may_be_missing { Ok(done) } else { Err(missing(&migration.from)) };
    };
    let to = txn.open(&migration.to)?.ok_or_else(|| missing(&migration.to))?;
    if from.flags().contains(Flags::DUPSORT) || to.flags().contains(Flags::DUPSORT) {
        return Err(Error::schema(
            env.path(),
            &migration.to,
            "times belong to keys, and a key has several values here",
        ));
    }
    let wrong = || Error::schema(env.path(), &migration.from, "its values have neither headers nor times");
    let heads = heads(&txn, from)?.ok_or_else(wrong)?;
    let (mut at, mut gathered) = (Vec::new(), Vec::new());
    while gather(&txn, from, heads, &mut at, &mut gathered)?.ok_or_else(wrong)? {
        for (key, known) in gathered.drain(..) {
            done.entries += 1;
            write(&mut txn, to, migration, &key, known, &mut done)?;
        }
    }
    txn.commit()?;
    Ok(done)
}

/// How all values begin. A value that can be read either way counts as one with a header, if all others can too.
fn heads(txn: &WriteTxn<'_>, dbi: Dbi) -> Result<Option<Heads>, Error> {
    let (mut full, mut time) = (true, true);
    let mut cursor = txn.cursor(dbi)?;
    while let Some((_, bytes)) = cursor.next()? {
        let last = txn.id();
        full &= Stored::parse(bytes).is_ok_and(|stored| stored.transaction <= last);
        time &= bytes.len() >= 8;
    }
    Ok(if full { Some(Heads::Full) } else { time.then_some(Heads::Time) })
}

/// Gathers the entries after the key `at`; returns whether there were any. `None` if a value can't be read.
fn gather(
    txn: &WriteTxn<'_>,
    dbi: Dbi,
    heads: Heads,
    at: &mut Vec<u8>,
    gathered: &mut Vec<(Vec<u8>, Known)>,
) -> Result<Option<bool>, Error> {
    let mut cursor = txn.cursor(dbi)?;
    let mut next = if at.is_empty() { cursor.first()? } else { cursor.from(at)? };
    if next.is_some_and(|(key, _)| key == at.as_slice()) {
        next = cursor.next()?;
    }
    let mut bytes = 0;
    while let Some((key, value)) = next.filter(|_| bytes < GATHER) {
        let Some(known) = known(heads, value) else { return Ok(None) };
        bytes += key.len() + 64;
        gathered.push((key.to_vec(), known));
        next = cursor.next()?;
    }
    if let Some((last, _)) = gathered.last() {
        at.clone_from(last);
    }
    Ok(Some(!gathered.is_empty()))
}

fn write(
    txn: &mut WriteTxn<'_>,
    to: Dbi,
    migration: &Migration,
    key: &[u8],
    known: Known,
    done: &mut Migrated,
) -> Result<(), Error> {
    let bytes = txn.get(to, key)?;
    let target = bytes.map(Stored::parse).transpose();
    let target = target.map_err(|what| Error::schema(txn.env().path(), &migration.to, what))?;
    let transaction = txn.id();
    let stored = match (step(known, target.as_ref(), migration.add_deletions), target) {
        (Step::Raise, Some(target)) => {
            done.raised += 1;
            Stored { stamp: known.stamp, transaction, ..target }
        }
        (Step::Delete, _) => {
            done.deletions += 1;
            Stored { stamp: known.stamp, transaction, deleted: true, value: &[] }
        }
        _ => return Ok(()),
    };
    let mut value = Vec::new();
    stored.write(false, &mut value);
    txn.put(to, key, &value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::EnvOptions;

    #[test]
    fn what_becomes_of_a_key() {
        let known = |stamp, deleted| Known { stamp: Stamp(stamp), deleted };
        let target = Stored { stamp: Stamp(5), transaction: 1, deleted: false, value: b"v" };
        for (from, to, add, expected) in [
            (known(9, false), Some(&target), false, Step::Raise),
            (known(9, true), Some(&target), true, Step::Raise),
            (known(5, false), Some(&target), false, Step::Leave),
            (known(4, false), Some(&target), true, Step::Leave),
            (known(9, false), None, true, Step::Leave),
            (known(9, true), None, false, Step::Leave),
            (known(9, true), None, true, Step::Delete),
        ] {
            assert_eq!(step(from, to, add), expected, "{from:?} {to:?} {add}");
        }
    }

    fn stored(stamp: u64, deleted: bool, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Stored { stamp: Stamp(stamp), transaction: 1, deleted, value }.write(false, &mut bytes);
        bytes
    }

    #[test]
    fn times_go_over_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = EnvOptions { create: true, map_size: Some(1 << 20), ..EnvOptions::default() };
        let env = Env::open(folder.path(), &options).expect("an environment");
        let time = |stamp: u64, value: &[u8]| [&stamp.to_be_bytes()[..], value].concat();
        let fill = |name: &[u8], pairs: &[(&str, Vec<u8>)]| {
            let mut txn = env.write().expect("a transaction");
            txn.drop_dbi(name).expect("no DBI");
            let dbi = txn.create(name, Flags::default()).expect("a DBI");
            pairs.iter().for_each(|(key, value)| txn.put(dbi, key.as_bytes(), value).expect("room"));
            txn.commit().expect("a commit");
        };
        let target = [("a", stored(5, false, b"mine")), ("b", stored(50, false, b"")), ("c", stored(5, true, b""))];
        let full = [
            ("a", stored(9, false, b"other")),
            ("b", stored(9, false, b"x")),
            ("d", stored(9, true, b"")),
            ("e", stored(9, false, b"live")),
        ];
        let old = [("a", time(9, b"other")), ("b", time(9, b"x")), ("d", time(9, b"")), ("e", time(9, b"live"))];
        let mut migration =
            Migration { from: b"old".to_vec(), to: b"new".to_vec(), add_deletions: true, may_be_missing: true };
        fill(b"new", &target);
        assert_eq!(migrate(&env, &migration).expect("nothing to do"), Migrated::default());
        migration.may_be_missing = false;
        assert!(migrate(&env, &migration).is_err());
        for source in [full, old] {
            fill(b"new", &target);
            fill(b"old", &source);
            let done = migrate(&env, &migration).expect("a migration");
            assert_eq!(done, Migrated { entries: 4, raised: 1, deletions: 1 });
            let mut txn = env.read().expect("a transaction");
            let dbi = txn.open(b"new").expect("no error").expect("a DBI");
            let (mut cursor, mut found) = (txn.cursor(dbi).expect("a cursor"), Vec::new());
            while let Some((key, value)) = cursor.next().expect("no error") {
                let stored = Stored::parse(value).expect("a header");
                found.push((key.to_vec(), stored.stamp.0, stored.deleted, stored.value.to_vec()));
            }
            let row = |key: &str, stamp, deleted, value: &str| (key.into(), stamp, deleted, value.into());
            let expected =
                [row("a", 9, false, "mine"), row("b", 50, false, ""), row("c", 5, true, ""), row("d", 9, true, "")];
            assert_eq!(found, expected);
        }
        fill(b"old", &[("a", b"short".to_vec())]);
        assert!(migrate(&env, &migration).is_err(), "neither headers nor times");
    }
}
