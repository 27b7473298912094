//! Reports on a protection: keeps the status in memory (`told`) and writes the state record.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Description, Hole, Phase, Status};

use crate::database::Database;
use crate::error::Error;
use crate::identity::Lineage;
use crate::jobs::blocking;
use crate::state::{Facts, Position, Record, StoredClock, sizes};
use crate::told::{Known, Told, once_more};
use crate::untouched::Untouched;

/// A status has room for one hole, and its alarm lasts a day. Another hole of that day must not be forgotten for it.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// The newest hole, which says so if it isn't the only one of its day.
fn beside(earlier: Option<&Hole>, hole: Hole) -> Hole {
    // A base that was cut off is repeated, and ends the same hole.
    let is_another = |earlier: &Hole| earlier.from != hole.from && hole.to.moment.since(earlier.to.moment) < A_DAY;
    match earlier.is_some_and(is_another) {
        // It is told as long as the other one, of which no restore may be the reason.
        true => Hole {
            reason: format!("{}; it isn't the only hole of this day", hole.reason),
            restored: hole.restored && earlier.is_none_or(|earlier| earlier.restored),
            ..hole
        },
        false => hole,
    }
}

impl Database {
    /// Everything up to `position` is durable. An earlier failure is over, unless `still` says otherwise.
    pub(crate) fn arrived(&self, position: Position, lineage: Lineage, still: bool) {
        self.clock.arrived(position.txid, position.moment);
        let mut told = self.told();
        told.known = Known { position: Some(position), lineage: Some(lineage), captured: told.began };
        told.error = told.error.take().filter(|_| still);
    }

    /// Notes what was learned of a position that arrived before.
    pub(crate) fn rests(&self, position: Position) {
        self.told().known.position = Some(position);
    }

    /// Notes a hole that a base ends.
    pub(crate) fn left_a_hole(&self, hole: Hole) {
        let mut told = self.told();
        let hole = beside(told.hole.as_deref(), hole);
        told.hole = Some(Box::new(hole));
    }

    /// Notes the present phase and an error for `status`, in memory alone if the state record of an earlier process wasn't read
    /// yet: that record must not be replaced.
    pub(super) async fn tell_what_is_known(&self, phase: Phase, error: &Error) {
        if self.told().remembers {
            return self.tell(phase, Some(error), Lineage::new(1)).await;
        }
        self.note(error);
        self.told().phase = Some(phase);
    }

    /// Notes the present phase for `status`, and writes the state record.
    pub(crate) async fn tell(&self, phase: Phase, error: Option<&Error>, lineage: Lineage) {
        if let Some(error) = error {
            self.note(error);
        }
        let Ok((source, state_dir)) = self.place() else { return };
        let upkeep = self.maintenance.failure();
        let newest = self.told().known.position.map(|position| position.moment);
        let clock = self.clock.fault(newest).map(|what| Error::Clock { database: self.name(), what });
        let belief = self.clock.belief();
        let file = self.untouched().noted();
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
                file: Some(file),
                limits: self.vault.limits(),
                hole: told.hole.as_deref().cloned(),
                credentials_end: self.vault.credentials_end(),
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
        if saved.is_ok() {
            self.untouched().is_recorded(file);
        }
        if let Err(error) = saved {
            tracing::warn!(database = %self.name(), %error, "the state record could not be written");
        }
    }

    /// What is known of the database file's metadata.
    fn untouched(&self) -> MutexGuard<'_, Untouched> {
        // Whole between any two statements.
        self.heir.untouched().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the state record holds what is known of the database file's metadata.
    pub(crate) fn file_is_recorded(&self) -> bool {
        self.untouched().was_recorded()
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

    /// Whether the upkeep has failed or recovered since the record was written.
    pub(crate) fn upkeep_has_news(&self) -> bool {
        self.maintenance.failure() != self.told().upkeep
    }

    /// Whether a fault of the clock began or ended that wasn't reported yet.
    pub(crate) fn clock_has_news(&self) -> bool {
        let newest = self.told().known.position.map(|position| position.moment);
        self.clock.fault(newest).is_some() != self.clock_fault_is_told()
    }

    pub(crate) fn clock_fault_is_told(&self) -> bool {
        self.told().clock.is_some()
    }

    /// The last reported status, from memory, for when the record can't be read.
    pub(crate) fn told_status(&self) -> Option<Status> {
        let (told, source) = (self.told(), self.options.path.as_ref()?);
        Some(self.status_of(&told, told.phase?, source))
    }

    /// The status of a protection with nothing pending, from memory alone; `None` if the database must be looked at.
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
        let database = Description {
            name: self.name(),
            engine: "sqlite",
            source: Some(source.display().to_string()),
            vault: self.vault.url().to_owned(),
        };
        Status {
            limits: self.vault.limits(),
            protected: told.known.position.map(|position| position.point()),
            source_bytes: told.sizes.0,
            log_bytes: told.sizes.1,
            content_read_at: self.read_back.at(),
            vault_seen_at: self.maintenance.seen_at(),
            hole: told.hole.as_deref().cloned(),
            credentials_end: self.vault.credentials_end(),
            progress: self.gauge.now(),
            error: told.worst(),
            upkeep: told.upkeep.clone(),
            ..Status::new(database, phase, self.now())
        }
    }

    /// Takes over the knowledge of an earlier run, so that the status is right before the first success.
    pub(super) fn remember(&self, record: Option<Record>) {
        let clock = record.as_ref().and_then(Record::clock);
        self.untouched().remember(record.as_ref().and_then(|record| record.file(self.vault.url())));
        let hole = record.as_ref().and_then(|record| record.hole(self.vault.url()));
        let remembered = record.and_then(|record| record.remembered(self.vault.url()));
        self.clock.begin(clock.map(|clock| clock.belief), remembered.as_ref().map(|(facts, _)| facts.txid));
        let mut told = self.told();
        told.remembers = true;
        told.hole = told.hole.take().or(hole.map(Box::new));
        let known = told.known.position.map(|position| position.txid);
        if let Some((facts, position)) = remembered
            && known.is_none_or(|known| known < position.txid)
        {
            let captured = clock.and_then(|clock| clock.captured);
            told.known = Known { position: Some(position), lineage: Some(facts.lineage), captured };
        }
    }

    /// The error to report for a missing or empty database file: more serious if the database was protected before.
    pub(super) fn of_the_lost(&self, error: Error) -> Error {
        let known = self.told().known.position.is_some();
        match error {
            // No database becomes an empty file by normal use.
            Error::Empty { path } if known => Error::Cut { path },
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::{Moment, Point};

    use super::*;

    #[test]
    fn a_hole_does_not_hide_another_one_of_its_day() {
        let point = |txid: i64, hour: i64| Point {
            position: format!("{txid:016x}"),
            moment: Moment::from_millis(hour * 3_600_000),
        };
        let hole = |from: i64, to: (i64, i64)| Hole {
            from: Some(point(from, 1)),
            to: point(to.0, to.1),
            reason: "the WAL was replaced".to_owned(),
            restored: false,
        };
        for (earlier, newest, told) in [
            (None, hole(3, (4, 30)), false),
            (Some(hole(2, (3, 29))), hole(3, (4, 30)), true),
            (Some(hole(2, (3, 5))), hole(3, (4, 30)), false),
            (Some(hole(3, (4, 29))), hole(3, (4, 30)), false),
        ] {
            let found = beside(earlier.as_ref(), newest.clone());
            assert_eq!(found.reason.contains("isn't the only hole"), told, "{earlier:?}");
            assert_eq!((found.from, found.to), (newest.from, newest.to));
        }
    }
}
