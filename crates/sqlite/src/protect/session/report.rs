//! What a session reports: its position and its errors in the status, doubts about moments in the vault.

use std::sync::atomic::Ordering;

use seawall_core::Phase;

use super::Session;
use crate::clock::Unrecorded;
use crate::doubts;
use crate::error::Error;
use crate::ship::blocking;
use crate::state::{Position, Record};

impl Session<'_> {
    /// Everything up to `position` is durable in the vault.
    pub(super) async fn arrive(&mut self, position: Position) -> Result<(), Error> {
        self.position = Some(position);
        let several = self.on_source(|source| Ok(source.other_names())).await?;
        self.several = several.is_some();
        self.database.arrived(position, self.stamp.lineage, several.is_some());
        self.tell(Phase::Protecting, several.as_ref()).await;
        Ok(())
    }

    /// That what was shipped is everything that is committed, as far as can be seen.
    ///
    /// # Errors
    /// When the file has other names, through which somebody may have written.
    pub(crate) async fn claim(&self) -> Result<(), Error> {
        self.on_source(|source| source.other_names().map_or(Ok(()), Err)).await
    }

    /// Writes the state record anew if somebody deleted it, and the lock beside it, if it could not be written, or if the
    /// upkeep has something to tell. Without a commit nothing else would.
    pub(crate) async fn keep_record(&mut self) {
        let several = self.on_source(|source| Ok(source.other_names().is_some())).await;
        if let Some(position) = self.position
            && several.is_ok_and(|several| several != self.several)
            && let Err(error) = self.arrive(position).await
        {
            tracing::debug!(database = %self.database.name(), "its names are told later: {error}");
        }
        let (state_dir, read_back) = (self.state_dir.clone(), self.database.read_back().clone());
        let as_known = move || Ok(Record::is_there(&state_dir) && read_back.is_known());
        let gone = async || blocking(as_known).await.is_ok_and(|known| !known);
        let unsaved = self.database.unsaved().load(Ordering::Relaxed);
        if unsaved || self.database.upkeep_has_news() || self.database.clock_has_news() || gone().await {
            self.tell(Phase::Protecting, None).await;
        }
        if let Err(error) = self.record_doubts().await {
            tracing::debug!(database = %self.database.name(), "the doubt about moments is recorded later: {error}");
        }
    }

    /// Records in the vault which moments of the history can't be believed, and takes that back where the clock was right (I17).
    pub(crate) async fn record_doubts(&self) -> Result<(), Error> {
        let Some(Position { txid, moment, .. }) = self.position else { return Ok(()) };
        let (clock, vault) = (self.database.clock(), self.database.vault());
        // What turned out since comes before what is taken back for it.
        while let Some(unrecorded) = clock.unrecorded(moment) {
            let name = doubts::record(vault, txid, unrecorded.doubtful(), self.stamp).await?;
            clock.is_recorded(unrecorded, name);
            if matches!(unrecorded, Unrecorded::Ahead(_)) {
                break;
            }
        }
        for refuted in clock.refuted() {
            doubts::withdraw(vault, refuted).await?;
            clock.is_withdrawn(refuted);
        }
        Ok(())
    }

    pub(super) async fn tell(&self, phase: Phase, error: Option<&Error>) {
        let phase = if self.several && phase == Phase::Protecting { Phase::Failing } else { phase };
        self.database.tell(phase, error, self.stamp.lineage).await;
    }
}
