//! Surveys a vault: lists all levels, and reads the newest capture.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::{Moment, Point};
use seawall_ltx::{Header, Txid};
use seawall_vault::{Entry, ObjectKey, Prefix, Vault};

use crate::catalog::Dated;
use crate::error::Error;
use crate::headers::{check_end, is_locked, read_header, read_whole_header, tells_nothing};
use crate::heads::Heads;
use crate::identity::{Stamp, Tag, WalPosition};
use crate::layout::{Layout, Level, Stored, all_levels, file_key, level_prefix, levels_left, parse_key};
use crate::plan::{latest, stretches};
use crate::resume::{Break, Remote};
use crate::together;

/// Objects of all levels that are listed one page after the other. What is left then is listed level by level, all at once: few
/// requests for most vaults, and few in a row for large ones.
const TOGETHER: usize = 4000;

/// Objects that are looked at to see whether a vault holds anything.
const GLANCE: usize = 1000;

/// Objects of one level that are listed at most: a capture a second of 57 days, of which none is deleted. They take 400 MB, and 600 MB
/// for a moment. All levels together may have twice as many.
pub(crate) const MOST_OF_LEVEL: usize = 5_000_000;

/// From here on a warning says what ends it, while the vault can still be listed: 11 days of such captures.
const MANY_OF_LEVEL: usize = 1_000_000;

/// All LTX files of a vault, level by level, each in the order of its names.
///
/// Memory: 32 bytes a file.
pub(crate) async fn list(vault: &Vault) -> Result<Vec<Stored>, Error> {
    Ok(list_dated(vault).await?.into_iter().map(|dated| dated.file).collect())
}

/// Like [`list`], with the times in the listing.
pub(crate) async fn list_dated(vault: &Vault) -> Result<Vec<Dated>, Error> {
    let layout = Layout::of(vault);
    let (folder, before) = all_levels(layout);
    let mut entries = vault.entries(&Prefix::new(folder)?, before.as_ref()).take(TOGETHER);
    let (mut files, mut listed, mut last) = (Vec::new(), 0, None);
    let end = level_prefix(layout, Level::BASE);
    while let Some(entry) = entries.try_next().await? {
        if *entry.key.as_str() > *end && !entry.key.as_str().starts_with(&end) {
            break;
        }
        files.extend(dated(layout, &entry));
        (listed, last) = (listed + 1, Some(entry.key));
    }
    let left = last.filter(|_| listed == TOGETHER).map(|last| levels_left(layout, &last)).unwrap_or_default();
    let room = Room::of(2 * MOST_OF_LEVEL);
    let rest: Vec<_> =
        left.iter().map(|(level, after)| list_level_within(vault, *level, after.as_ref(), &room)).collect();
    let rest: Vec<Vec<Dated>> = stream::iter(rest).buffered(10).try_collect().await?;
    files.extend(rest.into_iter().flatten());
    Ok(files)
}

