//! A vault that is a prefix in a bucket of Alibaba Cloud's Object Storage Service.
//!
//! An object is created exclusively by a header that forbids to overwrite; the service ignores it in buckets that keep
//! versions, which the probe shows. There is no write on the condition of a version.
//!
//! OpenDAL signs with the first version of the service's signature, which new accounts can't use. So it signs nothing, and the
//! transport signs with the fourth (`sign.rs`).

mod connect;
mod credentials;
pub(crate) mod settings;
mod sign;
pub(crate) mod url;

use self::connect::Bucket;
use super::cloud::CloudStore;

/// Objects in a bucket of Alibaba Cloud.
pub type OssStore = CloudStore<Bucket>;
