//! A vault that is a prefix in a container of Azure Blob Storage.
//!
//! A whole object is one Put Blob. A streamed object is a list of blocks, whose commit checks the condition. Blocks without a
//! commit are invisible, and Azure removes them after a week. ETags belong to versions and not to content.

mod connect;
mod container;
mod credentials;
pub(crate) mod settings;
pub(crate) mod url;

use self::connect::Container;
use super::cloud::CloudStore;

/// Blobs in a container of Azure.
pub type AbsStore = CloudStore<Container>;
