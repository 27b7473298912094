//! Records of times whose moments can't be trusted, as facts in the vault (I17).
//!
//! A clock that ran ahead gave moments of the future. A clock that was corrected late gave moments of the past. Once
//! that time is reached, nothing else reveals the mistake. So each such stretch of time is recorded, and `--at` between
//! two points that touch it is refused, even if the state record is lost. Records are create-only, and are removed if
//! the clock turns out to have been right.

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::Moment;
use seawall_ltx::Txid;
use seawall_vault::{Prefix, Vault};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::identity::Stamp;
use crate::layout::{CLOCKS, mark_key, parse_mark};
use crate::moments::Doubtful;

/// A record is smaller than this. A larger object isn't a record (I11).
const MAX_SIZE: u64 = 64 << 10;

/// The format of the object; see `docs/formats.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct DoubtRecord {
    format: u32,
    #[serde(flatten)]
    doubtful: Doubtful,
    /// Who recorded it.
    writer: Stamp,
}

/// Records a stretch, after the point that was the newest then. Returns the point that names the record; `None` if the
/// vault has the record already.
///
/// If the name is taken, an earlier point names the record: two stretches may end after one point.
pub(crate) async fn record(
    vault: &Vault,
    newest: Txid,
    doubtful: Doubtful,
    writer: Stamp,
) -> Result<Option<Txid>, Error> {
    let known = list(vault).await?;
    if known.iter().any(|(_, known)| known.covers(doubtful)) {
        return Ok(None);
    }
    let bytes = serde_json::to_vec(&DoubtRecord { format: 1, doubtful, writer });
    let bytes = Bytes::from(bytes.map_err(|e| Error::Internal(e.to_string()))?);
    let taken = |txid: &Txid| known.iter().any(|(name, _)| name == txid);
    let name = (1..=newest.0).rev().map(Txid).find(|txid| !taken(txid)).unwrap_or(newest);
    vault.create(&mark_key(CLOCKS, name), bytes, None).await?;
    Ok(Some(name))
}

/// Takes a record away: the clock had been right.
pub(crate) async fn withdraw(vault: &Vault, newest: Txid) -> Result<(), Error> {
    match vault.delete(&[mark_key(CLOCKS, newest)]).await {
        // Without the deletion, moments stay refused that could be trusted.
        Ok(()) | Err(seawall_vault::Error::Denied { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// All recorded stretches, each with the point after which it was recorded. A damaged record is an error: it must not
/// get lost.
pub(crate) async fn list(vault: &Vault) -> Result<Vec<(Txid, Doubtful)>, Error> {
    let entries = vault.list(&Prefix::new(CLOCKS)?, None).await?;
    let known = entries.into_iter().filter_map(|entry| Some((parse_mark(CLOCKS, entry.key.as_str())?, entry.key)));
    let read = |(txid, key)| async move {
        let bytes = match vault.read(&key, None, MAX_SIZE).await {
            Ok(bytes) => bytes,
            // The record was withdrawn after the listing.
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let record = serde_json::from_slice::<DoubtRecord>(&bytes).ok().filter(|record| record.format == 1);
        let what = || "it is no record of doubtful moments".to_owned();
        let record = record.ok_or_else(|| Error::Corrupt { object: vault.object(&key), what: what() })?;
        Ok::<_, Error>(Some((txid, record.doubtful)))
    };
    stream::iter(known.map(read)).buffered(8).try_filter_map(|record| async move { Ok(record) }).try_collect().await
}

/// The stretch, if any, that makes it doubtful which state a moment had between a point of the moment `was` and the
/// next point.
pub(crate) fn between(
    doubts: &[(Txid, Doubtful)],
    moment: Moment,
    was: Moment,
    says: Option<Moment>,
) -> Option<Doubtful> {
    doubts.iter().map(|(_, doubtful)| *doubtful).find(|doubtful| doubtful.touches(moment, was, says))
}

/// The stretch in which points captured at different times may share a moment.
pub(crate) fn among(doubts: &[(Txid, Doubtful)], shared: Moment) -> Option<Doubtful> {
    doubts.iter().map(|(_, doubtful)| *doubtful).find(|doubtful| doubtful.spreads(shared))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_vault::memory::MemoryStore;
    use seawall_vault::simulated::SimulatedStore;

    use super::*;
    use crate::identity::{Lineage, Nonce};

    #[tokio::test]
    async fn a_record_that_is_withdrawn_after_the_listing_is_none() {
        let store = SimulatedStore::new(MemoryStore::new(), 1);
        let vault = Vault::new(Arc::new(store.clone()), seawall_vault::Policy::default());
        let writer = Stamp { lineage: Lineage::new(1), nonce: Nonce::new(1) };
        let doubtful = Doubtful { from: Moment::from_millis(1_000), until: Moment::from_millis(2_000), behind: false };
        let name = record(&vault, Txid(7), doubtful, writer).await.expect("recorded").expect("a new record");
        assert_eq!(list(&vault).await.expect("listed"), vec![(name, doubtful)]);
        store.forbid("get", seawall_vault::Error::NotFound { object: "the record".into() });
        assert_eq!(list(&vault).await.expect("listed"), vec![]);
        store.forbid("get", seawall_vault::Error::Denied { object: "the record".into(), cause: "no rights".into() });
        assert!(matches!(list(&vault).await, Err(Error::Vault(seawall_vault::Error::Denied { .. }))));
    }
}
