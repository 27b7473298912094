//! The engine against real environments, and against what Lightning Stream wrote and did.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by panicking")]

mod engine;
mod fleet;
mod golden;
mod hints;
mod model;
mod neighbours;
mod objects;
mod replaced;
mod restored_files;
mod rollback;
mod session;
mod shared;
mod sight;
mod support;
mod trouble;
