//! Compares the names in vaults, from their listings, which are sorted: one page of each in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::Peekable;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use tokio::time::{Instant, timeout};

use super::decide::{Common, Odd, Seen};
use super::prints::{Held, line, telling};
use super::transfer;
use crate::{Entry, Error, ObjectKey, Prefix, Vault};

/// How long one page of a vault's listing is waited for, when vaults are compared at a start.
pub(super) const PAGE: Duration = Duration::from_secs(10);

/// How long one vault is waited for in all, while the others' pages are there.
const IN_ALL: Duration = Duration::from_secs(120);

/// The most folders whose greatest names are kept.
const MOST_FOLDERS: usize = 1000;

type Listing = Pin<Box<Peekable<Pin<Box<dyn Stream<Item = Result<Entry, Error>> + Send>>>>>;

fn listing(vault: &Vault) -> Listing {
    let entries: Pin<Box<dyn Stream<Item = Result<Entry, Error>> + Send>> =
        Box::pin(vault.entries(&Prefix::all(), None).try_filter(|entry| ready(!is_apart(&entry.key))));
    Box::pin(entries.peekable())
}

/// Whether an object says something of one vault alone: the record of a proof of that vault.
fn is_apart(key: &ObjectKey) -> bool {
    key.as_str().starts_with("seawall/proofs/")
}

/// A vault whose listing is read.
struct Side {
    listing: Listing,
    seen: Result<Seen, Error>,
    greatest: BTreeMap<String, ObjectKey>,
    /// How long it was waited for.
    waited: Duration,
}

/// Compares all vaults with one another. A vault that can't be listed, or that doesn't answer for a while, has an error.
pub(crate) async fn compare(vaults: &[&Vault]) -> Vec<Result<Seen, Error>> {
    let count = vaults.len();
    let none = || Seen {
        holds: false,
        tells: false,
        lacks: vec![0; count],
        differs: vec![0; count],
        ahead: vec![false; count],
        odd: vec![Odd::default(); count],
        common: vec![Common::default(); count],
    };
    let side = |vault: &&Vault| Side {
        listing: listing(vault),
        seen: Ok(none()),
        greatest: BTreeMap::new(),
        waited: Duration::ZERO,
    };
    let mut sides: Vec<Side> = vaults.iter().map(side).collect();
    loop {
        let next = next_of_each(&mut sides, vaults).await;
        let Some(least) = next.iter().flatten().map(|entry| entry.key.clone()).min() else { break };
        let here: Vec<Option<u64>> = next
            .iter()
            .map(|entry| entry.as_ref().filter(|entry| entry.key == least).map(|entry| entry.size))
            .collect();
        let folder = telling(&least);
        for (i, side) in sides.iter_mut().enumerate() {
            let Ok(seen) = &mut side.seen else { continue };
            for (j, there) in here.iter().enumerate() {
                let (lacks, differs) = (seen.lacks.get_mut(j), seen.differs.get_mut(j));
                let odd = seen.odd.get_mut(j).filter(|_| folder.is_some());
                if let (Some(line), Some(_), Some(_)) = (line(&least), here.get(i).copied().flatten(), there)
                    && let Some(common) = seen.common.get_mut(j).filter(|_| i != j)
                {
                    common.note(line, &least);
                }
                match (here.get(i).copied().flatten(), there) {
                    (Some(own), there) if *there != Some(own) => odd.into_iter().for_each(|odd| odd.note(&least)),
                    _ => {}
                }
                match (here.get(i).copied().flatten(), there) {
                    (None, Some(_)) => lacks.into_iter().for_each(|lacks| *lacks += 1),
                    (Some(own), Some(other)) if own != *other => differs.into_iter().for_each(|differs| *differs += 1),
                    _ => {}
                }
            }
            if here.get(i).is_some_and(Option::is_some) {
                seen.holds = true;
                seen.tells |= folder.is_some();
                if let Some(line) = line(&least) {
                    keep(&mut side.greatest, line.to_owned(), least.clone());
                }
                side.listing.as_mut().next().await;
            }
        }
    }
    let greatest: Vec<BTreeMap<String, ObjectKey>> = sides.iter().map(|side| side.greatest.clone()).collect();
    let judged = sides.into_iter().map(|side| {
        side.seen.map(|mut seen| {
            seen.ahead = greatest.iter().map(|other| is_ahead(&side.greatest, other)).collect();
            seen
        })
    });
    judged.collect()
}

