//! SQLite: a live database kept in a vault, continuously, and restored from it.
//!
//! [`Sqlite`] implements [`seawall_core::Engine`]. It notices commits ([`Watcher`]), reads them from the write-ahead log,
//! ships them as LTX files, and empties the log itself without losing a commit. Replicas have Litestream's layout and
//! either program reads, and continues, what the other wrote.
//!
//! Decisions are pure and have table tests; what is written to disk and bucket is in `docs/formats.md`. The rooms:
//!
//! - `live`: the database file and its WAL, as they are now
//! - `protect`: runs and sessions of a protection: what is new, and how it gets into the vault
//! - `history`: what a vault holds, and what of it belongs together
//! - `upkeep`: merging, deleting, and looking whether everything is still there
//! - `restore`: from a vault to a database file, to a timeline, or to a proof
//! - `follow`: a database that is kept at the newest state of a vault
//! - `before05`: replicas of Litestream before 0.5
//! - `record`: what is kept on this machine: the state record, locks, the belief in the clock
//!
//! `engine` joins them: it does what the crate's users ask for.

#[doc(hidden)]
pub mod fuzzing;

mod before05;
mod discover;
mod engine;
mod error;
mod follow;
mod history;
mod live;
mod options;
#[cfg(all(feature = "testing", debug_assertions))]
#[doc(hidden)]
pub mod probe;
#[cfg(not(all(feature = "testing", debug_assertions)))]
mod probe;
mod protect;
mod record;
mod restore;
mod upkeep;

// Inside the crate a module is named by itself, wherever its room is.
use before05::{generations, legacy};
use follow::{bridge, mark, standby};
use history::{belonging, catalog, digests, doubts, holes, identity, layout, listing, marks, plan, survey, together};
use live::{
    checkpoint, connection, files, grip, handover, header, hold, names, reader, source, standing, untouched, wal,
};
use protect::{admission, capture, continuity, database, pages, proof, run, seal, sealed, session, ship, spool};
use record::{clock, lock, moments, read_back, state, told};
use restore::{assemble, fetch, prove, target, timeline};
use upkeep::{compaction, fresh, known, merge, missing, retention, turns};

pub use admission::Admission;
pub use digests::digest_of_object;
pub use discover::{databases_below, is_of_database};
pub use engine::Sqlite;
pub use handover::Handles;
pub use listing::{LtxObject, ltx_objects};
pub use lock::is_held as is_protected;
pub use options::{LevelPolicy, Options, Retention, Upkeep, World};
pub use seawall_host::Watcher;
pub use state::{default_state_dir, read_state, was_protected};
pub use turns::Turns;
