//! The log of a server between its bases: PostgreSQL's write-ahead log, in segments.
//!
//! A log consists of objects that never change: complete segments, ranges that were shipped before their segment was
//! complete, and the history files of timelines. `docs/formats.md` specifies the bytes.
//!
//! The rooms: `name` (numbers, and the names of files and objects), `history` (which timeline came from which, and where),
//! `object` (the head and the content of an object), `cluster` (whose log is this?), `contents` (which ranges are there, and
//! what is missing?), `line` (is this segment part of what is recovered?), `store` (writes objects), `fetch` (gives a
//! segment back), `ahead` (what does a recovery ask for next?), `error`.
//!
//! Nothing here knows a page or a record of the log. `seawall-postgres` checks them.

mod ahead;
mod cluster;
mod contents;
mod error;
mod fetch;
mod history;
mod line;
mod name;
mod object;
mod store;

pub use ahead::Most;
pub use cluster::Cluster;
pub use contents::{Contents, Gap, Held, Hole, Span};
pub use error::LogError;
pub use fetch::Fetched;
pub use history::{Ancestor, History};
pub use line::Line;
pub use name::{LogFile, LogObject, Lsn, SegmentName, SegmentSize, SystemId, TimelineId, is_lasting, is_of_log};
pub use object::{Head, PieceKind};
pub use store::{Log, Stored};

pub(crate) use object::parse_object;
