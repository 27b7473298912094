//! The harness of the end-to-end tests: the real `seawall` binary against real SQLite writers, real stores and the
//! peers' own programs.
//!
//! A test builds a [`Stand`]: a directory with a database, its writer ([`App`], a process of its own) and a
//! [`Place`] for the vault, a folder or a bucket on a real S3 server ([`S3Server`]). It runs `seawall` and
//! `litestream` as [`Process`]es, and ends by comparing a restored database with a recorded state: the state that the
//! writer's [`model`] has after a number of commits, or the [`digest`] of the source.
//!
//! Every wait has a deadline ([`wait`]), no process outlives its test, and random numbers come from a printed seed
//! ([`Random`]). A test whose program is missing fails. `test.sh` knows by their names which programs tests need,
//! leaves out tests where it may, and reports how many.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a harness reports by panicking")]

mod app;
mod binaries;
pub mod digest;
mod disk;
pub mod model;
mod place;
mod process;
mod proxy;
mod random;
mod s3;
mod screen;
mod socket;
mod stand;
pub mod terminal;
pub mod wait;

pub use app::App;
pub use binaries::{extension, node, peer, playwright, seawall};
pub use disk::Disk;
pub use place::{Place, Txid, file_name, golden};
pub use process::{Output, Process, run};
pub use proxy::{LateClock, NoDeletes, OldListings};
pub use random::Random;
pub use s3::S3Server;
pub use screen::Screen;
pub use socket::{ask_address, ask_host, ask_socket, listen_to};
pub use stand::{Stand, protected};
