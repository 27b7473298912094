//! Backup sets of database servers.
//!
//! A set is the result of one backup. It consists of chunks of independently compressed frames, an index that names
//! them all, and a manifest. The manifest is written last, as a link of the vault's chain; the set counts from then on.
//! `docs/formats.md` specifies the bytes.
//!
//! The rooms: `budget` (how large is a buffer?), `buffer`, `codec` (with `gzip` and `lz4`), `writer` (the pipeline),
//! `stages` (where the time went), `turns` (how many connections are of use?), `profile` (how much of the machine?), `manifest` (what a set is), `chain` (is anything missing?), `catalog` (which sets
//! exist, and the next link), `layout` (names), `sample` (which share of the rows?), `timeline`, `reader`, `tuples`
//! (where does a row end?), `export` (a vendor's own files back), `prove`, `retention` (what may go?) with `maintain`
//! and `pins`, `schedule` (when is the next backup due?), `gaps` (which were due and weren't made?), `sets` (a vault alone as an engine), `engine` and `server` (what engines of
//! servers do), `scheduled` (a source with its schedule as an engine), `split` (in which pieces is a table read?), `load`
//! (rows back into tables, resumably), `compare` (is what was restored what the set says?), `log` (a server's log between its
//! bases), `preflight` (what does a
//! target lack?), `names` (of databases that restores and proofs make), `world` (time, randomness and environment).
//!
//! Nothing here knows a statement or a server. Engines pass in bytes, rows and details of their own, and get the details
//! back with the set.

#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod measuring;

mod budget;
mod buffer;
mod catalog;
mod chain;
mod codec;
pub mod compare;
mod contents;
mod digest;
mod engine;
mod error;
mod export;
mod find;
mod gaps;
mod gzip;
mod layout;
pub mod load;
pub mod log;
mod lost;
mod lz4;
mod maintain;
mod manifest;
mod moments;
pub mod names;
mod pins;
pub mod preflight;
mod profile;
mod prove;
mod reader;
mod retention;
mod sample;
mod schedule;
mod scheduled;
pub mod server;
mod sets;
pub mod split;
mod stages;
mod timeline;
mod tuples;
mod turns;
mod unlinked;
mod world;
mod writer;

pub use budget::Budget;
pub use catalog::Catalog;
pub use chain::{Acknowledgement, Found, Link, Missing, Record, Retired, Retirement, judge};
pub use codec::{Codec, Decoder, Encoder};
pub use digest::Digest;
pub use engine::{Destination, ProveOptions, Prover, ServerEngine, Source};
pub use error::Error;
pub use gaps::{Gap, missed};
pub use layout::{InSets, SetId, in_sets, is_link, is_of_sets};
pub use maintain::{MaintenancePass, deleted_from, maintain};
pub use manifest::{
    Artefact, Chunk, Content, Frame, Index, Item, Manifest, Previous, Sealed, Totals, read_document, write_document,
};
pub use pins::{pin, pins};
pub use profile::{Machine, Profile};
pub use prove::{Opens, verify};
pub use reader::SetReader;
pub use retention::{Candidate, RetentionPolicy, removals};
pub use sample::{Sample, referring_first};
pub use schedule::{Schedule, Timetable, retry_after, retry_at};
pub use scheduled::Scheduled;
pub use sets::Sets;
pub use stages::{Share, Stage, Stages};
pub use timeline::{point, timeline};
pub use tuples::{Step, Tuples};
pub use turns::Turn;
pub use unlinked::{Unlinked, unlinked};
pub use world::World;
pub use writer::{Facts, Lane, Mark, SetWriter};
