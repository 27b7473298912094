//! Takes a base: the whole database, as a complete copy and as a capture beside it.

use std::sync::Arc;

use seawall_core::{Moment, Phase, Point};
use seawall_ltx::Txid;
use tokio::time::Instant;

use super::Session;
use crate::capture;
use crate::continuity::Break;
use crate::error::Error;
use crate::holes;
use crate::identity::{Lineage, Tag};
use crate::layout::{Layout, Level, file_key};
use crate::ship;
use crate::state::Position;
use crate::survey::next_txid;

impl Session<'_> {
    /// The first base: a complete copy 1-1, and an empty capture behind it.
    pub(super) async fn take_first_base(&mut self) -> Result<(), Error> {
        self.tell(Phase::Base, None).await;
        let database = self.database;
        let _turn = database.admission().base().await;
        let began = Instant::now();
        let base = self.freeze(Txid(1), Moment::from_millis(i64::MIN), None).await?;
        let (vault, jobs) = (self.database.vault(), self.database.options().jobs);
        let key = file_key(Layout::of(vault), Level::BASE, Txid(1), Txid(1));
        let copy = Arc::new(base.shipment(Txid(1)));
        let shipped = ship::ship(vault, &key, copy.clone(), jobs).await?;
        self.made(Level::BASE, Txid(1), &base.after, shipped);
        database.activity().bases.done(copy.pages.bytes(), began.elapsed());
        let seed = base.seed(next_txid(Some(Txid(1)))?);
        let shipped = ship::ship(vault, &self.log_key(seed.after.txid), Arc::new(seed.shipment), jobs).await?;
        self.made(Level::LOG, seed.after.txid, &seed.after, shipped);
        self.arrive(seed.after).await?;
        self.end_base().await
    }

    /// A later base: a capture of all pages at the next TXID, and then the same as a complete copy. The capture comes first
    /// because its name is what writers race for: the copy of one that lost would stand under the captures of another.
    ///
    /// `last` is the newest point that was acknowledged, and the hole begins behind the newest point that can be restored.
    pub(super) async fn take_base(
        &mut self,
        newest: Txid,
        (last, from): (Option<Point>, Option<Point>),
        why: Break,
        before: Option<Tag>,
    ) -> Result<(), Error> {
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
        holes::record(vault, from, txid, why, self.stamp).await?;
        let capture = Arc::new(base.shipment(txid));
        let shipped = ship::ship(vault, &self.log_key(txid), capture.clone(), jobs).await?;
        self.made(Level::LOG, txid, &base.after, shipped);
        let copy = file_key(Layout::of(vault), Level::BASE, Txid(1), txid);
        let shipped = ship::ship(vault, &copy, Arc::new(base.shipment(Txid(1))), jobs).await?;
        self.made(Level::BASE, Txid(1), &base.after, shipped);
        database.activity().bases.done(capture.pages.bytes(), began.elapsed());
        self.arrive(base.after).await?;
        self.end_base().await
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

/// A position as the newest point and as the newest one that can be restored.
pub(super) fn both(position: &Position) -> (Option<Point>, Option<Point>) {
    (Some(position.point()), Some(position.point()))
}
