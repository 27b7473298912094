//! Rolls a fleet back to an older state, whose values win over everything in the vault.
//!
//! A restored environment alone would lose its old state at its first merge, because later values are newer. So the
//! restored state is compared with the vault's present content. Where they differ, the restored version gets a new
//! time; a key that the restored state doesn't have is deleted with a new time. Equal values stay as they are.

use seawall_core::Rewritten;

use crate::Stamp;
use crate::environment::{Dbi, Env, ReadTxn, WriteTxn};
use crate::error::Error;
use crate::merge::Version;
use crate::schema::flags::Flags;
use crate::schema::header::Stored;
use crate::schema::{Schema, Tables};

/// Keys that are changed in one transaction. This bounds liblmdb's memory for changed pages.
const BATCH: usize = 4096;

/// What to do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its version stays.
    Leave,
    /// Its older value gets this time.
    Restore(Stamp),
    /// It is deleted at this time.
    Delete(Stamp),
}

/// Decides from the version of the older state and the newest version, at the moment of the rollback.
fn step(then: Option<&Version<'_>>, newest: &Version<'_>, at: Stamp) -> Step {
    // The new time must exceed a version from a clock that is ahead, too.
    let after = at.max(Stamp(newest.stamp.0.saturating_add(1)));
    match then.filter(|then| !then.deleted) {
        None if newest.deleted => Step::Leave,
        None => Step::Delete(after),
        Some(then) if !newest.deleted && then.value == newest.value => Step::Leave,
        Some(_) => Step::Restore(after),
    }
}

/// A change that waits for its transaction.
struct Change {
    key: Vec<u8>,
    value: Vec<u8>,
    stamp: Stamp,
    deleted: bool,
}

/// Changes the times in `then`, which holds the older state, so that it wins over `newest`. No other process has either
/// environment open.
pub(crate) fn rewrite(then: &Env, newest: &Env, schema: &Schema, at: Stamp) -> Result<Vec<Rewritten>, Error> {
    // Room for every key that may be rewritten.
    let used = then.info()?.used.saturating_add(newest.info()?.used);
    then.grow(used.saturating_mul(3).saturating_add(64 << 20).max(then.info()?.map_size))?;
    let mut read = newest.read()?;
    let names = schema.names(read.names()?);
    let mut all = Vec::new();
    for name in names {
        if let Some(versions) = Tables::open(schema, &mut read, &name)?.versions {
            let main = read.open(&name)?.map_or_else(Flags::default, Dbi::flags);
            all.push(table(then, &read, schema, (&name, versions, main), at)?);
        }
    }
    Ok(all)
}

fn table(
    then: &Env,
    newest: &ReadTxn<'_>,
    schema: &Schema,
    (name, versions, flags): (&[u8], Dbi, Flags),
    at: Stamp,
) -> Result<Rewritten, Error> {
    let mut done = Rewritten { table: crate::error::shown(name), restored: 0, deleted: 0, unchanged: 0 };
    let mut cursor = newest.cursor(versions)?;
    loop {
        let mut txn = then.write()?;
        let own = own(&mut txn, schema, name, flags)?;
        let mut changes = Vec::new();
        let mut more = true;
        while changes.len() < BATCH {
            let Some((key, bytes)) = cursor.next()? else {
                more = false;
                break;
            };
            let newest = parse(newest.env(), name, bytes)?;
            let before = txn.get(own, key)?.map(|bytes| parse(then, name, bytes)).transpose()?;
            let change =
                |value: &[u8], stamp, deleted| Change { key: key.to_vec(), value: value.to_vec(), stamp, deleted };
            match step(before.as_ref(), &newest, at) {
                Step::Leave => done.unchanged += u64::from(!newest.deleted),
                Step::Restore(stamp) => {
                    done.restored += 1;
                    changes.push(change(before.map(|version| version.value).unwrap_or_default(), stamp, false));
                }
                Step::Delete(stamp) => {
                    done.deleted += 1;
                    changes.push(change(&[], stamp, true));
                }
            }
        }
        let (mut bytes, transaction) = (Vec::new(), txn.id());
        for Change { key, value, stamp, deleted } in &changes {
            let stored = Stored { stamp: *stamp, transaction, deleted: *deleted, value };
            stored.write(schema.padding, &mut bytes);
            txn.put(own, key, &bytes)?;
        }
        txn.commit()?;
        if !more {
            return Ok(done);
        }
    }
}

/// The DBI with the versions of the older state. If it is missing there, it is made, together with the application's
/// DBI.
fn own(txn: &mut WriteTxn<'_>, schema: &Schema, name: &[u8], flags: Flags) -> Result<Dbi, Error> {
    let main = txn.create(name, flags)?;
    if schema.native { Ok(main) } else { txn.create(&schema.versions(name), schema.version_flags(flags)) }
}

fn parse<'v>(env: &Env, name: &[u8], bytes: &'v [u8]) -> Result<Version<'v>, Error> {
    let stored = Stored::parse(bytes).map_err(|what| Error::schema(env.path(), name, what))?;
    Ok(Version { stamp: stored.stamp, value: stored.value, deleted: stored.deleted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_to_a_key() {
        let live = |stamp, value| Version { stamp: Stamp(stamp), value, deleted: false };
        let gone = |stamp| Version { stamp: Stamp(stamp), value: &b""[..], deleted: true };
        let at = Stamp(100);
        for (then, newest, expected) in [
            (Some(live(5, &b"a"[..])), live(9, &b"b"[..]), Step::Restore(at)),
            (Some(live(5, b"a")), live(5, b"a"), Step::Leave),
            (Some(live(5, b"a")), live(9, b"a"), Step::Leave),
            (Some(live(5, b"a")), gone(9), Step::Restore(at)),
            (Some(live(5, b"a")), live(300, b"b"), Step::Restore(Stamp(301))),
            (None, live(9, b"b"), Step::Delete(at)),
            (None, live(300, b"b"), Step::Delete(Stamp(301))),
            (None, gone(9), Step::Leave),
            (Some(gone(5)), live(9, b"b"), Step::Delete(at)),
            (Some(gone(5)), gone(5), Step::Leave),
        ] {
            assert_eq!(step(then.as_ref(), &newest, at), expected, "{then:?} {newest:?}");
        }
    }
}
