//! The record of what can't be restored (I3): one small object for each hole, written before the base that ends it
//! becomes visible.

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::Point;
use seawall_ltx::Txid;
use seawall_vault::{Prefix, Vault};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::identity::{Lineage, Stamp};
use crate::layout::{HOLES, hole_key};
use crate::resume::Break;

/// A hole record is smaller than this. A larger object isn't a record (I11).
const MAX_SIZE: u64 = 64 << 10;

/// The format of the object; see `docs/formats.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HoleRecord {
    format: u32,
    /// The last point before the hole.
    pub(crate) from: Option<Point>,
    /// The TXID of the base after it.
    pub(crate) to: String,
    /// Why.
    pub(crate) reason: String,
    /// Whether a restore with Seawall is the reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) restored: bool,
    /// Who recorded it.
    writer: Stamp,
}

impl HoleRecord {
    /// The TXID of the base after the hole.
    pub(crate) fn to_txid(&self) -> Option<Txid> {
        self.to.parse().ok()
    }

    /// The lineage that was to begin after the hole.
    pub(crate) fn lineage(&self) -> Lineage {
        self.writer.lineage
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let record = serde_json::from_slice::<Self>(bytes).ok();
        record.filter(|hole| hole.format == 1 && hole.to_txid().is_some())
    }
}

/// The record of the hole that ends at `to`, if there is one.
pub(crate) async fn at(vault: &Vault, to: Txid) -> Result<Option<HoleRecord>, Error> {
    match vault.read(&hole_key(to), None, MAX_SIZE).await {
        Ok(bytes) => Ok(HoleRecord::parse(&bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Records the hole that the base `to` ends.
pub(crate) async fn record(
    vault: &Vault,
    from: Option<Point>,
    to: Txid,
    why: Break,
    writer: Stamp,
) -> Result<(), Error> {
    let (to_text, reason, restored) = (to.to_string(), why.reason().to_owned(), why == Break::Restored);
    let hole = HoleRecord { format: 1, from, to: to_text, reason, restored, writer };
    let bytes = serde_json::to_vec(&hole).map_err(|e| Error::Internal(e.to_string()))?;
    match vault.create(&hole_key(to), Bytes::from(bytes), None).await {
        // An earlier attempt that ended before its base recorded the same hole.
        Ok(_) | Err(seawall_vault::Error::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// All recorded holes, in the order of their ends. A damaged record is an error: a hole must not get lost.
pub(crate) async fn list(vault: &Vault) -> Result<Vec<HoleRecord>, Error> {
    let entries = vault.list(&Prefix::new(HOLES)?, None).await?;
    let read = |key| async move {
        let bytes = vault.read(&key, None, MAX_SIZE).await?;
        HoleRecord::parse(&bytes)
            .ok_or_else(|| Error::Corrupt { object: vault.object(&key), what: "it is no hole record".to_owned() })
    };
    let mut holes: Vec<HoleRecord> =
        stream::iter(entries.into_iter().map(|entry| read(entry.key))).buffered(8).try_collect().await?;
    holes.sort_by(|a, b| a.to.cmp(&b.to));
    Ok(holes)
}
