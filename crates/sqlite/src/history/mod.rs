//! The content of a vault: names, headers, records, and how objects belong together.

pub(crate) mod belonging;
pub(crate) mod catalog;
pub(crate) mod digests;
pub(crate) mod doubts;
pub(crate) mod headers;
pub(crate) mod heads;
pub(crate) mod holes;
pub(crate) mod identity;
pub(crate) mod layout;
pub(crate) mod listing;
pub(crate) mod marks;
pub(crate) mod plan;
pub(crate) mod resume;
pub(crate) mod strangers;
pub(crate) mod sums;
pub(crate) mod survey;
pub(crate) mod together;
pub(crate) mod upload;
