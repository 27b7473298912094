//! PostgreSQL: consistent parallel dumps into backup sets, and parallel restores from them.
//!
//! PostgreSQL's own `pg_dump` writes the schema, because it knows every kind of object; the rows go through COPY on
//! several connections that see one snapshot, and through the pipeline of `seawall-archive`.
//!
//! The rooms: `client` (the protocol), `tools` (`pg_dump` and `pg_restore`), `rights` (what may the role not see?), `snapshot` (one state for all
//! connections), `inventory` (what is in the database), `plan` (in which pieces is it read?), `properties` (of the
//! database itself), `globals` (of the server), `grants` (who may do what, by whose grant), `dump` (the rows), `binary` (which of them in binary?), `sample` (which of them?) with `foreign_keys` (which
//! does a row need?) and `taken`, `too_large` (which of them has no text?), `base` (the whole set), `detail` (what a set says); `artefact` (what `pg_dump`
//! makes, kept as it is) with `aside` (a disk for it) and `directory` (which files does it have?), `replay` (it back into a server) with `joined` (a directory as one file) and `script` (where do its statements end?); `toc`
//! (which objects are in a schema), `select` (which of them belong to some tables?), `preflight` (what does the target
//! lack?) with `restorer` (what may the role there not do?) and `allowed` (what is tried by itself?) with `extensions`, `grantors` (grants by others), `diagnose` (which statement failed?), `restore` with `schema`, `large_objects`, `load` (rows) in `units`, `build` (indexes and constraints), `orphans` (which rows
//! contradict a foreign key?) and `journal` (what is done already); `roles` and `tablespaces` (which does a server lack?), `tried` (what may the server refuse?) and `server`
//! (all databases of one); `engine` (by a schedule); `prove` and `prove_artefact` (is a restored set what it was?) with `compare`, `account` (what does a script come to?), `lines`,
//! `proof_name` (what are its databases called?), `remains` (what does it leave?), `throwaway` (a server for it), `bounds` (how much may it take?), `guard` (two sessions that restore there) with `powers` (who runs a statement?) and `owned` (whose is what nobody was given?), and `space` (is there room?).

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
mod load;
mod options;
mod preflight;
mod prove;
mod restore;
mod sample;
mod schema;
mod tools;

pub use catalog::globals::{Attribute, Globals, Membership, Role, Tablespace};
pub use catalog::grants::Grant;
pub use catalog::properties::{Dropped, Properties};
pub use client::{Host, Target, TlsMode};
pub use detail::{After, ItemDetail, LargeObject, Locale, Name, Needs, Sequence, ServerDetail, SetDetail};
pub use dump::base::{AsText, Dumped, dump};
pub use engine::{Postgres, Source};
pub use error::{Error, ServerError, Side};
pub use options::{CopyFormat, DumpOptions, Format, Limits, World};
pub use prove::{ProveOptions, Proved, prove};
pub use restore::{RestoreOptions, Restored, restore};
