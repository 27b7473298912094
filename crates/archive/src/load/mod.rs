//! Rows of a set on their way back into tables, for engines that load them in transactions and go on behind an
//! interruption. Nothing here knows a statement.
//!
//! The room: `identity` (which restore is it?), `notes` (what a journal says), `units` (which chunks make one transaction?),
//! `frames` (their content, read ahead), `whole` (is all loaded?).

mod frames;
mod identity;
mod notes;
mod units;
mod whole;

pub use frames::{Frames, Stored};
pub use identity::Identity;
pub use notes::Notes;
pub use units::{Unit, units};
pub use whole::{Lacking, lacking};
