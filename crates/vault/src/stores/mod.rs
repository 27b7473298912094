//! The kinds of stores, a folder for each: `mod.rs` implements [`crate::Store`], `url.rs` reads the URL, and what else a kind
//! needs (settings, credentials, how its errors are classified) has its file there. [`memory`] and [`simulated`] are for
//! tests and have no URL.

pub(crate) mod file;
pub mod memory;
pub(crate) mod s3;
pub mod simulated;
