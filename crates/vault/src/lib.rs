//! A vault: a place that keeps objects, named by a URL.
//!
//! Engines use [`Vault`] and nothing else. It stands on any [`Store`] (one raw attempt per call) and adds what must
//! be the same everywhere: deadlines, classified retry, settlement of ambiguous answers, bandwidth, counting, reads
//! that resume. [`VaultUrl`] is the one place where text becomes a store.
//!
//! The arrows: `url` and `settings` (parse) -> `file`, `s3` (stores) -> `store` (the contract) <- `vault` (the facade)
//! with `retry`, `settle`, `throttle`, `counts`, `upload`, `reading`.

#[cfg(feature = "testing")]
pub mod conformance;
mod counts;
mod environment;
mod error;
mod file;
mod key;
pub mod memory;
mod provider;
mod reading;
mod retry;
mod s3;
mod settings;
mod settle;
pub mod simulated;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod throttle;
mod upload;
mod url;
mod vault;

pub use counts::{Counts, Operation};
pub use environment::Environment;
pub use error::Error;
pub use file::FileStore;
pub use key::{ObjectKey, Prefix};
pub use retry::Policy;
pub use s3::{Connections, S3Store};
pub use settings::{S3Settings, Secret};
pub use store::{Abilities, Body, Condition, Entry, Layout, Meta, Multipart, Page, PutOptions, Store, Tag};
pub use throttle::Throttle;
pub use upload::Upload;
pub use url::VaultUrl;
pub use vault::{Capabilities, Created, Vault};