/// Notes a name that is greater than all before it.
fn keep_greatest(greatest: &mut BTreeMap<String, ObjectKey>, key: ObjectKey) {
    let folder = key.as_str().rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    keep(greatest, folder, key);
}

fn keep(greatest: &mut BTreeMap<String, ObjectKey>, folder: String, key: ObjectKey) {
    if greatest.len() < MOST_FOLDERS || greatest.contains_key(&folder) {
        greatest.insert(folder, key);
    }
}

/// The next entry of each vault that is still listed. A vault whose listing fails drops out.
async fn next_of_each(sides: &mut [Side], vaults: &[&Vault]) -> Vec<Option<Entry>> {
    join_all(sides.iter_mut().zip(vaults).map(|(side, vault)| next_of(side, vault.url()))).await
}

async fn next_of(side: &mut Side, url: &str) -> Option<Entry> {
    if side.seen.is_err() {
        return None;
    }
    let (began, limit) = (Instant::now(), PAGE.min(IN_ALL.saturating_sub(side.waited)));
    let next = match timeout(limit, side.listing.as_mut().peek()).await {
        Ok(next) => next.cloned(),
        Err(_) => Some(Err(Error::Timeout { object: url.to_owned(), after: limit })),
    };
    side.waited += began.elapsed();
    match next? {
        Ok(entry) => Some(entry),
        Err(error) => {
            side.seen = Err(error);
            None
        }
    }
}

/// Whether one has a name in some line that both have, and that is greater than all of the other's there.
fn is_ahead(one: &BTreeMap<String, ObjectKey>, other: &BTreeMap<String, ObjectKey>) -> bool {
    one.iter().any(|(folder, key)| other.get(folder).is_some_and(|there| there < key))
}

/// What one vault lacks of another.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// Objects to copy, the oldest first.
    pub(crate) entries: Vec<Entry>,
    /// Names that both have, with different sizes.
    pub(crate) differing: Vec<Entry>,
    /// Names that only the member has; the first ones.
    pub(crate) extra: Vec<ObjectKey>,
    /// The greatest name of each folder that both have with one size.
    pub(crate) common: BTreeMap<String, ObjectKey>,
    /// Objects and bytes that are missing in all.
    pub(crate) objects: u64,
    /// Bytes of these.
    pub(crate) bytes: u64,
    /// Whether the member holds nothing.
    pub(crate) is_empty: bool,
    /// Whether the leading vault has one of the deleted names: it was made again.
    pub(crate) again: bool,
}

impl Missing {
    /// The names that tell whether two histories parted.
    pub(crate) fn telling(&self) -> Vec<ObjectKey> {
        self.common.values().filter(|key| telling(key).is_some()).cloned().collect()
    }
}

/// The most names that one comparison collects; the next one finds the rest.
const MOST: usize = 50_000;

/// Finds what `member` lacks of `leader`. Of more than can be kept in memory the oldest are collected, so that the
/// order of the copies stays that of the writes. `deleted`: names that were deleted before, sorted.
pub(crate) async fn missing(leader: &Vault, member: &Vault, deleted: &[ObjectKey]) -> Result<Missing, Error> {
    let (mut theirs, mut own) = (listing(leader), listing(member));
    let mut missing = Missing { is_empty: true, ..Missing::default() };
    loop {
        let (there, here) = (peek(&mut theirs).await?, peek(&mut own).await?);
        missing.is_empty &= here.is_none();
        missing.again |= there.as_ref().is_some_and(|entry| deleted.binary_search(&entry.key).is_ok());
        match (there, here) {
            (None, None) => break,
            (Some(entry), here) if here.as_ref().is_none_or(|here| entry.key < here.key) => {
                missing.objects += 1;
                missing.bytes += entry.size;
                missing.entries.push(entry);
                if missing.entries.len() > 2 * MOST {
                    missing.entries.sort_by_key(|entry| entry.written);
                    missing.entries.truncate(MOST);
                }
                theirs.as_mut().next().await;
            }
            (there, Some(here)) if there.as_ref().is_none_or(|there| here.key < there.key) => {
                if missing.extra.len() < MOST {
                    missing.extra.push(here.key);
                }
                own.as_mut().next().await;
            }
            (Some(entry), Some(here)) => {
                if entry.size == here.size {
                    keep_greatest(&mut missing.common, here.key);
                } else if missing.differing.len() < MOST {
                    missing.differing.push(entry);
                }
                theirs.as_mut().next().await;
                own.as_mut().next().await;
            }
            (None, Some(_)) | (Some(_), None) => break,
        }
    }
    // The object that makes a set count was written last.
    missing.entries.sort_by(|one, other| (one.written, &one.key).cmp(&(other.written, &other.key)));
    missing.entries.truncate(MOST);
    Ok(missing)
}

