//! Carries out the deletions that `retention` decides on. Before that it reads the pins again, and records the floor.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use seawall_core::{Maintained, Moment, PlannedObject, RemovedObject};
use seawall_ltx::{Header, Txid};
use seawall_vault::ObjectKey;
use tokio::time::Instant;

use crate::error::Error;
use crate::headers::{is_locked, read_header};
use crate::known::Maintenance;
use crate::layout::{Layout, Level, Stored};
use crate::retention::{self, Removal, Why};
use crate::{digests, marks};

/// Objects deleted at once.
const BATCH: usize = 1000;

impl Maintenance {
    pub(super) async fn remove_all(&self, done: &mut Maintained) -> Result<(), Error> {
        if self.state().may_not_delete || self.removals(&[]).is_empty() {
            return Ok(());
        }
        self.ask_for_locks().await?;
        let pins = self.pins().await?;
        if self.removals(&pins).iter().any(|removal| removal.file.level == Level::BASE) {
            self.date_bases().await?;
        }
        let removals = self.unlocked(&pins).await?;
        self.mark_floor(&removals).await?;
        for batch in removals.chunks(BATCH) {
            let _turn = self.turns.right.acquire().await;
            let began = Instant::now();
            let keys: Vec<ObjectKey> = batch.iter().flat_map(|removal| self.keys(&removal.file)).collect();
            match self.vault.delete(&keys).await {
                Ok(()) => {}
                Err(error @ seawall_vault::Error::Denied { .. }) => {
                    self.state().may_not_delete = true;
                    let failure = Error::MayNotDelete { vault: self.vault.url().to_owned(), cause: error }.failure();
                    tracing::warn!(database = %self.name, code = failure.code, next = %failure.next, "{failure}");
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
            let files: Vec<Stored> = batch.iter().map(|removal| removal.file).collect();
            {
                let mut state = self.state();
                state.catalog.remove(&files);
                state.changes += 1;
            }
            let share = began.elapsed() / u32::try_from(files.len()).unwrap_or(u32::MAX).max(1);
            for file in &files {
                self.activity.deletions[usize::from(file.level.number())].done(file.size, share);
            }
            tracing::debug!(database = %self.name, objects = files.len(), "deleted what is not kept any longer");
            done.removed.extend(batch.iter().map(|removal| self.removed(removal)));
        }
        Ok(())
    }

    /// Learns how long the store keeps objects locked. Locked objects stay until a later run.
    pub(super) async fn ask_for_locks(&self) -> Result<(), Error> {
        self.state().locks.span = self.vault.protection().await?.span();
        Ok(())
    }

    /// The objects that may be deleted now and that the store doesn't keep locked. Locks may last longer than the bucket's
    /// own setting says: then the store tells of each, and the object stays until that end.
    async fn unlocked(&self, pins: &[Txid]) -> Result<Vec<Removal>, Error> {
        let removals = self.removals(pins);
        let now = {
            let state = self.state();
            state.trusted(self.clock.now())
        };
        let locked = self.locks_of(&removals, now).await?;
        {
            let mut state = self.state();
            state.locks.ends.retain(|_, end| *end > now);
            if locked.is_empty() {
                return Ok(removals);
            }
            state.locks.ends.extend(locked);
        }
        // What became due meanwhile wasn't asked for.
        let asked: BTreeSet<_> = removals.iter().map(|removal| removal.file.key_parts()).collect();
        let mut left = self.removals(pins);
        left.retain(|removal| asked.contains(&removal.file.key_parts()));
        Ok(left)
    }

    /// When the locks of objects end that may be deleted otherwise. Nothing of an object that isn't locked.
    pub(super) async fn locks_of(
        &self,
        removals: &[Removal],
        now: Moment,
    ) -> Result<Vec<((u8, Txid, Txid), Moment)>, Error> {
        let layout = Layout::of(&self.vault);
        let keys: Vec<ObjectKey> = removals.iter().map(|removal| removal.file.key(layout)).collect();
        let ends = self.vault.locked_until(&keys, now).await?;
        let parts = removals.iter().map(|removal| removal.file.key_parts());
        Ok(parts.zip(ends).filter_map(|(parts, end)| end.map(|end| (parts, end))).collect())
    }

    /// The keys to delete with a file. Its digest goes first: without the file, nothing would lead to the digest.
    fn keys(&self, file: &Stored) -> impl Iterator<Item = ObjectKey> {
        digests::companion(&self.vault, file).into_iter().chain([file.key(Layout::of(&self.vault))])
    }

    /// Finds out the moments of bases for which the listing has only the time of the write. The calendar needs moments.
    pub(super) async fn date_bases(&self) -> Result<(), Error> {
        let undated: Vec<Stored> = {
            let state = self.state();
            let undated = state.catalog.bases().filter(|base| base.moment == base.written);
            undated.filter(|base| !state.dated.contains(&base.file.max)).map(|base| base.file).collect()
        };
        let reading: Vec<_> = undated.iter().map(|file| self.header(file)).collect();
        let headers: Vec<Option<Header>> = stream::iter(reading).buffered(8).try_collect().await?;
        let mut state = self.state();
        for (file, header) in undated.iter().zip(headers) {
            if let Some(header) = header {
                state.catalog.date(file, Moment::from_millis(header.timestamp_ms));
            }
            state.dated.insert(file.max);
        }
        Ok(())
    }

    /// A base's header; `None` where no key at hand opens it. Then the time of its write counts, which is later, so that it
    /// is kept a little longer.
    async fn header(&self, file: &Stored) -> Result<Option<Header>, Error> {
        match read_header(&self.vault, file).await {
            Ok(header) => Ok(Some(header)),
            Err(error) if is_locked(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn removals(&self, pins: &[Txid]) -> Vec<Removal> {
        let state = self.state();
        retention::removals(&self.question(&state, pins), state.trusted(self.clock.now()))
    }

    pub(super) fn removed(&self, removal: &Removal) -> RemovedObject {
        let key = removal.file.key(Layout::of(&self.vault)).to_string();
        RemovedObject { object: PlannedObject { key, bytes: removal.file.size }, reason: removal.why.reason() }
    }

    /// The pinned points, asked for often enough: a pin on a point holds if the point is kept for another grace.
    async fn pins(&self) -> Result<Vec<Txid>, Error> {
        let fresh = |(at, _): &&(Instant, Vec<Txid>)| at.elapsed() < self.upkeep.retention.grace / 2;
        if let Some((_, pins)) = self.state().pins.as_ref().filter(fresh) {
            return Ok(pins.clone());
        }
        let pins = marks::pins(&self.vault).await?;
        self.state().pins = Some((Instant::now(), pins.clone()));
        Ok(pins)
    }

    /// Records up to which point history is thinned out, before it is. Objects that are missing from then on are no
    /// loss.
    async fn mark_floor(&self, removals: &[Removal]) -> Result<(), Error> {
        if !removals.iter().any(|removal| removal.why == Why::Outdated) {
            return Ok(());
        }
        let floor = {
            let state = self.state();
            retention::floor_at(&self.question(&state, &[]), state.trusted(self.clock.now()))
                .filter(|floor| state.floor < Some(*floor))
        };
        let Some(floor) = floor else { return Ok(()) };
        marks::set_floor(&self.vault, floor).await?;
        self.state().floor = Some(floor);
        Ok(())
    }
}
