//! What a running process remembers of the alarms of its databases: since when each is active, what the machine said last, and how
//! lag and size went.
//!
//! A disk that hangs must not take every thread for blocking work. So a database's facts are read by at most one thread at a
//! time, and while that one waits the last ones count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Alarm, Clock as _, Moment, Status, SystemClock};
use seawall_engines::alarms::{Keeper, Local, Place, judged, keep_since};

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
    trace: Arc<Trace>,
}

impl Standings {
    /// The status of a database with its alarms. `proof_due` is when its next proof is or was due.
    pub(crate) async fn judge(
        &self,
        (config, place): (&DatabaseConfig, Place),
        (keeper, proof_due): (Keeper, Option<Moment>),
        status: Status,
    ) -> Status {
        let source = config.source();
        self.read(&source, place).await;
        let mut all = self.lock();
        let standing = all.entry(source).or_default();
        let local = Local { proof_due, ..standing.local };
        let mut status = judged(status, keeper, config.judged(), local, SystemClock.now());
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
