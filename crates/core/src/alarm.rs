//! Alarms: what a person should know about the protection of a database, and do.

use serde::{Deserialize, Serialize};

use crate::Moment;

/// How soon a person should act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The database is protected, and something will end that, or makes a restore less certain.
    Warning,
    /// The database isn't protected as promised now.
    Critical,
}

impl Severity {
    /// The severity's name in configurations and documents; the same as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Something that a person should know, with the next thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Stable code, as in `docs/errors.md`: `alarm.lag`.
    pub code: String,
    /// How soon a person should act.
    pub severity: Severity,
    /// What happened, in one sentence without a full stop.
    pub cause: String,
    /// The next thing to do.
    pub next: String,
    /// Since when it is so, as far as that is known.
    pub since: Moment,
    /// Until when a person has silenced the database's alarms; `None` if nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced_until: Option<Moment>,
}
