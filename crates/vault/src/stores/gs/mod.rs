//! A vault that is a prefix in a bucket of Google Cloud Storage.
//!
//! A version is a generation: a number that the service gives out for each write, whatever the bytes. A conditional write
//! is a resumable upload: a request begins it, and each further one brings up to 8 MiB in order. The condition is
//! checked when the object is made. An upload that is left unfinished is invisible, and the service forgets it after a week.

mod connect;
mod credentials;
pub(crate) mod settings;
mod token;
pub(crate) mod url;

use self::connect::Bucket;
use super::cloud::CloudStore;

/// Objects in a bucket of Google Cloud Storage.
pub type GsStore = CloudStore<Bucket>;
