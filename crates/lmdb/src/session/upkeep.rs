//! Periodic work of a session: sweeping deletions, deleting old snapshots, recording that the environment is in step.

use std::time::Duration;

use tokio::time::Instant;

use super::{Sweep, SyncOptions};
use crate::peers::retention::Retention;

/// The due times of the periodic work.
pub(super) struct DueTimes {
    /// When a snapshot was sent last, or the session began.
    pub(super) sent: Instant,
    pub(super) noted: Due,
    pub(super) sweep: Option<(Sweep, Due)>,
    pub(super) clean: Option<(Retention, Due)>,
}

impl DueTimes {
    pub(super) fn new(options: &SyncOptions) -> Self {
        let begun = Instant::now();
        let due = |first: Duration, every: Duration| Due { at: begun + first, every };
        Self {
            sent: begun,
            noted: due(Duration::ZERO, Duration::from_secs(600)),
            sweep: options.sweep.map(|sweep| (sweep, due(sweep.first, sweep.interval))),
            clean: options.clean.map(|rules| (rules, due(rules.interval, rules.interval))),
        }
    }
}

/// When the next work is due.
pub(super) struct Due {
    pub(super) at: Instant,
    pub(super) every: Duration,
}

impl Due {
    /// Whether the work is due; then the next time is set. `spread` is a number that differs between instances.
    pub(super) fn now(&mut self, spread: u64) -> bool {
        if Instant::now() < self.at {
            return false;
        }
        // A fifth more or less, so that instances don't do the work at the same time.
        let part = u32::try_from(800 + spread % 401).unwrap_or(1000);
        self.at = Instant::now() + self.every * part / 1000;
        true
    }
}
