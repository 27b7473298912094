//! Stretches of time in which a history's moments can't be believed, as facts in the vault (I17).
//!
//! A clock that ran ahead gave moments of the future, and one that was believed again late gave moments of the past. Once the clock
//! has come there nothing else tells: so each such stretch is recorded, and `--at` between two points that touch it is refused,
//! also where the state record is lost. Create-only; removed where it turns out that the clock had been right.

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

/// A record is smaller than this; anything larger is not one (I11).
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

/// Records a stretch, behind the point that was the newest then.
pub(crate) async fn record(vault: &Vault, newest: Txid, doubtful: Doubtful, writer: Stamp) -> Result<(), Error> {
    let bytes = serde_json::to_vec(&DoubtRecord { format: 1, doubtful, writer });
    let bytes = bytes.map_err(|e| Error::Internal(e.to_string()))?;
    match vault.create(&mark_key(CLOCKS, newest), Bytes::from(bytes), None).await {
        // An earlier run recorded the same.
        Ok(_) | Err(seawall_vault::Error::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes a record away: the clock had been right.
pub(crate) async fn withdraw(vault: &Vault, newest: Txid) -> Result<(), Error> {
    match vault.delete(&[mark_key(CLOCKS, newest)]).await {
        // Then moments are refused that could be believed.
        Ok(()) | Err(seawall_vault::Error::Denied { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// All recorded stretches, each with the point behind which it was recorded. A damaged record is an error: it must not get lost.
pub(crate) async fn list(vault: &Vault) -> Result<Vec<(Txid, Doubtful)>, Error> {
    let entries = vault.list(&Prefix::new(CLOCKS)?, None).await?;
    let known = entries.into_iter().filter_map(|entry| Some((parse_mark(CLOCKS, entry.key.as_str())?, entry.key)));
    let read = |(txid, key)| async move {
        let bytes = vault.read(&key, None, MAX_SIZE).await?;
        let record = serde_json::from_slice::<DoubtRecord>(&bytes).ok().filter(|record| record.format == 1);
        let what = || "it is no record of doubtful moments".to_owned();
        let record = record.ok_or_else(|| Error::Corrupt { object: vault.object(&key), what: what() })?;
        Ok::<_, Error>((txid, record.doubtful))
    };
    stream::iter(known.map(read)).buffered(8).try_collect().await
}

/// The stretch that makes it doubtful what was committed at a moment between two points, of these moments.
pub(crate) fn between(doubts: &[(Txid, Doubtful)], was: Moment, says: Moment) -> Option<Doubtful> {
    doubts.iter().map(|(_, doubtful)| *doubtful).find(|doubtful| doubtful.touches(was, says))
}
