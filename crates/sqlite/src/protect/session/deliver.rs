//! Delivers captures: offers each to the vault until the vault has it, and moves the position only then (I1).
//!
//! A sealed capture is read from the database file. If the vault doesn't take it soon, it goes into the spool.

use std::sync::Arc;

use seawall_ltx::Txid;
use seawall_vault::Scheme;
use tokio::time::{Instant, sleep};

use super::base::both;
use super::{BACKOFF, RELOOK, Session};
use crate::capture::{self, Capture, Look};
use crate::error::Error;
use crate::jobs::blocking;
use crate::layout::{Layout, Level, Stored, file_key};
use crate::probe::Defect;
use crate::resume::Break;
use crate::ship::{self, Shipment, Shipped};
use crate::state::Position;

/// How many looks in a row before the session starts over.
const RELOOKS: u32 = 100;

impl Session<'_> {
    pub(super) async fn ship_all(&mut self) -> Result<(), Error> {
        let (mut backoff, mut unfinished) = (BACKOFF, 0);
        loop {
            let Some(position) = self.position else {
                return Err(Error::Internal("shipping without a position".to_owned()));
            };
            let author = self.author();
            Box::pin(self.check_vault()).await?;
            let look = self.on_source(move |source| capture::look(source, position, author)).await?;
            let why = match look {
                Look::Clean(position) => {
                    self.position = Some(position);
                    return Ok(());
                }
                Look::New(capture) => {
                    self.last_shipped = Some(Instant::now());
                    let partial = capture.partial;
                    if self.ship(*capture).await? && !partial {
                        return Ok(());
                    }
                    continue;
                }
                Look::Unfinished if unfinished < RELOOKS => {
                    unfinished += 1;
                    sleep(RELOOK).await;
                    continue;
                }
                Look::Unfinished => return Err(Error::Restarted),
                Look::Unproved => Break::NoPosition,
                Look::Broken(why) => why,
            };
            let before = std::mem::replace(&mut self.between, true);
            if let Err(error) = self.take_base(position.txid, both(&position), why, position.tag).await {
                // The objects that the failed base left in the vault decide where to continue.
                self.wait_after(error, &mut backoff).await?;
                self.locate().await?;
            }
            self.between = before;
        }
    }

    /// Ships a capture and moves the position to its end. The same bytes are offered until the vault has them, so that
    /// a lost answer is settled as our own object (I2). `false` if the WAL was restarted under the capture, which is
    /// then useless.
    pub(super) async fn ship(&mut self, capture: Capture) -> Result<bool, Error> {
        let Capture { shipment, after, .. } = capture;
        let shipment = Arc::new(shipment);
        let began = Instant::now();
        let mut backoff = BACKOFF;
        if self.database.probe().has(Defect::AcknowledgesFirst) {
            self.arrive(after).await?;
        }
        loop {
            let key = self.log_key(after.txid);
            match ship::ship(self.database.vault(), &key, shipment.clone(), self.database.options().jobs).await {
                Ok(shipped) => {
                    self.made(Level::LOG, after.txid, &after, shipped);
                    self.database.activity().captures.done(shipment.pages.bytes(), began.elapsed());
                    self.arrive(after).await?;
                    return Ok(true);
                }
                Err(Error::Restarted) => return Ok(false),
                Err(error) => self.wait_after(error, &mut backoff).await?,
            }
        }
    }

    /// Ships the sealed pages. The same bytes are offered until the vault has them (I2).
    ///
    /// Meanwhile no process can copy, and writers notice that (see [`step_inside`](Self::step_inside)). So if a distant
    /// or failing store takes longer, the pages go into the spool first.
    pub(super) async fn ship_sealed(&mut self, capture: Capture) -> Result<(), Error> {
        let Capture { shipment, after, .. } = capture;
        let shipment = Arc::new(shipment);
        let header = shipment.header;
        let (began, mut backoff) = (Instant::now(), BACKOFF);
        self.last_shipped = Some(began);
        if self.database.probe().has(Defect::AcknowledgesFirst) {
            self.arrive(after).await?;
        }
        let near = self.database.vault().scheme() == Scheme::File || shipment.pages.bytes() <= ship::SMALL;
        let mut kept = !near && self.keep_sealed(&shipment).await;
        // After the local disk refused them once, another try would only fill it again.
        let mut untried = near;
        loop {
            let (vault, key) = (self.database.vault(), self.log_key(after.txid));
            let shipped = if kept {
                let size = ship::ship_spooled(vault, &key, &self.spool, &header).await;
                size.map(|size| Shipped { size, bytes: None })
            } else {
                ship::ship(vault, &key, shipment.clone(), self.database.options().jobs).await
            };
            match shipped {
                Ok(shipped) => {
                    self.made(Level::LOG, after.txid, &after, shipped);
                    self.database.activity().captures.done(shipment.pages.bytes(), began.elapsed());
                    self.arrive(after).await?;
                    let spool = self.spool.clone();
                    if let Err(error) =
                        blocking(move || spool.forget_list().and_then(|()| spool.remove(after.txid))).await
                    {
                        // The next start sees that it is in the vault.
                        tracing::warn!(database = %self.database.name(), "what was spooled stays: {error}");
                    }
                    return Ok(());
                }
                Err(error @ Error::Restarted) => return Err(error),
                Err(error) => {
                    if std::mem::take(&mut untried) && matches!(error, Error::Vault(_)) {
                        kept = self.keep_sealed(&shipment).await;
                    }
                    self.wait_after(error, &mut backoff).await?;
                }
            }
        }
    }

    /// Writes the sealed pages to the spool, after which the hold may move on. Returns whether that worked.
    async fn keep_sealed(&self, shipment: &Arc<Shipment>) -> bool {
        let (spool, shipment) = (self.spool.clone(), shipment.clone());
        // If the session ends meanwhile, this continues. Without the hold, another process would copy into the file
        // that it reads.
        let held = self.source.clone();
        let keep = move || {
            let mut draft = spool.draft(shipment.header.max_txid)?;
            shipment.encode(|bytes| draft.write(bytes))?;
            draft.keep()?;
            // The list stays until the state record knows the place: a start before that learns from it whose copy changed the
            // database file.
            drop(held);
            Ok(())
        };
        match blocking(keep).await {
            Ok(()) => {
                self.step_inside().await;
                true
            }
            Err(error) => {
                tracing::warn!(database = %self.database.name(), "what was sealed can't be spooled: {error}");
                false
            }
        }
    }

    /// Notes an object that is in the vault now, from `min` to `after`, for the tasks that merge and delete.
    pub(super) fn made(&self, level: Level, min: Txid, after: &Position, shipped: Shipped) {
        let file = Stored { level, min, max: after.txid, size: shipped.size };
        self.database.maintenance().made(file, after.moment, shipped.bytes);
    }

    pub(super) fn log_key(&self, txid: Txid) -> seawall_vault::ObjectKey {
        file_key(Layout::of(self.database.vault()), Level::LOG, txid, txid)
    }

    pub(super) async fn forget_list(&self) -> Result<(), Error> {
        let spool = self.spool.clone();
        blocking(move || spool.forget_list()).await
    }
}
