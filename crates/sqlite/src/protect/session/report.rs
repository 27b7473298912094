//! The reports of a session: its position and its errors in the status, doubts about moments in the vault.

use std::sync::atomic::Ordering;
use std::time::Duration;

use seawall_core::Phase;
use tokio::time::sleep;

use super::Session;
use crate::clock::Unrecorded;
use crate::doubts;
use crate::error::Error;
use crate::files::FileState;
use crate::jobs::blocking;
use crate::source::{Source, TO_BE_SURE};
use crate::state::{Position, Record};

/// How long the end of a session waits for a file to be at rest. What was written right before can't be told from what is written in the
/// same tick of the file system's clock.
const SHORT_REST: Duration = Duration::from_millis(FileState::SHORT_REST.unsigned_abs());

impl Session<'_> {
    /// Everything up to `position` is durable in the vault.
    pub(super) async fn arrive(&mut self, position: Position) -> Result<(), Error> {
        self.position = Some(position);
        let look = move |source: &mut Source| {
            // If this look fails, the next one reports it.
            source.look_outside(position.wal.as_ref()).ok();
            Ok(source.unseen_writers(TO_BE_SURE))
        };
        let several = self.on_source(look).await?;
        self.several = several.is_some();
        self.database.arrived(position, self.stamp.lineage, several.is_some());
        self.tell(Phase::Protecting, several.as_ref()).await;
        Ok(())
    }

    /// Checks that no program writes commits that Seawall can't see.
    ///
    /// # Errors
    /// When the file has other names, or its WAL was deleted while a program used it.
    pub(crate) async fn claim(&self) -> Result<(), Error> {
        self.on_source(|source| source.unseen_writers(TO_BE_SURE).map_or(Ok(()), Err)).await
    }

    /// Whether the file has the captured content, by its metadata. The next process compares the file with the last metadata
    /// that were recorded.
    pub(crate) async fn is_untouched(&self) -> Result<bool, Error> {
        let captured = self.position.and_then(|position| position.wal);
        let look = move |source: &mut Source| {
            source.look_outside(captured.as_ref())?;
            Ok(!source.is_overwritten())
        };
        self.on_source(look).await
    }

    /// Notes the state of a file without a WAL, and waits for its rest for a moment. The point is durable: a failure costs no more than a
    /// base at the next start.
    pub(crate) async fn note_rest_at_the_end(&mut self) {
        if let Err(error) = self.note_rest(true).await {
            tracing::debug!(database = %self.database.name(), "the state of the file isn't noted: {error}");
        }
    }

    /// Notes the state of a file that has no WAL, once the file is at rest. By that the next process can tell that nothing was written
    /// meanwhile. A base notes the state itself unless the file was written right before.
    ///
    /// While the hold lasts and there is no WAL, no commit came after the base: a commit would have made a WAL, and the hold keeps a WAL
    /// from being removed.
    ///
    /// Answers whether it noted a state.
    async fn note_rest(&mut self, wait: bool) -> Result<bool, Error> {
        let lacks_it = |position: &Position| position.held && position.wal.is_none() && position.state.is_none();
        let Some(position) = self.position.filter(lacks_it) else { return Ok(false) };
        for last in [!wait, true] {
            let now = self.database.now();
            let look = move |source: &mut Source| {
                source.look_outside(None)?;
                if source.is_overwritten() || source.live_header()?.is_some() || source.has_lost_its_header()? {
                    return Ok((None, false));
                }
                Ok((source.file_at_rest(now)?, true))
            };
            let (state, may_rest) = self.on_source(look).await?;
            if state.is_some() {
                let position = Position { state, ..position };
                self.position = Some(position);
                self.database.rests(position);
                return Ok(true);
            }
            if last || !may_rest {
                break;
            }
            sleep(SHORT_REST).await;
        }
        Ok(false)
    }

    /// Writes the state record and the lock again if they were deleted, if the record couldn't be written, or if the
    /// upkeep has news. Without a commit nothing else would write it.
    pub(crate) async fn keep_record(&mut self) {
        let several = self.on_source(|source| Ok(source.unseen_writers(TO_BE_SURE).is_some())).await;
        if let Some(position) = self.position
            && several.is_ok_and(|several| several != self.several)
            && let Err(error) = self.arrive(position).await
        {
            tracing::debug!(database = %self.database.name(), "its names are told later: {error}");
        }
        let (state_dir, read_back) = (self.state_dir.clone(), self.database.read_back().clone());
        let as_known = move || Ok(Record::is_there(&state_dir) && read_back.is_known());
        let gone = async || blocking(as_known).await.is_ok_and(|known| !known);
        let is_news = self.note_rest(false).await.unwrap_or_else(|error| {
            tracing::debug!(database = %self.database.name(), "the state of the file is noted later: {error}");
            false
        });
        let unsaved = is_news || self.database.unsaved().load(Ordering::Relaxed) || !self.database.file_is_recorded();
        if unsaved || self.database.upkeep_has_news() || self.database.clock_has_news() || gone().await {
            self.tell(Phase::Protecting, None).await;
        }
        if let Err(error) = self.record_doubts().await {
            tracing::debug!(database = %self.database.name(), "the doubt about moments is recorded later: {error}");
        }
    }

    /// Records in the vault which moments of the history can't be trusted. Removes such a record if the clock was right
    /// (I17).
    pub(crate) async fn record_doubts(&self) -> Result<(), Error> {
        let Some(Position { txid, moment, .. }) = self.position else { return Ok(()) };
        let (clock, vault) = (self.database.clock(), self.database.vault());
        // Newer findings are recorded before the record that they replace is removed.
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
