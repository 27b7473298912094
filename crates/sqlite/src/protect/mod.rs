//! Runs and sessions of a protection: find the last capture and the new commits, and bring them into the vault.

pub(crate) mod admission;
mod asked;
pub(crate) mod capture;
mod changes;
pub(crate) mod content;
pub(crate) mod database;
pub(crate) mod pages;
pub(crate) mod proof;
pub(crate) mod run;
pub(crate) mod seal;
pub(crate) mod sealed;
pub(crate) mod session;
pub(crate) mod ship;
pub(crate) mod spool;
mod status;
