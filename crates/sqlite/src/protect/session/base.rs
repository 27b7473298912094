//! Takes a base: the whole database, as a complete copy and as a capture beside it.

use std::sync::Arc;

use seawall_core::{Gauge, Hole, Moment, Operation, Phase, Point, Progress as _};
use seawall_ltx::Txid;
use tokio::time::Instant;

use super::Session;
use crate::capture;
use crate::error::Error;
use crate::holes;
use crate::identity::{Lineage, Tag};
use crate::jobs::blocking;
use crate::layout::{Layout, Level, file_key};
use crate::restored;
use crate::resume::Break;
use crate::ship;
use crate::source::TO_BE_SURE;
use crate::state::Position;
use crate::survey::next_txid;

impl Session<'_> {
    /// The first base: a complete copy 1-1, and an empty capture after it.
    pub(super) async fn take_first_base(&mut self) -> Result<(), Error> {
        self.tell(Phase::Base, None).await;
        let database = self.database;
        let _turn = database.admission().base().await;
        let began = Instant::now();
        let base = self.freeze(Txid(1), Moment::from_millis(i64::MIN), None).await?;
        let (vault, jobs) = (self.database.vault(), self.database.options().jobs);
        let key = file_key(Layout::of(vault), Level::BASE, Txid(1), Txid(1));
        let copy = Arc::new(base.shipment(Txid(1)));
        let writing = begin(database.gauge(), copy.pages.bytes());
        let shipped = ship::ship_told(vault, &key, copy.clone(), jobs, database.gauge()).await?;
        drop(writing);
        self.forget_restore().await?;
        self.made(Level::BASE, Txid(1), &base.after, shipped);
        database.activity().bases.done(copy.pages.bytes(), began.elapsed());
        let seed = base.seed(next_txid(Some(Txid(1)))?);
        let shipped = ship::ship(vault, &self.log_key(seed.after.txid), Arc::new(seed.shipment), jobs).await?;
        self.made(Level::LOG, seed.after.txid, &seed.after, shipped);
        self.end_base().await?;
        self.arrive(seed.after).await
    }

    /// A later base: a capture of all pages at the next TXID, and then the same as a complete copy. Writers race for
    /// the capture's name, so it comes first. Otherwise the copy of a writer that lost would come before another
    /// writer's captures.
    ///
    /// `last` is the newest point that was acknowledged. The hole begins after the newest point that can be restored.
    pub(super) async fn take_base(
        &mut self,
        newest: Txid,
        (last, from): (Option<Point>, Option<Point>),
        why: Break,
        before: Option<Tag>,
    ) -> Result<(), Error> {
        if matches!(why, Break::Overwritten | Break::Written)
            && self.on_source(|source| Ok(source.has_deleted_wal(TO_BE_SURE))).await?
        {
            // A program copies its own WAL into the file, and no lock of ours prevents that. So no base would be consistent.
            return Err(Error::DeletedWal { path: self.database.place()?.0 });
        }
        let why = if why.may_be_of_a_restore() && self.is_restored().await? { Break::Restored } else { why };
        self.tell(Phase::Base, None).await;
        self.stamp.lineage = Lineage::new(self.database.random());
        let txid = next_txid(Some(newest))?;
        tracing::warn!(database = %self.database.name(), txid = %txid, reason = why.reason(), "taking a new base");
        let not_before = last.as_ref().map_or(Moment::from_millis(i64::MIN), |point| point.moment);
        let database = self.database;
        let _turn = database.admission().base().await;
        let began = Instant::now();
        let base = self.freeze(txid, not_before, before).await?;
        let (vault, jobs) = (self.database.vault(), self.database.options().jobs);
        holes::record(vault, from.clone(), txid, why, self.stamp).await?;
        // Before the capture is visible: a process that is killed after it would go on there, and the hole would never be told.
        let (to, restored) = (base.after.point(), why == Break::Restored);
        database.left_a_hole(Hole { from, to, reason: why.reason().to_owned(), restored });
        self.tell(Phase::Base, None).await;
        let capture = Arc::new(base.shipment(txid));
        let writing = begin(database.gauge(), 2 * capture.pages.bytes());
        let shipped = ship::ship_told(vault, &self.log_key(txid), capture.clone(), jobs, database.gauge()).await?;
        self.forget_restore().await?;
        self.made(Level::LOG, txid, &base.after, shipped);
        let copy = file_key(Layout::of(vault), Level::BASE, Txid(1), txid);
        let twin = Arc::new(base.shipment(Txid(1)));
        let shipped = ship::ship_told(vault, &copy, twin, jobs, database.gauge()).await?;
        drop(writing);
        self.made(Level::BASE, Txid(1), &base.after, shipped);
        database.activity().bases.done(capture.pages.bytes(), began.elapsed());
        self.end_base().await?;
        self.arrive(base.after).await
    }

    /// Whether a restore made the file that is at the database's path.
    async fn is_restored(&self) -> Result<bool, Error> {
        let (path, state_dir) = self.database.place()?;
        blocking(move || Ok(restored::is(&state_dir, &path))).await
    }

    /// Forgets a restore once the vault holds a state that came after it, whatever led to that base: the next hole has another reason.
    pub(super) async fn forget_restore(&self) -> Result<(), Error> {
        let (_, state_dir) = self.database.place()?;
        blocking(move || {
            restored::forget(&state_dir);
            Ok(())
        })
        .await
    }

    async fn end_base(&self) -> Result<(), Error> {
        self.on_source(|source| {
            source.end_base();
            Ok(())
        })
        .await
    }

    async fn freeze(&mut self, txid: Txid, not_before: Moment, before: Option<Tag>) -> Result<capture::Base, Error> {
        let author = self.author();
        self.on_source(move |source| capture::prepare_base(source, txid, author, not_before, before)).await
    }
}

/// Shows in the status that a base is being written. `total` is in bytes of pages; each page counts once for each
/// object that it is written to.
fn begin(gauge: &Gauge, total: u64) -> Operation<'_> {
    let operation = gauge.operation();
    gauge.begin("base", Some(total));
    operation
}

/// A position as both the newest point and the newest one that can be restored.
pub(super) fn both(position: &Position) -> (Option<Point>, Option<Point>) {
    (Some(position.point()), Some(position.point()))
}
