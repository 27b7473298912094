//! The write-ahead log into a vault, and back.
//!
//! - `page`: the first page of a segment, and the cluster that a data directory is of.
//! - `push`: a file that PostgreSQL archives, for `archive_command`.
//! - `fetch`: a file that a recovery asks for, for `restore_command`.

mod fetch;
mod page;
mod push;

pub use fetch::{Request, fetch};
pub use page::{SegmentHeader, system_of};
pub use push::{Pushed, push};
