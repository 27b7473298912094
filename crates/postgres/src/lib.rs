//! PostgreSQL: consistent parallel dumps into backup sets, and parallel restores from them.
//!
//! PostgreSQL's own `pg_dump` writes the schema, because it knows every kind of object. The rows go through COPY on
//! several connections that see one snapshot, and through the pipeline of `seawall-archive`.
//!
//! The rooms, from a server to a set and back:
//!
//! - `client`: the protocol, and COPY.
//! - `catalog`: the objects of a server and its databases, and the objects that a role can't see.
//! - `schema`: the schema as `pg_dump` wrote it: its objects, its statements, running them, and by which role.
//! - `dump`: a set with the rows of a database, or of all databases of a server.
//! - `sample`: a part of the rows in which every foreign key holds.
//! - `artefact`: `pg_dump`'s own formats, kept unchanged.
//! - `preflight`: finds what a target lacks before a restore, with the commands that mend it.
//! - `restore`: the steps of a restore, and the names of its databases; in `replay` those of `pg_dump`'s own formats.
//! - `load`: loads rows into tables.
//! - `build`: the steps after the rows: indexes, constraints, materialized views, statistics.
//! - `physical`: the files and the write-ahead log of a cluster, and its recovery from them.
//! - `prove`: restores a set into a throw-away database, and compares it with the set.
//!
//! Beside the rooms: `engine` (the traits of engines of servers), `journal` (the finished steps of a restore), `names`,
//! `detail` (the PostgreSQL part of a manifest), `items` (what every backup writes), `tools` (PostgreSQL's own programs),
//! `quote` (names and values in SQL), `options` and `error`.

#[doc(hidden)]
pub mod fuzzing;

mod artefact;
mod build;
mod catalog;
mod client;
mod detail;
mod dump;
mod engine;
mod error;
mod items;
mod journal;
mod load;
mod names;
mod options;
pub mod physical;
mod preflight;
mod prove;
mod quote;
mod restore;
mod sample;
mod schema;
mod tools;

pub use catalog::globals::{Attribute, Globals, Membership, Role, Tablespace};
pub use catalog::grants::Grant;
pub use catalog::properties::{Dropped, Properties};
pub use catalog::records::{After, LargeObject, Locale, Name, Needs, Sequence};
pub use client::{Host, Target, TlsMode};
pub use detail::{ItemDetail, ServerDetail, SetDetail};
pub use dump::base::dump;
pub use engine::{Destination, Postgres, Prover, Source};
pub use error::{Error, ServerError, Side};
pub use names::NAMES;
pub use options::{CopyFormat, DumpOptions, Format, ProveOptions};
pub use prove::prove;
pub use restore::replay::checked::{Content as FileContent, check_file};
pub use restore::replay::outside::restore_file;
pub use restore::replay::roles::{
    Globals as RestoredGlobals, in_the_way, powers, read_globals, restore_globals, restore_late_globals, roles_of,
};
pub use restore::restore;
pub use seawall_archive::World;
pub use seawall_archive::server::{AsText, Dumped, Filled, Limits, Proved, RestoreOptions, Restored};
