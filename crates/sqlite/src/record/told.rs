//! The status in memory: the position of a protection, its phase, and its errors.

use seawall_core::{Failure, Hole, LastError, Moment, Phase, Steady};

use crate::identity::Lineage;
use crate::state::Position;

#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) known: Known,
    pub(crate) error: Option<LastError>,
    /// The reported error of the vault's upkeep.
    pub(crate) upkeep: Option<LastError>,
    /// The reported error of the clock.
    pub(crate) clock: Option<LastError>,
    /// When the last capture began.
    pub(crate) began: Option<Steady>,
    /// The phase that was reported last, with the sizes of the database and its WAL then.
    pub(crate) phase: Option<Phase>,
    /// The newest hole that this protection, or an earlier one on this machine, left in the history.
    /// In a box, because most databases have none.
    pub(crate) hole: Option<Box<Hole>>,
    pub(crate) sizes: (Option<u64>, Option<u64>),
    /// Whether the state record of an earlier process was read. Until then a new one would replace what that one knows.
    pub(crate) remembers: bool,
}

impl Told {
    /// The error to report, if there are several.
    pub(crate) fn worst(&self) -> Option<LastError> {
        self.error.clone().or_else(|| self.upkeep.clone()).or_else(|| self.clock.clone())
    }
}

/// The reported position of the protection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    pub(crate) position: Option<Position>,
    pub(crate) lineage: Option<Lineage>,
    /// When the position was captured, by the steady clock.
    pub(crate) captured: Option<Steady>,
}

/// A failure counted with the last one, if that was of the same kind.
pub(crate) fn once_more(last: Option<&LastError>, failure: &Failure, at: Moment) -> LastError {
    LastError { message: failure.to_string(), ..LastError::again(last, failure, at) }
}
