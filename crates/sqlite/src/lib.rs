//! SQLite: keeps a live database in a vault, continuously, and restores it from there.
//!
//! [`Sqlite`] implements [`seawall_core::Engine`]. It notices commits ([`Watcher`]), reads them from the write-ahead
//! log, ships them as LTX files, and empties the log itself without losing a commit. Replicas have Litestream's layout.
//! Each of the two programs reads and continues the other's replicas.
//!
//! Decisions are pure and have table tests. `docs/formats.md` describes everything that is written to disk and bucket.
//! The rooms:
//!
//! - `live`: the database file and its WAL, as they are now
//! - `protect`: runs and sessions of a protection: find the new commits, and bring them into the vault
//! - `history`: the objects of a vault, and which of them belong together
//! - `upkeep`: merges, deletions, and the check that acknowledged objects are still there
//! - `restore`: from a vault to a database file, to a timeline, or to a proof
//! - `follow`: keeps a database at the newest state of a vault
//! - `view`: reads a database in a vault page by page, without a restore
//! - `before05`: replicas of Litestream before 0.5
//! - `record`: local files: the state record, locks, the knowledge of the clock
//!
//! `engine` joins them: it has the functions that the crate's users call. Beside the rooms, `partial` makes a file under a
//! temporary name, and `jobs` runs blocking work. A room imports only from rooms before it: `history`, `live`,
//! `record`, `before05`, `restore`, `follow`, `view`, `upkeep`, `protect`.

#[doc(hidden)]
pub mod fuzzing;

mod before05;
mod discover;
mod engine;
mod error;
mod follow;
mod history;
mod jobs;
mod live;
mod options;
mod partial;
#[cfg(all(feature = "testing", debug_assertions))]
#[doc(hidden)]
pub mod probe;
#[cfg(not(all(feature = "testing", debug_assertions)))]
mod probe;
mod protect;
mod record;
mod restore;
mod upkeep;
mod view;

// Inside the crate a module is named by itself, wherever its room is.
use before05::{generations, legacy};
use follow::{bridge, mark, standby};
use history::{
    belonging, catalog, digests, doubts, headers, heads, holes, identity, layout, listing, marks, plan, resume,
    strangers, sums, survey, together, upload,
};
use live::{
    checkpoint, connection, continuity, files, grip, handover, header, hold, names, reader, source, standing,
    untouched, wal,
};
use protect::{admission, capture, content, database, pages, proof, run, seal, sealed, session, ship, spool};
use record::{clock, lock, moments, read_back, restored, state, told};
use restore::{assemble, contents, fetch, prove, rehearsal, target, timeline};
use upkeep::{compaction, fresh, known, merge, missing, retention, turns};
use view::{ahead, object, places, snapshot};

pub use admission::{Admission, files_needed, room_with};
pub use digests::digest_of_object;
pub use discover::{Replicated, databases_below, is_of_database, replicated};
pub use engine::Sqlite;
pub use handover::Handles;
pub use header::{Beginning, HEADER};
pub use layout::{is_record, renames};
pub use listing::{LtxObject, ltx_objects};
pub use lock::is_held as is_protected;
pub use options::{LevelPolicy, Options, Retention, Upkeep, World};
pub use partial::longest_value;
pub use prove::{Unusable, unusable};
pub use seawall_host::Watcher;
pub use state::{default_state_dir, read_state, was_protected};
pub use strangers::judge;
pub use turns::Turns;
pub use view::{DEFAULT_CACHE, Reader, Snapshot, View};
