//! Is there any work? Were there commits, or did another program change the local files?

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use seawall_core::Phase;
use seawall_host::Glance;
use tokio::time::Instant;

use super::Session;
use crate::error::Error;
use crate::source::AT_A_GLANCE;
use crate::standing::{Standing, standing};
use crate::state::Record;

/// How often a postponed attempt is repeated without a new commit, and for how long after the last one.
const LOOK_ACTIVE: Duration = Duration::from_secs(55);
const SILENT: Duration = Duration::from_secs(3600);

impl Session<'_> {
    /// Whether there are writes since the last capture, and when the WAL was written last.
    pub(crate) async fn glimpse(&self) -> Result<(bool, Option<SystemTime>), Error> {
        let wal = self.position.and_then(|position| position.wal);
        self.on_source(move |source| {
            source.check_identity()?;
            Ok((source.is_behind(wal.as_ref(), 0)?, source.wal_written()?))
        })
        .await
    }

    /// Whether there are writes since the last capture: at least `bytes` of WAL and one frame. If the place of the last
    /// capture isn't there any more, that is an error.
    pub(crate) async fn is_behind(&self, bytes: u64) -> Result<bool, Error> {
        let wal = self.position.and_then(|position| position.wal);
        self.on_source(move |source| {
            source.check_identity()?;
            source.is_behind(wal.as_ref(), bytes)
        })
        .await
    }

    /// Finds out with a few system calls whether there is work: whether there were commits, and whether the last
    /// captured place and the files beside the database are unchanged.
    pub(crate) fn glance(&self) -> Glance {
        let (source, look) = (Arc::downgrade(&self.source), self.next_look());
        let (vault, upkeep) = (self.database.vault().clone(), self.database.maintenance().clone());
        let (captured, state_dir) = (self.position.map(|position| position.captured()), self.state_dir.clone());
        let (unsaved, untouched) = (self.database.unsaved().clone(), self.database.heir().untouched().clone());
        let (commit, several) = (self.position.map_or(0, |position| position.commit), self.several);
        let (clock, newest) = (self.database.clock().clone(), self.position.map(|position| position.moment));
        let faulty = self.database.clock_fault_is_told();
        let (runtime, read_back) = (tokio::runtime::Handle::current(), self.database.read_back().clone());
        Box::new(move || {
            let Some(source) = source.upgrade() else { return true };
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            let wal = captured.as_ref().and_then(|captured| captured.wal);
            let quiet = source.check_identity().and_then(|()| source.is_quiet(wal.as_ref()));
            let stands = captured.as_ref().map(|captured| standing(&mut source, captured));
            let cut = source.is_cut(wal.as_ref(), commit).unwrap_or(true);
            let named = source.unseen_writers(AT_A_GLANCE).is_some() == several;
            source.rest();
            drop(source);
            let as_it_was = quiet.unwrap_or(false) && matches!(stands, Some(Ok(Standing::AsItWas))) && !cut && named;
            let recorded = !unsaved.load(Ordering::Relaxed)
                && Record::is_there(&state_dir)
                && read_back.is_known()
                && untouched.lock().unwrap_or_else(PoisonError::into_inner).was_recorded();
            // A folder's file system may not answer, and this thread sweeps all databases. So another thread asks, and
            // reports.
            let seen = if vault.folder().is_some() {
                upkeep.ask_beside(&runtime);
                true
            } else {
                vault.check().is_ok() && upkeep.look_is_due().is_none()
            };
            let timely = clock.fault(newest).is_some() == faulty;
            look.is_some_and(|at| Instant::now() >= at) || !as_it_was || !recorded || !seen || !timely
        })
    }

    /// Whether a postponed attempt is due, although no change was noticed.
    pub(crate) fn look_is_due(&self) -> bool {
        self.next_look().is_some_and(|at| Instant::now() >= at)
    }

    fn next_look(&self) -> Option<Instant> {
        self.last_shipped.filter(|last| last.elapsed() < SILENT).map(|_| self.last_look + LOOK_ACTIVE)
    }

    /// Whether the captured place is unchanged. Damage in data that no capture needs any more is only reported.
    pub(crate) async fn is_as_it_was(&self) -> Result<bool, Error> {
        let Some(captured) = self.position.map(|position| position.captured()) else { return Ok(false) };
        let commit = self.position.map_or(0, |position| position.commit);
        let told = self.on_source(move |source| match standing(source, &captured)? {
            _ if source.is_cut(captured.wal.as_ref(), commit)? => Err(source.cut_short()),
            Standing::AsItWas => Ok((true, None)),
            Standing::Changed => Ok((false, None)),
            Standing::Damaged(offset) => Ok((true, Some(source.damaged(offset)))),
        });
        let (as_it_was, damaged) = told.await?;
        if let Some(damaged) = damaged {
            self.tell(Phase::Protecting, Some(&damaged)).await;
        }
        Ok(as_it_was)
    }
}
