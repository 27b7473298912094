//! The long-running process: configuration, scheduling, signals, the program it may run, its log, and what it offers.
//!
//! It knows engines through [`seawall_core::Engine`] alone; [`config`] turns files into databases to protect,
//! [`protect()`] protects them. The databases of a process are its `fleet`, which `folders` and the `control` socket
//! change; `metrics`, `mcp` and `heartbeat` tell of it. The binary reads the environment and the arguments and hands them in.

mod child;
pub mod config;
mod control;
mod fleet;
mod folders;
mod heartbeat;
mod http;
mod in_step;
mod late;
mod lease;
mod logging;
mod mcp;
mod metrics;
mod open;
mod process;
mod protect;
mod reload;
mod resources;
mod services;
mod signals;
#[cfg(test)]
mod testing;
mod token;

pub use child::ExecCommand;
pub use control::{Control, Info, Listed, Registered, Stopped, Synced};
pub use in_step::{HealthRules, InStep, InStepReload, Patience, ReadInStep, keep_in_step};
pub use logging::{Level, LogFormat, Times, start as start_logging};
pub use process::{Also, Outcome};
pub use protect::{Job, Summary, protect};
pub use reload::{ConfigStatus, NotReloaded, Read, Reload, Reloaded};
pub use seawall_engines::server::{BackupRequest, ServerUrl, acknowledge, prover};
pub use seawall_engines::sqlite::{LtxObject, Upkeep, default_state_dir, digest_of_object, is_protected};
pub use seawall_engines::{Keep, Opener, ask, read_state_dir, read_status, read_when};
pub use seawall_vault::{Environment, VaultUrl};
pub use signals::{Signals, Stop};
