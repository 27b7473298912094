//! The write-ahead log into a vault, and back.
//!
//! - `page`: the first page of a segment, and the cluster that a data directory is of.
//! - `push`: a file that PostgreSQL archives, for `archive_command`.
//! - `fetch`: a file that a recovery asks for, for `restore_command`.
//! - `receiver`: the log as it is written, over the replication protocol. `decide` (from where?), `pace` (when is what
//!   stored?) and `tail` (what came, and is it new?) are pure; `stream` carries them out.

mod decide;
mod fetch;
mod pace;
mod page;
mod push;
mod receiver;
mod stream;
mod tail;

pub use fetch::{Request, fetch};
pub use page::{SegmentHeader, system_of};
pub use push::{Pushed, push};
pub use receiver::{ReceiveOptions, Receiver, Standing};
