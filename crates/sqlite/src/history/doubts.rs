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

/// A record is smaller than this. A larger object isn't a record (I11).
const MAX_SIZE: u64 = 64 << 10;

/// A stretch of time. It isn't known which changes were made in it, because the clock was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Doubtful {
    pub(crate) from: Moment,
    pub(crate) until: Moment,
    /// Points were captured while the clock was behind `until`, the moment of the newest point. They all have that moment. If
    /// the clock had been right before it was set back, they are later by as much as the clock was behind.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) behind: bool,
}

impl Doubtful {
    /// Whether the state at `moment` is doubtful. The point before it has the moment `was`. The point after it says the moment
    /// `says`; `None` if there is none.
    ///
    /// A change between two points may be of any moment of the stretch. After the last point, only the changes in that point
    /// may be too new, and no moment from the end of the stretch on is doubtful.
    pub(crate) fn touches(self, moment: Moment, was: Moment, says: Option<Moment>) -> bool {
        let held_up = self.behind && was == self.until;
        let end = if held_up { self.end() } else { self.until };
        let too_new = moment < end && (was < self.until || held_up);
        match says {
            Some(says) => was < self.until && says > self.from || held_up && too_new,
            None => moment > self.from && too_new,
        }
    }

    /// The end of the moments at which the committed state is doubtful.
    pub(crate) fn end(self) -> Moment {
        if self.behind { self.until.after(self.until.since(self.from)) } else { self.until }
    }

    /// Whether points that share a moment may have been captured at different times.
    pub(crate) fn spreads(self, shared: Moment) -> bool {
        self.from <= shared && shared <= self.until
    }

    /// Whether every moment that is doubtful by `other` is doubtful by this stretch too.
    pub(crate) fn covers(self, other: Self) -> bool {
        let as_far = if other.behind { self.behind && self.until == other.until } else { self.until >= other.until };
        self.from <= other.from && as_far
    }
}

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
    let known = match list(vault).await {
        // Without the right to list, a record may be made twice. That does no harm.
        Err(Error::Vault(seawall_vault::Error::Denied { .. })) => Vec::new(),
        listed => listed?,
    };
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
    use std::time::Duration;

    use seawall_vault::memory::MemoryStore;
    use seawall_vault::simulated::SimulatedStore;

    use super::*;
    use crate::identity::{Lineage, Nonce};

    const MINUTE: i64 = 60 * 1000;
    const HOUR: i64 = 60 * MINUTE;

    fn clock(hours: i64, minutes: i64) -> Moment {
        Moment::from_millis(hours * HOUR + minutes * MINUTE)
    }

    fn doubtful(from: Moment, until: Moment) -> Doubtful {
        Doubtful { from, until, behind: false }
    }

    /// A clock that ran an hour ahead gave moments from 13:00 on, and was set right at 12:10.
    #[test]
    fn which_moments_are_in_doubt() {
        let ahead = doubtful(clock(12, 10), clock(13, 5));
        for (was, says, expected) in [
            (clock(11, 0), clock(12, 0), false),
            (clock(12, 0), clock(13, 0), true),
            (clock(13, 0), clock(13, 5), true),
            (clock(12, 0), clock(14, 0), true),
            (clock(13, 5), clock(14, 0), false),
        ] {
            assert_eq!(ahead.touches(was.after(Duration::from_secs(600)), was, Some(says)), expected, "{was} {says}");
        }
        // Behind the last point nothing is from the end of the stretch on.
        for (moment, was, expected) in [
            (clock(12, 5), clock(12, 0), false),
            (clock(12, 20), clock(12, 0), true),
            (clock(13, 4), clock(13, 0), true),
            (clock(13, 5), clock(13, 0), false),
            (clock(13, 20), clock(13, 5), false),
        ] {
            assert_eq!(ahead.touches(moment, was, None), expected, "{moment} {was}");
        }
    }

    /// Points of 12:00 were captured while the clock said 11:10: if it had been right before, they are of up to 12:50.
    #[test]
    fn points_that_were_held_up_are_in_doubt_on_both_sides() {
        let behind = Doubtful { from: clock(11, 10), until: clock(12, 0), behind: true };
        for next in [None, Some(clock(13, 0))] {
            for (moment, expected) in [(clock(12, 1), true), (clock(12, 49), true), (clock(12, 50), false)] {
                assert_eq!(behind.touches(moment, clock(12, 0), next), expected, "{moment} {next:?}");
                assert!(!Doubtful { behind: false, ..behind }.touches(moment, clock(12, 0), next), "{moment} {next:?}");
                assert!(!behind.touches(moment, clock(12, 1), next), "{moment} {next:?}");
            }
        }
        assert!(behind.spreads(clock(12, 0)) && !behind.spreads(clock(12, 1)));
    }

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
