//! A vault that is a prefix in a bucket of S3 or a compatible server.
//!
//! Litestream can do three things that OpenDAL can't: sign the hash of payloads (TLS covers them; providers that demand
//! it for plain HTTP aren't supported), use keys that begin with `/` (a vault without a path is refused), and delete a
//! batch without an MD5.

mod as_stored;
mod bucket;
pub(crate) mod connect;
mod credentials;
#[cfg(feature = "testing")]
mod of_tests;
mod parts;
mod protection;
mod provider;
mod requests;
pub(crate) mod settings;
pub(crate) mod url;
mod versions;
mod web_identity;

pub(crate) use self::connect::open_past;

use self::connect::Connection;
use super::cloud::CloudStore;

/// Objects in a bucket of S3.
pub type S3Store = CloudStore<Connection>;
