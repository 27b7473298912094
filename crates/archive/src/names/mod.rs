//! The names of databases that a restore or a proof makes on a server, and how they are known again.

mod proof;
pub mod unfinished;

pub use proof::ProofName;
