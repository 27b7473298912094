//! Surveys a vault: lists all levels, and reads the newest capture.

use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::{Moment, Point};
use seawall_ltx::{Header, Txid};
use seawall_vault::{Entry, ObjectKey, Prefix, Vault};

use crate::catalog::Dated;
use crate::error::Error;
use crate::headers::{check_end, is_locked, read_header, read_whole_header, tells_nothing};
use crate::identity::{Stamp, Tag, WalPosition};
use crate::layout::{Layout, Level, Stored, file_key, level_prefix, parse_key};
use crate::plan::{latest, stretches};
use crate::resume::{Break, Remote};
use crate::together;

/// All LTX files of a vault, level by level, each in the order of its names. The levels are listed at once.
///
/// Memory: 32 bytes a file.
pub(crate) async fn list(vault: &Vault) -> Result<Vec<Stored>, Error> {
    Ok(list_dated(vault).await?.into_iter().map(|dated| dated.file).collect())
}

/// Like [`list`], with the times in the listing.
pub(crate) async fn list_dated(vault: &Vault) -> Result<Vec<Dated>, Error> {
    let levels: Vec<Vec<Dated>> =
        stream::iter(Level::all().map(|level| list_level(vault, level, None))).buffered(10).try_collect().await?;
    Ok(levels.concat())
}

/// The newest capture from `txid` on, with one listing.
pub(crate) async fn newest_from(vault: &Vault, txid: Txid) -> Result<Option<Txid>, Error> {
    let before = Txid(txid.0.saturating_sub(1));
    let after = file_key(Layout::of(vault), Level::LOG, before, before);
    Ok(list_level(vault, Level::LOG, Some(&after)).await?.iter().map(|dated| dated.file.max).max())
}

/// The files of one level: all, or those after a key.
pub(crate) async fn list_level(vault: &Vault, level: Level, after: Option<&ObjectKey>) -> Result<Vec<Dated>, Error> {
    let prefix = Prefix::new(level_prefix(Layout::of(vault), level))?;
    let dated = |entry: Entry| {
        let file = parse_key(Layout::of(vault), entry.key.as_str(), entry.size)?;
        // No object is older than its content, whatever the store's clock says.
        Some(Dated { file, moment: entry.modified, written: entry.written.max(entry.modified) })
    };
    let files = vault.entries(&prefix, after).try_filter_map(|entry| std::future::ready(Ok(dated(entry))));
    Ok(files.try_collect().await?)
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

/// Surveys a vault; `None` for an empty one.
pub(crate) async fn survey(vault: &Vault) -> Result<Option<Survey>, Error> {
    let listed = list_dated(vault).await?;
    let files: Vec<Stored> = listed.iter().map(|dated| dated.file).collect();
    let Some(max) = files.iter().map(|file| file.max).max() else { return Ok(None) };
    let log = files.iter().filter(|file| file.level == Level::LOG).max_by_key(|file| file.max);
    let newest = match log {
        Some(file) => match read_whole_header(vault, file).await {
            Ok(header) => Some((*file, header)),
            // A damaged object tells nothing. A base after it repairs the history as far as possible.
            Err(error) if tells_nothing(&error) => {
                tracing::error!(%error, "the newest capture in the vault is damaged");
                None
            }
            Err(error) if is_locked(&error) => {
                tracing::warn!(%error, "the newest capture in the vault can't be read here");
                None
            }
            Err(error) => return Err(error),
        },
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
        together::prove(vault, files, &chain[chain.len().saturating_sub(PROVED)..]).await
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
