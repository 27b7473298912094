//! The kinds of stores, a folder for each: `mod.rs` implements [`crate::Store`], and `url.rs` reads the URL. Further
//! files hold settings and credentials. `cloud` is what kinds of buckets have in common. [`memory`] and [`simulated`] are for tests and
//! have no URL.

pub(crate) mod abs;
pub(crate) mod b2;
pub(crate) mod cloud;
pub(crate) mod file;
pub(crate) mod gs;
pub mod memory;
pub(crate) mod nats;
pub(crate) mod oss;
pub(crate) mod s3;
pub(crate) mod sftp;
pub mod simulated;
pub(crate) mod webdav;
