//! Retention on a command line, which overrides the configuration's.

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::RetentionPolicy;
use seawall_sqlite::Upkeep;

/// Retention; `None` leaves a setting to the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// How much history; `Some(None)` is all of it.
    pub window: Option<Option<Duration>>,
    /// At least this many complete copies.
    pub minimum: Option<u32>,
}

impl Keep {
    pub(crate) fn upkeep(&self, upkeep: &Arc<Upkeep>) -> Arc<Upkeep> {
        let mut upkeep = Upkeep::clone(upkeep);
        upkeep.retention.window = self.window.unwrap_or(upkeep.retention.window);
        upkeep.retention.minimum = self.minimum.unwrap_or(upkeep.retention.minimum);
        Arc::new(upkeep)
    }

    pub(crate) fn policy(&self, policy: &RetentionPolicy) -> RetentionPolicy {
        let mut policy = policy.clone();
        policy.window = self.window.unwrap_or(policy.window);
        policy.thinning.minimum = self.minimum.unwrap_or(policy.thinning.minimum);
        policy
    }
}
