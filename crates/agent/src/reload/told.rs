//! What a reload did, and what the status says of the configuration (docs/json.md).

use seawall_core::{Failure, LastError, Moment};
use serde::{Deserialize, Serialize};

use crate::control::WireFailure;

/// The configuration of a running process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigStatus {
    /// The file.
    pub file: String,
    /// When what is in force was read.
    pub loaded_at: Moment,
    /// Settings of the file that hold only after a restart.
    #[serde(default)]
    pub needs_restart: Vec<String>,
    /// Why the last reload changed nothing.
    #[serde(default)]
    pub error: Option<LastError>,
}

/// What a reload did. Databases are told by their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// `reloaded`, or `unchanged` if nothing had to be done.
    pub status: String,
    /// The file.
    pub file: String,
    /// When it was read.
    pub loaded_at: Moment,
    /// Databases that came.
    pub added: Vec<String>,
    /// Databases that were stopped and started with other settings.
    pub changed: Vec<String>,
    /// Databases that were stopped and let go.
    pub removed: Vec<String>,
    /// How many databases were not touched.
    pub same: usize,
    /// Settings of the process that changed, and hold now.
    pub settings: Vec<String>,
    /// Settings of the process that hold only after a restart.
    pub needs_restart: Vec<String>,
    /// What of all this failed, and fails alone.
    pub failed: Vec<NotReloaded>,
    /// What about the file deserves a look.
    pub warnings: Vec<String>,
}

/// A database or a setting for which a reload failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotReloaded {
    /// The database, or the key of the setting.
    pub name: String,
    error: WireFailure,
}

impl NotReloaded {
    pub(crate) fn new(name: String, failure: Failure) -> Self {
        Self { name, error: failure.into() }
    }

    /// Why.
    pub fn failure(&self) -> Failure {
        self.error.clone().arrived()
    }
}

impl Reloaded {
    /// Whether everything that the configuration asks for holds now.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.needs_restart.is_empty()
    }

    pub(crate) fn log(&self) {
        let Self { file, added, changed, removed, same, settings, needs_restart, failed, warnings, .. } = self;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        for one in failed {
            let failure = one.failure();
            tracing::error!(
                name = one.name,
                code = failure.code,
                next = failure.next,
                "not as the new configuration says: {failure}"
            );
        }
        let (added, changed, removed) = (added.len(), changed.len(), removed.len());
        tracing::info!(file, added, changed, removed, same, ?settings, "the configuration was reloaded");
        if !needs_restart.is_empty() {
            tracing::warn!(settings = ?needs_restart, "these settings hold only after a restart");
        }
    }
}
