//! The kinds of engines, one file each. The file reads the engine's section of a configuration, opens the engine with and
//! without its database, and knows the names of its objects, the form of its points and its recorded status. Only this
//! crate names all engines.
//!
//! `database` is a database of a configuration with the settings of its one kind. `open` opens databases and vaults.
//! `ask` refuses an ability that an engine doesn't have. `alarms` decides what a person should know, and `trouble` tells the meaning of an error in a status. `recognise`
//! finds out what a vault holds. `when` reads `--at`. `keep` is retention on a command line. `server` finds the engine that
//! the URL of a server belongs to. `several` opens the vaults of a database that has more than one, and `choosing` finds the one to restore from. `clusters` reads and opens clusters that are protected continuously. `sets` opens vaults of backup sets, which all engines of servers share. `encryption` is how vaults are encrypted. `copy` copies a vault to another place. `catalog` finds every database below a prefix. `proofs` makes proofs and keeps their records in the vault. `cost` computes what a day of protection costs. `outside` restores and reads the files that other backup programs left. `hooks` runs the user's programs around an operation. `bench` measures backups and stores. `restoring` restores for a running process. `upkeep` reads the settings of levels and retention in both formats.

pub mod alarms;
pub mod ask;
mod backups;
pub mod bench;
pub mod catalog;
mod choosing;
mod clusters;
mod copy;
pub mod cost;
mod database;
mod encryption;
pub mod fuzzing;
mod hooks;
mod keep;
pub mod lmdb;
mod mysql;
mod open;
pub mod outside;
mod postgres;
pub mod proofs;
mod recognise;
mod restoring;
pub mod server;
mod sets;
mod several;
pub mod sqlite;
pub mod trouble;
pub mod upkeep;
mod when;

pub use backups::{ServerConfig, ServerSource, this_machine};
pub use choosing::Choice;
pub use copy::{Copied, CopiedDatabase, CopyRequest, Count, Part, Protected};
pub use database::{DatabaseConfig, EngineConfig, Said, SourceName, Subject, Threads};
pub use encryption::{Encryption, place_of_folder, state_folder};
pub use hooks::{About, Hooks, Operation};
pub use keep::Keep;
pub use open::{Opener, read_state_dir, read_status, suits_encryption};
pub use recognise::is_there;
pub use seawall_postgres::physical::examine::{Examined, examine};
pub use seawall_postgres::physical::receive as wal;
pub use seawall_postgres::physical::{base, extract, recover};
pub use seawall_sqlite::{files_needed, room_with};
pub use several::BesideConfig;
pub use when::read_when;
