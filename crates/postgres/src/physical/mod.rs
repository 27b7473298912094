//! A whole cluster as files, and its log.
//!
//! A base is a copy of the data directory. Together with the log it restores every moment after its end. The parts meet
//! only in the vault: `base` knows nothing of the log, `receive` takes the log into a vault and gives it back, and
//! `recover` asks the log only how far it goes. `history` looks at both, `retention` decides what of them may go and `maintain`
//! carries it out, unless `clock` says that the clock jumped. `examine` looks whether a server allows it, and `slots` for slots that
//! were left behind on it. `aside` recovers it in a
//! server that is thrown away: to check what a vault keeps (`prove`), or to take a database out of it (`extract`). `kept` is a vault
//! as an engine, and `continuous` a cluster that is protected all the time: `judge` decides what its status is, and `plan` when
//! what is done. `docs/formats.md` specifies the objects.

mod aside;
pub mod base;
mod clock;
pub mod continuous;
pub mod examine;
pub mod extract;
pub(crate) mod fuzzing;
pub mod history;
mod judge;
pub mod kept;
mod maintain;
mod plan;
pub mod prove;
pub mod receive;
mod records;
pub mod recover;
mod retention;
mod slots;
