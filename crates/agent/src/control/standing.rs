//! What a running process remembers of the alarms of its databases: since when each is active, what the machine said last, and how
//! lag and size went.
//!
//! A disk that hangs must not take every thread for blocking work. So a database's facts are read by at most one thread at a
//! time, and while that one waits the last ones count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Alarm, Clock as _, Failure, Moment, Phase, Status, SystemClock, Underway};
use seawall_engines::alarms::{Keeper, Local, Place, judged, keep_since, with_unread_proofs};

use super::trace::Trace;
use crate::config::{DatabaseConfig, SourceName};

/// How long a disk may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// What is remembered of each database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standings(Arc<Mutex<HashMap<SourceName, Standing>>>);

#[derive(Debug, Default)]
struct Standing {
    local: Local,
    reading: bool,
    alarms: Vec<Alarm>,
    /// The work that the status showed last, and since when it is so far.
    underway: Option<(Underway, Moment)>,
    trace: Arc<Trace>,
}

impl Standing {
    /// For how long the work that the status shows hasn't moved. It is asked for by whatever watches the process, now and then.
    fn unmoved(&mut self, phase: Phase, progress: Option<&Underway>, now: Moment) -> Duration {
        // A first backup may show nothing yet, because a program of the user's runs before it.
        let begun = Underway { stage: String::new(), done_bytes: 0, total_bytes: None };
        let Some(progress) = progress.or((phase == Phase::Base).then_some(&begun)) else {
            self.underway = None;
            return Duration::ZERO;
        };
        match &self.underway {
            Some((known, since)) if known == progress => now.since(*since),
            _ => {
                self.underway = Some((progress.clone(), now));
                Duration::ZERO
            }
        }
    }
}

impl Standings {
    /// The status of a database with its alarms. `proof_due` is when its next proof is or was due, and `unread` why the records of its
    /// proofs can't be read, and since when.
    pub(crate) async fn judge(
        &self,
        (config, place): (&DatabaseConfig, Place),
        (keeper, proof_due, unread): (Keeper, Option<Moment>, Option<(Moment, Failure)>),
        status: Status,
    ) -> Status {
        let source = config.source();
        self.read(&source, place).await;
        let mut all = self.lock();
        let standing = all.entry(source).or_default();
        let now = SystemClock.now();
        let local = Local {
            proof_due,
            unmoved: standing.unmoved(status.phase, status.progress.as_ref(), now),
            ..standing.local
        };
        let mut status = judged(status, keeper, config.judged(), local, now);
        if let Some((since, failure)) = unread {
            status = with_unread_proofs(status, &failure, config.judged().limits, since);
        }
        keep_since(&standing.alarms, &mut status.alarms);
        standing.alarms.clone_from(&status.alarms);
        Arc::make_mut(&mut standing.trace).note(&status);
        status
    }

    /// How lag and size of a database went.
    pub(crate) fn trace(&self, source: &SourceName) -> Arc<Trace> {
        self.lock().get(source).map(|standing| Arc::clone(&standing.trace)).unwrap_or_default()
    }

    /// Notes a silence that was written.
    pub(crate) fn silenced(&self, source: SourceName, until: Option<Moment>) {
        self.lock().entry(source).or_default().local.silenced_until = until;
    }

    /// Forgets the databases that the process doesn't have any more.
    pub(crate) fn keep(&self, is_there: impl Fn(&SourceName) -> bool) {
        self.lock().retain(|source, _| is_there(source));
    }

    /// Reads what the machine knows, unless a thread still does.
    async fn read(&self, source: &SourceName, place: Place) {
        if place == Place::default() {
            return;
        }
        {
            let mut all = self.lock();
            let standing = all.entry(source.clone()).or_default();
            if standing.reading {
                return;
            }
            standing.reading = true;
        }
        let (own, source) = (self.clone(), source.clone());
        let read = tokio::task::spawn_blocking(move || {
            let local = place.read(SystemClock.now());
            if let Some(standing) = own.lock().get_mut(&source) {
                (standing.local, standing.reading) = (local, false);
            }
        });
        let _late_or_done = tokio::time::timeout(ANSWER, read).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SourceName, Standing>> {
        // Whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_does_not_move_is_noticed() {
        let at = |seconds: i64| Moment::from_millis(seconds * 1000);
        let underway = |done_bytes| Underway { stage: "rows".into(), done_bytes, total_bytes: None };
        let mut standing = Standing::default();
        for (progress, now, expected) in [
            (Some(1), 10, 0),
            (Some(1), 70, 60),
            (Some(2), 80, 0),
            (Some(2), 90, 10),
            (None, 100, 0),
            (Some(2), 110, 0),
            (Some(2), 111, 1),
        ] {
            let unmoved = standing.unmoved(Phase::Protecting, progress.map(underway).as_ref(), at(now));
            assert_eq!(unmoved, Duration::from_secs(expected), "{progress:?} {now}");
        }
        for (progress, now, expected) in [(None, 200, 0), (None, 230, 30), (Some(1), 240, 0), (None, 250, 0)] {
            let unmoved = standing.unmoved(Phase::Base, progress.map(underway).as_ref(), at(now));
            assert_eq!(unmoved, Duration::from_secs(expected), "{progress:?} {now}");
        }
    }
}
