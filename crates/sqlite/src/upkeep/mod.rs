//! Merges and deletes objects of a vault, and checks that the others are still there.

pub(crate) mod compaction;
pub(crate) mod fresh;
pub(crate) mod known;
pub(crate) mod maintain;
pub(crate) mod merge;
mod merges;
pub(crate) mod missing;
mod removals;
pub(crate) mod retention;
pub(crate) mod sight;
pub(crate) mod turns;
