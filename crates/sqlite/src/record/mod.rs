//! Local files of a protection: the state record, the locks, and what is believed of the clock.

pub(crate) mod clock;
pub(crate) mod lock;
pub(crate) mod moments;
pub(crate) mod read_back;
pub(crate) mod restored;
pub(crate) mod state;
pub(crate) mod told;
