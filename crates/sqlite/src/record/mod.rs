//! What is kept on this machine: the state record, locks, the belief in the clock.

pub(crate) mod clock;
pub(crate) mod lock;
pub(crate) mod moments;
pub(crate) mod read_back;
pub(crate) mod state;
pub(crate) mod told;
