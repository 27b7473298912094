//! Merging and deleting what a vault holds, and looking whether it is still there.

pub(crate) mod compaction;
pub(crate) mod fresh;
pub(crate) mod maintain;
pub(crate) mod merge;
pub(crate) mod missing;
pub(crate) mod retention;
pub(crate) mod sight;
