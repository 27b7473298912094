//! What is told of a protection: it keeps the status in memory (`told`) and writes the state record.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use seawall_core::{Phase, Status};

use crate::database::Database;
use crate::error::Error;
use crate::identity::Lineage;
use crate::ship::blocking;
use crate::state::{Facts, Position, Record, StoredClock, sizes};
use crate::told::{Known, Told, once_more};

impl Database {
    /// Everything up to `position` is durable: what went wrong before is over, unless it is `still` so.
    pub(crate) fn arrived(&self, position: Position, lineage: Lineage, still: bool) {
        self.clock.arrived(position.txid, position.moment);
        let mut told = self.told();
        told.known = Known { position: Some(position), lineage: Some(lineage), captured: told.began };
        told.error = told.error.take().filter(|_| still);
    }

    /// Notes what the protection does, for `status`, and writes the state record.
    pub(crate) async fn tell(&self, phase: Phase, error: Option<&Error>, lineage: Lineage) {
        if let Some(error) = error {
            self.note(error);
        }
        let Ok((source, state_dir)) = self.place() else { return };
        let upkeep = self.maintenance.failure();
        let newest = self.told().known.position.map(|position| position.moment);
        let clock = self.clock.fault(newest).map(|what| Error::Clock { database: self.name(), what });
        let belief = self.clock.belief();
        let record = {
            let at = self.now();
            let mut told = self.told();
            told.phase = Some(phase);
            told.upkeep = upkeep;
            told.clock = clock.map(|error| once_more(told.clock.as_ref(), &error.failure(), at));
            Record::new(Facts {
                name: &self.name(),
                source: &source,
                vault: self.vault.url(),
                lineage: told.known.lineage.unwrap_or(lineage),
                phase,
                error: told.worst(),
                at,
                position: told.known.position,
                clock: belief.map(|belief| StoredClock { belief, captured: told.known.captured }),
            })
        };
        let (locks, probe, read_back) = (self.locks.clone(), self.probe(), self.read_back.clone());
        let save = move || {
            read_back.refresh();
            record.save(&state_dir, &probe)?;
            // The state directory may have been deleted under us, and the lock in it.
            match &mut *locks.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(locks) => locks.renew(&state_dir),
                None => Ok(()),
            }
        };
        let done = blocking(move || Ok((sizes(&source), save()))).await;
        let saved = done.and_then(|(sizes, saved)| {
            self.told().sizes = sizes;
            saved
        });
        self.unsaved.store(saved.is_err(), Ordering::Relaxed);
        if let Err(error) = saved {
            tracing::warn!(database = %self.name(), %error, "the state record could not be written");
        }
    }

    fn note(&self, error: &Error) {
        let failure = error.failure();
        let at = self.now();
        let mut told = self.told();
        let error = once_more(told.error.as_ref(), &failure, at);
        if error.count == 1 {
            tracing::error!(database = %self.name(), code = failure.code, next = %failure.next, "{failure}");
        }
        told.error = Some(error);
    }

    /// Whether the upkeep has failed, or goes well again, since the record was written.
    pub(crate) fn upkeep_has_news(&self) -> bool {
        self.maintenance.failure() != self.told().upkeep
    }

    /// Whether something is wrong with the clock that isn't told, or is told and over.
    pub(crate) fn clock_has_news(&self) -> bool {
        let newest = self.told().known.position.map(|position| position.moment);
        self.clock.fault(newest).is_some() != self.clock_fault_is_told()
    }

    pub(crate) fn clock_fault_is_told(&self) -> bool {
        self.told().clock.is_some()
    }

    /// The status that was told last, from memory: for when the record can't be read.
    pub(crate) fn told_status(&self) -> Option<Status> {
        let (told, source) = (self.told(), self.options.path.as_ref()?);
        Some(self.status_of(&told, told.phase?, source))
    }

    /// The status of a protection that has nothing pending, from memory alone; `None` where it must be looked at.
    pub(crate) fn resting(&self) -> Option<Status> {
        if !self.figures().idle || self.locks.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return None;
        }
        let told = self.told();
        let phase = told.phase.filter(|phase| *phase == Phase::Protecting)?;
        told.known.position?;
        Some(self.status_of(&told, phase, &self.place().ok()?.0))
    }

    /// The status that memory gives a protection in this phase.
    fn status_of(&self, told: &Told, phase: Phase, source: &Path) -> Status {
        Status {
            name: self.name(),
            engine: "sqlite".to_owned(),
            source: source.display().to_string(),
            vault: self.vault.url().to_owned(),
            phase,
            protected: told.known.position.map(|position| position.point()),
            lag_bytes: 0,
            lag_ms: 0,
            source_bytes: told.sizes.0,
            log_bytes: told.sizes.1,
            content_read_at: self.read_back.at(),
            progress: None,
            error: told.worst(),
            at: self.now(),
        }
    }

    /// Takes up what an earlier run knew, so that the status is right before the first success.
    pub(super) fn remember(&self, record: Option<Record>) {
        let clock = record.as_ref().and_then(Record::clock);
        let remembered = record.and_then(|record| record.remembered(self.vault.url()));
        self.clock.begin(clock.map(|clock| clock.belief), remembered.as_ref().map(|(facts, _)| facts.txid));
        let mut told = self.told();
        let known = told.known.position.map(|position| position.txid);
        if let Some((facts, position)) = remembered
            && known.is_none_or(|known| known < position.txid)
        {
            let captured = clock.and_then(|clock| clock.captured);
            told.known = Known { position: Some(position), lineage: Some(facts.lineage), captured };
        }
    }

    /// The error that an absence of the database is, where it was protected before.
    pub(super) fn of_the_lost(&self, error: Error) -> Error {
        let known = self.told().known.position.is_some();
        match error {
            // A database never becomes an empty file by itself.
            Error::Empty { path } if known => Error::Cut { path },
            error => error,
        }
    }
}
