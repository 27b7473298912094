//! The kinds of engines, a file for each: its section of a configuration, opening it with and without its database,
//! the names of its objects, the form of its points, its recorded status. The only crate that names all of them.
//!
//! `database` is a database of a configuration with the settings of its one kind, `open` opens databases and vaults,
//! `ask` refuses what an engine can't do, `recognise` says what a vault holds, `when` reads `--at`, `keep` what a command line says over the settings of
//! retention, `server` which engine the URL of a server belongs to. `upkeep` reads the settings of levels and retention in both formats.

pub mod ask;
mod database;
mod keep;
pub mod lmdb;
mod open;
pub mod postgres;
mod recognise;
pub mod server;
pub mod sqlite;
pub mod upkeep;
mod when;

pub use database::{DatabaseConfig, EngineConfig, Said, SourceName, Subject, Threads};
pub use keep::Keep;
pub use open::{Opener, read_state_dir, read_status};
pub use when::read_when;
