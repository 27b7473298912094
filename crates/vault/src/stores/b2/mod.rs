//! A vault that is a prefix in a bucket of Backblaze B2, by the protocol of S3 that B2 speaks.
//!
//! The place is S3's in all but its URL: the server follows from the region, and keys are application keys. Whether the
//! service creates objects exclusively, the probe finds out.

mod connect;
pub(crate) mod settings;
pub(crate) mod url;

use self::connect::Backblaze;
use super::cloud::CloudStore;

/// Objects in a bucket of Backblaze B2.
pub type B2Store = CloudStore<Backblaze>;
