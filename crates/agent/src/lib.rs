//! The long-running process: configuration, scheduling, signals, the program it may run, and its log.
//!
//! It knows engines through [`seawall_core::Engine`] alone; [`config`] turns files into databases to protect,
//! [`protect()`] protects them. The binary reads the environment and the arguments and hands them in.

mod child;
pub mod config;
mod late;
mod logging;
mod open;
mod process;
mod protect;
mod signals;
#[cfg(test)]
mod testing;

pub use child::ExecCommand;
pub use logging::{Level, LogFormat, start as start_logging};
pub use open::{Opener, read_state_dir, read_status};
pub use process::Outcome;
pub use protect::{Job, Member, Summary, protect};
pub use seawall_sqlite::Upkeep;
pub use seawall_vault::{Environment, VaultUrl};
pub use signals::{Signals, Stop};
