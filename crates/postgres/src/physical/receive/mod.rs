//! The write-ahead log into a vault, and back.
//!
//! - `page`: the first page of a segment, and the cluster that a data directory is of.
//! - `push`: a file that PostgreSQL archives, for `archive_command`.
//! - `fetch`: a file that a recovery asks for, for `restore_command`.
//! - `spool`: the segments that a recovery asks for next, got before it asks.
//! - `receiver`: the log as it is written, over the replication protocol. `decide` (from where?), `pace` (when is what
//!   stored?), `tail` (what came, and is it new?), `marks` (until when is all of it stored?) and `tries` (how long is waited after a failure?) are
//!   pure; `stream` carries them out.

mod decide;
mod fetch;
mod marks;
mod pace;
mod page;
mod push;
mod receiver;
mod spool;
mod stream;
mod synchronous;
mod tail;
mod tries;

pub(super) use fetch::sound_segment;
pub use fetch::{Request, fetch, hand_over};
pub use page::{SegmentHeader, system_of};
pub use push::{Pushed, push};
pub use receiver::{Holds, ReceiveOptions, Receiver, Seams, Settings, Standing};
pub(super) use receiver::{NOT_SYNCHRONOUS, settings};
pub use spool::{Order, Spool};
pub use synchronous::Waits;
