//! The long-running process: configuration, scheduling, signals, the program it may run, and its log.
//!
//! It knows engines through [`seawall_core::Engine`] alone; [`config`] turns files into databases to protect,
//! [`run`] and [`take_points`] protect them. The binary reads the environment and the arguments and hands them in.

mod child;
pub mod config;
mod logging;
mod process;
mod signals;
#[cfg(test)]
mod testing;

pub use child::{ExecCommand, run as run_child, settled};
pub use logging::{Level, LogFormat, start as start_logging};
pub use process::{Outcome, run, take_points};
pub use signals::{Signals, Stop};