/// What names that two vaults have in common tell of their histories.
pub(crate) enum Compared {
    /// Under this name they hold other content, although its size is the same.
    Parted(ObjectKey),
    /// Under none of those that both still have.
    Alike,
    /// All of them were deleted since the listing, or there are none: nothing was compared.
    Nothing,
}

/// Compares what the vaults hold under these names.
///
/// The greatest names of the folders tell: histories that parted went on under the same names, and names grow with time.
pub(crate) async fn common(leader: &Vault, member: &Vault, names: &[ObjectKey]) -> Result<Compared, Error> {
    let mut found = Compared::Nothing;
    for key in names {
        match transfer::compared(leader, member, key).await? {
            Held::Other => return Ok(Compared::Parted(key.clone())),
            Held::Same | Held::Locked => found = Compared::Alike,
            Held::Gone => {}
        }
    }
    Ok(found)
}

async fn peek(listing: &mut Listing) -> Result<Option<Entry>, Error> {
    match listing.as_mut().peek().await {
        None => Ok(None),
        Some(Ok(entry)) => Ok(Some(entry.clone())),
        Some(Err(error)) => Err(error.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What retention deleted in one vault, and a pin that was removed there, make no older vault newer.
    #[test]
    fn who_is_ahead() {
        let greatest = |names: &[&str]| {
            let mut greatest = BTreeMap::new();
            for name in names {
                let key = ObjectKey::new(*name).expect("a key");
                if let Some(line) = line(&key).map(str::to_owned) {
                    keep(&mut greatest, line, key);
                }
            }
            greatest
        };
        for (one, other, expected) in [
            (&["sets/1/x", "sets/2/x"][..], &["sets/2/x", "sets/3/x"][..], [false, true]),
            (&["0000/1", "seawall/pins/a", "pins/a"], &["0000/2"], [false, true]),
            (&["0000/1", "0009/1"], &["0000/2"], [false, true]),
            (&["0000/1", "0001/9"], &["0000/2", "0001/8"], [true, true]),
            (&["0000/1"], &[], [false, false]),
        ] {
            let (one, other) = (greatest(one), greatest(other));
            assert_eq!([is_ahead(&one, &other), is_ahead(&other, &one)], expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn names_that_tell_whether_histories_parted() {
        let mut missing = Missing::default();
        for name in ["lock.json", "ltx/0/1", "ltx/0/2", "ltx/9/1", "seawall/floors/5.json", "sets/a/1"] {
            keep_greatest(&mut missing.common, ObjectKey::new(name).expect("a key"));
        }
        let telling = missing.telling();
        let names: Vec<&str> = telling.iter().map(ObjectKey::as_str).collect();
        assert_eq!(names, ["ltx/0/2", "ltx/9/1", "sets/a/1"]);
    }

    #[tokio::test]
    async fn deleted_names_that_were_made_again() {
        let key = |name: &str| ObjectKey::new(name).expect("a key");
        let vault = async |names: &[&str]| {
            let vault = Vault::new(std::sync::Arc::new(crate::memory::MemoryStore::new()), crate::Policy::default());
            for name in names {
                vault.put(&key(name), "x".into(), None).await.expect("put");
            }
            vault
        };
        let (leader, member) = (vault(&["lock.json", "ltx/0/3"]).await, vault(&["lock.json", "ltx/0/1"]).await);
        for (deleted, expected) in [
            (&[] as &[&str], false),
            (&["ltx/0/1"], false),
            (&["lock.json", "ltx/0/1"], true),
            (&["ltx/0/3"], true),
            (&["ltx/0/4"], false),
        ] {
            let names: Vec<ObjectKey> = deleted.iter().copied().map(key).collect();
            let missing = missing(&leader, &member, &names).await.expect("compared");
            assert_eq!((missing.again, missing.objects), (expected, 1), "{deleted:?}");
        }
    }
}