/// Whether a vault holds an LTX file, from the first page of a listing.
pub(crate) async fn holds_any(vault: &Vault) -> Result<bool, Error> {
    let layout = Layout::of(vault);
    let (folder, before) = all_levels(layout);
    let mut entries = Box::pin(vault.entries(&Prefix::new(folder)?, before.as_ref()).take(GLANCE));
    while let Some(entry) = entries.try_next().await? {
        if dated(layout, &entry).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The newest capture from `txid` on, with one listing.
pub(crate) async fn newest_from(vault: &Vault, txid: Txid) -> Result<Option<Txid>, Error> {
    let before = Txid(txid.0.saturating_sub(1));
    let after = file_key(Layout::of(vault), Level::LOG, before, before);
    Ok(list_level(vault, Level::LOG, Some(&after)).await?.iter().map(|dated| dated.file.max).max())
}

/// The files of one level: all, or those after a key.
pub(crate) async fn list_level(vault: &Vault, level: Level, after: Option<&ObjectKey>) -> Result<Vec<Dated>, Error> {
    list_level_within(vault, level, after, &Room::of(MOST_OF_LEVEL)).await
}

/// For how many objects there is memory. Levels that are listed at once share it.
struct Room {
    left: AtomicUsize,
    most: usize,
}

impl Room {
    fn of(most: usize) -> Self {
        Self { left: AtomicUsize::new(most), most }
    }

    /// Takes the room of one object; whether there was some.
    fn take(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// The same, within `room`.
async fn list_level_within(
    vault: &Vault,
    level: Level,
    after: Option<&ObjectKey>,
    room: &Room,
) -> Result<Vec<Dated>, Error> {
    let layout = Layout::of(vault);
    let prefix = Prefix::new(level_prefix(layout, level))?;
    let take = |entry: Entry| {
        let object = || format!("{}/{}", vault.url(), prefix.as_str());
        std::future::ready(match room.take() {
            true => Ok(dated(layout, &entry)),
            false => Err(seawall_vault::Error::Endless { object: object(), most: room.most }),
        })
    };
    let files: Vec<Dated> = vault.entries(&prefix, after).try_filter_map(take).try_collect().await?;
    if let Some(warning) = warning(files.len()) {
        tracing::warn!(vault = vault.url(), level = level.number(), objects = files.len(), "{warning}");
    }
    Ok(files)
}

/// What is to be said of a level with so many objects, before [`MOST_OF_LEVEL`] ends each start.
fn warning(objects: usize) -> Option<String> {
    (objects >= MANY_OF_LEVEL).then(|| {
        format!(
            "this level grows towards the {MOST_OF_LEVEL} objects that a listing may name; set an `l0-retention` that \
             isn't `forever`, or a longer `sync-interval`"
        )
    })
}

fn dated(layout: Layout, entry: &Entry) -> Option<Dated> {
    let file = parse_key(layout, entry.key.as_str(), entry.size)?;
    // No object is older than its content, whatever the store's clock says.
    Some(Dated { file, moment: entry.modified, written: entry.written.max(entry.modified) })
}

/// The vault's side of the question where the history ends.
#[derive(Debug, Clone)]
pub(crate) struct Survey {
    pub(crate) remote: Remote,
    /// The whole listing.
    pub(crate) listed: Vec<Dated>,
    /// The newest capture and its header.
    pub(crate) newest: Option<(Stored, Header)>,
    /// The newest point at any level whose header can be read.
    pub(crate) last: Option<Point>,
    /// A complete copy of a later state than the newest capture's: the writer crashed before it wrote the capture.
    pub(crate) unpaired: Option<Stored>,
}

/// Surveys a vault by its listing; `None` for an empty one.
pub(crate) async fn survey(vault: &Vault, listed: Vec<Dated>) -> Result<Option<Survey>, Error> {
    let files: Vec<Stored> = listed.iter().map(|dated| dated.file).collect();
    let Some(max) = files.iter().map(|file| file.max).max() else { return Ok(None) };
    let log = files.iter().filter(|file| file.level == Level::LOG).max_by_key(|file| file.max);
    let newest = match log {
        Some(file) => newest_capture(vault, file).await?.ok(),
        None => None,
    };
    let spoilt = spoilt(vault, &files).await?;
    let header = newest.as_ref().map(|(_, header)| header);
    let remote = Remote {
        max,
        restorable: stretches(&files).last().and_then(|points| points.last()) == Some(&max),
        spoilt: match &spoilt {
            Some(Error::Mixed { .. }) => Some(Break::Mixed),
            Some(error) if is_locked(error) => Some(Break::Locked),
            Some(_) => Some(Break::Damaged),
            None => None,
        },
        log: log.map(|file| file.max),
        lineage: header.and_then(Stamp::read).map(|stamp| stamp.lineage),
        wal: header.and_then(WalPosition::after),
    };
    let last = match header.filter(|header| header.max_txid == max) {
        Some(header) => Some(point(header)),
        None => newest_point(vault, &files, max).await?.or_else(|| header.map(point)),
    };
    let unpaired = files
        .iter()
        .find(|file| file.level == Level::BASE && file.max == max && file.min.0 == 1)
        .filter(|file| spoilt.is_none() && newest.is_some_and(|(log, _)| log.max < file.max));
    Ok(Some(Survey { remote, newest, last, unpaired: unpaired.copied(), listed }))
}

/// The newest capture with its header, or why the state that it leads to can't be relied on.
async fn newest_capture(vault: &Vault, file: &Stored) -> Result<Result<(Stored, Header), Break>, Error> {
    match read_whole_header(vault, file).await {
        Ok(header) => Ok(Ok((*file, header))),
        // A damaged object tells nothing. A base after it repairs the history as far as possible.
        Err(error) if tells_nothing(&error) => {
            tracing::error!(%error, "the newest capture in the vault is damaged");
            Ok(Err(Break::Damaged))
        }
        Err(error) if is_locked(&error) => {
            tracing::warn!(%error, "the newest capture in the vault can't be read here");
            Ok(Err(Break::Locked))
        }
        Err(error) => Err(error),
    }
}

/// Surveys a vault that may not be listed, from a capture that is known to be there. Captures that followed it are
/// found by their names, one after the other. Older objects aren't proved.
///
/// `None` if the known capture isn't there: then newer ones may exist whose names are unknown. Stores answer "denied"
/// for missing objects where the credentials may not list.
pub(crate) async fn survey_from(vault: &Vault, known: Txid) -> Result<Option<Survey>, Error> {
    let (mut log, mut txid) = (None, known);
    while let Some(file) = capture_at(vault, txid).await? {
        log = Some(file);
        txid = next_txid(Some(txid))?;
    }
    let Some(log) = log else { return Ok(None) };
    let newest = newest_capture(vault, &log).await?;
    if newest.is_err() && capture_at(vault, log.max).await?.is_none() {
        // It was deleted meanwhile, so that there are newer ones.
        return Ok(None);
    }
    let header = newest.as_ref().ok().map(|(_, header)| header);
    let remote = Remote {
        max: log.max,
        restorable: true,
        spoilt: newest.as_ref().err().copied(),
        log: Some(log.max),
        lineage: header.and_then(Stamp::read).map(|stamp| stamp.lineage),
        wal: header.and_then(WalPosition::after),
    };
    let last = header.map(point);
    Ok(Some(Survey { remote, newest: newest.ok(), last, unpaired: None, listed: Vec::new() }))
}

/// The capture of one TXID, if it is there.
async fn capture_at(vault: &Vault, txid: Txid) -> Result<Option<Stored>, Error> {
    let key = file_key(Layout::of(vault), Level::LOG, txid, txid);
    match vault.head(&key).await {
        Ok(meta) => Ok(meta.map(|meta| Stored { level: Level::LOG, min: txid, max: txid, size: meta.size })),
        Err(seawall_vault::Error::Denied { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Survey {
    /// The tag of a point, if the newest capture made it.
    pub(crate) fn tag_at(&self, txid: Txid) -> Option<Tag> {
        let (file, header) = self.newest.as_ref().filter(|(file, _)| file.max == txid)?;
        Tag::after(header, file.level)
    }
}

/// How many of the newest objects a start proves. If merging is off, there may be one for each second since the last
/// base.
const PROVED: usize = 256;

/// Why the newest state can't be relied on, although its objects are there by name. Either an object is damaged (a read
/// of 100 bytes each, and of its end for the complete copy), or they don't belong together.
async fn spoilt(vault: &Vault, files: &[Stored]) -> Result<Option<Error>, Error> {
    let Ok(Some(chain)) = latest(files) else { return Ok(None) };
    let proved = async {
        if let Some(base) = chain.first() {
            check_end(vault, base).await?;
        }
        // Older objects were proved when they were merged, and each restore proves them again.
        together::prove(&Heads::of(vault), files, &chain[chain.len().saturating_sub(PROVED)..]).await
    };
    match proved.await {
        Ok(_) => Ok(None),
        Err(error) if tells_nothing(&error) || matches!(error, Error::Mixed { .. }) => {
            let failure = error.failure();
            tracing::error!(code = failure.code, next = %failure.next, "{failure}");
            Ok(Some(error))
        }
        // Nothing is wrong with it. The host's keys are lost, or the newest state needs an object that is older than they.
        Err(error) if is_locked(&error) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

fn point(header: &Header) -> Point {
    Point { position: header.max_txid.to_string(), moment: Moment::from_millis(header.timestamp_ms) }
}

/// The point at `max`, if no capture names it.
pub(crate) async fn newest_point(vault: &Vault, files: &[Stored], max: Txid) -> Result<Option<Point>, Error> {
    for file in files.iter().filter(|file| file.max == max) {
        match read_header(vault, file).await {
            Ok(header) => return Ok(Some(point(&header))),
            Err(error) if tells_nothing(&error) || is_locked(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The TXID after `txid`; the first TXID if there is none.
pub(crate) fn next_txid(txid: Option<Txid>) -> Result<Txid, Error> {
    match txid {
        None => Ok(Txid(1)),
        Some(txid) => txid.next().ok_or(Error::OutOfTxids(txid)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_vault::Policy;
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::simulated::SimulatedStore;

    use super::*;

    /// As many objects of level 0 and beside it as given, and one in each of the levels 3 and 9.
    async fn vault(captures: u64) -> Vault {
        let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
        let put = async |key: ObjectKey| vault.put(&key, bytes::Bytes::from_static(b"x"), None).await.expect("written");
        let layout = Layout::of(&vault);
        for txid in 1..=captures {
            put(file_key(layout, Level::LOG, Txid(txid), Txid(txid))).await;
        }
        for level in [3, 9].into_iter().filter_map(Level::new) {
            put(file_key(layout, level, Txid(1), Txid(9))).await;
        }
        for other in ["generations/x", "seawall/holes/x.json", "a", "ltx/0/x"] {
            put(ObjectKey::new(other).expect("a key")).await;
        }
        vault
    }

    #[tokio::test]
    async fn levels_that_are_listed_at_once_share_their_memory() {
        let vault = vault(10).await;
        let listed = async |room: usize| {
            let room = Room::of(room);
            let log = list_level_within(&vault, Level::LOG, None, &room).await?;
            let bases = list_level_within(&vault, Level::BASE, None, &room).await?;
            Ok::<_, Error>(log.len() + bases.len())
        };
        assert_eq!(listed(11).await.expect("listed"), 11);
        assert!(matches!(listed(10).await, Err(Error::Vault(seawall_vault::Error::Endless { .. }))));
    }

    #[test]
    fn a_level_is_warned_of_long_before_it_ends_each_start() {
        assert_eq!((warning(0), warning(MANY_OF_LEVEL - 1)), (None, None));
        assert!(warning(MANY_OF_LEVEL).is_some_and(|told| told.contains("l0-retention")));
        // A capture a second that is never deleted.
        const { assert!((MOST_OF_LEVEL - MANY_OF_LEVEL) / 86_400 > 40, "the owner has weeks to read it") };
    }

    #[tokio::test]
    async fn the_end_of_a_history_is_found_by_names() {
        let vault = vault(5).await;
        let end = async |vault: &Vault, known| {
            survey_from(vault, Txid(known))
                .await
                .expect("asked")
                .map(|survey| (survey.remote.max, survey.remote.spoilt))
        };
        for (known, expected) in [(1, Some(5)), (3, Some(5)), (5, Some(5)), (6, None), (9, None)] {
            // The objects of this test have no content.
            let expected = expected.map(|max| (Txid(max), Some(Break::Damaged)));
            assert_eq!(end(&vault, known).await, expected, "{known}");
        }
        vault.delete(&[file_key(Layout::of(&vault), Level::LOG, Txid(2), Txid(2))]).await.expect("deleted");
        assert_eq!(end(&vault, 2).await, None, "a record that is older than the vault leads nowhere");
    }

    #[tokio::test]
    async fn a_store_that_denies_what_is_missing() {
        let store = SimulatedStore::new(MemoryStore::new(), 1);
        store.forbid("head", seawall_vault::Error::Denied { object: "it".into(), cause: "no rights".into() });
        let vault = Vault::new(Arc::new(store), Policy::default());
        assert!(survey_from(&vault, Txid(2)).await.expect("asked").is_none());
        assert!(!holds_any(&vault).await.expect("listed"));
    }

    #[tokio::test]
    async fn one_listing_of_all_levels_finds_what_a_listing_of_each_finds() {
        for (captures, most) in [(0, 1), (10, 1), (1500, 2), (TOGETHER as u64 + 1200, 4 + 10 + 1)] {
            let vault = vault(captures).await;
            let before = vault.counts().list;
            let found = list(&vault).await.expect("listed");
            let requests = vault.counts().list - before;
            let mut expected = Vec::new();
            for level in Level::all() {
                expected
                    .extend(list_level(&vault, level, None).await.expect("listed").into_iter().map(|dated| dated.file));
            }
            assert_eq!(found, expected, "{captures}");
            assert!(holds_any(&vault).await.expect("listed"));
            assert!(requests <= most, "{requests} listings for {captures}");
        }
    }
}
