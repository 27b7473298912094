//! The long-running process: configuration, scheduling, signals, the program it may run, its log, and what it offers.
//!
//! It knows engines through [`seawall_core::Engine`] alone. The binary reads the environment and the arguments, and hands
//! them in. The rooms:
//!
//! - [`config`]: files become databases to protect;
//! - `process`: one run of the whole process, with signals, the program that it may run, and its log;
//! - `opening`: engines whose vault is away are opened again;
//! - [`figures`]: numbers and spans as people read them;
//! - `fleet`: the databases of a process; `folders` and the `control` socket change it, and `lease` gives them turns;
//! - `proving`: databases are proved by their schedules;
//! - `reload`: the configuration is read again;
//! - [`restoring`]: the command that restores a database beside the original;
//! - `services`: metrics, MCP, heartbeats and notifications tell of the fleet; `http` serves them;
//! - `web`: the page, of a process or of a prefix in a store;
//! - `in_step`: Lightning Stream's commands.

pub mod config;
mod control;
pub mod figures;
mod fleet;
mod folders;
mod http;
mod in_step;
mod lease;
mod opening;
mod process;
mod proving;
mod reload;
pub mod restoring;
mod services;
#[cfg(test)]
mod testing;
mod web;

pub use control::{Control, Info, Listed, Registered, Silenced, Stopped, Synced};
pub use folders::absent::FOLDER;
pub use folders::databases_in;
pub use in_step::{HealthRules, InStep, InStepReload, Patience, ReadInStep, keep_in_step};
pub use process::child::ExecCommand;
pub use process::logging::{Level, LogFormat, Times, start as start_logging};
pub use process::protect::{Job, Summary, protect};
pub use process::signals::{Signals, Stop};
pub use process::{Also, Outcome};
pub use reload::{ConfigStatus, NotReloaded, Read, Reload, Reloaded};
pub use seawall_engines::bench;
pub use seawall_engines::catalog;
pub use seawall_engines::lmdb::{Orphans, Why};
pub use seawall_engines::outside;
pub use seawall_engines::proofs::{
    KnownProofs, MOST_MOMENTS, ProofOrder, Proofs, Recorded, SCRATCH, TOO_LONG, beyond, first_fault, sets, standing,
};
pub use seawall_engines::recover::HandedOver;
pub use seawall_engines::server::{BackupRequest, ServerUrl, acknowledge, prover};
pub use seawall_engines::sqlite::{
    LtxObject, Unusable, Upkeep, default_state_dir, digest_of_object, is_protected, unusable,
};
pub use seawall_engines::this_machine;
pub use seawall_engines::wal;
pub use seawall_engines::{
    Choice, Copied, CopiedDatabase, CopyRequest, Count, Encryption, Keep, Opener, Operation, Part, Protected, alarms,
    ask, cost, files_needed, is_there, place_of_folder, read_state_dir, read_status, read_when, state_folder,
    suits_encryption,
};
pub use seawall_engines::{Examined, base, examine, extract, recover};
pub use seawall_vault::{Environment, VaultUrl};
pub use web::catalogue::PrefixPage;
