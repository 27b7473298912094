//! The status in memory: how far a protection came, what it does, and what is wrong.

use seawall_core::{Failure, LastError, Moment, Phase, Steady};

use crate::identity::Lineage;
use crate::state::Position;

#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) known: Known,
    pub(crate) error: Option<LastError>,
    /// What went wrong in the vault's upkeep, as it was told.
    pub(crate) upkeep: Option<LastError>,
    /// What is wrong with the clock, as it was told.
    pub(crate) clock: Option<LastError>,
    /// When a capture began last.
    pub(crate) began: Option<Steady>,
    /// What was told last, with the sizes of the database and its WAL then.
    pub(crate) phase: Option<Phase>,
    pub(crate) sizes: (Option<u64>, Option<u64>),
}

impl Told {
    /// What is told of all that is wrong.
    pub(crate) fn worst(&self) -> Option<LastError> {
        self.error.clone().or_else(|| self.upkeep.clone()).or_else(|| self.clock.clone())
    }
}

/// What is told about the protection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    pub(crate) position: Option<Position>,
    pub(crate) lineage: Option<Lineage>,
    /// When it was captured, by the steady clock.
    pub(crate) captured: Option<Steady>,
}

/// A failure counted with the last one, if that was of the same kind.
pub(crate) fn once_more(last: Option<&LastError>, failure: &Failure, at: Moment) -> LastError {
    LastError { message: failure.to_string(), ..LastError::again(last, failure, at) }
}
