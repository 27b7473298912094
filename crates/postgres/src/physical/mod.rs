//! A whole cluster as files, and its log.
//!
//! A base is a copy of the data directory. Together with the log it restores every moment after its end. The parts meet
//! only in the vault: `base` knows nothing of the log, `receive` takes the log into a vault and gives it back, and
//! `recover` asks the log only how far it goes. `docs/formats.md` specifies the objects.

pub mod base;
pub mod history;
pub mod receive;
mod records;
pub mod recover;
